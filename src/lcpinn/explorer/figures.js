// Pictures, by Plotly. The solution is a curve, an image over space and time with a slice through
// it, or a field.

const DECADES = 6; // of an error that are shown; where it vanishes there is no logarithm
const CONFIG = { displayModeBar: false, responsive: true };
const touch = matchMedia("(pointer: coarse)").matches; // a finger scrolls and does not zoom

const figures = {}; // by key: the plot's element, its title, small words beside it

function figure(key, look, caption, extra) {
  const plot = make("div", { class: "plot", role: "img" });
  const small = make("small");
  const title = make("span", {}, caption);
  const words = make("span", {}, title, extra ? " " : "", extra ? small : "");
  const head = make("figcaption", {}, words, extra || small);
  const element = make("figure", { class: look, id: `figure-${key}` }, head, plot);
  document.getElementById("figures").append(element);
  figures[key] = { plot, small, title };
}

function draw(key, traces, layout, words) {
  Plotly.react(figures[key].plot, traces, layout, CONFIG);
  figures[key].plot.setAttribute("aria-label", words);
}

// -- Style -------------------------------------------------------------------------------------

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis(title, more = {}) {
  return {
    title: { text: literal(title), standoff: 8 },
    gridcolor: css("--grid"),
    linecolor: css("--rule"),
    tickcolor: css("--rule"),
    ticks: "outside",
    ticklen: 4,
    zeroline: false,
    automargin: true,
    ...more,
  };
}

function layoutOf(xaxis, yaxis, more = {}) {
  const label = { bgcolor: css("--panel"), bordercolor: css("--rule") };
  return {
    margin: { l: 58, r: 14, t: more.showlegend ? 30 : 10, b: 46 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: css("--ink") },
    hoverlabel: { ...label, font: { color: css("--ink") } },
    hovermode: "x",
    dragmode: touch ? false : "zoom",
    showlegend: false,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    xaxis,
    yaxis,
    ...more,
  };
}

function line(x, y, name, colour, more = {}) {
  return {
    type: "scatter",
    mode: "lines",
    x,
    y,
    name,
    line: { color: css(colour), width: 2, simplify: false, ...more },
    hovertemplate: `${name} %{y:.6g}<extra></extra>`,
  };
}

function tenTo(e) {
  return e === 0 ? "1" : `10<sup>${String(e).replace("-", "−")}</sup>`;
}

function largest(values) {
  return values.reduce((m, v) => (v > m ? v : m), -Infinity); // what is no number is passed over
}

function smallest(values) {
  return values.reduce((m, v) => (v < m ? v : m), Infinity);
}

// A logarithmic axis from one whole decade to another.
function decades(values, most = Infinity) {
  const positive = values.filter((v) => v > 0);
  if (!positive.length) return {};
  const high = Math.ceil(Math.log10(largest(positive)) + 1e-9);
  const low = Math.max(high - most, Math.floor(Math.log10(smallest(positive))));
  const bottom = Math.min(low, high - 1);
  const every = Math.ceil((high - bottom) / 5);
  const ticks = [];
  for (let e = bottom; e <= high; e += every) ticks.push(e);
  return {
    type: "log",
    range: [bottom - 0.02, high + 0.02],
    tickvals: ticks.map((e) => Number(`1e${e}`)),
    ticktext: ticks.map(tenTo),
  };
}

// -- Curves ------------------------------------------------------------------------------------

function drawCurve(key, x, values, truth, corrected, coordinate) {
  const name = pretty(outputs[state.output]);
  const traces = [line(x, values, "network", "--network", { width: 2.2 })];
  if (truth) traces.push(line(x, truth, truthName, "--truth", { dash: "dash", width: 1.6 }));
  if (corrected) {
    traces.push(line(x, corrected, "corrected", "--corrected", { dash: "dot", width: 1.6 }));
  }
  const showlegend = traces.length > 1;
  const layout = layoutOf(axis(pretty(coordinate)), axis(name), { showlegend });
  const ends = `from ${short(smallest(values))} to ${short(largest(values))}`;
  draw(key, traces, layout, `${name} over ${coordinate}, ${ends}`);
}

function drawErrorCurve(x, values, truth, corrected, coordinate) {
  const trace = errorCurve(x, values, truth, "network", "--network");
  const top = largest(trace.y);
  const traces = [trace];
  if (corrected) traces.push(errorCurve(x, corrected, truth, "corrected", "--corrected"));
  const heights = traces.flatMap((t) => t.y).filter((g) => g !== null);
  const y = axis("", decades(heights, corrected ? Infinity : DECADES)); // each has its own decades
  const words = `absolute error over ${coordinate}, at most ${errorText(top)}`;
  const layout = layoutOf(axis(pretty(coordinate)), y, { showlegend: traces.length > 1 });
  draw("error", traces, layout, words);
}

function errorCurve(x, values, truth, name, colour) {
  const gap = values.map((v, i) => Math.abs(v - truth[i]));
  const top = largest(gap);
  // Below that there is rounding, and a zero where a condition is imposed exactly.
  const shown = gap.map((g) => (g > top * 10 ** -DECADES ? g : null));
  const trace = line(x, shown, name, colour, { width: 1.5 });
  trace.hovertemplate = "%{y:.2e}<extra></extra>";
  return trace;
}

// -- Images ------------------------------------------------------------------------------------

// The grid's first coordinate is drawn across, the second up.
function heatmap(grid, z, colorscale, hover, colorbar = {}) {
  const [nx, ny] = grid.axes.map((a) => a.length);
  const shown = level ? continued(grid, z) : z;
  const row = (j) => Array.from({ length: nx }, (_, i) => shown[i * ny + j]);
  const [a, b] = grid.vary.map((d) => literal(pretty(coordinates[d].name)));
  const bar = { thickness: 12, outlinewidth: 0, ticklen: 4, tickcolor: css("--rule"), xpad: 8 };
  return {
    type: "heatmap",
    x: grid.axes[0],
    y: grid.axes[1],
    z: Array.from({ length: ny }, (_, j) => row(j)),
    colorscale,
    zsmooth: "fast",
    colorbar: { ...bar, ...colorbar },
    hovertemplate: `${a} %{x:.4g}, ${b} %{y:.4g}<br>${hover}<extra></extra>`,
  };
}

// Values beside the boundary of a shape, continued by one cell: what is outside is covered again.
function continued(grid, z) {
  const [nx, ny] = grid.axes.map((a) => a.length);
  return z.map((value, n) => {
    if (!Number.isNaN(value)) return value;
    const [i, j] = [Math.floor(n / ny), n % ny];
    let [sum, count] = [0, 0];
    for (let p = Math.max(0, i - 1); p <= Math.min(nx - 1, i + 1); p++) {
      for (let q = Math.max(0, j - 1); q <= Math.min(ny - 1, j + 1); q++) {
        const near = z[p * ny + q];
        if (!Number.isNaN(near)) [sum, count] = [sum + near, count + 1];
      }
    }
    return count ? sum / count : NaN;
  });
}

// The boundary of a shape, where its level function vanishes; what is outside gets no colour.
function outline(grid, levels) {
  if (!levels) return [];
  const ny = grid.axes[1].length;
  const row = (j) => grid.axes[0].map((_, i) => levels[i * ny + j]);
  return [{
    type: "contour",
    x: grid.axes[0],
    y: grid.axes[1],
    z: grid.axes[1].map((_, j) => row(j)),
    // Filled where it does not hold; the edges of a box, with a level of zero, belong to it.
    contours: { type: "constraint", operation: "<", value: BESIDE * extent() },
    fillcolor: css("--paper"),
    line: { color: css("--ink"), width: 1.5 },
    showscale: false,
    hoverinfo: "skip",
  }];
}

function imageLayout(vary, more = {}) {
  const [a, b] = vary.map((d) => coordinates[d]);
  const ratio = (b.high - b.low) / (a.high - a.low);
  const square = !vary.includes(time) && ratio > 0.5 && ratio < 2;
  const plain = { showgrid: false, constrain: "domain" };
  const x = axis(pretty(a.name), { ...plain, range: [a.low, a.high] });
  const y = axis(pretty(b.name), { ...plain, range: [b.low, b.high] });
  if (square) y.scaleanchor = "x";
  return layoutOf(x, y, { hovermode: "closest", margin: { l: 50, r: 8, t: 10, b: 46 }, ...more });
}

function errorMap(grid, values, truth) {
  const gap = values.map((v, i) => Math.abs(v - truth[i]));
  const top = Math.max(largest(gap), 1e-300);
  const z = gap.map((g) => Math.log10(Math.max(g, top * 10 ** -DECADES)));
  const ticks = [];
  for (let e = Math.ceil(smallest(z)); e <= Math.log10(top); e++) ticks.push(e);
  const bar = { tickvals: ticks, ticktext: ticks.map(tenTo) };
  return { trace: heatmap(grid, z, "Cividis", "error 10^%{z:.2f}", bar), top };
}

function drawImage() {
  const { grid, values, truth, corrected, levels } = current;
  const shown = state.shown === "corrected" && !corrected ? "solution" : state.shown;
  const mine = column(shown === "corrected" ? corrected : values, state.output);
  const its = truth && column(truth, state.output);
  const name = pretty(outputs[state.output]);
  const trace =
    shown === "error"
      ? errorMap(grid, mine, its).trace
      : heatmap(grid, shown === truthName ? its : mine, "Viridis", `${literal(name)} %{z:.6g}`);
  const over = grid.vary.map((d) => coordinates[d].name).join(" and ");
  const layout = imageLayout(grid.vary, { shapes: cursor() });
  draw("image", [trace, ...outline(grid, levels)], layout, `${shown}: ${name} over ${over}`);
  if (figures.errors) {
    const { trace: errors, top } = errorMap(grid, mine, its);
    const words = `absolute error of ${name} over ${over}, at most ${errorText(top)}`;
    draw("errors", [errors, ...outline(grid, levels)], imageLayout(grid.vary), words);
    figures.errors.small.textContent = shown === "corrected" ? "of the corrected solution" : "";
  }
}

// -- A slice through space and time ------------------------------------------------------------

// The time of the slice, as a line through the image: white on black is seen on every colour.
function cursor() {
  if (kind !== "space-time") return [];
  const [along, across] = time === 0 ? ["x", "y"] : ["y", "x"];
  const place = { [`${along}0`]: instant(), [`${along}1`]: instant(), [`${across}ref`]: "paper" };
  const whole = { type: "line", ...place, [`${across}0`]: 0, [`${across}1`]: 1 };
  return [
    { ...whole, line: { color: "rgba(0,0,0,0.65)", width: 4 } },
    { ...whole, line: { color: "#ffffff", width: 1.6 } },
  ];
}

function followClicks() {
  figures.image.plot.on("plotly_click", (event) => {
    const at = event.points[0][time === 0 ? "x" : "y"];
    moveTo(Math.round(unit(coordinates[time], at) * (data.grid.counts[time] - 1)));
  });
}

function drawSlice() {
  const axes = [];
  axes[time] = [instant()];
  axes[space] = nodes(coordinates[space], data.grid.slice);
  const grid = gridOf([0, 1], axes);
  const shown = shownOn(grid, evaluate(grid), false);
  const values = column(shown.values, state.output);
  const truth = shown.truth && column(shown.truth, state.output);
  const corrected = shown.corrected && column(shown.corrected, state.output);
  drawCurve("slice", axes[space], values, truth, corrected, coordinates[space].name);
  figures.slice.small.textContent = equal("t", instant());
  if (truth) {
    drawErrorCurve(axes[space], values, truth, corrected, coordinates[space].name);
    figures.error.small.textContent = `of the slice, ${equal("t", instant())}`;
  }
}

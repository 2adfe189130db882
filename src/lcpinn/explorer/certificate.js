// The estimated error at the computed settings of the coefficients, and all errors in words.

// Whether there is a curve to draw: a coefficient to draw it over, and errors.
function hasCurve() {
  const { certificate } = data;
  if (!free.length || !certificate) return false;
  return Boolean(certificate.true) || certificate.error.some((e) => e !== null);
}

// The computed setting nearest to the sliders.
function nearest() {
  const { at } = data.certificate;
  const gap = (n, i) => unit(parameters[i], at[n][i]) - unit(parameters[i], state.parameters[i]);
  const distance = (n) => free.reduce((sum, i) => sum + gap(n, i) ** 2, 0);
  return at.reduce((best, _, n) => (distance(n) < distance(best) ? n : best), 0);
}

// The settings along the coefficient that was moved last, through one of them.
function lineThrough(best) {
  const { at } = data.certificate;
  const others = free.filter((i) => i !== state.along);
  return at
    .map((_, n) => n)
    .filter((n) => others.every((i) => at[n][i] === at[best][i]))
    .sort((a, b) => at[a][state.along] - at[b][state.along]);
}

// Straight between two settings, in the logarithm of the error; null where one is unknown.
function interpolated(rows, values) {
  const p = parameters[state.along];
  const s = unit(p, state.parameters[state.along]);
  const places = rows.map((n) => unit(p, data.certificate.at[n][state.along]));
  const right = places.findIndex((place) => place >= s - 1e-9);
  if (right < 0) return null;
  if (Math.abs(places[right] - s) < 1e-9) return values[rows[right]];
  const [a, b] = [values[rows[right - 1]], values[rows[right]]];
  if (!(a > 0 && b > 0)) return null;
  const share = (s - places[right - 1]) / (places[right] - places[right - 1]);
  return Math.exp(Math.log(a) * (1 - share) + Math.log(b) * share);
}

function drawCertificate() {
  const { certificate } = data;
  const p = parameters[state.along];
  const value = state.parameters[state.along];
  const rows = lineThrough(nearest());
  const traces = certificateCurves(rows);
  const here = interpolated(rows, certificate.error) ?? (certificate.true && interpolated(rows, certificate.true));
  if (here) traces.push(marker(value, here));
  const heights = traces.flatMap((t) => t.y).filter((v) => v !== null);
  const ends = p.log ? [Math.log10(p.low), Math.log10(p.high)] : [p.low, p.high];
  const edge = 0.02 * (ends[1] - ends[0]);
  const x = axis(pretty(p.name), {
    type: p.log ? "log" : "linear",
    range: [ends[0] - edge, ends[1] + edge],
  });
  const upright = { type: "line", x0: value, x1: value, y0: 0, y1: 1, yref: "paper" };
  const shapes = [{ ...upright, line: { color: css("--quiet"), width: 1, dash: "dot" } }];
  const y = axis("relative L² error", decades(heights));
  const layout = layoutOf(x, y, { shapes, showlegend: true, hovermode: "closest" });
  const words = here ? `${errorText(here)} at ${short(value)}` : `unknown at ${short(value)}`;
  draw("certificate", traces, layout, `relative error over ${p.name}, ${words}`);
  figures.certificate.title.textContent = `Error along ${pretty(p.name)}`;
  figures.certificate.small.textContent = certificateWords(rows);
}

function certificateCurves(rows) {
  const { certificate } = data;
  const x = rows.map((n) => certificate.at[n][state.along]);
  const pick = (values) => rows.map((n) => values[n]);
  const traces = [];
  // Broad and below, since the two often coincide.
  if (certificate.true) {
    traces.push({ ...line(x, pick(certificate.true), "true", "--truth", { width: 6 }), opacity: 0.5 });
  }
  if (certificate.error.some((e) => e !== null)) {
    const dots = { mode: "lines+markers", marker: { size: 4, color: css("--network") } };
    const curve = line(x, pick(certificate.error), "estimated", "--network", { width: 1.6 });
    traces.push({ ...curve, ...dots });
  }
  for (const t of traces) t.hovertemplate = `${t.name} %{y:.2e}<extra></extra>`;
  return traces;
}

function marker(value, height) {
  const edge = { color: css("--paper"), width: 1.5 };
  return {
    type: "scatter",
    mode: "markers",
    x: [value],
    y: [height],
    name: "here",
    marker: { size: 12, symbol: "diamond", color: css("--ink"), line: edge },
    hovertemplate: `${literal(equal(parameters[state.along].name, value))}: %{y:.1e}<extra></extra>`,
    showlegend: false,
  };
}

function certificateWords(rows) {
  const { certificate } = data;
  const others = free.filter((i) => i !== state.along);
  const missing = rows.filter((n) => certificate.error[n] === null);
  const words = [];
  if (others.length) {
    const fixed = others.map((i) => equal(parameters[i].name, certificate.at[rows[0]][i]));
    words.push(`at the nearest computed ${fixed.join(", ")}`);
  }
  if (missing.length) {
    const reason = certificate.reason[missing[0]];
    words.push(`no estimate at ${missing.length} of ${rows.length} settings: ${reason}`);
  }
  return words.join("; ");
}

// -- In words ----------------------------------------------------------------------------------

function relativeError(values) {
  const { truth } = current;
  let [gap, size] = [0, 0];
  for (let i = state.output; i < values.length; i += outputs.length) {
    if (Number.isNaN(values[i])) continue; // outside of the shape
    gap += (values[i] - truth[i]) ** 2;
    size += truth[i] ** 2;
  }
  return Math.sqrt(gap / (size || 1));
}

function readout(title, value, small, look = "number") {
  const words = [make("dt", {}, title), make("dd", { class: look }, value)];
  return make("div", {}, ...words, make("small", {}, small));
}

function estimateReadout(n, where) {
  const { error, reason } = data.certificate;
  const here = free.length === 1 ? interpolated(lineThrough(n), error) : null;
  if (here) {
    const mean = data.weights ? ", mean over weightings" : "";
    const source = `interpolated along ${pretty(parameters[free[0]].name)}${mean}`;
    return readout("Estimated error", errorText(here), source);
  }
  if (error[n] !== null) return readout("Estimated error", errorText(error[n]), where);
  return readout("Estimated error", `none: ${reason[n]}`, free.length ? where : "", "words");
}

function drawReadouts() {
  const list = [];
  const name = outputs.length > 1 ? ` of ${pretty(outputs[state.output])}` : "";
  if (current.truth) {
    const part = coordinates.length > 2 ? ", in this plane" : "";
    const small = `against the ${truthName} solution${part}`;
    list.push(readout(`Relative L² error${name}`, errorText(relativeError(current.values)), small));
    if (current.corrected) {
      const rest = errorText(relativeError(current.corrected));
      list.push(readout(`Corrected${name}`, rest, small));
    }
  }
  if (data.certificate) {
    const n = nearest();
    const setting = free.map((i) => equal(parameters[i].name, data.certificate.at[n][i]));
    const mean = data.weights ? "of the mean over weightings" : "without the true solution";
    const where = free.length ? `at the nearest computed ${setting.join(", ")}` : mean;
    const unseen = "on points that no training uses";
    list.push(estimateReadout(n, where));
    const residual = errorText(data.certificate.residual[n]);
    list.push(readout("Residual", residual, free.length ? where : unseen));
  }
  document.getElementById("readouts").replaceChildren(...list);
}

// The page as a whole: what is where, what is shown, what can be taken out of it.
//
// window.lcpinn is for the console and for programs that drive the page:
//   lcpinn.set({ k: 3.25 })      move sliders
//   lcpinn.state()               what is chosen
//   lcpinn.values()              what is shown, on the full grid
//   lcpinn.csv()                 the same as text

function build() {
  document.getElementById("name").textContent = data.name;
  document.getElementById("equation").textContent = data.equation;
  const form = document.getElementById("controls");
  form.addEventListener("submit", (event) => event.preventDefault());
  if (free.length) form.append(coefficientControls());
  const fixed = parameters.filter((_, i) => !free.includes(i));
  if (fixed.length) {
    const words = fixed.map((p) => make("p", {}, equal(p.name, p.low)));
    form.append(group("Held in training", ...words));
  }
  if (data.corrected) form.append(...correctedControls());
  if (data.weights) form.append(weightControls());
  if (kind === "space-time") form.append(momentControls());
  if (kind === "field" && coordinates.length > 2) form.append(planeControls());
  if (outputs.length > 1) form.append(outputControls());
  const download = make("button", { type: "button", id: "download" }, "Download as CSV");
  download.addEventListener("click", save);
  form.append(download);
  for (const note of data.notes) {
    const sentence = `${note[0].toUpperCase()}${note.slice(1)}.`;
    document.getElementById("notes").append(make("p", { class: "note" }, sentence));
  }
  for (const [name, text] of Object.entries(data.facts)) {
    const fact = make("div", {}, make("dt", {}, name), make("dd", {}, text));
    document.getElementById("facts").append(fact);
  }
  buildFigures();
}

function buildFigures() {
  const corrected = data.corrected && "corrected";
  if (kind === "curve") figure("solution", "wide", "Solution");
  if (kind === "space-time") {
    const last = truthName && "error";
    figure("image", "", "In space and time", segments(["solution", corrected, truthName, last]));
    figure("slice", "", "Slice");
  }
  if (kind === "field") {
    const choice = segments(["solution", corrected, truthName]);
    figure("image", truthName ? "" : "alone", "Solution", choice);
    if (truthName) figure("errors", "", "Absolute error");
  } else if (truthName) {
    figure("error", hasCurve() ? "low" : "low wide", "Absolute error");
  }
  if (hasCurve()) {
    figure("certificate", figures.error ? "low" : "low wide", "Error over the coefficients");
  }
}

// Which of the pictures is shown, where there is a choice.
function segments(options) {
  const given = options.filter(Boolean);
  if (given.length < 2) return null;
  return choose("shown", "segments", given, (value) => {
    state.shown = value;
    reshow();
  });
}

function show() {
  const { grid, values, truth, corrected, preview } = current;
  if (kind === "curve") {
    const [mine, its, better] = [values, truth, corrected].map((v) => v && column(v, state.output));
    drawCurve("solution", grid.axes[0], mine, its, better, coordinates[0].name);
    if (its) drawErrorCurve(grid.axes[0], mine, its, better, coordinates[0].name);
  } else {
    drawImage();
    if (kind === "space-time") drawSlice();
  }
  const missing = state.shown === "corrected" && !corrected ? "of the network: no correction here" : "";
  (figures.solution || figures.image).small.textContent = preview ? "preview" : missing;
  followCorrected();
  if (figures.certificate) drawCertificate();
  drawReadouts();
}

// -- Out of the page ---------------------------------------------------------------------------

function named(names, values) {
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

function snapshot() {
  const weighted = Boolean(data.weights);
  return {
    parameters: named(parameters.map((p) => p.name), state.parameters),
    weights: weighted && !state.mean ? named(data.weights.names, state.weights) : null,
    shots: weighted && state.mean ? data.weights.draws.length : null,
    output: outputs[state.output],
    time: kind === "space-time" ? instant() : null,
  };
}

function values() {
  const { grid, values: solution, truth, corrected } = settled();
  const dim = coordinates.length;
  const place = (d) => Array.from({ length: grid.count }, (_, n) => grid.points[n * dim + d]);
  const byOutput = (array) => named(outputs, outputs.map((_, o) => column(array, o)));
  return {
    ...snapshot(),
    shape: grid.axes.map((a) => a.length),
    coordinates: named(coordinates.map((c) => c.name), coordinates.map((_, d) => place(d))),
    outputs: byOutput(solution),
    truth: truth && byOutput(truth),
    corrected: corrected && byOutput(corrected),
  };
}

function set(coefficients) {
  for (const [name, value] of Object.entries(coefficients)) {
    const i = parameters.findIndex((p) => p.name === name);
    if (!free.includes(i)) throw new Error(`no such coefficient as ${name}`);
    const { low, high } = parameters[i];
    setCoefficient(i, Math.min(high, Math.max(low, Number(value))));
    coefficientSliders.get(name).put(state.parameters[i]);
  }
}

function csv() {
  const shown = values();
  const columns = Object.entries(shown.coordinates);
  const count = columns[0][1].length;
  const constant = ([name, value]) => [name, new Array(count).fill(value)];
  const weights = Object.entries(shown.weights || {}).map(([name, w]) => [`weight_${name}`, w]);
  columns.push(...[...Object.entries(shown.parameters), ...weights].map(constant));
  columns.push(...Object.entries(shown.outputs));
  for (const [name, truth] of Object.entries(shown.truth || {})) {
    columns.push([`${name}_${truthName}`, truth]);
  }
  for (const [name, corrected] of Object.entries(shown.corrected || {})) {
    columns.push([`${name}_corrected`, corrected]);
  }
  const rows = Array.from({ length: count }, (_, n) => columns.map(([, list]) => list[n]).join(","));
  return `${[columns.map(([name]) => quoted(name)).join(","), ...rows].join("\n")}\n`;
}

function quoted(name) {
  return /[",\r\n]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name;
}

function save() {
  const setting = free.map((i) => `-${parameters[i].name}=${short(state.parameters[i])}`).join("");
  const url = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  make("a", { href: url, download: `${data.name}${setting}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

build();
redraw();
if (kind === "space-time") followClicks();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
window.lcpinn = { set, values, csv, state: snapshot, run: lcpinnRun };

// Sliders and choices. All are native inputs with labels, so that a keyboard is enough.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

function group(title, ...children) {
  return make("fieldset", {}, make("legend", {}, title), ...children);
}

// How many steps a slider has: round ones where the range allows.
function numSteps(p) {
  if (p.log) return 240;
  const range = p.high - p.low;
  const base = 10 ** Math.floor(Math.log10(range / 150));
  for (const size of [1, 2, 2.5, 5, 10]) {
    const num = range / (size * base);
    if (num < 600 && Math.abs(num - Math.round(num)) < 1e-9) return Math.round(num);
  }
  return 300;
}

let numSliders = 0;

// A slider, and a box for an exact value. p: low, high, log.
function slider(label, p, value, steps, moved) {
  const id = `slider-${numSliders++}`;
  const range = make("input", { type: "range", id, class: "range", min: 0, max: steps, step: 1 });
  const box = make("input", {
    type: "number", min: p.low, max: p.high, step: "any", "aria-label": `${label}, exact value`,
  });
  let last = value;
  const put = (v) => {
    last = v;
    range.value = Math.round(unit(p, v) * steps);
    range.setAttribute("aria-valuetext", short(v));
    box.value = Number(v.toPrecision(6));
  };
  range.addEventListener("input", () => {
    const v = tidy(p, between(p, Number(range.value) / steps));
    put(v);
    moved(v);
  });
  box.addEventListener("change", () => {
    const typed = box.value === "" ? last : Number(box.value);
    const v = Math.min(p.high, Math.max(p.low, typed));
    put(v);
    moved(v);
  });
  put(value);
  const ends = [p.low, p.high].map((end) => make("span", {}, short(end)));
  const name = make("label", { for: id }, label);
  const below = make("div", { class: "ends", "aria-hidden": "true" }, ...ends);
  return { element: make("div", { class: "slider" }, name, box, range, below), put };
}

// Radio buttons.
function choose(name, look, options, picked) {
  const buttons = options.map((value, i) => {
    const [key, text] = Array.isArray(value) ? value : [value, value];
    const input = make("input", { type: "radio", name, value: key, checked: i === 0 });
    input.addEventListener("change", () => picked(key));
    return make("label", {}, input, make("span", {}, text));
  });
  return make("div", { class: look, role: "radiogroup", "aria-label": name }, ...buttons);
}

function menu(name, texts, picked) {
  const options = texts.map((text, i) => make("option", { value: i }, text));
  const select = make("select", { "aria-label": name }, ...options);
  select.addEventListener("change", () => picked(Number(select.value)));
  return select;
}

// -- Coefficients and loss weights -------------------------------------------------------------

const coefficientSliders = new Map(); // by name
const weightSliders = [];

function setCoefficient(i, value) {
  state.parameters[i] = value;
  state.along = i;
  changed();
}

function coefficientControls() {
  const sliders = free.map((i) => {
    const p = parameters[i];
    const moved = (v) => setCoefficient(i, v);
    const control = slider(pretty(p.name), p, state.parameters[i], numSteps(p), moved);
    coefficientSliders.set(p.name, control);
    return control.element;
  });
  return group(free.length > 1 ? "Coefficients" : "Coefficient", ...sliders);
}

function weightControls() {
  const prior = data.weights;
  prior.names.forEach((name, i) => {
    const p = { low: prior.lows[i], high: 1, log: prior.kind === "LogCube" };
    weightSliders.push(slider(name, p, state.weights[i], 100, (v) => setWeight(i, v)));
  });
  const inside = make("div", { class: "choice", hidden: true });
  inside.append(...weightSliders.map((s) => s.element));
  const options = [["mean", `mean over ${prior.draws.length} draws`], ["one", "one weighting"]];
  const radio = choose("weighting", "choice", options, (value) => {
    state.mean = value === "mean";
    inside.hidden = state.mean;
    changed();
  });
  return group("Loss weights", radio, inside);
}

// On the simplex the others give way in proportion, so that the sum stays one.
function setWeight(i, value) {
  const before = state.weights;
  const rest = 1 - before[i];
  const share = (w) => (rest > 1e-9 ? w / rest : 1 / (before.length - 1));
  const simplex = data.weights.kind === "Simplex";
  state.weights = before.map((w, j) => (j === i ? value : simplex ? (1 - value) * share(w) : w));
  state.weights.forEach((w, j) => j !== i && weightSliders[j].put(w));
  changed();
}

// -- Corrected values --------------------------------------------------------------------------

let correctedMenu = null;

// The settings at which there are any: to choose one moves the sliders there.
function correctedControls() {
  const { at, plane, position } = data.corrected;
  const name = (setting) => free.map((i) => equal(parameters[i].name, setting[i])).join(", ");
  correctedMenu = menu("corrected at", ["not here", ...at.map(name)], (n) => {
    if (n > 0) set(named(free.map((i) => parameters[i].name), free.map((i) => at[n - 1][i])));
    else followCorrected();
  });
  const held = coordinates.filter((_, d) => kind === "field" && !plane.includes(d));
  const words = held.map((c) => equal(c.name, position[coordinates.indexOf(c)])).join(", ");
  const where = words ? [make("p", {}, `in the plane at ${words}`)] : [];
  const parts = [...(free.length ? [correctedMenu] : []), ...where];
  return parts.length ? [group("Corrected solution", ...parts)] : [];
}

function followCorrected() {
  if (correctedMenu) correctedMenu.value = String(correctedSetting() + 1);
}

// -- Where in the domain -----------------------------------------------------------------------

let momentSlider = null;

function momentControls() {
  const c = coordinates[time];
  const last = data.grid.counts[time] - 1;
  const moved = (v) => moveTo(Math.round(unit(c, v) * last));
  momentSlider = slider(pretty(c.name), c, instant(), last, moved);
  return group("Time of the slice", momentSlider.element);
}

function moveTo(moment) {
  state.moment = moment;
  momentSlider.put(instant());
  reshow();
}

// With three coordinates or more, a plane is shown, and sliders say where it lies.
function planeControls() {
  const planes = coordinates.flatMap((_, b) => coordinates.slice(0, b).map((_, a) => [a, b]));
  planes.sort((p, q) => p.includes(time) - q.includes(time)); // those at one time come first
  const positions = make("div", { class: "choice" });
  const choosePlane = (plane) => {
    state.plane = plane;
    const others = coordinates.map((_, d) => d).filter((d) => !plane.includes(d));
    positions.replaceChildren(...others.map(positionControl));
  };
  const texts = planes.map((plane) => plane.map((d) => pretty(coordinates[d].name)).join(", "));
  const select = menu("plane", texts, (i) => {
    choosePlane(planes[i]);
    changed();
  });
  choosePlane(planes[0]);
  return group("Plane", select, positions);
}

function positionControl(d) {
  const c = coordinates[d];
  const moved = (v) => {
    state.position[d] = v;
    changed();
  };
  return slider(pretty(c.name), c, state.position[d], numSteps(c), moved).element;
}

function outputControls() {
  const select = menu("output", outputs.map(pretty), (i) => {
    state.output = i;
    reshow();
  });
  return group("Output", select);
}

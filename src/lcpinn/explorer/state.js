// What the page was given, and what is chosen in it.

const data = JSON.parse(document.getElementById("data").textContent);
const kind = data.grid.kind; // curve, space-time or field
const { coordinates, outputs, parameters } = data;
const free = parameters.map((p, i) => (p.low < p.high ? i : -1)).filter((i) => i >= 0);
const time = coordinates.findIndex((c) => c.name === "t");
const space = kind === "space-time" ? 1 - time : 0;
const truthName = data.exact ? "exact" : data.reference ? "reference" : null;

const state = {
  parameters: parameters.map((p) => tidy(p, between(p, 0.5))),
  along: free.length ? free[0] : -1, // the coefficient that was moved last
  mean: true, // over draws of the loss weights, rather than one weighting
  weights: data.weights ? data.weights.names.map(startWeight) : [],
  output: 0,
  shown: "solution",
  plane: [0, 1],
  position: coordinates.map((c) => (c.low + c.high) / 2),
  moment: kind === "space-time" ? Math.floor(data.grid.counts[time] / 2) : 0,
};

function startWeight() {
  return data.weights.kind === "Simplex" ? 1 / data.weights.names.length : 0.5;
}

// A range, of a coefficient or a coordinate, from the unit interval and back.
function between(p, s) {
  return p.log ? p.low ** (1 - s) * p.high ** s : p.low * (1 - s) + p.high * s;
}

function unit(p, value) {
  if (p.log) return Math.log(value / p.low) / Math.log(p.high / p.low);
  return (value - p.low) / (p.high - p.low);
}

// A slider's value without the digits that nobody asked for; the ends stay exact.
function tidy(p, value) {
  if (value <= p.low) return p.low;
  if (value >= p.high) return p.high;
  return Number(value.toPrecision(p.log ? 4 : 6));
}

// The moment's time.
function instant() {
  return nodes(coordinates[time], data.grid.counts[time])[state.moment];
}

function nodes(c, count) {
  const step = (c.high - c.low) / (count - 1);
  return Array.from({ length: count }, (_, i) => (i === count - 1 ? c.high : i * step + c.low));
}

// -- Words -------------------------------------------------------------------------------------

const GREEK = {
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ε", zeta: "ζ", eta: "η", theta: "θ",
  kappa: "κ", lambda: "λ", lam: "λ", mu: "μ", nu: "ν", xi: "ξ", rho: "ρ", sigma: "σ", tau: "τ",
  phi: "φ", chi: "χ", psi: "ψ", omega: "ω",
};

function pretty(name) {
  return Object.hasOwn(GREEK, name) ? GREEK[name] : name;
}

function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e5) return String(Number(value.toPrecision(4)));
  return value.toExponential(2).replace("e+", "e");
}

function errorText(value) {
  if (value >= 0.1 && value < 100) return value.toPrecision(2);
  return value.toExponential(1).replace("e+", "e");
}

// A name as text for Plotly, which reads tags, entities and %{...} in what it shows.
function literal(text) {
  return text.replace(/[&<>%]/g, (character) => `&#${character.charCodeAt(0)};`);
}

// "k = 3.25", never broken between lines.
function equal(name, value) {
  return `${pretty(name)}\u00a0=\u00a0${short(value)}`;
}

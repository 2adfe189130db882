// Values of the network and of the truth, and when which of them is computed.

const network = lcpinnRun.load(data.program);
const patient = lcpinnRun.load(data.program); // for the picture that is computed in pieces
const exact = data.exact && lcpinnRun.load(data.exact);
const level = data.level && lcpinnRun.load(data.level); // positive outside of the shape
const reference = data.reference && lcpinnRun.decode(data.reference);
const corrections = data.corrected && data.corrected.values.map(lcpinnRun.decode);

const SMOOTH = 40; // milliseconds that a redraw may take while a slider moves
const PIECE = 12; // milliseconds of background work between two looks at the controls
const PAUSE = 150; // milliseconds without a change before the full picture is begun
const COARSEST = 20; // the full grid's spacing is never multiplied by more

// Points over the coordinates that vary, the first of them slowest.
function sample(counts) {
  const vary = kind === "curve" ? [0] : kind === "space-time" ? [0, 1] : state.plane;
  return gridOf(vary, vary.map((d, i) => nodes(coordinates[d], counts[i])));
}

function gridOf(vary, axes) {
  const dim = coordinates.length;
  const count = axes.reduce((product, axis) => product * axis.length, 1);
  const points = new Float64Array(count * dim);
  for (let n = 0; n < count; n++) {
    points.set(state.position, n * dim);
    for (let i = axes.length - 1, rest = n; i >= 0; i--) {
      points[n * dim + vary[i]] = axes[i][rest % axes[i].length];
      rest = Math.floor(rest / axes[i].length);
    }
  }
  return { vary, axes, points, count };
}

function draws() {
  return data.weights && state.mean ? data.weights.draws : [state.weights];
}

// The solution at a grid's points, the mean over draws where there are several; in pieces.
function* evaluation(runner, grid, out) {
  const all = draws();
  const one = all.length > 1 ? new Float64Array(out.length) : out;
  for (const weights of all) {
    runner.set({ parameters: state.parameters, weights });
    for (let start = 0; start < grid.count; start += runner.size) {
      runner.fill(grid.points, start, Math.min(runner.size, grid.count - start), one);
      yield;
    }
    if (one !== out) for (let i = 0; i < out.length; i++) out[i] += one[i] / all.length;
  }
}

function evaluate(grid) {
  const out = new Float64Array(grid.count * outputs.length);
  const pieces = evaluation(network, grid, out);
  while (!pieces.next().done);
  return out;
}

function truthAt(grid) {
  if (reference) return sampled(reference, sampledCounts(), grid);
  if (!exact) return null;
  const out = new Float64Array(grid.count * outputs.length);
  exact.set({ parameters: state.parameters, weights: [] });
  exact.fill(grid.points, 0, grid.count, out);
  return out;
}

function sampledCounts() {
  return data.grid.counts.map((n, d) => (d === space && data.grid.slice) || n);
}

// Values that were sampled on a grid which holds every grid of the page.
function sampled(values, counts, grid) {
  const out = new Float64Array(grid.count * outputs.length);
  for (let n = 0; n < grid.count; n++) {
    let at = 0;
    grid.vary.forEach((d, i) => {
      const place = unit(coordinates[d], grid.points[n * coordinates.length + d]) * (counts[i] - 1);
      at = at * counts[i] + Math.round(place);
    });
    const from = at * outputs.length;
    out.set(values.subarray(from, from + outputs.length), n * outputs.length);
  }
  return out;
}

// Which of the settings with corrected values the controls are at, -1 for none: those values are
// right at that setting, in that plane, and for the mean over loss weights alone.
function correctedSetting() {
  if (!corrections || (data.weights && !state.mean)) return -1;
  const { at, plane, position } = data.corrected;
  const moved = (d) => !plane.includes(d) && state.position[d] !== position[d];
  const elsewhere = kind === "field" && plane.some((d, i) => d !== state.plane[i]);
  if (elsewhere || coordinates.some((_, d) => moved(d))) return -1;
  return at.findIndex((setting) => setting.every((v, i) => v === state.parameters[i]));
}

function correctedAt(grid) {
  const n = correctedSetting();
  return n < 0 ? null : sampled(corrections[n], data.corrected.counts, grid);
}

// Values of the level function at the points of a grid.
function levelAt(grid, points) {
  if (!level) return null;
  const out = new Float64Array(grid.count);
  level.set({ parameters: state.parameters, weights: [] });
  level.fill(points, 0, grid.count, out);
  return out;
}

// At the ends of a coordinate that is held, such as time, the level is zero all over the inside and
// has no outline: there it is drawn a little further in.
function inwards(grid) {
  const widths = grid.vary.map((d) => coordinates[d].high - coordinates[d].low);
  const cell = Math.max(...widths.map((width, i) => width / grid.axes[i].length));
  const points = grid.points.slice();
  coordinates.forEach(({ low, high }, d) => {
    if (grid.vary.includes(d)) return;
    const step = Math.min(2 * cell, (high - low) / 2);
    for (let n = d; n < points.length; n += coordinates.length) {
      points[n] = Math.min(Math.max(points[n], low + step), high - step);
    }
  });
  return points;
}

// The same grid's values without those outside of the shape.

const BESIDE = 1e-6; // of the size of the domain: what is still boundary

function extent() {
  return coordinates.reduce((most, c) => Math.max(most, c.high - c.low), 0);
}

function masked(grid, levels, values) {
  if (!levels || !values) return values;
  for (let n = 0; n < grid.count; n++) {
    if (levels[n] > BESIDE * extent()) values.fill(NaN, n * outputs.length, (n + 1) * outputs.length);
  }
  return values;
}

// What is shown of a grid: the network's values and the truth, inside, and where that is.
function shownOn(grid, values, preview) {
  const outside = levelAt(grid, grid.points);
  const truth = masked(grid, outside, truthAt(grid));
  const corrected = masked(grid, outside, correctedAt(grid));
  const levels = outside && levelAt(grid, inwards(grid));
  return { grid, values: masked(grid, outside, values), truth, corrected, levels, preview };
}

// One output of values that are row by row.
function column(values, output) {
  const out = new Array(values.length / outputs.length);
  for (let i = 0; i < out.length; i++) out[i] = values[i * outputs.length + output];
  return out;
}

// -- When --------------------------------------------------------------------------------------

let speed = 3e5; // multiply-adds in a millisecond; measured as we go
let current = null; // what is shown: grid, values, truth, corrected values, and whether it is a preview
let frame = 0;
let job = 0; // raised by every change: whoever computes for an older one stops

function work(counts) {
  return data.cost * draws().length * counts.reduce((a, b) => a * b, 1);
}

// The finest grid that is quick enough, among those whose points are all in the full one.
function affordable() {
  for (let by = 1; ; by++) {
    const counts = data.grid.counts.map((n) => Math.floor((n - 1) / by) + 1);
    const within = data.grid.counts.every((n) => (n - 1) % by === 0);
    if (within && (work(counts) / speed < SMOOTH || by >= COARSEST)) return counts;
  }
}

function computed(counts) {
  const grid = sample(counts);
  const begun = performance.now();
  const values = evaluate(grid);
  const spent = performance.now() - begun;
  if (spent > 2) speed = 0.5 * speed + (0.5 * work(counts)) / spent;
  const preview = counts.some((n, i) => n < data.grid.counts[i]);
  return shownOn(grid, values, preview);
}

// To be called whenever the values are no longer those of the controls.
function changed() {
  job += 1;
  if (!frame) frame = requestAnimationFrame(redraw);
}

// To be called when the same values are to be shown differently.
function reshow() {
  if (!frame) show();
}

function redraw() {
  frame = 0;
  current = computed(affordable());
  show();
  const mine = job;
  if (current.preview) setTimeout(() => refine(mine), PAUSE);
}

// The full picture, with a look at the controls every few milliseconds.
async function refine(mine) {
  if (mine !== job) return;
  const grid = sample(data.grid.counts);
  const values = new Float64Array(grid.count * outputs.length);
  let until = performance.now() + PIECE;
  for (const _ of evaluation(patient, grid, values)) {
    if (performance.now() < until) continue;
    await new Promise((resolve) => setTimeout(resolve));
    if (mine !== job) return;
    until = performance.now() + PIECE;
  }
  current = shownOn(grid, values, false);
  show();
}

// Everything up to date and on the full grid, now.
function settled() {
  if (frame || current.preview) {
    cancelAnimationFrame(frame);
    frame = 0;
    job += 1;
    current = computed(data.grid.counts);
    show();
  }
  return current;
}

// Runs a program of lcpinn (program.py says what one is) in double precision.
//
//   const network = lcpinnRun.load(program);
//   network.set({ parameters: [3.25], weights: [] });       // what does not depend on points
//   network.fill(points, first, count, out);                // points and out: row by row
//
// Every operation becomes a function without arguments over arrays that are made once.

const lcpinnRun = (() => {
  "use strict";

  // -- Functions that JavaScript lacks ---------------------------------------------------------

  const TWO_OVER_ROOT_PI = 2 / Math.sqrt(Math.PI);

  // erf(x) = 2/sqrt(pi) exp(-x²) (x + 2 x³/3 + 4 x⁵/15 + ...): no term cancels another.
  function erfSeries(x) {
    let term = x;
    let sum = x;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return TWO_OVER_ROOT_PI * Math.exp(-x * x) * sum;
  }

  // Laplace's continued fraction for x > 0, from far enough below; the smaller x, the farther.
  function erfcFraction(x) {
    let tail = x;
    for (let n = Math.ceil(16 + 200 / (x * x)); n > 0; n--) tail = x + n / 2 / tail;
    return Math.exp(-x * x) / (tail * Math.sqrt(Math.PI));
  }

  function erfc(x) {
    if (x < 2) return 1 - erf(x);
    return x < 28 ? erfcFraction(x) : Number.isNaN(x) ? x : 0;
  }

  function erf(x) {
    if (Math.abs(x) < 2) return erfSeries(x);
    return x > 0 ? 1 - erfc(x) : Number.isNaN(x) ? x : erfc(-x) - 1;
  }

  function roundToEven(x) {
    const below = Math.floor(x);
    const rest = x - below;
    if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
    return below % 2 === 0 ? below : below + 1;
  }

  const truth = (value) => (value ? 1 : 0);

  const ENTRYWISE = {
    negative: (x) => -x,
    absolute: Math.abs,
    sign: Math.sign,
    floor: Math.floor,
    ceil: Math.ceil,
    truncate: Math.trunc,
    round: roundToEven,
    round_away: (x) => Math.sign(x) * Math.floor(Math.abs(x) + 0.5),
    sqrt: Math.sqrt,
    rsqrt: (x) => 1 / Math.sqrt(x),
    cbrt: Math.cbrt,
    exp: Math.exp,
    expm1: Math.expm1,
    log: Math.log,
    log1p: Math.log1p,
    sin: Math.sin,
    cos: Math.cos,
    tan: Math.tan,
    asin: Math.asin,
    acos: Math.acos,
    atan: Math.atan,
    sinh: Math.sinh,
    cosh: Math.cosh,
    tanh: Math.tanh,
    asinh: Math.asinh,
    acosh: Math.acosh,
    atanh: Math.atanh,
    logistic: (x) => 1 / (1 + Math.exp(-x)),
    erf,
    erfc,
    finite: (x) => truth(Number.isFinite(x)),
    nonzero: (x) => truth(x !== 0),
    not: (x) => truth(x === 0),
    quotient: (x, y) => Math.trunc(x / y),
    remainder: (x, y) => x % y,
    pow: Math.pow,
    maximum: Math.max,
    minimum: Math.min,
    atan2: Math.atan2,
    equal: (x, y) => truth(x === y),
    differ: (x, y) => truth(x !== y),
    less: (x, y) => truth(x < y),
    less_equal: (x, y) => truth(x <= y),
    and: (x, y) => truth(x !== 0 && y !== 0),
    or: (x, y) => truth(x !== 0 || y !== 0),
    xor: (x, y) => truth((x !== 0) !== (y !== 0)),
  };

  const step = (array) => (array.length === 1 ? 0 : 1); // one entry stands for all

  function unary(f) {
    return (o, out, [x]) => {
      const n = out.length;
      const dx = step(x);
      return () => {
        for (let i = 0; i < n; i++) out[i] = f(x[i * dx]);
      };
    };
  }

  function binary(f) {
    return (o, out, [x, y]) => {
      const n = out.length;
      const dx = step(x);
      const dy = step(y);
      return () => {
        for (let i = 0; i < n; i++) out[i] = f(x[i * dx], y[i * dy]);
      };
    };
  }

  // The four that every layer needs are written out: a call for each entry would take longer than
  // the arithmetic.
  const ARITHMETIC = {
    add: (o, out, [x, y]) => {
      const [n, dx, dy] = [out.length, step(x), step(y)];
      return () => {
        for (let i = 0; i < n; i++) out[i] = x[i * dx] + y[i * dy];
      };
    },
    subtract: (o, out, [x, y]) => {
      const [n, dx, dy] = [out.length, step(x), step(y)];
      return () => {
        for (let i = 0; i < n; i++) out[i] = x[i * dx] - y[i * dy];
      };
    },
    multiply: (o, out, [x, y]) => {
      const [n, dx, dy] = [out.length, step(x), step(y)];
      return () => {
        for (let i = 0; i < n; i++) out[i] = x[i * dx] * y[i * dy];
      };
    },
    divide: (o, out, [x, y]) => {
      const [n, dx, dy] = [out.length, step(x), step(y)];
      return () => {
        for (let i = 0; i < n; i++) out[i] = x[i * dx] / y[i * dy];
      };
    },
  };

  // -- The others ------------------------------------------------------------------------------

  function matmul(o, out, [lhs, rhs]) {
    const { batch, m, k, n } = o;
    return () => {
      out.fill(0);
      for (let b = 0; b < batch; b++) {
        const from = b * k * n;
        for (let i = 0; i < m; i++) {
          const row = (b * m + i) * n;
          for (let p = 0; p < k; p++) {
            const a = lhs[(b * m + i) * k + p];
            const base = from + p * n;
            for (let j = 0; j < n; j++) out[row + j] += a * rhs[base + j];
          }
        }
      }
    };
  }

  function view(o, out, [x]) {
    let positions = [o.offset];
    o.counts.forEach((count, axis) => {
      const next = [];
      for (const p of positions) {
        for (let i = 0; i < count; i++) next.push(p + i * o.strides[axis]);
      }
      positions = next;
    });
    const where = Int32Array.from(positions);
    return () => {
      for (let i = 0; i < where.length; i++) out[i] = x[where[i]];
    };
  }

  function take(o, out, [position, ...sources]) {
    const size = sources.reduce((sum, s) => sum + s.length, 0);
    const all = sources.length === 1 ? sources[0] : new Float64Array(size);
    return () => {
      if (sources.length > 1) {
        let start = 0;
        for (const s of sources) {
          all.set(s, start);
          start += s.length;
        }
      }
      for (let i = 0; i < out.length; i++) out[i] = all[position[i]];
    };
  }

  function join(o, out, blocks) {
    const sizes = blocks.map((b) => b.length / o.outer);
    return () => {
      let to = 0;
      for (let r = 0; r < o.outer; r++) {
        for (let c = 0; c < blocks.length; c++) {
          for (let i = 0; i < sizes[c]; i++) out[to++] = blocks[c][r * sizes[c] + i];
        }
      }
    };
  }

  function select(o, out, [which, ...cases]) {
    const dw = step(which);
    const steps = cases.map(step);
    return () => {
      for (let i = 0; i < out.length; i++) {
        const c = which[i * dw];
        out[i] = cases[c][i * steps[c]];
      }
    };
  }

  function reduce(combine) {
    return (o, out, [x]) => () => {
      for (let r = 0; r < out.length; r++) {
        let total = x[r * o.length];
        for (let i = 1; i < o.length; i++) total = combine(total, x[r * o.length + i]);
        out[r] = total;
      }
    };
  }

  function running(combine) {
    return (o, out, [x]) => {
      const { length, inner } = o;
      const outer = out.length / (length * inner);
      const [first, next] = o.reverse ? [length - 1, -inner] : [0, inner];
      return () => {
        for (let r = 0; r < outer; r++) {
          for (let c = 0; c < inner; c++) {
            let at = (r * length + first) * inner + c;
            out[at] = x[at];
            for (let i = 1; i < length; i++, at += next) {
              out[at + next] = combine(out[at], x[at + next]);
            }
          }
        }
      };
    };
  }

  const plus = (a, b) => a + b;
  const times = (a, b) => a * b;
  const OPERATIONS = {
    ...Object.fromEntries(
      Object.entries(ENTRYWISE).map(([name, f]) => [name, f.length === 1 ? unary(f) : binary(f)]),
    ),
    ...ARITHMETIC,
    matmul,
    view,
    take,
    join,
    select,
    sum: reduce(plus),
    product: reduce(times),
    largest: reduce(Math.max),
    smallest: reduce(Math.min),
    running_sum: running(plus),
    running_product: running(times),
    running_largest: running(Math.max),
    running_smallest: running(Math.min),
  };

  // -- Programs --------------------------------------------------------------------------------

  function decode(text) {
    const binary = atob(text);
    const bytes = new DataView(new ArrayBuffer(binary.length));
    for (let i = 0; i < binary.length; i++) bytes.setUint8(i, binary.charCodeAt(i));
    const out = new Float64Array(binary.length / 8);
    for (let i = 0; i < out.length; i++) out[i] = bytes.getFloat64(8 * i, true);
    return out;
  }

  function load(program) {
    if (program.format !== 2) throw new Error(`unknown format of a program: ${program.format}`);
    const values = program.inputs.map((input) => new Float64Array(input.size));
    for (const text of program.constants) values.push(decode(text));
    const steps = program.operations.map((o) => {
      if (!Object.hasOwn(OPERATIONS, o.op)) throw new Error(`unknown operation: ${o.op}`);
      const out = new Float64Array(o.size);
      const args = o.args.map((i) => values[i]);
      values.push(out);
      return OPERATIONS[o.op](o, out, args);
    });
    const [early, late] = [steps.slice(0, program.once), steps.slice(program.once)];
    const inputs = Object.fromEntries(program.inputs.map((input, i) => [input.name, values[i]]));
    const result = values[program.output];
    const { coordinates, outputs, points: size } = program;

    function set(setting) {
      for (const name of ["parameters", "weights"]) {
        if (setting[name].length !== inputs[name].length) throw new Error(`wrong number of ${name}`);
        inputs[name].set(setting[name]);
      }
      for (const run of early) run();
    }

    function fill(points, first, count, out) {
      for (let start = first; start < first + count; start += size) {
        const num = Math.min(size, first + count - start);
        inputs.points.set(points.subarray(start * coordinates, (start + num) * coordinates));
        for (const run of late) run();
        out.set(result.subarray(0, num * outputs), start * outputs);
      }
    }

    return { set, fill, coordinates, outputs, size };
  }

  return { load, decode, erf, erfc };
})();

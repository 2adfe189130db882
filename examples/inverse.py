"""Thermal diffusivity of a steel rod from noisy thermocouples: an inverse problem with units.

    python examples/inverse.py            # about a minute
    python examples/inverse.py --smoke    # seconds, to see that it runs

A rod of 100 mm at 20 °C is heated at one end, towards 100 °C, and loses heat to the air. Wanted,
from five thermocouples with a noise of 0.5 °C: the diffusivity α in m²/s and the rate of loss h in
1/s. The network is trained once, for every α and h; a fit then takes seconds, and the next rod no
training at all. Look at the standard errors, and at the warnings if there are any. The readings
come from finite differences: a fit to what the network itself says would prove nothing.
"""

import sys

import numpy as np
from scipy.integrate import solve_ivp

import lcpinn as lc
from lcpinn.inverse import plus_minus

LENGTH, DURATION, ROOM, RISE, WARM_UP = 0.1, 600.0, 20.0, 80.0, 120.0  # m, s, °C, °C, s
ALPHA, LOSS, NOISE = 1.17e-5, 5e-4, 0.5  # m²/s, 1/s, °C: what the readings are made with

# Without units: with x in LENGTH, t in DURATION, and u = (T - ROOM) / RISE, the equation
# T_t = α T_xx - h (T - ROOM) is u_t = a u_xx - b u with a = α DURATION / LENGTH², b = h DURATION.
heater = lambda t: t**2 / (t**2 + (WARM_UP / DURATION) ** 2)


class Rod(lc.Family):
    """u_t = a u_xx - b u, cold at first, heated at x = 0, insulated at x = 1, for every a, b."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.LogUniform(a=(0.2, 2.0)) & lc.Uniform(b=(0.0, 1.0))
    evaluation = lc.Evaluation({"t": 11, "x": 41}, {"a": (0.2, 0.6, 2.0), "b": (0.0, 1.0)}, dense=3)

    @lc.interior
    def equation(self, u, u_t, u_xx, a, b):
        return u_t - a * u_xx + b * u

    @lc.on(t=0.0)
    def start(self, u):
        return u

    @lc.on(x=0.0)
    def heated(self, u, t):
        return u - heater(t)

    @lc.on(x=1.0)
    def insulated(self, u_x):
        return u_x

    def reference(self, t, x, a, b):  # finite differences on 200 cells, good to about 1e-5
        def slope(time, u):
            u = np.concatenate([[heater(time)], u, u[-2:-1]])
            return a * np.diff(u, 2) * 200**2 - b * u[1:-1]

        times, row = np.unique(t, return_inverse=True)
        u = solve_ivp(slope, (0, 1), np.zeros(200), "LSODA", times, rtol=1e-8, lband=1, uband=1).y
        u, nodes = np.vstack([heater(times), u]), np.linspace(0, 1, 201)
        return np.vectorize(lambda x, row: np.interp(x, nodes, u[:, row]))(x, row.reshape(x.shape))


def main(smoke: bool) -> None:
    family = Rod()
    solution = lc.train(family, lc.protocol.smoke(family) if smoke else None, seed=0)
    print(f"relative error: mean {solution.evaluate()['mean']:.1e}")
    at, times = np.array([10, 30, 50, 70, 90]) * 1e-3, np.arange(15.0, 601.0, 15.0)
    t, x = np.meshgrid(times / DURATION, at / LENGTH)
    T = ROOM + RISE * family.reference(t, x, ALPHA * DURATION / LENGTH**2, LOSS * DURATION)
    T += NOISE * np.random.default_rng(0).standard_normal(T.shape)
    fit = solution.fit(lc.Data(t=t, x=x, u=(T - ROOM) / RISE), sigma=NOISE / RISE)
    for name, symbol, unit in (("a", "α", LENGTH**2), ("b", "h", 1.0)):
        value, error = (numbers[name] * unit / DURATION for numbers in (fit.values, fit.errors))
        print(f"{symbol} = {plus_minus(value, error)} {'m²/s' if name == 'a' else '1/s'}")
    print(f"true: α = {ALPHA:g} m²/s, h = {LOSS:g} 1/s", *fit.warnings, sep="\n")


if __name__ == "__main__":
    main("--smoke" in sys.argv)

"""A wire heated by its own current: potential and temperature, each changing the other.

    python examples/heated_wire.py            # about a minute
    python examples/heated_wire.py --smoke    # seconds, to see that it runs

The current heats the wire, and a warm wire conducts less. Both ends are kept cool. Knobs are the
voltage v and how strongly resistance grows with temperature, b; without b there is no way back from
heat to current. Lengths are those of the wire, and temperatures such that conductivities are one.

Two fields are two outputs, and an interior term returns one residual for each. Look at the
resistance: a filament at a high voltage lets far less current through than Ohm's law of the cold
wire says. And look at Kohlrausch's relation, which ties the two fields together at every point of
every such conductor: it is nowhere in the training, and a check that needs no exact solution.
"""

import sys

import jax.numpy as jnp
import numpy as np

import lcpinn as lc

# The equations
# -------------
# With conductivity 1 / (1 + b T): (φ' / (1 + b T))' = 0 and T'' + φ'² / (1 + b T) = 0. Multiplied
# by what stands below the line, they are polynomials, which are easier on a network.


class HeatedWire(lc.Family):
    """(1 + bT) φ'' = b T' φ', (1 + bT) T'' = -φ'², φ(0) = 0, φ(1) = v, T = 0 at both ends."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(v=(0.5, 4.0)) & lc.LogUniform(b=(0.05, 1.0))
    outputs = ("phi", "T")
    evaluation = lc.Evaluation(at={"v": (0.5, 2.0, 4.0), "b": (0.05, 0.2, 1.0)}, dense=9)

    @lc.interior
    def equations(self, T, phi_x, phi_xx, T_x, T_xx, b):
        return (1 + b * T) * phi_xx - b * T_x * phi_x, (1 + b * T) * T_xx + phi_x**2

    @lc.on(x=0.0)
    def left(self, phi, T):
        return phi, T

    @lc.on(x=1.0)
    def right(self, phi, T, v):
        return phi - v, T

    # Both fields at the size that they have, whatever v is, and the ends imposed exactly.
    def ansatz(self, phi, T, x, v):
        return v * (x + x * (1 - x) * phi), v**2 * x * (1 - x) * T

    def exact(self, x, v, b):
        w = jnp.arctan(v * jnp.sqrt(b) / 2)
        angle = w * (2 * x - 1)
        return v / 2 * (1 + jnp.sin(angle) / jnp.sin(w)), (jnp.cos(angle) / jnp.cos(w) - 1) / b


def main(smoke: bool) -> None:
    family = HeatedWire()
    solution = lc.train(family, lc.protocol.smoke(family) if smoke else None, seed=0)

    # φ' is the current times 1 + b T, so that the mean of 1 + b T over the wire is its resistance.
    x, b = np.linspace(0, 1, 201), 0.5
    print("voltage  resistance  hottest  off Kohlrausch's relation")
    for v in (0.5, 1.0, 2.0, 4.0):
        wire = solution(x=x, v=v, b=b)
        phi, T = wire["phi"], wire["T"]
        gap = T + b * T**2 / 2 - phi * (v - phi) / 2
        print(f"{v:7.1f}{np.trapezoid(1 + b * T, x):12.4f}{T.max():9.4f}{np.abs(gap).max():27.1e}")

    error = solution.evaluate()
    print(f"relative error: mean {error['mean']:.1e}, largest {error['dense_max']:.1e}")


if __name__ == "__main__":
    main("--smoke" in sys.argv)

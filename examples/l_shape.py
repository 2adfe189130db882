"""An L-shaped plate: the corner that points inwards, and a feature for what happens there.

    python examples/l_shape.py            # about a minute
    python examples/l_shape.py --smoke    # seconds, to see that it runs

At a corner that points inwards the solution of Laplace's equation has an infinite slope. However it
is loaded, near the corner it is k s + something smooth, s = ρ^(2/3) cos(2φ/3). The amplitude k,
which says how much the corner is strained, is the knob here. Look at `features`: with s among them
the network has only the smooth rest to learn.
"""

import sys

import jax.numpy as jnp
import numpy as np

import lcpinn as lc

# The equation
# ------------
# A square without its lower right quarter. The angle φ is measured from the bisector of the corner,
# so that it jumps in the quarter that is cut out and nowhere else.


def singular(x, y):
    """s = ρ^(2/3) cos(2φ/3), which vanishes on both edges of the corner."""
    angle = jnp.arctan2(-x - y, y - x)
    return (x**2 + y**2) ** (1 / 3) * jnp.cos(2 * angle / 3)


class Plate(lc.Family):
    """Δu = 0 on an L-shaped plate, u = k s + (1 - k) (x² - y²) on its edges."""

    square = lc.Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
    quarter = lc.Box(x=(0.0, 1.0), y=(-1.0, 0.0))
    domain = square - quarter
    parameters = lc.Uniform(k=(0.5, 2.0))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on()
    def edges(self, u, x, y, k):
        return u - self.exact(x, y, k)

    def features(self, x, y):
        return x, y, singular(x, y)

    def exact(self, x, y, k):
        return k * singular(x, y) + (1 - k) * (x**2 - y**2)


def main(smoke: bool) -> None:
    # Training
    # --------
    family = Plate()
    solution = lc.train(family, lc.protocol.smoke(family) if smoke else None, seed=0)

    # Asking
    # ------
    # Along the bisector u = k ρ^(2/3) near the corner: the ratio tends to k.
    rho = np.array([0.1, 0.01, 0.001])
    x, y = -rho / np.sqrt(2), rho / np.sqrt(2)
    for k in (0.5, 1.0, 2.0):
        ratio = (solution(x=x, y=y, k=k) - solution(x=0.0, y=0.0, k=k)) / rho ** (2 / 3)
        print(f"k = {k}: (u - u(corner)) / ρ^(2/3) = " + ", ".join(f"{r:.4f}" for r in ratio))
    print(f"outside of the plate there is no answer: {solution(x=0.5, y=-0.5, k=1.0)}")

    # How good is it?
    error = solution.evaluate()
    print(f"relative error: mean {error['mean']:.1e}, largest {error['dense_max']:.1e}")


if __name__ == "__main__":
    main("--smoke" in sys.argv)

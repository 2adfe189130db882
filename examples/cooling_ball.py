"""A ball that cools: three dimensions and time, for every diffusivity.

    python examples/cooling_ball.py            # about a minute
    python examples/cooling_ball.py --smoke    # seconds, to see that it runs

The domain is a product, time by ball. A condition holds at the start, another on the surface at all
times. Look at `features`: the ball is round and so is its heat, which one line tells the network.
"""

import sys

import jax.numpy as jnp
import numpy as np

import lcpinn as lc

# The equation
# ------------
# The temperature is that of the slowest mode, so that the solution is known at all times.


class Ball(lc.Family):
    """u_t = a Δu in the unit ball, u = 0 on its surface, u = sin(πρ) / πρ at the start."""

    ball = lc.Ball(x=0.0, y=0.0, z=0.0, radius=1.0)
    domain = lc.Box(t=(0.0, 1.0)) * ball
    parameters = lc.Uniform(a=(0.05, 0.3))

    @lc.interior
    def equation(self, u_t, u_xx, u_yy, u_zz, a):
        return u_t - a * (u_xx + u_yy + u_zz)

    @lc.on(t=0.0)
    def start(self, u, x, y, z):
        return u - jnp.sinc(jnp.sqrt(x**2 + y**2 + z**2))

    @lc.on(ball)
    def cold(self, u):
        return u

    def features(self, t, x, y, z):
        return 2 * t - 1, 2 * (x**2 + y**2 + z**2) - 1

    def exact(self, t, x, y, z, a):
        return jnp.exp(-a * jnp.pi**2 * t) * jnp.sinc(jnp.sqrt(x**2 + y**2 + z**2))


def main(smoke: bool) -> None:
    # Training
    # --------
    family = Ball()
    solution = lc.train(family, lc.protocol.smoke(family) if smoke else None, seed=0)

    # Asking
    # ------
    # When is the centre down to a half? exp(-a π² t) = 1/2.
    t = np.linspace(0, 1, 2001)
    for a in (0.1, 0.2, 0.3):
        centre = solution(t=t, x=0.0, y=0.0, z=0.0, a=a)
        half = t[np.argmin(np.abs(centre - 0.5))]
        print(f"a = {a}: the centre is at a half at t = {half:.3f} "
              f"(exact: {np.log(2) / (a * np.pi**2):.3f})")  # fmt: skip

    # How good is it?
    error = solution.evaluate()
    print(f"relative error: mean {error['mean']:.1e}, largest {error['dense_max']:.1e}")


if __name__ == "__main__":
    main("--smoke" in sys.argv)

"""A pulse of dye in a ring-shaped channel: advection and diffusion, two parameters in one network.

    python examples/advection_diffusion.py            # about a minute
    python examples/advection_diffusion.py --smoke    # seconds, to see that it runs

The flow carries the pulse round while it spreads. A probe at x = 0.5 sees it pass lap after lap,
weaker every time. One network answers for every flow speed and every diffusivity, so that a map of
what the probe sees is one call. Look at `features`: one line that tells the network what moves.
"""

import sys

import jax.numpy as jnp
import numpy as np

import lcpinn as lc

WIDTH = 0.1  # of the pulse at the start, in lengths of the channel

# The equation
# ------------
# Speed c in laps per unit of time, diffusivity nu over a decade, hence with a logarithmic prior.


class Channel(lc.Family):
    """u_t + c u_x = ν u_xx on a ring, u(0, x) = a pulse, for every speed c and diffusivity ν."""

    domain = lc.Box(t=(0.0, 1.0), x=lc.Periodic(0.0, 1.0))
    parameters = lc.Uniform(c=(0.5, 2.0)) & lc.LogUniform(nu=(0.001, 0.01))
    evaluation = lc.Evaluation(at={"c": (0.5, 1.25, 2.0), "nu": (0.001, 0.003, 0.01)}, dense=9)

    @lc.interior
    def equation(self, u_t, u_x, u_xx, c, nu):
        return u_t + c * u_x - nu * u_xx

    @lc.on(t=0.0)
    def start(self, u, x, c, nu):
        return u - self.exact(0.0, x, c, nu)

    # Seen from the flow, the pulse stays in its place and only spreads. The network is given that
    # position, as sine and cosine since the channel is closed; the terms above stay as they are.
    def features(self, t, x, c):
        turn = 2 * jnp.pi * (x - c * t)
        return 2 * t - 1, jnp.sin(turn), jnp.cos(turn)

    # The pulse and its images one lap ahead, two laps ahead, ...: what errors are measured against.
    def exact(self, t, x, c, nu):
        variance = WIDTH**2 + 2 * nu * t
        away = (x - c * t)[..., None] - jnp.arange(-3.0, 3.0)
        pulses = jnp.exp(-(away**2) / (2 * variance))
        return WIDTH / jnp.sqrt(variance) * pulses.sum(-1)


def main(smoke: bool) -> None:
    # Training
    # --------
    family = Channel()
    solution = lc.train(family, lc.protocol.smoke(family) if smoke else None, seed=0)

    # Asking
    # ------
    # The probe over time for three speeds and four diffusivities at once: (3, 4, 401).
    t = np.linspace(0, 1, 401)
    c, nu = np.array([0.6, 1.2, 1.8])[:, None, None], np.geomspace(0.001, 0.01, 4)[:, None]
    seen = solution(t=t, x=0.5, c=c, nu=nu)
    print("highest concentration at the probe")
    print("  speed \\ diffusivity" + "".join(f"{value:9.4f}" for value in nu[:, 0]))
    for speed, row in zip(c[:, 0, 0], seen.max(-1), strict=True):
        print(f"  {speed:19.1f}" + "".join(f"{value:9.4f}" for value in row))
    passed = t[seen[1, 0].argmax()]
    print(f"for c = 1.2 it passes the probe at t = {passed:.3f} (0.5 / 1.2 = {0.5 / 1.2:.3f})")

    # How good is it?
    error = solution.evaluate()
    print(f"relative error: mean {error['mean']:.1e}, largest {error['dense_max']:.1e}")


if __name__ == "__main__":
    main("--smoke" in sys.argv)

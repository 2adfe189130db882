"""A spiral: two unknowns and two parameters in one network.

python examples/coupled.py            # about a minute
python examples/coupled.py --smoke    # seconds, to see that it runs
"""

import sys

import jax.numpy as jnp
import numpy as np

import lcpinn as lc

# The equations
# -------------
# Several outputs have names. A term may return several residuals. Rates that may differ by orders
# of magnitude get a logarithmic prior; priors of different kinds are joined by &.


class Spiral(lc.Family):
    """u' = a v - b u, v' = -a u - b v, u(0) = 1, v(0) = 0, for every turning a and decay b."""

    domain = lc.Box(t=(0.0, 2.0))
    parameters = lc.Uniform(a=(1.0, 4.0)) & lc.LogUniform(b=(0.05, 1.0))
    outputs = ("u", "v")
    evaluation = lc.Evaluation(at={"a": (1.0, 2.5, 4.0), "b": (0.05, 0.2, 1.0)})

    @lc.interior
    def equation(self, u, v, u_t, v_t, a, b):
        return u_t - a * v + b * u, v_t + a * u + b * v

    @lc.on(t=0.0)
    def start(self, u, v):
        return u - 1.0, v

    def exact(self, t, a, b):
        return jnp.exp(-b * t) * jnp.cos(a * t), -jnp.exp(-b * t) * jnp.sin(a * t)


# Training
# --------


def main(smoke: bool) -> None:
    family = Spiral()
    protocol = lc.protocol.smoke(family) if smoke else None
    solution = lc.train(family, protocol, seed=0)

    # Asking
    # ------
    # A solution with several outputs answers with a dictionary. Here every row has its own a.
    t, a = np.linspace(0, 2, 5), np.array([[1.5], [3.5]])
    orbit = solution(t=t, a=a, b=0.3)
    for i, turning in enumerate(a[:, 0]):
        radius = np.hypot(orbit["u"][i], orbit["v"][i])
        print(f"a = {turning}: radius {np.array2string(radius, precision=3)}")
    print(f"exactly:  radius {np.array2string(np.exp(-0.3 * t), precision=3)}")

    # How good is it?
    # ---------------
    error = solution.evaluate()
    where = ", ".join(f"{name} = {value:.2f}" for name, value in error["dense_argmax"].items())
    print(f"relative error: mean {error['mean']:.1e}, largest {error['dense_max']:.1e} at {where}")


if __name__ == "__main__":
    main("--smoke" in sys.argv)

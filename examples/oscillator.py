"""A damped oscillator for every damping: one page, one training, any question.

    python examples/oscillator.py            # about a minute
    python examples/oscillator.py --smoke    # seconds, to see that it runs

The same family from the command line, without a line of Python more:

    lcpinn check examples/oscillator.py
    lcpinn train examples/oscillator.py:Oscillator
"""

import sys

import jax.numpy as jnp
import numpy as np

import lcpinn as lc

# The equation
# ------------
# Terms are methods; their arguments say what they need: outputs, derivatives, parameters, by name.


class Oscillator(lc.Family):
    """u'' + 2 d u' + 400 u = 0, u(0) = 1, u'(0) = 0, for every damping d."""

    domain = lc.Box(t=(0.0, 1.0))
    parameters = lc.Uniform(d=(0.1, 2.0))

    @lc.interior
    def equation(self, u, u_t, u_tt, d):
        return u_tt + 2 * d * u_t + 400 * u

    @lc.on(t=0.0)
    def start(self, u):
        return u - 1.0

    @lc.on(t=0.0)
    def velocity(self, u_t):
        return u_t

    # Optional: what the errors below are measured against.
    def exact(self, t, d):
        w = jnp.sqrt(400 - d**2)
        return jnp.exp(-d * t) * (jnp.cos(w * t) + d / w * jnp.sin(w * t))


# Training
# --------
# Nothing else has to be said; a protocol may be passed to say more.


def main(smoke: bool) -> None:
    family = Oscillator()
    protocol = lc.protocol.smoke(family) if smoke else None
    solution = lc.train(family, protocol, seed=0)

    # Asking
    # ------
    # Any damping between 0.1 and 2, without training again. Arguments broadcast like NumPy's.
    t = np.linspace(0, 1, 6)
    for d in (0.3, 1.7):
        print(f"d = {d}:", np.array2string(solution(t=t, d=d), precision=3, suppress_small=True))

    # How good is it?
    # ---------------
    error = solution.evaluate()
    print(f"relative error: mean {error['mean']:.1e}, largest {error['dense_max']:.1e}", end=" ")
    print(f"at d = {error['dense_argmax']['d']:.2f}")
    print("saved", solution.save("oscillator.safetensors"))


if __name__ == "__main__":
    main("--smoke" in sys.argv)

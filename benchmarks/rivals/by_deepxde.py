"""A family with DeepXDE: Adam, then L-BFGS, k as a second coordinate.

PyTorch, tanh 4x64, Glorot, Adam at 1e-3 for half of the time and L-BFGS for the rest: what its
documentation's examples do. The ends are met exactly, by an output transform, as in its example
of Helmholtz's equation.
"""

from __future__ import annotations

import os

from problem import PROBLEMS, Clock, introduce, options

given = options(points=4096, dtype="float32", share=0.5)
problem = PROBLEMS[given.problem]
os.environ["DDE_BACKEND"] = "pytorch"
os.environ["OMP_NUM_THREADS"] = str(given.threads)

import deepxde as dde  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

WIDTHS = [64] * 4
ITERATIONS = 50  # of L-BFGS between two looks at the clock


def equation(xk, u):
    x, k = xk[:, :1], xk[:, 1:]
    return (
        dde.grad.hessian(u, xk, i=0, j=0) + problem.factor(x, k) * u - problem.forcing(x, k, torch)
    )


class Watch(dde.callbacks.Callback):
    """Reports the error now and then, and stops at `until` seconds."""

    def __init__(self, clock: Clock, until: float):
        super().__init__()
        self.clock, self.until = clock, until

    def on_epoch_end(self):
        over = self.clock.now() >= self.until
        if over or self.clock.due():
            predict = lambda x, k: self.model.predict(np.hstack([x, k]).astype(given.dtype))
            self.clock.report(predict, self.model.train_state.step)
        if over:
            self.model.stop_training = True


def main() -> None:
    torch.set_num_threads(given.threads)
    dde.config.set_default_float(given.dtype)
    dde.config.set_random_seed(given.seed)
    setting = {
        "backend": "pytorch",
        "optimiser": f"Adam 1e-3 for {given.share:.0%} of the time, then L-BFGS",
        "widths": WIDTHS,
        "activation": "tanh",
        "points": given.points,
        "dtype": given.dtype,
        "ends": "exact, by an output transform",
    }
    introduce(("deepxde", "torch", "numpy"), setting)
    clock = Clock(problem, given.seconds)
    rectangle = dde.geometry.Rectangle([0.0, problem.low], [1.0, problem.high])
    data = dde.data.PDE(
        rectangle, equation, [], num_domain=given.points, train_distribution="Hammersley"
    )
    network = dde.nn.FNN([2, *WIDTHS, 1], "tanh", "Glorot uniform")
    network.apply_feature_transform(
        lambda xk: torch.cat([2 * xk[:, :1] - 1, problem.normalised(xk[:, 1:])], dim=1)
    )
    network.apply_output_transform(lambda xk, u: 4 * xk[:, :1] * (1 - xk[:, :1]) * u)
    model = dde.Model(data, network)
    never = 10**9
    model.compile("adam", lr=1e-3, verbose=0)
    first = Watch(clock, given.share * given.seconds)
    model.train(iterations=never, display_every=never, callbacks=[first], verbose=0)
    # DeepXDE calls L-BFGS for a thousand iterations at a time; shorter calls go on alike (PyTorch's
    # optimiser keeps its memory), and the clock is looked at in between.
    short = {"maxiter": never, "iter_per_step": ITERATIONS, "fun_per_step": 2 * ITERATIONS}
    dde.optimizers.config.LBFGS_options.update(short)
    model.compile("L-BFGS", verbose=0)
    second = Watch(clock, given.seconds)
    model.train(display_every=never, callbacks=[second], verbose=0)
    if not clock.over():  # L-BFGS has stopped by itself
        second.on_epoch_end()


if __name__ == "__main__":
    main()

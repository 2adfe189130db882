"""A family with DeepXDE: Adam, then L-BFGS; a coefficient is one more coordinate.

PyTorch, tanh 4x64, Glorot, Adam at 1e-3 for half of the time and L-BFGS for the rest: what its
documentation's examples do. Boundary and initial values are met exactly, by an output transform, as
in its example of Helmholtz's equation, so that the residual is all there is in the loss.
"""

from __future__ import annotations

import os

from problem import PROBLEMS, Clock, Truth, introduce, options

given = options(points=4096, dtype="float32", share=0.5)
problem = PROBLEMS[given.problem]
os.environ["DDE_BACKEND"] = "pytorch"
os.environ["OMP_NUM_THREADS"] = str(given.threads)

import deepxde as dde  # noqa: E402
import torch  # noqa: E402

WIDTHS = [64] * 4
ITERATIONS = 50  # of L-BFGS between two looks at the clock


def equation(inputs, u):
    def partial(*axes):
        if len(axes) == 1:
            return dde.grad.jacobian(u, inputs, j=axes[0])
        return dde.grad.hessian(u, inputs, i=axes[0], j=axes[1])

    return problem.residual(inputs[:, :1], inputs[:, 1:], u, partial, torch)


class Watch(dde.callbacks.Callback):
    """Reports the error now and then, and stops at `until` seconds."""

    def __init__(self, clock: Clock, until: float):
        super().__init__()
        self.clock, self.until = clock, until

    def on_epoch_end(self):
        over = self.clock.now() >= self.until
        if over or self.clock.due():
            predict = lambda rows: self.model.predict(rows.astype(given.dtype))
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
        "conditions": "exact, by an output transform",
    }
    introduce(("deepxde", "torch", "numpy"), setting)
    clock = Clock(Truth(given.truth), given.seconds)
    rectangle = dde.geometry.Rectangle(problem.low, problem.high)
    data = dde.data.PDE(
        rectangle, equation, [], num_domain=given.points, train_distribution="Hammersley"
    )
    network = dde.nn.FNN([2, *WIDTHS, 1], "tanh", "Glorot uniform")
    network.apply_feature_transform(
        lambda inputs: torch.cat(problem.normalised(inputs[:, :1], inputs[:, 1:]), dim=1)
    )
    network.apply_output_transform(
        lambda inputs, u: problem.imposed(inputs[:, :1], inputs[:, 1:], u, torch)
    )
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

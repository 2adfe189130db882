"""A family with Scimba: its projector with the natural-gradient optimiser, k as a parameter.

Scimba's JAX half, its default optimiser (ENG, energy natural gradient), tanh and double precision.
The network has about as many parameters as lcpinn's; the ends are met exactly, by post-processing.
"""

from __future__ import annotations

import os

from problem import PROBLEMS, Clock, introduce, options

given = options(optimiser="ENG", widths="20,20,20", activation="tanh", points=3000)
problem = PROBLEMS[given.problem]
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(given.threads)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from scimba_jax.domains.meshless_domains.domains_1d import Segment1D  # noqa: E402
from scimba_jax.nonlinear_approximation.approximation_spaces.approximation_spaces import (  # noqa: E402
    ApproximationSpace,
)
from scimba_jax.nonlinear_approximation.integration.monte_carlo import (  # noqa: E402
    DomainSampler,
    TensorizedSampler,
)
from scimba_jax.nonlinear_approximation.integration.monte_carlo_parameters import (  # noqa: E402
    UniformParametricSampler,
)
from scimba_jax.nonlinear_approximation.networks.mlp import MLP  # noqa: E402
from scimba_jax.nonlinear_approximation.numerical_solvers.projectors import Projector  # noqa: E402
from scimba_jax.physical_models.abstract_physical_model import (  # noqa: E402
    AbstractPhysicalModel,
)
from scimba_jax.physical_models.abstract_residuals import InteriorResidual  # noqa: E402

EPOCHS = 10  # of one call; the clock is looked at in between


class Equation(InteriorResidual):
    """u'' + c u - f, with x and mu = k."""

    def __init__(self, domain):
        rhs = lambda x, mu: problem.forcing(x, mu, jnp)
        super().__init__(domain=domain, size=1, model_type="x_mu", f_rhs=rhs)

    def construct_residual(self, *variables):
        u = variables[0]
        return u.laplacian("x") + u * (lambda x, mu: problem.factor(x, mu))


class Model(AbstractPhysicalModel):
    def __init__(self, domain):
        super().__init__(main_domain=domain)
        self.physical_residuals = {domain.get_label(): Equation(domain)}


def normalised(x, mu):
    return (jnp.concatenate([2 * x - 1, problem.normalised(mu)], axis=-1),)


def vanishing(u, x, mu):
    """Zero at both ends."""
    return 4 * x * (1 - x) * u


def main() -> None:
    widths = [int(w) for w in given.widths.split(",")]
    setting = {
        "backend": "scimba_jax",
        "optimiser": given.optimiser,
        "widths": widths,
        "activation": given.activation,
        "points": given.points,
        "dtype": "float64",
        "ends": "exact, by post-processing",
    }
    introduce(("scimba", "jax", "numpy"), setting)
    clock = Clock(problem, given.seconds)
    key, own = jax.random.split(jax.random.PRNGKey(given.seed))
    domain = Segment1D((0.0, 1.0), is_main_domain=True)
    sampler = TensorizedSampler(
        [DomainSampler(domain), UniformParametricSampler([(problem.low, problem.high)])],
        model_type="x_mu",
        bc=False,
    )
    network = MLP(2, 1, hidden_sizes=widths, activation=given.activation, key=own)
    space = ApproximationSpace(
        {"x": 1, "mu": 1}, [(network, "scalar", None)], "x_mu", normalised, vanishing
    )
    projector = Projector(Model(domain), space, sampler, optimizer=given.optimiser)

    def predict(x, k):
        return projector.evaluate(jnp.asarray(x), jnp.asarray(k))

    step = 0
    while not clock.over():
        key, projector = projector.project(
            key, projector.space, EPOCHS, given.points, verbose=True, scan_chunk=EPOCHS
        )
        jax.block_until_ready(jax.tree.leaves(projector.space))
        step += EPOCHS
        if clock.due() or clock.over():
            clock.report(predict, step)


if __name__ == "__main__":
    main()

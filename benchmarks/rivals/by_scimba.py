"""A family with Scimba: its projector with the natural-gradient optimiser, k as a parameter.

Scimba's JAX half, its default optimiser (ENG, energy natural gradient), tanh and double precision.
The network has about as many parameters as lcpinn's in one coordinate. Boundary and initial values
are met exactly, by post-processing. Burgers' equation is Scimba's own model of it.
"""

from __future__ import annotations

import os

from problem import PROBLEMS, Burgers, Clock, Linear, Truth, introduce, options

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
from scimba_jax.nonlinear_approximation.integration.monte_carlo_time import (  # noqa: E402
    UniformTimeSampler,
)
from scimba_jax.nonlinear_approximation.networks.mlp import MLP  # noqa: E402
from scimba_jax.nonlinear_approximation.numerical_solvers.projectors import Projector  # noqa: E402
from scimba_jax.physical_models.abstract_physical_model import (  # noqa: E402
    AbstractPhysicalModel,
)
from scimba_jax.physical_models.abstract_residuals import InteriorResidual  # noqa: E402
from scimba_jax.physical_models.temporal_pde.viscous_burgers import ViscousBurgers1D  # noqa: E402

EPOCHS = 10  # of one call; the clock is looked at in between


class Equation(InteriorResidual):
    """u'' + c u - f, with x and mu = k."""

    def __init__(self, domain, problem: Linear):
        self.factor = problem.factor
        rhs = lambda x, mu: problem.forcing(x, mu, jnp)
        super().__init__(domain=domain, size=1, model_type="x_mu", f_rhs=rhs)

    def construct_residual(self, *variables):
        u = variables[0]
        return u.laplacian("x") + u * (lambda x, mu: self.factor(x, mu))


class Model(AbstractPhysicalModel):
    def __init__(self, domain, problem: Linear):
        super().__init__(main_domain=domain)
        self.physical_residuals = {domain.get_label(): Equation(domain, problem)}


def posed():
    """The model, what draws points for it, and the inputs that they have, in Scimba's words."""
    (low, other_low), (high, other_high) = problem.low, problem.high
    if isinstance(problem, Burgers):
        domain = Segment1D((other_low, other_high), is_main_domain=True)
        times = (low, high)
        model = ViscousBurgers1D(domain, times, bc="strong", ic="strong", sigma=problem.viscosity)
        return model, [UniformTimeSampler(times), DomainSampler(domain)], ("t", "x")
    domain = Segment1D((low, high), is_main_domain=True)
    coefficient = UniformParametricSampler([(other_low, other_high)])
    return Model(domain, problem), [DomainSampler(domain), coefficient], ("x", "mu")


def normalised(first, second):
    return (jnp.concatenate(problem.normalised(first, second), axis=-1),)


def imposed(u, first, second):
    return problem.imposed(first, second, u, jnp)


def main() -> None:
    widths = [int(w) for w in given.widths.split(",")]
    setting = {
        "backend": "scimba_jax",
        "optimiser": given.optimiser,
        "widths": widths,
        "activation": given.activation,
        "points": given.points,
        "dtype": "float64",
        "conditions": "exact, by post-processing",
    }
    introduce(("scimba", "jax", "numpy"), setting)
    clock = Clock(Truth(given.truth), given.seconds)
    key, own = jax.random.split(jax.random.PRNGKey(given.seed))
    model, samplers, inputs = posed()
    kind = "_".join(inputs)
    sampler = TensorizedSampler(samplers, model_type=kind, bc=False, ic=False)
    network = MLP(2, 1, hidden_sizes=widths, activation=given.activation, key=own)
    space = ApproximationSpace(
        dict.fromkeys(inputs, 1), [(network, "scalar", None)], kind, normalised, imposed
    )
    projector = Projector(model, space, sampler, optimizer=given.optimiser)

    def predict(rows):
        return projector.evaluate(jnp.asarray(rows[:, :1]), jnp.asarray(rows[:, 1:]))

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

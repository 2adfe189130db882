"""helmholtz-2d with pyMOR: a reduced basis over k of finite element solutions.

pyMOR's own discretiser has bilinear elements on squares of size h, and one quadrature point for the
source: its error falls as h², and that is what the curve shows. k² u is separable in k as it is;
the source is not, and is made so by empirical interpolation. pyMOR's error bounds of stationary
problems divide by a constant of coercivity, and this problem is indefinite: so the basis is a POD
of solutions at Chebyshev nodes of k, without a greedy search. With 16 nodes its error is far below
that of the elements. None of them is a k that errors are measured at.

One mesh after the other, each finer by √2 than the last; the seconds of a point are those of its
mesh alone, as if it had been chosen at once: discretisation, 16 solutions, basis and projection.
"""

from __future__ import annotations

import os

from problem import (
    HELMHOLTZ_2D,
    NODES,
    Clock,
    Truth,
    chebyshev,
    helmholtz_2d_forcing,
    introduce,
    options,
)

given = options(coarsest=32)
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(given.threads)

import numpy as np  # noqa: E402
from pymor.algorithms.ei import interpolate_function  # noqa: E402
from pymor.algorithms.pod import pod  # noqa: E402
from pymor.analyticalproblems.domaindescriptions import RectDomain  # noqa: E402
from pymor.analyticalproblems.elliptic import StationaryProblem  # noqa: E402
from pymor.analyticalproblems.functions import (  # noqa: E402
    ConstantFunction,
    GenericFunction,
    LincombFunction,
)
from pymor.core.logger import set_log_levels  # noqa: E402
from pymor.discretizers.builtin import RectGrid, discretize_stationary_cg  # noqa: E402
from pymor.discretizers.builtin.grids.boundaryinfos import AllDirichletBoundaryInfo  # noqa: E402
from pymor.parameters.functionals import ExpressionParameterFunctional  # noqa: E402
from pymor.reductors.basic import StationaryRBReductor  # noqa: E402
from scipy.interpolate import RegularGridInterpolator  # noqa: E402

LOW, HIGH = HELMHOLTZ_2D
SOURCES = np.linspace(LOW, HIGH, 64)  # k whose sources are interpolated
SLOWER = 2**1.5  # at most: what a mesh finer by √2 takes, where a factorisation takes (1/h)³


def full_order(cells: int):
    """-Δu - k² u = -f on so many cells along each side, u = 0 on the boundary."""
    grid, on = RectGrid((cells, cells)), {"k": 1}
    source = GenericFunction(
        lambda x, mu: -helmholtz_2d_forcing(x[..., 0], x[..., 1], mu["k"][0]), 2, parameters=on
    )
    samples = [source.parameters.parse(k) for k in SOURCES]
    separable, _ = interpolate_function(source, samples, grid.centers(0), rtol=1e-10)
    one = ConstantFunction(1.0, 2)
    problem = StationaryProblem(
        RectDomain(),
        diffusion=one,
        reaction=LincombFunction([one], [ExpressionParameterFunctional("-k[0]**2", on)]),
        rhs=separable,
    )
    model, _ = discretize_stationary_cg(
        problem, grid=grid, boundary_info=AllDirichletBoundaryInfo(grid)
    )
    return model


def reduced(model):
    """The basis and the model on it."""
    solutions = model.solution_space.empty()
    for k in chebyshev(LOW, HIGH, NODES):
        solutions.append(model.solve(k))
    product = model.h1_0_semi_product
    basis, _ = pod(solutions, product=product, rtol=1e-10)
    reductor = StationaryRBReductor(model, basis, product=product)
    return reductor, reductor.reduce()


def solved_on(cells: int):
    """Offline; then values at rows of x, y and one k, of the finite elements' own function."""
    reductor, model = reduced(full_order(cells))
    axis = np.linspace(0.0, 1.0, cells + 1)

    def predict(rows):
        nodal = reductor.reconstruct(model.solve(rows[0, 2])).to_numpy()
        # Nodes are counted along x first.
        values = nodal.reshape(cells + 1, cells + 1).T
        return RegularGridInterpolator((axis, axis), values)(rows[:, :2])

    return predict


def main() -> None:
    set_log_levels({"pymor": "ERROR"})
    setting = {
        "method": f"POD of {NODES} solutions, empirical interpolation of the source",
        "elements": "bilinear, on squares",
        "steps": "cells along each side",
        "dtype": "float64",
    }
    introduce(("pymor", "scipy", "numpy"), setting)
    truth, cells, last = Truth(given.truth), float(given.coarsest), 0.0
    solved_on(given.coarsest)  # what pyMOR imports late is off the clock, as other imports are
    while SLOWER * last <= given.seconds:
        clock = Clock(truth, given.seconds)
        predict = solved_on(round(cells))
        clock.report(predict, round(cells))
        cells, last = cells * 2**0.5, clock.last


if __name__ == "__main__":
    main()

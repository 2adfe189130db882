"""The solver on boxes: matrices in blocks against the same rows written out."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from toy import of_kind

import lcpinn as lc
from lcpinn.precision import double
from lcpinn.spectral import TensorBasis, normal
from lcpinn.spectral.collocation import LinearisedRows
from lcpinn.spectral.expansion import Expansion
from lcpinn.spectral.least_squares import TensorRows, iterative
from lcpinn.spectral.linearisation import about_zero, linearised
from lcpinn.spectral.normal import NormalMatrix, TooLarge

SQUARE = lc.Box(x=(0.0, 1.0), y=(-1.0, 2.0))


class Poisson(lc.Family):
    """Δu = 1."""

    domain = SQUARE
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u - 1

    @lc.on(x=(0.0, 1.0), y=(-1.0, 2.0))
    def sides(self, u):
        return u


class Varying(lc.Family):
    """(1 + x²) u_xx + e^(xy) u_yy + u_xy/2 + 3 u_x - u = 1: varies, with a mixed derivative."""

    domain = SQUARE
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, u, u_x, u_xx, u_xy, u_yy, x, y):
        return (1 + x * x) * u_xx + jnp.exp(x * y) * u_yy + u_xy / 2 + 3 * u_x - u - 1

    @lc.on(x=(0.0, 1.0), y=-1.0)
    def sides(self, u):
        return u

    @lc.on(y=2.0)
    def flux(self, u, u_y, x):
        return u_y + x * u


class Stokes(lc.Family):
    """∇p = Δu, ∇·u = 0 with a force: three outputs, one of them up to a level."""

    domain = SQUARE
    parameters = lc.Uniform(k=(1.0, 2.0))
    outputs = ("u", "v", "p")

    @lc.interior
    def momentum(self, p_x, p_y, laplacian_u, laplacian_v, y):
        return p_x - laplacian_u - y, p_y - laplacian_v

    @lc.interior
    def continuity(self, u_x, v_y):
        return u_x + v_y

    @lc.on(x=(0.0, 1.0), y=(-1.0, 2.0))
    def sides(self, u, v):
        return u, v


class Dispersive(lc.Family):
    """u_t + u_x + u_xxx/9 = 0 on a circle: of third order, periodic and Chebyshev."""

    domain = lc.Box(t=(0.0, 1.0), x=lc.Periodic(0.0, 2.0))
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, u_t, u_x, u_xxx):
        return u_t + u_x + u_xxx / 9

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.sin(jnp.pi * x)


class Heat(lc.Family):
    """u_t = Δu/10 in a square."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0), y=(0.0, 1.0))
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, u_t, laplacian_u):
        return u_t - laplacian_u / 10

    @lc.on(t=0.0)
    def start(self, u, x, y):
        return u - jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)

    @lc.on(x=(0.0, 1.0), y=(0.0, 1.0))
    def sides(self, u):
        return u


class Drifting(Heat):
    """u_t = Δu/10 - y u_x: the same with a shear flow."""

    @lc.interior
    def equation(self, u_t, u_x, laplacian_u, y):
        return u_t - laplacian_u / 10 + y * u_x


# The sizes, and those of the blocks that the page's symmetries leave.
PAGES = {
    Poisson: ((11, 14), [35, 35, 42, 42]),
    Varying: ((11, 14), [154]),
    Stokes: ((9, 8), [52, 52, 56, 56]),
    Dispersive: ((12, 9), [12, 24, 24, 24, 24]),
    Heat: ((7, 9, 8), None),
    Drifting: ((7, 8, 9), None),
}


def _written_out(family: lc.Family, sizes: tuple[int, ...]):
    """Rows that some smooth function satisfies; their matrix of the unknowns, weighted."""
    terms = linearised(family)
    expansion, at = Expansion(terms, sizes), about_zero(terms, [1.5])
    kept = np.tile(of_kind(TensorBasis, expansion.basis).kept, len(family.outputs))
    rng = np.random.default_rng(1)
    degrees = np.indices(sizes).sum(axis=0).ravel()
    smooth = rng.standard_normal((len(family.outputs), degrees.size)) * np.exp(-degrees / 2)
    smooth = np.where(kept, smooth.ravel(), 0.0)
    blocks = []
    for rows in expansion.rows(at, expansion.zero, expansion.base(at)):
        image = rows.matrix() @ smooth
        blocks.append(
            LinearisedRows(rows.collocation, -image.reshape(rows.residual.shape), rows.slopes)
        )
    weights = [TensorRows(b).weight for b in blocks]
    matrix = np.concatenate([
        (w[:, :, None] * b.matrix().reshape(*b.residual.shape, -1)).reshape(b.residual.size, -1)
        for w, b in zip(weights, blocks, strict=True)
    ])  # fmt: skip
    target = np.concatenate(
        [-(w * b.residual).ravel() for w, b in zip(weights, blocks, strict=True)]
    )
    return expansion, blocks, matrix[:, kept], target, kept


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__)
def test_blocks_solve_what_the_whole_matrix_solves(page):
    with double():
        expansion, blocks, matrix, target, kept = _written_out(page(), PAGES[page][0])
        solved = iterative(blocks, 1e-12)
    exact = np.zeros(len(kept))
    exact[kept] = np.linalg.lstsq(matrix, target, rcond=1e-14)[0]
    ours, theirs = (
        expansion.values(c.reshape(expansion.zero.shape)) for c in (solved.coefficients, exact)
    )
    if page is Stokes:  # p up to its level
        ours, theirs = (v - v.mean(axis=0) * [0, 0, 1] for v in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10 * np.abs(theirs).max())
    assert solved.remaining_share < 1e-10
    assert not solved.coefficients[~kept].any()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__)
def test_symmetries_of_a_page_divide_its_matrix(page):
    """The blocks are those of AᵀA, and what they leave out of it is rounding."""
    with double():
        _, blocks, matrix, _, kept = _written_out(page(), PAGES[page][0])
        matrices = NormalMatrix([TensorRows(b) for b in blocks])
        factorised = matrices.factorised
    whole, place = matrix.T @ matrix, np.cumsum(kept) - 1
    assert sum(len(index) for index, _ in factorised) == kept.sum()
    for index, factor in factorised:
        at, upper = place[index], np.triu(factor.upper) / factor.scale
        ours, theirs = upper.T @ upper, whole[np.ix_(at, at)]
        seen = np.diag(theirs) > 0  # of a function that no row sees nothing is asked
        ours, theirs = ours[np.ix_(seen, seen)], theirs[np.ix_(seen, seen)]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * np.abs(whole).max())
        whole[np.ix_(at, at)] = 0.0
    assert np.abs(whole).max() < 1e-10 * np.linalg.norm(matrix) ** 2
    sizes = sorted(len(index) for index, _ in factorised)
    assert matrices.share_of_work == pytest.approx(1 / len(sizes) ** 2, rel=0.2)
    if PAGES[page][1] is not None:
        assert sizes == PAGES[page][1]
    else:
        assert len(sizes) == (4 if page is Heat else 1)


def test_what_would_take_too_long_is_not_begun(monkeypatch):
    monkeypatch.setattr(normal, "MOST_WORK", 100.0**3)
    with double():
        _, blocks, *_ = _written_out(Varying(), (11, 14))
        with pytest.raises(TooLarge):
            iterative(blocks)
        _, blocks, *_ = _written_out(Poisson(), (11, 14))
        assert iterative(blocks).remaining_share < 1e-6  # four blocks are smaller


@pytest.mark.slow
def test_a_solution_finer_than_is_affordable_is_refused(monkeypatch):
    """Never a wrong answer: sizes stop growing, and two of them do not agree."""

    class Waves(Varying):
        """The same with a source of many waves."""

        @lc.interior
        def equation(self, u, u_x, u_xx, u_yy, x, y):
            return (1 + x * x) * u_xx + u_yy + 3 * u_x - u - jnp.sin(60 * x * y)

    monkeypatch.setattr(normal, "MOST_WORK", 700.0**3)
    with pytest.raises(lc.LcpinnError, match="functions do not resolve it"):
        lc.solve(Waves(), k=1.0)


@pytest.mark.slow
def test_seventy_functions_a_coordinate():
    """cos(k (x + y)) with waves that few functions do not resolve, against the closed form."""

    class Wave(lc.Family):
        """Δu = -2 k² u + k u - k cos(k (x + y)) on a square."""

        domain = lc.Box(x=(0.0, 1.0), y=(0.0, 1.0))
        parameters = lc.Uniform(k=(1.0, 80.0))

        @lc.interior
        def equation(self, u, laplacian_u, x, y, k):
            return laplacian_u - k * u + (2 * k * k + k) * jnp.cos(k * (x + y))

        @lc.on(x=(0.0, 1.0), y=(0.0, 1.0))
        def sides(self, u, x, y, k):
            return u - jnp.cos(k * (x + y))

    solved = lc.solve(Wave(), k=80.0, tolerance=1e-9)
    x, y = np.random.default_rng(0).random((2, 500))
    assert solved(x=x, y=y) == pytest.approx(np.cos(80 * (x + y)), abs=1e-8)
    assert min(solved.resolution.values()) > 60


def test_slopes_are_separated_by_as_few_products_as_they_have():
    """Slopes 1 and y have the products 1, y and y², whatever the number of points."""
    with double():
        _, blocks, *_ = _written_out(Drifting(), PAGES[Drifting][0])
        factors = NormalMatrix([TensorRows(b) for b in blocks])._factors()[0, 0]
    inside, faces = 3 + 2 + 2 + 1, 5  # by whether both derivatives, one, or none are along y
    assert len(factors.first) == inside + faces

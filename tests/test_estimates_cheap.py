"""What keeps estimates cheap: elements, slabs, and what is kept from setting to setting."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_certificate import of_function, spoilt

import lcpinn as lc
from benchmarks.zoo import ZOO
from lcpinn.certificate import in_elements, in_slabs
from lcpinn.certificate.attempt import AgreedSizes
from lcpinn.certificate.factors import KeptFactors
from lcpinn.certificate.resolution import Needed, Patience
from lcpinn.jet import Orders
from lcpinn.spectral.basis import Axis, TensorBasis
from lcpinn.spectral.collocation import ScatteredPoints
from lcpinn.spectral.least_squares import Preconditioner, _takes_too_long

pytestmark = pytest.mark.usefixtures("x64")


def true_error(family, bump, lam, size):
    """The relative error, the worst output's."""
    points = np.asarray(family.domain.sobol(8192))
    truth = np.asarray(family.truth(points, np.array(lam))).reshape(len(points), -1)
    error = size * np.asarray(jax.vmap(bump)(points)).reshape(truth.shape)
    return np.max(np.linalg.norm(error, axis=0) / np.linalg.norm(truth, axis=0))


# -- Elements -------------------------------------------------------------------------------------


def layer(point):
    """An error in a layer that is a five-hundredth as wide as the interval."""
    return jnp.tanh(500 * point) / jnp.cosh(250 * point)


def test_an_error_in_a_layer_takes_a_few_elements():
    family = ZOO["interior-layer"]()
    estimator = spoilt(family, layer)
    found = estimator(1e-4, [4e-3])
    assert found.error == pytest.approx(true_error(family, layer, [4e-3], 1e-4), rel=0.02)
    most = max(sizes[0] for sizes, _ in estimator.attempts.expansions)
    assert most < 500  # a single interval takes a thousand
    breaks = estimator.attempts.breaks
    assert 3 < len(breaks) < 30
    assert np.diff(breaks).min() < 0.02
    estimator(1e-4, [4.5e-3])
    assert estimator.attempts.breaks == breaks  # those of the setting before serve


def test_waves_all_over_are_not_for_elements():
    family = ZOO["interior-layer"]()
    estimator = spoilt(family, lambda p: jnp.sin(200 * p))
    at = estimator.linearisation(1e-4, [0.5])
    assert in_elements.in_elements(estimator.attempts, at, 150) == []


def test_without_seconds_nothing_depends_on_the_settings_before():
    family = ZOO["interior-layer"]()
    estimator = spoilt(family, layer)
    alone = estimator(1e-4, [4e-3], seconds=0.0)
    estimator(1e-4, [2e-3])
    assert estimator.attempts.breaks
    assert estimator(1e-4, [4e-3], seconds=0.0) == alone


# -- Slabs ----------------------------------------------------------------------------------------


def ripples(point):
    return (jnp.sin(140 * point[0] + 9 * point[1]) + point[0] ** 2 * jnp.sin(40 * point[1]))[None]


SLABS = {
    "a wave, of second order": ("wave", ripples, [2.0]),
    "waves of two outputs": (
        "acoustics", lambda p: ripples(p)[0] * jnp.array([1.0, 0.3]), [1.5],
    ),
    "not linear": ("fisher", lambda p: jnp.sin(140 * p[:1] + 2 * p[1:]), [3.0]),
    "on a ring": (
        "ring-wave",
        lambda p: (jnp.sin(6 * p[0]) * jnp.cos(4 * jnp.pi * p[1]) + jnp.sin(5 * p[0]))[None],
        [1e-4],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SLABS)
def test_waves_in_time_are_resolved_slab_by_slab(name, monkeypatch):
    family_name, bump, lam = SLABS[name]
    family, taken = ZOO[family_name](), []
    estimator, size = spoilt(family, bump), 1e-5
    attempt = in_slabs.InSlabs._attempt
    monkeypatch.setattr(
        in_slabs.InSlabs, "_attempt",
        lambda self, at, num, sizes: taken.append(num) or attempt(self, at, num, sizes),
    )  # fmt: skip
    found = estimator.correction(size, lam, fronts=False)
    assert found.estimate.error == pytest.approx(true_error(family, bump, lam, size), rel=0.05)
    assert taken
    assert taken[0] > 2
    points = np.asarray(family.domain.sobol(256, seed=3))
    truth = np.asarray(family.truth(points, np.array(lam))).reshape(len(points), -1)
    assert found.values is not None
    left = found.values(points) - truth
    spoilt_by = size * np.asarray(jax.vmap(bump)(points))
    assert np.linalg.norm(left) < 0.3 * np.linalg.norm(spoilt_by)


def test_factors_of_a_slab_serve_all_settings_where_the_operator_is_the_same():
    """The pitch of an overtone is in its conditions alone."""
    family = ZOO["overtone"]()
    estimator = spoilt(family, ripples)
    for lam in ([3.0], [7.0]):
        assert estimator(1e-5, lam, fronts=False).error > 0
    kept = list(estimator._slabs._slabs.values())
    assert estimator._slabs._served
    assert all(factors.first.normal is not None for _, factors in kept)
    assert len(kept) == 2  # the finer ones and the coarser ones, the same at both


def test_slabs_are_for_initial_values_with_many_waves():
    many, few = Needed((60, 20), (30, 10)), Needed((40, 200), (20, 100))
    wave, plate = (spoilt(ZOO[name](), lambda p: p[:1]) for name in ("wave", "plate"))
    at = wave.linearisation(1e-3, [1.0])
    assert wave._slabs.suits(at, many)
    assert not wave._slabs.suits(at, few)
    assert not plate._slabs.suits(plate.linearisation(1e-3, [1.0, 1.0, 1.0, 1.0]), many)


def test_slabs_that_would_take_too_long_are_not_begun():
    estimator = spoilt(ZOO["wave"](), ripples)
    at = estimator.linearisation(1e-5, [2.0])
    wanted = Needed((150, 20), (100, 10))
    estimator._slabs._pace = 1.0  # a second for every function
    assert estimator._slabs(at, wanted, Patience(5.0, 1, lambda: 1.0)) is None


# -- What is kept ---------------------------------------------------------------------------------


class Loaded(lc.Family):
    """-Δu = f: the coefficient is in the load alone."""

    domain = lc.Box(x=(0.0, 1.0), y=(0.0, 1.0))
    parameters = lc.Uniform(a=(1.0, 2.0))

    @lc.interior
    def equation(self, laplacian_u, x, y, a):
        return laplacian_u + 2 * a * (x * (1 - x) + y * (1 - y))

    @lc.on()
    def rim(self, u):
        return u

    def exact(self, x, y, a):
        return a * x * (1 - x) * y * (1 - y)


def test_factors_of_one_setting_serve_another():
    estimator = of_function(
        Loaded(), lambda size, p, lam: lam[0] * jnp.prod(p * (1 - p))[None]
        * (1 + size * jnp.sin(40 * p[0]))
    )  # fmt: skip
    errors = [estimator(1e-3, [a], fronts=False).error for a in (1.0, 2.0, 1.5)]
    np.testing.assert_allclose(errors, errors[0], rtol=1e-6)
    kept = estimator.attempts.factors
    sizes = [entry.sizes for entry in kept._kept]
    assert len(sizes) == len(set(sizes))  # none was factorised twice
    assert kept._served
    assert kept.covering(tuple(n - 1 for n in sizes[-1])) is not None


def matrix(numbers: float, work: float = 1e9) -> Any:
    return SimpleNamespace(numbers=numbers, work=work)


def used(normal: Any) -> Preconditioner:
    preconditioner = Preconditioner()
    preconditioner.normal = normal
    return preconditioner


def test_factors_are_those_of_the_nearest_setting_and_given_up_where_they_do_not_serve():
    kept, one, other = KeptFactors(), matrix(1e6), matrix(1e6)
    assert kept.near((8,), np.zeros(1)).normal is None
    kept.keep((8,), np.zeros(1), used(one))
    assert kept.near((8,), np.ones(1)).normal is one
    kept.keep((8,), np.ones(1), used(other))  # the one did not serve there
    assert kept.near((8,), np.array([0.3])).normal is one
    assert kept.near((8,), np.array([0.8])).normal is other
    assert kept.near((8,), np.array([2.0])).normal is None  # as far as where it did not
    assert kept.near((9,), np.zeros(1)).normal is None
    assert kept.covering((7,)) is None  # they do not serve everywhere


def test_factors_make_room_for_others():
    kept = KeptFactors()
    for i in range(4):
        kept.keep((i,), np.zeros(1), used(matrix(1.5e7)))
    assert [entry.sizes for entry in kept._kept] == [(2,), (3,)]
    kept.keep((9,), np.zeros(1), used(matrix(1e9)))
    assert [entry.sizes for entry in kept._kept] == [(9,)]


def test_sizes_that_agreed_are_begun_with_where_others_mostly_did_not():
    agreed, need = AgreedSizes(), Needed((20, 30), (10, 10))
    agreed.remember(need, ((48, 48), (34, 34)), grown=True)
    assert agreed.near(need) == ((48, 48), (34, 34))
    assert agreed.near(Needed((19, 29), (9, 9))) == ((48, 48), (34, 34))
    assert agreed.near(Needed((30, 30), (9, 9))) is None
    for _ in range(2):
        agreed.remember(need, ((24, 30), (20, 24)), grown=False)
    assert agreed.near(need) is None  # those to begin with mostly did
    for _ in range(3):
        agreed.remember(need, ((48, 48), (34, 34)), grown=True)
    agreed.forget((48, 48))
    assert agreed.near(need) is None


def test_an_iteration_that_will_take_too_long_is_given_up():
    slow, fast = [0.9**k for k in range(10)], [0.1**k for k in range(10)]
    assert _takes_too_long(slow, 1e-16, 40)
    assert not _takes_too_long(fast, 1e-16, 40)
    assert not _takes_too_long(slow[:5], 1e-16, 40)  # too early to say


def test_norms_of_rows_without_the_rows():
    basis = TensorBasis((Axis(0.0, 1.0, False, 9), Axis(0.0, 2.0, True, 7)))
    orders, rng = Orders.closure([(2, 1), (0, 3)], 2), np.random.default_rng(0)
    slopes = rng.standard_normal((20, 2, len(orders), 3))
    term: Any = None
    points = ScatteredPoints(basis, rng.uniform(size=(20, 2)), orders, term)
    rows = points.matrix(slopes)
    np.testing.assert_allclose(points.row_norms(slopes).ravel(), np.linalg.norm(rows, axis=1))

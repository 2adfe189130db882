"""Random points that serve all steps of a training, and the values that go with them."""

import jax
import numpy as np
import pytest
from toy import Decay, of_kind, quick

import lcpinn as lc
from lcpinn.families import FAMILIES, BuckleyLeverett
from lcpinn.sampling import Sampling, draw, draws_after, fixed
from lcpinn.spec import from_plain, to_plain

FROZEN = Sampling(40, 12, 3, "frozen", 42)
KEYS = [jax.random.PRNGKey(seed) for seed in (0, 1)]


@pytest.mark.parametrize(
    "name", ["helmholtz-2d", "burgers", pytest.param("pipes", marks=pytest.mark.slow)]
)
def test_points_stay_and_lambda_is_drawn(name):
    family = lc.families.BUILT_IN[name]().plain()
    drawn_by = quick(lambda key: draw(family, FROZEN, key, "float32"))
    one, other = (jax.tree.map(np.asarray, drawn_by(key)) for key in KEYS)
    # Where a radius is a coefficient, points move with it; those of the casing do not.
    for where in ("casing",) if name == "pipes" else family.groups:
        points, again = one[where].coordinates, other[where].coordinates
        assert points.shape[0] == 3
        np.testing.assert_array_equal(points, again)
        np.testing.assert_array_equal(points, np.broadcast_to(points[0], points.shape))
    drawn = [np.concatenate([b["interior"].parameters, b["interior"].weights], -1)
             for b in (one, other)]  # fmt: skip
    assert not np.array_equal(drawn[0], drawn[1])


def test_the_seed_is_that_of_the_points():
    family = FAMILIES["helmholtz-1d"]().plain()
    another = draw(family, Sampling(40, 12, 3, "frozen", 43), KEYS[0], "float32")
    points = draw(family, FROZEN, KEYS[0], "float32")["interior"].coordinates
    assert not np.array_equal(another["interior"].coordinates, points)
    np.testing.assert_array_equal(fixed(family, FROZEN, "float32")["interior"].coordinates, points)


def test_the_order_of_the_draws_is_that_of_the_authors():
    """All of one coordinate, then all of the other, faces, and what comes after them."""
    family = FAMILIES["burgers"]().plain()
    rule = Sampling(2000, 200, 4, "frozen", 42, columns=("x", "t"))
    batch, rng = draw(family, rule, KEYS[0], "float32"), np.random.default_rng(42)
    x, t = rng.uniform(-1, 1, 2000), rng.uniform(0, 1, 2000)
    sides, start = rng.uniform(0, 1, 200), rng.uniform(-1, 1, 200)
    close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6)
    close(batch["interior"].coordinates[2], np.stack([t, x], -1))
    close(batch["x=-1 x=1"].coordinates[0, :, 0], sides)
    close(batch["t=0"].coordinates[0, :, 1], start)
    assert np.sum((abs(x) < 0.01) & (t > 0.4)) == 14  # points in the front
    assert draws_after(family, rule).integers(1 << 30) == rng.integers(1 << 30)


def test_a_frozen_rule_is_plain_data():
    rule = Sampling(2000, 200, 4, "frozen", 42, columns=("x", "t"))
    assert from_plain(to_plain(rule)) == rule
    old = {k: v for k, v in to_plain(Sampling()).items() if k != "columns"}
    assert from_plain(old) == Sampling()  # as files of earlier versions have it


def test_columns_that_are_no_coordinates_are_refused():
    with pytest.raises(lc.LcpinnError, match=r"columns are x, t, but the coordinates of decay are"):
        draw(Decay(), Sampling(4, 2, 1, "frozen", columns=("x", "t")), KEYS[0], "float32")


# -- Values of the reference ---------------------------------------------------------------------

NUMBERS = {
    "helmholtz-1d": 200, "helmholtz-2d": 500, "helmholtz-3d": 600, "schrodinger-1d": 200,
    "burgers": 200, "buckley-leverett": 200,
}  # fmt: skip


def observed(protocol, family):
    return of_kind(lc.Data, lc.protocol.by_name(protocol, family).view(family).data)


@pytest.mark.parametrize("name", FAMILIES)
def test_data_are_the_references_values_where_errors_are_measured(name):
    family = FAMILIES[name]()
    assert lc.protocol.paper(family).view(family).data is None
    data = observed("paper-data", family)
    assert len(data) == NUMBERS[name]
    columns = data.columns
    points = np.stack([columns[c] for c in family.domain.names], -1)
    lam = np.stack([columns[c] for c in family.parameters.names] or [np.zeros(len(data))], -1)
    some = np.arange(0, len(data), 37)
    if name == "buckley-leverett":
        truth = of_kind(BuckleyLeverett, family).paper_reference(*points[some].T)
    else:
        settings = lam[:, : family.parameters.dim]
        found = [family.truth(points[i : i + 1], settings[i]) for i in some]
        truth = [of_kind(np.ndarray, value)[0, 0] for value in found]
    np.testing.assert_allclose(columns[family.outputs[0]][some], truth, atol=1e-12)
    if not family.parameters.dim:
        times, counts = np.unique(columns["t"], return_counts=True)
        assert set(counts) == {50 if name == "burgers" else 40}
        assert times[-1] == family.domain.ranges["t"][1]


def test_the_data_of_burgers_leave_the_front_alone():
    """The very set of the authors: gaps around x = 0 at three of its four times."""
    family = FAMILIES["burgers"]()
    columns = observed("paper-data", family).columns
    for time, low, high in ((0.5, -0.012, 0.06), (0.75, -0.012, 0.054), (1.0, -0.016, 0.046)):
        x = columns["x"][columns["t"] == time]
        assert not np.any((x > low + 1e-3) & (x < high))


@pytest.mark.parametrize(("alpha", "num"), [(0.5, 40), (5.0, None), (10.0, 40)])
def test_a_method_for_one_setting_has_the_data_of_that_one(alpha, num):
    family = FAMILIES["schrodinger-1d"]()
    made = lc.protocol.by_name("sa-pinn-data", family, at={"alpha": alpha})
    data = made.view(family).data
    assert (None if data is None else len(data)) == num
    assert data is None or "alpha" not in data.columns


def test_data_of_loss_weights_are_there_at_each_of_them():
    family = FAMILIES["burgers"]()
    made = lc.protocol.by_name("paper-data", family)
    batch = draw(made.view(family), of_kind(Sampling, made.sampling), KEYS[0], "float32")
    assert batch["data"].coordinates.shape == (4, 200, 2)
    np.testing.assert_array_equal(batch["data"].weights, batch["interior"].weights)
    assert float(batch["data"].quadrature.sum()) == pytest.approx(1)


def test_other_families_have_no_such_data():
    with pytest.raises(lc.LcpinnError, match=r"values of its own families, .* not of decay"):
        lc.protocol.by_name("paper-data", Decay())

"""DeepONet and FNO against direct computations, and supervised training from start to end."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Both, Coupled, Oscillator, Poisson, double, of_kind, quick

import lcpinn as lc
from lcpinn.families import Burgers, Helmholtz
from lcpinn.jet import Orders, Series, factorial
from lcpinn.network import FNO, MLP, DeepONet
from lcpinn.network.fno import convolve, spline_matrix
from lcpinn.optimiser import Supervised
from lcpinn.optimiser.supervised import initial_values, random_conditions, relative_error
from lcpinn.reference import burgers, heat_kernel, solve_burgers
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling, fixed
from lcpinn.spec import from_plain, to_plain
from lcpinn.training import make_setup
from lcpinn.weighting import Conditional


def grid(num):
    return -1 + 2 * np.arange(num) / num


def nested(function, index):
    """A partial derivative by differentiating again and again."""
    for axis, order in enumerate(index):
        for _ in range(order):
            function = functools.partial(lambda f, i, p: jax.jacfwd(f)(p)[..., i], function, axis)
    return function


def same_bits(one, other):
    a, b = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True)
    )


# -- DeepONet ------------------------------------------------------------------------------------

SMALL = DeepONet(branch=(5, 4), trunk=(6, 3, 4), latent=3)


def deeponet(problem, params, point, parameters, weights=()):
    """The formula at one point, output by output, without Taylor series."""
    family, network = problem.family, problem.network
    activation = {"tanh": jnp.tanh, "sine": jnp.sin}[network.activation]

    def chain(layers, h):
        for layer in layers[:-1]:
            h = activation(layer["w"].T @ h + layer["b"])
        return layers[-1]["w"].T @ h + layers[-1]["b"]

    lam = family.parameters.normalise(parameters)
    if family.weights is not None:
        lam = jnp.concatenate([lam, 2 * jnp.asarray(weights) - 1])
    amplitudes = chain(params["branch"], lam)
    modes = chain(params["trunk"], family.domain.normalise(point))
    n = network.latent
    blocks = [slice(o * n, o * n + n) for o in range(len(family.outputs))]
    return jnp.stack([amplitudes[b] @ modes[b] for b in blocks]) + params["bias"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "wanted", "activation"),
    [
        (Coupled(), [(1, 2), (2, 0)], "tanh"),  # two outputs, two coefficients
        (Both(), [(2,)], "tanh"),  # loss weights behind the coefficient
        (Oscillator(), [(3,)], "sine"),
    ],
)
def test_a_deeponet_equals_its_formula_with_nested_derivatives(x64, family, wanted, activation):
    network = dataclasses.replace(SMALL, activation=activation)
    problem, params = double(family, network)
    orders = Orders.closure(wanted, family.domain.dim)
    points = fixed(family, Sampling(4, 2, 3, "gauss"), jnp.float64)["interior"]
    points = points._replace(parameters=jnp.asarray(family.parameters.sobol(3, 1)))

    def at(point, lam, weights):
        value = lambda p: deeponet(problem, params, p, lam, weights)
        return jnp.stack([nested(value, a)(point) / factorial(a) for a in orders.indices])

    over = quick(jax.vmap(jax.vmap(at, (0, None, None), 1), (0, 0, 0), 1))
    expected = over(points.coordinates, points.parameters, points.weights)
    got = quick(lambda p: problem.outputs(params, p, orders))(points)
    assert got.shape == expected.shape == (len(orders), 3, 4, len(family.outputs))
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12)
    if family.weights is not None:
        moved = points._replace(weights=points.weights[:, ::-1])
        assert np.abs(quick(lambda p: problem.outputs(params, p, orders))(moved) - got).max() > 1e-3


def test_a_deeponet_has_the_parameters_of_two_networks():
    params = jax.eval_shape(Problem(Helmholtz(1), DeepONet(), jnp.float32).init, jax.random.key(0))
    one = (1 * 128 + 128) + 4 * (128 * 128 + 128)  # four hidden layers and the latent one
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 2 * one + 1
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {np.dtype("float32")}
    params = jax.eval_shape(Problem(Coupled(), SMALL, jnp.float32).init, jax.random.key(0))
    assert params["branch"][-1]["w"].shape == params["trunk"][-1]["w"].shape == (4, 2 * 3)


def test_a_deeponet_without_coefficients_is_refused():
    with pytest.raises(lc.LcpinnError, match="a DeepONet needs coefficients for its branch; this"):
        Problem(Poisson(), SMALL, jnp.float32).init(jax.random.key(0))


# -- FNO: the operator ---------------------------------------------------------------------------

TINY = FNO(width=8, modes=8, blocks=2, times=11, projection=16, grid=64)


def make(network=TINY, seed=0, dtype=jnp.float64):
    """Parameters of a start, biases and condition included."""
    params = network.init(jax.random.key(seed), 2, 1, {"weights": 4}, dtype)
    bias = lambda a: a + 0.1 * jax.random.normal(jax.random.key(1), a.shape, dtype)
    params = jax.tree.map(lambda a: bias(a) if a.ndim == 1 else a, params)
    # Fourier matrices start tiny, so that a test would hardly see them.
    for block in params["blocks"]:
        block["real"], block["imaginary"] = 8 * block["real"], -8 * block["imaginary"]
    return params | {"condition": jnp.asarray(-np.sin(np.pi * grid(network.grid)), dtype)}


@pytest.mark.parametrize(("num", "modes"), [(12, 3), (9, 4), (8, 4)])
def test_the_spectral_convolution_equals_dense_sums(x64, num, modes):
    rng = np.random.default_rng(0)
    v, real, imaginary = (rng.normal(size=s) for s in ((5, num, 2), (modes, 2, 3), (modes, 2, 3)))
    wave = np.exp(-2j * np.pi * np.outer(np.arange(modes), np.arange(num)) / num)
    product = np.einsum("kj,bji,kio->bko", wave, v, real + 1j * imaginary)
    product[:, 1:] *= 2  # with the conjugate of each
    expected = np.real(np.einsum("kj,bko->bjo", wave.conj(), product)) / num
    found = convolve(*map(jnp.asarray, (real, imaginary, v)))
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_the_convolution_of_a_function_does_not_depend_on_its_grid(x64):
    """Exactly, for a function whose modes both grids resolve."""
    rng = np.random.default_rng(1)
    real, imaginary = jnp.asarray(rng.normal(size=(2, 6, 2, 2)))
    waves = lambda x: np.stack([np.sin(np.pi * x) + np.cos(5 * np.pi * x), 1 + x * 0], axis=-1)
    coarse, fine = (convolve(real, imaginary, jnp.asarray(waves(grid(n)))) for n in (16, 48))
    np.testing.assert_allclose(fine[::3], coarse, atol=1e-12)


@pytest.mark.slow
def test_the_operator_does_not_depend_on_its_grid(x64):
    """To rounding where all is smooth. The input x jumps at the ends, which costs O(1/n)."""
    params = make()  # with Fourier matrices far from small
    smooth = params | {"lift": params["lift"] | {"w": params["lift"]["w"].at[1].set(0)}}
    run = quick(TINY.operator)

    def gap(params, num):
        coarse, fine = (run(params, jnp.asarray(np.sin(np.pi * grid(n)))) for n in (num, 2 * num))
        return np.linalg.norm(fine[:, ::2] - coarse) / np.linalg.norm(coarse)

    assert gap(smooth, 64) < 1e-10
    untrained = TINY.init(jax.random.key(0), 2, 1, {}, jnp.float64)
    gaps = [gap(untrained, num) for num in (64, 128, 256)]
    assert gaps[-1] < 1e-3
    np.testing.assert_allclose(np.array(gaps[:-1]) / np.array(gaps[1:]), 2, rtol=0.1)


@pytest.mark.slow
def test_the_operator_takes_batches_and_any_fine_grid(x64):
    params, rng = make(), np.random.default_rng(0)
    initial = jnp.asarray(rng.normal(size=(2, 3, 17)))
    values = quick(TINY.operator)(params, initial)
    assert values.shape == (2, 3, 11, 17)
    np.testing.assert_allclose(values[1, 2], TINY.operator(params, initial[1, 2]), atol=1e-12)
    with pytest.raises(lc.LcpinnError, match="8 modes needs a grid of at least 16 points, not 15"):
        TINY.operator(params, initial[..., :15])


def test_an_fno_is_as_large_as_published_and_real():
    params = jax.eval_shape(lambda k: FNO().init(k, 2, 1, {}, jnp.float32), jax.random.key(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    assert sum(b["real"].size for b in params["blocks"]) == 4 * 64**3  # 1.05 million, complex
    dense = (2 * 64 + 64) + 4 * (64 * 64 + 64) + (64 * 128 + 128) + (128 * 101 + 101)
    assert count == 2 * 4 * 64**3 + dense + 256
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {np.dtype("float32")}
    assert from_plain(to_plain(FNO(width=3))) == FNO(width=3)


# -- FNO: as a solution --------------------------------------------------------------------------


class Known(FNO):
    """In place of the network, a function that both interpolants reproduce exactly."""

    def operator(self, params, initial):
        t = jnp.linspace(0, 1, self.times)[:, None]
        return self.exact(t, grid(initial.shape[-1]))

    @staticmethod
    def exact(t, x):
        return (t**3 - 2 * t) * jnp.sin(3 * jnp.pi * x) + jnp.cos(jnp.pi * x + 1) - t**2


@pytest.mark.slow
@pytest.mark.parametrize("num", [64, 65])
def test_interpolation_is_exact_for_trigonometric_polynomials_and_cubics(x64, num):
    """With all derivatives, third ones of t included, at and off the grid."""
    network, orders = Known(times=7), Orders.closure([(3, 1), (1, 2)], 2)
    points = np.random.default_rng(0).uniform([0, -1], [1, 1], (40, 2))
    points[:4] = [[0, -1], [1, 1], [0.5, 0], [1 / 3, -0.5]]
    params = {"condition": jnp.zeros(num)}
    apply = quick(lambda c: network.apply(params, Series(orders, c), {}).coefficients)
    got = apply(_coordinates(points, orders))
    for i, index in enumerate(orders.indices):
        exact = nested(lambda p: Known.exact(p[0], p[1]), index)
        expected = quick(jax.vmap(exact))(jnp.asarray(points)) / factorial(index)
        np.testing.assert_allclose(got[i, :, 0], expected, atol=1e-9, rtol=1e-9)


def _coordinates(points, orders):
    """(t, x) scaled to [-1, 1], as Taylor coefficients (s, n, 2)."""
    first = {(0, 0): points * [2, 1] - [1, 0], (1, 0): [2.0, 0.0], (0, 1): [0.0, 1.0]}
    return jnp.stack([jnp.broadcast_to(jnp.asarray(first.get(a, [0.0, 0.0])), points.shape)
                      for a in orders.indices])  # fmt: skip


def test_splines_pass_through_their_values():
    for num in (4, 5, 30):
        values = np.random.default_rng(num).normal(size=num)
        knots = spline_matrix(num) @ values
        np.testing.assert_allclose((knots[:-2] + 4 * knots[1:-1] + knots[2:]) / 6, values)


@pytest.mark.slow
def test_apply_agrees_with_the_operator_and_its_derivatives_with_differences(x64):
    problem, params = Problem(Burgers().plain(), TINY, jnp.float64), make()
    at = fixed(problem.family, Sampling(4, 4, 1, "gauss"), jnp.float64)["interior"]

    @functools.partial(quick, static_argnums=1)
    def series(points, orders):
        here = at._replace(coordinates=points[None])
        return problem.outputs(params, here, orders)[:, 0, :, 0]

    zero = Orders.closure([], 2)
    mesh = np.stack(np.meshgrid(np.linspace(0, 1, 11), grid(64), indexing="ij"), axis=-1)
    values = series(jnp.asarray(mesh.reshape(-1, 2)), zero)[0].reshape(11, 64)
    np.testing.assert_allclose(values, TINY.operator(params, params["condition"]), atol=1e-12)
    assert np.abs(values).max() > 0.1

    orders = Orders.closure([(1, 1), (0, 2)], 2)
    points = np.random.default_rng(0).uniform([0.01, -1], [0.99, 1], (30, 2))
    got = dict(zip(orders.indices, series(jnp.asarray(points), orders), strict=True))
    h = 1e-4
    u = lambda dt, dx: np.asarray(series(jnp.asarray(points + h * np.array([dt, dx])), zero)[0])
    scale = np.abs(got[0, 2]).max()
    np.testing.assert_array_equal(got[0, 0], u(0, 0))
    np.testing.assert_allclose(got[1, 0], (u(1, 0) - u(-1, 0)) / (2 * h), atol=1e-5 * scale)
    np.testing.assert_allclose(got[0, 1], (u(0, 1) - u(0, -1)) / (2 * h), atol=1e-4 * scale)
    mixed = (u(1, 1) - u(1, -1) - u(-1, 1) + u(-1, -1)) / (4 * h * h)
    np.testing.assert_allclose(got[1, 1], mixed, atol=1e-3 * scale)
    np.testing.assert_allclose(
        2 * got[0, 2], (u(0, 1) - 2 * u(0, 0) + u(0, -1)) / h**2, atol=1e-3 * scale
    )


@pytest.mark.slow
def test_single_precision_stays_single_and_the_condition_is_not_trained():
    family = Burgers().plain()
    problem, params = Problem(family, TINY, jnp.float32), make(dtype=jnp.float32)
    batch = fixed(family, Sampling(4, 4, 2, "gauss"), jnp.float32)
    weights = {name: jnp.ones((), jnp.float32) for name in family.terms}
    gradient = quick(jax.grad(problem.loss))(params, batch, weights)
    assert {leaf.dtype for leaf in jax.tree.leaves(gradient)} == {np.dtype("float32")}
    np.testing.assert_array_equal(gradient["condition"], 0)
    assert np.abs(gradient["blocks"][0]["real"]).max() > 0


@pytest.mark.parametrize("family", [Burgers(), Coupled(), Helmholtz(2), Helmholtz(1)])
def test_an_fno_is_for_plain_t_and_x(family):
    with pytest.raises(lc.LcpinnError, match=r"^an FNO is for one output over plain \(t, x\)"):
        Problem(family, TINY, jnp.float32).init(jax.random.key(0))


def test_an_fno_that_cannot_be_is_refused():
    for network, reason in [
        (dataclasses.replace(TINY, times=3), "at least 4 instants"),
        (dataclasses.replace(TINY, grid=15), "at least 16 points, not 15"),
    ]:
        with pytest.raises(lc.LcpinnError, match=reason):
            network.init(jax.random.key(0), 2, 1, {}, jnp.float32)


# -- Solver data ---------------------------------------------------------------------------------


def test_random_conditions_are_odd_bounded_and_of_six_modes():
    values = random_conditions(200, 64, 6, seed=0)
    assert values.shape == (200, 64)
    assert 0.999 < np.abs(values).max() <= 1
    np.testing.assert_allclose(values[:, 1:], -values[:, :0:-1], atol=1e-14)
    modes = np.abs(np.fft.rfft(values))
    np.testing.assert_allclose(modes[:, [0, *range(7, 33)]], 0, atol=1e-12)
    assert modes[:, 1].mean() > 3 * modes[:, 6].mean()  # decaying
    np.testing.assert_array_equal(values[:8], random_conditions(8, 64, 6, seed=0))
    np.testing.assert_allclose(  # the same functions on any grid
        random_conditions(8, 192, 6, seed=0)[:, ::3], values[:8], atol=1e-14
    )


@pytest.mark.slow
def test_cole_hopf_sums_agree_with_quadrature_and_radau():
    times = np.linspace(0, 1, 6)
    x = grid(64)
    sine = heat_kernel.solve(-np.sin(np.pi * x), times)
    np.testing.assert_allclose(sine, burgers(times[:, None], x), atol=1e-13)
    initial = random_conditions(3, 64, 6, seed=4)
    expected = np.moveaxis(solve_burgers(initial, times), 0, 1)
    np.testing.assert_allclose(heat_kernel.solve(initial, times), expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "speed"), [(63, 1.0), (64, 5.0)])
def test_cole_hopf_sums_for_other_grids_speeds_and_shapes(count, speed):
    """Waves that run around the circle, and no symmetry."""
    x, times = grid(count), np.array([0.002, 0.6, 0.0])
    one = speed * (0.6 * np.cos(np.pi * x) + 0.4 * np.sin(2 * np.pi * x + 1))
    got = heat_kernel.solve(np.stack([one, -one])[:, None], times, nu=0.05)
    assert got.shape == (2, 1, 3, count)
    expected = solve_burgers(one, times, nu=0.05, num_points=16 * count, rtol=1e-9)
    np.testing.assert_allclose(got[0, 0], expected, atol=2e-7)


def test_what_the_sums_cannot_do_is_refused():
    x = grid(32)
    with pytest.raises(ValueError, match="have a mean"):
        heat_kernel.solve(1 + np.sin(np.pi * x), [0.5])
    with pytest.raises(ValueError, match="too small"):
        heat_kernel.solve(np.sin(np.pi * x), [0.5], nu=1e-4)
    with pytest.raises(ValueError, match="non-negative"):
        heat_kernel.solve(np.sin(np.pi * x), [-0.5])


def test_solutions_are_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("LCPINN_CACHE", str(tmp_path))
    initial, times = random_conditions(2, 32, 6, seed=0), np.linspace(0, 1, 3)
    first = Burgers().solutions(initial, times)
    assert first.shape == (2, 3, 32)
    (file,) = tmp_path.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(heat_kernel, "solve", None)  # it is read, not computed
        np.testing.assert_array_equal(Burgers().solutions(initial, times), first)
    other = Burgers(viscosity=0.05).solutions(initial, times)
    Burgers().solutions(initial[::-1], times)
    assert np.abs(other - first).max() > 1e-2
    assert len({file, *tmp_path.iterdir()}) == 3


# -- Supervised training -------------------------------------------------------------------------


class Gentle(Burgers):
    """Burgers with a viscosity that small networks can follow."""

    evaluation = lc.Evaluation(points={"t": 11, "x": 32}, shots=2)

    def __init__(self, viscosity: float = 0.05):
        self.viscosity = viscosity


def protocol(network=TINY, **changes):
    phase = Supervised(epochs=60, batch=4, samples=9, rate=5e-3, block=15)
    return lc.Protocol(
        name="test",
        network=network,
        weighting=Conditional(),
        phases=(dataclasses.replace(phase, **changes),),
        sampling=Sampling(interior=4, face=2, num_lambda=2),
        held_out=Sampling(interior=4, face=2, num_lambda=2, rule="sobol"),
        plain=True,
    )


def built(**changes):
    """A stage, its first state, and the phase."""
    made = protocol(**changes)
    setup = make_setup(Gentle().plain(), made)
    stage = made.phases[0].build(setup)
    params = setup.problem.drawing(once=True)(jax.random.PRNGKey(0))
    state = stage.init(params, jax.random.PRNGKey(1))
    return stage, state, of_kind(Supervised, made.phases[0])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("fno") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LCPINN_CACHE", str(out.parent / "cache"))
        return lc.train(Gentle(), protocol(), seed=2, out=out, progress=False), out


@pytest.mark.slow
def test_training_lowers_the_relative_error(trained):
    solution, out = trained
    lines = (out / "metrics.jsonl").read_text().splitlines()
    losses = [float(line.split('"loss": ')[1].rstrip("}")) for line in lines]
    assert len(losses) == 4  # one line for every block
    assert losses[-1] < 0.5 * losses[0]
    assert solution.run["training"]["stopped"] == ["phase 1, Supervised: 60 epochs done"]
    assert solution.evaluate()["mean"] < 0.5  # the zero solution has an error of one


@pytest.mark.slow
def test_a_loaded_model_answers_the_same(trained):
    solution, out = trained
    back = lc.load(out, Gentle())
    assert same_bits(back.params, solution.params)
    t, x = np.linspace(0, 1, 7)[:, None], np.linspace(-1, 1, 9)
    np.testing.assert_array_equal(back(t=t, x=x), solution(t=t, x=x))


@pytest.mark.slow
def test_it_answers_for_the_familys_own_condition(trained):
    condition = trained[0].params["condition"]
    np.testing.assert_allclose(condition, -np.sin(np.pi * grid(64)), atol=1e-6)


@pytest.mark.slow
def test_trained_on_one_grid_it_answers_on_a_finer_one(trained):
    params, times = trained[0].params, np.linspace(0, 1, 11)
    errors = []
    for num in (64, 128, 250):
        initial = random_conditions(6, num, 6, seed=0)
        truth = heat_kernel.solve(initial, times, 0.05)
        values = quick(TINY.operator)(params, jnp.asarray(initial, jnp.float32))
        errors.append(float(relative_error(values, jnp.asarray(truth)).mean()))
    assert errors[0] < 0.4
    np.testing.assert_allclose(errors[1:], errors[0], rtol=0.15)


@pytest.mark.slow
def test_an_interrupted_run_ends_as_if_nothing_had_happened(trained, tmp_path, monkeypatch):
    solution, out = trained
    build = Supervised.build

    def interrupted(self, setup):
        stage = build(self, setup)

        def advance(state):
            if int(state.step) >= 60:
                raise KeyboardInterrupt
            return stage.advance(state)

        return stage._replace(advance=advance)

    monkeypatch.setenv("LCPINN_CACHE", str(tmp_path / "cache"))
    run = functools.partial(
        lc.train,
        Gentle(),
        protocol(),
        seed=2,
        out=tmp_path / "run",
        progress=False,
        report=False,
    )
    with monkeypatch.context() as patch:
        patch.setattr(Supervised, "build", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(checkpoint_every=0.0)
    resumed = run(resume=True)
    assert same_bits(resumed.params, solution.params)
    metrics = [(p / "metrics.jsonl").read_bytes() for p in (out, tmp_path / "run")]
    assert metrics[0] == metrics[1]


@pytest.mark.slow
def test_a_step_is_adam_with_l2_at_a_rate_that_halves():
    """Two epochs of one batch each, by hand."""
    stage, state, phase = built(
        epochs=5, samples=3, batch=8, block=1, weight_decay=0.5, network=TINY
    )
    assert stage.total == 5
    initial, truth = phase.data(Gentle().plain(), TINY, jnp.float32)

    def loss(params):
        values = TINY.operator(params, initial)
        ratios = [
            jnp.linalg.norm(v - u) / jnp.linalg.norm(u) for v, u in zip(values, truth, strict=True)
        ]
        return sum(ratios) / 3

    params, slopes = jax.tree.map(np.asarray, state.params), quick(jax.grad(loss))
    first = second = jax.tree.map(np.zeros_like, params)
    for step, rate in enumerate([5e-3, 2.5e-3], 1):
        gradient = jax.tree.map(lambda g, p: np.asarray(g) + 0.5 * p, slopes(params), params)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
        params = jax.tree.map(
            lambda p, m, v, n=step, r=rate: p
            - r * (m / (1 - 0.9**n)) / (np.sqrt(v / (1 - 0.999**n)) + 1e-8),
            params, first, second,
        )  # fmt: skip
        params["condition"] = state.params["condition"]
        state, _ = stage.advance(state)
    both = (jax.tree.leaves(tree) for tree in (state.params, params))
    for got, expected in zip(*both, strict=True):
        # A gradient near zero may round to either sign, which is a whole step of Adam.
        close = np.isclose(got, expected, rtol=1e-3, atol=1e-5)
        assert close.mean() > 0.99


@pytest.mark.slow
def test_every_epoch_goes_through_the_set_in_its_own_order():
    """At a rate of zero, the mean over the 8 members of an epoch tells which one was left out."""
    stage, state, phase = built(epochs=4, samples=9, batch=4, block=1, rate=0.0)
    assert stage.total == 8
    initial, truth = phase.data(Gentle().plain(), TINY, jnp.float32)
    errors = np.asarray(relative_error(quick(TINY.operator)(state.params, initial), truth))
    left_out = []
    for epoch in range(4):
        assert int(state.step) == 2 * epoch
        assert stage.stopped(state, {}) is None
        state, info = stage.advance(state)
        gaps = np.abs((errors.sum() - errors) / 8 - float(info["loss"]))
        assert gaps.min() < 1e-6
        left_out.append(int(gaps.argmin()))
    assert str(stage.stopped(state, info)) == "4 epochs done"
    assert len(set(left_out)) > 1


@pytest.mark.slow
def test_a_loss_that_is_not_finite_is_told():
    stage, state, _ = built(epochs=2, block=1)
    state.params["lift"]["w"] = jnp.full((2, 8), jnp.nan, jnp.float32)
    with pytest.raises(lc.LcpinnError, match="the supervised loss became NaN or infinite"):
        stage.advance(state)


class Scaled(lc.Family):
    """Its initial condition has a factor, and a domain of its own."""

    domain = lc.Box(t=(1.0, 3.0), x=(0.0, 4.0))

    @lc.interior
    def equation(self, u, u_t):
        return u_t - u

    @lc.on(t=1.0)
    def initial(self, u, u_x, t, x):
        return 10 * (u - t * x * (4 - x)) + u_x


def test_the_initial_condition_is_read_off_its_term():
    x = np.arange(8) / 2
    np.testing.assert_allclose(initial_values(Scaled(), 8, jnp.float32), x * (4 - x), atol=1e-5)


def test_families_without_data_are_refused():
    attributes = {"solutions": lambda self, initial, times: initial}
    wide = type("Wide", (Coupled,), attributes)()
    no_start = type("NoStart", (Gentle,), {"initial": lc.interior(lambda self, u_x: u_x)})()
    wrong = type("Wrong", (Gentle,), attributes)()
    for family, network, reason in [
        (Helmholtz(1), TINY, r"fno needs solver data: helmholtz-1d has no solutions\(initial"),
        (wide, TINY, r"fno is for \(t, x\) without coefficients; wide has t, x, a, b"),
        (no_start, TINY, "fno needs an initial condition: no-start has no term 'initial'"),
        (wrong, TINY, r"of wrong returned the shape \(9, 64\), not \(members, times, points\)"),
        (Gentle(), MLP(), "trains an operator network such as FNO, not MLP"),
        (Burgers(viscosity=1e-5), TINY, "no solver data for burgers: nu = 1e-05 is too small"),
    ]:
        made = protocol(network=network)
        with pytest.raises(lc.LcpinnError, match=reason):
            made.phases[0].build(make_setup(family.plain(), made))

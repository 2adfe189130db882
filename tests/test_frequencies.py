"""Frequencies by ESPRIT: of what is known in closed form."""

import numpy as np
import pytest

from lcpinn.frequencies import Modes, exponentials, lines_of, modes_of, share_on

X = np.linspace(-1, 1, 96, endpoint=False) + 1 / 96


def test_frequencies_that_a_window_of_this_length_does_not_tell_apart():
    """Half a period, and one and a half; both decay."""
    line = np.exp(-0.3 * X) * (np.cos(1.6 * X + 0.2) + 0.3 * np.sin(4.7 * X))
    rate, _ = exponentials(line[None])
    assert np.sort(np.imag(rate)) == pytest.approx([-4.7, -1.6, 1.6, 4.7], abs=1e-3)
    assert np.real(rate) == pytest.approx(-0.3, abs=1e-3)


def test_amplitudes_are_those_of_the_parts():
    modes = modes_of((np.cos(20 * X) + 0.5 * np.cos(7 * X) + 0.01 * np.cos(35 * X))[None, None])
    assert np.sort(np.abs(modes.frequencies[0][:, 0])) == pytest.approx([7, 7, 20, 20], abs=1e-3)
    near = modes.at(0, np.array([[20.0], [-20.3], [7.0], [12.0]]))
    assert near == pytest.approx([1.0, 1.0, 0.5, 0.0], rel=1e-2)


def test_what_decays_has_no_frequency():
    modes = modes_of((np.exp(-4 * X) + 0.2 * X)[None, None])
    assert modes.frequencies[0] == pytest.approx(np.zeros_like(modes.frequencies[0]), abs=0.3)


def test_a_standing_wave_is_four_that_travel():
    t, x = X[:, None], X[None, ::2]
    wave = np.cos(5 * t) * np.sin(3 * x) + 0.4 * np.cos(15 * t) * np.sin(9 * x)
    modes = modes_of(np.stack([wave, 2 * wave])[:, None])
    for i in range(2):
        pairs = {tuple(np.round(k).astype(int)) for k in modes.frequencies[i]}
        signs = [(a, b) for a in (-1, 1) for b in (-1, 1)]
        assert pairs == {(a * m * 5, b * m * 3) for m in (1, 3) for a, b in signs}
    assert modes.at(0, np.array([[5.0, 3.0], [15.0, -9.0]])) == pytest.approx([1.0, 0.4], rel=0.05)


def test_nothing_has_no_modes():
    modes = modes_of(np.zeros((1, 1, 48)))
    assert modes.at(0, np.array([[3.0]])) == [0.0]


def test_a_slow_wave_whose_half_rounding_puts_on_the_other_side_has_no_line():
    modes = Modes([np.array([[-1.0]])] * 5, [np.ones(1)] * 5)
    lines = lines_of(modes, np.linspace(-1, 1, 5)[:, None])
    assert lines.middle.shape == (0, 1)
    assert lines.slope.shape == (0, 1, 1)
    assert not lines.moves(1.0)


def test_a_line_is_drawn_through_all_settings_that_have_it():
    """A second wave comes and goes: it is none that functions have in common."""
    place = np.linspace(-1, 1, 5)[:, None]
    own = [np.array([[20 + 5 * c + d], [-20 - 5 * c - d]]) for c, d in zip(
        place[:, 0], [0.0, 0.3, 0.0, -0.3, 0.0], strict=True)]  # fmt: skip
    own[2] = np.concatenate([own[2], [[3.0], [-3.0]]])
    lines = lines_of(Modes(own, [np.ones(len(k)) for k in own]), place)
    assert lines.middle == pytest.approx(np.array([[20.0]]))
    assert lines.slope == pytest.approx(np.array([[[5 - 0.12]]]))  # the gaps' own slope


def test_the_share_that_lines_account_for_is_that_of_the_setting_with_the_least():
    place = np.linspace(-1, 1, 5)[:, None]
    own = [np.array([[20 + 5 * c], [-20 - 5 * c], [3.0]]) for c in place[:, 0]]
    sizes = [np.array([0.4, 0.4, 0.3 if i else 1.0]) for i in range(5)]
    modes = Modes(own, sizes)
    line = lines_of(modes, place).only(np.array([0]))
    assert line.middle == pytest.approx(np.array([[20.0]]))
    assert share_on(line, modes, place) == pytest.approx(0.32 / 1.32)
    assert share_on(line.only(np.zeros(1, bool)), modes, place) == 0.0

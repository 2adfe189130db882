"""The figures of the study, in the style of the library's other pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lcpinn.evaluation import grid_values
from lcpinn.families import FAMILIES, built
from lcpinn.plot.style import (
    COLOURS,
    DOUBLE,
    MARKERS,
    SINGLE,
    colour_bar,
    image,
    in_style,
    line,
    linear_scale,
    log_scale,
    logarithmic,
    setting,
    symbol,
    tall,
)
from lcpinn.study.measure import unpacked
from lcpinn.study.plan import OURS, methods, with_data
from lcpinn.study.report.cells import Cell, Record, Study, paper_at, paper_cell
from lcpinn.study.report.markdown import METHODS
from lcpinn.study.report.tables import PER
from lcpinn.study.run import BY_CODE, FIRST, REVISED

SETTINGS = (1, 3, 10, 30, 100)  # K of the frontier
ONE_FOR_ALL = ("paper", "fast", "pi-deeponet", "fno")  # methods whose network is made once


ORDER = list(METHODS)  # a method looks the same in every figure


def _look(method: str) -> dict[str, Any]:
    """Colour and marker; with data they are the same, and the marker is half full."""
    which = ORDER.index(method.removesuffix("-data"))
    colour, marker = (*COLOURS, "black", "0.5")[which], (*MARKERS, "X", "*")[which]
    fill = {"fillstyle": "left"} if method.endswith("-data") else {}
    return {"color": colour, "marker": marker, **fill}


def _label(method: str, settings: str = BY_CODE) -> str:
    """A method's name; runs of the first study are never shown as if they were the others."""
    earlier = settings == FIRST and method in REVISED
    return METHODS[method].replace("`", "") + (" (first study)" if earlier else "")


def _label_of(record: Record) -> str:
    return _label(record["protocol"], record["run"].get("settings", FIRST))


def _every_method(family: str) -> list[str]:
    """Those of the family's table, each followed by the same with data."""
    both = [(name, with_data(name)) for name in methods(family)]
    return [name for pair in both for name in pair if name is not None]


@in_style
def frontier(study: Study) -> Figure | None:
    """Error against the time that K settings take: one network stays where it is."""
    families = [
        f for f in ("helmholtz-1d", "burgers") if any(study.cell(f, p) is not None for p in OURS)
    ]
    if not families:
        return None
    figure, shown = Figure(figsize=(DOUBLE, 3.9), layout="constrained"), {}
    for axis, family in zip(
        np.atleast_1d(figure.subplots(1, len(families))), families, strict=True
    ):
        for method in _every_method(family):
            settings = study.settings(family, method)
            cell = study.answered(family, method, settings)
            if cell is None or not cell.seconds:
                continue
            alone = method.startswith(ONE_FOR_ALL)
            times = [cell.seconds * (1 if alone else k) for k in SETTINGS]
            dashes = "--" if method.endswith("-data") else "-"
            look = {"ls": dashes, **_look(method)}
            (shown[_label(method, settings)],) = axis.plot(times, [cell.mean] * len(times), **look)
        axis.set(xscale="log", xlabel="seconds of training for K settings", title=family)
        logarithmic(axis)
        axis.set_ylabel("relative $L^2$ error")
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=4, fontsize=7)
    return figure


@in_style
def per_parameter(study: Study, family: str) -> Figure | None:
    """The error at each coefficient with its deviation over seeds, and the paper's beside it."""
    parameter = PER[family]
    if not any(study.cell(family, p) for p in OURS):
        return None
    figure = Figure(figsize=(DOUBLE, 3.6), layout="constrained")
    axis = figure.subplots()
    for method in _every_method(family):
        settings = study.settings(family, method)
        along = study.measures(family, method, "along", settings=settings)
        if along:
            _band(axis, along, parameter, method, settings)
        else:
            _bars(axis, study, family, method, settings)
    _papers(axis, family, parameter)
    axis.set(xlabel=symbol(parameter), ylabel="relative $L^2$ error")
    logarithmic(axis)
    figure.legend(loc="outside lower center", ncols=4, fontsize=7)
    return figure


def _band(axis: Axes, along: list[Any], parameter: str, method: str, settings: str) -> None:
    """One network for the whole range: the median over seeds, and all seeds as a band."""
    x = [row[parameter] for row in along[0]]
    errors = np.array([[row["error"] for row in one] for one in along])
    colour, dashes = _look(method)["color"], line(ORDER.index(method))["linestyle"]
    label = _label(method, settings)
    axis.plot(x, np.median(errors, axis=0), label=label, color=colour, ls=dashes)
    axis.fill_between(x, errors.min(0), errors.max(0), color=colour, alpha=0.15, lw=0)


def _bars(axis: Axes, study: Study, family: str, method: str, settings: str) -> None:
    """Trained anew for each coefficient: mean and deviation at each."""
    cells: dict[float, Cell] = {}
    for record in study.runs(family, method, settings=settings):
        for row in record["error"]["grid"]:
            value = row[PER[family]]
            cell = study.at(family, method, settings, **{PER[family]: value})
            if cell is not None:
                cells[value] = cell
    if cells:
        x = sorted(cells)
        mean = np.array([cells[v].mean for v in x])
        std = np.array([cells[v].std for v in x])
        low = np.minimum(std, 0.9 * mean)  # a logarithm cannot show a bar below zero
        look = {"ls": "none", "capsize": 2, **_look(method)}
        axis.errorbar(x, mean, [low, std], label=_label(method, settings), **look)


def _papers(axis: Axes, family: str, parameter: str) -> None:
    """LC-PINN as the paper reports it, hollow."""
    values = [float(v) for v in grid_values(built(family))[:, 0]]
    cells = [paper_at(family, "paper", parameter, v) for v in values]
    known = [(v, c) for v, c in zip(values, cells, strict=True) if c is not None]
    if known:
        x, mean = [v for v, _ in known], np.array([c.mean for _, c in known])
        std = np.array([c.std for _, c in known])
        bars = [np.minimum(std, 0.9 * mean), std]
        style = {"marker": "o", "mfc": "white", "color": "black", "capsize": 2}
        axis.errorbar(x, mean, bars, ls="none", label="LC-PINN, the paper", **style)


@in_style
def fields(study: Study, family: str) -> Figure | None:
    """The solution and the errors of our trainings, at three coefficients of the grid at most."""
    records = [study.one(family, protocol) for protocol in OURS]
    kept = [r for r in records if r is not None and "field" in r["measures"]]
    if not kept:
        return None
    if len(kept[0]["measures"]["field"]["axes"]) == 1:
        return _curves(kept, family)
    return _planes(kept, family)


def _chosen(panels: list[Any]) -> list[int]:
    """The first, the middle and the last."""
    return sorted({0, len(panels) // 2, len(panels) - 1})


def _curves(records: list[Record], family: str) -> Figure:
    figure = Figure(figsize=(DOUBLE, 2.8), layout="constrained")
    axes = figure.subplots(1, 1 + len(records))
    made = built(family)
    (name,) = made.domain.names
    for i, record in enumerate(records):
        field = record["measures"]["field"]
        low, high, num = field["axes"][name]
        x = np.linspace(low, high, num)
        for j, panel in enumerate(field["panels"]):
            lam = setting(list(panel["at"]), list(panel["at"].values()))
            if i == 0:
                axes[0].plot(x, unpacked(panel["value"]), label=lam, **line(j))
            gap = unpacked(panel["error"])
            axes[i + 1].semilogy(x, np.where(gap > 1e-17, gap, np.nan), **line(j))
        axes[i + 1].set(title=f"error, {_label_of(record)}", xlabel=symbol(name))
        logarithmic(axes[i + 1], 6)
    axes[0].set(title="solution", xlabel=symbol(name), ylabel=symbol(made.outputs[0]))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _planes(records: list[Record], family: str) -> Figure:
    made = built(family)
    which = _chosen(records[0]["measures"]["field"]["panels"])
    rows, columns = len(which), 1 + len(records)
    figure = Figure(figsize=(DOUBLE, tall(rows, 1.9)))
    axes = figure.subplots(rows, columns, squeeze=False)
    for i, j in enumerate(which):
        for k, record in enumerate(records):
            field = record["measures"]["field"]
            extent = [v for low, high, _ in field["axes"].values() for v in (low, high)]
            shape = [axis[2] for axis in field["axes"].values()]
            panel = field["panels"][j]
            lam = setting(list(panel["at"]), list(panel["at"].values()))
            if k == 0:
                value = np.reshape(unpacked(panel["value"]), shape)
                shown = image(axes[i, 0], value, extent, *linear_scale(value))
                colour_bar(shown, axes[i, 0], symbol(made.outputs[0]))
                axes[i, 0].set_title(lam or "solution")
            gap = np.reshape(unpacked(panel["error"]), shape)
            shown = image(axes[i, k + 1], gap, extent, *log_scale(gap))
            colour_bar(shown, axes[i, k + 1])
            axes[i, k + 1].set_title(f"error, {_label_of(record)}")
    names = list(records[0]["measures"]["field"]["axes"])
    for axis in axes[-1]:
        axis.set_xlabel(symbol(names[0]))
    for axis in axes[:, 0]:
        axis.set_ylabel(symbol(names[1]))
    return figure


@in_style
def spread(study: Study) -> Figure | None:
    """The errors of single weightings, sorted, for every seed; the mean over them dashed."""
    pairs = [(f, p) for f in ("burgers", "buckley-leverett") for p in OURS]
    slices = lambda f, p: study.measures(f, p, "slices", settings=study.settings(f, p))
    known = [(f, p) for f, p in pairs if slices(f, p)]
    if not known:
        return None
    families = list(dict.fromkeys(f for f, _ in known))
    figure = Figure(figsize=(SINGLE * len(families), 3.1), layout="constrained")
    shown: dict[str, Any] = {}
    for axis, family in zip(
        np.atleast_1d(figure.subplots(1, len(families))), families, strict=True
    ):
        for i, protocol in enumerate(OURS):
            style = {"color": COLOURS[i], "ls": line(i)["linestyle"]}
            label = _label(protocol, study.settings(family, protocol))
            for errors in slices(family, protocol):
                share = (np.arange(len(errors)) + 0.5) / len(errors)
                (shown[label],) = axis.plot(share, errors, **style)
        theirs = paper_cell(family, "paper")
        if theirs is not None:
            paper = axis.axhline(theirs.mean, color="black", lw=0.8, ls=":")
            shown["paper, mean over λ"] = paper
        axis.set(xlabel="share of weightings", title=family, ylabel="relative $L^2$ error")
        logarithmic(axis)
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=4, fontsize=7)
    return figure


FIGURES: dict[str, tuple[Callable[[Study], Figure | None], str]] = {
    "frontier": (frontier, "Error against the seconds that K = 1, 3, 10, 30 and 100 settings take. "
                 "A network for every λ is one point; a method that is trained anew moves right."),
    "helmholtz-1d-per-k": (lambda s: per_parameter(s, "helmholtz-1d"),
                           "helmholtz-1d at every k: curves are one network (median of the seeds, "
                           "their range shaded), bars are trained anew."),
    "schrodinger-1d-per-alpha": (lambda s: per_parameter(s, "schrodinger-1d"),
                                 "schrodinger-1d at every alpha, drawn in the same way."),
    **{f"fields-{name}": (lambda s, name=name: fields(s, name),
                          f"{name}: the solution, and the errors of our trainings, seed 0.")
       for name in FAMILIES},
    "spread": (spread, "Errors of 200 single weightings, sorted, one curve for each seed."),
}  # fmt: skip

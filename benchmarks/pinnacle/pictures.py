"""Pictures of what was solved, drawn from the trained networks."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import lcpinn as lc
from benchmarks.pinnacle.registry import PROBLEMS
from benchmarks.pinnacle.training import model_name
from lcpinn.files import write_atomically


def draw_all(models: Path, folder: Path) -> None:
    """Every picture whose network is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        model = models / model_name(name)
        if model.exists():
            drawn = draw(lc.load(model, PROBLEMS[name].family()))
            path = folder / f"{BUILT_IN.get(name, f'pinnacle-{name}')}.png"
            write_atomically(path, few_colours(drawn))
            print(path)


def few_colours(drawn: Figure, dpi: int = 200, colours: int = 64) -> bytes:
    """A PNG with a palette: streamlines in all shades of a surface take four times as much."""
    shades, palette = io.BytesIO(), io.BytesIO()
    drawn.savefig(shades, format="png", dpi=dpi)
    Image.open(shades).convert("RGB").quantize(colours).save(palette, "PNG", optimize=True)
    return palette.getvalue()


def cavity(solution: lc.Solution) -> Figure:
    """Speed, by the lid's own, and streamlines at three settings of the lid."""
    low, high = solution.family.parameters.ranges["a"]
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    grid = np.linspace(0, 1, 101)
    x, y = np.meshgrid(grid, grid)
    axes, images = figure.subplots(1, 3), []
    for axis, a in zip(axes, (low, (low * high) ** 0.5, high), strict=True):
        flow = solution(x=x, y=y, a=a)
        speed = np.hypot(flow["u"], flow["v"]) / (a / 4)
        # Flat bands: a shaded surface of this size takes more than a megabyte.
        images.append(axis.contourf(x, y, speed, np.linspace(0, 1, 21), extend="max"))
        axis.streamplot(grid, grid, flow["u"], flow["v"], color="w", linewidth=0.5, density=1.2,
                        arrowsize=0.6)  # fmt: skip
        axis.set_title(f"a = {a:.3g} (Reynolds number {25 * a:.0f})", fontsize=9)
        axis.set(aspect="equal", xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
    figure.colorbar(images[-1], ax=list(axes), shrink=0.8, label="speed / largest of the lid",
                    ticks=np.linspace(0, 1, 6))  # fmt: skip
    return figure


def four_holes(solution: lc.Solution) -> Figure:
    """u at three radii."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    x, y = np.meshgrid(*(np.linspace(-0.5, 0.5, 801),) * 2)
    for axis, r in zip(figure.subplots(1, 3), (0.05, 0.1, 0.15), strict=True):
        image = axis.pcolormesh(x, y, solution(x=x, y=y, r=r), shading="nearest", vmin=0, vmax=1)
        axis.set(title=f"r = {r:g}", aspect="equal", xticks=[], yticks=[])
        figure.colorbar(image, ax=axis, shrink=0.8)
    return figure


def step(solution: lc.Solution) -> Figure:
    """Speed and streamlines over the step, at three viscosities."""
    figure = Figure(figsize=(9, 1.9), layout="constrained")
    along, up = np.linspace(0, 4, 201), np.linspace(0, 2, 101)
    x, y = np.meshgrid(along, up)
    axes, images = figure.subplots(1, 3), []
    for axis, nu in zip(axes, (0.1, 0.03, 0.01), strict=True):
        flow = solution(x=x, y=y, nu=nu)
        speed = np.hypot(flow["u"], flow["v"])
        images.append(axis.pcolormesh(x, y, speed, shading="nearest", vmin=0, vmax=1))
        axis.streamplot(along, up, flow["u"], flow["v"], color="w", linewidth=0.5, arrowsize=0.6)
        axis.set_title(f"ν = {nu:g}", fontsize=9)
        # Arrows would stretch the axes beyond the channel, of each panel otherwise.
        axis.set(aspect="equal", xticks=[], yticks=[], xlim=(0, 4), ylim=(0, 2))
    figure.colorbar(images[-1], ax=list(axes), shrink=0.8, label="speed", ticks=[0, 0.5, 1])
    return figure


def seventeen_holes(solution: lc.Solution) -> Figure:
    """Temperature at three times, for a transfer coefficient of one; a quarter, four times."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    x, y = np.meshgrid(np.linspace(-8, 8, 641), np.linspace(-12, 12, 961))
    for axis, t in zip(figure.subplots(1, 3), (0.1, 1.0, 3.0), strict=True):
        image = axis.pcolormesh(x, y, solution(t=t, x=abs(x), y=abs(y), h=1.0), shading="nearest")
        axis.set(title=f"t = {t:g}", aspect="equal", xticks=[], yticks=[])
        figure.colorbar(image, ax=axis, shrink=0.8)
    return figure


BUILT_IN = {"cavity": "lid-driven-cavity"}  # pictures of families that have a page of their own

PICTURES: dict[str, Callable[[lc.Solution], Figure]] = {
    "cavity": cavity,
    "cavity-32": cavity,
    "four-holes": four_holes,
    "step": step,
    "seventeen-holes": seventeen_holes,
}

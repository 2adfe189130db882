"""Shapes in pictures: their outline over a field, and the domain with its named boundaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from lcpinn.domain import Region
from lcpinn.family import Family
from lcpinn.plot.style import (
    COLOURS,
    DOUBLE,
    MARKERS,
    SINGLE,
    in_style,
    save,
    setting,
    symbol,
)
from lcpinn.plot.values import ACROSS, Plane, planes
from lcpinn.precision import double

CONTINUED = 2.0  # pixels beyond the boundary that are coloured before they are cut off
NUM = 400  # points of each named boundary


def outline(axis: Axes, family: Family, plane: Plane, lam: np.ndarray) -> None:
    """The boundary of a shape where a plane cuts it; a box is all of its picture."""
    domain = family.domain
    if not isinstance(domain, Region):
        return
    across, up, level = _level(domain, plane, lam)
    for shown in axis.images:
        _cut(axis, shown, across, up, level)
    axis.contour(across, up, level.T, levels=[0.0], colors="black", linewidths=0.7)
    if "t" not in (plane.across, plane.up):
        axis.set_aspect("equal")


def _cut(
    axis: Axes, shown: AxesImage, across: np.ndarray, up: np.ndarray, level: np.ndarray
) -> None:
    """Cut a picture along the boundary instead of from pixel to pixel.

    What is outside has no values: those of the nearest pixels inside are continued a little.
    """
    values = np.ma.filled(np.ma.asarray(shown.get_array(), float), np.nan)
    transformed: Any = scipy.ndimage.distance_transform_edt(np.isnan(values), return_indices=True)
    far, nearest = transformed
    shown.set_data(np.where(far <= CONTINUED, values[tuple(nearest)], np.nan))
    inside = axis.contourf(across, up, level.T, levels=[np.min(level) - 1.0, 0.0])
    path = next(iter(inside.get_paths() or ()))
    inside.remove()
    shown.set_clip_path(path, axis.transData)


def row_height(family: Family, plane: Plane, num: int) -> float:
    """Of a row of so many fields, in inches: on shapes both coordinates have one unit."""
    if not isinstance(family.domain, Region) or "t" in (plane.across, plane.up):
        return 2.2
    a, b, c, d = plane.extent
    width = ((SINGLE if num == 1 else DOUBLE) - 1.25) / num
    return float(np.clip(width * (d - c) / (b - a) + 0.3, 1.2, 4.0))


def _level(domain: Region, plane: Plane, lam: np.ndarray) -> tuple[np.ndarray, ...]:
    """The level function on a plane: positive outside, also just beyond its edges.

    At the ends of a coordinate that is held, such as time, it is zero all over the inside: there it
    is taken two pixels further in.
    """
    a, b, c, d = plane.extent
    points, pixel = plane.points.copy(), max(b - a, d - c) / ACROSS
    for name in plane.held:
        low, high = domain.ranges[name]
        inwards, column = min(2 * pixel, (high - low) / 2), domain.names.index(name)
        points[:, column] = np.clip(points[:, column], low + inwards, high - inwards)
    with double():
        level = plane.shaped(domain.level_at(points, lam))
    across, up = (np.linspace(*ends, n) for ends, n in zip(((a, b), (c, d)), level.shape,
                                                         strict=True))  # fmt: skip
    return across, up, level


def domain_picture(family: Family, path: Path) -> Path:
    """The domain with its named boundaries at the ends and in the middle of every coefficient."""
    return save(figure(family), path)


@in_style
def figure(family: Family) -> Figure:
    """Dots on each named boundary, a picture for each of three lambda."""
    unit = np.repeat([[0.0], [0.5], [1.0]], family.parameters.dim, axis=1)
    settings = np.asarray(family.parameters.from_unit(unit))
    settings = settings if family.parameters.free else settings[:1]
    domain = family.domain
    deep = domain.dim > 2
    drawn = Figure(figsize=(DOUBLE, 2.9))
    kind = {"projection": "3d"} if deep else {}
    axes = drawn.subplots(1, len(settings), squeeze=False, subplot_kw=kind)[0]
    for axis, lam in zip(axes, settings, strict=True):
        if isinstance(domain, Region) and domain.dim == 2:
            plane = planes(family)[0]
            across, up, level = _level(domain, plane, lam)
            axis.contourf(across, up, level.T, levels=[-np.inf, 0.0], colors="0.92")
        _boundaries(axis, family, lam)
        axis.set_title(setting(family.parameters.names, lam))
        for name, limits in zip(family.domain.names, (axis.set_xlim, axis.set_ylim), strict=False):
            low, high = family.domain.ranges[name]
            limits(low - 0.04 * (high - low), high + 0.04 * (high - low))  # edges stay in sight
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        drawn.legend(handles, labels, loc="outside lower center", ncols=4, markerscale=3)
    return drawn


def _boundaries(axis: Axes, family: Family, lam: np.ndarray) -> None:
    """Points of every place on the boundary where terms hold, one colour for each."""
    names = family.domain.names[:3]
    places = {t.where: t.faces for t in family.all_terms.values() if t.faces}
    for i, (where, faces) in enumerate(places.items()):
        own = [t.name for t in family.all_terms.values() if t.where == where]
        points = np.concatenate([
            family.domain.sobol(NUM, 1, face=face, parameters=lam) for face in faces
        ])[:, :3].T  # fmt: skip
        columns = points if len(points) > 1 else np.stack([points[0], np.zeros(points.shape[1])])
        axis.plot(*columns, MARKERS[i % 6], ms=1, mew=0, color=COLOURS[i % 6],
                  label=f"{where}: {', '.join(own)}")  # fmt: skip
    axis.set_xlabel(symbol(names[0]))
    if len(names) > 1:
        axis.set_ylabel(symbol(names[1]))
        if len(names) == 2 and "t" not in names:
            axis.set_aspect("equal")
    if len(names) == 3:
        axis.set(zlabel=symbol(names[2]))

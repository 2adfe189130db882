"""A solution on a grid for other programs: xarray and netCDF, and VTK's files by meshio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.files import write_atomically

if TYPE_CHECKING:
    from xarray import Dataset

    from lcpinn.solution import Solution

COUNTS = {1: 201, 2: 101, 3: 33}  # points along each coordinate, by how many there are
CELLS = {1: "line", 2: "quad", 3: "hexahedron"}


def to_xarray(solution: Solution, **named: Any) -> Dataset:
    """The solution over a grid as a Dataset, with named dimensions; NaN outside of a shape.

    A coordinate is a number of equispaced points over its range, or its values; a coefficient is a
    value or several. A single value is a coordinate without a dimension, as xarray has it.
    """
    xarray = _needed("xarray", "to_xarray")
    family = solution.family
    axes = _axes(solution, named)
    spread = [name for name, values in axes.items() if np.ndim(values)]
    shaped: dict[str, Any] = {
        name: np.reshape(values, [-1 if other == name else 1 for other in spread])
        if np.ndim(values)
        else values
        for name, values in axes.items()
    }
    value = solution(**shaped)
    fields = value if isinstance(value, dict) else {family.outputs[0]: value}
    shape = tuple(len(axes[name]) for name in spread)
    data = {name: (spread, np.broadcast_to(field, shape)) for name, field in fields.items()}
    return xarray.Dataset(data, coords=axes, attrs=_attributes(solution))


def _axes(solution: Solution, named: Mapping[str, Any]) -> dict[str, Any]:
    """What every coordinate and coefficient runs through, in the order of the family's names."""
    family = solution.family
    known = (*family.domain.names, *family.parameters.names)
    for name in named:
        if name not in known:
            raise LcpinnError(f"no such argument as {name!r}; there are {', '.join(known)}")
    default = COUNTS.get(family.domain.dim, 9)
    axes: dict[str, Any] = {}
    for name, (low, high) in family.domain.ranges.items():
        wanted = named.get(name, default)
        if isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool):
            if wanted < 1:
                raise LcpinnError(f"{name} = {wanted} is no number of points")
            wanted = np.linspace(low, high, wanted)
        axes[name] = _values(name, wanted)
    settings = {**family.parameters.held, **named}
    for name in family.parameters.names:
        if name not in settings:
            low, high = family.parameters.ranges[name]
            raise LcpinnError(f"missing {name}: give a value, or several, in [{low:g}, {high:g}]")
        axes[name] = _values(name, settings[name])
    return axes


def _values(name: str, wanted: Any) -> Any:
    try:
        values = np.asarray(wanted, float)
    except (TypeError, ValueError):
        raise LcpinnError(f"{name}: {wanted!r} is neither a number nor several") from None
    if values.ndim > 1:
        raise LcpinnError(f"{name} has {values.ndim} dimensions; give a value or a list of them")
    return values if values.ndim else float(values)


def _attributes(solution: Solution) -> dict[str, Any]:
    """Where the numbers come from, and what is known of their quality."""
    from lcpinn import __version__

    family = solution.family
    attributes = {
        "family": family.name,
        "equation": (type(family).__doc__ or "").strip().split("\n")[0],
        "protocol": solution.protocol.name,
        "lcpinn": __version__,
    }
    verdict = getattr(solution, "verdict", None)
    return attributes if verdict is None else {**attributes, "verdict": str(verdict)}


# -- Files ---------------------------------------------------------------------------------------


def to_netcdf(solution: Solution, path: str | Path, at: Mapping[str, float]) -> Path:
    """Write the solution at one setting as netCDF."""
    return _written(path, lambda file: to_xarray(solution, **at).to_netcdf(file, engine="scipy"))


def to_vtu(solution: Solution, path: str | Path, at: Mapping[str, float]) -> Path:
    """Write the solution at one setting as VTK's unstructured grid, for ParaView.

    Cells with a corner outside of the shape are left out. A fourth coordinate has to be held.
    """
    meshio = _needed("meshio", "vtu")
    data = to_xarray(solution, **at)
    spread = [name for name in solution.family.domain.names if name in data.dims]
    if len(spread) not in CELLS or len(spread) < data[solution.family.outputs[0]].ndim:
        raise LcpinnError(
            f"a .vtu file has one to three dimensions, not {len(data.dims)}: hold others with --at"
        )
    axes = [data[name].values for name in spread]
    places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    corners = _corners([len(axis) for axis in axes])
    fields = {name: data[name].values.ravel() for name in solution.family.outputs}
    inside = np.all([np.isfinite(field) for field in fields.values()], axis=0)
    corners = corners[inside[corners].all(axis=1)]
    used, renamed = np.unique(corners, return_inverse=True)
    flat = np.zeros((len(used), 3))
    flat[:, : places.shape[1]] = places[used]
    mesh = meshio.Mesh(
        flat,
        [(CELLS[len(axes)], renamed.reshape(corners.shape))],
        point_data={name: field[used] for name, field in fields.items()},
    )
    return _written(path, lambda file: mesh.write(file, file_format="vtu"))


def _corners(counts: Sequence[int]) -> np.ndarray:
    """Indices of every cell's corners, in VTK's order: round the bottom, then round the top."""
    index = np.arange(np.prod(counts)).reshape(counts)
    round_square = [(0, 0), (1, 0), (1, 1), (0, 1)]
    offsets = {
        1: [(0,), (1,)],
        2: round_square,
        3: [(*pair, top) for top in (0, 1) for pair in round_square],
    }[len(counts)]
    pieces = [
        index[tuple(slice(o, n - 1 + o) for o, n in zip(offset, counts, strict=True))].ravel()
        for offset in offsets
    ]
    return np.stack(pieces, axis=1)


def _written(path: str | Path, write: Any) -> Path:
    """Written under another name first, so that a crash leaves no half of a file."""
    path = Path(path)
    draft = path.with_name(f".{path.stem}.draft{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(str(draft))
        write_atomically(path, draft.read_bytes())
    except OSError as error:
        raise LcpinnError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return path


def _needed(module: str, purpose: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise LcpinnError(
            f"{purpose} needs {module}, which is not installed: pip install 'lcpinn[data]'"
        ) from None

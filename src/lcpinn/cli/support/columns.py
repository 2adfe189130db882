"""Named columns in and out of the command line: assignments, grids, CSV and NPZ files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lcpinn.checks import assignments as assignments
from lcpinn.errors import LcpinnError

if TYPE_CHECKING:
    from lcpinn.family import Family

MOST_POINTS = 50_000_000  # of a prediction


def _check_names(option: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = tuple(known)
    for name in names:
        if name not in known:
            raise LcpinnError(f"{option}: there is no {name!r}; there are {', '.join(known)}")


def _parameters(family: Family, known: Iterable[str]) -> None:
    missing = [n for n in family.parameters.free if n not in tuple(known)]
    if missing:
        example = ",".join(f"{n}={family.parameters.ranges[n][0]:g}" for n in missing)
        raise LcpinnError(f"which {', '.join(missing)}? Give --at {example} or another value")


def grid_points(
    family: Family, fixed: Mapping[str, float], counts: Mapping[str, float]
) -> dict[str, Any]:
    """Arrays that broadcast to a grid over the domain, and the parameters."""
    from lcpinn.quadrature import unit_grid

    domain = family.domain
    _check_names("--at", fixed, (*family.parameters.names, *domain.names))
    _check_names("--grid", counts, domain.names)
    _parameters(family, fixed)
    free = [name for name in domain.names if name not in fixed]
    twice = [name for name in counts if name in fixed]
    if twice:
        raise LcpinnError(f"{twice[0]!r} is held fixed by --at and spread by --grid")
    default = {1: 201, 2: 65, 3: 21}.get(len(free), 9)
    sizes = [_count(name, counts.get(name, default)) for name in free]
    if math.prod(sizes) > MOST_POINTS:
        raise LcpinnError(f"--grid: {math.prod(sizes)} points are more than fit in memory")
    columns: dict[str, Any] = {}
    for name in domain.names:
        if name in fixed:
            columns[name] = fixed[name]
            continue
        low, high = domain.ranges[name]
        shape = [-1 if other == name else 1 for other in free]
        values = low + (high - low) * unit_grid(sizes[free.index(name)])
        columns[name] = values.reshape(shape)
    settings = family.parameters.held | dict(fixed)
    return columns | {name: settings[name] for name in family.parameters.names}


def _count(name: str, value: float) -> int:
    if value < 1 or value != int(value):
        raise LcpinnError(f"--grid: {name} = {value:g} is no number of points")
    return int(value)


def read_points(file: Path, family: Family, fixed: Mapping[str, float]) -> dict[str, Any]:
    """The columns of a CSV file with a header, and what --at adds to them."""
    needed = (*family.domain.names, *family.parameters.names)
    given = _read_table(file, family, fixed, needed)
    _parameters(family, given)
    held = family.parameters.held
    return given | {name: value for name, value in held.items() if name not in given}


def read_observations(file: Path, family: Family, fixed: Mapping[str, float]) -> dict[str, Any]:
    """Points with observed outputs from a CSV file; an empty cell of an output is nan.

    A coordinate may be given by --at for all of them.
    """
    needed = (*family.domain.names, *family.parameters.names, *family.outputs)
    columns = _read_table(file, family, fixed, needed, optional=family.outputs)
    if not any(name in columns for name in family.outputs):
        raise LcpinnError(f"{file} lacks a column with an output ({', '.join(family.outputs)})")
    return columns


def _read_table(
    file: Path,
    family: Family,
    fixed: Mapping[str, float],
    needed: Iterable[str],
    optional: Sequence[str] = (),
) -> dict[str, Any]:
    """Columns by name with those that --at holds; `optional` ones may have empty cells."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except OSError as error:
        raise LcpinnError(f"cannot read {file}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise LcpinnError(f"{file} is no CSV file: {error}") from None
    names = [name.strip() for name in rows[0]] if rows else []
    _check_names(f"{file}", names, needed)
    _check_names("--at", fixed, (*family.domain.names, *family.parameters.names))
    both = [name for name in names if name in fixed or names.count(name) > 1]
    if both:
        raise LcpinnError(f"{both[0]!r} is given twice (columns of {file}, --at)")
    missing = [n for n in family.domain.names if n not in (*names, *fixed)]
    if missing:
        raise LcpinnError(f"{file} lacks a column {missing[0]!r} (its first line is the names)")
    may = [name in optional for name in names]
    table = np.array([_numbers(file, i, row, may) for i, row in enumerate(rows[1:], 2)])
    table = table.reshape(-1, len(names))
    return {name: table[:, i] for i, name in enumerate(names)} | dict(fixed)


def _numbers(file: Path, line: int, row: list[str], may_be_empty: list[bool]) -> list[float]:
    if len(row) != len(may_be_empty):
        raise LcpinnError(f"{file}, row {line}: {len(row)} values for {len(may_be_empty)} columns")
    try:
        return [
            float(cell) if cell.strip() or not may else math.nan
            for cell, may in zip(row, may_be_empty, strict=True)
        ]
    except ValueError as error:
        raise LcpinnError(f"{file}, row {line}: {error}") from None


def broadcast(columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """All columns in one shape."""
    arrays = np.broadcast_arrays(*columns.values())
    return dict(zip(columns, arrays, strict=True))


def to_csv(columns: Mapping[str, np.ndarray]) -> str:
    """Named columns; numbers are written so that reading them gives the same bits."""
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def write(columns: Mapping[str, np.ndarray], out: Path) -> None:
    """Into out.csv, one row a point, or out.npz, arrays as they are."""
    from lcpinn.files import write_atomically

    buffer = io.BytesIO()
    if out.suffix == ".npz":
        np.savez(buffer, allow_pickle=False, **columns)
    else:
        flat = {name: np.ravel(values) for name, values in columns.items()}
        buffer.write(to_csv(flat).encode())
    write_atomically(out, buffer.getvalue())

"""Model files: what of a solution is written, and what has to match when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.files import LONGEST_REASON, in_one_line, read_arrays, unflatten, write_arrays
from lcpinn.network.mlp import Params
from lcpinn.precision import double
from lcpinn.protocol import Protocol
from lcpinn.rows import Problem
from lcpinn.spec import from_plain, to_plain


def signature(family: Family) -> dict[str, Any]:
    """What makes a model fit a family: its names and ranges, not its code."""
    hooks = {h: [a.name for a in args] for h, args in family._signatures.items() if h != "exact"}
    return {
        "name": family.name,
        "class": type(family).__name__,
        "settings": family.settings,
        "domain": family.domain.to_json(),
        "parameters": family.parameters.to_json(),
        "weights": None if family.weights is None else family.weights.to_json(),
        "outputs": list(family.outputs),
        "terms": {t.name: [a.name for a in t.arguments] for t in family.terms.values()},
        "hooks": {h: names for h, names in hooks.items() if h != "reference"},
    }


def write_model(
    path: Path, family: Family, protocol: Protocol, params: Params, run: Mapping[str, Any]
) -> Path:
    """Write a model file (safetensors with a JSON header)."""
    header = {"protocol": to_plain(protocol), "family": signature(family)}
    header |= {"run": {k: v for k, v in run.items() if k not in header}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LcpinnError(f"cannot write to {path.parent}: {error.strerror}") from None
    write_arrays(path, "model", header, params)
    return path


def read_model(
    path: Path, family: Family | None = None
) -> tuple[Family, Protocol, Params, dict[str, Any]]:
    """Family, protocol, parameters and run of a model file, or of the one in a run directory."""
    if path.is_dir():
        path = path / "model.safetensors"
    header, arrays = read_arrays(path, "model")
    try:
        return _interpreted(path, header, arrays, family)
    except LcpinnError as error:
        line = in_one_line(str(error), 3 * LONGEST_REASON)
        raise LcpinnError(line if str(path) in line else f"{path}: {line}") from None
    except Exception as error:  # whatever values of another kind than ours break
        reason = in_one_line(f"{type(error).__name__}: {error}")
        raise LcpinnError(
            f"{path} is damaged, or forged: its header describes no model ({reason})"
        ) from None


def _interpreted(
    path: Path, header: Mapping[str, Any], arrays: Mapping[str, Any], family: Family | None
) -> tuple[Family, Protocol, Params, dict[str, Any]]:
    """What header and arrays of a model file mean."""
    saved = header["family"]
    protocol = from_plain(header["protocol"])
    if not isinstance(protocol, Protocol) or not isinstance(header["run"], dict):
        raise LcpinnError(f"{path} is damaged, or forged: its header describes no model")
    protocol.check_parts()
    family = protocol.view(_family_of(saved, path) if family is None else _checked(family))
    expected = signature(family)
    if expected != saved:
        differ = [key for key in expected if expected[key] != saved.get(key)]
        raise LcpinnError(
            f"{path} is a model of another family: {saved['name']}, not {family.name} "
            f"(they differ in {', '.join(differ)})"
        )
    with double():
        like = jax.eval_shape(
            Problem(family, protocol.network, jnp.float64).init, jax.random.PRNGKey(0)
        )
        any_shape = protocol.network.shapes_vary
        params = unflatten(arrays, like, str(path), any_shape=any_shape)
    return family, protocol, params, header["run"]


def _family_of(saved: Mapping[str, Any], path: Path) -> Family:
    """The library's own family of that name."""
    from lcpinn.families import BUILT_IN

    if saved["name"] not in BUILT_IN:
        raise LcpinnError(
            f"{path} is a model of {saved['class']}, which is not built in; pass the family "
            "that it was trained for (family=... in Python, --family file.py:Class)"
        )
    return BUILT_IN[saved["name"]]()


def _checked(family: Any) -> Family:
    if not isinstance(family, Family):
        raise LcpinnError(f"{family!r} is no Family; pass an instance, such as Oscillator()")
    return family

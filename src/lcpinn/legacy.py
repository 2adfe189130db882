"""What older versions called things, in model files and protocols that they wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Spec -> field as it was called -> field as it is called now.
RENAMED: dict[str, dict[str, str]] = {
    "GaussNewton": {
        "rows": "sampling",
        "redraw": "resample",
        "ladder": "dampings",
        "stride": "radius",
    },
    "Restarts": {"doubt": "error_limit", "most": "max_starts", "gain": "decrease"},
    "MLP": {"reach": "frequency_scale"},
    "DeepONet": {"reach": "frequency_scale"},
}

# Spec -> fields without a successor: `early` let the first round see a part of the rows.
DROPPED: dict[str, tuple[str, ...]] = {"GaussNewton": ("early",)}


def upgraded(data: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as plain data, with the fields that it has now."""
    kind = data.get("type")
    if not isinstance(kind, str):
        return dict(data)
    names, dropped = RENAMED.get(kind, {}), DROPPED.get(kind, ())
    fields = {names.get(key, key): value for key, value in data.items() if key not in dropped}
    return _with_acceptance(fields) if kind == "GaussNewton" else fields


def _with_acceptance(fields: dict[str, Any]) -> dict[str, Any]:
    """How steps are accepted was four fields, of which `roam` overruled the others."""
    defaults = {"roam": False, "slack": 0.0, "threshold": 0.1, "corrections": 2}
    if "acceptance" in fields or not any(name in fields for name in defaults):
        return fields
    old = {name: fields.pop(name, default) for name, default in defaults.items()}
    by_loss = {"threshold": old["threshold"], "corrections": old["corrections"]}
    if old["roam"]:
        fields["acceptance"] = {"type": "ModelDriven"}
    elif old["slack"]:
        fields["acceptance"] = {"type": "NonMonotone", "factor": 1 + old["slack"], **by_loss}
    else:
        fields["acceptance"] = {"type": "GainRatio", **by_loss}
    return fields

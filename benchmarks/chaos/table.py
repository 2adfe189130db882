"""The table of docs/reliability.md, out of results/chaos.json and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEAD = ("fault", "what is promised", "cases", "kept", "what happened")


def table(faults: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for every fault that was tried."""
    rows = [HEAD, ("---", "---", "---:", "---:", "---")]
    for name, part in faults.items():
        done = f"`{name}`: {part['done']}"
        tried = f"{part['cases']:,}".replace(",", " ")
        if part["cases"] < part["full"]:
            tried += f" of {part['full']:,}".replace(",", " ")
        kept = f"{part['kept']:,}".replace(",", " ")
        rows.append((done, part["promise"], tried, kept, _outcomes(part)))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _outcomes(part: Mapping[str, Any]) -> str:
    """How often each thing happened, the most frequent first, and the largest figures."""
    ordered = sorted(part["outcomes"].items(), key=lambda item: -item[1])
    words = [f"{_escaped(outcome)} {count}" for outcome, count in ordered]
    words += [f"at most {_amount(value)} {name}" for name, value in part["figures"].items()]
    return "; ".join(words)


def _amount(value: float) -> str:
    return f"{value / 2**20:.1f} Mi" if value >= 2**20 else f"{value:g}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def stamps(faults: Mapping[str, Mapping[str, Any]]) -> str:
    """Where the numbers come from."""
    found = [part["stamp"] for part in faults.values() if "stamp" in part]
    devices = sorted({stamp["device"] for stamp in found})
    dates = sorted(stamp["date"][:10] for stamp in found)
    versions = sorted({f"JAX {stamp['versions']['jax']}" for stamp in found})
    seeds = sorted({stamp["seed"] for stamp in found})
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    numbers = ", ".join(map(str, seeds))
    return f"_{', '.join(devices)}; {', '.join(versions)}; {span}; seed {numbers}._"

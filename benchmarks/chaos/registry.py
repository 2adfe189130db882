"""The faults, in the order of the table."""

from __future__ import annotations

from benchmarks.chaos import files, kill
from benchmarks.chaos.fault import Fault

FAULTS: dict[str, Fault] = {module.FAULT.name: module.FAULT for module in (kill, files)}

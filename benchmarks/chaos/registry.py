"""The faults, in the order of the table."""

from __future__ import annotations

from benchmarks.chaos import cluster, directory, disk, files, kill, memory, pages, process, terms
from benchmarks.chaos.fault import Fault

FAULTS: dict[str, Fault] = {
    module.FAULT.name: module.FAULT
    for module in (kill, files, disk, cluster, process, terms, memory, directory, pages)
}

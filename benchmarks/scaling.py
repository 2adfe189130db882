"""How a Gauss-Newton step scales with devices: measured on pinned cores, and modelled for GPUs.

    python -m benchmarks.scaling [--devices 1,2,4] [--parameters 1000] [--rows 8000]
                                 [--resume] [--out results/scaling-cpu.json]

Every number of devices has a process of its own, with as many virtual CPU devices as it has cores,
and the process is pinned to those. Strong scaling has the same rows for all, weak scaling the same
rows for each device. Timed are J'J with its all-reduce and a whole step (Cholesky).

`model` predicts the same for GPUs from parts that benchmarks/roofline.py measured on one of them;
docs/distributed.md has the table.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lcpinn.files import read_json, write_json

PARAMETERS, ROWS, REPEATS = 1000, 8000, 3
JTJ = "J'J s"
LIMIT = 600  # seconds that a process may take
# What a link carries in one direction, in bytes a second, by the vendor's data sheets: NVLink 4 to
# each of eight GPUs in a host, and one port of 400 Gbit/s to each GPU between hosts.
NVLINK, NETWORK, HOST = 450e9, 50e9, 8


def main(arguments: Sequence[str] | None = None) -> None:
    from benchmarks.stamp import stamp
    from lcpinn.threads import usable_cores

    parser = argparse.ArgumentParser("benchmarks.scaling", description=__doc__.splitlines()[0])  # pyright: ignore[reportOptionalMemberAccess]
    powers = [2**i for i in range(usable_cores().bit_length()) if 2**i <= usable_cores()]
    parser.add_argument("--devices", default=",".join(map(str, powers)), help="numbers of them")
    parser.add_argument("--parameters", type=int, default=PARAMETERS, help="of the network, about")
    parser.add_argument("--rows", type=int, default=ROWS, help="in all, or for each device")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--out", type=Path, help="write the result here")
    parser.add_argument("--resume", action="store_true", help="keep what --out has already")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(_one(*map(int, given.one.split(",")))))
        return
    options = sys.argv[1:] if arguments is None else list(arguments)
    result: dict[str, Any] = {
        "benchmark": "scaling",
        "command": shlex.join(["python", "-m", "benchmarks.scaling", *options]),
        "stamp": stamp(0),
        "strong": [],
        "weak": [],
    }
    if given.resume and given.out is not None and given.out.exists():
        result |= {kind: read_json(given.out)[kind] for kind in ("strong", "weak")}
    for kind in ("strong", "weak"):
        print(f"{kind} scaling\n{'devices':>8}{'P':>7}{'N':>9}{JTJ:>9}{'step s':>9}")
        for num in map(int, given.devices.split(",")):
            rows = given.rows * (num if kind == "weak" else 1)
            if any((s["devices"], s["rows"]) == (num, rows) for s in result[kind]):
                continue
            size = _in_a_process(num, given.parameters, rows, given.repeats)
            result["stamp"]["device"] = size.pop("device")  # not the GPU that may be here, too
            result[kind].append(size)
            times = "".join(f"{size['seconds'][name]:9.3f}" for name in ("normal", "step"))
            print(f"{num:8}{size['parameters']:7}{rows:9}{times}", flush=True)
            if given.out is not None:
                given.out.parent.mkdir(parents=True, exist_ok=True)
                write_json(given.out, result)


def _in_a_process(num: int, parameters: int, rows: int, repeats: int) -> dict[str, Any]:
    """One size on so many devices, each with a core and a single thread."""
    flags = f"--xla_force_host_platform_device_count={num} --xla_cpu_multi_thread_eigen=false"
    asked = f"{num},{parameters},{rows},{repeats}"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scaling", "--one", asked],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"{num} devices: {done.stderr.strip()[-500:]}")
    return json.loads(lines[-1])


def _one(num: int, parameters: int, rows: int, repeats: int) -> dict[str, Any]:
    """In its own process: pinned before JAX counts cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:num])
    from benchmarks import roofline
    from lcpinn.devices import make_mesh
    from lcpinn.machine import device
    from lcpinn.precision import double

    with double():
        size = roofline.one_size(roofline.setup_of(parameters), rows, repeats, make_mesh(num))
    return {"device": device(), "devices": num, **size}


# -- A model of many GPUs ------------------------------------------------------------------------


def model(sizes: Sequence[dict[str, Any]], rows: int, devices: Sequence[int]) -> dict[str, Any]:
    """Seconds of a step with so many rows on each number of GPUs, from steps timed on one of them.

    Two sizes with the same (most) parameters and different rows tell what a row costs and what does
    not depend on rows: t = fixed + each · N. Rows are divided, the fixed part (factorisations,
    conjugate gradients) is replicated, and the sums over rows, P² numbers each, are all-reduced:
    over a ring of the GPUs of a host and then, an eighth on each GPU, over a ring of the hosts,

        2 (g - 1)/g · 8 P² / NVLINK + 2 (h - 1)/h · P² / NETWORK,

    nothing of which is assumed to overlap with computing.
    """
    most = max(size["parameters"] for size in sizes)
    few, many = sorted((s for s in sizes if s["parameters"] == most), key=lambda s: s["rows"])[-2:]
    each = (many["seconds"]["step"] - few["seconds"]["step"]) / (many["rows"] - few["rows"])
    fixed = max(many["seconds"]["step"] - each * many["rows"], 0.0)
    sums = 2 if many["solver"] == "two-level" else 1
    steps = []
    for num in devices:
        exchange = sums * all_reduce_seconds(8 * most**2, num)
        seconds = fixed + each * rows / num + exchange
        efficiency = (fixed + each * rows) / (num * seconds)
        steps.append(
            {"devices": num, "rows": each * rows / num, "fixed": fixed, "all_reduce": exchange,
             "step": seconds, "efficiency": efficiency}
        )  # fmt: skip
    return {"parameters": most, "rows": rows, "bytes": sums * 8 * most**2, "steps": steps}


def all_reduce_seconds(size: int, devices: int) -> float:
    """So many bytes summed over all GPUs: rings within hosts, and rings between them."""
    within, hosts = min(devices, HOST), -(-devices // HOST)
    ring = lambda n: 2 * (n - 1) / n
    return ring(within) * size / NVLINK + ring(hosts) * size / within / NETWORK


if __name__ == "__main__":
    main()

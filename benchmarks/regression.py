"""What a network takes from the page's own solutions is worth: `fast` with one of it left out.

    python -m benchmarks.regression [--families spring,ring-wave,bratu,shaken-beam] [--seed 61]
                                    [--changes "few rows,even rows"] [--seconds 40]
                                    [--out results/regression-cpu.json]

Of families of the zoo whose solutions are known between settings (lcpinn.interpolated): one start
of a regression as `fast` would do it with a tolerance, without the frequencies of the first layer
(`no carriers`), with a trust region relative to all slopes (`whole radius`), with λ itself in place
of the variable in which solutions change evenly (`no stretch`), with steps that lower the loss each
(`descent`), with rows that are spread evenly along coordinates (`even rows`), and with no more rows
for descents than for exploring (`few rows`). Errors are those against the page's own solutions at
settings in between, relative to them; the truth is not looked at. What changes nothing for a family
is left out.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import lcpinn as lc
from benchmarks.processes import among
from benchmarks.stamp import stamp
from benchmarks.zoo import ZOO
from benchmarks.zoo.training import steps_of
from lcpinn.evaluation import arguments as named
from lcpinn.files import write_json
from lcpinn.interpolated import Between
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import GainRatio, GaussNewton, OwnSolutions, Restarts
from lcpinn.precision import double
from lcpinn.protocol.sizes import size_of
from lcpinn.reduced_basis import known_between

TOLERANCE = 1e-6
SETTINGS, POINTS = 41, 400  # at which a network is compared with the solutions
MOST = 4  # coefficients of which all corners are looked at


def main(given: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.regression", description=about)
    parser.add_argument("--families", type=among(ZOO, "family"),
                        default=["spring", "ring-wave", "bratu", "shaken-beam"])  # fmt: skip
    parser.add_argument("--changes", type=lambda names: names.split(","),
                        help="these variants alone, beside the one without a change")  # fmt: skip
    parser.add_argument("--seed", type=int, default=61)
    parser.add_argument("--seconds", type=float, default=40.0, help="time limit of each")
    parser.add_argument("--out", type=Path, help="write the result here")
    asked = parser.parse_args(given)
    options = sys.argv[1:] if given is None else list(given)
    command = shlex.join(["python", "-m", "benchmarks.regression", *options])
    result: dict[str, Any] = {"benchmark": "regression", "stamp": stamp(asked.seed)}
    result |= {"command": command, "seconds": asked.seconds, "trainings": []}
    print(f"{'family':16}{'changed':16}{'steps':>7}{'worst':>10}{'median':>10}")
    for name in asked.families:
        family = ZOO[name]()
        known_between(family, tolerance=TOLERANCE, seconds=60.0)  # that all find it solved
        protocol = lc.protocol.fast(family, seconds=asked.seconds, tolerance=TOLERANCE)
        for changed, changed_protocol in variants(family, protocol).items():
            if changed and asked.changes is not None and changed not in asked.changes:
                continue
            entry = {"family": name, "changed": changed}
            entry |= trained(family, changed_protocol, asked.seed)
            result["trainings"].append(entry)
            numbers = f"{entry['steps']:7}{entry['worst']:10.1e}{entry['median']:10.1e}"
            print(f"{name:16}{changed:16}{numbers}", flush=True)
            if asked.out is not None:
                write_json(asked.out, result)


def variants(family: lc.Family, protocol: lc.Protocol) -> dict[str, lc.Protocol]:
    """One start of a regression, and the same with one thing of it changed."""
    restarts, network = protocol.phases[0], protocol.network
    assert isinstance(restarts, Restarts)
    own = restarts.phase
    assert isinstance(own, OwnSolutions)
    phase = own.phase
    assert isinstance(network, MLP)
    assert isinstance(phase, GaussNewton)

    def made(network: MLP = network, **changes: Any) -> lc.Protocol:
        return started(replace(own, phase=replace(phase, **changes)), network)

    def started(one: OwnSolutions, network: MLP = network) -> lc.Protocol:
        alone = replace(restarts, phase=one, starts=1, max_starts=1, tolerance=None)
        return replace(protocol, network=network, phases=(alone,), judged=False)

    every = {"": made(), "descent": made(acceptance=GainRatio())}
    if phase.acceptance.explores:
        every["few rows"] = started(replace(own, descent_rows=0.0))
    if not network.carriers:
        every["even rows"] = started(replace(own, dense_at_ends=False))
    whole = size_of(family, smooth=True).radius
    if network.carriers:
        every["no carriers"] = made(replace(network, carriers=()), radius=whole)
        every["whole radius"] = made(radius=whole)
    if isinstance(network.parameters, FiLM) and network.parameters.stretch:
        plain = replace(network.parameters, stretch=())
        every["no stretch"] = made(replace(network, parameters=plain))
    return every


def trained(family: lc.Family, protocol: lc.Protocol, seed: int) -> dict[str, Any]:
    """Steps, and the relative error beside the page's own solutions: the worst and the median."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "run"
        solution = lc.train(family, protocol, seed=seed, out=out, progress=False, report=False)
        steps = steps_of(out / "metrics.jsonl")
    with double():
        teacher = known_between(family, tolerance=TOLERANCE, seconds=60.0)
        errors = [gap(solution, teacher, lam) for lam in settings_of(family)]
    return {"steps": steps, "worst": max(errors), "median": float(np.median(errors))}


def settings_of(family: lc.Family) -> np.ndarray:
    """Settings (n, p) that are evenly spread; of several coefficients the corners, too."""
    prior = family.parameters
    if len(prior.free) == 1:
        return np.asarray(prior.grid(SETTINGS))
    corners = prior.grid(2) if len(prior.free) <= MOST else np.empty((0, prior.dim))
    return np.concatenate([prior.sobol(SETTINGS, 3), corners])


def gap(solution: lc.Solution, teacher: Between, lam: np.ndarray) -> float:
    """How far a network is from the solution at one setting; the worst output counts."""
    family = teacher.family
    points = np.asarray(family.domain.sobol(POINTS, seed=5, parameters=lam))
    value = solution(**named(family, points, lam))
    columns = list(value.values()) if isinstance(value, dict) else [value]
    taught = np.asarray(teacher(jnp.asarray(points), jnp.asarray(np.tile(lam, (POINTS, 1)))))
    difference = np.linalg.norm(np.stack(columns, axis=-1) - taught, axis=0)
    return float(np.max(difference / np.linalg.norm(taught, axis=0)))


if __name__ == "__main__":
    main()

"""The parts of the first seconds: who they are charged to, and that they are all still there."""

import importlib
import time

from benchmarks import first_seconds
from benchmarks.first_seconds import PARTS, Stopwatch


def test_time_is_charged_to_the_innermost_part():
    watch = Stopwatch(time.time())
    with watch.part("outer"):
        time.sleep(0.02)
        watch.timed("inner", time.sleep)(0.05)
        watch.event("/jax/core/compile/backend_compile_duration", 0.5)
    parts = watch.parts
    assert 0.02 <= parts["outer"]["seconds"] < 0.05 <= parts["inner"]["seconds"]
    assert parts["outer"]["cpu_seconds"] < 0.02
    assert (parts["outer"]["compiles"], parts["outer"]["compile"]) == (1, 0.5)
    assert "compiles" not in parts["inner"]


def test_every_part_has_its_functions():
    for places in PARTS.values():
        for place in places:
            module, _, path = place.partition(":")
            owner = importlib.import_module(module)
            for name in path.split("."):
                owner = getattr(owner, name)
            assert callable(owner)


def test_the_table_says_what_was_aimed_at():
    part = {"seconds": 1.5, "cpu_seconds": 1.25, "compiles": 7}
    moments = {"first step": 3.5, "last step": 4.0, "end": 6.5}
    run = {
        "seconds": 7.0,
        "cpu_seconds": 6.0,
        "parts": {"verdict": part},
        "moments": {k: {"seconds": v, "cpu_seconds": v / 2} for k, v in moments.items()},
    }
    result = {"help": {"seconds": 0.4, "cpu_seconds": 0.3}, "cold": run, "warm": run}
    lines = first_seconds.table(result).splitlines()
    assert lines[2].split() == ["verdict", *["1.50", "1.25", "7"] * 2]
    assert lines[3].split() == ["all", *["7.00", "6.00", "7"] * 2]
    assert "0.40 s, CPU   0.30 s   (aim: 0.5 s)" in lines[4]
    assert "2.50 s, CPU   1.25 s   (aim: 3 s)" in lines[-1]
    assert first_seconds.quickest([run, run | {"cpu_seconds": 5.0}])["cpu_seconds"] == 5.0

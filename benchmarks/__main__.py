"""`python -m benchmarks` runs every benchmark, `python -m benchmarks step --no-torch` one of them.

`--list` says which there are. `families` trains every family with four seeds, for half an hour on
two cores, and goes on where it was interrupted; `zoo` takes two hours. A benchmark is a module of
this package with a function `main`, or a folder with such a `__main__.py`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType


def found() -> dict[str, ModuleType]:
    here = Path(__file__).parent
    files = {p.stem: p for p in here.glob("*.py") if p.stem != "__main__"}
    files |= {f"{p.parent.name}.__main__": p for p in here.glob("*/__main__.py")}
    # Looked for in the text first: a module beside them may need what is not installed.
    return {
        name.partition(".")[0]: importlib.import_module(f"benchmarks.{name}")
        for name, path in sorted(files.items())
        if "\ndef main(" in path.read_text()
    }


def run(arguments: list[str]) -> None:
    benchmarks = found()
    if "--list" in arguments:
        for name, module in benchmarks.items():
            print(f"{name:13} {(module.__doc__ or '').splitlines()[0]}")
    elif arguments and not arguments[0].startswith("-"):
        if arguments[0] not in benchmarks:
            sys.exit(f"there is no benchmark {arguments[0]!r}; there are {', '.join(benchmarks)}")
        benchmarks[arguments[0]].main(arguments[1:])
    elif arguments:
        sys.exit(f"name a benchmark before its options: {', '.join(benchmarks)}; or --list")
    else:
        for name, module in benchmarks.items():
            print(f"-- {name}")
            module.main([])


if __name__ == "__main__":
    run(sys.argv[1:])

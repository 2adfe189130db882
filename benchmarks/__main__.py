"""`python -m benchmarks` runs every benchmark, `python -m benchmarks step --no-torch` one of them.

`--list` says which there are. `families` trains every family with four seeds, for half an hour on
two cores, and goes on where it was interrupted. A benchmark is a module of this package with a
function `main`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType


def found() -> dict[str, ModuleType]:
    names = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem != "__main__")
    # Looked for in the text first: a module beside them may need what is not installed.
    texts = {name: (Path(__file__).parent / f"{name}.py").read_text() for name in names}
    return {
        name: importlib.import_module(f"benchmarks.{name}")
        for name, text in texts.items()
        if "\ndef main(" in text
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

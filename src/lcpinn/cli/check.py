"""`lcpinn check`: trying a page out before training it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lcpinn.cli.common import FamilyArgument, JsonOption, app, blaming, print_json, stdout
from lcpinn.cli.support import tables
from lcpinn.locate import find_family

if TYPE_CHECKING:
    from lcpinn.family import Family


@app.command()
def check(family: FamilyArgument, as_json: JsonOption = False) -> None:
    """Try a family out before training it: a minute that may save an hour.

    Terms are run at random points and at the corners of everything, traced, differentiated, and
    fed with the exact solution, which should leave nothing; whether they determine one solution is
    found out at a few settings, and a picture of what they leave free is left beside. Exit code 1
    if a check fails. Of a domain that is no box a picture is drawn, with its named boundaries at
    three lambda.

    \b
    lcpinn check my_pde.py:MyFamily
    lcpinn check helmholtz-1d --json
    """
    from lcpinn.cli.support.battery import check as run_checks

    with blaming(family):
        page = find_family(family)
        findings = run_checks(page)
    passed = all(f.ok for f in findings)
    picture = None if passed else _picture(page)
    if as_json:
        details = [{"name": f.name, "ok": f.ok, "applies": f.applies, "detail": f.detail}
                   for f in findings]  # fmt: skip
        print_json({"family": page.name, "ok": passed, "checks": details,
                    "picture": picture and str(picture)})  # fmt: skip
    else:
        tables.show_findings(stdout(), page, findings)
        if picture is not None:
            stdout().print(f"{picture}: a function that the page leaves free", markup=False)
        from lcpinn.domain import Box

        if not isinstance(page.domain, Box):
            from lcpinn.plot import domain_picture

            picture = domain_picture(page, Path(f"{page.name}-domain.png"))
            stdout().print(f"the domain with its boundaries: {picture}")
    if not passed:
        raise typer.Exit(1)


def _picture(family: Family) -> Path | None:
    """What the page leaves free, drawn into the working directory."""
    from lcpinn.spectral.determinacy import determinacy

    known = determinacy(family)
    if not known.num_free:
        return None
    from lcpinn.plot.free_function import free_function

    return free_function(family, known, Path(f"{family.name}-free.png"))

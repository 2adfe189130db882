"""`lcpinn families`: what is built in, and what can train it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcpinn.cli.common import JsonOption, app, blaming, print_json, stdout
from lcpinn.cli.support import tables
from lcpinn.errors import LcpinnError
from lcpinn.locate import find_family

if TYPE_CHECKING:
    from lcpinn.family import Family


@app.command()
def families(
    family: Annotated[
        str | None,
        typer.Argument(metavar="[FAMILY]", help="One of them; file.py:Class is one too."),
    ] = None,
    with_protocols: Annotated[
        bool,
        typer.Option("--protocols", help="How they can be trained; of one family, on what terms."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the families that are built in, and what can train them.

    \b
    lcpinn families
    lcpinn families --protocols               which method applies where
    lcpinn families helmholtz-1d --protocols  what each gets: network, points...
    """
    from lcpinn.families import BUILT_IN, built

    with blaming(family):
        if family is None:
            known = {name: built(name) for name in BUILT_IN}
        else:
            page = find_family(family)
            known = {page.name: page}
        if with_protocols and family is not None:
            _terms(known.popitem()[1], as_json)
        elif with_protocols:
            matrix = {name: _applicable(one) for name, one in known.items()}
            print_json(matrix) if as_json else tables.show_protocols(stdout(), matrix)
        elif as_json:
            print_json([_about(name, one) for name, one in known.items()])
        else:
            tables.show_families(stdout(), known)


def _about(name: str, family: Family) -> dict[str, Any]:
    return {
        "name": name,
        "equation": tables.equation(family),
        "coordinates": family.domain.ranges,
        "parameters": family.parameters.ranges,
        "outputs": family.outputs,
        "terms": family.term_names,
    }


def _without_data() -> list[str]:
    """Those of the reproduction that see a reference's values are as their namesakes."""
    from lcpinn import protocol as protocols

    return [name for name in protocols.PROTOCOLS if not name.endswith("-data")]


def _applicable(family: Family) -> dict[str, dict[str, str]]:
    """Protocol -> whether it applies: `yes`, `at` (with a setting), or `no` and the reason."""
    from lcpinn import protocol as protocols

    applicability: dict[str, dict[str, str]] = {}
    for name in _without_data():
        try:
            held = protocols.outline(name, family).at
            applicability[name] = {"applies": "at" if held else "yes"}
        except LcpinnError as error:
            applicability[name] = {"applies": "no", "reason": str(error)}
    return applicability


def _terms(family: Family, as_json: bool) -> None:
    """What each protocol is for this family, read off its values."""
    from lcpinn import protocol as protocols
    from lcpinn.protocol.facts import facts

    rows: dict[Any, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    for name in _without_data():
        make = protocols.PROTOCOLS[name]
        if make in rows:
            rows[make]["name"] += f", {name}"  # another name for the same
            continue
        try:
            rows[make] = {"name": name, **facts(family, protocols.example(name, family))}
        except LcpinnError as error:
            refused[name] = str(error)
    if as_json:
        print_json({"family": family.name, "protocols": [*rows.values()], "not": refused})
        return
    console = stdout()
    tables.show_terms(console, family, [*rows.values()])
    for reason in refused.values():
        tables.fact(console, "–", reason)

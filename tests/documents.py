"""Reading documents: their blocks of code, their commands and their links."""

import functools
import re
import shlex
from typing import NamedTuple

import typer

from lcpinn.cli import app


class Block(NamedTuple):
    """A fenced block: its language, the file that it is to be saved as, and its text."""

    language: str
    title: str
    text: str


def every_block(text: str) -> list[Block]:
    found = re.findall(r"^```([\w-]*)(?: title=\"([^\"]*)\")?\n(.*?)^```", text, re.M | re.S)
    return [Block(*parts) for parts in found]


def blocks(text: str, language: str) -> list[str]:
    """The texts of all blocks in a language, but for those that include a file."""
    found = [block.text for block in every_block(text) if block.language == language]
    return [code for code in found if not code.startswith("--8<--")]


def commands(text: str) -> list[list[str]]:
    """The lines of all shell blocks, as words; what follows # is left out."""
    lines = [line for block in blocks(text, "bash") for line in block.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


# Made of the signatures of all commands, which takes a while.
command_line = functools.cache(typer.main.get_group)


def parses(words: list[str]) -> None:
    """Fails unless the command line takes these words; nothing is run."""
    root = command_line(app)
    name, *rest = words
    assert name in root.commands, f"there is no command {name!r}"
    try:
        root.commands[name].make_context(name, rest)
    except Exception as error:  # of typer's own copy of click, or of click
        why = getattr(error, "format_message", error.__str__)()
        raise AssertionError(f"{' '.join(words)}: {why}") from error


def links(text: str) -> list[str]:
    """Where a document's links and pictures lead, other than to other sites."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    return [target for target in targets if "://" not in target]


def anchors(text: str) -> set[str]:
    """The ids that a page's headings get."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    titles = re.findall(r"^#+ (.*)$", prose, re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", t).strip().lower()) for t in titles}

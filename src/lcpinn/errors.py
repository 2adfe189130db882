"""What the library says when it cannot go on, or when an answer should be read with care."""

from __future__ import annotations

from collections.abc import Iterable


class LcpinnError(ValueError):
    """One clear line in the user's language; every deliberate error of the library is one."""

    def __init__(self, line: str = ""):
        # What it quotes, a value of the user's for instance, may go over several.
        super().__init__(" ".join(part.strip() for part in line.splitlines()) or line)


class OutsidePriorWarning(UserWarning):
    """A solution was asked for a lambda outside the prior it was trained over."""


class NotSolvedWarning(UserWarning):
    """A training ended with an estimated error above what was asked for, or above one per cent."""


def check_choice(owner: str, field: str, value: str, choices: Iterable[str]) -> None:
    """Refuse a value that a field does not have, naming those that it has."""
    known = tuple(choices)
    if value not in known:
        raise LcpinnError(f"{owner} has no {field} {value!r}; there are {', '.join(known)}")

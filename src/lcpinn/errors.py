"""What the library says when it cannot go on, or when an answer should be read with care."""


class LcpinnError(ValueError):
    """One clear line in the user's language; every deliberate error of the library is one."""


class OutsidePriorWarning(UserWarning):
    """A solution was asked for a lambda outside the prior it was trained over."""

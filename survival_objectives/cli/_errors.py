"""User errors as one line that names the value and the way out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

# What moves the cursor, colours or reorders text on a terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class CommandError(Exception):
    """Something is wrong with the data or the model; exit code 1."""

    code = 1


class UsageError(CommandError):
    """Something is wrong with the command itself; exit code 2."""

    code = 2


def visible(text: object) -> str:
    r"""The text with control characters written out as in JSON, except line breaks and tabs.

    >>> print(visible("red\x1b[31m \u202eeman"))
    red\u001b[31m \u202eeman
    """
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text))


def one_line(message: object) -> str:
    """The message without line breaks."""
    return " ".join(str(message).split())


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural if needed.

    >>> counted(1, "row"), counted(2, "such row")
    ('1 row', '2 such rows')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Iterable[object], limit: int = 8) -> str:
    """Names in quotes, at most ``limit`` of them.

    >>> listed(["age", "sex"])
    "'age', 'sex'"
    >>> listed(range(5), limit=2)
    "'0', '1' and 3 more"
    """
    names = [str(name) for name in names]
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def suggestion(name: str, known: Iterable[str], what: str) -> str:
    """The names closest to a mistyped one, or all of them.

    >>> suggestion("tme", ["time", "status"], "columns")
    "did you mean 'time'?"
    >>> suggestion("x", ["time", "status"], "columns")
    "the columns are 'time', 'status'"
    """
    known = list(known)
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(repr(by_lower[match]) for match in close)}?"
    return f"the {what} are {listed(known)}"

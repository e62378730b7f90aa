"""Output of commands, and user errors as one line that names the value and the way out.

Results go to standard output, progress and warnings to standard error.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Protocol

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


# ------------------------------------------------------------------------------------------- output
PROGRAM = "survival-objectives"
SECONDS_BETWEEN_LINES = 30.0


class Console:
    """Standard output for results, standard error for everything else.

    ``quiet`` hides progress; warnings and errors are always shown.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._warned: set[str] = set()

    @property
    def shows_progress(self) -> bool:
        """Whether standard error is a terminal that shows a progress bar."""
        return not self.quiet and sys.stderr.isatty()

    def result(self, text: object = "") -> None:
        """Write to standard output."""
        _aside(lambda: print(visible(text)))

    def progress(self, text: object) -> None:
        """Write progress to standard error."""
        if not self.quiet:
            self._say(text)

    @contextmanager
    def bar(self, label: str, total: float = 1.0, unit: str = "") -> Iterator[Bar]:
        """A progress bar with the time left on a terminal; otherwise occasional lines."""
        tqdm = _tqdm() if self.shows_progress else None
        if tqdm is None:
            yield _Lines(self, label, total)
            return
        counted = f"{{n:.0f}}/{{total:.0f}} {unit} " if unit else "{percentage:3.0f}% "
        shown = f"{{desc}}: {{bar}} {counted}[{{elapsed}}, {{remaining}} left]"
        with tqdm(
            total=total, desc=label, file=sys.stderr, leave=False, ncols=78, bar_format=shown
        ) as bar:
            yield _Drawn(bar)

    def warn(self, message: object) -> None:
        """Write a warning to standard error, once per message."""
        line = one_line(message)
        if line not in self._warned:
            self._warned.add(line)
            self._say(f"{PROGRAM}: warning: {line}")

    def error(self, message: object) -> None:
        """Write an error to standard error."""
        self._say(f"{PROGRAM}: error: {one_line(message)}")

    def show_warning(self, message: Warning | str, *_: Any, **__: Any) -> None:
        """`warnings.showwarning` of a command."""
        self.warn(message)

    def _say(self, text: object) -> None:
        _aside(lambda: print(visible(text), file=sys.stderr, flush=True))

    def ask(self, question: str, answers: Mapping[str, str]) -> str | None:
        """The key of one of the answers, typed at a terminal; None if there is no terminal."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        self._say(question)
        for key, meaning in answers.items():
            self._say(f"  {key}  {meaning}")
        while True:
            self._say(f"Type {', '.join(answers)}:")
            line = sys.stdin.readline()
            if not line:
                return None
            if line.strip().lower() in answers:
                return line.strip().lower()


class Bar(Protocol):
    """Display of progress."""

    def at(self, done: float) -> None:
        """Show the amount that is done, out of the total."""


class _Drawn:
    """A bar of tqdm."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def at(self, done: float) -> None:
        self._bar.n = min(done, self._bar.total)
        self._bar.refresh()


class _Lines:
    """Lines for a log: the share that is done and the time left, at most two per minute."""

    def __init__(self, console: Console, label: str, total: float) -> None:
        self._console, self._label, self._total = console, label, total
        self._begin = self._said = time.monotonic()

    def at(self, done: float) -> None:
        now = time.monotonic()
        if now - self._said < SECONDS_BETWEEN_LINES or not 0 < done < self._total:
            return
        self._said = now
        left = (now - self._begin) * (self._total - done) / done
        self._console.progress(
            f"{self._label}: {done / self._total:.0%} done, {in_words(left)} left"
        )


def in_words(seconds: float) -> str:
    """A duration in words, rounded.

    >>> in_words(4), in_words(50), in_words(400), in_words(9000)
    ('5 seconds', '50 seconds', '7 minutes', '2.5 hours')
    """
    if seconds < 90:
        return f"{max(5 * round(seconds / 5), 5)} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"


def _aside(say: Any) -> None:
    """Print without overwriting a visible progress bar."""
    tqdm = _tqdm()
    if tqdm is None:
        say()
        return
    with tqdm.external_write_mode(file=sys.stderr):
        say()


def _tqdm() -> Any:
    """The class that draws bars, or None where tqdm is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm

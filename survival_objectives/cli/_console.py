"""Where words go: results to standard output, progress and warnings to standard error."""

from __future__ import annotations

import sys
from typing import Any

from survival_objectives.cli._errors import one_line

__all__ = ["PROGRAM", "Console"]

PROGRAM = "survival-objectives"


class Console:
    """Standard output for results, standard error for everything else.

    Parameters
    ----------
    quiet : bool, default=False
        Whether progress is left out. Warnings and errors are shown all the same.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._warned: set[str] = set()

        self._open_line = False

    @property
    def shows_progress(self) -> bool:
        """Whether somebody looks at a line that is written over and over."""
        return not self.quiet and sys.stderr.isatty()

    def result(self, text: object = "") -> None:
        """Write to standard output."""
        self._close_line()
        print(text)

    def progress(self, text: object) -> None:
        """Say on standard error what is being done."""
        if not self.quiet:
            self._say(text)

    def step(self, text: str) -> None:
        """As `progress`, on a line that the next step writes over where somebody looks on."""
        if self.shows_progress:
            sys.stderr.write(f"\r{text:<78}")
            sys.stderr.flush()
            self._open_line = True
        else:
            self.progress(text)

    def warn(self, message: object) -> None:
        """Say once on standard error what may be wrong."""
        line = one_line(message)
        if line not in self._warned:
            self._warned.add(line)
            self._say(f"{PROGRAM}: warning: {line}")

    def error(self, message: object) -> None:
        """Say on standard error why the command ends."""
        self._say(f"{PROGRAM}: error: {one_line(message)}")

    def show_warning(self, message: Warning | str, *_: Any, **__: Any) -> None:
        """`warnings.showwarning` of a command."""
        self.warn(message)

    def _say(self, text: object) -> None:
        self._close_line()
        print(text, file=sys.stderr, flush=True)

    def _close_line(self) -> None:
        if self._open_line:
            sys.stderr.write("\n")
            self._open_line = False

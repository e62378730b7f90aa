"""Progress of a training on standard error."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]


class Progress:
    """Rounds, loss and remaining time on one line of standard error, once it advances."""

    def __init__(self, n_rounds: int, loss_name: str) -> None:
        self._n_rounds = n_rounds
        self._loss_name = loss_name

    def __enter__(self) -> Progress:
        self._begin = time.monotonic()
        self._done = 0
        return self

    def advance(self, n_rounds: int, loss: float) -> None:
        """Show that ``n_rounds`` more rounds are done."""
        self._done += n_rounds
        elapsed = time.monotonic() - self._begin
        left = elapsed / self._done * (self._n_rounds - self._done)
        rounds = f"{self._done:>5}/{self._n_rounds} rounds"
        line = f"{rounds}  {self._loss_name} {loss:.4f}  {elapsed:.0f} s, {left:.0f} s left"
        sys.stderr.write(f"\r{line:<78}")
        sys.stderr.flush()

    def __exit__(self, *exception: object) -> None:
        if self._done:
            sys.stderr.write("\n")

"""Progress of a training: on standard error, or reported to an optional listener.

Trainings call `Progress`, `progress_hook` or `report_progress`; the command line listens with
`progress_to`. Without a listener, reports are ignored.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[float], None]

_listener: ContextVar[Listener | None] = ContextVar("progress_listener", default=None)


@contextmanager
def progress_to(listener: Listener) -> Iterator[None]:
    """Context in which ``listener`` is called with the share of a training that is done.

    >>> with progress_to(print):
    ...     report_progress(1, 4)
    0.25
    >>> report_progress(2, 4)
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report_progress(done: float, total: float) -> None:
    """Report to the listener, if there is one, that ``done`` of ``total`` is done."""
    listener = _listener.get()
    if listener is not None and total > 0:
        listener(min(done / total, 1.0))


def progress_hook(total: int) -> Callable[[int, float], None] | None:
    """A callback for the steps of a training, or None without a listener.

    Its arguments are the number of steps since the last call, out of ``total``, and the loss.
    """
    if _listener.get() is None:
        return None
    done = 0

    def advance(n_steps: int, _loss: float) -> None:
        nonlocal done
        done += n_steps
        report_progress(done, total)

    return advance


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

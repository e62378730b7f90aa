"""Progress of a training, reported to an optional listener.

Trainings call `progress_hook` or `report_progress`; the command line listens with `progress_to`.
Without a listener, reports are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["progress_hook", "progress_to", "report_progress"]

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

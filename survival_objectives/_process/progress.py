"""Progress of a training: on standard error, to callbacks, and to those of scikit-learn.

Trainings advance a `Progress`; callers listen with `progress_to`, as `fit` does for its callbacks
and the command line for its bars.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = [
    "CallbackSupportMixin",
    "Listener",
    "Progress",
    "progress_to",
    "sklearn_tasks",
    "with_callbacks",
]

#: Called with the number of rounds done, the planned number, and the latest loss.
Listener = Callable[[int, int, float], object]

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("progress_listeners", default=())
# Tasks that callbacks of scikit-learn see in a training.
_N_TASKS = 20


@contextmanager
def progress_to(*listeners: Listener, others: bool = True) -> Iterator[None]:
    """Context in which these listeners, besides the others, are called as trainings advance.

    >>> with progress_to(print), Progress(4, "loss", shown=False) as progress:
    ...     progress.advance(1, 0.5)
    1 4 0.5
    """
    token = _listeners.set((*_listeners.get(), *listeners) if others else listeners)
    try:
        yield
    finally:
        _listeners.reset(token)


class Progress:
    """Rounds and loss for listeners and, if ``shown``, on one line of standard error."""

    def __init__(self, n_rounds: int, loss_name: str, *, shown: bool) -> None:
        self._n_rounds = n_rounds
        self._loss_name = loss_name
        self._shown = shown
        self._listeners = _listeners.get()

    def __enter__(self) -> Progress:
        self._begin = time.monotonic()
        self._done = 0
        return self

    @property
    def hook(self) -> Callable[[int, float], None] | None:
        """`advance`, or None if it has no effect, so that losses need not be computed."""
        return self.advance if self._shown or self._listeners else None

    def advance(self, n_rounds: int, loss: float) -> None:
        """Tell that ``n_rounds`` more rounds are done."""
        self._done += n_rounds
        for listener in self._listeners:
            listener(self._done, self._n_rounds, loss)
        if self._shown:
            elapsed = time.monotonic() - self._begin
            left = elapsed / self._done * (self._n_rounds - self._done)
            rounds = f"{self._done:>5}/{self._n_rounds} rounds"
            line = f"{rounds}  {self._loss_name} {loss:.4f}  {elapsed:.0f} s, {left:.0f} s left"
            sys.stderr.write(f"\r{line:<78}")
            sys.stderr.flush()

    def __exit__(self, *exception: object) -> None:
        if self._done and self._shown:
            sys.stderr.write("\n")


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: this version of scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """The method itself."""
        return method


@contextmanager
def sklearn_tasks(estimator: Any, X: Any, y: Any) -> Iterator[tuple[Listener, ...]]:
    """Listeners that pass a training on to the callbacks of ``estimator.set_callbacks``.

    Every twentieth of the rounds is a task; the whole training has the fitted estimator at its end.
    """
    if not hasattr(estimator, "_init_callback_context"):
        yield ()
        return
    whole = estimator._init_callback_context(max_subtasks=_N_TASKS)  # noqa: SLF001
    whole.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
    n_told = 0

    def tell(done: int, total: int, _: float) -> None:
        nonlocal n_told
        while n_told < min(done * _N_TASKS // total, _N_TASKS):
            task = whole.subcontext(task_name="rounds")
            task.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
            task.call_on_fit_task_end(estimator=estimator, X=X, y=y)
            n_told += 1

    yield (tell,) if hasattr(estimator, "_skl_callbacks") else ()
    whole.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes=dict)

r"""The running process: threads of the engines, Ctrl-C during a training, and progress.

**Threads.** By default engines use as many threads as the machine has cores, which has two
drawbacks. In a container, or under a scheduler, a process may use only some of the cores. And
between two steps of a round all threads wait for the slowest one: on a shared machine that thread
may be suspended, while the others busy-wait and keep the cores occupied. Here the default depends
on the cores the process may use and on the size of the data, never on the current load: the same
data on the same machine always use the same number of threads. Waiting threads sleep, if this can
be set before OpenMP is loaded. If scikit-learn or an engine was imported before this package, it
cannot be set, and small data are trained with one thread.

**Interrupts.** An exception that leaves a function called from C, or the deletion of an object, is
printed and lost, and the engine continues without its result: XGBoost then reports an error of its
own, or crashes. So a training holds interrupts back, and delivers them at moments between calls of
the engine.

**Progress.** Trainings advance a `Progress`; callers listen with `progress_to`, as `fit` does for
its callbacks and the command line for its bars.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

from threadpoolctl import threadpool_limits

# A thread adds about one cell of the binned matrix to a histogram per nanosecond. This many keep it
# busy for a tenth of a millisecond between two waits, much longer than waking it up takes.
_CELLS_PER_THREAD = 2**17
# For threads that busy-wait: next to other programs they cost ten times what they save.
_CELLS_PER_SPINNING_THREAD = 2**20
# Libraries that ship OpenMP.
_WITH_OPENMP = ("sklearn.utils", "xgboost", "lightgbm")
# Limits set by users and schedulers (Slurm, Grid Engine, PBS).
_LIMITS = ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "SLURM_CPUS_PER_TASK", "NSLOTS", "NCPUS")
# If any of these is set, the user has chosen how threads wait.
_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")


def available_threads() -> int:
    """Number of cores this process may use, by affinity, container, scheduler and environment."""
    limits = [int(importlib.import_module("joblib").cpu_count())]
    for name in _LIMITS:
        # OMP_NUM_THREADS may list numbers for nested levels.
        first = os.environ.get(name, "").partition(",")[0].strip()
        if first.isdecimal() and int(first) > 0:
            limits.append(int(first))
    return min(limits)


def one_blas_thread() -> threadpool_limits:
    """Context with one thread in BLAS.

    Its rounding depends on the number of threads, which wait in a loop: beside other programs they
    cost several times the CPU time of one thread.
    """
    return threadpool_limits(1, user_api="blas")


def most_threads(n_jobs: int | None) -> int:
    """Number of threads for a matrix of any size."""
    return available_threads() if n_jobs is None or n_jobs < 1 else n_jobs


def default_threads(n_rows: int, n_columns: int, n_jobs: int | None = None) -> int:
    """Number of threads for a matrix of this size: enough work for each, within the limits.

    Parameters
    ----------
    n_rows, n_columns : int
        Shape of the matrix that the engine trains on or predicts.
    n_jobs : int, optional
        The user's choice, for matrices of any size; -1 for all that the process may use.

    Examples
    --------
    >>> default_threads(1000, 10)
    1
    """
    if n_jobs is not None:
        return most_threads(n_jobs)
    cells_per_thread = _CELLS_PER_THREAD if _IS_PASSIVE else _CELLS_PER_SPINNING_THREAD
    return max(1, min(available_threads(), n_rows * n_columns // cells_per_thread))


@contextmanager
def passive_wait() -> Iterator[None]:
    """Context in which libraries are loaded whose OpenMP threads should sleep while they wait.

    OpenMP reads its environment once, when it is loaded. The environment is restored afterwards,
    and is not changed if it already says how to wait.
    """
    if any(name in os.environ for name in _WAITING):
        yield
        return
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    try:
        yield
    finally:
        os.environ.pop("OMP_WAIT_POLICY", None)


def _is_passive() -> bool:
    """Whether OpenMP threads sleep while they wait."""
    if any(name in os.environ for name in _WAITING):
        # The user's choice.
        return os.environ.get("OMP_WAIT_POLICY", "PASSIVE").upper() == "PASSIVE"
    return not any(name in sys.modules for name in _WITH_OPENMP)


_IS_PASSIVE = _is_passive()
# Wheels of scikit-learn and XGBoost share one copy of OpenMP, and scikit-learn's is loaded first.
with passive_wait():
    importlib.import_module("sklearn.utils")


_Handler = Callable[[int, FrameType | None], Any]


class _Interrupts:
    """What is held back in this process; signals arrive in its main thread only."""

    def __init__(self) -> None:
        self.handler: _Handler | None = None  # The user's.
        self.is_open = False
        self.waiting: tuple[int, FrameType | None] | None = None

    def receive(self, signum: int, frame: FrameType | None) -> None:
        """What Python calls in place of the user's handler."""
        self.waiting = signum, frame
        if self.is_open:
            self.deliver()

    def deliver(self) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None and self.handler is not None:
            self.handler(*waiting)


_INTERRUPTS = _Interrupts()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def deliver_interrupt() -> None:
    """Call the usual handler of an interrupt that waits; Python's own raises KeyboardInterrupt."""
    if _is_main_thread():
        _INTERRUPTS.deliver()


@contextmanager
def interrupts_open() -> Iterator[None]:
    """A section from which an exception is caught before it reaches foreign code."""
    if not _is_main_thread():
        yield
        return
    _INTERRUPTS.is_open = True
    try:
        _INTERRUPTS.deliver()
        yield
    finally:
        _INTERRUPTS.is_open = False


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back until `deliver_interrupt`, or the end of the outermost of these contexts."""
    handler = signal.getsignal(signal.SIGINT) if _is_main_thread() else None
    # Only the main thread may set handlers. An outer context holds interrupts already.
    if not callable(handler) or handler == _INTERRUPTS.receive:
        yield
        return
    _INTERRUPTS.handler = handler
    signal.signal(signal.SIGINT, _INTERRUPTS.receive)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        _INTERRUPTS.deliver()


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
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
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

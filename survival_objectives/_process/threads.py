"""Default number of threads of an engine, and how they wait.

By default engines use as many threads as the machine has cores, which has two drawbacks. In a
container, or under a scheduler, a process may use only some of the cores. And between two steps of
a round all threads wait for the slowest one: on a shared machine that thread may be suspended,
while the others busy-wait and keep the cores occupied.

Here the default depends on the cores the process may use and on the size of the data, never on the
current load: the same data on the same machine always use the same number of threads. Waiting
threads sleep, if this can be set before OpenMP is loaded. If scikit-learn or an engine was imported
before this package, it cannot be set, and small data are trained with one thread.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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


def blas_threads(n_jobs: int | None) -> threadpool_limits:
    """Context with ``n_jobs`` threads in BLAS, whose rounding depends on their number."""
    limit = available_threads() if n_jobs is not None and n_jobs < 1 else n_jobs
    return threadpool_limits(limit, user_api="blas")


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

"""How many threads an engine uses where the user does not say, and how they wait.

Engines take as many threads as the machine has cores. Two things are wrong with that. In a
container, or under a scheduler, a process may use only some of them. And between two steps of a
round all threads wait for the slowest: on a machine that other programs use as well, that is one
which the system has put aside, and the others wait for it in a loop that keeps the cores busy.

So the default number follows from what the process may use and from the size of the work, never
from how busy the machine is: the same data on the same machine are trained with as many threads.
Threads that wait sleep instead, if this can be said before OpenMP is loaded. Where scikit-learn or
an engine was imported before this package, it cannot, and small data are trained with one thread.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import joblib

__all__ = ["available_threads", "default_threads", "passive_wait"]

# A thread adds about a cell of the binned matrix to a histogram per nanosecond. With this many it
# works for a tenth of a millisecond between two waits, much longer than it takes to wake it up.
_CELLS_PER_THREAD = 2**17
# With threads that wait in a loop: beside other programs these cost ten times what they save.
_CELLS_PER_SPINNING_THREAD = 2**20
# Libraries that bring OpenMP with them.
_WITH_OPENMP = ("sklearn.utils", "xgboost", "lightgbm")
# Limits that users and schedulers (Slurm, Grid Engine, PBS) give.
_LIMITS = ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "SLURM_CPUS_PER_TASK", "NSLOTS", "NCPUS")
# With any of these, the user has said how threads wait.
_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")


def available_threads() -> int:
    """Cores that this process may use: by affinity, container, scheduler and environment."""
    limits = [int(joblib.cpu_count())]
    for name in _LIMITS:
        # OMP_NUM_THREADS may list numbers for nested levels.
        first = os.environ.get(name, "").partition(",")[0].strip()
        if first.isdecimal() and int(first) > 0:
            limits.append(int(first))
    return min(limits)


def default_threads(n_rows: int, n_columns: int) -> int:
    """Threads for work on a matrix of this size: enough work for each, and no more than allowed.

    Parameters
    ----------
    n_rows, n_columns : int
        Rows that the engine trains on, or predicts, and their columns.

    Examples
    --------
    >>> default_threads(1000, 10)
    1
    """
    cells_per_thread = _CELLS_PER_THREAD if _IS_PASSIVE else _CELLS_PER_SPINNING_THREAD
    return max(1, min(available_threads(), n_rows * n_columns // cells_per_thread))


@contextmanager
def passive_wait() -> Iterator[None]:
    """Lets OpenMP threads of libraries that are loaded in this context sleep while they wait.

    OpenMP reads its environment once, when it is loaded. The environment is as before afterwards,
    and is left alone where it says how to wait.
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
    """Whether OpenMP, loaded now or before, lets threads sleep while they wait."""
    if any(name in os.environ for name in _WAITING):
        # The user's choice, whatever it is.
        return os.environ.get("OMP_WAIT_POLICY", "PASSIVE").upper() == "PASSIVE"
    return not any(name in sys.modules for name in _WITH_OPENMP)


_IS_PASSIVE = _is_passive()
# Wheels of scikit-learn and XGBoost share one copy of OpenMP, and scikit-learn's is loaded first.
with passive_wait():
    importlib.import_module("sklearn.utils")

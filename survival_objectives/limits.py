"""Ranges of the estimator's parameters, outside of which engines crash or cannot learn."""

from __future__ import annotations

import numbers
import os
from typing import Any

__all__ = ["check_limits"]

# Smallest and largest values: engines hold weights and times in float32.
_LIMITS: dict[str, tuple[float, float]] = {
    "n_estimators": (1, 10**6),
    "refresh_every": (1, 10**6),
    "early_stopping_rounds": (1, 10**6),
    "n_horizons": (1, 10**4),
    "n_folds": (2, 100),
    "rows_per_person": (1, 10**4),
    "learning_rate": (1e-6, 1),
    "min_censoring_survival": (1e-6, 1),
    "min_leaf_people": (0, 1e9),
    "min_split_gain": (0, 1e9),
    "horizon_max": (1e-30, 1e30),
}
# More threads than this only cost memory; LightGBM and CatBoost end the process on 10^5.
_MOST_THREADS = 256


def check_limits(model: Any, *, max_depth: int) -> None:
    """Raise an error if a parameter of ``model`` is out of range.

    Parameters
    ----------
    model : object
        An object with the parameters of `SurvivalBoost`, whose types are already checked.
    max_depth : int
        Maximum depth that the engine supports.
    """
    for name, (low, high) in {**_LIMITS, "max_depth": (1, max_depth)}.items():
        value = getattr(model, name)
        if isinstance(value, numbers.Real) and not low <= float(value) <= high:
            msg = f"`{name}` must be from {low:g} to {high:g}; got {value!r}."
            raise ValueError(msg)
    _check_threads(model.n_jobs)
    if not isinstance(model.verbose, numbers.Integral):
        msg = f"`verbose` must be 0 or 1; got {model.verbose!r}."
        raise TypeError(msg)


def _check_threads(n_jobs: Any) -> None:
    most = max(_MOST_THREADS, os.cpu_count() or 1)
    wanted = f"a number of threads up to {most}, -1 for all, or None to choose by data size"
    if isinstance(n_jobs, bool):
        msg = f"`n_jobs` must be {wanted}; got {n_jobs!r}."
        raise TypeError(msg)
    if n_jobs is not None and n_jobs != -1 and not 1 <= n_jobs <= most:
        msg = f"`n_jobs` must be {wanted}; got {n_jobs!r}."
        raise ValueError(msg)

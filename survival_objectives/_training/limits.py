"""Checks of the estimator's parameters: ranges outside of which engines crash or cannot learn."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from survival_objectives._engines.protocol import (
    ENGINES,
    Engine,
    engine,
    engine_to_use,
    is_installed,
)
from survival_objectives._hazards.people import ALL_ROWS
from survival_objectives._models.fitted import FittedModel
from survival_objectives._people import check_choice, check_fraction, check_positive_int
from survival_objectives._training.parameters import (
    DOUBLY_ROBUST,
    HAZARDS,
    METHODS,
    by_method,
    own_models,
)
from survival_objectives.censoring import CensoringModel
from survival_objectives.stacking import TimeStacker

# Smallest and largest values: engines hold weights and times in float32.
_LIMITS: dict[str, tuple[float, float]] = {
    "n_estimators": (1, 10**6),
    "refresh_every": (1, 10**6),
    "early_stopping_rounds": (1, 10**6),
    "n_horizons": (1, 10**4),
    "n_folds": (2, 100),
    "n_repeats": (1, 100),
    "rows_per_person": (1, 10**4),
    "learning_rate": (1e-6, 1),
    "min_censoring_survival": (1e-6, 1),
    "min_leaf_people": (0, 1e9),
    "min_split_gain": (0, 1e9),
    "horizon_max": (1e-30, 1e30),
}
_BOOLEAN = (bool, np.bool_)
# Types of parameters, and what is asked for in words.
_TYPES: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("monotone", _BOOLEAN, "True or False"),
    ("linear", _BOOLEAN, "True or False"),
    ("warm_start", _BOOLEAN, "True or False"),
    ("n_jobs", (numbers.Integral, type(None)), "a number of threads, -1 for all, or None"),
    ("engine_params", (Mapping, type(None)), "a dict or None"),
    ("min_leaf_people", (numbers.Real, type(None)), "a number >= 0, or None"),
    ("min_split_gain", (numbers.Real, type(None)), "a number >= 0, or None"),
)
# More threads than this only cost memory; LightGBM and CatBoost end the process on 10^5.
_MOST_THREADS = 256


def check_parameters(model: Any) -> None:
    """Raise an error if a parameter of ``model`` has a wrong type or value.

    Parameters
    ----------
    model : object
        With the parameters of `survival_objectives.SurvivalBoost`.
    """
    check_choice(model.engine, "engine", tuple(ENGINES))
    _check_counts(model)
    _check_fractions(model)
    if not isinstance(model.censoring, CensoringModel):
        check_choice(model.censoring, "censoring", ("auto", *METHODS))
    if isinstance(model.completion, str):
        check_choice(model.completion, "completion", (HAZARDS,))
    TimeStacker(model.n_horizons, model.horizon_sampler, horizon_max=model.horizon_max)
    _check_types(model)
    used = engine(engine_to_use(model.engine))
    _check_limits(model, max_depth=used.max_depth)
    if isinstance(model.censoring, str) and model.censoring == DOUBLY_ROBUST:
        _check_takes_any_target(used)
    used.settings.resolved(model.engine_params or {})


def _check_takes_any_target(used: Engine) -> None:
    if not used.takes_any_target:
        msg = (
            f'`censoring="doubly-robust"` has targets outside [0, 1], which the losses of '
            f"{used.name} do not take. Use another engine, or the objective of "
            f"`survival_objectives.adapters.{used.name}` with `doubly_robust=True`."
        )
        raise ValueError(msg)


def check_warm_start(model: Any, fitted: FittedModel) -> None:
    """Raise an error if training with the parameters of ``model`` cannot continue ``fitted``."""
    used, method = fitted.frame.engine, fitted.record.method
    if used != model.engine and is_installed(model.engine):
        msg = (
            f"The model to continue was trained by {used}, not {model.engine}. "
            f'Use `engine="{used}"`, or set `warm_start=False`.'
        )
        raise ValueError(msg)
    given = by_method(model.get_params(deep=False), method, used)
    is_chosen_by_data = model.n_estimators is None and method == HAZARDS
    if not is_chosen_by_data and given["n_estimators"] <= fitted.n_rounds:
        msg = (
            f"`n_estimators` is {given['n_estimators']}, but the model to continue has "
            f"{fitted.n_rounds} rounds already. Raise it, or set `warm_start=False`."
        )
        raise ValueError(msg)


def check_no_own_models(model: Any, where: str) -> None:
    """Raise an error if a parameter is a model of the user's own, which needs all people.

    Parameters
    ----------
    model : object
        With the parameters of `survival_objectives.SurvivalBoost`.
    where : str
        Where all people would have to be, such as "in memory".
    """
    own = own_models(model)
    if own:
        msg = (
            f"`{own[0]}` is a {type(getattr(model, own[0])).__name__}; a model of your own needs "
            f'all people {where}. Leave `censoring="auto"` here, and `completion` out.'
        )
        raise ValueError(msg)


def _check_counts(model: Any) -> None:
    for name in ("max_depth", "n_horizons"):
        check_positive_int(getattr(model, name), name)
    for name in ("n_estimators", "refresh_every", "early_stopping_rounds", "n_folds", "n_repeats"):
        if getattr(model, name) is not None:
            check_positive_int(getattr(model, name), name)
    if model.rows_per_person not in (None, ALL_ROWS):
        check_positive_int(model.rows_per_person, "rows_per_person")


def _check_fractions(model: Any) -> None:
    for name in ("learning_rate", "max_features"):
        if getattr(model, name) is not None:
            check_fraction(getattr(model, name), name, zero=False)
    check_fraction(model.time_smoothing, "time_smoothing", one=False)
    check_fraction(model.validation_fraction, "validation_fraction", zero=False, one=False)
    check_fraction(model.min_censoring_survival, "min_censoring_survival", zero=False)


def _check_types(model: Any) -> None:
    for name, types, wanted in _TYPES:
        if not isinstance(getattr(model, name), types):
            msg = f"`{name}` must be {wanted}; got {getattr(model, name)!r}."
            raise TypeError(msg)
    for name in ("min_leaf_people", "min_split_gain"):
        value = getattr(model, name)
        if value is not None and not (np.isfinite(value) and value >= 0):
            msg = f"`{name}` must be finite and >= 0; got {value!r}."
            raise ValueError(msg)


def _check_limits(model: Any, *, max_depth: int) -> None:
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

"""Checks after training: all prediction paths agree, and predictions depend on the features.

Curves are computed in two ways, by the engine for a few people and by `Forest` for many. Both must
agree for all settings of the engine.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.forest import crossed_rows
from survival_objectives._hazards.mixture import Mixture
from survival_objectives._models.fitted import FittedModel, StackedModel
from survival_objectives.losses import probabilities

logger = logging.getLogger("survival_objectives")


_MOST_PEOPLE = 8
_MOST_STEPS = 64
_TOLERANCE = 1e-5
_FLOORED_SHARE = 0.1
# More rows than there are: the engine evaluates all.
_EVERY_ROW = 2**62


def check_prediction_paths(
    trained: Any, fitted: StackedModel, values: Float32Array, engine_params: Mapping[str, Any]
) -> None:
    """Raise a RuntimeError if ways of predicting the same probability differ by over 1e-5.

    Parameters
    ----------
    trained : Trainer
        The model as it was trained.
    fitted : StackedModel
        The model used for prediction: the engine's single model, and its trees.
    values : array of shape (n_samples, n_features)
        Features; a few rows are checked.
    engine_params : mapping
        The user's settings, named in the error.
    """
    forest, n_rounds = fitted.trees.forest(), fitted.n_rounds
    people = _few(values)
    steps = np.unique(
        np.linspace(0, forest.n_steps - 1, min(forest.n_steps, _MOST_STEPS)).astype(np.int64)
    )
    begin = forest.representatives()
    end = np.append(np.nextafter(begin[1:], np.float32(-np.inf)), 2 * begin[-1] + 1)
    end = np.maximum(begin, end)

    def proba(margins: npt.ArrayLike) -> FloatArray:
        return probabilities(
            np.asarray(margins, np.float64) + fitted.start, reference=fitted.reference
        )

    rows, later = crossed_rows(people, begin[steps]), crossed_rows(people, end[steps])
    expected = proba(fitted.trees.sum_of_trees(rows))
    found = {
        "its chunks of rounds, as they were trained": proba(
            trained.sum_of_trees(rows, 0, n_rounds)
        ),
        "itself at another time between the same two splits on time": proba(
            fitted.trees.sum_of_trees(later)
        ),
    }
    if forest.is_readable:
        margins = forest.step_margins(people)[:, steps]
        found["the trees that are read off it"] = proba(
            margins.transpose(2, 1, 0).reshape(len(rows), -1)
        )
    for other, values_of_other in found.items():
        difference = float(np.abs(values_of_other - expected).max())
        if not difference <= _TOLERANCE:
            msg = (
                f"The trained model and {other} differ by up to {difference:.2g} in their "
                f"probabilities, so predictions are not reliable. {_way_out(engine_params)}"
            )
            raise RuntimeError(msg)


def check_hazard_paths(
    mixture: Mixture, values: Float32Array, engine_params: Mapping[str, Any]
) -> None:
    """Raise a RuntimeError if the engine and the trees read off its models differ by over 1e-5.

    Parameters
    ----------
    mixture : Mixture
    values : array of shape (n_samples, n_features)
        Features of people; a few of them are used.
    engine_params : mapping
        The user's settings, named in the error.
    """
    people = _few(values)
    for _, model in mixture.members.values():
        trees = model.trees
        if trees is None or not trees.forest.is_readable:
            continue
        n_intervals = mixture.n_intervals
        by_engine = trees.margin(people, n_intervals, engine_rows=_EVERY_ROW)
        by_forest = trees.margin(people, n_intervals, engine_rows=0)
        difference = float(np.abs(by_engine - by_forest).max())
        if not difference <= _TOLERANCE * max(1.0, float(np.abs(by_engine).max())):
            msg = (
                f"The trained model and the trees that are read off it differ by up to "
                f"{difference:.2g} in their margins, so that predictions cannot be relied on. "
                f"{_way_out(engine_params)}"
            )
            raise RuntimeError(msg)


def _way_out(engine_params: Mapping[str, Any]) -> str:
    if engine_params:
        names = ", ".join(map(repr, engine_params))
        return f"Remove settings from `engine_params` ({names}) to find the cause."
    return "Please report it, with the version of the engine."


def _few(values: Float32Array) -> Float32Array:
    """A few rows: up to half with missing values, and one with missing values only."""
    incomplete = np.flatnonzero(np.isnan(values).any(axis=1))[: _MOST_PEOPLE // 2]
    n_others = min(len(values), _MOST_PEOPLE - 1 - len(incomplete))
    others = np.linspace(0, len(values) - 1, n_others).astype(np.int64)
    unknown = np.full((1, values.shape[1]), np.nan, np.float32)
    return np.concatenate([values[incomplete], values[others], unknown])


def warn_about_model(model: FittedModel, values: Float32Array, stacklevel: int) -> None:
    """Warn if probabilities of a trained model are biased, or the same for all people.

    Parameters
    ----------
    model : FittedModel
    values : array of shape (n_samples, n_features)
        Training features; if all are constant, people with the same curve are expected.
    stacklevel : int
        As in `warnings.warn`, relative to the caller.
    """
    _warn_if_floored(model, stacklevel + 1)
    if model.importances().any() or not _vary(values):
        return
    msg = (
        "No split on a feature was worth its gain, so all people get the same curve. If the "
        "features should matter, lower `min_leaf_people` or `min_split_gain`, or raise "
        "`n_estimators`."
    )
    warnings.warn(msg, UserWarning, stacklevel=stacklevel + 1)


def _warn_if_floored(model: FittedModel, stacklevel: int) -> None:
    """Warn if the floor of G limits the weight of over a tenth of the rows, else log it."""
    n_floored, n_rows = model.record.n_floored, model.record.n_weighted_rows
    if n_floored == 0:
        return
    floor = model.frame.parameters["min_censoring_survival"]
    said = f"min_censoring_survival={floor:g} limits the weight of {n_floored} of {n_rows} rows"
    if n_floored <= _FLOORED_SHARE * n_rows:
        logger.info("%s.", said)
        return
    msg = (
        f"{said} ({n_floored / n_rows:.0%}): too few people are still followed at late horizons, "
        'and probabilities there are biased. Set `censoring="imputed"`, or lower `horizon_max`.'
    )
    warnings.warn(msg, UserWarning, stacklevel=stacklevel + 1)


def _vary(values: Float32Array) -> bool:
    first = values[:1]
    return bool(((values != first) & ~(np.isnan(values) & np.isnan(first))).any())

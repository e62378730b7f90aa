"""Checks after training: all prediction paths agree, and predictions depend on the features.

Curves are computed in two ways, by the engine for a few people and by `Forest` for many. Both must
agree for all settings of the engine.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from survival_objectives._arrays import Float32Array
from survival_objectives._models.fitted import FittedModel
from survival_objectives._people import warn

logger = logging.getLogger("survival_objectives")


_MOST_PEOPLE = 8
#: Largest difference between two ways of predicting the same.
TOLERANCE = 1e-5
_FLOORED_SHARE = 0.1


def way_out(engine_params: Mapping[str, Any]) -> str:
    """What to do where ways of predicting the same differ."""
    if engine_params:
        names = ", ".join(map(repr, engine_params))
        return f"Remove settings from `engine_params` ({names}) to find the cause."
    return "Please report it, with the version of the engine."


def few_people(values: Float32Array) -> Float32Array:
    """A few rows: up to half with missing values, and one with missing values only."""
    incomplete = np.flatnonzero(np.isnan(values).any(axis=1))[: _MOST_PEOPLE // 2]
    n_others = min(len(values), _MOST_PEOPLE - 1 - len(incomplete))
    others = np.linspace(0, len(values) - 1, n_others).astype(np.int64)
    unknown = np.full((1, values.shape[1]), np.nan, np.float32)
    return np.concatenate([values[incomplete], values[others], unknown])


def warn_about_model(model: FittedModel) -> None:
    """Warn if probabilities of a trained model are biased, or the same for all people."""
    _warn_if_floored(model)
    if model.record.same_curves:
        msg = (
            "No split on a feature was worth its gain, so all people get the same curve. If the "
            "features should matter, lower `min_leaf_people` or `min_split_gain`, or raise "
            "`n_estimators`."
        )
        warn(msg)


def _warn_if_floored(model: FittedModel) -> None:
    """Warn if the floor of G limits the weight of over a tenth of the rows, else log it."""
    n_floored, n_rows = model.record.n_floored, model.record.n_weighted_rows
    if n_floored == 0:
        return
    floor = model.record.floor
    said = f"min_censoring_survival={floor:g} limits the weight of {n_floored} of {n_rows} rows"
    if n_floored <= _FLOORED_SHARE * n_rows:
        logger.info("%s.", said)
        return
    msg = (
        f"{said} ({n_floored / n_rows:.0%}): too few people are still followed at late horizons, "
        'and probabilities there are biased. Set `censoring="imputed"`, or lower `horizon_max`.'
    )
    warn(msg)

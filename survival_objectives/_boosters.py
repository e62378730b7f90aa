"""Boosters of the engines, with the settings of an estimator's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from survival_objectives._fit.engine import TreeSettings, censoring_settings, engine
from survival_objectives._model.fitted import BoosterMaker, ModelFrame
from survival_objectives._parameters import HAZARDS, by_method
from survival_objectives.validation import Features

__all__ = ["finished_boosters", "hazard_settings"]

# Bins per column: hazards of many rows need no finer ones.
_HAZARD_BINS = {
    "xgboost": {"max_bin": 64},
    "lightgbm": {"max_bin": 63},
    "catboost": {"border_count": 64},
}


def hazard_settings(
    engine_name: str, parameters: Mapping[str, Any], schema: Features, n_causes: int, seed: int
) -> TreeSettings:
    """Settings of hazard trees, from constructor parameters.

    Each row is one interval of one person, and hazards may fall in time.
    """
    own = engine(engine_name).settings.resolved(parameters["engine_params"] or {})
    given = {
        **by_method(parameters, HAZARDS, engine_name),
        "n_horizons": 1,
        "monotone": False,
        "engine_params": {**_HAZARD_BINS.get(engine_name, {}), **own},
    }
    return TreeSettings.of(given, schema, n_causes, seed)


def finished_boosters(frame: ModelFrame, method: str) -> BoosterMaker:
    """Makes boosters that evaluate finished models, with the settings of a frame."""
    arguments = frame.schema, frame.n_causes, 0
    if method == HAZARDS:
        settings = hazard_settings(frame.engine, frame.parameters, *arguments)
    else:
        given = by_method(frame.parameters, method, frame.engine)
        settings = TreeSettings.of(given, *arguments)

    def new_booster(model: Any, *, censoring: bool = False) -> Any:
        used = censoring_settings(settings) if censoring else settings
        return engine(frame.engine).new_booster(used, model)

    return new_booster

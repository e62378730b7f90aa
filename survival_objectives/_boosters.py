"""Boosters of the engines, with the settings of an estimator's parameters."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from survival_objectives._model.fitted import BoosterMaker, ModelFrame
from survival_objectives._parameters import HAZARDS, by_method
from survival_objectives.validation import Features

__all__ = [
    "ENGINES",
    "adapter",
    "censoring_settings",
    "engine_to_use",
    "finished_boosters",
    "installed_engine",
    "is_installed",
    "tree_settings",
]

logger = logging.getLogger("survival_objectives")

#: In the order in which a missing engine is replaced.
ENGINES = ("xgboost", "lightgbm", "catboost")

# Bins per column: hazards of many rows need no finer ones.
_HAZARD_BINS = {
    "xgboost": {"max_bin": 64},
    "lightgbm": {"max_bin": 63},
    "catboost": {"border_count": 64},
}


def adapter(engine: str) -> Any:
    """The module that drives an engine."""
    return importlib.import_module(f"survival_objectives.adapters._boosting_{engine}")


def installed_engine(wanted: str) -> str:
    """The engine that trains: the one that is wanted, or with a log line another."""
    engine = engine_to_use(wanted)
    if engine != wanted:
        logger.warning("%s is not installed; training with %s instead.", wanted, engine)
    return engine


def engine_to_use(wanted: str) -> str:
    """The first installed engine, from the one that is wanted on."""
    for engine in (wanted, *ENGINES):
        if is_installed(engine):
            return engine
    msg = (
        f"No engine is installed ({', '.join(ENGINES)}). "
        f'Use: pip install "survival-objectives[{wanted}]"'
    )
    raise ImportError(msg)


def is_installed(engine: str) -> bool:
    """Whether an engine can be imported."""
    return importlib.util.find_spec(engine) is not None


def tree_settings(
    engine: str, schema: Features, n_causes: int, method: str, given: Mapping[str, Any], seed: int
) -> Any:
    """Settings of the trees of a method, from constructor parameters."""
    given = by_method(given, method, engine)
    own = given["engine_params"] or {}
    hazards = method == HAZARDS
    if hazards:
        own = {**_HAZARD_BINS[engine], **adapter(engine).SETTINGS.resolved(own)}
    settings = importlib.import_module("survival_objectives.adapters._boosting")
    return settings.TreeSettings(
        schema=schema,
        n_causes=n_causes,
        learning_rate=float(given["learning_rate"]),
        max_depth=int(given["max_depth"]),
        min_leaf_people=float(given["min_leaf_people"]),
        min_split_gain=float(given["min_split_gain"]),
        max_features=float(given["max_features"]),
        n_horizons=1 if hazards else int(given["n_horizons"]),
        monotone=bool(given["monotone"]) and not hazards,
        seed=seed,
        n_jobs=given["n_jobs"],
        engine_params=own,
    )


def censoring_settings(settings: Any) -> Any:
    """Trees of the censoring model: shallower, as its errors multiply those of the events.

    It is monotone whatever the events are: a probability of staying falls in time.
    """
    return replace(settings, n_causes=1, max_depth=max(1, settings.max_depth - 1), monotone=True)


def finished_boosters(frame: ModelFrame, method: str) -> BoosterMaker:
    """Makes boosters that evaluate finished models, with the settings of a frame."""
    settings = tree_settings(
        frame.engine, frame.schema, frame.n_causes, method, frame.parameters, 0
    )

    def new_booster(model: Any, *, censoring: bool = False) -> Any:
        used = censoring_settings(settings) if censoring else settings
        return adapter(frame.engine).Booster(used, model)

    return new_booster

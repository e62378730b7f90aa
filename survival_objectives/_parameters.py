"""How censored people count, and the values of parameters that follow from it."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

__all__ = ["COMPLETED", "GIVEN", "HAZARDS", "METHODS", "by_method", "chosen_method"]

HAZARDS = "hazards"
#: Weights by a censoring model of the user's own.
GIVEN = "given"
#: Targets by a model that completes censored people.
COMPLETED = "completed"
#: How people can count who were censored before a horizon.
METHODS = (HAZARDS, "boosted", "kaplan-meier", "imputed")

# The share of censored people above which they are imputed (benchmarks/imputation_study.py).
_MANY_CENSORED = 2 / 3

# What None stands for: rows of people at several horizons, or rows at risk in intervals.
_STACKED: dict[str, float] = {
    "n_estimators": 200,
    "learning_rate": 0.05,
    "min_leaf_people": 5.0,
    "min_split_gain": 2.0,
    "max_features": 0.5,
}
_HAZARDS: dict[str, float] = {
    "n_estimators": 300,
    "learning_rate": 0.15,
    "min_leaf_people": 15.0,
    "min_split_gain": 1.0,
    "max_features": 1.0,
}


def by_method(parameters: Mapping[str, Any], method: str, engine: str) -> dict[str, Any]:
    """Constructor parameters with the values of those that are None by default.

    >>> by_method({"learning_rate": None, "max_features": 0.8}, "hazards", "xgboost")
    {'learning_rate': 0.15, 'max_features': 0.8}
    """
    defaults = dict(_HAZARDS if method == HAZARDS else _STACKED)
    if method == HAZARDS and engine == "lightgbm":
        # LightGBM does not try a column again further down a branch in which it gained less.
        defaults["min_split_gain"] = 0.0
    return {
        name: defaults[name] if value is None and name in defaults else value
        for name, value in parameters.items()
    }


def chosen_method(
    parameters: Mapping[str, Any],
    censored_share: float,
    *,
    previous: str | None = None,
    takes_turns: bool = False,
) -> tuple[str, str]:
    """How censored people count, and why, in a sentence.

    Parameters
    ----------
    parameters : mapping
        Constructor parameters.
    censored_share : float
        Share of the people who are censored.
    previous : str, optional
        The method of the model that training goes on with.
    takes_turns : bool, default=False
        Whether rounds are boosted on other people in turn.
    """
    wanted, completion = parameters["censoring"], parameters["completion"]
    if completion is not None:
        if wanted != "auto":
            msg = (
                "`completion` says how censored people count, and so does `censoring`. Leave "
                '`censoring="auto"`, or leave out `completion`.'
            )
            raise ValueError(msg)
        model = completion if isinstance(completion, str) else type(completion).__name__
        return COMPLETED, f"Censored people are completed by `completion` ({model})."
    if not isinstance(wanted, str):
        return GIVEN, f"Weights are those of the {type(wanted).__name__} that was passed."
    obstacle = _obstacle(parameters, previous, takes_turns=takes_turns)
    if wanted == HAZARDS:
        if obstacle is not None:
            msg = (
                f'`censoring="hazards"` does not work here: {obstacle}. Choose "auto" or another '
                "method, or change that."
            )
            raise ValueError(msg)
        return HAZARDS, 'It was asked for by `censoring="hazards"`.'
    if wanted != "auto":
        return wanted, f"It was asked for by `censoring={wanted!r}`."
    if obstacle is None:
        return HAZARDS, "Hazards need no censoring weights."
    method = "imputed" if censored_share > _MANY_CENSORED else "boosted"
    bound = "more than" if method == "imputed" else "at most"
    return method, (
        f"Not hazards, as {obstacle}; {censored_share:.0%} of the people are censored, {bound} "
        "two thirds."
    )


def _obstacle(
    parameters: Mapping[str, Any], previous: str | None, *, takes_turns: bool
) -> str | None:
    """Why hazards cannot be trained, or None where they can."""
    if not parameters["monotone"]:
        return "hazards give monotone curves only and `monotone=False`"
    if previous not in (None, HAZARDS):
        return f'training goes on with a model of `censoring="{previous}"`'
    if parameters["warm_start"] and not isinstance(parameters["random_state"], numbers.Integral):
        # Folds must be those of the former training: nobody may judge trees that know them.
        return "`warm_start` with hazards needs an integer `random_state`, for the same folds"
    if takes_turns:
        return "people take turns (`people_per_turn`), but hazards choose their people themselves"
    return None

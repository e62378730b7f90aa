"""Choice of the censoring method, and parameter defaults that depend on it."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

HAZARDS = "hazards"
#: Weights from a censoring model that the user passed.
GIVEN = "given"
#: Targets from a model that completes the outcomes of censored people.
COMPLETED = "completed"
#: Targets from the models of events and of censoring together.
DOUBLY_ROBUST = "doubly-robust"
#: Methods by name: how outcomes that were censored before a horizon are treated.
METHODS = (HAZARDS, "boosted", "kaplan-meier", "imputed", DOUBLY_ROBUST)

# Share of censored people above which "auto" imputes them (benchmarks/imputation_study.py).
_MANY_CENSORED = 2 / 3

# Values of None: for rows stacked over horizons, and for risk-set rows of intervals.
_STACKED: dict[str, float] = {
    "n_estimators": 200,
    "learning_rate": 0.05,
    "min_leaf_people": 5.0,
    "min_split_gain": 2.0,
    "max_features": 0.5,
}
_HAZARDS: dict[str, float] = {
    "n_estimators": 300,
    "learning_rate": 0.25,
    "min_leaf_people": 15.0,
    "min_split_gain": 1.0,
    "max_features": 1.0,
}


def by_method(parameters: Mapping[str, Any], method: str, engine: str) -> dict[str, Any]:
    """Constructor parameters, with None replaced by the default of the method.

    >>> by_method({"learning_rate": None, "max_features": 0.8}, "hazards", "xgboost")
    {'learning_rate': 0.25, 'max_features': 0.8}
    """
    defaults = dict(_HAZARDS if method == HAZARDS else _STACKED)
    if method == HAZARDS and engine == "lightgbm":
        # LightGBM does not retry a column further down a branch in which it gained less than this.
        defaults["min_split_gain"] = 0.0
    if method == HAZARDS and engine == "catboost":
        # Symmetric trees split less per round (benchmarks/hazard_study.md).
        defaults["learning_rate"] = 0.25
    return {
        name: defaults[name] if value is None and name in defaults else value
        for name, value in parameters.items()
    }


def own_models(model: Any) -> list[str]:
    """Names of parameters whose models need ``X`` and times as passed to ``fit``.

    ``model`` has the parameters of `survival_objectives.SurvivalBoost`.
    """
    names = [] if isinstance(model.censoring, str) else ["censoring"]
    return names if model.completion is None else [*names, "completion"]


def chosen_method(
    parameters: Mapping[str, Any],
    censored_share: float,
    *,
    previous: str | None = None,
    takes_turns: bool = False,
) -> tuple[str, str]:
    """The censoring method, and the reason for it as a sentence.

    Parameters
    ----------
    parameters : mapping
        Constructor parameters.
    censored_share : float
        Share of the people who are censored.
    previous : str, optional
        Method of the model that a warm start continues.
    takes_turns : bool, default=False
        Whether people are boosted on in turns.
    """
    wanted, completion = parameters["censoring"], parameters["completion"]
    if completion is not None:
        if wanted != "auto":
            msg = (
                "`completion` and `censoring` both say how to treat censored people. Leave "
                '`censoring="auto"`, or leave out `completion`.'
            )
            raise ValueError(msg)
        model = completion if isinstance(completion, str) else type(completion).__name__
        return COMPLETED, f"Censored people are completed by `completion` ({model})."
    if not isinstance(wanted, str):
        return GIVEN, f"Weights come from the {type(wanted).__name__} that was passed."
    obstacle = _obstacle(parameters, previous, takes_turns=takes_turns)
    if wanted == HAZARDS:
        if obstacle is not None:
            msg = (
                f'`censoring="hazards"` is not possible here: {obstacle}. Change that, or choose '
                '"auto" or another method.'
            )
            raise ValueError(msg)
        return HAZARDS, 'Requested by `censoring="hazards"`.'
    if wanted != "auto":
        return wanted, f"Requested by `censoring={wanted!r}`."
    if obstacle is None:
        return HAZARDS, "Hazards need no censoring weights."
    method = "imputed" if censored_share > _MANY_CENSORED else "boosted"
    bound = "more than" if method == "imputed" else "at most"
    return method, (
        f"Not hazards, because {obstacle}; {censored_share:.0%} of the people are censored, "
        f"{bound} two thirds."
    )


def _obstacle(
    parameters: Mapping[str, Any], previous: str | None, *, takes_turns: bool
) -> str | None:
    """Why hazards cannot be trained, or None where they can."""
    if not parameters["monotone"]:
        return "hazards always give monotone curves, but `monotone=False`"
    if previous not in (None, HAZARDS):
        return f'the warm start continues a model trained with `censoring="{previous}"`'
    if parameters["warm_start"] and not isinstance(parameters["random_state"], numbers.Integral):
        # Folds must be those of the previous training: held-out people must stay held out.
        return "`warm_start` with hazards needs an integer `random_state`, for the same folds"
    if takes_turns:
        return "people take turns (`people_per_turn`), but hazards draw their own subset of people"
    return None

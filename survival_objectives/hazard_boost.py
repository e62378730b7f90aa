"""The former name of `SurvivalBoost(censoring="hazards")`."""

from __future__ import annotations

import warnings
from typing import Any

from survival_objectives.estimators import SurvivalBoost

__all__ = ["HazardBoost"]


def HazardBoost(engine: str = "xgboost", **parameters: Any) -> SurvivalBoost:  # noqa: N802
    """`SurvivalBoost` with ``censoring="hazards"``, and a FutureWarning to use that instead."""
    msg = '`HazardBoost` is now `SurvivalBoost(censoring="hazards")` and will be removed in 0.3.'
    warnings.warn(msg, FutureWarning, stacklevel=2)
    if "n_rows_per_person" in parameters:
        parameters["rows_per_person"] = parameters.pop("n_rows_per_person")
    return SurvivalBoost(engine, **parameters, censoring="hazards")

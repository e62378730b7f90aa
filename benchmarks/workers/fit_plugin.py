"""Both objectives inside XGBoost's own training call, with the settings of the README."""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost as xgb

from survival_objectives.adapters.xgboost import HazardObjective, IPCWObjective

#: Share of people whose likelihood stops the training of hazards.
HELD_OUT = 0.2


def fit(X: Any, event: Any, duration: Any, *, objective: str, **options: Any) -> Any:
    train = {"HazardObjective": hazards, "IPCWObjective": ipcw}[objective]
    made, booster = train(X, event, duration, **options)

    def predict(X_test: Any, times: Any) -> Any:
        return made.predict_cumulative_incidence(booster, X_test, times)

    return predict


def hazards(
    X: Any,
    event: Any,
    duration: Any,
    *,
    seed: int,
    n_threads: int,
    n_estimators: int = 300,
    **options: Any,
) -> Any:
    """Early stopping on people drawn at random."""
    order = np.random.default_rng(seed).permutation(len(X))
    held, kept = np.split(order, [round(HELD_OUT * len(order))])
    objective = HazardObjective(
        X[kept], (event[kept], duration[kept]), random_state=seed, **options
    )
    booster = xgb.train(
        {**objective.params, "max_depth": 4, "learning_rate": 0.1, "nthread": n_threads},
        objective.dtrain,
        n_estimators,
        obj=objective,
        custom_metric=objective.metric,
        evals=[(objective.held_out(X[held], (event[held], duration[held])), "held_out")],
        early_stopping_rounds=20,
        verbose_eval=False,
    )
    return objective, booster


def ipcw(
    X: Any,
    event: Any,
    duration: Any,
    *,
    seed: int,
    n_threads: int,
    n_estimators: int = 100,
    refresh: bool = True,
    **options: Any,
) -> Any:
    objective = IPCWObjective(X, (event, duration), refresh_every=10, random_state=seed, **options)
    booster = xgb.train(
        {**objective.params, "max_depth": 4, "learning_rate": 0.05, "nthread": n_threads},
        objective.dtrain,
        n_estimators,
        obj=objective,
        callbacks=[objective.refresh()] if refresh else [],
    )
    return objective, booster

"""The plugin inside LightGBM's own training call, for what the estimator does not offer."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb

from survival_objectives.adapters.lightgbm import IPCWObjective


def fit(
    X: Any,
    event: Any,
    duration: Any,
    *,
    seed: int,
    n_threads: int,
    refresh: bool = True,
    n_estimators: int = 200,
    max_depth: int = 3,
    **options: Any,
) -> Any:
    objective = IPCWObjective(X, (event, duration), random_state=seed, **options)
    params = {
        **objective.params,
        "objective": objective,
        "max_depth": max_depth,
        "num_leaves": 2**max_depth,
        "learning_rate": 0.05,
        "feature_fraction": 0.5,
        "num_threads": n_threads,
    }
    callbacks = [objective.refresh()] if refresh else []
    booster = lgb.train(
        params, objective.train_set, num_boost_round=n_estimators, callbacks=callbacks
    )

    def predict(X_test: Any, times: Any) -> Any:
        return objective.predict_cumulative_incidence(booster, X_test, times)

    return predict

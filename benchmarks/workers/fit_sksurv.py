"""scikit-survival's random survival forest and gradient boosting of the Cox loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from sksurv.ensemble import GradientBoostingSurvivalAnalysis, RandomSurvivalForest

# Survival functions of so many people are held at a time.
BLOCK = 256


def fit(
    X: Any,
    event: Any,
    duration: Any,
    *,
    seed: int,
    n_threads: int,
    model: str,
    **options: Any,
) -> Any:
    if model == "forest":
        estimator = RandomSurvivalForest(
            **{"n_estimators": 100, **options}, random_state=seed, n_jobs=n_threads
        )
    else:
        estimator = GradientBoostingSurvivalAnalysis(
            **{"n_estimators": 100, **options}, random_state=seed
        )
    outcome = np.zeros(len(event), dtype=[("event", bool), ("time", float)])
    outcome["event"], outcome["time"] = event > 0, duration
    estimator.fit(X, outcome)

    def predict(X_test: Any, times: Any) -> Any:
        survival = np.empty((len(X_test), len(times)))
        for start in range(0, len(X_test), BLOCK):
            steps = estimator.predict_survival_function(X_test[start : start + BLOCK])
            low, high = steps[0].domain
            inside = np.clip(times, low, high)
            survival[start : start + len(steps)] = [step(inside) for step in steps]
        return np.stack([survival, 1 - survival], axis=1)

    return predict


def draw(generator: Any, model: str, **options: Any) -> dict[str, Any]:
    """The paper tunes SurvivalBoost by these ranges where both have the parameter."""
    if model == "forest":
        drawn: dict[str, Any] = {
            "min_samples_leaf": int(5 * 20 ** generator.uniform()),
            "max_features": float(generator.choice([0.2, 0.35, 0.5, 1.0])),
            "max_depth": int(generator.integers(2, 11)),
        }
    else:
        drawn = {
            "learning_rate": float(0.01 * 50 ** generator.uniform()),
            "n_estimators": int(generator.integers(20, 201)),
            "max_depth": int(generator.integers(2, 11)),
        }
    return {"model": model, **options, **drawn}

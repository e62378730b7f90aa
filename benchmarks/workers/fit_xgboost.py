"""XGBoost's own survival objectives: Cox with a Breslow baseline, and accelerated failure time."""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost as xgb
from scipy.stats import norm


def fit(
    X: Any,
    event: Any,
    duration: Any,
    *,
    seed: int,
    n_threads: int,
    objective: str,
    n_estimators: int = 100,
    **options: Any,
) -> Any:
    params = {
        "objective": f"survival:{objective}",
        "nthread": n_threads,
        "seed": seed,
        "tree_method": "hist",
        **options,
    }
    train = {"cox": cox, "aft": aft}[objective]
    return train(params, n_estimators, X, event, duration)


def cox(params: dict[str, Any], n_rounds: int, X: Any, event: Any, duration: Any) -> Any:
    # Negative labels are censored times; 0 has no sign.
    duration = np.maximum(duration, np.finfo(np.float32).tiny)
    matrix = xgb.DMatrix(X, np.where(event > 0, duration, -duration), nthread=params["nthread"])
    booster = xgb.train(params, matrix, n_rounds)
    margin = booster.predict(matrix, output_margin=True).astype(np.float64)
    centre = margin.mean()
    order = np.argsort(duration, kind="stable")
    at_risk = np.cumsum(np.exp(margin[order] - centre)[::-1])[::-1]
    jumps, first = np.unique(duration[order], return_index=True)
    n_events = np.add.reduceat((event[order] > 0).astype(float), first)
    hazard = np.concatenate([[0.0], np.cumsum(n_events / at_risk[first])])

    def predict(X_test: Any, times: Any) -> Any:
        margin = booster.predict(xgb.DMatrix(X_test), output_margin=True).astype(np.float64)
        baseline = hazard[np.searchsorted(jumps, times, side="right")]
        survival = np.exp(-np.exp(np.minimum(margin - centre, 50))[:, None] * baseline)
        return np.stack([survival, 1 - survival], axis=1)

    return predict


def aft(params: dict[str, Any], n_rounds: int, X: Any, event: Any, duration: Any) -> Any:
    # The logarithm of a duration of 0 does not exist; the earliest other one comes near.
    duration = np.maximum(duration, duration[duration > 0].min() / 2)
    matrix = xgb.DMatrix(X, nthread=params["nthread"])
    matrix.set_float_info("label_lower_bound", duration)
    matrix.set_float_info("label_upper_bound", np.where(event > 0, duration, np.inf))
    params = {"aft_loss_distribution": "normal", "aft_loss_distribution_scale": 1.0, **params}
    booster = xgb.train(params, matrix, n_rounds)
    spread = params["aft_loss_distribution_scale"]

    def predict(X_test: Any, times: Any) -> Any:
        location = booster.predict(xgb.DMatrix(X_test), output_margin=True).astype(np.float64)
        with np.errstate(divide="ignore"):
            survival = norm.sf((np.log(times) - location[:, None]) / spread)
        return np.stack([survival, 1 - survival], axis=1)

    return predict


def draw(generator: Any, objective: str, **options: Any) -> dict[str, Any]:
    drawn = {
        "learning_rate": float(0.01 * 50 ** generator.uniform()),
        "n_estimators": int(generator.integers(20, 201)),
        "max_depth": int(generator.integers(2, 11)),
    }
    if objective == "aft":
        drawn["aft_loss_distribution_scale"] = float(0.3 * 10 ** generator.uniform())
    return {"objective": objective, **options, **drawn}

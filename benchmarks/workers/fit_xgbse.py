"""XGBSE: XGBoost's leaves followed by logistic regressions, or by a Weibull regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xgbse
from xgbse.converters import convert_to_structured

# Its defaults are those of XGBoost, ten rounds; these are closer to what its guide recommends.
TREES = {
    "objective": "survival:aft",
    "eval_metric": "aft-nloglik",
    "learning_rate": 0.05,
    "max_depth": 8,
    "subsample": 0.5,
    "colsample_bynode": 0.5,
    "min_child_weight": 50,
    "tree_method": "hist",
}
REGRESSION = {"XGBSEDebiasedBCE": {"lr_params": {"C": 1e-3, "max_iter": 500}}}


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
    frame = pd.DataFrame(X, columns=[f"x{column}" for column in range(X.shape[1])])
    # It takes logarithms of durations.
    duration = np.maximum(duration, duration[duration > 0].min() / 2)
    outcome = convert_to_structured(pd.Series(duration), pd.Series(event > 0))
    trees = {**TREES, "seed": seed, "nthread": n_threads}
    estimator = getattr(xgbse, model)(
        **{"xgb_params": trees, **REGRESSION.get(model, {}), **options}
    )
    # Early stopping is how its authors use it; a tenth of the people is held out for it.
    held = np.random.default_rng(seed).permutation(len(frame)) < len(frame) // 10
    estimator.fit(
        frame[~held],
        outcome[~held],
        num_boost_round=1000,
        validation_data=(frame[held], outcome[held]),
        early_stopping_rounds=10,
    )

    def predict(X_test: Any, times: Any) -> Any:
        curves = estimator.predict(pd.DataFrame(X_test, columns=frame.columns))
        known = np.concatenate([[0.0], curves.columns.to_numpy(np.float64)])
        values = np.column_stack([np.ones(len(curves)), curves.to_numpy(np.float64)])
        survival = np.stack([np.interp(times, known, row) for row in values])
        survival = np.clip(survival, 0, 1)
        return np.stack([survival, 1 - survival], axis=1)

    return predict

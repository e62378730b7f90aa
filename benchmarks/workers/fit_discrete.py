"""Discrete-time hazards: LightGBM's classifier on one row per person and interval lived through."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np

N_INTERVALS = 30


def fit(
    X: Any,
    event: Any,
    duration: Any,
    *,
    seed: int,
    n_threads: int,
    n_estimators: int = 200,
    **options: Any,
) -> Any:
    n_causes = int(event.max())
    ends = np.unique(np.quantile(duration[event > 0], np.linspace(0, 1, N_INTERVALS + 1)[1:]))
    edges = np.concatenate([[0.0], ends[ends > 0]])
    # The interval in which a person leaves; beyond the last one for those seen to the end.
    last = np.searchsorted(edges[1:], duration, side="left")
    n_intervals = len(edges) - 1
    # A person is not at risk of anything that could be seen in the interval of their censoring.
    n_rows = np.minimum(last + (event > 0), n_intervals)
    person = np.repeat(np.arange(len(event)), n_rows)
    interval = np.arange(len(person)) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)
    target = np.where(interval == last[person], event[person], 0)
    rows = np.column_stack([X[person], interval]).astype(np.float32)
    params = {
        "objective": "binary" if n_causes == 1 else "multiclass",
        "num_threads": n_threads,
        "seed": seed,
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
        # LightGBM's own defaults overfit rows of the same person; these are SurvivalBoost's.
        "learning_rate": 0.05,
        "max_depth": 3,
        "num_leaves": 8,
        **options,
    }
    if n_causes > 1:
        params["num_class"] = n_causes + 1
    booster = lgb.train(params, lgb.Dataset(rows, target), n_estimators)

    def predict(X_test: Any, times: Any) -> Any:
        curves = np.zeros((len(X_test), n_causes + 1, n_intervals + 1))
        curves[:, 0, 0] = 1
        for step in range(n_intervals):
            at = np.column_stack([X_test, np.full(len(X_test), step)]).astype(np.float32)
            hazard = booster.predict(at, num_threads=n_threads)
            hazard = hazard[:, None] if n_causes == 1 else hazard[:, 1:]
            leaving = curves[:, :1, step] * hazard
            curves[:, 1:, step + 1] = curves[:, 1:, step] + leaving
            curves[:, 0, step + 1] = curves[:, 0, step] - leaving.sum(axis=1)
        # Linear inside an interval: the hazard says nothing about where in it.
        right = np.clip(np.searchsorted(edges, times, side="left"), 1, n_intervals)
        share = np.clip((times - edges[right - 1]) / (edges[right] - edges[right - 1]), 0, 1)
        return curves[:, :, right - 1] * (1 - share) + curves[:, :, right] * share

    predict.notes = {"n_rows": len(rows)}  # type: ignore[attr-defined]
    return predict


def draw(generator: Any, **options: Any) -> dict[str, Any]:
    depth = int(generator.integers(2, 11))
    drawn = {
        "learning_rate": float(0.01 * 50 ** generator.uniform()),
        "n_estimators": int(generator.integers(20, 201)),
        "max_depth": depth,
        "num_leaves": 2**depth,
    }
    return {**options, **drawn}

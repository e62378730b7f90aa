"""The engine's own softmax on as many rows and rounds as SurvivalBoost has: the floor of its time.

Rows are people at horizons, stacked before the clock of the training would matter; classes are the
K + 1 states. There is no censoring model, no refresh and no custom objective.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from survival_objectives import SurvivalBoost


def fit(
    X: Any,
    event: Any,
    duration: Any,
    *,
    seed: int,
    n_threads: int,
    engine: str,
    **options: Any,
) -> Any:
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(SurvivalBoost).parameters.items()
    }
    chosen = {**defaults, **options}
    depth = chosen["max_depth"] or (4 if engine == "catboost" else 3)
    rows, target = stacked(X, event, duration, chosen["n_horizons"], seed)
    n_classes, n_rounds = int(event.max()) + 1, chosen["n_estimators"]
    train = {"lightgbm": lightgbm, "xgboost": xgboost, "catboost": catboost}[engine]
    proba = train(rows, target, n_classes, n_rounds, depth, chosen, seed, n_threads)

    def predict(X_test: Any, times: Any) -> Any:
        curves = np.empty((len(X_test), n_classes, len(times)))
        for column, time in enumerate(times):
            at = np.column_stack([X_test, np.full(len(X_test), time)]).astype(np.float32)
            curves[:, :, column] = proba(at)
        return curves

    predict.notes = {"n_rows": len(rows)}  # type: ignore[attr-defined]
    return predict


def stacked(X: Any, event: Any, duration: Any, n_horizons: int, seed: int) -> tuple[Any, Any]:
    """All people at ``n_horizons`` uniform horizons, without rows censored by their horizon."""
    generator = np.random.default_rng(seed)
    person = np.repeat(np.arange(len(event)), n_horizons)
    horizon = generator.uniform(0, np.quantile(duration, 0.99), len(person))
    known = (duration[person] > horizon) | (event[person] > 0)
    person, horizon = person[known], horizon[known]
    target = np.where(duration[person] > horizon, 0, event[person]).astype(np.int32)
    rows = np.empty((len(person), X.shape[1] + 1), np.float32)
    rows[:, :-1] = X[person]
    rows[:, -1] = horizon
    return rows, target


def lightgbm(
    rows: Any,
    target: Any,
    n_classes: int,
    n_rounds: int,
    depth: int,
    chosen: dict[str, Any],
    seed: int,
    n_threads: int,
) -> Any:
    import lightgbm as lgb

    params = {
        "objective": "multiclass",
        "num_class": n_classes,
        "max_depth": depth,
        "num_leaves": 2**depth,
        "learning_rate": chosen["learning_rate"],
        "feature_fraction": chosen.get("max_features", 1.0),
        "num_threads": n_threads,
        "seed": seed,
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }
    return lgb.train(params, lgb.Dataset(rows, target), n_rounds).predict


def xgboost(
    rows: Any,
    target: Any,
    n_classes: int,
    n_rounds: int,
    depth: int,
    chosen: dict[str, Any],
    seed: int,
    n_threads: int,
) -> Any:
    import xgboost as xgb

    params = {
        "objective": "multi:softprob",
        "num_class": n_classes,
        "max_depth": depth,
        "learning_rate": chosen["learning_rate"],
        "colsample_bytree": chosen.get("max_features", 1.0),
        "nthread": n_threads,
        "seed": seed,
        "tree_method": "hist",
    }
    matrix = xgb.QuantileDMatrix(rows, target, nthread=n_threads)
    return xgb.train(params, matrix, n_rounds).inplace_predict


def catboost(
    rows: Any,
    target: Any,
    n_classes: int,
    n_rounds: int,
    depth: int,
    chosen: dict[str, Any],
    seed: int,
    n_threads: int,
) -> Any:
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(
        loss_function="MultiClass",
        classes_count=n_classes,
        depth=depth,
        iterations=n_rounds,
        learning_rate=chosen["learning_rate"],
        rsm=chosen.get("max_features", 1.0),
        bootstrap_type="No",
        boosting_type="Plain",
        thread_count=n_threads,
        random_seed=seed,
        allow_writing_files=False,
        verbose=False,
    )
    return model.fit(rows, target).predict_proba

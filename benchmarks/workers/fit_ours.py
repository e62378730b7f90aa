"""HazardBoost and SurvivalBoost of this project."""

from __future__ import annotations

from typing import Any

import survival_objectives


def fit(
    X: Any,
    event: Any,
    duration: Any,
    *,
    seed: int,
    n_threads: int,
    estimator: str = "HazardBoost",
    **options: Any,
) -> Any:
    kind = getattr(survival_objectives, estimator)
    model = kind(random_state=seed, n_jobs=n_threads, **options)
    model.fit(X, (event, duration))
    if model.engine_ != model.engine:
        msg = f"{model.engine} is not installed"
        raise ImportError(msg)
    return model.predict_cumulative_incidence


def draw(generator: Any, **options: Any) -> dict[str, Any]:
    """The paper's ranges; hazards have no horizons to draw."""
    drawn = {
        "learning_rate": float(log_uniform(generator, 0.01, 0.5)),
        "n_estimators": int(generator.integers(20, 201)),
        "max_depth": int(generator.integers(2, 11)),
    }
    if options.get("estimator") == "SurvivalBoost":
        drawn["n_horizons"] = int(generator.integers(1, 6))
    return {**options, **drawn}


def log_uniform(generator: Any, low: float, high: float) -> Any:
    return low * (high / low) ** generator.uniform()

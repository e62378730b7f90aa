"""HazardBoost and SurvivalBoost of this project."""

from __future__ import annotations

from typing import Any

from survival_objectives import HazardBoost, SurvivalBoost


def estimator(**options: Any) -> HazardBoost | SurvivalBoost:
    """The estimator that has these parameters: hazards, unless they are of the other one."""
    if options.get("censoring") == "hazards":
        del options["censoring"]
    kind = SurvivalBoost if set(options) - set(HazardBoost().get_params()) else HazardBoost
    return kind(**options)


def fit(
    X: Any,
    event: Any,
    duration: Any,
    *,
    seed: int,
    n_threads: int,
    impute_above: float | None = None,
    **options: Any,
) -> Any:
    if impute_above is not None:
        # By the share of censored people: the default of version 0.1.
        is_many = (event == 0).mean() > impute_above
        options = {"censoring": "imputed" if is_many else "boosted", **options}
    model = estimator(random_state=seed, n_jobs=n_threads, **options)
    model.fit(X, (event, duration))
    if model.engine_ != model.engine:
        msg = f"{model.engine} is not installed"
        raise ImportError(msg)

    def predict(X_test: Any, times: Any) -> Any:
        return model.predict_cumulative_incidence(X_test, times)

    predict.notes = {"method": model.fitted_model.record.method}  # type: ignore[attr-defined]
    return predict


def draw(generator: Any, **options: Any) -> dict[str, Any]:
    """The paper's ranges."""
    drawn = {
        "learning_rate": float(log_uniform(generator, 0.01, 0.5)),
        "n_estimators": int(generator.integers(20, 201)),
        "max_depth": int(generator.integers(2, 11)),
        "n_horizons": int(generator.integers(1, 6)),
    }
    return {**options, **drawn}


def log_uniform(generator: Any, low: float, high: float) -> Any:
    return low * (high / low) ** generator.uniform()

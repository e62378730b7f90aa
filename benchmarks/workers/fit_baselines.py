"""The marginal curve, and cause-specific Cox regression fitted by lifelines."""

from __future__ import annotations

from typing import Any

from survival_objectives import baselines

# lifelines' ridge penalty, just enough for columns that are nearly collinear.
PENALIZER = 1e-4


def fit(
    X: Any,
    event: Any,
    duration: Any,
    *,
    seed: int,  # noqa: ARG001
    n_threads: int,  # noqa: ARG001
    model: str,
) -> Any:
    if model == "cox":
        estimator: Any = baselines.CauseSpecificCox(penalizer=PENALIZER)
    else:
        estimator = baselines.AalenJohansen()
    estimator.fit(X, (event, duration))
    return estimator.predict_cumulative_incidence

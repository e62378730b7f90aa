"""comprisk: Fine-Gray regression of each cause, and the competing-risks survival forest."""

from __future__ import annotations

from typing import Any

import numpy as np
from comprisk import CompetingRiskForest, FineGrayRegression


def fit(
    X: Any, event: Any, duration: Any, *, seed: int, n_threads: int, model: str, **options: Any
) -> Any:
    n_causes = int(event.max())
    if model == "forest":
        forest = CompetingRiskForest(
            n_estimators=100, random_state=seed, n_jobs=n_threads, device="cpu", **options
        )
        forest.fit(X, duration, event)
        return lambda X_test, times: with_event_free(forest.predict_cif(X_test, times))
    # A column that does not vary has no coefficient.
    varies = np.ptp(X, axis=0) > 0
    regressions = [
        FineGrayRegression(cause=cause, **options).fit(X[:, varies], time=duration, event=event)
        for cause in range(1, n_causes + 1)
    ]

    def predict(X_test: Any, times: Any) -> Any:
        curves = [
            regression.predict_cumulative_incidence(X_test[:, varies], times)
            for regression in regressions
        ]
        return with_event_free(np.stack(curves, axis=1))

    return predict


def with_event_free(incidence: Any) -> Any:
    """Curves of all states; causes fitted apart may sum to more than 1 and are scaled then."""
    incidence = np.clip(incidence, 0, 1)
    total = incidence.sum(axis=1, keepdims=True)
    incidence = incidence / np.maximum(total, 1)
    return np.concatenate([np.clip(1 - incidence.sum(axis=1, keepdims=True), 0, 1), incidence], 1)

"""SurvivalBoost of hazardous, the implementation of the paper's authors."""

from __future__ import annotations

from typing import Any

import pandas as pd
from hazardous import SurvivalBoost


def fit(
    X: Any,
    event: Any,
    duration: Any,
    *,
    seed: int,
    n_threads: int,  # noqa: ARG001
    **options: Any,
) -> Any:
    # Its threads are OpenMP's, which the environment of the process limits.
    model = SurvivalBoost(random_state=seed, show_progressbar=False, **options)
    model.fit(X, pd.DataFrame({"event": event, "duration": duration}))
    return model.predict_cumulative_incidence


def draw(generator: Any, **options: Any) -> dict[str, Any]:
    """The paper's ranges."""
    drawn = {
        "learning_rate": float(0.01 * 50 ** generator.uniform()),
        "n_iter": int(generator.integers(20, 201)),
        "max_depth": int(generator.integers(2, 11)),
        "n_horizons_per_observation": int(generator.integers(1, 6)),
    }
    return {**options, **drawn}

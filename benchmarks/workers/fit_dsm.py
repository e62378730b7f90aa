"""Deep Survival Machines of auton-survival: mixtures of Weibull times, also with several causes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from auton_survival.models.dsm import DeepSurvivalMachines

# Its default is a linear model trained for one pass; these are closer to its examples.
LAYERS = (64, 64)
EPOCHS = 100
HELD_OUT = 0.15


def fit(
    X: Any, event: Any, duration: Any, *, seed: int, n_threads: int, k: int = 4, **options: Any
) -> Any:
    torch.set_num_threads(n_threads)
    n_causes = int(event.max())
    # Its Weibull distributions start at a scale of 1.
    centre, spread, unit = X.mean(axis=0), X.std(axis=0), duration.mean()
    spread[spread == 0] = 1
    # A duration of 0 has no density.
    time = np.maximum(duration, duration[duration > 0].min() / 2) / unit
    model = DeepSurvivalMachines(k=k, layers=list(LAYERS), distribution="Weibull", random_seed=seed)
    model.fit(
        (X - centre) / spread,
        time,
        event.astype(float),
        vsize=HELD_OUT,
        **{"iters": EPOCHS, "learning_rate": 1e-3, "batch_size": 256, **options},
    )

    def predict(X_test: Any, times: Any) -> Any:
        values = (X_test - centre) / spread
        at = list(np.asarray(times) / unit)
        alone = [model.predict_survival(values, at, risk=cause + 1) for cause in range(n_causes)]
        return incidence(np.stack(alone, axis=1))

    return predict


def incidence(alone: Any) -> Any:
    """Curves of all states from curves of each cause as if there were no other.

    People who have another event count as censored in its likelihood, so its curves belong to times
    that are independent of one another: their hazards add up.
    """
    hazard = -np.log(np.clip(alone, 1e-12, 1))
    steps = np.maximum(np.diff(hazard, axis=2, prepend=0), 0)
    total = steps.sum(axis=1, keepdims=True)
    event_free = np.exp(-np.cumsum(total, axis=2))
    before = np.concatenate([np.ones_like(event_free[:, :, :1]), event_free[:, :, :-1]], axis=2)
    share = np.divide(steps, total, out=np.zeros_like(steps), where=total > 0)
    return np.concatenate([event_free, np.cumsum((before - event_free) * share, axis=2)], axis=1)

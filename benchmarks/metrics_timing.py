"""CPU seconds of the metrics on 100 000 people with two competing causes.

Run on one core: ``OMP_NUM_THREADS=1 python benchmarks/metrics_timing.py``.
"""

from __future__ import annotations

import time

import numpy as np

from survival_objectives.metrics import (
    accuracy_in_time,
    cen_log_simple_score,
    concordance_index,
    d_calibration,
    integrated_brier_score,
    integrated_log_loss,
    one_calibration,
    pseudo_observations,
    time_dependent_auc,
    uno_concordance_index,
)

N_SAMPLES = 100_000


def main() -> None:
    generator = np.random.default_rng(0)
    hazard = np.array([0.5, 0.3]) * generator.lognormal(0, 0.5, (N_SAMPLES, 2))
    event_times = generator.exponential(1 / hazard)
    censored = generator.exponential(2, N_SAMPLES)
    first = event_times.min(axis=1)
    event = np.where(first <= censored, event_times.argmin(axis=1) + 1, 0)
    y = (event, np.minimum(first, censored))

    times = np.linspace(0.1, 3, 10)
    total = hazard.sum(axis=1)
    gone = -np.expm1(-np.outer(total, times))
    causes = (hazard / total[:, None])[:, :, None] * gone[:, None]
    incidence = np.concatenate([1 - gone[:, None], causes], axis=1)
    late = np.append(times, y[1].max())
    survival = np.exp(-np.outer(total, late))
    one, at_one = incidence[..., 3:4], times[3:4]

    cases = {
        "concordance_index, cause 1, one horizon": lambda: concordance_index(
            y, y, one, at_one, cause=1
        ),
        "concordance_index, unweighted": lambda: concordance_index(
            y, y, one, at_one, cause=1, weighted=False
        ),
        "uno_concordance_index, all events": lambda: uno_concordance_index(y, y, total, [3.0]),
        "time_dependent_auc, cause 1, one horizon": lambda: time_dependent_auc(
            y, y, one, at_one, cause=1
        ),
        "integrated_brier_score, 3 curves, 10 times": lambda: integrated_brier_score(
            y, y, incidence, times
        ),
        "integrated_log_loss, 10 times": lambda: integrated_log_loss(y, y, incidence, times),
        "accuracy_in_time, 10 times": lambda: accuracy_in_time(None, y, incidence, times),
        "cen_log_simple_score, 32 nodes": lambda: cen_log_simple_score(None, y, survival, late),
        "d_calibration": lambda: d_calibration(None, y, survival, late),
        "one_calibration, cause 1": lambda: one_calibration(None, y, one, at_one, cause=1),
        "pseudo_observations": lambda: pseudo_observations(y, 1.0),
    }
    print(f"{N_SAMPLES} people, {np.mean(event == 0):.0%} censored")
    for name, run in cases.items():
        start = time.process_time()
        run()
        print(f"{time.process_time() - start:8.3f} s  {name}")


if __name__ == "__main__":
    main()

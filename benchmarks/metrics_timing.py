"""CPU seconds of the metrics on 100 000 people with two competing causes.

Run on one core: ``OMP_NUM_THREADS=1 python benchmarks/metrics_timing.py``.
"""

from __future__ import annotations

import time

import numpy as np

from survival_objectives.metrics import Evaluation

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

    whole, at = Evaluation(y, y, incidence, times), Evaluation(y, y, one, at_one)
    long = Evaluation(None, y, survival, late)
    cases = {
        "concordance, cause 1, one horizon": lambda: at.concordance(1),
        "concordance, unweighted": lambda: at.concordance(1, weighted=False),
        "concordance, risks that change, 10 times": lambda: whole.concordance(1, changing=True),
        "AUC, cause 1, one horizon": lambda: at.auc(1),
        "integrated Brier score, 3 curves, 10 times": lambda: whole.brier(integrated=True),
        "scaled Brier score, cause 1, one horizon": lambda: at.scaled_brier(1),
        "integrated log-loss, 10 times": lambda: whole.log_loss(integrated=True),
        "observed/expected, cause 1, one horizon": lambda: at.observed_expected(1),
        "calibration, cause 1, one horizon": lambda: at.calibration(1),
        "net benefit, cause 1, one horizon, 19 thresholds": lambda: at.net_benefit(1),
        "accuracy, 10 times": lambda: whole.accuracy(),
        "likelihood, 32 nodes": lambda: long.likelihood(),
        "d-calibration": lambda: long.d_calibration(),
        "risk groups, cause 1": lambda: at.risk_groups(1),
        "pseudo-observations": lambda: at.pseudo_observations(),
    }
    print(f"{N_SAMPLES} people, {np.mean(event == 0):.0%} censored")
    total = 0.0
    for name, run in cases.items():
        start = time.process_time()
        run()
        seconds = time.process_time() - start
        total += seconds
        print(f"{seconds:8.3f} s  {name}")
    print(f"{total:8.3f} s  together")


if __name__ == "__main__":
    main()

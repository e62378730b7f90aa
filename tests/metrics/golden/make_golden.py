"""Writes golden.json: calibration and time errors as SurvivalEVAL computes them.

SurvivalEVAL brings torch, so the tests read its numbers from a file instead of importing it. Run
this by hand in an environment with SurvivalEVAL 0.9.0, after a change of the cases below:

    python tests/metrics/golden/make_golden.py
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
from SurvivalEVAL.evaluations.calibration import (
    aj_calibration_per_event,
    d_calibration,
    one_calibration,
    one_calibration_cr,
)
from SurvivalEVAL.evaluations.prediction_error.mean_error import mean_error


def main() -> None:
    generator = np.random.default_rng(0)
    n_samples, n_times = 200, 5
    # Coarse durations make ties; predictions have none, so that groups are unambiguous.
    hazard = generator.lognormal(0, 0.5, (n_samples, 2)) * [0.5, 0.3]
    event_times = generator.exponential(1 / hazard)
    censored = generator.uniform(0, 3, n_samples)
    first = event_times.min(axis=1)
    event = np.where(first <= censored, event_times.argmin(axis=1) + 1, 0)
    duration = np.minimum(first, censored).round(2)
    times = np.linspace(0, 2, n_times)
    total = hazard.sum(axis=1)
    gone = -np.expm1(-np.outer(total, times))
    cause = (hazard[:, 0] / total)[:, None] * gone
    at_exit = np.exp(-total * duration)
    predicted_time = np.log(2) / total

    statistic, p_value, histogram = d_calibration(at_exit, event > 0)
    shares = histogram / histogram.sum()
    one = {
        name: one_calibration(
            gone[:, 2], duration, event > 0, times[2], adjust_variance=name == "greenwood"
        )
        for name in ("greenwood", "binomial")
    }
    one_cause = {
        name: one_calibration_cr(
            cause[:, 2], duration, event, times[2], adjust_variance=name == "greenwood"
        )
        for name in ("greenwood", "binomial")
    }
    golden = {
        "made_by": f"SurvivalEVAL {version('SurvivalEVAL')}",
        "input": {
            "event": event.tolist(),
            "duration": duration.tolist(),
            "times": times.tolist(),
            "hazard": hazard.tolist(),
            "predicted_time": predicted_time.tolist(),
        },
        "d_calibration": {
            "statistic": statistic,
            "p_value": p_value,
            # From the highest probabilities down.
            "shares": shares[::-1].tolist(),
            "x_calibration": float(((shares - 0.1) ** 2).sum()),
        },
        "aj_calibration": aj_calibration_per_event(
            cause, times, duration, event, 1, min_prop_at_risk=0.0
        ),
        # p_value, statistic, observed, expected; groups from the highest risk down.
        "one_calibration": one,
        "one_calibration_cause_1": one_cause,
        "hinge": {
            kind: mean_error(
                predicted_time, duration, event > 0, error_type=kind, method="Hinge", weighted=False
            )
            for kind in ("absolute", "squared")
        },
        "margin": {
            kind: mean_error(
                predicted_time,
                duration,
                event > 0,
                duration,
                event > 0,
                error_type=kind,
                method="Margin",
            )
            for kind in ("absolute", "squared")
        },
    }
    path = Path(__file__).with_name("golden.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()

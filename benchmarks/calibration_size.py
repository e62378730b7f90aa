"""How often `Evaluation.risk_groups` rejects predictions that are true, at a level of 5 %.

Writes results/calibration_size.json. Run on one core, about five minutes:

    OMP_NUM_THREADS=1 python -m benchmarks.calibration_size
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2

from survival_objectives.metrics import Evaluation

_RESULTS = Path(__file__).parent / "results" / "calibration_size.json"
_HORIZON = 0.8
_COEFFICIENT = np.array([[0.7, -0.3], [-0.5, 0.6]])
# Rate of censoring, and how much the first feature moves it.
_CENSORING = ((0.3, 0.0), (1.0, 0.0), (0.6, 0.8))


def rejections(
    n_samples: int,
    n_causes: int,
    rate: float,
    slope: float,
    variance: str,
    n_runs: int,
    n_groups: int = 10,
) -> dict[str, float]:
    """Share of the data sets in which the truth is rejected, and what they are like."""
    generator = np.random.default_rng(0)
    n_rejected, censored, groups = 0, 0.0, 0
    for _ in range(n_runs):
        X = generator.normal(size=(n_samples, 2))
        hazard = np.array([0.5, 0.3])[:n_causes] * np.exp(X @ _COEFFICIENT[:, :n_causes])
        event_times = generator.exponential(1 / hazard)
        end = generator.exponential(1 / (rate * np.exp(slope * X[:, 0])))
        first = event_times.min(axis=1)
        event = np.where(first <= end, event_times.argmin(axis=1) + 1, 0)
        total = hazard.sum(axis=1)
        incidence = hazard[:, 0] / total * -np.expm1(-total * _HORIZON)
        people = Evaluation(None, (event, np.minimum(first, end)), incidence[:, None], _HORIZON)
        test = people.risk_groups(1, n_groups=n_groups)
        p_value, n_tested = test.p_value, test.degrees_of_freedom
        if variance == "greenwood":
            # The test of Demler et al. (2015), with all groups.
            n_tested = len(test.observed)
            gap = (test.observed - test.predicted) / test.standard_error
            p_value = chi2.sf(gap @ gap, n_tested - 1)
        n_rejected += p_value < 0.05
        censored += float(np.mean(event == 0))
        groups += n_tested
    return {
        "rejected": n_rejected / n_runs,
        "censored": round(censored / n_runs, 3),
        "groups": round(groups / n_runs, 2),
    }


def main() -> None:
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    n_runs = parser.parse_args().runs
    rows: list[dict[str, Any]] = []
    for n_causes in (1, 2):
        for rate, slope in _CENSORING:
            for n_samples in (300, 1000):
                for variance in ("null", "greenwood"):
                    case = {
                        "n_samples": n_samples,
                        "n_causes": n_causes,
                        "censoring_by_features": slope > 0,
                        "variance": variance,
                    }
                    found = rejections(n_samples, n_causes, rate, slope, variance, n_runs)
                    rows.append({**case, **found})
                    print(rows[-1], flush=True)
    _RESULTS.write_text(
        json.dumps({"n_runs": n_runs, "level": 0.05, "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()

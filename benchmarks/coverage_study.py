"""How often 95 % intervals of scores, and of differences between two models, cover the truth.

Two competing causes with hazards that depend on two features, about 40 % censored. Censoring is
either independent of the features, with Kaplan-Meier weights from the people scored ("same
people") or from as many others ("training people"), or depends on them, with the true
probabilities ("by features"). True scores come from 400 000 uncensored people. Writes
results/coverage_study.json. Run on one core, about ten minutes:

    OMP_NUM_THREADS=1 python -m benchmarks.coverage_study
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives.metrics import (
    brier_score,
    concordance_index,
    integrated_brier_score,
    time_dependent_auc,
)
from survival_objectives.metrics._inference import difference_of, score_influence

FloatArray = npt.NDArray[np.float64]

_RESULTS = Path(__file__).parent / "results" / "coverage_study.json"
_COEFFICIENT = np.array([[0.7, -0.3], [-0.5, 0.6]])
_TIMES = np.array([0.2, 0.4, 0.6, 0.8])
_CASES = (
    ("same people", 500),
    ("by features", 500),
    ("same people", 2000),
    ("by features", 2000),
    ("training people", 500),
)
_METRICS: dict[str, tuple[Callable[..., Any], dict[str, Any], slice]] = {
    "Brier score, cause 1": (brier_score, {"cause": 1}, slice(3, 4)),
    "Brier score, cause 2": (brier_score, {"cause": 2}, slice(3, 4)),
    "integrated Brier score": (integrated_brier_score, {"average": "all"}, slice(0, 4)),
    "AUC, cause 1": (time_dependent_auc, {"cause": 1}, slice(3, 4)),
    "AUC, cause 2": (time_dependent_auc, {"cause": 2}, slice(3, 4)),
    "concordance, cause 1": (concordance_index, {"cause": 1}, slice(3, 4)),
}


class _TrueCensoring:
    """Censoring at a rate of 0.4 exp(slope x_1)."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def rate(self, X: FloatArray) -> FloatArray:
        rate: FloatArray = 0.4 * np.exp(self.slope * X[:, 0])
        return rate

    def survival(self, times: Any, X: Any = None, *, left: bool = False) -> FloatArray:  # noqa: ARG002
        times = np.asarray(times, dtype=np.float64)
        rate = self.rate(X).reshape(-1, *[1] * (times.ndim - 1))
        survival: FloatArray = np.exp(-rate * times)
        return survival


def _hazards(X: FloatArray) -> FloatArray:
    hazard: FloatArray = np.array([0.5, 0.3]) * np.exp(X @ _COEFFICIENT)
    return hazard


def _curves(hazard: FloatArray) -> FloatArray:
    total = hazard.sum(axis=1)
    gone = -np.expm1(-np.outer(total, _TIMES))
    causes = (hazard / total[:, None])[:, :, None] * gone[:, None]
    return np.concatenate([1 - gone[:, None], causes], axis=1)


def _models(X: FloatArray) -> list[FloatArray]:
    """Curves of a model that is too cautious, and of one that knows the first feature only."""
    return [_curves(_hazards(X) ** 0.7), _curves(_hazards(X * [1, 0]))]


def _people(
    n_samples: int, generator: np.random.Generator, censoring: _TrueCensoring | None
) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
    X = generator.normal(size=(n_samples, 2))
    event_times = generator.exponential(1 / _hazards(X))
    first, event = event_times.min(axis=1), event_times.argmin(axis=1) + 1.0
    if censoring is None:
        return X, (event, first)
    end = generator.exponential(1 / censoring.rate(X))
    return X, (np.where(first <= end, event, 0.0), np.minimum(first, end))


def true_scores(n_samples: int) -> dict[str, list[float]]:
    """Scores of the two models on uncensored people."""
    X, y = _people(n_samples, np.random.default_rng(1), None)
    models = _models(X)
    return {
        name: [
            np.ravel(metric(y, y, curves[..., at], _TIMES[at], **options))[0].item()
            for curves in models
        ]
        for name, (metric, options, at) in _METRICS.items()
    }


def coverage(
    kind: str, n_samples: int, n_runs: int, truth: dict[str, list[float]]
) -> dict[str, dict[str, float]]:
    """Share of the runs in which the intervals cover, for every metric."""
    generator = np.random.default_rng(0)
    censoring = _TrueCensoring(0.8 if kind == "by features" else 0.0)
    covered: Counter[tuple[str, str]] = Counter()
    for _ in range(n_runs):
        X, y = _people(n_samples, generator, censoring)
        given: Any = y
        if kind == "training people":
            given = _people(n_samples, generator, censoring)[1]
        elif kind == "by features":
            given = censoring
        first, second = _models(X)
        for name, (metric, options, at) in _METRICS.items():
            shared = {**options, "X": X if kind == "by features" else None}
            influences = [
                score_influence(metric, given, y, curves[..., at], _TIMES[at], **shared)
                for curves in (first, second)
            ]
            half = 1.959964 * np.sqrt(np.ravel(influences[0].variance())[0])
            is_near = abs(np.ravel(influences[0].value)[0] - truth[name][0]) <= half
            covered[name, "score"] += bool(is_near)
            compared = difference_of(*influences, confidence=0.95)
            difference = truth[name][0] - truth[name][1]
            is_inside = np.ravel(compared.lower)[0] <= difference <= np.ravel(compared.upper)[0]
            covered[name, "difference"] += bool(is_inside)
    return {
        name: {what: covered[name, what] / n_runs for what in ("score", "difference")}
        for name in _METRICS
    }


def main() -> None:
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    n_runs = parser.parse_args().runs
    truth = true_scores(400_000)
    rows = []
    for kind, n_samples in _CASES:
        found = coverage(kind, n_samples, n_runs, truth)
        rows.append({"weights": kind, "n_samples": n_samples, "coverage": found})
        print(rows[-1], flush=True)
        content = {"n_runs": n_runs, "confidence": 0.95, "true_scores": truth, "rows": rows}
        _RESULTS.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

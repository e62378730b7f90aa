"""How often the 95 % limits of `Evaluation` cover the truth.

One or two causes with hazards that depend on two features, censoring independent of them, and a
model that is too extreme and predicts too little. Cases: a middle horizon with about 35 %
censored; an early one with about half censored; and a landmark, with people who enter
late. True scores come from 400 000 uncensored people who are all seen from the beginning; those of
Antolini's index, which depends on the censoring, from as many with it.

The summaries of the calibration curve (ICI, E50, ...) are positive for true predictions by noise
alone. Their bias and coverage are recorded for the model, and their bias for true predictions,
where no limits can be right. Writes results/validation_coverage.json, where cases of another number
of people are kept. On one core:

    OMP_NUM_THREADS=1 python -m benchmarks.validation_coverage --people 500 --runs 2000
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives.metrics import Estimate, Evaluation
from survival_objectives.metrics._estimate import estimate
from survival_objectives.metrics._smooth import cloglog_influence

FloatArray = npt.NDArray[np.float64]

_RESULTS = Path(__file__).parent / "results" / "validation_coverage.json"
_COEFFICIENT = np.array([[0.7, -0.3], [-0.5, 0.6]])
_GRID = np.linspace(0.1, 0.8, 8)
_THRESHOLD = 0.25
_N_POPULATION = 400_000
_SUMMARIES = {
    "ici": "ICI",
    "e50": "E50",
    "e90": "E90",
    "emax": "Emax",
    "root_squared_bias": "root squared bias",
}
_SUMMARY_SHARE = 5  # The summaries are simulated in one run of so many.


@dataclass(frozen=True)
class Case:
    """What is simulated."""

    name: str
    n_people: int
    n_causes: int
    horizon: float = 0.8
    censoring: float = 0.5
    landmark: float | None = None

    def people(
        self, seed: int, n_people: int, *, observed: bool = True
    ) -> tuple[dict[str, FloatArray], FloatArray]:
        """Outcomes and true hazards; with ``observed``, censored and, at a landmark, truncated."""
        generator = np.random.default_rng(seed)
        late = self.landmark is not None and observed
        n_drawn = 3 * n_people if late else n_people
        X = generator.normal(size=(n_drawn, 2))
        hazard = np.array([0.5, 0.3])[: self.n_causes] * np.exp(
            X @ _COEFFICIENT[:, : self.n_causes]
        )
        times = generator.exponential(1 / hazard)
        censored = generator.exponential(1 / self.censoring, n_drawn)
        entry = generator.uniform(-0.3, 0.6, n_drawn).clip(0)
        if not observed:
            censored, entry = np.full(n_drawn, np.inf), np.zeros(n_drawn)
        if not late:
            entry = np.zeros(n_drawn)
        first = times.min(axis=1)
        event = np.where(first <= censored, times.argmin(axis=1) + 1, 0)
        duration = np.minimum(first, censored)
        kept = np.flatnonzero(entry < duration)[:n_people]
        y = {"event": event[kept], "duration": duration[kept], "entry": entry[kept]}
        return y, hazard[kept]

    def evaluation(
        self, y: dict[str, FloatArray], hazard: FloatArray, *, all_times: bool = False
    ) -> Evaluation:
        """Of the curves of constant ``hazard``, at the horizon or at times up to it."""
        times = np.array([self.horizon]) if self.landmark is None else [self.landmark, self.horizon]
        if all_times:
            times = _GRID * self.horizon / _GRID[-1]
        total = hazard.sum(axis=1)
        gone = -np.expm1(-total[:, None] * np.asarray(times))
        causes = (hazard / total[:, None])[:, :, None] * gone[:, None, :]
        curves = np.concatenate([1 - gone[:, None], causes], axis=1)
        labels = np.arange(self.n_causes + 1)
        return Evaluation(None, y, curves, times, event_ids=labels, landmark=self.landmark)


CASES = (
    Case("one cause", 500, 1),
    Case("two causes", 500, 2),
    Case("two causes, early, half censored", 500, 2, 0.3, 2.5),
    Case("two causes, landmark, late entry", 500, 2, 1.0, 0.5, 0.2),
)


def scores(evaluation: Evaluation) -> dict[str, Estimate]:
    """All scores of cause 1 at the only time."""
    rows = {
        "Brier score": evaluation.brier(1),
        "scaled Brier score": evaluation.scaled_brier(1),
        "AUC": evaluation.auc(1),
        "concordance": evaluation.concordance(1),
        "observed/expected": evaluation.observed_expected(1),
        "log-loss": evaluation.log_loss(),
    }
    found = {name: _at(row, 0) for name, row in rows.items()}
    benefit = evaluation.net_benefit(1, thresholds=[_THRESHOLD]).iloc[0]
    for name, prefix in (("net_benefit", ""), ("gain", "gain_")):
        numbers = (benefit[f"{prefix}{field}"] for field in ("standard_error", "lower", "upper"))
        label = "net benefit" if name == "net_benefit" else "net benefit minus that of all"
        found[label] = Estimate(np.asarray(benefit[name]), *map(np.asarray, numbers))
    return found


def scores_over_time(evaluation: Evaluation) -> dict[str, Estimate]:
    """Scores that use all times."""
    return {
        "concordance (Antolini)": _at(evaluation.concordance(1, changing=True), -1),
        "integrated Brier score": evaluation.brier(1, integrated=True),
    }


def regression(evaluation: Evaluation) -> dict[str, Estimate]:
    """Intercept, slope and summaries of cause 1 at the last time."""
    found = evaluation.calibration(1, float(evaluation.times[-1]))
    names = ("intercept", "slope", *_SUMMARIES)
    return {name: getattr(found, name) for name in names}


def _at(found: Estimate, column: int) -> Estimate:
    parts = (found.value, found.standard_error, found.lower, found.upper)
    return Estimate(*(np.asarray(part[column]) for part in parts))


def model(hazard: FloatArray) -> FloatArray:
    """The hazards that are predicted: too extreme, and too low."""
    predicted: FloatArray = 0.8 * hazard**1.3
    return predicted


def truth_of(case: Case) -> dict[str, float]:
    """True scores, from a large uncensored population."""
    y, hazard = case.people(1_000_003, _N_POPULATION, observed=False)
    whole = case.evaluation(y, model(hazard))
    true = {name: float(found.value) for name, found in scores(whole).items()}
    true |= {name: float(found.value) for name, found in regression(whole).items()}
    if case.landmark is None:
        whole = case.evaluation(y, model(hazard), all_times=True)
        true["integrated Brier score"] = float(whole.brier(1, integrated=True).value)
        y, hazard = case.people(1_000_005, _N_POPULATION)
        seen = scores_over_time(case.evaluation(y, model(hazard), all_times=True))
        true["concordance (Antolini)"] = float(seen["concordance (Antolini)"].value)
    return true


def run(case: Case, n_runs: int) -> dict[str, Any]:
    """Coverage, bias and standard errors of one case."""
    started = time.process_time()
    true = truth_of(case)
    covered: dict[str, list[bool]] = {name: [] for name in true}
    values: dict[str, list[float]] = {name: [] for name in true}
    errors: dict[str, list[float]] = {name: [] for name in true}
    of_truth: dict[str, list[float]] = {name: [] for name in _SUMMARIES}
    censored = []
    for seed in range(n_runs):
        y, hazard = case.people(seed, case.n_people)
        censored.append(np.mean((y["event"] == 0) & (y["duration"] < case.horizon)))
        evaluation = case.evaluation(y, model(hazard))
        found = scores(evaluation)
        if case.landmark is None:
            found |= scores_over_time(case.evaluation(y, model(hazard), all_times=True))
        if seed % _SUMMARY_SHARE == 0:
            found |= regression(evaluation)
            for name, one in regression(case.evaluation(y, hazard)).items():
                if name in of_truth:
                    of_truth[name].append(float(one.value))
        else:
            found |= _intercept_and_slope(evaluation)
        for name, one in found.items():
            if np.isfinite(one.value):
                covered[name].append(bool(one.lower <= true[name] <= one.upper))
                values[name].append(float(one.value))
                errors[name].append(float(one.standard_error))
    return {
        "case": case.name,
        "n_people": case.n_people,
        "n_causes": case.n_causes,
        "runs": n_runs,
        "cpu_seconds": round(time.process_time() - started),
        "censored_by_horizon": float(np.mean(censored)),
        "scores": {
            name: {
                "runs": len(covered[name]),
                "coverage": float(np.mean(covered[name])),
                "truth": true[name],
                "mean": float(np.mean(values[name])),
                "standard_deviation": float(np.std(values[name])),
                "mean_standard_error": float(np.mean(errors[name])),
            }
            for name in true
        },
        "summaries_of_true_predictions": {
            name: float(np.mean(found)) for name, found in of_truth.items()
        },
    }


def _intercept_and_slope(evaluation: Evaluation) -> dict[str, Estimate]:
    work = evaluation.workspace
    last = len(evaluation.times) - 1
    risk, weight = work.scored.risks(1)[0][1][:, last], work.scored.sample_weight
    pseudo = work.pseudo_observations(1, last)
    level = cloglog_influence(risk, pseudo, weight, slope=False)
    both = cloglog_influence(risk, pseudo, weight, slope=True)
    return {"intercept": _at(estimate(level), 0), "slope": _at(estimate(both), 1)}


def coverage_table() -> str:
    """How often limits cover, by score and case, for the documentation."""
    cases = _cases()
    names = dict.fromkeys(name for case in cases for name in case["scores"])
    rows = [
        [_SUMMARIES.get(name, name), *(_covered(case, name) for case in cases)]
        for name in sorted(names, key=_SUMMARIES.__contains__)
    ]
    return _table(cases, [*rows, ["runs", *(f"{case['runs']}" for case in cases)]])


def bias_table() -> str:
    """Summaries of the calibration curve: the true one, the mean, and that of true predictions."""
    cases = _cases()
    rows = []
    for name, words in _SUMMARIES.items():
        cells = []
        for case in cases:
            own, ideal = case["scores"][name], case["summaries_of_true_predictions"][name]
            cells.append(f"{own['truth']:.3f}, {own['mean']:.3f}, {ideal:.3f}")
        rows.append([words, *cells])
    return _table(cases, rows)


def _cases() -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(_RESULTS.read_text())["cases"]
    return cases


def _covered(case: dict[str, Any], name: str) -> str:
    return f"{case['scores'][name]['coverage']:.1%}" if name in case["scores"] else "–"


def _table(cases: list[dict[str, Any]], rows: list[list[str]]) -> str:
    head = ["score", *(f"{case['case']}, {case['n_people']}" for case in cases)]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("%", " %") for line in lines)


def main(arguments: list[str] | None = None) -> None:
    """Run all cases and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--people", type=int, default=500)
    parser.add_argument("--output", type=Path, default=_RESULTS)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for case in CASES:
        part = run(replace(case, n_people=options.people), options.runs)
        kept = json.loads(options.output.read_text())["cases"] if options.output.exists() else []
        own = (part["case"], part["n_people"])
        kept = [one for one in kept if (one["case"], one["n_people"]) != own]
        options.output.write_text(json.dumps({"cases": [*kept, part]}, indent=1) + "\n")
        print(part["case"], part["n_people"], f"{part['censored_by_horizon']:.0%} censored")
        for name, one in part["scores"].items():
            print(
                f"  {name:32s} {one['coverage']:.3f}  {one['mean']:.4f} ({one['truth']:.4f})"
                f"  sd {one['standard_deviation']:.4f} se {one['mean_standard_error']:.4f}"
            )


if __name__ == "__main__":
    main()

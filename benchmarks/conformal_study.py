"""What lower bounds and screening lists of `survival_objectives.uncertainty` hold on known truths.

    python -m benchmarks.conformal_study [--seeds 4] [--n 600]

For members of eight families: a HazardBoost is trained on n people and calibrated on n others, with
censoring that depends on the features; new people without censoring say what holds. In turn both
models are estimated, the curves of the event are wrong on purpose (those of people with the
opposite features), and the censoring is wrong on purpose (a strong effect of a feature that has
none). "quantile" is the model's own 10 % quantile without calibration, "weights" divides weights as
DR-COSARC does, on average over its imputed censoring times. Bounds are shown as the mean beside the
mean of the true 10 % quantiles: a bound of 0 covers everyone. Lists are of low risk by 0.3 with at
most 20 % errors, and of high risk by 0.7 with at most 30 %. Writes
`benchmarks/results/conformal_study.json`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks._truths import Sample, Truth, draw_truth
from survival_objectives import HazardBoost
from survival_objectives.uncertainty import ConformalSurvival, conformalize

FloatArray = npt.NDArray[np.float64]
RECORD = Path(__file__).parent / "results" / "conformal_study.json"
_N_NEW = 4000
_TIMES = np.linspace(0, 1, 401)
CASES = {
    "hazards, 1 cause": 0.47,
    "hazards, 2 causes": 0.40,
    "hazards, linear": 0.40,
    "additive hazards": 0.50,
    "crossing curves": 0.40,
    "cured": 0.60,
    "incidences": 0.30,
    "months": 0.45,
}
WORDS = {"none": "both estimated", "event": "event wrong", "censoring": "censoring wrong"}
WRONG = tuple(WORDS)


class _Opposite:
    """Curves that a model predicts for people with the opposite features."""

    engine_ = "xgboost"

    def __init__(self, model: HazardBoost) -> None:
        self._model = model
        self.event_ids_ = model.event_ids_

    def predict_cumulative_incidence(self, X: Any, times: Any) -> FloatArray:
        return self._model.predict_cumulative_incidence(-np.asarray(X), times)


class _WrongCensoring:
    """Censoring that only people with a positive first feature are subject to."""

    def survival(self, times: Any, X: Any = None, *, left: bool = False) -> FloatArray:  # noqa: ARG002
        return np.exp(-2 * np.asarray(times) * (np.asarray(X)[:, :1] > 0))


def outcomes(sample: Sample) -> tuple[npt.NDArray[np.int64], FloatArray]:
    return sample.event, np.maximum(sample.duration, 1e-6)


def weighted_bound(calibrated: ConformalSurvival, X: FloatArray, allowed: float) -> FloatArray:
    """Lower bounds by the weights of DR-COSARC, without drawing censoring times.

    A person is used for f if the censoring time, observed or imputed given that it follows the
    event, is at least f, with the weight 1 / G(f). For those with an event before f this happens
    with probability G(f) / G(t), so that the mean weight is 1 / G(t).
    """
    people = calibrated.people
    levels = np.linspace(0, 1, 1001)[1:]
    early, late = np.zeros(len(levels)), np.zeros(len(levels))
    for i, survival in enumerate(people.curves[:, 0]):
        times = np.interp(levels, np.maximum.accumulate(1 - survival), people.nodes)
        end = people.duration[i]
        at_end = np.interp(end, people.nodes, people.uncensored[i])
        early += (end < times) * (people.target.event[i] > 0) / at_end
        late += (end >= times) / np.interp(times, people.nodes, people.uncensored[i])
    exceeded = early / (early + late) > allowed
    level = levels[max(int(exceeded.argmax()) - 1, 0)]
    curves = calibrated.model.predict_cumulative_incidence(X, people.nodes)[:, 0]
    return np.array([np.interp(level, np.maximum.accumulate(1 - s), people.nodes) for s in curves])


def measured(
    truth: Truth, generator: np.random.Generator, n: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """With each model that is wrong: coverage and means of bounds; errors and length of lists."""
    train, people = truth.draw(n, generator), truth.draw(n, generator)
    new = replace(truth, censoring_scale=np.inf).draw(_N_NEW, generator)
    fitted = HazardBoost(random_state=0, n_jobs=1).fit(train.X, outcomes(train))
    time = np.where(new.event > 0, new.duration, np.inf)
    best = quantiles(truth.incidence(new.X, _TIMES)[:, 0])
    for wrong in WRONG:
        model: Any = _Opposite(fitted) if wrong == "event" else fitted
        censoring = _WrongCensoring() if wrong == "censoring" else None
        calibrated = conformalize(model, people.X, outcomes(people), censoring=censoring)
        bounds = {
            "conformal": calibrated.lower_bound(new.X, 0.9),
            "weights": weighted_bound(calibrated, new.X, 0.1),
            "quantile": quantiles(model.predict_cumulative_incidence(new.X, _TIMES)[:, 0]),
            "truth": best,
        }
        found = {}
        for name, bound in bounds.items():
            found[name] = float((time >= bound).mean())
            found[f"{name} bound"] = float(bound.mean())
        for keep, horizon, rate in (("low", 0.3, 0.2), ("high", 0.7, 0.3)):
            listed = calibrated.screen(new.X, horizon, keep=keep, error_rate=rate)
            error = time <= horizon if keep == "low" else time > horizon
            # The rate of false discoveries counts an empty list as no error.
            found[f"{keep} errors"] = float(error[listed].mean()) if listed.any() else 0.0
            found[f"{keep} listed"] = float(listed.mean())
        yield wrong, found


def quantiles(survival: FloatArray) -> FloatArray:
    """Times by which a tenth have had an event."""
    return np.array([np.interp(0.1, 1 - own, _TIMES) for own in survival])


def table() -> str:
    """What the documentation shows: coverage and mean bounds, by truth and by the wrong model."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    head = ("truth", *(f"{WORDS[wrong]}: covered, bound" for wrong in WRONG), "best bound")
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    families = list(CASES)
    for family in (*families, "all"):
        chosen = [row for row in record["rows"] if family in ("all", row["family"])]
        cells = [family]
        for wrong in WRONG:
            rows = [row["found"] for row in chosen if row["wrong"] == wrong]
            cells.append(f"{mean(rows, 'conformal'):.1%}, {mean(rows, 'conformal bound'):.2f}")
        cells.append(f"{mean([row['found'] for row in chosen], 'truth bound'):.2f}")
        lines.append(f"| {' | '.join(cells)} |".replace("%", " %"))
    return "\n".join(lines)


def mean(rows: list[dict[str, float]], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def summary() -> dict[str, dict[str, float]]:
    """Means over all populations, by the wrong model."""
    rows = json.loads(RECORD.read_text(encoding="utf-8"))["rows"]
    found = {}
    for wrong in WRONG:
        own = [row["found"] for row in rows if row["wrong"] == wrong]
        found[wrong] = {name: mean(own, name) for name in own[0]}
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--n", type=int, default=600)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    rows = []
    for seed in range(given.seeds):
        for family, censored in CASES.items():
            truth, generator = draw_truth(family, seed, censored=censored, by_features=True)
            for wrong, found in measured(truth, generator, given.n):
                found = {name: round(value, 4) for name, value in found.items()}
                rows.append({"family": family, "seed": seed, "wrong": wrong, "found": found})
                print(family, seed, wrong, found, flush=True)
        lines = ",\n".join(map(json.dumps, rows))
        RECORD.write_text(f'{{"n": {given.n}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")
    print(table(), *summary().items(), sep="\n")


if __name__ == "__main__":
    main()

"""What lower bounds and screening lists of `survival_objectives.uncertainty` hold on known truths.

    python -m benchmarks.conformal_study [--seeds 4] [--n 600] [--write]

For members of eight families: a HazardBoost is trained on n people and calibrated on n others, with
censoring that depends on the features; new people without censoring say what holds. In turn both
models are estimated, the curves of the event are wrong on purpose (those of people with the
opposite features), and the censoring is wrong on purpose (a strong effect of a feature that has
none). "quantile" is the model's own 10 % quantile without calibration, "weights" divides weights as
DR-COSARC does, on average over its imputed censoring times. Bounds are shown as the mean beside the
mean of the true 10 % quantiles: a bound of 0 covers everyone. `--write` records the table in
`benchmarks/results/conformal.md`.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks._truths import Sample, Truth, draw_truth
from survival_objectives import HazardBoost
from survival_objectives.uncertainty import ConformalSurvival, conformalize

FloatArray = npt.NDArray[np.float64]
RECORD = Path(__file__).parent / "results" / "conformal.md"
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
WRONG = ("none", "event", "censoring")


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


def measured(truth: Truth, generator: np.random.Generator, n: int, wrong: str) -> list[float]:
    """Coverage and mean of the bounds, and the share of errors in two lists and their length."""
    train, people = truth.draw(n, generator), truth.draw(n, generator)
    new = replace(truth, censoring_scale=np.inf).draw(_N_NEW, generator)
    model: Any = HazardBoost(random_state=0, n_jobs=1).fit(train.X, outcomes(train))
    if wrong == "event":
        model = _Opposite(model)
    censoring = _WrongCensoring() if wrong == "censoring" else None
    calibrated = conformalize(model, people.X, outcomes(people), censoring=censoring)
    curves = model.predict_cumulative_incidence(new.X, _TIMES)[:, 0]
    true = truth.incidence(new.X, _TIMES)[:, 0]
    time = np.where(new.event > 0, new.duration, np.inf)
    bounds = {
        "conformal": calibrated.lower_bound(new.X, 0.9),
        "weights": weighted_bound(calibrated, new.X, 0.1),
        "quantile": np.array([np.interp(0.1, 1 - s, _TIMES) for s in curves]),
    }
    oracle = np.array([np.interp(0.1, 1 - s, _TIMES) for s in true])
    row = [float((time >= bound).mean()) for bound in bounds.values()]
    row += [float(bound.mean()) for bound in bounds.values()] + [float(oracle.mean())]
    for keep, horizon, rate in (("low", 0.3, 0.2), ("high", 0.7, 0.3)):
        listed = calibrated.screen(new.X, horizon, keep=keep, error_rate=rate)
        error = time <= horizon if keep == "low" else time > horizon
        # The rate of false discoveries counts an empty list as no error.
        row += [float(error[listed].mean()) if listed.any() else 0.0, float(listed.mean())]
    return row


def table(n_seeds: int, n: int) -> list[str]:
    lines = [
        f"# Conformal bounds and lists: {n} training people, {n} of calibration, "
        f"means of {n_seeds} populations",
        "",
        "Lower bound at 90 %: people covered (nominal 0.900; its standard error in brackets) and "
        "mean bound. Lists: share of errors (at most 0.2 of low risk at time 0.3, at most 0.3 of "
        "high risk at 0.7) and share of people listed.",
        "",
        "| truth | wrong model | conformal | weights | own quantile | bound: conformal | weights "
        "| quantile | truth | low: errors | listed | high: errors | listed |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for wrong in WRONG:
        means = []
        for family, censored in CASES.items():
            rows = []
            for seed in range(n_seeds):
                truth, generator = draw_truth(family, seed, censored=censored, by_features=True)
                rows.append(measured(truth, generator, n, wrong))
            mean = np.mean(rows, axis=0)
            error = np.std([row[0] for row in rows], ddof=1) / np.sqrt(n_seeds)
            means.append(mean)
            lines.append(_line(family, wrong, mean, f" ({error:.3f})"))
            print(lines[-1], flush=True)
        lines.append(_line("**all**", wrong, np.mean(means, axis=0), ""))
    return lines


def _line(family: str, wrong: str, mean: FloatArray, error: str) -> str:
    numbers = [f"{value:.3f}" for value in mean]
    numbers[0] += error
    return f"| {family} | {wrong} | " + " | ".join(numbers) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--n", type=int, default=600)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = table(given.seeds, given.n)
    print("\n".join(lines))
    if given.write:
        RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

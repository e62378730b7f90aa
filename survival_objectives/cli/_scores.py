"""Scores as tables and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import check_survival_target
from survival_objectives.cli._errors import CommandError
from survival_objectives.cli._outcomes import Events
from survival_objectives.marginal import aalen_johansen
from survival_objectives.metrics import Estimate, Evaluation

_N_TIMES = 50
_N_MARGINAL = 100
# After this quantile of the event times, a handful of people carry the score.
_LAST_QUANTILE = 0.95
_BETTER = {True: "higher", False: "lower"}


def score_table(assessment: Any, events: Events) -> str:
    """The scores of all models, one line per score."""
    summary = assessment.summary().T
    summary.index = pd.Index([_named(label, events) for label in summary.index])
    summary.insert(
        0, "better", [_BETTER[label.startswith("concordance")] for label in summary.index]
    )
    summary.columns.name = None
    lines = [summary.to_string()]
    for name, reason in assessment.unavailable.items():
        lines.append(f"\n{name} is unavailable: {reason}")
    return "\n".join(lines)


def assessment_content(assessment: Any, events: Events, title: str) -> dict[str, Any]:
    """The scores as data to store with the model."""
    summary = assessment.summary()
    scores = {
        model: {_named(label, events): value for label, value in row.items()}
        for model, row in summary.iterrows()
    }
    return {"title": title, "model": assessment.main, "scores": scores}


def _named(label: str, events: Events) -> str:
    """The label of a score with the name of the cause instead of its code."""
    metric, comma, code = label.rpartition(", cause ")
    if not comma:
        return label
    return f"{metric}, {events.names[int(code)]}" if len(events.names) > 2 else metric


def marginal_content(y: pd.DataFrame, last: float) -> dict[str, list[Any]]:
    """The marginal curve of the training people, to store with the model.

    It is on a coarse grid of even times, which contains no individual event time.
    """
    times = np.linspace(0, last, _N_MARGINAL + 1)
    marginal = aalen_johansen(check_survival_target(y, late_entry=True))(times).T
    return {"times": times.tolist(), "marginal": marginal.tolist()}


def marginal_curves(
    content: dict[str, Any], n_people: int, times: FloatArray
) -> dict[str, FloatArray]:
    """The stored marginal curve by its name, of shape (n_people, K + 1, n_times)."""
    if not content:
        return {}
    at = np.stack([np.interp(times, content["times"], row) for row in content["marginal"]])
    name = "Kaplan-Meier" if len(at) == 2 else "Aalen-Johansen"
    return {name: np.repeat(at[None], n_people, axis=0)}


def score_times(y: pd.DataFrame, latest: float) -> FloatArray:
    """Even times up to the 95 % quantile of the event times, and not after ``latest``."""
    observed = y["duration"].to_numpy()[y["event"].to_numpy() > 0]
    if len(observed) == 0:
        msg = f"all {len(y)} people are censored, so there is no event to score against"
        raise CommandError(msg)
    last = min(float(np.quantile(observed, _LAST_QUANTILE)), latest)
    if last == 0:
        msg = "nearly all events are at time 0, so there is nothing to score"
        raise CommandError(msg)
    return np.linspace(0, last, _N_TIMES + 1)[1:]


def held_out_scores(
    y: pd.DataFrame,
    curves: FloatArray,
    times: FloatArray,
    events: Events,
    others: Mapping[str, FloatArray] | None = None,
    groups: IntArray | None = None,
) -> pd.DataFrame:
    """Scores of curves, one row per score, with standard errors and 95 % intervals.

    Columns are ``metric``, ``event``, ``value``, ``standard_error``, ``lower``, ``upper`` and
    ``better``; for each of the ``others`` also its score, the difference from it, and the standard
    error of that difference. People are weighted by the censoring of ``y`` itself, and its
    estimation counts in the errors; rows of one of the ``groups`` count as one person there.
    Concordance is at the middle of the times.
    """
    scores = _scores(events, len(times) // 2)

    def evaluation(states: FloatArray, columns: slice) -> Evaluation:
        chosen = states[:, :, columns], times[columns]
        return Evaluation(None, y, *chosen, groups=groups, event_ids=events.ids)

    rows = []
    for metric, event, score, columns in scores:
        found = score(evaluation(curves, columns))
        row: dict[str, Any] = {"metric": metric, "event": event, **_numbers(found, _FIELDS)}
        row["better"] = _BETTER[metric == "concordance"]
        for name, other in (others or {}).items():
            compared = found - score(evaluation(other, columns))
            difference, error = _numbers(compared, ("value", "standard_error")).values()
            row |= {name: row["value"] - difference, f"model - {name}": difference}
            row[f"± {name}"] = error
        rows.append(row)
    return pd.DataFrame(rows)


_FIELDS = ("value", "standard_error", "lower", "upper")
_Score = tuple[str, str, Callable[[Evaluation], Estimate], slice]


def _scores(events: Events, middle: int) -> list[_Score]:
    """Names, functions and columns of times of all scores."""
    every, one = slice(None), slice(middle, middle + 1)

    def mean_brier(people: Evaluation) -> Estimate:
        return people.brier(integrated=True).averaged()

    def brier(code: int) -> Callable[[Evaluation], Estimate]:
        return lambda people: people.brier(code, integrated=True)

    def concordance(code: int) -> Callable[[Evaluation], Estimate]:
        return lambda people: people.concordance(code)

    def log_loss(people: Evaluation) -> Estimate:
        return people.log_loss(integrated=True)

    scores: list[_Score] = [("Brier score", "all", mean_brier, every)]
    causes = [(code, events.names[code]) for code in events.ids[1:]]
    if len(causes) > 1:
        scores += [("Brier score", name, brier(code), every) for code, name in causes]
    scores.append(("log-loss", "all", log_loss, every))
    return scores + [("concordance", name, concordance(code), one) for code, name in causes]


def _numbers(found: Any, fields: Sequence[str]) -> dict[str, float]:
    return {name: float(np.ravel(getattr(found, name))[0]) for name in fields}

"""What a careful reader should know before relying on the model, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from survival_objectives.report._facts import (
    Calibration,
    Column,
    MetricRow,
    Study,
    Weighing,
)
from survival_objectives.report._format import count, number, percent

__all__ = ["cautions"]

_FEW_EVENTS = 50
_HEAVY_CENSORING = 0.8
_FEW_AT_RISK = 20
_MANY_FLOORED = 0.05
_UNEVEN = 0.5
_OFF = 0.05
_OFF_RELATIVE = 0.25
_SURE = 0.01
_TOO_GOOD = 0.97
# Brier scores nearer than this share of each other are a tie.
_TIE = 0.005
_MARGINAL = ("Aalen-Johansen", "Kaplan-Meier")


def cautions(
    study: Study,
    rows: Sequence[MetricRow],
    calibrations: Sequence[Calibration],
    weights: Weighing,
    columns: Sequence[Column],
) -> list[str]:
    """Sentences, the gravest first; empty where nothing was found."""
    return [
        *_against_baselines(study, rows),
        *_events(study),
        *_follow_up(study),
        *_calibration(study, calibrations),
        *_weights(study, weights),
        *_too_good(study, rows),
        *_columns(columns),
        *_unavailable(study),
    ]


def _against_baselines(study: Study, rows: Sequence[MetricRow]) -> list[str]:
    overall = next(row for row in rows if row.metric == "integrated_brier_score" and not row.cause)
    by_name = {score.model: score for score in overall.models}
    main = by_name.pop(study.assessment.main)
    found = []
    for other in by_name.values():
        scores = f"Brier scores are {other.mean:.4f} and {main.mean:.4f} (lower is better)."
        if other.mean < main.mean * (1 - _TIE):
            found.append(f"{other.model} predicts better than {main.model}: {scores}")
        elif other.model in _MARGINAL and other.mean < main.mean * (1 + _TIE):
            found.append(
                f"{main.model} is no better than {other.model}, which ignores all columns: {scores}"
            )
    return found


def _events(study: Study) -> list[str]:
    counts = np.bincount(study.target.event, minlength=len(study.states))
    found = [
        f"Only {count(n_events)} people had “{name}”. With fewer than {_FEW_EVENTS} events, its "
        "curves and scores rest on chance as much as on the features."
        for name, n_events in zip(study.states[1:], counts[1:], strict=True)
        if n_events < _FEW_EVENTS
    ]
    censored = counts[0] / study.target.n_samples
    if censored > _HEAVY_CENSORING:
        found.append(
            f"{percent(censored)} of people are censored: what is said of them is inferred from "
            "the others."
        )
    return found


def _follow_up(study: Study) -> list[str]:
    found = []
    n_last = int((study.target.duration >= study.last).sum())
    ordered = np.sort(study.target.duration)[::-1]
    if n_last < _FEW_AT_RISK < len(ordered):
        since = float(ordered[_FEW_AT_RISK - 1])
        found.append(
            f"After {number(since, 3)}, fewer than {_FEW_AT_RISK} people are still under "
            f"observation ({n_last} at {number(study.last, 3)}, where curves end). Do not lean "
            "on that part."
        )
    scored = study.assessment.scored
    if not scored.all():
        reach = number(float(study.assessment.times[scored][-1]))
        found.append(
            f"Follow-up of some folds ends early, so that scores stop at {reach}, before the last "
            "time asked for."
        )
    return found


def _calibration(study: Study, calibrations: Sequence[Calibration]) -> list[str]:
    found = []
    for code, groups in enumerate(calibrations, start=1):
        mean = float(np.average(groups.observed, weights=groups.n_people))
        is_large = groups.error > min(_OFF, max(_OFF_RELATIVE * mean, 0.01))
        if is_large and groups.p_value < _SURE:
            found.append(
                f"Predicted probabilities of “{study.states[code]}” by {number(study.middle)} are "
                f"off by {100 * groups.error:.1f} percentage points on average, more than chance "
                f"explains (about {100 * groups.chance:.1f}). See the calibration chart before you "
                "quote them."
            )
    return found


def _biased(model: Any) -> str:
    if model.censoring_method_ == "imputed":
        return "scores at late times. The curves were trained without weights."
    return 'the late part of the curves. `censoring="imputed"` or a lower `horizon_max` avoids it.'


def _weights(study: Study, weights: Weighing) -> list[str]:
    found = []
    worst = int(weights.floored.argmax())
    if weights.floored[worst] > _MANY_FLOORED:
        found.append(
            f"At {number(float(weights.times[worst]), 3)}, "
            f"{percent(float(weights.floored[worst]))} of the weights are at the limit set by "
            f"`min_censoring_survival`, which biases {_biased(study.model)}"
        )
    ratio = weights.effective / np.maximum(weights.known, 1e-9)
    uneven = np.flatnonzero(ratio < _UNEVEN)
    if len(uneven):
        first = int(uneven[0])
        found.append(
            f"From {number(float(weights.times[first]), 3)} on, weights are so uneven that people "
            f"with a known state count for less than half their number "
            f"({count(float(weights.effective[first]) * study.target.n_samples)} of "
            f"{count(float(weights.known[first]) * study.target.n_samples)})."
        )
    return found


def _too_good(study: Study, rows: Sequence[MetricRow]) -> list[str]:
    return [
        f"A concordance of {score.mean:.3f} for “{_cause_name(study, row.cause)}” is rarely real. "
        "Check that no column was filled in after the outcome was known."
        for row in rows
        if row.metric == "concordance_50"
        for score in row.models
        if score.model == study.assessment.main and score.mean > _TOO_GOOD
    ]


def _columns(columns: Sequence[Column]) -> list[str]:
    found = []
    constant = [column.name for column in columns if column.n_values <= 1]
    if constant:
        found.append(f"These columns never vary and tell the model nothing: {_listed(constant)}.")
    sparse = [column.name for column in columns if 0.5 < column.missing < 1]
    if sparse:
        found.append(f"More than half of the values are missing in {_listed(sparse)}.")
    return found


def _unavailable(study: Study) -> list[str]:
    return [
        f"{name} could not be compared: {reason}"
        for name, reason in study.assessment.unavailable.items()
    ]


def _cause_name(study: Study, cause: int) -> str:
    return study.states[int(np.searchsorted(study.target.event_ids, cause))]


def _listed(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(f"“{name}”" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"

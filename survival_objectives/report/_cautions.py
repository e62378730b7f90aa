"""Cautions: what to know before relying on the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from survival_objectives.report._facts import (
    Calibration,
    Column,
    MetricRow,
    Study,
)
from survival_objectives.report._format import Interval, count, difference, percent

_FEW_EVENTS = 50
_HEAVY_CENSORING = 0.8
_FEW_AT_RISK = 20
_OFF = 0.05
_OFF_RELATIVE = 0.25
_SURE = 0.01
_TOO_GOOD = 0.97
# Smaller differences between a group's prediction and observation are no caution.
_OFF_GROUP = 0.03


def cautions(
    study: Study,
    rows: Sequence[MetricRow],
    calibrations: Sequence[Sequence[Calibration]],
    columns: Sequence[Column],
) -> list[str]:
    """Sentences, the most serious first; empty where nothing was found.

    Cautions about scores and probabilities need intervals that exclude chance.
    ``calibrations`` holds those of each cause, one per horizon.
    """
    return [
        *_against_baselines(study),
        *_calibration(study, calibrations),
        *_events(study),
        *_follow_up(study),
        *_too_good(study, rows),
        *_columns(columns),
        *_unavailable(study),
    ]


def _against_baselines(study: Study) -> list[str]:
    found = []
    for name, change in relative_differences(study).items():
        if change.low > 0 and change.is_clear(1):
            found.append(
                f"{name} predicts better than {study.assessment.main}: the Brier score of the "
                f"latter is {change.estimate:.1%} higher (95% limits {limits(change)})."
            )
        elif name == study.marginal and not change.excludes_zero:
            found.append(
                f"{study.assessment.main} is not certain to be better than {name}, which ignores "
                f"all columns: the difference in Brier score is {limits(change)}."
            )
    return found


def relative_differences(study: Study) -> dict[str, Interval]:
    """Brier score of the assessed model against each other one, as a share of the other's."""
    assessment = study.assessment
    means = assessment.values("integrated_brier_score").mean(axis=1)
    return {
        name: difference(assessment, assessment.main, name).scaled(1 / float(means[name]))
        for name in assessment.models[1:]
        if means[name] > 0
    }


def limits(change: Interval) -> str:
    """An interval of a share in words.

    >>> limits(Interval(-0.05, -0.071, 0.012))
    '−7.1% to 1.2%'
    """
    low, high = (f"{100 * value:.1f}%".replace("-", "−") for value in (change.low, change.high))
    return f"{low} to {high}"


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
            f"{percent(censored)} of people are censored: their outcomes are inferred from "
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
            f"After {study.when(since, 3)}, fewer than {_FEW_AT_RISK} people are still under "
            f"observation ({n_last} at {study.when(study.last, 3)}, where curves end). Do not rely "
            "on that part."
        )
    scored = study.assessment.scored
    if not scored.all():
        reach = study.when(float(study.assessment.times[scored][-1]))
        found.append(
            f"Follow-up of some folds ends early, so that scores stop at {reach}, before the last "
            "time asked for."
        )
    return found


def _calibration(study: Study, calibrations: Sequence[Sequence[Calibration]]) -> list[str]:
    return [
        text
        for code in range(1, len(study.states))
        if (text := miscalibration(study, calibrations, code)) is not None
    ]


def miscalibration(
    study: Study, calibrations: Sequence[Sequence[Calibration]], code: int
) -> str | None:
    """How the probabilities of a cause are off, where chance is excluded."""
    worst = _worst_group(study, calibrations, code)
    if worst is not None:
        return _of_group(study, code, *worst)
    by_horizon = calibrations[code - 1]
    groups = next(groups for groups in by_horizon if groups.horizon == study.middle)
    mean = float(np.average(groups.observed, weights=groups.n_people))
    is_large = groups.error > min(_OFF, max(_OFF_RELATIVE * mean, 0.01))
    if not (is_large and groups.p_value < _SURE):
        return None
    return (
        f"Predicted probabilities of “{study.states[code]}” by {study.when(study.middle)} are off "
        f"by {100 * groups.error:.1f} percentage points on average, more than chance explains "
        f"(about {100 * groups.chance:.1f}). See the calibration chart before you quote them."
    )


def _worst_group(
    study: Study, calibrations: Sequence[Sequence[Calibration]], code: int
) -> tuple[Calibration, int] | None:
    """The group whose prediction is the furthest off, among those where chance is excluded.

    Each cause is judged by itself: chance is excluded at 5 % for its groups and horizons together
    (Bonferroni). The group of the highest predictions at the middle horizon matters most for
    decisions; it is tested separately, at 5 %.
    """
    n_tests = sum(len(groups.p_values) for groups in calibrations[code - 1])
    worst: tuple[Calibration, int] | None = None
    largest = _OFF_GROUP
    for groups in calibrations[code - 1]:
        level = np.full(len(groups.p_values), 0.05 / n_tests)
        if groups.horizon == study.middle:
            level[-1] = 0.05
        gap = np.abs(groups.observed - groups.predicted)
        sure = (groups.p_values < level) & (gap > largest)
        if sure.any():
            position = int(np.where(sure, gap, 0.0).argmax())
            worst, largest = (groups, position), float(gap[position])
    return worst


def _of_group(study: Study, code: int, groups: Calibration, position: int) -> str:
    n_groups = len(groups.predicted)
    share = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 10: "tenth"}.get(n_groups, "group")
    if position == n_groups - 1:
        which = f"the {share} of people with the highest predictions"
    elif position == 0:
        which = f"the {share} of people with the lowest predictions"
    else:
        which = f"group {position + 1} of {n_groups} by prediction"
    observed, half = groups.observed[position], groups.half_width[position]
    low, high = max(0.0, observed - half), min(1.0, observed + half)
    return (
        f"“{study.states[code]}” by {study.when(groups.horizon)}: for {which}, "
        f"{percent(groups.predicted[position])} was predicted and {percent(observed)} observed "
        f"(95% limits {percent(low)} to {percent(high)})."
    )


def _too_good(study: Study, rows: Sequence[MetricRow]) -> list[str]:
    return [
        f"A concordance of {score.mean:.3f} for “{study.cause_name(row.cause)}” is rarely real. "
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
        found.append(f"These columns are constant and carry no information: {_listed(constant)}.")
    sparse = [column.name for column in columns if 0.5 < column.missing < 1]
    if sparse:
        found.append(f"More than half of the values are missing in {_listed(sparse)}.")
    return found


def _unavailable(study: Study) -> list[str]:
    return [
        f"{name} could not be compared: {reason}"
        for name, reason in study.assessment.unavailable.items()
    ]


def _listed(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(f"“{name}”" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"

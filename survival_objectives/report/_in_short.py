"""The report in a few sentences, for its top and for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from survival_objectives.report._cautions import (
    cautions,
    limits,
    miscalibration,
    relative_differences,
)
from survival_objectives.report._explained import Importance, importance
from survival_objectives.report._facts import (
    Calibration,
    Column,
    MetricRow,
    Study,
    calibration,
    calibration_horizons,
    columns,
    metric_rows,
)
from survival_objectives.report._format import Interval, distinct_names

_NAMED = 3
_NAMED_CAUSES = 2
_LONGEST = 60


@dataclass(frozen=True)
class InShort:
    """Main findings and cautions about a model.

    Attributes
    ----------
    sentences : list of str
        Whether it is better than the baselines, whether its probabilities come true, and which
        columns matter.
    cautions : list of str
        What to know before relying on it, the most serious first.
    """

    sentences: list[str]
    cautions: list[str]


@dataclass(frozen=True)
class Findings:
    """Everything that the report says in numbers about a model.

    ``calibrations`` holds, for each cause, one calibration per horizon.
    """

    rows: list[MetricRow]
    calibrations: list[list[Calibration]]
    columns: list[Column]
    importance: Importance


def find(study: Study) -> Findings:
    """Compute everything that is written or drawn, once."""
    horizons = calibration_horizons(study).tolist()
    return Findings(
        rows=metric_rows(study),
        calibrations=[
            [calibration(study, code, horizon=horizon) for horizon in horizons]
            for code in range(1, len(study.states))
        ],
        columns=columns(study.features),
        importance=importance(study),
    )


def in_short_of(study: Study, found: Findings) -> InShort:
    """Sentences and cautions of a study."""
    return InShort(
        [
            _versus(study),
            _calibrated(study, found.calibrations),
            _rests_on(study, found.importance),
        ],
        cautions(study, found.rows, found.calibrations, found.columns),
    )


# -------------------------------------------------------------------------------- against baselines
def _versus(study: Study) -> str:
    changes = relative_differences(study)
    if study.marginal is not None:
        text = _against_marginal(changes.pop(study.marginal))
    else:
        mean = float(study.assessment.values("integrated_brier_score").iloc[0].mean())
        text = f"The model's error on people it was not trained on is {mean:.4f} (Brier score)."
    better, level, worse = [], [], []
    for name, change in changes.items():
        if not change.is_clear(1):
            level.append(name)
        elif change.estimate < 0:
            better.append(f"{name} ({_with_limits(change.scaled(-1))})")
        else:
            worse.append(f"{name} ({_with_limits(change)})")
    for names, verdict in (
        (better, "It is smaller than that of {}."),
        (worse, "It is larger than that of {}."),
        (level, "It does not differ clearly from that of {}."),
    ):
        if names:
            text += " " + verdict.format(_listed(names))
    return text.strip()


def _against_marginal(change: Interval) -> str:
    if change.high < 0:
        return (
            f"On people it was not trained on, the model's error is {_share(-change.estimate)} "
            "smaller than that of one curve for all people (integrated Brier score; 95% limits "
            f"{_shares(change.scaled(-1))})."
        )
    verdict = "larger than" if change.low > 0 else "not certain to be smaller than"
    return (
        f"On people it was not trained on, the model's error is {verdict} that of one curve for "
        f"all people (integrated Brier score; 95% limits of the change {limits(change)})."
    )


def _with_limits(change: Interval) -> str:
    return f"{_share(change.estimate)}, limits {_shares(change)}"


def _shares(change: Interval) -> str:
    return f"{_share(change.low)} to {_share(change.high)}"


def _share(value: float) -> str:
    """A positive share, with a decimal where whole percents would round it to nearly nothing."""
    return f"{value:.0%}" if value >= 0.05 else f"{value:.1%}"


# ------------------------------------------------------------------------------------- calibration
def _calibrated(study: Study, calibrations: Sequence[Sequence[Calibration]]) -> str:
    off = [
        code
        for code in range(1, len(study.states))
        if miscalibration(study, calibrations, code) is not None
    ]
    agree = [code for code in range(1, len(study.states)) if code not in off]
    text = ""
    if off:
        names = _listed([f"“{study.states[code]}”" for code in off])
        text = (
            f"Its probabilities of {names} are off for some people by more than chance explains; "
            "see below. "
        )
    if agree:
        text += _agreeing(study, calibrations, agree)
    return text.strip()


def _agreeing(
    study: Study, calibrations: Sequence[Sequence[Calibration]], codes: Sequence[int]
) -> str:
    """How far groups are off by cause: a rare cause has small errors, however wrong it is."""
    at_middle = {
        code: next(one for one in calibrations[code - 1] if one.horizon == study.middle)
        for code in codes
    }
    furthest = sorted(codes, key=lambda code: -_beyond_chance(at_middle[code]))
    parts = [
        f"{100 * at_middle[code].error:.1f} for “{study.states[code]}” "
        f"(by chance alone about {100 * at_middle[code].chance:.1f})"
        for code in furthest[:_NAMED]
    ]
    rest = ", and less beyond chance for the others" if len(codes) > _NAMED else ""
    whose = "its probabilities" if len(codes) == len(calibrations) else "its other probabilities"
    return (
        f"In these people, {whose} agree with what was observed: by {study.when(study.middle)}, "
        f"groups are off by these percentage points on average: {_listed(parts)}{rest}."
    )


def _beyond_chance(groups: Calibration) -> float:
    return groups.error / max(groups.chance, 1e-9)


# --------------------------------------------------------------------------------------- importance
def _rests_on(study: Study, explained: Importance) -> str:
    parts = []
    short = distinct_names(explained.names, _LONGEST)
    for code, name in enumerate(study.states[1 : 1 + _NAMED_CAUSES], start=1):
        strength = explained.values[code - 1].max(axis=1)
        order = [int(i) for i in np.argsort(-strength, kind="stable")[:_NAMED] if strength[i] > 0]
        if not order:
            parts.append(f"of “{name}” rest on no column")
            continue
        columns = [f"{short[i]} ({explained.direction[code - 1][i]})" for i in order]
        parts.append(f"of “{name}” rest most on {_listed(columns)}")
    return f"Its predictions {'; those '.join(parts)}."


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"

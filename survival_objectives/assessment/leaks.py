"""Columns that were probably filled in after the outcome was known.

A feature may well predict the risk of the event. But information from entry should not predict who
will be *censored*. Let H be the Nelson-Aalen estimate of the cumulative hazard of censoring among
all people. In a group that a column defines (a level, a missing value, or the complement of one),
the expected number of censored people is

    a = sum of H(T_i) over the group                                                           (A)

regardless of the risk of the event in it: people with an early event are at risk of censoring for a
short time only, and add little. If c < a people of the group are censored, the probability of so
few is at most

    exp(c - a + c log(a / c))                                                                  (B)

and three findings name a column:

- *no censoring*: (B) is too small, c <= a / 10, and the group has at least twice the events of
  other people for its follow-up (censoring alone may well depend on a column, such as the year of
  entry);
- *early events*: at least 9 in 10 of the group have the event, so early that the hazard ratio is
  significantly above 20;
- *one outcome for each value*, with values of fewer than 10 people pooled;

besides numeric columns that nearly equal the duration. Tests are at a level of 1 % divided by the
number of groups of all columns (Bonferroni). So in a table whose censoring does not depend on the
columns, the probability of any false alarm is about 1 %, as long as no hazard ratio is above 20.
Not detected: a group of events among other events if all follow-up ends at one time, because (A) is
0 before the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import gammaln
from scipy.stats import rankdata

from survival_objectives._arrays import BoolArray, FloatArray, IntArray
from survival_objectives._people import check_features, check_survival_target

__all__ = ["Leak", "leaks"]

_LEVEL = 0.01
_FEW_CENSORED = 0.1
_MORE_EVENTS = 2.0
_NEARLY_ALL = 0.9
_STRONGEST = 20.0
# A numeric value with this share of all rows is a group: 0 or 9999 for "not yet".
_FREQUENT = 0.02
# Groups with fewer people, or fewer events, are not reported.
_FEWEST = 10
# Rank correlations with the duration, and concordances, are reported above these values.
_SAME_ORDER = 0.98
_CONCORDANT = 0.97
# If the correlation is below this in a sample of this size, not all people are ranked.
_N_RANKED = 10_000
_FAR_FROM_SAME = 0.9
# Concordance compares pairs; this many people are enough to detect a nearly perfect one.
_N_COMPARED = 1000


@dataclass(frozen=True)
class Leak:
    """A column that seems to contain the outcome, and the evidence, with numbers."""

    column: str
    finding: str

    def __str__(self) -> str:
        return (
            f"column {self.column!r} seems to contain the outcome: {self.finding}. If it was "
            "filled in after the outcome was known, all scores are too optimistic: leave it out"
        )


def leaks(X: Any, y: Any) -> list[Leak]:
    """Columns that were probably filled in after the outcome was known, one finding each.

    Parameters
    ----------
    X : array or DataFrame of shape (n_samples, n_features)
    y : outcomes
        In any form that models accept.

    Examples
    --------
    >>> days = np.random.default_rng(0).exponential(size=200)
    >>> [leak.column for leak in leaks(pd.DataFrame({"stay": days}), (days < 1, days))]
    ['stay']
    """
    features, target = check_features(X), check_survival_target(y, late_entry=True)
    outcome = _Outcome(target.event.astype(np.int64), target.duration, target.entry)
    names = features.names or tuple(f"column {number}" for number in range(features.n_features))
    columns = {
        name: _Column(features.values[:, number], features.categories.get(number))
        for number, name in enumerate(names)
    }
    groups = {name: dict(_groups(column)) for name, column in columns.items()}
    n_tests = 2 * sum(len(found) for found in groups.values()) + len(groups)
    evidence = -float(np.log(_LEVEL / n_tests))
    found = []
    for name, column in columns.items():
        finding = (
            _one_outcome_for_each_value(groups[name], outcome, evidence)
            or _copy_of_duration(column, outcome)
            or _unlikely_group(groups[name], outcome, evidence)
        )
        if finding:
            found.append(Leak(str(name), finding))
    return found


class _Outcome:
    """Outcomes, with expected numbers of events and censorings for each person's follow-up."""

    def __init__(
        self, event: IntArray, duration: FloatArray, entry: FloatArray | None = None
    ) -> None:
        self.event, self.duration = event, duration
        self.has_event = event > 0
        times, position = np.unique(duration, return_inverse=True)
        n_events = np.bincount(position, weights=self.has_event, minlength=len(times))
        n_censored = np.bincount(position, weights=~self.has_event, minlength=len(times))
        n_left = (n_events + n_censored)[::-1].cumsum()[::-1]
        start = np.zeros(len(duration), np.int64)
        if entry is not None:
            # People are at risk after their entry only: those who enter at t or later are not yet.
            start = np.searchsorted(times, entry, side="right") * (entry > 0)
            n_left -= len(entry) - np.bincount(start, minlength=len(times) + 1).cumsum()[:-1]
        # Censoring at a time comes after the events of that time.
        censoring = np.append(0.0, np.cumsum(n_censored / np.maximum(n_left - n_events, 1)))
        events = np.append(0.0, np.cumsum(n_events / n_left))
        until = np.where(self.has_event, censoring[position], censoring[position + 1])
        self.expected_events = events[position + 1] - events[start]
        self.expected_censored = until - censoring[start]


@dataclass(frozen=True)
class _Column:
    values: npt.NDArray[np.float32]  # NaN where missing.
    levels: pd.Index | None  # Of a category, whose values are codes.


def _groups(column: _Column) -> Iterator[tuple[str, BoolArray]]:
    """Groups of people with the same frequent value, each with its description."""
    values = column.values
    missing = np.isnan(values)
    if missing.any():
        yield "a missing value", missing
    known, counts = np.unique(values[~missing], return_counts=True)
    fewest = _FEWEST if column.levels is not None else max(_FEWEST, _FREQUENT * len(values))
    for value in known[counts >= fewest]:
        level = None if column.levels is None else repr(str(column.levels[int(value)]))
        yield level or f"the value {value:g}", values == value


# -------------------------------------------------------------------------------------- findings
def _unlikely_group(groups: dict[str, BoolArray], outcome: _Outcome, evidence: float) -> str:
    """The finding for the group with the most events, among conspicuous groups."""
    most, finding = 0, ""
    for label, inside in groups.items():
        for name, people in ((f"with {label}", inside), (f"without {label}", ~inside)):
            n_events = int(outcome.has_event[people].sum())
            if n_events <= max(most, _FEWEST):
                continue
            said = _without_censoring(people, outcome, evidence) or _early_events(
                people, outcome, evidence
            )
            if said:
                most = n_events
                finding = f"of {people.sum()} people {name}, {n_events} had an event{said}"
    return finding


def _without_censoring(people: BoolArray, outcome: _Outcome, evidence: float) -> str:
    n_censored = int((~outcome.has_event[people]).sum())
    expected = float(outcome.expected_censored[people].sum())
    if n_censored > _FEW_CENSORED * expected:
        return ""
    spread = n_censored * np.log(expected / n_censored) if n_censored else 0.0
    if expected - n_censored - spread < evidence:
        return ""
    others = ~people
    rate = outcome.has_event[people].sum() / outcome.expected_events[people].sum()
    other_events, other_expected = (
        outcome.has_event[others].sum(),
        outcome.expected_events[others].sum(),
    )
    if rate * other_expected < _MORE_EVENTS * other_events:
        return ""
    return f" and {n_censored} were censored, where {expected:.0f} censored were expected"


def _early_events(people: BoolArray, outcome: _Outcome, evidence: float) -> str:
    """The finding if events of the group come too early to be explained by a higher risk."""
    n_events = int(outcome.has_event[people].sum())
    n_others = int(outcome.has_event[~people].sum())
    if n_events < _NEARLY_ALL * people.sum() or n_others < _FEWEST:
        return ""
    ahead = _n_outlived(outcome, people, ~people)
    behind = _n_outlived(outcome, ~people, people)
    # Under proportional hazards the ratio of such pairs is the hazard ratio.
    error = np.sqrt(1 / n_events + 1 / n_others)
    if np.log((ahead + 0.5) / (behind + 0.5)) - np.sqrt(2 * evidence) * error < np.log(_STRONGEST):
        return ""
    return f", in {ahead / (ahead + behind):.2%} of comparable pairs before people of other values"


def _n_outlived(outcome: _Outcome, group: BoolArray, others: BoolArray) -> float:
    """Number of pairs in which the member of the group has the event first; ties count half."""
    durations = np.sort(outcome.duration[others])
    other_events = np.sort(outcome.duration[others & outcome.has_event])
    events = outcome.duration[group & outcome.has_event]
    later = len(durations) - np.searchsorted(durations, events, side="right")
    tied = np.searchsorted(other_events, events, side="right") - np.searchsorted(
        other_events, events, side="left"
    )
    return float(later.sum() + tied.sum() / 2)


def _one_outcome_for_each_value(
    groups: dict[str, BoolArray], outcome: _Outcome, evidence: float
) -> str:
    """The finding if all people with a value have one outcome, with rare values pooled."""
    position = np.zeros(len(outcome.event), dtype=np.int64)
    for number, people in enumerate(groups.values(), start=1):
        position[people] = number
    shape = (len(groups) + 1, int(outcome.event.max()) + 1)
    counts = np.bincount(position * shape[1] + outcome.event, minlength=shape[0] * shape[1])
    counts = counts.reshape(shape)
    counts, kinds = counts[counts.any(axis=1)], counts.sum(axis=0)
    kinds = kinds[kinds > 0]
    if len(kinds) < 2 or ((counts > 0).sum(axis=1) > 1).any():
        return ""
    # Chance level: ways to assign an outcome to each value, among all orders of the outcomes.
    n_orders = gammaln(len(position) + 1) - gammaln(kinds + 1).sum()
    if n_orders - len(counts) * np.log(len(kinds)) < evidence:
        return ""
    label, people = max(groups.items(), key=lambda group: group[1].sum())
    code = int(outcome.event[people][0])
    shown = ("censored", "with an event")[code > 0]
    return (
        f"each of its values has a single outcome, in {len(position)} people without exception "
        f"(all {people.sum()} with {label} are {shown})"
    )


def _copy_of_duration(column: _Column, outcome: _Outcome) -> str:
    if column.levels is not None:
        return ""
    values = column.values.astype(np.float64)
    is_known = np.isfinite(values)
    for people, who in ((is_known, "people"), (is_known & outcome.has_event, "people with event")):
        if people.sum() >= _FEWEST:
            correlation = abs(_rank_correlation(values[people], outcome.duration[people]))
            if correlation > _SAME_ORDER:
                return (
                    f"it orders {people.sum()} {who} as the duration does (rank correlation "
                    f"{correlation:.3f})"
                )
    concordance = _concordance(values, outcome)
    concordance = max(concordance, 1 - concordance)
    if concordance < _CONCORDANT:
        return ""
    return f"it alone predicts who has the event first in {concordance:.1%} of pairs of people"


def _rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's correlation; of a sample if that is far from the threshold."""
    if len(first) > _N_RANKED:
        rows = np.random.default_rng(0).choice(len(first), _N_RANKED, replace=False)
        some = _rank_correlation(first[rows], second[rows])
        if abs(some) < _FAR_FROM_SAME:
            return some
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def _concordance(values: FloatArray, outcome: _Outcome) -> float:
    """Share of pairs in which the earlier event has the larger value; ties count half."""
    people = np.flatnonzero(np.isfinite(values))
    if len(people) > _N_COMPARED:
        people = np.random.default_rng(0).choice(people, _N_COMPARED, replace=False)
    cases = people[outcome.has_event[people]]
    first, second = outcome.duration[cases, None], outcome.duration[people]
    later, tied = second > first, (second == first) & outcome.has_event[people]
    n_pairs = np.count_nonzero(later) + np.count_nonzero(tied)
    if len(cases) < _FEWEST or not later.any():
        return 0.5
    difference = values[cases, None] - values[people]
    n_larger = np.count_nonzero(later & (difference > 0))
    n_halves = np.count_nonzero(later & (difference == 0)) + np.count_nonzero(tied)
    return (n_larger + n_halves / 2) / n_pairs

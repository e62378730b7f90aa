"""Knots of time, and the observed events and people at risk between them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._people import SurvivalTarget
from survival_objectives._people.time_axis import TimeAxis, rounded_down, rounded_up

# Pseudo-counts of events, and of people at risk, in intervals without events.
_FEW_EVENTS, _FEW_PEOPLE = 0.1, 10.0
# No interval is longer than this part of the time between the first and the last event.
_LONGEST_INTERVAL = 1 / 16
# Curves are flat where there is no event for more than this part of it.
_GAP = 1 / 2
# A time shared by this many events, and by half of the share of an interval, is a mass of events.
_FEWEST_IN_MASS = 5


@dataclass(frozen=True)
class MarginalHazard:
    """Observed events and people at risk between knots.

    Attributes
    ----------
    events : float64 array of shape (K, M)
        O_kj, their total weight.
    at_risk : float64 array of shape (M,)
        X_j.
    """

    events: FloatArray
    at_risk: FloatArray

    @property
    def n_with_events(self) -> int:
        """Number of intervals up to the last one with an event."""
        return int(np.flatnonzero(self.events.any(axis=0))[-1]) + 1

    @property
    def hazard(self) -> FloatArray:
        """O_kj / X_j; in intervals without events a small hazard, in the proportions of the causes.

        Other people may have events there.
        """
        hazard = np.divide(
            self.events,
            self.at_risk,
            out=np.zeros_like(self.events),
            where=(self.at_risk > 0) & (self.events > 0),
        )
        empty = ~self.events.any(axis=0)
        share = self.events.sum(axis=1) / self.events.sum()
        hazard[:, empty] = share[:, None] * _FEW_EVENTS / (self.at_risk[empty] + _FEW_PEOPLE)
        return hazard


@dataclass(frozen=True)
class LateEntry:
    """What determines the knots besides the events, where people come under observation late.

    Attributes
    ----------
    first : float
        Number of the unit of the first entry, rounded down: the first knot.
    weight : float64 array of shape (n_events,)
        What each event counts. Where few people have entered, an event stands for many that were
        not seen, and hazard and risk set change fast: half of it is the event's share of the
        marginal curve.
    """

    first: float
    weight: FloatArray

    @classmethod
    def of(
        cls, axis: TimeAxis, target: SurvivalTarget, event_times: FloatArray
    ) -> LateEntry | None:
        """Of outcomes and the sorted times of events; None where no one enters late."""
        if target.entry is None:
            return None
        entered = np.searchsorted(np.sort(target.entry), event_times)
        left = np.searchsorted(np.sort(target.duration), event_times)
        hazard = 1 / np.maximum(entered - left, _FEW_PEOPLE)
        share = np.exp(-(np.cumsum(hazard) - hazard)) * hazard
        first = float(axis.number(rounded_down(target.entry.min())))
        return cls(first, 1 / len(event_times) + share / share.sum())


def time_knots(
    axis: TimeAxis,
    event_times: FloatArray,
    t_max: float,
    n_intervals: int,
    late: LateEntry | None = None,
) -> FloatArray:
    """Knots of curves, in numbers of units (in continuous time, in time).

    Parameters
    ----------
    axis : TimeAxis
    event_times : array
        Sorted times of all events up to ``t_max``.
    t_max : float
        End of the curves: the last knot.
    n_intervals : int
        Number of intervals with about equally many events.
    late : LateEntry, optional
        Where people come under observation, if some do late.
    """
    numbers = axis.number(event_times)
    first, last = numbers[0], numbers[-1]
    masses = _masses(numbers, n_intervals)
    is_spread = ~np.isin(numbers, masses)
    wanted = spread = numbers[is_spread]
    if len(spread):
        shares = np.linspace(0, 1, n_intervals + 1)
        if late is None:
            wanted = np.quantile(spread, shares, method="inverted_cdf")
        else:
            reached = np.cumsum(late.weight[is_spread])
            wanted = spread[np.searchsorted(reached[:-1], shares[1:] * reached[-1])]
    # Linear curves would be inaccurate in long intervals, as at the end of follow-up.
    longest = (last - first) * _LONGEST_INTERVAL
    begins, ends = _gaps(numbers)
    around = np.concatenate([wanted, masses, begins, ends])
    wanted = np.concatenate([wanted, begins, ends, _long_intervals(around, longest, begins)])
    end = float(axis.number(t_max))
    if axis.unit:
        # Incidences are 0 before the unit of the first event. Few units are all knots.
        begin, inner = first - 1, np.ceil(rounded_up(wanted, last - first))
        before = np.append(masses, ends) - 1
        if last - first < 2 * n_intervals:
            inner = np.arange(first, last + 1)
    else:
        # Times counted from a distant origin, such as birth, differ in later digits.
        span = float(last - first)
        begin = float(rounded_down(first - 1e-4 * min(first, span), span))
        inner = rounded_up(wanted, span)
        # The end of a gap is the time of one person, so it is rounded as other knots are.
        below = rounded_down(ends * (1 - 1e-3), span)
        before = np.append(_just_before(masses), below)
    if first == 0 and not axis.unit:
        # Events at time 0 have an interval of their own, which begins before it.
        begin, masses = -1.0, np.append(masses, 0.0)
    if late is not None:
        begin = min(begin, late.first)
    inner = np.concatenate([inner, masses, before])
    inner = inner[(inner > begin) & (inner < end)]
    return np.unique(np.concatenate([[begin], inner, [end]]))


def _masses(numbers: FloatArray, n_intervals: int) -> FloatArray:
    """Times with a noticeable share of the events.

    Between knots a curve is linear, so that events at a single time would be spread back over their
    interval. That is accurate to the share of an ordinary interval, 1 / ``n_intervals``.

    >>> _masses(np.append(np.arange(100.0), np.full(20, 50.0)), 32)
    array([50.])
    """
    times, count = np.unique(numbers, return_counts=True)
    fewest = max(_FEWEST_IN_MASS, len(numbers) / (2 * n_intervals))
    masses: FloatArray = times[count >= fewest]
    return masses


def _just_before(times: FloatArray) -> FloatArray:
    """The float32 numbers before times, which are float32 numbers too."""
    before: FloatArray = np.nextafter(times.astype(np.float32), np.float32(-np.inf)).astype(
        np.float64
    )
    return before


def _gaps(numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Last events before long times without events, and first events after them.

    >>> _gaps(np.array([1.0, 2.0, 3.0, 4.0, 30.0]))
    (array([4.]), array([30.]))
    """
    times = np.unique(numbers)
    is_gap = np.diff(times) > _GAP * (times[-1] - times[0])
    return times[:-1][is_gap], times[1:][is_gap]


def _long_intervals(knots: FloatArray, longest: float, gaps: FloatArray) -> FloatArray:
    """Times that divide intervals longer than ``longest`` into equal parts.

    Intervals that begin at ``gaps`` are not divided.

    >>> _long_intervals(np.array([0.0, 1.0, 4.0, 9.0]), 1.5, np.array([4.0]))
    array([2.5])
    """
    parts = [
        np.linspace(left, right, int(np.ceil((right - left) / longest)) + 1)[1:-1]
        for left, right in itertools.pairwise(np.unique(knots))
        if right - left > longest and left not in gaps
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def exposures(axis: TimeAxis, knots: FloatArray, target: SurvivalTarget) -> FloatArray:
    """Share of each interval in which each person is at risk, (n_samples, M).

    A person who enters or is censored inside an interval counts in part, a person with an event in
    it fully, as in (92).

    >>> target = SurvivalTarget(np.array([0, 1], np.int32), np.array([1.5, 1.5]), np.arange(2))
    >>> exposures(TimeAxis(0.0), np.array([0.0, 1.0, 2.0, 3.0]), target)
    array([[1. , 0.5, 0. ],
           [1. , 1. , 0. ]])
    """
    left = axis.number(target.duration)[:, None]
    share = np.clip((left - knots[:-1]) / np.diff(knots), 0.0, 1.0)
    happened = target.event[:, None] > 0
    at_risk = np.where(happened & (share > 0), 1.0, share)
    entry = axis.entry_number(target)
    if entry is not None:
        passed = np.clip((entry[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
        with_event = happened & (share > 0) & (np.append(share[:, 1:], 0.0 * share[:, :1], 1) == 0)
        at_risk = np.where(with_event, 1.0, np.maximum(at_risk - passed, 0.0))
    return at_risk


def marginal_hazard(
    axis: TimeAxis, knots: FloatArray, target: SurvivalTarget, weight: FloatArray | None
) -> MarginalHazard:
    """Observed events and people at risk in every interval between knots."""
    n_intervals = len(knots) - 1
    weights = np.ones(target.n_samples) if weight is None else weight
    at_risk = np.zeros(n_intervals)
    for first in range(0, target.n_samples, 2**16):
        rows = slice(first, first + 2**16)
        at_risk += weights[rows] @ exposures(axis, knots, target.take(rows))
    interval = np.searchsorted(knots, axis.number(target.duration)) - 1
    # The first interval is closed: an event at the first knot belongs to it.
    interval = np.maximum(interval, 0)
    counted = (target.event > 0) & (interval < n_intervals)
    cell = (target.event[counted] - 1) * n_intervals + interval[counted]
    events = np.bincount(
        cell, weights=weights[counted], minlength=target.n_causes * n_intervals
    ).reshape(target.n_causes, n_intervals)
    return MarginalHazard(events.astype(np.float64), at_risk)

"""What is decided about a model from the outcomes, before it is trained: its frame and its knots.

Times that a model keeps are rounded, so that they reveal no single person's time.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import Features, SurvivalTarget
from survival_objectives._people.labels import EVENT_FREE
from survival_objectives._people.population import (
    MAX_TIMES,
    Population,
    TimeAxis,
    event_unit,
    rounded_down,
    rounded_up,
)
from survival_objectives.marginal import StepFunction, kaplan_meier_censoring
from survival_objectives.stacking import check_causes_seen

if TYPE_CHECKING:
    from survival_objectives._models.recalibration import Recalibration

# Pseudo-counts of events, and of people at risk, in intervals without events.
_FEW_EVENTS, _FEW_PEOPLE = 0.1, 10.0
# No interval is longer than this part of the time between the first and the last event.
_LONGEST_INTERVAL = 1 / 16
# Curves are flat where there is no event for more than this part of it.
_GAP = 1 / 2
# A time shared by this many events, and by half of the share of an interval, is a mass of events.
_FEWEST_IN_MASS = 5


_N_TIMES = 101


@dataclass(frozen=True)
class ModelFrame:
    """Columns, labels, time axis and parameters, which are known before training.

    Attributes
    ----------
    engine : str
        Name of the engine.
    schema : Features
        Columns, without people.
    event_ids : int64 array of shape (K + 1,)
        Labels of the states; 0 is event-free.
    axis : TimeAxis
    t_max : float
        End of the curves.
    last_time : float
        End of the default grid of prediction times.
    median_duration : float or None
        Rounded to two digits; None in a model that was saved without it.
    censoring_curve : StepFunction
        Kaplan-Meier curve of censoring on a coarse grid.
    n_jobs : int, or None
        Threads of predictions; None to choose by the size of the data.
    event_names : tuple of str, or None
        Names of the states, if training had names.
    parameters : dict, or None
        What was passed to the constructor of the estimator, for its copy after loading; None in a
        model that an engine's own training call made. Models never read it.
    outcome_columns : tuple of str
        Columns of the training frame that held outcomes; predictions ignore them.
    recalibration : Recalibration, or None
        What `survival_objectives.recalibrate` found on other people.
    """

    engine: str
    schema: Features
    event_ids: IntArray
    axis: TimeAxis
    t_max: float
    last_time: float
    median_duration: float | None
    censoring_curve: StepFunction
    n_jobs: int | None = None
    event_names: tuple[str, ...] | None = None
    parameters: dict[str, Any] | None = None
    outcome_columns: tuple[str, ...] = ()
    recalibration: Recalibration | None = None

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states: those of training, else "event-free", "cause 1" etc."""
        if self.event_names is not None:
            return self.event_names
        return (EVENT_FREE, *(f"cause {label}" for label in self.event_ids[1:]))

    @property
    def n_causes(self) -> int:
        """Number of causes, K."""
        return len(self.event_ids) - 1

    @property
    def times(self) -> FloatArray:
        """An even grid of times: quantiles of the durations would reveal outcomes of people."""
        return np.linspace(0, self.last_time, _N_TIMES)


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

    def uncalibrated(
        self, axis: TimeAxis, knots: FloatArray, trained_until: float
    ) -> tuple[FloatArray, IntArray, FloatArray, float]:
        """Hazard, block, factor and end of `KnotCurves` whose factors are all 1.

        Blocks are single intervals.
        """
        last = min(float(axis.number(trained_until)), float(knots[self.n_with_events]))
        n_trained = int((knots[1:] <= last).sum())
        hazard = self.hazard
        block = np.minimum(np.arange(len(knots) - 1), max(n_trained - 1, 0))
        return hazard, np.tile(block, (len(hazard), 1)), np.ones_like(hazard), last


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
        # Hazards before the first event are not those after it.
        inner, begin = np.append(inner, begin), min(begin, late.first)
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


#: Quantile of the durations at which the default prediction times end.
BULK_QUANTILE = 0.99

# Steps of the marginal censoring curve that is stored with the model, which must not reveal when
# single people were censored: evenly spaced, and geometric for times concentrated near 0.
_EVEN_STEPS, _DOUBLING_STEPS = 64, 96


def planned_frame(
    population: Population,
    engine: str,
    schema: Features,
    *,
    horizon_max: float | None,
    n_jobs: int | None,
    previous: ModelFrame | None = None,
    beyond: float = 0.0,
) -> ModelFrame:
    """The frame of a model before it is trained.

    Times are rounded so that they do not reveal the outcome of a single person.

    Parameters
    ----------
    population : Population
        Outcomes of all people, in the user's time.
    engine : str
    schema : Features
        Columns, without people.
    horizon_max, n_jobs
        As in `survival_objectives.HazardBoost`.
    previous : ModelFrame, optional
        Frame of the model that a warm start continues, which is kept.
    beyond : float, default=0.0
        Share of the follow-up by which curves extend beyond it, unless follow-up ends at the same
        time for many people.
    """
    if previous is not None:
        check_same_time_unit(population, previous.median_duration)
        return replace(previous, n_jobs=n_jobs)
    t_max = _latest_horizon(population.target, horizon_max)
    if horizon_max is None:
        t_max = rounded_horizon(t_max, population, beyond=beyond)
    # Very few people are followed for longer than this.
    last = float(rounded_up(population.quantile(BULK_QUANTILE)))
    is_given = horizon_max is not None or last == 0
    return ModelFrame(
        engine=engine,
        schema=schema,
        event_ids=population.target.event_ids,
        axis=TimeAxis(event_unit(population.target, population.count)),
        t_max=t_max,
        last_time=t_max if is_given else min(last, t_max),
        median_duration=two_digits(population.quantile(0.5)),
        censoring_curve=coarse_censoring_curve(population.target, population.weight, t_max),
        n_jobs=n_jobs,
    )


def _latest_horizon(target: SurvivalTarget, horizon_max: float | None) -> float:
    if horizon_max is not None:
        check_causes_seen(target, float(horizon_max))
        return float(horizon_max)
    t_max = float(target.duration.max())
    if t_max == 0:
        msg = "All durations are 0, so there is no horizon to predict at."
        raise ValueError(msg)
    return t_max


def coarse_censoring_curve(
    target: SurvivalTarget, sample_weight: FloatArray | None, t_max: float
) -> StepFunction:
    """Kaplan-Meier of censoring on a fixed time grid, which reveals no individual time."""
    curve = kaplan_meier_censoring(target, sample_weight)
    even = np.linspace(0, t_max, _EVEN_STEPS + 1)
    times = np.union1d(even, np.geomspace(t_max * 2.0**-14, t_max, _DOUBLING_STEPS))
    return StepFunction(times, curve(times), np.array(1.0))


# A time shared by this many people identifies none of them.
_SHARED_BY = 5
# Weeks and months, the closest pair of common units, differ by 4.3.
_UNIT_FACTOR = 4.0


def two_digits(time: float) -> float:
    """The time rounded to two significant digits.

    >>> two_digits(1234.5), two_digits(0.0129), two_digits(0.0)
    (1200.0, 0.013, 0.0)
    """
    return float(f"{time:.1e}")


def rounded_horizon(t_max: float, population: Population, *, beyond: float = 0.0) -> float:
    """A latest horizon at or after ``t_max`` that is not the exact time of a single person.

    A time shared by five or more people is kept, such as the end of a study. Other times are
    increased by the share ``beyond`` and rounded up to two significant digits or, if ``beyond`` is
    0 and that would be after the end of follow-up, to three.
    """
    duration, count = population.target.duration, population.count
    n_sharing = duration == t_max if count is None else count[duration == t_max]
    n_needed = float(_SHARED_BY)
    n_times = len(np.unique(duration))
    if n_times > MAX_TIMES // 2:
        # Times counted on a grid are shared by more people than the true times.
        n_needed = max(n_needed, 4 * population.n_samples / n_times)
    if n_sharing.sum() >= n_needed:
        return t_max
    rounded = _rounded_up((1 + beyond) * t_max, 2)
    return rounded if beyond or rounded <= duration.max() else _rounded_up(t_max, 3)


def _rounded_up(time: float, n_digits: int) -> float:
    mantissa, exponent = f"{time:.17e}".split("e")
    scale = 10 ** (n_digits - 1)
    # Through a decimal string, so that the result is the float closest to the decimal number.
    return float(f"{int(np.ceil(float(mantissa) * scale - 1e-9))}e{int(exponent) - n_digits + 1}")


def check_same_time_unit(population: Population, median: float | None) -> None:
    """Refuse to continue a model on durations that seem to be in another time unit.

    ``median`` is the median duration of the first training, to two digits. A median more than 4
    times as long, or less than a quarter, is refused: that is less than the ratio of months to
    weeks, and more than the variation between samples of similar people.
    """
    new = population.quantile(0.5)
    if not median or not new or 1 / _UNIT_FACTOR <= new / median <= _UNIT_FACTOR:
        return
    factor = max(new / median, median / new)
    msg = (
        f"The median duration is {new:.3g}, but was about {median:g} in the first training of the "
        f"model to continue, {factor:.3g} times {'less' if new > median else 'more'}, as if time "
        "were in another unit. Use the same unit, or set `warm_start=False`."
    )
    raise ValueError(msg)

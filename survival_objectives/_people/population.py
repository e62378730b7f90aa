r"""The time axis of a training, and the outcomes of the whole population on it.

**Units.** If events are recorded in whole units (days, months, annual visits), a state holds
throughout its unit. Let d be the number of the unit. An event in unit d is placed at its beginning,
horizons fall into its first three quarters, and a censoring in unit d is placed after them:

    event    d,        horizon    d + 3/4 U(0, 1),        censoring    d + 3/4.               (16)

No two of them are then equal, and all rules for ties follow: a person censored in unit d is known
to be event-free in it, P(C >= d) weights both the events and the horizons of unit d, and people
censored in a common last unit are event-free at its horizons. In continuous time a censoring comes
just after an event at the same time.

**Knots.** Curves are given by their values at a few knots, and are linear in between. Knots are
quantiles of the event times, so that they are dense where events are frequent. They are rounded to
three digits, because a fitted model must not contain the outcomes of single people.

A time with a noticeable share of the events (half of that of an interval, and five events at least)
is a mass: a knot just before it gives it an interval of its own, one unit long, or in continuous
time from the float32 number before it. So have events at time 0, whatever their number. Where there
is no event for half of the time between the first and the last event, the interval is not
divided, and ends just before the next event.

**Population.** If one process has all people, their outcomes are the population. If it has some, it
gets counts of the others through a `Reduction`: sums over all parts, and a `Population` of outcome
counts on a grid of times. The grid has every observed duration, if there are few; otherwise it has
`MAX_TIMES` steps with equally many people each, and a duration is rounded up to the end of its
step. Shares of people that are computed from it (quantiles, a Kaplan-Meier curve) are then off by
at most 1 / MAX_TIMES.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._people import SurvivalTarget

#: Rounding error of a whole number of units.
UNIT_ROUNDING = 2e-3
#: Share of a unit that horizons fall into; censoring is placed at its end.
HORIZON_SHARE = 0.75
#: Position within a unit at which predictions for the unit are made.
ANSWER_SHARE = HORIZON_SHARE / 2

# Times with more units than this are treated as continuous.
_MOST_UNITS = 4096
_UNIT_TOLERANCE = 1e-3
# A unit of the events alone needs evidence: at least this many events, at most half as many times.
_MIN_EVENTS_FOR_UNIT = 20
_DIGITS = 3


@dataclass(frozen=True)
class TimeAxis:
    """Time units with the conventions (16).

    Attributes
    ----------
    unit : float
        Length of a unit in the user's time; 0 where time is continuous.
    """

    unit: float

    def number(self, times: npt.ArrayLike) -> FloatArray:
        """Number of the unit that contains each time; in continuous time the time itself.

        >>> TimeAxis(7.0).number([0.0, 6.9, 7.0, 15.0])
        array([0., 0., 1., 2.])
        """
        times = np.asarray(times, dtype=np.float64)
        if not self.unit:
            return times
        numbers: FloatArray = np.floor(times / self.unit + UNIT_ROUNDING)
        return numbers

    def units(self, last: float) -> FloatArray:
        """Start times of all units up to the one that contains ``last``."""
        return np.arange(float(self.number(last)) + 1) * self.unit

    def prediction_time(self, times: npt.ArrayLike) -> FloatArray:
        """The time at which the model is evaluated to predict for each time.

        >>> TimeAxis(1.0).prediction_time([0.0, 2.0])
        array([0.375, 2.375])
        """
        times = np.asarray(times, dtype=np.float64)
        if not self.unit:
            return times
        answers: FloatArray = (self.number(times) + ANSWER_SHARE) * self.unit
        return answers

    def within_units(
        self, horizon: FloatArray, last: float, generator: np.random.Generator
    ) -> FloatArray:
        """Horizons drawn uniformly in the first part of their units, in none later than ``last``.

        Equation (16).
        """
        number = np.minimum(self.number(horizon), self.number(last))
        inside: FloatArray = (number + HORIZON_SHARE * generator.random(horizon.shape)) * self.unit
        return inside

    def entry_number(self, target: SurvivalTarget) -> FloatArray | None:
        """Number of the unit after which each person is at risk; None where there is no entry.

        Entry at 0 is before all units, as people are then at risk at time 0 too. Someone with an
        event was at risk in its unit.

        >>> target = SurvivalTarget(
        ...     np.array([1, 0], np.int32), np.array([2.0, 2.0]), np.arange(2), np.array([1.5, 0.0])
        ... )
        >>> TimeAxis(1.0).entry_number(target)
        array([  1., -inf])
        """
        if target.entry is None:
            return None
        number = self.number(target.entry)
        if self.unit:
            last = self.number(target.duration) - 1
            number = np.where(target.event > 0, np.minimum(number, last), number)
        return np.where(target.entry > 0, number, -np.inf)

    def aligned(self, target: SurvivalTarget) -> SurvivalTarget:
        """Outcomes with durations placed as in (16), rounded to float32 values.

        In continuous time a censoring moves to the next float32 number, so that an event at the
        same time comes before it.

        >>> target = SurvivalTarget(np.array([1, 0], np.int32), np.array([2.0, 2.0]), np.arange(2))
        >>> TimeAxis(1.0).aligned(target).duration
        array([2.  , 2.75])
        """
        happened = target.event > 0
        if self.unit:
            place = np.where(happened, 0.0, HORIZON_SHARE)
            rounded = ((self.number(target.duration) + place) * self.unit).astype(np.float32)
        else:
            rounded = target.duration.astype(np.float32)
            # A row of a long table ends where the next one begins.
            stays = happened | ~target.is_last
            rounded = np.where(stays, rounded, np.nextafter(rounded, np.float32(np.inf)))
        return replace(target, duration=rounded.astype(np.float64))


def time_unit(times: FloatArray, t_max: float) -> float:
    """The unit that all times are whole multiples of, such as a day; 0 if there is none.

    A unit of which ``t_max`` has thousands is treated as none.
    """
    distinct = np.unique(np.append(times, 0.0))
    unit = float(np.diff(distinct).min()) if len(distinct) > 1 else 0.0
    if unit <= 0 or t_max / unit > _MOST_UNITS:
        return 0.0
    # Times are float32: the longest gives the unit more precisely than the smallest difference.
    unit = float(distinct[-1] / np.rint(distinct[-1] / unit))
    multiples = distinct / unit
    is_whole = np.abs(multiples - np.rint(multiples)).max() < _UNIT_TOLERANCE
    return unit if is_whole else 0.0


def event_unit(target: SurvivalTarget, count: FloatArray | None = None) -> float:
    """The unit in which events are recorded; 0 in continuous time.

    If many events share few times, the unit of the events alone: annual visits record events in
    whole years, while people are lost to follow-up on any day. Otherwise the unit of all durations.

    >>> years = np.repeat([1.0, 2.0, 3.0], 10)
    >>> duration = np.append(years, np.linspace(0.1, 2.9, 17))
    >>> event = np.append(np.ones(30, np.int32), np.zeros(17, np.int32))
    >>> event_unit(SurvivalTarget(event, duration, np.arange(2)))
    1.0
    """
    longest = float(target.duration.max())
    happened = target.event > 0
    n_events = happened.sum() if count is None else count[happened].sum()
    times = target.duration[happened]
    unit = 0.0
    if n_events >= _MIN_EVENTS_FOR_UNIT and 2 * len(np.unique(times)) <= n_events:
        unit = time_unit(times, longest)
    return unit or time_unit(target.duration, longest)


def rounded_down(times: npt.ArrayLike, span: float = np.inf) -> FloatArray:
    """Times rounded down to three significant digits, of each or of ``span`` if smaller."""
    return _rounded(times, np.floor, span)


def rounded_up(times: npt.ArrayLike, span: float = np.inf) -> FloatArray:
    """Times rounded up to three significant digits, of each or of ``span`` if smaller.

    >>> rounded_up([0.0, 12.341, 2029.0])
    array([   0. ,   12.4, 2030. ])
    """
    return _rounded(times, np.ceil, span)


def _rounded(times: npt.ArrayLike, rounding: np.ufunc, span: float) -> FloatArray:
    times = np.asarray(times, dtype=np.float64)
    positive = np.where(times > 0, times, 1.0)
    # Powers below 1, which are inexact in floats, would turn 0.3 into 0.30000000000000004.
    power = _DIGITS - 1 - np.floor(np.log10(np.minimum(positive, span if span > 0 else np.inf)))
    up, down = 10.0 ** np.maximum(power, 0), 10.0 ** np.maximum(-power, 0)
    # float32 noise around a round number must not round it up to the next one.
    scaled = np.round(positive * up / down, 4)
    rounded: FloatArray = np.where(times > 0, rounding(scaled) / up * down, 0.0)
    return rounded


def time_feature(times: FloatArray, *, left: bool = False) -> Float32Array:
    """Times as the float32 feature that trees split on; with ``left``, the value just before."""
    feature = np.asarray(times, dtype=np.float32)
    return np.nextafter(feature, np.float32(-np.inf)) if left else feature


#: Steps of the grid on which outcomes are counted.
MAX_TIMES = 2**14


@dataclass(frozen=True)
class Population:
    """Outcomes of all people in a training.

    Attributes
    ----------
    target : SurvivalTarget
        One row per person, or one row per distinct outcome (event and time).
    weight : float64 array, or None
        Total sample weight of each row; None where each is one person of weight 1.
    count : float64 array, or None
        Number of people in each row; None where each row is one person.
    """

    target: SurvivalTarget
    weight: FloatArray | None
    count: FloatArray | None = None

    @property
    def n_samples(self) -> int:
        """Number of people."""
        return self.target.n_samples if self.count is None else int(self.count.sum())

    def aligned(self, axis: TimeAxis) -> Population:
        """The same people with durations aligned to the time axis."""
        return replace(self, target=axis.aligned(self.target))

    @property
    def has_censored(self) -> bool:
        """Whether there are censored people."""
        return bool((self.target.event == 0).any())

    @property
    def n_events(self) -> IntArray:
        """Number of people who were censored, and who had each cause."""
        counts = np.bincount(
            self.target.event, weights=self.count, minlength=self.target.n_causes + 1
        )
        return np.rint(counts).astype(np.int64)

    def quantile(self, share: float) -> float:
        """Quantile of the durations, as `numpy.quantile` defines it.

        >>> target = SurvivalTarget(np.array([1, 0], np.int32), np.array([1.0, 3.0]), np.arange(2))
        >>> Population(target, None).quantile(0.5)
        2.0
        >>> Population(target, None, np.array([3.0, 1.0])).quantile(0.5)
        1.0
        """
        duration = self.target.duration
        if self.count is None:
            return float(np.quantile(duration, share))
        order = np.argsort(duration)
        last_place = np.cumsum(self.count[order]) - 1
        place = share * last_place[-1]
        around = np.searchsorted(last_place, [np.floor(place), np.ceil(place)])
        low, high = duration[order[around]]
        return float(low + (high - low) * (place - np.floor(place)))

    def event_times(self, t_max: float) -> FloatArray:
        """Sorted times of observed events up to ``t_max``, one per event.

        Where outcomes are counted, at most `MAX_TIMES` times, spread evenly over the events.
        """
        rows = (self.target.event > 0) & (self.target.duration <= t_max)
        times = self.target.duration[rows]
        if self.count is None:
            return np.sort(times)
        order = np.argsort(times, kind="stable")
        times, seen = times[order], np.cumsum(self.count[rows][order])
        if len(times) == 0:
            return times
        n_events = int(seen[-1])
        n_times = min(n_events, MAX_TIMES)
        middles = (np.arange(n_times) + 0.5) * (n_events / n_times)
        return times[np.searchsorted(seen, middles)]


class Reduction(Protocol):
    """Sums over all parts of the people, where several processes train one model together.

    Every process must make the same calls in the same order.
    """

    @property
    def is_shared(self) -> bool:
        """Whether there are other processes.

        They create the engine's matrices together, so a single process must not let its engine
        predict for its own people.
        """

    def sum(self, values: npt.ArrayLike) -> FloatArray:
        """The sum of each value over all parts."""

    def population(self, target: SurvivalTarget, weight: FloatArray | None) -> Population:
        """Outcomes of the people of all parts."""

    def stream(self, generator: np.random.Generator) -> np.random.Generator:
        """A random stream of this part's own, from one that is the same in all parts."""


class LocalReduction:
    """The `Reduction` of a process that holds all people: sums and streams are its own."""

    is_shared = False

    def sum(self, values: npt.ArrayLike) -> FloatArray:
        return np.asarray(values, dtype=np.float64)

    def population(self, target: SurvivalTarget, weight: FloatArray | None) -> Population:
        return Population(target, weight)

    def stream(self, generator: np.random.Generator) -> np.random.Generator:
        return generator


def merged_times(
    times: FloatArray, count: FloatArray, n_times: int
) -> tuple[FloatArray, FloatArray]:
    """Distinct ``times`` with their counts, merged into at most ``n_times`` steps.

    The first and the last time are kept; a time in between joins the step that ends after it.

    >>> merged_times(np.array([1.0, 2.0, 3.0, 2.0]), np.ones(4), 3)
    (array([1., 2., 3.]), array([1., 2., 1.]))
    >>> merged_times(np.arange(9.0), np.ones(9), 3)
    (array([0., 4., 8.]), array([1., 4., 4.]))
    """
    distinct, position = np.unique(times, return_inverse=True)
    total = _sums(position, count, len(distinct))
    if len(distinct) <= n_times:
        return distinct, total
    reached = np.cumsum(total)
    wanted = np.linspace(reached[0], reached[-1], n_times)
    ends = np.unique(np.minimum(np.searchsorted(reached, wanted), len(distinct) - 1))
    step = np.searchsorted(ends, np.arange(len(distinct)))
    return distinct[ends], _sums(step, total, len(ends))


def _sums(cell: IntArray, values: FloatArray, n_cells: int) -> FloatArray:
    return np.bincount(cell, weights=values, minlength=n_cells).astype(np.float64, copy=False)


def outcome_counts(
    target: SurvivalTarget, weight: FloatArray | None, grid: FloatArray
) -> FloatArray:
    """Numbers of people and total weights by grid step and event, (2, n_times, K + 1)."""
    width = target.n_causes + 1
    cell = np.searchsorted(grid, target.duration) * width + target.event
    size = len(grid) * width
    count = np.bincount(cell, minlength=size).astype(np.float64)
    total = count if weight is None else _sums(cell, weight, size)
    return np.stack([count, total]).reshape(2, len(grid), width)


def population_of_counts(counts: FloatArray, grid: FloatArray, event_ids: IntArray) -> Population:
    """The population with these `outcome_counts`, summed over all parts."""
    step, event = np.nonzero(counts[0])
    target = SurvivalTarget(event.astype(np.int32), grid[step], event_ids)
    return Population(target, counts[1][step, event], counts[0][step, event])


def grid_population(
    target: SurvivalTarget, weight: FloatArray | None, n_times: int = MAX_TIMES
) -> Population:
    """The population of people who are all in this process, counted on a grid of times."""
    grid, _ = merged_times(target.duration, np.ones(target.n_samples), n_times)
    return population_of_counts(outcome_counts(target, weight, grid), grid, target.event_ids)

r"""The time axis of a training: whole units such as days, the order of ties, and knots.

**Units.** Where events are recorded in whole units (days, months, visits once a year), the state of
a unit lasts until the next one begins. Let d be the number of the unit. An event in unit d happens
at its beginning, horizons fall into its first three quarters, and a censoring in unit d happens
when these are over:

    event    d,        horizon    d + 3/4 U(0, 1),        censoring    d + 3/4.               (16)

No two of them are then equal, and all rules for ties follow: somebody who is censored in unit d is
known to be event-free in it, P(C >= d) weighs both the events and the horizons of unit d, and a
common last unit has people who stay. In continuous time a censoring comes just after an event at
the same time.

**Knots.** Curves are described by their values at a few times, between which they are linear. Knots
are quantiles of the event times, so that they are close together where events are frequent. They
are rounded to three digits, as a fitted model must not contain the outcomes of single people.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from survival_objectives.validation import SurvivalTarget

__all__ = ["UNIT_ROUNDING", "TimeAxis", "event_unit", "rounded_up", "time_unit"]

FloatArray = npt.NDArray[np.float64]

#: What may be missing from a whole number of units by rounding.
UNIT_ROUNDING = 2e-3
#: The share of a unit in which horizons fall; a censoring follows them.
HORIZON_SHARE = 0.75
#: The place within a unit at which a model answers for it.
ANSWER_SHARE = HORIZON_SHARE / 2

# Times on a lattice finer than this are as good as continuous.
_MOST_UNITS = 4096
_UNIT_TOLERANCE = 1e-3
# A lattice that only events share needs evidence: so many events, at half as many times at most.
_MIN_EVENTS_FOR_UNIT = 20
_DIGITS = 3


@dataclass(frozen=True)
class TimeAxis:
    """Units of time and their conventions (16).

    Attributes
    ----------
    unit : float
        Length of a unit in the user's time; 0 where time is continuous.
    """

    unit: float

    def number(self, times: npt.ArrayLike) -> FloatArray:
        """Number of the unit of each time; in continuous time the time itself.

        >>> TimeAxis(7.0).number([0.0, 6.9, 7.0, 15.0])
        array([0., 0., 1., 2.])
        """
        times = np.asarray(times, dtype=np.float64)
        if not self.unit:
            return times
        numbers: FloatArray = np.floor(times / self.unit + UNIT_ROUNDING)
        return numbers

    def units(self, last: float) -> FloatArray:
        """Beginnings of all units up to the one of ``last``."""
        return np.arange(float(self.number(last)) + 1) * self.unit

    def answering(self, times: npt.ArrayLike) -> FloatArray:
        """The time at which a model is asked about each time.

        >>> TimeAxis(1.0).answering([0.0, 2.0])
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
        """Horizons drawn evenly within the first part of their units, none later than ``last``."""
        number = np.minimum(self.number(horizon), self.number(last))
        inside: FloatArray = (number + HORIZON_SHARE * generator.random(horizon.shape)) * self.unit
        return inside

    def aligned(self, target: SurvivalTarget) -> SurvivalTarget:
        """Outcomes with durations at the places of (16), rounded to float32 values.

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
            rounded = np.where(happened, rounded, np.nextafter(rounded, np.float32(np.inf)))
        return replace(target, duration=rounded.astype(np.float64))


def time_unit(times: FloatArray, t_max: float) -> float:
    """The unit that all times are whole multiples of, such as a day; 0 where there is none.

    A unit that fits into ``t_max`` thousands of times is as good as none.
    """
    distinct = np.unique(np.append(times, 0.0))
    unit = float(np.diff(distinct).min()) if len(distinct) > 1 else 0.0
    if unit <= 0 or t_max / unit > _MOST_UNITS:
        return 0.0
    # Times are float32: the longest one tells the unit more exactly than the smallest difference.
    unit = float(distinct[-1] / np.rint(distinct[-1] / unit))
    multiples = distinct / unit
    is_whole = np.abs(multiples - np.rint(multiples)).max() < _UNIT_TOLERANCE
    return unit if is_whole else 0.0


def event_unit(target: SurvivalTarget, count: FloatArray | None = None) -> float:
    """The unit in which events are recorded; 0 where they happen at any time.

    Where many events share few times, the unit of the events alone: visits once a year find events
    in whole years, while people are lost to follow-up on any day. Else the unit of all durations.

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
    """Times cut to three significant digits, of themselves or of ``span`` if that is smaller."""
    return _rounded(times, np.floor, span)


def rounded_up(times: npt.ArrayLike, span: float = np.inf) -> FloatArray:
    """Times raised to three significant digits, of themselves or of ``span`` if that is smaller.

    >>> rounded_up([0.0, 12.341, 2029.0])
    array([   0. ,   12.4, 2030. ])
    """
    return _rounded(times, np.ceil, span)


def _rounded(times: npt.ArrayLike, rounding: np.ufunc, span: float) -> FloatArray:
    times = np.asarray(times, dtype=np.float64)
    positive = np.where(times > 0, times, 1.0)
    # A power of ten that is no float would turn 0.3 into 0.30000000000000004.
    power = _DIGITS - 1 - np.floor(np.log10(np.minimum(positive, span if span > 0 else np.inf)))
    up, down = 10.0 ** np.maximum(power, 0), 10.0 ** np.maximum(-power, 0)
    # float32 noise around a round number must not raise it to the next one.
    scaled = np.round(positive * up / down, 4)
    rounded: FloatArray = np.where(times > 0, rounding(scaled) / up * down, 0.0)
    return rounded

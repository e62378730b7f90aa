r"""Time stacking: people at horizons, with their targets and weights (Algorithms 1-3).

A stacked row is a person i at a horizon z, with z as the last feature. Let (t_i, d_i) be the
observed duration and event. Two models are trained on these rows; each gives the other's weights:

events      y = d_i [t_i <= z]             w = 1/G(z|x_i)     if t_i > z
                                           w = 1/G(t_i-|x_i)  if t_i <= z and d_i != 0          (10)
                                           w = 0              if t_i <= z and d_i = 0

censoring   y = [t_i <= z and d_i = 0]     w = 1/S(z|x_i)     if t_i > z
                                           w = 1/S(t_i|x_i)   if t_i <= z and d_i = 0           (11)
                                           w = 0              if t_i <= z and d_i != 0

Ties: an event at t comes before a censoring at t. An event at t_i is therefore seen when C >= t_i,
which has probability G(t_i-), and a censoring at t_i is seen when the event time exceeds t_i, which
has probability S(t_i).

Instead of weighting the others, outcomes of censored people can be imputed (`all_rows`).
A person who left at c, event-free, is in state k at a horizon z > c with probability

    q_k = (1 - S(z|x) / S(c|x)) (F_k(z|x) - F_k(c|x))+ / sum_l (F_l(z|x) - F_l(c|x))+           (15)

where F are the incidences of the imputing model. A state is drawn from q, and all weights are 1.

Rows whose weight is always 0 carry no information, but cost the engines almost as much time as
others, so each model gets only its own rows (`TrainingRows`).

Time is float32 here as it is in the engines: durations and horizons are rounded alike, so that
``t_i <= z`` means the same to the targets, to the weights and to the trees.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import BoolArray, Float32Array, FloatArray, IntArray
from survival_objectives._people import (
    Features,
    SurvivalTarget,
    check_choice,
    check_fraction,
    check_positive_int,
    check_random_state,
)
from survival_objectives._people.population import TimeAxis, time_feature
from survival_objectives.marginal import StepFunction

__all__ = ["HorizonSampler", "Stack", "TimeStacker"]

HorizonSampler = Callable[[np.random.Generator, int, int, SurvivalTarget], npt.ArrayLike]
SAMPLERS = ("uniform", "stratified", "events", "mixture")

# Share of uncensored people below which the weights of the others would be mostly noise.
_MIN_UNCENSORED = 0.1
# Share of the horizons that are even in time which fall before ``bulk_end``.
_BULK_SHARE = 0.98

# Rows of the stacked matrix that are copied at a time.
_BLOCK = 4096


@dataclass(frozen=True)
class Stack:
    """Which person is observed at which horizon.

    Attributes
    ----------
    person : int64 array of shape (n_rows,)
        Row of the person in the features and outcomes.
    horizon : float32 array of shape (n_rows,)
        Time at which the person is observed.
    """

    person: IntArray
    horizon: Float32Array

    @property
    def n_rows(self) -> int:
        """Number of stacked rows."""
        return len(self.person)


class TimeStacker:
    """Draws several horizons for each person.

    Parameters
    ----------
    n_horizons : int, default=4
        Horizons per person.
    sampler : {"uniform", "stratified", "events", "mixture"} or callable, default="mixture"
        Where horizons fall.

        - "uniform": independent draws from U(0, t_max), as in the paper;
        - "stratified": one draw in each of ``n_horizons`` equal slices of (0, t_max), so that every
          person is observed early and late;
        - "events": one draw in each of ``n_horizons`` slices of equally many observed events, so
          that horizons are dense where something happens; they fall between the event times, so
          that no horizon reveals the time of an event (where several people share a time, some fall
          on it);
        - "mixture": "events" for half of the horizons of a person (the larger half), "stratified"
          for the others;
        - a function ``(generator, n_samples, n_horizons, target)`` that returns an
          (n_samples, n_horizons) array of times.
    horizon_max : float, optional
        t_max. Default: the longest duration.
    hard_zero_fraction : float, default=0.0
        Share of rows whose horizon is set to exactly 0, where all people without an event at 0 are
        event-free.
    random_state : int, Generator, RandomState or None
        Seed. The same integer gives the same horizons.
    time_unit : float, default=0.0
        Unit in which events are recorded, such as a day. The state of a day lasts all day, so
        horizons are then drawn within their day, from the first to the last one; see
        `survival_objectives._people.population`. 0: time is continuous.
    bulk_end : float, optional
        All but one in fifty of the horizons that are even in time fall before it, so that a few
        people who are followed for long do not spread them thin. Default: even up to t_max.
    event_times : array, optional
        Sorted times of the events that "events" and "mixture" follow. Default: those of the people
        who are drawn for.

    Examples
    --------
    >>> from survival_objectives._people import check_survival_target
    >>> target = check_survival_target(([1, 0, 1], [1.0, 2.0, 4.0]))
    >>> stack = TimeStacker(n_horizons=2, sampler="stratified", random_state=0).draw(target)
    >>> stack.person
    array([0, 1, 2, 0, 1, 2])
    >>> bool((stack.horizon[:3] < 2).all() and (stack.horizon[3:] >= 2).all())
    True
    """

    def __init__(
        self,
        n_horizons: int = 4,
        sampler: str | HorizonSampler = "mixture",
        *,
        horizon_max: float | None = None,
        hard_zero_fraction: float = 0.0,
        random_state: Any = None,
        event_times: FloatArray | None = None,
        time_unit: float = 0.0,
        bulk_end: float | None = None,
    ) -> None:
        self.event_times = event_times
        self.axis = TimeAxis(time_unit)
        self.bulk_end = bulk_end
        self.n_horizons = check_positive_int(n_horizons, "n_horizons")
        if not callable(sampler):
            check_choice(sampler, "horizon_sampler", SAMPLERS)
        self.sampler = sampler
        if horizon_max is not None and not _is_positive(horizon_max):
            msg = f"`horizon_max` must be a finite time > 0; got {horizon_max!r}."
            raise ValueError(msg)
        self.horizon_max = horizon_max
        self.hard_zero_fraction = check_fraction(
            hard_zero_fraction, "hard_zero_fraction", one=False
        )
        self.generator = check_random_state(random_state)

    def draw(self, target: SurvivalTarget) -> Stack:
        """Draw new horizons for all people.

        Rows come horizon by horizon: first all people at their first horizon, and so on. Every
        cause with an event by t_max appears as a target at least once, however rare: if the draw
        missed it, the last horizon of the first person who had it is set to the event time.
        """
        n_samples, n_horizons = target.n_samples, self.n_horizons
        t_max = float(target.duration.max()) if self.horizon_max is None else self.horizon_max
        if not t_max > 0:
            msg = "All durations are 0, so there is no horizon to draw."
            raise ValueError(msg)
        if self.axis.unit:
            # The last unit counts whole. Draws from event times fall on the beginning of a unit;
            # the user's own horizons are not changed.
            end = (float(self.axis.number(t_max)) + 1) * self.axis.unit
            horizon = self._sample(target, end)
            if not callable(self.sampler):
                horizon = self.axis.within_units(horizon, t_max, self.generator)
        else:
            horizon = self._sample(target, t_max)
        n_zeros = round(self.hard_zero_fraction * horizon.size)
        if n_zeros:
            horizon.flat[self.generator.choice(horizon.size, n_zeros, replace=False)] = 0
        rounded = horizon.astype(np.float32)
        _show_every_cause(rounded, target, t_max)
        person = np.tile(np.arange(n_samples), n_horizons)
        return Stack(person, np.ascontiguousarray(rounded.T).ravel())

    def _sample(self, target: SurvivalTarget, t_max: float) -> FloatArray:
        shape = (target.n_samples, self.n_horizons)
        if callable(self.sampler):
            drawn = np.array(self.sampler(self.generator, *shape, target), dtype=np.float64)
            if drawn.shape != shape:
                msg = f"`horizon_sampler` returned shape {drawn.shape}; expected {shape}."
                raise ValueError(msg)
            bad = np.flatnonzero(~(np.isfinite(drawn.ravel()) & (drawn.ravel() >= 0)))
            if len(bad):
                msg = f"`horizon_sampler` returned the horizon {drawn.flat[bad[0]]}."
                raise ValueError(msg)
            return drawn
        if self.sampler == "uniform":
            return self.generator.uniform(0, t_max, shape)
        n_events = {"stratified": 0, "events": self.n_horizons, "mixture": -(-self.n_horizons // 2)}
        n_events_slices = n_events[str(self.sampler)]
        times = self.event_times
        if times is None:
            times = np.sort(target.duration[(target.event > 0) & (target.duration <= t_max)])
        if len(times) == 0:
            n_events_slices = 0  # No event before `horizon_max`: nothing to follow.
        by_time = t_max * self._slices(shape[0], shape[1] - n_events_slices)
        if self.bulk_end is not None and self.bulk_end < _BULK_SHARE * t_max:
            by_time = np.interp(
                by_time, [0.0, _BULK_SHARE * t_max, t_max], [0.0, self.bulk_end, t_max]
            )
        if n_events_slices == 0:
            return by_time
        position = self._slices(shape[0], n_events_slices) * len(times)
        by_event = np.interp(position, np.arange(len(times) + 1), np.concatenate([[0.0], times]))
        return np.column_stack([by_time, by_event])

    def _slices(self, n_samples: int, n_slices: int) -> FloatArray:
        """One uniform draw in each of ``n_slices`` equal slices of (0, 1), for every person."""
        if n_slices == 0:
            return np.empty((n_samples, 0))
        drawn = self.generator.random((n_samples, n_slices))
        return (np.arange(n_slices) + drawn) / n_slices


def _is_positive(time: Any) -> bool:
    is_number = isinstance(time, numbers.Real) and not isinstance(time, bool)
    return is_number and bool(0 < time < np.inf)


def _show_every_cause(horizon: Float32Array, target: SurvivalTarget, t_max: float) -> None:
    duration = time_feature(target.duration)
    shown = target.event * (duration <= horizon.max(axis=1))
    # Held-out people may lack a cause of training by then; there is no row for it.
    visible = target.event * (duration <= np.float32(t_max))
    for cause in np.setdiff1d(visible[visible > 0], shown):
        people = np.flatnonzero(target.event == cause)
        first = people[duration[people].argmin()]
        horizon[first, -1] = duration[first]


def check_causes_seen(target: SurvivalTarget, t_max: float) -> None:
    """Raise an error that names a cause without any event by the latest horizon."""
    for cause in range(1, target.n_causes + 1):
        first = target.duration[target.event == cause].min()
        if np.float32(first) > np.float32(t_max):
            msg = (
                f"Cause {target.event_ids[cause]} has no event by horizon_max={t_max:g}; its first "
                f"is at {first:g}. Raise `horizon_max`, or censor these people at it."
            )
            raise ValueError(msg)


def latest_weighted_horizon(
    target: SurvivalTarget, censoring: StepFunction, axis: TimeAxis, floor: float
) -> float:
    """The last time at which enough people are uncensored to be weighted by 1/G.

    One in ten, or the ``floor`` of G if that is higher. Events of a rare and late cause must be
    observed by then.

    Parameters
    ----------
    target, censoring
        Outcomes aligned to the time axis, and Kaplan-Meier of their censoring.
    axis : TimeAxis
    floor : float
        Smallest censoring survival.
    """
    longest = float(target.duration.max())
    unseen = censoring.times[censoring.values < max(floor, _MIN_UNCENSORED)]
    if not len(unseen):
        return longest
    first = [
        target.duration[target.event == cause].min() for cause in range(1, target.n_causes + 1)
    ]
    # A censoring lies behind the horizons of its unit.
    last = float(axis.number(unseen[0])) * (axis.unit or 1.0)
    return float(max(last, *first))


@dataclass(frozen=True)
class TrainingRows:
    """The stacked rows that one of the two models is trained on, and what their weights need.

    In a row, the person either stays under observation beyond the horizon (t > z) or has left by
    then. Weights of the former need the other model's survival at the horizon. Weights of the
    latter need it at the time of leaving, once per person for all such rows.

    Attributes
    ----------
    person : int64 array of shape (n_rows,)
    horizon : float32 array of shape (n_rows,)
    target : int32 array of shape (n_rows,)
    at_risk : bool array of shape (n_rows,)
        Rows with t_i > z. They are the same rows, in the same order, for both models.
    exited : int64 array of shape (n_exited,)
        People with at least one row where they have left.
    exited_of_row : int64 array of shape (number of rows not at risk,)
        Position in ``exited`` of each such row.
    """

    person: IntArray
    horizon: Float32Array
    target: npt.NDArray[np.int32]
    at_risk: BoolArray
    exited: IntArray
    exited_of_row: IntArray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.person)

    def matrix(self, features: Features) -> Float32Array:
        """Features of the rows with the horizon last, as one new float32 array."""
        return stacked_matrix(features, self.person, self.horizon)

    def weights(
        self,
        at_horizon: FloatArray,
        at_exit: FloatArray,
        *,
        floor: float,
        sample_weight: FloatArray | None = None,
    ) -> tuple[FloatArray, int]:
        """Weights (10) or (11), and how many rows the floor touched.

        Parameters
        ----------
        at_horizon : array of shape (number of rows at risk,)
            The other model's survival at the horizons of the rows at risk.
        at_exit : array of shape (n_exited,)
            The other model's survival at the exit times of ``exited``.
        floor : float
            Smaller survival probabilities count as this one.
        sample_weight : array of shape (n_samples,), optional
            Multiplies the weight of each row of a person.
        """
        survival = np.empty(self.n_rows)
        survival[self.at_risk] = at_horizon
        survival[~self.at_risk] = np.asarray(at_exit)[self.exited_of_row]
        n_floored = int(np.count_nonzero(survival < floor))
        weight = 1 / np.maximum(survival, floor)
        if sample_weight is not None:
            weight *= sample_weight[self.person]
        return weight, n_floored


def event_rows(target: SurvivalTarget, stack: Stack) -> TrainingRows:
    """Rows of the event model, equation (10)."""
    return _training_rows(stack, target, left_by=target.event > 0, code=target.event)


def censoring_rows(target: SurvivalTarget, stack: Stack) -> TrainingRows:
    """Rows of the censoring model, equation (11)."""
    censored = target.event == 0
    return _training_rows(stack, target, left_by=censored, code=censored.astype(np.int32))


def all_rows(target: SurvivalTarget, stack: Stack) -> TrainingRows:
    """All rows, for schemes that impute the outcomes of censored people.

    Where the person was censored by the horizon (`rows_after_censoring`), target 0 is a placeholder
    of the imputed state.
    """
    return _training_rows(stack, target, left_by=np.ones(target.n_samples, bool), code=target.event)


def rows_after_censoring(target: SurvivalTarget, rows: TrainingRows) -> IntArray:
    """Rows, of all rows (`all_rows`), at whose horizon the person had been censored."""
    return np.flatnonzero(~rows.at_risk & (target.event[rows.person] == 0))


def exit_feature(times: FloatArray, axis: TimeAxis, *, left: bool = False) -> Float32Array:
    """Time feature at which a model is evaluated for people's exit times, or just before them.

    Where time has units, both are the same place within the unit: for an event at the beginning of
    a unit and for a censoring after its horizons (equation (16)).

    >>> exit_feature(np.array([0.0, 2.75]), TimeAxis(1.0))
    array([0.375, 2.375], dtype=float32)
    """
    return time_feature(axis.prediction_time(times), left=left and not axis.unit)


def conditional_incidence(at_horizon: FloatArray, at_exit: FloatArray) -> FloatArray:
    r"""Probability of each cause by the horizon for people event-free at exit, equation (15).

    Negative increments count as 0: models whose event-free curve is monotone may have falling
    incidences of single causes.

    Parameters
    ----------
    at_horizon, at_exit : arrays of shape (n_rows, K + 1)
        Probabilities of the states at the horizon and at the earlier time of censoring.

    Returns
    -------
    array of shape (n_rows, K)

    Examples
    --------
    >>> conditional_incidence(np.array([[0.4, 0.4, 0.2]]), np.array([[0.8, 0.1, 0.1]]))
    array([[0.375, 0.125]])
    """
    increment = np.maximum(at_horizon[:, 1:] - at_exit[:, 1:], 0)
    total = increment.sum(axis=1)
    # The model excludes that the person was event-free at exit, so it says nothing about later.
    still = np.divide(
        at_horizon[:, 0], at_exit[:, 0], out=np.ones(len(total)), where=at_exit[:, 0] > 0
    )
    by_then = np.clip(1 - still, 0, 1)
    scale = np.divide(by_then, total, out=np.zeros(len(total)), where=total > 0)
    incidence: FloatArray = increment * scale[:, None]
    return incidence


def drawn_states(incidence: FloatArray, generator: np.random.Generator) -> npt.NDArray[np.int32]:
    """One state per row: cause k with the probability in column k - 1, else 0."""
    reached = np.cumsum(incidence, axis=1)
    # A draw beyond the last cause is the event-free state, 0.
    place = (generator.random(len(incidence))[:, None] >= reached).sum(axis=1) + 1
    return np.where(place > incidence.shape[1], 0, place).astype(np.int32)


def _training_rows(
    stack: Stack,
    target: SurvivalTarget,
    left_by: BoolArray,
    code: npt.NDArray[np.int32],
) -> TrainingRows:
    at_risk = time_feature(target.duration)[stack.person] > stack.horizon
    rows = np.flatnonzero(at_risk | left_by[stack.person])
    person, at_risk = stack.person[rows], at_risk[rows]
    exited, exited_of_row = np.unique(person[~at_risk], return_inverse=True)
    return TrainingRows(
        person=person,
        horizon=stack.horizon[rows],
        target=np.where(at_risk, 0, code[person]).astype(np.int32),
        at_risk=at_risk,
        exited=exited,
        exited_of_row=exited_of_row,
    )


def stacked_matrix(features: Features, person: IntArray, times: Float32Array) -> Float32Array:
    """Features of the people with a time as the last column, built in one allocation."""
    matrix = np.empty((len(person), features.n_features + 1), np.float32)
    # In blocks, because `np.take` into a part of `matrix` would copy all of that part.
    for start in range(0, len(person), _BLOCK):
        rows = slice(start, start + _BLOCK)
        matrix[rows, :-1] = features.values[person[rows]]
    matrix[:, -1] = times
    return matrix

r"""What the metrics are given, checked once, and the weights they share.

Write (t_i, d_i) for the observed duration and event of person i and G(t|x) for the probability of
being uncensored after t. At a horizon z a person counts with

    w_i(z) = [t_i > z] / G(z|x_i) + [t_i <= z, d_i != 0] / G(t_i-|x_i)                          (20)

as in training, equation (10). An event at t comes before a censoring at t, hence the limit from the
left. People censored by z have weight 0: the weights of others represent them.
"""

from __future__ import annotations

import inspect
import numbers
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from survival_objectives._arrays import BoolArray, FloatArray, IntArray
from survival_objectives._people import (
    SurvivalTarget,
    check_sample_weight,
    check_survival_target,
    check_times,
    take_rows,
)
from survival_objectives.censoring import CensoringModel, KaplanMeierCensoring

# Predictions of other packages come in float32 and overshoot 0 and 1 by its rounding.
_PROBABILITY_TOLERANCE = 1e-6
#: What scores estimators then.
SCORED_BY = 'Score people who enter late by `make_survival_scorer("likelihood")`'
_PACKAGE = __name__.rpartition(".")[0]
# What scores people who enter late.
WITH_ENTRY = (
    "Score people who enter late by `likelihood_score` or the other methods of "
    "`Evaluation(..., landmark=s)`, of the people who are event-free at s"
)


class FollowUpWarning(UserWarning):
    """Follow-up does not reach some of the times asked for, so the metric stops before them."""


@dataclass(frozen=True)
class CensoringSample:
    """People whose censoring was estimated by Kaplan-Meier."""

    target: SurvivalTarget
    weight: FloatArray
    rows: IntArray | None  # Where the people predicted for are among them, if they are.
    # The longest duration, after which the curve would be extrapolated. Infinite where it falls to
    # 0 there, and where no one is censored, in these people and in those predicted for.
    end: float

    @classmethod
    def of(
        cls, target: SurvivalTarget, weight: FloatArray, rows: IntArray | None, *, needed: bool
    ) -> CensoringSample:
        """The sample; ``needed`` says whether anyone predicted for is censored."""
        end = float(target.duration[weight > 0].max())
        falls_to_zero = end_of_follow_up(target, weight) == end
        if falls_to_zero or (target.event.all() and not needed):
            end = float("inf")
        return cls(target, weight, rows, end)

    def curve(self) -> KaplanMeierCensoring:
        """Kaplan-Meier of their censoring."""
        return KaplanMeierCensoring().fit(self.target, sample_weight=self.weight)


@dataclass(frozen=True)
class ScoredPeople:
    """Checked arguments of a metric."""

    target: SurvivalTarget  # Outcomes of the people predicted for.
    # Probabilities, (n_samples, K + 1, n_times) with event-free first, or (n_samples, n_times).
    incidence: FloatArray
    times: FloatArray  # In the order the user gave them.
    sample_weight: FloatArray
    censoring: CensoringModel | None
    X: Any  # Features for a conditional censoring model, or None.
    sample: CensoringSample | None = None  # Where ``censoring`` was estimated from outcomes.
    start: float = 0.0  # All are event-free here, which may be a landmark.
    only_survival: bool = False  # Whether curves in two dimensions must be event-free.
    # People of the rows scored and, where they are more, of the rows of ``sample``.
    group: IntArray | None = None
    sample_group: IntArray | None = None

    @property
    def censoring_end(self) -> float:
        """Last time at which the probability of being uncensored is known."""
        return float("inf") if self.sample is None else self.sample.end

    def cause_code(self, cause: int) -> int:
        """Position of the user's label ``cause``; 0 is any event."""
        return check_cause(cause, self.target.event_ids)

    def curves(self, cause: int | None) -> list[tuple[int, FloatArray]]:
        """Pairs (code, predicted curve of shape (n_samples, n_times)) that ``cause`` asks for.

        The code of the event-free probability is 0. All curves for None, in their order; curves
        in two dimensions are event-free probabilities then.
        """
        if self.incidence.ndim == 2:
            code = 0 if cause is None else self.cause_code(cause)
            if code and self.only_survival:
                msg = (
                    "Incidences of one cause alone cannot be made conditional on the `landmark`. "
                    "Pass all states, or incidences that are conditional on it."
                )
                raise ValueError(msg)
            return [(code, self.incidence)]
        if cause is None:
            return [(code, self.incidence[:, code]) for code in range(self.incidence.shape[1])]
        code = self.cause_code(cause)
        return [(code, self.incidence[:, code])]

    def risks(self, cause: int | None) -> list[tuple[int, FloatArray]]:
        """As `curves`, with the incidence of any event in place of being event-free."""
        return [(code, curve if code else 1 - curve) for code, curve in self.curves(cause)]

    def all_states(self) -> FloatArray:
        """Probabilities of all states; event-free curves alone get their complement."""
        if self.incidence.ndim == 3:
            return self.incidence
        return np.stack([self.incidence, 1 - self.incidence], axis=1)

    def collapsed_target(self) -> SurvivalTarget:
        """Outcomes that match `all_states`: any event is one cause for event-free curves."""
        if self.incidence.ndim == 3:
            return self.target
        event = (self.target.event > 0).astype(np.int32)
        return replace(self.target, event=event, event_ids=np.array([0, 1]))

    def uncensored(self, times: FloatArray, *, left: bool = False) -> FloatArray:
        """Probability of being uncensored; 1 for a metric without weights."""
        if self.censoring is None:
            return np.ones(times.shape)
        return np.asarray(self.censoring.survival(times, self.X, left=left), dtype=np.float64)

    def average(self, values: FloatArray) -> FloatArray:
        """Mean over people, the first axis, with their sample weights."""
        share = self.sample_weight / self.sample_weight.sum()
        mean: FloatArray = np.tensordot(share, values, axes=1)
        return mean


def check_scored(
    censoring: Any,
    y_test: Any,
    incidence: Any,
    times: Any,
    X: Any,
    sample_weight: Any,
    event_ids: Any,
) -> ScoredPeople:
    """Arguments of `Evaluation` as `ScoredPeople`; errors name what does not fit."""
    horizon = check_times(times)
    curves = check_incidence(incidence, len(horizon))
    n_causes = curves.shape[1] - 1 if curves.ndim == 3 else None
    target = _check_outcomes(censoring, y_test, n_causes, event_ids)
    if target.n_samples != len(curves):
        msg = f"`incidence` has {len(curves)} rows for the {target.n_samples} people of `y_test`."
        raise ValueError(msg)
    given_weight = check_sample_weight(sample_weight, target.n_samples)
    weight = np.ones(target.n_samples) if given_weight is None else given_weight
    model: CensoringModel | None = None
    sample = None
    if isinstance(censoring, CensoringModel):
        model = censoring
    else:
        sample = _censoring_sample(target if censoring is None else censoring, target, weight)
        model = sample.curve()
    return ScoredPeople(
        target=target,
        incidence=curves,
        times=horizon,
        sample_weight=weight,
        censoring=model,
        X=X,
        sample=sample,
    )


def at_landmark(scored: ScoredPeople, landmark: float) -> ScoredPeople:
    """The people with entry <= s < duration, their curves and weights conditional on s.

    Censoring is conditional too: Kaplan-Meier of the people at risk after s is G(t) / G(s).
    """
    s = float(check_times(landmark)[0])
    times, target = scored.times, scored.target
    entry = np.zeros(target.n_samples) if target.entry is None else target.entry
    here = np.flatnonzero((entry <= s) & (target.duration > s))
    if s not in times or not (times > s).any():
        msg = (
            f"`landmark` is {s:g}; `times` must have it and later ones, but are {times.tolist()}. "
            "Curves that are already conditional on it are event-free there for all people."
        )
        raise ValueError(msg)
    if len(here) == 0 or not scored.sample_weight[here].any():
        msg = f"No one is event-free under observation at the `landmark` {s:g}."
        raise ValueError(msg)
    at_s = int(np.flatnonzero(times == s)[0])
    curves = _conditional(scored.incidence[here], at_s)[..., times > s]
    only_survival = curves.ndim == 2 and bool(scored.incidence[here, at_s].any())
    weight, X = scored.sample_weight[here], scored.X
    people = replace(
        scored,
        target=replace(target.until_last.take(here), entry=None, person=None),
        incidence=curves,
        times=times[times > s],
        sample_weight=weight,
        X=None if X is None else take_rows(X, here),
        start=s,
        only_survival=only_survival,
        group=None if scored.group is None else scored.group[here],
    )
    if scored.sample is None:
        if scored.censoring is None:
            return people
        return replace(people, censoring=_LateCensoring(scored.censoring, s))
    given, rows = scored.sample, scored.sample.rows
    kept = np.flatnonzero(given.target.duration > s)
    late = given.target.take(kept)
    if late.entry is not None:
        late = replace(late, entry=np.where(late.entry > s, late.entry, 0.0))
    sample = CensoringSample.of(
        late,
        given.weight[kept],
        None if rows is None else np.searchsorted(kept, rows[here]),
        needed=not people.target.event.all(),
    )
    if rows is not None and scored.group is not None:
        group = np.empty(given.target.n_samples, np.int64)
        group[rows] = scored.group
        people = replace(people, sample_group=group[kept])
    return replace(people, sample=sample, censoring=sample.curve())


def _conditional(curves: FloatArray, at_s: int) -> FloatArray:
    """Curves given that nothing happened by s, the time of column ``at_s``."""
    start = curves[..., at_s, None]
    if curves.ndim == 2:
        if not start.any():  # Incidences that are conditional already.
            return curves
        return np.divide(curves, start, out=np.zeros_like(curves), where=start > 0)
    change = curves - start
    change[:, 0] = curves[:, 0]
    # Where a model says that no one is left, all causes are alike.
    gone = np.full_like(curves, 1 / (curves.shape[1] - 1))
    gone[:, 0] = 0
    result: FloatArray = np.divide(change, start[:, :1], out=gone, where=start[:, :1] > 0)
    return result


@dataclass(frozen=True)
class _LateCensoring:
    """A model of censoring given that people are uncensored at a landmark."""

    model: CensoringModel
    landmark: float

    def survival(self, times: Any, X: Any = None, *, left: bool = False) -> FloatArray:
        at = np.asarray(times, dtype=np.float64)
        start = self.model.survival(np.full(at.shape, self.landmark), X)
        late = self.model.survival(at, X, left=left)
        conditional: FloatArray = np.divide(late, start, out=np.zeros(at.shape), where=start > 0)
        return conditional


def _censoring_sample(
    censoring: Any, target: SurvivalTarget, weight: FloatArray
) -> CensoringSample:
    """Outcomes to estimate censoring from; the people predicted for keep their weights."""
    trained, tested = _trained(censoring), target.people
    is_test = np.array_equal(trained.duration, tested.duration) and np.array_equal(
        trained.event_ids[trained.event], tested.event_ids[tested.event]
    )
    rows = np.arange(target.n_samples)
    if target.person is not None:
        rows = np.unique(target.person, return_inverse=True)[1]
    return CensoringSample.of(
        trained,
        weight[target.first_rows] if is_test else np.ones(trained.n_samples),
        rows if is_test else None,
        needed=not target.event.all(),
    )


def _trained(censoring: Any) -> SurvivalTarget:
    return check_survival_target(censoring, require_event=False, late_entry=True).people


def check_cause(cause: Any, labels: IntArray) -> int:
    """Position of the label ``cause`` in ``labels``, of which the first is 0."""
    if not isinstance(cause, numbers.Real) or cause not in labels:
        msg = (
            f"`cause` is {cause!r}, but the labels are {labels[1:].tolist()}, and 0 for any "
            "event. If no one here had this cause, pass all labels as `event_ids`."
        )
        raise ValueError(msg)
    return int(np.flatnonzero(labels == cause)[0])


def check_incidence(incidence: Any, n_times: int) -> FloatArray:
    """Predicted probabilities as float64 in [0, 1], in two or three dimensions."""
    curves = np.asarray(incidence, dtype=np.float64)
    if curves.ndim not in (2, 3) or curves.shape[-1] != n_times:
        msg = (
            f"`incidence` has shape {curves.shape} for {n_times} times; expected "
            f"(n_samples, K + 1, {n_times}), or (n_samples, {n_times}) for one curve per person."
        )
        raise ValueError(msg)
    if curves.ndim == 3 and curves.shape[1] < 2:
        msg = (
            f"`incidence` of shape {curves.shape} has no cause: axis 1 holds the event-free "
            "probability first, then one incidence per cause."
        )
        raise ValueError(msg)
    lowest, highest = -_PROBABILITY_TOLERANCE, 1 + _PROBABILITY_TOLERANCE
    inside = (curves >= lowest) & (curves <= highest)  # NaN is outside.
    if not inside.all():
        first = tuple(int(position) for position in np.argwhere(~inside)[0])
        msg = (
            f"`incidence` is {curves[first]} at index {first}; probabilities are between 0 and 1. "
            "Cumulative hazards H are turned into event-free probabilities by exp(-H)."
        )
        raise ValueError(msg)
    return np.clip(curves, 0, 1)


def _check_outcomes(
    censoring: Any, y_test: Any, n_causes: int | None, event_ids: Any
) -> SurvivalTarget:
    checked = partial(check_survival_target, late_entry=True, instead=WITH_ENTRY)
    if event_ids is not None:
        labels = np.asarray(event_ids, dtype=np.int64)
        if n_causes is not None and len(labels) != n_causes + 1:
            msg = f"`event_ids` has {len(labels)} labels for {n_causes + 1} curves per person."
            raise ValueError(msg)
        return checked(y_test, event_ids=labels)
    target = checked(y_test, require_event=False)
    seen = target.event_ids
    if censoring is not None and not isinstance(censoring, CensoringModel):
        trained = _trained(censoring)
        seen = np.union1d(seen, trained.event_ids)
    if n_causes is None or len(seen) == n_causes + 1:
        labels = seen
    elif seen.max() <= n_causes:
        labels = np.arange(n_causes + 1)  # A rare cause may be absent from the test people.
    else:
        msg = (
            f"`incidence` has curves for {n_causes} causes, but the labels seen are "
            f"{seen[1:].tolist()}. Pass the training outcomes as `censoring`, or `event_ids`."
        )
        raise ValueError(msg)
    return checked(target, event_ids=labels)


# ---------------------------------------------------------------------------------------- weights
@dataclass(frozen=True)
class Weights:
    """Weights (20) and the times at which they are known."""

    values: FloatArray  # (n_samples, n_times), without sample weights; 0 at unknown times.
    known: BoolArray  # (n_times,); False beyond the end of follow-up.
    reason: str  # What ends it, for the warning.

    def blank_unknown(self, scores: FloatArray) -> FloatArray:
        """``scores`` with NaN where follow-up has ended; the last axis is time."""
        return np.where(self.known, scores, np.nan)


def censoring_at_exit(scored: ScoredPeople, floor: float) -> FloatArray:
    """G(t_i-|x_i) of every person, not below the floor."""
    return np.maximum(scored.uncensored(scored.target.duration, left=True), floor)


def ipcw_weights(scored: ScoredPeople, floor: float) -> Weights:
    """Weights of equation (20) at all times, and where follow-up ends."""
    target, times = scored.target, scored.times
    at_exit = censoring_at_exit(scored, floor)
    shape = (target.n_samples, len(times))
    at_horizon = scored.uncensored(np.broadcast_to(times, shape))
    at_horizon = np.maximum(at_horizon, floor)
    at_risk = target.duration[:, None] > times
    counts = at_risk | (target.event > 0)[:, None]
    uncensored = np.where(at_risk, at_horizon, at_exit[:, None])
    read_at = np.where(at_risk, times, target.duration[:, None])
    impossible = counts & ((uncensored <= 0) | (read_at > scored.censoring_end))
    impossible &= (scored.sample_weight > 0)[:, None]
    known = np.asarray(~impossible.any(axis=0))
    end = end_of_follow_up(target, scored.sample_weight)
    if (times >= end).any():
        known &= times < end
        reason = f"the last person under observation is censored at {end:g}. Ask for times before."
    elif (times[~known] > scored.censoring_end).any():
        reason = (
            f"the training outcomes end at {scored.censoring_end:g}, and the probability of "
            "being uncensored is unknown after. Ask for times up to it."
        )
    else:
        reason = (
            "the probability of being uncensored is 0 for people seen there. Ask for earlier "
            "times, or raise `min_censoring_survival`."
        )
    usable = counts & known
    weight = np.divide(1.0, uncensored, out=np.zeros(shape), where=usable & (uncensored > 0))
    return Weights(weight, known, reason)


def end_of_follow_up(target: SurvivalTarget, weight: FloatArray | None = None) -> float:
    """Time after which nothing is known: infinity where the last person had an event.

    People censored at the longest duration may have their event at any later time. People of weight
    0 do not count.
    """
    counts = np.ones(target.n_samples, np.bool_) if weight is None else weight > 0
    last = float(target.duration[counts].max())
    is_censored = counts & (target.event == 0) & (target.duration == last)
    return last if is_censored.any() else float("inf")


def warn_follow_up(times: FloatArray, known: BoolArray, reason: str, consequence: str) -> None:
    """Warn where follow-up ends, and what the metric does about it."""
    if known.all():
        return
    lost = times[~known]
    warn_outside(
        f"{len(lost)} of {len(times)} times, between {lost.min():g} and {lost.max():g}, are out of "
        f"reach of follow-up: {reason} {consequence}"
    )


def beyond_curves(target: SurvivalTarget, last: float, what: str) -> BoolArray:
    """Who is followed beyond the last time, or node, of the curves; a warning says so."""
    beyond: BoolArray = target.duration > last
    if beyond.any():
        msg = (
            f"{np.count_nonzero(beyond)} of {target.n_samples} people are followed beyond the last "
            f"{what}, {last:g}, and count as censored there. Predict for later times."
        )
        warn_outside(msg)
    return beyond


def warn_outside(message: str, category: type[Warning] = FollowUpWarning) -> None:
    """Warn at the line outside this package that called a metric."""
    frame, depth = inspect.currentframe(), 1
    while frame is not None and frame.f_globals["__name__"].startswith(_PACKAGE):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=depth)


# ----------------------------------------------------------------------------------------- curves
def curve_values(
    curves: FloatArray, times: FloatArray, at: FloatArray, start: float = 0.0
) -> FloatArray:
    """Event-free curves, (n_samples, n_times), read at other times, linearly from (start, 1).

    ``times`` increase. ``at`` has shape (n_at,), common to all people, or (n_samples, 1). Curves
    are linear between the times, and constant beyond the last of them.
    """
    if times[0] > start:
        times = np.concatenate([[start], times])
        curves = np.concatenate([np.ones((len(curves), 1)), curves], axis=1)
    if len(times) == 1:
        return np.broadcast_to(curves, (len(curves), at.shape[-1])).copy()
    right = np.clip(np.searchsorted(times, at, side="left"), 1, len(times) - 1)
    gap = times[right] - times[right - 1]
    share = np.clip((at - times[right - 1]) / np.where(gap > 0, gap, 1), 0, 1)
    rows = np.arange(len(curves))[:, None]
    values: FloatArray = (1 - share) * curves[rows, right - 1] + share * curves[rows, right]
    return values


def sorted_by_time(scored: ScoredPeople) -> tuple[FloatArray, FloatArray]:
    """Increasing times, without repeats, and the incidence in the same order."""
    times, first = np.unique(scored.times, return_index=True)
    return times, scored.incidence[..., first]

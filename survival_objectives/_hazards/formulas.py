r"""Discrete-time hazards: risk-set rows, incidence curves, calibration and mixture weights.

Time is divided by knots e_0 < e_1 < ... < e_M. A person who is event-free at e_m has an event of
cause k in the interval (e_m, e_{m+1}] with probability q_km, or stays event-free. Censored people
stay in the risk set until they are censored, so that no censoring weights are needed.

A person who is event-free throughout the first L intervals has one row per interval, with target 0.
If L > J, the intervals are divided into J slices, and one interval is drawn per slice with a
uniform u_j, evenly spread over people, with the weight of the whole slice:

    m_j = floor((j + u_j) L / J),        w_j = L / J,        j = 0, ..., J - 1.                (70)

The last interval adds a row: with target k and weight 1 for an event of cause k, with target 0 and
the observed share of the interval as weight for a censored person.

A person who comes under observation later than at e_0 has rows from then on: L counts the intervals
from that of the entry on, and with shares a and b of an interval that have passed at entry and at
exit, rows without an event weigh

    1 - a in the interval of the entry,      b - a if it is that of the exit too,            (92)

times the weight of (70). An event weighs 1 however late in its interval the entry is: curves are
linear in an interval, so that events in its rest are rarer by the same share as those seen.

Margins are log-odds against staying event-free. They start at smoothed marginal hazards, where
D_km are events, R_km the sum of weights times exp(offset), and D_k, R_k their sums over intervals:

    s_km = log((D_km + 1/2) / (R_km + R_k / (2 D_k))).                                         (71)

Margins f determine hazards, and hazards determine the incidences at knots:

    q_km = exp(f_km) / (1 + sum_j exp(f_jm)),                                                  (72)
    F_k(e_{m+1}) = F_k(e_m) + S(e_m) q_km,        S = 1 - sum_k F_k.                           (73)

Terms added to the margins match the expected events E_km = sum w q_km of the risk set to the
observed ones, in a few iterations:

    d_km <- d_km + c_km + log((D_k + 1/2) / (sum_m E_km exp(c_km) + 1/2)),
    c_km = log((D_km + 1) / (E_km + 1)).                                                       (74)

The first term matches the events of each interval, the second the total D_k of each cause: with
many causes or few people most intervals have no event of a cause, but each keeps a small hazard.
Where more than half of the risk set R_m has an event, and there are at least ten, hazards hardly
depend on the margins; with D_m and E_m, the sums over causes, another term is added:

    d_km <- d_km + (1 / (1 - E_m / R_m) - 1) log((D_m + 1) / (E_m + 1))                        (91)

which makes the steps those of Newton.

The likelihood of a person since entry is the product over the rows, with weights (70) and (92) and
the states y at the ends of the intervals:

    l = prod_r q_{y_r m_r}^w_r,        q_0m = 1 - sum_k q_km.                                  (75)

Several models are mixed with the weights pi_j that maximise the likelihood of held-out people,
found by expectation-maximisation with sample weights w_i:

    pi_j <- sum_i w_i pi_j l_ij / (sum_j' pi_j' l_ij') / sum_i w_i.                            (76)

The number of boosting rounds and the penalty of linear hazards maximise the likelihood of the same
people, so that these models look better than they are. They have to pay for their weight: with
c_j = 1 for them and 0 for marginal hazards, the subset A of the models with the largest

    sum_i w_i log(sum_{j in A} pi_j l_ij) - sum_{j in A} c_j                                   (82)

is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import BoolArray, FloatArray, IntArray
from survival_objectives._people.population import LocalReduction, Reduction

#: The reduction of a single process that holds all people.
LOCAL = LocalReduction()

#: The 1/2 of (71).
PSEUDO_EVENTS = 0.5
# Lower bound: a single outcome cannot dominate the log-likelihood of a model.
_CORRECTION_STEPS = 8
# Corrections take larger steps where a smaller share of the people at risk stays event-free, and
# there are as many events.
_FEW_EVENT_FREE, _FEWEST_EVENTS = 0.5, 10
_LARGEST_STEP = 2.0
_MIXTURE_STEPS = 200


@dataclass(frozen=True)
class RiskRows:
    """Rows of the risk sets: one per person and interval.

    Attributes
    ----------
    person : int32 array of shape (n_rows,)
    interval : int16 array of shape (n_rows,)
    target : int32 array of shape (n_rows,)
        0 = event-free at the end of the interval, 1..K = causes.
    weight : float64 array of shape (n_rows,)
    """

    person: npt.NDArray[np.int32]
    interval: npt.NDArray[np.int16]
    target: npt.NDArray[np.int32]
    weight: FloatArray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.person)

    def take(self, chosen: BoolArray | IntArray | slice) -> RiskRows:
        """A subset of the rows."""
        return RiskRows(
            self.person[chosen], self.interval[chosen], self.target[chosen], self.weight[chosen]
        )

    def of_people(self, people: IntArray, n_samples: int) -> RiskRows:
        """The rows of some of the ``n_samples`` people, who are numbered among themselves."""
        if len(people) == n_samples:
            return self
        number = np.full(n_samples, -1, np.int32)
        number[people] = np.arange(len(people))
        taken = self.take(number[self.person] >= 0)
        return replace(taken, person=number[taken.person])

    def by_person(self) -> RiskRows:
        """The same rows, sorted by person."""
        return self.take(np.argsort(self.person, kind="stable"))

    def events(self, n_causes: int, n_intervals: int) -> FloatArray:
        """Total weight of the events of each cause in each interval, (K, M)."""
        happened = self.target > 0
        cell = (self.target[happened].astype(np.int64) - 1) * n_intervals + self.interval[happened]
        total = np.bincount(
            cell, weights=self.weight[happened], minlength=n_causes * n_intervals
        ).astype(np.float64)
        return total.reshape(n_causes, n_intervals)


def interval_positions(knots: FloatArray, position: FloatArray) -> tuple[IntArray, FloatArray]:
    """Interval between knots that contains each time, and the share of it before that time.

    >>> interval_positions(np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 1.5]))
    (array([0, 0, 1]), array([0.  , 1.  , 0.25]))
    """
    interval = np.minimum(np.searchsorted(knots[1:], position), len(knots) - 2)
    share = (position - knots[interval]) / (knots[interval + 1] - knots[interval])
    return interval, np.clip(share, 0.0, 1.0)


def entry_positions(
    knots: FloatArray, entry: FloatArray | None, n_samples: int
) -> tuple[IntArray, FloatArray]:
    """First interval in which each person is at risk, and the share of it before the entry.

    >>> entry_positions(np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 1.5]), 3)
    (array([0, 1, 1]), array([0.  , 0.  , 0.25]))
    """
    if entry is None:
        return np.zeros(n_samples, np.int64), np.zeros(n_samples)
    # Unlike an event, an entry at a knot belongs to the interval after it.
    interval = np.minimum(np.searchsorted(knots[1:], entry, side="right"), len(knots) - 2)
    share = (np.maximum(entry, knots[0]) - knots[interval]) / np.diff(knots)[interval]
    return interval, np.clip(share, 0.0, 1.0)


def risk_rows(
    event: npt.NDArray[np.int32],
    position: FloatArray,
    knots: FloatArray,
    *,
    entry: FloatArray | None = None,
    weight: FloatArray | None = None,
    n_rows: int | None = None,
    generator: np.random.Generator | None = None,
) -> RiskRows:
    """One row per person and interval at risk, sampled as in (70) and weighted as in (92).

    Parameters
    ----------
    event : int32 array of shape (n_samples,)
        0 = censored, 1..K = causes.
    position : array of shape (n_samples,)
        Time of the event or of censoring, on the axis of the knots.
    knots : array of shape (M + 1,)
    entry : array of shape (n_samples,), optional
        Time of entry, on the axis of the knots. Default: before the first knot.
    weight : array of shape (n_samples,), optional
        Sample weights.
    n_rows : int, optional
        J, the maximum number of rows per person besides the last one. Default: all intervals.
    generator : numpy Generator, optional
        Source of the draws; needed with ``n_rows``.
    """
    last, share = interval_positions(knots, position)
    first, passed = entry_positions(knots, entry, len(event))
    person, interval, row_weight = _event_free_rows(np.maximum(last - first, 0), n_rows, generator)
    interval += first[person]
    row_weight *= np.where(interval == first[person], 1 - passed[person], 1.0)
    happened = event > 0
    share = np.where(last == first, share - passed, share)
    share = np.where(happened, 1.0, share)
    leaving = np.flatnonzero((share > 0) & (first <= last))
    person = np.concatenate([person, leaving])
    row_weight = np.concatenate([row_weight, share[leaving]])
    if weight is not None:
        row_weight *= weight[person]
    n_stayed = len(person) - len(leaving)
    target = np.concatenate([np.zeros(n_stayed, np.int32), event[leaving].astype(np.int32)])
    interval = np.concatenate([interval, last[leaving]])
    return RiskRows(person.astype(np.int32), interval.astype(np.int16), target, row_weight)


def _event_free_rows(
    n_intervals: IntArray, n_rows: int | None, generator: np.random.Generator | None
) -> tuple[IntArray, IntArray, FloatArray]:
    """Person, interval and weight of the rows with target 0 before the last interval."""
    is_whole = np.full(len(n_intervals), True) if n_rows is None else n_intervals <= n_rows
    whole = np.where(is_whole, n_intervals, 0)
    person = np.repeat(np.arange(len(n_intervals)), whole)
    interval = np.arange(len(person)) - np.repeat(np.cumsum(whole) - whole, whole)
    weight = np.ones(len(person))
    if n_rows is None or generator is None:
        return person, interval, weight
    many = np.flatnonzero(~is_whole)
    length = n_intervals[many, None]
    # People who were at risk equally long draw evenly spread intervals (the golden ratio spreads
    # any number of points), so that the sizes of risk sets hardly vary. Each u is still uniform.
    order = np.lexsort((generator.random(len(many)), length[:, 0]))
    rank = np.empty(len(many))
    rank[order] = np.arange(len(many))
    u = (0.6180339887498949 * rank[:, None] + generator.random(n_rows)) % 1.0
    drawn = (np.arange(n_rows) + u) * length / n_rows
    # Rounding may move the end of the last slice into the interval after it.
    slices = np.minimum(drawn.astype(np.int64), length - 1)
    return (
        np.concatenate([person, np.repeat(many, n_rows)]),
        np.concatenate([interval, slices.ravel()]),
        np.concatenate([weight, np.repeat(n_intervals[many] / n_rows, n_rows)]),
    )


def interval_start(
    rows: RiskRows,
    n_causes: int,
    n_intervals: int,
    offset: FloatArray | None = None,
    reduction: Reduction = LOCAL,
    pseudo_events: float = PSEUDO_EVENTS,
) -> FloatArray:
    """Marginal margins s, equation (71), of shape (K, M).

    Parameters
    ----------
    rows : RiskRows
    n_causes, n_intervals : int
    offset : array of shape (K, n_samples), optional
        Linear predictors per person, which are added to the margins later.
    reduction : Reduction
        Sums over all processes.
    pseudo_events : float
        The 1/2 of (71).
    """
    own = np.empty((2, n_causes, n_intervals))
    own[0] = rows.events(n_causes, n_intervals)
    for cause in range(n_causes):
        relative = 1.0 if offset is None else np.exp(offset[cause][rows.person])
        own[1, cause] = np.bincount(rows.interval, rows.weight * relative, minlength=n_intervals)
    events, at_risk = reduction.sum(own)
    # A cause without observed events keeps a positive hazard.
    per_event = at_risk.sum(axis=1) / np.maximum(events.sum(axis=1), 0.5)
    per_event *= pseudo_events
    start: FloatArray = np.log((events + pseudo_events) / (at_risk + per_event[:, None]))
    return start


def row_margins(level: FloatArray, offset: FloatArray | None, rows: RiskRows) -> FloatArray:
    """Margins of rows before any tree, of shape (K, n_rows): levels and linear predictors."""
    margin = level[:, rows.interval]
    return margin if offset is None else margin + offset[:, rows.person]


def _hazards(margin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Hazards (72) along the first axis, and the probability of staying event-free."""
    top = np.maximum(margin.max(axis=0), 0.0)
    odds = np.exp(margin - top)
    stay = np.exp(-top)
    total = odds.sum(axis=0) + stay
    return odds / total, stay / total


def knot_incidence(margin: FloatArray) -> FloatArray:
    """Incidences at knots, equations (72) and (73), of shape (K, M + 1, n_samples).

    Parameters
    ----------
    margin : array of shape (K, M, n_samples)
    """
    hazard, stay = _hazards(margin)
    before = np.ones_like(stay)
    np.cumprod(stay[:-1], axis=0, out=before[1:])
    incidence = np.zeros((len(margin), margin.shape[1] + 1, margin.shape[2]))
    np.cumsum(hazard * before, axis=1, out=incidence[:, 1:])
    return incidence


def time_corrections(
    margin: FloatArray, rows: RiskRows, n_intervals: int, reduction: Reduction = LOCAL
) -> FloatArray:
    """Terms d that match expected to observed events, equation (74), of shape (K, M).

    Parameters
    ----------
    margin : array of shape (K, n_rows)
        Margins of the rows.
    rows : RiskRows
    n_intervals : int
    reduction : Reduction
        Sums over all processes.
    """
    events = reduction.sum(rows.events(len(margin), n_intervals))
    at_risk = reduction.sum(np.bincount(rows.interval, rows.weight, minlength=n_intervals))
    correction = np.zeros_like(events)
    for _ in range(_CORRECTION_STEPS):
        hazard, _ = _hazards(margin + correction[:, rows.interval])
        expected = reduction.sum(
            [np.bincount(rows.interval, rows.weight * q, minlength=n_intervals) for q in hazard]
        )
        step = np.log((events + 1) / (expected + 1))
        total = np.log((events.sum(axis=1) + 0.5) / ((expected * np.exp(step)).sum(axis=1) + 0.5))
        step += total[:, None] + _extra_step(events.sum(axis=0), expected.sum(axis=0), at_risk)
        correction += np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
    return correction


def _extra_step(events: FloatArray, expected: FloatArray, at_risk: FloatArray) -> FloatArray:
    """What the steps of (74) lack where most people at risk have an event, (M,).

    Hazards near 1 hardly rise with margins, so that the number of expected events is off by more
    than the steps make up for. With the rest they are those of Newton for the events of any cause.
    """
    free = 1 - expected / np.maximum(at_risk, expected + 1e-9)
    is_slow = (free < _FEW_EVENT_FREE) & (events >= _FEWEST_EVENTS)
    lacks = np.where(is_slow, 1 / np.maximum(free, 1e-9) - 1, 0.0)
    extra: FloatArray = lacks * np.log((events + 1) / (expected + 1))
    return extra


def mixture_weights(
    likelihood: FloatArray,
    weight: FloatArray | None = None,
    reduction: Reduction = LOCAL,
) -> FloatArray:
    """Mixture weights of several models that maximise the likelihood, equation (76).

    Parameters
    ----------
    likelihood : array of shape (n_models, n_samples)
        l of (75).
    weight : array of shape (n_samples,), optional
        Sample weights.
    reduction : Reduction
        Sums over all processes.

    Examples
    --------
    >>> mixture_weights(np.array([[0.5, 0.5], [0.1, 0.1]])).round(3)
    array([1., 0.])
    """
    n_models, n_samples = likelihood.shape
    total = reduction.sum(n_samples if weight is None else weight.sum())
    pi = np.full(n_models, 1 / n_models)
    for _ in range(_MIXTURE_STEPS):
        joint = pi[:, None] * likelihood
        joint /= joint.sum(axis=0)
        if weight is not None:
            joint *= weight
        pi = reduction.sum(joint.sum(axis=1)) / total
    return pi


def selected_weights(
    likelihood: FloatArray,
    cost: FloatArray,
    weight: FloatArray | None = None,
    reduction: Reduction = LOCAL,
) -> FloatArray:
    """Mixture weights of the subset of models that maximises (82); 0 for the other models.

    Parameters
    ----------
    likelihood : array of shape (n_models, n_samples)
        l of (75).
    cost : array of shape (n_models,)
        c.
    weight, reduction
        As in `mixture_weights`. Sample weights have mean 1.

    Examples
    --------
    >>> likelihood = np.array([[0.5, 0.5, 0.4], [0.4, 0.4, 0.6]])
    >>> selected_weights(likelihood, np.array([0.0, 1.0]))
    array([1., 0.])
    """
    n_models = len(likelihood)
    best, found = -np.inf, np.zeros(n_models)
    for size in range(1, n_models + 1):
        for subset in map(list, combinations(range(n_models), size)):
            some = likelihood[subset]
            pi = mixture_weights(some, weight, reduction) if size > 1 else np.ones(1)
            log_likelihood = np.log(pi @ some)
            own = log_likelihood.sum() if weight is None else log_likelihood @ weight
            criterion = float(reduction.sum(own)) - cost[subset].sum()
            if criterion > best:
                best, found = criterion, np.zeros(n_models)
                found[subset] = pi
    return found

r"""Influence of every person on a score, including the estimation of the weights.

A score L is a function of the outcomes and, through the weights (20), of the Kaplan-Meier curve G.
To first order its error is a sum over people, of a part from being scored and a part from having
taken part in the estimation of G:

    L - L_true = sum_i c_i + sum_l g_l.                                                         (62)

c_i is s_i times the derivative of L by the weight s_i at fixed G. For a mean (22) with terms
a_i = w_i(z) score_i, with (28) and with (26), p_i = sum_j b_j psi_ij, q_j = sum_i a_i psi_ij,
psi_ij = [r_i > r_j] + [r_i = r_j] / 2:

    c_i = s_i (a_i - L) / sum_j s_j                                                             (63)
    c_i = (a_i (p_i - L sum_j b_j) + b_i (q_i - L sum_j a_j)) / (sum_j a_j sum_j b_j)           (64)
    c_i = sum_j (P_ij (psi_ij - L) + P_ji (psi_ji - L)) / sum_ij P_ij                           (65)

Each weight is a product of factors 1 / G. Let m_i(u) be the part of L (of L - L_true for ratios)
that is multiplied by factors of G which a censoring at u changes, and R(u) = sum_i m_i(u). With
C(u) the censored at u, N(u) those at risk of it, and dM_l(u) = [t_l = u, d_l = 0] - [l in N(u)]
C(u) / N(u), all by sample weight,

    g_l = s_l sum_u R(u) dM_l(u) / N(u).                                                        (66)

Both parts sum to 0, so that sum_i c_i^2 (or of c_i + g_i, where the people scored are those of G)
estimates the variance; it is multiplied by n / (n - 1), as riskRegression does. Predictions and any
other model of censoring count as given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import check_groups
from survival_objectives.metrics._concordance import (
    Pairs,
    cases_and_controls,
    changing_risk_pairs,
    comparable_pairs,
)
from survival_objectives.metrics._inputs import (
    CensoringSample,
    ScoredPeople,
    Weights,
    censoring_at_exit,
)


@dataclass(frozen=True)
class Influence:
    """A score with the parts (62) of its error."""

    value: FloatArray  # (...)
    people: FloatArray  # (n_samples, ...): of the people scored.
    training: FloatArray | None  # (n_training, ...): of the people of G, where they are others.

    def variance(self) -> FloatArray:
        """Variance of ``value``."""
        total = _sum_of_squares(self.people)
        return total if self.training is None else total + _sum_of_squares(self.training)

    def map(self, function: Callable[[FloatArray], FloatArray]) -> Influence:
        """The influence of a linear function of the values.

        ``function`` takes arrays of shape (n, ...) to arrays of shape (n, ...).
        """
        training = None if self.training is None else function(self.training)
        return Influence(function(self.value[None])[0], function(self.people), training)

    def summed(self, groups: Any) -> Influence:
        """The same with one part per group of the people scored; unchanged without groups."""
        group = check_groups(groups, len(self.people))
        if group is None:
            return self
        people = np.zeros((int(group.max()) + 1, *self.people.shape[1:]))
        np.add.at(people, group, self.people)
        return Influence(self.value, people, self.training)

    def __sub__(self, other: Influence) -> Influence:
        training = None
        if self.training is not None and other.training is not None:
            training = self.training - other.training
        return Influence(self.value - other.value, self.people - other.people, training)


def _sum_of_squares(parts: FloatArray) -> FloatArray:
    n_people = len(parts)
    if n_people < 2:
        return np.full(parts.shape[1:], np.nan)
    total: FloatArray = np.einsum("i...,i...->...", parts, parts) * (n_people / (n_people - 1))
    return total


def stacked(parts: list[Influence]) -> Influence:
    """Influences of several scores as one, on a new axis before the times."""
    training = [part.training for part in parts if part.training is not None]
    return Influence(
        np.stack([part.value for part in parts]),
        np.stack([part.people for part in parts], axis=1),
        np.stack(training, axis=1) if training else None,
    )


# ------------------------------------------------------------------------------------------ scores
def mean_influence(
    scored: ScoredPeople, weights: Weights, terms: FloatArray, floor: float
) -> Influence:
    """Of a weighted mean (22) or (23), from its terms of shape (n_samples, n_times)."""
    share = scored.sample_weight / scored.sample_weight.sum()
    mean = share @ terms
    people = share[:, None] * (terms - mean)
    mass = share[:, None] * terms
    return _with_censoring(scored, weights, mean, people, mass, floor)


def auc_influence(
    scored: ScoredPeople,
    weights: Weights,
    code: int,
    risk: FloatArray,
    controls: str,
    floor: float,
) -> Influence:
    r"""Of the area under the ROC curve, by (64).

        AUC_k(z) = sum_ij a_i b_j ([r_i > r_j] + [r_i = r_j] / 2) / (sum_i a_i sum_j b_j)       (28)
        a_i = s_i w_i(z) [t_i <= z, d_i = k]
        b_j = s_j w_j(z) (1 - [t_j <= z, d_j = k])    or    s_j w_j(z) [t_j > z]                (29)

    with w of (20) and r the predicted incidences. Controls are all others or, with
    ``controls="event-free"``, those to whom nothing has happened.
    """
    case, control = cases_and_controls(scored, weights, code, controls)
    value, people = np.empty(len(scored.times)), np.empty(case.shape)
    for column in range(len(scored.times)):
        a, b = case[:, column], control[:, column]
        total = a.sum() * b.sum()
        if total == 0:
            value[column], people[:, column] = np.nan, np.nan
            continue
        rank = np.unique(risk[:, column], return_inverse=True)[1]
        cases, controls_of = np.bincount(rank, weights=a), np.bincount(rank, weights=b)
        lower_controls = (np.cumsum(controls_of) - controls_of / 2)[rank]
        higher_cases = (a.sum() - np.cumsum(cases) + cases / 2)[rank]
        auc = a @ lower_controls / total
        value[column] = auc
        people[:, column] = a * (lower_controls - auc * b.sum())
        people[:, column] += b * (higher_cases - auc * a.sum())
        people[:, column] /= total
    return _with_censoring(scored, weights, value, people, people, floor)


def concordance_influence(
    scored: ScoredPeople, code: int, risk: FloatArray, floor: float
) -> Influence:
    r"""Of the concordance, by (65); ``risk`` has one column per time.

        C_k(z) = sum_ij P_ij ([r_i > r_j] + [r_i = r_j] / 2) / sum_ij P_ij                      (26)
        P_ij = s_i s_j [t_i <= z, d_i = k] (
                   [t_j > t_i or (t_j = t_i and d_j = 0)] / (G(t_i-|x_i) G(t_i-|x_j))
                 + [t_j <= t_i, d_j not in {0, k}] / (G(t_i-|x_i) G(t_j-|x_j)) )                (27)

    with r_i = F_k(z|x_i). It estimates the concordance of uncensored data where the event time is
    independent of the censoring time given x; Kaplan-Meier weights need censoring that does not
    depend on x. With late entry, G = 1 and pairs are those of (24).
    """
    uncensored = censoring_at_exit(scored, floor)
    n_samples, n_times = risk.shape
    value = np.full(n_times, np.nan)
    people, mass = np.full(risk.shape, np.nan), np.full(risk.shape, np.nan)
    for column, horizon in enumerate(scored.times):
        pairs = comparable_pairs(scored, code, risk[:, column], horizon, uncensored, floor)
        value[column] = pairs.index_up_to(float(horizon))
        if not np.isnan(value[column]):
            people[:, column], mass[:, column] = _pair_parts(pairs, value[column], n_samples)
    # A probability at the floor does not move with the data.
    mass[uncensored <= floor] = 0
    return _combined(scored, value, people, mass, np.zeros(n_times))


def changing_concordance_influence(scored: ScoredPeople, code: int, risk: FloatArray) -> Influence:
    r"""Of the concordance of risks at the time of the event (Antolini et al., 2005).

        C_k(z) = sum_ij P_ij ([r_i > r_j] + [r_i = r_j] / 2) / sum_ij P_ij                     (24)
        P_ij = s_i s_j [t_i <= z, d_i = k, entry_j < t_i, t_j > t_i or (t_j = t_i and d_j != k)]

    with r the risks at the first of the times that is not before t_i.
    """
    order = np.argsort(scored.times, kind="stable")
    ordered = replace(scored, times=scored.times[order])
    concordant, total = changing_risk_pairs(ordered, code, risk[:, order])
    pairs = total.sum(axis=0)
    some = np.where(pairs > 0, pairs, np.nan)
    value = concordant.sum(axis=0) / some
    people = 2 * (concordant - value * total) / some
    back = np.argsort(order)
    return Influence(value[back], people[:, back], None)


def _pair_parts(pairs: Pairs, index: float, n_samples: int) -> tuple[FloatArray, FloatArray]:
    """The parts (65), and the m_i of (66): all factors are read at exits."""
    total = (pairs.later + pairs.never)[1].sum()

    def excess(sums: FloatArray) -> FloatArray:
        difference: FloatArray = (sums[0] - index * sums[1]) / total
        return difference

    as_first_later, as_first_never = np.zeros(n_samples), np.zeros(n_samples)
    as_first_later[pairs.first] = excess(pairs.later)
    as_first_never[pairs.first] = excess(pairs.never)
    never = excess(pairs.partner_never)
    people = as_first_later + as_first_never + excess(pairs.partner_later) + never
    # Both factors of a pair whose partner is later are read at the exit of the first.
    mass = 2 * as_first_later + as_first_never + never
    return people, mass


# --------------------------------------------------------------------------------------- censoring
def _with_censoring(
    scored: ScoredPeople,
    weights: Weights,
    value: FloatArray,
    people: FloatArray,
    mass: FloatArray,
    floor: float,
) -> Influence:
    """Add the part of G where each person's weight is (20)."""
    value = weights.blank_unknown(value)
    people = np.where(weights.known, people, np.nan)
    at_risk = scored.target.duration[:, None] > scored.times
    # A probability at the floor does not move with the data.
    moves = (weights.values * floor < 1) & ~np.isnan(mass)
    at_horizon = np.where(at_risk & moves, mass, 0).sum(axis=0)
    at_exit = np.where(~at_risk & moves, mass, 0)
    return _combined(scored, value, people, at_exit, at_horizon)


def _combined(
    scored: ScoredPeople,
    value: FloatArray,
    people: FloatArray,
    at_exit: FloatArray,
    at_horizon: FloatArray,
) -> Influence:
    sample = scored.sample
    if sample is None or not (sample.target.event == 0).any():
        return Influence(value, people, None)
    training = _censoring_parts(sample, scored.target.duration, scored.times, at_exit, at_horizon)
    if sample.rows is None:
        return Influence(value, people, np.where(np.isnan(value), np.nan, training))
    training[sample.rows] += people
    return Influence(value, training, None)


def _censoring_parts(
    sample: CensoringSample,
    duration: FloatArray,
    times: FloatArray,
    at_exit: FloatArray,
    at_horizon: FloatArray,
) -> FloatArray:
    """The g_l of (66), (n_training, n_times).

    ``at_exit``, (n_samples, n_times), is what each person's factors of G(t_i-) multiply;
    ``at_horizon``, (n_times,), what the factors of G(z) multiply, in total.
    """
    target, weight = sample.target, sample.weight
    is_censored = target.event == 0
    jumps = np.unique(target.duration[is_censored & (weight > 0)])
    own = np.flatnonzero(is_censored & (weight > 0))
    own_jump = np.searchsorted(jumps, target.duration[own])
    censored = np.bincount(own_jump, weights=weight[own], minlength=len(jumps))
    # At risk of being censored at u: seen after u, or censored at u.
    reached = np.searchsorted(jumps, target.duration, side="left") + (
        is_censored & np.isin(target.duration, jumps)
    )
    at_risk = _tail_sums(reached, weight[:, None], len(jumps))[:, 0]
    entered = np.zeros(len(weight), np.int64)
    if target.entry is not None:
        late = target.entry > 0
        entered[late] = np.searchsorted(jumps, target.entry[late], side="right")
        at_risk -= _tail_sums(entered, weight[:, None], len(jumps))[:, 0]
    # G(t-) has the factors of all jumps before t.
    moved = _tail_sums(np.searchsorted(jumps, duration, side="left"), at_exit, len(jumps))
    moved += at_horizon * (jumps[:, None] <= times)
    per_person = moved / at_risk[:, None]
    expected = np.zeros((len(jumps) + 1, len(times)))
    np.cumsum(per_person * (censored / at_risk)[:, None], axis=0, out=expected[1:])
    parts: FloatArray = expected[entered] - expected[np.maximum(reached, entered)]
    parts[own] += per_person[own_jump]
    parts *= weight[:, None]
    return parts


def _tail_sums(n_reached: IntArray, values: FloatArray, size: int) -> FloatArray:
    """For each of ``size`` jumps, the sum over rows that reach it: ``n_reached`` > its position."""
    total = np.empty((size, values.shape[1]))
    for column in range(values.shape[1]):
        by_count = np.bincount(n_reached, weights=values[:, column], minlength=size + 1)
        total[:, column] = np.cumsum(by_count[:0:-1])[::-1]
    return total


def ratio_influence(found: Influence, null: Influence) -> Influence:
    """Influence on 1 - BS / BS_null; the null model is where its score does not move."""
    some = np.where(null.value > 0, null.value, np.nan)
    ratio = found.value / some

    def part(of: FloatArray, of_null: FloatArray) -> FloatArray:
        result: FloatArray = (ratio * of_null - of) / some
        return result

    training = None
    if found.training is not None and null.training is not None:
        training = part(found.training, null.training)
    return Influence(1 - ratio, part(found.people, null.people), training)

r"""Discrimination: concordance indices and time-dependent AUC.

These judge the order of the predicted risks only. None of them is a proper score: a model can be
ranked above the truth by C (Blanche et al., 2019), and any increasing transformation of the risks
leaves them as they are. Higher is better, 0.5 is chance. The AUC at z, with all others as controls,
is largest for the order of the true F_k(z|x).

For cause k and horizon z let r_i = F_k(z|x_i); for k = 0 any event counts and r_i = 1 - F_0(z|x_i).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import BoolArray, FloatArray, IntArray
from survival_objectives._people import SurvivalTarget
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.metrics._inputs import (
    ScoredPeople,
    Weights,
)

# Pairs held in memory at a time by the concordance with a conditional model of censoring.
_BLOCK_PAIRS = 2_000_000


def cases_and_controls(
    scored: ScoredPeople, weights: Weights, code: int, controls: str
) -> tuple[FloatArray, FloatArray]:
    """Weights a and b of (29), both (n_samples, n_times)."""
    target = scored.target
    weight = weights.values * scored.sample_weight[:, None]
    happened = target.duration[:, None] <= scored.times
    is_case = happened & ((target.event > 0) if code == 0 else target.event == code)[:, None]
    is_control = ~is_case if controls == "all" else ~happened
    return weight * is_case, weight * is_control


# ------------------------------------------------------------------- risks that change with time
def changing_risk_pairs(
    scored: ScoredPeople, code: int, risk: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Concordant and all pairs (24) by people and time, each (n_samples, n_times).

    A pair counts for both of its people, half each, and at all times from its event on. ``risk``
    has one column per time, in increasing order; an event is compared by the first from it on.
    """
    target, s, times = scored.target, scored.sample_weight, scored.times
    is_event = target.event == code if code else target.event > 0
    entry = np.zeros(target.n_samples) if target.entry is None else target.entry
    concordant, total = np.zeros(risk.shape), np.zeros(risk.shape)
    start = -1.0
    for column, end in enumerate(times):
        inside = (target.duration > start) & (target.duration <= end)
        first = np.flatnonzero(inside & is_event & (s > 0))
        if len(first):
            # People at risk at all events of the column need only be sorted by risk ...
            whole = np.flatnonzero((target.duration > end) & ((entry <= max(start, 0)) & (s > 0)))
            part = np.flatnonzero(
                (inside | ((target.duration > end) & (entry > max(start, 0)) & (entry < end)))
                & (s > 0)
            )
            risks = risk[:, column]
            for others, pairs in (
                (whole, _sorted_pairs(risks, s, first, whole)),
                (part, _pairs_at_risk(target, entry, is_event, risks, s, first, part)),
            ):
                for result, (of_first, of_others) in zip((concordant, total), pairs, strict=True):
                    result[first, column] += of_first / 2
                    result[others, column] += of_others / 2
        start = end
    return np.cumsum(concordant, axis=1), np.cumsum(total, axis=1)


def _sorted_pairs(
    risk: FloatArray, weight: FloatArray, first: IntArray, others: IntArray
) -> list[tuple[FloatArray, FloatArray]]:
    """Concordant and all pairs of people with an event and others who all are at risk then."""
    own, other = weight[first], weight[others]

    def lower(of: IntArray, than: IntArray) -> FloatArray:
        order = np.argsort(risk[of], kind="stable")
        sums = np.concatenate([[0.0], np.cumsum(weight[of][order])])
        sorted_risk = risk[of][order]
        below = sums[np.searchsorted(sorted_risk, risk[than], side="left")]
        upto = sums[np.searchsorted(sorted_risk, risk[than], side="right")]
        middle: FloatArray = (below + upto) / 2
        return middle

    of_first = own * lower(others, first)
    of_others = other * (own.sum() - lower(first, others))
    return [(of_first, of_others), (own * other.sum(), other * own.sum())]


def _pairs_at_risk(
    target: SurvivalTarget,
    entry: FloatArray,
    is_event: BoolArray,
    risk: FloatArray,
    weight: FloatArray,
    first: IntArray,
    others: IntArray,
) -> list[tuple[FloatArray, FloatArray]]:
    """The same where some of the others are at risk at some of the events only."""
    rank = np.unique(risk, return_inverse=True)[1].astype(np.int64)
    times = np.unique(target.duration[np.concatenate([first, others])])
    leave = 2 * np.searchsorted(times, target.duration[others]) + ~is_event[others]
    enter = 2 * np.searchsorted(times, entry[others], side="right") - 1
    own, other, at = (
        weight[first],
        weight[others],
        2 * np.searchsorted(times, target.duration[first]),
    )
    late = np.flatnonzero(entry[others] > 0)
    of_first = _sums_over_lower_risks(leave, rank[others], other, at, rank[first])
    of_first -= _sums_over_lower_risks(
        enter[late], rank[others][late], other[late], at, rank[first]
    )
    of_others = _sums_over_higher_risks(at, rank[first], own, leave, rank[others])
    of_others[:, late] -= _sums_over_higher_risks(
        at, rank[first], own, enter[late], rank[others][late]
    )
    of_first, of_others = of_first * own, of_others * other
    return [(of_first[row], of_others[row]) for row in (0, 1)]


# ----------------------------------------------------------------------------------- concordance
@dataclass(frozen=True)
class Pairs:
    """Weights of the pairs (27), summed over partners and over earlier people."""

    first: IntArray  # People with the event, the earlier ones of their pairs.
    duration: FloatArray
    # (2, n_first): sums over partners who have the event later, and over those who never have it:
    # of the concordant pairs, and of all.
    later: FloatArray
    never: FloatArray
    # (2, n_samples): the same sums over the earlier people of all pairs in which a person is the
    # partner.
    partner_later: FloatArray
    partner_never: FloatArray

    def index_up_to(self, horizon: float) -> float:
        """Equation (26) over the events by ``horizon``."""
        counts = self.duration <= horizon
        concordant, total = (self.later + self.never)[:, counts].sum(axis=1)
        if not 0 < total < np.inf:
            return float("nan")
        # The two sums are rounded separately, so a perfect order may exceed 1 slightly.
        return min(float(concordant / total), 1.0)


def comparable_pairs(
    scored: ScoredPeople,
    code: int,
    risk: FloatArray,
    horizon: float,
    uncensored: FloatArray,
    floor: float,
) -> Pairs:
    """Sums over the pairs whose earlier person has the event by ``horizon``.

    ``uncensored`` is G(t_i-|x_i) of every person, not below ``floor``.
    """
    target, weight = scored.target, scored.sample_weight
    event = target.event if code else np.minimum(target.event, 1)
    code = code or 1
    first = np.flatnonzero((event == code) & (target.duration <= horizon))
    competing = np.flatnonzero((event > 0) & (event != code) & (target.duration <= horizon))
    if target.entry is not None:
        competing = competing[:0]  # Only people who are at risk together are compared.
    rank = np.unique(risk, return_inverse=True)[1].astype(np.int64)
    inverse = np.divide(1.0, uncensored, out=np.zeros(len(rank)), where=uncensored > 0)
    own = (weight * inverse)[first]

    if scored.X is None or isinstance(scored.censoring, KaplanMeierCensoring | None):
        # An event at t comes before a censoring at t: the odd keys are the censorings.
        # Among people at risk together, other causes end a time at risk as a censoring does.
        stays = event == 0 if target.entry is None else event != code
        key = 2 * np.unique(target.duration, return_inverse=True)[1] + stays
        later = _sums_over_lower_risks(key, rank, weight, key[first], rank[first])
        if target.entry is not None:
            # Nor are people at risk who enter at t or later, whose keys are all larger too.
            entered, late = _keys_of_entries(target)
            later -= _sums_over_lower_risks(
                entered, rank[late], weight[late], key[first], rank[first]
            )
        later *= inverse[first] * own
        earlier = (key[first], rank[first], own * inverse[first])
        partner_later = weight * _sums_over_higher_risks(*earlier, key, rank)
        if target.entry is not None:
            partner_later[:, late] -= weight[late] * _sums_over_higher_risks(
                *earlier, entered, rank[late]
            )
    else:
        later, partner_later = _later_one_by_one(scored, event, rank, first, own, floor)
    # A person with another cause before, or at the same time, never has this one. Minus time turns
    # "not after" into "not before", and half a step makes it strict.
    time_rank = np.unique(target.duration, return_inverse=True)[1].astype(np.int64)
    back = 2 * (time_rank.max() - time_rank)
    never = own * _sums_over_lower_risks(
        back[competing] + 1,
        rank[competing],
        (weight * inverse)[competing],
        back[first],
        rank[first],
    )
    partner_never = np.zeros((2, len(rank)))
    partner_never[:, competing] = (weight * inverse)[competing] * _sums_over_higher_risks(
        back[first], rank[first], own, back[competing] + 1, rank[competing]
    )
    # From the first infinite weight on, the total is infinite.
    unknown = (uncensored <= 0) | (target.duration > scored.censoring_end)
    is_event = (event > 0) & ((event == code) | (target.duration <= horizon))
    impossible = target.duration[unknown & (weight > 0) & is_event]
    if len(impossible):
        later[1, target.duration[first] >= impossible.min()] = np.inf
    return Pairs(first, target.duration[first], later, never, partner_later, partner_never)


def _keys_of_entries(target: SurvivalTarget) -> tuple[IntArray, IntArray]:
    """Place of each late entry among the events of `comparable_pairs`, after those of its time."""
    assert target.entry is not None
    late = np.flatnonzero(target.entry > 0)
    # The events before or at the entry are those that the person was not at risk of.
    place = np.searchsorted(np.unique(target.duration), target.entry[late], side="right")
    return 2 * place - 1, late


def _later_one_by_one(
    scored: ScoredPeople,
    event: npt.NDArray[np.int32],
    rank: IntArray,
    first: IntArray,
    own: FloatArray,
    floor: float,
) -> tuple[FloatArray, FloatArray]:
    # G(t_i-|x_j) differs from pair to pair, so there is nothing to sort.
    target = scored.target
    sums, partner_sums = np.zeros((2, len(first))), np.zeros((2, target.n_samples))
    size = max(1, _BLOCK_PAIRS // target.n_samples)
    for start in range(0, len(first), size):
        block = first[start : start + size]
        exits = target.duration[block]
        at_exits = np.broadcast_to(exits, (target.n_samples, len(block)))
        uncensored = scored.uncensored(at_exits, left=True)
        later = (target.duration[:, None] > exits) | (
            (target.duration[:, None] == exits) & (event == 0)[:, None]
        )
        later &= (scored.sample_weight > 0)[:, None]
        with np.errstate(divide="ignore"):
            pairs = np.where(later, 1 / np.maximum(uncensored, floor), 0)
        rows = slice(start, start + len(block))
        pairs *= scored.sample_weight[:, None]
        np.multiply(pairs, own[rows], out=pairs, where=later & (own[rows] > 0))
        lower = (rank[:, None] < rank[block]) + 0.5 * (rank[:, None] == rank[block])
        concordant = np.multiply(pairs, lower, out=np.zeros(pairs.shape), where=lower > 0)
        for position, part in enumerate((concordant, pairs)):
            sums[position, rows] = part.sum(axis=0)
            partner_sums[position] += part.sum(axis=1)
    return sums, partner_sums


def _sums_over_lower_risks(
    key: IntArray,
    rank: IntArray,
    weight: FloatArray,
    query_key: IntArray,
    query_rank: IntArray,
) -> FloatArray:
    """For every query, the weight of points with a larger key: of lower rank, and in all.

    Points of equal rank count half in the first of the two rows.
    """
    if len(key) == 0 or len(query_key) == 0:
        return np.zeros((2, len(query_key)))
    order = np.argsort(key, kind="stable")
    tail = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    total = tail[np.searchsorted(key[order], query_key, side="right")]
    strict, weak = np.split(
        dominance_sums(
            key,
            rank,
            weight,
            np.concatenate([query_key, query_key]),
            np.concatenate([query_rank, query_rank + 1]),
        ),
        2,
    )
    return np.stack([(strict + weak) / 2, total])


def _sums_over_higher_risks(
    key: IntArray,
    rank: IntArray,
    weight: FloatArray,
    query_key: IntArray,
    query_rank: IntArray,
) -> FloatArray:
    """The same sums over the points with a smaller key, and there of higher rank."""
    if len(key) == 0 or len(query_key) == 0:
        return np.zeros((2, len(query_key)))
    last_key, last_rank = max(key.max(), query_key.max()), max(rank.max(), query_rank.max())
    return _sums_over_lower_risks(
        last_key - key, last_rank - rank, weight, last_key - query_key, last_rank - query_rank
    )


def dominance_sums(
    key: IntArray,
    rank: IntArray,
    weight: FloatArray,
    query_key: IntArray,
    query_rank: IntArray,
) -> FloatArray:
    """Total weight of the points with key > query_key and rank < query_rank, for every query.

    Points and queries are sorted by falling key. They are split by the bits of the
    ranks, the highest first, as in a radix sort: a point lies below a query exactly if, at the
    first bit where their ranks differ, the point has 0 and the query 1. So each query collects,
    level by level, the points of its own group that precede it and have bit 0: O(n) numpy
    work per level, O(n log n) in total.
    """
    n_points = len(key)
    keys = np.concatenate([key, query_key])
    is_point = np.arange(len(keys)) < n_points
    # A query precedes the points of its own key, which it must not count.
    line = np.lexsort((is_point, -keys))
    ranks = np.concatenate([rank, query_rank]).astype(np.int64)[line]
    weights = np.concatenate([weight, np.zeros(len(query_key))])[line]
    collected = np.zeros(len(keys))
    for bit in reversed(range(int(ranks.max()).bit_length())):
        is_one = (ranks >> bit & 1).astype(np.bool_)
        group = ranks >> (bit + 1)
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        sizes = np.diff(starts, append=len(group))
        before = np.cumsum(np.where(is_one, 0.0, weights))
        at_start = np.concatenate([[0.0], before])[starts]
        collected[line[is_one]] += (before - np.repeat(at_start, sizes))[is_one]
        # The zeros of each group move before its ones, both in their order.
        order = np.argsort(ranks >> bit, kind="stable")
        line, ranks, weights = line[order], ranks[order], weights[order]
    return collected[n_points:]

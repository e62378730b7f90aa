r"""Discrimination: concordance indices and time-dependent AUC.

These judge the order of the predicted risks only. None of them is a proper score: a model can be
ranked above the truth by C (Blanche et al., 2019), and any increasing transformation of the risks
leaves them as they are. Higher is better, 0.5 is chance. The AUC at z, with all others as controls,
is largest for the order of the true F_k(z|x).

For cause k and horizon z let r_i = F_k(z|x_i); for k = 0 any event counts and r_i = 1 - F_0(z|x_i).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import BoolArray, FloatArray, IntArray
from survival_objectives._people import check_choice, check_survival_target, check_times
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.metrics._inputs import (
    Evaluation,
    Weights,
    censoring_at_exit,
    check_evaluation,
    ipcw_weights,
    warn_follow_up,
)

# Pairs held in memory at a time by the concordance with a conditional model of censoring.
_BLOCK_PAIRS = 2_000_000


def concordance_index(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    weighted: bool = True,
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_censoring_survival: float = 0.0,
) -> FloatArray:
    r"""Concordance index at each horizon, the paper's C_zeta, of one cause or of all.

        C_k(z) = sum_ij P_ij ([r_i > r_j] + [r_i = r_j] / 2) / sum_ij P_ij                      (26)
        P_ij = s_i s_j [t_i <= z, d_i = k] (
                   [t_j > t_i or (t_j = t_i and d_j = 0)] / (G(t_i-|x_i) G(t_i-|x_j))
                 + [t_j <= t_i, d_j not in {0, k}] / (G(t_i-|x_i) G(t_j-|x_j)) )                (27)

    so that a person who had cause k by z is compared with those who had it later or, as a competing
    event came first, never (Wolbers et al., 2014). It estimates the concordance of uncensored data
    where the event time is independent of the censoring time given x; Kaplan-Meier weights need
    censoring that does not depend on x. ``weighted=False`` puts G = 1, as Harrell does: what it
    estimates then depends on the censoring. Not proper.

    Parameters
    ----------
    censoring, y_test, incidence, times, cause, X, sample_weight, event_ids, min_censoring_survival
        As in `weighted_score`. Row 0 of all curves is the concordance of any event. With a
        conditional model, all pairs are weighted one by one: O(n^2) calls of G, else O(n log n).
    weighted : bool, default=True
        Whether pairs are weighted for censoring.

    Returns
    -------
    float64 array of shape (n_times,), or (K + 1, n_times) for all curves
        NaN, with a `FollowUpWarning`, where no pair can be compared or a weight is infinite.

    Examples
    --------
    >>> y = ([1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    >>> concordance_index(y, y, [[0.1], [0.5], [0.6], [0.4]], [3.5]).round(3)
    array([0.571])
    """
    shared = (cause, X, sample_weight, event_ids)
    evaluation = check_evaluation(censoring, y_test, incidence, times, *shared, weighted=weighted)
    uncensored = censoring_at_exit(evaluation, min_censoring_survival)
    rows = []
    for code, risk in evaluation.risks(cause):
        values = np.empty(len(evaluation.times))
        for column, horizon in enumerate(evaluation.times):
            pairs = comparable_pairs(
                evaluation, code, risk[:, column], horizon, uncensored, min_censoring_survival
            )
            values[column] = pairs.index_up_to(horizon)
        rows.append(values)
    scores = np.stack(rows)
    warn_undefined(evaluation.times, scores)
    return scores[0] if evaluation.incidence.ndim == 2 or cause is not None else scores


def uno_concordance_index(
    censoring: Any,
    y_test: Any,
    risk: npt.ArrayLike,
    times: npt.ArrayLike | None = None,
    *,
    cause: int = 0,
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_censoring_survival: float = 0.0,
) -> FloatArray:
    r"""Concordance index of one risk per person, weighted for censoring, truncated at each time.

    Equations (26) and (27) with risks r_i that do not depend on the horizon z. For K = 1 and
    Kaplan-Meier censoring this is the index of Uno et al. (2011). Assumptions as in
    `concordance_index`. Not proper.

    Parameters
    ----------
    censoring, y_test, X, sample_weight, event_ids, min_censoring_survival
        As in `weighted_score`.
    risk : array of shape (n_samples,)
        Any finite numbers, higher for people who have the cause earlier.
    times : array of shape (n_times,), optional
        Only people with the event by this time count as the earlier one of a pair. Default: the
        longest duration, all events.
    cause : int, default=0
        Label of a cause, or 0 for any event.

    Returns
    -------
    float64 array of shape (n_times,)
        NaN, with a `FollowUpWarning`, where no pair can be compared or a weight is infinite.

    Examples
    --------
    >>> y = ([1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    >>> uno_concordance_index(y, y, [4.0, 3.0, 1.0, 2.0]).round(3)
    array([0.571])
    """
    shared = (cause, X, sample_weight, event_ids)
    evaluation, score = check_risk(censoring, y_test, risk, times, *shared)
    horizons = evaluation.times
    pairs = comparable_pairs(
        evaluation,
        evaluation.cause_code(cause),
        score,
        horizons.max(),
        censoring_at_exit(evaluation, min_censoring_survival),
        min_censoring_survival,
    )
    scores = np.array([pairs.index_up_to(horizon) for horizon in horizons])
    warn_undefined(horizons, scores)
    return scores


def check_risk(
    censoring: Any,
    y_test: Any,
    risk: npt.ArrayLike,
    times: npt.ArrayLike | None,
    cause: int,
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
) -> tuple[Evaluation, FloatArray]:
    """Checked arguments of `uno_concordance_index`, and the risks."""
    score = np.asarray(risk, dtype=np.float64)
    if score.ndim != 1 or not np.isfinite(score).all():
        msg = f"`risk` must be one finite number per person; got shape {score.shape}."
        raise ValueError(msg)
    if times is None:
        times = check_survival_target(y_test, require_event=False).duration.max()
    horizons = check_times(times)
    # Only the number of people matters: `risk` has no time.
    no_curves = np.zeros((len(score), len(horizons)))
    shared = (cause, X, sample_weight, event_ids)
    return check_evaluation(censoring, y_test, no_curves, horizons, *shared), score


def time_dependent_auc(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    controls: str = "all",
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_censoring_survival: float = 0.0,
) -> FloatArray:
    r"""Area under the cumulative/dynamic ROC curve at each time, of one cause or of all.

        AUC_k(z) = sum_ij a_i b_j ([r_i > r_j] + [r_i = r_j] / 2) / (sum_i a_i sum_j b_j)       (28)
        a_i = s_i w_i(z) [t_i <= z, d_i = k]
        b_j = s_j w_j(z) (1 - [t_j <= z, d_j = k])    or    s_j w_j(z) [t_j > z]                (29)

    with w of (20): cases have had cause k by z. Controls are all others, or with
    ``controls="event-free"`` only those to whom nothing has happened (Blanche et al., 2013); the
    two agree for K = 1. It estimates the AUC of uncensored data under the assumptions of
    `weighted_score`. Not proper: it does not see calibration.

    Parameters
    ----------
    censoring, y_test, incidence, times, cause, X, sample_weight, event_ids, min_censoring_survival
        As in `weighted_score`. Row 0 of all curves is the AUC of any event.
    controls : {"all", "event-free"}, default="all"
        Which people are controls.

    Returns
    -------
    float64 array of shape (n_times,), or (K + 1, n_times) for all curves
        NaN, with a `FollowUpWarning`, beyond follow-up and where there is no case or no control.

    Examples
    --------
    >>> y = ([1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    >>> time_dependent_auc(y, y, [[0.1], [0.5], [0.6], [0.4]], [3.5])
    array([0.4])
    """
    check_choice(controls, "controls", ("all", "event-free"))
    shared = (cause, X, sample_weight, event_ids)
    evaluation = check_evaluation(censoring, y_test, incidence, times, *shared)
    weights = ipcw_weights(evaluation, min_censoring_survival)
    rows = []
    for code, risk in evaluation.risks(cause):
        case, control = cases_and_controls(evaluation, weights, code, controls)
        rows.append(
            [_auc(risk[:, j], case[:, j], control[:, j]) for j in range(len(evaluation.times))]
        )
    scores = weights.blank_unknown(np.array(rows))
    warn_undefined(evaluation.times, scores)
    return scores[0] if evaluation.incidence.ndim == 2 or cause is not None else scores


def cases_and_controls(
    evaluation: Evaluation, weights: Weights, code: int, controls: str
) -> tuple[FloatArray, FloatArray]:
    """Weights a and b of (29), both (n_samples, n_times)."""
    target = evaluation.target
    weight = weights.values * evaluation.sample_weight[:, None]
    happened = target.duration[:, None] <= evaluation.times
    is_case = happened & ((target.event > 0) if code == 0 else target.event == code)[:, None]
    is_control = ~is_case if controls == "all" else ~happened
    return weight * is_case, weight * is_control


def _auc(risk: FloatArray, case: FloatArray, control: FloatArray) -> float:
    total = case.sum() * control.sum()
    if total == 0:
        return float("nan")
    values, rank = np.unique(risk, return_inverse=True)
    cases = np.bincount(rank, weights=case, minlength=len(values))
    controls = np.bincount(rank, weights=control, minlength=len(values))
    return float(cases @ (np.cumsum(controls) - controls / 2) / total)


def warn_undefined(times: FloatArray, scores: FloatArray, *, depth: int = 1) -> None:
    """Warn at which times a score is NaN; ``depth`` as in `warn_follow_up`."""
    defined = np.asarray(~np.isnan(np.atleast_2d(scores)).any(axis=0))
    if not defined.all():
        reason = (
            "there is no pair of people to compare, or the probability of being uncensored is 0 or "
            "unknown. Ask for times after the first event and before the last censoring."
        )
        warn_follow_up(times, defined, reason, "The values there are NaN.", depth=depth)


# ----------------------------------------------------------------------------------- concordance
@dataclass(frozen=True)
class Pairs:
    """Weights of the pairs (27), summed over partners and, if asked for, over earlier people."""

    first: IntArray  # People with the event, the earlier ones of their pairs.
    duration: FloatArray
    # (2, n_first): sums over partners who have the event later, and over those who never have it:
    # of the concordant pairs, and of all.
    later: FloatArray
    never: FloatArray
    # (2, n_samples): the same sums over the earlier people of all pairs in which a person is the
    # partner.
    partner_later: FloatArray | None = None
    partner_never: FloatArray | None = None

    def index_up_to(self, horizon: float) -> float:
        """Equation (26) over the events by ``horizon``."""
        counts = self.duration <= horizon
        concordant, total = (self.later + self.never)[:, counts].sum(axis=1)
        if not 0 < total < np.inf:
            return float("nan")
        # The two sums are rounded separately, so a perfect order may exceed 1 slightly.
        return min(float(concordant / total), 1.0)


def comparable_pairs(
    evaluation: Evaluation,
    code: int,
    risk: FloatArray,
    horizon: float,
    uncensored: FloatArray,
    floor: float,
    *,
    partners: bool = False,
) -> Pairs:
    """Pairs whose earlier person has the event by ``horizon``; with ``partners``, all their sums.

    ``uncensored`` is G(t_i-|x_i) of every person, not below ``floor``.
    """
    target, weight = evaluation.target, evaluation.sample_weight
    event = target.event if code else np.minimum(target.event, 1)
    code = code or 1
    first = np.flatnonzero((event == code) & (target.duration <= horizon))
    competing = np.flatnonzero((event > 0) & (event != code) & (target.duration <= horizon))
    rank = np.unique(risk, return_inverse=True)[1].astype(np.int64)
    inverse = np.divide(1.0, uncensored, out=np.zeros(len(rank)), where=uncensored > 0)
    own = (weight * inverse)[first]

    partner_later: FloatArray | None = None
    if evaluation.X is None or isinstance(evaluation.censoring, KaplanMeierCensoring | None):
        # An event at t comes before a censoring at t: the odd keys are the censorings.
        key = 2 * np.unique(target.duration, return_inverse=True)[1] + (event == 0)
        later = _sums_over_lower_risks(key, rank, weight, key[first], rank[first])
        later *= inverse[first] * own
        if partners:
            partner_later = weight * _sums_over_higher_risks(
                key[first], rank[first], own * inverse[first], key, rank
            )
    else:
        later, partner_later = _later_one_by_one(evaluation, event, rank, first, own, floor)
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
    partner_never: FloatArray | None = None
    if partners:
        partner_never = np.zeros((2, len(rank)))
        partner_never[:, competing] = (weight * inverse)[competing] * _sums_over_higher_risks(
            back[first], rank[first], own, back[competing] + 1, rank[competing]
        )
    # From the first infinite weight on, the total is infinite.
    unknown = (uncensored <= 0) | (target.duration > evaluation.censoring_end)
    is_event = (event > 0) & ((event == code) | (target.duration <= horizon))
    impossible = target.duration[unknown & (weight > 0) & is_event]
    if len(impossible):
        later[1, target.duration[first] >= impossible.min()] = np.inf
    return Pairs(first, target.duration[first], later, never, partner_later, partner_never)


def _later_one_by_one(
    evaluation: Evaluation,
    event: npt.NDArray[np.int32],
    rank: IntArray,
    first: IntArray,
    own: FloatArray,
    floor: float,
) -> tuple[FloatArray, FloatArray]:
    # G(t_i-|x_j) differs from pair to pair, so there is nothing to sort.
    target = evaluation.target
    sums, partner_sums = np.zeros((2, len(first))), np.zeros((2, target.n_samples))
    size = max(1, _BLOCK_PAIRS // target.n_samples)
    for start in range(0, len(first), size):
        block = first[start : start + size]
        exits = target.duration[block]
        at_exits = np.broadcast_to(exits, (target.n_samples, len(block)))
        uncensored = evaluation.uncensored(at_exits, left=True)
        later = (target.duration[:, None] > exits) | (
            (target.duration[:, None] == exits) & (event == 0)[:, None]
        )
        later &= (evaluation.sample_weight > 0)[:, None]
        with np.errstate(divide="ignore"):
            pairs = np.where(later, 1 / np.maximum(uncensored, floor), 0)
        rows = slice(start, start + len(block))
        pairs *= evaluation.sample_weight[:, None]
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
        line, ranks, weights = _split_groups(is_one, starts, sizes, line, ranks, weights)
    return collected[n_points:]


def _split_groups(
    is_one: BoolArray, starts: IntArray, sizes: IntArray, *arrays: npt.NDArray[Any]
) -> list[npt.NDArray[Any]]:
    """Arrays with the zeros of each group moved before its ones, both in their order."""
    n_ones = np.cumsum(is_one)
    ones_before_group = np.repeat(np.concatenate([[0], n_ones])[starts], sizes)
    ones_in_group = np.repeat(np.add.reduceat(is_one, starts, dtype=np.int64), sizes)
    place = np.arange(len(is_one))
    ones_before = n_ones - is_one - ones_before_group
    start = np.repeat(starts, sizes)
    zeros_in_group = np.repeat(sizes, sizes) - ones_in_group
    position = np.where(is_one, start + zeros_in_group + ones_before, place - ones_before)
    moved = []
    for array in arrays:
        out = np.empty_like(array)
        out[position] = array
        moved.append(out)
    return moved

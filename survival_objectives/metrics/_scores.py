r"""Proper scores at horizons, re-weighted for censoring.

Let Y_k(z) = [t_i <= z, d_i = k] say whether cause k has happened by z, and Y_0(z) = [t_i > z]
whether nothing has. All scores are losses, lower is better, and all means are weighted by
``sample_weight`` s:

    mean_i a_i = sum_i s_i a_i / sum_i s_i.

A score that is (strictly) proper for a binary or categorical outcome stays (strictly) proper for
the incidence at z when it is weighted by (20) with the true G: then the expectation of w_i(z) given
x_i and the uncensored outcome is 1 (Proposition of Alberge et al., AISTATS 2025, appendix). This
needs an event time that is independent of the censoring time given x. Kaplan-Meier weights need
more: censoring that does not depend on x. Otherwise pass a conditional model, or the true one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives._people import check_choice, check_fraction
from survival_objectives.metrics._inputs import ScoredPeople, Weights

# Predicted probabilities need not sum to 1 exactly where they were stored in float16 or by text.
_SUM_TOLERANCE = 1e-3


def integrated_score(
    scores: npt.ArrayLike, times: npt.ArrayLike, *, rule: str = "trapezoid"
) -> FloatArray:
    r"""Mean over time of scores, by the trapezoidal rule from the first time, or by steps from 0.

        IL = 1 / (z_T - z_1) sum_{j=1..T-1} (z_{j+1} - z_j) (L(z_j) + L(z_{j+1})) / 2           (25)

    over the times in increasing order: a horizon drawn uniformly from (z_1, z_T), with L linear
    between the times. Proper where L is. A single time gives its score. With ``rule="steps"``

        IL = 1 / z_T sum_{j=0..T-1} (z_{j+1} - z_j) L(z_j),   z_0 = 0,  L(0) = 0                (60)

    which is what ``riskRegression::Score(summary = "ibs")`` and ``pec::crps`` report in R. It
    agrees with (25) on a fine grid that begins close to 0, is too low on a coarse one, and a single
    time gives 0.

    Parameters
    ----------
    scores : array of shape (..., n_times)
        Times with NaN are left out.
    times : array of shape (n_times,)
        In any order.
    rule : {"trapezoid", "steps"}, default="trapezoid"
        Equation (25), or (60).

    Returns
    -------
    float64 array of shape (...)

    Examples
    --------
    >>> float(integrated_score([0.0, 1.0, 1.0], [0.0, 1.0, 3.0]).round(4))
    0.8333
    """
    check_choice(rule, "rule", ("trapezoid", "steps"))
    values = np.asarray(scores, dtype=np.float64)
    horizon = np.asarray(times, dtype=np.float64)
    if values.shape[-1:] != horizon.shape:
        msg = f"`scores` has shape {values.shape}; its last axis must be the {horizon.size} times."
        raise ValueError(msg)
    known = ~np.isnan(values).any(axis=tuple(range(values.ndim - 1)))
    order = np.flatnonzero(known)[np.argsort(horizon[known], kind="stable")]
    if len(order) == 0:
        return np.full(values.shape[:-1], np.nan)
    values, horizon = values[..., order], horizon[order]
    if rule == "steps":
        if horizon[-1] == 0:
            return np.zeros(values.shape[:-1])
        steps: FloatArray = values[..., :-1] @ (np.diff(horizon) / horizon[-1])
        return steps
    width = np.diff(horizon)
    if not width.any():
        return np.asarray(values.mean(axis=-1))
    mean: FloatArray = (values[..., 1:] + values[..., :-1]) / 2 @ (width / width.sum())
    return mean


def _minus_log(probability: FloatArray, floor: float) -> FloatArray:
    with np.errstate(divide="ignore"):  # Without a floor, an event called impossible costs inf.
        loss: FloatArray = -np.log(np.maximum(probability, floor))
    return loss


def weighted_squared_errors(
    scored: ScoredPeople, weights: Weights, cause: int | None
) -> Iterator[FloatArray]:
    """Terms of the mean (22) of every curve asked for, (n_samples, n_times)."""
    target = scored.target
    happened = target.duration[:, None] <= scored.times
    for code, curve in scored.curves(cause):
        outcome = ~happened if code == 0 else happened & (target.event == code)[:, None]
        yield _product(weights.values, (curve - outcome) ** 2)


def weighted_vector_losses(
    scored: ScoredPeople, weights: Weights, min_probability: float
) -> FloatArray:
    """Terms of the mean (23), (n_samples, n_times)."""
    floor = check_fraction(min_probability, "min_probability", one=False)
    states, target = scored.all_states(), scored.collapsed_target()
    total = states.sum(axis=1)
    worst = np.unravel_index(np.abs(total - 1).argmax(), total.shape)
    if abs(total[worst] - 1) > _SUM_TOLERANCE:
        msg = (
            f"The probabilities of person {worst[0]} at time {scored.times[worst[1]]:g} sum to "
            f"{total[worst]:g}, not 1, so their log-loss is not proper. Normalise them."
        )
        raise ValueError(msg)
    happened = target.duration[:, None] <= scored.times
    state = np.where(happened, target.event[:, None], 0)
    observed = np.take_along_axis(states, state[:, None, :], axis=1)[:, 0]
    return _product(weights.values, _minus_log(observed, floor))


def _product(weight: FloatArray, losses: FloatArray) -> FloatArray:
    # People of weight 0 do not count even where their loss is infinite.
    return np.multiply(weight, losses, out=np.zeros(losses.shape), where=weight > 0)


# ----------------------------------------------------------------------------------------- accuracy
def accuracy(scored: ScoredPeople, weights: Weights | None) -> tuple[FloatArray, BoolArray, str]:
    r"""Share of people whose most probable state at each time is the one observed.

        Acc(z) = sum_i s_i v_i(z) [argmax_k F_k(z|x_i) = d_i [t_i <= z]] / sum_i s_i v_i(z)     (31)

    over the states k = 0..K, the smallest one where several are most probable. As in the paper,
    v_i(z) = 0 for people censored by z and 1 for all others; these others are a biased sample, as
    events are seen more often than survival. With ``weights`` v_i(z) = w_i(z) of (20), which
    estimates the accuracy of uncensored data. Not proper: every model with the right argmax is as
    good as the truth. Also returned: where it is known, and what ends it.
    """
    target = scored.collapsed_target()
    happened = target.duration[:, None] <= scored.times
    if weights is not None:
        weight, known, reason = weights.values, weights.known, weights.reason
    else:
        weight = (~happened | (target.event > 0)[:, None]).astype(np.float64)
        known = np.asarray(weight.any(axis=0))
        reason = "everyone is censored before. Ask for earlier times."
    is_right = scored.all_states().argmax(axis=1) == target.event[:, None] * happened
    weight = weight * scored.sample_weight[:, None]
    total = weight.sum(axis=0)
    values: FloatArray = np.divide(
        (weight * is_right).sum(axis=0),
        total,
        out=np.full(len(total), np.nan),
        where=known & (total > 0),
    )
    return values, known, reason

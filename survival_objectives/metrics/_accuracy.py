"""Accuracy in time: how often the most probable state is the one observed."""

from __future__ import annotations

import numpy as np

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives.metrics._inputs import ScoredPeople, Weights


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

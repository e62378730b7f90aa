"""Accuracy in time: how often the most probable state is the one observed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray
from survival_objectives.metrics._inputs import (
    check_evaluation,
    ipcw_weights,
    warn_follow_up,
)


def accuracy_in_time(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    weighted: bool = False,
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_censoring_survival: float = 0.0,
) -> FloatArray:
    r"""Share of people whose most probable state at each time is the one observed.

        Acc(z) = sum_i s_i v_i(z) [argmax_k F_k(z|x_i) = d_i [t_i <= z]] / sum_i s_i v_i(z)     (31)

    over the states k = 0..K, the smallest one where several are most probable. As in the paper,
    v_i(z) = 0 for people censored by z and 1 for all others; these others are a biased sample, as
    events are seen more often than survival. With ``weighted`` v_i(z) = w_i(z) of (20), which
    estimates the accuracy of uncensored data, under the assumptions of `weighted_score`. Not
    proper: every model with the right argmax is as good as the truth.

    Parameters
    ----------
    censoring, y_test, incidence, times, X, sample_weight, event_ids, min_censoring_survival
        As in `weighted_score`. Without ``weighted``, ``censoring`` only gives the labels and may be
        None. Event-free curves alone are scored as K = 1.
    weighted : bool, default=False
        Whether people are weighted for censoring.

    Returns
    -------
    float64 array of shape (n_times,)
        Higher is better. NaN, with a `FollowUpWarning`, where no state is known.

    Examples
    --------
    >>> y = ([1, 0, 2, 1], [1.0, 2.0, 3.0, 4.0])
    >>> incidence = np.array([[[0.2], [0.7], [0.1]]] * 4)
    >>> accuracy_in_time(None, y, incidence, [3.5])
    array([0.33333333])
    """
    shared = (None, X, sample_weight, event_ids)
    evaluation = check_evaluation(censoring, y_test, incidence, times, *shared, weighted=weighted)
    target = evaluation.collapsed_target()
    happened = target.duration[:, None] <= evaluation.times
    if weighted:
        weights = ipcw_weights(evaluation, min_censoring_survival)
        weight, known, reason = weights.values, weights.known, weights.reason
    else:
        weight = (~happened | (target.event > 0)[:, None]).astype(np.float64)
        known = np.asarray(weight.any(axis=0))
        reason = "everyone is censored before. Ask for earlier times."
    is_right = evaluation.all_states().argmax(axis=1) == target.event[:, None] * happened
    weight = weight * evaluation.sample_weight[:, None]
    total = weight.sum(axis=0)
    accuracy: FloatArray = np.divide(
        (weight * is_right).sum(axis=0),
        total,
        out=np.full(len(total), np.nan),
        where=known & (total > 0),
    )
    warn_follow_up(evaluation.times, known, reason, "The values there are NaN.")
    return accuracy

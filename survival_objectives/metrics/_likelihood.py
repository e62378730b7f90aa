"""The discretised likelihood of censored outcomes: S_Cen-log-simple."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray
from survival_objectives._people import check_fraction, check_positive_int, check_times
from survival_objectives.metrics._inputs import (
    FollowUpWarning,
    check_evaluation,
    curve_values,
    sorted_by_time,
)


def cen_log_simple_score(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    n_nodes: int = 32,
    nodes: npt.ArrayLike | None = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_probability: float = 1e-15,
) -> float:
    r"""Mean S_Cen-log-simple of Yanagisawa (2023): minus the log-likelihood in intervals of time.

    With node times z_0 < ... < z_B, and the interval z_j < t_i <= z_{j+1} in which person i leaves,

        S = -mean_i { log(F_k(z_{j+1}|x_i) - F_k(z_j|x_i))   if d_i = k > 0
                    { log F_0(z_{j+1}|x_i)                   if d_i = 0                         (30)

    with F_0 the event-free probability. A duration of 0 belongs to the first interval. Follow-up
    ends at z_B here: t_i > z_B counts as censored in the last interval.

    No weights, so no model of censoring: the likelihood needs only an event time independent of the
    censoring time given x. It is proper where incidences are linear between the nodes, and an
    approximation of the log-likelihood, which is proper, otherwise: people censored early in an
    interval are charged for surviving all of it. Curves that fall between two nodes pay
    ``-log(min_probability)`` for an event there.

    Parameters
    ----------
    censoring : outcomes, CensoringModel or None
        Training outcomes give the labels; not used otherwise.
    y_test, incidence, times, sample_weight, event_ids
        As in `weighted_score`. Event-free curves alone are scored as K = 1.
    n_nodes : int, default=32
        B: the nodes cut the time from 0 to the last of ``times`` into B equal intervals.
    nodes : array of shape (B + 1,), optional
        Nodes to use instead, from 0 or later to the last of ``times`` or before. Curves are read at
        the nodes by linear interpolation, from the event-free state at time 0.
    min_probability : float, default=1e-15
        Smaller predicted probabilities count as this one, so that the score is finite.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> y = ([1, 0, 1], [1.0, 1.0, 2.0])
    >>> survival = np.array([[0.5, 0.25]] * 3)
    >>> round(cen_log_simple_score(None, y, survival, [1.0, 2.0], n_nodes=2), 4)
    0.9242
    """
    floor = check_fraction(min_probability, "min_probability", one=False)
    shared = (None, None, sample_weight, event_ids)
    evaluation = check_evaluation(censoring, y_test, incidence, times, *shared, weighted=False)
    known, curves = sorted_by_time(evaluation)
    node = _check_nodes(nodes, n_nodes, known[-1])
    target = evaluation.collapsed_target()
    beyond = target.duration > node[-1]
    if beyond.any():
        msg = (
            f"{np.count_nonzero(beyond)} of {target.n_samples} people are followed beyond the last "
            f"node, {node[-1]:g}, and count as censored there. Predict for later times."
        )
        warnings.warn(msg, FollowUpWarning, stacklevel=2)
    event = np.where(beyond, 0, target.event)
    right = np.clip(np.searchsorted(node, target.duration, side="left"), 1, len(node) - 1)

    if curves.ndim == 2:
        curves = np.stack([curves, 1 - curves], axis=1)
    probability = np.empty(target.n_samples)
    for code in range(curves.shape[1]):
        rows = event == code
        # Incidences are read as 1 - F, event-free curves as they are: both start at 1.
        curve = curves[rows, 0] if code == 0 else 1 - curves[rows, code]
        at_right = curve_values(curve, known, node[right[rows]][:, None])[:, 0]
        if code == 0:
            probability[rows] = at_right
        else:
            at_left = curve_values(curve, known, node[right[rows] - 1][:, None])[:, 0]
            probability[rows] = at_left - at_right
    with np.errstate(divide="ignore"):
        losses: FloatArray = -np.log(np.maximum(probability, floor))
    return float(evaluation.average(losses))


def _check_nodes(nodes: npt.ArrayLike | None, n_nodes: int, last: float) -> FloatArray:
    if nodes is None:
        if not last > 0:
            msg = f"The last of `times` is {last:g}, so there is no interval to cut. Pass `nodes`."
            raise ValueError(msg)
        return np.linspace(0, last, check_positive_int(n_nodes, "n_nodes") + 1)
    node = check_times(nodes)
    if len(node) < 2 or (np.diff(node) <= 0).any():
        msg = f"`nodes` must be two or more increasing times; got {node.tolist()}."
        raise ValueError(msg)
    if node[-1] > last:
        msg = (
            f"The last of `nodes` is {node[-1]:g}, but curves are given up to {last:g} only. "
            "Predict for later times, or leave these nodes out."
        )
        raise ValueError(msg)
    return node

"""Scores integrated over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray
from survival_objectives._people import check_choice
from survival_objectives.metrics._inputs import Weights, warn_follow_up
from survival_objectives.metrics._scores import (
    binary_log_loss,
    binary_scores,
    squared_error,
    vector_log_loss,
    weighted_evaluation,
)


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


def integrated_brier_score(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    average: str | None = "causes",
    rule: str = "trapezoid",
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_censoring_survival: float = 0.0,
) -> Any:
    r"""Brier score (22) integrated over time by (25), or by (60) as in R.

    Strictly proper for the curves at the times, with the true censoring probabilities in (20).

    Parameters
    ----------
    censoring, y_test, incidence, times, cause, X, sample_weight, event_ids, min_censoring_survival
        As in `weighted_score`.
    average : {"causes", "all"} or None, default="causes"
        What to return where ``cause`` is not given: the mean over the K causes (the paper's, who
        prints the sum); the mean over the causes and the event-free curve (that of ``score`` of
        hazardous); or an array with one value per curve.
    rule : {"trapezoid", "steps"}, default="trapezoid"
        How to integrate: by (25) from the first of the times, or by (60) from 0. Only the latter
        compares with the integrated Brier scores of R's riskRegression and pec, at their times.

    Returns
    -------
    float, or float64 array of shape (K + 1,) with ``average=None``
        The integral ends before times beyond follow-up, with a `FollowUpWarning`.

    Examples
    --------
    >>> y = ([1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    >>> integrated_brier_score(y, y, np.full((4, 2), 0.5), [1.5, 2.5])
    0.25
    """
    shared = (X, sample_weight, event_ids, min_censoring_survival)
    evaluation, weights = weighted_evaluation(censoring, y_test, incidence, times, cause, *shared)
    scores = binary_scores(evaluation, weights, cause, squared_error)
    _warn_integral_ends(evaluation.times, weights)
    return averaged(integrated_score(scores, evaluation.times, rule=rule), average)


def integrated_log_loss(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    rule: str = "trapezoid",
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_censoring_survival: float = 0.0,
    min_probability: float = 1e-15,
) -> float:
    r"""Log-loss of the whole vector (23) integrated over time by (25).

    Strictly proper for the curves at the times, with the true censoring probabilities in (20).

    Parameters
    ----------
    censoring, y_test, incidence, times, X, sample_weight, event_ids, min_censoring_survival, \
min_probability
        As in `log_loss`.
    rule : {"trapezoid", "steps"}, default="trapezoid"
        As in `integrated_brier_score`.

    Returns
    -------
    float
        The integral ends before times beyond follow-up, with a `FollowUpWarning`.
    """
    shared = (X, sample_weight, event_ids, min_censoring_survival)
    evaluation, weights = weighted_evaluation(censoring, y_test, incidence, times, None, *shared)
    scores = vector_log_loss(evaluation, weights, min_probability)
    _warn_integral_ends(evaluation.times, weights)
    return float(integrated_score(scores, evaluation.times, rule=rule))


def integrated_cause_log_loss(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    average: str | None = "causes",
    rule: str = "trapezoid",
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_censoring_survival: float = 0.0,
    min_probability: float = 1e-15,
) -> Any:
    r"""Binary log-loss (24) integrated over time by (25).

    Strictly proper for the curves at the times, with the true censoring probabilities in (20).

    Parameters
    ----------
    censoring, y_test, incidence, times, cause, X, sample_weight, event_ids, \
min_censoring_survival, min_probability
        As in `cause_log_loss`.
    average : {"causes", "all"} or None, default="causes"
        As in `integrated_brier_score`.
    rule : {"trapezoid", "steps"}, default="trapezoid"
        As in `integrated_brier_score`.

    Returns
    -------
    float, or float64 array of shape (K + 1,) with ``average=None``
        The integral ends before times beyond follow-up, with a `FollowUpWarning`.
    """
    shared = (X, sample_weight, event_ids, min_censoring_survival)
    evaluation, weights = weighted_evaluation(censoring, y_test, incidence, times, cause, *shared)
    scores = binary_scores(evaluation, weights, cause, binary_log_loss(min_probability))
    _warn_integral_ends(evaluation.times, weights)
    return averaged(integrated_score(scores, evaluation.times, rule=rule), average)


def averaged(values: FloatArray, average: str | None) -> Any:
    """Mean over the curves that ``average`` names; a single value stays as it is."""
    if values.ndim == 0:
        return float(values)
    if average is None:
        return values
    return float(values[first_averaged(average) :].mean())


def first_averaged(average: str) -> int:
    """The first of the curves that ``average`` names; it continues to the last."""
    return {"causes": 1, "all": 0}[check_choice(average, "average", ("causes", "all"))]


def _warn_integral_ends(times: FloatArray, weights: Weights) -> None:
    end = "No time is left, and the integral is NaN."
    if weights.known.any():
        end = f"The integral ends at {times[weights.known].max():g}."
    warn_follow_up(times, weights.known, weights.reason, end, depth=1)

"""Predicted times of the event, and their errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray
from survival_objectives._people import (
    SurvivalTarget,
    check_choice,
    check_sample_weight,
    check_survival_target,
    check_times,
)
from survival_objectives.marginal import kaplan_meier
from survival_objectives.metrics._inputs import FollowUpWarning, check_incidence


def event_time(
    incidence: npt.ArrayLike, times: npt.ArrayLike, *, point: str = "median"
) -> FloatArray:
    r"""One predicted time of the first event for each person, from the event-free curve F_0.

        median            inf{t : F_0(t|x) <= 1/2}                                              (32)
        restricted mean   int_0^T F_0(t|x) dt                                                   (33)

    with F_0 linear between (0, 1) and the times, the last of which is T. Both end at T: a median
    that the curve does not reach is set to T, with a `FollowUpWarning`. With the true curves, and T
    beyond all events, the median is optimal for the absolute and the mean for the squared error of
    uncensored times.

    Parameters
    ----------
    incidence : array of shape (n_samples, K + 1, n_times) or (n_samples, n_times)
        Predicted curves; only the event-free one is used.
    times : array of shape (n_times,)
        In any order.
    point : {"median", "restricted-mean"}, default="median"
        Which time.

    Returns
    -------
    float64 array of shape (n_samples,)

    Examples
    --------
    >>> event_time([[0.75, 0.25]], [1.0, 2.0])
    array([1.5])
    >>> event_time([[0.75, 0.25]], [1.0, 2.0], point="restricted-mean")
    array([1.375])
    """
    check_choice(point, "point", ("median", "restricted-mean"))
    given = check_times(times)
    curves = check_incidence(incidence, len(given))
    horizon, first = np.unique(given, return_index=True)
    survival = (curves[:, 0] if curves.ndim == 3 else curves)[:, first]
    if horizon[0] > 0:
        horizon = np.concatenate([[0.0], horizon])
        survival = np.column_stack([np.ones(len(survival)), survival])
    if point == "restricted-mean":
        midpoints = (survival[:, 1:] + survival[:, :-1]) / 2
        mean: FloatArray = midpoints @ np.diff(horizon)
        return mean
    return _median(survival, horizon)


def _median(survival: FloatArray, times: FloatArray) -> FloatArray:
    below = survival <= 0.5
    reached = below.any(axis=1)
    if not reached.all():
        msg = (
            f"{np.count_nonzero(~reached)} of {len(survival)} predicted curves stay above 1/2 up "
            f"to the last time, {times[-1]:g}, which is taken for their median. Predict for later "
            'times, or use point="restricted-mean".'
        )
        warnings.warn(msg, FollowUpWarning, stacklevel=3)
    right = np.where(reached, below.argmax(axis=1), len(times) - 1)
    left = np.maximum(right - 1, 0)
    rows = np.arange(len(survival))
    drop = survival[rows, left] - survival[rows, right]
    share = np.divide(
        survival[rows, left] - 0.5, drop, out=np.ones(len(rows)), where=reached & (drop > 0)
    )
    median: FloatArray = times[left] + share * (times[right] - times[left])
    return median


def mean_absolute_time_error(
    y_train: Any,
    y_test: Any,
    predicted_time: npt.ArrayLike,
    *,
    method: str = "margin",
    sample_weight: Any = None,
) -> float:
    r"""Mean absolute error of predicted times of the first event.

    With a predicted time p_i and the Kaplan-Meier curve S of the training outcomes:

        hinge    mean_i |t_i - p_i|  if d_i != 0,   max(t_i - p_i, 0)  if d_i = 0               (34)
        margin   sum_i s_i a_i |e_i - p_i| / sum_i s_i a_i, with                                (35)
                 e_i = t_i,                              a_i = 1            if d_i != 0
                 e_i = t_i + int_{t_i}^inf S(u) du / S(t_i),  a_i = 1 - S(t_i)  if d_i = 0

    Beyond the longest training duration T, where S is unknown, it continues along the line from
    (0, 1) through (T, S(T)) down to 0; past that e_i = t_i, a_i = 1. Hinge asks only that censored
    people be predicted to live longer than seen, so it rewards predictions that are too long.
    Margin (Haider et al., 2020) fills in what censored people may expect, and trusts it the less
    the earlier they were censored; it assumes censoring that does not depend on x. Neither is
    proper under censoring. Without censoring both are the mean absolute error, which the true
    median minimises. The paper reports a mean absolute error without naming the variant.

    Parameters
    ----------
    y_train : outcomes
        Training outcomes, for S. Not used by "hinge".
    y_test : outcomes
        What happened to the people predicted for. All causes count as the event.
    predicted_time : array of shape (n_samples,)
        For instance from `event_time`.
    method : {"margin", "hinge"}, default="margin"
        What to do with censored people.
    sample_weight : array of shape (n_samples,), optional
        Weights s of the test people.

    Returns
    -------
    float
        In units of time; lower is better.

    Examples
    --------
    >>> y = ([1, 0, 1], [1.0, 2.0, 3.0])
    >>> round(mean_absolute_time_error(y, y, [2.0, 1.0, 3.0], method="hinge"), 4)
    0.6667
    """
    errors, weight = _time_errors(y_train, y_test, predicted_time, method, sample_weight)
    return float(np.average(np.abs(errors), weights=weight))


def mean_squared_time_error(
    y_train: Any,
    y_test: Any,
    predicted_time: npt.ArrayLike,
    *,
    method: str = "margin",
    sample_weight: Any = None,
) -> float:
    r"""Mean squared error of predicted times of the first event.

    Equation (34) or (35) with squares in place of absolute values, the hinge squared as a whole.
    Without censoring the true mean minimises it; otherwise the remarks in
    `mean_absolute_time_error` apply here too.

    Parameters
    ----------
    y_train, y_test, predicted_time, method, sample_weight
        As in `mean_absolute_time_error`.

    Returns
    -------
    float
        In squared units of time; lower is better.
    """
    errors, weight = _time_errors(y_train, y_test, predicted_time, method, sample_weight)
    return float(np.average(errors**2, weights=weight))


def _time_errors(
    y_train: Any, y_test: Any, predicted_time: npt.ArrayLike, method: str, sample_weight: Any
) -> tuple[FloatArray, FloatArray]:
    check_choice(method, "method", ("margin", "hinge"))
    target = check_survival_target(y_test, require_event=False)
    predicted = np.asarray(predicted_time, dtype=np.float64)
    if predicted.shape != (target.n_samples,) or not np.isfinite(predicted).all():
        msg = (
            f"`predicted_time` must be a finite time for each of {target.n_samples} people; got "
            f"shape {predicted.shape}. Make times from curves with `event_time`."
        )
        raise ValueError(msg)
    given = check_sample_weight(sample_weight, target.n_samples)
    weight = np.ones(target.n_samples) if given is None else given
    is_censored = target.event == 0
    if method == "hinge":
        errors = target.duration - predicted
        return np.where(is_censored, np.maximum(errors, 0), errors), weight
    if y_train is None:
        msg = '`y_train` is None, but method="margin" needs the training outcomes.'
        raise TypeError(msg)
    train = check_survival_target(y_train, require_event=True)
    survival, expected = _expected_time(train, target.duration)
    best_guess = np.where(is_censored, expected, target.duration)
    trust = np.where(is_censored, 1 - survival, 1.0)
    if not (weight * trust).any():
        msg = (
            f"All {target.n_samples} test people are censored before the first training event, so "
            'nothing is known of their event times. Use method="hinge".'
        )
        raise ValueError(msg)
    return best_guess - predicted, weight * trust


def _expected_time(train: SurvivalTarget, censored: FloatArray) -> tuple[FloatArray, FloatArray]:
    """S(c) and c + int_c^inf S / S(c), with S of the training people and its linear tail."""
    curve = kaplan_meier(train)
    last, at_last = curve.times[-1], curve.values[-1]
    # The line from (0, 1) through (last, at_last) meets 0 here.
    end = last / (1 - at_last)
    steps = np.concatenate([[0.0], curve.times])
    area = np.concatenate([[0.0], np.cumsum(np.diff(steps) * curve(steps[:-1]))])
    total = area[-1] + (end - last) * at_last / 2

    inside = censored <= last
    within_tail = np.clip(censored, last, end)
    tail_survival = (end - within_tail) / end if end > 0 else np.zeros(len(censored))
    survival = np.where(inside, curve(censored), tail_survival)
    position = np.searchsorted(steps, censored, side="right") - 1
    until = area[position] + (censored - steps[position]) * curve(censored)
    rest = np.where(inside, total - until, (end - within_tail) * tail_survival / 2)
    more = np.divide(rest, survival, out=np.zeros(len(rest)), where=survival > 0)
    return survival, censored + np.maximum(more, 0)

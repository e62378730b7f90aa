"""Errors of predicted times of the event."""

from __future__ import annotations

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._people import SurvivalTarget, check_choice
from survival_objectives.marginal import kaplan_meier
from survival_objectives.metrics._inputs import ScoredPeople, sorted_by_time, warn_outside


def time_error(scored: ScoredPeople, method: str) -> float:
    r"""Mean absolute error of the predicted medians of the time to any event.

    With p_i = inf{t : F_0(t|x_i) <= 1/2}, F_0 linear between (0, 1) and the times (32), and the
    Kaplan-Meier curve S of the training outcomes:

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
    median minimises. A median beyond the last time is set to it, with a warning.
    """
    check_choice(method, "method", ("margin", "hinge"))
    target, weight = scored.target, scored.sample_weight
    predicted = _median(scored)
    is_censored = target.event == 0
    if method == "hinge":
        errors = target.duration - predicted
        errors = np.where(is_censored, np.maximum(errors, 0), errors)
        return float(np.average(np.abs(errors), weights=weight))
    if scored.sample is None:
        msg = '`y_train` is a model of censoring, but method="margin" needs training outcomes.'
        raise TypeError(msg)
    survival, expected = _expected_time(scored.sample.target, target.duration)
    best_guess = np.where(is_censored, expected, target.duration)
    weight = weight * np.where(is_censored, 1 - survival, 1.0)
    if not weight.any():
        msg = (
            f"All {target.n_samples} people are censored before the first training event, so "
            'nothing is known of their event times. Use method="hinge".'
        )
        raise ValueError(msg)
    return float(np.average(np.abs(best_guess - predicted), weights=weight))


def _median(scored: ScoredPeople) -> FloatArray:
    times, curves = sorted_by_time(scored)
    survival = curves[:, 0] if curves.ndim == 3 else curves
    if times[0] > scored.start:
        times = np.concatenate([[scored.start], times])
        survival = np.column_stack([np.ones(len(survival)), survival])
    below = survival <= 0.5
    reached = below.any(axis=1)
    if not reached.all():
        warn_outside(
            f"{np.count_nonzero(~reached)} of {len(survival)} predicted curves stay above 1/2 up "
            f"to the last time, {times[-1]:g}, which is taken for their median. Predict for later "
            "times."
        )
    right = np.where(reached, below.argmax(axis=1), len(times) - 1)
    left = np.maximum(right - 1, 0)
    rows = np.arange(len(survival))
    drop = survival[rows, left] - survival[rows, right]
    share = np.divide(
        survival[rows, left] - 0.5, drop, out=np.ones(len(rows)), where=reached & (drop > 0)
    )
    median: FloatArray = times[left] + share * (times[right] - times[left])
    return median


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

r"""The error of predicted times that other papers print: MAE margin of Haider et al. (2020).

With p_i the median of the predicted curve, linear between (0, 1) and the times, and the
Kaplan-Meier curve S of the training outcomes:

    MAE = sum_i a_i |e_i - p_i| / sum_i a_i
    e_i = t_i,                              a_i = 1            if d_i != 0
    e_i = t_i + int_{t_i}^inf S(u) du / S(t_i),  a_i = 1 - S(t_i)  if d_i = 0

Beyond the longest training duration T, where S is unknown, it continues along the line from (0, 1)
through (T, S(T)) down to 0; past that e_i = t_i, a_i = 1. A median beyond the last time is set to
it. Not proper under censoring, so that it is no score of the package.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._people import SurvivalTarget, check_survival_target
from survival_objectives.marginal import kaplan_meier

FloatArray = npt.NDArray[np.float64]


def margin_error(y_train: Any, y_test: Any, survival: FloatArray, times: FloatArray) -> float:
    """MAE margin of event-free curves, (n_samples, n_times), at increasing times."""
    train, test = (check_survival_target(y, require_event=False) for y in (y_train, y_test))
    at_exit, expected = _expected_time(train, test.duration)
    is_censored = test.event == 0
    guess = np.where(is_censored, expected, test.duration)
    weight = np.where(is_censored, 1 - at_exit, 1.0)
    return float(np.average(np.abs(guess - _median(survival, times)), weights=weight))


def _median(survival: FloatArray, times: FloatArray) -> FloatArray:
    if times[0] > 0:
        times = np.concatenate([[0.0], times])
        survival = np.column_stack([np.ones(len(survival)), survival])
    below = survival <= 0.5
    reached = below.any(axis=1)
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

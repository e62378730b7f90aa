"""Censoring survival that the weights (10) of stacked rows need, from each kind of model.

Each function returns G at the horizons of rows with t > z, and G just before the events of the
other people, as arguments of `TrainingRows.weights`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import SurvivalTarget
from survival_objectives._people.cohort import GivenPeople
from survival_objectives._people.time_axis import TimeAxis
from survival_objectives.censoring import CensoringModel, KaplanMeierCensoring
from survival_objectives.stacking import TrainingRows


def marginal_survival(
    kaplan_meier: KaplanMeierCensoring, target: SurvivalTarget, rows: TrainingRows
) -> tuple[FloatArray, FloatArray]:
    """Marginal G at the horizons of rows with t > z, and just before the events of the others."""
    return (
        kaplan_meier.survival(rows.horizon[rows.stayed]),
        kaplan_meier.survival(target.duration[rows.leaver], left=True),
    )


def survival_before_events(margin: npt.ArrayLike, duration: FloatArray) -> FloatArray:
    """G just before events at ``duration``, from log-odds of being censored by then.

    >>> survival_before_events(np.zeros(2), np.array([0.0, 1.0]))
    array([1. , 0.5])
    """
    before: FloatArray = expit(-np.asarray(margin, dtype=np.float64))
    before[duration <= 0] = 1.0  # No one is censored before the start.
    return before


def given_survival(
    model: CensoringModel, given: GivenPeople, rows: TrainingRows, axis: TimeAxis
) -> tuple[FloatArray, FloatArray]:
    """G of the user's model at the horizons of rows with t > z, and before the others' events.

    The model sees people and event times as the user gave them. For a horizon within a unit of
    time, G is evaluated at the start of the unit.
    """

    def survival(people: IntArray, times: FloatArray, left: bool) -> FloatArray:
        known = model.survival(times, given.take(people).X, left=left)
        return _checked_survival(known, len(people))

    horizon = rows.horizon[rows.stayed].astype(np.float64)
    in_units = bool(axis.unit)
    # A beginning that is rounded up must not be taken for a time after it.
    asked = axis.number(horizon) * axis.unit * (1 - 1e-6) if in_units else horizon
    return (
        survival(rows.person[rows.stayed], asked, left=in_units),
        survival(rows.leaver, given.duration[rows.leaver], left=True),
    )


def _checked_survival(survival: npt.ArrayLike, n_rows: int) -> FloatArray:
    array = np.asarray(survival, dtype=np.float64)
    if array.shape != (n_rows,):
        msg = f"The censoring model returned shape {array.shape} for {n_rows} times."
        raise ValueError(msg)
    bad = np.flatnonzero(~((array >= 0) & (array <= 1)))
    if len(bad):
        msg = f"The censoring model returned {array[bad[0]]}, which is not a probability."
        raise ValueError(msg)
    return array

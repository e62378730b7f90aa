"""Events known to lie between two visits: times completed by the model, which is fitted again.

Of such a person it is known that the event of cause k happened in (L, R]. Given the incidence F_k
of a model, the person stands for people of equal weight whose times t have levels u in (0, 1),

    F_k(t|x) = F_k(L|x) + u (F_k(R|x) - F_k(L|x)),                                            (83)

one u in each part of (0, 1). The mean of their log-likelihoods has soft targets, and soft weights
of being at risk, in the rows of the risk sets: what the EM algorithm maximises. At first times are
uniform; models of the steps between have one draw of folds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray
from survival_objectives._models.fitted import FittedModel
from survival_objectives._people.cohort import Cohort
from survival_objectives._people.population import time_feature
from survival_objectives._people.values import as_float, refuse_rows

#: Fits after that with uniform times.
N_STEPS = 3
_N_DRAWS = 6
# Times at which an incidence is read within an interval.
_N_TIMES = 33
# Share of a uniform density: no time between the visits is impossible.
_UNIFORM = 1e-3


def interval_outcomes(fields: dict[str, Any]) -> tuple[pd.DataFrame, FloatArray]:
    """Outcomes with ``upper`` as duration, and ``lower``, from `interval_fields`.

    People without a finite ``upper`` are event-free at ``lower``, which is then infinite.
    """
    lower, upper = as_float(fields.pop("lower"), "lower"), as_float(fields.pop("upper"), "upper")
    if len(lower) != len(upper):
        msg = f"`lower` has {len(lower)} values but `upper` has {len(upper)}."
        raise ValueError(msg)
    where = "`lower` is {value} at row {row} ({n} such rows)"
    refuse_rows(~np.isfinite(lower), lower, f"{where}. Give 0 where there was no visit before.")
    refuse_rows(lower < 0, lower, f"{where}; times are counted from 0.")
    upper[np.isnan(upper)] = np.inf
    refuse_rows(lower > upper, lower, f"{where}, after `upper`.")
    known = np.isfinite(upper)
    frame = pd.DataFrame({name: np.asarray(values) for name, values in fields.items()})
    return frame.assign(duration=np.where(known, upper, lower)), np.where(known, lower, np.inf)


def check_intervals(people: Cohort, lower: FloatArray) -> None:
    """Raise an error if events and finite ends of intervals differ, or entries are within them."""
    target = people.target
    unknown = np.flatnonzero((target.event > 0) != np.isfinite(lower))
    if len(unknown):
        row = unknown[0]
        msg = (
            f"`event` is {target.event_ids[target.event[row]]} at row {row} ({len(unknown)} such "
            "rows). An event needs a finite `upper`; people without one (0) are event-free at "
            "`lower`, and their `upper` is infinite or missing."
        )
        raise ValueError(msg)
    if target.entry is not None and (target.entry > lower).any():
        row = np.flatnonzero(target.entry > lower)[0]
        msg = f"`entry` is {target.entry[row]} at row {row}, after `lower`, {lower[row]}."
        raise ValueError(msg)


def completed(
    people: Cohort, lower: FloatArray, model: FittedModel | None, generator: np.random.Generator
) -> Cohort:
    """The people, those with an event after ``lower`` drawn several times by equation (83)."""
    target = people.target
    is_open = lower < target.duration
    n_draws = np.where(is_open, _N_DRAWS, 1)
    rows = np.repeat(np.arange(people.n_samples), n_draws)
    left, right = lower[is_open, None], target.duration[is_open, None]
    level = (np.arange(_N_DRAWS) + generator.random((len(left), _N_DRAWS))) / _N_DRAWS
    if model is None:
        times = left + level * (right - left)
    else:
        times = _at_levels(model, people.take(np.flatnonzero(is_open)), left, right, level)
    duration = target.duration[rows]
    duration[is_open[rows]] = np.clip(times, left, right).ravel()
    weight = np.ones(people.n_samples) if people.weight is None else people.weight
    drawn = people.take(rows)
    return replace(
        drawn,
        target=replace(drawn.target, duration=time_feature(duration).astype(np.float64)),
        weight=weight[rows] / n_draws[rows],
        group=rows if people.group is None else drawn.group,
    )


def _at_levels(
    model: FittedModel, people: Cohort, left: FloatArray, right: FloatArray, level: FloatArray
) -> FloatArray:
    share = np.linspace(0, 1, _N_TIMES)
    at = left + share * (right - left)
    curves = model.incidence(people.features, at)
    rising = curves[np.arange(people.n_samples), people.target.event]
    rising -= rising[:, :1]
    rising += _UNIFORM * (rising[:, -1:] + 1e-12) * share
    level = level * rising[:, -1:]
    return np.array([np.interp(*row) for row in zip(level, rising, at, strict=True)])


def fit_intervals(
    fit: Callable[..., FittedModel],
    people: Cohort,
    lower: FloatArray,
    generator: np.random.Generator,
) -> FittedModel:
    """The model of the last step; ``fit(people, is_last=...)`` gives that of one."""
    lower = time_feature(lower).astype(np.float64)
    check_intervals(people, lower)
    if not (lower < people.target.duration).any():
        return fit(people, is_last=True)
    model = None
    for step in range(N_STEPS + 1):
        model = fit(completed(people, lower, model, generator), is_last=step == N_STEPS)
    assert model is not None
    n_events = np.bincount(people.target.event, minlength=people.target.n_causes + 1)
    return model.with_record(n_events=n_events)

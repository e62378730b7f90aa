"""What is decided about a model from the outcomes, before it is trained: its frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._models.fitted import ModelFrame
from survival_objectives._models.rounding import check_same_time_unit, rounded_horizon, two_digits
from survival_objectives._people import Features, SurvivalTarget
from survival_objectives._people.population import Population
from survival_objectives._people.time_axis import TimeAxis, event_unit, rounded_up
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import check_causes_seen

#: Quantile of the durations at which the default prediction times end.
BULK_QUANTILE = 0.99

# Steps of the marginal censoring curve that is stored with the model, which must not reveal when
# single people were censored: evenly spaced, and geometric for times concentrated near 0.
_EVEN_STEPS, _DOUBLING_STEPS = 64, 96


def planned_frame(
    population: Population,
    engine: str,
    schema: Features,
    *,
    horizon_max: float | None,
    n_jobs: int | None,
    previous: ModelFrame | None = None,
    beyond: float = 0.0,
) -> ModelFrame:
    """The frame of a model before it is trained.

    Times are rounded so that they do not reveal the outcome of a single person.

    Parameters
    ----------
    population : Population
        Outcomes of all people, in the user's time.
    engine : str
    schema : Features
        Columns, without people.
    horizon_max, n_jobs
        As in `survival_objectives.HazardBoost`.
    previous : ModelFrame, optional
        Frame of the model that a warm start continues, which is kept.
    beyond : float, default=0.0
        Share of the follow-up by which curves extend beyond it, unless follow-up ends at the same
        time for many people.
    """
    if previous is not None:
        check_same_time_unit(population, previous.median_duration)
        return replace(previous, n_jobs=n_jobs)
    t_max = _latest_horizon(population.target, horizon_max)
    if horizon_max is None:
        t_max = rounded_horizon(t_max, population, beyond=beyond)
    # Very few people are followed for longer than this.
    last = float(rounded_up(population.quantile(BULK_QUANTILE)))
    is_given = horizon_max is not None or last == 0
    return ModelFrame(
        engine=engine,
        schema=schema,
        event_ids=population.target.event_ids,
        axis=TimeAxis(event_unit(population.target, population.count)),
        t_max=t_max,
        last_time=t_max if is_given else min(last, t_max),
        median_duration=two_digits(population.quantile(0.5)),
        censoring_curve=coarse_censoring_curve(population.target, population.weight, t_max),
        n_jobs=n_jobs,
    )


def _latest_horizon(target: SurvivalTarget, horizon_max: float | None) -> float:
    if horizon_max is not None:
        check_causes_seen(target, float(horizon_max))
        return float(horizon_max)
    t_max = float(target.duration.max())
    if t_max == 0:
        msg = "All durations are 0, so there is no horizon to predict at."
        raise ValueError(msg)
    return t_max


def coarse_censoring_curve(
    target: SurvivalTarget, sample_weight: FloatArray | None, t_max: float
) -> StepFunction:
    """Kaplan-Meier of censoring on a fixed time grid, which reveals no individual time."""
    curve = KaplanMeierCensoring().fit(target, sample_weight=sample_weight).curve_
    even = np.linspace(0, t_max, _EVEN_STEPS + 1)
    times = np.union1d(even, np.geomspace(t_max * 2.0**-14, t_max, _DOUBLING_STEPS))
    return StepFunction(times, curve(times), np.array(1.0))

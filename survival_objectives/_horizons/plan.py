"""Decisions before the first tree: the time axis, the latest horizons and random streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._horizons.schemes import CensoringScheme
from survival_objectives._models.fitted import ModelFrame, snapshot
from survival_objectives._models.rounding import rounded_horizon, two_digits
from survival_objectives._people import Features, SurvivalTarget
from survival_objectives._people.cohort import Batches
from survival_objectives._people.population import Population, Reduction
from survival_objectives._people.time_axis import TimeAxis, event_unit, rounded_up
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import TimeStacker, check_causes_seen, latest_weighted_horizon

#: Quantile of the durations at which the default prediction times end.
BULK_QUANTILE = 0.99

# Steps of the marginal censoring curve that is stored with the model, which must not reveal when
# single people were censored: evenly spaced, and geometric for times concentrated near 0.
_EVEN_STEPS, _DOUBLING_STEPS = 64, 96


def planned_frame(
    population: Population,
    engine: str,
    schema: Features,
    parameters: Mapping[str, Any],
    *,
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
    parameters : mapping
        Parameters of the estimator.
    beyond : float, default=0.0
        Share of the follow-up by which curves extend beyond it, unless follow-up ends at the same
        time for many people.
    """
    horizon_max = parameters["horizon_max"]
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
        parameters=snapshot(parameters),
    )


def weighted_until(
    frame: ModelFrame, population: Population, kaplan_meier: KaplanMeierCensoring, floor: float
) -> float:
    """The latest horizon that weights 1/G support: later, few people would carry most weight.

    Outcomes of the population are aligned to the time axis.
    """
    last = latest_weighted_horizon(population.target, kaplan_meier.curve_, frame.axis, floor)
    return min(float(rounded_up(last)), frame.t_max)


def _latest_horizon(target: SurvivalTarget, horizon_max: float | None) -> float:
    if horizon_max is not None:
        check_causes_seen(target, float(horizon_max))
        return float(horizon_max)
    t_max = float(target.duration.max())
    if t_max == 0:
        msg = "All durations are 0, so there is no horizon to predict at."
        raise ValueError(msg)
    return t_max


@dataclass(frozen=True)
class RandomStreams:
    """Random numbers of one training, by purpose.

    Attributes
    ----------
    train, held_out : Generator
        Horizons of training and held-out people: adding held-out people changes no training row.
    seed : int
        Seed of the engine.
    """

    train: np.random.Generator
    held_out: np.random.Generator
    seed: int

    @classmethod
    def of(cls, generator: np.random.Generator, n_rounds_before: int | None) -> RandomStreams:
        """Streams from one generator; a warm start continues ``n_rounds_before`` rounds."""
        train, held_out = generator.spawn(2)
        seed = int(generator.integers(2**30))
        if n_rounds_before is not None:
            # Later rounds draw other horizons, even with the same seed.
            train = np.random.default_rng([seed, n_rounds_before])
        return cls(train, held_out, seed)


def best_constant(
    batches: Batches,
    stacker: TimeStacker,
    scheme: CensoringScheme,
    reduction: Reduction,
    *,
    n_samples: int,
    reference: bool,
) -> FloatArray:
    """Margins of the constant prediction with the lowest loss, from a separate draw."""
    outcomes = batches.outcomes()
    total = np.zeros(outcomes.target.n_causes + 1)
    for rows in batches.slices:
        total += scheme.state_weights(outcomes.take(rows), stacker)
    share = reduction.sum(total)
    # The weight of half a person is the smallest probability distinguishable from 0.
    log_share = np.log(np.maximum(share / share.sum(), 0.5 / n_samples))
    margins: FloatArray = log_share[1:] - log_share[0] if reference else log_share
    return margins


def coarse_censoring_curve(
    target: SurvivalTarget, sample_weight: FloatArray | None, t_max: float
) -> StepFunction:
    """Kaplan-Meier of censoring on a fixed time grid, which reveals no individual time."""
    curve = KaplanMeierCensoring().fit(target, sample_weight=sample_weight).curve_
    even = np.linspace(0, t_max, _EVEN_STEPS + 1)
    times = np.union1d(even, np.geomspace(t_max * 2.0**-14, t_max, _DOUBLING_STEPS))
    return StepFunction(times, curve(times), np.array(1.0))

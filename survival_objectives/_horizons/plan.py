"""Decisions before the first tree: the latest weighted horizon, random streams, the start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._horizons.schemes import CensoringScheme
from survival_objectives._models.fitted import ModelFrame
from survival_objectives._people.cohort import Batches
from survival_objectives._people.population import Population, Reduction
from survival_objectives._people.time_axis import rounded_up
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.stacking import TimeStacker, latest_weighted_horizon


def weighted_until(
    frame: ModelFrame, population: Population, kaplan_meier: KaplanMeierCensoring, floor: float
) -> float:
    """The latest horizon that weights 1/G support: later, few people would carry most weight.

    Outcomes of the population are aligned to the time axis.
    """
    last = latest_weighted_horizon(population.target, kaplan_meier.curve_, frame.axis, floor)
    return min(float(rounded_up(last)), frame.t_max)


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

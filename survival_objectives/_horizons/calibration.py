"""Calibration in time of the curves of a stacked model."""

from __future__ import annotations

import numpy as np

from survival_objectives._horizons.model import HorizonModel
from survival_objectives._models.curves import KnotCurves
from survival_objectives._models.knots import marginal_hazard, time_knots
from survival_objectives._people.cohort import Batches
from survival_objectives._people.population import Population, Reduction

# Number of training people on whom the calibration is estimated.
_CALIBRATION_PEOPLE = 20_000


def calibrated_curves(
    model: HorizonModel,
    batches: Batches,
    population: Population,
    *,
    n_intervals: int,
    trained_until: float,
    reduction: Reduction,
    seed: int,
) -> KnotCurves:
    """Curves between knots, calibrated in time on training people.

    Outcomes are aligned to the time axis.
    """
    axis, t_max = model.frame.axis, model.frame.t_max
    knots = time_knots(axis, population.event_times(t_max), t_max, n_intervals)
    marginal = marginal_hazard(axis, knots, population.target, population.weight)
    shape = KnotCurves.uncalibrated(axis, knots, marginal, trained_until)
    n_intervals = len(knots) - 1
    crossed = np.zeros((population.target.n_causes, n_intervals, n_intervals))
    at_risk = np.zeros(n_intervals)
    breaks = model.steps.breaks
    for some in batches.sample(_CALIBRATION_PEOPLE, np.random.default_rng([seed, 1])):
        for part in model.parts(some.n_samples):
            rows = some.take(np.arange(part.start, part.stop))
            # Cluster workers hold different numbers of people, so none may call the engine, whose
            # matrices are built by all workers together.
            steps = model.step_probabilities(rows.features.values, engine_rows=0)[1:]
            added = shape.crossed(shape.cells(steps, breaks), rows.target, rows.weight)
            crossed += added[0]
            at_risk += added[1]
    return shape.calibrated(marginal, reduction.sum(crossed), reduction.sum(at_risk))

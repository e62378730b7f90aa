"""Probabilities that trees give on every step of time, and curves calibrated to people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from survival_objectives._fit.cohort import Batches
from survival_objectives._fit.engine import Booster
from survival_objectives._fit.plan import TimePlan
from survival_objectives._fit.population import Population, Reduction
from survival_objectives.curves import KnotCurves, marginal_hazard, time_knots
from survival_objectives.losses import probabilities
from survival_objectives.trees import Forest, monotone_incidence

__all__ = ["ENGINE_ROWS", "PREDICTION_SIZE", "TrainedTrees", "calibrated_curves"]

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]

#: Numbers of curve values held at a time in prediction: 2^24 doubles are 128 MB.
PREDICTION_SIZE = 2**24
#: Up to here the engine's own prediction of every step costs less than walking all trees.
ENGINE_ROWS = 2**15

# People on whose hazards the calibration in time is estimated.
_CALIBRATION_PEOPLE = 20_000


@dataclass(frozen=True)
class TrainedTrees:
    """A trained event model whose margins are log-odds of the states at a time.

    Attributes
    ----------
    events : Booster
        Made from the engine's one model.
    forest : Forest
        Its trees.
    start : array of shape (n_margins,)
        Margins at which training started.
    n_rounds : int
    monotone : bool
        Whether incidences never fall.
    """

    events: Booster
    forest: Forest
    start: FloatArray
    n_rounds: int
    monotone: bool

    def parts(
        self, n_samples: int, n_times: int = 1, size: int = PREDICTION_SIZE
    ) -> Iterator[slice]:
        """People whose curves fit into memory together."""
        n_states = len(self.start) + self.events.reference
        if not self.forest.is_readable:
            size = ENGINE_ROWS
        n_people = max(1, size // (max(self.forest.n_steps, n_times) * n_states))
        for first in range(0, n_samples, n_people):
            yield slice(first, min(first + n_people, n_samples))

    def step_probabilities(self, values: Float32Array, *, engine_rows: int) -> FloatArray:
        """Probabilities of all states on every step, (K + 1, n_steps, n_samples).

        Up to ``engine_rows`` rows the engine evaluates the trees; also where they cannot be read.
        """
        forest, n_people = self.forest, len(values)
        if forest.is_readable and n_people * forest.n_steps > engine_rows:
            margins = forest.step_margins(values)
        else:
            rows = np.empty((n_people * forest.n_steps, values.shape[1] + 1), np.float32)
            rows[:, :-1] = np.repeat(values, forest.n_steps, axis=0)
            rows[:, -1] = np.tile(forest.representatives(), n_people)
            margin = np.asarray(self.events.contribution(rows, 0, self.n_rounds), np.float64)
            margins = margin.reshape(n_people, forest.n_steps, -1).transpose(2, 1, 0)
        margins = margins + self.start[:, None, None]
        flat = margins.reshape(len(margins), -1).T
        proba = probabilities(flat, reference=self.events.reference).T
        proba = np.ascontiguousarray(proba).reshape(-1, forest.n_steps, n_people)
        if self.monotone:
            proba[1:] = monotone_incidence(proba[1:])
            # Rounding may take the sum of all causes just above 1.
            proba[0] = np.maximum(1 - proba[1:].sum(axis=0), 0)
        return proba


def calibrated_curves(
    trees: TrainedTrees,
    batches: Batches,
    population: Population,
    plan: TimePlan,
    *,
    trained_until: float,
    time_smoothing: float,
    reduction: Reduction,
    seed: int,
) -> KnotCurves:
    """Curves by knots that are calibrated in time on people of the training.

    Outcomes are at their places on the time axis.
    """
    axis = plan.axis
    event_times = population.event_times(plan.t_max)
    knots = time_knots(axis, event_times, plan.t_max, round(1 / time_smoothing))
    marginal = marginal_hazard(axis, knots, population.target, population.weight)
    shape = KnotCurves.uncalibrated(axis, knots, marginal, trained_until)
    n_intervals = len(knots) - 1
    crossed = np.zeros((population.target.n_causes, n_intervals, n_intervals))
    at_risk = np.zeros(n_intervals)
    for some in batches.sample(_CALIBRATION_PEOPLE, np.random.default_rng([seed, 1])):
        for part in trees.parts(some.n_samples):
            rows = some.take(np.arange(part.start, part.stop))
            # Each worker of a cluster has its own number of people: none may ask the engine, whose
            # matrices are made by all workers together.
            steps = trees.step_probabilities(rows.features.values, engine_rows=0)[1:]
            added = shape.crossed(shape.cells(steps, trees.forest.breaks), rows.target, rows.weight)
            crossed += added[0]
            at_risk += added[1]
    return shape.calibrated(marginal, reduction.sum(crossed), reduction.sum(at_risk))

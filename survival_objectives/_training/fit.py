"""One training of an estimator, for any censoring method, from memory, disk or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from survival_objectives._engines.protocol import Engine
from survival_objectives._hazards.model import HazardMixture
from survival_objectives._hazards.training import BEYOND_FOLLOW_UP, HazardsTraining
from survival_objectives._horizons.plan import planned_frame
from survival_objectives._horizons.training import StackedTraining
from survival_objectives._models.fitted import FittedModel, ModelFrame, StackedModel, snapshot
from survival_objectives._models.rounding import check_same_time_unit
from survival_objectives._people.cohort import Batches, Cohort
from survival_objectives._people.population import LocalReduction, Population, Reduction
from survival_objectives._process.checkpoints import Checkpoints
from survival_objectives._process.interrupts import interrupts_held
from survival_objectives._process.threads import blas_threads
from survival_objectives._training.parameters import HAZARDS, chosen_method

#: Returns a training part and a held-out part of the people.
Split = Callable[[], tuple[Batches, Cohort]]


@dataclass(frozen=True)
class Training:
    """One training of an estimator.

    Parameters
    ----------
    parameters : mapping
        Parameters of the estimator.
    engine : Engine
        Makes the boosters.
    generator : Generator
        Random numbers; the same in all processes that train together.
    reduction : Reduction
        Sums over these processes.
    previous : FittedModel, optional
        The model that a warm start continues.
    n_turns : int, optional
        Number of turns in which several batches of people are boosted on. Default: all people are
        one batch in memory.
    checkpoints : Checkpoints
    """

    parameters: Mapping[str, Any]
    engine: Engine
    generator: np.random.Generator
    reduction: Reduction = field(default_factory=LocalReduction)
    previous: FittedModel | None = None
    n_turns: int | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    def fit(
        self,
        batches: Batches,
        held_out: Cohort | None = None,
        *,
        split: Split | None = None,
        population: Population | None = None,
    ) -> FittedModel:
        """Train.

        Parameters
        ----------
        batches : Batches
            People with relative weights.
        held_out : Cohort, optional
            People on whom rounds are evaluated, and early stopping is decided.
        split : callable, optional
            Holds some of the people of ``batches`` out for early stopping, where the method has no
            folds and ``held_out`` is not given.
        population : Population, optional
            Outcomes of all people, where they are already known.
        """
        with interrupts_held(), blas_threads(self.parameters["n_jobs"]):
            return self._fit(batches, held_out, split, population)

    def _fit(
        self,
        batches: Batches,
        held_out: Cohort | None,
        split: Split | None,
        population: Population | None,
    ) -> FittedModel:
        if population is None:
            population = self._population(batches)
        previous = self.previous
        method, reason = chosen_method(
            self.parameters,
            population.censored_share,
            previous=None if previous is None else previous.record.method,
            takes_turns=self.n_turns is not None and self.n_turns > 1,
        )
        if method == HAZARDS:
            assert previous is None or isinstance(previous, HazardMixture)
            return HazardsTraining(
                self._frame(population, batches, beyond=BEYOND_FOLLOW_UP),
                reason,
                self.engine,
                self.generator,
                self.reduction,
                previous,
                self.checkpoints,
            ).fit(batches, population, held_out)
        if isinstance(previous, HazardMixture):
            msg = (
                f"The model to continue has hazards, but now the method is {method!r}. {reason} "
                "Go back to the parameters of the first fit, or set `warm_start=False`."
            )
            raise ValueError(msg)
        assert previous is None or isinstance(previous, StackedModel)
        if held_out is None and split is not None:
            batches, held_out = split()
            population = self._population(batches)
        return StackedTraining(
            self._frame(population, batches),
            method,
            reason,
            self.engine,
            self.generator,
            self.reduction,
            previous,
            self.n_turns,
            self.checkpoints,
        ).fit(batches, population, held_out)

    def _population(self, batches: Batches) -> Population:
        outcomes = batches.outcomes().people
        return self.reduction.population(outcomes.target, outcomes.weight)

    def _frame(self, population: Population, batches: Batches, beyond: float = 0.0) -> ModelFrame:
        if self.previous is None:
            return planned_frame(
                population, self.engine.name, batches.schema, self.parameters, beyond=beyond
            )
        frame = self.previous.frame
        check_same_time_unit(population, frame.median_duration)
        return replace(frame, parameters=snapshot(self.parameters))

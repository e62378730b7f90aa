"""Weights 1/G of the people whose state is known, from a model of censoring that does not change.

`KaplanMeierScheme` has the marginal curve, `GivenScheme` a model of the user's own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._horizons.rows import BatchRows, joined
from survival_objectives._horizons.schemes.base import (
    CensoringScheme,
    Chunk,
    TargetsAndWeights,
    WeightSettings,
)
from survival_objectives._horizons.weights import given_survival, marginal_survival
from survival_objectives._people.cohort import Cohort, GivenPeople, Outcomes
from survival_objectives.censoring import CensoringModel
from survival_objectives.stacking import TimeStacker, TrainingRows, event_rows

#: G at the horizons of rows with t > z, and just before the events of the others.
Survival = tuple[FloatArray, FloatArray]


class KaplanMeierScheme(CensoringScheme):
    """Weights 1/G (10) from the marginal Kaplan-Meier curve of censoring."""

    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """Observed states, and weights (10)."""
        weights, n_floored = [], 0
        for rows, survival in self._survival(chunk):
            own, n_own = rows.events.weights(
                *survival, floor=self._settings.floor, sample_weight=rows.weight
            )
            weights.append(own / self._settings.weight_divisor)
            n_floored += n_own
        weight = joined(weights, np.float32)
        self._count_floored(n_floored, len(weight))
        return chunk.draw.target, weight

    def _survival(self, chunk: Chunk) -> Iterator[tuple[BatchRows, Survival]]:
        """Batches of rows with the G that their weights need."""
        for rows in chunk.rows():
            yield rows, self._start_survival(rows.outcomes, rows.events)

    def _start_survival(self, outcomes: Outcomes, rows: TrainingRows) -> Survival:
        """G before any model is trained."""
        return marginal_survival(self._settings.kaplan_meier, outcomes.target, rows)

    def state_weights(self, outcomes: Outcomes, stacker: TimeStacker) -> FloatArray:
        """Total weight of each state on newly drawn rows."""
        target = outcomes.target
        rows = event_rows(target, stacker.draw(target))
        weights, _ = rows.weights(
            *self._start_survival(outcomes, rows),
            floor=self._settings.floor,
            sample_weight=outcomes.weight,
        )
        total = np.bincount(rows.target, weights=weights, minlength=target.n_causes + 1)
        return total.astype(np.float64, copy=False)


class GivenScheme(KaplanMeierScheme):
    """Weights from a censoring model of the user's own, which is evaluated once per draw.

    Parameters
    ----------
    settings : WeightSettings
    model : CensoringModel
    given : GivenPeople, optional
        The training people as the user passed them; not used for held-out people.
    """

    def __init__(
        self, settings: WeightSettings, model: CensoringModel, given: GivenPeople | None
    ) -> None:
        super().__init__(settings)
        self._model, self._given = model, given
        self._known: dict[int, Survival] = {}

    def _survival(self, chunk: Chunk) -> Iterator[tuple[BatchRows, Survival]]:
        number = chunk.draw.number
        for rows in chunk.rows():
            if number not in self._known:
                self._known[number] = self._start_survival(rows.outcomes, rows.events)
            yield rows, self._known[number]

    def _start_survival(self, outcomes: Outcomes, rows: TrainingRows) -> Survival:  # noqa: ARG002
        return self._given_survival(self._given, rows)

    def _held_out_survival(self, cohort: Cohort, rows: TrainingRows) -> Survival:
        return self._given_survival(cohort.given, rows)

    def _given_survival(self, given: GivenPeople | None, rows: TrainingRows) -> Survival:
        assert given is not None
        return given_survival(self._model, given, rows, self._settings.axis)

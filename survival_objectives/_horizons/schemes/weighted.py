"""Weights 1/G of the people whose state is known.

`KaplanMeierScheme` has the marginal curve, `OwnCensoringScheme` a model of the user's own, and
`AlternatingScheme` a boosted model of censoring that trains in turn with the event model.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from scipy.special import expit

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._horizons.rows import (
    BatchReader,
    BatchRows,
    Draw,
    Probes,
    StackedPeople,
    joined,
)
from survival_objectives._horizons.schemes.base import (
    CensoringBooster,
    CensoringScheme,
    Chunk,
    EventMargins,
    TargetsAndWeights,
    WeightSettings,
    marginal_survival,
    own_survival,
    survival_before_events,
)
from survival_objectives._people.cohort import Cohort, Outcomes, PassedPeople
from survival_objectives.censoring import CensoringModel
from survival_objectives.losses import probabilities
from survival_objectives.marginal import StepFunction
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


class OwnCensoringScheme(KaplanMeierScheme):
    """Weights from a censoring model of the user's own, which is evaluated once per draw.

    Parameters
    ----------
    settings : WeightSettings
    model : CensoringModel
    as_passed : PassedPeople, optional
        The training people as the user passed them; not used for held-out people.
    """

    def __init__(
        self, settings: WeightSettings, model: CensoringModel, as_passed: PassedPeople | None
    ) -> None:
        super().__init__(settings)
        self._model, self._as_passed = model, as_passed
        self._known: dict[int, Survival] = {}

    def _survival(self, chunk: Chunk) -> Iterator[tuple[BatchRows, Survival]]:
        number = chunk.draw.number
        for rows in chunk.rows():
            if number not in self._known:
                self._known[number] = self._start_survival(rows.outcomes, rows.events)
            yield rows, self._known[number]

    def _start_survival(self, outcomes: Outcomes, rows: TrainingRows) -> Survival:  # noqa: ARG002
        return self._own_survival(self._as_passed, rows)

    def _held_out_survival(self, cohort: Cohort, rows: TrainingRows) -> Survival:
        return self._own_survival(cohort.as_passed, rows)

    def _own_survival(self, as_passed: PassedPeople | None, rows: TrainingRows) -> Survival:
        assert as_passed is not None
        return own_survival(self._model, as_passed, rows, self._settings.axis)


class AlternatingScheme(KaplanMeierScheme):
    """Weights from a boosted model of censoring, which the event model weights in return.

    Before each chunk but the first, the event model's survival makes the weights (11) of the
    censoring model, which is boosted for as many rounds on the same draw and then makes the weights
    (10) of the event model.

    Parameters
    ----------
    settings : WeightSettings
    booster : CensoringBooster, optional
        The model of censoring. Without one, weights stay those of Kaplan-Meier.
    start : StepFunction
        Its marginal log-odds by time, from which it starts (9).

    Attributes
    ----------
    inverse : array of shape (n_rows,)
        1/G of the event rows of the last chunk, times the weights of their people.
    n_floored_censoring : int
        Rows of the censoring model whose weight the floor limited in its last chunk.
    """

    uses_probes = True

    def __init__(
        self, settings: WeightSettings, booster: CensoringBooster | None, start: StepFunction
    ) -> None:
        super().__init__(settings)
        self._booster, self._start = booster, start
        self._keys: dict[int, int] = {}
        self._probes = -1
        self.inverse = np.empty(0)
        self.n_floored_censoring = 0

    def censoring_probes(self, rows: BatchRows) -> Probes:
        """Where the censoring model is evaluated besides at its rows: just before events."""
        target = rows.target
        people = rows.events.exited
        if not self._settings.one_draw:
            people = np.flatnonzero(target.event > 0)
        return Probes.at_exits(people, target.duration[people], self._settings.axis, left=True)

    def add_draw(self, people: StackedPeople, draw: Draw) -> None:
        """Register the rows of the censoring model."""
        if self._booster is not None:
            rows = partial(people.censoring_matrices, draw.number, self._start_margin)
            self._keys[draw.number] = self._booster.add_batches(rows)

    def add_probes(self, people: StackedPeople, draw: Draw) -> None:
        """Register `censoring_probes`."""
        if self._booster is not None:
            rows = partial(
                people.probe_matrices, draw.number, self.censoring_probes, self._start_margin
            )
            self._probes = self._booster.add_batches(rows)

    def _start_margin(self, feature: Float32Array) -> FloatArray:
        return self._start(feature)[:, None]

    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """Observed states, and weights (10) after a chunk of rounds of the censoring model."""
        if self._can_advance(chunk):
            self._advance(chunk, chunk.n_rounds, chunk.events)
        target, self.inverse = super().targets_and_weights(chunk)
        return target, self.inverse

    def _can_advance(self, chunk: Chunk) -> bool:
        """Whether there are censored rows to train the censoring model on."""
        # If no one is censored before these horizons, the censoring model has nothing to learn.
        has_rows = chunk.events.n_rounds > 0 and chunk.draw.has_censored
        return self._booster is not None and has_rows

    def _advance(self, chunk: Chunk, n_rounds: int, events: EventMargins) -> None:
        """Train the censoring model under weights (11) by the event model."""
        assert self._booster is not None
        margin, probes = BatchReader(events.at_horizons()), BatchReader(events.at_probes())
        targets, weights, n_floored = [], [], 0
        for rows in chunk.rows():
            at_horizon = margin.next(rows.events.n_rows)[rows.events.at_risk]
            asked = self.event_probes(rows)
            at_exit = asked.last(probes.next(asked.n_probes), rows.censorings.exited)
            own, n_own = rows.censorings.weights(
                probabilities(at_horizon, reference=events.reference)[:, 0],
                probabilities(at_exit, reference=events.reference)[:, 0],
                floor=self._settings.event_floor,
                sample_weight=rows.weight,
            )
            targets.append(rows.censorings.target)
            weights.append(own / self._settings.weight_divisor)
            n_floored += n_own
        self._booster.boost(
            self._keys[chunk.draw.number],
            joined(targets, np.int8),
            joined(weights, np.float32),
            n_rounds,
        )
        self.refreshed_rounds.append(events.n_rounds)
        self.n_floored_censoring = n_floored

    def _survival(self, chunk: Chunk) -> Iterator[tuple[BatchRows, Survival]]:
        if self._booster is None or self._booster.n_rounds == 0:
            yield from super()._survival(chunk)
            return
        for rows, at_horizon, asked, before in self._uncensored(chunk, self._booster):
            yield rows, (at_horizon, asked.last(before, rows.events.exited))

    def _uncensored(
        self, chunk: Chunk, booster: CensoringBooster
    ) -> Iterator[tuple[BatchRows, FloatArray, Probes, FloatArray]]:
        """Batches with G at the horizons of rows at risk, and just before the probes."""
        margin = BatchReader(booster.margin(self._keys[chunk.draw.number]))
        probes = BatchReader(booster.margin(self._probes))
        for rows in chunk.rows():
            asked = self.censoring_probes(rows)
            at_horizon = margin.next(rows.censorings.n_rows)[rows.censorings.at_risk, 0]
            before = survival_before_events(probes.next(asked.n_probes)[:, 0], asked.times)
            yield rows, expit(-at_horizon), asked, before

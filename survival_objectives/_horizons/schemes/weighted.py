"""The protocol of all schemes, and those with weights 1/G of the people whose state is known.

`KaplanMeierScheme` has the marginal curve, `OwnCensoringScheme` a model of the user's own, and
`AlternatingScheme` a boosted model of censoring that trains in turn with the event model.

Functions that return the censoring survival which the weights (10) need give G at the horizons of
rows with t > z, and G just before the events of the other people: the arguments of
`TrainingRows.weights`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import StackedBatches
from survival_objectives._horizons.rows import (
    BatchReader,
    BatchRows,
    Draw,
    Probes,
    StackedPeople,
    joined,
)
from survival_objectives._people import SurvivalTarget
from survival_objectives._people.cohort import Cohort, Outcomes, PassedPeople
from survival_objectives._people.population import Reduction, TimeAxis
from survival_objectives.censoring import CensoringModel, KaplanMeierCensoring
from survival_objectives.losses import probabilities
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import TimeStacker, TrainingRows, event_rows

TargetsAndWeights = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def _no_margins() -> npt.ArrayLike:
    msg = "The event model has no rounds yet, so it must not be asked."
    raise RuntimeError(msg)


@dataclass(frozen=True)
class EventMargins:
    """The event model, as a scheme sees it between two chunks of rounds.

    Attributes
    ----------
    n_rounds : int
        Rounds so far.
    reference : bool
        Link, see `survival_objectives.losses`.
    at_horizons : callable
        Margins of the event rows of the current draw, (n_rows, n_margins).
    at_probes : callable
        Margins at `CensoringScheme.event_probes`, (n_probes, n_margins).
    """

    n_rounds: int
    reference: bool
    at_horizons: Callable[[], npt.ArrayLike] = _no_margins
    at_probes: Callable[[], npt.ArrayLike] = _no_margins


class CensoringBooster(Protocol):
    """What a scheme needs of the model of censoring that it trains.

    The boosters of the estimator (`survival_objectives._engines.protocol.Booster`) have these
    members, and so have those that the plugin trains beside the user's model.
    """

    @property
    def n_rounds(self) -> int:
        """Rounds so far."""

    def add_batches(self, rows: StackedBatches) -> int:
        """Register rows that come in batches, as one matrix; returns its key."""

    def boost(
        self, key: int, target: npt.NDArray[Any], weight: npt.NDArray[Any], n_rounds: int
    ) -> None:
        """Train ``n_rounds`` more rounds on registered rows."""

    def margin(self, key: int) -> npt.ArrayLike:
        """Current log-odds of being censored at registered rows, (n_rows, 1)."""


@dataclass(frozen=True)
class Chunk:
    """The rounds between two refreshes, and the rows that they are boosted on.

    Attributes
    ----------
    number : int
        Of the chunk, from 0 on.
    n_rounds : int
    people : StackedPeople
    draw : Draw
        Horizons of the rows.
    events : EventMargins
        The event model.
    """

    number: int
    n_rounds: int
    people: StackedPeople
    draw: Draw
    events: EventMargins

    def rows(self) -> Iterator[BatchRows]:
        """Rows, batch by batch."""
        return self.people.rows(self.draw.number)


@dataclass(frozen=True)
class WeightSettings:
    """What all schemes share.

    Attributes
    ----------
    kaplan_meier : KaplanMeierCensoring
        Marginal censoring of the population.
    axis : TimeAxis
    floor, event_floor : float
        Smaller probabilities of being uncensored, or event-free, count as these in weights.
    weight_divisor : int
        By which weights are divided: the stacked rows per person, or 1.
    reduction : Reduction
    one_draw : bool, default=False
        Whether there is a single draw of horizons, so that models need be asked about the exits of
        those people only who left before one of them.
    """

    kaplan_meier: KaplanMeierCensoring
    axis: TimeAxis
    floor: float
    event_floor: float
    weight_divisor: int
    reduction: Reduction
    one_draw: bool = False


class CensoringScheme(ABC):
    """One way in which censored people count.

    Parameters
    ----------
    settings : WeightSettings

    Attributes
    ----------
    refreshed_rounds : list of int
        Rounds after which targets or weights were refreshed by a trained model.
    n_floored, n_weighted_rows : int
        Rows of the last chunk whose weight the floor limits, and all of them, over all processes.
    """

    #: Makes the rows of the event model from outcomes and horizons.
    event_rows = staticmethod(event_rows)
    #: Whether the event model is asked at `event_probes`.
    uses_probes = False
    #: First rounds of the event model by which it must not be judged, unless there are no others.
    n_warm_up_rounds = 0

    def __init__(self, settings: WeightSettings) -> None:
        self._settings = settings
        self.refreshed_rounds: list[int] = []
        self.n_floored, self.n_weighted_rows = 0, 0

    def event_probes(self, rows: BatchRows) -> Probes:
        """Where the event model is asked besides at its rows: censored people at their exits."""
        target = rows.target
        people = rows.censorings.exited
        if not self._settings.one_draw:
            people = np.flatnonzero(target.event == 0)
        return Probes.at_exits(people, target.duration[people], self._settings.axis)

    # Most schemes train no model of their own: these do nothing by default.
    def add_draw(self, people: StackedPeople, draw: Draw) -> None:  # noqa: B027
        """Register the rows of a draw with the scheme's own model."""

    def add_probes(self, people: StackedPeople, draw: Draw) -> None:  # noqa: B027
        """Register with the scheme's own model where it is asked besides at its rows."""

    @abstractmethod
    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """Targets and weights of the event rows for the next chunk of rounds."""

    @abstractmethod
    def state_weights(self, outcomes: Outcomes, stacker: TimeStacker) -> FloatArray:
        """Total weight of each state on newly drawn rows, before any model is trained."""

    def row_weight(self, rows: BatchRows) -> FloatArray:
        """Weights of the event rows without a censoring adjustment."""
        weight = np.full(rows.events.n_rows, 1 / self._settings.weight_divisor)
        if rows.weight is not None:
            weight *= rows.weight[rows.events.person]
        return weight

    def held_out_until(self, last: float) -> float:
        """The latest horizon, at most ``last``, at which held-out people are judged."""
        return last

    def held_out_weight(self, cohort: Cohort, rows: TrainingRows) -> FloatArray:
        """Weights (10) of event rows of held-out people, by the censoring of training people."""
        weight, _ = rows.weights(
            *self._held_out_survival(cohort, rows),
            floor=self._settings.floor,
            sample_weight=cohort.weight,
        )
        return weight

    def _held_out_survival(
        self, cohort: Cohort, rows: TrainingRows
    ) -> tuple[FloatArray, FloatArray]:
        """G of held-out people at the horizons of the rows at risk, and before their events."""
        return marginal_survival(self._settings.kaplan_meier, cohort.target, rows)

    def _count_floored(self, n_floored: int, n_rows: int) -> None:
        totals = self._settings.reduction.sum([n_floored, n_rows])
        self.n_floored, self.n_weighted_rows = int(totals[0]), int(totals[1])


def marginal_survival(
    kaplan_meier: KaplanMeierCensoring, target: SurvivalTarget, rows: TrainingRows
) -> tuple[FloatArray, FloatArray]:
    """Marginal G at the horizons of rows with t > z, and just before the events of the others."""
    return (
        kaplan_meier.survival(rows.horizon[rows.at_risk]),
        kaplan_meier.survival(target.duration[rows.exited], left=True),
    )


def survival_before_events(margin: npt.ArrayLike, duration: FloatArray) -> FloatArray:
    """G just before events at ``duration``, from log-odds of being censored by then.

    >>> survival_before_events(np.zeros(2), np.array([0.0, 1.0]))
    array([1. , 0.5])
    """
    before: FloatArray = expit(-np.asarray(margin, dtype=np.float64))
    before[duration <= 0] = 1.0  # No one is censored before the start.
    return before


def own_survival(
    model: CensoringModel, as_passed: PassedPeople, rows: TrainingRows, axis: TimeAxis
) -> tuple[FloatArray, FloatArray]:
    """G of the user's model at the horizons of rows with t > z, and before the others' events.

    The model sees people and event times as the user gave them. For a horizon within a unit of
    time, G is evaluated at the start of the unit.
    """

    def survival(people: IntArray, times: FloatArray, left: bool) -> FloatArray:
        known = model.survival(times, as_passed.take(people).X, left=left)
        return _checked_survival(known, len(people))

    horizon = rows.horizon[rows.at_risk].astype(np.float64)
    in_units = bool(axis.unit)
    # A beginning that is rounded up must not be taken for a time after it.
    asked = axis.number(horizon) * axis.unit * (1 - 1e-6) if in_units else horizon
    return (
        survival(rows.person[rows.at_risk], asked, left=in_units),
        survival(rows.exited, as_passed.duration[rows.exited], left=True),
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


# ------------------------------------------------------------------------------------ weights 1 / G
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

r"""How people count who were censored before a horizon: one scheme per way.

- `KaplanMeierScheme`: the others are weighted by 1/G, with one marginal curve G of censoring;
- `AlternatingScheme`: the same, with a boosted model of censoring that trains in turn with the
  event model, whose survival weights it in return (Algorithms 1-3);
- `ImputedScheme`: states are drawn for the rows of censored people, from the marginal curves at
  first, then from the event model itself. No weight grows as 1/G;
- `CompletedScheme`: the rows of censored people have distributions over the states as targets,
  from a model of the incidences;
- `GivenScheme`: weights from a censoring model of the user's own.

A scheme gives targets and weights for the next rounds of the event model. What it asks of that
model are margins at the horizons and at the exits of censored people (`EventMargins`), so that it
does not matter who trains it.

Weights are divided by the number of horizons, so that a person weighs about 1 in every round: rows
of one person are not independent, and leaf regularisation should count people.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from survival_objectives._fit.cohort import Cohort, GivenPeople, Outcomes
from survival_objectives._fit.engine import Booster
from survival_objectives._fit.population import Reduction
from survival_objectives._fit.rows import BatchReader, BatchRows, Draw, StackedPeople, joined
from survival_objectives._fit.weights import (
    given_survival,
    marginal_survival,
    survival_before_events,
)
from survival_objectives.censoring import CensoringModel, KaplanMeierCensoring
from survival_objectives.completion import Incidence, completed_targets, lost_states
from survival_objectives.losses import probabilities
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import (
    Stack,
    TimeStacker,
    TrainingRows,
    all_rows,
    conditional_incidence,
    drawn_states,
    event_rows,
    lost_rows,
)
from survival_objectives.time_axis import TimeAxis
from survival_objectives.validation import SurvivalTarget

__all__ = [
    "AlternatingScheme",
    "CensoringScheme",
    "Chunk",
    "CompletedScheme",
    "EventMargins",
    "GivenScheme",
    "ImputedScheme",
    "KaplanMeierScheme",
    "WeightSettings",
]

FloatArray = npt.NDArray[np.float64]
TargetsAndWeights = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class EventMargins(Protocol):
    """What a scheme may ask of the event model between two chunks of rounds."""

    @property
    def n_rounds(self) -> int:
        """Rounds so far."""
        ...

    @property
    def reference(self) -> bool:
        """Link, see `survival_objectives.losses`."""
        ...

    def at_horizons(self) -> npt.ArrayLike:
        """Margins of the event rows of the current draw, (n_rows, n_margins)."""
        ...

    def at_exits(self) -> npt.ArrayLike:
        """Margins of censored people at the time of their exit, (n_censored, n_margins)."""
        ...


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
    floor : float
        Smaller survival probabilities count as this one in weights.
    n_horizons : int
        Stacked rows per person.
    reduction : Reduction
    """

    kaplan_meier: KaplanMeierCensoring
    floor: float
    n_horizons: int
    reduction: Reduction


class CensoringScheme(ABC):
    """One way in which censored people count.

    Attributes
    ----------
    refreshed_rounds : list of int
        Rounds after which targets or weights were refreshed by a trained model.
    n_floored, n_weighted_rows : int
        Rows of the last chunk whose weight the floor limits, and all of them, over all processes.
    """

    #: Whether the event model is asked about censored people at their exits.
    uses_exits = False
    #: First rounds of the event model by which it must not be judged, unless there are no others.
    n_warm_up_rounds = 0

    def __init__(self, settings: WeightSettings) -> None:
        self._settings = settings
        self.refreshed_rounds: list[int] = []
        self.n_floored, self.n_weighted_rows = 0, 0

    @property
    def boosters(self) -> Sequence[Booster]:
        """Models that the scheme trains itself."""
        return ()

    def event_rows(self, target: SurvivalTarget, stack: Stack) -> TrainingRows:
        """Rows of the event model."""
        return event_rows(target, stack)

    # Most schemes train no model of their own: these do nothing by default.
    def add_draw(self, people: StackedPeople, draw: Draw) -> None:  # noqa: B027
        """Register the rows of a draw with the scheme's own models."""

    def add_exits(self, people: StackedPeople) -> None:  # noqa: B027
        """Register people at their exits with the scheme's own models."""

    @abstractmethod
    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """Targets and weights of the event rows for the next chunk of rounds."""

    @abstractmethod
    def state_weights(self, outcomes: Outcomes, stacker: TimeStacker) -> FloatArray:
        """Total weight of each state on newly drawn rows, before any model is trained."""

    def held_out_until(self, last: float) -> float:
        """The latest horizon, at most ``last``, at which held-out people are judged."""
        return last

    def held_out_survival(
        self, cohort: Cohort, role: TrainingRows
    ) -> tuple[FloatArray, FloatArray]:
        """G of held-out people at the horizons of the rows that stayed, and before their events."""
        return marginal_survival(self._settings.kaplan_meier, cohort.target, role)

    def state(self) -> bytes:
        """What the scheme has trained, for a checkpoint."""
        return b""

    def restore(self, state: bytes) -> None:  # noqa: B027
        """Continue from a `state`."""

    def trained_model(self) -> Any:
        """The engine's own model of censoring, or None where none was trained."""
        return None


# ---------------------------------------------------------------------------------------- weights
class KaplanMeierScheme(CensoringScheme):
    """Weights 1/G (10) from the marginal Kaplan-Meier curve of censoring."""

    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """Observed states, and weights (10)."""
        weights, n_floored = [], 0
        for rows, (at_horizon, at_exit) in self._survival(chunk):
            own, n_own = rows.events.weights(
                at_horizon, at_exit, floor=self._settings.floor, sample_weight=rows.weight
            )
            weights.append(own / self._settings.n_horizons)
            n_floored += n_own
        weight = joined(weights, np.float32)
        totals = self._settings.reduction.sum([n_floored, len(weight)])
        self.n_floored, self.n_weighted_rows = int(totals[0]), int(totals[1])
        return chunk.draw.target, weight

    def _survival(self, chunk: Chunk) -> Iterator[tuple[BatchRows, tuple[FloatArray, FloatArray]]]:
        """Batches with G at the horizons of rows that stayed, and before the events of others."""
        for rows in chunk.rows():
            yield rows, marginal_survival(self._settings.kaplan_meier, rows.target, rows.events)

    def _start_survival(
        self, outcomes: Outcomes, role: TrainingRows
    ) -> tuple[FloatArray, FloatArray]:
        """G before any model is trained."""
        return marginal_survival(self._settings.kaplan_meier, outcomes.target, role)

    def state_weights(self, outcomes: Outcomes, stacker: TimeStacker) -> FloatArray:
        """Total weight of each state on newly drawn rows."""
        target = outcomes.target
        role = event_rows(target, stacker.draw(target))
        weights, _ = role.weights(
            *self._start_survival(outcomes, role),
            floor=self._settings.floor,
            sample_weight=outcomes.weight,
        )
        total = np.bincount(role.target, weights=weights, minlength=target.n_causes + 1)
        return total.astype(np.float64, copy=False)


class AlternatingScheme(KaplanMeierScheme):
    """Weights from a boosted model of censoring, which the event model weights in return.

    Before each chunk but the first, the event model's survival makes the weights (11) of the
    censoring model, which is boosted for as many rounds on the same draw and then makes the weights
    (10) of the event model.

    Parameters
    ----------
    settings : WeightSettings
    booster : Booster
        The model of censoring.
    start : StepFunction
        Its marginal log-odds by time, from which it starts (9).
    """

    uses_exits = True

    def __init__(self, settings: WeightSettings, booster: Booster, start: StepFunction) -> None:
        super().__init__(settings)
        self._booster, self._start = booster, start
        self._keys: dict[int, int] = {}
        self._exits = -1

    @property
    def boosters(self) -> Sequence[Booster]:
        """The model of censoring."""
        return (self._booster,)

    def add_draw(self, people: StackedPeople, draw: Draw) -> None:
        """Register the rows of the censoring model."""
        rows = partial(people.censoring_matrices, draw.number, self._start)
        self._keys[draw.number] = self._booster.add_batches(rows)

    def add_exits(self, people: StackedPeople) -> None:
        """Register people with an event, just before it."""
        self._exits = self._booster.add_batches(partial(people.happened_matrices, self._start))

    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """Observed states, and weights (10) after a chunk of rounds of the censoring model."""
        # Nobody may be censored before these horizons: then there is nothing to learn from them.
        if chunk.events.n_rounds > 0 and chunk.draw.has_censored:
            self._advance(chunk)
        return super().targets_and_weights(chunk)

    def _advance(self, chunk: Chunk) -> None:
        events = chunk.events
        margin, exits = BatchReader(events.at_horizons()), BatchReader(events.at_exits())
        targets, weights = [], []
        for rows in chunk.rows():
            stayed = margin.next(rows.events.n_rows)[rows.events.stayed]
            at_horizon = probabilities(stayed, reference=events.reference)[:, 0]
            at_exit = probabilities(exits.next(rows.n_censored), reference=events.reference)[:, 0]
            role = rows.censorings
            own, _ = role.weights(
                at_horizon,
                at_exit[rows.censored_position(role.leaver)],
                floor=self._settings.floor,
                sample_weight=rows.weight,
            )
            targets.append(role.target)
            weights.append(own / self._settings.n_horizons)
        self._booster.boost(
            self._keys[chunk.draw.number],
            joined(targets, np.int8),
            joined(weights, np.float32),
            chunk.n_rounds,
        )
        self.refreshed_rounds.append(events.n_rounds)

    def _survival(self, chunk: Chunk) -> Iterator[tuple[BatchRows, tuple[FloatArray, FloatArray]]]:
        if self._booster.n_rounds == 0:
            yield from super()._survival(chunk)
            return
        margin = BatchReader(self._booster.margin(self._keys[chunk.draw.number]))
        exits = BatchReader(self._booster.margin(self._exits))
        for rows in chunk.rows():
            role, target = rows.censorings, rows.target
            at_horizon = expit(-margin.next(role.n_rows)[role.stayed, 0])
            happened = target.event > 0
            before = survival_before_events(
                exits.next(int(np.count_nonzero(happened)))[:, 0], target.duration[happened]
            )
            yield rows, (at_horizon, before[rows.happened_position(rows.events.leaver)])

    def state(self) -> bytes:
        """State of the model of censoring."""
        return self._booster.state()

    def restore(self, state: bytes) -> None:
        """Continue with an earlier model of censoring."""
        if state:
            self._booster.restore(state)

    def trained_model(self) -> Any:
        """The engine's own model of censoring."""
        n_rounds = self._booster.n_rounds
        return self._booster.model(n_rounds) if n_rounds else None


class GivenScheme(KaplanMeierScheme):
    """Weights from a censoring model of the user's own, which is asked once per draw.

    Parameters
    ----------
    settings : WeightSettings
    model : CensoringModel
    given : GivenPeople
        The training people as the user passed them.
    axis : TimeAxis
    """

    def __init__(
        self, settings: WeightSettings, model: CensoringModel, given: GivenPeople, axis: TimeAxis
    ) -> None:
        super().__init__(settings)
        self._model, self._given, self._axis = model, given, axis
        self._known: dict[int, tuple[FloatArray, FloatArray]] = {}

    def _survival(self, chunk: Chunk) -> Iterator[tuple[BatchRows, tuple[FloatArray, FloatArray]]]:
        number = chunk.draw.number
        for rows in chunk.rows():
            if number not in self._known:
                self._known[number] = self._start_survival(rows.outcomes, rows.events)
            yield rows, self._known[number]

    def _start_survival(
        self,
        outcomes: Outcomes,  # noqa: ARG002
        role: TrainingRows,
    ) -> tuple[FloatArray, FloatArray]:
        return given_survival(self._model, self._given, role, self._axis)

    def held_out_survival(
        self, cohort: Cohort, role: TrainingRows
    ) -> tuple[FloatArray, FloatArray]:
        """G of held-out people by the user's model."""
        assert cohort.given is not None
        return given_survival(self._model, cohort.given, role, self._axis)


# -------------------------------------------------------------------------------------- completion
class _AllRowsScheme(CensoringScheme):
    """A scheme with targets for the rows of censored people, so that no row needs a weight 1/G.

    Parameters
    ----------
    settings : WeightSettings
    marginal : StepFunction
        Aalen-Johansen curves of the population, (n_steps, K + 1).
    """

    def __init__(self, settings: WeightSettings, marginal: StepFunction) -> None:
        super().__init__(settings)
        self._marginal = marginal

    def event_rows(self, target: SurvivalTarget, stack: Stack) -> TrainingRows:
        """All rows, also those of censored people."""
        return all_rows(target, stack)

    def _weight(self, rows: BatchRows) -> FloatArray:
        weight = np.full(rows.events.n_rows, 1 / self._settings.n_horizons)
        if rows.weight is not None:
            weight *= rows.weight[rows.events.person]
        return weight

    def state_weights(self, outcomes: Outcomes, stacker: TimeStacker) -> FloatArray:
        """Total weight of each state on newly drawn rows, by the marginal curves."""
        stack = stacker.draw(outcomes.target)
        states = self._marginal(stack.horizon)
        weight = np.ones(outcomes.n_samples) if outcomes.weight is None else outcomes.weight
        total: FloatArray = weight[stack.person] @ states
        return total

    def held_out_until(self, last: float) -> float:
        """Where hardly anybody is seen any more, a weighted loss would say little."""
        curve = self._settings.kaplan_meier.curve_
        unseen = curve.times[(curve.values < self._settings.floor) & (curve.times > 0)]
        return min(last, float(unseen[0])) if len(unseen) else last


class CompletedScheme(_AllRowsScheme):
    """Distributions (46) of a completion model as targets; it is asked once per draw.

    Parameters
    ----------
    settings, marginal
        As in the other schemes of all rows.
    incidence : callable
        ``incidence(people, times)`` gives curves of training people by their positions.
    axis : TimeAxis
    """

    def __init__(
        self,
        settings: WeightSettings,
        marginal: StepFunction,
        incidence: Incidence,
        axis: TimeAxis,
    ) -> None:
        super().__init__(settings, marginal)
        self._incidence, self._axis = incidence, axis
        self._known: dict[int, npt.NDArray[np.float32]] = {}

    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """Distributions over the states, and weights without a censoring adjustment."""
        number, weights = chunk.draw.number, []
        for rows in chunk.rows():
            if number not in self._known:
                states = lost_states(self._incidence, rows.target, rows.events, self._axis)
                self._known[number] = completed_targets(rows.target, rows.events, *states)
            weights.append(self._weight(rows))
        return self._known[number], joined(weights, np.float32)


class ImputedScheme(_AllRowsScheme):
    """States that are drawn for the rows of censored people, equation (15).

    Draws are new for every chunk.

    Parameters
    ----------
    settings : WeightSettings
    marginal : StepFunction
        Aalen-Johansen curves of the population, (n_steps, K + 1).
    n_marginal_rounds : int
        Rounds during which states are drawn from these curves, and afterwards from the model.
    seed : int
        Of the draws.
    """

    uses_exits = True

    def __init__(
        self, settings: WeightSettings, marginal: StepFunction, n_marginal_rounds: int, seed: int
    ) -> None:
        super().__init__(settings, marginal)
        self._seed = seed
        # A model of marginal draws learns that all people are alike, which it has to unlearn.
        self.n_warm_up_rounds = n_marginal_rounds

    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """States, some of them drawn, and weights without a censoring adjustment."""
        events = chunk.events
        by_model = events.n_rounds >= self.n_warm_up_rounds
        if by_model:
            margin, exits = BatchReader(events.at_horizons()), BatchReader(events.at_exits())
            self.refreshed_rounds.append(events.n_rounds)
        # By chunk, so that a training that is resumed draws what it would have drawn.
        generator = np.random.default_rng([self._seed, chunk.number])
        targets, weights = [], []
        for rows in chunk.rows():
            role = rows.events
            lost = lost_rows(rows.target, role)
            leaver = role.person[lost]
            if by_model:
                at_exit = probabilities(exits.next(rows.n_censored), reference=events.reference)
                states = (
                    probabilities(margin.next(role.n_rows)[lost], reference=events.reference),
                    at_exit[rows.censored_position(leaver)],
                )
            else:
                exit_time = rows.target.duration[leaver]
                states = self._marginal(role.horizon[lost]), self._marginal(exit_time)
            target = role.target.copy()
            target[lost] = drawn_states(conditional_incidence(*states), generator)
            targets.append(target)
            weights.append(self._weight(rows))
        return joined(targets, np.int8), joined(weights, np.float32)

r"""The training loop that the estimator owns: Algorithms 1-3 on whichever engine.

An engine that is driven from outside can do what its own training call cannot: look at everybody at
new horizons as it goes. A few stacks of horizons are drawn once and boosted on in turn, a chunk of
rounds each, so that a person is seen at several times as many horizons as a round costs rows.
Between chunks the two models weigh each other: survival of the event model makes the weights (11)
of the censoring model, which advances by a chunk on the same stack and makes the weights (10) of
the next chunk of events.

Instead of weighing, the loop can fill in what censored people would have come to (`Imputation`): a
state is drawn for each of their later horizons, anew for every chunk, first from everybody's
Aalen-Johansen curve, then from what the event model itself has learnt. There is no censoring model
then, and no weight that grows as 1/G.

Weights are divided by the number of horizons, so that a person weighs about 1 in every round: rows
of one person are not independent, and leaf regularisation should count people.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from survival_objectives._fit.population import LocalReduction, Reduction
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.losses import pointwise_log_loss, probabilities
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import (
    Role,
    Stack,
    TimeStacker,
    censoring_role,
    complete_role,
    conditional_incidence,
    drawn_states,
    event_role,
    exit_feature,
    lost_rows,
    stacked_matrix,
)
from survival_objectives.validation import Features, SurvivalTarget

__all__ = [
    "BoostingLoop",
    "CycledBooster",
    "HeldOut",
    "Imputation",
    "LoopSettings",
    "LoopState",
    "RoundRecord",
]

logger = logging.getLogger("survival_objectives")

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]

# Steps of the marginal censoring curve that is kept with the model, which must not spell out when
# the people of training left: even ones, and ones that double for times that crowd at the start.
_EVEN_STEPS, _DOUBLING_STEPS = 64, 96


class CycledBooster(Protocol):
    """A boosted model of one engine that trains on several matrices in turn."""

    #: Whether the event-free margin is left out (see `survival_objectives.losses`).
    reference: bool

    @property
    def n_rounds(self) -> int:
        """Rounds so far."""
        ...

    def add(self, values: Float32Array, start: FloatArray) -> int:
        """Register rows (features, time) with their starting margins; returns their key."""
        ...

    def boost(
        self, key: int, target: npt.NDArray[np.int32], weight: FloatArray, n_rounds: int
    ) -> None:
        """Train ``n_rounds`` more rounds on registered rows."""
        ...

    def margin(self, key: int) -> npt.ArrayLike:
        """Current margins of registered rows, (n_rows, n_margins), start included."""
        ...

    def contribution(self, values: Float32Array, first: int, last: int) -> npt.ArrayLike:
        """Sum of the trees of rounds first..last-1 on any rows, (n_rows, n_margins)."""
        ...


@dataclass(frozen=True)
class LoopSettings:
    """What the loop does, apart from the settings of the trees."""

    n_rounds: int
    refresh_every: int
    n_stacks: int
    min_censoring_survival: float
    min_event_survival: float
    early_stopping_rounds: int | None


@dataclass(frozen=True)
class Imputation:
    """How states are filled in for people who were censored before the horizon.

    Attributes
    ----------
    marginal : StepFunction
        Everybody's Aalen-Johansen curves, (n_steps, K + 1).
    n_marginal_rounds : int
        Rounds during which these curves fill in; after them the model has learnt enough to do so.
    seed : int
        Of the draws.
    """

    marginal: StepFunction
    n_marginal_rounds: int
    seed: int


@dataclass(frozen=True)
class RoundRecord:
    """Held-out loss after a round."""

    round: int
    loss: float


class ResumableBooster(CycledBooster, Protocol):
    """A boosted model whose trees can be taken out and put back."""

    def state(self) -> bytes:
        """The trees so far; empty before the first."""
        ...

    def restore(self, state: bytes) -> None:
        """Go on from these trees, which grew on the same registered rows."""
        ...


@dataclass(frozen=True)
class LoopState:
    """Where a training stands between two chunks: with the same people and seed, it goes on here.

    Attributes
    ----------
    n_chunks : int
        Chunks that are done.
    events, censoring : bytes
        Trees of the models; empty where there are none.
    history, refreshed_rounds
        As in `BoostingLoop`.
    """

    n_chunks: int
    events: bytes
    censoring: bytes
    history: tuple[RoundRecord, ...]
    refreshed_rounds: tuple[int, ...]


@dataclass(frozen=True)
class HeldOut:
    """Stacked rows of held-out people."""

    values: Float32Array
    target: npt.NDArray[np.int32]
    weight: FloatArray


@dataclass
class _StackedRoles:
    """One draw of horizons, as both models see it."""

    events: Role
    censorings: Role
    event_key: int
    censoring_key: int | None


@dataclass
class BoostingLoop:
    """State of one training.

    Parameters
    ----------
    features, target, sample_weight
        Checked training data; durations are float32 values.
    stacker : TimeStacker
        Draws the horizons.
    events, censoring : CycledBooster
        The two models; ``censoring`` is None with Kaplan-Meier weights.
    start : array of shape (n_margins,)
        Margins at which the event model starts.
    settings : LoopSettings
    kaplan_meier : KaplanMeierCensoring
        Everybody's censoring.
    imputation : Imputation, optional
        Fill in states instead of weighing by censoring; ``censoring`` is None then.
    reduction : Reduction
        Sums over all parts of the people, where others train on the rest.
    state : LoopState, optional
        Where to go on.
    """

    features: Features
    target: SurvivalTarget
    sample_weight: FloatArray | None
    stacker: TimeStacker
    events: CycledBooster
    censoring: CycledBooster | None
    start: FloatArray
    censoring_start: StepFunction
    settings: LoopSettings
    kaplan_meier: KaplanMeierCensoring
    imputation: Imputation | None = None
    reduction: Reduction = field(default_factory=LocalReduction)
    state: LoopState | None = None
    on_chunk: Callable[[int, float], None] | None = None
    checkpoint_every: int | None = None
    on_checkpoint: Callable[[LoopState], None] | None = None
    history: list[RoundRecord] = field(default_factory=list)
    refreshed_rounds: list[int] = field(default_factory=list)
    n_floored: int = 0
    n_weighted_rows: int = 0
    best_round: int | None = None

    def run(self, held_out: HeldOut | None = None) -> None:
        """Train; with held-out people, stop when their loss has stopped falling."""
        settings = self.settings
        n_chunks = -(-settings.n_rounds // settings.refresh_every)
        self._prepare(n_chunks)
        first_round = self.events.n_rounds
        held_margin = None
        if held_out is not None:
            held_margin = np.tile(self.start, (len(held_out.target), 1)) + np.asarray(
                self.events.contribution(held_out.values, 0, first_round)
            )
            if first_round:  # A model that training goes on from may stay the best.
                self._record(held_out, held_margin, first_round)
        first_chunk = 0
        if self.state is not None:
            first_chunk = self._restore(self.state)
            if held_out is not None and held_margin is not None:
                rounds = range(first_round, self.events.n_rounds)
                held_margin = self._margin_after(held_out, held_margin, rounds)
        for chunk in range(first_chunk, n_chunks):
            if self._should_stop():
                break
            stack = self._stack(chunk)
            done = self.events.n_rounds - first_round
            n_rounds = min(settings.refresh_every, settings.n_rounds - done)
            target, weight = self._lesson(stack, chunk, n_rounds)
            self.events.boost(stack.event_key, target, weight, n_rounds)
            if held_out is not None and held_margin is not None:
                held_margin = self._evaluate(held_out, held_margin, n_rounds)
            if self.on_chunk is not None:
                self.on_chunk(n_rounds, self._latest_loss(stack, target, weight))
            if self._checkpoint_is_due(chunk + 1):
                self._checkpoint(chunk + 1)
        if self.history and settings.early_stopping_rounds is not None:
            self.best_round = self._best_so_far()

    # ------------------------------------------------------------------------------------- rows
    def _prepare(self, n_chunks: int) -> None:
        n_stacks = min(self.settings.n_stacks, n_chunks)
        self._stacks = [self._new_stack() for _ in range(n_stacks)]
        self._add_exits()

    def _stack(self, chunk: int) -> _StackedRoles:
        """The rows that a chunk of rounds is boosted on."""
        return self._stacks[chunk % len(self._stacks)]

    def _new_stack(self) -> _StackedRoles:
        stack = self.stacker.draw(self.target)
        events = self._event_role(self.target, stack)
        if not self._anywhere(events.stayed):
            msg = "Nobody is event-free at any horizon, so there is one class only to learn."
            raise ValueError(msg)
        censorings = censoring_role(self.target, stack)
        start = np.tile(self.start, (events.n_rows, 1))
        event_key = self.events.add(events.matrix(self.features), start)
        censoring_key = None
        if self.censoring is not None:
            censoring_key = self.censoring.add(
                censorings.matrix(self.features), self.censoring_start(censorings.horizon)[:, None]
            )
        return _StackedRoles(events, censorings, event_key, censoring_key)

    def _event_role(self, target: SurvivalTarget, stack: Stack) -> Role:
        make = event_role if self.imputation is None else complete_role
        return make(target, stack)

    def _add_exits(self) -> None:
        """Register people at the time they left, where they are weighed or filled in by it."""
        if self.censoring is None and self.imputation is None:
            return
        censored = np.flatnonzero(self.target.event == 0)
        happened = np.flatnonzero(self.target.event > 0)
        times, axis = self.target.duration, self.stacker.axis
        self._position = np.empty(self.target.n_samples, np.int64)
        self._position[censored] = np.arange(len(censored))
        self._position[happened] = np.arange(len(happened))
        rows = stacked_matrix(self.features, censored, exit_feature(times[censored], axis))
        self._event_exits = self.events.add(rows, np.tile(self.start, (len(rows), 1)))
        if self.censoring is None:
            return
        # An event at t is seen when censoring comes no earlier: G just before t.
        before = exit_feature(times[happened], axis, left=True)
        rows = stacked_matrix(self.features, happened, before)
        start = self.censoring_start(before)[:, None]
        self._censoring_exits = self.censoring.add(rows, start)
        self._happened_at_0 = times[happened] <= 0

    # ---------------------------------------------------------------------- targets and weights
    def _lesson(
        self, stack: _StackedRoles, chunk: int, n_rounds: int
    ) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """Targets and weights of the event model's rows for the rounds to come."""
        if self.imputation is not None:
            return self._completed(stack, self.imputation, chunk)
        if self.censoring is not None and self.events.n_rounds > 0:
            self._advance_censoring(stack, n_rounds)
        return stack.events.target, self._event_weight(stack)

    def _completed(
        self, stack: _StackedRoles, imputation: Imputation, chunk: int
    ) -> tuple[npt.NDArray[np.int32], FloatArray]:
        role = stack.events
        lost = lost_rows(self.target, role)
        states = None
        if self._knows_enough(imputation):
            at_exit = self._states(self._event_exits)[self._position[role.person[lost]]]
            states = self._states(stack.event_key)[lost], at_exit
        generator = self._draws(imputation, chunk)
        target = self._filled_in(imputation, self.target, role, states, generator)
        return target, self._person_weight(role, self.sample_weight)

    @staticmethod
    def _draws(imputation: Imputation, chunk: int) -> np.random.Generator:
        # By chunk, so that a training that is resumed draws what it would have drawn.
        return np.random.default_rng([imputation.seed, chunk])

    @staticmethod
    def _filled_in(
        imputation: Imputation,
        target: SurvivalTarget,
        role: Role,
        states: tuple[FloatArray, FloatArray] | None,
        generator: np.random.Generator,
    ) -> npt.NDArray[np.int32]:
        """Targets with a state drawn for every lost row, equation (15).

        ``states`` are the model's at the horizon and at the exit of the lost rows; without them the
        marginal curve fills in.
        """
        lost = lost_rows(target, role)
        if states is None:
            exits = target.duration[role.person[lost]]
            states = imputation.marginal(role.horizon[lost]), imputation.marginal(exits)
        filled = role.target.copy()
        filled[lost] = drawn_states(conditional_incidence(*states), generator)
        return filled

    def _person_weight(self, role: Role, sample_weight: FloatArray | None) -> FloatArray:
        """Weights of rows where nobody is weighed up for others."""
        weight = np.full(role.n_rows, 1 / self.stacker.n_horizons)
        if sample_weight is not None:
            weight *= sample_weight[role.person]
        return weight

    def _knows_enough(self, imputation: Imputation) -> bool:
        """Whether the event model itself fills in; its rounds are noted as refreshed."""
        if self.events.n_rounds < imputation.n_marginal_rounds:
            return False
        self.refreshed_rounds.append(self.events.n_rounds)
        return True

    def _event_weight(self, stack: _StackedRoles) -> FloatArray:
        role = stack.events
        if self.censoring is None or self.censoring.n_rounds == 0:
            at_horizon = self.kaplan_meier.survival(role.horizon[role.stayed])
            at_exit = self.kaplan_meier.survival(self.target.duration[role.leaver], left=True)
        else:
            assert stack.censoring_key is not None
            margin = np.asarray(self.censoring.margin(stack.censoring_key), np.float64)
            at_horizon = expit(-margin[stack.censorings.stayed, 0])
            margin = np.asarray(self.censoring.margin(self._censoring_exits), np.float64)
            before_event = np.where(self._happened_at_0, 1.0, expit(-margin[:, 0]))
            at_exit = before_event[self._position[role.leaver]]
        weight, n_floored = role.weights(
            at_horizon,
            at_exit,
            floor=self.settings.min_censoring_survival,
            sample_weight=self.sample_weight,
        )
        totals = self.reduction.sum([n_floored, role.n_rows])
        self.n_floored, self.n_weighted_rows = int(totals[0]), int(totals[1])
        return weight / self.stacker.n_horizons

    def _advance_censoring(self, stack: _StackedRoles, n_rounds: int) -> None:
        assert self.censoring is not None
        assert stack.censoring_key is not None
        role = stack.censorings
        if not self._anywhere(role.target):
            return  # Nobody leaves by censoring before these horizons: nothing to learn from them.
        at_horizon = self._event_free(stack.event_key)[stack.events.stayed]
        at_exit = self._event_free(self._event_exits)[self._position[role.leaver]]
        weight, _ = role.weights(
            at_horizon,
            at_exit,
            floor=self.settings.min_event_survival,
            sample_weight=self.sample_weight,
        )
        self.censoring.boost(
            stack.censoring_key, role.target, weight / self.stacker.n_horizons, n_rounds
        )
        self.refreshed_rounds.append(self.events.n_rounds)

    def _states(self, key: int) -> FloatArray:
        return probabilities(self.events.margin(key), reference=self.events.reference)

    def _event_free(self, key: int) -> FloatArray:
        return self._states(key)[:, 0]

    def _anywhere(self, flags: npt.NDArray[Any]) -> bool:
        """Whether a flag is set in any part of the people."""
        return bool(self.reduction.sum([flags.any()])[0])

    # ------------------------------------------------------------------------------------ resume
    def _checkpoint_is_due(self, n_chunks: int) -> bool:
        """Whether a multiple of so many rounds was reached in the chunk just done."""
        every, chunk = self.checkpoint_every, self.settings.refresh_every
        return every is not None and n_chunks * chunk // every > (n_chunks - 1) * chunk // every

    def _checkpoint(self, n_chunks: int) -> None:
        state = self._state(n_chunks)
        if self.on_checkpoint is not None:
            self.on_checkpoint(state)
        # An engine may have a state that its trees do not show (XGBoost's draws of columns). Both
        # an uninterrupted and a resumed training go on from the trees alone, so they are equal.
        self._restore(state)

    def _state(self, n_chunks: int) -> LoopState:
        events: Any = self.events
        censoring: Any = self.censoring
        return LoopState(
            n_chunks,
            events.state(),
            b"" if censoring is None else censoring.state(),
            tuple(self.history),
            tuple(self.refreshed_rounds),
        )

    def _restore(self, state: LoopState) -> int:
        events: Any = self.events
        censoring: Any = self.censoring
        events.restore(state.events)
        if state.censoring:
            censoring.restore(state.censoring)
        self.history = list(state.history)
        self.refreshed_rounds = list(state.refreshed_rounds)
        return state.n_chunks

    # --------------------------------------------------------------------------- early stopping
    def _margin_after(self, held_out: HeldOut, margin: FloatArray, rounds: range) -> FloatArray:
        for number in rounds:  # One by one, so that sums are rounded as they were.
            margin = margin + np.asarray(
                self.events.contribution(held_out.values, number, number + 1)
            )
        return margin

    def _evaluate(self, held_out: HeldOut, margin: FloatArray, n_rounds: int) -> FloatArray:
        last = self.events.n_rounds
        for number in range(last - n_rounds, last):
            margin = self._margin_after(held_out, margin, range(number, number + 1))
            self._record(held_out, margin, number + 1)
        return margin

    def _record(self, held_out: HeldOut, margin: FloatArray, n_rounds: int) -> None:
        loss = self._loss(margin, held_out.target, held_out.weight)
        self.history.append(RoundRecord(n_rounds, loss))

    def _loss(
        self, margin: npt.ArrayLike, target: npt.NDArray[np.int32], weight: FloatArray
    ) -> float:
        """The weighted mean of `survival_objectives.losses.log_loss` over all parts."""
        losses = pointwise_log_loss(margin, target, weight, reference=self.events.reference)
        total, weights = self.reduction.sum([losses.sum(), np.sum(weight, dtype=np.float64)])
        return float(total / weights)

    def _latest_loss(
        self, stack: _StackedRoles, target: npt.NDArray[np.int32], weight: FloatArray
    ) -> float:
        """Held-out loss or, where nobody is held out, that of the rows just trained on."""
        if self.history:
            return self.history[-1].loss
        margin = self.events.margin(stack.event_key)
        return self._loss(margin, target, weight)

    def _best_so_far(self) -> int:
        """The best round; the first ones count only while there are no others.

        Filled in by the marginal curve, a model learns that all are alike, which it has to unlearn.
        """
        first = 0 if self.imputation is None else self.imputation.n_marginal_rounds
        judged = [record for record in self.history if record.round > first] or self.history
        return min(judged, key=lambda record: record.loss).round

    def _should_stop(self) -> bool:
        patience = self.settings.early_stopping_rounds
        if patience is None or not self.history:
            return False
        last = self.history[-1].round
        if self.imputation is not None and last <= self.imputation.n_marginal_rounds:
            return False
        return last - self._best_so_far() >= patience


def coarse_censoring_curve(
    target: SurvivalTarget, sample_weight: FloatArray | None, t_max: float
) -> StepFunction:
    """Kaplan-Meier of censoring on a fixed grid of times, which shows nobody's own time."""
    curve = KaplanMeierCensoring().fit(target, sample_weight=sample_weight).curve_
    even = np.linspace(0, t_max, _EVEN_STEPS + 1)
    times = np.union1d(even, np.geomspace(t_max * 2.0**-14, t_max, _DOUBLING_STEPS))
    return StepFunction(times, curve(times), np.array(1.0))


def held_out_rows(
    features: Features,
    target: SurvivalTarget,
    stacker: TimeStacker,
    censoring: Any,
    floor: float,
    sample_weight: FloatArray | None = None,
) -> HeldOut:
    """Rows of held-out people, weighted by the marginal censoring of the training people."""
    role = event_role(target, stacker.draw(target))
    weight, _ = role.weights(
        censoring.survival(role.horizon[role.stayed]),
        censoring.survival(target.duration[role.leaver], left=True),
        floor=floor,
        sample_weight=sample_weight,
    )
    return HeldOut(role.matrix(features), role.target, weight)

r"""The boosting loop of a training on stacked rows, over batches of people and any engine.

A few draws of horizons are made once and used alternately, for a chunk of rounds each, so that
each person is observed at more horizons than a round has rows per person. Before each chunk, a
`CensoringScheme` gives targets and weights.

In memory, all people are one batch. From disk, rows are registered batch by batch. With turns, each
chunk is boosted on the people of one turn, whose rows are made for it and released after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.protocol import StackedBatches, Trainer
from survival_objectives._horizons.rows import Draw, StackedPeople, people_of_turn
from survival_objectives._horizons.schemes import CensoringScheme, Chunk, EventMargins
from survival_objectives._horizons.settings import LoopState
from survival_objectives._models.fitted import RoundRecord
from survival_objectives._people import Features, warn
from survival_objectives._people.cohort import Batches, Cohort
from survival_objectives._people.population import LocalReduction, Reduction
from survival_objectives._process.checkpoints import Checkpoints
from survival_objectives.losses import pointwise_log_loss
from survival_objectives.stacking import TimeStacker, event_rows

# Stacked rows whose loss is computed at a time.
_LOSS_ROWS = 2**20


@dataclass(frozen=True)
class LoopSettings:
    """What the loop does, apart from the settings of the trees."""

    n_rounds: int
    refresh_every: int
    n_draws: int
    early_stopping_rounds: int | None

    @property
    def n_chunks(self) -> int:
        """Number of chunks of rounds."""
        return -(-self.n_rounds // self.refresh_every)


@dataclass(frozen=True)
class Turns:
    """People of batches who take turns in being boosted on.

    Attributes
    ----------
    seed : int
        Of the horizons, which are drawn again whenever rows are read, and of the turns.
    n_turns : int, default=1
        With 1, all people are used in each round.
    """

    seed: int
    n_turns: int = 1


@dataclass(frozen=True)
class HeldOut:
    """Stacked rows of held-out people."""

    values: Float32Array
    target: npt.NDArray[np.int32]
    weight: FloatArray


class _TurningTrainer(Trainer, Protocol):
    """A booster whose bins are made before the rows of all turns are known."""

    def set_bins(self, rows: StackedBatches) -> None:
        """Use the bins of these rows for all rows to come."""


@dataclass
class BoostingLoop:
    """One training.

    Parameters
    ----------
    batches : Batches
        People with outcomes aligned to the time axis.
    stacker : TimeStacker
        Draws the horizons.
    events : Trainer
        The event model.
    start : array of shape (n_margins,)
        Margins at which it starts.
    scheme : CensoringScheme
        How censored people count.
    settings : LoopSettings
    censoring : Trainer, optional
        The model of censoring, where the scheme trains one.
    reduction : Reduction
        Sums over all processes that train together.
    turns : Turns, optional
        Where people come in several batches. Default: they are one batch in memory.
    checkpoints : Checkpoints
    on_chunk : callable, optional
        Takes the number of rounds of each chunk, and the latest loss.

    Attributes
    ----------
    history : list of RoundRecord
        Held-out loss after each round.
    best_round : int, or None
        The round to keep, where early stopping decides.
    """

    batches: Batches
    stacker: TimeStacker
    events: Trainer
    start: FloatArray
    scheme: CensoringScheme
    settings: LoopSettings
    censoring: Trainer | None = None
    reduction: Reduction = field(default_factory=LocalReduction)
    turns: Turns | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    on_chunk: Callable[[int, float], None] | None = None
    history: list[RoundRecord] = field(default_factory=list)
    best_round: int | None = None

    def run(self, held_out: HeldOut | None = None) -> None:
        """Train; with held-out people, stop when their loss has stopped falling."""
        self._prepare()
        first_round = self.events.n_rounds
        held_margin = None
        if held_out is not None:
            held_margin = np.tile(self.start, (len(held_out.target), 1)) + np.asarray(
                self.events.sum_of_trees(held_out.values, 0, first_round)
            )
            if first_round:  # The model of a warm start may stay the best.
                self._record(held_out, held_margin, first_round)
        first_chunk = 0
        state = self.checkpoints.state
        if state is not None:
            first_chunk = self._restore(state)
            if held_out is not None and held_margin is not None:
                rounds = range(first_round, self.events.n_rounds)
                held_margin = self._margin_after(held_out, held_margin, rounds)
        for number in range(first_chunk, self.settings.n_chunks):
            if self._should_stop():
                break
            chunk, key = self._chunk(number, self.events.n_rounds - first_round)
            target, weight = self.scheme.targets_and_weights(chunk)
            self.events.boost(key, target, weight, chunk.n_rounds)
            if held_out is not None and held_margin is not None:
                held_margin = self._evaluate(held_out, held_margin, chunk.n_rounds)
            if self.on_chunk is not None:
                self.on_chunk(chunk.n_rounds, self._latest_loss(key, target, weight))
            if self._checkpoint_is_due(number + 1):
                self._checkpoint(number + 1)
        if self.history and self.settings.early_stopping_rounds is not None:
            self.best_round = self._best_so_far()

    # ------------------------------------------------------------------------------------- rows
    @property
    def _n_turns(self) -> int:
        return 1 if self.turns is None else self.turns.n_turns

    def _prepare(self) -> None:
        self._draws: list[tuple[Draw, int]] = []
        self._n_drawn = 0
        n_chunks = self.settings.n_chunks
        if self._n_turns == 1:
            self.people = self._stacked(self.batches)
            for _ in range(min(self.settings.n_draws, n_chunks)):
                self._add_draw()
            self._add_probes()
        elif self._n_turns > n_chunks:
            msg = (
                f"People take {self._n_turns} turns, but there are {n_chunks} refreshes, so that "
                f"{1 - n_chunks / self._n_turns:.0%} are not used. Raise `people_per_turn` "
                "or `n_estimators`, or lower `refresh_every`."
            )
            warn(msg)

    def _stacked(self, batches: Batches) -> StackedPeople:
        seed = None if self.turns is None else self.turns.seed
        return StackedPeople(batches, self.stacker, self.scheme.event_rows, seed, self._n_drawn)

    def _chunk(self, number: int, n_rounds_done: int) -> tuple[Chunk, int]:
        """The next chunk of rounds, and the key of the event rows that it is boosted on."""
        if self._n_turns > 1:
            self._begin_turn(number % self._n_turns)
        draw, key = self._draws[number % len(self._draws)]
        n_rounds = min(self.settings.refresh_every, self.settings.n_rounds - n_rounds_done)
        events = EventMargins(
            self.events.n_rounds,
            self.events.reference,
            partial(self.events.margin, key),
            partial(self.events.margin, self._probes),
        )
        return Chunk(number, n_rounds, self.people, draw, events), key

    def _begin_turn(self, turn: int) -> None:
        """Replace all registered rows by those of the current turn."""
        assert self.turns is not None
        boosters: list[Any] = [self.events, *([self.censoring] if self.censoring else [])]
        for booster in boosters:
            booster.release()
        self._draws.clear()
        people = people_of_turn(self.batches, turn, self._n_turns, self.turns.seed)
        self.people = self._stacked(people)
        if self._n_drawn == 0:
            for booster in boosters:
                booster.set_bins(partial(self._rows_of_every_category, booster))
        self._add_draw()
        self._add_probes()

    def _rows_of_every_category(
        self, booster: _TurningTrainer
    ) -> Iterator[tuple[Float32Array, FloatArray]]:
        """Rows of the first turn, and every category: bins are made once, from these."""
        n_margins = len(self.start) if booster is self.events else 1
        for rows, _ in self.people.event_matrices(0, self._start_margin):
            yield rows, np.zeros((len(rows), n_margins))
        levels = _rows_of_levels(self.batches.schema)
        yield levels, np.zeros((len(levels), n_margins))

    def _add_draw(self) -> None:
        draw = self.people.draw(self.reduction)
        self._n_drawn += 1
        if not draw.has_at_risk:
            msg = "No one is event-free at any horizon, so there is only one class to learn."
            raise ValueError(msg)
        rows = partial(self.people.event_matrices, draw.number, self._start_margin)
        self._draws.append((draw, self.events.add_batches(rows)))
        self.scheme.add_draw(self.people, draw)

    def _add_probes(self) -> None:
        """Register people at the further times at which the scheme evaluates the event model."""
        draw, _ = self._draws[0]
        self._probes = -1
        if self.scheme.uses_probes:
            rows = partial(
                self.people.probe_matrices,
                draw.number,
                self.scheme.event_probes,
                self._start_margin,
            )
            self._probes = self.events.add_batches(rows)
        self.scheme.add_probes(self.people, draw)

    def _start_margin(self, feature: Float32Array) -> FloatArray:
        return np.tile(self.start, (len(feature), 1))

    # ------------------------------------------------------------------------------- checkpoints
    def _checkpoint_is_due(self, n_chunks: int) -> bool:
        """Whether a multiple of so many rounds was reached in the chunk just done."""
        every, chunk = self.checkpoints.every, self.settings.refresh_every
        return every is not None and n_chunks * chunk // every > (n_chunks - 1) * chunk // every

    def _checkpoint(self, n_chunks: int) -> None:
        state = LoopState(
            n_chunks,
            self.events.state(),
            b"" if self.censoring is None else self.censoring.state(),
            tuple(self.history),
            tuple(self.scheme.refreshed_rounds),
        )
        if self.checkpoints.write is not None:
            self.checkpoints.write(state)
        # An engine may have a state that its trees do not show (XGBoost's draws of columns). Both
        # an uninterrupted and a resumed training continue from the trees alone, so they are equal.
        self._restore(state)

    def _restore(self, state: LoopState) -> int:
        self.events.restore(state.events)
        if self.censoring is not None and state.censoring:
            self.censoring.restore(state.censoring)
        self.history = list(state.history)
        self.scheme.refreshed_rounds = list(state.refreshed_rounds)
        return state.n_chunks

    # --------------------------------------------------------------------------- early stopping
    def _margin_after(self, held_out: HeldOut, margin: FloatArray, rounds: range) -> FloatArray:
        for number in rounds:  # One by one, so that sums are rounded as they were.
            margin = margin + np.asarray(
                self.events.sum_of_trees(held_out.values, number, number + 1)
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
        self, margin: npt.ArrayLike, target: npt.NDArray[Any], weight: npt.NDArray[Any]
    ) -> float:
        """The weighted mean of `survival_objectives.losses.log_loss` over all processes."""
        margin, total = np.asarray(margin), 0.0
        for begin in range(0, len(target), _LOSS_ROWS):
            rows = slice(begin, begin + _LOSS_ROWS)
            losses = pointwise_log_loss(
                margin[rows], target[rows], weight[rows], reference=self.events.reference
            )
            total += float(losses.sum())
        sums = self.reduction.sum([total, np.sum(weight, dtype=np.float64)])
        return float(sums[0] / sums[1])

    def _latest_loss(self, key: int, target: npt.NDArray[Any], weight: npt.NDArray[Any]) -> float:
        """Held-out loss or, without held-out people, the loss on the current training rows."""
        if self.history:
            return self.history[-1].loss
        return self._loss(self.events.margin(key), target, weight)

    def _best_so_far(self) -> int:
        """The best round; warm-up rounds are ignored unless they are all there is."""
        first = self.scheme.n_warm_up_rounds
        judged = [record for record in self.history if record.round > first] or self.history
        return min(judged, key=lambda record: record.loss).round

    def _should_stop(self) -> bool:
        patience = self.settings.early_stopping_rounds
        if patience is None or not self.history:
            return False
        last = self.history[-1].round
        return last > self.scheme.n_warm_up_rounds and last - self._best_so_far() >= patience


def _rows_of_levels(schema: Features) -> Float32Array:
    """Rows that have each level of each category somewhere, and are missing elsewhere."""
    n_levels = max(map(len, schema.categories.values()), default=0)
    levels = np.full((n_levels, schema.n_features + 1), np.nan, np.float32)
    for column, known in schema.categories.items():
        levels[: len(known), column] = np.arange(len(known))
    return levels


def held_out_rows(cohort: Cohort, stacker: TimeStacker, scheme: CensoringScheme) -> HeldOut:
    """Rows of held-out people, weighted by the censoring of the training people."""
    rows = event_rows(cohort.target, stacker.draw(cohort.target))
    weight = scheme.held_out_weight(cohort, rows)
    return HeldOut(rows.matrix(cohort.features), rows.target, weight)

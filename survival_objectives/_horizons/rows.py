"""Stacked rows of the people of a training, batch by batch, at drawn horizons.

Horizons of a draw are either drawn once and kept, where all people are one batch in memory, or
drawn again from the same seed whenever the rows are read, so that rows need not be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._people import Features, SurvivalTarget
from survival_objectives._people.cohort import Batches, Cohort, MemoryBatches, Outcomes
from survival_objectives._people.population import Reduction, TimeAxis
from survival_objectives.stacking import (
    Stack,
    TimeStacker,
    TrainingRows,
    censoring_rows,
    exit_feature,
    stacked_matrix,
)

Matrices = Iterator[tuple[Float32Array, FloatArray]]
#: Starting margins, (n_rows, n_margins), by the time feature.
StartMargin = Callable[[Float32Array], FloatArray]


@dataclass(frozen=True)
class BatchRows:
    """One batch of people at drawn horizons: the rows of the event and of the censoring model."""

    outcomes: Outcomes
    events: TrainingRows
    censorings: TrainingRows

    @property
    def target(self) -> SurvivalTarget:
        """Outcomes of the people."""
        return self.outcomes.target

    @property
    def weight(self) -> FloatArray | None:
        """Sample weights of the people."""
        return self.outcomes.weight


@dataclass(frozen=True)
class Probes:
    """People at times at which a model is evaluated, besides at its rows.

    Attributes
    ----------
    person : int64 array of shape (n_probes,)
        Non-decreasing.
    times : float64 array of shape (n_probes,)
        Non-decreasing for each person.
    feature : float32 array of shape (n_probes,)
        Value of the time feature.
    """

    person: IntArray
    times: FloatArray
    feature: Float32Array

    @classmethod
    def at_exits(
        cls, person: IntArray, times: FloatArray, axis: TimeAxis, *, left: bool = False
    ) -> Probes:
        """People at times at which they may have left; with ``left``, just before."""
        return cls(person, times, exit_feature(times, axis, left=left))

    @property
    def n_probes(self) -> int:
        """Number of probes."""
        return len(self.person)

    def matrix(self, features: Features) -> Float32Array:
        """Features with the time last."""
        return stacked_matrix(features, self.person, self.feature)

    def last(self, values: FloatArray, person: IntArray) -> FloatArray:
        """Values, one per probe, at the last probe of each of these people."""
        at_last: FloatArray = values[np.searchsorted(self.person, person, side="right") - 1]
        return at_last


@dataclass(frozen=True)
class Draw:
    """One draw of horizons for all people.

    Attributes
    ----------
    number : int
        Of the draw, by which its rows are found again.
    target : int array of shape (n_rows,)
        Observed states of the event rows of this process.
    has_at_risk, has_censored : bool
        Whether any row of any process is event-free at its horizon, or censored by it.
    """

    number: int
    target: npt.NDArray[Any]
    has_at_risk: bool
    has_censored: bool


class StackedPeople:
    """Rows of people at drawn horizons, and at further times.

    Parameters
    ----------
    batches : Batches
        People with outcomes aligned to the time axis.
    stacker : TimeStacker
        Draws the horizons.
    event_rows : callable
        Makes the rows of the event model from outcomes and horizons.
    seed : int, optional
        Of horizons that are drawn again whenever rows are read. Default: they are drawn from the
        stacker's own stream and kept.
    first_draw : int, default=0
        Number of the first draw.
    """

    def __init__(
        self,
        batches: Batches,
        stacker: TimeStacker,
        event_rows: Callable[[SurvivalTarget, Stack], TrainingRows],
        seed: int | None = None,
        first_draw: int = 0,
    ) -> None:
        self.batches, self.stacker = batches, stacker
        self._event_rows, self._seed = event_rows, seed
        self._kept: dict[int, list[BatchRows]] = {}
        self._next = first_draw

    def outcomes(self) -> Iterator[Outcomes]:
        """Outcomes, batch by batch."""
        population = self.batches.outcomes()
        return (population.take(rows) for rows in self.batches.slices)

    def draw(self, reduction: Reduction) -> Draw:
        """Draw horizons for all people."""
        number = self._next
        self._next += 1
        if self._seed is None:
            self._kept[number] = [self._stacked(one, self.stacker) for one in self.outcomes()]
        targets, at_risk, censored = [], False, False
        for rows in self.rows(number):
            targets.append(rows.events.target)
            at_risk = at_risk or bool(rows.events.at_risk.any())
            censored = censored or bool(rows.censorings.target.any())
        anywhere = reduction.sum([at_risk, censored])
        return Draw(number, joined(targets, np.int8), bool(anywhere[0]), bool(anywhere[1]))

    def rows(self, number: int) -> Iterator[BatchRows]:
        """Rows of a draw, batch by batch, without their features."""
        if self._seed is None:
            yield from self._kept[number]
            return
        for batch, outcomes in enumerate(self.outcomes()):
            yield self._stacked(outcomes, _reseeded(self.stacker, [self._seed, number, batch]))

    def _stacked(self, outcomes: Outcomes, stacker: TimeStacker) -> BatchRows:
        target = outcomes.target
        stack = stacker.draw(target)
        return BatchRows(outcomes, self._event_rows(target, stack), censoring_rows(target, stack))

    # --------------------------------------------------------------- matrices and starting margins
    def event_matrices(self, number: int, start: StartMargin) -> Matrices:
        """Rows of the event model at the horizons of a draw."""
        for features, rows in self._batches(number):
            yield rows.events.matrix(features), start(rows.events.horizon)

    def censoring_matrices(self, number: int, start: StartMargin) -> Matrices:
        """Rows of the censoring model at the horizons of a draw."""
        for features, rows in self._batches(number):
            yield rows.censorings.matrix(features), start(rows.censorings.horizon)

    def probe_matrices(
        self, number: int, probes: Callable[[BatchRows], Probes], start: StartMargin
    ) -> Matrices:
        """People of a draw at further times, for either model."""
        for features, rows in self._batches(number):
            asked = probes(rows)
            yield asked.matrix(features), start(asked.feature)

    def _batches(self, number: int) -> Iterator[tuple[Features, BatchRows]]:
        for (_, features), rows in zip(self.batches, self.rows(number), strict=True):
            yield features, rows


class BatchReader:
    """Reads rows of an array batch by batch, as float64."""

    def __init__(self, values: npt.ArrayLike) -> None:
        self._values = np.asarray(values)
        self._begin = 0

    def next(self, n_rows: int) -> FloatArray:
        """The next rows."""
        rows = self._values[self._begin : self._begin + n_rows]
        self._begin += n_rows
        return np.asarray(rows, dtype=np.float64)


def joined(parts: Sequence[npt.NDArray[Any]], dtype: type) -> npt.NDArray[Any]:
    """All batches in one array: one batch as it is, several in a smaller type.

    Where people come in batches, they are many, and the rows of all batches are in memory here.
    """
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([part.astype(dtype) for part in parts])


def people_of_turn(batches: Batches, turn: int, n_turns: int, seed: int) -> MemoryBatches:
    """The people of one turn of ``n_turns``, with their features in memory.

    They come from all batches: files are often sorted by something that matters.
    """
    population, cohorts = batches.outcomes(), []
    for number, (place, features) in enumerate(batches):
        order = np.random.default_rng([seed, number]).permutation(features.n_samples)
        # Shifted by the number of the batch, as a batch smaller than `n_turns` misses some turns.
        rows = np.flatnonzero((order + number) % n_turns == turn)
        outcomes = population.take(place).take(rows)
        chosen = replace(features, values=features.values[rows])
        cohorts.append(Cohort(chosen, outcomes.target, outcomes.weight))
    return MemoryBatches(cohorts)


def _reseeded(stacker: TimeStacker, seed: Sequence[int]) -> TimeStacker:
    """The same stacker with a random stream of its own."""
    return TimeStacker(
        stacker.n_horizons,
        stacker.sampler,
        horizon_max=stacker.horizon_max,
        random_state=np.random.default_rng(seed),
        event_times=stacker.event_times,
        time_unit=stacker.axis.unit,
        bulk_end=stacker.bulk_end,
    )

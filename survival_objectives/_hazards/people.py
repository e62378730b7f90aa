"""Training data of hazard models: features in batches, outcomes, folds and subsampling.

Features come in batches that may be read from disk each time; the outcomes of this process are in
memory. If other processes hold more people, all processes make the same calls, and a `Reduction`
sums their counts.

Each person has up to 8 rows besides the last one; all where there are few people. With many people
the cost of training grows faster than its error falls, so the number of rows of a single model is
limited to

    n_rows = 450 000 (n / 50 000)^(1/2),                                                       (80)

and to 0.6 of it where several models are trained on the same rows; or to `Engine.most_rows` if that
is less. First there are fewer rows per person, down to two besides the last, then a random subset
of the people, drawn by their outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._hazards.formulas import (
    LOCAL,
    PSEUDO_EVENTS,
    RiskRows,
    entry_positions,
    interval_positions,
    risk_rows,
)
from survival_objectives._hazards.settings import ALL_ROWS
from survival_objectives._people import Features
from survival_objectives._people.population import Reduction

_LATE_PSEUDO_EVENTS = 0.05
#: Above this many people, one kind of trees is enough, and gains in likelihood are hardly noisy.
MANY_PEOPLE = 20_000
# Up to this many people, models side by side have the rows of all intervals.
_FEW_PEOPLE = 2_000
_MOST_ROWS_PER_PERSON, _LEAST_ROWS_PER_PERSON = 8, 2
# Rows for 50 000 people of a single model, and their share where several are trained on them.
_ROWS_OF_50_000, _SHARE_OF_SEVERAL = 450_000, 0.6
# Up to how many people, in how many folds and repeats.
_PLANS = ((10_000, 5, 3), (20_000, 5, 2), (50_000, 5, 1), (200_000, 4, 1), (np.inf, 3, 1))
# Maximum number of boosting rounds up to this many people, and above.
_MOST_ROUNDS, _MOST_ROUNDS_ABOVE = 300, 1000
_ROUNDS_PER_EVALUATION = 5


class FeatureBatches(Protocol):
    """Features in batches, in the same order at each iteration."""

    def __iter__(self) -> Iterator[tuple[slice, Features]]:
        """Consecutive slices of people, with their features."""


@dataclass(frozen=True)
class InMemory:
    """All features as one batch in memory."""

    features: Features

    def __iter__(self) -> Iterator[tuple[slice, Features]]:
        yield slice(0, self.features.n_samples), self.features


@dataclass(frozen=True)
class _Concatenated:
    """Batches of several groups of people, numbered consecutively."""

    groups: Sequence[FeatureBatches]
    sizes: Sequence[int]

    def __iter__(self) -> Iterator[tuple[slice, Features]]:
        first = 0
        for group, size in zip(self.groups, self.sizes, strict=True):
            for people, features in group:
                yield slice(first + people.start, first + people.stop), features
            first += size


@dataclass(frozen=True)
class HazardPeople:
    """People of this process, with outcomes on the axis of the knots.

    Attributes
    ----------
    batches : FeatureBatches
    event : int32 array of shape (n_samples,)
        0 = censored, 1..K = causes.
    position : float64 array of shape (n_samples,)
        Time of the event or of censoring, on the axis of the knots.
    entry : float64 array of shape (n_samples,), or None
        Time of entry, on the axis of the knots; None where it is before the first knot.
    person : int64 array of shape (n_samples,), or None
        Number of the person of each row of a long table, not decreasing. The "people" of the other
        attributes are then stretches of time of people. None where each row is a person.
    weight : float64 array of shape (n_samples,), or None
        Sample weights with a mean of 1.
    knots : float64 array of shape (M + 1,)
    n_causes : int
    group : int64 array of shape (n_samples,), or None
        Rows of one group are held out together.
    """

    batches: FeatureBatches
    event: npt.NDArray[np.int32]
    position: FloatArray
    weight: FloatArray | None
    knots: FloatArray
    n_causes: int
    group: IntArray | None = None
    entry: FloatArray | None = None
    person: IntArray | None = None

    @property
    def n_samples(self) -> int:
        """Number of people."""
        return len(self.event)

    @property
    def n_intervals(self) -> int:
        """Number of intervals between knots, M."""
        return len(self.knots) - 1

    @property
    def is_in_memory(self) -> bool:
        """Whether all features are one batch in memory."""
        return isinstance(self.batches, InMemory)

    @property
    def pseudo_events(self) -> float:
        """Events that are added to those of each interval, see `interval_start`.

        Fewer where people enter late: few are at risk in early intervals, in which half an event
        would be a large part of the hazard.
        """
        everyone = np.arange(self.n_samples)
        entry = self.entries(self.units(everyone))
        is_late = entry is not None and bool(np.isfinite(entry).any())
        return _LATE_PSEUDO_EVENTS if is_late else PSEUDO_EVENTS

    def persons(self, chosen: IntArray) -> IntArray | None:
        """Numbers of the persons of a subset."""
        return None if self.person is None else self.person[chosen]

    def units(self, chosen: IntArray) -> IntArray:
        """First row of each person among increasing ``chosen`` rows."""
        person = self.persons(chosen)
        return chosen if person is None else chosen[np.append(True, np.diff(person) > 0)]

    def total_weight(self, rows: npt.NDArray[np.integer[Any]]) -> float:
        """Total weight of the persons of some rows."""
        units = self.units(np.unique(rows))
        return float(len(units) if self.weight is None else self.weight[units].sum())

    def n_rows(self, most: float) -> float:
        """Number of rows of the risk sets, with at most ``most`` per row besides the last."""
        last, _ = interval_positions(self.knots, self.position)
        first, _ = entry_positions(self.knots, self.entry, self.n_samples)
        return float((np.clip(last - first, 0, most) + 1).sum())

    @property
    def size(self) -> float:
        """Number of people for decisions about cost.

        Of a long table, whose people have more rows, that of ordinary people with as many rows.
        """
        n_people = float(len(self.units(np.arange(self.n_samples))))
        if self.person is None:
            return n_people
        return max(n_people, self.n_rows(_MOST_ROWS_PER_PERSON) / (_MOST_ROWS_PER_PERSON + 1))

    def weights(self, chosen: IntArray) -> FloatArray | None:
        """Sample weights of a subset."""
        return None if self.weight is None else self.weight[chosen]

    def entries(self, chosen: IntArray) -> FloatArray | None:
        """Times of entry of a subset."""
        return None if self.entry is None else self.entry[chosen]

    def rows(
        self, n_rows: int | None = None, generator: np.random.Generator | None = None
    ) -> RiskRows:
        """Rows of the risk sets, see `risk_rows`."""
        return risk_rows(
            self.event,
            self.position,
            self.knots,
            entry=self.entry,
            weight=self.weight,
            n_rows=n_rows,
            generator=generator,
        )

    def features(self, chosen: npt.NDArray[np.integer[Any]]) -> Features:
        """Features of a subset, in memory; ``chosen`` is increasing."""
        if isinstance(self.batches, InMemory) and len(chosen) == self.n_samples:
            return self.batches.features
        values, schema = None, None
        for people, features in self.batches:
            first, last = np.searchsorted(chosen, [people.start, people.stop])
            if values is None:
                values = np.empty((len(chosen), features.values.shape[1]), np.float32)
                schema = features
            values[first:last] = features.values[chosen[first:last] - people.start]
        assert values is not None
        assert schema is not None
        return replace(schema, values=values)

    def take(self, chosen: IntArray) -> HazardPeople:
        """A subset, with features in memory; ``chosen`` is increasing."""
        return replace(
            self,
            batches=InMemory(self.features(chosen)),
            event=self.event[chosen],
            position=self.position[chosen],
            weight=self.weights(chosen),
            group=None if self.group is None else self.group[chosen],
            entry=self.entries(chosen),
            person=self.persons(chosen),
        )

    def weighted(self, factor: FloatArray) -> HazardPeople:
        """The same people, with weights multiplied."""
        return replace(self, weight=factor if self.weight is None else self.weight * factor)

    def followed_by(self, others: HazardPeople) -> HazardPeople:
        """These people, followed by others."""

        def joined(own: FloatArray | None, other: FloatArray | None, known: float) -> Any:
            if own is None and other is None:
                return None
            sizes = (self.n_samples, others.n_samples)
            parts = zip((own, other), sizes, strict=True)
            return np.concatenate(
                [np.full(size, known) if part is None else part for part, size in parts]
            )

        return replace(
            self,
            batches=_Concatenated(
                (self.batches, others.batches), (self.n_samples, others.n_samples)
            ),
            event=np.concatenate([self.event, others.event]),
            position=np.concatenate([self.position, others.position]),
            weight=joined(self.weight, others.weight, 1.0),
            group=None,
            entry=joined(self.entry, others.entry, -np.inf),
            person=self._joined_persons(others),
        )

    def _joined_persons(self, others: HazardPeople) -> IntArray | None:
        if self.person is None and others.person is None:
            return None
        own, other = (
            np.arange(group.n_samples) if group.person is None else group.person
            for group in (self, others)
        )
        return np.concatenate([own, other + own.max(initial=0) + 1])


@dataclass(frozen=True)
class RowBudget:
    """How many people and how many rows per person are used.

    Attributes
    ----------
    n_rows : int or None
        Maximum number of rows per person besides the last; None for all.
    people_share : float
        Share of the people who are used.
    """

    n_rows: int | None
    people_share: float

    @classmethod
    def of(
        cls,
        n_people: float,
        rows_per_person: int | str | None,
        most_rows: float = np.inf,
        n_models: int = 1,
    ) -> RowBudget:
        """The budget for a number of people.

        Parameters
        ----------
        n_people : float
            Number of people in all processes.
        rows_per_person : int, "all" or None
            Requested number of rows; None follows equation (80).
        most_rows : float, optional
            Most rows in all, where they follow equation (80).
        n_models : int, default=1
            Models that are trained on them.

        Examples
        --------
        >>> RowBudget.of(50_000, None), RowBudget.of(50_000, None, n_models=5)
        (RowBudget(n_rows=8, people_share=1.0), RowBudget(n_rows=4, people_share=1.0))
        >>> RowBudget.of(200_000, None)
        RowBudget(n_rows=3, people_share=1.0)
        >>> RowBudget.of(5_000_000, None)
        RowBudget(n_rows=2, people_share=0.3)
        """
        if rows_per_person == ALL_ROWS:
            return cls(None, 1.0)
        if rows_per_person is not None:
            return cls(int(rows_per_person), 1.0)
        if n_models > 1 and n_people <= _FEW_PEOPLE:
            return cls(None, 1.0)
        share = 1.0 if n_models == 1 else _SHARE_OF_SEVERAL
        total = share * _ROWS_OF_50_000 * np.sqrt(n_people / 50_000)
        per_person = min(total, most_rows) / n_people
        n_rows = int(np.floor(per_person + 1e-9)) - 1
        n_rows = min(max(_LEAST_ROWS_PER_PERSON, n_rows), _MOST_ROWS_PER_PERSON)
        return cls(n_rows, min(1.0, float(round(per_person / (n_rows + 1), 6))))

    def drawn(
        self, people: HazardPeople, stream: np.random.Generator, reduction: Reduction = LOCAL
    ) -> Drawn | None:
        """The people of a process who are used; None for all."""
        share = self.people_share
        if people.person is not None and self.n_rows is not None:
            # Rows of a long table have fewer intervals than people.
            size, n_rows = reduction.sum([people.size, people.n_rows(self.n_rows)])
            share = min(1.0, share * (self.n_rows + 1) * size / n_rows)
        most = share * float(reduction.sum(people.n_samples))
        return drawn_by_outcome(people, np.arange(people.n_samples), most, stream, reduction)


class Drawn(NamedTuple):
    """People who were drawn, in order, and what each of them stands for, 1 on average."""

    people: IntArray
    weight: FloatArray


def drawn_by_outcome(
    people: HazardPeople,
    members: IntArray,
    most: float,
    stream: np.random.Generator,
    reduction: Reduction = LOCAL,
) -> Drawn | None:
    """Random people, those with rare outcomes first; None where there are not more than ``most``.

    Each outcome is drawn with a probability of its own (`outcome_shares`), and whoever is drawn
    weighs one over it. Rows of a person are drawn together, by their rarest event.

    Parameters
    ----------
    people : HazardPeople
    members : int64 array
        Rows of whom they are drawn; increasing.
    most : float
        Number of rows to draw in all processes together, on average.
    stream : numpy Generator
        Of this process.
    reduction : Reduction
        Sums over all processes.
    """
    total = float(reduction.sum(len(members)))
    if total <= most:
        return None
    event, number = people.event[members], np.arange(len(members))
    if people.person is not None:
        event, number = _units(event, people.person[members])
    n_rows = np.bincount(event[number], minlength=people.n_causes + 1)
    share = outcome_shares(reduction.sum(n_rows), most)[event]
    # Evenly spaced through a random order of each outcome: their numbers vary by less than one.
    order = np.lexsort((stream.random(len(event)), event))
    passed = np.cumsum(share[order]) + stream.random()
    is_drawn = np.empty(len(event), np.bool_)
    is_drawn[order] = np.floor(passed) > np.floor(passed - share[order])
    chosen = np.flatnonzero(is_drawn[number])
    weight = 1 / share[number[chosen]]
    weight_sum, n_drawn = reduction.sum([weight.sum(), len(chosen)])
    return Drawn(members[chosen], weight * (n_drawn / weight_sum))


def outcome_shares(count: npt.ArrayLike, most: float) -> FloatArray:
    """Probabilities with which people with each outcome are drawn.

    Causes get equal numbers of people, but none less than nine tenths of its share; censored people
    make room for them, down to half of their share.

    Parameters
    ----------
    count : array of shape (K + 1,)
        People with each outcome, the censored first.
    most : float
        Number of people to draw.

    Examples
    --------
    >>> outcome_shares([9_000, 900, 100], 2_000).round(3)
    array([0.111, 1.   , 1.   ])
    >>> outcome_shares([0, 9_900, 100], 2_000).round(3)
    array([0.   , 0.192, 1.   ])
    """
    count = np.asarray(count, np.float64)
    share = most / count.sum()
    room = min(count[1:].sum(), most - share / 2 * count[0])

    def causes(equal: float) -> FloatArray:
        shares = np.minimum(equal / np.maximum(count[1:], 1e-9), 1.0)
        floored: FloatArray = np.fmax(shares, 0.9 * share)
        return floored

    low, high = 0.0, float(count.max())
    for _ in range(60):
        middle = (low + high) / 2
        too_many = causes(middle) @ count[1:] > room
        low, high = (low, middle) if too_many else (middle, high)
    own = causes(low)
    left = max(most - own @ count[1:], 0.0) / max(count[0], 1.0)
    return np.concatenate([[min(left, 1.0)], own])


def fold_plan(
    n_people: float, n_folds: int | None, n_repeats: int | None, most_folds: float
) -> tuple[int, int]:
    """Numbers of folds and of repeats: as given, or else by the number of people.

    Parameters
    ----------
    n_people : float
        Number of people in all processes.
    n_folds, n_repeats : int or None
        As requested.
    most_folds : float
        Units that can be told apart: groups, or people with the most frequent cause.

    Examples
    --------
    >>> fold_plan(1_000, None, None, 300), fold_plan(200_000, None, None, 9_000)
    ((5, 3), (4, 1))
    >>> fold_plan(1_000, None, None, 3), fold_plan(1_000, 2, 1, 300)
    ((3, 3), (2, 1))
    """
    usual = next(plan for most, *plan in _PLANS if n_people <= most)
    return n_folds or int(max(2, min(usual[0], most_folds))), n_repeats or usual[1]


def most_rounds(n_people: float) -> int:
    """Maximum number of boosting rounds; the held-out likelihood chooses the actual number.

    >>> most_rounds(10_000), most_rounds(1_000_000)
    (300, 1000)
    """
    return _MOST_ROUNDS if n_people <= MANY_PEOPLE else _MOST_ROUNDS_ABOVE


def rounds_per_evaluation(n_people: float, rounds_per_call: int) -> int:
    """Rounds between two held-out evaluations.

    >>> rounds_per_evaluation(1_000, 30), rounds_per_evaluation(1_000_000, 30)
    (5, 30)
    """
    return max(_ROUNDS_PER_EVALUATION, rounds_per_call if n_people > MANY_PEOPLE else 1)


def folds_of_groups(
    draw: Callable[[npt.NDArray[np.int32]], IntArray],
    event: npt.NDArray[np.int32],
    group: IntArray | None,
) -> IntArray:
    """Folds of rows, with all rows of a group in one fold.

    Parameters
    ----------
    draw : callable
        Returns a fold per unit from the events of the units.
    event : int32 array of shape (n_samples,)
    group : int64 array of shape (n_samples,), or None
        A unit is a group, with the rarest event of its rows. Default: a unit is a row.
    """
    if group is None:
        return draw(event)
    unit_event, number = _units(event, group)
    fold = draw(unit_event)[number]
    # Rows of one person may have several events: a cause in a single fold is never held out.
    for cause in np.unique(event[fold >= 0]):
        own = fold[event == cause]
        if len(np.unique(own)) == 1:
            fold[np.isin(number, number[event == cause])] = -1
    return fold


def _units(event: npt.NDArray[np.int32], group: IntArray) -> tuple[npt.NDArray[np.int32], IntArray]:
    """The rarest event of each group, and the number of the group of each row."""
    number, _ = pd.factorize(group)
    rarest_first = np.argsort(np.bincount(event)[event], kind="stable")
    _, first = np.unique(number[rarest_first], return_index=True)
    return event[rarest_first[first]], number


def stratified_folds(
    event: npt.NDArray[np.int32],
    n_folds: int,
    generator: np.random.Generator,
    reduction: Reduction = LOCAL,
    n_causes: int | None = None,
) -> IntArray:
    """A random fold per person, stratified by event.

    People with a cause that occurs fewer than ``n_folds`` times get -1: they are never held out, so
    that every model is fitted to all causes. So do people with a cause that ended up in a single
    fold, which may happen if several processes have a few of them each.
    """
    n_causes = int(event.max(initial=0)) if n_causes is None else n_causes
    count = reduction.sum(np.bincount(event, minlength=n_causes + 1))
    fold = np.full(len(event), -1)
    for cause in np.unique(event):
        members = generator.permutation(np.flatnonzero(event == cause))
        first = generator.integers(n_folds)
        if count[cause] >= n_folds:
            fold[members] = (np.arange(len(members)) + first) % n_folds
    cell = event[fold >= 0] * n_folds + fold[fold >= 0]
    size = (n_causes + 1) * n_folds
    in_fold = reduction.sum(np.bincount(cell, minlength=size)).reshape(-1, n_folds)
    alone = np.flatnonzero((in_fold > 0).sum(axis=1) == 1)
    fold[np.isin(event, alone)] = -1
    return fold

"""Checked people: one `Cohort` in memory, or `Batches` of them that are read one after another.

Every way of training starts from here. Outcomes and weights of all people of a process are in
memory (20 bytes per person); features may come in batches, for instance from disk. In memory, all
people are one batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import (
    Features,
    SurvivalTarget,
    check_features,
    check_groups,
    check_paired,
    check_same_people,
    check_sample_weight,
    check_survival_target,
    check_time_resolution,
    relative_weights,
    take_rows,
    warn_about_columns,
)
from survival_objectives._people.histories import check_constant, merged_rows
from survival_objectives._people.labels import EventLabels, survival_outcomes
from survival_objectives._people.outcomes import TAKES_ENTRY
from survival_objectives._people.population import Reduction, TimeAxis, time_feature
from survival_objectives._people.values import Resolution, plain_table

Rows = slice | IntArray

_IN_MEMORY = (
    "Fits from disk and from Dask take people followed from time 0, in one row each: train in "
    "memory, `HazardBoost().fit(X, y)`"
)


@dataclass(frozen=True)
class Outcomes:
    """Outcomes and weights of people, without their features.

    Attributes
    ----------
    target : SurvivalTarget
        Durations are float32 values, as trees see time.
    weight : float64 array of shape (n_samples,), or None
        Sample weights, all positive; None where every person counts once.
    group : int64 array of shape (n_samples,), or None
        Rows of one group are in one fold.
    """

    target: SurvivalTarget
    weight: FloatArray | None
    group: IntArray | None = None

    @property
    def n_samples(self) -> int:
        """Number of people."""
        return self.target.n_samples

    def take(self, rows: Rows) -> Outcomes:
        """Outcomes of some people, who keep the label set of all."""
        target = self.target
        if isinstance(rows, slice) and rows == slice(0, target.n_samples):
            return self
        return Outcomes(
            target.take(rows),
            None if self.weight is None else self.weight[rows],
            None if self.group is None else self.group[rows],
        )

    @property
    def people(self) -> Outcomes:
        """One row per person."""
        if self.target.person is None:
            return self
        last = self.take(np.flatnonzero(self.target.is_last))
        return replace(last, target=self.target.people)

    def aligned(self, axis: TimeAxis) -> Outcomes:
        """The same people with durations aligned to the time axis."""
        return replace(self, target=axis.aligned(self.target))

    def with_relative_weights(self, reduction: Reduction) -> Outcomes:
        """The same people with weights whose mean over all parts of the people is 1."""
        weight = relative_weights(self.people.weight, reduction.sum)
        if weight is not None and self.target.person is not None:
            weight = weight[np.cumsum(self.target.is_first) - 1]
        return replace(self, weight=weight)


@dataclass(frozen=True)
class PassedPeople:
    """People as the user passed them, for a censoring model of the user's own.

    Attributes
    ----------
    X : array or DataFrame
        Features in the user's own type.
    duration : float64 array of shape (n_samples,)
        Durations before any rounding.
    """

    X: Any
    duration: FloatArray

    def take(self, rows: IntArray) -> PassedPeople:
        """Some of the people."""
        return PassedPeople(take_rows(self.X, rows), self.duration[rows])


@dataclass(frozen=True)
class Cohort:
    """Checked people in memory: features, outcomes and weights.

    Attributes
    ----------
    features : Features
    target : SurvivalTarget
        Durations are float32 values, as trees see time.
    weight : float64 array of shape (n_samples,), or None
        Sample weights, all positive: people of weight 0 are left out.
    as_passed : PassedPeople, optional
        The same people as the user passed them, if `keep_as_passed`.
    duration_resolution : Resolution, optional
        What rounding left of the durations, where it was counted.
    group : int64 array of shape (n_samples,), or None
        Rows of one group are in one fold.
    """

    features: Features
    target: SurvivalTarget
    weight: FloatArray | None
    as_passed: PassedPeople | None = None
    duration_resolution: Resolution | None = field(default=None, compare=False)
    group: IntArray | None = None

    @property
    def n_samples(self) -> int:
        """Number of people."""
        return self.target.n_samples

    @property
    def outcomes(self) -> Outcomes:
        """Outcomes and weights alone."""
        return Outcomes(self.target, self.weight, self.group)

    @classmethod
    def checked(
        cls,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        like: Features | None = None,
        event_ids: npt.ArrayLike | None = None,
        resolution: str = "check",
        require_event: bool = True,
        keep_as_passed: bool = False,
        groups: Any = None,
        late_entry: bool = False,
        instead: str = TAKES_ENTRY,
    ) -> Cohort:
        """Checked people, without those of weight 0 and the causes that only they had.

        Parameters
        ----------
        X, y, sample_weight
            What the user passed.
        like : Features, optional
            Columns of training.
        event_ids : array, optional
            Labels of training. Default: those of the people with a positive weight.
        resolution : {"check", "count", "ignore"}, default="check"
            Whether times and columns are refused that float32 cannot hold, or what is left of them
            is only counted, for people who come in parts.
        require_event : bool, default=True
            Whether people who are all censored are refused.
        keep_as_passed : bool, default=False
            Whether `as_passed` is kept.
        groups : array, optional
            Group of each row, such as the person.
        late_entry : bool, default=False
            Whether people may enter later than at 0, and have several rows.
        instead : str
            What the error advises where they may not.
        """
        check_paired(X, y, sample_weight)
        features = check_features(X, like=like, resolution=resolution, with_offsets=True)
        weight = check_sample_weight(sample_weight, features.n_samples)
        # Labels of people who do not count need not be those of training.
        read = partial(check_survival_target, late_entry=late_entry, instead=instead)
        checked = partial(read, event_ids=event_ids, require_event=require_event)
        is_part = weight is not None and not weight.all()
        target = read(y, require_event=False) if is_part else checked(y)
        if resolution == "check":
            check_time_resolution(target.duration)
        check_same_people(features.n_samples, target.n_samples)
        as_passed = PassedPeople(X, target.duration) if keep_as_passed else None
        group = check_groups(groups, features.n_samples)
        cohort = cls(features, target, weight, as_passed, group=group)
        if target.person is not None:
            for values, name in ((weight, "sample_weight"), (group, "groups")):
                check_constant(values, target.person, name)
        if weight is not None and is_part:
            cohort = cohort.take(np.flatnonzero(weight))
            cohort = replace(cohort, target=checked(cohort.target))
        duration = cohort.target.duration
        counted = Resolution.of(duration) if resolution == "count" else None
        if cohort.target.person is not None:
            cohort = _merged(cohort, cohort.target.person)
        return replace(cohort, target=_rounded(cohort.target), duration_resolution=counted)

    @classmethod
    def checked_part(
        cls, X: Any, y: Any, sample_weight: Any, *, like: Features | None, resolution: str
    ) -> Cohort | None:
        """One batch or partition of the people, or None if no one in it has a positive weight.

        It may be empty, or have no events: other batches may have them.
        """
        n_people = len(X)
        check_same_people(n_people, _n_outcomes(y))
        if sample_weight is not None and len(sample_weight) != n_people:
            msg = f"`sample_weight` has {len(sample_weight)} values for {n_people} people."
            raise ValueError(msg)
        if n_people == 0:
            return None
        if sample_weight is not None and not np.any(np.asarray(sample_weight)):
            return None
        return cls.checked(
            X,
            y,
            sample_weight,
            like=like,
            resolution=resolution,
            require_event=False,
            instead=_IN_MEMORY,
        )

    @classmethod
    def joined(cls, parts: Sequence[Cohort], schema: Features, event_ids: IntArray) -> Cohort:
        """The people of all parts with one schema and one label set; there may be none."""
        values = [part.features.values for part in parts]
        empty = np.empty((0, schema.n_features), np.float32)
        outcomes = joined_outcomes([part.outcomes for part in parts], event_ids)
        features = replace(schema, values=np.concatenate(values or [empty]))
        return cls(features, outcomes.target, outcomes.weight)

    def take(self, rows: IntArray) -> Cohort:
        """Some of the people, who keep the label set of all."""
        outcomes = self.outcomes.take(rows)
        return Cohort(
            replace(self.features, values=self.features.values[rows]),
            outcomes.target,
            outcomes.weight,
            None if self.as_passed is None else self.as_passed.take(rows),
            group=outcomes.group,
        )

    def with_outcomes(self, outcomes: Outcomes) -> Cohort:
        """The same people with other durations or weights."""
        return replace(self, target=outcomes.target, weight=outcomes.weight)

    def aligned(self, axis: TimeAxis) -> Cohort:
        """The same people with durations aligned to the time axis."""
        return self.with_outcomes(self.outcomes.aligned(axis))

    def with_relative_weights(self, reduction: Reduction) -> Cohort:
        """The same people with weights whose mean over all parts of the people is 1."""
        return self.with_outcomes(self.outcomes.with_relative_weights(reduction))


def _merged(cohort: Cohort, person: IntArray) -> Cohort:
    """The same people with touching rows of equal features merged, sorted by person."""
    target = cohort.target
    entry = np.zeros(cohort.n_samples) if target.entry is None else target.entry
    rounded = time_feature(entry), time_feature(target.duration)
    start, stop = (times.astype(np.float64) for times in rounded)
    first, last = merged_rows(cohort.features.values, person, start, stop)
    entry, number = entry[first], pd.factorize(person[first])[0].astype(np.int64)
    has_several = len(number) > number[-1] + 1
    merged = replace(
        target.take(last),
        entry=entry if entry.any() else None,
        person=number if has_several else None,
    )
    group = number if cohort.group is None else cohort.group[first]
    return replace(
        cohort.take(first),
        target=merged,
        as_passed=None,
        group=group if has_several or cohort.group is not None else None,
    )


def _rounded(target: SurvivalTarget) -> SurvivalTarget:
    """Outcomes with times as float32 values; entries stay before durations."""
    duration, entry = time_feature(target.duration), target.entry
    if entry is not None:
        before = np.maximum(time_feature(target.duration, left=True), np.float32(0))
        entry = np.minimum(time_feature(entry), before).astype(np.float64)
    return replace(target, duration=duration.astype(np.float64), entry=entry)


def separated_outcomes(
    X: Any,
    y: Any,
    columns: Mapping[str, Any],
    censored: str | Sequence[str] | None,
    *,
    grouped: bool,
) -> tuple[Any, Any]:
    """Features and outcomes, from ``X`` and ``y`` or from the columns of one frame.

    Of a frame, whose columns nobody has chosen, those that look like late entry are warned about
    and, unless rows are ``grouped``, ids that repeat; not where entries or ids are named.

    Parameters
    ----------
    X, y
        What the user passed.
    columns : mapping
        Columns of the frame by their role: ``event`` with ``duration`` and perhaps ``entry``, or
        with ``id``, ``start`` and ``stop``. Those that are None were not passed.
    censored : str or sequence of str, optional
        Labels of text events that mean censored.
    grouped : bool
        Whether rows that belong together are known.
    """
    X, y = plain_table(X), plain_table(y, "y")
    roles = {name: column for name, column in columns.items() if column is not None}
    if y is not None:
        if roles:
            msg = (
                "Pass outcomes as `y`, or as columns of the frame, not both; got `y` and "
                f"`{next(iter(roles))}`."
            )
            raise ValueError(msg)
        return X, y
    is_long = bool({"id", "start", "stop"} & set(roles))
    wanted = {"event", "id", "start", "stop"} if is_long else {"event", "duration"}
    if not wanted <= set(roles) <= wanted | (set() if is_long else {"entry"}):
        msg = (
            "Pass outcomes: `fit(X, y)`; or `fit(frame, duration='time', event='status')`, with "
            "`entry` if people came under observation late; or, with a row per person and stretch "
            f"of time, `id`, `start`, `stop` and `event`. Got {', '.join(sorted(roles)) or 'none'}."
        )
        raise ValueError(msg)
    y = survival_outcomes(X, censored=censored, **roles)
    features = [name for name in X.columns if name not in roles.values()]
    if not is_long and "entry" not in roles:
        warn_about_columns(X, features, roles["duration"], grouped=grouped)
    return X[features], y


def checked_eval_set(
    eval_set: Any,
    people: Cohort,
    *,
    labels: EventLabels | None = None,
    keep_as_passed: bool = False,
    late_entry: bool = False,
) -> Cohort:
    """Held-out people with the columns and labels of the training people."""
    if not (isinstance(eval_set, tuple | list) and len(eval_set) == 2):
        msg = f"`eval_set` must be a pair (X, y); got {type(eval_set).__name__}."
        raise ValueError(msg)
    X, y = eval_set
    try:
        y = y if labels is None else labels.coded(y)
        held_out = Cohort.checked(
            X,
            y,
            like=people.features.schema,
            event_ids=people.target.event_ids,
            resolution="ignore",
            keep_as_passed=keep_as_passed,
            late_entry=late_entry,
        )
    except (TypeError, ValueError) as error:
        msg = f"`eval_set`: {error}"
        raise type(error)(msg) from None
    if held_out.n_samples < 2 or not held_out.target.event.any():
        msg = (
            f"`eval_set` has {held_out.n_samples} people and "
            f"{np.count_nonzero(held_out.target.event)} events, too few to choose the number of "
            "rounds. Hold out more people, or leave it out."
        )
        raise ValueError(msg)
    return held_out


def split_cohort(
    cohort: Cohort, fraction: float, generator: np.random.Generator
) -> tuple[Cohort, Cohort]:
    """Training people and held-out people, a ``fraction`` of the cohort, stratified by event."""
    event, n_samples = cohort.target.event, cohort.n_samples
    counts = np.bincount(event, minlength=cohort.target.n_causes + 1)
    # Every cause must stay in the training part; a cause seen once or twice cannot be split.
    groups = np.where(counts[event] >= 3, event, 0)
    n_groups = len(np.unique(groups))
    n_held_out = round(fraction * n_samples)
    can_stratify = np.bincount(groups)[np.unique(groups)].min() >= 2 and n_held_out >= n_groups
    seed = int(generator.integers(2**31 - 1))
    if cohort.group is None:
        training, held_out = train_test_split(
            np.arange(n_samples),
            test_size=fraction,
            random_state=seed,
            stratify=groups if can_stratify else None,
        )
    else:
        splitter = GroupShuffleSplit(1, test_size=fraction, random_state=seed)
        training, held_out = next(splitter.split(event, groups=cohort.group))
    missing = np.setdiff1d(event[held_out], event[training])
    training = np.concatenate([training, held_out[np.isin(event[held_out], missing)]])
    held_out = np.setdiff1d(held_out, training)
    if len(held_out) == 0:
        msg = (
            f"{n_samples} people are too few to hold some out for early stopping. "
            "Pass `eval_set`, or set `early_stopping_rounds=None`."
        )
        raise ValueError(msg)
    return cohort.take(training), cohort.take(held_out)


def joined_outcomes(parts: Sequence[Outcomes], event_ids: IntArray) -> Outcomes:
    """Outcomes of all parts under one label set."""
    weights = [part.weight for part in parts if part.weight is not None]
    event = [
        np.searchsorted(event_ids, part.target.event_ids[part.target.event]).astype(np.int32)
        for part in parts
    ]
    duration = [part.target.duration for part in parts]
    entry = [part.target.entry for part in parts]
    if any(part is not None for part in entry):
        pairs = zip(entry, duration, strict=True)
        entries = np.concatenate([np.zeros(len(d)) if e is None else e for e, d in pairs])
    else:
        entries = None
    return Outcomes(
        SurvivalTarget(
            np.concatenate(event or [np.empty(0, np.int32)]),
            np.concatenate(duration or [np.empty(0)]),
            event_ids,
            entries,
        ),
        np.concatenate(weights) if weights else None,
    )


class Batches(Protocol):
    """People of one process whose features are read batch by batch, in the same order each time."""

    @property
    def n_samples(self) -> int:
        """Number of people of this process."""

    @property
    def schema(self) -> Features:
        """Columns, without any person."""

    @property
    def in_memory(self) -> Features:
        """Features of people who are in memory all the time: of people on disk, none."""

    @property
    def as_passed(self) -> PassedPeople | None:
        """The people as the user passed them, where they were kept."""

    @property
    def slices(self) -> Sequence[slice]:
        """Rows of each batch among all people of this process."""

    def outcomes(self) -> Outcomes:
        """Outcomes and weights of all people of this process."""

    def __iter__(self) -> Iterator[tuple[slice, Features]]:
        """Rows and features, batch by batch."""

    def with_outcomes(self, outcomes: Outcomes) -> Batches:
        """The same people with other durations or weights."""

    def sample(self, n_people: int, generator: np.random.Generator) -> Iterator[Cohort]:
        """About ``n_people`` people at random, or all if there are fewer, in parts."""


@dataclass(frozen=True)
class MemoryBatches:
    """`Batches` of people in memory: usually one batch."""

    cohorts: Sequence[Cohort]

    @property
    def n_samples(self) -> int:
        return sum(cohort.n_samples for cohort in self.cohorts)

    @property
    def schema(self) -> Features:
        return self.cohorts[0].features.schema

    @property
    def in_memory(self) -> Features:
        """Features of the first batch."""
        return self.cohorts[0].features

    @property
    def as_passed(self) -> PassedPeople | None:
        """The people of the first batch as the user passed them, where they were kept."""
        return self.cohorts[0].as_passed

    @cached_property
    def slices(self) -> Sequence[slice]:
        return batch_slices(cohort.n_samples for cohort in self.cohorts)

    @cached_property
    def _outcomes(self) -> Outcomes:
        if len(self.cohorts) == 1:
            return self.cohorts[0].outcomes
        return joined_outcomes(
            [cohort.outcomes for cohort in self.cohorts], self.cohorts[0].target.event_ids
        )

    def outcomes(self) -> Outcomes:
        return self._outcomes

    def __iter__(self) -> Iterator[tuple[slice, Features]]:
        for rows, cohort in zip(self.slices, self.cohorts, strict=True):
            yield rows, cohort.features

    def with_outcomes(self, outcomes: Outcomes) -> MemoryBatches:
        return MemoryBatches(
            [
                cohort.with_outcomes(outcomes.take(rows))
                for rows, cohort in zip(self.slices, self.cohorts, strict=True)
            ]
        )

    def split(
        self, fraction: float, generator: np.random.Generator
    ) -> tuple[MemoryBatches, Cohort]:
        """Training people, and held-out people, a ``fraction`` of the first batch."""
        training, held_out = split_cohort(self.cohorts[0], fraction, generator)
        return MemoryBatches([training]), held_out

    def sample(self, n_people: int, generator: np.random.Generator) -> Iterator[Cohort]:
        for cohort in self.cohorts:
            if cohort.n_samples > n_people:
                chosen = generator.choice(cohort.n_samples, n_people, replace=False)
                yield cohort.take(np.sort(chosen))
            else:
                yield cohort


def batch_slices(sizes: Iterable[int]) -> list[slice]:
    """Rows of consecutive batches of these sizes.

    >>> batch_slices([2, 3])
    [slice(0, 2, None), slice(2, 5, None)]
    """
    ends = itertools.accumulate(sizes, initial=0)
    return [slice(begin, end) for begin, end in itertools.pairwise(ends)]


def _n_outcomes(y: Any) -> int:
    if isinstance(y, tuple):
        return len(y[0])
    return len(next(iter(y.values()))) if isinstance(y, Mapping) else len(y)

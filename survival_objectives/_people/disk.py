"""People who are read batch by batch, as often as needed; only their outcomes are in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._people import Features, KeptValues, check_survival_target
from survival_objectives._people.cohort import Cohort, Outcomes, batch_slices, joined_outcomes
from survival_objectives._people.labels import EventLabels


@dataclass(frozen=True)
class BatchSource:
    """Features of the people, batch by batch; how many each batch has, and their digests."""

    batches: Iterable[Any]
    schema: Features
    sizes: list[int]
    digests: list[str]
    labels: EventLabels | None = None

    def __iter__(self) -> Iterator[Features]:
        found = 0
        for people in _people(self.batches, self.schema, self.labels):
            digest = cohort_digest(people)
            if found == len(self.sizes) or digest != self.digests[found]:
                raise ValueError(self._other_people(found, digest))
            found += 1
            yield people.features
        if found < len(self.sizes):
            msg = f"`batches` gave {found} batches when it was read again, not {len(self.sizes)}."
            raise ValueError(msg)

    def _other_people(self, number: int, digest: str) -> str:
        known = ""
        if digest in self.digests:
            known = f" It was batch {self.digests.index(digest)} before."
        return (
            f"`batches` gave other people when it was read again, or the same in another order "
            f"(batch {number}).{known} Features would be paired with the outcomes of others: pass "
            "an object that gives the same batches in the same order whenever it is iterated over."
        )


@dataclass(frozen=True)
class DiskBatches:
    """`Batches` with outcomes in memory and features that are read batch by batch."""

    source: BatchSource
    people: Outcomes

    @property
    def n_samples(self) -> int:
        return self.people.n_samples

    @property
    def schema(self) -> Features:
        """Columns, with the levels of all batches."""
        return self.source.schema

    @property
    def in_memory(self) -> Features:
        """Columns without people: no features stay in memory."""
        return self.source.schema

    @property
    def as_passed(self) -> None:
        """None: people from files are not kept as they were passed."""
        return None

    @cached_property
    def slices(self) -> list[slice]:
        return batch_slices(self.source.sizes)

    def outcomes(self) -> Outcomes:
        return self.people

    def __iter__(self) -> Iterator[tuple[slice, Features]]:
        return zip(self.slices, self.source, strict=True)

    def with_outcomes(self, outcomes: Outcomes) -> DiskBatches:
        return DiskBatches(self.source, outcomes)

    def sample(self, n_people: int, generator: np.random.Generator) -> Iterator[Cohort]:
        share = min(1.0, n_people / self.n_samples)
        for place, features in self:
            chosen = np.flatnonzero(generator.random(features.n_samples) < share)
            if len(chosen):
                outcomes = self.people.take(place).take(chosen)
                some = replace(features, values=features.values[chosen])
                yield Cohort(some, outcomes.target, outcomes.weight)


def _people(
    batches: Iterable[Any], like: Features | None, labels: EventLabels | None
) -> Iterator[Cohort]:
    """Checked people with a positive weight, batch by batch."""
    for number, batch in enumerate(batches):
        try:
            X, y, *rest = batch
            y = y if labels is None else labels.coded(y)
            people = Cohort.checked_part(
                X,
                y,
                rest[0] if rest else None,
                like=like,
                resolution="count" if like is None else "ignore",
            )
        except (TypeError, ValueError) as error:
            msg = f"Batch {number}: {error}"
            raise type(error)(msg) from None
        if people is not None:
            yield people


def read_batches(
    batches: Iterable[Any], labels: EventLabels | None = None
) -> tuple[BatchSource, Outcomes]:
    """One pass over everything: checks, outcomes, weights, and the levels of categories.

    ``labels`` say what events mean that are text.
    """
    schema: Features | None = None
    parts: list[Outcomes] = []
    digests: list[str] = []
    kept_values = KeptValues()
    for people in _people(batches, None, labels):
        assert people.duration_resolution is not None
        features = people.features
        kept_values.add(features.resolutions, people.duration_resolution)
        schema = features.schema if schema is None else _with_levels(schema, features, len(parts))
        if parts and (people.weight is None) != (parts[0].weight is None):
            msg = f"Batch {len(parts)}: either all batches have weights or none has."
            raise ValueError(msg)
        parts.append(people.outcomes)
        digests.append(cohort_digest(people))
    if schema is None:
        msg = "`batches` has no people."
        raise ValueError(msg)
    kept_values.check(schema)
    events = np.concatenate([part.target.event_ids[part.target.event] for part in parts])
    durations = np.concatenate([part.target.duration for part in parts])
    event_ids = check_survival_target((events, durations)).event_ids
    sizes = [part.n_samples for part in parts]
    return BatchSource(batches, schema, sizes, digests, labels), joined_outcomes(parts, event_ids)


def _with_levels(schema: Features, features: Features, number: int) -> Features:
    """The schema with the levels of one more batch, whose columns must be the same."""
    if features.names != schema.names or set(features.categories) != set(schema.categories):
        msg = (
            f"Batch {number}: columns or their kinds differ from those of the first batch, "
            f"{list(schema.names or range(schema.n_features))}."
        )
        raise ValueError(msg)
    if features.n_features != schema.n_features:
        msg = f"Batch {number}: `X` has {features.n_features} columns, not {schema.n_features}."
        raise ValueError(msg)
    categories = {}
    for column, levels in schema.categories.items():
        new = features.categories[column]
        categories[column] = levels.append(pd.Index(new[~new.isin(levels)]))
    return replace(schema, categories=categories)


# People whose features are used; outcomes are used of all.
_SAMPLED = 1000


def cohort_digest(people: Cohort) -> str:
    """Digest of all outcomes and weights in their order, and of the features of some people.

    The same people in another order, or with durations in another unit, have another digest.
    Categories count by their names, so that their codes may differ.
    """
    features, target, weight = people.features, people.target, people.weight
    label, duration = target.event_ids[target.event], target.duration
    digest = hashlib.sha256(repr((features.n_samples, features.n_features)).encode())
    digest.update(np.ascontiguousarray(label, np.int64).tobytes())
    digest.update(np.ascontiguousarray(duration, np.float64).tobytes())
    if weight is not None:
        digest.update(np.ascontiguousarray(weight, np.float64).tobytes())
    step = max(1, features.n_samples // _SAMPLED)
    sample = features.values[::step].copy()
    for column, levels in features.categories.items():
        names = pd.util.hash_array(np.asarray(levels.astype(str), dtype=object), categorize=False)
        codes = sample[:, column]
        known = ~np.isnan(codes)
        digest.update(known.tobytes())
        digest.update(names[codes[known].astype(np.int64)].tobytes())
        sample[:, column] = 0.0
    sample[np.isnan(sample)] = np.nan  # Of many kinds of NaN, one.
    digest.update(sample.tobytes())
    return digest.hexdigest()

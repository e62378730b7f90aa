"""People of a Dask collection: checked partition by partition, and placed on workers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._engines.protocol import import_engine
from survival_objectives._models.fitted import FittedModel
from survival_objectives._people import Features, check_features
from survival_objectives._people.labels import EventLabels, check_censored_is_for_text
from survival_objectives.adapters.dask._cluster import cancel_on_exit, wait_all
from survival_objectives.adapters.dask._worker import checked_part, part_labels

dask = import_engine("dask")
distributed = import_engine("distributed", extra="dask")
da = import_engine("dask.array", extra="dask")
dd = import_engine("dask.dataframe", extra="dask")


@dataclass(frozen=True)
class Collection:
    """People of a Dask collection: one task per partition that checks them, not run yet."""

    schema: Features
    #: Features, outcomes and weights of each partition.
    pieces: list[tuple[Any, Any, Any]]
    source: Any
    has_text: bool
    labels: EventLabels | None = None

    @property
    def n_partitions(self) -> int:
        return len(self.pieces)

    @cached_property
    def parts(self) -> list[Any]:
        """Tasks that give the checked people of each partition."""
        check = dask.delayed(checked_part, pure=False)
        return [
            check(*pieces, self.schema, self.labels, number)
            for number, pieces in enumerate(self.pieces)
        ]

    @classmethod
    def checked(
        cls,
        X: Any,
        y: Any,
        sample_weight: Any,
        like: Features | None,
        labels: EventLabels | None = None,
    ) -> Collection:
        if not is_collection(X):
            msg = (
                f"`X` is a {type(X).__name__}; pass a dask DataFrame or Array (e.g. "
                "`dask.array.from_array`), or use the estimator's own methods."
            )
            raise TypeError(msg)
        X = by_rows(X)
        features = pieces_of(X)
        if isinstance(y, tuple) and all(isinstance(name, str) for name in y):
            schema = schema_of(_without_outcome(X, y), like)
            outcomes: Sequence[Any] = [y] * len(features)  # The worker takes them apart.
            has_text = _holds_text(X[y[0]])
        else:
            schema = schema_of(X, like)
            outcomes = _outcome_pieces(y, len(features))
            has_text = _holds_text(y)
        weights: Sequence[Any] = [None] * len(features)
        if sample_weight is not None:
            weights = _aligned(sample_weight, "sample_weight", len(features))
        pieces = list(zip(features, outcomes, weights, strict=True))
        return cls(schema, pieces, X, has_text, labels)

    def with_labels(self, client: Any, censored: Any, previous: FittedModel | None) -> Collection:
        """The people with what text events mean, from the labels of all partitions."""
        if not self.has_text:
            check_censored_is_for_text(censored)
            return self
        if previous is not None and previous.frame.event_names is not None:
            return replace(self, labels=EventLabels(previous.frame.event_names, censored))
        read = dask.delayed(part_labels, pure=False)
        futures = client.compute([read(X, y) for X, y, _ in self.pieces])
        with cancel_on_exit(client, futures):
            found = client.gather(futures)
        labels = {label for part in found for label in part}
        return replace(self, labels=EventLabels.of(labels, censored)) if labels else self

    def placed(self, client: Any, workers: list[str]) -> dict[str, list[int]]:
        """Partitions of each worker: where they are or, unless in memory, in blocks."""
        futures = distributed.futures_of(self.source)
        if len(futures) != self.n_partitions:
            return partition_blocks(self.n_partitions, workers)
        distributed.wait(futures)
        holders = client.who_has(futures)
        groups: dict[str, list[int]] = {}
        for number, future in enumerate(futures):
            holder = sorted(holders.get(future.key, ()))
            if not holder:
                return partition_blocks(self.n_partitions, workers)
            groups.setdefault(holder[0], []).append(number)
        return groups

    @contextmanager
    def loaded(self, client: Any, groups: dict[str, list[int]]) -> Iterator[list[Any]]:
        """Futures of the checked people, each on its worker until the end of the context."""
        futures: list[Any] = [None] * self.n_partitions
        with cancel_on_exit(client, futures):
            for worker, block in groups.items():
                computed = client.compute(
                    [self.parts[number] for number in block],
                    workers=[worker],
                    # Strictly: an idle worker may steal what is only preferred elsewhere, rows
                    # and all.
                    allow_other_workers=False,
                )
                for number, future in zip(block, computed, strict=True):
                    futures[number] = future
            wait_all(client, futures, list(groups))
            yield futures


def is_collection(X: Any) -> bool:
    return isinstance(X, da.Array | dd.DataFrame)


def _without_outcome(X: Any, names: tuple[str, ...]) -> Any:
    if not isinstance(X, dd.DataFrame) or len(names) != 2:
        msg = f"`y` is {names!r}; two names of columns are for a dask DataFrame `X`."
        raise ValueError(msg)
    missing = [name for name in names if name not in X.columns]
    if missing:
        msg = f"`X` has no column {missing[0]!r}; its columns are {list(X.columns)}."
        raise ValueError(msg)
    return X.drop(columns=list(names))


def schema_of(X: Any, like: Features | None) -> Features:
    """Names and categories of the columns, without reading any rows."""
    if isinstance(X, da.Array):
        if X.ndim != 2 or np.isnan(X.shape[1]):
            msg = f"`X` must have two dimensions, the second of known size; got shape {X.shape}."
            raise ValueError(msg)
        made_up: Any = np.zeros((1, X.shape[1]), X.dtype)
    else:
        objects = [name for name in X.columns if _holds_objects(X[name])]
        unknown = [name for name in X.columns if _has_unknown_categories(X[name])]
        if like is None:
            unknown += objects
        if unknown:
            msg = (
                f"Column {unknown[0]!r} has categories that Dask does not know before it reads "
                f"the data. Use `X.categorize(columns={unknown!r})`, or `astype(float)` for "
                "numbers."
            )
            raise ValueError(msg)
        # Made-up objects are text, whatever the column holds.
        made_up = X._meta_nonempty.assign(**dict.fromkeys(objects))  # noqa: SLF001  No public one.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # The made-up person may be of any category.
        return check_features(made_up, like=like).schema


def _holds_text(y: Any) -> bool:
    """Whether outcomes may have text, by their types."""
    if isinstance(y, da.Array):
        return bool(y.dtype == object)
    if isinstance(y, dd.DataFrame):
        return any(_holds_text(y[name]) for name in y.columns)
    if isinstance(y, dict):
        return any(map(_holds_text, y.values()))
    if isinstance(y, tuple | list):
        return any(map(_holds_text, y))
    dtype = getattr(y, "dtype", None)
    return isinstance(dtype, pd.CategoricalDtype) or (dtype is not None and _holds_objects(y))


def _holds_objects(column: Any) -> bool:
    return column.dtype == object or isinstance(column.dtype, pd.StringDtype)


def _has_unknown_categories(column: Any) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype) and not column.cat.known


def by_rows(X: Any) -> Any:
    """The collection in partitions of whole rows."""
    is_split = isinstance(X, da.Array) and X.ndim == 2 and X.numblocks[1] > 1
    return X.rechunk({1: -1}) if is_split else X


def pieces_of(X: Any) -> list[Any]:
    # Not optimised: Dask would merge small partitions of one collection and not of another.
    return list(np.ravel(by_rows(X).to_delayed(optimize_graph=False)))


def _outcome_pieces(y: Any, n_partitions: int) -> list[Any]:
    if isinstance(y, tuple | list):
        if len(y) != 2:
            msg = f"A tuple `y` must be (event, duration); got {len(y)} elements."
            raise ValueError(msg)
        columns = [_aligned(column, "y", n_partitions) for column in y]
        return list(zip(*columns, strict=True))
    if isinstance(y, dict):
        names = list(y)
        columns = [_aligned(y[name], f"y[{name!r}]", n_partitions) for name in names]
        return [dict(zip(names, pieces, strict=True)) for pieces in zip(*columns, strict=True)]
    return _aligned(y, "y", n_partitions)


def _aligned(column: Any, name: str, n_partitions: int) -> list[Any]:
    if not isinstance(column, da.Array | dd.DataFrame | dd.Series):
        msg = f"`{name}` must be a Dask collection like `X`; got {type(column).__name__}."
        raise TypeError(msg)
    pieces = pieces_of(column)
    if len(pieces) != n_partitions:
        msg = (
            f"`{name}` has {len(pieces)} partitions, but `X` has {n_partitions}. Take both from "
            "the same collection, or rechunk one like the other."
        )
        raise ValueError(msg)
    return pieces


def held_out_collection(eval_set: Any, people: Collection) -> Collection:
    if not (isinstance(eval_set, tuple | list) and len(eval_set) == 2):
        msg = f"`eval_set` must be a pair (X, y); got {type(eval_set).__name__}."
        raise ValueError(msg)
    try:
        X, y = eval_set
        return Collection.checked(X, y, None, people.schema, people.labels)
    except (TypeError, ValueError) as error:
        msg = f"`eval_set`: {error}"
        raise type(error)(msg) from None


def partition_blocks(n_partitions: int, workers: Sequence[str]) -> dict[str, list[int]]:
    blocks = np.array_split(np.arange(n_partitions), len(workers))
    return {
        worker: block.tolist() for worker, block in zip(workers, blocks, strict=True) if len(block)
    }

r"""SurvivalBoost for more people than memory holds, on one machine, by XGBoost's external memory.

People come in batches, for instance from Parquet files. Each batch is stacked by itself, at
horizons that are drawn again from the same seed whenever it is read, and XGBoost keeps the binned
rows in files (`xgboost.ExtMemQuantileDMatrix`). Everything else is as in `SurvivalBoost`: the same
loop, weights, censoring model and trees.

What stays in memory, with h stacked rows a person and model (at most ``n_horizons``; rows that
teach nothing are left out) and K causes:

- 20 bytes a person for the outcome, and 8 for a sample weight;
- of the people who are boosted on, XGBoost's margins, 8 K h s bytes of the events (value and start)
  and 8 h s of the censoring, where s = 3 draws of horizons are kept;
- while the events are boosted, gradients, weights and row numbers, about (16 K + 16) h bytes of
  these people;
- one batch of people, stacked, and a few pages of the binned rows.

By default everybody is boosted on, so that all of this but the last grows with people, if not with
features. With ``people_per_turn`` the rounds between two refreshes take other people in turn, with
one draw of horizons (s = 1) and their features in memory: then only the first line grows.
``benchmarks/distributed.py`` measures both. On disk are about (n_features + 1) (h s + 1) bytes a
person boosted on, and model.
"""

from __future__ import annotations

import errno
import itertools
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit

from survival_objectives.adapters import _boosting_xgboost
from survival_objectives.adapters._engine import column_names, import_engine
from survival_objectives.adapters._fitted import hand_over
from survival_objectives.adapters._interrupts import HeldInterrupts, interrupts_held
from survival_objectives.adapters._people_digest import people_digest
from survival_objectives.boosting import BoostingLoop, Imputation
from survival_objectives.censoring import time_feature
from survival_objectives.estimator import _CALIBRATION_PEOPLE, SurvivalBoost, _People
from survival_objectives.losses import pointwise_log_loss, probabilities
from survival_objectives.population import counted
from survival_objectives.resolution import Resolution
from survival_objectives.stacking import (
    Role,
    TimeStacker,
    censoring_role,
    exit_feature,
    lost_rows,
    stacked_matrix,
)
from survival_objectives.validation import (
    Features,
    KeptValues,
    SurvivalTarget,
    check_features,
    check_paired,
    check_positive_int,
    check_random_state,
    check_sample_weight,
    check_survival_target,
    relative_weights,
    warn_about_outcomes,
)

xgb = import_engine("xgboost")

__all__ = ["ParquetBatches", "fit_external"]

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
_Part = tuple[Features, SurvivalTarget, FloatArray | None]
Rows = Callable[[], Iterator[tuple[Float32Array, FloatArray]]]

# Bytes that XGBoost's files take for a row and, by kind, for each of its values: dense ones with up
# to 256 bins, and all others. Measured on xgboost 3.2 as at most 8, 2.5 and 5.6.
_ROW_BYTES, _DENSE_BYTES, _VALUE_BYTES, _BIN_BYTES = 8, 2.5, 6.0, 16
# XGBoost's default.
_MAX_BIN = 256
# Stacked rows for which numbers are computed at a time.
_SLICE = 2**20


class ParquetBatches:
    """Batches of people from Parquet files, read again whenever they are iterated over.

    Parameters
    ----------
    paths : path or sequence of paths
        Files, or folders of files that end in ``.parquet``, in order of their names.
    event, duration : str
        Columns of the outcome.
    sample_weight : str, optional
        Column of the weights of people.
    features : sequence of str, optional
        Columns to learn from. Default: all others.
    batch_size : int, default=100_000
        People at a time.

    Examples
    --------
    >>> batches = ParquetBatches("people.parquet", batch_size=50_000)  # doctest: +SKIP
    """

    def __init__(
        self,
        paths: Any,
        *,
        event: str = "event",
        duration: str = "duration",
        sample_weight: str | None = None,
        features: Sequence[str] | None = None,
        batch_size: int = 100_000,
    ) -> None:
        self._parquet = import_engine("pyarrow.parquet", extra="dask")
        self.files = _files([paths] if isinstance(paths, str | Path) else list(paths))
        self.event, self.duration, self.sample_weight = event, duration, sample_weight
        self.batch_size = check_positive_int(batch_size, "batch_size")
        given = self._parquet.read_schema(self.files[0]).names
        outcome = [name for name in (event, duration, sample_weight) if name is not None]
        kept = [name for name in given if name not in outcome and name != "__index_level_0__"]
        self.features = kept if features is None else list(features)
        missing = [name for name in (*outcome, *self.features) if name not in given]
        if missing:
            msg = f"{str(self.files[0])!r} has no column {missing[0]!r}; it has {given}."
            raise ValueError(msg)

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """Features, outcomes and weights, batch by batch."""
        wanted = [*self.features, self.event, self.duration]
        if self.sample_weight is not None:
            wanted.append(self.sample_weight)
        for path in self.files:
            with self._parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(self.batch_size, columns=wanted):
                    frame = batch.to_pandas()
                    weight = None if self.sample_weight is None else frame[self.sample_weight]
                    yield frame[self.features], (frame[self.event], frame[self.duration]), weight


def _files(paths: Sequence[Any]) -> list[Path]:
    files: list[Path] = []
    for path in map(Path, paths):
        found = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not found or not found[0].exists():
            msg = f"There is no Parquet file at {str(path)!r}."
            raise FileNotFoundError(msg)
        files += found
    if not files:
        msg = "`paths` is empty."
        raise ValueError(msg)
    return files


def fit_external(
    model: SurvivalBoost,
    batches: Iterable[Any],
    *,
    eval_set: Any = None,
    people_per_turn: int | None = None,
    cache_folder: Any = None,
) -> SurvivalBoost:
    """Train ``model`` on batches of people that are never in memory together.

    Parameters
    ----------
    model : SurvivalBoost
        With ``engine="xgboost"``; its parameters are used, and it is fitted.
    batches : iterable of (X, y) or (X, y, sample_weight)
        For instance `ParquetBatches`. It is iterated over about twenty times or, with
        ``people_per_turn``, once a refresh, and must give the same people every time, in the same
        order, in the types that ``SurvivalBoost.fit`` takes. Each batch is known again by its
        outcomes, weights and the features of some of its people; another one is an error.
    eval_set : pair (X, y), optional
        Held-out people, in memory. Early stopping needs them here.
    people_per_turn : int, optional
        The rounds between two refreshes are boosted on about so many people, drawn from all
        batches, and the next rounds on others, until it is the first ones' turn again. This bounds
        memory and time whatever the number of people. Trees then err like those of so few people,
        of which only the average is better: make it 100 000 or more. Default: everybody, always.
    cache_folder : path, optional
        Where XGBoost keeps the binned rows while it trains; a local disk is best. Default: the
        system's folder for temporary files. Emptied when training ends, however it ends. Too little
        space is an error before anything is written to it.

    Returns
    -------
    SurvivalBoost
        ``model``.
    """
    model._check_parameters()
    _check_external(model, batches, eval_set)
    if people_per_turn is not None:
        check_positive_int(people_per_turn, "people_per_turn")
    source, target, weight = _read_outcomes(batches)
    warn_about_outcomes(target)
    weight = relative_weights(weight)
    limit = target.n_samples if people_per_turn is None else people_per_turn
    everybody = counted(target, weight)
    people = _People(source.schema, target, weight)
    held_out = None if eval_set is None else model._checked_eval_set(eval_set, people)
    with tempfile.TemporaryDirectory(prefix="survival-boost-", dir=cache_folder) as folder:
        trainer = _ExternalBoost(**model.get_params())
        trainer._source, trainer._cache = source, itertools.count()
        trainer._folder, trainer._n_turns = folder, -(-target.n_samples // limit)
        generator = check_random_state(model.random_state)
        trainer._begin(source.schema, everybody)
        trainer._train(people, everybody, held_out, generator, goes_on=False)
        hand_over(trainer, model, {"_source", "_cache", "_folder", "_n_turns"})
    return model


def _check_external(model: SurvivalBoost, batches: Any, eval_set: Any) -> None:
    if model.engine != "xgboost":
        msg = (
            f"`engine` is {model.engine!r}; external memory is XGBoost's. "
            'Use `SurvivalBoost(engine="xgboost")`.'
        )
        raise ValueError(msg)
    if model.warm_start:
        msg = "`warm_start` does not go with external memory: its bins are made for one training."
        raise ValueError(msg)
    if model.early_stopping_rounds is not None and eval_set is None:
        msg = "`early_stopping_rounds` needs `eval_set` here: batches are not split."
        raise ValueError(msg)
    if iter(batches) is batches:
        msg = (
            f"`batches` is a {type(batches).__name__}, which can be read only once. Pass an object "
            "whose `__iter__` begins anew, such as `ParquetBatches`."
        )
        raise TypeError(msg)


# ----------------------------------------------------------------------------------------- batches
@dataclass(frozen=True)
class _Source:
    """Features of the people, batch by batch; how many each batch has, and who they are."""

    batches: Iterable[Any]
    schema: Features
    sizes: list[int]
    digests: list[str]

    def __iter__(self) -> Iterator[Features]:
        found = 0
        for features, target, weight in _people(self.batches, self.schema):
            digest = _digest(features, target, weight)
            if found == len(self.sizes) or digest != self.digests[found]:
                raise ValueError(self._other_people(found, digest))
            found += 1
            yield features
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

    def slices(self) -> list[slice]:
        """Where each batch stands among everybody."""
        ends = np.cumsum([0, *self.sizes])
        return [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]


def _digest(features: Features, target: SurvivalTarget, weight: FloatArray | None) -> str:
    return people_digest(features, target.event_ids[target.event], target.duration, weight)


def _people(batches: Iterable[Any], like: Features | None) -> Iterator[_Part]:
    """Checked people of every batch who count."""
    for number, batch in enumerate(batches):
        try:
            X, y, *rest = batch
            people = _batch_people(X, y, rest[0] if rest else None, like)
        except (TypeError, ValueError) as error:
            msg = f"Batch {number}: {error}"
            raise type(error)(msg) from None
        if people is not None:
            yield people


def _batch_people(X: Any, y: Any, weight: Any, like: Features | None) -> _Part | None:
    if len(X) == 0 or (weight is not None and not np.any(np.asarray(weight))):
        return None
    check_paired(X, y, weight)
    resolution = "count" if like is None else "ignore"
    features = check_features(X, like=like, resolution=resolution)
    target = check_survival_target(y, require_event=False)
    if target.n_samples != features.n_samples:
        msg = f"`X` has {features.n_samples} rows but `y` has {target.n_samples}."
        raise ValueError(msg)
    checked = check_sample_weight(weight, features.n_samples)
    if checked is not None and not checked.all():
        keep = np.flatnonzero(checked)
        features, checked = replace(features, values=features.values[keep]), checked[keep]
        target = _taken(target, keep)
    return features, target, checked


def _read_outcomes(batches: Iterable[Any]) -> tuple[_Source, SurvivalTarget, FloatArray | None]:
    """One pass over everything: checks, outcomes, weights, and the levels of categories."""
    schema: Features | None = None
    labels, durations = [], []
    weights: list[FloatArray | None] = []
    sizes: list[int] = []
    digests: list[str] = []
    kept_values = KeptValues()
    for features, target, weight in _people(batches, None):
        kept_values.add(features.resolutions, Resolution.of(target.duration))
        schema = features.schema if schema is None else _with_levels(schema, features, len(sizes))
        if weights and (weight is None) != (weights[0] is None):
            msg = f"Batch {len(sizes)}: either all batches have weights or none has."
            raise ValueError(msg)
        labels.append(target.event_ids[target.event])
        durations.append(time_feature(target.duration))
        weights.append(weight)
        sizes.append(features.n_samples)
        digests.append(_digest(features, target, weight))
    if schema is None:
        msg = "`batches` has no people."
        raise ValueError(msg)
    kept_values.check(schema)
    known = check_survival_target((np.concatenate(labels), np.concatenate(durations)))
    total = None
    if weights[0] is not None:
        total = np.concatenate([weight for weight in weights if weight is not None])
    return _Source(batches, schema, sizes, digests), known, total


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


# ---------------------------------------------------------------------------------------- training
class _Booster(_boosting_xgboost.Booster):
    """The booster of the estimator on rows that come in batches and stay on disk."""

    def __init__(self, settings: Any, model: Any = None, cache: Any = None) -> None:
        super().__init__(settings, model)
        self._cache = cache
        self._bins: Any = None

    def add_batches(self, rows: Rows) -> int:
        matrix = self._binned(rows)
        self._n_rows = max(self._n_rows, matrix.num_row())
        self._matrices.append(matrix)
        return len(self._matrices) - 1

    def set_bins(self, rows: Rows) -> None:
        """Take the bins of these rows for all to come; one made-up row keeps them."""
        row = np.zeros((1, self._settings.schema.n_features + 1), np.float32)
        self._bins = self._matrix(xgb.QuantileDMatrix, row, ref=self._binned(rows))

    def release(self) -> None:
        """Forget all rows, on disk too."""
        self._matrices.clear()

    def _binned(self, rows: Rows) -> Any:
        options: dict[str, Any] = {}
        if self._bins is not None or self._matrices:
            options["ref"] = self._bins or self._matrices[0]
        max_bin = self._settings.engine_params.get("max_bin")
        if max_bin is not None:
            options["max_bin"] = max_bin
        schema = self._settings.schema
        columns = range(schema.n_features + 1)
        prefix = self._cache()
        with interrupts_held() as interrupts:
            reader = _Reader(
                rows,
                prefix,
                self._n_margins,
                interrupts,
                _Disk(str(Path(prefix).parent), max_bin or _MAX_BIN),
                feature_names=column_names(schema),
                feature_types=["c" if column in schema.categories else "q" for column in columns],
            )
            try:
                return xgb.ExtMemQuantileDMatrix(
                    reader,
                    enable_categorical=bool(schema.categories),
                    nthread=self._settings.most_threads,
                    **options,
                )
            except _Stopped as stopped:
                raise stopped.reason from None


class _Stopped(Exception):  # noqa: N818  It stands for what was raised.
    """An interruption on its way through XGBoost, which lets only an Exception pass."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__()
        self.reason = reason


class _Disk:
    """Space that the files of one matrix need; where it is full, XGBoost aborts the process."""

    def __init__(self, folder: str, max_bin: int) -> None:
        self._folder, self._max_bin = folder, max_bin
        self._needed, self._n_passes = 0.0, 0

    def begin_pass(self) -> None:
        """Before the second pass all rows are known, and none is written."""
        self._n_passes += 1
        if self._n_passes == 2:
            self._check(self._needed)

    def check(self, values: Float32Array) -> None:
        """Raise an error unless there is room for these rows."""
        is_dense = self._max_bin <= _MAX_BIN and not np.isnan(values).any()
        value_bytes = _DENSE_BYTES if is_dense else _VALUE_BYTES
        needed = len(values) * (_ROW_BYTES + value_bytes * values.shape[1])
        needed += _BIN_BYTES * self._max_bin * values.shape[1]
        if self._n_passes == 1:
            self._needed += needed
        self._check(needed)

    def _check(self, needed: float) -> None:
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            msg = (
                f"The binned rows need {needed / 1e6:.3g} MB, but {free / 1e6:.3g} MB are free. "
                "Make space, pass another `cache_folder`, or keep fewer people at a time by "
                "`people_per_turn`"
            )
            raise OSError(errno.ENOSPC, msg, self._folder)


class _Reader(xgb.DataIter):  # type: ignore[misc, name-defined]
    """Batches of stacked rows as XGBoost asks for them.

    Where there are no rows at all, as of people who were censored in a turn without any, XGBoost is
    given a row without values: it makes no empty matrix. Nobody reads its margin.
    """

    def __init__(
        self,
        rows: Rows,
        prefix: str,
        n_margins: int,
        interrupts: HeldInterrupts,
        disk: _Disk,
        **columns: Any,
    ) -> None:
        self._rows, self._columns = rows, columns
        self._interrupts, self._disk = interrupts, disk
        self._batches: Iterator[tuple[Float32Array, FloatArray]] = iter(())
        self._nobody = (
            np.full((1, len(columns["feature_names"])), np.nan, np.float32),
            np.zeros((1, n_margins)),
        )
        super().__init__(cache_prefix=prefix, release_data=True)

    def next(self, input_data: Callable[..., Any]) -> bool:
        try:
            with self._interrupts.open():
                batch = self._next_batch()
            if batch is not None:
                values, start = batch
                margin = np.asarray(start, np.float32)
                input_data(data=values, base_margin=margin, **self._columns)
            return batch is not None
        except Exception:
            raise
        except BaseException as reason:
            raise _Stopped(reason) from None

    def _next_batch(self) -> tuple[Float32Array, FloatArray] | None:
        for values, start in self._batches:
            if len(values):
                self._is_empty = False
                self._disk.check(values)
                return values, start
        if self._is_empty:
            self._is_empty = False
            return self._nobody
        return None

    def reset(self) -> None:
        self._batches, self._is_empty = self._rows(), True
        self._disk.begin_pass()


@dataclass
class _BatchedStack:
    """One draw of horizons: its number, keys of its rows, and the targets of the event model."""

    number: int
    events: Any
    event_key: int
    censoring_key: int | None


@dataclass
class _BatchedLoop(BoostingLoop):
    """The loop, with weights computed batch by batch from horizons that are drawn again.

    Where people take turns, their features are in memory for a chunk of rounds, whose rows are
    forgotten before the next ones are made.
    """

    source: _Source | None = None
    seed: int = 0
    n_turns: int = 1
    _n_drawn: int = 0
    _turn: list[_Part] = field(default_factory=list)

    def _prepare(self, n_chunks: int) -> None:
        if self.n_turns == 1:
            super()._prepare(n_chunks)
        elif self.n_turns > n_chunks:
            msg = (
                f"People take {self.n_turns} turns, but there are {n_chunks} refreshes, so that "
                f"{1 - n_chunks / self.n_turns:.0%} are not learnt from. Raise `people_per_turn` "
                "or `n_estimators`, or lower `refresh_every`."
            )
            warnings.warn(msg, UserWarning, stacklevel=6)

    def _stack(self, chunk: int) -> Any:
        if self.n_turns == 1:
            return super()._stack(chunk)
        boosters: list[Any] = [one for one in (self.events, self.censoring) if one is not None]
        for booster in boosters:
            booster.release()
        self._turn = list(self._parts(chunk % self.n_turns))
        if self._n_drawn == 0:
            for booster in boosters:
                booster.set_bins(partial(self._rows_of_every_kind, booster))
        stack = self._new_stack()
        self._add_exits()
        return stack

    def _parts(self, turn: int) -> Iterator[_Part]:
        """People of a turn, from all batches: files are often sorted by something that matters."""
        assert self.source is not None
        outcomes = self._batch_outcomes()
        for number, (features, (target, weight)) in enumerate(
            zip(self.source, outcomes, strict=True)
        ):
            order = np.random.default_rng([self.seed, number]).permutation(target.n_samples)
            # Shifted by the batch: one smaller than the number of turns has nobody for some.
            rows = np.flatnonzero((order + number) % self.n_turns == turn)
            yield (
                replace(features, values=features.values[rows]),
                _taken(target, rows),
                None if weight is None else weight[rows],
            )

    def _rows_of_every_kind(self, booster: Any) -> Iterator[tuple[Float32Array, FloatArray]]:
        """Rows of the first turn and every category: bins are made once, from these."""
        n_margins = len(self.start) if booster is self.events else 1
        for rows, _ in self._event_rows(0):
            yield rows, np.zeros((len(rows), n_margins))
        schema = self._turn[0][0]
        n_levels = max(map(len, schema.categories.values()), default=0)
        levels = np.full((n_levels, schema.n_features + 1), np.nan, np.float32)
        for column, known in schema.categories.items():
            levels[: len(known), column] = np.arange(len(known))
        yield levels, np.zeros((n_levels, n_margins))

    def _features(self) -> Iterable[Features]:
        """Batch by batch, those of everybody or of a turn."""
        assert self.source is not None
        return self.source if self.n_turns == 1 else (part[0] for part in self._turn)

    def _outcomes(self) -> Iterator[tuple[SurvivalTarget, FloatArray | None]]:
        if self.n_turns == 1:
            return self._batch_outcomes()
        return ((target, weight) for _, target, weight in self._turn)

    def _batch_outcomes(self) -> Iterator[tuple[SurvivalTarget, FloatArray | None]]:
        assert self.source is not None
        weight = self.sample_weight
        for rows in self.source.slices():
            yield _taken(self.target, rows), None if weight is None else weight[rows]

    def _roles(self, number: int) -> Iterator[tuple[SurvivalTarget, FloatArray | None, Role, Role]]:
        for batch, (target, weight) in enumerate(self._outcomes()):
            stack = _stacker(self.stacker, [self.seed, number, batch]).draw(target)
            yield target, weight, self._event_role(target, stack), censoring_role(target, stack)

    def _new_stack(self) -> Any:
        number = self._n_drawn
        self._n_drawn += 1
        targets, anybody = [], False
        for _, _, events, _ in self._roles(number):
            targets.append(events.target.astype(np.int8))
            anybody = anybody or bool(events.stayed.any())
        if not anybody:
            msg = "Nobody is event-free at any horizon, so there is one class only to learn."
            raise ValueError(msg)
        boosters: Any = self.events, self.censoring
        event_key = boosters[0].add_batches(partial(self._event_rows, number))
        censoring_key = None
        if self.censoring is not None:
            censoring_key = boosters[1].add_batches(partial(self._censoring_rows, number))
        target = np.concatenate(targets)
        return _BatchedStack(number, SimpleNamespace(target=target), event_key, censoring_key)

    def _event_rows(self, number: int) -> Iterator[tuple[Float32Array, FloatArray]]:
        for features, (_, _, role, _) in zip(self._features(), self._roles(number), strict=True):
            yield role.matrix(features), np.tile(self.start, (role.n_rows, 1))

    def _censoring_rows(self, number: int) -> Iterator[tuple[Float32Array, FloatArray]]:
        for features, (_, _, _, role) in zip(self._features(), self._roles(number), strict=True):
            yield role.matrix(features), self.censoring_start(role.horizon)[:, None]

    def _add_exits(self) -> None:
        boosters: Any = self.events, self.censoring
        if self.censoring is not None or self.imputation is not None:
            self._event_exits = boosters[0].add_batches(self._censored_rows)
        if self.censoring is not None:
            self._censoring_exits = boosters[1].add_batches(self._happened_rows)

    def _censored_rows(self) -> Iterator[tuple[Float32Array, FloatArray]]:
        for features, (target, _) in zip(self._features(), self._outcomes(), strict=True):
            people = np.flatnonzero(target.event == 0)
            times = exit_feature(target.duration[people], self.stacker.axis)
            rows = stacked_matrix(features, people, times)
            yield rows, np.tile(self.start, (len(rows), 1))

    def _happened_rows(self) -> Iterator[tuple[Float32Array, FloatArray]]:
        for features, (target, _) in zip(self._features(), self._outcomes(), strict=True):
            people = np.flatnonzero(target.event > 0)
            times = target.duration[people]
            before = exit_feature(times, self.stacker.axis, left=True)
            rows = stacked_matrix(features, people, before)
            yield rows, self.censoring_start(before)[:, None]

    def _completed(self, stack: Any, imputation: Imputation, chunk: int) -> tuple[Any, Any]:
        targets, weights = [], []
        knows_enough = self._knows_enough(imputation)
        if knows_enough:
            margin = _Taken(self.events.margin(stack.event_key))
            exits = _Taken(self.events.margin(self._event_exits))
        generator = self._draws(imputation, chunk)
        for target, weight, role, _ in self._roles(stack.number):
            states = None
            if knows_enough:
                lost, censored = lost_rows(target, role), np.flatnonzero(target.event == 0)
                at_exit = self._states_of(exits.next(len(censored)))
                at_exit = at_exit[np.searchsorted(censored, role.person[lost])]
                states = self._states_of(margin.next(role.n_rows)[lost]), at_exit
            filled = self._filled_in(imputation, target, role, states, generator)
            targets.append(filled.astype(np.int8))
            weights.append(self._person_weight(role, weight).astype(np.float32))
        return np.concatenate(targets), np.concatenate(weights)

    def _event_weight(self, stack: Any) -> FloatArray:
        weights, n_floored = [], 0
        uses_marginal = self.censoring is None or self.censoring.n_rounds == 0
        if not uses_marginal:
            assert self.censoring is not None
            margin = _Taken(self.censoring.margin(stack.censoring_key))
            exits = _Taken(self.censoring.margin(self._censoring_exits))
        for target, weight, role, other in self._roles(stack.number):
            if uses_marginal:
                at_horizon = self.kaplan_meier.survival(role.horizon[role.stayed])
                at_exit = self.kaplan_meier.survival(target.duration[role.leaver], left=True)
            else:
                at_horizon = expit(-margin.next(other.n_rows)[other.stayed, 0])
                happened = np.flatnonzero(target.event > 0)
                before = expit(-exits.next(len(happened))[:, 0])
                before[target.duration[happened] <= 0] = 1.0
                at_exit = before[np.searchsorted(happened, role.leaver)]
            own, n_batch = role.weights(
                at_horizon,
                at_exit,
                floor=self.settings.min_censoring_survival,
                sample_weight=weight,
            )
            weights.append((own / self.stacker.n_horizons).astype(np.float32))
            n_floored += n_batch
        total = np.concatenate(weights)
        self.n_floored, self.n_weighted_rows = n_floored, len(total)
        return total  # type: ignore[return-value]

    def _advance_censoring(self, stack: Any, n_rounds: int) -> None:
        assert self.censoring is not None
        margin = _Taken(self.events.margin(stack.event_key))
        exits = _Taken(self.events.margin(self._event_exits))
        targets, weights = [], []
        for target, weight, events, role in self._roles(stack.number):
            censored = np.flatnonzero(target.event == 0)
            at_horizon = self._states_of(margin.next(events.n_rows)[events.stayed])[:, 0]
            at_exit = self._states_of(exits.next(len(censored)))[:, 0]
            own, _ = role.weights(
                at_horizon,
                at_exit[np.searchsorted(censored, role.leaver)],
                floor=self.settings.min_event_survival,
                sample_weight=weight,
            )
            targets.append(role.target.astype(np.int8))
            weights.append((own / self.stacker.n_horizons).astype(np.float32))
        censored_by_then: Any = np.concatenate(targets)
        if not censored_by_then.any():
            return
        every_weight: Any = np.concatenate(weights)
        self.censoring.boost(stack.censoring_key, censored_by_then, every_weight, n_rounds)
        self.refreshed_rounds.append(self.events.n_rounds)

    def _states_of(self, margin: FloatArray) -> FloatArray:
        return probabilities(margin, reference=self.events.reference)

    def _latest_loss(self, stack: Any, target: Any, weight: FloatArray) -> float:
        if self.history:
            return self.history[-1].loss
        margin = np.asarray(self.events.margin(stack.event_key))
        total = 0.0
        for begin in range(0, len(target), _SLICE):
            rows = slice(begin, begin + _SLICE)
            losses = pointwise_log_loss(
                margin[rows], target[rows], weight[rows], reference=self.events.reference
            )
            total += float(losses.sum())
        return total / float(weight.sum(dtype=np.float64))


def _taken(target: SurvivalTarget, rows: Any) -> SurvivalTarget:
    return replace(target, event=target.event[rows], duration=target.duration[rows])


class _Taken:
    """Rows of an array, a batch at a time, as float64."""

    def __init__(self, values: npt.ArrayLike) -> None:
        self._values = np.asarray(values)
        self._begin = 0

    def next(self, n_rows: int) -> FloatArray:
        rows = self._values[self._begin : self._begin + n_rows]
        self._begin += n_rows
        return rows.astype(np.float64)


def _stacker(stacker: TimeStacker, seed: Sequence[int]) -> TimeStacker:
    """The same stacker with a stream of its own."""
    return TimeStacker(
        stacker.n_horizons,
        stacker.sampler,
        horizon_max=stacker.horizon_max,
        random_state=np.random.default_rng(seed),
        event_times=stacker.event_times,
        time_unit=stacker.axis.unit,
        bulk_end=stacker.bulk_end,
    )


class _ExternalBoost(SurvivalBoost):
    """The estimator on batches."""

    _source: _Source
    _cache: Iterator[int]
    _folder: str
    _n_turns: int

    def _adapter(self) -> Any:
        def prefix() -> str:
            return str(Path(self._folder) / f"rows-{next(self._cache)}")

        return SimpleNamespace(Booster=partial(_Booster, cache=prefix))

    def _new_loop(self, *arguments: Any) -> BoostingLoop:
        stacker = arguments[3]
        seed = int(stacker.generator.integers(2**62))
        loop = _BatchedLoop(*arguments)
        loop.source, loop.seed, loop.n_turns = self._source, seed, self._n_turns
        return loop

    def _some_people(self, people: _People, generator: np.random.Generator) -> Iterator[_People]:
        share = min(1.0, _CALIBRATION_PEOPLE / people.target.n_samples)
        for features, rows in zip(self._source, self._source.slices(), strict=True):
            chosen = np.flatnonzero(generator.random(features.n_samples) < share)
            outcomes = np.arange(rows.start, rows.stop)[chosen]
            if len(chosen):
                yield _People(
                    replace(features, values=features.values[chosen]),
                    _taken(people.target, outcomes),
                    None if people.weight is None else people.weight[outcomes],
                )

    def _state_weights(
        self,
        people: _People,
        stacker: TimeStacker,
        kaplan_meier: Any,
        imputation: Imputation | None,
    ) -> FloatArray:
        total = np.zeros(people.target.n_causes + 1)
        for rows in self._source.slices():
            part = _People(
                people.features,
                _taken(people.target, rows),
                None if people.weight is None else people.weight[rows],
            )
            total += super()._state_weights(part, stacker, kaplan_meier, imputation)
        return total

"""Batches of people from files, and the training on them, with rows that stay on disk."""

from __future__ import annotations

import errno
import itertools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from survival_objectives._arrays import Float32Array
from survival_objectives._engines.protocol import (
    Engine,
    StackedBatch,
    StackedBatches,
    column_names,
    import_engine,
)
from survival_objectives._horizons.settings import HorizonSettings
from survival_objectives._people import check_positive_int
from survival_objectives._people.cohort import Cohort, checked_eval_set
from survival_objectives._people.disk import DiskBatches, read_batches
from survival_objectives._people.labels import EventLabels
from survival_objectives._people.population import LocalReduction, grid_population
from survival_objectives._process.running import interrupts_held, interrupts_open
from survival_objectives._training import Request, trained
from survival_objectives.adapters.xgboost import _engine as xgboost_engine

if TYPE_CHECKING:
    from survival_objectives.estimators import HazardBoost, SurvivalBoost

_Estimator = TypeVar("_Estimator", "HazardBoost", "SurvivalBoost")

xgb = import_engine("xgboost")

# Bytes that XGBoost's files take for a row and, by kind, for each of its values: dense ones with up
# to 256 bins, and all others. Measured on xgboost 3.2 as at most 8, 2.5 and 5.6.
_ROW_BYTES, _DENSE_BYTES, _VALUE_BYTES, _BIN_BYTES = 8, 2.5, 6.0, 16
# XGBoost's default.
_MAX_BIN = 256


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
        Feature columns. Default: all others.
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
    model: _Estimator,
    batches: Iterable[Any],
    *,
    eval_set: Any = None,
    censored: Any = None,
    people_per_turn: int | None = None,
    cache_folder: Any = None,
) -> _Estimator:
    """Train ``model`` on batches of people that are never in memory together.

    Parameters
    ----------
    model : HazardBoost or SurvivalBoost
        With ``engine="xgboost"``; its parameters are used, and it is fitted.
    batches : iterable of (X, y) or (X, y, sample_weight)
        For instance `ParquetBatches`. It is iterated over about twenty times or, with
        ``people_per_turn``, once per refresh, and must give the same people every time, in the same
        order, in the types that ``fit`` takes. A batch is identified by its outcomes, weights and
        the features of some of its people; another one is an error.
    eval_set : pair (X, y), optional
        Held-out people, in memory. Early stopping of a SurvivalBoost needs them here.
    censored : str or sequence of str, optional
        As in ``fit``.
    people_per_turn : int, optional
        Train the rounds of a SurvivalBoost between two refreshes on about this many people, drawn
        from all batches, and the next rounds on others, in turn. Memory and time are then bounded
        for any number of people. Each tree is as noisy as one fitted to this many people, and only
        the average of trees is better: use 100 000 or more. Default: all people in every round.
    cache_folder : path, optional
        Where XGBoost keeps the binned rows while it trains; a local disk is best. Default: the
        system's folder for temporary files. It is emptied when training ends, also after an error.
        Too little space is an error before anything is written to it.

    Returns
    -------
    HazardBoost or SurvivalBoost
        ``model``.
    """
    request = model.training_request()
    _check_external(request, batches, eval_set, people_per_turn)
    labels = EventLabels.of_parts(map(_outcomes_of, batches), censored)
    source, outcomes = read_batches(batches, labels)
    request.check_people(outcomes.target)
    outcomes = outcomes.with_relative_weights(LocalReduction())
    held_out = None
    if eval_set is not None:
        people = Cohort(source.schema, outcomes.target, outcomes.weight)
        held_out = checked_eval_set(eval_set, people, labels=labels)
    n_turns = 1 if people_per_turn is None else -(-outcomes.n_samples // people_per_turn)
    with _engine_on_disk(cache_folder) as engine:
        fitted = trained(
            request.settings,
            replace(request.run(n_turns=n_turns), engine=engine),
            DiskBatches(source, outcomes),
            held_out,
            population=grid_population(outcomes.target, outcomes.weight),
        )
    model.fitted_model = request.finished(fitted, labels)
    return model


@contextmanager
def _engine_on_disk(cache_folder: Any) -> Iterator[Engine]:
    """XGBoost with trainers whose rows are in files of a temporary folder."""
    with (
        interrupts_held(),
        tempfile.TemporaryDirectory(prefix="survival-boost-", dir=cache_folder) as folder,
    ):
        rows = _RowFiles(Path(folder))
        try:
            trainer = partial(_Trainer, files=rows)
            yield replace(xgboost_engine.ENGINE, trainer=trainer)
        finally:
            rows.close()


class _RowFiles:
    """Files of binned rows in a folder, and the matrices that read them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()
        self._matrices: weakref.WeakSet[Any] = weakref.WeakSet()

    def prefix(self) -> str:
        """Beginning of the names of the files of another matrix."""
        return str(self.folder / f"rows-{next(self._numbers)}")

    def add(self, matrix: Any) -> Any:
        """The matrix, which is closed with the others."""
        self._matrices.add(matrix)
        return matrix

    def close(self) -> None:
        """Free all matrices: a traceback may keep them longer than there are files."""
        for matrix in list(self._matrices):
            matrix.__del__()


def _outcomes_of(batch: Any) -> Any:
    """Outcomes of a batch; one of another length is refused when it is read."""
    return batch[1] if isinstance(batch, tuple | list) and len(batch) > 1 else None


def _check_external(
    request: Request, batches: Any, eval_set: Any, people_per_turn: int | None
) -> None:
    settings, wanted = request.settings, request.parameters["engine"]
    if wanted != "xgboost":
        msg = f'`engine` is {wanted!r}; external memory is XGBoost\'s: use `engine="xgboost"`.'
        raise ValueError(msg)
    if request.parameters["warm_start"]:
        msg = "`warm_start` needs people in memory: bins of external memory are for one training."
        raise ValueError(msg)
    request.check_eval_set(eval_set)
    request.check_no_own_model("in memory")
    if isinstance(settings, HorizonSettings):
        if settings.early_stopping_rounds is not None and eval_set is None:
            msg = "`early_stopping_rounds` needs `eval_set` here: batches are not split."
            raise ValueError(msg)
    elif people_per_turn is not None:
        msg = (
            f"`people_per_turn` is {people_per_turn!r}, but hazards draw their own subset of "
            "people. Leave it out, or train a `SurvivalBoost`."
        )
        raise ValueError(msg)
    if people_per_turn is not None:
        check_positive_int(people_per_turn, "people_per_turn")
    if iter(batches) is batches:
        msg = (
            f"`batches` is a {type(batches).__name__}, which can be read only once. Pass an object "
            "whose `__iter__` starts over, such as `ParquetBatches`."
        )
        raise TypeError(msg)


# ---------------------------------------------------------------------------------------- training
class _Trainer(xgboost_engine.Trainer):
    """The trainer of the estimator on rows that come in batches and stay on disk."""

    def __init__(
        self, settings: Any, model: Any = None, n_models: int = 1, *, files: _RowFiles
    ) -> None:
        super().__init__(settings, model, n_models)
        self._files = files
        self._bins: Any = None

    def add_batches(self, rows: StackedBatches) -> int:
        matrix = self._binned(rows)
        self._n_rows = max(self._n_rows, matrix.num_row())
        self._matrices.append(matrix)
        return len(self._matrices) - 1

    def set_bins(self, rows: StackedBatches) -> None:
        """Use the bins of these rows for all rows to come; one made-up row keeps them."""
        row = np.zeros((1, self._settings.schema.n_features + 1), np.float32)
        start = np.zeros((1, self._n_margins))
        self._bins = self._matrix(xgb.QuantileDMatrix, row, start, ref=self._binned(rows))

    def _binned(self, rows: StackedBatches) -> Any:
        options: dict[str, Any] = {}
        if self._bins is not None or self._matrices:
            options["ref"] = self._bins or self._matrices[0]
        max_bin = self._settings.engine_params.get("max_bin")
        if max_bin is not None:
            options["max_bin"] = max_bin
        schema = self._settings.schema
        columns = range(schema.n_features + 1)
        reader = _Reader(
            rows,
            self._files.prefix(),
            self._n_margins,
            _Disk(str(self._files.folder), max_bin or _MAX_BIN),
            feature_names=column_names(schema),
            feature_types=["c" if column in schema.categories else "q" for column in columns],
        )
        try:
            matrix = xgb.ExtMemQuantileDMatrix(
                reader,
                enable_categorical=bool(schema.categories),
                nthread=self._settings.most_threads,
                **options,
            )
        except _Stopped as stopped:
            raise stopped.reason from None
        return self._files.add(self._with_time_drawn(matrix))


class _Stopped(Exception):  # noqa: N818  Not an error itself.
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
    """Batches of stacked rows as XGBoost requests them.

    If there are no rows, for instance of censored people in a turn without any, XGBoost gets one
    row of missing values, because it makes no empty matrix. The margin of that row is not used.
    """

    def __init__(
        self,
        rows: StackedBatches,
        prefix: str,
        n_margins: int,
        disk: _Disk,
        **columns: Any,
    ) -> None:
        self._rows, self._columns = rows, columns
        self._disk = disk
        self._batches: Iterator[StackedBatch] = iter(())
        self._nobody = (
            np.full((1, len(columns["feature_names"])), np.nan, np.float32),
            np.zeros((1, n_margins)),
        )
        super().__init__(cache_prefix=prefix, release_data=True)

    def next(self, input_data: Callable[..., Any]) -> bool:
        try:
            with interrupts_open():
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

    def _next_batch(self) -> StackedBatch | None:
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

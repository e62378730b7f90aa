"""Parquet files larger than memory: outcomes of all people, a sample, and features in batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import IntArray
from survival_objectives.cli._errors import counted, listed
from survival_objectives.cli._tables import Table, parquet_files, typed_table

GIB = 2**30
# Number of people sampled to infer columns and to assess in memory.
SAMPLE = 200_000
# Peak memory of reading, training and assessment per person and per cell: 3.5 kB on 300 000 x 13.
_PERSON_BYTES, _CELL_BYTES = 1_500, 160
# Share of the free memory that a command may use.
_SHARE = 0.7
_BATCH = 100_000
# Name under which pandas writes the index of a frame.
_INDEX = "__index_level_"


def large_file(path: str, memory: float | None) -> LargeFile | None:
    """The Parquet file or folder of them if it is larger than memory; None for other files.

    The limit ``memory`` is in GiB. Default: most of the free memory.
    """
    files = parquet_files(path)
    if not files:
        return None
    try:
        from pyarrow import parquet
    except ImportError:
        return None  # The error is raised when the file is read.
    limit = available_memory() * _SHARE if memory is None else memory * GIB
    n_people, n_columns = 0, 0
    for file in files:
        try:
            metadata = parquet.read_metadata(file)
        except (OSError, ValueError):
            return None
        n_people += metadata.num_rows
        n_columns = max(n_columns, metadata.num_columns)
    needed = n_people * (_PERSON_BYTES + _CELL_BYTES * n_columns)
    return LargeFile(path, tuple(files), n_people, needed) if needed > limit else None


def available_memory() -> float:
    """Free memory in bytes; infinity if the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable"))
        available = float(free.split()[1]) * 1024
    except (OSError, StopIteration):
        try:
            available = float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (ValueError, OSError, AttributeError):
            return float("inf")
    try:
        # The limit of a container.
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = float(Path("/sys/fs/cgroup/memory.current").read_text())
        available = min(available, float(limit) - used)
    except (OSError, ValueError):
        pass
    return available


@dataclass(frozen=True)
class LargeFile:
    """A Parquet file, or a folder of them, that is read part by part."""

    source: str
    files: tuple[Path, ...]
    n_people: int
    needed: float  # Bytes needed to train in memory.

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        from pyarrow import parquet

        names = parquet.read_schema(self.files[0]).names
        return [name for name in names if not name.startswith(_INDEX)]

    def columns(self, names: list[str], missing: frozenset[str]) -> Table:
        """Some columns of all people."""
        frames = [frame for _, frame in self._frames(names)]
        rows = np.arange(1, self.n_people + 1)
        return typed_table(pd.concat(frames, ignore_index=True), self.source, rows, missing)

    def sample(self, missing: frozenset[str], seed: int) -> tuple[Table, IntArray]:
        """All columns of a random sample of people, and their increasing row numbers."""
        generator = np.random.default_rng(seed)
        size = min(SAMPLE, self.n_people)
        chosen = np.sort(generator.choice(self.n_people, size, replace=False))
        frames = []
        for begin, frame in self._frames(self.names):
            inside = chosen[(chosen >= begin) & (chosen < begin + len(frame))] - begin
            frames.append(frame.iloc[inside])
        table = typed_table(pd.concat(frames, ignore_index=True), self.source, chosen + 1, missing)
        return table, chosen

    def tables(self, names: list[str], missing: frozenset[str]) -> Iterator[tuple[slice, Table]]:
        """Some columns of all people, batch by batch."""
        for begin, frame in self._frames(names):
            people = slice(begin, begin + len(frame))
            rows = np.arange(begin + 1, begin + len(frame) + 1)
            yield people, typed_table(frame, self.source, rows, missing)

    def _frames(self, names: list[str]) -> Iterator[tuple[int, pd.DataFrame]]:
        from pyarrow import parquet

        begin = 0
        for path in self.files:
            with parquet.ParquetFile(path) as file:
                # Files may order their columns differently.
                for batch in file.iter_batches(_BATCH, columns=names):
                    frame = batch.to_pandas()[names]
                    yield begin, frame.reset_index(drop=True)
                    begin += len(frame)


class PeopleBatches:
    """Features and outcomes in batches, read from disk at each iteration.

    ``names`` are the columns to read, ``missing`` the cells that mean "not known", and ``y`` the
    outcomes of all people. ``understood`` turns a table into features and their unknown levels;
    ``warn`` is called with a warning about these, once.
    """

    def __init__(
        self,
        file: LargeFile,
        names: list[str],
        missing: frozenset[str],
        y: pd.DataFrame,
        understood: Callable[[Table], tuple[pd.DataFrame, dict[str, list[str]]]],
        warn: Callable[[str], Any],
    ) -> None:
        self._file, self._names, self._missing = file, names, missing
        self._y, self._understood, self._warn = y, understood, warn
        self._has_warned = False

    def __iter__(self) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        unseen: dict[str, set[str]] = {}
        for people, table in self._file.tables(self._names, self._missing):
            X, strange = self._understood(table)
            for name, levels in strange.items():
                unseen.setdefault(name, set()).update(levels)
            yield X, self._y.iloc[people].reset_index(drop=True)
        if not self._has_warned:
            self._has_warned = True
            for name, found in unseen.items():
                self._warn(
                    f"column {name!r} has {counted(len(found), 'level')} that are not in the "
                    f"sample ({listed(sorted(found), 4)}); treated as missing"
                )

"""Long tables: a row per person and stretch (start, stop] of constant features.

A person is at risk in the stretches of their rows. Between rows there may be gaps, in which the
person is known to be event-free, but an event would not have been observed. Only the last row may
end with an event. Rows may come in any order; people are numbered by their first row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import BoolArray, Float32Array, FloatArray, IntArray
from survival_objectives._people.values import as_float, refuse_rows

_SHOWN = 3


def check_stretches(
    ids: Any, start: Any, stop: Any, event: npt.NDArray[Any] | None = None
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Number of the person, start and stop of each row.

    Parameters
    ----------
    ids : array of shape (n_rows,)
        Any values that tell people apart.
    start, stop : arrays of shape (n_rows,)
        Times >= 0.
    event : int array of shape (n_rows,), optional
        0 in all rows but the last of a person.

    Examples
    --------
    >>> check_stretches(["b", "a", "b"], [2, 0, 0], [3, 4, 2])[0]
    array([0, 1, 0])
    """
    start, stop = _times(start, "start"), _times(stop, "stop")
    person, labels = pd.factorize(_one_dimensional(ids), use_na_sentinel=True)
    if not len(person) == len(start) == len(stop):
        msg = f"`id`, `start` and `stop` have {len(person)}, {len(start)} and {len(stop)} values."
        raise ValueError(msg)
    if (person < 0).any():
        rows = np.flatnonzero(person < 0)
        msg = f"`id` is missing in {len(rows)} rows, the first at {rows[:_SHOWN].tolist()}."
        raise ValueError(msg)
    person = person.astype(np.int64)

    def refuse(bad: BoolArray, what: str, remedy: str) -> None:
        if bad.any():
            first = pd.unique(labels[person[bad]])
            shown = ", ".join(repr(label) for label in first[:_SHOWN].tolist())
            msg = f"{what} in {int(bad.sum())} rows of {len(first)} people (first ids: {shown}). "
            raise ValueError(msg + remedy)

    alone = np.bincount(person)[person] == 1
    refuse(
        (start >= stop) & ~(alone & (stop == 0)),
        "`start` is not before `stop`",
        "A row is at risk in (start, stop]; drop rows without any time, or correct them.",
    )
    order = np.lexsort((stop, start, person))
    same = person[order][1:] == person[order][:-1]
    overlaps = np.zeros(len(person), np.bool_)
    overlaps[order[1:]] = same & (start[order][1:] < stop[order][:-1])
    table = pd.DataFrame({"person": person, "start": start, "stop": stop})
    n_copies = int(table.duplicated().sum())
    refuse(
        overlaps,
        "`start` is before the `stop` of the same person's row before it",
        f"{n_copies} rows repeat the person, start and stop of another: drop them if they are "
        "copies."
        if n_copies
        else "Rows of one person must not overlap; merge them, or correct the times.",
    )
    if event is not None:
        n_events = np.bincount(person[event > 0], minlength=len(labels))
        refuse(
            (event > 0) & (n_events[person] > 1),
            "There is more than one event per person",
            "Time to the first event is modelled: end each person at their first event.",
        )
        is_last = np.zeros(len(person), np.bool_)
        is_last[order] = np.append(~same, True)
        refuse(
            (event > 0) & ~is_last,
            "There is an event before the last row of the person",
            "Drop the rows after the event, or set `event` to 0 where it did not happen.",
        )
    return person, start, stop


def _one_dimensional(ids: Any) -> Any:
    array = ids if isinstance(ids, pd.Series | pd.Index) else pd.Series(np.asarray(ids))
    return array.to_numpy() if hasattr(array, "to_numpy") else array


def _times(values: Any, name: str) -> FloatArray:
    array = as_float(values, name)
    where = f"`{name}` is {{value}} at row {{row}} ({{n}} such rows)"
    refuse_rows(~np.isfinite(array), array, f"{where}; drop these rows, or give a time.")
    refuse_rows(array < 0, array, f"{where}; times are counted from 0.")
    if len(array) and array.max() > np.finfo(np.float32).max / 2:
        msg = f"`{name}` reaches {array.max()}, beyond float32. Use a larger unit of time."
        raise ValueError(msg)
    return array


def check_constant(values: npt.NDArray[Any] | None, person: IntArray, name: str) -> None:
    """Raise an error if a person has several values of what belongs to the whole person."""
    if values is None:
        return
    _, first = np.unique(person, return_index=True)
    other = np.flatnonzero(values != values[first][person])
    if len(other):
        msg = (
            f"`{name}` differs between rows of one person in {len(np.unique(person[other]))} "
            f"people, first at row {other[0]}. Give each person one value in all their rows."
        )
        raise ValueError(msg)


@dataclass(frozen=True)
class Path:
    """Rows of features that change in time, one path per person.

    Features hold until the next row of the person begins, those of the last row for ever; before
    their first row, people are event-free.

    Attributes
    ----------
    order : int64 array of shape (n_rows,)
        Rows as passed, sorted by person and time.
    start : float64 array of shape (n_rows,)
        Sorted.
    first : int64 array of shape (n_people,)
        Position of the first row of each person, in order of first appearance.
    """

    order: IntArray
    start: FloatArray
    first: IntArray

    @classmethod
    def of(cls, ids: Any, start: Any, stop: Any) -> Path:
        """The path of checked rows."""
        person, start, stop = check_stretches(ids, start, stop)
        order = np.lexsort((stop, start, person))
        first = np.flatnonzero(np.append(True, np.diff(person[order]) > 0))
        return cls(order, start[order], first)

    @property
    def n_people(self) -> int:
        """Number of people."""
        return len(self.first)

    @property
    def size(self) -> IntArray:
        """Number of rows of each person."""
        return np.diff(self.first, append=len(self.order))

    @property
    def entry(self) -> FloatArray:
        """Start of the first row of each person."""
        return self.start[self.first]

    def take(self, people: slice) -> tuple[slice, Path]:
        """Consecutive people: their rows among the sorted ones, and their path."""
        last = np.append(self.first, len(self.order))[people.stop]
        rows = slice(int(self.first[people.start]), int(last))
        return rows, Path(
            self.order[rows], self.start[rows], self.first[people] - self.first[people.start]
        )


def merged_rows(
    values: Float32Array, person: IntArray, start: FloatArray, stop: FloatArray
) -> tuple[IntArray, IntArray]:
    """First and last row of each run of touching rows of one person with equal features.

    Runs are sorted by person and time, so that someone whose time was cut into several rows with
    equal features has the same runs as before.

    >>> values = np.array([[1], [2], [1]], np.float32)
    >>> merged_rows(values, np.zeros(3, int), np.array([1.0, 2, 0]), np.array([2.0, 3, 1]))
    (array([2, 1]), array([0, 1]))
    """
    order = np.lexsort((stop, start, person))
    now, before = order[1:], order[:-1]
    continues = (person[now] == person[before]) & (start[now] <= stop[before])
    rows = np.flatnonzero(continues)
    same = (values[now[rows]] == values[before[rows]]) | (
        np.isnan(values[now[rows]]) & np.isnan(values[before[rows]])
    )
    continues[rows] = same.all(axis=1)
    begins = np.append(True, ~continues)
    ends = np.append(~continues, True)
    return order[begins], order[ends]

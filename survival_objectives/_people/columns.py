"""Columns that look like late entry, and what shows that people have several rows.

Someone who enters at v and leaves at d has v <= d. If a column were unrelated to the duration, the
expected number of people with v above d would be

    e = sum over i of the share of people j with d_j < v_i.                                    (E)

Such a column is reported if v is above d for at most 1 person in 200, known for nearly everybody,
and seldom equal to d (a column that often is tells when follow-up ended), and if

- e is at least 20, and 50 times the number that is: the column is tied to the end of follow-up; or
- it is named like an entry, takes more than three values, and is not of another order of magnitude.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people.values import warn

_FEW = 1 / 200
_NEARLY_ALL = 0.95
# Above this share of people whose value equals the duration, it is no entry.
_EQUAL = 0.05
_SURPRISING = 20.0
_TIMES_THE_NUMBER = 50
_MORE_THAN_A_CODE = 3
# A column whose typical value is a smaller part of the duration is measured in another unit.
_SAME_ORDER = 0.1
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ENTRY_WORD = re.compile(
    r"t?entry|entered|enter|t?start|started|begin|from|enrol\w*|trunc|truncation|truncated"
    r"|ltrunc|inclusion|included|recruit\w*"
)


def is_entry_name(name: str) -> bool:
    """Whether a name has a word for the beginning of observation.

    >>> [is_entry_name(name) for name in ("age_entry", "tstart", "EnrolmentDate", "restarts")]
    [True, True, True, False]
    """
    return any(_ENTRY_WORD.fullmatch(word.lower()) for word in _WORDS.findall(name))


def late_entry_columns(
    columns: Mapping[str, FloatArray], duration: FloatArray, name: str = "the duration"
) -> dict[str, str]:
    """Columns that look like a time of entry, each with what was found.

    Parameters
    ----------
    columns : mapping of str to float64 array of shape (n_samples,)
        Numbers on the clock of the duration, NaN where missing.
    duration : float64 array of shape (n_samples,)
    name : str
        How the finding calls the duration.

    Examples
    --------
    >>> entry = np.arange(200) % 40 + 40.0
    >>> late_entry_columns({"age": entry, "x": np.arange(200.0)}, entry + np.arange(200) % 7 + 1)
    {'age': "'age' is never above the duration"}
    """
    ordered = np.sort(duration)
    found = {}
    for column, value in columns.items():
        n_above = _n_above(value, duration)
        if n_above is None:
            continue
        known = value[np.isfinite(value)]
        expected = float(np.searchsorted(ordered, known, side="left").mean())
        is_tied = expected >= max(_SURPRISING, _TIMES_THE_NUMBER * n_above)
        is_named = is_entry_name(str(column)) and _is_time_like(value, duration)
        if is_tied or is_named:
            often = f"above {name} in only {n_above} of {len(duration)} rows"
            said = often if n_above else f"never above {name}"
            named = " and named like a time of entry" * is_entry_name(str(column))
            found[column] = f"{column!r} is {said}{named}"
    return found


def _n_above(value: FloatArray, duration: FloatArray) -> int | None:
    """Number of people above their duration; None where it cannot be a time of entry."""
    known = np.isfinite(value)
    few = _FEW * len(value)
    if known.mean() < _NEARLY_ALL or (value < 0).sum() > few or not (value > 0).any():
        return None
    n_above = int((value > duration).sum())
    is_equal = ((value == duration) & (duration > 0)).sum() > _EQUAL * len(value)
    return None if n_above > few or is_equal else n_above


def _is_time_like(value: FloatArray, duration: FloatArray) -> bool:
    late = value > 0
    if len(np.unique(value[late])) <= _MORE_THAN_A_CODE:
        return False
    return bool(np.median(value[late]) >= _SAME_ORDER * np.median(duration[late]))


def warn_about_columns(
    frame: Any, features: Sequence[Any], duration: Any, *, grouped: bool
) -> None:
    """Warn if features of a frame look like late entry or, unless grouped, like ids that repeat.

    ``duration`` is the name of its column.
    """
    stop = _numbers(frame[duration])
    if stop is None or not len(stop) or not np.isfinite(stop).all():
        return  # An error says so.
    columns = {name: numbers for name in features if (numbers := _numbers(frame[name])) is not None}
    ids = {
        str(name): np.asarray(frame[name])
        for name in features
        if name not in columns or is_id_name(str(name))
    }
    repeats = None if grouped else several_rows(ids, columns, stop)
    if repeats is not None:
        msg = (
            f"The frame seems to have {repeats}. As features, ids let a model recognise people it "
            "was trained on, and all scores are too optimistic: remove the id from the features "
            "and pass it as `groups`. If columns change from row to row, pass `y` with `id`, "
            "`start` and `stop`."
        )
        warn(msg)
        return
    found = late_entry_columns(columns, stop, f"the duration {duration!r}")
    if found:
        msg = (
            f"This looks like late entry: {'; '.join(found.values())}. If people came under "
            "observation only then, the time before counts as survived by everybody, and risks are "
            "too low: pass `y` with `entry`, or count the duration from entry. If it is a "
            "feature, pass `fit(X, y)`."
        )
        warn(msg)


def _numbers(column: Any) -> FloatArray | None:
    """A column as float64 with NaN for missing, or None if it has no numbers."""
    if isinstance(column, pd.Series):
        if not pd.api.types.is_numeric_dtype(column.dtype):
            return None
        return column.to_numpy(np.float64, na_value=np.nan)
    values = np.asarray(column)
    is_number = values.ndim == 1 and values.dtype.kind in "iuf"
    return values.astype(np.float64) if is_number else None


_ID_NAME = re.compile(
    r"(.*[\W_])?(?i:id|uuid|guid|identifier|mrn|pid)|.*[a-z](Id|ID)"
    r"|(?i:(.*[\W_])?(patient|person|subject|participant|customer|client))"
    r"([\W_]*(?i:no|nr|num|number|key|code))?"
)
# Ids of groups of people.
_GROUP = re.compile(
    r"(?i)(.*[\W_])?(hospital|site|center|centre|clinic|ward|school|class|region|country|county"
    r"|state|city|dept|department|doctor|physician|provider|product|plan|group|cluster|trial|study"
    r"|household|family|area|zone|store|branch|team|batch|company|firm|type|category)(id|[\W_].*)"
)
# An id of which fewer values repeat is a slip, and of fewer values than this a group.
_FEW_REPEATED = 0.02
_FEWEST_PEOPLE = 20
_MOST_ROWS = 50
# At least this share of rows continue the one before.
_CHAINED = 0.2
_FEWEST_CHAINED = 10


@dataclass(frozen=True)
class SeveralRows:
    """Evidence for several rows per person.

    >>> print(SeveralRows("patient", "from", 1200, 300))
    several rows per person: 'patient' has 300 values in 1200 rows, which continue one another from\
 'from' on
    """

    id: str | None  # Column that names the person.
    start: str | None  # Column in which each row begins where another ends.
    n_rows: int
    n_people: int

    def __str__(self) -> str:
        if self.id is None:
            shown = f"{self.n_rows - self.n_people} of {self.n_rows} rows begin, in {self.start!r},"
            return f"several rows per person: {shown} where the row before ends"
        shown = f"several rows per person: {self.id!r} has {self.n_people} values in {self.n_rows}"
        chain = f" rows, which continue one another from {self.start!r} on"
        return shown + (" rows" if self.start is None else chain)


def is_id_name(name: str) -> bool:
    """Whether the name is that of an identifier.

    >>> [is_id_name(name) for name in ("id", "Patient no", "patient_id", "userId", "covid", "paid")]
    [True, True, True, True, False, False]
    """
    return _ID_NAME.fullmatch(name) is not None


def several_rows(
    ids: Mapping[str, npt.NDArray[Any]], starts: Mapping[str, FloatArray], stop: FloatArray
) -> SeveralRows | None:
    """What shows that people have several rows, or None.

    Parameters
    ----------
    ids : mapping of str to array of shape (n_samples,)
        Columns that are named like ids, and columns of text.
    starts : mapping of str to float64 array of shape (n_samples,)
        Columns of numbers, which may be the beginning of each row, on the clock of ``stop``, or
        ids that are not named so, whose rows have equal outcomes.
    stop : float64 array of shape (n_samples,)
        End of each row.

    Examples
    --------
    >>> several_rows({"id": np.repeat(np.arange(50), 2)}, {}, np.arange(100.0))
    SeveralRows(id='id', start=None, n_rows=100, n_people=50)
    """
    n_rows = len(stop)
    numbers = {name: values for name, values in starts.items() if (values == values.round()).all()}
    for name, values in (numbers | dict(ids)).items():
        number, different = pd.factorize(values)
        n_people, n_known = len(different), int((number >= 0).sum())
        if not _FEWEST_PEOPLE <= n_people < (1 - _FEW_REPEATED) * n_known:
            continue
        is_person = is_id_name(name) and not _GROUP.match(name)
        is_person = is_person or _has_one_end(number, np.asarray(values), stop)
        if is_person and n_known <= _MOST_ROWS * n_people:
            return SeveralRows(name, _chained(starts, stop, number)[0], n_rows, n_people)
    start, n_chained = _chained(starts, stop, None)
    return None if start is None else SeveralRows(None, start, n_rows, n_rows - n_chained)


def _has_one_end(number: IntArray, values: npt.NDArray[Any], stop: FloatArray) -> bool:
    """Whether rows with equal values nearly always end at the same time, and others do not.

    Columns that rise or fall with the time are no ids: they follow from it.
    """
    order = np.lexsort((stop, number))
    same = (number[order][1:] == number[order][:-1]) & (number[order][1:] >= 0)
    equal = np.diff(stop[order]) == 0
    by_chance = 1 - len(np.unique(stop)) / len(np.unique(np.c_[number, stop], axis=0))
    if not same.any() or equal[same].mean() < _NEARLY_ALL or by_chance > 1 - _NEARLY_ALL:
        return False
    if values.dtype.kind not in "iuf":
        return True
    rank = pd.Series(values).corr(pd.Series(stop), method="spearman")
    return abs(float(rank)) < _NEARLY_ALL


def _chained(
    starts: Mapping[str, FloatArray], stop: FloatArray, person: IntArray | None
) -> tuple[str | None, int]:
    """The column in which rows begin where the row before ends, and the number of such rows."""
    for name, start in starts.items():
        order = np.arange(len(stop)) if person is None else np.lexsort((start, person))
        begin, end = start[order], stop[order]
        continues = (begin[1:] == end[:-1]) & (begin[1:] > begin.min())
        n_chained = int(continues.sum())
        is_forward = (begin < end).mean() > 1 - _FEW_REPEATED
        if is_forward and n_chained >= max(_FEWEST_CHAINED, _CHAINED * len(stop)):
            return name, n_chained
    return None, 0

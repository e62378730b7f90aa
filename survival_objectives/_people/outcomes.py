"""Outcomes of people: checked, split into event and duration, and warned about if miscoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import BoolArray, FloatArray, IntArray
from survival_objectives._people.histories import check_stretches
from survival_objectives._people.values import as_float, plain_table, refuse_rows, warn

_EVENT_NAMES = ("event",)
_DURATION_NAMES = ("duration", "time")
_ENTRY_NAMES = ("entry",)
# Names that others use for the time of entry: they must not be ignored.
_OTHER_ENTRY_NAMES = ("entry_time", "start", "start_time", "tstart", "truncation")
TAKES_ENTRY = "Use HazardBoost or HazardObjective (CatBoost: HazardLoss), which take it"
# More labels than any study distinguishes: a sign that the columns are swapped.
_MAX_CAUSES = 50
# More causes than most studies have: worth a warning about the interpretation.
_MANY_CAUSES = 10
# Above this rank correlation with the duration, three or more labels look like a time.
_TIME_LIKE = 0.9
# Labels pass through float64, which represents integers exactly up to here.
_MAX_LABEL = 2**53


@dataclass(frozen=True)
class SurvivalTarget:
    """Checked outcomes: event and duration per person, and entry where some came later than at 0.

    A person is at risk in (entry, duration]; an entry of 0 includes time 0.

    Attributes
    ----------
    event : int32 array of shape (n_samples,)
        0 = censored, 1..K = causes, in the order of ``event_ids[1:]``.
    duration : float64 array of shape (n_samples,)
        Time of the event or of censoring.
    event_ids : int64 array of shape (K + 1,)
        The user's labels; ``event_ids[0]`` is 0, the censored (and, in predictions, event-free)
        state.
    entry : float64 array of shape (n_samples,), or None
        Time at which the person came under observation; None if that is 0 for all.
    person : int64 array of shape (n_samples,), or None
        Number of the person of each row of a long table, whose rows are sorted by person and time;
        None where each row is a person.
    """

    event: npt.NDArray[np.int32]
    duration: FloatArray
    event_ids: IntArray
    entry: FloatArray | None = None
    person: IntArray | None = None

    @property
    def n_samples(self) -> int:
        """Number of people."""
        return len(self.event)

    @property
    def n_causes(self) -> int:
        """Number of competing causes, K."""
        return len(self.event_ids) - 1

    def take(self, rows: Any) -> SurvivalTarget:
        """Outcomes of some people, who keep the label set of all."""
        entry = None if self.entry is None else self.entry[rows]
        person = None if self.person is None else self.person[rows]
        return SurvivalTarget(self.event[rows], self.duration[rows], self.event_ids, entry, person)

    @property
    def is_first(self) -> BoolArray:
        """Whether each row is the first of its person."""
        if self.person is None:
            return np.ones(self.n_samples, np.bool_)
        return np.append(True, self.person[1:] != self.person[:-1])

    @property
    def is_last(self) -> BoolArray:
        """Whether each row is the last of its person."""
        return np.append(self.is_first[1:], True)

    @property
    def first_rows(self) -> IntArray:
        """A row of each person, the first one if rows are sorted."""
        if self.person is None:
            return np.arange(self.n_samples)
        return np.unique(self.person, return_index=True)[1]

    @property
    def until_last(self) -> SurvivalTarget:
        """The same rows in any order, each with the end and the event of its person."""
        if self.person is None:
            return self
        last, event = np.zeros(self.person.max() + 1), np.zeros(self.person.max() + 1, np.int32)
        np.maximum.at(last, self.person, self.duration)
        np.maximum.at(event, self.person, self.event)
        return replace(self, event=event[self.person], duration=last[self.person])

    @property
    def people(self) -> SurvivalTarget:
        """One row per person: from the first entry to the end of the last row."""
        if self.person is None:
            return self
        one = replace(self.until_last.take(self.first_rows), person=None)
        if self.entry is None:
            return one
        begin = np.full(self.person.max() + 1, np.inf)
        np.minimum.at(begin, self.person, self.entry)
        entry = begin[self.person[self.first_rows]]
        return replace(one, entry=entry if entry.any() else None)


def check_same_people(n_people: int, n_outcomes: int) -> None:
    """Raise an error if features and outcomes are of different numbers of people."""
    if n_people != n_outcomes:
        msg = f"`X` has {n_people} rows but `y` has {n_outcomes}."
        raise ValueError(msg)


def check_survival_target(
    y: Any,
    *,
    event_ids: npt.ArrayLike | None = None,
    require_event: bool = True,
    late_entry: bool = False,
    instead: str = TAKES_ENTRY,
) -> SurvivalTarget:
    """Outcomes as integer causes, float64 durations and, where some entered late, entries.

    Parameters
    ----------
    y : DataFrame, dict, structured array, tuple or array
        A pandas or polars frame, a dict or a structured array with a field ``event`` and a field
        ``duration`` or ``time`` (a two-field structured array with one boolean field, as
        scikit-survival makes, may use any names); a tuple ``(event, duration)``; or an
        ``(n_samples, 2)`` array with these two columns in this order. A frame, dict or structured
        array may have a field ``entry``, or fields ``id``, ``start`` and ``stop`` in place of the
        duration.
    event_ids : array-like, optional
        Labels known from training; any other label is refused.
    require_event : bool, default=True
        Whether all-censored data is refused. Always accepted where ``event_ids`` is given.
    late_entry : bool, default=False
        Whether people may enter later than at 0. Code that would ignore the entries leaves it out.
    instead : str
        What the error advises where they may not.

    Returns
    -------
    SurvivalTarget

    Examples
    --------
    >>> target = check_survival_target(([0, 3, 1], [2.0, 5.0, 1.0]))
    >>> target.event
    array([0, 2, 1], dtype=int32)
    >>> target.event_ids
    array([0, 1, 3])
    """
    event, duration, entry, person = split_target(y)
    event = _check_event(event)
    if person is None:
        duration = _check_duration(duration)
    else:
        if not late_entry:
            msg = f"`y` is a long table with `id`, `start` and `stop`. {instead}."
            raise ValueError(msg)
        person, entry, duration = check_stretches(person, entry, duration, event)
    if len(event) != len(duration):
        msg = f"`event` has {len(event)} values but `duration` has {len(duration)}."
        raise ValueError(msg)
    if len(event) == 0:
        msg = "`y` is empty: there are no people to train on."
        raise ValueError(msg)
    if person is None:
        entry = _check_entry(entry, duration)
    if entry is not None and not late_entry:
        late = np.flatnonzero(entry)
        msg = (
            f"`entry` is later than 0 for {len(late)} of {len(entry)} people (first at rows "
            f"{late[:3].tolist()}), and ignoring it would bias the result. {instead}; or drop "
            "`entry` if all people were followed from time 0."
        )
        raise ValueError(msg)
    known = _known_labels(event, event_ids, require_event=require_event)
    codes = np.searchsorted(known, event).astype(np.int32)
    return SurvivalTarget(codes, duration, known, entry, person)


def _known_labels(
    event: IntArray, event_ids: npt.ArrayLike | None, *, require_event: bool
) -> IntArray:
    """Label set with 0 first: that of training, or of these events."""
    if event_ids is None:
        known = np.concatenate([[0], np.unique(event[event > 0])]).astype(np.int64)
        if require_event and len(known) == 1:
            msg = (
                f"All {len(event)} people are censored (event = 0), so there is no cause to learn. "
                "Check which column marks the event: 0 = censored, 1..K = causes."
            )
            raise ValueError(msg)
    else:
        known = np.asarray(event_ids, dtype=np.int64)
        unknown = np.setdiff1d(event, known)
        if len(unknown):
            msg = (
                f"`event` has the label {unknown[0]}, which was not seen in training. "
                f"Known labels: {known.tolist()}."
            )
            raise ValueError(msg)
    if len(known) - 1 > _MAX_CAUSES:
        msg = (
            f"`event` has {len(known) - 1} different causes, such as {known[1:6].tolist()}. "
            "If these are durations, swap the two: the order is (event, duration)."
        )
        raise ValueError(msg)
    return known


def split_target(y: Any) -> tuple[Any, Any, Any, Any]:
    """Events, durations, entries and ids of outcomes in any form, not yet checked.

    Entries and ids may be None; with ids, rows are those of a long table.
    """
    if isinstance(y, SurvivalTarget):
        return y.event_ids[y.event], y.duration, y.entry, y.person
    if isinstance(y, tuple):
        if len(y) != 2:
            msg = f"A tuple `y` must be (event, duration); got {len(y)} elements."
            raise ValueError(msg)
        return *_same_people(y[0], y[1]), None, None
    if isinstance(y, Mapping):
        event, duration, entry, ids = _fields(y, list(y.keys()))
        _same_people(event, entry, "entry")
        _same_people(event, ids, "id")
        return *_same_people(event, duration), entry, ids
    y = plain_table(y, "y")
    if hasattr(y, "columns"):
        if isinstance(y, pd.DataFrame) and y.columns.has_duplicates:
            duplicate = y.columns[y.columns.duplicated()][0]
            msg = f"`y` has the column {duplicate!r} more than once."
            raise ValueError(msg)
        return _fields(y, list(y.columns))
    # A masked array stays masked, so that the error can name its masked values.
    array = y if isinstance(y, np.ma.MaskedArray) else np.asarray(y)
    if array.dtype.names is not None:
        names = list(array.dtype.names)
        if len(names) == 2:
            is_bool = [array.dtype[name] == np.bool_ for name in names]
            if sum(is_bool) == 1:
                event_name = names[is_bool.index(True)]
                return array[event_name], array[names[is_bool.index(False)]], None, None
        return _fields(array, names)
    if array.ndim == 2 and array.shape[1] == 2:
        return array[:, 0], array[:, 1], None, None
    msg = (
        f"`y` of type {type(y).__name__} and shape {array.shape} is not understood. Pass a frame "
        "or dict with `event` and `duration`, a tuple (event, duration), or an (n, 2) array."
    )
    raise ValueError(msg)


def _same_people(event: Any, other: Any, name: str = "duration") -> tuple[Any, Any]:
    _refuse_other_index(_pandas_index(event), _pandas_index(other), "event", name)
    return event, other


def interval_fields(y: Any) -> dict[str, Any] | None:
    """Fields of interval-censored outcomes by their names; None for others.

    They have ``event``, ``lower`` and ``upper``, perhaps ``entry``, and no duration.
    """
    y = plain_table(y, "y")
    fields = getattr(getattr(y, "dtype", None), "names", None)
    names = y.keys() if isinstance(y, Mapping) else getattr(y, "columns", fields or ())
    found = {str(name).lower(): y[name] for name in names}
    if not {"lower", "upper"} <= set(found) or set(_DURATION_NAMES) & set(found):
        return None
    return {name: found[name] for name in ("event", "entry", "lower", "upper") if name in found}


def _fields(y: Any, names: list[Any]) -> tuple[Any, Any, Any, Any]:
    def find(wanted: tuple[str, ...], *, optional: bool = False) -> Any:
        matches = [name for name in names if str(name).lower() in wanted]
        if optional and not matches:
            return None
        if len(matches) == 1:
            return y[matches[0]]
        found = f"has several: {matches}" if matches else f"has only: {names}"
        msg = f"`y` needs exactly one field named {' or '.join(map(repr, wanted))}; it {found}."
        raise ValueError(msg)

    found = {str(name).lower() for name in names}
    if interval_fields(y) is not None:
        msg = (
            "`y` has `lower` and `upper`, but no `duration`. Only `HazardBoost.fit` takes events "
            "that are known to lie in (lower, upper], as its `y`."
        )
        raise ValueError(msg)
    if {"start", "stop"} <= found:
        if "id" not in found:
            msg = (
                "`y` has `start` and `stop`, but no `id`. Rows of one person need the same `id`; "
                "with one row per person, name the two 'entry' and 'duration'."
            )
            raise ValueError(msg)
        return find(_EVENT_NAMES), find(("stop",)), find(("start",)), find(("id",))
    if "id" in found and pd.Series(np.asarray(find(("id",)))).duplicated().any():
        msg = (
            "`y` has values of `id` that repeat, but no `start` and `stop`: every row would be a "
            "person of its own. Add the two where rows are stretches of a person's time; "
            "otherwise drop `id` from `y`, and pass it as `groups`."
        )
        raise ValueError(msg)
    entry = find(_ENTRY_NAMES, optional=True)
    others = [name for name in names if str(name).lower() in _OTHER_ENTRY_NAMES]
    if entry is None and others:
        msg = (
            f"`y` has the field {others[0]!r}. If it is the time at which people came under "
            "observation (left truncation), name it 'entry': ignoring it would bias the curves. "
            "Drop the field if all people were followed from time 0."
        )
        raise ValueError(msg)
    return find(_EVENT_NAMES), find(_DURATION_NAMES), entry, None


def _check_event(event: Any) -> IntArray:
    array = as_float(event, "event")
    where = "`event` is {value} at row {row}"
    unknown = (
        f"{where} ({{n}} such rows); 0 marks a censored person. Drop those of whom it is not known."
    )
    refuse_rows(~np.isfinite(array), array, unknown)
    refuse_rows(
        array != np.rint(array),
        array,
        f"{where}, not an integer. If these are durations, swap the two: the order is (event, "
        "duration).",
    )
    refuse_rows(
        array < 0,
        array,
        "`event` is {value:.0f} at row {row}; labels are 0 (censored) and positive integers "
        "(causes).",
    )
    refuse_rows(
        array > _MAX_LABEL, array, "`event` is {value:g} at row {row}; labels go up to 2^53."
    )
    return array.astype(np.int64)


def _check_duration(duration: Any) -> FloatArray:
    array = as_float(duration, "duration")
    where = "`duration` is {value} at row {row} ({n} such rows)"
    refuse_rows(
        ~np.isfinite(array),
        array,
        f"{where}. Drop these people, or give the last time they were observed, with event = 0.",
    )
    refuse_rows(array < 0, array, f"{where}; durations are counted from 0.")
    if len(array) and array.max() > np.finfo(np.float32).max / 2:
        msg = f"`duration` reaches {array.max()}, beyond float32. Use a larger unit of time."
        raise ValueError(msg)
    return array


def _check_entry(entry: Any, duration: FloatArray) -> FloatArray | None:
    """Times of entry, or None if all are 0."""
    if entry is None:
        return None
    array = as_float(entry, "entry")
    if len(array) != len(duration):
        msg = f"`entry` has {len(array)} values but `duration` has {len(duration)}."
        raise ValueError(msg)
    where = "`entry` is {value} at row {row} ({n} such rows)"
    refuse_rows(~np.isfinite(array), array, f"{where}. Give 0 to people followed from time 0.")
    refuse_rows(array < 0, array, f"{where}; entries are counted from 0, as durations are.")
    rows = np.flatnonzero((array >= duration) & ((array > 0) | (duration > 0)))
    if len(rows):
        first = rows[0]
        msg = (
            f"`entry` is {array[first]} and `duration` {duration[first]} at row {first} "
            f"({len(rows)} such rows, the first at {rows[:3].tolist()}). People are at risk in "
            "(entry, duration], so entry must be before duration; only 0 and 0 are allowed "
            "together. `duration` is counted from time 0, not from entry."
        )
        raise ValueError(msg)
    return array if array.any() else None


def check_paired(X: Any, y: Any, sample_weight: Any = None) -> None:
    """Refuse outcomes or weights whose pandas index belongs to other people than that of ``X``.

    The same labels in another order are refused, and other labels unless they are integers, which
    may be positions in a table that was split. Data without an index is paired by position.

    >>> X = pd.DataFrame({"x": [1.0, 2.0]}, index=["anna", "bert"])
    >>> check_paired(X, pd.DataFrame({"event": [1, 0], "duration": [1.0, 2.0]}, index=X.index))
    >>> check_paired(X, pd.DataFrame({"event": [1, 0], "duration": [1.0, 2.0]}))
    """
    index = _pandas_index(X)
    if index is None:
        return
    outcomes: dict[str, Any] = {"y": y, "sample_weight": sample_weight}
    if isinstance(y, tuple):
        outcomes |= {f"y[{number}]": part for number, part in enumerate(y)}
    elif isinstance(y, Mapping):
        outcomes |= {f"y[{name!r}]": part for name, part in y.items()}
    for name, part in outcomes.items():
        _refuse_other_index(index, _pandas_index(part), "X", name)


def _pandas_index(values: Any) -> pd.Index | None:
    return values.index if isinstance(values, pd.DataFrame | pd.Series) else None


def _refuse_other_index(
    index: pd.Index | None, other: pd.Index | None, name: str, other_name: str
) -> None:
    if index is None or other is None or len(index) != len(other) or index.equals(other):
        return
    reordered = (
        index.nlevels == other.nlevels
        and index.is_unique
        and other.is_unique
        and bool(other.isin(index).all())
    )
    if not reordered and (_is_numbered(index) or _is_numbered(other)):
        return
    own, others = index.to_numpy(dtype=object), other.to_numpy(dtype=object)
    row = int(np.argmax(own != others))
    what = "has the index of" if reordered else "has another index than"
    how = " in another order" if reordered else ""
    msg = (
        f"`{other_name}` {what} `{name}`{how}: row {row} is {others[row]!r} there and "
        f"{own[row]!r} in `{name}`. Rows are paired by position, so people would be mixed up. "
        f"Use `.loc[{name}.index]` to bring them into one order, or `.reset_index(drop=True)` on "
        "both if they already are."
    )
    raise ValueError(msg)


def _is_numbered(index: pd.Index) -> bool:
    # Integers may be positions, including what a split leaves of the default index.
    return pd.api.types.is_integer_dtype(index.dtype)


def warn_about_outcomes(target: SurvivalTarget) -> None:
    """Warn with the interpretation if training outcomes look miscoded."""
    event, duration = target.event, target.duration
    has_censored = bool((event == 0).any())
    warn_about_labels(target.event_ids, has_censored=has_censored)
    if target.n_causes > 1 and np.isin(duration, (0, 1)).all():
        msg = (
            f"`duration` is 0 or 1 for all {target.n_samples} people, while `event` has "
            f"{target.n_causes} labels besides 0. If these are durations, swap the two: the order "
            "is (event, duration)."
        )
        warn(msg)
    if not 3 <= target.n_causes <= _MANY_CAUSES:
        return
    happened = event > 0
    if happened.sum() < 20:
        return
    label = pd.Series(target.event_ids[event[happened]])
    correlation = label.rank().corr(pd.Series(duration[happened]).rank())
    if abs(correlation) > _TIME_LIKE:
        msg = (
            f"The {target.n_causes} labels of `event` rise and fall with `duration` (rank "
            f"correlation {correlation:.2f}), as a time or a count would. They were understood as "
            "competing causes; the order is (event, duration)."
        )
        warn(msg)


def warn_about_labels(event_ids: IntArray, *, has_censored: bool) -> None:
    """The part of `warn_about_outcomes` that needs only the set of labels."""
    causes = event_ids[1:].tolist()
    if not has_censored:
        understood = "cause" if len(causes) == 1 else "competing causes"
        hint = "If all people were followed to the event, that is right."
        if len(causes) > 1:
            hint = (
                f"If {causes[0]} marks censored people, as where 1 = censored and 2 = dead, make "
                f"it 0. {hint}"
            )
        shown = ", ".join(map(str, causes[:6])) + (", ..." if len(causes) > 6 else "")
        msg = f"No one is censored: no `event` is 0, and {shown} means {understood}. {hint}"
        warn(msg)
    if len(causes) > _MANY_CAUSES:
        msg = (
            f"`event` has {len(causes)} labels besides 0, such as {causes[:5]}, which were "
            "understood as competing causes. If they are a count or a time, swap the two: the "
            "order is (event, duration)."
        )
        warn(msg)


def outcomes_frame(y: Any) -> pd.DataFrame:
    """Outcomes as a DataFrame with the columns ``event``, ``duration`` and, if late, ``entry``.

    scikit-learn's `cross_val_score`, `GridSearchCV` and similar functions select rows of ``y`` and
    refuse a pair or a dict, whose length is 2, before any estimator sees it. A frame has one row
    per person.

    Parameters
    ----------
    y : DataFrame, dict, structured array, tuple or array
        Outcomes in any form that this package accepts.

    Returns
    -------
    DataFrame of n_samples rows

    Examples
    --------
    >>> outcomes_frame(([1, 0, 2], [2.5, 3.0, 1.0])).shape
    (3, 2)
    """
    target = check_survival_target(y, require_event=False, late_entry=True)
    index = y.index if isinstance(y, pd.DataFrame) else None
    columns = {"event": target.event_ids[target.event], "duration": target.duration}
    if target.entry is not None:
        columns["entry"] = target.entry
    return pd.DataFrame(columns, index=index)

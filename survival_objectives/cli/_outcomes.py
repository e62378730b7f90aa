"""Events and durations of a table: the meaning of labels, and the follow-up of each row."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people.labels import CENSORED
from survival_objectives.cli._dates import UNIT_DAYS, Span, days, spans
from survival_objectives.cli._errors import CommandError, UsageError, counted, listed, suggestion
from survival_objectives.cli._tables import Table

# More labels than any study distinguishes: a sign that another column was meant.
_MAX_LABELS = 50
_BOOLEAN = ("true", "false")
# Labels that look as if follow-up had ended without the event.
_PERHAPS_CENSORED = re.compile(
    r"cens|\balive|\bactive\b|\bretain|\bstay(s|ed)?\b|\bliv(ing|es)\b|surviv|\bno[ _-]?event"
    r"|[ _-]free\b|\bnone\b|not? (dead|died)"
    r"|\blost\b|\bltfu|loss to|follow[ _-]?up|withdr[ae]w|consent|drop(ped)?[ _-]?out|migrat"
    r"|\bmoved|relocat|transferred|left (the )?(study|country|area|plan)|still (alive|in|under)"
    r"|(end|close|closing|completion) of|complet\w* (the )?(study|follow)|study (end|clos|complet)"
    r"|administrativ|ongoing|cut[ _-]?off"
)
# Values of a column that says yes or no.
_INDICATOR = frozenset({"0", "1", "true", "false", "yes", "no", "y", "n"})
# Labels that mean that the outcome is not known.
_UNKNOWN = frozenset({"unknown", "not known", "unk", "missing", "not available"})
# A cause with one of these uninformative labels is named "event".
_HAPPENED = frozenset({"1", "true", "yes", "y", "event"})
# Labels with a number in front, as in Stata and registries: "1:DECEASED", "2. relapse".
_NUMBERED = re.compile(r"\d+\s*([.:=)]|\s-\s)\s*(?=\D)")


@dataclass(frozen=True)
class Events:
    """Meaning of the labels of the event column."""

    codes: dict[str, int]  # The code of each label of the file; 0 is censored.
    names: dict[int, str]  # The name of each code; 0 is "censored".

    @property
    def ids(self) -> list[int]:
        """Codes in increasing order, 0 first: the states of predictions."""
        return sorted(self.names)

    @property
    def causes(self) -> list[str]:
        """Names of the causes, in the order of ``ids``."""
        return [self.names[code] for code in self.ids[1:]]

    def labels(self, code: int) -> list[str]:
        """Labels of the file with a code."""
        return [label for label, other in self.codes.items() if other == code]


def understand_events(
    table: Table,
    column: str,
    *,
    censored: Sequence[str] = (),
    nobody_censored: bool = False,
    names: Mapping[str, str] | None = None,
) -> Events:
    """Meaning of the labels in the event column; an error if it is ambiguous.

    ``censored`` are labels that mean censored, if the user names them; with ``nobody_censored``
    all labels are causes. ``names`` are those of the causes, by label.
    """
    labels = _label_counts(table, column)
    if len(labels) > _MAX_LABELS:
        msg = (
            f"the event column {column!r} has {len(labels)} different values, such as "
            f"{listed(labels, 3)}; are --event and --duration swapped?"
        )
        raise CommandError(msg)
    if nobody_censored:
        chosen = []
    elif censored:
        chosen = [_known_label(label, labels, column) for label in censored]
    else:
        _check_meaning(labels, column, names or {})
        chosen = _obvious_censored(labels, column)
    causes = [label for label in labels if label not in chosen]
    if not causes:
        msg = (
            f"there are no events: all {table.n_rows} rows of column {column!r} are "
            f"{listed(labels)}, which means censored"
        )
        raise CommandError(msg)
    codes = dict.fromkeys(chosen, 0) | _cause_codes(causes)
    events = {0: "censored", **_cause_names(codes)}
    for label, name in (names or {}).items():
        if codes.get(label, 0) == 0:
            hint = suggestion(label, causes, "causes")
            msg = f"--event-names has {label!r}, which labels no cause of {column!r}; {hint}"
            raise CommandError(msg)
        events[codes[label]] = name
    if len(set(events.values())) < len(events):
        msg = f"--event-names gives two states of {column!r} one name: {listed(events.values())}"
        raise CommandError(msg)
    return Events(codes, events)


_ROLES = ("duration", "start_date", "end_date", "entry", "start", "stop", "event", "id")


@dataclass(frozen=True)
class FollowUp:
    """Columns that say how people were followed, by the names of their options."""

    event: str
    duration: str | None = None  # Or the time between two dates:
    start_date: str | None = None
    end_date: str | None = None
    date_format: str | None = None  # If the user gave it.
    time_unit: str | None = None
    entry: str | None = None  # When people came under observation, a date if the ends are dates.
    id: str | None = None  # The person, where people have several rows.
    start: str | None = None  # In place of the duration, rows from start to stop.
    stop: str | None = None

    @classmethod
    def of(cls, options: argparse.Namespace) -> FollowUp:
        """What the options say, checked."""
        given = cls(**{each.name: getattr(options, each.name) for each in fields(cls)})
        ways = {
            "--duration": given.duration,
            "--start-date": given.start_date or given.end_date,
            "--start": given.start or given.stop,
        }
        used = [option for option, name in ways.items() if name is not None]
        if len(used) > 1:
            msg = f"{used[0]} and {used[1]} both define the follow-up; leave one out"
        elif not used:
            msg = (
                "how long were people followed? Name a column with --duration, two columns of "
                "dates with --start-date and --end-date, or with --id, --start and --stop the rows "
                "of people who have several"
            )
        elif used == ["--start-date"] and None in (given.start_date, given.end_date):
            msg = "--start-date and --end-date go together; name both columns of dates"
        elif used == ["--start"] and None in (given.id, given.start, given.stop):
            msg = "--id, --start and --stop go together; name all three columns"
        elif used == ["--start"] and given.entry is not None:
            msg = "--entry is the first --start of each person; leave it out"
        elif given.start_date is not None and given.unit not in UNIT_DAYS:
            msg = f"--time-unit is {given.unit!r}; between dates, use {', '.join(UNIT_DAYS)}"
        else:
            given.columns  # noqa: B018  Two options may name one column.
            return given
        raise UsageError(msg)

    @property
    def unit(self) -> str | None:
        """Unit of the durations."""
        return self.time_unit or ("days" if self.start_date else None)

    @property
    def columns(self) -> dict[str, str]:
        """The option of each column."""
        found: dict[str, str] = {}
        for field in _ROLES:
            name, option = getattr(self, field), f"--{field.replace('_', '-')}"
            if name in found:
                msg = f"{found[name]} and {option} are both {name!r}; name two different columns"
                raise UsageError(msg)
            if name is not None:
                found[name] = option
        return found

    def clock(self, table: Table, column: str) -> FloatArray:
        """Times in a column, from the origin on; NaN where they are not known."""
        if self.start_date is None:
            return table.numbers(column).values
        start = days(table, self.start_date, self.date_format)
        return (days(table, column, self.date_format) - start) / UNIT_DAYS[str(self.unit)]

    def outcomes(self, table: Table, events: Events) -> pd.DataFrame:
        """Outcomes of all rows: ``event``, and ``duration`` or ``id``, ``start`` and ``stop``.

        With people who came late, also ``entry``.
        """
        labels = _labels(table, self.event)
        unknown = ~labels.isin(list(events.codes)).to_numpy()
        if unknown.any():
            first = labels.iloc[int(np.flatnonzero(unknown)[0])]
            msg = (
                f"{table.source}: the event {self.event!r} has labels not seen in training: "
                f"{table.stray(self.event, unknown)}; {suggestion(first, events.codes, 'labels')}"
            )
            raise CommandError(msg)
        y = pd.DataFrame({"event": labels.map(events.codes).to_numpy(np.int64)})
        if self.start is not None:
            y["id"] = person_of_rows(table, self.id)
            y["start"] = _times(table, str(self.start), "start")
            y["stop"] = _times(table, str(self.stop), "stop")
            begin, end = "start", "stop"
        else:
            y["duration"] = self._durations(table)
            begin, end = "entry", "duration"
            if self.entry is not None:
                y["entry"] = self._entries(table, self.entry)
        if begin in y:
            late = ((y[begin] >= y[end]) & (y[end] > 0)).to_numpy()
            if late.any():
                name = str(self.start or self.entry)
                msg = (
                    f"{table.source}: people are under observation from {name!r} on, and it is not "
                    f"before the end on {table.stray(name, late)}; correct these times, or remove "
                    "the rows"
                )
                raise CommandError(msg)
        return y

    def _durations(self, table: Table) -> FloatArray:
        if self.duration is not None:
            return _times(table, self.duration, "duration")
        span = Span(str(self.start_date), str(self.end_date), str(self.unit), self.date_format)
        return spans(table, span)

    def _entries(self, table: Table, entry: str) -> FloatArray:
        if self.start_date is None:
            return _times(table, entry, "entry")
        return spans(table, Span(self.start_date, entry, str(self.unit), self.date_format))


def person_of_rows(table: Table, column: str | None) -> IntArray | None:
    """Number of the person of each row, by the column of ids; None without one."""
    if column is None:
        return None
    table.refuse_missing(column, "id", out="these rows")
    return pd.factorize(table.texts(column))[0].astype(np.int64)


def per_person(y: pd.DataFrame) -> pd.DataFrame:
    """Outcomes with one row per person, from the first entry to the end of the last row."""
    if "id" not in y:
        return y
    found = y.groupby("id", sort=False).agg(
        event=("event", "max"), duration=("stop", "max"), entry=("start", "min")
    )
    return found.reset_index(drop=True)


# --------------------------------------------------------------------------------------- events
def _labels(table: Table, column: str) -> pd.Series[Any]:
    """Labels of the event column as text; True in any spelling is ``true``."""
    table.refuse_missing(column, "event")
    labels = table.texts(column)
    lower = {label: label.lower() for label in labels.unique() if label.lower() in _BOOLEAN}
    return labels.replace(lower) if lower else labels


def _label_counts(table: Table, column: str) -> dict[str, int]:
    counts = _labels(table, column).value_counts()
    return {label: int(counts[label]) for label in sorted(counts.index, key=_natural_order)}


def _natural_order(label: str) -> tuple[bool, int, str]:
    return (False, int(label), "") if _is_integer(label) else (True, 0, label)


def _is_integer(label: str) -> bool:
    return re.fullmatch(r"[+-]?\d+", label) is not None


def _known_label(label: str, labels: Mapping[str, int], column: str) -> str:
    for spelling in (label, label.lower()):
        if spelling in labels:
            return spelling
    msg = (
        f"--censored-label is {label!r}, but the event column {column!r} has no such value; "
        f"{suggestion(label, labels, 'values')}"
    )
    raise CommandError(msg)


def _check_meaning(labels: Mapping[str, int], column: str, names: Mapping[str, str]) -> None:
    """Refuse columns named after censoring, and codes that usually mean unknown."""
    indicators = [label for label in labels if label.lower() in _INDICATOR]
    if _looks_censored(column.replace("_", " ")) and len(indicators) == len(labels) == 2:
        options = " or ".join(f"--censored-label {quote(label)}" for label in labels)
        msg = (
            f"the event column {column!r} is named after people without the event; which of its "
            f"values {listed(labels)} means censored? Use {options}"
        )
        raise CommandError(msg)
    numbers = sorted(int(label) for label in labels if _is_integer(label))
    unknown = [label for label in labels if _is_unknown(label, numbers) and label not in names]
    if unknown:
        label = unknown[0]
        msg = (
            f"does {label!r} in the event column {column!r} ({counted(labels[label], 'row')}) mean "
            "that the outcome is unknown? Then remove these people, or name all labels of censored "
            f"people with --censored-label; if it is a cause, name it: --event-names {label}=NAME"
        )
        raise CommandError(msg)


def _is_unknown(label: str, numbers: Sequence[int]) -> bool:
    """Whether a label usually means unknown: 9, 99 or 999 after a gap in the codes, or a word.

    The gap may be before an 8, which usually means "not applicable" there.

    >>> _is_unknown("9", [0, 1, 8, 9]), _is_unknown("9", [0, 7, 8, 9]), _is_unknown("Unknown", [])
    (True, False, True)
    """
    if re.fullmatch("9+", label):
        return int(label) - 2 not in numbers
    return _core(label) in _UNKNOWN


def _obvious_censored(labels: Mapping[str, int], column: str) -> list[str]:
    """The label that unambiguously means censored; an error if there is none."""
    if all(_is_integer(label) for label in labels):
        negative = [label for label in labels if int(label) < 0]
        if "0" in labels and not negative:
            return ["0"]
        if list(labels) == ["1"]:
            return []
    else:
        fraction = [label for label in labels if re.fullmatch(r"[+-]?\d*[.,]\d+", label)]
        if fraction:
            msg = (
                f"the event column {column!r} has the value {fraction[0]!r}, and a label is a "
                "whole number or text; are --event and --duration swapped?"
            )
            raise CommandError(msg)
        found = [label for label in labels if _looks_censored(label)]
        if len(found) == 1 and _core(found[0]) in CENSORED:
            return found
        if len(found) > 1:
            shown = ", ".join(f"{label!r} ({counted(labels[label], 'row')})" for label in found)
            options = " ".join(f"--censored-label {quote(label)}" for label in found)
            msg = (
                f"which values of the event column {column!r} mean censored? These look like it: "
                f"{shown}. If all do, use: {options}; leave out those that are causes"
            )
            raise CommandError(msg)
    shown = ", ".join(f"{label!r} ({counted(n, 'row')})" for label, n in labels.items())
    msg = (
        f"which value of the event column {column!r} means censored? It has {shown}; "
        "name it with --censored-label, or use --nobody-censored"
    )
    raise CommandError(msg)


def _looks_censored(label: str) -> bool:
    """Whether a label may mean that follow-up ended without the event.

    >>> [_looks_censored(label) for label in ("End of study", "3: emigrated", "dead", "relapse")]
    [True, True, False, False]
    """
    core = _core(label)
    return core in CENSORED or _PERHAPS_CENSORED.search(core) is not None


def _core(label: str) -> str:
    """The label without a leading number, in lower case.

    >>> _core("0:LIVING"), _core("2 - Lost to follow-up"), _core("2-year relapse")
    ('living', 'lost to follow-up', '2-year relapse')
    """
    return _NUMBERED.sub("", label, count=1).strip(" ._-").lower()


def _cause_codes(causes: Sequence[str]) -> dict[str, int]:
    """Codes of the causes: positive integers are kept, other labels are numbered from 1."""
    if all(_is_integer(label) and int(label) > 0 for label in causes):
        return {label: int(label) for label in causes}
    return {label: code for code, label in enumerate(causes, start=1)}


def _cause_names(codes: Mapping[str, int]) -> dict[int, str]:
    causes = {code: label for label, code in codes.items() if code}
    if len(causes) == 1:
        ((code, label),) = causes.items()
        if _core(label) in _HAPPENED or _is_integer(label):
            return {code: "event"}
    bare = {code: _NUMBERED.sub("", label, count=1) for code, label in causes.items()}
    named = bare if len(set(bare.values())) == len(bare) else causes
    return {code: f"cause {name}" if _is_integer(name) else name for code, name in named.items()}


# ------------------------------------------------------------------------------------ durations
def _times(table: Table, column: str, what: str) -> FloatArray:
    numbers = table.numbers(column)
    wrong = numbers.wrong | table.is_bound(column)
    if wrong.any():
        msg = (
            f"{table.source}: the {what} {column!r} is not a number on "
            f"{table.stray(column, wrong)}; give a time such as days from entry to the "
            "event or the last visit, or two columns of dates with --start-date and --end-date"
        )
        raise CommandError(msg)
    table.refuse_missing(column, what, fill="in how long these people were followed", out="them")
    negative = numbers.values < 0
    if negative.any():
        msg = (
            f"{table.source}: the {what} {column!r} is below 0 on "
            f"{table.stray(column, negative)}; durations count from 0"
        )
        raise CommandError(msg)
    return numbers.values

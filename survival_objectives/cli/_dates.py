"""Columns of dates: their format, and the time between two of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import FloatArray
from survival_objectives.cli._errors import CommandError, UsageError, listed
from survival_objectives.cli._tables import Table

#: Days in a time unit, on average for months and years.
UNIT_DAYS = {"days": 1.0, "weeks": 7.0, "months": 30.4375, "years": 365.25}

_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
    r"|\d{1,2}[- ]?[A-Za-z]{3,9}[- ]?\d{2,4})([T ]+\d{1,2}:\d{2}.*)?"
)
_TIME_OF_DAY = re.compile(r"[T ]+\d{1,2}:\d{2}.*$")
_FORMATS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d-%b-%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%d%b%Y",
)
# If at least this share of the cells are dates, the others are mistakes.
_MOSTLY = 0.8
# The format of at least this share of the cells is that of the column; others may have another.
_MOST = 0.5


@dataclass(frozen=True)
class Span:
    """A duration as the time between two columns of dates: entry, and event or last visit."""

    start: str
    end: str
    unit: str = "days"  # A key of `UNIT_DAYS`.
    date_format: str | None = None  # As for `datetime.strptime`. Default: detected.


def looks_like_dates(texts: npt.NDArray[Any]) -> bool:
    """Whether most of the distinct cells of a column are dates."""
    return bool(np.mean([_DATE.fullmatch(text) is not None for text in texts]) >= _MOSTLY)


def days(table: Table, name: str, date_format: str | None = None) -> FloatArray:
    """A column of dates as days since 1970-01-01, without time of day, NaN where missing.

    An error is raised if a cell is not a date, or if day and month are ambiguous.
    """
    missing = table.is_missing(name)
    values = table.frame[name]
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        dates = values.dt.tz_localize(None) if values.dt.tz is not None else values
    elif table.is_text(name):
        codes, different = pd.factorize(values)
        codes[missing] = -1
        texts = pd.Series(different, dtype=object)[np.unique(codes[codes >= 0])]
        texts = texts.str.replace(_TIME_OF_DAY, "", regex=True)
        n_cells = pd.Series(np.bincount(codes[codes >= 0], minlength=len(different)))[texts.index]
        chosen = date_format or _date_format(table, name, texts, n_cells)
        known = _parsed(texts, chosen)
        if date_format is None:
            known = _with_other_format(known, texts, chosen)
        parsed = known.reindex(range(-1, len(different)))
        dates = parsed[codes].set_axis(values.index)
        wrong = dates.isna().to_numpy(bool) & ~missing
        if wrong.any():
            msg = (
                f"{table.source}: column {name!r} has cells that are not dates such as "
                f"{pd.Timestamp(2024, 5, 31).strftime(chosen)!r} ({chosen}): "
                f"{table.stray(name, wrong)}; correct them, or name the format with --date-format"
            )
            raise CommandError(msg)
    else:
        msg = f"{table.source}: column {name!r} holds numbers, not dates; use --duration instead"
        raise CommandError(msg)
    whole = dates.to_numpy("datetime64[D]").astype(np.float64)
    return np.where(missing, np.nan, whole)


def _with_other_format(dates: pd.Series[Any], texts: pd.Series[Any], chosen: str) -> pd.Series[Any]:
    """Dates, with all others in a second format, where only one other reading is possible."""
    others = texts[dates.isna()]
    found = [
        parsed
        for candidate in _FORMATS
        # Day and month may not be swapped from one cell to the next.
        if _layout(candidate) != _layout(chosen)
        and (parsed := _parsed(others, candidate)).notna().all()
    ]
    if len(others) == 0 or not found or not all(parsed.equals(found[0]) for parsed in found):
        return dates
    return dates.fillna(found[0])


def _layout(date_format: str) -> str:
    """A format without saying which is the day and which the month."""
    return re.sub("%[dm]", "#", date_format)


def _parsed(texts: pd.Series[Any], date_format: str) -> pd.Series[Any]:
    try:
        return pd.to_datetime(texts, format=date_format, errors="coerce")
    except ValueError as error:
        msg = f"--date-format is {date_format!r} ({error}); use one such as %d.%m.%Y or %m/%d/%y"
        raise UsageError(msg) from error


def _date_format(table: Table, name: str, texts: pd.Series[Any], n_cells: pd.Series[Any]) -> str:
    """The format in which most cells are dates; an error if two formats give different dates.

    ``texts`` are the distinct cells, and ``n_cells`` their counts.
    """
    parsed = {candidate: _parsed(texts, candidate) for candidate in _FORMATS}
    counts = {candidate: int(n_cells[dates.notna()].sum()) for candidate, dates in parsed.items()}
    most = max(counts.values())
    if most < _MOST * n_cells.sum():
        msg = (
            f"{table.source}: column {name!r} holds cells such as {listed(texts, 3)}, which "
            "are not dates in a known format; name it with --date-format, such as %d.%m.%Y"
        )
        raise CommandError(msg)
    best = [candidate for candidate, count in counts.items() if count == most]
    # Cells of another layout are read beside the others, see `_with_other_format`.
    alike = [other for other in best[1:] if _layout(other) == _layout(best[0])]
    others = [other for other in alike if not parsed[other].equals(parsed[best[0]])]
    if others:
        msg = (
            f"{table.source}: which is the day and which the month in column {name!r}, such as "
            f"{texts.iloc[0]!r}? Use --date-format {best[0]} or --date-format {others[0]}"
        )
        raise CommandError(msg)
    return best[0]


def spans(table: Table, span: Span) -> FloatArray:
    """Time from start to end per person, in the unit of the span."""
    start = days(table, span.start, span.date_format)
    end = days(table, span.end, span.date_format)
    for name, what in ((span.start, "start"), (span.end, "end")):
        fill = "it in (the end of people without event is their last visit)"
        table.refuse_missing(name, f"{what} date", fill=fill)
    before = np.flatnonzero(end < start)
    if len(before):
        shown = ", ".join(
            f"{table.place(row)} ({table.frame[span.start].iloc[row]} to "
            f"{table.frame[span.end].iloc[row]})"
            for row in before[:20]
        )
        msg = (
            f"{table.source}: the end date {span.end!r} is before the start date {span.start!r} "
            f"on {shown}; correct them, or swap --start-date and --end-date"
        )
        raise CommandError(msg)
    return (end - start) / UNIT_DAYS[span.unit]

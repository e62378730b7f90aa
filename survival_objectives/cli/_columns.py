"""Columns of a table as features: which are used, as what, and why others are not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from shlex import quote
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives._people import is_id_name
from survival_objectives.cli._dates import days, looks_like_dates
from survival_objectives.cli._errors import CommandError, UsageError, listed, suggestion
from survival_objectives.cli._tables import Table

#: With more levels than this, a text column is a name or a note rather than a category.
MAX_LEVELS = 100

# If at least this share of the cells are numbers, the others are mistakes and not levels.
_MOSTLY = 0.8
# Above this share of distinct values, a column identifies people rather than groups of people.
_DIFFERENT = 0.5
# Up to this many levels are always a category; more levels need several people each.
_FEW_LEVELS = 20
_PEOPLE_PER_LEVEL = 5
_BOOLEAN = {"true": 1.0, "false": 0.0}
# Names of codes that are written as numbers, whose size means nothing.
_CODE_NAME = re.compile(
    r"(?i)(.*[\W_])?(zip|zip[\W_]?code|post[\W_]?code|postal([\W_]?code)?|plz|fips|icd|icd[\W_]?\d+"
    r"|code|codes)([\W_].*)?|.*[a-z](Code|Zip|Plz)"
)


@dataclass(frozen=True)
class Column:
    """A column that the model uses."""

    name: str
    kind: str  # "number", "boolean", "category", or "date", in days since 1970-01-01.
    levels: tuple[str, ...] = ()  # Of a category.
    date_format: str | None = None  # If the user gave it.

    def __str__(self) -> str:
        return f"{self.kind}, {len(self.levels)} levels" if self.levels else self.kind


@dataclass(frozen=True)
class Selection:
    """Columns that are used, and why others are not."""

    used: tuple[Column, ...]
    dropped: dict[str, str]


def understand_columns(
    table: Table,
    outcome: Sequence[str],
    *,
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    dates: Sequence[str] = (),
    drop: Sequence[str] = (),
    date_format: str | None = None,
) -> Selection:
    """The kind of every column besides the outcome, and whether it is used.

    ``outcome`` names the columns of the duration and of the event; ``categorical``, ``numeric``,
    ``dates`` and ``drop`` name columns whose kind the user has chosen. The ``date_format`` is
    detected by default.
    """
    decided = {
        "--categorical": categorical,
        "--numeric": numeric,
        "--date": dates,
        "--drop": drop,
    }
    _check_decided(table, outcome, decided)
    used, dropped = [], {}
    for name in table.names:
        if name in outcome:
            continue
        if name in drop:
            dropped[name] = "--drop"
        elif name in categorical:
            used.append(Column(name, "category", _levels(table.texts(name))))
        elif name in numeric:
            used.append(Column(name, "number"))
        elif name in dates:
            used.append(Column(name, "date", date_format=date_format))
        else:
            column, reason = _understand(table, name)
            if column is None:
                dropped[name] = reason
            else:
                used.append(column)
    _ask_about_codes(table, [column for column in used if column.name not in numeric])
    if not used:
        reasons = ", ".join(f"{name!r} ({reason})" for name, reason in dropped.items())
        msg = f"{table.source} has no column to learn from: {reasons or 'only the outcome'}"
        raise CommandError(msg)
    return Selection(tuple(used), dropped)


def _check_decided(
    table: Table, outcome: Sequence[str], decided: Mapping[str, Sequence[str]]
) -> None:
    """Raise an error if options name columns that are missing, of the outcome, or of two kinds."""
    for option, names in decided.items():
        for name in names:
            table.require(name, option)
            if name in outcome:
                msg = f"{option} names {name!r}, which is the duration or the event; leave it out"
                raise UsageError(msg)
    for first, second in combinations(("--categorical", "--numeric", "--date"), 2):
        both = sorted(set(decided[first]) & set(decided[second]))
        if both:
            msg = f"{listed(both)} cannot be both {first} and {second}; choose one"
            raise UsageError(msg)


def _ask_about_codes(table: Table, columns: Sequence[Column]) -> None:
    """Refuse to guess whether integers in a column named like a code are numbers."""
    codes = []
    for column in columns:
        if column.kind != "number" or not _CODE_NAME.fullmatch(column.name):
            continue
        values = table.numbers(column.name).values
        known = np.unique(values[np.isfinite(values)])
        if len(known) > 2 and (known == np.rint(known)).all():
            codes.append(column.name)
    if codes:
        names = quote(",".join(codes))
        msg = (
            f"{table.source}: are {listed(codes)} codes or numbers? A code such as "
            f"{table.texts(codes[0]).dropna().iloc[0]} has no size. Use --categorical {names}, "
            f"--numeric {names} or --drop {names}"
        )
        raise CommandError(msg)


def features(table: Table, columns: Sequence[Column]) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """The columns as features of `HazardBoost`, and unknown levels, which become missing."""
    absent = [column.name for column in columns if column.name not in table.frame.columns]
    if absent:
        others = [name for name in table.names if name not in {column.name for column in columns}]
        hint = suggestion(absent[0], others, "other columns") if others else "add them"
        msg = f"{table.source} lacks the column{'s' * (len(absent) > 1)} {listed(absent)}; {hint}"
        raise CommandError(msg)
    X: dict[str, Any] = {}
    unseen: dict[str, list[str]] = {}
    strays: dict[str, BoolArray] = {}
    for column in columns:
        if column.kind == "date":
            X[column.name] = days(table, column.name, column.date_format)
        elif column.kind == "category":
            texts = table.texts(column.name)
            # pandas 4 will refuse values outside the categories instead of making them missing.
            known = texts.where(texts.isin(column.levels))
            X[column.name] = pd.Categorical(known, categories=list(column.levels))
            strange = sorted(set(texts.dropna().unique()) - set(column.levels))
            if strange:
                unseen[column.name] = strange
        else:
            X[column.name], wrong = _number_column(table, column)
            if wrong.any():
                strays[column.name] = wrong
    if strays:
        _refuse(table, strays, {column.name: column.kind for column in columns})
    return pd.DataFrame(X), unseen


def _refuse(table: Table, strays: dict[str, BoolArray], kinds: dict[str, str]) -> NoReturn:
    """Raise an error that names all cells that do not fit the kind of their column."""
    parts: list[str] = []
    cells: list[Any] = []
    for name, wrong in strays.items():
        holds = "numbers" if kinds[name] == "number" else "true and false"
        parts.append(f"column {name!r} holds {holds}, but not {table.stray(name, wrong)}")
        cells.extend(table.frame[name][wrong].unique())
    options = " ".join(f"--missing {quote(str(cell))}" for cell in list(dict.fromkeys(cells))[:8])
    msg = f"{table.source}: {'; '.join(parts)}. Correct them, or count them as missing: {options}"
    raise CommandError(msg)


# ------------------------------------------------------------------------------------ inference
def _understand(table: Table, name: str) -> tuple[Column | None, str]:
    """The column, or None and the reason for dropping it."""
    values, missing = table.frame[name], table.is_missing(name)
    if missing.all():
        return None, "all values are missing"
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return None, _DATES
    if pd.api.types.is_timedelta64_dtype(values.dtype):
        return None, "spans of time; write them as numbers"
    if pd.api.types.is_bool_dtype(values.dtype):
        return _unless_constant(table, Column(name, "boolean"))
    numbers = table.numbers(name)
    known = numbers.values[~missing]
    is_whole = bool((known == np.rint(known)).all())
    is_code = is_whole and _has_codes(table, name)
    # "<50" and ">50" are groups, "<0.5" among numbers is a value below the limit of detection.
    is_grouped = table.is_bound(name)[~missing].mean() > 1 - _MOSTLY
    if (~numbers.wrong[~missing]).mean() < _MOSTLY or is_code or is_grouped:
        return _understand_text(table, name)
    if is_whole and len(known) == table.n_rows > 2 and (np.diff(known) == 1).all():
        return None, "row numbers"
    if is_whole and is_id_name(name) and len(pd.unique(known)) > _DIFFERENT * len(known):
        return None, "an id; --numeric keeps it"
    if (known == known[0]).all() and not missing.any():
        return None, f"always {known[0]:g}"
    return Column(name, "number"), ""


_DATES = "dates; --date keeps it as days since 1970-01-01"


def _understand_text(table: Table, name: str) -> tuple[Column | None, str]:
    known = table.texts(name).dropna()
    different = known.unique()
    if {text.lower() for text in different} <= _BOOLEAN.keys():
        return _unless_constant(table, Column(name, "boolean"))
    if looks_like_dates(different):
        return None, _DATES
    if len(different) > MAX_LEVELS:
        return None, f"{len(different)} levels, more than {MAX_LEVELS}; --categorical keeps it"
    if len(different) > _FEW_LEVELS and len(different) > len(known) / _PEOPLE_PER_LEVEL:
        return None, f"names or free text, {len(different)} different; --categorical keeps it"
    return _unless_constant(table, Column(name, "category", _levels(known)))


def _unless_constant(table: Table, column: Column) -> tuple[Column | None, str]:
    values = table.frame[column.name]
    if values.nunique() == 1 and not table.is_missing(column.name).any():
        return None, f"always {str(values.iloc[0])!r}"
    return column, ""


def _has_codes(table: Table, name: str) -> bool:
    """Whether there are zero-padded numbers such as 00123, which are codes."""
    if not table.is_text(name):
        return False
    cells = table.frame[name]
    padded = cells[cells.str.startswith("0", na=False)]
    return bool(padded.str.fullmatch(r"0\d+").any())


def _levels(known: pd.Series[Any]) -> tuple[str, ...]:
    return tuple(sorted(known.dropna().unique(), key=_by_number))


def _by_number(level: str) -> tuple[bool, float, str]:
    try:
        return False, float(level), level
    except ValueError:
        return True, 0.0, level


# --------------------------------------------------------------------------------------- values
def _number_column(table: Table, column: Column) -> tuple[FloatArray, BoolArray]:
    """Values of a column of numbers or booleans, and which cells are neither."""
    numbers = table.numbers(column.name)
    values, wrong = numbers.values, numbers.wrong
    if column.kind == "boolean":
        texts = table.texts(column.name)
        known = {text: _BOOLEAN.get(text.lower(), np.nan) for text in texts.dropna().unique()}
        truth = texts.map(known).to_numpy(np.float64)
        values = np.where(np.isnan(truth), values, truth)
        wrong = wrong & np.isnan(truth)
    return values, wrong

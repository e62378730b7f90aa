"""What the rows of a table are: one per person, several per person, from a late entry on."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from shlex import quote

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import (
    check_features,
    copies,
    is_id_name,
    late_entry_columns,
    row_keys,
    several_rows,
)
from survival_objectives.cli._console import Console
from survival_objectives.cli._dates import Span, days, looks_like_dates
from survival_objectives.cli._errors import CommandError, UsageError, counted
from survival_objectives.cli._tables import Table

# A column is numbers or dates if hardly any cell is something else.
_NEARLY_ALL = 0.95


def ask_about_rows(
    table: Table,
    y: pd.DataFrame,
    duration: str | Span,
    options: argparse.Namespace,
    known: set[str],
    console: Console,
) -> None:
    """Ask whether rows repeat people, and whether columns are times of late entry.

    Answers are added to the ``options``; without a terminal, a question is a `UsageError`. Columns
    that are ``known`` are not asked about.
    """
    others = [name for name in table.names if name not in known]
    starts, stop, end = _clock(table, others, y, duration)
    if options.id is None:
        ids = {name: table.texts(name).to_numpy() for name in others if is_id_name(name)}
        found = several_rows(ids, starts, stop)
        if found is not None:
            _ask_about_people(table, str(found), found.id, found.start, options, console)
            starts.pop(str(found.id), None)
    for name, said in late_entry_columns(starts, stop, f"the {end}").items():
        _ask_about_entry(table, name, said, options, console)


def _clock(
    table: Table, names: list[str], y: pd.DataFrame, duration: str | Span
) -> tuple[dict[str, FloatArray], FloatArray, str]:
    """Columns that may be times of entry, the end of follow-up on their clock, and its name."""
    if isinstance(duration, str):
        columns = {}
        for name in names:
            numbers, missing = table.numbers(name), table.is_missing(name)
            if (numbers.wrong | missing).mean() <= 1 - _NEARLY_ALL:
                columns[name] = numbers.values
        return columns, y["duration"].to_numpy(np.float64), f"duration {duration!r}"
    start, end = (
        days(table, name, duration.date_format) for name in (duration.start, duration.end)
    )
    columns = {name: dates - start for name, dates in _dates(table, names, duration).items()}
    return columns, end - start, f"end date {duration.end!r}"


def _dates(table: Table, names: list[str], span: Span) -> Mapping[str, FloatArray]:
    """Columns of dates as days."""
    found = {}
    for name in names:
        is_typed = pd.api.types.is_datetime64_any_dtype(table.frame[name].dtype)
        if is_typed or (
            table.is_text(name) and looks_like_dates(table.texts(name).dropna().unique())
        ):
            try:
                found[name] = days(table, name, span.date_format)
            except CommandError:
                continue  # Dates that cannot be read are no feature either.
    return found


def _ask_about_people(
    table: Table,
    said: str,
    column: str | None,
    start: str | None,
    options: argparse.Namespace,
    console: Console,
) -> None:
    if start is not None:
        msg = (
            f"{table.source} has {said}. Only one row per person can be trained on: keep the last, "
            "with the time from the beginning of the first as duration"
        )
        raise UsageError(msg)
    name = str(column)
    answer = console.ask(
        f"{table.source} has {said}.",
        {
            "p": f"rows with the same {name!r} are one person (--id): they are held out together",
            "f": f"every row is another person, and {name!r} is a feature (--feature)",
            "d": f"every row is another person; leave {name!r} out (--drop)",
        },
    )
    if answer is None:
        msg = (
            f"{table.source} has {said}. If these are the rows of one person, use --id "
            f"{quote(name)}; otherwise --feature {quote(name)} or --drop {quote(name)}"
        )
        raise UsageError(msg)
    if answer == "p":
        options.id = name
    else:
        (options.feature if answer == "f" else options.drop).append(name)


def _ask_about_entry(
    table: Table, name: str, said: str, options: argparse.Namespace, console: Console
) -> None:
    answer = console.ask(
        f"{table.source}: {said}. Did people come under observation only then (late entry)?",
        {
            "f": f"no, {name!r} is a feature (--feature)",
            "d": f"no; leave {name!r} out (--drop)",
            "y": "yes",
        },
    )
    if answer in ("f", "d"):
        (options.feature if answer == "f" else options.drop).append(name)
        return
    msg = (
        f"{table.source}: {said}. If people came under observation only then (late entry), the "
        "time before would count as survived by everybody, and risks would be too low: give a "
        f"duration that counts from {name!r}. If it is a feature, use --feature {quote(name)}; "
        f"--drop {quote(name)} leaves it out"
    )
    raise UsageError(msg)


def with_known_outcomes(table: Table, columns: Iterable[str], options: argparse.Namespace) -> Table:
    """The rows in which no column of the outcome is missing, if the others are to be left out."""
    unknown = np.any([table.is_missing(name) for name in columns], axis=0)
    if not options.skip_unknown or not unknown.any():
        return table
    return table.take(~unknown, f"{counted(int(unknown.sum()), 'row')} without an outcome left out")


def person_of_rows(table: Table, column: str | None) -> IntArray | None:
    """Number of the person of each row, by the column of ids; None without one."""
    if column is None:
        return None
    missing = table.is_missing(column)
    if missing.any():
        msg = (
            f"{table.source}: the id {column!r} is missing on {table.places(missing)}; fill it in, "
            "or remove these rows"
        )
        raise CommandError(msg)
    return pd.factorize(table.texts(column))[0].astype(np.int64)


def repeated_rows(X: pd.DataFrame, y: pd.DataFrame) -> str:
    """A caution about rows that are equal in features and outcome, or nothing."""
    key = row_keys(check_features(X).values)
    group = copies(key, y["event"].to_numpy(), y["duration"].to_numpy())
    if group is None:
        return ""
    size = pd.Series(group).map(pd.Series(group).value_counts())
    return (
        f"repeated rows: {(size > 1).sum()} of {len(X)} rows are equal to others in features and "
        f"outcome, so that there seem to be {len(set(group))} people. They are held out together; "
        "remove the repetitions, or name the people with --id"
    )

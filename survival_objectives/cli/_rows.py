"""What the rows of a table are, in training and where a saved model is used.

They are one per person, several per person, or from a late entry on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from shlex import quote

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import (
    SeveralRows,
    check_features,
    copies,
    is_id_name,
    late_entry_columns,
    row_keys,
    several_rows,
)
from survival_objectives.cli._columns import features
from survival_objectives.cli._dates import looks_like_dates
from survival_objectives.cli._errors import CommandError, Console, UsageError, counted, listed
from survival_objectives.cli._folder import Schema
from survival_objectives.cli._outcomes import FollowUp, person_of_rows
from survival_objectives.cli._tables import Table, read_table
from survival_objectives.estimators import HazardBoost

# A column may be a time of entry if hardly any cell is missing or something else.
_FEW = 0.05


def ask_about_rows(
    table: Table,
    follow_up: FollowUp,
    options: argparse.Namespace,
    known: set[str],
    console: Console,
) -> FollowUp:
    """How people were followed, after questions about repeated people and late entry.

    Answers about features are added to the ``options``; without a terminal, a question is a
    `UsageError`. Columns that are ``known`` are not asked about.
    """
    others = [name for name in table.names if name not in known]
    stop, end = _end(table, follow_up)
    starts = _starts(table, others, follow_up)
    if follow_up.id is None:
        texts = [name for name in others if is_id_name(name) or table.is_text(name)]
        ids = {name: table.texts(name).to_numpy() for name in texts}
        found = several_rows(ids, starts, stop)
        if found is not None:
            follow_up = _asked_about_people(table, found, follow_up, options, console)
            for name in (found.id, found.start):
                starts.pop(str(name), None)
    if follow_up.entry is None and follow_up.start is None:
        for name, said in late_entry_columns(starts, stop, end).items():
            follow_up = _asked_about_entry(table, name, said, follow_up, options, console)
    return follow_up


def _end(table: Table, follow_up: FollowUp) -> tuple[FloatArray, str]:
    """End of follow-up of each row, and what it is called."""
    if follow_up.end_date is not None:
        name = follow_up.end_date
        return follow_up.clock(table, name), f"the end date {name!r}"
    name = str(follow_up.duration or follow_up.stop)
    return follow_up.clock(table, name), f"the duration {name!r}"


def _starts(table: Table, names: list[str], follow_up: FollowUp) -> dict[str, FloatArray]:
    """Columns that may be times of entry, on the clock of the duration."""
    found = {}
    for name in names:
        if follow_up.start_date is None:
            is_time = (table.numbers(name).wrong | table.is_missing(name)).mean() <= _FEW
        else:
            is_typed = pd.api.types.is_datetime64_any_dtype(table.frame[name].dtype)
            is_time = is_typed or (
                table.is_text(name) and looks_like_dates(table.texts(name).dropna().unique())
            )
        if is_time:
            with suppress(CommandError):  # Dates that cannot be read are no feature either.
                found[name] = follow_up.clock(table, name)
    return found


def _asked_about_people(
    table: Table,
    found: SeveralRows,
    follow_up: FollowUp,
    options: argparse.Namespace,
    console: Console,
) -> FollowUp:
    said, name, start = f"{table.source} has {found}", str(found.id), str(found.start)
    stop = follow_up.duration
    rows = f"--id {quote(name)} --start {quote(start)} --stop {quote(str(stop))}"
    if found.id is None:
        msg = f"{said}. Name the person, and the columns from which and to which rows are about "
        msg += "them: --id COLUMN --start COLUMN --stop COLUMN"
        raise UsageError(msg)
    answers = {
        "p": f"rows with the same {name!r} are one person (--id): they are held out together",
        "f": f"every row is another person, and {name!r} is a feature (--feature)",
        "d": f"every row is another person; leave {name!r} out (--drop)",
    }
    if found.start is not None and stop is not None:
        answers = {"r": f"each row is a stretch of a person's time ({rows})"} | answers
    answer = console.ask(f"{said}.", answers)
    if answer is None:
        way = rows if "r" in answers else f"--id {quote(name)}"
        msg = (
            f"{said}. If these are the rows of one person, use {way}; otherwise --feature "
            f"{quote(name)} or --drop {quote(name)}"
        )
        raise UsageError(msg)
    if answer == "r":
        return replace(follow_up, id=name, start=start, stop=stop, duration=None)
    if answer == "p":
        return replace(follow_up, id=name)
    (options.feature if answer == "f" else options.drop).append(name)
    return follow_up


def _asked_about_entry(
    table: Table,
    name: str,
    said: str,
    follow_up: FollowUp,
    options: argparse.Namespace,
    console: Console,
) -> FollowUp:
    if follow_up.entry is not None:
        return follow_up
    answer = console.ask(
        f"{table.source}: {said}. Did people come under observation only then (late entry)?",
        {
            "e": "yes (--entry)",
            "f": f"no, {name!r} is a feature (--feature)",
            "d": f"no; leave {name!r} out (--drop)",
        },
    )
    if answer is None:
        msg = (
            f"{table.source}: {said}. If people came under observation only then (late entry), the "
            "time before would count as survived by everybody, and risks would be too low: use "
            f"--entry {quote(name)}, or a duration that counts from {name!r}. If it is a feature, "
            f"use --feature {quote(name)}; --drop {quote(name)} leaves it out"
        )
        raise UsageError(msg)
    if answer == "e":
        return replace(follow_up, entry=name)
    (options.feature if answer == "f" else options.drop).append(name)
    return follow_up


def with_known_outcomes(table: Table, columns: Iterable[str], options: argparse.Namespace) -> Table:
    """The rows in which no column of the outcome is missing, if the others are to be left out."""
    unknown = np.any([table.is_missing(name) for name in columns], axis=0)
    if not options.skip_unknown or not unknown.any():
        return table
    return table.take(~unknown, f"{counted(int(unknown.sum()), 'row')} without an outcome left out")


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


# ----------------------------------------------------------------------------------------- new data
def schema_table(options: argparse.Namespace, schema: Schema) -> Table:
    """The file of the command, read with the missing values of training."""
    return read_table(
        options.data,
        separator=options.separator,
        decimal=options.decimal,
        missing=(*schema.missing, *options.missing),
    )


def schema_features(table: Table, schema: Schema, console: Console) -> pd.DataFrame:
    """The columns that the model uses, with warnings about unknown levels."""
    for note in table.notes:
        console.progress(f"{table.source}: {note}")
    X, unseen = features(table, schema.columns)
    for name, levels in unseen.items():
        n_rows = int(table.texts(name).isin(levels).sum())
        console.warn(
            f"column {name!r} has {listed(levels)} ({counted(n_rows, 'row')}), not seen in "
            "training; treated as missing"
        )
    return X


def schema_outcomes(
    options: argparse.Namespace, table: Table, schema: Schema
) -> tuple[Table, pd.DataFrame, IntArray | None]:
    """The rows to score, their outcomes, and the person of each row where rows share people.

    Columns are those of training, except for those named by options.
    """
    known = schema.follow_up
    column = options.id or (known.id if known.id in table.names else None)
    follow_up = replace(known, event=options.event or known.event, id=column)
    if options.duration is not None:
        follow_up = replace(follow_up, duration=options.duration, start_date=None, end_date=None)
    for name, option in follow_up.columns.items():
        table.require(name, option)
    table = with_known_outcomes(table, follow_up.columns, options)
    return table, follow_up.outcomes(table, schema.events), person_of_rows(table, column)


def warn_of_late_times(model: HazardBoost, times: list[str], console: Console) -> None:
    """Warn of times after the end of training."""
    late = [time for time in times if float(time) > model.times_[-1]]
    if late:
        console.warn(
            f"training covers times up to {model.times_[-1]:g}; curves are flat after it, and so "
            f"at --times {','.join(late)}"
        )

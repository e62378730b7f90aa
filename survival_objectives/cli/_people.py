"""New data for a saved model: the table, with features and outcomes read as in training."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pandas as pd

from survival_objectives._arrays import IntArray
from survival_objectives.cli._columns import features
from survival_objectives.cli._console import Console
from survival_objectives.cli._errors import counted, listed
from survival_objectives.cli._folder import Schema
from survival_objectives.cli._outcomes import person_of_rows
from survival_objectives.cli._rows import with_known_outcomes
from survival_objectives.cli._tables import Table, read_table
from survival_objectives.estimators import HazardBoost


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

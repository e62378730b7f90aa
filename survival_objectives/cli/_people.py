"""New data for a saved model: the table, with features and outcomes read as in training."""

from __future__ import annotations

import argparse

import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives.cli._columns import features
from survival_objectives.cli._console import Console
from survival_objectives.cli._dates import Span
from survival_objectives.cli._errors import counted, listed
from survival_objectives.cli._folder import Schema
from survival_objectives.cli._outcomes import outcomes
from survival_objectives.cli._rows import person_of_rows, with_known_outcomes
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
) -> tuple[Table, pd.DataFrame]:
    """The rows to score, and their outcomes as in training, in columns of maybe other names."""
    event = options.event or schema.event
    duration: str | Span | None = options.duration or schema.duration
    if duration is None:
        start, end = schema.start_date or "", schema.end_date or ""
        duration = Span(start, end, schema.time_unit or "days", schema.date_format)
        names = {event: "--event", start: "start date of training", end: "end date of training"}
    else:
        names = {event: "--event", str(duration): "--duration"}
    for name, option in names.items():
        table.require(name, option)
    table = with_known_outcomes(table, names, options)
    return table, outcomes(table, duration=duration, event=event, events=schema.events)


def schema_person(options: argparse.Namespace, table: Table, schema: Schema) -> IntArray | None:
    """Number of the person of each row; None where each row is a person."""
    column = options.id
    if column is None and schema.id in table.names:
        column = schema.id
    elif column is not None:
        table.require(column, "--id")
    return person_of_rows(table, column)


def warn_of_late_times(model: HazardBoost, times: list[str], console: Console) -> None:
    """Warn of times after the end of training."""
    late = [time for time in times if float(time) > model.times_[-1]]
    if late:
        console.warn(
            f"training covers times up to {model.times_[-1]:g}; curves are flat after it, and so "
            f"at --times {','.join(late)}"
        )


def log_odds_contributions(model: HazardBoost, X: pd.DataFrame, time: float) -> FloatArray:
    """SHAP values of each cause's log-odds against being event-free at a time.

    Returns
    -------
    float64 array of shape (n_samples, K, n_features + 2)
        Last axis: the features, the time and the base value.
    """
    values = model.shap_values(X, time)
    if values.shape[1] == len(model.event_ids_):
        # One margin per state: log-odds against event-free are differences, and so are SHAP values.
        return values[:, 1:] - values[:, :1]
    return values

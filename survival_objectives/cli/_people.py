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
from survival_objectives.cli._rows import person_of_rows
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


def schema_outcomes(options: argparse.Namespace, table: Table, schema: Schema) -> pd.DataFrame:
    """Outcomes as in training, in columns that may have other names."""
    event = options.event or schema.event
    table.require(event, "--event")
    duration: str | Span | None = options.duration or schema.duration
    if duration is None:
        start, end = schema.start_date or "", schema.end_date or ""
        duration = Span(start, end, schema.time_unit or "days", schema.date_format)
        table.require(start, "the start date of training")
        table.require(end, "the end date of training")
    elif isinstance(duration, str):
        table.require(duration, "--duration")
    return outcomes(table, duration=duration, event=event, events=schema.events)


def schema_person(options: argparse.Namespace, table: Table, schema: Schema) -> IntArray | None:
    """Number of the person of each row; None where each row is a person."""
    column = options.id
    if column is None and schema.id in table.names:
        column = schema.id
    elif column is not None:
        table.require(column, "--id")
    return person_of_rows(table, column)


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

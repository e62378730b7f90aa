"""``predict``, ``evaluate`` and ``info``: what is done with a model folder."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from survival_objectives.cli._columns import features
from survival_objectives.cli._console import Console
from survival_objectives.cli._errors import CommandError, counted, listed
from survival_objectives.cli._fit import named_columns
from survival_objectives.cli._folder import (
    Schema,
    check_file,
    load_folder,
    load_model,
    load_schema,
    replacing,
)
from survival_objectives.cli._outcomes import Events, outcomes
from survival_objectives.cli._outputs import check_format, write_table
from survival_objectives.cli._scores import held_out_scores, score_times
from survival_objectives.cli._tables import Table, read_table
from survival_objectives.estimator import SurvivalBoost

__all__ = ["run_evaluate", "run_info", "run_predict"]


# ---------------------------------------------------------------------------------------- predict
def run_predict(options: argparse.Namespace, console: Console) -> int:
    """Write the probability of every state at every time for each row of a file."""
    target = _output(options)
    model, schema = load_folder(options.model)
    table = _table(options, schema)
    ids = named_columns(table, options.id, "--id")
    X = _features(table, schema, console)
    console.progress(f"predicting {table.n_rows} people at {len(options.times)} times")
    times = [float(time) for time in options.times]
    late = [time for time in options.times if float(time) > model.times_[-1]]
    if late:
        console.warn(
            f"training looked at times up to {model.times_[-1]:g}; curves are flat after it, so "
            f"at --times {','.join(late)} too"
        )
    curves = model.predict_cumulative_incidence(X, times)
    risks = pd.DataFrame(
        curves.reshape(len(curves), -1), columns=_risk_names(schema.events, options.times)
    )
    taken = sorted(set(ids) & set(risks.columns))
    if taken:
        msg = f"--id names {listed(taken)}, which predictions are called too; rename it in the file"
        raise CommandError(msg)
    answer = pd.concat([table.frame[ids], risks], axis=1)
    if target is None:
        write_table(answer, sys.stdout, console)
        return 0
    with replacing(target) as file:
        write_table(answer, file, console)
    console.progress(f"wrote {target}")
    return 0


def _output(options: argparse.Namespace) -> Path | None:
    """Where to write predictions; None for standard output."""
    if options.out == "-":
        return None
    inputs = [options.data, options.model]
    target = check_file(options.out, "--out", force=options.force, inputs=inputs)
    check_format(target, "--out")
    return target


def _risk_names(events: Events, times: list[str]) -> list[str]:
    """Names of the predicted columns, in the order of the curves."""
    slugs = [_slug(name) for name in events.causes]
    causes = slugs if len(set(slugs)) == len(slugs) else events.causes
    return [
        *(f"event_free_at_{time}" for time in times),
        *(f"{cause}_by_{time}" for cause in causes for time in times),
    ]


def _slug(name: str) -> str:
    """The name as one word.

    >>> _slug("1:dead (cancer)")
    '1_dead_cancer'
    """
    return re.sub(r"\W+", "_", name).strip("_") or name


# --------------------------------------------------------------------------------------- evaluate
def run_evaluate(options: argparse.Namespace, console: Console) -> int:
    """Print how well the model predicts the people of a file."""
    model, schema = load_folder(options.model)
    table = _table(options, schema)
    duration, event = options.duration or schema.duration, options.event or schema.event
    table.require(duration, "--duration")
    table.require(event, "--event")
    X = _features(table, schema, console)
    y = outcomes(table, duration=duration, event=event, events=schema.events)
    times = score_times(y, float(model.times_[-1]))
    scores = held_out_scores(y, model.predict_cumulative_incidence(X, times), times, schema.events)
    n_events = int((y["event"] > 0).sum())
    if options.json:
        content = {
            "model": options.model,
            "data": options.data,
            "people": table.n_rows,
            "events": n_events,
            "last_time": float(times[-1]),
            # JSON knows no NaN, which a score is where there is nobody to compare.
            "scores": scores.astype(object).where(scores.notna(), None).to_dict("records"),
        }
        console.result(json.dumps(content, indent=1, ensure_ascii=False))
        return 0
    console.result(
        f"{table.source}: {table.n_rows} people, {n_events} with an event; "
        f"times up to {times[-1]:g}, concordance at {times[len(times) // 2]:g}\n"
    )
    console.result(scores.round(4).to_string(index=False))
    return 0


# ------------------------------------------------------------------------------------------- info
def run_info(options: argparse.Namespace, console: Console) -> int:
    """Print what a model folder holds."""
    model, schema = load_model(options.model), load_schema(options.model)
    content = _info(options.model, model, schema)
    if options.json:
        console.result(json.dumps(content, indent=1, ensure_ascii=False))
        return 0
    for name in ("model", "engine", "rounds", "censoring"):
        console.result(f"{name}: {content[name]}")
    console.result(f"latest time: {content['latest_time']:g}")
    console.result("versions: " + _pairs(content["versions"]))
    console.result("settings: " + _pairs(content["settings"]))
    console.result("events: " + _pairs(content["events"], " = "))
    console.result("columns:")
    for name, kind in content["columns"].items():
        console.result(f"  {name}: {kind}")
    if schema is None:
        return 0
    console.result(f"duration: {schema.duration}")
    console.result(f"event: {schema.event}")
    console.result("people: " + _pairs(schema.people))
    if schema.dropped:
        console.result("columns not used:")
        for name, reason in schema.dropped.items():
            console.result(f"  {name}: {reason}")
    if schema.tuned:
        console.result(
            f"tuned: best of {schema.tuned['n_settings']} settings, changes "
            f"{_pairs(schema.tuned['chosen']) or 'nothing'}"
        )
    if schema.assessment:
        console.result(f"\n{schema.assessment['title']}:\n")
        console.result(pd.DataFrame(schema.assessment["scores"]).to_string())
    return 0


def _info(path: str, model: SurvivalBoost, schema: Schema | None) -> dict[str, Any]:
    content: dict[str, Any] = {
        "model": path,
        "engine": model.engine_,
        "rounds": int(model.n_estimators_),
        "censoring": model.censoring_method_,
        "latest_time": float(model.times_[-1]),
        "settings": {
            name: value for name, value in model.get_params().items() if value is not None
        },
    }
    if schema is None:
        content["versions"] = {}
        names = getattr(model, "feature_names_in_", range(model.n_features_in_))
        content["columns"] = {str(name): "used" for name in names}
        content["events"] = {str(label): f"label {label}" for label in model.event_ids_}
        return content
    content["versions"] = schema.versions
    content["columns"] = {column.name: str(column) for column in schema.columns}
    content["events"] = {
        name: ", ".join(schema.events.labels(code)) for code, name in schema.events.names.items()
    }
    levels = {column.name: list(column.levels) for column in schema.columns if column.levels}
    return content | {
        "levels": levels,
        "duration": schema.duration,
        "event": schema.event,
        "people": schema.people,
        "dropped": schema.dropped,
        "tuned": schema.tuned,
        "assessment": schema.assessment,
    }


def _pairs(values: dict[str, Any], sign: str = " ") -> str:
    return ", ".join(f"{name}{sign}{value}" for name, value in values.items())


# ----------------------------------------------------------------------------------------- shared
def _table(options: argparse.Namespace, schema: Schema) -> Table:
    return read_table(
        options.data,
        separator=options.separator,
        decimal=options.decimal,
        missing=(*schema.missing, *options.missing),
    )


def _features(table: Table, schema: Schema, console: Console) -> pd.DataFrame:
    for note in table.notes:
        console.progress(f"{table.source}: {note}")
    X, unseen = features(table, schema.columns)
    for name, levels in unseen.items():
        n_rows = int(table.texts(name).isin(levels).sum())
        console.warn(
            f"column {name!r} has {listed(levels)} ({counted(n_rows, 'row')}), which training "
            "never saw; treated as missing"
        )
    return X

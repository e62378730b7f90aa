"""``predict``, ``info``, ``explain`` and ``serve``: use of a model folder."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray
from survival_objectives._models.display import rounds_of
from survival_objectives._process.files import replacing
from survival_objectives._process.running import available_threads
from survival_objectives.cli._errors import CommandError, Console, UsageError, listed, visible
from survival_objectives.cli._fit import named_columns
from survival_objectives.cli._folder import (
    Schema,
    check_file,
    load_folder,
    load_model,
    load_schema,
)
from survival_objectives.cli._outcomes import Events
from survival_objectives.cli._rows import (
    schema_features,
    schema_table,
    warn_of_late_times,
)
from survival_objectives.cli._tables import check_format, write_table
from survival_objectives.cli._training import missing_for_report
from survival_objectives.estimators import HazardBoost

# Longer contents are printed with one line per entry.
_IN_A_LINE = 3
# Number of people predicted at a time.
_BATCH = 50_000


# ---------------------------------------------------------------------------------------- predict
def run_predict(options: argparse.Namespace, console: Console) -> int:
    """Write the requested predictions for the people of a file, one row per person."""
    wanted = (options.times, options.median, options.quantiles, options.mean)
    if not any(wanted) and options.shap is None:
        msg = "what should be predicted? Use --times, --median, --quantiles, --mean or --shap"
        raise UsageError(msg)
    target = _output(options)
    model, schema = load_folder(options.model)
    table = schema_table(options, schema)
    ids = named_columns(table, options.id, "--id")
    X = schema_features(table, schema, console)
    console.progress(f"predicting {table.n_rows} people")
    warn_of_late_times(model, options.times, console)
    predicted = _predicted(model, schema, X, options, console)
    _blank_times_never_reached(predicted, _quantiles(options), model, console)
    taken = sorted(set(ids) & set(predicted.columns))
    if taken:
        msg = f"--id names {listed(taken)}, which is also a name of predictions; rename the column"
        raise CommandError(msg)
    answer = pd.concat([table.frame[ids], predicted.round(options.digits)], axis=1)
    if target is None:
        content = io.BytesIO()
        write_table(answer, content, console, decimal=options.out_decimal)
        shown = content.getvalue().decode()
        sys.stdout.write(visible(shown) if sys.stdout.isatty() else shown)
        return 0
    with replacing(target) as file:
        write_table(answer, file, console, decimal=options.out_decimal)
    console.progress(f"wrote {target}")
    return 0


def _predicted(
    model: HazardBoost,
    schema: Schema,
    X: pd.DataFrame,
    options: argparse.Namespace,
    console: Console,
) -> pd.DataFrame:
    """All requested predictions; batches keep the cores busy and memory low."""
    starts = range(0, len(X), _BATCH)
    if len(starts) == 1:
        return _batch(model, schema, X, options)
    from joblib import Parallel, delayed

    parallel = Parallel(available_threads(), backend="threading", return_as="generator")
    batches = parallel(
        delayed(_batch)(model, schema, X.iloc[start : start + _BATCH], options) for start in starts
    )
    parts: list[pd.DataFrame] = []
    with console.bar("predicting", len(X), "people") as bar:
        for part in batches:
            parts.append(part)
            bar.at(sum(map(len, parts)))
    joined: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return joined


def _batch(
    model: HazardBoost, schema: Schema, X: pd.DataFrame, options: argparse.Namespace
) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    if options.times:
        curves = model.predict_cumulative_incidence(X, [float(time) for time in options.times])
        names = _risk_names(schema.events, options.times)
        columns |= dict(zip(names, curves.reshape(len(curves), -1).T, strict=True))
    for name, quantile in _quantiles(options).items():
        columns[name] = model.predict_quantile(X, quantile)
    if options.mean is not None:
        means = model.predict_restricted_mean_time(X, float(options.mean))
        columns[f"mean_event_free_time_to_{options.mean}"] = means
    if options.shap is not None:
        columns |= _contributions(model, schema, X, options.shap)
    return pd.DataFrame({name: np.asarray(values) for name, values in columns.items()})


def _quantiles(options: argparse.Namespace) -> dict[str, float]:
    """The requested quantiles of the time to the event, by column name."""
    found = {"median_time": 0.5} if options.median else {}
    return found | {f"time_quantile_{share}": float(share) for share in options.quantiles}


def _blank_times_never_reached(
    predicted: pd.DataFrame, quantiles: dict[str, float], model: HazardBoost, console: Console
) -> None:
    """Empty the cells whose quantile is not reached, with a warning."""
    for name, quantile in quantiles.items():
        never = np.isinf(predicted[name].to_numpy(np.float64))
        if never.any():
            predicted[name] = predicted[name].mask(never)
            console.warn(
                f"{name} is empty for {never.sum()} of {len(predicted)} people: their probability "
                f"of an event stays below {quantile:g} up to {model.times_[-1]:g}, where training "
                "ends"
            )


def _contributions(
    model: HazardBoost, schema: Schema, X: pd.DataFrame, time: str
) -> dict[str, FloatArray]:
    """SHAP values of the log-odds of each cause against being event-free, by column."""
    values = model.shap_values(X, float(time))
    causes = cause_words(schema.events)
    names = [*(column.name for column in schema.columns), "time", "base"]
    return {
        f"shap_{cause}_at_{time}_{name}": values[:, row, column]
        for row, cause in enumerate(causes)
        for column, name in enumerate(names)
    }


def _output(options: argparse.Namespace) -> Path | None:
    """File for predictions; None for standard output."""
    if options.out == "-":
        return None
    inputs = [options.data, options.model]
    target = check_file(options.out, "--out", force=options.force, inputs=inputs)
    check_format(target, "--out")
    return target


def _risk_names(events: Events, times: list[str]) -> list[str]:
    """Names of the predicted columns, in the order of the curves."""
    causes = cause_words(events)
    return [
        *(f"event_free_at_{time}" for time in times),
        *(f"{cause}_by_{time}" for cause in causes for time in times),
    ]


def cause_words(events: Events) -> list[str]:
    """Names of the causes as one word each, if they stay distinct."""
    slugs = [_slug(name) for name in events.causes]
    return slugs if len(set(slugs)) == len(slugs) else events.causes


def _slug(name: str) -> str:
    """The name as one word.

    >>> _slug("1:dead (cancer)")
    '1_dead_cancer'
    """
    return re.sub(r"\W+", "_", name).strip("_") or name


# ------------------------------------------------------------------------------------------- info
def run_info(options: argparse.Namespace, console: Console) -> int:
    """Print the contents of a model folder."""
    model, schema = load_model(options.model), load_schema(options.model)
    content = _info(options.model, model, schema)
    if options.json:
        console.result(json.dumps(content, indent=1, ensure_ascii=False))
        return 0
    assessment = content.pop("assessment", None)
    content["rounds"] = content["rounds"] or rounds_of(model)
    for name, value in content.items():
        label = name.replace("_", " ")
        if isinstance(value, dict) and len(value) > _IN_A_LINE:
            console.result(f"{label}:")
            for key, each in value.items():
                console.result(f"  {key}: {each}")
        elif isinstance(value, dict) and value:
            console.result(f"{label}: {', '.join(f'{key} {each}' for key, each in value.items())}")
        elif value:
            console.result(f"{label}: {value}")
    if assessment:
        console.result(f"\n{assessment['title']}:\n")
        console.result(pd.DataFrame(assessment["scores"]).to_string())
    return 0


def _info(path: str, model: HazardBoost, schema: Schema | None) -> dict[str, Any]:
    weights = getattr(model, "member_weights_", None) or {}
    settings = {name: value for name, value in model.get_params().items() if value is not None}
    content: dict[str, Any] = {
        "model": path,
        "engine": model.engine_,
        "rounds": int(model.n_estimators_),
        "censoring": model.fitted_model.record.method,
        "parts": {name: round(float(weight), 4) for name, weight in weights.items()},
        "latest_time": float(model.times_[-1]),
        "settings": settings,
    }
    if schema is None:
        names = getattr(model, "feature_names_in_", range(model.n_features_in_))
        columns = {str(name): "used" for name in names}
        events = {str(label): f"label {label}" for label in model.event_ids_}
        return {**content, "columns": columns, "events": events}
    content["columns"] = {column.name: str(column) for column in schema.columns}
    content["levels"] = {
        column.name: list(column.levels) for column in schema.columns if column.levels
    }
    content["events"] = {
        name: ", ".join(schema.events.labels(code)) for code, name in schema.events.names.items()
    }
    content["follow_up"] = {
        name: value for name, value in asdict(schema.follow_up).items() if value is not None
    }
    stored = ("versions", "people", "dropped", "assessment")
    return content | {name: getattr(schema, name) for name in stored}


# ------------------------------------------------------------------------------------------ explain
def run_explain(options: argparse.Namespace, console: Console) -> int:
    """Write a page about one person of a file."""
    lacking = missing_for_report()
    if lacking is not None:
        raise CommandError(lacking)
    from survival_objectives.report._person import person_page

    inputs = [options.data, options.model]
    target = check_file(options.out, "--out", force=options.force, inputs=inputs, is_page=True)
    model, schema = load_folder(options.model)
    table = schema_table(options, schema)
    if options.row is None and table.n_rows > 1:
        msg = (
            f"{table.source} has {table.n_rows} people; choose one with --row 1 to --row "
            f"{table.n_rows}"
        )
        raise CommandError(msg)
    row = (options.row or 1) - 1
    if row >= table.n_rows:
        msg = f"--row is {row + 1}, but {table.source} has {table.n_rows} people; use a lower one"
        raise CommandError(msg)
    warn_of_late_times(model, options.times, console)
    page = person_page(
        model,
        schema_features(table, schema, console).iloc[[row]],
        title=options.title or f"{Path(table.source).name}, {table.place(row)}",
        states=["event-free", *schema.events.causes],
        times=[float(time) for time in options.times] or None,
        time_name=schema.follow_up.duration or "time",
        time_unit=schema.follow_up.unit,
        dates=_dates(schema),
    )
    with replacing(target) as file:
        file.write_text(page, encoding="utf-8")
    console.result(f"page: {target}")
    return 0


def _dates(schema: Schema) -> list[str]:
    return [column.name for column in schema.columns if column.kind == "date"]


# -------------------------------------------------------------------------------------------- serve
def run_serve(options: argparse.Namespace, console: Console) -> int:
    """Answer requests with a saved model until interrupted."""
    try:
        import uvicorn

        from survival_objectives.serve import application
    except ImportError as error:
        msg = "a service needs Starlette and uvicorn. Use: pip install starlette uvicorn"
        raise CommandError(msg) from error
    load_model(options.model)  # Before the server starts: its errors name the way out.
    schema = load_schema(options.model)
    service = application(
        options.model,
        max_body=options.max_body,
        max_people=options.max_people,
        max_times=options.max_times,
        max_seconds=options.max_seconds,
        event_names=None if schema is None else ["event-free", *schema.events.causes],
        time_unit=None if schema is None else schema.follow_up.unit,
        dates=[] if schema is None else _dates(schema),
    )
    console.progress(f"serving on http://{options.host}:{options.port} (Ctrl-C ends it)")
    uvicorn.run(service, host=options.host, port=options.port, log_level="warning")
    return 0

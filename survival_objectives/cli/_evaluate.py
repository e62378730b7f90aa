"""``evaluate`` and ``compare``: saved models on people with known outcomes."""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray
from survival_objectives.cli._console import Console
from survival_objectives.cli._errors import CommandError
from survival_objectives.cli._folder import Schema, load_folder
from survival_objectives.cli._outcomes import Events
from survival_objectives.cli._people import (
    schema_features,
    schema_outcomes,
    schema_table,
)
from survival_objectives.cli._scores import held_out_scores, marginal_curves, score_times
from survival_objectives.metrics import Evaluation, FollowUpWarning

# 97.5 % quantile of the normal distribution.
_Z95 = 1.959963984540054


# --------------------------------------------------------------------------------------- evaluate
def run_evaluate(options: argparse.Namespace, console: Console) -> int:
    """Print the scores of a model on the people of a file, next to its stored baselines."""
    model, schema = load_folder(options.model)
    table, y, person = schema_outcomes(options, schema_table(options, schema), schema)
    X = schema_features(table, schema, console)
    times = _times(options, y, float(model.times_[-1]))
    curves = {"model": model.predict_cumulative_incidence(X, times)}
    curves |= marginal_curves(schema.baselines, len(X), times)
    console.progress(f"scoring {table.n_rows} people")
    own = curves.pop("model")
    scores = held_out_scores(y, own, times, schema.events, curves, person)
    calibration = _calibration(y, own, times, options.times, schema.events)
    n_events = int((y["event"] > 0).sum())
    if options.json:
        content = {
            "model": options.model,
            "data": options.data,
            "people": table.n_rows,
            "events": n_events,
            "last_time": float(times[-1]),
            "scores": _records(scores),
            "calibration": _records(calibration),
        }
        console.result(json.dumps(content, indent=1, ensure_ascii=False))
        return 0
    console.result(
        f"{table.source}: {table.n_rows} people, {n_events} with an event; "
        f"times up to {_time(times[-1], schema)}, concordance at "
        f"{_time(times[len(times) // 2], schema)}\n"
    )
    console.result(_shown(scores))
    console.result(
        "\n± is the standard error"
        + (
            "; the marginal curve is that of the training people."
            if curves
            else "; the model was saved without a marginal curve, train it again to compare."
        )
    )
    console.result("\nCalibration: mean predicted and observed probability of the event\n")
    console.result(calibration.round(4).to_string(index=False))
    return 0


def _times(options: argparse.Namespace, y: pd.DataFrame, latest: float) -> FloatArray:
    """Times of the scores: the requested ones, or evenly spaced ones."""
    if not options.times:
        return score_times(y, latest)
    times = np.unique([float(time) for time in options.times])
    observed = y["duration"].to_numpy()
    if not (y["event"] > 0).any():
        score_times(y, latest)  # It raises the error that there is nothing to score.
    if times[0] <= 0 or times[-1] >= observed.max():
        msg = (
            f"--times has {times[0] if times[0] <= 0 else times[-1]:g}, but these people can be "
            f"scored after 0 and before {observed.max():g}, the end of their follow-up"
        )
        raise CommandError(msg)
    return times


def _shown(scores: pd.DataFrame) -> str:
    """The scores as text, each value with its error in one cell."""
    shown = scores[["metric", "event", "better"]].copy()
    shown["model"] = [
        f"{value:.4f} ± {error:.4f}"
        for value, error in zip(scores["value"], scores["standard_error"], strict=True)
    ]
    for name in [column[2:] for column in scores.columns if column.startswith("± ")]:
        difference = zip(scores[f"model - {name}"], scores[f"± {name}"], strict=True)
        shown[name] = scores[name].round(4)
        shown[f"model - {name}"] = [f"{value:+.4f} ± {error:.4f}" for value, error in difference]
    return shown.to_string(index=False)


def _calibration(
    y: pd.DataFrame,
    curves: FloatArray,
    times: FloatArray,
    asked: list[str],
    events: Events,
) -> pd.DataFrame:
    """Mean predicted and observed incidence of each cause at the requested times."""
    quarters = times[[len(times) // 4, len(times) // 2, 3 * len(times) // 4]]
    people = Evaluation(None, y, curves, times, event_ids=events.ids)
    rows = []
    for time in np.unique(times if asked else quarters):
        for code in events.ids[1:]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FollowUpWarning)
                group = people.risk_groups(code, float(time), n_groups=1)
            half = _Z95 * float(group.standard_error[0])
            observed = float(group.observed[0])
            rows.append(
                {
                    "time": float(time),
                    "event": events.names[code],
                    "predicted": float(group.predicted[0]),
                    "observed": observed,
                    "low": max(observed - half, 0.0),
                    "high": min(observed + half, 1.0),
                }
            )
    return pd.DataFrame(rows)


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    # JSON has no NaN, the value of a score without comparable people.
    known = table.astype(object).where(table.notna(), None)
    return [dict(zip(table.columns, row, strict=True)) for row in known.to_numpy().tolist()]


def _time(time: float, schema: Schema) -> str:
    unit = schema.follow_up.unit
    return f"{time:g} {unit}" if unit else f"{time:g}"


# ---------------------------------------------------------------------------------------- compare
def run_compare(options: argparse.Namespace, console: Console) -> int:
    """Print the scores of two models on the same people, and whether they differ beyond chance."""
    (first, schema), (second, other) = load_folder(options.model), load_folder(options.other)
    if schema.events.codes != other.events.codes:
        msg = (
            f"{options.model!r} and {options.other!r} were trained on different events "
            f"({', '.join(schema.events.causes)}; {', '.join(other.events.causes)}); train both on "
            "the same events"
        )
        raise CommandError(msg)
    table, y, person = schema_outcomes(options, schema_table(options, schema), schema)
    people = [schema_features(table, each, console) for each in (schema, other)]
    times = _times(options, y, float(min(first.times_[-1], second.times_[-1])))
    curves = {
        "first": first.predict_cumulative_incidence(people[0], times),
        "second": second.predict_cumulative_incidence(people[1], times),
    }
    console.progress(f"scoring {table.n_rows} people")
    own = curves.pop("first")
    scores = _compared(held_out_scores(y, own, times, schema.events, curves, person))
    if options.json:
        content = {
            "first": options.model,
            "second": options.other,
            "people": table.n_rows,
            "scores": _records(scores),
        }
        console.result(json.dumps(content, indent=1, ensure_ascii=False))
        return 0
    console.result(
        f"{table.source}: {table.n_rows} people, {int((y['event'] > 0).sum())} with an event; "
        f"times up to {_time(times[-1], schema)}\n"
        f"first: {options.model}\nsecond: {options.other}\n"
    )
    console.result(scores.round(4).to_string(index=False))
    console.result("\nlow and high are the limits of the 95 % confidence interval.")
    return 0


def _compared(scores: pd.DataFrame) -> pd.DataFrame:
    """Both scores, their difference with its interval, and which is better beyond chance."""
    difference = scores["model - second"].to_numpy(np.float64)
    half = _Z95 * scores["± second"].to_numpy(np.float64)
    sign = np.where(scores["better"] == "lower", 1, -1) * difference
    clear = np.abs(difference) > half
    verdict = np.where(~clear, "neither", np.where(sign < 0, "first", "second"))
    return pd.DataFrame(
        {
            "metric": scores["metric"],
            "event": scores["event"],
            "better": scores["better"],
            "first": scores["value"],
            "second": scores["second"],
            "difference": difference,
            "low": difference - half,
            "high": difference + half,
            "better_model": verdict,
        }
    )

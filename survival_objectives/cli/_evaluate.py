"""``evaluate`` and ``compare``: saved models on people with known outcomes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray
from survival_objectives._process.files import replacing
from survival_objectives.cli._apply import cause_words
from survival_objectives.cli._errors import CommandError, Console
from survival_objectives.cli._fit import named_columns
from survival_objectives.cli._folder import Schema, check_file, load_folder
from survival_objectives.cli._rows import schema_features, schema_outcomes, schema_table
from survival_objectives.cli._tables import Table, read_table
from survival_objectives.cli._training import missing_for_report
from survival_objectives.metrics import Evaluation

if TYPE_CHECKING:
    from survival_objectives.report._validation import Validation

# Default times: quarters of the time by which nearly all events were seen. After it, a handful of
# people carry the scores.
_LAST_QUANTILE = 0.95
_QUARTERS = (0.25, 0.5, 0.75)
_LEVEL = 0.05


def run_evaluate(options: argparse.Namespace, console: Console) -> int:
    """Print the scores of a model on the people of a file."""
    page = _page(options)
    model, schema = load_folder(options.model)
    found = validated(model, schema, options, console)
    scores = _named(found.table, schema)
    head = {"model": options.model, **_extent(options, found.y)}
    if options.json and found.by:
        head["groups"] = _records(_named(found.subgroups, schema))
    _print(scores, "value", head, options, console)
    if found.by and not options.json:
        _print_groups(found, console)
    if page is not None:
        from survival_objectives.report._validation_page import validation_page

        console.progress("writing the page")
        with replacing(page) as file:
            title = options.title or f"{Path(options.data).name}: validation of {options.model}"
            file.write_text(validation_page(found, title), encoding="utf-8")
        console.progress(f"wrote {page}")
    return 0


def _page(options: argparse.Namespace) -> Path | None:
    if options.report is None:
        return None
    lacking = missing_for_report()
    if lacking is not None:
        msg = f"--report is {options.report!r}, but {lacking}"
        raise CommandError(msg)
    inputs = [options.data, options.model]
    return check_file(options.report, "--report", force=options.force, inputs=inputs, is_page=True)


def validated(
    model: Any, schema: Schema, options: argparse.Namespace, console: Console
) -> Validation:
    """The model on the people of a file."""
    from survival_objectives.report._facts import Column
    from survival_objectives.report._validation import Validation

    table, y, person = schema_outcomes(options, schema_table(options, schema), schema)
    X = schema_features(table, schema, console)
    times = _times(options, y, model)
    by = _groups(table, X, options.by)
    console.progress(f"scoring {table.n_rows} people")
    landmark = None if options.landmark is None else float(options.landmark)
    found = Validation(
        model=model,
        X=X,
        y=y,
        times=times if landmark is None else times[1:],
        states=["event-free", *schema.events.causes],
        groups=person,
        landmark=landmark,
        by=by or None,
        thresholds=[float(share) for share in options.thresholds],
        training=[Column(**each) for each in schema.features],
        time_name=schema.follow_up.duration or "time",
        time_unit=schema.follow_up.unit,
    )
    for caution in found.cautions:
        console.warn(caution)
    return found


def _groups(table: Table, X: pd.DataFrame, given: list[str]) -> dict[str, Any]:
    """Columns that make groups: as the model sees them, or as they are in the file."""
    found = {}
    for name in named_columns(table, given, "--by"):
        if name in X:
            found[name] = X[name]
            continue
        texts = table.texts(name)
        numbers = pd.to_numeric(texts, errors="coerce")
        found[name] = numbers if numbers.notna().equals(texts.notna()) else texts
    return found


def run_compare(options: argparse.Namespace, console: Console) -> int:
    """Print the differences of the scores of two models on the same people."""
    first, schema = load_folder(options.model)
    everyone = schema_table(options, schema)
    table, y, person = schema_outcomes(options, everyone, schema)
    X = schema_features(table, schema, console)
    if Path(options.other).is_file():
        times, others = _foreign(options, schema, everyone, y, first)
        others = others[np.searchsorted(everyone.lines, table.lines)]
    else:
        second, other = load_folder(options.other)
        if schema.events.codes != other.events.codes:
            msg = (
                f"{options.model!r} and {options.other!r} were trained on different events "
                f"({', '.join(schema.events.causes)}; {', '.join(other.events.causes)}); train "
                "both on the same events"
            )
            raise CommandError(msg)
        times = _times(options, y, first, second)
        people = schema_features(table, other, console)
        others = second.predict_cumulative_incidence(people, times)
    console.progress(f"scoring {table.n_rows} people")
    landmark = None if options.landmark is None else float(options.landmark)
    found, reference = (
        Evaluation(
            None, y, curves, times, groups=person, event_ids=schema.events.ids, landmark=landmark
        )
        for curves in (first.predict_cumulative_incidence(X, times), others)
    )
    thresholds = np.array(options.thresholds, np.float64)
    scores = _named(found.compare(reference, thresholds=thresholds), schema)
    head = {"first": options.model, "second": options.other, **_extent(options, y)}
    _print(scores, "difference", head, options, console)
    return 0


def _foreign(
    options: argparse.Namespace, schema: Schema, everyone: Table, y: pd.DataFrame, model: Any
) -> tuple[FloatArray, FloatArray]:
    """Times, and the curves of any package from a file, in the columns that `predict` writes."""
    table = read_table(
        options.other, separator=options.separator, decimal=options.decimal, missing=options.missing
    )
    words = cause_words(schema.events)
    parts = [name.rpartition("_by_") for name in table.names]
    texts = dict.fromkeys(text for word, _, text in parts if word in words)
    found = {
        float(t): [f"{word}_by_{t}" for word in words]
        for t in texts
        if t.replace(".", "", 1).isdigit()
    }
    found = {time: names for time, names in found.items() if {*names} <= {*table.names}}
    if not found:
        msg = (
            f"{table.source} has no curves: name the columns as `predict` does, such as "
            f"{', '.join(f'{word}_by_1' for word in words)} for the probabilities of all causes by "
            "time 1"
        )
        raise CommandError(msg)
    options.times = options.times or [f"{time:g}" for time in found]
    times = _times(options, y, model)
    unknown = [f"{time:g}" for time in times if time not in found]
    if unknown:
        known = ", ".join(f"{time:g}" for time in sorted(found))
        msg = f"{table.source} has no curves at {', '.join(unknown)}, only at {known}"
        raise CommandError(msg)
    if table.n_rows != everyone.n_rows:
        msg = (
            f"{table.source} has {table.n_rows} rows of curves for {everyone.n_rows} rows of "
            f"{everyone.source}; give one for each, in their order"
        )
        raise CommandError(msg)
    names = [name for time in times for name in found[time]]
    values = np.stack([table.numbers(name).values for name in names], axis=1)
    if np.isnan(values).any():
        row, column = np.argwhere(np.isnan(values))[0].tolist()
        msg = f"{table.source}: column {names[column]!r} has no number on {table.place(row)}"
        raise CommandError(msg)
    causes = values.reshape(-1, len(times), len(words)).transpose(0, 2, 1)
    return times, np.concatenate([1 - causes.sum(axis=1, keepdims=True), causes], axis=1)


def _times(options: argparse.Namespace, y: pd.DataFrame, *models: Any) -> FloatArray:
    """Times of the scores, and the landmark before them."""
    if "id" in y:
        msg = (
            "people with several rows cannot be scored: give one row per person, with the columns "
            "as they were at one time, --duration and --landmark"
        )
        raise CommandError(msg)
    duration, has_event = y["duration"].to_numpy(), y["event"].to_numpy() > 0
    if not has_event.any():
        msg = f"all {len(y)} people are censored, so there is no event to score against"
        raise CommandError(msg)
    landmark = 0.0 if options.landmark is None else float(options.landmark)
    if options.times:
        times = np.unique([float(time) for time in options.times])
        if times[0] <= landmark or times[-1] >= duration.max():
            msg = (
                f"--times has {times[0] if times[0] <= landmark else times[-1]:g}, but these "
                f"people can be scored after {landmark:g} and before {duration.max():g}, the end "
                "of their follow-up"
            )
            raise CommandError(msg)
    else:
        last = np.quantile(duration[has_event], _LAST_QUANTILE)
        last = min(float(last), *(float(model.times_[-1]) for model in models))
        times = landmark + (last - landmark) * np.array(_QUARTERS)
    return times if options.landmark is None else np.append(landmark, times)


def _extent(options: argparse.Namespace, y: pd.DataFrame) -> dict[str, Any]:
    n_events = int((y["event"] > 0).sum())
    return {"data": options.data, "people": len(y), "events": n_events}


def _records(table: pd.DataFrame) -> Any:
    # JSON has no NaN, the value of a score without comparable people.
    known = table.astype(object).where(table.notna(), None)
    return known.to_dict("records")


def _print_groups(found: Validation, console: Console) -> None:
    from survival_objectives.report._validation_page import group_table

    console.result(f"\nGroups by {found.when(found.middle)}, with 95% limits:")
    for cause, name in found.causes.items():
        (_, *head), rows = group_table(found, cause)
        lines = [[cell.replace("\n", " ") for cell in row] for row in rows]
        table = pd.DataFrame(lines, columns=[name, *head]).set_index(name)
        console.result("\n" + table.rename_axis(None).rename_axis(name, axis=1).to_string())
    console.result("\n* fewer than 20 events: the limits are too narrow.")


def _named(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The table with names of causes, and with words in place of names of methods."""
    names = schema.events.names
    return table.assign(
        score=table["score"].str.replace("_", " "),
        cause=[names[code] if code else "any" for code in table["cause"]],
    )


def _print(
    scores: pd.DataFrame,
    number: str,
    head: dict[str, Any],
    options: argparse.Namespace,
    console: Console,
) -> None:
    if options.json:
        console.result(json.dumps({**head, "scores": _records(scores)}, indent=1))
        return
    console.result(", ".join(f"{name}: {value}" for name, value in head.items()) + "\n")
    shown = scores.assign(
        cell=[
            f"{round(value, 4) + 0:.4f} ± {error:.4f}"
            for value, error in zip(scores[number], scores["standard_error"], strict=True)
        ]
    )
    wide = shown.pivot(index=["cause", "score"], columns="time", values="cell")
    order = pd.MultiIndex.from_frame(scores[["cause", "score"]].drop_duplicates())
    console.result(wide.reindex(order).to_string(na_rep=""))
    console.result("\n± is the standard error; scaled brier is 0 for one curve for all people.")
    if number == "difference":
        console.result("Differences are the first minus the second.")
        brier = scores[scores["score"] == "brier"]
        # Of all differences of Brier scores together, by chance alone one in twenty times.
        clear = brier[brier["p_value"] * len(brier) < _LEVEL]
        better = ["first" if each < 0 else "second" for each in clear["difference"]]
        rows = zip(better, clear["cause"], clear["time"], strict=True)
        found = ", ".join(f"the {which} for {cause} by {time:g}" for which, cause, time in rows)
        console.result(f"Better by the Brier score, beyond chance: {found or 'neither'}.")

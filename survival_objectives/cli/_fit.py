"""``survival-objectives fit``: from a file to an assessed model in a folder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from survival_objectives.cli._baselines import trained_baselines
from survival_objectives.cli._columns import Column, Selection, features, understand_columns
from survival_objectives.cli._console import PROGRAM, Console
from survival_objectives.cli._dates import UNIT_DAYS, Span
from survival_objectives.cli._engines import chosen_engine, missing_for_report, versions
from survival_objectives.cli._errors import CommandError, UsageError, counted
from survival_objectives.cli._folder import (
    REPORT,
    Schema,
    check_file,
    check_folder,
    drafted,
    is_report,
    replacing,
)
from survival_objectives.cli._leaks import leaks
from survival_objectives.cli._outcomes import Events, outcomes, understand_events
from survival_objectives.cli._scores import assessment_content, score_table
from survival_objectives.cli._tables import Table, read_table
from survival_objectives.cli._tuning import TunedSurvivalBoost
from survival_objectives.estimator import SurvivalBoost

__all__ = ["named_columns", "run_fit"]

DEFAULT_FOLDS = 5


def run_fit(options: argparse.Namespace, console: Console) -> int:
    """Read, say what was understood, assess, train, save."""
    engine = chosen_engine(options.engine)
    target = check_folder(options.out, "--out", force=options.force)
    report = _report_path(options, console)
    data = _understood(options)
    _check_people(data, options)
    _print_understanding(data, console)
    found = [str(leak) for leak in leaks(data.X, data.y)]
    for leak in found:
        console.warn(leak)

    name, model = _untrained(engine, options)
    assessment = _assessed(model, name, data, options, console)
    title = _assessment_title(assessment, options)
    console.result(f"\n{title}:\n")
    console.result(score_table(assessment, data.events))

    model, tuned = _trained(model, data, console)
    schema = Schema(
        duration=options.duration,
        event=options.event,
        start_date=options.start_date,
        end_date=options.end_date,
        date_format=options.date_format,
        time_unit=data.time_unit,
        events=data.events,
        columns=data.selection.used,
        dropped=data.selection.dropped,
        people=data.people,
        missing=tuple(options.missing),
        versions=versions(engine),
        assessment=assessment_content(assessment, data.events, title),
        baselines=trained_baselines(data.X, data.y, float(model.times_[-1])),
        tuned=tuned,
    )
    with drafted(target, model, schema) as draft:
        if report is not None:
            console.progress("writing the report")
            is_inside = report.resolve().parent == target.resolve()
            with replacing(draft / report.name if is_inside else report) as file:
                _write_report(file, model, data, assessment, found, options)
    console.result(f"\nmodel:  {target}")
    if report is not None:
        console.result(f"report: {report}")
    return 0


# ---------------------------------------------------------------------------------------- reading
@dataclass(frozen=True)
class _Data:
    """A file as it was understood."""

    table: Table
    events: Events
    selection: Selection
    X: pd.DataFrame
    y: pd.DataFrame
    time_unit: str | None = None

    @property
    def people(self) -> dict[str, int]:
        """Number of people by what happened to them."""
        counts = self.y["event"].value_counts()
        return {name: int(counts.get(code, 0)) for code, name in sorted(self.events.names.items())}


def named_columns(table: Table, given: Sequence[str], option: str) -> list[str]:
    """Column names from an option: one name, or several separated by commas."""
    names: list[str] = []
    for text in given:
        parts = [text] if text in table.names else [part.strip() for part in text.split(",")]
        names.extend(part for part in parts if part)
    for name in names:
        table.require(name, option)
    return names


def _understood(options: argparse.Namespace) -> _Data:
    duration, outcome = _duration(options)
    table = read_table(
        options.data,
        separator=options.separator,
        decimal=options.decimal,
        missing=options.missing,
    )
    for name, option in outcome.items():
        table.require(name, option)
    events = understand_events(
        table,
        options.event,
        censored=options.censored_label,
        nobody_censored=options.nobody_censored,
        names=options.event_names,
    )
    y = outcomes(table, duration=duration, event=options.event, events=events)
    selection = understand_columns(
        table,
        tuple(outcome),
        categorical=named_columns(table, options.categorical, "--categorical"),
        numeric=named_columns(table, options.numeric, "--numeric"),
        dates=named_columns(table, options.date, "--date"),
        drop=named_columns(table, options.drop, "--drop"),
        date_format=options.date_format,
    )
    X, _ = features(table, selection.used)
    unit = options.time_unit if isinstance(duration, str) else duration.unit
    return _Data(table, events, selection, X, y, unit)


def _duration(options: argparse.Namespace) -> tuple[str | Span, dict[str, str]]:
    """The duration column or the span between dates, and the columns of the outcome by option."""
    dates = {"--start-date": options.start_date, "--end-date": options.end_date}
    given = [option for option, name in dates.items() if name is not None]
    if options.duration is not None and given:
        msg = f"--duration and {given[0]} both say how long people were seen; leave one out"
        raise UsageError(msg)
    if options.duration is None and len(given) < 2:
        lacking = [option for option in dates if option not in given]
        msg = (
            f"{given[0]} is given without {lacking[0]}; name both columns of dates"
            if given
            else "how long were people seen? Name a column with --duration, or two columns of "
            "dates with --start-date and --end-date"
        )
        raise UsageError(msg)
    columns = {"--duration": options.duration, **dates, "--event": options.event}
    outcome: dict[str, str] = {}
    for option, name in columns.items():
        if name in outcome:
            msg = f"{outcome[name]} and {option} are both {name!r}; they are two columns"
            raise UsageError(msg)
        if name is not None:
            outcome[name] = option
    if options.duration is not None:
        return options.duration, outcome
    unit = options.time_unit or "days"
    if unit not in UNIT_DAYS:
        msg = f"--time-unit is {unit!r}; between dates, use {', '.join(UNIT_DAYS)}"
        raise UsageError(msg)
    return Span(options.start_date, options.end_date, unit, options.date_format), outcome


def _check_people(data: _Data, options: argparse.Namespace) -> None:
    """Refuse what cannot be assessed before anything is trained."""
    n_rows = len(data.y)
    if options.test_size is None and n_rows < 2 * options.cv:
        way_out = f"use --cv {n_rows // 2}" if n_rows >= 4 else "give more people"
        msg = f"{data.table.source} has {n_rows} people, too few for {options.cv} folds; {way_out}"
        raise CommandError(msg)
    fewest = 2 if options.tune is None else 4
    for code, name in list(data.events.names.items())[1:]:
        n_events = int((data.y["event"] == code).sum())
        if n_events < fewest:
            msg = (
                f"only {n_events} had {name!r}, and it takes {fewest} to train on some and hold "
                f"others out{' when tuning' * (fewest > 2)}; merge it with another cause, or count "
                "it as censored with --censored-label"
            )
            raise CommandError(msg)


def _print_understanding(data: _Data, console: Console) -> None:
    table, y = data.table, data.y
    console.result(f"{table.source}: {table.n_rows} people")
    for note in table.notes:
        console.result(f"  {note}")
    times = y["duration"]
    console.result(
        f"\nfollow-up: {times.min():g} to {times.max():g}"
        f"{f' {data.time_unit}' * bool(data.time_unit)}, median {times.median():g}; "
        f"{(y['event'] == 0).mean():.1%} censored"
    )
    rows = []
    for code, name in sorted(data.events.names.items()):
        labels = ", ".join(repr(label) for label in data.events.labels(code)) or "nobody"
        rows.append((name, f"= {labels}", f"{data.people[name]} people"))
    console.result(_aligned(rows))
    console.result(f"\n{counted(len(data.selection.used), 'column')} used:")
    missing = data.X.isna().sum()
    rows = [
        (column.name, str(column), _remark(table, column, int(missing[column.name])))
        for column in data.selection.used
    ]
    console.result(_aligned(rows))
    if data.selection.dropped:
        console.result(f"\n{counted(len(data.selection.dropped), 'column')} not used:")
        console.result(_aligned(list(data.selection.dropped.items())))


def _remark(table: Table, column: Column, n_missing: int) -> str:
    remarks = [f"{n_missing} missing"] if n_missing else []
    if column.kind == "number" and table.has_percent_signs(column.name):
        remarks.append("percent signs left out: 12% is 12")
    return ", ".join(remarks)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in columns, indented."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(f"  {line}" for line in lines)


# --------------------------------------------------------------------------------------- training
def _untrained(engine: str, options: argparse.Namespace) -> tuple[str, Any]:
    """Name and settings of the model."""
    model = SurvivalBoost(engine, random_state=options.seed, n_jobs=options.threads)
    if options.rounds is not None:
        model.set_params(n_estimators=options.rounds)
    if options.tune is None:
        return f"SurvivalBoost ({engine})", model
    tune_rounds = options.rounds is None
    return f"SurvivalBoost ({engine}, tuned)", TunedSurvivalBoost(
        model, options.tune, tune_rounds=tune_rounds, random_state=options.seed
    )


def _assessed(
    model: Any, name: str, data: _Data, options: argparse.Namespace, console: Console
) -> Any:
    from survival_objectives.assessment import assess

    def on_fit(done: int, total: int, fitted: str) -> None:
        console.step(f"assessing: {done} of {total} fits done, last {fitted}")

    console.progress("assessing")
    if isinstance(model, TunedSurvivalBoost):
        n_folds = 1 if options.test_size is not None else options.cv
        console.progress(f"{model.n_fits * (n_folds + 1)} fits, as every fold tunes anew")
    return assess(
        model,
        data.X,
        data.y,
        name=name,
        n_splits=options.cv,
        test_size=options.test_size,
        random_state=options.seed,
        horizons=options.horizons and [float(time) for time in options.horizons],
        on_fit=on_fit,
    )


def _assessment_title(assessment: Any, options: argparse.Namespace) -> str:
    if options.test_size is not None:
        return f"Scores of {len(assessment.index)} people held out ({options.test_size:.0%})"
    return f"Scores of people held out, mean ± sd over {assessment.n_splits} folds"


def _trained(model: Any, data: _Data, console: Console) -> tuple[SurvivalBoost, dict[str, Any]]:
    """The model trained on everybody, and what a search has chosen."""
    console.progress("training on everybody")
    if not isinstance(model, TunedSurvivalBoost):
        model.set_params(verbose=int(console.shows_progress))
        return model.fit(data.X, data.y).set_params(verbose=0), {}
    model.fit(data.X, data.y)
    scores, chosen = model.scores_, model.chosen_
    shown = ", ".join(f"{name} {value:g}" for name, value in chosen.items()) or "the defaults"
    console.result(
        f"\nchosen of {len(scores)} settings: {shown} "
        f"(Brier score {scores.min():.4f} in the search, defaults {scores[0]:.4f})"
    )
    tuned = {
        "n_settings": len(scores),
        "chosen": chosen,
        "brier_score": float(scores.min()),
        "brier_score_of_defaults": float(scores[0]),
    }
    return model.best_, tuned


# ----------------------------------------------------------------------------------------- report
def _report_path(options: argparse.Namespace, console: Console) -> Path | None:
    if options.no_report:
        return None
    lacking = missing_for_report()
    if options.report is None:
        if lacking is not None:
            console.warn(f"no report is written: {lacking}")
            return None
        report = Path(options.out) / REPORT
    elif lacking is not None:
        msg = f"--report is {options.report!r}, but {lacking}"
        raise CommandError(msg)
    else:
        report = check_file(options.report, "--report", force=options.force, inputs=[options.data])
    if report.exists() and not is_report(report):
        msg = (
            f"{str(report)!r} exists and is no report of {PROGRAM}, so it is not replaced; choose "
            "another --report"
        )
        raise CommandError(msg)
    return report


def _write_report(
    path: Path,
    model: SurvivalBoost,
    data: _Data,
    assessment: Any,
    cautions: Sequence[str],
    options: argparse.Namespace,
) -> None:
    from survival_objectives.report import write_report

    write_report(
        path,
        model=model,
        X=data.X,
        y=data.y,
        assessment=assessment,
        event_names=[data.events.names[code] for code in data.events.ids],
        title=options.title or f"{_stem(options.data)}: survival report",
        duration_name=data.time_unit or options.duration,
        description=f"{data.table.n_rows} people from {Path(data.table.source).name}.",
        cautions=cautions,
    )


def _stem(data: str) -> str:
    """The file's name without its endings."""
    return "standard input" if data == "-" else Path(data).name.split(".")[0]

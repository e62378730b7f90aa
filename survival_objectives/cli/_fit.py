"""``survival-objectives fit``: from a file to an assessed model in a folder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import IntArray
from survival_objectives._process.files import replacing
from survival_objectives.assessment import check_assessable
from survival_objectives.assessment.leaks import leaks
from survival_objectives.cli._columns import Column, Selection, features, understand_columns
from survival_objectives.cli._console import Console
from survival_objectives.cli._dates import UNIT_DAYS, Span
from survival_objectives.cli._engines import chosen_engine, missing_for_report, versions
from survival_objectives.cli._errors import CommandError, Problems, UsageError, counted
from survival_objectives.cli._folder import (
    REPORT,
    Schema,
    check_file,
    check_folder,
    check_page,
    drafted,
)
from survival_objectives.cli._outcomes import Events, outcomes, understand_events
from survival_objectives.cli._rows import (
    ask_about_rows,
    person_of_rows,
    repeated_rows,
    with_known_outcomes,
)
from survival_objectives.cli._scores import assessment_content, marginal_content, score_table
from survival_objectives.cli._tables import Table, read_table
from survival_objectives.cli._training import (
    assessed,
    assessment_title,
    in_words,
    planned,
    trained,
    untrained,
)

if TYPE_CHECKING:
    from survival_objectives.estimators import HazardBoost
    from survival_objectives.report._write import Report


def run_fit(options: argparse.Namespace, console: Console) -> int:
    """Read a file, print how it was interpreted, train, assess and save a model."""
    engine = chosen_engine(options.engine)
    target = check_folder(options.out, "--out", force=options.force)
    report = _report_path(options, console)
    data = _understood(options, console)
    plan = planned(options, len(data.X), data.X.shape[1])
    _check_people(data, plan, options)
    _print_understanding(data, console)
    found = [f"{leak} with --drop {quote(leak.column)}" for leak in leaks(data.X, data.y)]
    if data.person is None and (repeated := repeated_rows(data.X, data.y)):
        found.append(repeated)
    for caution in found:
        console.warn(caution)
    name, model = untrained(engine, options)
    console.progress(
        f"plan: train on {data.n_people} people, then assess ({in_words(plan, len(data.X))}); --cv "
        "and --test-size change it"
    )
    fitted, tuned = trained(model, data.X, data.y, data.person, console)
    try:
        assessment = assessed(model, name, data.X, data.y, data.person, plan, options, console)
    except KeyboardInterrupt as interrupt:
        if type(interrupt) is not KeyboardInterrupt:
            raise
        assessment, report = None, None
    title = "" if assessment is None else assessment_title(assessment, plan)
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
        id=options.id,
        versions=versions(engine),
        assessment={} if assessment is None else assessment_content(assessment, data.events, title),
        baselines=marginal_content(data.y, float(fitted.times_[-1])),
        tuned=tuned,
    )
    missing = _missing_part(assessment)
    if assessment is not None:
        console.result(f"\n{title}:\n")
        console.result(score_table(assessment, data.events))
        findings = _findings(fitted, data, assessment)
        _print_in_short(findings, console)
    with drafted(target, fitted, schema) as draft:
        if report is not None:
            console.progress("writing the report")
            is_inside = report.resolve().parent == target.resolve()
            with replacing(draft / report.name if is_inside else report) as file:
                _write_report(file, findings, data, [*found, *filter(None, [missing])], options)
    console.result(f"\nmodel:  {target}")
    if report is not None:
        console.result(f"report: {report}")
    if missing:
        console.warn(missing)
    return 130 if missing else 0


def _missing_part(assessment: Any) -> str:
    """What is missing after an interruption."""
    if assessment is None:
        return (
            "the assessment was interrupted before a fold was complete: the model is trained on "
            "all people and saved, but its held-out performance is unknown"
        )
    if assessment.n_splits < assessment.n_planned:
        return (
            f"the assessment was interrupted: scores are of {assessment.n_splits} of "
            f"{assessment.n_planned} folds; the model itself is trained on all people"
        )
    return ""


# ---------------------------------------------------------------------------------------- reading
@dataclass(frozen=True)
class _Data:
    """An interpreted file."""

    table: Table
    events: Events
    selection: Selection
    X: pd.DataFrame
    y: pd.DataFrame
    time_unit: str | None = None
    duration: str | None = None
    person: IntArray | None = None  # Number of the person of each row, where rows share people.

    @property
    def n_people(self) -> int:
        """Number of people in the file."""
        return len(self.y) if self.person is None else int(self.person.max()) + 1

    @property
    def extent(self) -> str:
        """The number of people and, where they have several, of rows."""
        return f"{self.n_people} people" + f" in {len(self.y)} rows" * (self.person is not None)

    @property
    def people(self) -> dict[str, int]:
        """Number of rows per outcome."""
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


def _understood(options: argparse.Namespace, console: Console) -> _Data:
    duration, outcome = _duration(options)
    table = read_table(
        options.data,
        separator=options.separator,
        decimal=options.decimal,
        missing=options.missing,
    )
    for name, option in outcome.items():
        table.require(name, option)
    table = with_known_outcomes(table, outcome, options)
    problems = Problems()
    with problems:
        events = _events(table, options)
        y = outcomes(table, duration=duration, event=options.event, events=events)
        _ask(table, y, duration, outcome, options, console)
    with problems:
        selection = _selection(table, outcome, options)
        X, _ = features(table, selection.used)
    problems.raise_all()
    unit, person = _unit(duration, options), person_of_rows(table, options.id)
    return _Data(table, events, selection, X, y, unit, options.duration, person=person)


def _ask(
    table: Table,
    y: pd.DataFrame,
    duration: str | Span,
    outcome: dict[str, str],
    options: argparse.Namespace,
    console: Console,
) -> None:
    """Ask about columns for which no option says what they are."""
    options.drop = named_columns(table, options.drop, "--drop")
    options.feature = named_columns(table, options.feature, "--feature")
    decided = (options.categorical, options.numeric, options.date)
    ask_about_rows(
        table,
        y,
        duration,
        options,
        {*outcome, *options.drop, *options.feature, *(name for names in decided for name in names)},
        console,
    )
    if options.id is not None:
        outcome[options.id] = "--id"


def _events(table: Table, options: argparse.Namespace) -> Events:
    return understand_events(
        table,
        options.event,
        censored=options.censored_label,
        nobody_censored=options.nobody_censored,
        names=options.event_names,
    )


def _selection(table: Table, outcome: dict[str, str], options: argparse.Namespace) -> Selection:
    return understand_columns(
        table,
        tuple(outcome),
        categorical=named_columns(table, options.categorical, "--categorical"),
        numeric=named_columns(table, options.numeric, "--numeric"),
        dates=named_columns(table, options.date, "--date"),
        drop=named_columns(table, options.drop, "--drop"),
        date_format=options.date_format,
    )


def _unit(duration: str | Span, options: argparse.Namespace) -> str | None:
    return options.time_unit if isinstance(duration, str) else duration.unit


def _duration(options: argparse.Namespace) -> tuple[str | Span, dict[str, str]]:
    """The duration column or the span between dates, and the columns of the outcome by option."""
    dates = {"--start-date": options.start_date, "--end-date": options.end_date}
    given = [option for option, name in dates.items() if name is not None]
    if options.duration is not None and given:
        msg = f"--duration and {given[0]} both define the follow-up; leave one out"
        raise UsageError(msg)
    if options.duration is None and len(given) < 2:
        lacking = [option for option in dates if option not in given]
        msg = (
            f"{given[0]} is given without {lacking[0]}; name both columns of dates"
            if given
            else "how long were people followed? Name a column with --duration, or two columns of "
            "dates with --start-date and --end-date"
        )
        raise UsageError(msg)
    columns = {"--duration": options.duration, **dates, "--event": options.event}
    columns["--id"] = options.id
    outcome: dict[str, str] = {}
    for option, name in columns.items():
        if name in outcome:
            msg = f"{outcome[name]} and {option} are both {name!r}; name two different columns"
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


def _check_people(data: _Data, plan: dict[str, Any], options: argparse.Namespace) -> None:
    """Refuse data that cannot be assessed, before any training."""
    n_people, n_folds = data.n_people, plan.get("n_splits", 0)
    if n_people < 2 * n_folds:
        way_out = f"use --cv {n_people // 2}" if n_people >= 4 else "give more people"
        msg = f"{data.table.source} has {n_people} people, too few for {n_folds} folds; {way_out}"
        raise CommandError(msg)
    fewest = 2 if options.tune is None else 4
    for code, name in list(data.events.names.items())[1:]:
        n_events = int((data.y["event"] == code).sum())
        if n_events < fewest:
            msg = (
                f"only {n_events} had {name!r}, and {fewest} are needed to train on some and hold "
                f"out others{' when tuning' * (fewest > 2)}; merge it with another cause, or count "
                "it as censored with --censored-label"
            )
            raise CommandError(msg)
    check_assessable(
        data.y,
        **plan,
        random_state=options.seed,
        horizons=options.horizons and [float(time) for time in options.horizons],
    )


def _print_understanding(data: _Data, console: Console) -> None:
    table, y = data.table, data.y
    console.result(f"{table.source}: {data.extent}")
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
        remarks.append("percent signs dropped: 12% is 12")
    n_bounds = int(table.is_bound(column.name).sum()) if column.kind == "number" else 0
    if n_bounds:
        remarks.append(f"{counted(n_bounds, 'bound')} such as <0.5 taken as 0.5")
    return ", ".join(remarks)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in columns, indented."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(f"  {line}" for line in lines)


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
        check_page(report, "--report")
        return report
    if lacking is not None:
        msg = f"--report is {options.report!r}, but {lacking}"
        raise CommandError(msg)
    return check_file(
        options.report, "--report", force=options.force, inputs=[options.data], is_page=True
    )


def _findings(model: HazardBoost, data: _Data, assessment: Any) -> Report:
    """What the report says, and its summary."""
    from survival_objectives.report._write import Report, checked_study

    if data.person is not None:
        # Rows of one person are no independent observations: each person counts once.
        _, first = np.unique(data.person[assessment.index], return_index=True)
        rows = np.sort(first)
        curves = {name: curve[rows] for name, curve in assessment.curves.items()}
        index, fold = assessment.index[rows], assessment.fold[rows]
        assessment = replace(assessment, curves=curves, index=index, fold=fold)
    study = checked_study(
        model,
        data.X,
        data.y,
        assessment,
        event_names=[data.events.names[code] for code in data.events.ids],
        duration_name=data.duration or "time",
        time_unit=data.time_unit,
    )
    return Report(study)


def _write_report(
    path: Path,
    findings: Report,
    data: _Data,
    cautions: Sequence[str],
    options: argparse.Namespace,
) -> None:
    described = f"{data.extent} from {Path(data.table.source).name}."
    findings.write(
        path,
        title=options.title or f"{_stem(options.data)}: survival report",
        description=described,
        cautions=cautions,
        show_people=not options.hide_people,
    )


def _print_in_short(findings: Report, console: Console) -> None:
    """Print the summary at the top of the report: main findings and cautions."""
    found = findings.in_short()
    console.result("\nIn short:")
    for sentence in found.sentences:
        console.result(f"  {sentence}")
    if found.cautions:
        console.result("\nBe careful:")
        for caution in found.cautions:
            console.result(f"  - {caution}")


def _stem(data: str) -> str:
    """The file's name without its endings."""
    return "standard input" if data == "-" else Path(data).name.split(".")[0]

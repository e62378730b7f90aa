"""``survival-objectives fit``: from a file to an assessed model in a folder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import IntArray
from survival_objectives._people import check_features
from survival_objectives._process.files import replacing
from survival_objectives._process.running import progress_to
from survival_objectives.assessment._assess import check_assessable
from survival_objectives.assessment.leaks import leaks
from survival_objectives.cli._columns import Column, Selection, features, understand_columns
from survival_objectives.cli._errors import CommandError, Console, counted
from survival_objectives.cli._folder import (
    REPORT,
    Schema,
    check_file,
    check_folder,
    drafted,
)
from survival_objectives.cli._outcomes import (
    Events,
    FollowUp,
    per_person,
    person_of_rows,
    understand_events,
)
from survival_objectives.cli._rows import ask_about_rows, repeated_rows, with_known_outcomes
from survival_objectives.cli._tables import Table, read_table
from survival_objectives.cli._training import (
    assessed,
    assessment_content,
    assessment_title,
    chosen_engine,
    in_words,
    missing_for_report,
    planned,
    score_table,
    versions,
)
from survival_objectives.estimators import HazardBoost

if TYPE_CHECKING:
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
    found = [f"{leak} with --drop {quote(leak.column)}" for leak in leaks(*data.first_rows)]
    if data.person is None and (repeated := repeated_rows(data.X, data.y)):
        found.append(repeated)
    for caution in found:
        console.warn(caution)
    name = f"HazardBoost ({engine})"
    model = HazardBoost(
        engine, random_state=options.seed, n_jobs=options.threads, n_estimators=options.rounds
    )
    console.progress(
        f"plan: train on {data.n_people} people, then assess ({in_words(plan, len(data.X))}); --cv "
        "and --test-size change it"
    )
    label = "training on all people"
    console.progress(label)
    with console.bar(label) as bar, progress_to(lambda done, total, _: bar.at(done / total)):
        model.fit(data.X, data.y, groups=data.person)
    try:
        assessment = assessed(model, name, data.X, data.y, data.person, plan, options, console)
    except KeyboardInterrupt as interrupt:
        if type(interrupt) is not KeyboardInterrupt:
            raise
        assessment, report = None, None
    title = "" if assessment is None else assessment_title(assessment, plan)
    schema = Schema(
        follow_up=data.follow_up,
        events=data.events,
        columns=data.selection.used,
        dropped=data.selection.dropped,
        people=data.people,
        missing=tuple(options.missing),
        versions=versions(engine),
        assessment={} if assessment is None else assessment_content(assessment, data.events, title),
        features=_described(model, data),
    )
    missing = _missing_part(assessment)
    if assessment is not None:
        console.result(f"\n{title}:\n")
        console.result(score_table(assessment, data.events))
        if assessment.landmark is None:
            findings = _findings(model, data, assessment)
            _print_in_short(findings, console)
        elif "start" in data.y:
            console.warn(
                f"these scores hold features as they are at {assessment.landmark:g}; where they "
                "change later, as with a treatment that begins, people fare otherwise"
            )
        if assessment.landmark is not None and report is not None:
            console.warn(_no_report(assessment.landmark, is_long="start" in data.y))
            report = None
    with drafted(target, model, schema) as draft:
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


def _described(model: HazardBoost, data: _Data) -> tuple[dict[str, Any], ...]:
    """Ranges, shares, means and standard deviations of the columns."""
    from survival_objectives.report._facts import columns

    people = check_features(data.first_rows[0], like=model.fitted_model.schema)
    return tuple(map(asdict, columns(people)))


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
    follow_up: FollowUp
    person: IntArray | None  # Number of the person of each row, where rows share people.

    @property
    def outcomes(self) -> pd.DataFrame:
        """One row per person in place of several from start to stop."""
        return per_person(self.y)

    @property
    def first_rows(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Features of each person's first row, and outcomes."""
        if self.person is None:
            return self.X, self.y
        first = np.sort(np.unique(self.person, return_index=True)[1])
        return self.X.iloc[first], self.outcomes if "id" in self.y else self.y.iloc[first]

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
        """Number of people per outcome."""
        counts = self.outcomes["event"].value_counts()
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
    follow_up = FollowUp.of(options)
    table = read_table(
        options.data,
        separator=options.separator,
        decimal=options.decimal,
        missing=options.missing,
    )
    for name, option in follow_up.columns.items():
        table.require(name, option)
    table = with_known_outcomes(table, follow_up.columns, options)
    for option in ("feature", "categorical", "numeric", "date", "drop"):
        setattr(options, option, named_columns(table, getattr(options, option), f"--{option}"))
    events = understand_events(
        table,
        options.event,
        censored=options.censored_label,
        nobody_censored=options.nobody_censored,
        names=options.event_names,
    )
    follow_up.outcomes(table, events)
    decided = (options.feature, options.categorical, options.numeric, options.date)
    known = {*follow_up.columns, *options.drop, *(name for names in decided for name in names)}
    follow_up = ask_about_rows(table, follow_up, options, known, console)
    y = follow_up.outcomes(table, events)
    selection = understand_columns(
        table,
        tuple(follow_up.columns),
        categorical=options.categorical,
        numeric=options.numeric,
        dates=options.date,
        drop=options.drop,
        date_format=options.date_format,
    )
    X, _ = features(table, selection.used)
    person = person_of_rows(table, follow_up.id)
    return _Data(table, events, selection, X, y, follow_up, person)


def _check_people(data: _Data, plan: dict[str, Any], options: argparse.Namespace) -> None:
    """Refuse data that cannot be assessed, before any training."""
    n_people, n_folds = data.n_people, plan.get("n_splits", 0)
    if n_people < 2 * n_folds:
        way_out = f"use --cv {n_people // 2}" if n_people >= 4 else "give more people"
        msg = f"{data.table.source} has {n_people} people, too few for {n_folds} folds; {way_out}"
        raise CommandError(msg)
    for code, name in list(data.events.names.items())[1:]:
        n_events = int((data.y["event"] == code).sum())
        if n_events < 2:
            msg = (
                f"only {n_events} had {name!r}, and 2 are needed to train on some and hold out "
                "others; merge it with another cause, or count it as censored with --censored-label"
            )
            raise CommandError(msg)
    check_assessable(
        data.y,
        **plan,
        random_state=options.seed,
        horizons=options.horizons and [float(time) for time in options.horizons],
    )


def _print_understanding(data: _Data, console: Console) -> None:
    table, y, unit = data.table, data.outcomes, data.follow_up.unit
    console.result(f"{table.source}: {data.extent}")
    for note in table.notes:
        console.result(f"  {note}")
    times = y["duration"]
    console.result(
        f"\nfollow-up: {times.min():g} to {times.max():g}"
        f"{f' {unit}' * bool(unit)}, median {times.median():g}; "
        f"{(y['event'] == 0).mean():.1%} censored"
    )
    late = y["entry"][y["entry"] > 0] if "entry" in y else y["duration"][:0]
    if len(late):
        console.result(
            f"{len(late)} of {len(y)} people came under observation late, half of them by "
            f"{late.median():g}"
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
def _no_report(landmark: float, *, is_long: bool) -> str:
    if is_long:
        return "no report is written of people who have rows from start to stop"
    return (
        "no report is written where people came under observation late; of other people, "
        f"`evaluate --landmark {landmark:.4g} --report FILE` writes one"
    )


def _report_path(options: argparse.Namespace, console: Console) -> Path | None:
    if options.no_report:
        return None
    lacking = missing_for_report()
    if options.report is None:
        if lacking is not None:
            console.warn(f"no report is written: {lacking}")
            return None
        return Path(options.out) / REPORT
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
        duration_name=data.follow_up.duration or "time",
        time_unit=data.follow_up.unit,
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

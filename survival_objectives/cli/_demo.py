"""``survival-objectives demo``: bundled data, all installed engines, baselines, a report."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from survival_objectives._process.files import replacing
from survival_objectives.cli._errors import CommandError, Console
from survival_objectives.cli._folder import REPORT, check_file
from survival_objectives.cli._outcomes import Events
from survival_objectives.cli._training import installed_engines, missing_for_report, score_table
from survival_objectives.datasets import load_covid_hospital
from survival_objectives.estimators import HazardBoost

_TITLE = "Demo: hospital stays with COVID-19"
_DAYS = np.arange(1.0, 29.0)


def run_demo(options: argparse.Namespace, console: Console) -> int:
    """Train every installed engine on the bundled data and print how they compare."""
    from survival_objectives.assessment import assess

    engines = installed_engines()
    target = _report_path(options, console)
    data = load_covid_hospital()
    events = Events({}, dict(enumerate(data.event_names)))
    (main, model), *others = (
        (
            f"HazardBoost ({engine})",
            HazardBoost(engine, random_state=options.seed, n_estimators=options.rounds),
        )
        for engine in engines
    )
    assessment = assess(
        model,
        data.X,
        data.y,
        name=main,
        test_size=0.3,
        extra_models=dict(others),
        random_state=options.seed,
        times=_DAYS,
        on_fit=lambda done, total, name: console.progress(f"{done} of {total} trained: {name}"),
    )
    console.result(data.description)
    for label, name in enumerate(data.event_names):
        console.result(f"  {(data.y['event'] == label).sum():>5}  {name}")
    console.result(f"\n{len(assessment.index)} people held out, days 1 to 28:\n")
    console.result(score_table(assessment, events))
    if target is None:
        return 0
    from survival_objectives.report import write_report

    console.progress("writing the report")
    with replacing(target) as file:
        write_report(
            file,
            model=model.fit(data.X, data.y),
            X=data.X,
            y=data.y,
            assessment=assessment,
            event_names=data.event_names,
            title=_TITLE,
            duration_name="day",
            description=data.description,
        )
    console.result(f"\nreport: {target}")
    return 0


def _report_path(options: argparse.Namespace, console: Console) -> Path | None:
    lacking = missing_for_report()
    if lacking is None:
        path = Path(options.out or REPORT)
        return check_file(str(path), "--out", force=options.force or _is_demo_report(path))
    if options.out is not None:
        msg = f"--out is {options.out!r}, but {lacking}"
        raise CommandError(msg)
    console.warn(f"no report is written: {lacking}")
    return None


def _is_demo_report(path: Path) -> bool:
    """Whether a file is a report that this command wrote."""
    return path.is_file() and f"<title>{_TITLE}".encode() in path.read_bytes()[:4096]

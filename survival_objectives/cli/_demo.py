"""``survival-objectives demo``: bundled data, all installed engines, baselines, a report."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._process.files import replacing
from survival_objectives.cli._console import Console
from survival_objectives.cli._engines import installed_engines, missing_for_report
from survival_objectives.cli._errors import CommandError
from survival_objectives.cli._folder import REPORT, check_file
from survival_objectives.datasets import load_covid_hospital
from survival_objectives.estimators import HazardBoost

_TITLE = "Demo: hospital stays with COVID-19"
_DAYS = np.arange(1.0, 29.0)
_DAYS_SHOWN = (7, 14, 28)


def run_demo(options: argparse.Namespace, console: Console) -> int:
    """Train every installed engine on the bundled data and print how they compare."""
    from survival_objectives.assessment import assess

    engines = installed_engines()
    target = _report_path(options, console)
    data = load_covid_hospital()
    rounds = {} if options.rounds is None else {"n_estimators": options.rounds}
    models = {
        f"HazardBoost ({engine})": HazardBoost(engine, random_state=options.seed, **rounds)
        for engine in engines
    }
    (main, model), *others = models.items()
    seconds: dict[str, float] = {}
    begin = time.perf_counter()

    def on_fit(done: int, total: int, name: str) -> None:
        nonlocal begin
        seconds[name] = time.perf_counter() - begin
        begin = time.perf_counter()
        console.progress(f"{done} of {total} models trained: {name}")

    assessment = assess(
        model,
        data.X,
        data.y,
        name=main,
        test_size=0.3,
        extra_models=dict(others),
        random_state=options.seed,
        times=_DAYS,
        on_fit=on_fit,
    )
    n_held_out = len(assessment.index)
    counts = data.y["event"].value_counts()
    console.result(data.description)
    console.result(
        f"{data.n_samples - n_held_out} people to train on, {n_held_out} held out; in all:"
    )
    for label, name in enumerate(data.event_names):
        console.result(f"  {counts.get(label, 0):>5}  {name}")
    console.result(
        f"\nHeld-out people, days 1 to 28 (Brier: lower is better; C-index at day "
        f"{assessment.horizons[1]:g}: higher):\n"
    )
    console.result(_comparison(assessment, seconds))
    console.result(f"\nPredictions of {engines[0]} for three held-out people:\n")
    console.result(_three_people(assessment, data))
    if target is not None:
        _write_report(target, model, data, assessment, console)
        console.result(f"\nreport: {target}")
    return 0


def _comparison(assessment: Any, seconds: dict[str, float]) -> str:
    brier = assessment.values("integrated_brier_score")[0]
    concordance = assessment.values("concordance_50", cause=1)[0]
    shown = {"Aalen-Johansen": "Aalen-Johansen (marginal)"}
    rows = [
        {
            "model": shown.get(name, name),
            "Brier score": brier[name],
            "C-index of death": concordance[name],
            "seconds": seconds[name],
        }
        for name in assessment.models
    ]
    return pd.DataFrame(rows).round(4).to_string(index=False)


def _three_people(assessment: Any, data: Any) -> str:
    """The people with the lowest, the middle and the highest risk of death by day 14."""
    curves = assessment.curves[assessment.main]
    ranked = np.argsort(curves[:, 1, np.searchsorted(_DAYS, 14)])
    state_names = ("event-free", *data.event_names[1:])
    lines = []
    for person in ranked[[0, len(ranked) // 2, -1]]:
        values = data.X.iloc[assessment.index[person]]
        lines.append("  " + ", ".join(f"{name} {value:g}" for name, value in values.items()))
        for day in _DAYS_SHOWN:
            states = curves[person, :, np.searchsorted(_DAYS, day)]
            shown = ", ".join(
                f"{name} {probability:.0%}"
                for name, probability in zip(state_names, states, strict=True)
            )
            lines.append(f"    by day {day:>2}: {shown}")
    return "\n".join(lines)


# ----------------------------------------------------------------------------------------- report
def _report_path(options: argparse.Namespace, console: Console) -> Path | None:
    lacking = missing_for_report()
    if lacking is not None:
        if options.out is not None:
            msg = f"--out is {options.out!r}, but {lacking}"
            raise CommandError(msg)
        console.warn(f"no report is written: {lacking}")
        return None
    path = Path(options.out or REPORT)
    return check_file(str(path), "--out", force=options.force or _is_demo_report(path))


def _is_demo_report(path: Path) -> bool:
    """Whether a file is a report that this command wrote."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return f"<title>{_TITLE}".encode() in file.read(4096)


def _write_report(
    target: Path, model: HazardBoost, data: Any, assessment: Any, console: Console
) -> None:
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

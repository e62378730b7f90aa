"""The plan of an assessment, its progress and scores on the command line, and the engines."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
from typing import Any

import pandas as pd

from survival_objectives._arrays import IntArray
from survival_objectives._engines.protocol import ENGINES, install_command
from survival_objectives._process.running import Listener, progress_to
from survival_objectives._version import __version__
from survival_objectives.cli._errors import (
    PROGRAM,
    Bar,
    CommandError,
    Console,
    UsageError,
    suggestion,
)
from survival_objectives.cli._outcomes import Events

_FOLDS = 5
# Folds up to this size; above, a single held-out part is precise enough.
_MOST_IN_FOLDS = 20_000
_MOST_CELLS_IN_FOLDS = 4_000_000
_HELD_OUT = 0.2
# Scores of this many people are precise to the third decimal; more would cost time and memory.
_MOST_HELD_OUT = 50_000
# A model of this many people predicts nearly as well as one of all.
_MOST_TRAINED = 500_000


def planned(options: argparse.Namespace, n_rows: int, n_columns: int) -> dict[str, Any]:
    """How to assess, as arguments of `assess`: as requested or by the size of the table."""
    if options.test_size is not None:
        return {"test_size": options.test_size}
    if options.cv is not None:
        return {"n_splits": options.cv}
    if n_rows <= _MOST_IN_FOLDS and n_rows * n_columns <= _MOST_CELLS_IN_FOLDS:
        return {"n_splits": _FOLDS}
    share = min(_HELD_OUT, _MOST_HELD_OUT / n_rows)
    is_limited = n_rows * (1 - share) > _MOST_TRAINED
    return {"test_size": share, "max_train": _MOST_TRAINED if is_limited else None}


def _counted(bar: Bar) -> Listener:
    """A listener to several trainings, each of which starts anew."""
    done, last = 0, 0.0

    def show(n_rounds: int, total: int, _: float) -> None:
        nonlocal done, last
        share = n_rounds / total
        done, last = done + (share < last), share
        bar.at(done + share)

    return show


def assessed(
    model: Any,
    name: str,
    X: pd.DataFrame,
    y: pd.DataFrame,
    groups: IntArray | None,
    plan: dict[str, Any],
    options: argparse.Namespace,
    console: Console,
) -> Any:
    """The assessment; Ctrl-C ends it and keeps the complete folds, if there are any."""
    from survival_objectives.assessment import assess

    console.progress(f"assessing: {in_words(plan, len(X))}")
    with (
        console.bar("assessing", plan.get("n_splits", 1), "fits") as bar,
        progress_to(_counted(bar)),
    ):
        return assess(
            model,
            X,
            y,
            name=name,
            groups=groups,
            **plan,
            random_state=options.seed,
            horizons=options.horizons and [float(time) for time in options.horizons],
            keep_interrupted=True,
        )


def in_words(plan: dict[str, Any], n_rows: int) -> str:
    """The plan of an assessment."""
    if "n_splits" in plan:
        return f"{plan['n_splits']} folds"
    held_out = round(plan["test_size"] * n_rows)
    n_trained = min(n_rows - held_out, plan.get("max_train") or n_rows)
    return f"{held_out} people held out of a model of {n_trained} others"


def assessment_title(assessment: Any, plan: dict[str, Any]) -> str:
    """Title of the score table."""
    who = "people held out"
    if assessment.landmark is not None:
        who += f" who are under observation and event-free at {assessment.landmark:g}"
    if "test_size" in plan:
        share = f"{100 * plan['test_size']:.2g}%"
        return f"Scores of {len(assessment.index)} {who} ({share})"
    n_folds = f"{assessment.n_splits} folds"
    if assessment.n_splits < assessment.n_planned:
        n_folds = f"the first {assessment.n_splits} of {assessment.n_planned} folds"
    return f"Scores of {who}, mean ± sd over {n_folds}"


# ------------------------------------------------------------------------------------------- scores
_BETTER = {True: "higher", False: "lower"}


def score_table(assessment: Any, events: Events) -> str:
    """The scores of all models, one line per score."""
    summary = assessment.summary().T
    summary.index = pd.Index([_named(label, events) for label in summary.index])
    summary.insert(
        0, "better", [_BETTER[label.startswith("concordance")] for label in summary.index]
    )
    summary.columns.name = None
    lines = [summary.to_string()]
    for name, reason in assessment.unavailable.items():
        lines.append(f"\n{name} is unavailable: {reason}")
    return "\n".join(lines)


def assessment_content(assessment: Any, events: Events, title: str) -> dict[str, Any]:
    """The scores as data to store with the model."""
    summary = assessment.summary()
    scores = {
        model: {_named(label, events): value for label, value in row.items()}
        for model, row in summary.iterrows()
    }
    return {"title": title, "model": assessment.main, "scores": scores}


def _named(label: str, events: Events) -> str:
    """The label of a score with the name of the cause instead of its code."""
    metric, comma, code = label.rpartition(", cause ")
    if not comma:
        return label
    return f"{metric}, {events.names[int(code)]}" if len(events.names) > 2 else metric


# ------------------------------------------------------------------------------------------ engines
def installed_engines() -> list[str]:
    """The installed engines, the default one first; an error if there is none."""
    engines = [name for name in ENGINES if importlib.util.find_spec(name) is not None]
    if not engines:
        msg = f"no engine is installed; use: {install_command('xgboost')}"
        raise CommandError(msg)
    return engines


def chosen_engine(name: str | None) -> str:
    """The engine of this name; by default the first installed one."""
    if name is not None and name not in ENGINES:
        msg = f"--engine is {name!r}; {suggestion(name, ENGINES, 'engines')}"
        raise UsageError(msg)
    engines = installed_engines()
    if name is not None and name not in engines:
        msg = f"{name} is not installed; use: {install_command(name)}, or --engine {engines[0]}"
        raise CommandError(msg)
    return name or engines[0]


def versions(engine: str) -> dict[str, str]:
    """Versions of this package and of the engine."""
    return {PROGRAM: __version__, engine: importlib.metadata.version(engine)}


def missing_for_report() -> str | None:
    """What must be installed before a report can be written, or None."""
    if importlib.util.find_spec("jinja2") is None:
        return "jinja2 is not installed; use: pip install jinja2"
    return None

"""The plan of an assessment, and its progress on the command line."""

from __future__ import annotations

import argparse
from typing import Any

import pandas as pd

from survival_objectives._arrays import IntArray
from survival_objectives._process.running import Listener, progress_to
from survival_objectives.cli._console import Bar, Console

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

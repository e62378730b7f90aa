"""Training and assessment with progress on the command line."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from survival_objectives._arrays import IntArray
from survival_objectives._process.progress import progress_to
from survival_objectives.cli._console import Bar, Console, in_words
from survival_objectives.cli._plan import GROWTH, Cost, Plan, n_cores
from survival_objectives.cli._tuning import TunedSurvivalBoost
from survival_objectives.estimators import HazardBoost

# From this many people on, a training on a few estimates the time of a training on all.
_FEWEST_TO_PROBE = 5_000
_N_PROBED = 2_000
# Share at which the bar stops if a training takes longer than expected.
_LAST_SHARE = 0.95


def untrained(engine: str, options: argparse.Namespace) -> tuple[str, Any]:
    """Name of the model, and the unfitted model."""
    model = HazardBoost(engine, random_state=options.seed, n_jobs=options.threads)
    if options.rounds is not None:
        model.set_params(n_estimators=options.rounds)
    if options.tune is None:
        return f"HazardBoost ({engine})", model
    return f"HazardBoost ({engine}, tuned)", TunedSurvivalBoost(
        model,
        options.tune,
        tune_rounds=options.rounds is None,
        random_state=options.seed,
        n_jobs=n_cores(options.threads),
    )


def expected_cost(model: Any, X: pd.DataFrame, y: pd.DataFrame) -> Cost | None:
    """Expected cost of training on all people, from a training on a few; None for small data."""
    if len(X) < _FEWEST_TO_PROBE:
        return None
    rows = np.random.default_rng(0).choice(len(X), _N_PROBED, replace=False)
    one = model.estimator if isinstance(model, TunedSurvivalBoost) else model
    clock, cpu = time.monotonic(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clone(one).fit(X.iloc[rows], y.iloc[rows])
    except ValueError:
        return None  # The sample has too few events of a cause; training on all people may work.
    many = (len(X) / _N_PROBED) ** GROWTH
    if isinstance(model, TunedSurvivalBoost):
        many *= model.n_fits / model.n_jobs
    return Cost((time.monotonic() - clock) * many, (time.process_time() - cpu) * many)


def _share_shown(bar: Bar, seconds: float | None) -> Callable[[float], None]:
    """A listener that shows the progress of one training.

    With early stopping, trainings report the share of the maximum number of rounds; if the expected
    time is known and a larger share of it has passed, that share is shown.
    """
    begin = time.monotonic()

    def show(share: float) -> None:
        if seconds is not None:
            share = max(share, min((time.monotonic() - begin) / seconds, _LAST_SHARE))
        bar.at(share)

    return show


def trained(
    model: Any,
    X: pd.DataFrame,
    y: pd.DataFrame,
    groups: IntArray | None,
    console: Console,
    expected: float | None = None,
) -> tuple[HazardBoost, dict[str, Any], Cost]:
    """The model trained on all people, the settings chosen by a search, and the cost.

    ``expected`` are the expected seconds, if known.
    """
    label = "training on all people"
    console.progress(label)
    clock, cpu = time.monotonic(), time.process_time()
    with console.bar(label) as bar, progress_to(_share_shown(bar, expected)):
        model.fit(X, y, groups=groups)
    cost = Cost(time.monotonic() - clock, time.process_time() - cpu)
    if not isinstance(model, TunedSurvivalBoost):
        return model, {}, cost
    # A search uses processes, whose CPU time is not counted here.
    cost = Cost(cost.clock, cost.clock * model.n_jobs)
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
    return model.best_, tuned, cost


def trained_from_disk(model: HazardBoost, batches: Any, console: Console) -> HazardBoost:
    """The model trained on all people, from disk."""
    from survival_objectives.adapters.external_memory import fit_external

    label = "training on all people from disk"
    console.progress(label)
    with console.bar(label) as bar, progress_to(bar.at):
        return fit_external(model, batches)


def assessed(
    model: Any,
    name: str,
    X: pd.DataFrame,
    y: pd.DataFrame,
    groups: IntArray | None,
    plan: Plan,
    cost: Cost | None,
    options: argparse.Namespace,
    console: Console,
) -> Any:
    """The assessment, or None if Ctrl-C ended it before a fold was complete."""
    from survival_objectives.assessment import assess

    n_jobs, seconds = 1, None
    if cost is not None:
        n_jobs = plan.n_jobs(cost, n_cores(options.threads))
        seconds = plan.seconds(cost, n_jobs)
        console.progress(f"assessing: {plan}, about {in_words(seconds)}")
    else:
        console.progress(f"assessing: {plan}")
    if plan.n_splits is not None:
        # Each fold is trained with one thread, in parallel if that is faster: the scores are the
        # same either way.
        model = _with_threads(model, 1)
    done = 0

    def on_fit(_: int, __: int, fitted: str) -> None:
        nonlocal done
        if fitted == name:
            done += 1
            bar.at(done)

    with (
        console.bar("assessing", plan.n_fits, "fits") as bar,
        progress_to(
            _share_shown(bar, seconds)
            if plan.n_splits is None
            else lambda share: bar.at(done + share)
        ),
    ):
        return assess(
            model,
            X,
            y,
            name=name,
            groups=groups,
            **plan.options,
            random_state=options.seed,
            horizons=options.horizons and [float(time) for time in options.horizons],
            n_jobs=n_jobs,
            keep_interrupted=True,
            on_fit=on_fit,
        )


def _with_threads(model: Any, n_threads: int) -> Any:
    model = clone(model)
    if isinstance(model, TunedSurvivalBoost):
        model.set_params(n_jobs=1, estimator__n_jobs=n_threads)
    else:
        model.set_params(n_jobs=n_threads)
    return model


def assessment_title(assessment: Any, plan: Plan) -> str:
    """Title of the score table."""
    if plan.n_splits is None:
        held_out = plan.test_size or 0.0
        share = f"{held_out:.0%}" if held_out >= 0.01 else f"{held_out:.1%}"
        title = f"Scores of {len(assessment.index)} people held out ({share})"
        if plan.max_train is not None:
            title += f", by a model trained on {assessment.n_trained} others"
        return title
    n_folds = f"{assessment.n_splits} folds"
    if assessment.n_splits < assessment.n_planned:
        n_folds = f"the first {assessment.n_splits} of {assessment.n_planned} folds"
    return f"Scores of people held out, mean ± sd over {n_folds}"

"""Training and assessment as the command line shows them."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from survival_objectives._progress import progress_to
from survival_objectives.cli._console import Bar, Console, in_words
from survival_objectives.cli._plan import GROWTH, Cost, Plan, n_cores
from survival_objectives.cli._tuning import TunedSurvivalBoost
from survival_objectives.estimator import SurvivalBoost

__all__ = [
    "assessed",
    "assessment_title",
    "expected_cost",
    "trained",
    "trained_from_disk",
    "untrained",
]

# Of so many people or more, a training of a few tells how long that of all takes.
_FEWEST_TO_PROBE = 5_000
_N_PROBED = 2_000
# The share at which a bar waits for a training that takes longer than expected.
_LAST_SHARE = 0.95


def untrained(engine: str, options: argparse.Namespace) -> tuple[str, Any]:
    """Name and settings of the model."""
    model = SurvivalBoost(engine, random_state=options.seed, n_jobs=options.threads)
    if options.rounds is not None:
        model.set_params(n_estimators=options.rounds)
    if options.tune is None:
        return f"SurvivalBoost ({engine})", model
    return f"SurvivalBoost ({engine}, tuned)", TunedSurvivalBoost(
        model,
        options.tune,
        tune_rounds=options.rounds is None,
        random_state=options.seed,
        n_jobs=n_cores(options.threads),
    )


def expected_cost(model: Any, X: pd.DataFrame, y: pd.DataFrame) -> Cost | None:
    """What training on everybody will take, from a training of some; None where it is soon over."""
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
        return None  # Too few of a cause are among them; the training of all will tell.
    many = (len(X) / _N_PROBED) ** GROWTH
    if isinstance(model, TunedSurvivalBoost):
        many *= model.n_fits / model.n_jobs
    return Cost((time.monotonic() - clock) * many, (time.process_time() - cpu) * many)


def _share_shown(bar: Bar, seconds: float | None) -> Callable[[float], None]:
    """A listener that shows how far one training has come.

    A training that ends when held-out people say so reports the share of the most rounds; where the
    time that it will take is known, that share of it may be more.
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
    console: Console,
    expected: float | None = None,
) -> tuple[SurvivalBoost, dict[str, Any], Cost]:
    """The model trained on everybody, what a search has chosen, and what it took.

    ``expected`` are the seconds that it will take, where they are known.
    """
    label = "training on everybody"
    console.progress(label)
    clock, cpu = time.monotonic(), time.process_time()
    with console.bar(label) as bar, progress_to(_share_shown(bar, expected)):
        model.fit(X, y)
    cost = Cost(time.monotonic() - clock, time.process_time() - cpu)
    if not isinstance(model, TunedSurvivalBoost):
        return model, {}, cost
    # A search uses processes, whose time is not counted here.
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


def trained_from_disk(model: SurvivalBoost, batches: Any, console: Console) -> SurvivalBoost:
    """The model trained on everybody, who stay on disk."""
    from survival_objectives.adapters.external_memory import fit_external

    label = "training on everybody from disk"
    console.progress(label)
    with console.bar(label) as bar, progress_to(bar.at):
        return fit_external(model, batches)


def assessed(
    model: Any,
    name: str,
    X: pd.DataFrame,
    y: pd.DataFrame,
    plan: Plan,
    cost: Cost | None,
    options: argparse.Namespace,
    console: Console,
) -> Any:
    """The assessment, or None where Ctrl-C ended it before a fold was complete."""
    from survival_objectives.assessment import assess

    n_jobs, seconds = 1, None
    if cost is not None:
        n_jobs = plan.n_jobs(cost, n_cores(options.threads))
        seconds = plan.seconds(cost, n_jobs)
        console.progress(f"assessing: {plan}, about {in_words(seconds)}")
    else:
        console.progress(f"assessing: {plan}")
    if plan.n_splits is not None:
        # Folds are trained by one thread each, side by side where that is faster: either way the
        # scores are the same.
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
    """What the scores are of."""
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

"""Training, search and assessment, with progress on the command line."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import pandas as pd
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    ParameterSampler,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from survival_objectives._arrays import IntArray
from survival_objectives._process.running import progress_to
from survival_objectives.cli._console import Bar, Console
from survival_objectives.estimators import HazardBoost

_FOLDS = 5
# Folds up to this size; above, a single held-out part is precise enough.
_MOST_IN_FOLDS = 20_000
_MOST_CELLS_IN_FOLDS = 4_000_000
_HELD_OUT = 0.2
# Scores of this many people are precise to the third decimal; more would cost time and memory.
_MOST_HELD_OUT = 50_000
# A model of this many people predicts nearly as well as one of all.
_MOST_TRAINED = 500_000
_INNER_FOLDS = 3
_SPACE = {
    "learning_rate": loguniform(0.05, 0.4),
    "max_depth": [2, 3, 4, 5, 6],
    "min_leaf_people": loguniform(5, 100),
    "min_split_gain": [0.0, 1.0, 2.0, 4.0],
    "max_features": [0.3, 0.5, 0.75, 1.0],
}
# Settings that CatBoost does not have.
_NOT_CATBOOST = ("min_leaf_people", "min_split_gain")


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


def untrained(engine: str, options: argparse.Namespace) -> tuple[str, Any]:
    """Name of the model, and the model or a search for its settings."""
    model = HazardBoost(
        engine,
        random_state=options.seed,
        n_jobs=options.threads,
        n_estimators=options.rounds,
    )
    if options.tune is None:
        return f"HazardBoost ({engine})", model
    return f"HazardBoost ({engine}, tuned)", Search(model, options.tune, options.seed)


class Search(GridSearchCV):  # type: ignore[misc]
    """The best of ``n_settings``, the defaults and random ones, by an inner cross-validation.

    Inside an assessment this is nested cross-validation.
    """

    def __init__(self, estimator: Any, n_settings: int, seed: int) -> None:
        self.n_settings, self.seed = n_settings, seed
        without = _NOT_CATBOOST if estimator.engine == "catboost" else ()
        space = {name: values for name, values in _SPACE.items() if name not in without}
        drawn = ParameterSampler(space, n_settings - 1, random_state=seed)
        # More digits would not matter.
        grid = [
            {
                name: [float(f"{value:.3g}") if isinstance(value, float) else value]
                for name, value in each.items()
            }
            for each in drawn
        ]
        super().__init__(estimator, [{}, *grid], error_score="raise", refit=False)

    def fit(self, X: Any, y: Any, groups: IntArray | None = None) -> Search:
        """Compare the settings, on folds by group, and train the best on all people."""
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        folds = kind(_INNER_FOLDS, shuffle=True, random_state=self.seed)
        with warnings.catch_warnings():
            # A cause with fewer events than folds is spread over as many folds as possible.
            warnings.filterwarnings("ignore", message="The least populated class")
            self.cv = list(folds.split(X, y["event"], groups))
        super().fit(X, y)
        best = clone(self.estimator).set_params(**self.best_params_)
        self.best_estimator_ = best.fit(X, y, groups=groups)
        return self

    def predict_cumulative_incidence(self, X: Any, times: Any = None) -> Any:
        """Curves of the best setting, of shape (n_samples, K + 1, n_times)."""
        return self.best_estimator_.predict_cumulative_incidence(X, times)

    @property
    def found(self) -> dict[str, Any]:
        """What is saved and said about the search."""
        scores = -self.cv_results_["mean_test_score"]
        return {
            "n_settings": len(scores),
            "chosen": self.best_params_,
            "brier_score": float(scores.min()),
            "brier_score_of_defaults": float(scores[0]),
        }


def trained(
    model: Any, X: pd.DataFrame, y: pd.DataFrame, groups: IntArray | None, console: Console
) -> tuple[HazardBoost, dict[str, Any]]:
    """The model trained on all people, and what a search found."""
    label = "training on all people"
    console.progress(label)
    n_fits = model.n_settings * _INNER_FOLDS + 1 if isinstance(model, Search) else 1
    with console.bar(label, n_fits) as bar, progress_to(_counted(bar)):
        model.fit(X, y, groups=groups)
    if not isinstance(model, Search):
        return model, {}
    found = model.found
    shown = ", ".join(f"{name} {value:g}" for name, value in found["chosen"].items())
    console.result(
        f"\nchosen of {found['n_settings']} settings: {shown or 'the defaults'} (Brier score "
        f"{found['brier_score']:.4f} in the search, defaults "
        f"{found['brier_score_of_defaults']:.4f})"
    )
    return model.best_estimator_, found


def _counted(bar: Bar) -> Callable[[float], None]:
    """A listener to several trainings, each of which reports its share from 0 to 1."""
    done, last = 0, 0.0

    def show(share: float) -> None:
        nonlocal done, last
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
    n_fits = plan.get("n_splits", 1) * (model.n_settings * _INNER_FOLDS + 1 if options.tune else 1)
    with console.bar("assessing", n_fits, "fits") as bar, progress_to(_counted(bar)):
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

"""Random search over settings as an estimator, which tunes on the data passed to ``fit``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import (
    GridSearchCV,
    ParameterSampler,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives.estimators import HazardBoost

_N_SPLITS = 3
_SPACE = {
    "learning_rate": loguniform(0.02, 0.2),
    "max_depth": [2, 3, 4, 5, 6],
    "min_leaf_people": loguniform(2, 50),
    "min_split_gain": [0.0, 1.0, 2.0, 4.0],
    "max_features": [0.3, 0.5, 0.75, 1.0],
}
_ROUNDS = [100, 200, 300, 400]
# Settings are printed and stored with this many digits; more would not matter.
_DIGITS = 3


class TunedSurvivalBoost(BaseEstimator):  # type: ignore[misc]
    """The best of several settings of `HazardBoost` by cross-validation inside ``fit``.

    The first setting is the estimator unchanged; the others are drawn at random. All are scored by
    the integrated Brier score on the same three folds, and the best is trained on all data passed
    to ``fit``. Assessing this estimator on folds is therefore nested cross-validation.

    Parameters
    ----------
    estimator : HazardBoost
        The estimator to tune.
    n_settings : int, default=20
        Number of settings to compare.
    tune_rounds : bool, default=True
        Whether the number of rounds is drawn as well.
    random_state : int, default=0
        Seed of the settings and of the folds.
    n_jobs : int, default=1
        Number of parallel processes. Engines of the search have one thread, so that the choice does
        not depend on this number.

    Attributes
    ----------
    best_ : HazardBoost
        The best setting, trained on all people.
    chosen_ : dict
        Parameters that it changes; empty if no drawn setting was better.
    scores_ : float64 array of shape (n_settings,)
        Integrated Brier score of each setting, the estimator's own first; lower is better.
    """

    best_: HazardBoost
    chosen_: dict[str, Any]
    scores_: FloatArray

    def __init__(
        self,
        estimator: HazardBoost,
        n_settings: int = 20,
        *,
        tune_rounds: bool = True,
        random_state: int = 0,
        n_jobs: int = 1,
    ) -> None:
        self.estimator = estimator
        self.n_settings = n_settings
        self.tune_rounds = tune_rounds
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def n_fits(self) -> int:
        """Number of models that ``fit`` trains."""
        return self.n_settings * _N_SPLITS + 1

    def fit(
        self, X: pd.DataFrame, y: pd.DataFrame, groups: IntArray | None = None
    ) -> TunedSurvivalBoost:
        """Compare the settings and train the best."""
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        folds = kind(_N_SPLITS, shuffle=True, random_state=self.random_state)
        with warnings.catch_warnings():
            # A cause with fewer events than folds is spread over as many folds as possible.
            warnings.filterwarnings("ignore", message="The least populated class")
            splits = list(folds.split(X, y["event"], groups))
        search = GridSearchCV(
            clone(self.estimator).set_params(n_jobs=1),
            [{name: [value] for name, value in setting.items()} for setting in self._settings()],
            cv=splits,
            error_score="raise",
            n_jobs=self.n_jobs,
            refit=False,
        )
        search.fit(X, y)
        self.best_ = (
            clone(self.estimator).set_params(**search.best_params_).fit(X, y, groups=groups)
        )
        self.chosen_ = search.best_params_
        self.scores_ = -np.asarray(search.cv_results_["mean_test_score"], dtype=np.float64)
        return self

    def predict_cumulative_incidence(self, X: Any, times: Any = None) -> Any:
        """Curves of the best setting, of shape (n_samples, K + 1, n_times)."""
        return self.best_.predict_cumulative_incidence(X, times)

    def _settings(self) -> list[dict[str, Any]]:
        space: dict[str, Any] = dict(_SPACE)
        # If the number of rounds is chosen on held-out people, it is not drawn.
        if self.tune_rounds and self.estimator.n_estimators is not None:
            space["n_estimators"] = _ROUNDS
        if self.estimator.engine == "catboost":
            del space["min_leaf_people"], space["min_split_gain"]  # CatBoost has no such settings.
        drawn = ParameterSampler(space, self.n_settings - 1, random_state=self.random_state)
        rounded = [
            {
                name: float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
                for name, value in setting.items()
            }
            for setting in (drawn if self.n_settings > 1 else ())
        ]
        return [{}, *rounded]

"""Held-out scores of a model, next to baselines on the same folds.

Every score uses censoring weights of the training part, never of the held-out part. All models have
the same folds and are scored at the same times.
"""

from __future__ import annotations

import importlib.util
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from survival_objectives._arrays import BoolArray, FloatArray, IntArray
from survival_objectives._people import (
    Features,
    SurvivalTarget,
    check_features,
    check_groups,
    check_positive_int,
    check_same_people,
    check_survival_target,
    copies,
    row_keys,
)
from survival_objectives.assessment._design import designed
from survival_objectives.assessment._folds import FoldFits, ProgressHook
from survival_objectives.assessment._landmark import AtLandmark, Landmark
from survival_objectives.assessment._scores import CONCORDANCE, Errors, scored
from survival_objectives.assessment.leaks import Leak, leaks
from survival_objectives.baselines import AalenJohansen, CauseSpecificCox
from survival_objectives.metrics._scorers import predicts_curves

# The cost of Cox curves is people times event times; the few coefficients need no more people.
_MOST_FOR_COX = 10_000
# Above this many people times event times, curves are computed on fewer time steps.
_MOST_STEPS = 20_000_000
_N_STEPS = 500
_DECIMALS = {"integrated_brier_score": 4, "integrated_log_loss": 4}


@dataclass(frozen=True)
class Assessment:
    """Held-out scores and curves of several models.

    Attributes
    ----------
    scores : DataFrame
        One row per value, with the columns ``model``, ``fold``, ``metric``, ``cause`` (0 for all
        states) and ``value``. Metrics are ``integrated_brier_score`` (for cause 0: the mean over
        all states), ``integrated_log_loss``, ``concordance_25``, ``concordance_50`` and
        ``concordance_75`` (at the three ``horizons``) and ``calibration_error`` (at the middle
        horizon: mean distance between predicted and observed incidence in five groups). NaN where
        a fold has no value, for instance without an event of the cause.
    times : float64 array of shape (n_times,)
        Times of the curves, increasing.
    brier : DataFrame
        Brier score over time: ``model``, ``fold``, ``cause`` (0 is event-free), ``time``,
        ``value``.
    curves : dict of str to float64 array of shape (n_assessed, K + 1, n_times)
        Held-out curves of each model.
    index : int64 array of shape (n_assessed,)
        Rows of ``X`` that the curves belong to, increasing.
    fold : int64 array of shape (n_assessed,)
        Fold in which each person was held out.
    n_splits : int
        Number of folds; 1 for a single held-out part.
    main : str
        Name of the assessed model; the others are for comparison.
    unavailable : dict of str to str
        Baselines that could not be fitted, with the reason.
    horizons : float64 array of shape (3,)
        Among ``times``: about the times by which 25, 50 and 75 % of the observed events happened.
    event_ids : int64 array of shape (K + 1,)
        Labels of the curves: 0 for event-free, then the causes.
    scored : bool array of shape (n_times,)
        Which times are within the follow-up of every fold; scores use only these.
    seed : int, optional
        ``random_state`` of the folds, if it was an integer.
    estimates : DataFrame
        Means over folds with their errors, one row per model and score: ``model``, ``metric``,
        ``cause``, ``value``, ``standard_error``, ``lower``, ``upper`` (ends of the 95 % interval).
        The error is the sampling error of the people scored, with the fitted models fixed and the
        estimation of the weights included; see `survival_objectives.metrics.Evaluation`. There
        is none for ``calibration_error``.
    comparisons : DataFrame
        Every model against every other one on the same people, one row per score: ``model``,
        ``reference``, ``metric``, ``cause``, ``difference`` (model minus reference),
        ``standard_error``, ``lower``, ``upper`` (95 %), ``p_value`` (of no difference).
    leaks : tuple of Leak
        Columns that seem to contain the outcome, with which all scores are too optimistic; see
        `survival_objectives.assessment.leaks`.
    landmark : float or None
        Time from which all other times count; see `assess`.
    n_planned : int
        Number of folds requested; more than ``n_splits`` if Ctrl-C ended the assessment early.
    n_trained : int
        People in the largest training part.
    """

    scores: pd.DataFrame
    times: FloatArray
    brier: pd.DataFrame
    curves: dict[str, FloatArray]
    index: IntArray
    fold: IntArray
    n_splits: int
    main: str
    unavailable: dict[str, str] = field(default_factory=dict)
    horizons: FloatArray = field(default_factory=lambda: np.empty(0))
    event_ids: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    scored: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    seed: int | None = None
    estimates: pd.DataFrame = field(default_factory=pd.DataFrame)
    comparisons: pd.DataFrame = field(default_factory=pd.DataFrame)
    leaks: tuple[Leak, ...] = ()
    landmark: float | None = None
    n_planned: int = 0
    n_trained: int = 0

    @property
    def models(self) -> list[str]:
        """Names of the scored models, the assessed one first."""
        return list(self.curves)

    def values(self, metric: str, cause: int = 0) -> pd.DataFrame:
        """Scores by one metric, with one row per model and one column per fold."""
        rows = self.scores[(self.scores["metric"] == metric) & (self.scores["cause"] == cause)]
        return rows.pivot(index="model", columns="fold", values="value").loc[self.models]

    def summary(self) -> pd.DataFrame:
        """Mean and standard deviation over folds as text, one row per model, one column per metric.

        Concordance is at the middle horizon. A baseline that could not be fitted has a row that
        says so.
        """
        columns = {}
        for metric, cause in self.scores[["metric", "cause"]].drop_duplicates().values:
            if metric in (CONCORDANCE[0], CONCORDANCE[2]):
                continue
            label = _label(metric, cause)
            values = self.values(metric, cause)
            columns[label] = [_mean_and_sd(row, _DECIMALS.get(metric, 3)) for row in values.values]
        table = pd.DataFrame(columns, index=pd.Index(self.models, name="model"))
        for name in self.unavailable:
            table.loc[name] = "unavailable"
        return table


def assess(
    model: Any,
    X: Any,
    y: Any,
    *,
    name: str | None = None,
    groups: Any = None,
    n_splits: int = 5,
    test_size: float | None = None,
    baselines: bool = True,
    extra_models: Mapping[str, Any] | None = None,
    random_state: Any = None,
    times: npt.ArrayLike | None = None,
    horizons: npt.ArrayLike | None = None,
    landmark: float | None = None,
    max_train: int | None = None,
    n_jobs: int = 1,
    keep_interrupted: bool = False,
    on_fit: ProgressHook | None = None,
) -> Assessment:
    """Held-out scores of a model, next to baselines.

    Parameters
    ----------
    model : estimator
        An estimator with ``fit(X, y)`` and ``predict_cumulative_incidence(X, times)``, or a
        pipeline or search whose last step has them. It is cloned for every fold and not changed.
    X : array or DataFrame of shape (n_samples, n_features)
        Features as for `HazardBoost`.
    y : outcomes
        ``event`` and ``duration``, in any form that this package accepts.
    name : str, optional
        Name of the model in the results. Default: that of its class.
    groups : array of shape (n_samples,), optional
        Group of each row, such as the person where there are several rows per person. Rows of one
        group are in one fold, and count as one observation in standard errors. Models whose
        ``fit`` takes ``groups`` get theirs. Default: copies of a row, as in `HazardBoost.fit`.
    n_splits : int, default=5
        Number of folds, stratified by event.
    test_size : float in (0, 1), optional
        Hold out this share of people once, instead of folds.
    baselines : bool, default=True
        Whether to also score the marginal curve and, if lifelines is installed, a Cox regression
        of each cause. For Cox, missing numbers are imputed by the median of the training part, and
        categories become indicators, with one for missing; it is trained on at most 10 000 people,
        and its name then says so.
    extra_models : mapping of str to estimator, optional
        Further models to compare, by name.
    random_state : int, Generator, RandomState or None
        Seed of the folds. Models keep their own seeds.
    times : array of shape (n_times,), optional
        Times of the curves and scores, > 0. Default: 50 even steps up to the time by which 95 % of
        the observed events happened, and the three horizons, within the follow-up of every fold.
        Requested times beyond it have curves but no scores, with a `FollowUpWarning`.
    horizons : array of one to three times, optional
        Times of concordance and calibration. Default: about the times by which 25, 50 and 75 % of
        the observed events happened.
    landmark : float, optional
        A time s. Scored are the people who are under observation and event-free at s, on curves
        conditional on that, with features held as they are at s, and all times count from s; models
        are trained on everybody who is not held out, with ``fit(X, y)`` on the outcomes as passed.
        Default: no landmark where everybody is followed from time 0; otherwise the time at which
        most people are under observation who have an event later.
    max_train : int, optional
        Train on at most this many people of each training part, drawn at random. Default: all. With
        fewer people, models predict slightly worse than the one that is trained on all people.
    n_jobs : int, default=1
        Number of folds trained in parallel. If more than one, each fold has its own process with
        single-threaded engines: faster than threads up to a few ten thousand people, and the same
        curves as models with ``n_jobs=1``, bit for bit.
    keep_interrupted : bool, default=False
        Whether Ctrl-C ends the assessment and keeps the complete folds, if there are any;
        ``n_planned`` is then the requested number.
    on_fit : callable, optional
        Called after every fit as ``on_fit(done, total, name)``.

    Returns
    -------
    Assessment

    Examples
    --------
    >>> from survival_objectives.datasets import make_competing_risks
    >>> from survival_objectives.baselines import CauseSpecificCox
    >>> data = make_competing_risks(300, n_causes=1, random_state=0)
    >>> result = assess(CauseSpecificCox(), data.X, data.y, name="Cox", baselines=False)
    >>> result.curves["Cox"].shape[0], result.n_splits
    (300, 5)
    """
    target = check_survival_target(y, late_entry=True)
    name = type(model).__name__ if name is None else name
    models = _named_models(name, model, extra_models)
    X = _indexable(X, target)
    check_positive_int(n_jobs, "n_jobs")
    group = check_groups(groups, target.n_samples)
    at = None
    if not (landmark is None and target.entry is None and target.person is None):
        at = Landmark.of(X, target, landmark, group)
        models = {key: AtLandmark(each, at) for key, each in models.items()}
        X, target = at.at_risk(), check_survival_target(at.outcomes)
        group = None if group is None else group[at.rows]
    found = tuple(leaks(X, target))
    if group is None:
        group = copies(row_keys(check_features(X).values), target.event, target.duration)
    design = designed(target, n_splits, test_size, max_train, random_state, times, horizons, group)
    unavailable: dict[str, str] = {}
    fallible: set[str] = set()
    if baselines:
        marginal, cox = _baseline_names(target.n_causes, design.n_trained)
        _add(models, marginal, AalenJohansen())
        if importlib.util.find_spec("lifelines") is None:
            unavailable[cox] = "It needs lifelines, which is not installed: pip install lifelines"
        else:
            _add(models, cox, _ImputedCox())
            fallible.add(cox)
    fits = FoldFits(
        X,
        target,
        design.folds,
        design.times,
        models,
        fallible,
        on_fit=on_fit,
        n_jobs=n_jobs,
        keep_interrupted=keep_interrupted,
        group=group,
    )
    folds, curves = fits.run()
    held_out = np.concatenate([fold.test for fold in folds])
    order = np.argsort(held_out, kind="stable")
    position = np.repeat(np.arange(len(folds)), [len(fold.test) for fold in folds])[order]
    errors = Errors(target.n_samples, len(held_out), group)
    scores, brier = scored(curves, held_out[order], position, target, folds, design, errors)
    return Assessment(
        scores=scores,
        times=design.times,
        brier=brier,
        curves=curves,
        index=held_out[order] if at is None else at.rows[held_out[order]],
        fold=position,
        n_splits=len(folds),
        main=name,
        unavailable=unavailable | fits.failed,
        horizons=design.horizons,
        event_ids=target.event_ids,
        scored=design.scored,
        seed=int(random_state) if isinstance(random_state, numbers.Integral) else None,
        estimates=errors.estimates(),
        comparisons=errors.comparisons(),
        leaks=found,
        landmark=None if at is None else at.time,
        n_planned=len(design.folds),
        n_trained=design.n_trained,
    )


def check_assessable(
    y: Any,
    *,
    n_splits: int = 5,
    test_size: float | None = None,
    max_train: int | None = None,
    random_state: Any = None,
    times: npt.ArrayLike | None = None,
    horizons: npt.ArrayLike | None = None,
) -> None:
    """Raise the errors of `assess` for these outcomes and options, without training a model."""
    target = check_survival_target(y, late_entry=True)
    if target.entry is not None or target.person is not None:
        people = pd.DataFrame(index=range(target.n_samples))
        target = check_survival_target(Landmark.of(people, target, None).outcomes)
    designed(target, n_splits, test_size, max_train, random_state, times, horizons)


# ------------------------------------------------------------------------------------------ input
def _named_models(name: str, model: Any, extra: Mapping[str, Any] | None) -> dict[str, Any]:
    models: dict[str, Any] = {}
    _add(models, name, model)
    for key, estimator in (extra or {}).items():
        _add(models, key, estimator)
    return models


def _add(models: dict[str, Any], name: str, model: Any) -> None:
    if not isinstance(name, str) or not name:
        msg = f"Names of models are text; got {name!r}."
        raise TypeError(msg)
    if name in models:
        msg = f"Two models are called {name!r}. Choose other names in `name` or `extra_models`."
        raise ValueError(msg)
    if not predicts_curves(model):
        msg = (
            f"{name!r} is {model!r}, which has no `predict_cumulative_incidence(X, times)` to "
            "assess. Pass an estimator such as `HazardBoost()`."
        )
        raise TypeError(msg)
    models[name] = model


def _indexable(X: Any, target: SurvivalTarget) -> Any:
    """``X`` in its own type, checked; lists become an array."""
    features = check_features(X)
    check_same_people(features.n_samples, target.n_samples)
    return X if hasattr(X, "shape") else np.asarray(X)


def _baseline_names(n_causes: int, n_trained: int) -> tuple[str, str]:
    marginal = "Kaplan-Meier" if n_causes == 1 else "Aalen-Johansen"
    return marginal, "Cox" if n_trained <= _MOST_FOR_COX else f"Cox on {_MOST_FOR_COX:,} people"


# ------------------------------------------------------------------------------------------ models
class _ImputedCox(BaseEstimator):  # type: ignore[misc]
    """Cause-specific Cox on features that are imputed and encoded on the training part."""

    def fit(self, X: Any, y: Any) -> _ImputedCox:
        features = check_features(X)
        self._schema = features.schema
        categorical = sorted(features.categories)
        numeric = [column for column in range(features.n_features) if column not in categorical]
        # Input is category codes, with NaN as a category.
        indicators = OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False)
        self._ready = ColumnTransformer(
            [
                ("numbers", SimpleImputer(strategy="median", keep_empty_features=True), numeric),
                ("categories", indicators, categorical),
            ]
        )
        values = _doubles(features)
        if len(values) > _MOST_FOR_COX:
            rows = np.random.default_rng(0).choice(len(values), _MOST_FOR_COX, replace=False)
            values, y = values[rows], y.iloc[rows]
        values = self._ready.fit_transform(values)
        self._cox = CauseSpecificCox()
        self._cox.fit(values, y)
        return self

    def predict_cumulative_incidence(self, X: Any, times: FloatArray) -> FloatArray:
        features = check_features(X, like=self._schema)
        values: FloatArray = self._ready.transform(_doubles(features))
        cox, jumps = self._cox, self._cox.jumps_
        if len(values) * len(jumps) > _MOST_STEPS:
            # Hazards are summed over longer steps: cumulative hazards stay exact at `times`, and
            # each step has the shares of causes of its sum.
            steps = np.quantile(jumps, np.linspace(0, 1, _N_STEPS))
            cox = CauseSpecificCox.from_content(cox.to_content(np.union1d(steps, times)))
        return cox.predict_cumulative_incidence(values, times)


def _doubles(features: Features) -> FloatArray:
    return features.values.astype(np.float64)


# ---------------------------------------------------------------------------------------- summary
def _label(metric: str, cause: int) -> str:
    of_cause = f", cause {cause}" if cause else ""
    names = {
        "integrated_brier_score": "Brier score",
        "integrated_log_loss": "log-loss",
        "concordance_50": "concordance",
        "calibration_error": "calibration error",
    }
    return names[metric] + of_cause


def _mean_and_sd(values: FloatArray, decimals: int) -> str:
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return "–"
    mean = f"{known.mean():.{decimals}f}"
    return mean if len(known) == 1 else f"{mean} ± {known.std(ddof=1):.{decimals}f}"

r"""Baselines to beat: the marginal curve, and cause-specific Cox regression.

Both are scikit-learn estimators with the predict methods of `HazardBoost`.
"""

from __future__ import annotations

# First: it sets how OpenMP threads wait, before scikit-learn is imported.
from survival_objectives._process import running as _running  # noqa: F401

# isort: split
import warnings
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import (
    Features,
    SurvivalTarget,
    check_features,
    check_same_people,
    check_sample_weight,
    check_survival_target,
    check_times,
)
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.marginal import StepFunction, aalen_johansen
from survival_objectives.metrics import integrated_brier_score
from survival_objectives.metrics._inputs import SCORED_BY

__all__ = ["AalenJohansen", "CauseSpecificCox"]

# Default prediction times: enough for a smooth plot, few enough for a million people.
_N_TIMES = 100
# Hazards held in memory at a time while curves are computed, 8 bytes each.
_BLOCK_HAZARDS = 4_000_000
# Ridge penalties of a Cox regression on standardised columns.
_LEAST_PENALTY, _LARGEST_PENALTY = 1e-4, 1.0
# More columns take minutes, and many times the people to be estimated.
_MOST_COLUMNS = 500


class _Baseline(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of both baselines: input checks, and predictions derived from the curves."""

    event_ids_: IntArray
    times_: FloatArray
    n_features_in_: int
    censoring_: KaplanMeierCensoring

    def _check_training(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Features, SurvivalTarget, FloatArray | None]:
        features = check_features(X)
        target = check_survival_target(y, late_entry=True)
        check_same_people(features.n_samples, target.n_samples)
        weight = check_sample_weight(sample_weight, target.n_samples)
        self._schema = features.schema
        self.n_features_in_ = features.n_features
        if features.names is not None:
            self.feature_names_in_ = np.array(features.names, dtype=object)
        self.event_ids_ = target.event_ids
        observed = target.duration[target.event > 0]
        self.times_ = np.unique(
            np.quantile(observed, np.linspace(0, 1, _N_TIMES), method="inverted_cdf")
        )
        self.censoring_ = KaplanMeierCensoring().fit(target, sample_weight=weight)
        return features, target, weight

    @abstractmethod
    def _incidence(self, features: Features, times: FloatArray) -> FloatArray:
        """Curves at the times, of shape (n_samples, K + 1, n_times)."""

    def predict_cumulative_incidence(
        self, X: Any, times: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Probabilities of all states at each time.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            People to predict for.
        times : array of shape (n_times,), optional
            Default: ``times_``.

        Returns
        -------
        float64 array of shape (n_samples, K + 1, n_times)
            Index 0 of axis 1 is the event-free probability; axis 1 sums to 1.
        """
        check_is_fitted(self)
        features = check_features(X, like=self._schema)
        return self._incidence(features, self.times_ if times is None else check_times(times))

    def predict_survival_function(self, X: Any, times: npt.ArrayLike | None = None) -> FloatArray:
        """Event-free probabilities at each time, of shape (n_samples, n_times)."""
        return self.predict_cumulative_incidence(X, times)[:, 0]

    def predict_proba(self, X: Any, time_horizon: float) -> FloatArray:
        """Probabilities of all states at one time, of shape (n_samples, K + 1)."""
        return self.predict_cumulative_incidence(X, [time_horizon])[:, :, 0]

    def predict(self, X: Any) -> FloatArray:
        """Risk of each person, higher is worse: incidence of any event, mean over ``times_``."""
        risk: FloatArray = 1 - self.predict_survival_function(X).mean(axis=1)
        return risk

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Negative integrated Brier score, averaged over all states; higher is better.

        It uses the part of ``times_`` within the follow-up of ``y``, and the censoring of the
        training data.
        """
        target = check_survival_target(y, event_ids=self.event_ids_, instead=SCORED_BY)
        times = self.times_[self.times_ < target.duration.max()]
        if len(times) == 0:
            msg = (
                f"The longest duration in `y` is {target.duration.max():g}, before the first "
                f"training event at {self.times_[0]:g}: there is nothing to score."
            )
            raise ValueError(msg)
        loss = integrated_brier_score(
            self.censoring_,
            target,
            self.predict_cumulative_incidence(X, times),
            times,
            average="all",
            sample_weight=sample_weight,
            event_ids=self.event_ids_,
        )
        return -float(loss)


class AalenJohansen(_Baseline):
    """Marginal incidence, the same for all people; Kaplan-Meier for one cause.

    Equations (6) and (7) of `survival_objectives.marginal`. A model that learns nothing from the
    features has the same scores.

    Attributes
    ----------
    event_ids_ : int64 array of shape (K + 1,)
        Labels of the states, 0 first.
    times_ : float64 array
        Default prediction times: up to 100 quantiles of the observed event times.
    curve_ : StepFunction
        The K + 1 curves.

    Examples
    --------
    >>> model = AalenJohansen().fit([[0.0], [0.0], [0.0]], ([1, 2, 0], [1.0, 2.0, 3.0]))
    >>> model.predict_proba([[5.0]], 2.5).round(3)
    array([[0.333, 0.333, 0.333]])
    """

    curve_: StepFunction

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Estimate the curves from outcomes ``y``; ``X`` is only checked."""
        _, target, weight = self._check_training(X, y, sample_weight)
        self.curve_ = aalen_johansen(target, weight)
        return self

    def _incidence(self, features: Features, times: FloatArray) -> FloatArray:
        # A copy for each person: callers may write into predictions.
        return np.repeat(self.curve_(times).T[None], features.n_samples, axis=0)


class CauseSpecificCox(_Baseline):
    r"""Cox regression of each cause, the others censored, combined into incidences.

    With the Breslow baseline H_k and coefficients b_k of each cause, at the event times u:

        dH_k(u|x) = dH_k(u) exp(b_k x),    dH(u|x) = sum_k dH_k(u|x)                            (44)
        S(t|x) = exp(-sum_{u <= t} dH(u|x))
        F_k(t|x) = sum_{u <= t} S(u-|x) (1 - exp(-dH(u|x))) dH_k(u|x) / dH(u|x)                 (45)

    so that the incidences and S sum to 1 at any time and never leave [0, 1]. Fitted by lifelines
    (``pip install lifelines``). Categorical columns become indicators of all levels but the first;
    missing values and more than 500 columns are refused.

    Parameters
    ----------
    penalizer : float, default=1e-4
        Weight of the ridge penalty of lifelines. The default hardly changes coefficients, and makes
        those of collinear features and of levels without events estimable. A regression that does
        not converge is fitted again with ten times the penalty, up to 1.

    Attributes
    ----------
    event_ids_ : int64 array of shape (K + 1,)
        Labels of the states, 0 first.
    times_ : float64 array
        Default prediction times: up to 100 quantiles of the observed event times.
    coefficients_ : float64 array of shape (n_columns, K)
        The b_k, one row per column of the regression; 0 for a constant column.
    jumps_ : float64 array of shape (n_jumps,)
        The event times u.
    baseline_hazards_ : float64 array of shape (n_jumps, K)
        The dH_k(u), at the mean of the features.
    penalizers_ : float64 array of shape (K,)
        The penalty with which each regression converged.
    """

    coefficients_: FloatArray
    jumps_: FloatArray
    baseline_hazards_: FloatArray
    penalizers_: FloatArray

    def __init__(self, penalizer: float = 1e-4) -> None:
        self.penalizer = penalizer

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit one regression per cause to features ``X`` and outcomes ``y``."""
        fitter = _cox_fitter()
        features, target, weight = self._check_training(X, y, sample_weight)
        design = _design_matrix(features)
        # A constant column has no coefficient, and lifelines would not converge.
        varies = np.ptp(design, axis=0) > 0
        if not varies.any():
            msg = "All columns of `X` are constant: there is nothing to regress on."
            raise ValueError(msg)
        if varies.sum() > _MOST_COLUMNS:
            msg = (
                f"Cox regression takes at most {_MOST_COLUMNS} columns; `X` has {varies.sum()}, "
                "with one per level of a category but the first. Select columns."
            )
            raise ValueError(msg)
        columns = [f"x{column}" for column in np.flatnonzero(varies)]
        frame = pd.DataFrame(design[:, varies], columns=columns)
        origin = pd.DataFrame(np.zeros((1, len(columns))), columns=columns)
        frame["duration"] = target.duration
        if target.entry is not None:
            frame["entry"] = target.entry
        if weight is not None:
            frame["weight"] = weight
            frame = frame[weight > 0]
        self.coefficients_ = np.zeros((design.shape[1], target.n_causes))
        self._offset = np.empty(target.n_causes)
        self.penalizers_ = np.empty(target.n_causes)
        self.jumps_ = np.unique(target.duration[target.event > 0])
        self.baseline_hazards_ = np.empty((len(self.jumps_), target.n_causes))
        for code in range(1, target.n_causes + 1):
            model = _converged(
                fitter,
                self.penalizer,
                frame.assign(event=(target.event == code)[frame.index]),
                weights_col=None if weight is None else "weight",
            )
            self.penalizers_[code - 1] = model.penalizer
            # The fitter itself, which holds the data of all people, is not kept.
            self.coefficients_[varies, code - 1] = model.params_
            self._offset[code - 1] = model.predict_log_partial_hazard(origin).iloc[0]
            risk = np.exp(design @ self.coefficients_[:, code - 1] + self._offset[code - 1])
            s = np.ones(len(risk)) if weight is None else weight
            self.baseline_hazards_[:, code - 1] = _breslow(target, code, s, s * risk, self.jumps_)
        return self

    def to_content(self, times: npt.ArrayLike) -> dict[str, Any]:
        """All that is needed to predict at ``times``, as data that JSON can hold.

        Baseline hazards are summed between the times, so that no individual event time is stored.
        """
        check_is_fitted(self)
        grid = check_times(times)
        cumulative = np.vstack([np.zeros(len(self._offset)), self.baseline_hazards_.cumsum(axis=0)])
        reached = cumulative[np.searchsorted(self.jumps_, grid, side="right")]
        return {
            "event_ids": self.event_ids_.tolist(),
            "times": grid.tolist(),
            "coefficients": self.coefficients_.tolist(),
            "offset": self._offset.tolist(),
            "hazards": np.diff(reached, axis=0, prepend=0).tolist(),
        }

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """The model that `to_content` described, for numeric arrays at those times."""
        model = cls()
        model.event_ids_ = np.array(content["event_ids"], np.int64)
        model.jumps_ = model.times_ = np.array(content["times"], np.float64)
        model.coefficients_ = np.array(content["coefficients"], np.float64)
        model._offset = np.array(content["offset"], np.float64)
        model.baseline_hazards_ = np.array(content["hazards"], np.float64)
        model.n_features_in_ = len(model.coefficients_)
        model._schema = Features(np.empty((0, model.n_features_in_), np.float32), None, {})
        return model

    def _incidence(self, features: Features, times: FloatArray) -> FloatArray:
        risk = np.exp(_design_matrix(features) @ self.coefficients_ + self._offset)
        position = np.searchsorted(self.jumps_, times, side="right")
        n_jumps, n_causes = self.baseline_hazards_.shape
        incidence = np.empty((len(risk), n_causes + 1, len(times)))
        size = max(1, _BLOCK_HAZARDS // (n_jumps * n_causes))
        for start in range(0, len(risk), size):
            rows = slice(start, start + size)
            incidence[rows] = _combined(self.baseline_hazards_, risk[rows])[:, :, position]
        return incidence


def _breslow(
    target: SurvivalTarget, code: int, weight: FloatArray, risk: FloatArray, jumps: FloatArray
) -> FloatArray:
    """Events at each of ``jumps`` over the ``risk`` of the people at risk then."""
    # lifelines takes late entry into its coefficients, and not into its baseline.
    happened = target.event == code
    place = np.searchsorted(jumps, target.duration[happened])
    events = np.bincount(place, weights=weight[happened], minlength=len(jumps))
    # At risk at the jumps before `last`, from `first` on.
    last = np.searchsorted(jumps, target.duration, side="right")
    first = np.zeros(len(last), np.int64)
    if target.entry is not None:
        late = target.entry > 0
        first[late] = np.searchsorted(jumps, target.entry[late], side="right")
    size = len(jumps) + 1
    change = np.bincount(last, weights=risk, minlength=size)
    change = change - np.bincount(first, weights=risk, minlength=size)
    at_risk = change[::-1].cumsum()[::-1][1:]
    hazard: FloatArray = np.divide(
        events, at_risk, out=np.zeros(len(jumps)), where=(events > 0) & (at_risk > 0)
    )
    return hazard


def _combined(baseline: FloatArray, risk: FloatArray) -> FloatArray:
    """Curves (44) and (45) before and after each jump, of shape (n_samples, K + 1, n_jumps + 1)."""
    hazard = risk[:, :, None] * baseline.T
    total = hazard.sum(axis=1)
    survival = np.exp(-np.cumsum(total, axis=1))
    before = np.concatenate([np.ones((len(risk), 1)), survival[:, :-1]], axis=1)
    leaving = -np.expm1(-total) * before
    share = np.divide(hazard, total[:, None], out=np.zeros_like(hazard), where=total[:, None] > 0)
    curves = np.zeros((len(risk), baseline.shape[1] + 1, len(baseline) + 1))
    curves[:, 0, 0] = 1
    curves[:, 0, 1:] = survival
    np.cumsum(leaving[:, None] * share, axis=2, out=curves[:, 1:, 1:])
    return curves


def _design_matrix(features: Features) -> FloatArray:
    """Features as columns of a regression: categories become indicators."""
    missing = np.isnan(features.values).any(axis=0)
    if missing.any():
        column = int(np.flatnonzero(missing)[0])
        name = column if features.names is None else repr(features.names[column])
        msg = f"Column {name} of `X` has missing values, which Cox regression cannot use. Impute."
        raise ValueError(msg)
    columns: list[FloatArray] = []
    for column, values in enumerate(features.values.T.astype(np.float64)):
        if column in features.categories:
            n_levels = len(features.categories[column])
            columns.extend((values == level).astype(np.float64) for level in range(1, n_levels))
        else:
            columns.append(values)
    return np.column_stack(columns) if columns else np.empty((features.n_samples, 0))


def _converged(fitter: Any, penalizer: float, frame: pd.DataFrame, weights_col: str | None) -> Any:
    """The first regression that converges, with penalties rising tenfold from ``penalizer``."""
    from lifelines.exceptions import ConvergenceError, ConvergenceWarning

    while True:
        model = fitter(penalizer=penalizer)
        try:
            with warnings.catch_warnings():
                # Warnings about possible convergence problems are ignored; failures are errors.
                warnings.filterwarnings("ignore", category=ConvergenceWarning)
                warnings.filterwarnings(
                    "error", message=".*(failed to converge|delta)", category=ConvergenceWarning
                )
                return model.fit(
                    frame,
                    duration_col="duration",
                    event_col="event",
                    weights_col=weights_col,
                    entry_col="entry" if "entry" in frame else None,
                    # Weights are not counts, so lifelines wants the sandwich variance with them.
                    robust=weights_col is not None,
                )
        except (ConvergenceError, ConvergenceWarning):
            penalizer = max(10 * penalizer, _LEAST_PENALTY)
            if penalizer > _LARGEST_PENALTY:
                raise


def _cox_fitter() -> Any:
    try:
        from lifelines import CoxPHFitter
    except ImportError as error:
        msg = "CauseSpecificCox fits its regressions with lifelines: `pip install lifelines`."
        raise ImportError(msg) from error
    return CoxPHFitter

"""A survival model at one horizon, as a scikit-learn regressor or classifier.

Many tools need one number per person (`cross_val_predict`, `partial_dependence`,
`permutation_importance`) or a binary classifier (`CalibrationDisplay`). The views predict the
incidence of a cause by a horizon. They are trained on survival outcomes, like the model itself.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import check_choice, check_times
from survival_objectives.metrics import brier_score
from survival_objectives.metrics._inputs import check_cause
from survival_objectives.metrics._scorers import predicted_curves, survival_model


class _HorizonView(BaseEstimator):  # type: ignore[misc]
    """Base class of both views: training, and the incidence at the horizon."""

    def __init__(self, estimator: Any, horizon: Any, cause: int = 0) -> None:
        self.estimator = estimator
        self.horizon = horizon
        self.cause = cause

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Any:
        """Train a copy of the model on survival outcomes ``y``."""
        _check_horizon(self.horizon)
        return _attached(self, clone(self.estimator).fit(X, y, **fit_params))

    def incidence(self, X: Any) -> FloatArray:
        """Probability that the cause, or any event for 0, has happened by the horizon."""
        check_is_fitted(self, "estimator_")
        curves = predicted_curves(self.estimator_, X, check_times(self.horizon))[:, :, 0]
        if self.cause == 0:
            survival: FloatArray = 1 - curves[:, 0]
            return survival
        model, _ = survival_model(self.estimator_, X)
        labels = np.asarray(getattr(model, "event_ids_", np.arange(curves.shape[1])))
        return np.asarray(curves[:, check_cause(self.cause, labels)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Negative Brier score at the horizon, of survival outcomes ``y``; higher is better.

        People are weighted by the Kaplan-Meier censoring of ``y`` itself. scikit-learn scorers for
        binary outcomes work too, if all outcomes are known at the horizon.
        """
        incidence = self.incidence(X)
        curve = incidence if self.cause else 1 - incidence
        model, _ = survival_model(self.estimator_, X)
        losses = brier_score(
            y,
            y,
            curve[:, None],
            self.horizon,
            cause=self.cause,
            sample_weight=sample_weight,
            event_ids=getattr(model, "event_ids_", None),
        )
        return -float(losses[0])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        tags.target_tags.two_d_labels = True
        tags.target_tags.multi_output = True
        return tags


class HorizonRegressor(RegressorMixin, _HorizonView):  # type: ignore[misc]
    """A survival model whose ``predict`` is the incidence of a cause by a horizon.

    Parameters
    ----------
    estimator : estimator
        With ``predict_cumulative_incidence(X, times)``, or a pipeline that ends in one.
    horizon : float
        Time >= 0.
    cause : int, default=0
        Label of a cause, or 0 for any event.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_predict
    >>> from survival_objectives import HazardBoost
    >>> from survival_objectives.datasets import make_competing_risks
    >>> data = make_competing_risks(200, n_causes=1, random_state=0)
    >>> model = HazardBoost(n_estimators=5, random_state=0)
    >>> cross_val_predict(HorizonRegressor(model, 1.0), data.X, data.y, cv=2).shape
    (200,)
    """

    score = _HorizonView.score

    def predict(self, X: Any) -> FloatArray:
        """Incidence of the cause by the horizon, (n_samples,)."""
        return self.incidence(X)


class HorizonClassifier(ClassifierMixin, _HorizonView):  # type: ignore[misc]
    """A survival model as a binary classifier of whether a cause has happened by a horizon.

    Parameters
    ----------
    estimator, horizon, cause
        As in `HorizonRegressor`.

    Attributes
    ----------
    classes_ : array of shape (2,)
        0 and 1: 1 for "the cause has happened".
    estimator_ : estimator
        The fitted model.
    """

    score = _HorizonView.score

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Any:
        """Train a copy of the model on survival outcomes ``y``, with named columns or as a pair."""
        if isinstance(y, np.ndarray) and y.dtype.names is None:
            msg = (
                f"A classifier view needs outcomes with names (a DataFrame) or as a pair; got an "
                f"array of shape {y.shape}. `cross_val_predict` with `predict_proba` replaces "
                "durations by class codes: use the regressor view there, "
                '`at_horizon(horizon, cause, kind="regressor")`.'
            )
            raise TypeError(msg)
        return super().fit(X, y, **fit_params)

    @property
    def classes_(self) -> IntArray:
        """0 and 1: 1 for "the cause has happened"."""
        check_is_fitted(self, "estimator_")
        return np.array([0, 1])

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities that the cause has not happened by the horizon, and that it has."""
        incidence = self.incidence(X)
        return np.column_stack([1 - incidence, incidence])

    def predict(self, X: Any) -> IntArray:
        """1 if the incidence is above one half, else 0."""
        return (self.incidence(X) > 0.5).astype(np.int64)


def view_at(
    model: Any, horizon: float, cause: int = 0, kind: str = "regressor"
) -> HorizonRegressor | HorizonClassifier:
    """The view of a model at a horizon, fitted if the model is fitted."""
    check_choice(kind, "kind", ("regressor", "classifier"))
    view = {"regressor": HorizonRegressor, "classifier": HorizonClassifier}[kind]
    found = view(model, horizon, cause)
    _check_horizon(horizon)
    if getattr(model, "__sklearn_is_fitted__", lambda: True)():
        check_cause(cause, model.event_ids_)
        _attached(found, model)
    return found


def _check_horizon(horizon: Any) -> None:
    if not isinstance(horizon, numbers.Real):
        msg = f"`horizon` must be one number; got {horizon!r}."
        raise TypeError(msg)
    check_times(horizon)


def _attached(view: _HorizonView, model: Any) -> Any:
    """The view with a fitted model."""
    view.estimator_ = model
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(view, name, getattr(model, name))
    return view

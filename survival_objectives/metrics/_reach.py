"""The survival model inside scikit-learn's pipelines and searches."""

from __future__ import annotations

from typing import Any

import numpy as np

from survival_objectives._arrays import FloatArray

_METHOD = "predict_cumulative_incidence"


def predicts_curves(estimator: Any) -> bool:
    """Whether an estimator, or the last step of a pipeline or search, predicts curves."""
    if isinstance(estimator, type):
        return False
    return hasattr(_innermost(estimator), _METHOD)


def survival_model(estimator: Any, X: Any) -> tuple[Any, Any]:
    """The model that predicts curves, and ``X`` as it gets it: transformed by all steps before.

    ``estimator`` is a survival model; a pipeline that ends in one, maybe through further pipelines;
    or a fitted search over these.
    """
    while not hasattr(estimator, _METHOD):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            if len(estimator.steps) > 1:
                X = estimator[:-1].transform(X)
            estimator = estimator[-1]
        else:
            msg = (
                f"{type(estimator).__name__} has no `{_METHOD}(X, times)`, and is no pipeline that "
                "ends in an estimator which has it, such as `HazardBoost`."
            )
            raise TypeError(msg)
    return estimator, X


def predicted_curves(estimator: Any, X: Any, times: FloatArray) -> FloatArray:
    """Curves of an estimator, through pipelines and searches, (n_samples, K + 1, n_times)."""
    model, features = survival_model(estimator, X)
    return np.asarray(model.predict_cumulative_incidence(features, times), np.float64)


def _innermost(estimator: Any) -> Any:
    while not hasattr(estimator, _METHOD):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "estimator"):
            estimator = estimator.estimator
        else:
            break
    return estimator

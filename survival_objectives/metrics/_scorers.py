"""Scores as scikit-learn scorers, and the survival model inside its pipelines and searches."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.metadata_routing import MetadataRequest

from survival_objectives._arrays import FloatArray
from survival_objectives._people import (
    SurvivalTarget,
    check_choice,
    check_positive_int,
    check_sample_weight,
    check_survival_target,
    check_times,
)
from survival_objectives.censoring import CensoringModel
from survival_objectives.metrics._estimate import Estimate
from survival_objectives.metrics._evaluation import Evaluation

#: Score by name: how it is computed, whether higher is better, and how many times it gets.
_SCORES: dict[str, tuple[Callable[..., Estimate], bool, int]] = {
    "brier": (lambda scores, **options: scores.brier(integrated=True, **options), False, 32),
    "log_loss": (lambda scores, **options: scores.log_loss(integrated=True, **options), False, 32),
    "likelihood": (Evaluation.likelihood, False, 32),
    "concordance": (Evaluation.concordance, True, 3),
    "auc": (Evaluation.auc, True, 32),
}


class SurvivalScorer:
    """A score as ``scorer(estimator, X, y)``; made by `make_survival_scorer`."""

    def __init__(
        self, score: str, censoring: Any, times: Any, n_times: int, options: dict[str, Any]
    ) -> None:
        self.score = score
        self.censoring = censoring
        self.times = times
        self.n_times = n_times
        self.options = options
        self.sample_weight_request: bool | str | None = None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of a fitted estimator on ``X`` and ``y``; higher is better."""
        model, features = survival_model(estimator, X)
        event_ids = getattr(model, "event_ids_", None)
        target = check_survival_target(y, event_ids=event_ids, require_event=False, late_entry=True)
        times = self.times
        if times is None:
            times = _scoring_times(target, sample_weight, self.n_times)
        evaluation = Evaluation(
            self.censoring,
            target,
            model.predict_cumulative_incidence(features, check_times(times)),
            times,
            X=X if isinstance(self.censoring, CensoringModel) else None,
            sample_weight=sample_weight,
            event_ids=event_ids,
        )
        function, greater_is_better, _ = _SCORES[self.score]
        values = np.atleast_1d(function(evaluation, **self.options).value)
        # Which values are undefined depends on the outcomes only, so estimators stay comparable.
        defined = values[~np.isnan(values)]
        mean = float(defined.mean()) if len(defined) else float("nan")
        return mean if greater_is_better else -mean

    def set_score_request(self, *, sample_weight: bool | str | None = None) -> SurvivalScorer:
        """A copy that asks for sample weights where scikit-learn routes metadata.

        Parameters
        ----------
        sample_weight : bool, str or None
            Whether weights are wanted, or under which name they are passed; None makes it an error
            to pass them.
        """
        scorer = copy.copy(self)
        scorer.sample_weight_request = sample_weight
        return scorer

    def get_metadata_routing(self) -> MetadataRequest:
        """What the scorer asks for, in scikit-learn's terms."""
        request = MetadataRequest(owner=repr(self))
        request.score.add_request(param="sample_weight", alias=self.sample_weight_request)
        return request

    def __repr__(self) -> str:
        sign = "" if _SCORES[self.score][1] else "-"
        return f"<SurvivalScorer {sign}{self.score}>"


def make_survival_scorer(
    score: str,
    *,
    censoring: Any = None,
    times: npt.ArrayLike | None = None,
    n_times: int | None = None,
    **options: Any,
) -> SurvivalScorer:
    """Scorer for scikit-learn, higher is better, from a score of `Evaluation`.

    Works wherever scikit-learn takes a callable ``scoring``: `GridSearchCV`, `cross_validate`,
    `permutation_importance`. The estimator needs ``predict_cumulative_incidence(X, times)``, or is
    a pipeline (also of pipelines, or a fitted search) whose last step has it: the steps before then
    transform ``X``. With metadata routing, ask for weights by
    ``scorer.set_score_request(sample_weight=True)``.

    Parameters
    ----------
    score : {"brier", "log_loss", "likelihood", "concordance", "auc"}
        Which: its mean over times and curves. "brier" and "log_loss" are integrated over time, and
        the sign of losses is turned. "likelihood" takes people who enter late.
    censoring : outcomes or CensoringModel, optional
        Source of the censoring weights. Default: Kaplan-Meier of the people scored, as a fold of
        a cross-validation does not know its training outcomes. A model gets their features.
    times : array of shape (n_times,), optional
        Horizons. Default: ``n_times`` of them evenly spaced from the 5 % to the 95 % quantile of
        the event times of the people scored, the same for all estimators of a comparison.
    n_times : int, optional
        How many. Default: 32, and 3 for "concordance".
    **options
        Of the method of `Evaluation`, e.g. ``cause=1``.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, sample_weight=None)``.

    Examples
    --------
    >>> make_survival_scorer("brier", cause=0)
    <SurvivalScorer -brier>
    """
    check_choice(score, "score", tuple(_SCORES))
    number = _SCORES[score][2] if n_times is None else check_positive_int(n_times, "n_times")
    return SurvivalScorer(score, censoring, times, number, options)


def _scoring_times(target: SurvivalTarget, sample_weight: Any, n_times: int) -> FloatArray:
    weight = check_sample_weight(sample_weight, target.n_samples)
    counts = (target.event > 0) & (True if weight is None else weight > 0)
    observed = target.duration[counts]
    if len(observed) == 0:
        msg = f"All {target.n_samples} people to score are censored. Pass `times`."
        raise ValueError(msg)
    # Of the kinds of quantiles, this one takes a weight of 2 for two people.
    first, last = np.quantile(
        observed,
        [0.05, 0.95],
        weights=None if weight is None else weight[counts],
        method="inverted_cdf",
    )
    return np.unique(np.linspace(first, last, n_times))


# ---------------------------------------------------------------------------------------- pipelines
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

"""Metrics as scikit-learn scorers, for model selection."""

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
    check_positive_int,
    check_sample_weight,
    check_survival_target,
    check_times,
)
from survival_objectives.censoring import CensoringModel
from survival_objectives.metrics._concordance import concordance_index, time_dependent_auc
from survival_objectives.metrics._integrals import integrated_brier_score, integrated_log_loss
from survival_objectives.metrics._reach import survival_model


class SurvivalScorer:
    """A metric as ``scorer(estimator, X, y)``; made by `make_survival_scorer`.

    Works wherever scikit-learn takes a callable ``scoring``: `GridSearchCV`, `cross_validate`,
    `permutation_importance`. The estimator needs ``predict_cumulative_incidence(X, times)``, or is
    a pipeline (also of pipelines, or a fitted search) whose last step has it: the steps before then
    transform ``X``. With metadata routing, ask for weights by
    ``scorer.set_score_request(sample_weight=True)``.
    """

    def __init__(
        self,
        metric: Callable[..., Any],
        *,
        greater_is_better: bool,
        censoring: Any,
        times: npt.ArrayLike | None,
        n_times: int,
        options: dict[str, Any],
        sample_weight_request: bool | str | None = None,
    ) -> None:
        self.metric = metric
        self.greater_is_better = greater_is_better
        self.censoring = censoring
        self.times = times
        self.n_times = check_positive_int(n_times, "n_times")
        self.options = options
        self.sample_weight_request = sample_weight_request

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of a fitted estimator on ``X`` and ``y``; higher is better."""
        model, features = survival_model(estimator, X)
        event_ids = getattr(model, "event_ids_", None)
        target = check_survival_target(y, event_ids=event_ids, require_event=False)
        times = self.times
        if times is None:
            times = _scoring_times(target, sample_weight, self.n_times)
        incidence = model.predict_cumulative_incidence(features, check_times(times))
        options = dict(self.options)
        if isinstance(self.censoring, CensoringModel):
            options["X"] = X
        value = self.metric(
            target if self.censoring is None else self.censoring,
            target,
            incidence,
            times,
            sample_weight=sample_weight,
            event_ids=event_ids,
            **options,
        )
        values = np.atleast_1d(value)
        # Which values are undefined depends on the outcomes only, so estimators stay comparable.
        defined = values[~np.isnan(values)]
        mean = float(defined.mean()) if len(defined) else float("nan")
        return mean if self.greater_is_better else -mean

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
        sign = "" if self.greater_is_better else "-"
        return f"<SurvivalScorer {sign}{getattr(self.metric, '__name__', self.metric)}>"


def make_survival_scorer(
    metric: Callable[..., Any],
    *,
    greater_is_better: bool,
    censoring: Any = None,
    times: npt.ArrayLike | None = None,
    n_times: int = 32,
    **options: Any,
) -> SurvivalScorer:
    """Scorer for scikit-learn, higher is better, from a metric of this package.

    Parameters
    ----------
    metric : callable
        ``metric(censoring, y_test, incidence, times, *, sample_weight, event_ids, ...)``. The mean
        of what it returns, over times and curves, is the score.
    greater_is_better : bool
        Whether the metric is; if not, its sign is turned.
    censoring : outcomes or CensoringModel, optional
        Source of the censoring weights. Default: Kaplan-Meier of the people scored, as a fold of
        a cross-validation does not know its training outcomes. A model gets their features.
    times : array of shape (n_times,), optional
        Horizons. Default: ``n_times`` of them evenly spaced from the 5 % to the 95 % quantile of
        the event times of the people scored, the same for all estimators of a comparison.
    n_times : int, default=32
        How many.
    **options
        Passed on to the metric, e.g. ``cause=1``.

    Returns
    -------
    SurvivalScorer

    Examples
    --------
    >>> from survival_objectives.metrics import brier_score
    >>> make_survival_scorer(brier_score, greater_is_better=False, cause=0)
    <SurvivalScorer -brier_score>
    """
    return SurvivalScorer(
        metric,
        greater_is_better=greater_is_better,
        censoring=censoring,
        times=times,
        n_times=n_times,
        options=options,
    )


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


integrated_brier_scorer = make_survival_scorer(
    integrated_brier_score, greater_is_better=False, average="all"
)
integrated_log_loss_scorer = make_survival_scorer(integrated_log_loss, greater_is_better=False)
concordance_scorer = make_survival_scorer(concordance_index, greater_is_better=True, n_times=3)
auc_scorer = make_survival_scorer(time_dependent_auc, greater_is_better=True)

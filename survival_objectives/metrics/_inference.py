"""Standard errors and intervals of scores, and comparisons of two models on the same people."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from survival_objectives._arrays import FloatArray
from survival_objectives._people import check_choice, check_fraction
from survival_objectives.metrics import _concordance, _integrals, _scores
from survival_objectives.metrics._influence import (
    Influence,
    auc_influence,
    concordance_influence,
    mean_influence,
    stacked,
)
from survival_objectives.metrics._inputs import (
    Evaluation,
    Weights,
    check_evaluation,
    ipcw_weights,
    warn_follow_up,
)


@dataclass(frozen=True)
class ScoreEstimate:
    """A score with its standard error and confidence interval.

    Attributes
    ----------
    value : float64 array
        What the metric returns.
    standard_error : float64 array
        NaN where ``value`` is, and for one person alone.
    lower, upper : float64 arrays
        Ends of the interval ``value`` -+ q ``standard_error``, inside the range of the metric.
    confidence : float
    """

    value: FloatArray
    standard_error: FloatArray
    lower: FloatArray
    upper: FloatArray
    confidence: float


@dataclass(frozen=True)
class ScoreDifference:
    """The scores of two models on the same people, compared.

    Attributes
    ----------
    difference : float64 array
        Score of the first model minus that of the second.
    standard_error : float64 array
        Of the difference; much smaller than those of the scores if the models are similar.
    lower, upper : float64 arrays
        Ends of the confidence interval.
    p_value : float64 array
        Two-sided, of the hypothesis that the true difference is 0; 1 for equal predictions.
    confidence : float
    """

    difference: FloatArray
    standard_error: FloatArray
    lower: FloatArray
    upper: FloatArray
    p_value: FloatArray
    confidence: float


def score_estimate(
    metric: Callable[..., Any],
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike | None,
    *,
    confidence: float = 0.95,
    groups: Any = None,
    **options: Any,
) -> ScoreEstimate:
    r"""Score of a model, its standard error and a confidence interval.

    From the influence functions (62) to (66). The error is that of scoring these people instead of
    all: predictions count as given, so that a model is judged, not a way of fitting it. Where
    ``censoring`` is outcomes, the error of the Kaplan-Meier weights is included, as in
    ``riskRegression::Score``, with which values agree for ``censoring`` equal to ``y_test``. Any
    other model of censoring counts as given and true.

    Parameters
    ----------
    metric : callable
        `brier_score`, `log_loss`, `cause_log_loss`, their integrals, `time_dependent_auc`,
        `concordance_index` or `uno_concordance_index`.
    censoring, y_test, incidence, times
        As the metric takes them; for `uno_concordance_index`, risks in place of ``incidence``.
    confidence : float, default=0.95
        Probability with which the interval covers the true score.
    groups : array of shape (n_samples,), optional
        Person of each row of ``y_test``, where people have several: they count as one observation
        in the error.
    **options
        Passed on to the metric, e.g. ``cause=1``. Sample weights are taken for probabilities of
        being sampled: people stay the units, whatever their weights sum to.

    Returns
    -------
    ScoreEstimate
        Of arrays of the shape that the metric returns.

    Examples
    --------
    >>> from survival_objectives.metrics import brier_score
    >>> y = ([1, 0, 1, 1, 0, 1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    >>> survival = [[0.3], [0.5], [0.4], [0.6], [0.7], [0.8]]
    >>> estimate = score_estimate(brier_score, y, y, survival, [2.5])
    >>> estimate.value.round(3), estimate.standard_error.round(3)
    (array([0.149]), array([0.041]))
    """
    influence = score_influence(metric, censoring, y_test, incidence, times, **options)
    influence = influence.summed(groups)
    quantile = _quantile(confidence)
    error = np.sqrt(influence.variance())
    lowest, highest = _RANGES[metric]
    return ScoreEstimate(
        influence.value,
        error,
        np.maximum(influence.value - quantile * error, lowest),
        np.minimum(influence.value + quantile * error, highest),
        confidence,
    )


def score_difference(
    metric: Callable[..., Any],
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    other_incidence: npt.ArrayLike,
    times: npt.ArrayLike | None,
    *,
    confidence: float = 0.95,
    groups: Any = None,
    **options: Any,
) -> ScoreDifference:
    r"""Difference between the scores of two models on the same people, with interval and p-value.

    The influences (62) of both models are subtracted person by person, so that what is common to
    the models cancels out. Assumptions as in `score_estimate`.

    Parameters
    ----------
    metric, censoring, y_test, incidence, times, confidence, groups, **options
        As in `score_estimate`.
    other_incidence : array
        Predictions of the second model, of the shape of ``incidence``.

    Returns
    -------
    ScoreDifference
        Of ``incidence`` minus ``other_incidence``: negative where the first model has the lower
        score, which is the better one for losses.

    Examples
    --------
    >>> from survival_objectives.metrics import brier_score
    >>> y = ([1, 0, 1, 1, 0, 1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    >>> good, even = [[0.3], [0.5], [0.4], [0.6], [0.7], [0.8]], [[0.5]] * 6
    >>> compared = score_difference(brier_score, y, y, good, even, [2.5])
    >>> compared.difference.round(3), compared.p_value.round(3)
    (array([-0.101]), array([0.01]))
    """
    first = score_influence(metric, censoring, y_test, incidence, times, **options)
    second = score_influence(metric, censoring, y_test, other_incidence, times, **options)
    return difference_of(first.summed(groups), second.summed(groups), confidence)


def difference_of(first: Influence, second: Influence, confidence: float) -> ScoreDifference:
    """The comparison of two scores by their influences."""
    quantile = _quantile(confidence)
    influence = first - second
    error = np.sqrt(influence.variance())
    scaled = np.divide(
        np.abs(influence.value), error, out=np.full(error.shape, np.nan), where=error > 0
    )
    # Equal predictions have no error and no difference.
    scaled = np.where((error == 0) & (influence.value == 0), 0.0, scaled)
    return ScoreDifference(
        influence.value,
        error,
        influence.value - quantile * error,
        influence.value + quantile * error,
        np.asarray(2 * norm.sf(scaled)),
        confidence,
    )


def _quantile(confidence: float) -> float:
    check_fraction(confidence, "confidence", zero=False, one=False)
    return float(norm.ppf((1 + confidence) / 2))


def score_influence(
    metric: Callable[..., Any],
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike | None,
    **options: Any,
) -> Influence:
    """Value of a metric and the influence of every person on it."""
    if metric not in _INFLUENCES:
        names = ", ".join(f"`{known.__name__}`" for known in _INFLUENCES)
        msg = (
            f"There is no standard error of {getattr(metric, '__name__', metric)!r}; there is one "
            f"of {names}."
        )
        raise ValueError(msg)
    # Options that the metric does not have are a TypeError that names them.
    inspect.signature(metric).bind(censoring, y_test, incidence, times, **options)
    return _INFLUENCES[metric](censoring, y_test, incidence, times, **options)


# ------------------------------------------------------------------------------- metric by metric
def _of_losses(
    terms: Callable[..., Iterable[FloatArray]], *, integrated: bool
) -> Callable[..., Influence]:
    """Influence of means of losses, one for every array of ``terms``, maybe integrated."""

    def influence(
        censoring: Any,
        y_test: Any,
        incidence: npt.ArrayLike,
        times: npt.ArrayLike,
        *,
        cause: int | None = None,
        average: str | None = "causes",
        rule: str = "trapezoid",
        X: Any = None,
        sample_weight: Any = None,
        event_ids: npt.ArrayLike | None = None,
        min_censoring_survival: float = 0.0,
        **options: Any,
    ) -> Influence:
        shared = (X, sample_weight, event_ids, min_censoring_survival)
        evaluation, weights = _scores.weighted_evaluation(
            censoring, y_test, incidence, times, cause, *shared
        )
        consequence = "They are left out." if integrated else "The scores there are NaN."
        warn_follow_up(evaluation.times, weights.known, weights.reason, consequence, depth=2)
        parts = []
        for losses in terms(evaluation, weights, cause, **options):
            part = mean_influence(evaluation, weights, losses, min_censoring_survival)
            if integrated:
                part = part.map(
                    lambda values: _integrals.integrated_score(values, evaluation.times, rule=rule)
                )
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        if not integrated or average is None:
            return stacked(parts)
        first = _integrals.first_averaged(average)
        return stacked(parts).map(lambda values: values[:, first:].mean(axis=1))

    return influence


def _squared_errors(
    evaluation: Evaluation, weights: Weights, cause: int | None
) -> Iterable[FloatArray]:
    return _scores.weighted_losses(evaluation, weights, cause, _scores.squared_error)


def _cause_log_losses(
    evaluation: Evaluation, weights: Weights, cause: int | None, min_probability: float = 1e-15
) -> Iterable[FloatArray]:
    loss = _scores.binary_log_loss(min_probability)
    return _scores.weighted_losses(evaluation, weights, cause, loss)


def _log_losses(
    evaluation: Evaluation, weights: Weights, _: int | None, min_probability: float = 1e-15
) -> Iterable[FloatArray]:
    return [_scores.weighted_vector_losses(evaluation, weights, min_probability)]


def _of_auc(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    controls: str = "all",
    min_censoring_survival: float = 0.0,
    **shared: Any,
) -> Influence:
    check_choice(controls, "controls", ("all", "event-free"))
    evaluation = check_evaluation(censoring, y_test, incidence, times, cause=cause, **shared)
    weights = ipcw_weights(evaluation, min_censoring_survival)
    parts = [
        auc_influence(evaluation, weights, code, risk, controls, min_censoring_survival)
        for code, risk in evaluation.risks(cause)
    ]
    return _curves(evaluation, cause, parts)


def _of_concordance(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    weighted: bool = True,
    min_censoring_survival: float = 0.0,
    **shared: Any,
) -> Influence:
    evaluation = check_evaluation(
        censoring, y_test, incidence, times, cause=cause, weighted=weighted, **shared
    )
    parts = [
        concordance_influence(evaluation, code, risk, min_censoring_survival)
        for code, risk in evaluation.risks(cause)
    ]
    return _curves(evaluation, cause, parts)


def _of_uno_concordance(
    censoring: Any,
    y_test: Any,
    risk: npt.ArrayLike,
    times: npt.ArrayLike | None = None,
    *,
    cause: int = 0,
    min_censoring_survival: float = 0.0,
    **shared: Any,
) -> Influence:
    evaluation, score = _concordance.check_risk(censoring, y_test, risk, times, cause, **shared)
    repeated = np.repeat(score[:, None], len(evaluation.times), axis=1)
    code = evaluation.cause_code(cause)
    part = concordance_influence(evaluation, code, repeated, min_censoring_survival)
    return _curves(evaluation, cause, [part])


def _curves(evaluation: Evaluation, cause: int | None, parts: list[Influence]) -> Influence:
    _concordance.warn_undefined(evaluation.times, np.stack([part.value for part in parts]), depth=4)
    if evaluation.incidence.ndim == 2 or cause is not None:
        return parts[0]
    return stacked(parts)


_INFLUENCES: dict[Callable[..., Any], Callable[..., Influence]] = {
    _scores.brier_score: _of_losses(_squared_errors, integrated=False),
    _integrals.integrated_brier_score: _of_losses(_squared_errors, integrated=True),
    _scores.log_loss: _of_losses(_log_losses, integrated=False),
    _integrals.integrated_log_loss: _of_losses(_log_losses, integrated=True),
    _scores.cause_log_loss: _of_losses(_cause_log_losses, integrated=False),
    _integrals.integrated_cause_log_loss: _of_losses(_cause_log_losses, integrated=True),
    _concordance.time_dependent_auc: _of_auc,
    _concordance.concordance_index: _of_concordance,
    _concordance.uno_concordance_index: _of_uno_concordance,
}
_RANGES = {
    metric: (0.0, np.inf if "log_loss" in metric.__name__ else 1.0) for metric in _INFLUENCES
}

r"""Proper scores at horizons, re-weighted for censoring.

Let Y_k(z) = [t_i <= z, d_i = k] say whether cause k has happened by z, and Y_0(z) = [t_i > z]
whether nothing has. All scores are losses, lower is better, and all means are weighted by
``sample_weight`` s:

    mean_i a_i = sum_i s_i a_i / sum_i s_i.

A score that is (strictly) proper for a binary or categorical outcome stays (strictly) proper for
the incidence at z when it is weighted by (20) with the true G: then the expectation of w_i(z) given
x_i and the uncensored outcome is 1 (Proposition of Alberge et al., AISTATS 2025, appendix). This
needs an event time that is independent of the censoring time given x. Kaplan-Meier weights need
more: censoring that does not depend on x. Otherwise pass a conditional model, or the true one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives._people import check_fraction
from survival_objectives.metrics._inputs import (
    Evaluation,
    Weights,
    check_evaluation,
    ipcw_weights,
    warn_follow_up,
)

BinaryScore = Callable[[FloatArray, BoolArray], npt.ArrayLike]

# Predicted probabilities need not sum to 1 exactly where they were stored in float16 or by text.
_SUM_TOLERANCE = 1e-3
_NAN_BEYOND = "The scores there are NaN."


def weighted_score(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    score: BinaryScore,
    cause: int | None = None,
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_censoring_survival: float = 0.0,
) -> FloatArray:
    r"""Mean of any binary score at each time, weighted for censoring.

        L_k(z) = mean_i w_i(z) score(F_k(z|x_i), Y_k(z))                                        (21)

    with F_0 the event-free probability. (Strictly) proper for F_k(z|x) where ``score`` is, with
    the true censoring probabilities in (20).

    Parameters
    ----------
    censoring : outcomes or CensoringModel
        Training outcomes, whose censoring is then estimated by Kaplan-Meier, or any model with the
        method of `survival_objectives.censoring.CensoringModel`, an oracle included. Outcomes equal
        to ``y_test`` are those of the test people, and ``sample_weight`` applies here too; for
        training people with weights of their own, pass
        ``KaplanMeierCensoring().fit(y_train, sample_weight=...)``.
    y_test : outcomes
        What happened to the people predicted for.
    incidence : array of shape (n_samples, K + 1, n_times) or (n_samples, n_times)
        Predicted probabilities, the event-free one first. In two dimensions: the event-free
        probability, or the incidence of ``cause`` where that is given.
    times : array of shape (n_times,)
        Horizons z, in any order.
    score : callable
        ``score(probability, outcome)`` of a float and a bool array of the same shape, elementwise.
    cause : int, optional
        Label of a cause, or 0 for being event-free. Default: all of them. One that is not among the
        labels is an error.
    X : features, optional
        Features of the test people, for a censoring model that depends on them.
    sample_weight : array of shape (n_samples,), optional
        Weights of the test people; a weight of 2 acts like a repeated person.
    event_ids : array of shape (K + 1,), optional
        Labels of the curves, 0 first. Default: those of the outcomes.
    min_censoring_survival : float, default=0.0
        Smaller censoring probabilities count as this one in the weights.

    Returns
    -------
    float64 array of shape (n_times,), or (K + 1, n_times) for all curves
        NaN, with a `FollowUpWarning`, at times beyond follow-up: after the last test person if they
        are censored, and where a weight would need the censoring after the last training person.

    Examples
    --------
    >>> y = ([1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    >>> survival = [[0.5], [0.5], [0.5], [0.5]]
    >>> weighted_score(y, y, survival, [2.5], score=lambda p, happened: abs(p - happened))
    array([0.5])
    """
    shared = (X, sample_weight, event_ids, min_censoring_survival)
    evaluation, weights = weighted_evaluation(censoring, y_test, incidence, times, cause, *shared)
    scores = binary_scores(evaluation, weights, cause, score)
    warn_follow_up(evaluation.times, weights.known, weights.reason, _NAN_BEYOND)
    return scores


def brier_score(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_censoring_survival: float = 0.0,
) -> FloatArray:
    r"""Brier score at each time, of one cause, of being event-free, or of all.

        BS_k(z) = mean_i w_i(z) (F_k(z|x_i) - Y_k(z))^2                                         (22)

    Strictly proper for F_k(z|x), with the true censoring probabilities in (20). With Kaplan-Meier
    and k = 0 it is the score of Graf et al. (1999); with k > 0 that of Schoop et al. (2011).

    Parameters
    ----------
    censoring, y_test, incidence, times, cause, X, sample_weight, event_ids, min_censoring_survival
        As in `weighted_score`.

    Returns
    -------
    float64 array of shape (n_times,), or (K + 1, n_times) for all curves
        NaN, with a `FollowUpWarning`, at times beyond follow-up.

    Examples
    --------
    >>> y = ([1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    >>> brier_score(y, y, [[0.5], [0.5], [0.5], [0.5]], [2.5])
    array([0.25])
    """
    shared = (X, sample_weight, event_ids, min_censoring_survival)
    evaluation, weights = weighted_evaluation(censoring, y_test, incidence, times, cause, *shared)
    scores = binary_scores(evaluation, weights, cause, squared_error)
    warn_follow_up(evaluation.times, weights.known, weights.reason, _NAN_BEYOND)
    return scores


def log_loss(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_censoring_survival: float = 0.0,
    min_probability: float = 1e-15,
) -> FloatArray:
    r"""Log-loss of the whole vector of incidences at each time, the paper's L_zeta.

        L(z) = -mean_i w_i(z) sum_{k=0..K} Y_k(z) log F_k(z|x_i)                                (23)

    with F_0 the event-free probability. Strictly proper for the vector (F_0, ..., F_K) at z, with
    the true censoring probabilities in (20) (Theorem 4.2 of Alberge et al., AISTATS 2025, where the
    sign is the other one). Event-free curves alone (two dimensions) are scored as K = 1.

    Parameters
    ----------
    censoring, y_test, incidence, times, X, sample_weight, event_ids, min_censoring_survival
        As in `weighted_score`. The K + 1 probabilities must sum to 1.
    min_probability : float, default=1e-15
        Smaller predicted probabilities count as this one, so that the loss is finite.

    Returns
    -------
    float64 array of shape (n_times,)
        NaN, with a `FollowUpWarning`, at times beyond follow-up.

    Examples
    --------
    >>> y = ([1, 0, 2, 1], [1.0, 2.0, 3.0, 4.0])
    >>> incidence = np.full((4, 3, 1), 1 / 3)
    >>> log_loss(y, y, incidence, [2.5]).round(4)  # log 3
    array([1.0986])
    """
    shared = (X, sample_weight, event_ids, min_censoring_survival)
    evaluation, weights = weighted_evaluation(censoring, y_test, incidence, times, None, *shared)
    scores = vector_log_loss(evaluation, weights, min_probability)
    warn_follow_up(evaluation.times, weights.known, weights.reason, _NAN_BEYOND)
    return scores


def cause_log_loss(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    X: Any = None,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
    min_censoring_survival: float = 0.0,
    min_probability: float = 1e-15,
) -> FloatArray:
    r"""Binary log-loss at each time, of one cause, of being event-free, or of all.

        L_k(z) = -mean_i w_i(z) (Y_k(z) log F_k(z|x_i) + (1 - Y_k(z)) log(1 - F_k(z|x_i)))      (24)

    Strictly proper for F_k(z|x), with the true censoring probabilities in (20).

    Parameters
    ----------
    censoring, y_test, incidence, times, cause, X, sample_weight, event_ids, min_censoring_survival
        As in `weighted_score`.
    min_probability : float, default=1e-15
        Smaller predicted probabilities, of the outcome or of its complement, count as this one.

    Returns
    -------
    float64 array of shape (n_times,), or (K + 1, n_times) for all curves
        NaN, with a `FollowUpWarning`, at times beyond follow-up.
    """
    shared = (X, sample_weight, event_ids, min_censoring_survival)
    evaluation, weights = weighted_evaluation(censoring, y_test, incidence, times, cause, *shared)
    scores = binary_scores(evaluation, weights, cause, binary_log_loss(min_probability))
    warn_follow_up(evaluation.times, weights.known, weights.reason, _NAN_BEYOND)
    return scores


# ----------------------------------------------------------------------------------------- pieces
def weighted_evaluation(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    cause: int | None,
    X: Any,
    sample_weight: Any,
    event_ids: npt.ArrayLike | None,
    min_censoring_survival: float,
) -> tuple[Evaluation, Weights]:
    """Checked arguments of a score, and its weights (20)."""
    shared = (cause, X, sample_weight, event_ids)
    evaluation = check_evaluation(censoring, y_test, incidence, times, *shared)
    return evaluation, ipcw_weights(evaluation, min_censoring_survival)


def squared_error(probability: FloatArray, outcome: BoolArray) -> FloatArray:
    """Loss of the Brier score (22)."""
    error: FloatArray = probability - outcome
    return error * error


def binary_log_loss(min_probability: float) -> BinaryScore:
    """Loss of (24), with probabilities not below ``min_probability``."""
    floor = check_fraction(min_probability, "min_probability", one=False)

    def score(probability: FloatArray, outcome: BoolArray) -> FloatArray:
        return _minus_log(np.where(outcome, probability, 1 - probability), floor)

    return score


def _minus_log(probability: FloatArray, floor: float) -> FloatArray:
    with np.errstate(divide="ignore"):  # Without a floor, an event called impossible costs inf.
        loss: FloatArray = -np.log(np.maximum(probability, floor))
    return loss


def binary_scores(
    evaluation: Evaluation, weights: Weights, cause: int | None, score: BinaryScore
) -> FloatArray:
    """Equation (21), one row per curve; a single curve has no first axis."""
    rows = [
        evaluation.average(losses) for losses in weighted_losses(evaluation, weights, cause, score)
    ]
    scores = weights.blank_unknown(np.stack(rows))
    return scores[0] if evaluation.incidence.ndim == 2 or cause is not None else scores


def weighted_losses(
    evaluation: Evaluation, weights: Weights, cause: int | None, score: BinaryScore
) -> Iterator[FloatArray]:
    """Terms of the mean (21) of every curve asked for, (n_samples, n_times)."""
    target = evaluation.target
    happened = target.duration[:, None] <= evaluation.times
    for code, curve in evaluation.curves(cause):
        outcome = ~happened if code == 0 else happened & (target.event == code)[:, None]
        losses = np.asarray(score(curve, outcome), dtype=np.float64)
        if losses.shape != curve.shape:
            msg = f"`score` returned shape {losses.shape} for probabilities of {curve.shape}."
            raise ValueError(msg)
        yield _product(weights.values, losses)


def vector_log_loss(evaluation: Evaluation, weights: Weights, min_probability: float) -> FloatArray:
    """Equation (23) at all times."""
    losses = weighted_vector_losses(evaluation, weights, min_probability)
    return weights.blank_unknown(evaluation.average(losses))


def weighted_vector_losses(
    evaluation: Evaluation, weights: Weights, min_probability: float
) -> FloatArray:
    """Terms of the mean (23), (n_samples, n_times)."""
    floor = check_fraction(min_probability, "min_probability", one=False)
    states, target = evaluation.all_states(), evaluation.collapsed_target()
    total = states.sum(axis=1)
    worst = np.unravel_index(np.abs(total - 1).argmax(), total.shape)
    if abs(total[worst] - 1) > _SUM_TOLERANCE:
        msg = (
            f"The probabilities of person {worst[0]} at time {evaluation.times[worst[1]]:g} sum to "
            f"{total[worst]:g}, not 1, so their log-loss is not proper. Normalise them, or score "
            "each cause with `cause_log_loss`."
        )
        raise ValueError(msg)
    happened = target.duration[:, None] <= evaluation.times
    state = np.where(happened, target.event[:, None], 0)
    observed = np.take_along_axis(states, state[:, None, :], axis=1)[:, 0]
    return _product(weights.values, _minus_log(observed, floor))


def _product(weight: FloatArray, losses: FloatArray) -> FloatArray:
    # People of weight 0 do not count even where their loss is infinite.
    return np.multiply(weight, losses, out=np.zeros(losses.shape), where=weight > 0)

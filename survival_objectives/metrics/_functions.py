"""The common scores as functions, for one number without its error."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from survival_objectives._arrays import FloatArray
from survival_objectives._people import check_choice
from survival_objectives.metrics._evaluation import Evaluation


def brier_score(
    y_train: Any,
    y: Any,
    curves: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    **options: Any,
) -> FloatArray:
    """Brier score at each time: the value of `Evaluation.brier`.

    Parameters
    ----------
    y_train, y, curves, times, **options
        As in `Evaluation`.
    cause : int, optional
        Label of a cause, or 0 for being event-free. Default: all of them.

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
    return Evaluation(y_train, y, curves, times, **options).brier(cause).value


def integrated_brier_score(
    y_train: Any,
    y: Any,
    curves: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    average: str | None = "causes",
    rule: str = "trapezoid",
    **options: Any,
) -> Any:
    """Brier score integrated over time: from `Evaluation.brier`.

    Parameters
    ----------
    y_train, y, curves, times, **options
        As in `Evaluation`.
    cause : int, optional
        Label of a cause, or 0 for being event-free. Default: an average.
    average : {"causes", "all"} or None, default="causes"
        What to return where ``cause`` is not given: the mean over the K causes (the paper's, who
        prints the sum); the mean over the causes and the event-free curve (that of ``score`` of
        hazardous); or an array with one value per curve.
    rule : {"trapezoid", "steps"}, default="trapezoid"
        How to integrate: by (25) from the first of the times, or by (60) from 0, as R does.

    Returns
    -------
    float, or float64 array of shape (K + 1,) with ``average=None``
        The integral ends before times beyond follow-up, with a `FollowUpWarning`.

    Examples
    --------
    >>> import numpy as np
    >>> y = ([1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    >>> integrated_brier_score(y, y, np.full((4, 2), 0.5), [1.5, 2.5])
    0.25
    """
    evaluation = Evaluation(y_train, y, curves, times, **options)
    values = evaluation.brier(cause, integrated=True, rule=rule).value
    if values.ndim == 0:
        return float(values)
    if average is None:
        return values
    first = {"causes": 1, "all": 0}[check_choice(average, "average", ("causes", "all"))]
    return float(values[first:].mean())


def concordance_index(
    y_train: Any,
    y: Any,
    curves: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    weighted: bool = True,
    **options: Any,
) -> FloatArray:
    """Concordance index at each time: the value of `Evaluation.concordance`.

    Parameters
    ----------
    y_train, y, curves, times, **options
        As in `Evaluation`.
    cause : int, optional
        Label of a cause, or 0 for any event. Default: all of them.
    weighted : bool, default=True
        Whether pairs are weighted for censoring.

    Returns
    -------
    float64 array of shape (n_times,), or (K + 1, n_times) for all curves
        NaN, with a `FollowUpWarning`, where no pair can be compared or a weight is infinite.

    Examples
    --------
    >>> y = ([1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    >>> concordance_index(y, y, [[0.1], [0.5], [0.6], [0.4]], [3.5]).round(3)
    array([0.571])
    """
    evaluation = Evaluation(y_train, y, curves, times, **options)
    return evaluation.concordance(cause, weighted=weighted).value


def time_dependent_auc(
    y_train: Any,
    y: Any,
    curves: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    controls: str = "all",
    **options: Any,
) -> FloatArray:
    """Area under the cumulative/dynamic ROC curve at each time: the value of `Evaluation.auc`.

    Parameters
    ----------
    y_train, y, curves, times, **options
        As in `Evaluation`.
    cause : int, optional
        Label of a cause, or 0 for any event. Default: all of them.
    controls : {"all", "event-free"}, default="all"
        Which people are controls.

    Returns
    -------
    float64 array of shape (n_times,), or (K + 1, n_times) for all curves
        NaN, with a `FollowUpWarning`, beyond follow-up and where there is no case or no control.

    Examples
    --------
    >>> y = ([1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    >>> time_dependent_auc(y, y, [[0.1], [0.5], [0.6], [0.4]], [3.5])
    array([0.4])
    """
    return Evaluation(y_train, y, curves, times, **options).auc(cause, controls=controls).value


def likelihood_score(
    y_train: Any,
    y: Any,
    curves: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    n_nodes: int = 32,
    nodes: npt.ArrayLike | None = None,
    min_probability: float = 1e-15,
    **options: Any,
) -> float:
    """Minus the log-likelihood per person: the value of `Evaluation.likelihood`.

    Takes people who enter late.

    Parameters
    ----------
    y_train, y, curves, times, **options
        As in `Evaluation`.
    n_nodes, nodes, min_probability
        As in `Evaluation.likelihood`.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> import numpy as np
    >>> y = ([1, 0, 1], [1.0, 1.0, 2.0])
    >>> survival = np.array([[0.5, 0.25]] * 3)
    >>> round(likelihood_score(None, y, survival, [1.0, 2.0], n_nodes=2), 4)
    0.9242
    """
    evaluation = Evaluation(y_train, y, curves, times, **options)
    found = evaluation.likelihood(n_nodes=n_nodes, nodes=nodes, min_probability=min_probability)
    return float(found.value)

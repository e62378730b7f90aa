r"""Completion of censored people: the distribution of their state at a later horizon.

A person who was censored at c was event-free then. A model of the incidences F(t | x) gives the
probability of each state at a horizon z > c:

    psi_k = (F_k(z|x) - F_k(c|x)) / S(c|x),    k = 1..K,    psi_0 = S(z|x) / S(c|x).           (46)

With these distributions as targets (equation (19) of `survival_objectives.losses`) every row counts
1: there are no censoring weights and nothing to refresh. Negative increments of a model count as 0,
as in equation (15) of `survival_objectives.stacking`.

The model that completes a person must not have been fitted to that person: a model that overfits
its training people would repeat its own errors. So models come from other people, or are
cross-fitted (`cross_fitted`): each person is completed by a model that was fitted without them.

Any object with the method of `CompletionModel` can be used, such as a fitted
`survival_objectives.HazardBoost`, or a model of a single cause behind `SurvivalCompletion`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import engine
from survival_objectives._hazards.training import default_hazards
from survival_objectives._people import SurvivalTarget, take_rows, warn
from survival_objectives._people.population import TimeAxis
from survival_objectives.marginal import aalen_johansen
from survival_objectives.stacking import TrainingRows, conditional_incidence, rows_after_censoring

#: Incidences (n_people, K + 1, n_times) of some people, by their positions, at sorted times.
Incidence = Callable[[IntArray, FloatArray], npt.ArrayLike]

# People whose mean curve is compared with that of all, and by what factor hazards may differ: less
# than that of months and weeks.
_N_COMPARED, _UNIT_FACTOR = 200, 4.0
# Times at which a model is evaluated; its curves are interpolated linearly between them.
_N_TIMES = 192
# People who are evaluated at a time: 4096 x 4 states x 192 times take 25 MB.
_N_PEOPLE = 4096
# Rounding of probabilities that a model may have, and of curves that should be monotone.
_TOLERANCE = 1e-4


@runtime_checkable
class CompletionModel(Protocol):
    """A fitted model of the incidences, which completes people who were censored."""

    def predict_cumulative_incidence(self, X: Any, times: Any) -> FloatArray:
        """Probability of each state at each time.

        Parameters
        ----------
        X : features of the n_samples people
            As they were given to the objective.
        times : float64 array of shape (n_times,)
            Increasing times >= 0.

        Returns
        -------
        array of shape (n_samples, K + 1, n_times)
            Index 0 is the probability of being event-free, index k the incidence of cause k, in
            the order of ``event_ids_`` of the objective. They sum to 1.
        """


class SurvivalCompletion:
    """A completion model of a single cause, from a function that gives survival curves.

    Parameters
    ----------
    survival : callable
        ``survival(X, times)`` returns event-free probabilities, (n_samples, n_times). For a fitted
        Cox model ``cox`` of lifelines:
        ``lambda X, times: cox.predict_survival_function(X, times).to_numpy().T``.

    Examples
    --------
    >>> model = SurvivalCompletion(lambda X, times: np.exp(-np.outer(X[:, 0], times)))
    >>> model.predict_cumulative_incidence(np.array([[1.0]]), np.array([0.0, 1.0])).round(3)
    array([[[1.   , 0.368],
            [0.   , 0.632]]])
    """

    def __init__(self, survival: Callable[[Any, Any], npt.ArrayLike]) -> None:
        self.survival = survival

    def predict_cumulative_incidence(self, X: Any, times: Any) -> FloatArray:
        """Event-free probability and incidence, (n_samples, 2, n_times)."""
        survival = np.asarray(self.survival(X, times), dtype=np.float64)
        return np.stack([survival, 1 - survival], axis=1)


# ---------------------------------------------------------------------------------------- targets
def completed_targets(
    target: SurvivalTarget, rows: TrainingRows, at_horizon: FloatArray, at_exit: FloatArray
) -> Float32Array:
    """Distributions of the states of all rows: equation (46) where censored, else one state.

    Parameters
    ----------
    target : SurvivalTarget
        Outcomes aligned to the time axis.
    rows : TrainingRows
        All rows of these people, from `survival_objectives.stacking.all_rows`.
    at_horizon, at_exit : arrays of shape (n_rows, K + 1)
        Probabilities of the states at the horizons of rows after censoring
        (`survival_objectives.stacking.rows_after_censoring`) and at the times at which their people
        were censored.

    Returns
    -------
    float32 array of shape (n_rows, K + 1), in Fortran order
        Rows sum to 1.
    """
    psi = one_state(rows.target, target.n_causes + 1)
    after = rows_after_censoring(target, rows)
    incidence = conditional_incidence(at_horizon, at_exit)
    psi[after, 1:] = incidence
    psi[after, 0] = 1 - incidence.sum(axis=1)
    return psi


def one_state(labels: npt.NDArray[Any], n_states: int) -> Float32Array:
    """Distributions with all probability at the label, in Fortran order as the loss likes them.

    >>> one_state(np.array([0, 2], np.int32), 3)
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    psi = np.zeros((len(labels), n_states), np.float32, order="F")
    psi[np.arange(len(labels)), labels] = 1
    return psi


def states_after_censoring(
    incidence: Incidence,
    target: SurvivalTarget,
    rows: TrainingRows,
    axis: TimeAxis,
) -> tuple[FloatArray, FloatArray]:
    """Probabilities of the states of rows after censoring, at their horizons and at the exits.

    Parameters
    ----------
    incidence : callable
        ``incidence(people, times)`` gives the curves of people by their positions.
    target, rows
        As in `completed_targets`.
    axis : TimeAxis
        Units of time: within a unit, the model is evaluated after its beginning.

    Returns
    -------
    at_horizon, at_exit : arrays of shape (n_rows, K + 1)
    """
    after = rows_after_censoring(target, rows)
    n_states = target.n_causes + 1
    states = np.empty((2, len(after), n_states))
    if not len(after):
        return states[0], states[1]
    person = rows.person[after]
    asked = _asked_times(
        np.stack([rows.horizon[after].astype(np.float64), target.duration[person]]), axis
    )
    times = np.unique(asked)
    if len(times) > _N_TIMES:
        times = np.unique(np.quantile(asked, np.linspace(0, 1, _N_TIMES)))
    people, position = np.unique(person, return_inverse=True)
    for first in range(0, len(people), _N_PEOPLE):
        block = people[first : first + _N_PEOPLE]
        curves = _checked_curves(incidence(block, times), (len(block), n_states, len(times)))
        inside = np.flatnonzero((position >= first) & (position < first + _N_PEOPLE))
        for kind in (0, 1):
            states[kind, inside] = _at_own_times(
                curves, times, position[inside] - first, asked[kind, inside]
            )
    return states[0], states[1]


def _asked_times(times: FloatArray, axis: TimeAxis) -> FloatArray:
    if not axis.unit:
        return times
    # A model of the user's may know steps at whole units: a beginning that is rounded down must
    # not be taken for the unit before.
    return axis.number(times) * axis.unit * (1 + 1e-6)


def _at_own_times(
    curves: FloatArray, times: FloatArray, person: IntArray, own: FloatArray
) -> FloatArray:
    """Linear interpolation of curves, each row at a time of its own, (n_rows, K + 1)."""
    right = np.clip(np.searchsorted(times, own), min(1, len(times) - 1), len(times) - 1)
    left = np.maximum(right - 1, 0)
    width = times[right] - times[left]
    share = np.divide(own - times[left], width, out=np.ones_like(own), where=width > 0)
    share = np.clip(share, 0.0, 1.0)[:, None]
    between: FloatArray = (1 - share) * curves[person, :, left] + share * curves[person, :, right]
    return between


def _checked_curves(curves: npt.ArrayLike, shape: tuple[int, int, int]) -> FloatArray:
    """Incidences of a completion model, or an error that says what is wrong with them."""
    array = np.asarray(curves, dtype=np.float64)
    if array.shape != shape:
        msg = (
            f"The completion model returned shape {array.shape} for {shape[0]} people, "
            f"{shape[1]} states (event-free first) and {shape[2]} times; expected {shape}."
        )
        raise ValueError(msg)
    bad = np.flatnonzero(~((array >= -_TOLERANCE) & (array <= 1 + _TOLERANCE)))
    if len(bad):
        msg = f"The completion model returned {array.flat[bad[0]]}, which is not a probability."
        raise ValueError(msg)
    total = array.sum(axis=1)
    off = np.abs(total - 1).max(initial=0.0)
    if off > 10 * _TOLERANCE:
        msg = (
            "The completion model's probabilities of the states sum to "
            f"{total.flat[np.abs(total - 1).argmax()]:.6g} instead of 1. Index 0 must be the "
            "probability of being event-free, index k the cumulative incidence of cause k."
        )
        raise ValueError(msg)
    steps = np.diff(array, axis=2)
    rise, fall = steps[:, 0].max(initial=0.0), -steps[:, 1:].min(initial=0.0)
    if max(rise, fall) > _TOLERANCE:
        what = (
            f"survival rises by {rise:.2g}" if rise > fall else f"an incidence falls by {fall:.2g}"
        )
        msg = (
            f"The completion model's {what} between two times. Curves must be monotone: "
            "make them so, for instance by `numpy.maximum.accumulate` over times."
        )
        raise ValueError(msg)
    return np.clip(array, 0.0, 1.0)


def check_completion_model(model: Any, event_ids: IntArray) -> None:
    """Raise an error for what is no `CompletionModel`, or one of other causes."""
    if isinstance(model, type) or not isinstance(model, CompletionModel):
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        msg = (
            f"`completion` of type {name} is no fitted model with the method "
            "`predict_cumulative_incidence(X, times)`; see `CompletionModel`. Wrap a model of "
            "survival curves in `SurvivalCompletion`."
        )
        raise TypeError(msg)
    known = getattr(model, "event_ids_", None)
    if known is not None and not np.array_equal(known, event_ids):
        msg = (
            f"The completion model predicts the states {np.asarray(known).tolist()}, but training "
            f"people have {event_ids.tolist()}. Fit it to people with the same causes."
        )
        raise ValueError(msg)


def warn_of_another_unit(
    incidence: Incidence, target: SurvivalTarget, weight: FloatArray | None
) -> None:
    """Warn where the model's events come many times as fast or as slowly as those of the people.

    Compared are the cumulative hazards of all causes at the median time of the events.
    """
    middle = np.median(target.duration[target.event > 0])
    people = np.unique(np.linspace(0, target.n_samples - 1, _N_COMPARED).astype(np.int64))
    free = float(np.asarray(incidence(people, np.array([middle])), np.float64)[:, 0].mean())
    seen = float(aalen_johansen(target, weight)(middle)[0])
    hazard, own = (-np.log(np.clip(share, 1e-9, 1 - 1e-9)) for share in (free, seen))
    if not 1 / _UNIT_FACTOR <= hazard / own <= _UNIT_FACTOR:
        warn(
            f"At time {middle:.3g} the completion model expects {100 * free:.3g} % of the people "
            f"to be event-free, where {100 * seen:.3g} % are (Kaplan-Meier), as if its time were "
            "in another unit. Fit it to durations in the unit of these."
        )


def labelled_rows(
    psi: npt.NDArray[Any],
) -> tuple[IntArray, npt.NDArray[np.int32], Float32Array]:
    """Distributions as rows with one label each: number of the row, label, and weight.

    They have the same loss, for metrics that know labels only.

    >>> labelled_rows(np.array([[1.0, 0.0], [0.25, 0.75]], np.float32))
    (array([0, 1, 1]), array([0, 0, 1], dtype=int32), array([1.  , 0.25, 0.75], dtype=float32))
    """
    number, state = np.nonzero(psi > 0)
    return number, state.astype(np.int32), psi[number, state]


# ---------------------------------------------------------------------------------- cross-fitting
@dataclass(frozen=True)
class CrossFittedCompletion:
    """Models that were each fitted without one part of the people.

    Attributes
    ----------
    models : tuple of CompletionModel
        Model f was fitted without the people of part f.
    fold : int64 array of shape (n_samples,)
        Part of each training person.
    event_ids_ : int64 array of shape (K + 1,)
        Labels of the curves.
    """

    models: tuple[Any, ...]
    fold: IntArray
    event_ids_: IntArray

    def of_training_people(self, people: IntArray, X: Any, times: FloatArray) -> FloatArray:
        """Curves of training people, each by the model that was fitted without them.

        Parameters
        ----------
        people : int64 array
            Positions of the people among those of training.
        X
            Their features.
        times : float64 array
        """
        curves = np.empty((len(people), len(self.event_ids_), len(times)))
        for number, model in enumerate(self.models):
            inside = np.flatnonzero(self.fold[people] == number)
            if len(inside):
                curves[inside] = self._curves(model, take_rows(X, inside), times)
        return curves

    def predict_cumulative_incidence(self, X: Any, times: Any) -> FloatArray:
        """Curves of other people: the mean of the models."""
        total = sum(self._curves(model, X, times) for model in self.models)
        mean: FloatArray = np.asarray(total) / len(self.models)
        return mean

    def _curves(self, model: Any, X: Any, times: FloatArray) -> FloatArray:
        """Curves of one model, with incidence 0 of causes that its people never had."""
        known = np.asarray(model.predict_cumulative_incidence(X, times), dtype=np.float64)
        if known.shape[1] == len(self.event_ids_):
            return known
        curves = np.zeros((len(known), len(self.event_ids_), known.shape[2]))
        curves[:, np.searchsorted(self.event_ids_, model.event_ids_)] = known
        return curves


def cross_fitted(
    fit: Callable[[Any, Any, FloatArray | None, int], Any],
    X: Any,
    target: SurvivalTarget,
    sample_weight: FloatArray | None,
    *,
    n_folds: int = 2,
    seed: int = 0,
) -> CrossFittedCompletion:
    """Cross-fitted completion models: each person is completed by a model fitted to the others.

    Parameters
    ----------
    fit : callable
        ``fit(X, y, sample_weight, number)`` returns a fitted `CompletionModel` with ``event_ids_``.
    X, target, sample_weight
        The people, with durations as the user gave them.
    n_folds : int, default=2
        Parts of the people, with about equally many of each outcome.
    seed : int, default=0
        Which people are in which part.
    """
    n_samples = target.n_samples
    # A cause with fewer people than parts cannot be in every part, which is accepted here.
    frequent = np.bincount(target.event)[target.event] >= n_folds
    parts = StratifiedKFold(n_folds, shuffle=True, random_state=seed % 2**32)
    fold = np.empty(n_samples, np.int64)
    models = []
    label = target.event_ids[target.event]
    for number, (others, part) in enumerate(
        parts.split(np.zeros(n_samples), np.where(frequent, target.event, 0))
    ):
        fold[part] = number
        weight = None if sample_weight is None else sample_weight[others]
        outcome = {"event": label[others], "duration": target.duration[others]}
        models.append(fit(take_rows(X, others), outcome, weight, number))
    return CrossFittedCompletion(tuple(models), fold, target.event_ids)


def completing_incidence(model: Any, X: Any, *, in_training: bool) -> Incidence:
    """Curves of people by their positions in ``X``; cross-fitted for those of training."""
    if in_training and isinstance(model, CrossFittedCompletion):
        return lambda people, times: model.of_training_people(people, take_rows(X, people), times)
    predict: Callable[..., npt.ArrayLike] = model.predict_cumulative_incidence
    return lambda people, times: predict(take_rows(X, people), times)


def cross_fitted_hazards(
    engine_name: str,
    X: Any,
    target: SurvivalTarget,
    sample_weight: FloatArray | None,
    *,
    seed: int = 0,
) -> CrossFittedCompletion:
    """Hazard models of one engine, cross-fitted on two halves of the people (``"hazards"``)."""

    def fit(X: Any, y: Any, sample_weight: FloatArray | None, number: int) -> Any:
        stream = np.random.default_rng([seed, number])
        return default_hazards(engine(engine_name), X, y, sample_weight, stream)

    return cross_fitted(fit, X, target, sample_weight, seed=seed)

"""Fitted models: curves, quantiles, restricted means and contributions of features.

`FittedModel` is the base class of both kinds of models. Both predict incidences at times; all
predictions derived from these are implemented here. A fitted model never reads the parameters of an
estimator, which may change later. It contains no outcomes of people.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.forest import (
    EngineTrees,
    Forest,
    crossed_rows,
    monotone_incidence,
)
from survival_objectives._models.curves import CurveShape
from survival_objectives._people import Features
from survival_objectives._people.histories import Path
from survival_objectives._people.labels import EVENT_FREE
from survival_objectives._people.time_axis import TimeAxis
from survival_objectives.censoring import BoostedCensoring, CensoringModel, KaplanMeierCensoring
from survival_objectives.losses import probabilities
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import stacked_matrix

#: Up to this many rows, the engine's prediction of every step is faster than `Forest`.
ENGINE_ROWS = 2**15
# Number of curve values in memory during prediction: 2^24 doubles are 128 MB.
_PREDICTION_SIZE = 2**24
_N_TIMES = 101


class BoosterMaker(Protocol):
    """Factory of boosters that evaluate a finished model of an engine."""

    def __call__(self, model: Any, *, censoring: bool = False) -> Any:
        """The booster of a model of the events or, with ``censoring``, of the censoring."""


def snapshot(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of constructor parameters that later changes of the estimator do not affect."""
    return {**parameters, "engine_params": copy.deepcopy(parameters["engine_params"])}


@dataclass(frozen=True)
class ModelFrame:
    """Columns, labels, time axis and parameters, which are known before training.

    Attributes
    ----------
    engine : str
        Name of the engine.
    schema : Features
        Columns, without people.
    event_ids : int64 array of shape (K + 1,)
        Labels of the states; 0 is event-free.
    axis : TimeAxis
    t_max : float
        End of the curves.
    last_time : float
        End of the default grid of prediction times.
    median_duration : float or None
        Rounded to two digits; None in a model that was saved without it.
    censoring_curve : StepFunction
        Kaplan-Meier curve of censoring on a coarse grid.
    parameters : dict
        Constructor parameters at the time of fitting.
    event_names : tuple of str, or None
        Names of the states, if training had names.
    """

    engine: str
    schema: Features
    event_ids: IntArray
    axis: TimeAxis
    t_max: float
    last_time: float
    median_duration: float | None
    censoring_curve: StepFunction
    parameters: dict[str, Any]
    event_names: tuple[str, ...] | None = None

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states: those of training, else "event-free", "cause 1" etc."""
        if self.event_names is not None:
            return self.event_names
        return (EVENT_FREE, *(f"cause {label}" for label in self.event_ids[1:]))

    @property
    def n_causes(self) -> int:
        """Number of causes, K."""
        return len(self.event_ids) - 1

    @property
    def times(self) -> FloatArray:
        """An even grid of times: quantiles of the durations would reveal outcomes of people."""
        return np.linspace(0, self.last_time, _N_TIMES)


@dataclass(frozen=True)
class TrainingRecord:
    """Record of a training.

    Attributes
    ----------
    method : str
        The censoring method.
    reason : str
        Why this method was used, as a sentence.
    n_events : int64 array of shape (K + 1,), or None
        Number of people who were censored, and who had each cause.
    history : list of RoundRecord
        Held-out losses.
    refreshed_rounds : list of int
        Rounds after which weights or targets were refreshed.
    n_floored, n_weighted_rows : int
        Number of rows whose weight is limited by the floor of G, and of rows with weights.
    """

    method: str
    reason: str
    n_events: IntArray | None = None
    history: list[Any] = field(default_factory=list)
    refreshed_rounds: list[int] = field(default_factory=list)
    n_floored: int = 0
    n_weighted_rows: int = 0


def parts_of(n_samples: int, n_people: int) -> Iterator[slice]:
    """People in parts of ``n_people``, of one if that is 0.

    >>> list(parts_of(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    n_people = max(1, n_people)
    for first in range(0, n_samples, n_people):
        yield slice(first, min(first + n_people, n_samples))


@dataclass(frozen=True, eq=False)
class FittedModel(ABC):
    """A trained model.

    Attributes
    ----------
    frame : ModelFrame
    record : TrainingRecord
    curves : CurveShape
        Conversion of the model's predictions to curves in time.
    """

    frame: ModelFrame
    record: TrainingRecord
    curves: CurveShape

    # --------------------------------------------------------------------------- abstract members
    @property
    @abstractmethod
    def booster(self) -> Any:
        """The engine's own model, or None without trees."""

    @property
    @abstractmethod
    def n_rounds(self) -> int:
        """Rounds of the engine's own model."""

    @property
    @abstractmethod
    def censoring(self) -> CensoringModel:
        """The model of censoring at the end of training."""

    @property
    @abstractmethod
    def n_walked(self) -> int:
        """Number of people from which on `Forest` evaluates trees instead of the engine."""

    @abstractmethod
    def parts(self, n_samples: int, n_times: int = 1) -> Iterator[slice]:
        """People whose curves fit into memory together."""

    @abstractmethod
    def shap_values(self, features: Features, time: float) -> FloatArray:
        """Contributions to margins at a time, (n_samples, n_margins, n_features + 2)."""

    @abstractmethod
    def importances(self) -> FloatArray:
        """Importance of each feature, not negative, in any unit, (n_features,)."""

    @abstractmethod
    def wrapped(self, new_booster: BoosterMaker) -> Self:
        """The model with boosters of other settings, such as the number of threads."""

    @abstractmethod
    def to_plain(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Data that JSON can hold, without frame and record, and the engine's models by name."""

    @abstractmethod
    def _steps(self) -> Forest:
        """Steps of the trees in time, between which curves without knots are constant."""

    @abstractmethod
    def _incidence(self, values: Float32Array, times: FloatArray) -> FloatArray:
        """Incidences of the causes, (K, n_times, n_samples)."""

    # -------------------------------------------------------------------------------- predictions
    @property
    def schema(self) -> Features:
        """Columns, without people."""
        return self.frame.schema

    @property
    def is_monotone(self) -> bool:
        """Whether no incidence ever falls in time."""
        return True

    def with_frame(self, **changes: Any) -> Self:
        """The model with some entries of its frame replaced."""
        return replace(self, frame=replace(self.frame, **changes))

    def with_record(self, **changes: Any) -> Self:
        """The model with some entries of its record replaced."""
        return replace(self, record=replace(self.record, **changes))

    def incidence(self, features: Features, times: FloatArray) -> FloatArray:
        """Event-free probability and incidences, (n_samples, K + 1, n_times).

        Times are the same for all people, (n_times,), or their own, (n_samples, n_times).
        """
        n_times = times.shape[-1]
        curves = np.empty((features.n_samples, self.frame.n_causes + 1, n_times))
        for people in self.parts(features.n_samples, n_times):
            own = times if times.ndim == 1 else times[people]
            self._fill(curves[people], features.values[people], own)
        if self.is_monotone and not self.curves.has_time_zero:
            at_start = np.broadcast_to(times <= 0, (features.n_samples, n_times))
            curves.swapaxes(1, 2)[at_start] = np.eye(self.frame.n_causes + 1)[0]
        return curves

    def _fill(self, curves: FloatArray, values: Float32Array, times: FloatArray) -> None:
        incidence = self._incidence(values, times)
        curves[:, 1:] = incidence.transpose(2, 0, 1)
        curves[:, 0] = np.maximum(1 - incidence.sum(axis=0), 0).T

    def conditional_incidence(
        self, features: Features, times: FloatArray, known: FloatArray, path: Path | None = None
    ) -> FloatArray:
        """Probabilities given survival to ``known``, (n_samples, K + 1, n_times).

        Parameters
        ----------
        features : Features
            Of people or, with a path, of its rows.
        times : array of shape (n_times,)
        known : array of shape (n_samples,)
        path : Path, optional
            Features that change in time.
        """
        if not self.is_monotone:
            msg = (
                "`conditional_after` needs `monotone=True`: where an incidence falls, conditional "
                "probabilities would be negative."
            )
            raise ValueError(msg)
        own = np.column_stack([np.broadcast_to(times, (len(known), len(times))), known])
        curves = self.incidence(features, own) if path is None else self.along(features, path, own)
        at_known, curves = curves[:, :, -1:], curves[:, :, :-1]
        # If survival is 0, all later increments are 0 as well.
        survival = np.maximum(at_known[:, :1], np.finfo(np.float64).tiny)
        given = (curves - at_known) / survival
        given[:, 1:] *= (times > known[:, None])[:, None]
        given[:, 0] = 1 - given[:, 1:].sum(axis=1)
        return given

    def along(self, features: Features, path: Path, times: FloatArray) -> FloatArray:  # noqa: ARG002
        """Event-free probability and incidences along a path of features, (n, K + 1, n_times).

        Parameters
        ----------
        features : Features
            Of the rows of the path.
        path : Path
        times : array of shape (n_samples, n_times)
        """
        msg = (
            "Paths of features that change (`id`, `start`, `stop`) need a model of hazards: train "
            "HazardBoost or HazardObjective. This model takes features as they are at time 0."
        )
        raise ValueError(msg)

    def quantiles(
        self, features: Features, quantiles: list[float], known: FloatArray | None = None
    ) -> FloatArray:
        """Quantiles of the time to any event, (n_samples, n_quantiles); inf if not reached.

        Given survival to ``known``, a time per person, where it is passed.
        """
        edges = self.curves.edges(self._steps(), self.frame.t_max)
        # At time 0 itself all people are event-free.
        at: FloatArray = np.concatenate([[np.finfo(np.float32).tiny], edges[1:]])
        found = np.empty((features.n_samples, len(quantiles)))
        for people in self.parts(features.n_samples, len(edges)):
            own = _rows(features, people)
            event = 1 - self.incidence(own, at)[:, 0]
            survived = None
            if known is not None:
                survived = self.incidence(own, known[people, None])[:, 0]
            for column, value in enumerate(quantiles):
                reached = value if survived is None else 1 - (1 - value) * survived
                found[people, column] = self._crossings(event, edges, reached)
        return found if known is None else np.maximum(found, known[:, None])

    def _crossings(
        self, event: FloatArray, edges: FloatArray, value: float | FloatArray
    ) -> FloatArray:
        """Times at which each row of ``event``, values at the edges, reaches a value."""
        reached = event >= value
        value = np.broadcast_to(value, (len(event), 1))[:, 0]
        first = reached.argmax(axis=1)
        row, last = np.arange(len(event)), np.maximum(first - 1, 0)
        after, before = event[row, first], event[row, last]
        share = np.ones(len(event))
        np.divide(value - before, after - before, out=share, where=after > before)
        return np.where(reached.any(axis=1), self.curves.inside(edges, first, share), np.inf)

    def restricted_mean(
        self, features: Features, horizon: float, state: int, known: FloatArray | None = None
    ) -> FloatArray:
        """Area under the curve of a state up to a horizon, (n_samples,).

        Given survival to ``known``, a time per person, the area from there on.
        """
        if known is None:
            times, weight = self.curves.integral(self._steps(), horizon, np.zeros(1))
            mean = np.empty(features.n_samples)
            for people in self.parts(features.n_samples, times.shape[1]):
                curves = self.incidence(_rows(features, people), times[0])
                mean[people] = curves[:, state] @ weight[0]
            return mean
        known = np.minimum(known, horizon)
        times, weight = self.curves.integral(self._steps(), horizon, known)
        curves = self.incidence(features, np.column_stack([times, known]))
        area: FloatArray = np.einsum("nt,nt->n", curves[:, state, :-1], weight)
        if state:
            area -= curves[:, state, -1] * (horizon - known)
        return area / np.maximum(curves[:, 0, -1], np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class StackedModel(FittedModel):
    """Trees on features and horizon: margins are log-odds of the state at the horizon.

    Attributes
    ----------
    trees : EngineTrees
        Trees of the events.
    censoring_trees : EngineTrees, or None
        Trees of the boosted model of censoring.
    start : float64 array of shape (n_margins,)
        Margins at which boosting started.
    censoring_start : StepFunction
        Log-odds of being censored at which the censoring model started, by time.
    """

    trees: EngineTrees
    censoring_trees: EngineTrees | None
    start: FloatArray
    censoring_start: StepFunction

    @property
    def booster(self) -> Any:
        return self.trees.model

    @property
    def n_rounds(self) -> int:
        return self.trees.n_rounds

    @property
    def is_monotone(self) -> bool:
        return bool(self.frame.parameters["monotone"])

    @property
    def censoring(self) -> CensoringModel:
        """The model that the user passed, else the boosted model, else the marginal curve."""
        given = self.frame.parameters["censoring"]
        if not isinstance(given, str):
            own: CensoringModel = given
            return own
        if self.censoring_trees is None:
            return KaplanMeierCensoring.of_curve(self.frame.censoring_curve)
        return BoostedCensoring(
            _Margin(self.censoring_trees), self.censoring_start, self.schema, self.frame.axis
        )

    def wrapped(self, new_booster: BoosterMaker) -> StackedModel:
        censoring = None
        if self.censoring_trees is not None:
            model = self.censoring_trees.model
            censoring = EngineTrees(new_booster(model, censoring=True), model)
        trees = EngineTrees(new_booster(self.booster), self.booster)
        return replace(self, trees=trees, censoring_trees=censoring)

    # -------------------------------------------------------------------------------- predictions
    def _steps(self) -> Forest:
        return self.trees.forest()

    @property
    def n_walked(self) -> int:
        return ENGINE_ROWS // self.trees.forest().n_steps + 1

    def parts(self, n_samples: int, n_times: int = 1) -> Iterator[slice]:
        forest = self.trees.forest()
        size = _PREDICTION_SIZE if forest.is_readable else ENGINE_ROWS
        return parts_of(
            n_samples, size // (max(forest.n_steps, n_times) * (self.frame.n_causes + 1))
        )

    def _fill(self, curves: FloatArray, values: Float32Array, times: FloatArray) -> None:
        if self.is_monotone:
            super()._fill(curves, values, times)
            return
        at = self.trees.forest().interval(self.frame.axis.prediction_time(times))
        curves[:] = self.step_probabilities(values)[:, at].transpose(2, 0, 1)

    def _incidence(self, values: Float32Array, times: FloatArray) -> FloatArray:
        return self.curves.incidence(
            self.step_probabilities(values)[1:], self.trees.forest(), times
        )

    def step_probabilities(
        self, values: Float32Array, engine_rows: int | None = None
    ) -> FloatArray:
        """Probabilities of all states on every step, (K + 1, n_steps, n_samples).

        The engine evaluates up to ``engine_rows`` rows, or all rows if the trees cannot be read.
        """
        forest, n_people = self.trees.forest(), len(values)
        limit = ENGINE_ROWS if engine_rows is None else engine_rows
        if forest.is_readable and n_people * forest.n_steps > limit:
            margins = forest.step_margins(values)
        else:
            margin = self.trees.contribution(crossed_rows(values, forest.representatives()))
            margins = margin.reshape(n_people, forest.n_steps, -1).transpose(2, 1, 0)
        margins = margins + self.start[:, None, None]
        flat = margins.reshape(len(margins), -1).T
        proba = probabilities(flat, reference=self.trees.reference).T
        proba = np.ascontiguousarray(proba).reshape(-1, forest.n_steps, n_people)
        if self.is_monotone:
            proba[1:] = monotone_incidence(proba[1:])
            # Rounding may push the sum of all causes just above 1.
            proba[0] = np.maximum(1 - proba[1:].sum(axis=0), 0)
        return proba

    # -------------------------------------------------------------------------------- explanation
    def shap_values(self, features: Features, time: float) -> FloatArray:
        """TreeSHAP of the margins at a horizon, by the engine's own code."""
        times = np.full(features.n_samples, time, np.float32)
        rows = stacked_matrix(features, np.arange(features.n_samples), times)
        values = np.array(self.trees.shap_values(rows), dtype=np.float64)
        values[:, :, -1] += self.start
        return values

    def importances(self) -> FloatArray:
        """Total gain of the splits on each feature."""
        return self.trees.importances()[:-1]

    # -------------------------------------------------------------------------------- persistence
    def to_plain(self) -> tuple[dict[str, Any], dict[str, Any]]:
        models = {"events": self.booster}
        if self.censoring_trees is not None:
            models["censoring"] = self.censoring_trees.model
        content = {
            "start": self.start.tolist(),
            "censoring_start": self.censoring_start.to_plain(),
            "n_estimators": self.n_rounds,
        }
        return content, models

    @classmethod
    def from_plain(
        cls,
        frame: ModelFrame,
        record: TrainingRecord,
        curves: CurveShape,
        content: Mapping[str, Any],
        models: Mapping[str, Any],
        new_booster: BoosterMaker,
    ) -> StackedModel:
        """The model that `to_plain` described."""
        censoring = None
        if "censoring" in models:
            model = models["censoring"]
            censoring = EngineTrees(new_booster(model, censoring=True), model)
        trees = EngineTrees(new_booster(models["events"]), models["events"])
        if trees.n_rounds != content["n_estimators"]:
            msg = (
                f"n_estimators is {content['n_estimators']}, but there are {trees.n_rounds} rounds"
            )
            raise ValueError(msg)
        return cls(
            frame,
            record,
            curves,
            trees,
            censoring,
            np.array(content["start"], dtype=np.float64),
            StepFunction.from_plain(content["censoring_start"]),
        )


class _Margin:
    """Trees of the censoring model as a MarginModel."""

    def __init__(self, trees: EngineTrees) -> None:
        self.trees = trees

    def margin(self, matrix: Float32Array, start: FloatArray) -> FloatArray:
        return self.trees.contribution(matrix)[:, 0] + start


def _rows(features: Features, rows: slice) -> Features:
    return replace(features, values=features.values[rows])

"""Fitted models: curves, quantiles, restricted means and contributions of features.

`FittedModel` is the base class of the models of both subjects. Both predict incidences at times;
all predictions derived from these are implemented here. A fitted model never reads the parameters
of an estimator, which may change later. It contains no outcomes of people.

Curves are computed in two ways, by the engine for a few people and by `Forest` for many. Both must
agree for all settings of the engine, which is checked after each training on `few_people`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.forest import Forest
from survival_objectives._engines.protocol import Engine, Evaluator
from survival_objectives._models.curves import CurveShape, KnotCurves
from survival_objectives._models.frame import ModelFrame
from survival_objectives._people import Features
from survival_objectives._people.histories import Path
from survival_objectives._people.population import LocalReduction, Reduction
from survival_objectives._process.checkpoints import Checkpoints
from survival_objectives.censoring import CensoringModel

if TYPE_CHECKING:
    from survival_objectives._models.onnx.curves import CurveGraph

#: Up to this many rows, the engine predicts every step faster than its trees are read for `Forest`.
ENGINE_ROWS = 2**13


def snapshot(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of constructor parameters that later changes of the estimator do not affect."""
    return {**parameters, "engine_params": copy.deepcopy(parameters["engine_params"])}


@dataclass(frozen=True)
class RoundRecord:
    """Held-out loss after a round."""

    round: int
    loss: float


@dataclass(frozen=True)
class TrainingRecord:
    """Record of a training.

    Attributes
    ----------
    method : str
        How censored people counted: "hazards", or one of `survival_objectives.SurvivalBoost`.
    n_events : int64 array of shape (K + 1,), or None
        Number of people who were censored, and who had each cause.
    history : list of RoundRecord
        Held-out losses.
    refreshed_rounds : list of int
        Rounds after which weights or targets were refreshed.
    n_floored, n_weighted_rows : int
        Number of rows whose weight is limited by the floor of G, and of rows with weights.
    floor : float
        The floor of G, in training and in scores.
    same_curves : bool
        Whether all people get the same curve, although their features vary.
    n_folds : int
        Number of folds without each of which there is a model; 1 without folds.
    """

    method: str
    n_events: IntArray | None = None
    history: list[RoundRecord] = field(default_factory=list)
    refreshed_rounds: list[int] = field(default_factory=list)
    n_floored: int = 0
    n_weighted_rows: int = 0
    floor: float = 0.05
    same_curves: bool = False
    n_folds: int = 1


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

    #: What it is a model of: "hazards" or "horizons".
    subject: ClassVar[str]

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
    def shap_values(self, features: Features, times: FloatArray) -> FloatArray:
        """Contributions to the log-odds of causes, (n_samples, K, n_features + 2, n_times)."""

    @property
    @abstractmethod
    def public(self) -> dict[str, Any]:
        """Fitted attributes of an estimator that only this kind of model has."""

    @abstractmethod
    def importances(self) -> FloatArray:
        """Importance of each feature, not negative, in any unit, (n_features,)."""

    @abstractmethod
    def evaluators(self) -> dict[str, Evaluator]:
        """All trees of the model, by their names in files."""

    @abstractmethod
    def to_plain(self) -> dict[str, Any]:
        """Data that JSON can hold, without frame, record and trees."""

    @classmethod
    @abstractmethod
    def from_plain(
        cls,
        frame: ModelFrame,
        record: TrainingRecord,
        curves: Any,
        content: Mapping[str, Any],
        evaluators: Mapping[str, Evaluator],
    ) -> Self:
        """The model that `to_plain` and `evaluators` described."""

    @abstractmethod
    def onnx_curves(self, graph: CurveGraph, features: str, times: str) -> str:
        """Probabilities of all states at times, (n_samples, K + 1, n_times), in a graph.

        Parameters
        ----------
        graph : CurveGraph
        features, times : str
            Names of float64 values in the graph.
        """

    def decisive_values(self) -> dict[int, list[float]]:
        """Values of columns near which predictions change, besides the thresholds of the trees."""
        return {}

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

    @property
    def has_bands(self) -> bool:
        """Whether predictions can have limits; see `at_limit`."""
        return False

    def at_limit(self, confidence: float, *, later: bool) -> Self:  # noqa: ARG002
        """The model whose curves are one side of its bands (90), where it has any."""
        msg = (
            "`confidence` needs models of folds, which a HazardBoost that was trained without "
            "`eval_set` has. For bounds of other models, see "
            "`survival_objectives.uncertainty.conformalize`."
        )
        raise ValueError(msg)

    def incidence(self, features: Features, times: FloatArray) -> FloatArray:
        """Event-free probability and incidences, (n_samples, K + 1, n_times).

        Times are the same for all people, (n_times,), or their own, (n_samples, n_times).
        """
        return self._recalibrated(partial(self._plain_curves, features), times)

    def _recalibrated(
        self, predicted: Callable[[FloatArray], FloatArray], times: FloatArray
    ) -> FloatArray:
        """Curves at times, by a function that predicts those before recalibration."""
        found = self.frame.recalibration
        return (
            predicted(times) if found is None else found.curves(predicted, self.frame.axis, times)
        )

    def knots(self) -> FloatArray:
        """Times between which curves are simple, in numbers of units."""
        if isinstance(self.curves, KnotCurves):
            return self.curves.knots
        return self.curves.edges(self._steps(), self.frame.t_max) / (self.frame.axis.unit or 1.0)

    def _plain_curves(self, features: Features, times: FloatArray) -> FloatArray:
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
            own = rows_of(features, people)
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
                curves = self.incidence(rows_of(features, people), times[0])
                mean[people] = curves[:, state] @ weight[0]
            return mean
        known = np.minimum(known, horizon)
        times, weight = self.curves.integral(self._steps(), horizon, known)
        curves = self.incidence(features, np.column_stack([times, known]))
        area: FloatArray = np.einsum("nt,nt->n", curves[:, state, :-1], weight)
        if state:
            area -= curves[:, state, -1] * (horizon - known)
        return area / np.maximum(curves[:, 0, -1], np.finfo(np.float64).tiny)


def rows_of(features: Features, rows: slice) -> Features:
    """Some of the people."""
    return replace(features, values=features.values[rows])


@dataclass(frozen=True)
class Run:
    """Engine, random numbers and sums of one training.

    Attributes
    ----------
    engine : Engine
        Makes the boosters.
    generator : Generator
        Random numbers; the same in all processes that train together.
    reduction : Reduction
        Sums over these processes.
    previous : FittedModel, optional
        The model that a warm start continues.
    n_turns : int, optional
        Number of turns in which several batches of people are boosted on. Default: all people are
        one batch in memory.
    checkpoints : Checkpoints
    """

    engine: Engine
    generator: np.random.Generator
    reduction: Reduction = field(default_factory=LocalReduction)
    previous: FittedModel | None = None
    n_turns: int | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    @property
    def previous_frame(self) -> ModelFrame | None:
        """Frame of the model that is continued."""
        return None if self.previous is None else self.previous.frame


_MOST_PEOPLE = 8


#: Largest difference between two ways of predicting the same.
TOLERANCE = 1e-5


def way_out(engine_params: Mapping[str, Any]) -> str:
    """What to do where ways of predicting the same differ."""
    if engine_params:
        names = ", ".join(map(repr, engine_params))
        return f"Remove settings from `engine_params` ({names}) to find the cause."
    return "Please report it, with the version of the engine."


def few_people(values: Float32Array) -> Float32Array:
    """A few rows: up to half with missing values, and one with missing values only."""
    incomplete = np.flatnonzero(np.isnan(values).any(axis=1))[: _MOST_PEOPLE // 2]
    n_others = min(len(values), _MOST_PEOPLE - 1 - len(incomplete))
    others = np.linspace(0, len(values) - 1, n_others).astype(np.int64)
    unknown = np.full((1, values.shape[1]), np.nan, np.float32)
    return np.concatenate([values[incomplete], values[others], unknown])

"""How people who were censored count in a training of the plugin.

A scheme has the rows of the event model, their targets and weights at the start, and what a refresh
makes of them. `WeightedRows` leaves censored people out and weighs the others (equation (10)),
`CompletedRows` gives them distributions of a model (46), `DoublyRobustRows` does both (47).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._fit.cohort import GivenPeople
from survival_objectives._fit.weights import given_survival
from survival_objectives.censoring import CensoringModel, KaplanMeierCensoring, time_feature
from survival_objectives.completion import (
    Incidence,
    completed_targets,
    lost_states,
    one_state,
)
from survival_objectives.doubly_robust import DoublyRobustTargets, person_nodes
from survival_objectives.losses import Target
from survival_objectives.stacking import (
    Stack,
    TrainingRows,
    all_rows,
    event_rows,
    exit_feature,
    lost_rows,
    stacked_matrix,
)
from survival_objectives.time_axis import TimeAxis
from survival_objectives.validation import Features, SurvivalTarget

__all__ = [
    "CensoringWeights",
    "CompletedRows",
    "DoublyRobustRows",
    "Probes",
    "Refreshed",
    "RowScheme",
    "RowTargets",
    "WeightedRows",
]

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowTargets:
    """What rows are trained on.

    Attributes
    ----------
    target : array
        Labels (n_rows,) or distributions (n_rows, K + 1), see `survival_objectives.losses`.
    weight : float32 array of shape (n_rows,)
    """

    target: Target
    weight: Float32Array


@dataclass(frozen=True)
class Refreshed:
    """What a refresh makes of the rows.

    Attributes
    ----------
    targets : RowTargets
    inverse : float64 array of shape (n_rows,)
        1/G of each row, times the weight of its person.
    n_floored : int
        Rows whose G was raised to the floor.
    """

    targets: RowTargets
    inverse: FloatArray
    n_floored: int


@dataclass(frozen=True)
class Probes:
    """People at times at which a refresh has to know a model.

    Attributes
    ----------
    person : int64 array of shape (n_probes,)
    feature : float32 array of shape (n_probes,)
        Value of the time feature.
    """

    person: IntArray
    feature: Float32Array

    def matrix(self, features: Features) -> Float32Array:
        """Features with the time last."""
        return stacked_matrix(features, self.person, self.feature)

    @property
    def times(self) -> FloatArray:
        """The time feature in float64, for starting margins."""
        return self.feature.astype(np.float64)


@dataclass(frozen=True)
class CensoringWeights:
    """Weights (10) from a model of censoring that does not change.

    Attributes
    ----------
    model : CensoringModel
        The user's own, or Kaplan-Meier in the user's time.
    is_given : bool
        Whether it is the user's own.
    marginal : KaplanMeierCensoring
        Kaplan-Meier on the time axis of training.
    axis : TimeAxis
    floor : float
        Smallest G.
    """

    model: CensoringModel
    is_given: bool
    marginal: KaplanMeierCensoring
    axis: TimeAxis
    floor: float

    def of(
        self,
        rows: TrainingRows,
        X: Any,
        given: SurvivalTarget,
        *,
        sample_weight: FloatArray | None = None,
        marginal: KaplanMeierCensoring | None = None,
    ) -> tuple[FloatArray, int]:
        """Weights of rows, and how many the floor touched.

        ``given`` has durations as the user gave them, ``X`` the people as they came. A ``marginal``
        curve takes the place of that of all training people, for a fold.
        """
        survival = self._survival(rows, X, given, marginal or self.marginal)
        return rows.weights(*survival, floor=self.floor, sample_weight=sample_weight)

    def _survival(
        self, rows: TrainingRows, X: Any, given: SurvivalTarget, marginal: KaplanMeierCensoring
    ) -> tuple[FloatArray, FloatArray]:
        """G at the horizons of the rows that stayed, and G(t-) at the leavers' event times."""
        if self.is_given:
            people = GivenPeople(X, given.duration)
            return given_survival(self.model, people, rows, self.axis)
        in_units = bool(self.axis.unit)
        happened = time_feature(self.axis.answering(given.duration[rows.leaver]))
        at_horizon = marginal.survival(rows.horizon[rows.stayed].astype(np.float64))
        return at_horizon, marginal.survival(happened, left=not in_units)


class WeightedRows:
    """Rows of people whose state at the horizon is known, weighted by the inverse of G."""

    #: Rounds of the censoring model at the first refresh, in those of later ones.
    head_start = 1

    def __init__(
        self,
        target: SurvivalTarget,
        stack: Stack,
        weights: CensoringWeights,
        X: Any,
        given: SurvivalTarget,
        sample_weight: FloatArray | None,
    ) -> None:
        self.rows = event_rows(target, stack)
        self._target = target
        self._weights = weights
        self._sample_weight = sample_weight
        weight, self.n_floored = weights.of(self.rows, X, given, sample_weight=sample_weight)
        self.initial = RowTargets(self.rows.target, weight.astype(np.float32))
        #: What rows count where an engine keeps one set of weights through a training.
        self.row_weight = self.initial.weight
        #: Why there is nothing to refresh; empty where there is.
        self.fixed = ""
        if weights.is_given:
            self.fixed = (
                "The censoring model was given and stays as it is, so there is nothing to refresh. "
                "Leave out the callback, or `censoring=`."
            )

    def event_probes(self, censorings: TrainingRows) -> Probes:
        """Censored people at the times they were censored."""
        people = censorings.leaver
        return Probes(people, exit_feature(self._target.duration[people], self._weights.axis))

    def censoring_probes(self) -> Probes:
        """People with an event, just before it."""
        people = self.rows.leaver
        feature = exit_feature(self._target.duration[people], self._weights.axis, left=True)
        return Probes(people, feature)

    def event_free_at_exit(self, states: FloatArray, censorings: TrainingRows) -> FloatArray:  # noqa: ARG002
        """S of the censored people at their exit, from the states at the event probes."""
        return states[:, 0]

    def refreshed(
        self,
        states_at_rows: FloatArray,  # noqa: ARG002
        states_at_probes: FloatArray,  # noqa: ARG002
        uncensored_at_stayed: FloatArray,
        uncensored_at_probes: FloatArray,
        *,
        is_first: bool,  # noqa: ARG002
    ) -> Refreshed:
        """New weights of the same labels.

        Parameters
        ----------
        states_at_rows, states_at_probes : arrays with K + 1 columns
            Probabilities of the states, by the event model.
        uncensored_at_stayed, uncensored_at_probes : arrays
            G at the rows that stayed and at `censoring_probes`, by the censoring model.
        is_first : bool
            Whether this is the first refresh of a training.
        """
        at_exit = uncensored_at_probes.copy()
        at_exit[self._target.duration[self.rows.leaver] <= 0] = 1.0
        weight, n_floored = self.rows.weights(
            uncensored_at_stayed,
            at_exit,
            floor=self._weights.floor,
            sample_weight=self._sample_weight,
        )
        targets = RowTargets(self.rows.target, weight.astype(np.float32))
        return Refreshed(targets, weight, n_floored)


class _AllRows:
    """All rows of all people; each counts 1, times the weight of its person (``row_weight``)."""

    def __init__(
        self, target: SurvivalTarget, stack: Stack, sample_weight: FloatArray | None
    ) -> None:
        self.rows = all_rows(target, stack)
        self._target = target
        weight = np.ones(self.rows.n_rows, np.float32)
        if sample_weight is not None:
            weight = sample_weight[self.rows.person].astype(np.float32)
        self.row_weight = weight


class CompletedRows(_AllRows):
    """Rows of all people; those who were censored have distributions of a model."""

    #: Why there is nothing to refresh.
    fixed = (
        "People who were censored are completed by a model that stays as it is, so nothing is left "
        "to refresh. Leave out the callback, or `completion=`."
    )
    n_floored = 0

    def __init__(
        self,
        target: SurvivalTarget,
        stack: Stack,
        sample_weight: FloatArray | None,
        axis: TimeAxis,
        incidence: Incidence,
    ) -> None:
        super().__init__(target, stack, sample_weight)
        states = lost_states(incidence, target, self.rows, axis)
        self.initial = RowTargets(completed_targets(target, self.rows, *states), self.row_weight)


class DoublyRobustRows(_AllRows):
    """Rows of all people with targets (47) from the second refresh on.

    Before that, rows have labels and weights as in `WeightedRows`, with weight 0 where the person
    was censored: an event model that has learnt nothing yet would complete everybody alike, and
    learn from that. The censoring model is given a head start, because the targets are right
    whatever the event model says where G is right.
    """

    fixed = ""
    #: Rounds of the censoring model at the first refresh, in those of later ones.
    head_start = 5

    def __init__(
        self,
        target: SurvivalTarget,
        stack: Stack,
        sample_weight: FloatArray | None,
        weights: CensoringWeights,
        given: SurvivalTarget,
        *,
        event_floor: float,
        n_nodes: int,
    ) -> None:
        super().__init__(target, stack, sample_weight)
        rows = self.rows
        self._floor = weights.floor
        self._nodes = person_nodes(target, weights.axis, float(rows.horizon.max()), n_nodes)
        self._targets = DoublyRobustTargets(target, rows, self._nodes, weights.floor, event_floor)
        self._lost = lost_rows(target, rows)
        self._labels = one_state(rows.target, target.n_causes + 1)
        inverse, _ = weights.of(rows, None, given)
        first = self._weighted(inverse)
        self.initial, self.n_floored = first.targets, first.n_floored

    def event_probes(self, censorings: TrainingRows) -> Probes:  # noqa: ARG002
        """The nodes, of which the last one of those who left is their exit."""
        return Probes(self._nodes.person, self._nodes.feature(left=False))

    def censoring_probes(self) -> Probes:
        """Just before the nodes."""
        return Probes(self._nodes.person, self._nodes.feature(left=True))

    def event_free_at_exit(self, states: FloatArray, censorings: TrainingRows) -> FloatArray:
        """S of the censored people at their exit, from the states at the event probes."""
        at_exit: FloatArray = self._by_person(states[:, 0])[censorings.leaver, -1]
        return at_exit

    def refreshed(
        self,
        states_at_rows: FloatArray,
        states_at_probes: FloatArray,
        uncensored_at_stayed: FloatArray,
        uncensored_at_probes: FloatArray,
        *,
        is_first: bool,
    ) -> Refreshed:
        """New distributions or, at first, new weights; parameters as in `WeightedRows`."""
        # Nobody is censored before the start.
        uncensored = np.where(self._nodes.times <= 0, 1.0, self._by_person(uncensored_at_probes))
        if is_first:
            survival = uncensored[self.rows.person, -1]
            survival[self.rows.stayed] = uncensored_at_stayed
            return self._weighted(1 / np.maximum(survival, self._floor))
        psi, inverse = self._targets(
            states_at_rows,
            self._by_person(states_at_probes),
            uncensored_at_stayed,
            uncensored,
        )
        return self._refreshed(RowTargets(psi, self.row_weight), inverse)

    def _weighted(self, inverse: FloatArray) -> Refreshed:
        """Labels of the rows whose state is known, weighted by 1/G."""
        inverse = inverse.copy()
        inverse[self._lost] = 0
        weight = (inverse * self.row_weight).astype(np.float32)
        return self._refreshed(RowTargets(self._labels, weight), inverse)

    def _refreshed(self, targets: RowTargets, inverse: FloatArray) -> Refreshed:
        # Rounding apart, no row that was not raised to the floor has its inverse.
        n_floored = int(np.count_nonzero(inverse >= 1 / self._floor))
        return Refreshed(targets, inverse * self.row_weight, n_floored)

    def _by_person(self, values: FloatArray) -> FloatArray:
        by_person: FloatArray = values.reshape(*self._nodes.times.shape, *values.shape[1:])
        return by_person


RowScheme = WeightedRows | CompletedRows | DoublyRobustRows

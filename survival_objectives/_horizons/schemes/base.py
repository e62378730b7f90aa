"""What all schemes share: their protocol, their settings, and the models they need.

Functions that return the censoring survival which the weights (10) need give G at the horizons of
rows with t > z, and G just before the events of the other people: the arguments of
`TrainingRows.weights`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._engines.protocol import StackedBatches
from survival_objectives._horizons.rows import BatchRows, Draw, Probes, StackedPeople
from survival_objectives._people import SurvivalTarget
from survival_objectives._people.cohort import Cohort, Outcomes, PassedPeople
from survival_objectives._people.population import Reduction, TimeAxis
from survival_objectives.censoring import CensoringModel, KaplanMeierCensoring
from survival_objectives.stacking import TimeStacker, TrainingRows, event_rows

TargetsAndWeights = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def _no_margins() -> npt.ArrayLike:
    msg = "The event model has no rounds yet, so it must not be asked."
    raise RuntimeError(msg)


@dataclass(frozen=True)
class EventMargins:
    """The event model, as a scheme sees it between two chunks of rounds.

    Attributes
    ----------
    n_rounds : int
        Rounds so far.
    reference : bool
        Link, see `survival_objectives.losses`.
    at_horizons : callable
        Margins of the event rows of the current draw, (n_rows, n_margins).
    at_probes : callable
        Margins at `CensoringScheme.event_probes`, (n_probes, n_margins).
    """

    n_rounds: int
    reference: bool
    at_horizons: Callable[[], npt.ArrayLike] = _no_margins
    at_probes: Callable[[], npt.ArrayLike] = _no_margins


class CensoringBooster(Protocol):
    """What a scheme needs of the model of censoring that it trains.

    The boosters of the estimator (`survival_objectives._engines.protocol.Booster`) have these
    members, and so have those that the plugin trains beside the user's model.
    """

    @property
    def n_rounds(self) -> int:
        """Rounds so far."""

    def add_batches(self, rows: StackedBatches) -> int:
        """Register rows that come in batches, as one matrix; returns its key."""

    def boost(
        self, key: int, target: npt.NDArray[Any], weight: npt.NDArray[Any], n_rounds: int
    ) -> None:
        """Train ``n_rounds`` more rounds on registered rows."""

    def margin(self, key: int) -> npt.ArrayLike:
        """Current log-odds of being censored at registered rows, (n_rows, 1)."""


@dataclass(frozen=True)
class Chunk:
    """The rounds between two refreshes, and the rows that they are boosted on.

    Attributes
    ----------
    number : int
        Of the chunk, from 0 on.
    n_rounds : int
    people : StackedPeople
    draw : Draw
        Horizons of the rows.
    events : EventMargins
        The event model.
    """

    number: int
    n_rounds: int
    people: StackedPeople
    draw: Draw
    events: EventMargins

    def rows(self) -> Iterator[BatchRows]:
        """Rows, batch by batch."""
        return self.people.rows(self.draw.number)


@dataclass(frozen=True)
class WeightSettings:
    """What all schemes share.

    Attributes
    ----------
    kaplan_meier : KaplanMeierCensoring
        Marginal censoring of the population.
    axis : TimeAxis
    floor, event_floor : float
        Smaller probabilities of being uncensored, or event-free, count as these in weights.
    weight_divisor : int
        By which weights are divided: the stacked rows per person, or 1.
    reduction : Reduction
    one_draw : bool, default=False
        Whether there is a single draw of horizons, so that models need be asked about the exits of
        those people only who left before one of them.
    """

    kaplan_meier: KaplanMeierCensoring
    axis: TimeAxis
    floor: float
    event_floor: float
    weight_divisor: int
    reduction: Reduction
    one_draw: bool = False


class CensoringScheme(ABC):
    """One way in which censored people count.

    Parameters
    ----------
    settings : WeightSettings

    Attributes
    ----------
    refreshed_rounds : list of int
        Rounds after which targets or weights were refreshed by a trained model.
    n_floored, n_weighted_rows : int
        Rows of the last chunk whose weight the floor limits, and all of them, over all processes.
    """

    #: Makes the rows of the event model from outcomes and horizons.
    event_rows = staticmethod(event_rows)
    #: Whether the event model is asked at `event_probes`.
    uses_probes = False
    #: First rounds of the event model by which it must not be judged, unless there are no others.
    n_warm_up_rounds = 0

    def __init__(self, settings: WeightSettings) -> None:
        self._settings = settings
        self.refreshed_rounds: list[int] = []
        self.n_floored, self.n_weighted_rows = 0, 0

    def event_probes(self, rows: BatchRows) -> Probes:
        """Where the event model is asked besides at its rows: censored people at their exits."""
        target = rows.target
        people = rows.censorings.exited
        if not self._settings.one_draw:
            people = np.flatnonzero(target.event == 0)
        return Probes.at_exits(people, target.duration[people], self._settings.axis)

    # Most schemes train no model of their own: these do nothing by default.
    def add_draw(self, people: StackedPeople, draw: Draw) -> None:  # noqa: B027
        """Register the rows of a draw with the scheme's own model."""

    def add_probes(self, people: StackedPeople, draw: Draw) -> None:  # noqa: B027
        """Register with the scheme's own model where it is asked besides at its rows."""

    @abstractmethod
    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """Targets and weights of the event rows for the next chunk of rounds."""

    @abstractmethod
    def state_weights(self, outcomes: Outcomes, stacker: TimeStacker) -> FloatArray:
        """Total weight of each state on newly drawn rows, before any model is trained."""

    def row_weight(self, rows: BatchRows) -> FloatArray:
        """Weights of the event rows without a censoring adjustment."""
        weight = np.full(rows.events.n_rows, 1 / self._settings.weight_divisor)
        if rows.weight is not None:
            weight *= rows.weight[rows.events.person]
        return weight

    def held_out_until(self, last: float) -> float:
        """The latest horizon, at most ``last``, at which held-out people are judged."""
        return last

    def held_out_weight(self, cohort: Cohort, rows: TrainingRows) -> FloatArray:
        """Weights (10) of event rows of held-out people, by the censoring of training people."""
        weight, _ = rows.weights(
            *self._held_out_survival(cohort, rows),
            floor=self._settings.floor,
            sample_weight=cohort.weight,
        )
        return weight

    def _held_out_survival(
        self, cohort: Cohort, rows: TrainingRows
    ) -> tuple[FloatArray, FloatArray]:
        """G of held-out people at the horizons of the rows at risk, and before their events."""
        return marginal_survival(self._settings.kaplan_meier, cohort.target, rows)

    def _count_floored(self, n_floored: int, n_rows: int) -> None:
        totals = self._settings.reduction.sum([n_floored, n_rows])
        self.n_floored, self.n_weighted_rows = int(totals[0]), int(totals[1])


def marginal_survival(
    kaplan_meier: KaplanMeierCensoring, target: SurvivalTarget, rows: TrainingRows
) -> tuple[FloatArray, FloatArray]:
    """Marginal G at the horizons of rows with t > z, and just before the events of the others."""
    return (
        kaplan_meier.survival(rows.horizon[rows.at_risk]),
        kaplan_meier.survival(target.duration[rows.exited], left=True),
    )


def survival_before_events(margin: npt.ArrayLike, duration: FloatArray) -> FloatArray:
    """G just before events at ``duration``, from log-odds of being censored by then.

    >>> survival_before_events(np.zeros(2), np.array([0.0, 1.0]))
    array([1. , 0.5])
    """
    before: FloatArray = expit(-np.asarray(margin, dtype=np.float64))
    before[duration <= 0] = 1.0  # No one is censored before the start.
    return before


def own_survival(
    model: CensoringModel, as_passed: PassedPeople, rows: TrainingRows, axis: TimeAxis
) -> tuple[FloatArray, FloatArray]:
    """G of the user's model at the horizons of rows with t > z, and before the others' events.

    The model sees people and event times as the user gave them. For a horizon within a unit of
    time, G is evaluated at the start of the unit.
    """

    def survival(people: IntArray, times: FloatArray, left: bool) -> FloatArray:
        known = model.survival(times, as_passed.take(people).X, left=left)
        return _checked_survival(known, len(people))

    horizon = rows.horizon[rows.at_risk].astype(np.float64)
    in_units = bool(axis.unit)
    # A beginning that is rounded up must not be taken for a time after it.
    asked = axis.number(horizon) * axis.unit * (1 - 1e-6) if in_units else horizon
    return (
        survival(rows.person[rows.at_risk], asked, left=in_units),
        survival(rows.exited, as_passed.duration[rows.exited], left=True),
    )


def _checked_survival(survival: npt.ArrayLike, n_rows: int) -> FloatArray:
    array = np.asarray(survival, dtype=np.float64)
    if array.shape != (n_rows,):
        msg = f"The censoring model returned shape {array.shape} for {n_rows} times."
        raise ValueError(msg)
    bad = np.flatnonzero(~((array >= 0) & (array <= 1)))
    if len(bad):
        msg = f"The censoring model returned {array[bad[0]]}, which is not a probability."
        raise ValueError(msg)
    return array

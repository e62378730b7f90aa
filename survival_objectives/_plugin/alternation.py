"""The feedback loop of Algorithm 1 in a training that an engine runs.

The engine owns the event model. Between two rounds a callback hands its margins over, a
`CensoringScheme` advances the model of censoring (Algorithm 3), and the event model gets new
weights (Algorithm 2) or, in the doubly robust way, new targets.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.protocol import BatchJoiner
from survival_objectives._horizons.schemes import AlternatingScheme, EventMargins
from survival_objectives._people import check_positive_int
from survival_objectives._plugin.problem_rows import ProblemRows
from survival_objectives._plugin.slot import RowTargets, WeightSlot
from survival_objectives.censoring import BoostedCensoring, MarginModel

logger = logging.getLogger("survival_objectives")


#: What to say where a training with refresh would continue a model.
CONTINUED = (
    "`refresh()` cannot continue a model: its model of censoring is not kept with it, so that "
    "weights would begin again. Train all rounds in one call or, to continue, leave out "
    "`refresh()`; hazards (`HazardObjective`) need no weights and can be continued."
)


class RefreshSchedule:
    """Says before which rounds the weights are refreshed: every ``every`` rounds, not at the start.

    >>> [n for n in range(7) if RefreshSchedule(3).is_due(n)]
    [3, 6]
    """

    def __init__(self, every: int) -> None:
        self.every = check_positive_int(every, "refresh_every")

    def is_due(self, n_rounds: int) -> bool:
        """Whether to refresh once ``n_rounds`` rounds are trained."""
        return n_rounds > 0 and n_rounds % self.every == 0


class CensoringTrainer(BatchJoiner, ABC):
    """A binary booster of an engine that is trained beside the user's model.

    It is a `survival_objectives._horizons.schemes.CensoringBooster`. Rows that are registered
    first are those that it is trained on; on others it only predicts.
    """

    def __init__(self) -> None:
        self.n_rounds = 0
        self._target: npt.NDArray[np.int32] = np.empty(0, np.int32)

    def boost(
        self, key: int, target: npt.NDArray[Any], weight: npt.NDArray[Any], n_rounds: int
    ) -> None:
        """Train ``n_rounds`` more rounds on the rows of the first key."""
        assert key == 0
        self._target = target
        self.advance(weight, n_rounds)
        self.n_rounds += n_rounds

    @abstractmethod
    def add(self, values: Float32Array, start: FloatArray) -> int:
        """Register rows (features, time) with their starting margins; returns their key."""

    @abstractmethod
    def advance(self, weight: FloatArray, n_rounds: int) -> None:
        """Train ``n_rounds`` more rounds under ``weight``, one per row of the first key."""

    @abstractmethod
    def margin(self, key: int) -> npt.ArrayLike:
        """Log-odds of being censored at registered rows, (n_rows, 1)."""

    @abstractmethod
    def model(self) -> MarginModel:
        """The booster as trained so far."""


class LiveModel(Protocol):
    """The event model of a training that an engine runs, as an adapter shows it to a refresh."""

    def row_margin(self) -> npt.ArrayLike:
        """Margins at the event rows, (n_rows, n_margins)."""

    def probe_margin(self) -> npt.ArrayLike:
        """Margins at `ProblemRows.event_probes`, (n_probes, n_margins)."""

    def new_trainer(self) -> CensoringTrainer:
        """A new censoring model without trees, for the first refresh."""


@dataclass(frozen=True)
class RefreshRecord:
    """What one refresh did.

    Attributes
    ----------
    round : int
        Rounds of the event model before it.
    mean_weight, max_weight : float
        Of the inverse censoring probabilities of the event rows, which are their weights but in
        the doubly robust way.
    n_floored : int
        Event rows whose censoring survival was raised to the floor.
    n_floored_censoring : int
        Censoring rows whose event survival was raised to the floor.
    """

    round: int
    mean_weight: float
    max_weight: float
    n_floored: int
    n_floored_censoring: int


def log_floor(floor: float, n_floored: int, n_rows: int) -> None:
    """Say in the log how many weights the floor limits, if any."""
    if n_floored:
        logger.info(
            "min_censoring_survival=%g limits the weight of %d of %d rows (%.1f %%).",
            floor,
            n_floored,
            n_rows,
            100 * n_floored / n_rows,
        )


class Alternation:
    """The feedback loop of one training: event and censoring model weight each other.

    Parameters
    ----------
    data : ProblemRows
        Rows of the event model; refused if there is nothing to refresh.
    reference : bool
        Link of the event model, see `survival_objectives.losses`.
    schedule : RefreshSchedule
    on_refresh : callable
        Called with the new censoring model, the number of floored rows and all records.

    Attributes
    ----------
    targets : RowTargets
        Current targets and weights of the event rows; the initial ones before the first refresh.
    """

    def __init__(
        self,
        data: ProblemRows,
        reference: bool,
        schedule: RefreshSchedule,
        on_refresh: Callable[[BoostedCensoring, int, list[RefreshRecord]], Any],
    ) -> None:
        if data.fixed:
            raise ValueError(data.fixed)
        self._data = data
        self._reference, self._schedule = reference, schedule
        self._on_refresh = on_refresh
        self._refreshes: list[RefreshRecord] = []
        self._trained: tuple[AlternatingScheme, CensoringTrainer] | None = None
        self._offered: RowTargets | None = None
        self.targets = data.initial

    @property
    def has_censoring(self) -> bool:
        """Whether any row is censored; otherwise all weights are 1 and stay so."""
        return self._data.draw.has_censored

    def is_due(self, n_rounds: int) -> bool:
        """Whether to refresh once ``n_rounds`` rounds are trained."""
        return self._schedule.is_due(n_rounds) and self.has_censoring

    def before_round(self, model: LiveModel, n_rounds: int, slot: WeightSlot) -> None:
        """Refresh if it is due, and offer targets and weights for the next round.

        Raises an error if those that were offered before have not been used.
        """
        if self._offered is None:
            slot.clear()
        else:
            slot.check_taken(self._offered)
        if self.is_due(n_rounds):
            self.refresh(model, n_rounds)
        self._offered = self.targets
        slot.offer(self._offered)

    def refresh(self, model: LiveModel, n_rounds: int) -> None:
        """Advance the censoring model and replace the targets and weights.

        Parameters
        ----------
        model : LiveModel
            The event model.
        n_rounds : int
            Its rounds so far.
        """
        data = self._data
        if self._trained is None:
            trainer = model.new_trainer()
            self._trained = data.refreshing_scheme(trainer), trainer
        scheme, trainer = self._trained
        events = EventMargins(n_rounds, self._reference, model.row_margin, model.probe_margin)
        self.targets = data.targets(scheme, self._schedule.every, events)
        log_floor(data.floor, scheme.n_floored, scheme.n_weighted_rows)
        self._refreshes.append(
            RefreshRecord(
                n_rounds,
                float(scheme.inverse.mean()),
                float(scheme.inverse.max()),
                scheme.n_floored,
                scheme.n_floored_censoring,
            )
        )
        censoring = BoostedCensoring(
            trainer.model(), data.censoring_start, data.features.schema, data.axis
        )
        self._on_refresh(censoring, scheme.n_floored, self._refreshes)

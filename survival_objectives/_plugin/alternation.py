"""The feedback loop of Algorithm 1 in a training that an engine runs.

Event model and censoring model take turns: survival of the event model weighs the rows of the
censoring model (Algorithm 3), which is then trained for a few rounds and gives the event model new
weights (Algorithm 2) or, in the doubly robust way, new targets.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from survival_objectives._plugin.schemes import CompletedRows, Probes, RowScheme, RowTargets
from survival_objectives.censoring import (
    BoostedCensoring,
    KaplanMeierCensoring,
    MarginModel,
    censoring_log_odds,
)
from survival_objectives.losses import probabilities
from survival_objectives.stacking import Stack, censoring_rows
from survival_objectives.time_axis import TimeAxis
from survival_objectives.validation import Features, SurvivalTarget, check_positive_int

__all__ = [
    "Alternation",
    "AlternationSettings",
    "CensoringTrainer",
    "RefreshRecord",
    "RefreshSchedule",
    "TrainingThread",
    "WeightSlot",
    "log_floor",
]

logger = logging.getLogger("survival_objectives")

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]


class WeightSlot(threading.local):
    """Targets and weights that a refresh callback hands to the objective for one round.

    The engines call both from the thread that trains, and each thread has a slot of its own, so
    that several trainings may share one objective. A copy of a slot is empty.
    """

    def __init__(self) -> None:
        self._offered: RowTargets | None = None
        self._taken: RowTargets | None = None

    def offer(self, targets: RowTargets) -> None:
        """Put targets and weights in, for the next round of this thread."""
        self._offered = targets

    def take(self) -> RowTargets | None:
        """What was offered for this round, which leaves the slot, or None."""
        self._taken, self._offered = self._offered, None
        return self._taken

    def clear(self) -> None:
        """Forget what an earlier training, perhaps an interrupted one, has left."""
        self._offered = self._taken = None

    def check_taken(self, targets: RowTargets) -> None:
        """Raise an error unless ``targets`` are what the last round was trained with."""
        taken = self._taken
        self.clear()
        if taken is not targets:
            msg = (
                "The refreshed weights were not used in the last round: this callback belongs to "
                "another objective than the one that is trained, or that one was trained elsewhere "
                "in between. Use `refresh()` of the objective, for one training at a time."
            )
            raise ValueError(msg)

    def __reduce__(self) -> tuple[type[WeightSlot], tuple[()]]:
        return WeightSlot, ()


class TrainingThread:
    """The thread that uses a callback: the first one, and no other."""

    def __init__(self) -> None:
        self._thread: int | None = None

    def check(self) -> None:
        """Raise an error in any other thread than the first that asked."""
        current = threading.get_ident()
        if self._thread is None:
            self._thread = current
        if self._thread != current:
            msg = (
                "This callback is used by a training in another thread. Give each training its "
                "own: `objective.refresh()`."
            )
            raise ValueError(msg)


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


class CensoringTrainer(Protocol):
    """A binary booster on the rows of the censoring model, as an adapter drives it."""

    def advance(self, weight: FloatArray, n_rounds: int) -> None:
        """Train ``n_rounds`` more rounds under ``weight``, one per row."""
        ...

    def stayed_margin(self) -> npt.ArrayLike:
        """Log-odds of being censored, at the rows whose person stayed."""
        ...

    def probe_margin(self) -> npt.ArrayLike:
        """Log-odds of being censored, at `Alternation.censoring_probes`."""
        ...

    def model(self) -> MarginModel:
        """The booster as trained so far."""
        ...


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


@dataclass(frozen=True)
class AlternationSettings:
    """What the feedback loop needs to know of a training problem.

    Attributes
    ----------
    target : SurvivalTarget
        Outcomes at their places on the time axis.
    stack : Stack
        Who is observed at which horizon.
    sample_weight : array of shape (n_samples,), optional
    marginal : KaplanMeierCensoring
        From which the censoring model starts.
    reference : bool
        Link of the event model, see `survival_objectives.losses`.
    min_censoring_survival, min_event_survival : float
        Floors.
    schema : Features
        Columns of training.
    axis : TimeAxis
    """

    target: SurvivalTarget
    stack: Stack
    sample_weight: FloatArray | None
    marginal: KaplanMeierCensoring
    reference: bool
    min_censoring_survival: float
    min_event_survival: float
    schema: Features
    axis: TimeAxis


class Alternation:
    """The feedback loop of one training: event model and censoring model weigh each other.

    Parameters
    ----------
    scheme : RowScheme
        Rows of the event model; refused if there is nothing to refresh.
    settings : AlternationSettings
    on_refresh : callable
        Called with the new censoring model, the number of floored rows and all records.

    Attributes
    ----------
    targets : RowTargets
        Current targets and weights of the event rows; the initial ones before the first refresh.
    censorings : TrainingRows
        Rows of the censoring model.
    start : StepFunction
        Its log-odds at the start, from Kaplan-Meier, as one column (equation (9)).
    event_probes, censoring_probes : Probes
        Where each refresh has to know the two models, besides at the rows.
    """

    def __init__(
        self,
        scheme: RowScheme,
        settings: AlternationSettings,
        on_refresh: Callable[[BoostedCensoring, int, list[RefreshRecord]], Any],
    ) -> None:
        if scheme.fixed or isinstance(scheme, CompletedRows):
            raise ValueError(scheme.fixed)
        self._scheme = scheme
        self._settings = settings
        self._on_refresh = on_refresh
        self._refreshes: list[RefreshRecord] = []
        self.targets = scheme.initial
        self.censorings = censoring_rows(settings.target, settings.stack)
        self.start = censoring_log_odds(settings.marginal.curve_, settings.target.n_samples)
        self.event_probes: Probes = scheme.event_probes(self.censorings)
        self.censoring_probes: Probes = scheme.censoring_probes()

    @property
    def has_censoring(self) -> bool:
        """Whether any row is censored; otherwise all weights are 1 and stay so."""
        return bool(self.censorings.target.any())

    def refresh(
        self,
        trainer: CensoringTrainer,
        row_margin: npt.ArrayLike,
        probe_margin: npt.ArrayLike,
        *,
        n_rounds: int,
        round: int,
    ) -> None:
        """Advance the censoring model and replace the targets and weights.

        Parameters
        ----------
        trainer : CensoringTrainer
            The censoring model to advance.
        row_margin : array of shape (n_rows, n_margins)
            The event model's margins at its rows.
        probe_margin : array of shape (n_probes, n_margins)
            The event model's margins at ``event_probes``.
        n_rounds : int
            Rounds to advance by.
        round : int
            Rounds of the event model so far, for the record.
        """
        scheme, settings = self._scheme, self._settings
        at_rows = probabilities(row_margin, reference=settings.reference)
        at_probes = probabilities(probe_margin, reference=settings.reference)
        weight, n_floored_censoring = self.censorings.weights(
            at_rows[scheme.rows.stayed, 0],
            scheme.event_free_at_exit(at_probes, self.censorings),
            floor=settings.min_event_survival,
            sample_weight=settings.sample_weight,
        )
        is_first = not self._refreshes
        trainer.advance(weight, n_rounds * scheme.head_start if is_first else n_rounds)
        refreshed = scheme.refreshed(
            at_rows,
            at_probes,
            expit(-np.asarray(trainer.stayed_margin(), dtype=np.float64)),
            expit(-np.asarray(trainer.probe_margin(), dtype=np.float64)),
            is_first=is_first,
        )
        self.targets = refreshed.targets
        log_floor(settings.min_censoring_survival, refreshed.n_floored, scheme.rows.n_rows)
        self._refreshes.append(
            RefreshRecord(
                round,
                float(refreshed.inverse.mean()),
                float(refreshed.inverse.max()),
                refreshed.n_floored,
                n_floored_censoring,
            )
        )
        censoring = BoostedCensoring(trainer.model(), self.start, settings.schema, settings.axis)
        self._on_refresh(censoring, refreshed.n_floored, self._refreshes)

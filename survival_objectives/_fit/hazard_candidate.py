"""One kind of member of a mixture of hazard models while it is fitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._fit.hazard_problem import HazardProblem, row_margins
from survival_objectives._fit.hazard_state import HazardState
from survival_objectives._model.fitted import ENGINE_ROWS
from survival_objectives._model.mixture import (
    LINEAR,
    HazardModel,
    HazardTrees,
    Member,
    Mixture,
    against_event_free,
)
from survival_objectives.hazards import (
    RiskRows,
    knot_incidence,
    person_likelihood,
    risk_rows,
    time_corrections,
)
from survival_objectives.losses import pointwise_log_loss

__all__ = ["Candidate", "HeldOutLoss", "TrainingLog"]

FloatArray = npt.NDArray[np.float64]

# Rounds go on while two looks gain this share of what all rounds have gained, or this much.
_LEAST_GAIN_SHARE, _LEAST_GAIN = 0.01, 1.0
# The same where one part of many people is held out: their gains are less noisy.
_LEAST_GAIN_SHARE_OF_MANY = 0.001


@dataclass(frozen=True)
class HeldOutLoss:
    """Minus the log-likelihood of the held-out people, per person, after some rounds."""

    kind: str
    round: int
    loss: float


@dataclass
class TrainingLog:
    """What is known about a training while it goes on.

    Attributes
    ----------
    held_weight : float
        Total weight of the held-out people.
    state : HazardState
        Where the training stands; trees are known only where there are checkpoints.
    on_checkpoint, progress : callable or None
        As in `HazardTraining`.
    checkpoint_every : int
        Rounds between two checkpoints.
    n_unsaved : int
        Rounds since the last one.
    history : list of HeldOutLoss
    """

    held_weight: float
    state: HazardState
    on_checkpoint: Callable[[HazardState], None] | None
    progress: Callable[[int, float], None] | None
    checkpoint_every: int = 10
    n_unsaved: int = 0
    history: list[HeldOutLoss] = field(default_factory=list)

    def looked(self, kind: str, n_rounds: int, n_more: int, gained: float) -> None:
        """Keep a record of a look at the held-out people."""
        loss = -gained / max(self.held_weight, 1e-12)
        self.history.append(HeldOutLoss(kind, n_rounds, loss))
        if n_more and self.progress is not None:
            self.progress(n_more, loss)

    @property
    def has_checkpoints(self) -> bool:
        """Whether states are handed over."""
        return self.on_checkpoint is not None

    def advance(self, n_rounds: int) -> bool:
        """Count rounds; returns whether a checkpoint is due."""
        self.n_unsaved += n_rounds
        return self.has_checkpoints and self.n_unsaved >= self.checkpoint_every

    def checkpoint(self, kind: str, **changes: object) -> None:
        """Hand over the state after a kind of member has gone on."""
        self.state, self.n_unsaved = self.state.updated(kind, **changes), 0
        if self.on_checkpoint is not None:
            self.on_checkpoint(self.state)


class Candidate:
    """One kind of member while it is fitted.

    Parameters
    ----------
    kind : str
        Name of the member.
    problem : HazardProblem
    new_booster : callable
        As in `HazardTraining`.
    log : TrainingLog
    previous : Mixture, optional
        The mixture that training goes on from.

    Attributes
    ----------
    rounds, gained : lists
        Looks at the held-out people: rounds, and their log-likelihood.
    """

    def __init__(
        self,
        kind: str,
        problem: HazardProblem,
        new_booster: Callable[..., Any],
        log: TrainingLog,
        previous: Mixture | None,
    ) -> None:
        self.kind = kind
        self._problem, self._people = problem, problem.people
        self._new_booster, self._log, self._previous = new_booster, log, previous
        self.rounds: list[int] = []
        self.gained: list[float] = []
        self._boosters: list[Any] | None = None
        self._models: list[HazardModel] = []

    @property
    def n_rounds(self) -> int:
        """Rounds that the held-out people choose."""
        return self.rounds[int(np.argmax(self.gained))] if self.gained else 0

    def fit(self) -> None:
        """Fit the models without the held-out people."""
        if self.kind != LINEAR:
            self.boost(self._problem.n_rounds)
        else:
            self._levels = self._start_levels()
        trained: Sequence[Any] = [None] * len(self._levels)
        n_rounds = self.n_rounds
        if n_rounds and self._boosters is not None:
            trained = [booster.model(n_rounds) for booster in self._boosters]
        self._models = [
            self._model(level, number, model)
            for number, (level, model) in enumerate(zip(self._levels, trained, strict=True))
        ]
        self.release()

    def release(self) -> None:
        """Forget rows and boosters."""
        self._boosters = None

    def likelihood(self) -> FloatArray:
        """Likelihood of the judges under the models that were fitted without them."""
        problem, people, judges = self._problem, self._people, self._problem.judges
        values, design = problem.judge_features()
        engine_rows = 0 if problem.reduction.is_shared else ENGINE_ROWS
        margin = np.empty((people.n_causes, people.n_intervals, len(judges)))
        for number, hazard in enumerate(self._models):
            own = problem.fold[judges] == number
            own_design = None if design is None else design[own]
            margin[:, :, own] = hazard.margin(values[own], own_design, engine_rows=engine_rows)
        event, place = people.event[judges], people.place[judges]
        if problem.n_folds:
            rows = risk_rows(event, place, people.knots, weight=people.weights(judges))
            at_rows = margin[:, rows.interval, rows.person]
            correction = time_corrections(at_rows, rows, people.n_intervals, problem.reduction)
        else:
            correction = self._correction_by_kept_rows()
        self._models = [_raised(hazard, correction) for hazard in self._models]
        incidence = knot_incidence(margin + correction[:, :, None])
        return person_likelihood(incidence, event, place, people.knots)

    def _correction_by_kept_rows(self) -> FloatArray:
        """Terms that bring the expected events of people who were fitted to the observed ones."""
        problem, hazard = self._problem, self._models[0]
        rows = problem.calibration_rows
        margin = row_margins(hazard.level, problem.offset(self.kind, 0), rows)
        if hazard.trees is not None:
            person, position = np.unique(rows.person, return_inverse=True)
            values = self._people.features(person).values[position]
            margin += hazard.trees.row_margin(
                values, rows.interval.astype(np.int64), ask_engine=not problem.reduction.is_shared
            )
        return time_corrections(margin, rows, self._people.n_intervals, problem.reduction)

    def member(self, weight: float) -> Member:
        """The member, with a model of everybody where folds were held out."""
        problem = self._problem
        if not problem.n_folds:
            return Member(weight, (), self._models[0])
        rows, everybody = problem.rows, problem.n_folds
        offset = problem.offset(self.kind, everybody)
        before = self._before(everybody)
        level = problem.start(rows, offset) if before is None else before.level
        margin, model = row_margins(level, offset, rows), None
        if self.n_rounds:
            booster = self._new_booster(*self._model_before(everybody))
            key = problem.register(booster, rows, level, offset)
            self._boost_refit(booster, key, rows)
            trained = np.asarray(booster.margin(key), np.float64).T
            margin = against_event_free(trained, reference=booster.reference)
            model = booster.model(self.n_rounds)
        hazard = self._model(level, everybody, model)
        correction = time_corrections(margin, rows, self._people.n_intervals, problem.reduction)
        return Member(weight, tuple(self._models), _raised(hazard, correction))

    def _boost_refit(self, booster: Any, key: int, rows: RiskRows) -> None:
        log = self._log
        known = log.state.of(self.kind).refit
        if known:
            booster.restore(known)
        # Rounds in one go are not in every engine the same as rounds in steps.
        step = self._problem.rounds_per_look if log.has_checkpoints or known else self.n_rounds
        while booster.n_rounds < self.n_rounds:
            n_more = min(step, self.n_rounds - booster.n_rounds)
            booster.boost(key, rows.target, rows.weight, n_more)
            if log.advance(n_more):
                state = booster.state()
                log.checkpoint(self.kind, refit=state)
                # An engine may have a state that its trees do not show, such as draws of columns:
                # like a resumed training, this one continues from the trees alone.
                booster.restore(state)

    # --------------------------------------------------------------------------------------- trees
    def boost(self, n_rounds: int) -> None:
        """Boost until the held-out people gain nothing more, up to so many rounds."""
        problem, log = self._problem, self._log
        if self._boosters is None:
            self._begin()
        boosters = self._boosters or []
        n_rounds = min(n_rounds, problem.n_rounds)
        while self.rounds[-1] < n_rounds and not self._is_flat():
            n_more = min(problem.rounds_per_look, n_rounds - self.rounds[-1])
            for booster, key, rows in zip(boosters, self._keys, problem.kept, strict=True):
                booster.boost(key, rows.target, rows.weight, n_more)
            self._look(self.rounds[-1] + n_more, n_more)
            if log.advance(n_more):
                trees = tuple(booster.state() for booster in boosters)
                looks = {"rounds": tuple(self.rounds), "gained": tuple(self.gained)}
                log.checkpoint(self.kind, trees=trees, **looks)
                for booster, state in zip(boosters, trees, strict=True):
                    booster.restore(state)

    def _begin(self) -> None:
        """Boosters with their rows, where they start or where a checkpoint left them."""
        problem, log = self._problem, self._log
        known = log.state.of(self.kind)
        self._levels = self._start_levels()
        self._boosters, self._keys, self._held_keys = [], [], []
        for number, level in enumerate(self._levels):
            booster = self._new_booster(*self._model_before(number))
            offset = problem.offset(self.kind, number)
            self._keys.append(problem.register(booster, problem.kept[number], level, offset))
            self._held_keys.append(problem.register(booster, problem.held[number], level, offset))
            self._boosters.append(booster)
        if known.rounds:
            for booster, trees in zip(self._boosters, known.trees, strict=True):
                booster.restore(trees)
            self.rounds, self.gained = list(known.rounds), list(known.gained)
            for n_rounds, gained in zip(self.rounds, self.gained, strict=True):
                log.looked(self.kind, n_rounds, 0, gained)
        else:
            self._look(self._boosters[0].n_rounds, 0)

    def _look(self, n_rounds: int, n_more: int) -> None:
        self.rounds.append(n_rounds)
        self.gained.append(self._held_out())
        self._log.looked(self.kind, n_rounds, n_more, self.gained[-1])

    def _held_out(self) -> float:
        """Log-likelihood of the held-out rows of all folds."""
        own = -sum(
            float(
                pointwise_log_loss(
                    booster.margin(key), rows.target, rows.weight, reference=booster.reference
                ).sum()
            )
            for booster, key, rows in zip(
                self._boosters or [], self._held_keys, self._problem.held, strict=True
            )
        )
        return float(self._problem.reduction.sum(own))

    def _is_flat(self) -> bool:
        """Whether the last looks have gained next to nothing."""
        problem = self._problem
        patience = problem.settings.patience
        if patience is not None:
            return self.rounds[-1] - self.n_rounds >= patience
        if len(self.gained) < 3:
            return False
        share = _LEAST_GAIN_SHARE if problem.n_folds else _LEAST_GAIN_SHARE_OF_MANY
        least = max(_LEAST_GAIN, share * (max(self.gained) - self.gained[0]))
        return self.gained[-1] - self.gained[-3] < least

    # ------------------------------------------------------------------------------------- models
    def _before(self, number: int) -> HazardModel | None:
        """The model that training goes on from."""
        previous = self._previous
        if previous is None:
            return None
        member = previous.members[self.kind]
        return (*member.folds, member.refit)[number]

    def _model_before(self, number: int) -> tuple[Any, ...]:
        before = self._before(number)
        return () if before is None or before.model is None else (before.model,)

    def _start_levels(self) -> list[FloatArray]:
        problem = self._problem
        levels = []
        for number, rows in enumerate(problem.kept):
            before = self._before(number)
            offset = problem.offset(self.kind, number)
            levels.append(problem.start(rows, offset) if before is None else before.level)
        return levels

    def _model(self, level: FloatArray, number: int, model: Any) -> HazardModel:
        problem = self._problem
        trees = None if model is None else HazardTrees(self._new_booster(model))
        return HazardModel(level, problem.coefficients(self.kind, number), trees, model)


def _raised(hazard: HazardModel, correction: FloatArray) -> HazardModel:
    """The model with a correction added to its levels."""
    return HazardModel(hazard.level + correction, hazard.coefficients, hazard.trees, hazard.model)

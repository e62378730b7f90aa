"""Fitting of one candidate member of a mixture of hazard models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._engines.evaluator import Evaluator
from survival_objectives._engines.protocol import Trainer
from survival_objectives._hazards.formulas import (
    PersonLikelihood,
    RiskRows,
    knot_incidence,
    person_likelihood,
    risk_rows,
    row_margins,
    time_corrections,
)
from survival_objectives._hazards.mixture import (
    LINEAR,
    HazardModel,
    HazardTrees,
    Member,
    Mixture,
    against_event_free,
)
from survival_objectives._hazards.problem import HazardProblem
from survival_objectives._hazards.state import HazardState
from survival_objectives._models.fitted import ENGINE_ROWS
from survival_objectives.losses import pointwise_log_loss

# Boosting stops when the last two evaluations gain less than this share of the total gain, or
# less than this much log-likelihood.
_LEAST_GAIN_SHARE, _LEAST_GAIN = 0.01, 1.0
# The share for large data with a single held-out part: its gains are less noisy.
_LEAST_GAIN_SHARE_OF_MANY = 0.001


@dataclass(frozen=True)
class HeldOutLoss:
    """Negative held-out log-likelihood per person after a number of rounds."""

    kind: str
    round: int
    loss: float


@dataclass
class TrainingLog:
    """State and history of a running training.

    Attributes
    ----------
    held_weight : float
        Total weight of the held-out people.
    state : HazardState
        State of the training; it contains trees only where checkpoints are written.
    on_checkpoint, progress : callable or None
        As in `HazardTraining`.
    checkpoint_every : int
        Rounds between two checkpoints.
    n_unsaved : int
        Rounds since the last checkpoint.
    history : list of HeldOutLoss
    """

    held_weight: float
    state: HazardState
    on_checkpoint: Callable[[HazardState], None] | None
    progress: Callable[[int, float], None] | None
    checkpoint_every: int = 10
    n_unsaved: int = 0
    history: list[HeldOutLoss] = field(default_factory=list)

    def record(self, kind: str, n_rounds: int, n_more: int, log_likelihood: float) -> None:
        """Record an evaluation on the held-out people."""
        loss = -log_likelihood / max(self.held_weight, 1e-12)
        self.history.append(HeldOutLoss(kind, n_rounds, loss))
        if n_more and self.progress is not None:
            self.progress(n_more, loss)

    @property
    def has_checkpoints(self) -> bool:
        """Whether checkpoints are written."""
        return self.on_checkpoint is not None

    def advance(self, n_rounds: int) -> bool:
        """Add rounds to the count, and return whether a checkpoint is due."""
        self.n_unsaved += n_rounds
        return self.has_checkpoints and self.n_unsaved >= self.checkpoint_every

    def checkpoint(self, kind: str, **changes: object) -> None:
        """Pass the updated state to ``on_checkpoint``."""
        self.state, self.n_unsaved = self.state.updated(kind, **changes), 0
        if self.on_checkpoint is not None:
            self.on_checkpoint(self.state)


class Candidate:
    """One candidate member of the mixture.

    Parameters
    ----------
    kind : str
        Name of the member.
    problem : HazardProblem
    new_trainer : callable
        As in `HazardTraining`.
    log : TrainingLog
    previous : Mixture, optional
        The mixture that a warm start continues.

    Attributes
    ----------
    rounds, log_likelihood : lists
        Held-out evaluations: number of rounds, and log-likelihood.
    """

    def __init__(
        self,
        kind: str,
        problem: HazardProblem,
        new_trainer: Callable[..., Trainer],
        log: TrainingLog,
        previous: Mixture | None,
    ) -> None:
        self.kind = kind
        self._problem, self._people = problem, problem.people
        self._new_trainer, self._log, self._previous = new_trainer, log, previous
        self.rounds: list[int] = []
        self.log_likelihood: list[float] = []
        self._trainers: list[Trainer] | None = None
        self._models: list[HazardModel] = []

    @property
    def n_rounds(self) -> int:
        """Number of rounds with the highest held-out log-likelihood."""
        return self.rounds[int(np.argmax(self.log_likelihood))] if self.log_likelihood else 0

    def fit(self) -> None:
        """Fit the models of all folds."""
        if self.kind != LINEAR:
            self.boost(self._problem.n_rounds)
        else:
            self._levels = self._start_levels()
        trained: Sequence[Evaluator | None] = [None] * len(self._levels)
        n_rounds = self.n_rounds
        if n_rounds and self._trainers is not None:
            trained = [trainer.finished(n_rounds) for trainer in self._trainers]
        self._models = [
            self._model(level, number, trees)
            for number, (level, trees) in enumerate(zip(self._levels, trained, strict=True))
        ]
        self.release()

    def release(self) -> None:
        """Free rows and trainers."""
        self._trainers = None

    def likelihood(self) -> PersonLikelihood:
        """Held-out likelihood of each judge."""
        problem, people, judges = self._problem, self._people, self._problem.judges
        values, design = problem.judge_features()
        engine_rows = 0 if problem.reduction.is_shared else ENGINE_ROWS
        margin = np.empty((people.n_causes, people.n_intervals, len(judges)))
        for number, hazard in enumerate(self._models):
            own = problem.fold[judges] == number
            own_design = None if design is None else design[own]
            margin[:, :, own] = hazard.margin(values[own], own_design, engine_rows=engine_rows)
        event, place, entry = people.event[judges], people.place[judges], people.entries(judges)
        if problem.n_folds:
            rows = risk_rows(event, place, people.knots, entry=entry, weight=people.weights(judges))
            at_rows = margin[:, rows.interval, rows.person]
            correction = time_corrections(at_rows, rows, people.n_intervals, problem.reduction)
        else:
            correction = self._correction_by_kept_rows()
        self._models = [_corrected(hazard, correction) for hazard in self._models]
        incidence = knot_incidence(margin + correction[:, :, None])
        by_row = person_likelihood(incidence, event, place, people.knots, entry)
        return by_row.of_persons(people.persons(judges))

    def _correction_by_kept_rows(self) -> FloatArray:
        """Terms that match expected to observed events on a sample of the training rows."""
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
        """The fitted member, with a refit on all people if there were folds."""
        problem = self._problem
        if not problem.n_folds:
            return Member(weight, (), self._models[0])
        rows, refit = problem.rows, problem.n_folds
        offset = problem.offset(self.kind, refit)
        previous = self._previous_hazard(refit)
        level = problem.start(rows, offset) if previous is None else previous.level
        margin, finished = row_margins(level, offset, rows), None
        if self.n_rounds:
            trainer = self._new_trainer(*self._previous_model(refit))
            key = problem.register(trainer, rows, level, offset)
            self._boost_refit(trainer, key, rows)
            trained = np.asarray(trainer.margin(key), np.float64).T
            margin = against_event_free(trained, self._people.n_causes)
            finished = trainer.finished(self.n_rounds)
        hazard = self._model(level, refit, finished)
        correction = time_corrections(margin, rows, self._people.n_intervals, problem.reduction)
        return Member(weight, tuple(self._models), _corrected(hazard, correction))

    def _boost_refit(self, trainer: Any, key: int, rows: RiskRows) -> None:
        log = self._log
        known = log.state.of(self.kind).refit
        if known:
            trainer.restore(known)
        # In some engines, boosting in steps gives other trees than boosting in one call.
        is_stepwise = log.has_checkpoints or known
        step = self._problem.rounds_per_evaluation if is_stepwise else self.n_rounds
        while trainer.n_rounds < self.n_rounds:
            n_more = min(step, self.n_rounds - trainer.n_rounds)
            trainer.boost(key, rows.target, rows.weight, n_more)
            if log.advance(n_more):
                state = trainer.state()
                log.checkpoint(self.kind, refit=state)
                # An engine may hold state besides its trees, such as a column sampler. This run
                # drops it too, so that it gives the same trees as a resumed training.
                trainer.restore(state)

    # --------------------------------------------------------------------------------------- trees
    def boost(self, n_rounds: int) -> None:
        """Boost until the held-out log-likelihood stops rising, at most ``n_rounds`` rounds."""
        problem, log = self._problem, self._log
        if self._trainers is None:
            self._begin()
        trainers = self._trainers or []
        n_rounds = min(n_rounds, problem.n_rounds)
        while self.rounds[-1] < n_rounds and not self._is_flat():
            n_more = min(problem.rounds_per_evaluation, n_rounds - self.rounds[-1])
            for trainer, key, rows in zip(trainers, self._keys, problem.kept, strict=True):
                trainer.boost(key, rows.target, rows.weight, n_more)
            self._evaluate_held_out(self.rounds[-1] + n_more, n_more)
            if log.advance(n_more):
                trees = tuple(trainer.state() for trainer in trainers)
                evaluations = {
                    "rounds": tuple(self.rounds),
                    "log_likelihood": tuple(self.log_likelihood),
                }
                log.checkpoint(self.kind, trees=trees, **evaluations)
                for trainer, state in zip(trainers, trees, strict=True):
                    trainer.restore(state)

    def _begin(self) -> None:
        """Create the trainers of all folds, and restore their trees from a checkpoint."""
        problem, log = self._problem, self._log
        known = log.state.of(self.kind)
        self._levels = self._start_levels()
        self._trainers, self._keys, self._held_keys = [], [], []
        for number, level in enumerate(self._levels):
            trainer = self._new_trainer(*self._previous_model(number))
            offset = problem.offset(self.kind, number)
            self._keys.append(problem.register(trainer, problem.kept[number], level, offset))
            self._held_keys.append(problem.register(trainer, problem.held[number], level, offset))
            self._trainers.append(trainer)
        if known.rounds:
            for trainer, trees in zip(self._trainers, known.trees, strict=True):
                trainer.restore(trees)
            self.rounds, self.log_likelihood = list(known.rounds), list(known.log_likelihood)
            for n_rounds, log_likelihood in zip(self.rounds, self.log_likelihood, strict=True):
                log.record(self.kind, n_rounds, 0, log_likelihood)
        else:
            self._evaluate_held_out(self._trainers[0].n_rounds, 0)

    def _evaluate_held_out(self, n_rounds: int, n_more: int) -> None:
        self.rounds.append(n_rounds)
        self.log_likelihood.append(self._held_out_log_likelihood())
        self._log.record(self.kind, n_rounds, n_more, self.log_likelihood[-1])

    def _held_out_log_likelihood(self) -> float:
        """Log-likelihood of the held-out rows of all folds."""
        own = -sum(
            float(
                pointwise_log_loss(
                    trainer.margin(key), rows.target, rows.weight, reference=trainer.reference
                ).sum()
            )
            for trainer, key, rows in zip(
                self._trainers or [], self._held_keys, self._problem.held, strict=True
            )
        )
        return float(self._problem.reduction.sum(own))

    def _is_flat(self) -> bool:
        """Whether the last held-out evaluations show almost no gain."""
        problem = self._problem
        patience = problem.settings.patience
        if patience is not None:
            return self.rounds[-1] - self.n_rounds >= patience
        if len(self.log_likelihood) < 3:
            return False
        share = _LEAST_GAIN_SHARE if problem.n_folds else _LEAST_GAIN_SHARE_OF_MANY
        least = max(_LEAST_GAIN, share * (max(self.log_likelihood) - self.log_likelihood[0]))
        return self.log_likelihood[-1] - self.log_likelihood[-3] < least

    # ------------------------------------------------------------------------------------- models
    def _previous_hazard(self, number: int) -> HazardModel | None:
        """The model that a warm start continues; None for a member that had no weight before."""
        previous = self._previous
        if previous is None or self.kind not in previous.members:
            return None
        member = previous.members[self.kind]
        return (*member.folds, member.refit)[number]

    def _previous_model(self, number: int) -> tuple[Any, ...]:
        previous = self._previous_hazard(number)
        if previous is None or previous.trees is None:
            return ()
        return (previous.trees.evaluator.model,)

    def _start_levels(self) -> list[FloatArray]:
        problem = self._problem
        levels = []
        for number, rows in enumerate(problem.kept):
            previous = self._previous_hazard(number)
            offset = problem.offset(self.kind, number)
            levels.append(problem.start(rows, offset) if previous is None else previous.level)
        return levels

    def _model(self, level: FloatArray, number: int, finished: Evaluator | None) -> HazardModel:
        trees = None if finished is None else HazardTrees(finished, self._people.n_causes)
        return HazardModel(level, self._problem.coefficients(self.kind, number), trees)


def _corrected(hazard: HazardModel, correction: FloatArray) -> HazardModel:
    """The model with a correction added to its levels."""
    return HazardModel(hazard.level + correction, hazard.coefficients, hazard.trees)

"""Training of the members of a mixture, whose weights maximise the held-out likelihood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._engines.protocol import Trainer
from survival_objectives._hazards.formulas import (
    LOCAL,
    selected_weights,
    time_corrections,
)
from survival_objectives._hazards.mixture import (
    LINEAR,
    ON_LINEAR,
    TREES,
    HazardModel,
    HazardTrees,
    Member,
    Mixture,
)
from survival_objectives._hazards.people import HazardPeople
from survival_objectives._hazards.problem import HazardProblem
from survival_objectives._hazards.settings import HazardSettings, HazardState
from survival_objectives._people.population import Reduction

# Boosting stops when so many evaluations gain less than this share of the total gain, or less than
# this much log-likelihood.
_FLAT_EVALUATIONS = 3
_LEAST_GAIN_SHARE, _LEAST_GAIN = 0.01, 1.0
# The share for large data, whose gains are less noisy.
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
    total_held_out_weight : float
        Total weight of the held-out people.
    state : HazardState
        State of the training; it contains trees only where checkpoints are written.
    on_checkpoint, progress : callable or None
        As in `HazardTraining`.
    checkpoint_every : int
        Rounds between two checkpoints.
    n_unsaved : dict of str to int
        Rounds of each kind since its last checkpoint.
    history : list of HeldOutLoss
    """

    total_held_out_weight: float
    state: HazardState
    on_checkpoint: Callable[[HazardState], None] | None
    progress: Callable[[int, float], None] | None
    checkpoint_every: int = 10
    n_unsaved: dict[str, int] = field(default_factory=dict)
    history: list[HeldOutLoss] = field(default_factory=list)

    def record(self, kind: str, n_rounds: int, n_more: int, log_likelihood: float) -> None:
        """Record an evaluation on the held-out people."""
        loss = -log_likelihood / max(self.total_held_out_weight, 1e-12)
        self.history.append(HeldOutLoss(kind, n_rounds, loss))
        if n_more and self.progress is not None:
            self.progress(n_more, loss)

    @property
    def has_checkpoints(self) -> bool:
        """Whether checkpoints are written."""
        return self.on_checkpoint is not None

    def advance(self, kind: str, n_rounds: int) -> bool:
        """Add rounds to the count, and return whether a checkpoint is due."""
        self.n_unsaved[kind] = self.n_unsaved.get(kind, 0) + n_rounds
        return self.has_checkpoints and self.n_unsaved[kind] >= self.checkpoint_every

    def checkpoint(self, kind: str, **changes: object) -> None:
        """Pass the updated state to ``on_checkpoint``."""
        self.state, self.n_unsaved[kind] = self.state.updated(kind, **changes), 0
        if self.on_checkpoint is not None:
            self.on_checkpoint(self.state)


class Candidate:
    """One candidate member of the mixture: as many models of one kind as there are folds.

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
        self._problem, self._people, self._log = problem, problem.people, log
        self._new_trainer = new_trainer
        known = None if previous is None else previous.members.get(kind)
        # A member without weight was not kept, and begins again; so does one without trees.
        has_trees = known is not None and known.model.trees is not None
        self._previous = known.model if known is not None and has_trees else None
        self.rounds: list[int] = []
        self.log_likelihood: list[float] = []
        self._trainer: Trainer | None = None
        self._trees: HazardTrees | None = None
        self._best_state = b""

    @property
    def n_rounds(self) -> int:
        """Number of rounds with the highest held-out log-likelihood."""
        return self.rounds[self._number_of_best]

    @property
    def _number_of_best(self) -> int:
        """Number of the best evaluation: the first, unless a later one gained more than by chance.

        The best of many evaluations of trees that know nothing is a little better than none.
        """
        best = int(np.argmax(self.log_likelihood))
        gain = self.log_likelihood[best] - self.log_likelihood[0]
        return best if gain > _LEAST_GAIN else 0

    def fit(self) -> None:
        """Fit all models."""
        if self.kind == LINEAR:
            self._levels = self._start_levels()
            start = self._problem.start_margins(self.kind, self._levels)
            self._best = self._problem.held_out_margins(start)
            self.rounds, self.log_likelihood = [0], [self._problem.log_likelihood(self._best)]
        else:
            self.boost(self._problem.n_rounds)
            assert self._trainer is not None
            if self.n_rounds:
                finished = self._trainer.finished(self.n_rounds)
                n_models = self._problem.n_models
                self._trees = HazardTrees(finished, self._people.n_causes, n_models)
            self.release()

    def release(self) -> None:
        """Free rows and trainers."""
        self._trainer = None

    def likelihood(self) -> FloatArray:
        """Likelihood of each held-out person, with calibrated levels."""
        problem = self._problem
        self._correction = time_corrections(
            self._best.calibrated,
            problem.calibration,
            self._people.n_intervals,
            problem.reduction,
        )
        return problem.likelihood(
            self._best.held_out + self._correction[:, problem.held_out_rows.interval]
        )

    def model(self) -> HazardModel:
        """The fitted models."""
        coefficients = self._problem.coefficients(self.kind)
        return HazardModel(self._levels + self._correction, coefficients, self._trees)

    # --------------------------------------------------------------------------------------- trees
    def boost(self, n_rounds: int) -> None:
        """Boost until the held-out log-likelihood stops rising, at most ``n_rounds`` rounds."""
        problem, log = self._problem, self._log
        if self._trainer is None:
            self._trainer = self._begun()
        trainer, rows = self._trainer, problem.rows
        n_rounds = min(n_rounds, problem.n_rounds)
        while self.rounds[-1] < n_rounds and not self._is_flat():
            n_more = min(problem.rounds_per_evaluation, n_rounds - self.rounds[-1])
            trainer.boost(self._key, rows.target, self._weights, n_more)
            self._evaluate(trainer, n_more)
            if log.advance(self.kind, n_more):
                state = trainer.state()
                is_best = self.n_rounds == self.rounds[-1]
                log.checkpoint(
                    self.kind,
                    rounds=tuple(self.rounds),
                    log_likelihood=tuple(self.log_likelihood),
                    trees=state,
                    best=b"" if is_best else self._best_state,
                )
                # An engine may hold state besides its trees, such as a column sampler. This run
                # drops it too, so that it gives the same trees as a resumed training.
                trainer.restore(state)

    def _begun(self) -> Trainer:
        """A trainer with all rows, and with the trees of a checkpoint."""
        problem, log = self._problem, self._log
        known = log.state.of(self.kind)
        self._levels = self._start_levels()
        self._weights = problem.training_weights()
        previous = None
        if self._previous is not None:
            assert self._previous.trees is not None
            previous = self._previous.trees.evaluator.model
        trainer = self._new_trainer(previous, problem.n_models)
        self._key = problem.register(trainer, self.kind, self._levels)
        if not known.rounds:
            self._evaluate(trainer, 0)
            return trainer
        self.rounds, self.log_likelihood = list(known.rounds), list(known.log_likelihood)
        for n_rounds, log_likelihood in zip(self.rounds, self.log_likelihood, strict=True):
            log.record(self.kind, n_rounds, 0, log_likelihood)
        self._best_state = known.best
        trainer.restore(known.best or known.trees)
        self._best = problem.held_out_margins(trainer.margin(self._key))
        if known.best:
            trainer.restore(known.trees)
        return trainer

    def _evaluate(self, trainer: Trainer, n_more: int) -> None:
        """Evaluate the models on held-out people, and keep the margins of the best."""
        margins = self._problem.held_out_margins(trainer.margin(self._key))
        log_likelihood = self._problem.log_likelihood(margins)
        self.rounds.append(trainer.n_rounds)
        self.log_likelihood.append(log_likelihood)
        if self.n_rounds == trainer.n_rounds:
            self._best = margins
            self._best_state = trainer.state() if self._log.has_checkpoints else b""
        self._log.record(self.kind, trainer.n_rounds, n_more, log_likelihood)

    def _is_flat(self) -> bool:
        """Whether the last held-out evaluations show almost no gain."""
        problem = self._problem
        patience = problem.settings.patience
        if patience is not None:
            return self.rounds[-1] - self.n_rounds >= patience
        if len(self.log_likelihood) <= _FLAT_EVALUATIONS:
            return False
        share = _LEAST_GAIN_SHARE_OF_MANY if problem.is_large else _LEAST_GAIN_SHARE
        least = max(_LEAST_GAIN, share * (max(self.log_likelihood) - self.log_likelihood[0]))
        gain = self.log_likelihood[-1] - self.log_likelihood[-1 - _FLAT_EVALUATIONS]
        return gain < least

    def _start_levels(self) -> FloatArray:
        """Levels of all models before any further tree, (L, K, M)."""
        if self._previous is not None:
            return self._previous.levels
        return self._problem.start_levels(self.kind)


# With many people, the better of two kinds of trees after this many rounds is kept.
_RACE_ROUNDS = 15
_LEAST_WEIGHT = 1e-3


class HazardTraining:
    """Training of one mixture of hazard models.

    Parameters
    ----------
    people : HazardPeople
        People of this process.
    settings : HazardSettings
    generator : numpy Generator
        Draws folds and rows; the same in all processes.
    new_trainer : callable
        Returns a `Trainer` without trees or, given a model of the engine, with its trees.
    reduction : Reduction
        Sums over all processes.
    held_out : HazardPeople, optional
        Held-out people on whom rounds, penalty and weights are chosen, in place of folds.
    state : HazardState, optional
        State to resume from, with the same people, settings and seed.
    on_checkpoint : callable, optional
        Called with a `HazardState` at each checkpoint, in all processes.
    checkpoint_every : int, default=10
        Rounds between two checkpoints, at least those between two held-out evaluations.
    previous : Mixture, optional
        A mixture to continue, up to ``n_rounds`` rounds in total. Its linear parts are kept. People
        and generator must be those of the previous training: with other folds, held-out people
        would be evaluated by trees that were fitted to them.
    progress : callable, optional
        Called with the rounds since the last call and the held-out loss.

    Attributes
    ----------
    history : list of HeldOutLoss
        All held-out evaluations.
    """

    def __init__(
        self,
        people: HazardPeople,
        settings: HazardSettings,
        generator: np.random.Generator,
        new_trainer: Callable[..., Trainer],
        *,
        reduction: Reduction = LOCAL,
        held_out: HazardPeople | None = None,
        state: HazardState | None = None,
        on_checkpoint: Callable[[HazardState], None] | None = None,
        checkpoint_every: int = 10,
        previous: Mixture | None = None,
        progress: Callable[[int, float], None] | None = None,
    ) -> None:
        self.problem = HazardProblem(people, settings, generator, reduction, held_out)
        self._new_trainer, self._previous = new_trainer, previous
        self._log = TrainingLog(
            self.problem.total_held_out_weight,
            state or HazardState(),
            on_checkpoint,
            progress,
            checkpoint_every,
        )
        self.history = self._log.history
        if previous is not None and previous.n_models != self.problem.n_models:
            msg = (
                f"The mixture to continue has {previous.n_models} models of each kind, but this "
                f"training has {self.problem.n_models}: continue with the same number of folds, of "
                "repeats and of people."
            )
            raise ValueError(msg)

    def mixture(self) -> Mixture:
        """The mixture of all members with a positive weight."""
        problem = self.problem
        candidates = self._fitted_candidates(self._kinds())
        likelihoods = np.array([candidate.likelihood() for candidate in candidates])
        # Trees without any round are the marginal hazards.
        cost = np.array([float(one.n_rounds > 0 or one.kind == LINEAR) for one in candidates])
        weights = selected_weights(likelihoods, cost, problem.held_out_weight, problem.reduction)
        weights = np.where(weights < _LEAST_WEIGHT, 0.0, weights)
        weights /= weights.sum()
        members = {
            candidate.kind: Member(float(weight), candidate.model())
            for candidate, weight in zip(candidates, weights, strict=True)
            if weight > 0
        }
        is_linear = any(kind != TREES for kind in members)
        return Mixture(members, problem.columns if is_linear else None)

    def _kinds(self) -> list[str]:
        """Fit or reuse the linear part, and return the kinds of members to fit."""
        problem, previous = self.problem, self._previous
        if not problem.settings.linear:
            return [TREES]
        if previous is None or previous.design is None:
            return [LINEAR, TREES, ON_LINEAR] if problem.fit_linear() else [TREES]
        problem.columns = previous.design
        known = next(one.model for kind, one in previous.members.items() if kind != TREES)
        assert known.coefficients is not None
        problem.set_coefficients(list(known.coefficients))
        return [LINEAR, TREES, ON_LINEAR]

    def _fitted_candidates(self, kinds: Sequence[str]) -> list[Candidate]:
        candidates = [
            Candidate(kind, self.problem, self._new_trainer, self._log, self._previous)
            for kind in kinds
        ]
        if self.problem.is_large and TREES in kinds and ON_LINEAR in kinds:
            candidates = self._without_worse_trees(candidates)
        for candidate in candidates:
            candidate.fit()
        # Trees on the linear offset without any tree would repeat the linear hazards.
        return [one for one in candidates if one.kind != ON_LINEAR or one.n_rounds]

    @staticmethod
    def _without_worse_trees(candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates without the kind of trees that is worse after a few rounds."""
        trees = [candidate for candidate in candidates if candidate.kind != LINEAR]
        for candidate in trees:
            candidate.boost(_RACE_ROUNDS)
        best = max(trees, key=lambda candidate: candidate.log_likelihood[-1])
        for candidate in trees:
            if candidate is not best:
                candidate.release()
        return [one for one in candidates if one.kind == LINEAR or one is best]

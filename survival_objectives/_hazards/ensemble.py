"""Training of a mixture of hazard models whose weights maximise the held-out likelihood."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from survival_objectives._engines.protocol import Trainer
from survival_objectives._hazards.formulas import LOCAL, PersonLikelihood, selected_weights
from survival_objectives._hazards.member import Candidate, TrainingLog
from survival_objectives._hazards.mixture import LINEAR, ON_LINEAR, TREES, Member, Mixture
from survival_objectives._hazards.people import HazardPeople
from survival_objectives._hazards.problem import HazardProblem
from survival_objectives._hazards.settings import HazardSettings
from survival_objectives._hazards.state import HazardState
from survival_objectives._people.population import Reduction

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
    judges : HazardPeople, optional
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
        judges: HazardPeople | None = None,
        state: HazardState | None = None,
        on_checkpoint: Callable[[HazardState], None] | None = None,
        checkpoint_every: int = 10,
        previous: Mixture | None = None,
        progress: Callable[[int, float], None] | None = None,
    ) -> None:
        self.problem = HazardProblem(people, settings, generator, reduction, judges)
        self._new_trainer, self._previous = new_trainer, previous
        self._log = TrainingLog(
            self.problem.held_weight,
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
        likelihoods = PersonLikelihood(
            np.array([candidate.likelihood() for candidate in candidates])
        )
        # Trees without any round are the marginal hazards.
        cost = np.array([float(one.n_rounds > 0 or one.kind == LINEAR) for one in candidates])
        weights = selected_weights(likelihoods, cost, problem.judge_weight, problem.reduction)
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

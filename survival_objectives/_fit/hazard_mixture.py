"""Training of a mixture of hazard models whose weights come from people not used to fit them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from survival_objectives._fit.hazard_candidate import Candidate, TrainingLog
from survival_objectives._fit.hazard_people import HazardPeople
from survival_objectives._fit.hazard_problem import HazardProblem, HazardSettings
from survival_objectives._fit.hazard_state import HazardState
from survival_objectives._fit.population import Reduction
from survival_objectives._model.mixture import LINEAR, ON_LINEAR, TREES, Mixture
from survival_objectives.hazards import LOCAL, mixture_weights

__all__ = ["HazardSettings", "HazardTraining"]

# Where one part is held out, the better of two kinds of trees after so many rounds goes on.
_RACE_ROUNDS = 30
_LEAST_WEIGHT = 1e-3


class HazardTraining:
    """One training.

    Parameters
    ----------
    people : HazardPeople
        Of this process.
    settings : HazardSettings
    generator : numpy Generator
        Of the folds and of the rows, the same in all processes.
    new_booster : callable
        A booster of an engine without trees or, of the engine's model, with its trees. One with
        the method ``add_batches`` reads its rows batch by batch.
    reduction : Reduction
        Sums over all processes.
    judges : HazardPeople, optional
        People who are never fitted to, and who choose rounds, penalty and weights in place of
        folds.
    state : HazardState, optional
        Where to go on, with the same people, settings and seed. Boosters need ``restore``.
    on_checkpoint : callable, optional
        Gets a `HazardState` every so often, in all processes. Boosters need ``state`` and
        ``restore``.
    checkpoint_every : int, default=10
        Rounds between two states, at least those between two looks at the held-out people.
    previous : Mixture, optional
        A mixture whose trees are boosted further, to ``n_rounds`` in all. Its linear parts are
        kept. The generator must be that of the previous training, with the same people: with
        other folds, people would judge trees that have been fitted to them.
    progress : callable, optional
        Gets the rounds since the last call and the loss of the held-out people.

    Attributes
    ----------
    history : list of HeldOutLoss
        All looks at the held-out people.
    """

    def __init__(
        self,
        people: HazardPeople,
        settings: HazardSettings,
        generator: np.random.Generator,
        new_booster: Callable[..., Any],
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
        self._new_booster, self._previous = new_booster, previous
        self._log = TrainingLog(
            self.problem.held_weight,
            state or HazardState(),
            on_checkpoint,
            progress,
            checkpoint_every,
        )
        self.history = self._log.history
        if previous is not None and previous.n_folds != self.problem.n_folds:
            msg = (
                f"The mixture to go on with has {previous.n_folds} folds, but this training has "
                f"{self.problem.n_folds}: go on with the same number of folds and of people."
            )
            raise ValueError(msg)

    def mixture(self) -> Mixture:
        """The mixture of all members that have a weight."""
        problem = self.problem
        candidates = self._fitted_candidates(self._kinds())
        likelihoods = np.array([candidate.likelihood() for candidate in candidates])
        judge_weight = problem.people.weights(problem.judges)
        weights = mixture_weights(likelihoods, judge_weight, problem.reduction)
        weights = np.where(weights < _LEAST_WEIGHT, 0.0, weights)
        weights /= weights.sum()
        members = {
            candidate.kind: candidate.member(float(weight))
            for candidate, weight in zip(candidates, weights, strict=True)
            if weight > 0
        }
        is_linear = any(kind != TREES for kind in members)
        return Mixture(members, problem.columns if is_linear else None)

    def _kinds(self) -> list[str]:
        """Kinds of members to fit, after the linear part is known."""
        problem, previous = self.problem, self._previous
        if previous is None:
            is_linear = problem.settings.linear and problem.fit_linear()
            return [LINEAR, TREES, ON_LINEAR] if is_linear else [TREES]
        problem.columns = previous.design
        for kind, member in previous.members.items():
            if kind != TREES:
                models = (*member.folds, member.refit)
                problem.set_coefficients([model.coefficients for model in models])
                break
        return list(previous.members)

    def _fitted_candidates(self, kinds: Sequence[str]) -> list[Candidate]:
        candidates = [
            Candidate(kind, self.problem, self._new_booster, self._log, self._previous)
            for kind in kinds
        ]
        if self.problem.n_folds == 0 and TREES in kinds and ON_LINEAR in kinds:
            candidates = self._raced(candidates)
        for candidate in candidates:
            candidate.fit()
        # Without a single tree it is the linear hazards once more.
        return [one for one in candidates if one.kind != ON_LINEAR or one.n_rounds]

    @staticmethod
    def _raced(candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates without the worse of two kinds of trees."""
        trees = [candidate for candidate in candidates if candidate.kind != LINEAR]
        for candidate in trees:
            candidate.boost(_RACE_ROUNDS)
        best = max(trees, key=lambda candidate: candidate.gained[-1])
        for candidate in trees:
            if candidate is not best:
                candidate.release()
        return [one for one in candidates if one.kind == LINEAR or one is best]

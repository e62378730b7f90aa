"""Training of a mixture of hazard models whose weights come from people not used to fit them.

Several processes may train together, each with a part of the people: all of them make the same
calls, and whatever is decided follows from sums over all of them (`Reduction`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._fit.population import Reduction
from survival_objectives._hazard_people import (
    CROSS_FITTED_PEOPLE,
    HazardPeople,
    RowBudget,
    one_held_out_part,
    stratified_folds,
)
from survival_objectives._hazard_state import HazardState
from survival_objectives._model.mixture import (
    LINEAR,
    ON_LINEAR,
    TREES,
    HazardModel,
    HazardTrees,
    Member,
    Mixture,
    against_event_free,
    stacked_rows,
)
from survival_objectives.hazards import (
    LOCAL,
    RiskRows,
    interval_start,
    knot_incidence,
    mixture_weights,
    person_likelihood,
    risk_rows,
    time_corrections,
)
from survival_objectives.hazards_linear import LinearDesign, ridge_hazards
from survival_objectives.losses import pointwise_log_loss

__all__ = ["HazardSettings", "HazardTraining", "HeldOutLoss"]

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
Batch = tuple[Float32Array, FloatArray]

_PENALTIES = (100.0, 10.0, 1.0)
_ROUNDS_PER_LOOK = 10
# Rounds go on while two looks gain this share of what all rounds have gained, or this much.
_LEAST_GAIN_SHARE, _LEAST_GAIN = 0.01, 1.0
# Where one part is held out, the better of two kinds of trees after so many rounds goes on.
_RACE_ROUNDS = 30
# People on whose held-out curves levels are calibrated and weights are estimated.
_JUDGES = 20_000
# People to whom the linear part is fitted: its few coefficients need no more.
_LINEAR_PEOPLE = 100_000
# Rows on which levels are calibrated where one part is held out.
_CALIBRATION_ROWS = 2**18
_LEAST_WEIGHT = 1e-3


@dataclass(frozen=True)
class HazardSettings:
    """Settings of a training.

    Attributes
    ----------
    n_rounds : int
        Most rounds of boosting.
    n_folds : int
        Parts that are held out in turn, up to 50 000 people.
    rows_per_person : int, "all" or None
        Most rows per person, besides that of the last interval; None follows the number of people.
    linear : bool
        Whether there is a linear part.
    patience : int, optional
        Stop where the best round is so many rounds ago. Default: stop where two looks at the
        held-out people, 10 rounds apart, gain next to nothing.
    """

    n_rounds: int
    n_folds: int
    rows_per_person: int | str | None
    linear: bool
    patience: int | None = None


@dataclass(frozen=True)
class HeldOutLoss:
    """Minus the log-likelihood of the held-out people, per person, after some rounds."""

    kind: str
    round: int
    loss: float


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
        Gets a `HazardState` after each look at the held-out people. Boosters need ``state``.
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
        previous: Mixture | None = None,
        progress: Callable[[int, float], None] | None = None,
    ) -> None:
        self.settings, self.new_booster, self.reduction = settings, new_booster, reduction
        self.previous, self._progress = previous, progress
        self.state = HazardState() if state is None else state
        self._on_checkpoint = on_checkpoint
        self.history: list[HeldOutLoss] = []
        self._draw(people, reduction.stream(generator), judges)
        shape = self.people.n_causes, self.people.n_intervals
        self.start = partial(self._start, *shape)
        self._coefficients: list[FloatArray] = []
        self._offsets: list[FloatArray] = []
        self.columns: LinearDesign | None = None
        if previous is not None and previous.n_folds != self.n_folds:
            msg = (
                f"The mixture to go on with has {previous.n_folds} folds, but this training has "
                f"{self.n_folds}: go on with the same number of folds and of people."
            )
            raise ValueError(msg)

    # ------------------------------------------------------------------------------------- people
    def _draw(
        self, people: HazardPeople, stream: np.random.Generator, judges: HazardPeople | None
    ) -> None:
        """Who is fitted to, who is held out, and the rows of both."""
        settings, reduction = self.settings, self.reduction
        n_people = float(reduction.sum(people.n_samples))
        budget = RowBudget.of(n_people, settings.rows_per_person)
        chosen = budget.chosen(people.n_samples, stream)
        if chosen is not None:
            people = people.take(chosen)
        if judges is not None:
            fold = np.repeat([-1, 0], [people.n_samples, judges.n_samples])
            people = people.followed_by(judges)
        elif n_people > CROSS_FITTED_PEOPLE:
            fold = one_held_out_part(people.event, people.n_causes, stream, reduction)
        else:
            fold = stratified_folds(
                people.event, settings.n_folds, stream, reduction, people.n_causes
            )
        self.people, self.fold = people, fold
        is_cross_fitted = judges is None and n_people <= CROSS_FITTED_PEOPLE
        #: Folds that are held out in turn; 0 where one part is held out once.
        self.n_folds = settings.n_folds if is_cross_fitted else 0
        self.rows = risk_rows(
            people.event,
            people.place,
            people.knots,
            weight=people.weight,
            n_rows=budget.n_rows,
            generator=stream,
        )
        if not people.is_in_memory:
            self.rows = self.rows.by_person()
        if not reduction.sum((self.rows.target == 0).sum()):
            msg = "Nobody is event-free at the end of any interval of time: nothing can be learnt."
            raise ValueError(msg)
        row_fold = fold[self.rows.person]
        numbers = range(max(1, self.n_folds))
        self.held = [self.rows.take(row_fold == number) for number in numbers]
        self.kept = [self.rows.take(row_fold != number) for number in numbers]
        self.judges = self._part(np.flatnonzero(fold >= 0), _JUDGES, stream)
        self._linear_people = self._part(np.arange(people.n_samples), _LINEAR_PEOPLE, stream)
        if not self.n_folds:
            chosen = self._part(np.arange(self.kept[0].n_rows), _CALIBRATION_ROWS, stream)
            self.calibration_rows = self.kept[0].take(chosen)
        weight = people.weights(np.flatnonzero(fold >= 0))
        own_weight = (fold >= 0).sum() if weight is None else weight.sum()
        self.held_weight = float(reduction.sum(own_weight))

    def _part(self, members: IntArray, most: int, stream: np.random.Generator) -> IntArray:
        """A random part of some people, at most so many in all processes."""
        total = float(self.reduction.sum(len(members)))
        if total <= most:
            return members
        n_own = int(np.ceil(most * len(members) / total))
        return np.sort(stream.choice(members, n_own, replace=False))

    # ------------------------------------------------------------------------------------ mixture
    def mixture(self) -> Mixture:
        """The mixture of all members that have a weight."""
        candidates = self._fitted_candidates(self._kinds())
        likelihoods = np.array([candidate.likelihood() for candidate in candidates])
        judge_weight = self.people.weights(self.judges)
        weights = mixture_weights(likelihoods, judge_weight, self.reduction)
        weights = np.where(weights < _LEAST_WEIGHT, 0.0, weights)
        weights /= weights.sum()
        members = {
            candidate.kind: candidate.member(float(weight))
            for candidate, weight in zip(candidates, weights, strict=True)
            if weight > 0
        }
        is_linear = any(kind != TREES for kind in members)
        return Mixture(members, self.columns if is_linear else None)

    def _kinds(self) -> list[str]:
        """Kinds of members to fit, after the linear part is known."""
        if self.previous is not None:
            self.columns = self.previous.design
            kinds = list(self.previous.members)
            linear = next((kind for kind in kinds if kind != TREES), None)
            if linear is not None:
                member = self.previous.members[linear]
                models = [*member.folds, member.refit]
                self._set_coefficients([model.coefficients for model in models])
        else:
            kinds = [TREES]
            if self.settings.linear and self._fit_linear():
                kinds = [LINEAR, TREES, ON_LINEAR]
        values = self.people.features(self.judges).values
        design = None if self.columns is None else self.columns.matrix(values)
        self.judge_values, self.judge_design = values, design
        return kinds

    def _fitted_candidates(self, kinds: Sequence[str]) -> list[_Candidate]:
        candidates = [_Candidate(self, kind) for kind in kinds]
        if self.n_folds == 0 and TREES in kinds and ON_LINEAR in kinds:
            candidates = self._raced(candidates)
        for candidate in candidates:
            candidate.fit()
        # Without a single tree it is the linear hazards once more.
        return [one for one in candidates if one.kind != ON_LINEAR or one.n_rounds]

    @staticmethod
    def _raced(candidates: Sequence[_Candidate]) -> list[_Candidate]:
        """The candidates without the worse of two kinds of trees."""
        trees = [candidate for candidate in candidates if candidate.kind != LINEAR]
        for candidate in trees:
            candidate.boost(_RACE_ROUNDS)
        best = max(trees, key=lambda candidate: candidate.gained[-1])
        for candidate in trees:
            if candidate is not best:
                candidate.release()
        return [one for one in candidates if one.kind == LINEAR or one is best]

    # ------------------------------------------------------------------------------------- linear
    def _fit_linear(self) -> bool:
        """Whether there are columns; then their coefficients without each fold and of everybody."""
        people, chosen, reduction = self.people, self._linear_people, self.reduction
        features = people.features(chosen)
        is_kept = slice(None) if self.n_folds else self.fold[chosen] != 0
        weight = people.weights(chosen)
        self.columns = LinearDesign.of(
            replace(features, values=features.values[is_kept]),
            None if weight is None else weight[is_kept],
            reduction,
        )
        if not self.columns.n_columns:
            self.columns = None
            return False
        design = self.columns.matrix(features.values)
        kept, held = ([self._linear_rows(rows) for rows in part] for part in (self.kept, self.held))
        folds, penalty = self._chosen_penalty(design, kept, held)
        if self.n_folds:
            rows, start = self._linear_rows(self.rows), np.mean(folds, axis=0)
            shape = people.n_causes, people.n_intervals
            folds = [*folds, ridge_hazards(design, rows, *shape, penalty, start, reduction)]
        self._set_coefficients(folds)
        return True

    def _chosen_penalty(
        self, design: FloatArray, kept: Sequence[RiskRows], held: Sequence[RiskRows]
    ) -> tuple[list[FloatArray], float]:
        """Coefficients without each fold, with the penalty that held-out people choose."""
        shape = self.people.n_causes, self.people.n_intervals
        path: list[list[FloatArray]] = []
        gained = np.zeros(len(_PENALTIES))
        for kept_rows, held_rows in zip(kept, held, strict=True):
            found: list[FloatArray] = []
            for number, penalty in enumerate(_PENALTIES):
                start = found[-1] if found else None
                found.append(
                    ridge_hazards(design, kept_rows, *shape, penalty, start, self.reduction)
                )
                offset = found[-1] @ design.T
                level = self.start(kept_rows, offset)
                margin = _row_margins(level, offset, held_rows)
                gained[number] -= pointwise_log_loss(
                    margin.T, held_rows.target, held_rows.weight, reference=True
                ).sum()
            path.append(found)
        best = int(self.reduction.sum(gained).argmax())
        return [found[best] for found in path], _PENALTIES[best]

    def _start(
        self, n_causes: int, n_intervals: int, rows: RiskRows, offset: FloatArray | None
    ) -> FloatArray:
        return interval_start(rows, n_causes, n_intervals, offset, self.reduction)

    def _linear_rows(self, rows: RiskRows) -> RiskRows:
        """The rows of the people to whom the linear part is fitted, numbered among them."""
        if len(self._linear_people) == self.people.n_samples:
            return rows
        number = np.full(self.people.n_samples, -1, np.int32)
        number[self._linear_people] = np.arange(len(self._linear_people))
        taken = rows.take(number[rows.person] >= 0)
        return replace(taken, person=number[taken.person])

    def _set_coefficients(self, coefficients: Sequence[Any]) -> None:
        self._coefficients = list(coefficients)
        self._offsets = [np.empty((len(one), self.people.n_samples)) for one in coefficients]
        assert self.columns is not None
        for people, features in self.people.batches:
            design = self.columns.matrix(features.values)
            for offset, one in zip(self._offsets, coefficients, strict=True):
                offset[:, people] = one @ design.T

    def coefficients(self, kind: str, fold: int) -> FloatArray | None:
        """Those of a kind of member without a fold, or of everybody."""
        return None if kind == TREES else self._coefficients[fold]

    def offset(self, kind: str, fold: int) -> FloatArray | None:
        """Linear predictors of all people, (K, n_samples)."""
        return None if kind == TREES else self._offsets[fold]

    # ----------------------------------------------------------------------------- looks and state
    def looked(self, kind: str, n_rounds: int, n_more: int, gained: float) -> None:
        """Keep a record of a look at the held-out people."""
        loss = -gained / max(self.held_weight, 1e-12)
        self.history.append(HeldOutLoss(kind, n_rounds, loss))
        if n_more and self._progress is not None:
            self._progress(n_more, loss)

    @property
    def has_checkpoints(self) -> bool:
        """Whether states are handed over."""
        return self._on_checkpoint is not None

    def checkpoint(self, kind: str, **changes: object) -> None:
        """Hand over the state after a kind of member has gone on."""
        self.state = self.state.updated(kind, **changes)
        if self._on_checkpoint is not None:
            self._on_checkpoint(self.state)

    def register(
        self, booster: Any, rows: RiskRows, level: FloatArray, offset: FloatArray | None
    ) -> int:
        """Give a booster rows with their margins; returns their key."""
        source = partial(self._row_batches, rows, level, offset, bool(booster.reference))
        if hasattr(booster, "add_batches"):
            return int(booster.add_batches(source))
        batches = list(source())
        values, start = batches[0]
        if len(batches) > 1:
            values, start = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        return int(booster.add(values, start))

    def _row_batches(
        self, rows: RiskRows, level: FloatArray, offset: FloatArray | None, reference: bool
    ) -> Iterator[Batch]:
        """Values and margins of rows, a batch of people at a time."""
        for people, features in self.people.batches:
            part = rows
            if not self.people.is_in_memory:
                ends = np.searchsorted(rows.person, [people.start, people.stop])
                part = rows.take(slice(*ends))
            start = _row_margins(level, offset, part)
            if not reference:
                start = np.concatenate([np.zeros((1, start.shape[1])), start])
            values = features.values[part.person - people.start]
            yield stacked_rows(values, part.interval), np.ascontiguousarray(start.T)


class _Candidate:
    """One kind of member while it is fitted.

    Models are numbered: those without each fold, then that of everybody. Where one part is held
    out once, there is the model without it only.
    """

    def __init__(self, training: HazardTraining, kind: str) -> None:
        self.kind = kind
        self._training = training
        self._people = training.people
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
            self.boost(self._training.settings.n_rounds)
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
        training, people, judges = self._training, self._people, self._training.judges
        margin = np.empty((people.n_causes, people.n_intervals, len(judges)))
        for number, hazard in enumerate(self._models):
            own = training.fold[judges] == number
            design = None if training.judge_design is None else training.judge_design[own]
            margin[:, :, own] = hazard.margin(training.judge_values[own], design)
        event, place = people.event[judges], people.place[judges]
        if training.n_folds:
            rows = risk_rows(event, place, people.knots, weight=people.weights(judges))
            at_rows = margin[:, rows.interval, rows.person]
            correction = time_corrections(at_rows, rows, people.n_intervals, training.reduction)
        else:
            correction = self._correction_by_kept_rows()
        self._models = [_raised(hazard, correction) for hazard in self._models]
        incidence = knot_incidence(margin + correction[:, :, None])
        return person_likelihood(incidence, event, place, people.knots)

    def _correction_by_kept_rows(self) -> FloatArray:
        """Terms that bring the expected events of people who were fitted to the observed ones."""
        training, hazard = self._training, self._models[0]
        rows = training.calibration_rows
        margin = _row_margins(hazard.level, training.offset(self.kind, 0), rows)
        if hazard.trees is not None:
            person, position = np.unique(rows.person, return_inverse=True)
            values = self._people.features(person).values[position]
            margin += hazard.trees.row_margin(values, rows.interval)
        return time_corrections(margin, rows, self._people.n_intervals, training.reduction)

    def member(self, weight: float) -> Member:
        """The member, with a model of everybody where folds were held out."""
        training = self._training
        if not training.n_folds:
            return Member(weight, (), self._models[0])
        rows, everybody = training.rows, training.n_folds
        offset = training.offset(self.kind, everybody)
        before = self._before(everybody)
        level = training.start(rows, offset) if before is None else before.level
        margin, model = _row_margins(level, offset, rows), None
        if self.n_rounds:
            booster = training.new_booster(*self._model_before(everybody))
            key = training.register(booster, rows, level, offset)
            self._boost_refit(booster, key, rows)
            trained = np.asarray(booster.margin(key), np.float64).T
            margin = against_event_free(trained, reference=booster.reference)
            model = booster.model(self.n_rounds)
        hazard = self._model(level, everybody, model)
        correction = time_corrections(margin, rows, self._people.n_intervals, training.reduction)
        return Member(weight, tuple(self._models), _raised(hazard, correction))

    def _boost_refit(self, booster: Any, key: int, rows: RiskRows) -> None:
        training = self._training
        known = training.state.of(self.kind).refit
        if known:
            booster.restore(known)
        # Rounds in one go are not in every engine the same as rounds in steps.
        step = _ROUNDS_PER_LOOK if training.has_checkpoints or known else self.n_rounds
        while booster.n_rounds < self.n_rounds:
            n_more = min(step, self.n_rounds - booster.n_rounds)
            booster.boost(key, rows.target, rows.weight, n_more)
            if training.has_checkpoints:
                training.checkpoint(self.kind, refit=booster.state())

    # --------------------------------------------------------------------------------------- trees
    def boost(self, n_rounds: int) -> None:
        """Boost until the held-out people gain nothing more, up to so many rounds."""
        training = self._training
        if self._boosters is None:
            self._begin()
        boosters = self._boosters or []
        n_rounds = min(n_rounds, training.settings.n_rounds)
        while self.rounds[-1] < n_rounds and not self._is_flat():
            n_more = min(_ROUNDS_PER_LOOK, n_rounds - self.rounds[-1])
            for booster, key, rows in zip(boosters, self._keys, training.kept, strict=True):
                booster.boost(key, rows.target, rows.weight, n_more)
            self._look(self.rounds[-1] + n_more, n_more)
            if training.has_checkpoints:
                training.checkpoint(
                    self.kind,
                    rounds=tuple(self.rounds),
                    gained=tuple(self.gained),
                    trees=tuple(booster.state() for booster in boosters),
                )

    def _begin(self) -> None:
        """Boosters with their rows, where they start or where a checkpoint left them."""
        training, known = self._training, self._training.state.of(self.kind)
        self._levels = self._start_levels()
        self._boosters, self._keys, self._held_keys = [], [], []
        for number, level in enumerate(self._levels):
            booster = training.new_booster(*self._model_before(number))
            offset = training.offset(self.kind, number)
            self._keys.append(training.register(booster, training.kept[number], level, offset))
            self._held_keys.append(training.register(booster, training.held[number], level, offset))
            self._boosters.append(booster)
        if known.rounds:
            for booster, trees in zip(self._boosters, known.trees, strict=True):
                booster.restore(trees)
            self.rounds, self.gained = list(known.rounds), list(known.gained)
            for n_rounds, gained in zip(self.rounds, self.gained, strict=True):
                training.looked(self.kind, n_rounds, 0, gained)
        else:
            self._look(self._boosters[0].n_rounds, 0)

    def _look(self, n_rounds: int, n_more: int) -> None:
        self.rounds.append(n_rounds)
        self.gained.append(self._held_out())
        self._training.looked(self.kind, n_rounds, n_more, self.gained[-1])

    def _held_out(self) -> float:
        """Log-likelihood of the held-out rows of all folds."""
        own = -sum(
            float(
                pointwise_log_loss(
                    booster.margin(key), rows.target, rows.weight, reference=booster.reference
                ).sum()
            )
            for booster, key, rows in zip(
                self._boosters or [], self._held_keys, self._training.held, strict=True
            )
        )
        return float(self._training.reduction.sum(own))

    def _is_flat(self) -> bool:
        """Whether the last looks have gained next to nothing."""
        patience = self._training.settings.patience
        if patience is not None:
            return self.rounds[-1] - self.n_rounds >= patience
        if len(self.gained) < 3:
            return False
        least = max(_LEAST_GAIN, _LEAST_GAIN_SHARE * (max(self.gained) - self.gained[0]))
        return self.gained[-1] - self.gained[-3] < least

    # ------------------------------------------------------------------------------------- models
    def _before(self, number: int) -> HazardModel | None:
        """The model that training goes on from."""
        previous = self._training.previous
        if previous is None:
            return None
        member = previous.members[self.kind]
        return (*member.folds, member.refit)[number]

    def _model_before(self, number: int) -> tuple[Any, ...]:
        before = self._before(number)
        return () if before is None or before.model is None else (before.model,)

    def _start_levels(self) -> list[FloatArray]:
        training = self._training
        levels = []
        for number, rows in enumerate(training.kept):
            before = self._before(number)
            offset = training.offset(self.kind, number)
            levels.append(training.start(rows, offset) if before is None else before.level)
        return levels

    def _model(self, level: FloatArray, number: int, model: Any) -> HazardModel:
        training = self._training
        trees = None if model is None else HazardTrees(training.new_booster(model))
        return HazardModel(level, training.coefficients(self.kind, number), trees, model)


def _raised(hazard: HazardModel, correction: FloatArray) -> HazardModel:
    """The model with a correction added to its levels."""
    return HazardModel(hazard.level + correction, hazard.coefficients, hazard.trees, hazard.model)


def _row_margins(level: FloatArray, offset: FloatArray | None, rows: RiskRows) -> FloatArray:
    """Margins of rows before any tree, (K, n_rows)."""
    margin = level[:, rows.interval]
    return margin if offset is None else margin + offset[:, rows.person]

"""Training of a mixture of hazard models whose weights come from people not used to fit them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
from survival_objectives.validation import Features

__all__ = ["HazardPeople", "HazardSettings", "HazardTraining", "stratified_folds"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_PENALTIES = (100.0, 10.0, 1.0)
_ROUNDS_PER_LOOK = 10
# Rounds go on while two looks gain this share of what all rounds have gained, or this much.
_LEAST_GAIN_SHARE, _LEAST_GAIN = 0.01, 1.0
# People on whose held-out curves levels are calibrated and weights are estimated.
_JUDGES = 20_000
_LEAST_WEIGHT = 1e-3


@dataclass(frozen=True)
class HazardPeople:
    """People with their outcomes on the axis of the knots.

    Attributes
    ----------
    features : Features
    event : int32 array of shape (n_samples,)
        0 = censored, 1..K = causes.
    place : float64 array of shape (n_samples,)
    weight : float64 array of shape (n_samples,), or None
        With a mean of 1.
    knots : float64 array of shape (M + 1,)
    n_causes : int
    """

    features: Features
    event: npt.NDArray[np.int32]
    place: FloatArray
    weight: FloatArray | None
    knots: FloatArray
    n_causes: int

    @property
    def n_intervals(self) -> int:
        """Number of intervals between knots, M."""
        return len(self.knots) - 1


@dataclass(frozen=True)
class HazardSettings:
    """Settings of a training.

    Attributes
    ----------
    n_rounds : int
        Most rounds of boosting.
    n_folds : int
    n_rows : int
        Most rows per person, besides that of the last interval.
    linear : bool
        Whether there is a linear part.
    """

    n_rounds: int
    n_folds: int
    n_rows: int
    linear: bool


class HazardTraining:
    """One training.

    Parameters
    ----------
    people : HazardPeople
    settings : HazardSettings
    generator : numpy Generator
        Of the folds and of the rows.
    new_booster : callable
        A booster of an engine without trees or, of the engine's model, with its trees.
    """

    def __init__(
        self,
        people: HazardPeople,
        settings: HazardSettings,
        generator: np.random.Generator,
        new_booster: Callable[..., Any],
    ) -> None:
        self._people, self._settings, self._new_booster = people, settings, new_booster
        self._fold = stratified_folds(people.event, settings.n_folds, generator)
        self._rows = risk_rows(
            people.event,
            people.place,
            people.knots,
            weight=people.weight,
            n_rows=settings.n_rows,
            generator=generator,
        )
        if not (self._rows.target == 0).any():
            msg = "Nobody is event-free at the end of any interval of time: nothing can be learnt."
            raise ValueError(msg)
        self._design: FloatArray | None = None
        self._judges = np.flatnonzero(self._fold >= 0)
        if len(self._judges) > _JUDGES:
            self._judges = np.sort(generator.choice(self._judges, _JUDGES, replace=False))

    def mixture(self) -> Mixture:
        """The mixture of all members that have a weight."""
        people, settings = self._people, self._settings
        row_fold = self._fold[self._rows.person]
        self._held = [self._rows.take(row_fold == fold) for fold in range(settings.n_folds)]
        self._kept = [self._rows.take(row_fold != fold) for fold in range(settings.n_folds)]
        kinds, columns = [TREES], None
        if settings.linear:
            columns = LinearDesign.of(people.features, people.weight)
            if columns.n_columns:
                kinds = [LINEAR, TREES, ON_LINEAR]
                self._fit_linear(columns)
        candidates, likelihoods = [], []
        for kind in kinds:
            candidate = _Candidate(self, kind)
            likelihood = candidate.cross_fitted()
            # Without a single tree it is the linear hazards once more.
            if kind != ON_LINEAR or candidate.n_rounds:
                candidates.append(candidate)
                likelihoods.append(likelihood)
        weight = None if people.weight is None else people.weight[self._judges]
        weights = mixture_weights(np.array(likelihoods), weight)
        weights = np.where(weights < _LEAST_WEIGHT, 0.0, weights)
        weights /= weights.sum()
        members = {
            candidate.kind: candidate.member(float(weight))
            for candidate, weight in zip(candidates, weights, strict=True)
            if weight > 0
        }
        is_linear = any(kind != TREES for kind in members)
        return Mixture(members, columns if is_linear else None)

    # ---------------------------------------------------------------------------------- linear
    def _fit_linear(self, columns: LinearDesign) -> None:
        """Coefficients without each fold and of everybody, and the linear predictors they give."""
        people = self._people
        self._design = design = columns.matrix(people.features.values)
        shape = people.n_causes, people.n_intervals
        path: list[list[FloatArray]] = []
        gained = np.zeros(len(_PENALTIES))
        for kept, held in zip(self._kept, self._held, strict=True):
            found: list[FloatArray] = []
            for number, penalty in enumerate(_PENALTIES):
                start = found[-1] if found else None
                found.append(ridge_hazards(design, kept, *shape, penalty, start))
                offset = found[-1] @ design.T
                level = interval_start(kept, *shape, offset)
                margin = _row_margins(level, offset, held)
                gained[number] -= pointwise_log_loss(
                    margin.T, held.target, held.weight, reference=True
                ).sum()
            path.append(found)
        best = int(gained.argmax())
        folds = [found[best] for found in path]
        everybody = ridge_hazards(
            design, self._rows, *shape, _PENALTIES[best], np.mean(folds, axis=0)
        )
        self._coefficients = [*folds, everybody]
        self._offsets = [coefficients @ design.T for coefficients in self._coefficients]


class _Candidate:
    """One kind of member while it is fitted. Fold number ``n_folds`` stands for everybody."""

    def __init__(self, training: HazardTraining, kind: str) -> None:
        self.kind = kind
        self._training = training
        self._people = training._people
        self._everybody = training._settings.n_folds
        self._shape = self._people.n_causes, self._people.n_intervals
        self.n_rounds = 0

    def cross_fitted(self) -> FloatArray:
        """Likelihood of people under the models that were fitted without them."""
        training, people = self._training, self._people
        levels = [
            interval_start(rows, *self._shape, self._offset(fold))
            for fold, rows in enumerate(training._kept)
        ]
        models = [None] * len(levels) if self.kind == LINEAR else self._boosted(levels)
        self._folds = [
            self._model(level, fold, model)
            for fold, (level, model) in enumerate(zip(levels, models, strict=True))
        ]
        judges = training._judges
        margin = np.empty((*self._shape, len(judges)))
        for fold, hazard in enumerate(self._folds):
            own = training._fold[judges] == fold
            design = None if training._design is None else training._design[judges[own]]
            margin[:, :, own] = hazard.margin(people.features.values[judges[own]], design)
        event, place = people.event[judges], people.place[judges]
        weight = None if people.weight is None else people.weight[judges]
        rows = risk_rows(event, place, people.knots, weight=weight)
        at_rows = margin[:, rows.interval, rows.person]
        correction = time_corrections(at_rows, rows, people.n_intervals)
        self._folds = [_raised(hazard, correction) for hazard in self._folds]
        incidence = knot_incidence(margin + correction[:, :, None])
        return person_likelihood(incidence, event, place, people.knots)

    def member(self, weight: float) -> Member:
        """The member, with a model of everybody."""
        rows, everybody = self._training._rows, self._everybody
        offset = self._offset(everybody)
        level = interval_start(rows, *self._shape, offset)
        margin, model = _row_margins(level, offset, rows), None
        if self.n_rounds:
            booster = self._training._new_booster()
            key = self._register(booster, level, rows, everybody)
            booster.boost(key, rows.target, rows.weight, self.n_rounds)
            trained = np.asarray(booster.margin(key), np.float64).T
            margin = against_event_free(trained, reference=booster.reference)
            model = booster.model(self.n_rounds)
        hazard = self._model(level, everybody, model)
        correction = time_corrections(margin, rows, self._people.n_intervals)
        return Member(weight, tuple(self._folds), _raised(hazard, correction))

    # ----------------------------------------------------------------------------------- trees
    def _boosted(self, levels: Sequence[FloatArray]) -> list[Any]:
        """The engine's models without each fold, with the rounds that held-out people choose."""
        training = self._training
        boosters, keys, held_keys = [], [], []
        for fold, level in enumerate(levels):
            booster = training._new_booster()
            keys.append(self._register(booster, level, training._kept[fold], fold))
            held_keys.append(self._register(booster, level, training._held[fold], fold))
            boosters.append(booster)
        rounds = [0]
        gained = [self._held_out(boosters, held_keys)]
        while rounds[-1] < training._settings.n_rounds and not _is_flat(gained):
            n_more = min(_ROUNDS_PER_LOOK, training._settings.n_rounds - rounds[-1])
            for booster, key, rows in zip(boosters, keys, training._kept, strict=True):
                booster.boost(key, rows.target, rows.weight, n_more)
            rounds.append(rounds[-1] + n_more)
            gained.append(self._held_out(boosters, held_keys))
        self.n_rounds = rounds[int(np.argmax(gained))]
        if self.n_rounds == 0:
            return [None] * len(boosters)
        return [booster.model(self.n_rounds) for booster in boosters]

    def _held_out(self, boosters: Sequence[Any], keys: Sequence[int]) -> float:
        """Log-likelihood of the held-out rows of all folds."""
        return -sum(
            float(
                pointwise_log_loss(
                    booster.margin(key), rows.target, rows.weight, reference=booster.reference
                ).sum()
            )
            for booster, key, rows in zip(boosters, keys, self._training._held, strict=True)
        )

    def _register(self, booster: Any, level: FloatArray, rows: RiskRows, fold: int) -> int:
        values = self._people.features.values[rows.person]
        start = _row_margins(level, self._offset(fold), rows)
        if not booster.reference:
            start = np.concatenate([np.zeros((1, start.shape[1])), start])
        key = booster.add(stacked_rows(values, rows.interval), np.ascontiguousarray(start.T))
        return int(key)

    # ---------------------------------------------------------------------------------- margins
    def _offset(self, fold: int) -> FloatArray | None:
        return None if self.kind == TREES else self._training._offsets[fold]

    def _model(self, level: FloatArray, fold: int, model: Any) -> HazardModel:
        coefficients = None if self.kind == TREES else self._training._coefficients[fold]
        trees = None if model is None else HazardTrees(self._training._new_booster(model))
        return HazardModel(level, coefficients, trees, model)


def _raised(hazard: HazardModel, correction: FloatArray) -> HazardModel:
    """The model with a correction added to its levels."""
    return HazardModel(hazard.level + correction, hazard.coefficients, hazard.trees, hazard.model)


def _row_margins(level: FloatArray, offset: FloatArray | None, rows: RiskRows) -> FloatArray:
    """Margins of rows before any tree, (K, n_rows)."""
    margin = level[:, rows.interval]
    return margin if offset is None else margin + offset[:, rows.person]


def _is_flat(gained: Sequence[float]) -> bool:
    """Whether the last two looks have gained next to nothing."""
    if len(gained) < 3:
        return False
    least = max(_LEAST_GAIN, _LEAST_GAIN_SHARE * (max(gained) - gained[0]))
    return gained[-1] - gained[-3] < least


def stratified_folds(
    event: npt.NDArray[np.int32], n_folds: int, generator: np.random.Generator
) -> IntArray:
    """A random fold per person, with the people of each event spread evenly over the folds.

    People of a cause that fewer people have than there are folds get -1: they are never held out,
    so that every model knows all causes.
    """
    fold = np.full(len(event), -1)
    for cause in np.unique(event):
        members = generator.permutation(np.flatnonzero(event == cause))
        first = generator.integers(n_folds)
        if len(members) >= n_folds:
            fold[members] = (np.arange(len(members)) + first) % n_folds
    return fold

"""One training problem of hazard models: training and held-out people, rows, the linear part.

Several processes may train together, each with a part of the people. All of them make the same
calls, and all decisions follow from sums over all of them (`Reduction`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import Trainer
from survival_objectives._hazards.formulas import RiskRows, interval_start, row_margins
from survival_objectives._hazards.linear import (
    LINEAR_PEOPLE,
    LinearDesign,
    chosen_ridge,
    ridge_hazards,
)
from survival_objectives._hazards.mixture import TREES, stacked_rows
from survival_objectives._hazards.people import (
    CROSS_FITTED_PEOPLE,
    HazardPeople,
    RowBudget,
    folds_of_groups,
    most_rounds,
    one_held_out_part,
    stratified_folds,
)
from survival_objectives._hazards.settings import HazardSettings
from survival_objectives._people.population import Reduction

Batch = tuple[Float32Array, FloatArray]

# Maximum number of people on whose held-out curves levels are calibrated and weights estimated.
_JUDGES = 20_000
# Maximum number of rows on which levels are calibrated where a single part is held out.
_CALIBRATION_ROWS = 2**18

_ROUNDS_PER_EVALUATION = 10


class HazardProblem:
    """People, rows and linear parts of a training.

    Models are numbered: one without each fold, then one fitted to all people. With a single
    held-out part, the only model is the one without it.

    Parameters
    ----------
    people, settings, generator, reduction, judges
        As in `survival_objectives._hazards.ensemble.HazardTraining`.

    Attributes
    ----------
    people : HazardPeople
        The people who are used, the judges last.
    fold : int64 array of shape (n_samples,)
        Fold in which each person is held out; -1 for never.
    n_folds : int
        Number of folds; 0 where a single part is held out.
    n_rounds : int
        Maximum number of boosting rounds.
    rounds_per_evaluation : int
        Rounds between two held-out evaluations.
    rows : RiskRows
        Rows of all people.
    held, kept : lists of RiskRows
        Held-out rows and training rows of each model.
    judges : int64 array
        Held-out people whose likelihood determines the weights.
    calibration_rows : RiskRows
        Rows on which levels are calibrated where a single part is held out.
    held_weight : float
        Total weight of the held-out people.
    columns : LinearDesign or None
        Columns of the linear part, once it is fitted.
    """

    def __init__(
        self,
        people: HazardPeople,
        settings: HazardSettings,
        generator: np.random.Generator,
        reduction: Reduction,
        judges: HazardPeople | None,
    ) -> None:
        self.settings, self.reduction = settings, reduction
        self._shape = people.n_causes, people.n_intervals
        self._draw(people, reduction.stream(generator), judges)
        self._coefficients: list[FloatArray] = []
        self._offsets: list[FloatArray] = []
        self._judge_features: tuple[Float32Array, FloatArray | None] | None = None
        self.columns: LinearDesign | None = None

    # ------------------------------------------------------------------------------------- people
    def _draw(
        self, people: HazardPeople, stream: np.random.Generator, judges: HazardPeople | None
    ) -> None:
        """Draw training and held-out people, and the rows of both."""
        settings, reduction = self.settings, self.reduction
        n_people = float(reduction.sum(people.size))
        self.n_rounds = settings.n_rounds or most_rounds(n_people)
        is_large = n_people > CROSS_FITTED_PEOPLE
        self.rounds_per_evaluation = max(
            _ROUNDS_PER_EVALUATION, settings.rounds_per_call if is_large else 1
        )
        budget = RowBudget.of(n_people, settings.rows_per_person, settings.most_rows)
        chosen = budget.chosen(people, stream)
        if chosen is not None:
            people = people.take(chosen)
        if judges is not None:
            fold = np.repeat([-1, 0], [people.n_samples, judges.n_samples])
            people = people.followed_by(judges)
        elif n_people > CROSS_FITTED_PEOPLE:
            fold = folds_of_groups(
                lambda event: one_held_out_part(event, people.n_causes, stream, reduction),
                people.event,
                people.group,
            )
        else:
            fold = folds_of_groups(
                lambda event: stratified_folds(
                    event, settings.n_folds, stream, reduction, people.n_causes
                ),
                people.event,
                people.group,
            )
        self.people, self.fold = people, fold
        is_cross_fitted = judges is None and n_people <= CROSS_FITTED_PEOPLE
        self.n_folds = settings.n_folds if is_cross_fitted else 0
        self.rows = people.rows(budget.n_rows, stream)
        if not people.is_in_memory:
            self.rows = self.rows.by_person()
        if not reduction.sum((self.rows.target == 0).sum()):
            msg = "No person is event-free at the end of any time interval: no model can be fitted."
            raise ValueError(msg)
        row_fold = fold[self.rows.person]
        numbers = range(max(1, self.n_folds))
        self.held = [self.rows.take(row_fold == number) for number in numbers]
        self.kept = [self.rows.take(row_fold != number) for number in numbers]
        held = people.units(np.flatnonzero(fold >= 0))
        self.judges = people.rows_of(self._part(held, _JUDGES, stream))
        self._linear_people = self._part(np.arange(people.n_samples), LINEAR_PEOPLE, stream)
        if not self.n_folds:
            chosen = self._part(np.arange(self.kept[0].n_rows), _CALIBRATION_ROWS, stream)
            self.calibration_rows = self.kept[0].take(chosen)
        weight = people.weights(held)
        own_weight = len(held) if weight is None else weight.sum()
        self.held_weight = float(reduction.sum(own_weight))

    def _part(self, members: IntArray, most: int, stream: np.random.Generator) -> IntArray:
        """A random subset, with at most ``most`` members in all processes together."""
        total = float(self.reduction.sum(len(members)))
        if total <= most:
            return members
        n_own = int(np.ceil(most * len(members) / total))
        return np.sort(stream.choice(members, n_own, replace=False))

    # ------------------------------------------------------------------------------------- linear
    def fit_linear(self) -> bool:
        """Fit the coefficients of all models, and return whether there are any columns."""
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
        directions = self.settings.directions
        signs = None if directions is None else self.columns.directions(directions)
        folds, penalty = chosen_ridge(design, kept, held, *self._shape, reduction, signs)
        if self.n_folds:
            rows, start = self._linear_rows(self.rows), np.mean(folds, axis=0)
            refit = ridge_hazards(design, rows, *self._shape, penalty, start, reduction, signs)
            folds = [*folds, refit]
        self.set_coefficients(folds)
        return True

    def start(self, rows: RiskRows, offset: FloatArray | None) -> FloatArray:
        """Marginal margins at which models of these rows start, of shape (K, M)."""
        return interval_start(rows, *self._shape, offset, self.reduction, self.people.pseudo_events)

    def _linear_rows(self, rows: RiskRows) -> RiskRows:
        """The rows of the people to whom the linear part is fitted, numbered among them."""
        return rows.of_people(self._linear_people, self.people.n_samples)

    def set_coefficients(self, coefficients: Sequence[Any]) -> None:
        """Take coefficients of all models, and compute the linear predictors of all people."""
        self._coefficients = list(coefficients)
        self._offsets = [np.empty((len(one), self.people.n_samples)) for one in coefficients]
        assert self.columns is not None
        for people, features in self.people.batches:
            design = self.columns.matrix(features.values)
            for offset, one in zip(self._offsets, coefficients, strict=True):
                offset[:, people] = one @ design.T

    def coefficients(self, kind: str, fold: int) -> FloatArray | None:
        """Coefficients of a kind of member, without a fold or of all people."""
        return None if kind == TREES else self._coefficients[fold]

    def offset(self, kind: str, fold: int) -> FloatArray | None:
        """Linear predictors of all people, of shape (K, n_samples)."""
        return None if kind == TREES else self._offsets[fold]

    def judge_features(self) -> tuple[Float32Array, FloatArray | None]:
        """Features of the judges, and their columns in the linear part."""
        if self._judge_features is None:
            values = self.people.features(self.judges).values
            design = None if self.columns is None else self.columns.matrix(values)
            self._judge_features = values, design
        return self._judge_features

    # --------------------------------------------------------------------------------------- rows
    def register(
        self, trainer: Trainer, rows: RiskRows, level: FloatArray, offset: FloatArray | None
    ) -> int:
        """Add rows with their starting margins to a trainer, and return their key."""
        return trainer.add_batches(
            partial(self._row_batches, rows, level, offset, trainer.reference)
        )

    def _row_batches(
        self, rows: RiskRows, level: FloatArray, offset: FloatArray | None, reference: bool
    ) -> Iterator[Batch]:
        """Values and starting margins of rows, one batch of people at a time."""
        for people, features in self.people.batches:
            part = rows
            if not self.people.is_in_memory:
                ends = np.searchsorted(rows.person, [people.start, people.stop])
                part = rows.take(slice(*ends))
            start = row_margins(level, offset, part)
            if not reference:
                start = np.concatenate([np.zeros((1, start.shape[1])), start])
            values = features.values[part.person - people.start]
            yield stacked_rows(values, part.interval), np.ascontiguousarray(start.T)

"""One training problem of hazard models: people, folds, rows, the linear part.

Several models of a kind are trained side by side on the same rows: each of them without another
fold of the people, in one or several draws of folds. What a person's outcome says about models is
said about the mean of those that were trained without the person.

Several processes may train together, each with a part of the people. All of them make the same
calls, and all decisions follow from sums over all of them (`Reduction`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import BoolArray, Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import StackedBatch, Trainer
from survival_objectives._hazards.formulas import RiskRows, interval_start, row_margins
from survival_objectives._hazards.linear import (
    LINEAR_PEOPLE,
    LinearDesign,
    averaged_hazards,
    cross_fitted_linear,
)
from survival_objectives._hazards.mixture import TREES, against_event_free, stacked_rows
from survival_objectives._hazards.people import (
    MANY_PEOPLE,
    Drawn,
    HazardPeople,
    RowBudget,
    drawn_by_outcome,
    folds_of_groups,
    most_rounds,
    rounds_per_evaluation,
    stratified_folds,
)
from survival_objectives._hazards.settings import HazardSettings
from survival_objectives._people.population import Reduction
from survival_objectives.losses import pointwise_log_loss

# Maximum number of people on whose held-out rows rounds and weights are chosen, and levels are
# calibrated.
_MOST_HELD_OUT = 60_000
# Maximum number of rows on which levels are calibrated where held-out people are others.
_CALIBRATION_ROWS = 2**18


@dataclass(frozen=True)
class HeldOutMargins:
    """Margins after some rounds, on the rows that say how good they are.

    Attributes
    ----------
    held_out : float64 array of shape (K, n_held_out_rows)
        Of held-out people, by the models that were trained without them.
    calibrated : float64 array of shape (K, n_calibration_rows)
        On `HazardProblem.calibration`.
    """

    held_out: FloatArray
    calibrated: FloatArray


class HazardProblem:
    """People, rows and linear parts of a training.

    Parameters
    ----------
    people, settings, generator, reduction, held_out
        As in `survival_objectives._hazards.members.HazardTraining`.

    Attributes
    ----------
    people : HazardPeople
        The people who are used, those of ``held_out`` last.
    fold : int64 array of shape (n_repeats, n_samples)
        Fold in which each person is held out; -1 for never. Model number ``repeat * n_folds +
        fold`` is trained without that fold.
    n_models : int
        Number of models of each kind.
    n_rounds : int
        Maximum number of boosting rounds.
    rounds_per_evaluation : int
        Rounds between two held-out evaluations.
    rows : RiskRows
        Rows of all people.
    held_out : int64 array
        Held-out people whose likelihood determines rounds and weights.
    held_out_weight : float64 array
        Their weights.
    held_out_rows, calibration : RiskRows
        Rows of held-out people, and rows on which levels are calibrated: the same, unless those
        are other people than those of the training. People are numbered among themselves.
    total_held_out_weight : float
        Total weight of held-out people.
    columns : LinearDesign or None
        Columns of the linear part, once it is fitted.
    """

    def __init__(
        self,
        people: HazardPeople,
        settings: HazardSettings,
        generator: np.random.Generator,
        reduction: Reduction,
        held_out: HazardPeople | None,
    ) -> None:
        self.settings, self.reduction = settings, reduction
        self._shape = people.n_causes, people.n_intervals
        stream = reduction.stream(generator)
        self._draw_people(people, stream, held_out)
        self._draw_rows(stream)
        self._choose_held_out(stream, has_folds=held_out is None)
        self._coefficients: list[FloatArray] = []
        self._offsets: list[FloatArray] = []
        self.columns: LinearDesign | None = None

    # ------------------------------------------------------------------------------------- people
    def _draw_people(
        self, people: HazardPeople, stream: np.random.Generator, held_out: HazardPeople | None
    ) -> None:
        """Draw the people who are used, and their folds."""
        settings, reduction = self.settings, self.reduction
        n_people = float(reduction.sum(people.size))
        self.is_large = n_people > MANY_PEOPLE
        self.n_rounds = settings.n_rounds or most_rounds(n_people)
        self.rounds_per_evaluation = rounds_per_evaluation(n_people, settings.rounds_per_call)
        n_repeats = settings.n_repeats or 1
        self.n_folds = 1 if held_out is not None else settings.n_folds or 2
        self._budget = RowBudget.of(
            n_people, settings.rows_per_person, settings.most_rows, self.n_folds
        )
        drawn = self._budget.drawn(people, stream, reduction)
        if drawn is not None:
            people = people.take(drawn.people).weighted(drawn.weight)
        if held_out is not None:
            self.fold = np.repeat([-1, 0], [people.n_samples, held_out.n_samples])[None]
            people = people.followed_by(held_out)
        else:
            draws = [
                folds_of_groups(
                    lambda event: stratified_folds(
                        event, self.n_folds, stream, reduction, people.n_causes
                    ),
                    people.event,
                    people.group,
                )
                for _ in range(n_repeats)
            ]
            self.fold = np.stack(draws)
        self.people, self.n_models = people, self.n_folds * len(self.fold)
        everyone = np.arange(people.n_samples)
        self._linear_people = self._drawn(everyone, LINEAR_PEOPLE, stream)

    def _draw_rows(self, stream: np.random.Generator) -> None:
        people = self.people
        self.rows = people.rows(self._budget.n_rows, stream)
        if not people.is_in_memory:
            self.rows = self.rows.by_person()
        if not self.reduction.sum((self.rows.target == 0).sum()):
            msg = "No person is event-free at the end of any time interval: no model can be fitted."
            raise ValueError(msg)

    def _choose_held_out(self, stream: np.random.Generator, *, has_folds: bool) -> None:
        people, fold = self.people, self.fold
        self.held_out, factor = self._drawn(
            np.flatnonzero((fold >= 0).any(axis=0)), _MOST_HELD_OUT, stream
        )
        is_held_out = np.zeros(people.n_samples, np.bool_)
        is_held_out[self.held_out] = True
        self._held_out_positions = np.flatnonzero(is_held_out[self.rows.person])
        self._calibrated = self._held_out_positions
        if not has_folds:
            trained_on = np.flatnonzero(self.is_trained_on(0)[self.rows.person])
            self._calibrated = self._part(trained_on, _CALIBRATION_ROWS, stream)
        rows = self.rows.take(self._held_out_positions).of_people(self.held_out, people.n_samples)
        self.held_out_rows = replace(rows, weight=rows.weight * factor[rows.person])
        self.calibration = self.held_out_rows if has_folds else self.rows.take(self._calibrated)
        units, self._unit = np.arange(len(factor)), np.arange(len(factor))
        if people.person is not None:
            person = people.person[self.held_out]
            _, units, self._unit = np.unique(person, return_index=True, return_inverse=True)
        weight = people.weights(self.held_out[units])
        self.held_out_weight = factor[units] if weight is None else weight * factor[units]
        self.total_held_out_weight = float(self.reduction.sum(self.held_out_weight.sum()))

    def _drawn(self, members: IntArray, most: int, stream: np.random.Generator) -> Drawn:
        """Some of the members, with what each of them stands for."""
        drawn = drawn_by_outcome(self.people, members, most, stream, self.reduction)
        return drawn or Drawn(members, np.ones(len(members)))

    def _part(self, members: IntArray, most: int, stream: np.random.Generator) -> IntArray:
        """A random subset, with at most ``most`` members in all processes together."""
        total = float(self.reduction.sum(len(members)))
        if total <= most:
            return members
        n_own = int(np.ceil(most * len(members) / total))
        return np.sort(stream.choice(members, n_own, replace=False))

    # -------------------------------------------------------------------------------------- folds
    def is_trained_on(self, model: int) -> BoolArray:
        """Whether a model is trained on each person."""
        repeat, fold = divmod(model, self.n_folds)
        found: BoolArray = self.fold[repeat] != fold
        return found

    def training_rows(self, model: int) -> RiskRows:
        """Training rows of a model."""
        return self.rows.take(self.is_trained_on(model)[self.rows.person])

    def training_weights(self) -> Float32Array:
        """Weights of the rows in all models, (n_rows, L), or (n_rows,) for a single model."""
        weights = np.empty((self.rows.n_rows, self.n_models), np.float32)
        for model in range(self.n_models):
            weights[:, model] = self.rows.weight * self.is_trained_on(model)[self.rows.person]
        return weights[:, 0] if self.n_models == 1 else weights

    def held_out_margins(self, margin: npt.ArrayLike) -> HeldOutMargins:
        """Of the margins of all rows, (n_rows, L n_margins), what is needed of them."""
        margin = np.asarray(margin)
        models = self._models_without(self._held_out_positions)
        held_out = self._mean_margin(margin, self._held_out_positions, models)
        if self._calibrated is self._held_out_positions:
            return HeldOutMargins(held_out, held_out)
        own_model = np.zeros((1, len(self._calibrated)), np.int64)
        return HeldOutMargins(held_out, self._mean_margin(margin, self._calibrated, own_model))

    def _models_without(self, rows: IntArray) -> IntArray:
        """Models that were trained without the person of each row, (R, n); -1 for none."""
        fold = self.fold[:, self.rows.person[rows]]
        first = self.n_folds * np.arange(len(fold))[:, None]
        models: IntArray = np.where(fold >= 0, fold + first, -1)
        return models

    def _mean_margin(
        self, margin: npt.NDArray[np.floating], rows: IntArray, models: IntArray
    ) -> FloatArray:
        """Mean margins of rows over the models of each that are not -1, (K, n)."""
        by_model = margin.reshape(len(margin), self.n_models, -1)
        total = np.zeros((by_model.shape[2], len(rows)))
        for model in models:
            total += np.where(model >= 0, by_model[rows, model].T, 0.0)
        mean = total / (models >= 0).sum(axis=0)
        return against_event_free(mean, self.people.n_causes)

    def log_likelihood(self, margins: HeldOutMargins) -> float:
        """Log-likelihood of held-out people."""
        return -float(self.reduction.sum(self._losses(margins.held_out).sum()))

    def likelihood(self, margins: FloatArray) -> FloatArray:
        """Likelihood (75) of each held-out outcome since entry, from the margins of the rows."""
        weight = self.held_out_weight
        unit = self._unit[self.held_out_rows.person]
        loss = np.bincount(unit, self._losses(margins), minlength=len(weight))
        likelihood: FloatArray = np.exp(-loss / np.where(weight > 0, weight, 1.0))
        return likelihood

    def _losses(self, margins: FloatArray) -> FloatArray:
        rows = self.held_out_rows
        return pointwise_log_loss(margins.T, rows.target, rows.weight, reference=True)

    # ------------------------------------------------------------------------------------- linear
    def fit_linear(self) -> bool:
        """Fit the coefficients of all models, and return whether there are any columns."""
        people, reduction = self.people, self.reduction
        chosen, factor = self._linear_people
        features = people.features(chosen)
        # People who are held out in all repeats are not of the training.
        is_trained_on = slice(None) if self.n_folds > 1 else self.is_trained_on(0)[chosen]
        weight = people.weights(chosen)
        weight = factor if weight is None else weight * factor
        self.columns = LinearDesign.of(
            replace(features, values=features.values[is_trained_on]),
            weight[is_trained_on],
            reduction,
        )
        if not self.columns.n_columns:
            self.columns = None
            return False
        design = self.columns.matrix(features.values)
        rows = self.rows.of_people(chosen, people.n_samples)
        rows = replace(rows, weight=rows.weight * factor[rows.person])

        def part(model: int, *, is_held_out: bool) -> RiskRows:
            return rows.take((self.is_trained_on(model)[chosen] != is_held_out)[rows.person])

        directions = self.settings.directions
        signs = None if directions is None else self.columns.directions(directions)
        first = range(self.n_folds)
        found, shares = cross_fitted_linear(
            design,
            [part(model, is_held_out=False) for model in first],
            [part(model, is_held_out=True) for model in first],
            *self._shape,
            reduction,
            signs,
        )
        start = np.mean(found, axis=0)
        for model in range(self.n_folds, self.n_models):
            training = part(model, is_held_out=False)
            found.append(
                averaged_hazards(design, training, *self._shape, shares, start, reduction, signs)
            )
        self.set_coefficients(found)
        return True

    def set_coefficients(self, coefficients: Sequence[FloatArray]) -> None:
        """Take coefficients of all models, and compute the linear predictors of all people."""
        self._coefficients = list(coefficients)
        self._offsets = [np.empty((len(one), self.people.n_samples)) for one in coefficients]
        assert self.columns is not None
        for people, features in self.people.batches:
            design = self.columns.matrix(features.values)
            for offset, one in zip(self._offsets, coefficients, strict=True):
                offset[:, people] = one @ design.T

    def coefficients(self, kind: str) -> FloatArray | None:
        """Coefficients of all models of a kind, (L, K, n_columns)."""
        return None if kind == TREES else np.stack(self._coefficients)

    def start_levels(self, kind: str) -> FloatArray:
        """Marginal margins at which all models of a kind start, (L, K, M)."""
        return np.stack(
            [
                interval_start(
                    self.training_rows(model),
                    *self._shape,
                    self._offset(kind, model),
                    self.reduction,
                    self.people.pseudo_events,
                )
                for model in range(self.n_models)
            ]
        )

    def _offset(self, kind: str, model: int) -> FloatArray | None:
        """Linear predictors of all people, of shape (K, n_samples)."""
        return None if kind == TREES else self._offsets[model]

    # --------------------------------------------------------------------------------------- rows
    def register(self, trainer: Trainer, kind: str, levels: FloatArray) -> int:
        """Add all rows with their starting margins to a trainer, and return their key."""
        return trainer.add_batches(partial(self._row_batches, kind, levels, trainer.reference))

    def _row_batches(
        self, kind: str, levels: FloatArray, reference: bool
    ) -> Iterator[StackedBatch]:
        """Values and starting margins of rows, one batch of people at a time."""
        for people, features in self.people.batches:
            part = self.rows
            if not self.people.is_in_memory:
                ends = np.searchsorted(part.person, [people.start, people.stop])
                part = part.take(slice(*ends))
            values = features.values[part.person - people.start]
            start = self._start_margins(kind, levels, part, reference=reference)
            yield stacked_rows(values, part.interval), start

    def start_margins(self, kind: str, levels: FloatArray) -> Float32Array:
        """Margins of all rows before any tree, (n_rows, L K)."""
        return self._start_margins(kind, levels, self.rows, reference=True)

    def _start_margins(
        self, kind: str, levels: FloatArray, rows: RiskRows, *, reference: bool
    ) -> Float32Array:
        """Margins of rows before any tree, (n_rows, L n_margins)."""
        first = 0 if reference else 1
        start = np.zeros((rows.n_rows, self.n_models, first + self.people.n_causes), np.float32)
        for model, level in enumerate(levels):
            start[:, model, first:] = row_margins(level, self._offset(kind, model), rows).T
        return start.reshape(rows.n_rows, -1)

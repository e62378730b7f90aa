"""Risk-set rows of hazards in the engine's own training call, and the margins they start from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import BoolArray, Float32Array, FloatArray, IntArray
from survival_objectives._hazards.formulas import (
    RiskRows,
    interval_start,
    row_margins,
    time_corrections,
)
from survival_objectives._hazards.linear import (
    LINEAR_PEOPLE,
    LinearDesign,
    averaged_hazards,
    cross_fitted_linear,
)
from survival_objectives._hazards.mixture import HazardModel, HazardTrees, stacked_rows
from survival_objectives._hazards.people import (
    HazardPeople,
    RowBudget,
    folds_of_groups,
    stratified_folds,
)
from survival_objectives._process.running import one_blas_thread
from survival_objectives.losses import pointwise_log_loss

# Folds of the training people by which the penalty of the linear part is chosen.
_PENALTY_FOLDS = 2
# Log-likelihood that trees must gain, c of (82).
_COST_OF_TREES = 1.0
# Most training people on whom levels are corrected, and about how many rows they may have.
_CORRECTION_PEOPLE, _CORRECTION_ROWS = 50_000, 300_000


@dataclass(frozen=True)
class MatrixRows:
    """Rows as an engine takes them.

    Attributes
    ----------
    person : int32 array of shape (n_rows,)
        Person of each row.
    values : float32 array of shape (n_rows, n_features + 1)
        Features, and the number of the interval last.
    target : int32 array of shape (n_rows,)
        0 = event-free at the end of the interval, 1..K = causes.
    weight : float32 array of shape (n_rows,)
    start : float64 array of shape (n_rows, K)
        Margins at which boosting starts.
    n_people : float
        Total weight of the people.
    """

    person: npt.NDArray[np.int32]
    values: Float32Array
    target: npt.NDArray[np.int32]
    weight: npt.NDArray[np.float32]
    start: FloatArray
    n_people: float


@dataclass(frozen=True)
class HazardStart:
    """Margins before any tree: marginal hazards, and linear hazards of the features.

    Attributes
    ----------
    level : float64 array of shape (K, M)
    coefficients : float64 array of shape (K, n_columns), or None
    design : LinearDesign, or None
        Columns of the linear part.
    """

    level: FloatArray
    coefficients: FloatArray | None
    design: LinearDesign | None

    def offset(self, values: Float32Array) -> FloatArray | None:
        """Linear predictors of people, (K, n_samples)."""
        if self.design is None or self.coefficients is None:
            return None
        with one_blas_thread():
            offset: FloatArray = self.coefficients @ self.design.matrix(values).T
        return offset

    def matrix_rows(self, people: HazardPeople, rows: RiskRows) -> MatrixRows:
        """Rows of people in memory, with their starting margins."""
        values = people.features(np.arange(people.n_samples)).values
        return MatrixRows(
            rows.person,
            stacked_rows(values[rows.person], rows.interval),
            rows.target,
            rows.weight.astype(np.float32),
            row_margins(self.level, self.offset(values), rows).T,
            people.total_weight(rows.person),
        )


@dataclass(frozen=True)
class PluginHazards:
    """Training people of one problem of the plugin, their rows, and where boosting starts.

    Attributes
    ----------
    people : HazardPeople
        All people, training and held-out.
    chosen : int64 array of shape (n_samples,)
        Positions of these people among those who were passed; of many, some are drawn.
    rows, held_out_rows : RiskRows
        Rows of the training people, and of the held-out people of a part of a cross-validation.
    start : HazardStart
        Fitted to the training people.
    budget : RowBudget
        Rows per person.
    seed : int
        Of the folds.
    """

    people: HazardPeople
    chosen: IntArray
    rows: RiskRows
    held_out_rows: RiskRows
    start: HazardStart
    budget: RowBudget
    seed: int

    @classmethod
    def of(
        cls,
        people: HazardPeople,
        *,
        rows_per_person: int | str | None,
        linear: bool,
        generator: np.random.Generator,
    ) -> PluginHazards:
        """Draw rows of all people, and fit the start to them."""
        budget, chosen = RowBudget.of(people.size, rows_per_person), np.arange(people.n_samples)
        drawn = budget.drawn(people, generator)
        if drawn is not None:
            chosen = drawn.people
            people = people.take(chosen).weighted(drawn.weight)
        rows = people.rows(budget.n_rows, generator)
        if not (rows.target == 0).any():
            msg = "No person is event-free at the end of any time interval: no model can be fitted."
            raise ValueError(msg)
        design = None
        if linear:
            design = LinearDesign.of(people.features(np.arange(people.n_samples)), people.weight)
        if design is not None and not design.n_columns:
            design = None
        seed = int(generator.integers(2**31 - 1))
        start = _fitted_start(people, rows, np.full(people.n_samples, True), design, seed)
        return cls(people, chosen, rows, rows.take(slice(0)), start, budget, seed)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of causes and of intervals, K and M."""
        return self.people.n_causes, self.people.n_intervals

    @cached_property
    def training(self) -> MatrixRows:
        """Rows of the training people."""
        return self.start.matrix_rows(self.people, self.rows)

    def held_out(self, people: HazardPeople) -> MatrixRows:
        """Rows of other people, with the start of the training people."""
        rows = people.rows(self.budget.n_rows, np.random.default_rng(self.seed))
        return self.start.matrix_rows(people, rows)

    def part_held_out(self) -> MatrixRows:
        """Rows of the people that this part of a cross-validation holds out."""
        return self.start.matrix_rows(self.people, self.held_out_rows)

    def cross_fit(self, n_folds: int) -> list[PluginHazards]:
        """The same rows in parts, each without a fold of the people and with a start of its own."""
        people, event = self.people, self.people.event
        generator = np.random.default_rng([self.seed, n_folds])
        fold = folds_of_groups(
            lambda event: stratified_folds(event, n_folds, generator), event, people.group
        )
        parts = []
        for number in range(n_folds):
            is_held_out = fold == number
            if not is_held_out.any():
                msg = f"Fold {number + 1} of {n_folds} has no one. Use fewer folds."
                raise ValueError(msg)
            in_fold = is_held_out[self.rows.person]
            rows, held_out = self.rows.take(~in_fold), self.rows.take(in_fold)
            start = _fitted_start(people, rows, ~is_held_out, self.start.design, self.seed)
            parts.append(replace(self, rows=rows, held_out_rows=held_out, start=start))
        return parts

    def fitted(self, trees: HazardTrees) -> HazardModel:
        """The start with trees, corrected in time (74) on the training people.

        A part of a cross-validation leaves out trees that do not pay for themselves, as in (82).
        """
        start, n_rows = self.start, self.budget.n_rows
        pays = not self.held_out_rows.n_rows or self._held_out_gain(trees) > _COST_OF_TREES
        person = np.unique(self.rows.person).astype(np.int64)
        if len(person) > _CORRECTION_PEOPLE:
            person = person[np.linspace(0, len(person) - 1, _CORRECTION_PEOPLE).astype(np.int64)]
        people = self.people.take(person)
        if n_rows is not None:
            # Of the event-free rows some were drawn for training. Trees fit these better than the
            # rest of the risk sets, in which they expect more events.
            n_rows = max(n_rows, _CORRECTION_ROWS // len(person))
        rows = people.rows(n_rows, np.random.default_rng([self.seed, 1]))
        values = people.features(np.arange(len(person))).values
        margin = row_margins(start.level, start.offset(values), rows)
        if pays:
            margin = margin + trees.row_margin(values[rows.person], rows.interval)
        level = start.level + time_corrections(margin, rows, self.people.n_intervals)
        coefficients = None if start.coefficients is None else start.coefficients[None]
        return HazardModel(level[None], coefficients, trees if pays else None)

    def _held_out_gain(self, trees: HazardTrees) -> float:
        """Gain in log-likelihood of the held-out people of this part by trees."""
        held_out = self.part_held_out()
        margin = trees.row_margin(held_out.values[:, :-1], held_out.values[:, -1]).T
        without, with_trees = (
            pointwise_log_loss(one, held_out.target, held_out.weight, reference=True).sum()
            for one in (held_out.start, held_out.start + margin)
        )
        return float(without - with_trees)


def _fitted_start(
    people: HazardPeople,
    rows: RiskRows,
    is_training: BoolArray,
    design: LinearDesign | None,
    seed: int,
) -> HazardStart:
    """The start of boosting on rows, which are those of the training people."""
    shape = people.n_causes, people.n_intervals
    coefficients = offset = None
    if design is not None:
        generator = np.random.default_rng(seed)
        chosen = np.flatnonzero(is_training)
        if len(chosen) > LINEAR_PEOPLE:
            chosen = np.sort(generator.choice(chosen, LINEAR_PEOPLE, replace=False))
        own, own_rows = people.take(chosen), rows.of_people(chosen, people.n_samples)
        matrix = design.matrix(own.features(np.arange(len(chosen))).values)
        folds, shares = cross_fitted_linear(
            matrix, *_penalty_parts(own, own_rows, generator), *shape
        )
        first = np.mean(folds, axis=0)
        coefficients = averaged_hazards(matrix, own_rows, *shape, shares, first)
        everyone = people.features(np.arange(people.n_samples)).values
        offset = coefficients @ design.matrix(everyone).T
    level = interval_start(rows, *shape, offset, pseudo_events=people.pseudo_events)
    return HazardStart(level, coefficients, design)


def _penalty_parts(
    people: HazardPeople, rows: RiskRows, generator: np.random.Generator
) -> tuple[list[RiskRows], list[RiskRows]]:
    """Training and held-out rows of the folds by which the penalty is chosen."""
    fold = folds_of_groups(
        lambda event: stratified_folds(event, _PENALTY_FOLDS, generator),
        people.event,
        people.group,
    )[rows.person]
    numbers: list[int] = list(range(_PENALTY_FOLDS))
    training = [rows.take(fold != number) for number in numbers]
    return training, [rows.take(fold == number) for number in numbers]

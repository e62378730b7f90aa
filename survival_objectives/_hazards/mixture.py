r"""Fitted hazard models and their mixture.

Contributions of features explain the mean log-odds of each cause over the intervals up to a horizon
t, where omega_km(t) is the marginal share of interval m in the events of cause k by t:

    f_k(x; t) = sum_m omega_km(t) f_km(x),                                                     (81)

averaged over the members of the mixture with their weights. The shares omega are the same for all
people, so that (81) is a sum of trees, a linear part and constants, and contributions sum exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.forest import Forest, crossed_rows
from survival_objectives._engines.protocol import Evaluator
from survival_objectives._hazards.formulas import knot_incidence
from survival_objectives._hazards.linear import LinearDesign
from survival_objectives._models.fitted import ENGINE_ROWS, parts_of

#: Names of the members.
LINEAR, TREES, ON_LINEAR = "linear", "trees", "trees on linear"

# Number of curve values in memory: 2^22 doubles are 32 MB.
_PREDICTION_SIZE = 2**22


def stacked_rows(values: Float32Array, interval: npt.ArrayLike) -> Float32Array:
    """Features with the number of an interval as their last column."""
    rows = np.empty((len(values), values.shape[1] + 1), np.float32)
    rows[:, :-1] = values
    rows[:, -1] = interval
    return rows


def against_event_free(margin: FloatArray, n_causes: int) -> FloatArray:
    """Margins of the causes against the event-free state, which is first if it has one."""
    return margin if len(margin) == n_causes else margin[1:] - margin[:1]


@dataclass(frozen=True)
class HazardTrees:
    """Trees of an engine that split on features and on the number of the interval.

    Attributes
    ----------
    evaluator : Evaluator
        Its margins are those of all models side by side or, as many as one model has, their sum.
    n_causes : int
    n_models : int
        Models whose mean this is.
    """

    evaluator: Evaluator
    n_causes: int
    n_models: int = 1

    @property
    def n_rounds(self) -> int:
        """Rounds of boosting of each model."""
        n_rounds = self.evaluator.n_rounds
        return n_rounds if self._is_side_by_side else n_rounds // self.n_models

    @property
    def _is_side_by_side(self) -> bool:
        return self.evaluator.n_margins == self.n_models * self.n_causes

    @cached_property
    def forest(self) -> Forest:
        """The mean of all models as one forest, with as many margins as one model has."""
        forest = self.evaluator.forest()
        if self.n_models == 1 or not forest.is_readable:
            return forest
        n_margins = self.n_causes if self._is_side_by_side else forest.n_margins
        trees = [
            replace(
                tree,
                first_margin=tree.first_margin % n_margins,
                value=[tuple(value / self.n_models for value in leaf) for leaf in tree.value],
            )
            for tree in forest.trees
        ]
        return Forest(trees, n_margins, forest.time_column, at_most=forest.at_most)

    def by_cause(self, margin: FloatArray) -> FloatArray:
        """Mean of all models against the event-free state; margins and causes come first."""
        if self._is_side_by_side:
            mean: FloatArray = margin.reshape(-1, self.n_causes, *margin.shape[1:]).mean(axis=0)
            return mean
        return against_event_free(margin, self.n_causes) / self.n_models

    def margin(
        self, values: Float32Array, n_intervals: int, *, engine_rows: int = ENGINE_ROWS
    ) -> FloatArray:
        """Sum of the trees for all causes and intervals, (K, M, n_samples).

        The engine evaluates up to ``engine_rows`` rows, or all rows if the trees cannot be read.
        """
        n_people, intervals = len(values), np.arange(n_intervals)
        if n_people * n_intervals > engine_rows and self.forest.is_readable:
            margin = self.forest.step_margins(values)[:, self.forest.interval(intervals)]
            return against_event_free(margin, self.n_causes)
        margin = self.evaluator.sum_of_trees(crossed_rows(values, intervals))
        return self.by_cause(margin.reshape(n_people, n_intervals, -1).transpose(2, 1, 0))

    def margins_by_model(self, values: Float32Array, n_intervals: int) -> FloatArray:
        """As `margin`, of each model, (L, K, M, n_samples)."""
        rows, shape = crossed_rows(values, np.arange(n_intervals)), (len(values), n_intervals)
        if self._is_side_by_side:
            margin = self.evaluator.sum_of_trees(rows).T
        else:
            n_rounds = self.n_rounds
            parts = [
                self.evaluator.sum_of_trees(rows, model * n_rounds, (model + 1) * n_rounds).T
                for model in range(self.n_models)
            ]
            margin = np.concatenate([against_event_free(one, self.n_causes) for one in parts])
        return margin.reshape(self.n_models, self.n_causes, *shape).swapaxes(2, 3)

    def row_margin(self, values: Float32Array, interval: npt.ArrayLike) -> FloatArray:
        """Sum of the trees for all causes, with one interval per row, (K, n_rows)."""
        return self.by_cause(self.evaluator.sum_of_trees(stacked_rows(values, interval)).T)

    def contributions(self, values: Float32Array, omega: FloatArray) -> FloatArray:
        """TreeSHAP of (81), (n_samples, K, n_features + 2, T): features, interval and base.

        Parameters
        ----------
        values : float32 array of shape (n_samples, n_features)
        omega : float64 array of shape (T, K, M)
            Shares of the intervals for T means.
        """
        n_people, n_intervals = len(values), omega.shape[-1]
        # Intervals between the same two splits on time have the same contributions.
        step = self.evaluator.forest().interval(np.arange(n_intervals))
        steps, first, group = np.unique(step, return_index=True, return_inverse=True)
        weight = np.stack(
            [omega[..., group == step].sum(axis=-1) for step in range(len(steps))], -1
        )
        used = weight.any(axis=(0, 1))
        first, weight = first[used], weight[..., used]
        rows = crossed_rows(values, first)
        found = self.by_cause(self.evaluator.shap_values(rows).swapaxes(0, 1))
        by_step = found.reshape(omega.shape[1], n_people, len(first), -1)
        total: FloatArray = np.einsum("knsc,tks->nkct", by_step, weight)
        return total

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # A pickle leaves the forest out: it is read again from the engine's model.
        return type(self), (self.evaluator, self.n_causes, self.n_models)


@dataclass(frozen=True)
class HazardModel:
    """The mean of the margins of several hazard models, each fitted without another fold.

    Each model has a level per cause and interval, a linear part, and trees.

    Attributes
    ----------
    levels : float64 array of shape (L, K, M)
    coefficients : float64 array of shape (L, K, n_columns), or None
        Coefficients of the standardised columns.
    trees : HazardTrees, or None
        Trees of all models.
    """

    levels: FloatArray
    coefficients: FloatArray | None
    trees: HazardTrees | None

    @property
    def n_models(self) -> int:
        """Number of models, L."""
        return len(self.levels)

    @cached_property
    def level(self) -> FloatArray:
        """Mean levels, (K, M)."""
        mean: FloatArray = self.levels.mean(axis=0)
        return mean

    @cached_property
    def slopes(self) -> FloatArray | None:
        """Mean coefficients, (K, n_columns)."""
        return None if self.coefficients is None else self.coefficients.mean(axis=0)

    def margin(
        self,
        values: Float32Array,
        design: FloatArray | None,
        *,
        engine_rows: int = ENGINE_ROWS,
    ) -> FloatArray:
        """Margins, (K, M, n_samples); ``engine_rows`` as in `HazardTrees.margin`."""
        margin = np.repeat(self.level[:, :, None], len(values), axis=2)
        if self.slopes is not None and design is not None:
            margin += (self.slopes @ design.T)[:, None]
        if self.trees is not None:
            margin += self.trees.margin(values, self.level.shape[1], engine_rows=engine_rows)
        return margin

    def margins_by_model(self, values: Float32Array, design: FloatArray | None) -> FloatArray:
        """Margins of each model, (L, K, M, n_samples)."""
        margin = np.repeat(self.levels[:, :, :, None], len(values), axis=3)
        if self.coefficients is not None and design is not None:
            margin += (self.coefficients @ design.T)[:, :, None]
        if self.trees is not None:
            margin += self.trees.margins_by_model(values, self.level.shape[1])
        return margin

    def contributions(
        self, values: Float32Array, linear: _LinearColumns | None, omega: FloatArray
    ) -> FloatArray:
        """Contributions to (81), (n_samples, K, n_features + 2, T): features, interval and base."""
        n_times, n_causes, _ = omega.shape
        found = np.zeros((len(values), n_causes, values.shape[1] + 2, n_times))
        if self.trees is not None:
            found += self.trees.contributions(values, omega)
        if self.slopes is not None and linear is not None:
            # Columns are 0 at their mean, which is the base value.
            parts = linear.matrix[:, None, :] * self.slopes
            for column, feature in enumerate(linear.feature):
                found[:, :, feature] += parts[:, :, column, None]
        found[:, :, -1] += (omega * self.level).sum(axis=2).T
        return found


@dataclass(frozen=True)
class _LinearColumns:
    """Standardised columns, (n_samples, n_columns), and the feature of each."""

    matrix: FloatArray
    feature: tuple[int, ...]


class Member(NamedTuple):
    """One kind of model in a mixture, and its weight."""

    weight: float
    model: HazardModel


@dataclass(frozen=True)
class Mixture:
    """A mixture of hazard models.

    Attributes
    ----------
    members : dict of str to Member
        By name, such as `TREES`.
    design : LinearDesign, or None
        Columns of the linear parts.
    """

    members: dict[str, Member]
    design: LinearDesign | None

    @property
    def _any_model(self) -> HazardModel:
        return next(iter(self.members.values())).model

    @property
    def n_intervals(self) -> int:
        """Number of intervals between knots, M."""
        return int(self._any_model.level.shape[1])

    @property
    def n_models(self) -> int:
        """Number of models of each kind, L."""
        return self._any_model.n_models

    def parts(self, n_samples: int, n_times: int = 1) -> Iterator[slice]:
        """People whose curves fit into memory together."""
        return parts_of(n_samples, self.n_in_memory(n_times))

    def n_in_memory(self, n_times: int) -> int:
        """Number of people whose curves fit into memory together."""
        n_causes = len(self._any_model.level)
        n_values = max(self.n_intervals + 1, n_times) * (n_causes + 1)
        return _PREDICTION_SIZE // n_values

    def heaviest_trees(self) -> tuple[str, HazardTrees] | None:
        """The kind and the trees of the member with the largest weight; None without trees."""
        with_trees = [
            (member.weight, kind, member.model.trees)
            for kind, member in self.members.items()
            if member.model.trees is not None
        ]
        if not with_trees:
            return None
        _, kind, trees = max(with_trees, key=lambda one: one[0])
        return kind, trees

    def linear_columns(self, values: Float32Array) -> _LinearColumns | None:
        """Columns of the linear parts, or None without any."""
        if self.design is None:
            return None
        return _LinearColumns(self.design.matrix(values), self.design.feature)

    def incidence(self, values: Float32Array) -> FloatArray:
        """Incidences at knots, (K, M + 1, n_samples): the weighted mean of all members."""
        total: FloatArray | None = None
        for share, curves in self.knot_curves(values):
            curves *= share
            total = curves if total is None else total + curves
        assert total is not None
        return total

    def incidences_by_model(self, values: Float32Array) -> FloatArray:
        """Incidences at knots by the models without each fold, (L, K, M + 1, n_samples)."""
        design = None if self.design is None else self.design.matrix(values)
        total = np.zeros(())
        for share, model in self.members.values():
            margins = model.margins_by_model(values, design)
            total = total + share * np.stack([knot_incidence(margin) for margin in margins])
        return total

    def knot_curves(self, values: Float32Array) -> Iterator[tuple[float, FloatArray]]:
        """Weight of each member, and its incidences at knots, (K, M + 1, n_samples)."""
        design = None if self.design is None else self.design.matrix(values)
        for share, model in self.members.values():
            yield share, knot_incidence(model.margin(values, design))

    def margin(self, values: Float32Array, omega: FloatArray) -> FloatArray:
        """The mean log-odds (81), (n_samples, K)."""
        total = np.zeros((len(values), len(omega)))
        design = None if self.design is None else self.design.matrix(values)
        for share, model in self.members.values():
            total += share * np.einsum("km,kmn->nk", omega, model.margin(values, design))
        return total

    def contributions(self, values: Float32Array, omega: FloatArray) -> FloatArray:
        """Contributions to (81), (n_samples, K, n_features + 2, T): features, interval and base."""
        linear = self.linear_columns(values)
        parts = [
            share * model.contributions(values, linear, omega)
            for share, model in self.members.values()
        ]
        found: FloatArray = np.sum(parts, axis=0)
        return found

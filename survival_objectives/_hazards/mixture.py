r"""Fitted hazard models and their mixture.

Contributions of features explain the mean log-odds of each cause over the intervals up to a horizon
t, where omega_km(t) is the marginal share of interval m in the events of cause k by t:

    f_k(x; t) = sum_m omega_km(t) f_km(x),                                                     (81)

averaged over the models of the mixture with their shares. The weights omega are the same for all
people, so that (81) is a sum of trees, a linear part and constants, and contributions sum exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.evaluator import Evaluator
from survival_objectives._engines.forest import crossed_rows
from survival_objectives._hazards.formulas import knot_incidence
from survival_objectives._hazards.linear import LinearDesign
from survival_objectives._models.fitted import ENGINE_ROWS, parts_of

#: Names of the members.
LINEAR, TREES, ON_LINEAR = "linear", "trees", "trees on linear"
#: Names of the members in file names.
FILE_NAMES = {LINEAR: "linear", TREES: "trees", ON_LINEAR: "on_linear"}

# Number of curve values in memory: 2^22 doubles are 32 MB.
_PREDICTION_SIZE = 2**22
# Number of rows for which `Forest` evaluates trees at a time.
_WALKED_ROWS = 2**14


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
    """Trees of an engine that split on features and on the number of the interval."""

    evaluator: Evaluator
    n_causes: int

    def margin(
        self, values: Float32Array, n_intervals: int, *, engine_rows: int = ENGINE_ROWS
    ) -> FloatArray:
        """Sum of the trees for all causes and intervals, (K, M, n_samples).

        The engine evaluates up to ``engine_rows`` rows, or all rows if the trees cannot be read.
        """
        n_people, intervals = len(values), np.arange(n_intervals)
        forest = self.evaluator.forest()
        is_walked = engine_rows == 0 or n_people * n_intervals > engine_rows
        if forest.is_readable and is_walked:
            margin = forest.step_margins(values)[:, forest.interval(intervals)]
        else:
            rows = crossed_rows(values, intervals)
            margin = self.evaluator.sum_of_trees(rows)
            margin = margin.reshape(n_people, n_intervals, -1).transpose(2, 1, 0)
        return against_event_free(margin, self.n_causes)

    def row_margin(
        self, values: Float32Array, interval: IntArray, *, ask_engine: bool = True
    ) -> FloatArray:
        """Sum of the trees for all causes, with one interval per row, (K, n_rows)."""
        forest = None if ask_engine else self.evaluator.forest()
        if forest is None or not forest.is_readable:
            margin = self.evaluator.sum_of_trees(stacked_rows(values, interval)).T
        else:
            step, n_rows = forest.interval(interval), np.arange(_WALKED_ROWS)
            parts = []
            for first in range(0, len(values), _WALKED_ROWS):
                part = slice(first, first + _WALKED_ROWS)
                steps = forest.step_margins(values[part])
                parts.append(steps[:, step[part], n_rows[: len(values[part])]])
            margin = np.concatenate(parts, axis=1) if parts else np.zeros((forest.n_margins, 0))
        return against_event_free(margin, self.n_causes)

    def contributions(self, values: Float32Array, omega: FloatArray) -> FloatArray:
        """TreeSHAP of (81), (n_samples, K, n_features + 2): features, interval and base.

        Parameters
        ----------
        values : float32 array of shape (n_samples, n_features)
        omega : float64 array of shape (K, M)
        """
        n_people, n_intervals = len(values), omega.shape[1]
        # Intervals between the same two splits on time have the same contributions.
        step = self.evaluator.forest().interval(np.arange(n_intervals))
        steps, first, group = np.unique(step, return_index=True, return_inverse=True)
        weight = np.stack([np.bincount(group, row, minlength=len(steps)) for row in omega])
        used = weight.any(axis=0)
        first, weight = first[used], weight[:, used]
        rows = crossed_rows(values, first)
        margins = self.evaluator.shap_values(rows).swapaxes(0, 1)
        found = against_event_free(margins, self.n_causes)
        by_step = found.reshape(len(omega), n_people, len(first), -1)
        total: FloatArray = np.einsum("knsc,ks->nkc", by_step, weight)
        return total


@dataclass(frozen=True)
class HazardModel:
    """Margins of hazards: a level per cause and interval, a linear part, and trees.

    Attributes
    ----------
    level : float64 array of shape (K, M)
    coefficients : float64 array of shape (K, n_columns), or None
        Coefficients of the standardised columns.
    trees : HazardTrees, or None
    """

    level: FloatArray
    coefficients: FloatArray | None
    trees: HazardTrees | None

    def margin(
        self,
        values: Float32Array,
        design: FloatArray | None,
        *,
        engine_rows: int = ENGINE_ROWS,
    ) -> FloatArray:
        """Margins, (K, M, n_samples); ``engine_rows`` as in `HazardTrees.margin`."""
        margin = np.repeat(self.level[:, :, None], len(values), axis=2)
        if self.coefficients is not None and design is not None:
            margin += (self.coefficients @ design.T)[:, None]
        if self.trees is not None:
            margin += self.trees.margin(values, self.level.shape[1], engine_rows=engine_rows)
        return margin

    def contributions(
        self, values: Float32Array, linear: _LinearColumns | None, omega: FloatArray
    ) -> FloatArray:
        """Contributions to (81), (n_samples, K, n_features + 2): features, interval and base."""
        found = np.zeros((len(values), len(omega), values.shape[1] + 2))
        if self.trees is not None:
            found += self.trees.contributions(values, omega)
        if self.coefficients is not None and linear is not None:
            # Columns are 0 at their mean, which is the base value.
            parts = linear.matrix[:, None, :] * self.coefficients
            for column, feature in enumerate(linear.feature):
                found[:, :, feature] += parts[:, :, column]
        found[:, :, -1] += (omega * self.level).sum(axis=1)
        return found


@dataclass(frozen=True)
class _LinearColumns:
    """Standardised columns, (n_samples, n_columns), and the feature of each."""

    matrix: FloatArray
    feature: tuple[int, ...]


@dataclass(frozen=True)
class Member:
    """One kind of model in a mixture, fitted without each fold and to all people.

    Attributes
    ----------
    weight : float
        Mixture weight.
    folds : tuple of HazardModel
        Models fitted without one fold each; empty if a single part was held out.
    refit : HazardModel
        Fitted to all people, or to all but the single held-out part; or the first of several models
        of equal shares.
    refit_share : float
        Share of the refit in the incidence, if there are folds; the folds share the rest.
    """

    weight: float
    folds: tuple[HazardModel, ...]
    refit: HazardModel
    refit_share: float = 0.5

    def shares(self) -> Iterator[tuple[float, HazardModel]]:
        """Models with their shares."""
        if not self.folds:
            yield self.weight, self.refit
            return
        yield self.weight * self.refit_share, self.refit
        for model in self.folds:
            yield self.weight * (1 - self.refit_share) / len(self.folds), model

    def shares_of_importance(self) -> Iterator[tuple[float, HazardModel]]:
        """Models with their shares in importances: the refit, unless it is one of equals."""
        if np.isclose(self.refit_share, 1 / (len(self.folds) + 1)):
            yield from self.shares()
        else:
            yield self.weight, self.refit


@dataclass(frozen=True)
class Mixture:
    """A mixture of hazard models.

    Attributes
    ----------
    members : dict of str to Member
    design : LinearDesign, or None
        Columns of the linear parts.
    """

    members: dict[str, Member]
    design: LinearDesign | None

    @property
    def n_intervals(self) -> int:
        """Number of intervals between knots, M."""
        return int(next(iter(self.members.values())).refit.level.shape[1])

    @property
    def n_folds(self) -> int:
        """Number of models per member that were fitted without a fold."""
        return len(next(iter(self.members.values())).folds)

    def parts(self, n_samples: int, n_times: int = 1) -> Iterator[slice]:
        """People whose curves fit into memory together."""
        return parts_of(n_samples, self.n_in_memory(n_times))

    def n_in_memory(self, n_times: int) -> int:
        """Number of people whose curves fit into memory together."""
        n_causes = len(next(iter(self.members.values())).refit.level)
        n_values = max(self.n_intervals + 1, n_times) * (n_causes + 1)
        return _PREDICTION_SIZE // n_values

    def models(self) -> dict[str, HazardModel]:
        """All models, by their names in files."""
        named = {}
        for kind, member in self.members.items():
            named[f"{FILE_NAMES[kind]}_all"] = member.refit
            for fold, model in enumerate(member.folds):
                named[f"{FILE_NAMES[kind]}_{fold}"] = model
        return named

    def heaviest_kind(self) -> str | None:
        """The kind of the member with the largest weight among those with trees."""
        with_trees = [
            kind for kind, member in self.members.items() if member.refit.trees is not None
        ]
        return max(with_trees, key=lambda kind: self.members[kind].weight, default=None)

    def heaviest_trees(self) -> HazardTrees | None:
        """Trees of `heaviest_kind`, fitted to all people; None without trees."""
        kind = self.heaviest_kind()
        return None if kind is None else self.members[kind].refit.trees

    def linear_columns(self, values: Float32Array) -> _LinearColumns | None:
        """Columns of the linear parts, or None without any."""
        if self.design is None:
            return None
        return _LinearColumns(self.design.matrix(values), self.design.feature)

    def shares(self) -> Iterator[tuple[float, HazardModel]]:
        """All models with their shares, which sum to 1."""
        for member in self.members.values():
            yield from member.shares()

    def incidence(self, values: Float32Array) -> FloatArray:
        """Incidences at knots, (K, M + 1, n_samples): the weighted mean of all models."""
        total: FloatArray | None = None
        for share, curves in self.knot_curves(values):
            curves *= share
            total = curves if total is None else total + curves
        assert total is not None
        return total

    def knot_curves(self, values: Float32Array) -> Iterator[tuple[float, FloatArray]]:
        """Share of each model, and its incidences at knots, (K, M + 1, n_samples)."""
        design = None if self.design is None else self.design.matrix(values)
        for share, model in self.shares():
            yield share, knot_incidence(model.margin(values, design))

    def margin(self, values: Float32Array, omega: FloatArray) -> FloatArray:
        """The mean log-odds (81), (n_samples, K)."""
        total = np.zeros((len(values), len(omega)))
        design = None if self.design is None else self.design.matrix(values)
        for share, model in self.shares():
            total += share * np.einsum("km,kmn->nk", omega, model.margin(values, design))
        return total

    def contributions(self, values: Float32Array, omega: FloatArray) -> FloatArray:
        """Contributions to (81), (n_samples, K, n_features + 2): features, interval and base."""
        found = np.zeros((len(values), len(omega), values.shape[1] + 2))
        linear = self.linear_columns(values)
        for share, model in self.shares():
            found += share * model.contributions(values, linear, omega)
        return found

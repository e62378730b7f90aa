"""Fitted hazard models, and the members of a mixture that are made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives.hazards import knot_incidence
from survival_objectives.hazards_linear import LinearDesign
from survival_objectives.trees import Forest

__all__ = ["LINEAR", "ON_LINEAR", "TREES", "HazardModel", "HazardTrees", "Member", "Mixture"]

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]

#: Names of the members.
LINEAR, TREES, ON_LINEAR = "linear", "trees", "trees on linear"

# Up to here the engine's own prediction of every interval costs less than walking all trees.
_ENGINE_ROWS = 2**15
# Numbers of curve values held at a time: 2^22 doubles are 32 MB.
_PREDICTION_SIZE = 2**22


def stacked_rows(values: Float32Array, interval: npt.ArrayLike) -> Float32Array:
    """Features with the number of an interval as their last column."""
    rows = np.empty((len(values), values.shape[1] + 1), np.float32)
    rows[:, :-1] = values
    rows[:, -1] = interval
    return rows


def against_event_free(margin: FloatArray, *, reference: bool) -> FloatArray:
    """Margins of the causes against the event-free state, which is first where it has its own."""
    return margin if reference else margin[1:] - margin[:1]


class HazardTrees:
    """Trees of an engine that split on features and on the number of the interval.

    Parameters
    ----------
    booster : Booster
        That of an adapter, with a finished model.
    """

    def __init__(self, booster: Any) -> None:
        self.booster = booster
        self._read: Forest | None = None

    @property
    def n_rounds(self) -> int:
        """Rounds of boosting."""
        return int(self.booster.n_rounds)

    def margin(self, values: Float32Array, n_intervals: int) -> FloatArray:
        """What the trees add to the margins of all causes, (K, M, n_samples)."""
        n_people, intervals = len(values), np.arange(n_intervals)
        forest = self.forest()
        if forest.is_readable and n_people * n_intervals > _ENGINE_ROWS:
            margin = forest.step_margins(values)[:, forest.interval(intervals)]
        else:
            rows = stacked_rows(
                np.repeat(values, n_intervals, axis=0), np.tile(intervals, n_people)
            )
            flat = np.asarray(self.booster.contribution(rows, 0, self.n_rounds), np.float64)
            margin = flat.reshape(n_people, n_intervals, -1).transpose(2, 1, 0)
        return against_event_free(margin, reference=self.booster.reference)

    def row_margin(self, values: Float32Array, interval: npt.ArrayLike) -> FloatArray:
        """What the trees add to the margins of people in one interval each, (K, n_rows)."""
        rows = stacked_rows(values, interval)
        margin = np.asarray(self.booster.contribution(rows, 0, self.n_rounds), np.float64).T
        return against_event_free(margin, reference=self.booster.reference)

    def forest(self) -> Forest:
        """The trees, read off the engine's model when first asked for."""
        if self._read is None:
            self._read = self.booster.forest()
        return self._read

    def __reduce__(self) -> tuple[type[HazardTrees], tuple[Any]]:
        # The trees are read again from the engine's model.
        return HazardTrees, (self.booster,)


@dataclass(frozen=True)
class HazardModel:
    """Margins of hazards: a level per cause and interval, a linear part, and trees.

    Attributes
    ----------
    level : float64 array of shape (K, M)
    coefficients : float64 array of shape (K, n_columns), or None
        Of the standardised columns.
    trees : HazardTrees, or None
    model : object, or None
        The engine's own model of the trees.
    """

    level: FloatArray
    coefficients: FloatArray | None
    trees: HazardTrees | None
    model: Any

    def margin(self, values: Float32Array, design: FloatArray | None) -> FloatArray:
        """Margins of people, (K, M, n_samples)."""
        margin = np.repeat(self.level[:, :, None], len(values), axis=2)
        if self.coefficients is not None and design is not None:
            margin += (self.coefficients @ design.T)[:, None]
        if self.trees is not None:
            margin += self.trees.margin(values, self.level.shape[1])
        return margin


@dataclass(frozen=True)
class Member:
    """One kind of model in a mixture, fitted without each fold and to everybody.

    Attributes
    ----------
    weight : float
        In the mixture.
    folds : tuple of HazardModel
        Each fitted to everybody but the people of one fold; none where one part was held out once.
    refit : HazardModel
        Fitted to everybody, or to everybody but the part that was held out.
    """

    weight: float
    folds: tuple[HazardModel, ...]
    refit: HazardModel

    def shares(self) -> Iterator[tuple[float, HazardModel]]:
        """Models with their shares: half for everybody's, the other half for those of the folds."""
        if not self.folds:
            yield self.weight, self.refit
            return
        yield self.weight / 2, self.refit
        for model in self.folds:
            yield self.weight / (2 * len(self.folds)), model


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
        n_causes = len(next(iter(self.members.values())).refit.level)
        n_values = max(self.n_intervals + 1, n_times) * (n_causes + 1)
        n_people = max(1, _PREDICTION_SIZE // n_values)
        for first in range(0, n_samples, n_people):
            yield slice(first, min(first + n_people, n_samples))

    def incidence(self, values: Float32Array) -> FloatArray:
        """Incidences at knots, (K, M + 1, n_samples): the weighted mean of all models."""
        design = None if self.design is None else self.design.matrix(values)
        total: FloatArray | None = None
        for member in self.members.values():
            for share, model in member.shares():
                curves = knot_incidence(model.margin(values, design))
                curves *= share
                total = curves if total is None else total + curves
        assert total is not None
        return total

"""A finished model of an engine, evaluated on rows of features and time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.forest import Forest
from survival_objectives._people import Features
from survival_objectives._process.threads import default_threads, most_threads


class Evaluator(ABC):
    """Trees of one engine's own model, which are final.

    Parameters
    ----------
    model : object
        The engine's own model.
    schema : Features
        Columns of training, without the time, which is the last column of all rows.
    n_jobs : int, optional
        Threads of predictions. Default: by the number of rows.
    """

    def __init__(self, model: Any, schema: Features, n_jobs: int | None = None) -> None:
        self.model, self.schema, self.n_jobs = model, schema, n_jobs
        self._forest: Forest | None = None

    @property
    @abstractmethod
    def n_rounds(self) -> int:
        """Rounds of boosting."""

    @property
    @abstractmethod
    def n_margins(self) -> int:
        """Margins per row."""

    @abstractmethod
    def _rounds(self, values: Float32Array, first: int, last: int) -> npt.ArrayLike:
        """As `sum_of_trees`, of at least one round, in any shape with the rows first."""

    @abstractmethod
    def _read_forest(self) -> Forest:
        """The trees in plain numbers."""

    @abstractmethod
    def _contributions(self, values: Float32Array) -> npt.ArrayLike:
        """As `shap_values`, in any shape with the rows first."""

    @abstractmethod
    def importances(self) -> FloatArray:
        """Importance of every column, not negative, the time last."""

    def threads(self, n_rows: int) -> int:
        """Threads for so many rows."""
        return default_threads(n_rows, self.schema.n_features + 1, self.n_jobs)

    @property
    def most_threads(self) -> int:
        """Threads for any number of rows."""
        return most_threads(self.n_jobs)

    def sum_of_trees(
        self, values: Float32Array, first: int = 0, last: int | None = None
    ) -> FloatArray:
        """Sum of the trees of rounds first..last-1 on any rows, (n_rows, n_margins)."""
        last = self.n_rounds if last is None else last
        if first == last or not len(values):
            return np.zeros((len(values), self.n_margins))
        total: FloatArray = np.asarray(self._rounds(values, first, last), np.float64)
        return total.reshape(len(values), self.n_margins)

    def forest(self) -> Forest:
        """The trees in plain numbers, read at the first call."""
        if self._forest is None:
            self._forest = self._read_forest()
        return self._forest

    def shap_values(self, values: Float32Array) -> FloatArray:
        """TreeSHAP of every margin, (n_rows, n_margins, n_columns + 1); the last is the base."""
        found: FloatArray = np.asarray(self._contributions(values), np.float64)
        return found.reshape(len(values), self.n_margins, values.shape[1] + 1)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # A pickle leaves the forest out: it is read again from the engine's model.
        return type(self), (self.model, self.schema, self.n_jobs)


def sum_of_chunks(
    chunks: Sequence[Evaluator], values: Float32Array, n_margins: int, first: int, last: int
) -> FloatArray:
    """Sum of the trees of rounds first..last-1 of models that follow each other."""
    total = np.zeros((len(values), n_margins))
    begin = 0
    for chunk in chunks:
        end = begin + chunk.n_rounds
        low, high = max(first, begin), min(last, end)
        if low < high:
            total += chunk.sum_of_trees(values, low - begin, high - begin)
        begin = end
    return total

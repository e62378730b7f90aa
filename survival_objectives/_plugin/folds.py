"""Weights of the folds of an engine's cross-validation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import numpy as np

from survival_objectives._arrays import Float32Array, IntArray


class FoldWeights:
    """Weights of the rows of folds, each from the censoring of its own training people.

    Parameters
    ----------
    person : int64 array of shape (n_rows,)
        Person of each training row.
    n_samples : int
        Number of people.
    weight : callable
        Weights of all rows, from the censoring of some people by their positions.
    """

    def __init__(
        self, person: IntArray, n_samples: int, weight: Callable[[IntArray], Float32Array]
    ) -> None:
        self._person = person
        self._n_samples = n_samples
        self._weight = weight
        self._known: dict[bytes, Float32Array] = {}
        self._trained_on: WeakSet[Any] = WeakSet()

    def trains_on(self, fold: Any) -> None:
        """Remember that the objective was evaluated on a fold, which is thus not held out."""
        self._trained_on.add(fold)

    def is_held_out(self, fold: Any) -> bool:
        """Whether only the metric was evaluated on a fold; the objective is evaluated first."""
        return fold not in self._trained_on

    def of(self, rows: IntArray, *, held_out: bool) -> Float32Array:
        """Weights of a fold's rows.

        Training people are all those without a held-out row. People who were censored before each
        of their horizons have no row at all, but count in the censoring.
        """
        # With two folds, the training rows of one are the held-out rows of the other.
        key = hashlib.sha256(rows.tobytes() + bytes([held_out])).digest()
        if key not in self._known:
            held_out_rows = rows if held_out else np.delete(np.arange(len(self._person)), rows)
            people = np.setdiff1d(np.arange(self._n_samples), self._person[held_out_rows])
            self._known[key] = self._weight(people)[rows]
        return self._known[key]

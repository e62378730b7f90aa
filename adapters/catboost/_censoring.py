"""CatBoost's model of censoring in alternation with the events, and the margins it needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import import_engine, rising_in_time
from survival_objectives._people import Features
from survival_objectives._plugin import alternation
from survival_objectives.adapters.catboost._engine import Evaluator
from survival_objectives.adapters.catboost._pool import row_pool
from survival_objectives.censoring import MarginModel

catboost = import_engine("catboost")


class _SumOfChunks:
    """Margin of a censoring model that was trained in chunks."""

    def __init__(self, chunks: list[Any], schema: Features) -> None:
        self.chunks = chunks
        self.schema = schema

    def margin(self, matrix: Float32Array, start: FloatArray) -> FloatArray:
        return start + sum(
            Evaluator(chunk, self.schema).sum_of_trees(matrix)[:, 0] for chunk in self.chunks
        )


class CensoringTrainer(alternation.CensoringTrainer):
    """Native Logloss on the rows of the censoring model, in chunks that start where the last ended.

    A chunk takes the margins so far as its baseline, which continues boosting with new weights and
    evaluates every tree once.
    """

    def __init__(self, features: Features, seed: int, params: Mapping[str, Any] | None) -> None:
        super().__init__()
        self._schema = features.schema
        self._params = {
            "random_seed": seed,
            **(params or {}),
            "loss_function": "Logloss",
            "monotone_constraints": rising_in_time(features),
            "model_shrink_rate": 0,
            "allow_writing_files": False,
            "verbose": False,
        }
        self._values: list[Float32Array] = []
        self._margins: list[FloatArray] = []
        self._chunks: list[Any] = []

    def add(self, values: Float32Array, start: FloatArray) -> int:
        self._values.append(values)
        self._margins.append(start)
        return len(self._values) - 1

    def advance(self, weight: FloatArray, n_rounds: int) -> None:
        options: dict[str, Any] = {
            "label": self._target,
            "weight": weight,
            "baseline": self._margins[0],
        }
        pool = row_pool(self._values[0], self._schema, **options)
        # A trained model holds the memory of its training, a copy does not (catboost 2827).
        chunk = catboost.CatBoost({**self._params, "iterations": n_rounds}).fit(pool).copy()
        for key, values in enumerate(self._values):
            trees = Evaluator(chunk, self._schema).sum_of_trees(values)
            self._margins[key] = self._margins[key] + trees
        self._chunks.append(chunk)

    def margin(self, key: int) -> npt.ArrayLike:
        return self._margins[key]

    def model(self) -> MarginModel:
        return _SumOfChunks(list(self._chunks), self._schema)


class SeenMargins:
    """Margins of the training rows in one round, as the metric sees them part by part.

    Parameters
    ----------
    n_rows, n_margins : int
        Rows of the training pool, and margins of each.
    """

    def __init__(self, n_rows: int, n_margins: int) -> None:
        self._shape = n_rows, n_margins
        self._seen: FloatArray | None = None

    def watch(self) -> None:
        """Keep the margins of the next round."""
        self._seen = np.full(self._shape, np.nan)

    def record(self, rows: IntArray, margin: FloatArray) -> None:
        """Keep margins of these rows, if they are watched; rows after the last are held out."""
        if self._seen is not None:
            training = rows < len(self._seen)
            self._seen[rows[training]] = margin[training]

    def take(self) -> FloatArray:
        """Margins of the training rows after this round, which are forgotten here."""
        seen, self._seen = self._seen, None
        if seen is None or np.isnan(seen).any():
            msg = (
                "CatBoost did not evaluate the metric on the training rows in this round, so the "
                "weights cannot be refreshed. Keep `eval_metric` of `loss.params`, and "
                "`metric_period=1`."
            )
            raise ValueError(msg)
        return seen

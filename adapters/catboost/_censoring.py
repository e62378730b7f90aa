"""CatBoost's model of censoring, which is trained in alternation with the model of the events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._plugin.alternation import Alternation
from survival_objectives.adapters._engine import import_engine, rising_in_time
from survival_objectives.adapters.catboost._pool import pool_columns
from survival_objectives.censoring import MarginModel
from survival_objectives.validation import Features

catboost = import_engine("catboost")

__all__ = ["CensoringTrainer", "raw_margin"]

Float32Array = npt.NDArray[np.float32]
FloatArray = npt.NDArray[np.float64]


def raw_margin(
    model: Any, matrix: Float32Array, schema: Features, names: list[str] | None = None
) -> npt.ArrayLike:
    pool = catboost.Pool(**pool_columns(matrix, schema, names))
    margin: npt.ArrayLike = model.predict(pool, prediction_type="RawFormulaVal")
    return margin


class _SumOfChunks:
    """Margin of a censoring model that was trained in chunks."""

    def __init__(self, chunks: list[Any], schema: Features) -> None:
        self.chunks = chunks
        self.schema = schema

    def margin(self, matrix: Float32Array, start: FloatArray) -> FloatArray:
        return start + sum(
            np.asarray(raw_margin(chunk, matrix, self.schema)) for chunk in self.chunks
        )


class CensoringTrainer:
    """Native Logloss on the censored rows, in chunks that start where the last one ended.

    A chunk takes the margins so far as its baseline, which continues boosting with new weights and
    evaluates every tree once.
    """

    def __init__(
        self,
        alternation: Alternation,
        features: Features,
        seed: int,
        params: Mapping[str, Any] | None,
    ) -> None:
        rows = alternation.censorings
        self._rows = rows
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
        self._matrix = rows.matrix(features)
        self._margin = alternation.start(rows.horizon)
        probes = alternation.censoring_probes
        self._probe_matrix = probes.matrix(features)
        self._probe_margin = alternation.start(probes.times)
        self._chunks: list[Any] = []

    def advance(self, weight: FloatArray, n_rounds: int) -> None:
        pool = catboost.Pool(
            label=self._rows.target,
            weight=weight,
            baseline=self._margin[:, None],
            **pool_columns(self._matrix, self._schema),
        )
        chunk = catboost.CatBoost({**self._params, "iterations": n_rounds})
        chunk.fit(pool)
        self._margin = self._margin + np.asarray(raw_margin(chunk, self._matrix, self._schema))
        self._probe_margin = self._probe_margin + np.asarray(
            raw_margin(chunk, self._probe_matrix, self._schema)
        )
        self._chunks.append(chunk)

    def stayed_margin(self) -> npt.ArrayLike:
        return self._margin[self._rows.stayed]

    def probe_margin(self) -> npt.ArrayLike:
        return self._probe_margin

    def model(self) -> MarginModel:
        return _SumOfChunks(list(self._chunks), self._schema)

"""Prediction with CatBoost's own models."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from survival_objectives._arrays import Float32Array
from survival_objectives._people import Features
from survival_objectives._plugin.predictor import IncidencePredictor
from survival_objectives.adapters._engine import import_engine
from survival_objectives.adapters.catboost._pool import row_pool

catboost = import_engine("catboost")


def raw_margin(
    model: Any, matrix: Float32Array, schema: Features, names: list[str] | None = None
) -> npt.ArrayLike:
    """Sum of the trees of a model, (n_rows,) or (n_rows, n_margins)."""
    pool = row_pool(matrix, schema, names)
    margin: npt.ArrayLike = model.predict(pool, prediction_type="RawFormulaVal")
    return margin


class Predictor(IncidencePredictor):
    """Curves of a model of CatBoost, without the people it was trained on.

    Made by ``loss.predictor(model)``, or by `load` from a folder that `save` wrote; see
    `survival_objectives._plugin.predictor`.
    """

    _engine_name = "catboost"
    _file_name = "model.cbm"

    def _raw_margin(self, matrix: Float32Array) -> npt.ArrayLike:
        return raw_margin(self.model, matrix, self._curves.schema, self.model.feature_names_)

    @staticmethod
    def _read_model(file: str) -> Any:
        return catboost.CatBoost().load_model(file)

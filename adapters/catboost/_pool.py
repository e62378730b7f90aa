"""Stacked rows as CatBoost takes them, for the plugin and for the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import Float32Array
from survival_objectives._people import Features
from survival_objectives._process.interrupts import interrupts_held
from survival_objectives.adapters._engine import column_names, import_engine

catboost = import_engine("catboost")


def row_pool(
    matrix: Float32Array, schema: Features, names: list[str] | None = None, **options: Any
) -> Any:
    """Rows as a Pool: categories must be integers there, so they go in a frame."""
    names = names or column_names(schema)
    columns: dict[str, Any] = {"data": matrix, "feature_names": names}
    if schema.categories:
        frame = pd.DataFrame(matrix, columns=names)
        for column in schema.categories:
            frame[names[column]] = np.nan_to_num(matrix[:, column], nan=-1.0).astype(np.int32)
        columns = {"data": frame, "cat_features": sorted(schema.categories)}
    # While CatBoost reads labels, an exception is lost and it crashes.
    with interrupts_held():
        return catboost.Pool(**columns, **options)

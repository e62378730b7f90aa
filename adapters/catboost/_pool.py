"""Stacked rows as CatBoost takes them, for the plugin and for the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import Float32Array
from survival_objectives._people import Features
from survival_objectives.adapters._engine import column_names


def pool_columns(
    matrix: Float32Array, schema: Features, names: list[str] | None = None
) -> dict[str, Any]:
    """Rows as arguments of a Pool: categories must be integers there, so they go in a frame."""
    names = names or column_names(schema)
    if not schema.categories:
        return {"data": matrix, "feature_names": names}
    frame = pd.DataFrame(matrix, columns=names)
    for column in schema.categories:
        frame[names[column]] = np.nan_to_num(matrix[:, column], nan=-1.0).astype(np.int32)
    return {"data": frame, "cat_features": sorted(schema.categories)}

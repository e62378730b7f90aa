"""Datasets of LightGBM for the plugin."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._people import Features
from survival_objectives._plugin.problem import sklearn_advice
from survival_objectives.adapters._engine import column_names, import_engine

lgb = import_engine("lightgbm")

#: Several threads may share an objective, whose Dataset is made at the first access.
MAKING = threading.RLock()


class TrainingDataset(lgb.Dataset):  # type: ignore[misc, name-defined]
    """A Dataset that threads may share: LightGBM bins its rows in the first training, once."""

    def construct(self) -> Any:
        with MAKING:
            return super().construct()


def row_dataset(
    values: Float32Array,
    schema: Features,
    start: FloatArray | None,
    *,
    kind: type = lgb.Dataset,
    params: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    return kind(
        values,
        # A flat score for one margin, an (n_rows, n_margins) one for several.
        init_score=start.ravel() if start is not None and np.size(start, -1) == 1 else start,
        categorical_feature=sorted(schema.categories),
        # The Dataset is made before LightGBM knows `min_data_in_leaf`, and may be used twice.
        params={**(params or {}), "feature_pre_filter": False, "verbosity": -1},
        **{"feature_name": column_names(schema), **options},
    )


def engine_params(n_margins: int, seed: int) -> dict[str, Any]:
    """What LightGBM must be told for margins of a custom objective."""
    return {
        "num_class": n_margins,
        "metric": "None",
        "seed": seed,
        # Without these two, LightGBM chooses its histograms by a race of threads and the same
        # seed may give another model.
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }


def own_rows(dataset: Any, own: Any) -> IntArray | None:
    """Row numbers of a fold of our own Dataset, or None for the whole of it; others are refused."""
    if isinstance(dataset, np.ndarray):
        raise TypeError(sklearn_advice("lgb.train"))
    if own is not None and dataset is own:
        return None
    if own is not None and dataset.used_indices is not None and dataset.reference is own:
        return np.asarray(dataset.used_indices, dtype=np.int64)
    msg = (
        "This Dataset is not this objective's own, so the weights do not belong to its rows. "
        "Train on `objective.train_set`."
    )
    raise ValueError(msg)


def own_loss_named(booster: Any, pattern: str) -> str | None:
    """The objective that a booster names in its text, if it is none that matches a pattern.

    A booster of a custom objective names none.
    """
    named = re.search(r"^objective=(.*)$", booster.model_to_string(num_iteration=1), re.MULTILINE)
    return None if named is None or re.match(pattern, named[1]) else named[1]

"""Stacked rows as CatBoost takes them, constraints, and what a trained model says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import Float32Array
from survival_objectives._engines.protocol import column_names, import_engine
from survival_objectives._people import Features
from survival_objectives._plugin.problem import refuse_change
from survival_objectives._process.running import interrupts_held

catboost = import_engine("catboost")


class TrainingPool(catboost.Pool):  # type: ignore[misc, name-defined]
    """Rows of a loss, which keep their weights and their start."""

    def set_weight(self, *_: Any) -> Any:
        """Refused."""
        raise ValueError(refuse_change("loss.train_pool", "set_weight"))

    def set_baseline(self, *_: Any) -> Any:
        """Refused."""
        raise ValueError(refuse_change("loss.train_pool", "set_baseline"))


def row_pool(
    matrix: Float32Array,
    schema: Features,
    names: list[str] | None = None,
    kind: type = catboost.Pool,
    **options: Any,
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
        return kind(**columns, **options)


def check_unscaled(model: Any) -> int:
    """The number of margins of a model, which must neither scale its trees nor add to them."""
    scale, bias = model.get_scale_and_bias()
    if scale != 1 or np.any(bias):
        msg = (
            f"This model scales its trees by {scale:g} and adds {bias}, but this loss starts "
            "from margins of its own. Leave out `boost_from_average` and `set_scale_and_bias`."
        )
        raise ValueError(msg)
    return int(np.size(bias))


def loss_of(model: Any) -> str | None:
    """Name of the loss that a model was trained with; None of a sum of models, which has none."""
    if "params" not in model.get_metadata().keys():  # noqa: SIM118 (not a dict)
        return None
    return str(model.get_all_params().get("loss_function"))


def directions_of(model: Any) -> list[int]:
    """Monotone constraints with which a model was trained; none are known of a sum of models."""
    if loss_of(model) is None:
        return []
    given = model.get_all_params().get("monotone_constraints") or {}
    return [int(given.get(str(column), 0)) for column in range(len(model.feature_names_))]


def refuse_directions(directions: list[int], n_margins: int) -> None:
    """Raise an error for monotone constraints that CatBoost does not keep."""
    if n_margins > 1 and any(directions):
        msg = (
            f"CatBoost ignores monotone constraints for {n_margins} margins. Use XGBoost or "
            "LightGBM, or combine the causes."
        )
        raise ValueError(msg)


def constraint_params(
    directions: list[int] | None, groups: list[list[int]] | None, n_margins: int
) -> dict[str, Any]:
    """Constraints on the stacked columns as parameters of CatBoost."""
    if groups is not None:
        msg = "CatBoost has no interaction constraints. Use XGBoost or LightGBM."
        raise ValueError(msg)
    if directions is None:
        return {}
    refuse_directions(directions, n_margins)
    # CatBoost shrinks constrained models by default, which moves the start as well.
    return {"monotone_constraints": directions, "model_shrink_rate": 0}

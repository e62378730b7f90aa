"""What CatBoost is told of constraints, and what a trained model says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np


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


def constraint_params(
    directions: list[int] | None, groups: list[list[int]] | None, n_margins: int
) -> dict[str, Any]:
    """Constraints on the stacked columns as parameters of CatBoost."""
    if groups is not None:
        msg = "CatBoost has no interaction constraints. Use XGBoost or LightGBM."
        raise ValueError(msg)
    if directions is None:
        return {}
    if n_margins > 1:
        msg = (
            f"CatBoost ignores monotone constraints for {n_margins} margins. Use XGBoost or "
            "LightGBM, or combine the causes."
        )
        raise ValueError(msg)
    # CatBoost shrinks constrained models by default, which moves the start as well.
    return {"monotone_constraints": directions, "model_shrink_rate": 0}

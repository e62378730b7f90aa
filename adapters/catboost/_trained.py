"""What a trained model of CatBoost says of itself."""

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

"""A digest by which the same people are known again, when batches or partitions are read twice."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives.validation import Features

__all__ = ["people_digest"]

# People whose features are looked at; of all of them the outcome is.
_SAMPLED = 1000


def people_digest(
    features: Features,
    label: npt.NDArray[np.int64],
    duration: npt.NDArray[Any],
    weight: npt.NDArray[np.float64] | None,
) -> str:
    """Digest of all outcomes and weights in their order, and of the features of some people.

    The same people in another order, or with durations in another unit, have another digest.
    Categories count by their names, so that their codes may differ.
    """
    digest = hashlib.sha256(repr((features.n_samples, features.n_features)).encode())
    digest.update(np.ascontiguousarray(label, np.int64).tobytes())
    digest.update(np.ascontiguousarray(duration, np.float64).tobytes())
    if weight is not None:
        digest.update(np.ascontiguousarray(weight, np.float64).tobytes())
    step = max(1, features.n_samples // _SAMPLED)
    sample = features.values[::step].copy()
    for column, levels in features.categories.items():
        names = pd.util.hash_array(np.asarray(levels.astype(str), dtype=object), categorize=False)
        codes = sample[:, column]
        known = ~np.isnan(codes)
        digest.update(known.tobytes())
        digest.update(names[codes[known].astype(np.int64)].tobytes())
        sample[:, column] = 0.0
    sample[np.isnan(sample)] = np.nan  # Of many kinds of NaN, one.
    digest.update(sample.tobytes())
    return digest.hexdigest()

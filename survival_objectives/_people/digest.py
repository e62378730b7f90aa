"""Digests that identify people whose batches or partitions are read more than once."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd

from survival_objectives._people.cohort import Cohort

# People whose features are used; outcomes are used of all.
_SAMPLED = 1000


def cohort_digest(people: Cohort) -> str:
    """Digest of all outcomes and weights in their order, and of the features of some people.

    The same people in another order, or with durations in another unit, have another digest.
    Categories count by their names, so that their codes may differ.
    """
    features, target, weight = people.features, people.target, people.weight
    label, duration = target.event_ids[target.event], target.duration
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

"""Rows that look like copies of others, as in a bootstrap sample or a table appended to itself.

Copies of a person in training and held-out people make overfitting look like accuracy, so they
belong to one fold. Among pairs of rows with equal features, let a be the share with equal outcomes,
and p this share among all pairs of rows. Rows with equal features and outcomes are copies if

    (a - p) / (1 - p) >= 0.9.                                                                  (C)

In coarse tables, where people with equal features are ordinary, outcomes of such people differ. If
most outcomes are equal, such as censored at the end of the study, p is as large as a. Where a tenth
of all rows are equal, the features determine the outcome, and folds must not be made of outcomes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import Float32Array, FloatArray, IntArray

_LEAST_AGREEMENT = 0.9
_LARGEST_GROUP = 1 / 10

Keys = npt.NDArray[np.uint64]


def row_keys(values: Float32Array) -> Keys:
    """Hash of each row of features; missing values are equal to each other."""
    key = np.zeros(len(values), np.uint64)
    for column in values.T:
        # Adding 0 makes -0 equal to 0.
        known = np.where(np.isnan(column), np.float32(np.nan), column + np.float32(0))
        bits = known.astype(np.float32).view(np.uint32).astype(np.uint64)
        key = pd.util.hash_array(key + bits)
    return key


def copies(key: Keys, event: npt.NDArray[np.integer], duration: FloatArray) -> IntArray | None:
    """Groups of rows with equal features and outcomes; None where there are no copies.

    Parameters
    ----------
    key : uint64 array of shape (n_samples,)
        Features as `row_keys`.
    event, duration : arrays of shape (n_samples,)
        Outcomes.

    Examples
    --------
    >>> age, event, duration = np.arange(30, 50), np.ones(20, int), np.arange(1, 21)
    >>> key = row_keys(np.append(age, 49)[:, None].astype(np.float32))
    >>> copies(key, np.append(event, 1), np.append(duration, 20))[-2:]
    array([19, 19])
    >>> copies(key, np.append(event, 1), np.append(duration, 7)) is None
    True
    """
    people, n_people = pd.factorize(key)[0], len(key)
    n_equal_features = _n_pairs(people)
    if n_equal_features == 0:
        return None
    time = pd.factorize(duration)[0].astype(np.int64)
    outcome = pd.factorize(time * (int(event.max()) + 1) + event)[0]
    group = pd.factorize(people.astype(np.int64) * n_people + outcome)[0].astype(np.int64)
    if np.bincount(group).max() > _LARGEST_GROUP * n_people:
        return None
    agreeing = _n_pairs(group) / n_equal_features
    by_chance = _n_pairs(outcome) / (n_people * (n_people - 1) / 2)
    if agreeing - by_chance < _LEAST_AGREEMENT * (1 - by_chance) or agreeing == 0:
        return None
    return group


def _n_pairs(group: IntArray) -> float:
    """Number of pairs of rows in one group."""
    size = np.bincount(group).astype(np.float64)
    return float((size * (size - 1)).sum() / 2)

"""Digests of people change with whatever would change the model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from survival_objectives._people.cohort import Cohort
from survival_objectives._people.disk import cohort_digest

N = 60


def digest(X=None, event=None, duration=None, weight=None):
    rng = np.random.default_rng(0)
    own = pd.DataFrame({"age": rng.normal(size=N), "city": pd.Categorical(["a", "b", "c"] * 20)})
    own.loc[3, "age"] = np.nan
    own.loc[4, "city"] = np.nan
    y = (np.tile([0, 1, 2], 20), np.arange(1.0, N + 1))
    y = tuple(
        new if new is not None else old for new, old in zip((event, duration), y, strict=True)
    )
    return cohort_digest(Cohort.checked(own if X is None else X(own), y, weight))


def test_the_same_people_have_the_same_digest():
    assert digest() == digest()


def test_codes_of_categories_do_not_count():
    def reordered(X):
        return X.assign(city=X["city"].cat.reorder_categories(["c", "a", "b"]))

    assert digest(reordered) == digest()


@pytest.mark.parametrize(
    "change",
    [
        {"duration": np.arange(1.0, N + 1) / 7},
        {"duration": np.arange(1.0, N + 1)[::-1]},
        {"event": np.tile([0, 2, 1], 20)},
        {"event": np.tile([0, 1, 3], 20)},
        {"weight": np.ones(N)},
        {"X": lambda X: X[::-1]},
        {"X": lambda X: X.assign(age=X["age"] + 1)},
        {"X": lambda X: X.assign(age=X["age"].fillna(0.0))},
        {"X": lambda X: X.assign(city=X["city"].cat.rename_categories({"a": "d"}))},
        {"X": lambda X: X.assign(city=X["city"].fillna("a"))},
    ],
)
def test_other_people_have_another_digest(change):
    assert digest(**change) != digest()


def test_all_outcomes_count_where_only_some_features_do():
    """Features of one person in several are read where there are many."""
    rng = np.random.default_rng(0)
    X, event, duration = rng.normal(size=(2500, 1)), np.ones(2500, int), rng.random(2500) + 0.5

    def digest_of(duration):
        return cohort_digest(Cohort.checked(X, (event, duration)))

    seen = {digest_of(duration)}
    for person in (1, 3, 2499):
        other = duration.copy()
        other[person] += 0.25
        seen.add(digest_of(other))
    assert len(seen) == 4

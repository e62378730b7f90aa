"""People who are read batch by batch, and must be the same whenever they are read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from survival_objectives._people.disk import DiskBatches, read_batches


def batches(sizes=(40, 30), levels=("ab", "bc"), weight=None):
    rng = np.random.default_rng(0)
    parts = []
    for size, letters in zip(sizes, levels, strict=True):
        X = pd.DataFrame(
            {"age": rng.normal(size=size), "city": pd.Categorical(list(letters) * (size // 2))}
        )
        y = (rng.integers(0, 3, size), rng.exponential(size=size) + 0.1)
        parts.append((X, y) if weight is None else (X, y, np.full(size, weight)))
    return parts


class Changing:
    """Other batches each time it is iterated over."""

    def __init__(self, *readings):
        self._readings = list(readings)

    def __iter__(self):
        return iter(self._readings.pop(0) if len(self._readings) > 1 else self._readings[0])


def test_outcomes_are_kept_and_features_are_read_in_the_same_order():
    parts = batches()
    people = DiskBatches(*read_batches(parts))
    assert people.n_samples == 70
    assert [rows.stop - rows.start for rows in people.slices] == [40, 30]
    events = np.concatenate([y[0] for _, y in parts])
    assert_array_equal(people.outcomes().target.event, events)
    for _ in range(2):
        ages = np.concatenate([features.values[:, 0] for _, features in people])
        assert_array_equal(ages, np.concatenate([X["age"] for X, _ in parts]).astype(np.float32))


def test_levels_are_those_of_all_batches():
    source, _ = read_batches(batches())
    assert sorted(source.schema.categories[1]) == ["a", "b", "c"]
    names = [
        source.schema.categories[1][features.values[:, 1].astype(int)].tolist()
        for features in source
    ]
    assert names == [["a", "b"] * 20, ["b", "c"] * 15]


@pytest.mark.parametrize(
    ("later", "message"),
    [
        (lambda parts: parts[::-1], r"batch 0\). It was batch 1 before"),
        (lambda parts: parts[:1], "gave 1 batches when it was read again, not 2"),
        (lambda parts: [*parts, parts[0]], r"batch 2\). It was batch 0 before"),
        (
            lambda parts: [(parts[0][0], (parts[0][1][0], 2 * parts[0][1][1])), parts[1]],
            r"other people .*\(batch 0\)",
        ),
    ],
)
def test_other_people_at_a_second_reading_are_refused(later, message):
    parts = batches()
    source, _ = read_batches(Changing(parts, later(parts)))
    with pytest.raises(ValueError, match=message):
        list(source)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "has no people"),
        ([*batches(), (pd.DataFrame({"age": [1.0]}), ([1], [1.0]))], "Batch 2: columns"),
        ([batches()[0], batches(weight=1.0)[1]], "Batch 1: either all batches have weights"),
        ([batches()[0], (batches()[1][0], ([1], [1.0]))], "Batch 1: "),
    ],
)
def test_mistakes_name_the_batch(parts, message):
    with pytest.raises(ValueError, match=message):
        read_batches(parts)


def test_a_sample_has_about_as_many_people_as_asked_with_their_own_outcomes():
    people = DiskBatches(*read_batches(batches((4000, 3000), weight=2.0)))
    some = list(people.sample(700, np.random.default_rng(0)))
    n_people = sum(part.n_samples for part in some)
    assert abs(n_people - 700) < 4 * np.sqrt(700)
    place = {
        row.tobytes(): number + rows.start
        for rows, features in people
        for number, row in enumerate(features.values)
    }
    for part in some:
        rows = [place[row.tobytes()] for row in part.features.values]
        assert_array_equal(part.target.duration, people.people.target.duration[rows])
        assert_array_equal(part.weight, people.people.weight[rows])
    whole = list(people.sample(10_000, np.random.default_rng(0)))
    assert sum(part.n_samples for part in whole) == people.n_samples

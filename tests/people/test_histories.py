"""Long tables: one check for all forms, and merging of touching rows with equal features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from survival_objectives._people.cohort import Cohort
from survival_objectives._people.histories import Path, check_stretches, merged_rows
from survival_objectives._people.population import LocalReduction

TABLE = {
    "id": ["b", "a", "b", "c", "a"],
    "start": [2.0, 0.0, 0.0, 1.0, 3.0],
    "stop": [3.0, 2.0, 2.0, 5.0, 4.0],
    "event": [1, 0, 0, 0, 2],
}
X = np.array([[1.0], [0.0], [0.0], [7.0], [0.0]])


def checked(X: Any = X, y: Any = TABLE, **options: Any) -> Cohort:
    return Cohort.checked(X, y, late_entry=True, **options)


def test_rows_are_sorted_by_first_appearance_and_time() -> None:
    target = checked().target
    assert target.person is not None
    assert target.entry is not None
    assert_array_equal(target.person, [0, 0, 1, 1, 2])
    assert_array_equal(target.entry, [0, 2, 0, 3, 1])
    assert_array_equal(target.duration, [2, 3, 2, 4, 5])
    assert_array_equal(target.event, [0, 1, 0, 2, 0])


def test_people_are_from_their_first_entry_to_their_last_row() -> None:
    people = checked().target.people
    assert people.person is None
    assert_array_equal(people.event, [1, 2, 0])
    assert_array_equal(people.duration, [3, 4, 5])
    assert_array_equal(people.entry, [0, 0, 1])


def test_touching_rows_with_equal_features_are_one() -> None:
    values = np.array([[1, np.nan], [1, np.nan], [1, 2], [1, 2]], np.float32)
    start, stop = np.array([0.0, 1, 2, 4]), np.array([1.0, 2, 3, 5])
    first, last = merged_rows(values, np.zeros(4, np.int64), start, stop)
    # The last two have a gap between them.
    assert_array_equal(first, [0, 2, 3])
    assert_array_equal(last, [1, 2, 3])


def test_one_row_per_person_from_time_0_is_no_long_table() -> None:
    y = {"id": [5, 3], "start": [0, 0], "stop": [2, 3], "event": [1, 0]}
    target = checked(X[:2], y).target
    assert target.person is None
    assert target.entry is None
    cut = {"id": [5, 3, 5], "start": [0, 0, 1], "stop": [1, 3, 2], "event": [0, 0, 1]}
    again = checked(np.array([[1.0], [0.0], [1.0]]), cut)
    assert again.target.person is None
    assert again.target.entry is None
    assert_array_equal(again.target.duration, [2, 3])
    assert_array_equal(again.features.values, [[1], [0]])


@pytest.mark.parametrize("kind", ["dict", "frame", "structured"])
def test_all_forms_of_outcomes_hold_a_long_table(kind: str) -> None:
    frame = pd.DataFrame(TABLE)
    y: Any = {"dict": TABLE, "frame": frame}.get(kind, frame.to_records(index=False))
    assert_array_equal(checked(X, y).target.duration, checked().target.duration)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"start": [1.5, 0.0, 0.0, 1.0, 3.0]}, "1 rows of 1 people .first ids: 'b'"),
        ({"stop": [2.0, 2.0, 2.0, 5.0, 4.0]}, "`start` is not before `stop`.*1 rows of 1 people"),
        ({"event": [0, 0, 1, 0, 2]}, "event before the last row.*1 rows.*'b'"),
        ({"event": [1, 1, 0, 0, 2]}, "more than one event.*2 rows of 1 people.*'a'"),
        ({"id": ["b", None, "b", "c", "a"]}, "`id` is missing in 1 rows"),
        ({"start": [2.0, np.nan, 0.0, 1.0, 3.0]}, "`start` is nan at row 1"),
        ({"start": [2.0, -1.0, 0.0, 1.0, 3.0]}, "`start` is -1.0 at row 1"),
    ],
)
def test_mistakes_are_named_with_counts_and_ids(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        checked(X, {**TABLE, **changes})


def test_copies_of_rows_are_counted() -> None:
    y = {name: [*values, values[0]] for name, values in TABLE.items()}
    y["event"] = [0, 0, 0, 0, 2, 0]
    with pytest.raises(ValueError, match="1 rows repeat"):
        checked(np.vstack([X, X[:1]]), y)


def test_start_and_stop_without_id_are_asked_about() -> None:
    with pytest.raises(ValueError, match="no `id`"):
        checked(X, {name: TABLE[name] for name in ("start", "stop", "event")})


def test_ids_that_repeat_without_start_and_stop_are_asked_about() -> None:
    y = {"id": TABLE["id"], "event": TABLE["event"], "duration": TABLE["stop"]}
    with pytest.raises(ValueError, match=r"`id` that repeat.*`groups`"):
        checked(X, y)
    assert checked(X, {**y, "id": list("abcde")}).target.person is None


def test_weights_and_groups_belong_to_people() -> None:
    weight = np.array([3.0, 1.0, 3.0, 2.0, 1.0])
    cohort = checked(sample_weight=weight).with_relative_weights(LocalReduction())
    # The mean over people, not rows, is 1.
    assert_array_equal(cohort.weight, [1.5, 1.5, 0.5, 0.5, 1.0])
    with pytest.raises(ValueError, match=r"`sample_weight` differs .* in 1 people"):
        checked(sample_weight=np.array([3.0, 1.0, 2.0, 2.0, 1.0]))
    with pytest.raises(ValueError, match="`groups` differs"):
        checked(groups=np.arange(5))
    assert checked().group is not None
    assert_array_equal(checked().group, [0, 0, 1, 1, 2])


def test_people_of_weight_0_are_left_out() -> None:
    target = checked(sample_weight=np.array([0.0, 1, 0, 1, 1])).target
    assert target.person is not None
    assert_array_equal(target.person, [0, 0, 1])
    assert_array_equal(target.event, [0, 1, 0])


def test_paths_are_in_order_of_first_appearance() -> None:
    path = Path.of(TABLE["id"], TABLE["start"], TABLE["stop"])
    assert_array_equal(path.order, [2, 0, 1, 4, 3])
    assert_array_equal(path.first, [0, 2, 4])
    assert_array_equal(path.entry, [0, 0, 1])
    rows, some = path.take(slice(1, 3))
    assert rows == slice(2, 5)
    assert_array_equal(some.first, [0, 2])


def test_many_rows_are_checked_fast() -> None:
    n = 200_000
    ids = np.repeat(np.arange(n // 20), 20)
    start = np.tile(np.arange(20.0), n // 20)
    person, _, _ = check_stretches(ids, start, start + 1, np.zeros(n, np.int64))
    assert person[-1] == n // 20 - 1

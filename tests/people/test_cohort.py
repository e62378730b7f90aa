"""Checked people, in memory and in batches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from survival_objectives._horizons.rows import people_of_turn
from survival_objectives._people.cohort import (
    Cohort,
    MemoryBatches,
    batch_slices,
    checked_eval_set,
    joined_outcomes,
    separated_outcomes,
    split_cohort,
)
from survival_objectives._people.population import LocalReduction, TimeAxis

X = pd.DataFrame({"age": [50.0, 60.0, 70.0, 80.0], "sex": pd.Categorical(list("fmfm"))})
EVENT, DURATION = np.array([0, 3, 1, 1]), np.array([0.1, 2.0, 3.0, 4.0])


def cohort(weight=None, **options):
    return Cohort.checked(X, (EVENT, DURATION), weight, **options)


def test_durations_are_float32_values():
    assert_array_equal(cohort().target.duration, DURATION.astype(np.float32).astype(np.float64))


def test_labels_of_people_of_weight_0_need_not_be_known():
    """As in a warm start on the people of the first fit."""
    X, y, weight = np.eye(4), ([1, 0, 2, 1], [1.0, 2.0, 3.0, 4.0]), [1, 1, 0, 1]
    first = Cohort.checked(X, y, weight)
    again = Cohort.checked(X, y, weight, event_ids=first.target.event_ids)
    assert_array_equal(again.target.event, first.target.event)
    assert_array_equal(again.target.event_ids, [0, 1])
    with pytest.raises(ValueError, match="label 2, which was not seen in training"):
        Cohort.checked(X, y, event_ids=first.target.event_ids)


def test_people_of_weight_0_are_left_out_with_their_causes():
    people = cohort([1.0, 0.0, 2.0, 3.0], keep_as_passed=True)
    assert people.n_samples == people.features.n_samples == 3
    assert_array_equal(people.target.event_ids, [0, 1])
    assert_array_equal(people.target.event, [0, 1, 1])
    assert_array_equal(people.weight, [1.0, 2.0, 3.0])
    assert_array_equal(people.as_passed.X["age"], [50.0, 70.0, 80.0])
    assert_array_equal(people.as_passed.duration, [0.1, 3.0, 4.0])


def test_labels_of_training_stay():
    people = cohort([1.0, 0.0, 2.0, 3.0], event_ids=[0, 1, 3])
    assert_array_equal(people.target.event_ids, [0, 1, 3])


def test_some_people_keep_everything_of_theirs():
    people = cohort([1.0, 2.0, 3.0, 4.0], keep_as_passed=True).take(np.array([3, 1]))
    assert_array_equal(people.features.values[:, 0], [80.0, 60.0])
    assert_array_equal(people.target.event_ids[people.target.event], [1, 3])
    assert_array_equal(people.weight, [4.0, 2.0])
    assert_array_equal(people.as_passed.X.index, [3, 1])


def test_weights_are_relative_and_times_are_aligned():
    people = cohort([1.0, 3.0, 1.0, 3.0]).with_relative_weights(LocalReduction())
    assert_array_equal(people.weight, [0.5, 1.5, 0.5, 1.5])
    assert_array_equal(people.aligned(TimeAxis(1.0)).target.duration, [0.75, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("y", "weight", "words"),
    [
        ((EVENT[:3], DURATION[:3]), None, "`X` has 4 rows but `y` has 3"),
        ((EVENT, DURATION), np.ones(3), "`sample_weight` has 3 values for 4 people"),
        ((EVENT, DURATION), np.zeros(4), "are zero: there are no people"),
        ((np.zeros(4), DURATION), None, "All 4 people are censored"),
    ],
)
def test_mistakes_are_named(y, weight, words):
    with pytest.raises(ValueError, match=words):
        Cohort.checked(X, y, weight)


def test_a_part_may_have_no_one_who_counts():
    options = {"like": None, "resolution": "count"}
    assert Cohort.checked_part(X[:0], (EVENT[:0], DURATION[:0]), None, **options) is None
    assert Cohort.checked_part(X, (EVENT, DURATION), np.zeros(4), **options) is None
    censored = Cohort.checked_part(X[:1], (EVENT[:1], DURATION[:1]), None, **options)
    assert_array_equal(censored.target.event_ids, [0])
    assert censored.duration_resolution is not None
    with pytest.raises(ValueError, match="`X` has 0 rows but `y` has 1"):
        Cohort.checked_part(X[:0], (EVENT[:1], DURATION[:1]), None, **options)
    with pytest.raises(ValueError, match="`sample_weight` has 0 values for 4 people"):
        Cohort.checked_part(X, (EVENT, DURATION), np.zeros(0), **options)


def test_parts_are_joined_under_one_label_set():
    rows = [np.arange(2), np.arange(2, 4)]
    parts = [Cohort.checked(X.iloc[r], (EVENT[r], DURATION[r]), np.ones(2)) for r in rows]
    assert parts[0].target.event_ids.tolist() == [0, 3]
    whole = Cohort.joined(parts, parts[0].features.schema, np.array([0, 1, 3]))
    assert_array_equal(whole.target.event, [0, 2, 1, 1])
    assert_array_equal(whole.features.values[:, 0], X["age"])
    assert_array_equal(whole.weight, np.ones(4))
    no_people = Cohort.joined([], parts[0].features.schema, np.array([0, 1]))
    assert (no_people.n_samples, no_people.features.values.shape, no_people.weight) == (
        0,
        (0, 2),
        None,
    )


def test_batches_in_memory():
    people = cohort([1.0, 2.0, 3.0, 4.0])
    batches = MemoryBatches([people.take(np.array([0])), people.take(np.array([1, 2, 3]))])
    assert batches.n_samples == 4
    assert batches.slices == batch_slices([1, 3]) == [slice(0, 1), slice(1, 4)]
    assert_array_equal(batches.outcomes().target.event, people.target.event)
    assert_array_equal(batches.outcomes().weight, people.weight)
    values = [features.values for _, features in batches]
    assert_array_equal(np.concatenate(values), people.features.values)
    later = batches.with_outcomes(batches.outcomes().aligned(TimeAxis(1.0)))
    assert_array_equal(later.cohorts[1].target.duration, [2.0, 3.0, 4.0])
    assert_array_equal(
        joined_outcomes([c.outcomes for c in later.cohorts], people.target.event_ids).weight,
        people.weight,
    )


def test_one_batch_is_not_copied():
    people = cohort()
    batches = MemoryBatches([people])
    assert batches.outcomes().target is people.target
    assert batches.outcomes().take(slice(0, 4)).target is people.target


def test_a_sample_has_everyone_once():
    people = cohort()
    (some,) = MemoryBatches([people]).sample(3, np.random.default_rng(0))
    assert some.n_samples == 3
    assert len(np.unique(some.features.values[:, 0])) == 3
    (everyone,) = MemoryBatches([people]).sample(9, np.random.default_rng(0))
    assert everyone is people


def many(n_samples=200, n_rare=2):
    rng = np.random.default_rng(0)
    event = rng.integers(0, 2, n_samples)
    event[:n_rare] = 2
    features = np.arange(float(n_samples))[:, None]
    return Cohort.checked(features, (event, rng.exponential(size=n_samples)))


def test_a_split_keeps_every_cause_in_training():
    people = many()
    for seed in range(20):
        kept, held = split_cohort(people, 0.25, np.random.default_rng(seed))
        assert set(kept.target.event) == {0, 1, 2}
        both = np.concatenate([kept.features.values[:, 0], held.features.values[:, 0]])
        assert_array_equal(np.sort(both), np.arange(200))
        assert abs(held.n_samples - 50) <= 2
    two = Cohort.checked(np.arange(2.0)[:, None], ([1, 2], [1.0, 2.0]))
    with pytest.raises(ValueError, match="too few to hold some out"):
        split_cohort(two, 0.5, np.random.default_rng(0))


def test_held_out_people_have_the_columns_and_labels_of_training():
    people = cohort(keep_as_passed=True)
    held = checked_eval_set((X[2:], (EVENT[2:], DURATION[2:])), people, keep_as_passed=True)
    assert_array_equal(held.target.event_ids, people.target.event_ids)
    assert_array_equal(held.as_passed.duration, DURATION[2:])
    with pytest.raises(ValueError, match="`eval_set`: `event` has the label 7"):
        checked_eval_set((X, ([7, 0, 0, 0], DURATION)), people)
    with pytest.raises(ValueError, match="must be a pair"):
        checked_eval_set(X, people)


@pytest.mark.parametrize("sizes", [(200,), (50, 150), (1, 2, 197)])
def test_everyone_has_one_turn(sizes):
    people = many()
    places = batch_slices(sizes)
    batches = MemoryBatches([people.take(np.arange(p.start, p.stop)) for p in places])
    turns = [people_of_turn(batches, turn, 4, seed=3) for turn in range(4)]
    found = np.concatenate([f.values[:, 0] for turn in turns for _, f in turn])
    assert_array_equal(np.sort(found), np.arange(200))
    assert max(turn.n_samples for turn in turns) <= 50 + len(sizes)
    for turn in turns:
        assert_array_equal(
            turn.outcomes().target.duration,
            people.target.duration[
                np.concatenate([f.values[:, 0] for _, f in turn]).astype(np.int64)
            ],
        )


def test_batches_in_memory_are_split_as_their_people_are():
    rng = np.random.default_rng(0)
    people = Cohort.checked(rng.normal(size=(40, 2)), (np.arange(40) % 2, np.arange(40) + 1.0))
    batches, held = MemoryBatches([people]).split(0.25, np.random.default_rng(3))
    kept, expected = split_cohort(people, 0.25, np.random.default_rng(3))
    assert_array_equal(batches.outcomes().target.duration, kept.target.duration)
    assert_array_equal(held.target.duration, expected.target.duration)


def test_outcomes_are_separated_from_one_frame():
    frame = X.assign(time=DURATION, status=EVENT)
    columns = {"duration": "time", "event": "status", "entry": None}
    features, y = separated_outcomes(frame, None, columns, None, grouped=False)
    assert list(features.columns) == ["age", "sex"]
    assert_array_equal(y["event"], EVENT)
    assert separated_outcomes(X, (EVENT, DURATION), {}, None, grouped=False)[0] is X
    pair = (EVENT, DURATION)
    for outcomes, wrong in ((None, {}), (pair, {"duration": "time"}), (None, {"id": "age"})):
        with pytest.raises(ValueError, match="Pass outcomes"):
            separated_outcomes(frame, outcomes, wrong, None, grouped=False)


def test_a_frame_may_hold_entries_or_stretches_of_time():
    frame = X.assign(begin=DURATION / 2, time=DURATION, status=EVENT, who=np.arange(len(X)))
    columns = {"duration": "time", "event": "status", "entry": "begin"}
    features, y = separated_outcomes(frame, None, columns, None, grouped=False)
    assert list(features.columns) == ["age", "sex", "who"]
    assert_array_equal(y["entry"], DURATION / 2)
    columns = {"id": "who", "start": "begin", "stop": "time", "event": "status"}
    features, y = separated_outcomes(frame, None, columns, None, grouped=False)
    assert list(features.columns) == ["age", "sex"]
    assert list(y.columns) == ["event", "id", "start", "stop"]

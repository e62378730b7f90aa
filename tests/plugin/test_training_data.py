"""Training data that is read wrongly without a word: refused, or named in a warning."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._people import (
    KeptValues,
    check_features,
    check_paired,
    check_sample_weight,
    check_survival_target,
    check_time_resolution,
    check_times,
    relative_weights,
    warn_about_outcomes,
)
from survival_objectives._people.values import ENOUGH, Resolution


# -------------------------------------------------------------------------------------- weights
@given(
    st.lists(st.floats(0.01, 100), min_size=1, max_size=30),
    st.floats(-6, 6),
    st.integers(0, 5),
)
def test_relative_weights_have_a_mean_of_1_and_no_unit(weights, exponent, n_zero):
    weight = np.array([*weights, *[0.0] * n_zero])
    found = relative_weights(weight)
    assert_allclose(found[found > 0].mean(), 1, rtol=1e-6)
    assert_allclose(found * weight.sum(), weight * found.sum(), rtol=1e-6)
    assert_array_equal(found == 0, weight == 0)
    assert_allclose(relative_weights(weight * 10.0**exponent), found, rtol=2**-23)
    assert_array_equal(relative_weights(weight * 2.0 ** round(exponent)), found)


def test_equal_weights_are_exactly_1():
    for value in (1 / 300, 0.1, 7.3, 1e-300, 1e300):
        assert_array_equal(relative_weights(np.full(300, value)), np.ones(300))
    assert relative_weights(None) is None
    with pytest.raises(ValueError, match="sums to infinity"), np.errstate(over="ignore"):
        relative_weights(np.full(300, 1e307))


def test_parts_of_the_people_share_a_mean():
    weight = np.random.default_rng(0).uniform(1, 5, 100)
    parts = np.array_split(weight, [30, 50])
    totals = [weight.sum(), 100.0]
    found = np.concatenate([relative_weights(part, lambda own: totals) for part in parts])
    assert_array_equal(found, relative_weights(weight))


# ----------------------------------------------------------------------------------- resolution
def lost(values):
    return Resolution.of(np.asarray(values, np.float64))


@pytest.mark.parametrize(
    ("values", "n_left"),
    [
        (1e9 + np.arange(1000.0), 16),
        (1.7e9 + np.arange(0, 86_400, 47.0), 676),
        (1.7e18 + np.arange(0, 86_400e9, 60e9), None),
        (1e9 + np.random.default_rng(0).exponential(100, 100_000), None),
    ],
)
def test_times_that_float32_cannot_hold_are_refused_with_numbers(values, n_left):
    counted = lost(values)
    assert counted.is_too_coarse
    assert len(np.unique(values.astype(np.float32))) == counted.n_given - counted.n_lost
    if n_left is not None:
        assert abs(counted.n_given - counted.n_lost - n_left) <= 1
    with pytest.raises(ValueError, match=rf"`duration` has {counted.n_given} .*subtract the origi"):
        check_time_resolution(values)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).exponential(4.0, 1_000_000),
        np.random.default_rng(0).uniform(0, 1, 5000),
        np.arange(1_000_000.0),
        1.7e9 + 86_400.0 * np.arange(4000) // 128 * 128,  # Few values, and none is lost.
        1.7e9 + np.random.default_rng(0).uniform(0, 3e8, 100_000),  # Ten years to two minutes.
        np.concatenate([np.arange(50) * 0.1, np.cumsum(np.full(50, 0.1)), np.arange(50) / 10]),
        np.arange(3000) / 365.25,
        np.array([5.0]),
        np.array([np.nan, 1.0]),
    ],
)
def test_ordinary_times_are_not_refused(values):
    check_time_resolution(values)


def test_a_million_people_lose_values_that_no_one_misses():
    """The other side of the criterion: rounding to float32 alone is no reason to refuse."""
    values = np.random.default_rng(0).exponential(4.0, 1_000_000)
    assert len(np.unique(values.astype(np.float32))) < 0.99 * len(values)
    assert not lost(values).is_too_coarse
    assert len(lost(values).kept) == ENOUGH


def test_columns_that_float32_cannot_hold_are_named():
    seconds = 1.7e9 + np.arange(0, 86_400, 50)
    frame = pd.DataFrame({"age": np.arange(len(seconds)), "admitted": seconds})
    with pytest.raises(ValueError, match=r"Column 'admitted' has 1728 .*leaves 67[56] .*Subtract"):
        check_features(frame)
    with pytest.raises(ValueError, match=r"Column 1 has 1728"):
        check_features(frame.to_numpy())
    with pytest.raises(ValueError, match=r"Column 'admitted' has 1728"):
        check_features(frame.astype({"admitted": "Int64"}))
    good = frame.assign(admitted=seconds - seconds[0])
    assert check_features(good).resolutions[1].n_lost == 0
    # What is predicted for has the columns that training had.
    check_features(frame, like=check_features(good).schema)


def test_parts_are_judged_together():
    """A day of unix seconds is too coarse, ten years of days in parts of a day are not."""
    schema = check_features(np.zeros((1, 1))).schema
    day = 1.7e9 + np.arange(0, 86_400, 50.0)

    def judged(days):
        kept = KeptValues()
        for part in days:
            features = check_features(part[:, None], resolution="count")
            kept.add(features.resolutions, lost(np.arange(10.0)))
        kept.check(schema)

    judged([day + 86_400 * number for number in range(20)])
    with pytest.raises(ValueError, match="Column 0 has"):
        judged([day, day])
    durations = KeptValues()
    durations.add({}, lost(day))
    with pytest.raises(ValueError, match="`duration` has 1728"):
        durations.check(schema)


# ----------------------------------------------------------------------------------- labels
def outcomes(event, duration=None):
    duration = np.linspace(1, 2, len(event)) if duration is None else duration
    return check_survival_target((event, duration))


@pytest.mark.parametrize(
    ("event", "duration", "words"),
    [
        ([1, 2] * 20, None, r"No one is censored: .* 1, 2 means competing causes\. If 1 marks"),
        ([1] * 40, None, r"No one is censored: no `event` is 0, and 1 means cause\."),
        ([3, 4, 7] * 20, None, r"3, 4, 7 means competing causes\. If 3 marks"),
        ([*range(13)] * 3, None, r"12 labels besides 0, such as \[1, 2, 3, 4, 5\]"),
        ([0, 1, 2, 3] * 10, [0, 1] * 20, r"`duration` is 0 or 1 for all 40 people"),
        ([0] * 5 + sorted([1, 2, 3, 4] * 10), None, r"rank correlation 0\.9\d"),
    ],
)
def test_labels_that_look_miscoded_are_named(event, duration, words):
    with pytest.warns(UserWarning, match=words):
        warn_about_outcomes(outcomes(event, duration))


def test_ordinary_labels_give_no_warning():
    rng = np.random.default_rng(0)
    for n_causes in (1, 2, 3, 10):
        event = rng.integers(0, n_causes + 1, 200)
        warn_about_outcomes(outcomes(event, rng.exponential(size=200)))
    # Few events may fall in order by chance.
    warn_about_outcomes(outcomes([0, 1, 2, 3]))


# ------------------------------------------------------------------------------------ pairing
def frames(index=None, other=None):
    X = pd.DataFrame({"x": np.arange(4.0)}, index=index)
    y = pd.DataFrame({"event": [0, 1, 0, 1], "duration": [1.0, 2.0, 3.0, 4.0]}, index=other)
    return X, y


SHUFFLED = [3, 1, 0, 2]


@pytest.mark.parametrize(
    ("index", "other"),
    [
        (None, SHUFFLED),
        (SHUFFLED, None),
        ([7, 3, 9, 5], [3, 7, 9, 5]),
        (list("abcd"), list("abdc")),
        (list("abcd"), list("efgh")),
    ],
)
def test_outcomes_of_other_people_are_refused(index, other):
    X, y = frames(index, other)
    pairs = [
        y,
        (y["event"], y["duration"].to_numpy()),
        (y["event"].to_numpy(), y["duration"]),
        {"event": y["event"].to_numpy(), "duration": y["duration"]},
    ]
    for given_y in pairs:
        with pytest.raises(ValueError, match=r"paired by position.*reset_index\(drop=True\)"):
            check_paired(X, given_y)
    with pytest.raises(ValueError, match=r"`sample_weight` has"):
        check_paired(X, y.to_numpy(), y["duration"])
    with pytest.raises(ValueError, match="`duration` has"):
        check_survival_target((y["event"].set_axis(X.index), y["duration"]))


@pytest.mark.parametrize(
    ("index", "other"),
    [
        (None, None),
        (SHUFFLED, SHUFFLED),  # As from train_test_split.
        ([7, 3, 9, 5], None),  # A subset, with new outcomes.
        (None, [7, 3, 9, 5]),  # Features that were imputed into a new frame.
        (list("abcd"), None),
        ([9, 4, 12, 7], [2, 1, 5, 3]),  # As a search splits a subset with new outcomes.
        ([2, 2, 5, 5], [2, 2, 5, 5]),  # Drawn with replacement.
        (pd.Index([1, 2, 3, 4], dtype="int32"), pd.RangeIndex(1, 5)),
        (
            pd.MultiIndex.from_product([[0, 1], [2, 3]]),
            pd.MultiIndex.from_product([[0, 1], [2, 3]]),
        ),
    ],
)
def test_outcomes_of_the_same_people_are_accepted(index, other):
    X, y = frames(index, other)
    for given_y in (y, (y["event"], y["duration"]), y.to_numpy(), {"event": y["event"]}):
        check_paired(X, given_y, y["duration"])
        check_paired(X.to_numpy(), given_y, y["duration"])
    check_paired(X, y[:3])  # Lengths are another error.


# ---------------------------------------------------------------------------------------- masks
def test_masked_features_are_missing():
    X = np.ma.masked_array(np.arange(6).reshape(3, 2), mask=[[0, 1], [0, 0], [1, 0]])
    expected = np.array([[0, np.nan], [2, 3], [np.nan, 5]], np.float32)
    assert_array_equal(check_features(X).values, expected)
    assert_array_equal(check_features(X.astype(float)).values, expected)
    unmasked = np.ma.masked_array(np.eye(2))
    assert_array_equal(check_features(unmasked).values, np.eye(2, dtype=np.float32))


def test_masked_outcomes_weights_and_times_are_refused_by_row():
    good = np.ma.masked_array([1.0, 2.0, 3.0])
    bad = np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 0, 1])
    event = np.array([0, 1, 1])
    assert check_survival_target((event, good)).n_samples == 3
    table = np.zeros(3, dtype=[("event", "?"), ("time", "f8")])
    masked_table = np.ma.masked_array(table, mask=[(0, 0), (0, 0), (0, 1)])
    for y in (
        (event, bad),
        {"event": event, "duration": bad},
        np.ma.column_stack([event, bad]),
        masked_table,
    ):
        with pytest.raises(ValueError, match=r"`duration` is masked at row 2 \(1 such"):
            check_survival_target(y, require_event=False)
    with pytest.raises(ValueError, match="`event` is masked at row 2"):
        check_survival_target((bad, good))
    with pytest.raises(ValueError, match="`sample_weight` is masked at row 2"):
        check_sample_weight(bad, 3)
    with pytest.raises(ValueError, match="`times` is masked at row 2"):
        check_times(bad)
    assert_array_equal(check_times(good), good)

"""Models of censoring: the protocol, Kaplan-Meier, and the boosted one over a fake booster."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from strategies import survival_targets

from survival_objectives._people import check_features
from survival_objectives._people.population import time_feature
from survival_objectives.censoring import (
    BoostedCensoring,
    CensoringModel,
    KaplanMeierCensoring,
    log_odds,
)
from survival_objectives.marginal import StepFunction, kaplan_meier_censoring

GRID = np.arange(-1, 20) / 16


# --------------------------------------------------------------------------------------- protocol
def test_protocol_is_one_method():
    class Known:
        def survival(self, times, X=None, *, left=False):
            return np.ones(np.shape(times))

    assert isinstance(Known(), CensoringModel)
    assert isinstance(KaplanMeierCensoring(), CensoringModel)
    assert isinstance(BoostedCensoring(None, None, None), CensoringModel)
    assert not isinstance("kaplan-meier", CensoringModel)


# ----------------------------------------------------------------------------------- Kaplan-Meier
@given(survival_targets(), st.booleans())
def test_kaplan_meier_is_the_marginal_curve(target, left):
    model = KaplanMeierCensoring().fit(target)
    expected = kaplan_meier_censoring(target)(GRID, left=left)
    assert_array_equal(model.survival(GRID, left=left), expected)
    # Any shape of times, for any people.
    assert_array_equal(
        model.survival(GRID.reshape(3, 7), X=np.zeros((3, 2)), left=left), expected.reshape(3, 7)
    )


def test_kaplan_meier_takes_weights_of_people_and_all_forms_of_outcomes():
    event, duration = [1, 0, 0, 2], [1.0, 2.0, 3.0, 4.0]
    repeated = KaplanMeierCensoring().fit(([1, 0, 0, 0, 2], [1.0, 2.0, 2.0, 3.0, 4.0]))
    y = pd.DataFrame({"event": event, "duration": duration})
    weighted = KaplanMeierCensoring().fit(y, sample_weight=[1, 2, 1, 1])
    times = np.arange(0, 5, 0.5)
    assert_allclose(weighted.survival(times), repeated.survival(times), rtol=1e-15)


def test_kaplan_meier_of_people_who_are_all_censored():
    model = KaplanMeierCensoring().fit(([0, 0], [1.0, 2.0]))
    assert_array_equal(model.survival([0.5, 1.0, 2.0]), [1, 0.5, 0])


def test_kaplan_meier_must_be_fitted_and_gets_weights_that_fit():
    with pytest.raises(ValueError, match=r"not fitted yet. Call `fit\(y\)` first"):
        KaplanMeierCensoring().survival([1.0])
    with pytest.raises(ValueError, match="3 values for 2 people"):
        KaplanMeierCensoring().fit(([0, 1], [1.0, 2.0]), sample_weight=[1, 1, 1])


# ---------------------------------------------------------------------------------------- boosted
class FakeBooster:
    """Trees that add slope * x_0 + t to the offset, and a record of what they were asked."""

    def __init__(self, slope=0.5):
        self.slope = slope
        self.calls = []

    def margin(self, matrix, start):
        self.calls.append((matrix.copy(), np.array(start)))
        return start + self.slope * matrix[:, 0] + matrix[:, -1]


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    duration = rng.integers(1, 9, 40) / 8
    return X, (rng.integers(0, 2, 40), duration)


def boosted(people, booster):
    X, y = people
    curve = KaplanMeierCensoring().fit(y).curve_
    floor = 0.01
    start = StepFunction(
        curve.times, log_odds(1 - curve.values, curve.values, floor), np.array(logit(floor))
    )
    return BoostedCensoring(booster, start, check_features(X).schema), curve, floor


def test_formula_9_as_printed(people):
    X, _ = people
    booster = FakeBooster()
    model, curve, floor = boosted(people, booster)
    t = np.full(len(X), 0.5)
    G_KM = curve(0.5)
    assert floor < G_KM < 1 - floor
    trees = 0.5 * X[:, 0].astype(np.float32) + 0.5
    assert_allclose(logit(1 - model.survival(t, X)), logit(1 - G_KM) + trees, rtol=1e-6)


def test_without_trees_the_model_is_kaplan_meier(people):
    class NoTrees:
        def margin(self, matrix, start):
            return start

    X, _ = people
    model, curve, floor = boosted(people, NoTrees())
    for left in (False, True):
        for t in np.unique(people[1][1]):
            expected = np.clip(curve(t, left=left), floor, 1 - floor)
            uncensored = model.survival(np.full(len(X), t), X, left=left)
            assert_allclose(uncensored, expected, atol=0.011)


def test_left_limit_asks_the_trees_and_the_offset_just_before(people):
    X, _ = people
    booster = FakeBooster()
    model, _, _ = boosted(people, booster)
    times = np.resize([0.25, 0.5, 0.75], len(X))
    model.survival(times, X, left=False)
    model.survival(times, X, left=True)
    (at, start_at), (before, start_before) = booster.calls
    assert at.dtype == before.dtype == np.float32
    assert_array_equal(at[:, :-1], X.astype(np.float32))
    assert_array_equal(at[:, -1], times)
    assert_array_equal(before[:, -1], np.nextafter(times.astype(np.float32), np.float32(0)))
    assert_array_equal(start_at, model.start(times))
    assert_array_equal(start_before, model.start(times, left=True))
    assert (start_before < start_at).all()


def test_times_are_rounded_for_the_offset_as_they_are_for_the_trees():
    """Training rounds durations to float32, where 0.1 lies above 0.1 and is at the step still."""
    step = np.array([time_feature(0.1)], dtype=np.float64)
    assert step[0] > 0.1
    schema = check_features(np.zeros((1, 1))).schema
    start = StepFunction(step, np.array([2.0]), np.array(-2.0))
    booster = FakeBooster()
    model = BoostedCensoring(booster, start, schema)
    model.survival([0.1], [[0.0]])
    model.survival([0.1], [[0.0]], left=True)
    assert [start.item() for _, start in booster.calls] == [2.0, -2.0]


def test_one_time_or_several_a_person(people):
    X, _ = people
    model, _, _ = boosted(people, FakeBooster())
    times = np.random.default_rng(1).uniform(0, 1, (len(X), 3))
    several = model.survival(times, X)
    assert several.shape == times.shape
    for column in range(3):
        assert_array_equal(several[:, column], model.survival(times[:, column], X))


def test_no_one_is_censored_before_the_start(people):
    X, _ = people
    model, _, _ = boosted(people, FakeBooster())
    times = np.zeros(len(X))
    assert_array_equal(model.survival(times, X, left=True), 1)
    assert (model.survival(times, X) < 1).all()  # Censoring at 0 itself is possible.
    mixed = model.survival(np.column_stack([times, times + 0.5]), X, left=True)
    assert_array_equal(mixed[:, 0], 1)
    assert (mixed[:, 1] < 1).all()


def test_boosted_needs_the_columns_of_training(people):
    X, _ = people
    model, _, _ = boosted(people, FakeBooster())
    with pytest.raises(ValueError, match="pass `X`, one row per person"):
        model.survival([0.5])
    with pytest.raises(ValueError, match="`times` has 3 rows for 40 people"):
        model.survival([0.5, 0.5, 0.5], X)
    with pytest.raises(ValueError, match=r"3 features, but .* expecting 2 features"):
        model.survival([0.5], np.zeros((1, 3)))


# ----------------------------------------------------------------------------------- small things
@given(st.floats(0, 1e30))
def test_time_just_before_is_the_next_smaller_float32(time):
    at, before = time_feature(np.array([time])), time_feature(np.array([time]), left=True)
    assert at.dtype == before.dtype == np.float32
    assert before[0] < at[0]
    between = np.float32((np.float64(before[0]) + np.float64(at[0])) / 2)
    assert between in (before[0], at[0])


@given(st.floats(0, 1), st.floats(1e-6, 0.1))
def test_log_odds_are_finite_and_those_of_the_floored_probabilities(probability, floor):
    odds = log_odds(np.array([probability]), np.array([1 - probability]), floor)
    assert np.isfinite(odds).all()
    expected = max(probability, floor) / max(1 - probability, floor)
    assert_allclose(np.exp(odds), expected, rtol=1e-12)
    if floor <= probability <= 1 - floor:
        assert_allclose(expit(odds), probability, rtol=1e-12)

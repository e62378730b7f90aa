"""Predicted times and their errors against formulas, SurvivalEVAL and simulated truth."""

import json
from pathlib import Path

import numpy as np
import pytest
import slow_formulas as slow
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from simulated import simulate

from survival_objectives.metrics import (
    FollowUpWarning,
    event_time,
    mean_absolute_time_error,
    mean_squared_time_error,
)


def test_times_follow_their_formulas():
    data = simulate(30, seed=1)
    times = np.linspace(0.1, 40, 60)
    states = data.incidence(times)
    shuffled = np.random.default_rng(0).permutation(60)
    medians = event_time(states[..., shuffled], times[shuffled])
    means = event_time(states[:, 0], times, point="restricted-mean")
    grid = np.concatenate([[0.0], times])
    for i in range(30):
        curve = np.concatenate([[1.0], states[i, 0]])
        fine = np.linspace(0, 40, 400_001)
        values = np.interp(fine, grid, curve)
        assert_allclose(medians[i], fine[np.argmax(values <= 0.5)], atol=2e-4)
        area = sum((values[1:] + values[:-1]) / 2) * 1e-4
        assert_allclose(means[i], area, rtol=1e-6)


def test_median_of_the_truth_is_that_of_the_exponential():
    data = simulate(200, seed=2)
    times = np.linspace(0, 60, 60_001)
    medians = event_time(data.incidence(times)[:, 0], times)
    assert_allclose(medians, np.log(2) / data.hazard.sum(axis=1), rtol=1e-4)


def test_a_median_out_of_reach_is_the_last_time_with_a_warning():
    survival = [[0.9, 0.8], [0.9, 0.2], [0.5, 0.5], [0.2, 0.1]]
    with pytest.warns(FollowUpWarning, match="1 of 4 predicted curves stay above 1/2.*time, 2"):
        found = event_time(survival, [1.0, 2.0])
    assert_allclose(found, [2.0, 1 + 4 / 7, 1.0, 0.625])


@given(
    train=hnp.arrays(np.int64, (8, 2), elements=st.integers(0, 4)),
    test=hnp.arrays(np.int64, (6, 2), elements=st.integers(0, 9)),
)
@settings(max_examples=60, deadline=None)
def test_errors_follow_their_formulas(train, test):
    y_train = (np.append(train[:, 0] % 2, 1), np.append(train[:, 1], 3).astype(float))
    y_test = (np.append(test[:, 0] % 2, 1), np.append(test[:, 1], 2).astype(float))
    predicted = np.linspace(0.5, 6, 7)
    s = np.linspace(1, 2, 7)
    hinge, margin, trust = [], [], []
    for d, t, p in zip(*y_test, predicted, strict=True):
        hinge.append(t - p if d else max(t - p, 0))
        guess, survival = slow.expected_time(y_train, t)
        margin.append((t if d else guess) - p)
        trust.append(1.0 if d else 1 - survival)
    for metric, power in ((mean_absolute_time_error, 1), (mean_squared_time_error, 2)):
        found = metric(None, y_test, predicted, method="hinge", sample_weight=s)
        assert_allclose(found, np.average(np.abs(hinge) ** power, weights=s))
        found = metric(y_train, y_test, predicted, sample_weight=s)
        assert_allclose(found, np.average(np.abs(margin) ** power, weights=s * trust))


def test_errors_against_survivaleval():
    golden = json.loads((Path(__file__).parent / "golden" / "golden.json").read_text())
    y = (golden["input"]["event"], golden["input"]["duration"])
    predicted = golden["input"]["predicted_time"]
    for metric, kind in (
        (mean_absolute_time_error, "absolute"),
        (mean_squared_time_error, "squared"),
    ):
        found = metric(None, y, predicted, method="hinge")
        assert_allclose(found, golden["hinge"][kind], rtol=1e-10)
        # SurvivalEVAL draws lines between the steps of Kaplan-Meier, which makes its area too
        # small ("legacy", says its source); ours is the area of the steps.
        assert_allclose(metric(y, y, predicted), golden["margin"][kind], rtol=0.02)


def test_without_censoring_the_median_and_mean_are_best():
    data = simulate(20_000, seed=3)
    generator = np.random.default_rng(4)
    total = data.hazard.sum(axis=1)
    y = (np.ones(20_000), generator.exponential(1 / total))
    for method in ("hinge", "margin"):
        for metric, best in (
            (mean_absolute_time_error, np.log(2) / total),
            (mean_squared_time_error, 1 / total),
        ):
            least = metric(y, y, best, method=method)
            for factor in (0.8, 1.25):
                assert metric(y, y, best * factor, method=method) > least


def test_errors_name_the_value():
    y = ([1, 0], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"each of 2 people; got shape \(1,\)"):
        mean_absolute_time_error(y, y, [1.0])
    with pytest.raises(TypeError, match="needs the training outcomes"):
        mean_absolute_time_error(None, y, [1.0, 1.0])
    with pytest.raises(ValueError, match="censored before the first training event"):
        mean_absolute_time_error(y, ([0, 0], [0.5, 0.5]), [1.0, 1.0])

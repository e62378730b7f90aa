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

from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.metrics import Evaluation, FollowUpWarning


def event_time(survival, times):
    """The medians of curves, read off hinge errors of people who have the event at 0."""
    survival = np.asarray(survival)
    return [
        Evaluation(None, ([1], [0.0]), survival[[row]], times).time_error(method="hinge")
        for row in range(len(survival))
    ]


def mean_absolute_time_error(y_train, y_test, predicted, *, method="margin", **options):
    """The error of predicted times, as steps of curves."""
    predicted = np.asarray(predicted, float)
    times = np.unique(np.concatenate([predicted, predicted - 1e-9]))
    curves = np.where(times < predicted[:, None], 1.0, 0.5)
    return Evaluation(y_train, y_test, curves, times, **options).time_error(method=method)


def test_median_of_the_truth_is_that_of_the_exponential():
    data = simulate(50, seed=2)
    times = np.linspace(0, 60, 6_001)
    medians = event_time(data.incidence(times)[:, 0], times)
    assert_allclose(medians, np.log(2) / data.hazard.sum(axis=1), rtol=1e-3)


def test_a_median_out_of_reach_is_the_last_time_with_a_warning():
    survival = [[0.9, 0.8], [0.9, 0.2], [0.5, 0.5], [0.2, 0.1]]
    with pytest.warns(FollowUpWarning, match="1 of 1 predicted curves stay above 1/2.*time, 2"):
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
    found = mean_absolute_time_error(None, y_test, predicted, method="hinge", sample_weight=s)
    assert_allclose(found, np.average(np.abs(hinge), weights=s), rtol=1e-6)
    found = mean_absolute_time_error(y_train, y_test, predicted, sample_weight=s)
    assert_allclose(found, np.average(np.abs(margin), weights=s * trust), rtol=1e-6)


def test_errors_against_survivaleval():
    golden = json.loads((Path(__file__).parent / "golden" / "golden.json").read_text())
    y = (golden["input"]["event"], golden["input"]["duration"])
    predicted = golden["input"]["predicted_time"]
    found = mean_absolute_time_error(None, y, predicted, method="hinge")
    assert_allclose(found, golden["hinge"]["absolute"], rtol=1e-6)
    # SurvivalEVAL draws lines between the steps of Kaplan-Meier, which makes its area too small
    # ("legacy", says its source); ours is the area of the steps.
    found = mean_absolute_time_error(y, y, predicted)
    assert_allclose(found, golden["margin"]["absolute"], rtol=0.02)


def test_without_censoring_the_median_is_best():
    data = simulate(500, seed=3)
    total = data.hazard.sum(axis=1)
    y = (np.ones(500), np.random.default_rng(4).exponential(1 / total))
    best = np.log(2) / total
    for method in ("hinge", "margin"):
        errors = [
            mean_absolute_time_error(y, y, best * factor, method=method) for factor in (1, 0.7, 1.4)
        ]
        assert min(errors) == errors[0]


def test_errors_name_the_value():
    y = ([1, 0], [1.0, 2.0])
    censoring = KaplanMeierCensoring().fit(y)
    with pytest.raises(TypeError, match=r"model of censoring.*needs training outcomes"):
        mean_absolute_time_error(censoring, y, [1.0, 1.0])
    with pytest.raises(ValueError, match="censored before the first training event"):
        mean_absolute_time_error(y, ([0, 0], [0.5, 0.5]), [1.0, 1.0])

"""The benchmark's error of predicted times against its formula, SurvivalEVAL and the truth."""

import json
from pathlib import Path

import numpy as np
import slow_formulas as slow
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from simulated import simulate

from benchmarks._time_errors import margin_error


def error_of_times(y_train, y_test, predicted):
    """The error of predicted times, as steps of curves."""
    predicted = np.asarray(predicted, float)
    times = np.unique(np.concatenate([predicted, predicted - 1e-9]))
    curves = np.where(times < predicted[:, None], 1.0, 0.5)
    return margin_error(y_train, y_test, curves, times)


@given(
    train=hnp.arrays(np.int64, (8, 2), elements=st.integers(0, 4)),
    test=hnp.arrays(np.int64, (6, 2), elements=st.integers(0, 9)),
)
@settings(max_examples=40, deadline=None)
def test_errors_follow_their_formula(train, test):
    y_train = (np.append(train[:, 0] % 2, 1), np.append(train[:, 1], 3).astype(float))
    y_test = (np.append(test[:, 0] % 2, 1), np.append(test[:, 1], 2).astype(float))
    predicted = np.linspace(0.5, 6, 7)
    margin, trust = [], []
    for d, t, p in zip(*y_test, predicted, strict=True):
        guess, survival = slow.expected_time(y_train, t)
        margin.append((t if d else guess) - p)
        trust.append(1.0 if d else 1 - survival)
    found = error_of_times(y_train, y_test, predicted)
    assert_allclose(found, np.average(np.abs(margin), weights=trust), rtol=1e-6)


def test_errors_against_survivaleval():
    golden = json.loads((Path(__file__).parent / "golden" / "golden.json").read_text())
    y = (golden["input"]["event"], golden["input"]["duration"])
    # SurvivalEVAL draws lines between the steps of Kaplan-Meier, which makes its area too small
    # ("legacy", says its source); ours is the area of the steps.
    found = error_of_times(y, y, golden["input"]["predicted_time"])
    assert_allclose(found, golden["margin"]["absolute"], rtol=0.02)


def test_the_true_median_is_best():
    data = simulate(500, seed=3)
    total = data.hazard.sum(axis=1)
    y = (np.ones(500), np.random.default_rng(4).exponential(1 / total))
    times = np.linspace(0, 60, 2001)
    errors = [
        margin_error(y, y, np.exp(-total[:, None] * times / factor), times)
        for factor in (1, 0.7, 1.4)
    ]
    assert min(errors) == errors[0]

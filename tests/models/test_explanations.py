"""SHAP values of several times, importance, partial dependence, and cumulative hazards."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives.datasets import make_competing_risks

DATA = make_competing_risks(250, n_causes=2, random_state=0)
X = DATA.X.assign(ward=np.array(["a", "b", "c"])[np.arange(250) % 3])
TIMES = [0.4, 1.0, 1.6]


@pytest.fixture(scope="module")
def model():
    return HazardBoost(n_estimators=8, n_folds=2, n_repeats=1, random_state=0).fit(X, DATA.y)


def test_all_times_in_one_call_equal_time_by_time(model):
    found = model.shap_values(X[:20], TIMES)
    assert found.shape == (20, X.shape[1] + 2, 3, 2)
    for place, time in enumerate(TIMES):
        one = model.shap_values(X[:20], time)
        assert_allclose(found[:, :, place].swapaxes(1, 2), one, atol=1e-12)


@pytest.mark.parametrize("unit", [0, 1])
def test_of_a_survival_boost_they_give_its_predictions(unit):
    """With whole units too, in which a model is asked within the unit."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    time = rng.exponential(6, 300) * np.exp(-x[:, 0])
    y = {"event": rng.random(300) < 0.8, "duration": np.ceil(time) if unit else time}
    model = SurvivalBoost(n_estimators=30, time_smoothing=0.0, n_horizons=8, random_state=0)
    model.fit(x, y)
    times = np.arange(2.0, 9.0)
    margin = model.shap_values(x, times).sum(axis=1)[..., 0]
    predicted = model.predict_cumulative_incidence(x, times, cause=1)
    assert_allclose(1 / (1 + np.exp(-margin)), predicted, atol=1e-5)


def test_importance_is_the_mean_absolute_shap_value(model):
    found = model.importance(X[:50], TIMES)
    values = np.abs(model.shap_values(X[:50], TIMES)[:, :-2]).mean(axis=0)
    assert list(found.index) == list(X.columns)
    for place, cause in enumerate([1, 2]):
        assert_allclose(found[cause].to_numpy(), values[:, :, place], atol=1e-12)
        assert list(found[cause].columns) == TIMES
    assert model.importance(X[:5]).shape == (X.shape[1], 8)


def test_partial_dependence_is_the_mean_of_changed_people(model):
    found = model.partial_dependence(X, "x0", [-1.0, np.nan], TIMES)
    for row, value in enumerate([-1.0, np.nan]):
        curves = model.predict_cumulative_incidence(X.assign(x0=value), TIMES).mean(axis=0)
        assert_allclose(found.iloc[row].to_numpy(), curves.ravel(), atol=1e-9)
    by_ward = model.partial_dependence(X, "ward", times=TIMES)
    assert list(by_ward.index) == ["a", "b", "c"]
    expected = model.predict_cumulative_incidence(X.assign(ward="b"), TIMES).mean(axis=0)
    assert_allclose(by_ward.loc["b"].to_numpy(), expected.ravel(), atol=1e-9)
    quantiles = model.partial_dependence(X, "x0", times=TIMES).index
    assert len(quantiles) == 10
    assert_allclose(quantiles, np.quantile(X["x0"], np.linspace(0.05, 0.95, 10)), rtol=1e-5)


def test_partial_dependence_of_columns_with_an_offset():
    """Seconds since 1970 lose their differences in float32; values are those of the user."""
    seconds = 1.7e9 + 10.0 * np.arange(250)
    people = pd.DataFrame({"since": seconds, "x": DATA.X["x0"]})
    model = SurvivalBoost(n_estimators=5, random_state=0)
    model.fit(people, DATA.y)
    found = model.partial_dependence(people, "since", times=[1.0])
    assert seconds.min() < found.index.min() < found.index.max() < seconds.max()
    given = model.partial_dependence(people, "since", found.index, [1.0])
    assert_allclose(given.to_numpy(), found.to_numpy(), atol=1e-9)


def test_cumulative_hazards_are_minus_log_survival(model):
    found = model.predict_cumulative_hazard_function(X[:9], [0.0, *TIMES], conditional_after=0.2)
    survival = model.predict_survival_function(X[:9], [0.0, *TIMES], conditional_after=0.2)
    assert_allclose(np.exp(-found), survival)
    assert_array_equal(found[:, 0], 0)
    assert not np.signbit(found).any()
    frame = model.predict_cumulative_hazard_function(X[:9], TIMES, as_frame=True)
    assert list(frame.index) == list(X.index[:9])

"""The base class of estimators with a fitted model: what it reads off the model, and its score."""

from __future__ import annotations

import numpy as np
import pytest
from estimator_data import boost
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from survival_objectives import HazardBoost
from survival_objectives._models.predictions import brier_score_until


def test_all_fitted_attributes_are_read_off_the_fitted_model(data):
    model = boost("xgboost", n_estimators=5).fit(data.X, data.y)
    other = HazardBoost()
    with pytest.raises(NotFittedError):
        _ = other.fitted_model
    other.fitted_model = model.fitted_model
    for name in ("booster_", "n_estimators_", "engine_", "history_", "refreshed_rounds_"):
        assert getattr(other, name) == getattr(model, name)
    assert not hasattr(other, "member_weights_")
    assert_array_equal(other.predict(data.X), model.predict(data.X))


def test_attributes_of_an_earlier_model_do_not_stay(data):
    model = boost("xgboost", n_estimators=5).fit(data.X, data.y)
    assert hasattr(model, "feature_names_in_")
    unnamed = boost("xgboost", n_estimators=5).fit(data.X.to_numpy(), data.y)
    model.fitted_model = unnamed.fitted_model
    assert not hasattr(model, "feature_names_in_")


def test_score_of_all_people_is_that_until_their_longest_duration(data):
    model = boost("xgboost", n_estimators=5).fit(data.X, data.y)
    weight = np.linspace(0.5, 2, len(data.X))
    last = float(data.y["duration"].max())
    expected = -brier_score_until(last, model, data.X, data.y, weight)
    assert model.score(data.X, data.y, weight) == expected
    assert -brier_score_until(last / 3, model, data.X, data.y, weight) != expected

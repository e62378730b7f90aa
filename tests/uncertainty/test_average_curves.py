"""Average curves of a group: what they are means of, and their limits."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit
from scipy.stats import t as student

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives.datasets import make_competing_risks
from survival_objectives.uncertainty import standardized_incidence

DATA = make_competing_risks(300, n_causes=2, random_state=0)
TIMES = np.array([0.5, 1.0])


@pytest.fixture(scope="module")
def model():
    X = DATA.X.assign(kind=pd.Categorical(np.where(DATA.X["x0"] > 0, "b", "a")))
    few = {"n_estimators": 10, "n_folds": 3, "n_repeats": 2, "random_state": 0, "n_jobs": 1}
    return HazardBoost("lightgbm", **few).fit(X, DATA.y), X


def test_curves_are_means_and_limits_follow_the_formula(model):
    model, X = model
    found = standardized_incidence(model, X, TIMES, cause=2, confidence=0.8).curves[None]
    person = model.predict_cumulative_incidence(X, TIMES, cause=2)
    mean = person.mean(axis=0)
    assert_allclose(found.estimate, mean)
    fitted = model.fitted_model
    values = fitted.schema.values
    assert len(values) == 0  # The model has no people; they are passed.
    codes = X.assign(kind=X["kind"].cat.codes).to_numpy(np.float32)
    by_model = logit(fitted.curves_by_model(codes, TIMES)[:, :, 2].mean(axis=1)).reshape(2, 3, 2)
    squares = ((by_model - by_model.mean(axis=1, keepdims=True)) ** 2).sum(axis=(0, 1))
    variance = 2 / 6 * squares + 1 / (DATA.y["event"] == 2).sum()
    variance += person.var(axis=0) / (300 * mean**2 * (1 - mean) ** 2)
    width = student.ppf(0.9, 4) * np.sqrt(variance)
    assert_allclose(found.lower, expit(logit(mean) - width))
    assert_allclose(found.upper, expit(logit(mean) + width))


def test_a_feature_is_set_for_all_people(model):
    model, X = model
    found = standardized_incidence(model, X, TIMES, "kind", ["a", "b"])
    levels = X["kind"].cat.categories
    for value, band in found.curves.items():
        own = X.assign(kind=pd.Categorical([value] * len(X), categories=levels))
        assert_allclose(band.estimate, 1 - model.predict_survival_function(own, TIMES).mean(axis=0))
    (difference,) = found.differences.values()
    assert_allclose(
        difference.estimate, found.curves["b"].estimate - found.curves["a"].estimate, atol=1e-12
    )
    assert (difference.lower < difference.estimate).all()
    wider = standardized_incidence(model, X, TIMES, "kind", ["a", "b"], confidence=0.99)
    assert (wider.differences["b"].upper > difference.upper).all()


def test_what_has_no_average_is_refused(model):
    model, X = model
    with pytest.raises(ValueError, match="give both, or neither"):
        standardized_incidence(model, X, TIMES, "kind")
    with pytest.raises(ValueError, match="no column of `X`"):
        standardized_incidence(model, X, TIMES, "sort", ["a"])
    with pytest.raises(ValueError, match=r"`cause` is 3; choose from \[1, 2\]"):
        standardized_incidence(model, X, TIMES, cause=3)
    with pytest.raises(ValueError, match="no value of `kind`"):
        standardized_incidence(model, X, TIMES, "kind", ["a", "c"])
    other = SurvivalBoost("lightgbm", n_estimators=3, random_state=0).fit(DATA.X, DATA.y)
    with pytest.raises(ValueError, match="needs models of folds"):
        standardized_incidence(other, DATA.X, TIMES)

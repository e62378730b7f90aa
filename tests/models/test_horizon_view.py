"""The model at one horizon among scikit-learn's tools."""

from __future__ import annotations

import pytest
from estimator_data import boost
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibrationDisplay
from sklearn.exceptions import NotFittedError
from sklearn.inspection import PartialDependenceDisplay, partial_dependence, permutation_importance
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from survival_objectives._models.horizon_view import HorizonClassifier, HorizonRegressor
from survival_objectives.metrics import brier_score


@pytest.fixture(scope="module")
def fitted(data):
    return boost("xgboost").fit(data.X, data.y)


@pytest.fixture(scope="module")
def known(data):
    """People whose state at 1.0 is known, and whether cause 1 had happened."""
    event, duration = data.y["event"], data.y["duration"]
    rows = ((duration > 1.0) | (event > 0)).to_numpy()
    return data.X[rows], ((event == 1) & (duration <= 1.0)).to_numpy()[rows].astype(int)


def test_views_answer_with_the_incidence(fitted, data):
    curves = fitted.predict_cumulative_incidence(data.X, [1.0])[:, :, 0]
    assert_array_equal(fitted.at_horizon(1.0).predict(data.X), 1 - curves[:, 0])
    for cause in (1, 2):
        assert_array_equal(fitted.at_horizon(1.0, cause).predict(data.X), curves[:, cause])
        view = fitted.at_horizon(1.0, cause, kind="classifier")
        assert_array_equal(view.predict_proba(data.X)[:, 1], curves[:, cause])
        assert_array_equal(view.predict(data.X), curves[:, cause] > 0.5)
    assert is_regressor(fitted.at_horizon(1.0))
    assert is_classifier(fitted.at_horizon(1.0, kind="classifier"))


def test_cross_val_predict(data):
    """Every person is predicted by the model of the other folds."""
    view = boost("xgboost").at_horizon(1.0, 1)
    found = cross_val_predict(view, data.X, data.y, cv=3)
    model = boost("xgboost").fit(data.X[100:], data.y[100:])
    expected = model.predict_cumulative_incidence(data.X[:100], [1.0])[:, 1, 0]
    assert_allclose(found[:100], expected)


def test_a_classifier_is_not_trained_on_codes_of_durations(data):
    view = boost("xgboost").at_horizon(1.0, 1, kind="classifier")
    with pytest.raises(TypeError, match=r'replaces durations by class codes.*kind="regressor"'):
        cross_val_predict(view, data.X, data.y, cv=3, method="predict_proba")
    probabilities = view.fit(data.X, data.y).predict_proba(data.X)
    assert_allclose(probabilities.sum(axis=1), 1)


def test_partial_dependence(fitted, data):
    for kind in ("regressor", "classifier"):
        view = fitted.at_horizon(1.0, 1, kind=kind)
        found = partial_dependence(view, data.X, ["x0"], grid_resolution=4)
        moved = data.X.copy()
        moved["x0"] = found["grid_values"][0][2]
        expected = fitted.predict_cumulative_incidence(moved, [1.0])[:, 1, 0].mean()
        assert_allclose(found["average"][0, 2], expected)
    display = PartialDependenceDisplay.from_estimator(
        fitted.at_horizon(1.0), data.X, ["x1"], grid_resolution=3
    )
    assert display.pd_results[0]["average"].shape == (1, 3)


def test_permutation_importance_and_scores(fitted, data, known):
    view = fitted.at_horizon(1.0, 1)
    curve = view.predict(data.X)[:, None]
    expected = -brier_score(data.y, data.y, curve, 1.0, cause=1)[0]
    assert view.score(data.X, data.y) == pytest.approx(expected)
    result = permutation_importance(view, data.X, data.y, n_repeats=2, random_state=0)
    assert result.importances_mean.max() > 0
    survival = fitted.predict_survival_function(data.X, [1.0])
    expected = -brier_score(data.y, data.y, survival, 1.0)[0]
    assert fitted.at_horizon(1.0).score(data.X, data.y) == pytest.approx(expected)
    classifier = fitted.at_horizon(1.0, 1, kind="classifier")
    result = permutation_importance(
        classifier, *known, scoring="roc_auc", n_repeats=2, random_state=0
    )
    assert result.importances_mean.max() > 0
    scores = cross_val_score(clone(view), data.X, data.y, cv=2)
    assert ((scores < 0) & (scores > -0.3)).all()


def test_calibration_display(fitted, known):
    view = fitted.at_horizon(1.0, 1, kind="classifier")
    display = CalibrationDisplay.from_estimator(view, *known, n_bins=4)
    assert display.prob_pred.max() <= 1
    assert roc_auc_score(known[1], view.predict_proba(known[0])[:, 1]) > 0.6


def test_views_of_pipelines(data):
    pipeline = make_pipeline(StandardScaler(), boost("xgboost"))
    view = HorizonRegressor(pipeline, 1.0, cause=2).fit(data.X, data.y)
    fitted = view.estimator_
    curves = fitted[-1].predict_cumulative_incidence(fitted[:-1].transform(data.X), [1.0])
    assert_array_equal(view.predict(data.X), curves[:, 2, 0])
    assert view.score(data.X, data.y) < 0


def test_views_are_unfitted_where_the_model_is(data):
    view = boost("xgboost").at_horizon(1.0)
    with pytest.raises(NotFittedError):
        view.predict(data.X)
    with pytest.raises(NotFittedError):
        clone(boost("xgboost").fit(data.X, data.y).at_horizon(1.0)).predict(data.X)
    assert isinstance(boost("xgboost").at_horizon(1.0, kind="classifier"), HorizonClassifier)


def test_mistakes_are_named(fitted, data):
    with pytest.raises(ValueError, match=r"`cause` is 7, but the labels are \[1, 2\]"):
        fitted.at_horizon(1.0, 7)
    with pytest.raises(ValueError, match=r"`cause` is 7, but the labels are \[1, 2\]"):
        HorizonRegressor(boost("xgboost"), 1.0, 7).fit(data.X, data.y).predict(data.X)
    with pytest.raises(ValueError, match="`kind` is 'survival'"):
        fitted.at_horizon(1.0, kind="survival")
    with pytest.raises(TypeError, match="`horizon` must be one number"):
        fitted.at_horizon([1.0, 2.0])
    with pytest.raises(ValueError, match="finite and >= 0"):
        fitted.at_horizon(-1.0)


def test_probabilities_of_classes_name_the_view(data):
    model = boost("xgboost", n_estimators=3)
    with pytest.raises(AttributeError, match=r"cross_val_predict\(model\.at_horizon\(horizon"):
        cross_val_predict(model, data.X, data.y, cv=2, method="predict_proba")
    assert not hasattr(model, "classes_")

"""What all fitted models share: quantiles, restricted means, conditional curves, frames."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives._models.fitted import snapshot
from survival_objectives._people import check_features
from survival_objectives.datasets import make_competing_risks

METHODS = ("hazards", "boosted", "kaplan-meier", "imputed")


@pytest.fixture(scope="module")
def data():
    return make_competing_risks(300, n_causes=2, n_features=4, random_state=0)


@pytest.fixture(scope="module", params=METHODS)
def estimator(request, data):
    settings = {"n_estimators": 10, "random_state": 0, "n_jobs": 1}
    if request.param == "hazards":
        return HazardBoost(**settings).fit(data.X, data.y)
    return SurvivalBoost(censoring=request.param, **settings).fit(data.X, data.y)


@pytest.fixture
def model(estimator):
    return estimator.fitted_model


def test_quantiles_are_where_curves_reach_them(model, data):
    people = check_features(data.X, like=model.schema)
    found = model.quantiles(people, [0.1, 0.3])
    for column, quantile in enumerate((0.1, 0.3)):
        finite = np.flatnonzero(np.isfinite(found[:, column]))
        assert len(finite)
        at = model.incidence(people, found[finite, column])[finite, 0, np.arange(len(finite))]
        assert_allclose(1 - at, quantile, atol=1e-9)
    assert (found[:, 0] <= found[:, 1]).all()


def test_restricted_means_add_up_to_the_horizon(model, data):
    people = check_features(data.X, like=model.schema)
    areas = [model.restricted_mean(people, 2.0, state) for state in range(3)]
    assert_allclose(sum(areas), 2.0)
    times = np.linspace(0, 2, 20_001)
    curves = model.incidence(check_features(data.X[:5], like=model.schema), times)
    assert_allclose(areas[0][:5], np.trapezoid(curves[:, 0], times), atol=1e-3)


def test_conditional_curves_are_quotients(model, data):
    people = check_features(data.X, like=model.schema)
    times = np.array([0.2, 0.5, 1.0, 2.0])
    plain, at = model.incidence(people, times), model.incidence(people, np.array([0.5]))
    given = model.conditional_incidence(people, times, np.full(len(data.X), 0.5))
    assert_allclose(given[:, 0, 2:], plain[:, 0, 2:] / at[:, 0], atol=1e-12)
    assert_array_equal(given[:, 0, :2], 1.0)
    assert_allclose(given.sum(axis=1), 1.0)


def test_predictions_of_the_estimator_are_the_models(estimator, model, data):
    people = check_features(data.X, like=model.schema)
    times = np.array([0.3, 1.0])
    assert_array_equal(
        estimator.predict_cumulative_incidence(data.X, times), model.incidence(people, times)
    )
    assert_array_equal(
        estimator.predict_quantile(data.X, [0.2, 0.4]), model.quantiles(people, [0.2, 0.4])
    )
    shap = model.shap_values(people, times)
    assert_array_equal(estimator.shap_values(data.X, times), shap.transpose(0, 2, 3, 1))
    assert_array_equal(estimator.shap_values(data.X, 0.3), shap[..., 0])


def test_parts_cover_everyone_once(model):
    rows = np.concatenate([np.arange(part.start, part.stop) for part in model.parts(10**6, 500)])
    assert_array_equal(rows, np.arange(10**6))


def test_pickles_and_threads_do_not_change_predictions(model, data):
    people = check_features(data.X, like=model.schema)
    expected = model.incidence(people, model.frame.times)
    moved = pickle.loads(pickle.dumps(model))
    for evaluator in moved.evaluators().values():
        assert evaluator.n_jobs == 1
        evaluator.n_jobs = 2
    assert_array_equal(moved.incidence(people, model.frame.times), expected)
    again = pickle.loads(pickle.dumps(moved))
    # Hazards without trees worth their weight have no evaluator.
    assert all(evaluator.n_jobs == 2 for evaluator in again.evaluators().values())
    assert_array_equal(again.incidence(people, model.frame.times), expected)


def test_fitted_models_do_not_change(model):
    with pytest.raises(FrozenInstanceError):
        model.curves = None
    other = model.with_frame(t_max=7.0).with_record(n_floored=3)
    assert (other.frame.t_max, other.record.n_floored) == (7.0, 3)
    assert (model.frame.t_max, model.record.n_floored) != (7.0, 3)


def test_a_snapshot_is_not_reached_by_later_changes():
    parameters = {"engine_params": {"max_bin": 3}, "n_jobs": 1}
    kept = snapshot(parameters)
    parameters["engine_params"]["max_bin"] = 7
    assert kept["engine_params"] == {"max_bin": 3}

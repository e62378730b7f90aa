"""Scorers inside scikit-learn's model selection."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from simulated import simulate
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from survival_objectives.metrics import (
    integrated_brier_score,
    likelihood_score,
    make_survival_scorer,
    time_dependent_auc,
)

NAMES = ("brier", "log_loss", "likelihood", "concordance", "auc")
READY_MADE = {name: make_survival_scorer(name) for name in NAMES}
integrated_brier_scorer = READY_MADE["brier"]
# Scorers end before the last people, who then count as censored.
pytestmark = pytest.mark.filterwarnings("ignore:.*followed beyond the last node")


class ScaledTruth(BaseEstimator):
    """The curves of `simulate`, with hazards multiplied by a parameter and by noise."""

    def __init__(self, factor=1.0, noise=0.0):
        self.factor, self.noise = factor, noise

    def fit(self, X, y):
        self.event_ids_ = np.array([0, 1, 2])
        return self

    def predict_cumulative_incidence(self, X, times):
        hazard = np.array([0.5, 0.3]) * np.exp(X @ np.array([[0.7, -0.3], [-0.5, 0.6]]))
        noise = np.random.default_rng(0).lognormal(0, 1, hazard.shape)
        return simulate(1, seed=0).incidence(times, self.factor * hazard * noise**self.noise)


@pytest.fixture(scope="module")
def people():
    data = simulate(2_000, seed=1, slope=0.0)
    return data.X, pd.DataFrame({"event": data.y[0], "duration": data.y[1]})


def test_search_finds_the_truth(people):
    X, y = people
    for name, grid in (
        ("brier", {"factor": [0.5, 1.0, 2.0]}),
        ("log_loss", {"factor": [0.5, 1.0, 2.0]}),
        ("likelihood", {"factor": [0.5, 1.0, 2.0]}),
        ("concordance", {"noise": [0.0, 1.0]}),
        ("auc", {"noise": [0.0, 1.0]}),
    ):
        search = GridSearchCV(ScaledTruth(), grid, scoring=READY_MADE[name], cv=2, refit=False)
        search.fit(X, y)
        assert search.best_params_ in ({"factor": 1.0}, {"noise": 0.0}), name


def test_several_scorers_at_once(people):
    results = cross_validate(ScaledTruth(), *people, scoring=READY_MADE, cv=2)
    assert all(np.isfinite(results[f"test_{name}"]).all() for name in READY_MADE)


def test_score_is_the_metric_with_its_sign(people):
    X, y = people
    model, times = ScaledTruth().fit(X, y), [0.3, 0.9]
    weight = np.linspace(1, 2, len(X))
    censoring = simulate(10, seed=2, slope=0.0).censoring
    incidence = model.predict_cumulative_incidence(X, np.array(times))
    data = (censoring, y, incidence, times)
    loss = integrated_brier_score(*data, X=X, sample_weight=weight, average="all")
    scorer = make_survival_scorer("brier", censoring=censoring, times=times)
    assert_allclose(scorer(model, X, y, sample_weight=weight), -loss)
    # Scores with a value for each time are averaged over times.
    scorer = make_survival_scorer("auc", times=times, cause=1)
    expected = time_dependent_auc(None, y, incidence, times, cause=1).mean()
    assert_allclose(pickle.loads(pickle.dumps(scorer))(model, X, y), expected)


def test_all_censored_people_need_times(people):
    X, _ = people
    scorer = make_survival_scorer("brier")
    with pytest.raises(ValueError, match=r"All 3 people to score are censored\. Pass `times`"):
        scorer(ScaledTruth().fit(X, None), X[:3], ([0, 0, 0], [1.0, 2.0, 3.0]))


# ------------------------------------------------------------------------------------- pipelines
def halved():
    return FunctionTransformer(lambda X: X / 2)


@pytest.mark.parametrize("name", READY_MADE)
def test_scorers_reach_through_pipelines(people, name):
    X, y = people
    expected = READY_MADE[name](ScaledTruth().fit(X, y), X, y)
    inner = make_pipeline(halved(), ScaledTruth())
    for estimator in (
        Pipeline([("model", ScaledTruth())]),
        make_pipeline(halved(), halved(), "passthrough", ScaledTruth()),
        make_pipeline(halved(), inner),
    ):
        n_halved = str(estimator).count("FunctionTransformer")
        estimator.fit(X * 2**n_halved, y)
        assert READY_MADE[name](estimator, X * 2**n_halved, y) == pytest.approx(expected)


def test_search_over_a_pipeline_finds_the_truth(people):
    X, y = people
    search = GridSearchCV(
        make_pipeline(halved(), ScaledTruth()),
        {"scaledtruth__factor": [0.5, 1.0, 2.0]},
        scoring=integrated_brier_scorer,
        cv=2,
    ).fit(2 * X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_ == {"scaledtruth__factor": 1.0}
    best = ScaledTruth().fit(X, y)
    assert integrated_brier_scorer(search, 2 * X, y) == integrated_brier_scorer(best, X, y)


def test_estimators_without_curves_are_named(people):
    X, y = people
    with pytest.raises(TypeError, match=r"FunctionTransformer has no `predict_cumulative"):
        integrated_brier_scorer(make_pipeline(halved(), halved()).fit(X), X, y)


def test_weights_are_routed(people):
    X, y = people
    weight = np.random.default_rng(0).uniform(0, 5, len(X))
    asked = integrated_brier_scorer.set_score_request(sample_weight=True)
    with config_context(enable_metadata_routing=True):
        plain = cross_validate(ScaledTruth(), X, y, scoring=integrated_brier_scorer, cv=2)
        routed = cross_validate(
            ScaledTruth(), X, y, scoring=asked, cv=2, params={"sample_weight": weight}
        )
        renamed = cross_validate(
            ScaledTruth(),
            X,
            y,
            scoring={"a": integrated_brier_scorer.set_score_request(sample_weight="w")},
            cv=2,
            params={"w": weight},
        )
        with pytest.raises(ValueError, match="sample_weight"):
            cross_validate(
                ScaledTruth(),
                X,
                y,
                scoring=integrated_brier_scorer,
                cv=2,
                params={"sample_weight": weight},
            )
    half = len(X) // 2
    expected = integrated_brier_scorer(
        ScaledTruth().fit(X, y), X[:half], y[:half], sample_weight=weight[:half]
    )
    assert routed["test_score"][0] == pytest.approx(expected)
    assert_allclose(renamed["test_a"], routed["test_score"])
    assert (routed["test_score"] != plain["test_score"]).all()
    assert asked is not integrated_brier_scorer


def test_people_who_enter_late_are_scored_by_likelihood(people):
    X, y = people
    late = y.assign(entry=np.where(np.arange(len(y)) % 2, 0.5 * y["duration"], 0.0))
    model, times = ScaledTruth().fit(X, y), np.linspace(0.1, y["duration"].max(), 40)
    found = make_survival_scorer("likelihood", times=times)(model, X, late)
    curves = model.predict_cumulative_incidence(X, times)
    assert found == pytest.approx(-likelihood_score(None, late, curves, times))
    with pytest.raises(ValueError, match=r"`brier` has no definition.*`likelihood_score`"):
        make_survival_scorer("brier", times=times)(model, X, late)


def test_unknown_scores_are_named():
    with pytest.raises(ValueError, match="`score` is 'mse'; choose from 'brier'"):
        make_survival_scorer("mse")

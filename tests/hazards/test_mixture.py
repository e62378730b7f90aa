"""Mixtures of hazards as fitted models: contributions (81), importances, curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import HazardBoost
from survival_objectives._engines.forest import crossed_rows
from survival_objectives._hazards.mixture import LINEAR, Member, Mixture
from survival_objectives._people import check_features
from survival_objectives.datasets import make_competing_risks

ENGINES = ("xgboost", "lightgbm", "catboost")


def hazards(engine, **options):
    settings = {"n_estimators": 30, "random_state": 0, "n_jobs": 1}
    return HazardBoost(engine, **{**settings, **options})


def people(n_causes=2, n_samples=600):
    """Numbers, missing values and categories that matter; returns (X, y)."""
    data = make_competing_risks(n_samples, n_causes=n_causes, n_features=3, random_state=0)
    rng = np.random.default_rng(0)
    X = data.X.copy()
    X.loc[rng.random(n_samples) < 0.2, "x0"] = np.nan
    X["city"] = pd.Categorical(rng.choice(list("abcdefg"), n_samples))
    y = data.y.copy()
    y["duration"] *= np.where(X["city"].isin(["a", "c"]), 4.0, 1.0)
    # No linear hazards have this effect, so that there are trees.
    y["duration"] *= np.where(X["x1"].abs() < 0.7, 20.0, 1.0)
    return X, y


@pytest.fixture(scope="module", params=ENGINES)
def model(request):
    return hazards(request.param).fit(*people())


def features(model, X):
    return check_features(X, like=model.fitted_model.schema)


# ---------------------------------------------------------------------------------- contributions
@pytest.mark.parametrize("time", [0.0, 0.4, 1.0, 1e9])
def test_contributions_sum_to_the_mean_log_odds(model, time):
    X, _ = people()
    found = model.shap_values(X[:40], time)
    assert found.shape == (40, 2, X.shape[1] + 2)
    mixture = model.fitted_model
    omega = mixture.interval_shares(time)
    # Formula (81), member by member.
    values = features(model, X[:40]).values
    design = mixture.mixture.design.matrix(values)
    expected = sum(
        weight * np.einsum("km,kmn->nk", omega, one.margin(values, design))
        for weight, one in mixture.mixture.members.values()
    )
    assert_allclose(found.sum(axis=2), expected, atol=1e-6)
    assert_allclose(mixture.margin(features(model, X[:40]), time), expected, atol=1e-12)
    # The base is the same for everyone; features are not.
    assert_allclose(np.ptp(found[:, :, -1], axis=0), 0, atol=1e-6)
    assert (found[:, :, :-2].std(axis=0) > 0).any()


def test_contributions_of_one_cause():
    X, y = people(n_causes=1)
    for engine in ENGINES:
        model = hazards(engine).fit(X, y)
        found = model.shap_values(X[:20], 0.7)
        margin = model.fitted_model.margin(features(model, X[:20]), 0.7)
        assert_allclose(found.sum(axis=2), margin, atol=1e-6)


def test_interval_shares_are_those_of_the_populations_events(model):
    mixture = model.fitted_model
    knots, hazard = mixture.curves.knots, mixture.curves.hazard
    late = mixture.interval_shares(1e9)
    assert_allclose(late.sum(axis=1), 1)
    survival = 1.0
    events = np.empty_like(hazard)
    for interval in range(hazard.shape[1]):
        events[:, interval] = survival * hazard[:, interval]
        survival *= 1 - hazard[:, interval].sum()
    assert_allclose(late, events / events.sum(axis=1, keepdims=True))
    # Halfway through an interval half of its events have happened; later ones count nothing.
    half = mixture.interval_shares((knots[3] + knots[4]) / 2)
    assert_allclose(half[:, 4:], 0)
    expected = events[:, :4] * [1, 1, 1, 0.5]
    assert_allclose(half[:, :4], expected / expected.sum(axis=1, keepdims=True))
    assert_array_equal(mixture.interval_shares(0.0)[:, 0], 1)


def test_a_purely_linear_mixture_gives_coefficient_times_value(model):
    X, _ = people()
    fitted = model.fitted_model
    members = fitted.mixture.members.values()
    with_linear = next(one.model for one in members if one.model.coefficients is not None)
    hazards = replace(with_linear, trees=None)
    alone = Mixture({LINEAR: Member(1.0, hazards)}, fitted.mixture.design)
    linear = replace(fitted, mixture=alone)
    found = linear.shap_values(features(model, X), np.array([1.0]))[..., 0]
    design = alone.design
    z = design.matrix(features(model, X).values)
    for feature in range(X.shape[1]):
        own = [column for column, of in enumerate(design.feature) if of == feature]
        expected = z[:, own] @ hazards.coefficients.mean(axis=0)[:, own].T
        assert_allclose(found[:, :, feature], expected, atol=1e-12)
    assert_allclose(found[:, :, -2], 0)  # The time has no part in it.
    level = (linear.interval_shares(1.0) * hazards.levels.mean(axis=0)).sum(axis=1)
    assert_allclose(found[:, :, -1], np.tile(level, (len(X), 1)))


def test_irrelevant_features_contribute_least(model):
    X, _ = people()
    importance = pd.Series(model.feature_importances_, index=X.columns)
    assert_allclose(importance.sum(), 1)
    assert importance["city"] > importance.drop("city").min()
    # Mean absolute contributions at four intervals, on fewer people where there are many models.
    mixture = model.fitted_model
    rows = np.unique(np.linspace(0, len(X) - 1, 256).astype(int))
    rows = rows[np.linspace(0, 255, 64).astype(int)]
    again = mixture.with_importances(features(model, X).values[rows])
    assert_array_equal(again.importance, mixture.importance)


def test_importances_without_anything_to_learn():
    X, y = people()
    constant = X.assign(city=0.0, x0=1.0, x1=1.0, x2=1.0)
    model = hazards("xgboost").fit(constant, y)
    assert_allclose(model.feature_importances_, 1 / 4)


# ------------------------------------------------------------------------------------ attributes
def test_the_heaviest_trees_are_shown(model):
    mixture = model.fitted_model.mixture
    weights = {
        kind: member.weight
        for kind, member in mixture.members.items()
        if member.model.trees is not None
    }
    heaviest = mixture.members[max(weights, key=weights.get)].model
    assert model.booster_ is heaviest.trees.evaluator.model
    assert model.n_estimators_ == heaviest.trees.n_rounds
    assert_allclose(sum(model.member_weights_.values()), 1)


def test_predictions_are_the_weighted_curves_of_the_members(model):
    X, _ = people()
    mixture = model.fitted_model
    values = features(model, X[:10]).values
    knots = mixture.curves.knots
    total = 0.0
    for weight, one in mixture.mixture.members.values():
        alone = Mixture({"one": Member(1.0, one)}, mixture.mixture.design)
        total = total + weight * alone.incidence(values)
    found = model.predict_cumulative_incidence(X[:10], knots[1:])
    assert_allclose(found[:, 1:].transpose(1, 2, 0), total[:, 1:], atol=1e-12)


def test_a_member_is_the_mean_margin_of_its_models(model):
    X, _ = people()
    mixture = model.fitted_model.mixture
    values = features(model, X[:10]).values
    design = mixture.design.matrix(values)
    member = next(one for _, one in mixture.members.values() if one.trees is not None)
    n_models, n_causes, n_intervals = member.levels.shape
    assert n_models == mixture.n_models == 15  # Five folds, drawn three times.
    rows = crossed_rows(values, np.arange(n_intervals))
    trees = member.trees.evaluator.sum_of_trees(rows)
    if trees.shape[1] == n_models * n_causes:
        by_model = trees.reshape(len(rows), n_models, n_causes).transpose(1, 2, 0)
    else:  # The sum of all models, the event-free state first.
        by_model = np.repeat((trees[:, 1:] - trees[:, :1]).T[None] / n_models, n_models, axis=0)
    by_model = by_model.reshape(n_models, n_causes, len(values), n_intervals).swapaxes(2, 3)
    linear = 0.0
    if member.coefficients is not None:
        linear = (member.coefficients @ design.T)[:, :, None]
    expected = (member.levels[..., None] + linear + by_model).mean(axis=0)
    for engine_rows in (0, 10**9):
        found = member.margin(values, design, engine_rows=engine_rows)
        assert_allclose(found, expected, atol=1e-5)

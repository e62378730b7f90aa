"""Bands of curves: their formula, what they are made from, and who has none."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import t as student

from survival_objectives import HazardBoost, SurvivalBoost, load, recalibrate
from survival_objectives._models.bands import Limit
from survival_objectives.datasets import make_competing_risks

DATA = make_competing_risks(400, n_causes=2, random_state=0)
TIMES = np.array([0.0, 0.3, 1.0, 2.0])
FEW = {"n_estimators": 10, "n_folds": 3, "n_repeats": 2, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def model():
    return HazardBoost("lightgbm", **FEW).fit(DATA.X, DATA.y)


@pytest.mark.parametrize("later", [False, True])
def test_limits_follow_the_formula(later):
    generator = np.random.default_rng(0)
    by_model = generator.dirichlet([3, 2, 1], size=(6, 4, 5)).transpose(0, 1, 3, 2)
    curves = by_model.mean(axis=0)
    found = Limit(0.8, later, 3, np.array([30, 50, 20])).of(curves, by_model)
    n, events = 100, [70, 50, 20]
    for i, k, t in np.ndindex(*curves.shape):

        def g(p):
            return np.log((p + 3 / n) / (1 - p + 3 / n))

        own = g(by_model[:, i, k, t]).reshape(2, 3)
        squares = np.sum((own - own.mean(axis=1, keepdims=True)) ** 2)
        s = np.sqrt((3 - 1) / (3 * 2) * squares + 20 / events[k])
        width = 1.2 * student.ppf(0.9, 4) * s
        moved = g(curves[i, k, t]) + (width if later == (k == 0) else -width)
        low, high = 0.0, 1.0
        for _ in range(60):  # The inverse of g, within probabilities.
            middle = (low + high) / 2
            low, high = (middle, high) if g(middle) < moved else (low, middle)
        assert_allclose(found[i, k, t], low, atol=1e-9)


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm", "catboost"])
def test_models_of_the_folds_average_to_the_model(engine):
    model = HazardBoost(engine, linear=False, **{**FEW, "n_estimators": 5}).fit(DATA.X, DATA.y)
    mixture = model.fitted_model.mixture
    trees = mixture.members["trees"].model
    assert trees.trees is not None
    values = DATA.X[:20].to_numpy(np.float32)
    by_model = trees.margins_by_model(values, None)
    assert len(by_model) == 6
    assert by_model.std(axis=0).min() > 0
    assert_allclose(by_model.mean(axis=0), trees.margin(values, None), atol=1e-5)


def test_limits_enclose_the_estimate(model):
    X = DATA.X[:50]
    plain = model.predict_cumulative_incidence(X, TIMES)
    band = model.predict_cumulative_incidence(X, TIMES, confidence=0.9)
    assert_array_equal(band.estimate, plain)
    assert_array_equal(band.lower[:, :, 0], plain[:, :, 0])  # All are event-free at 0.
    assert (band.lower[:, :, 1:] < plain[:, :, 1:]).all()
    assert (band.upper[:, :, 1:] > plain[:, :, 1:]).all()
    assert band.lower.min() >= 0
    assert band.upper.max() <= 1
    wider = model.predict_survival_function(X, TIMES, confidence=0.99)
    assert (wider.upper[:, 1:] > band.upper[:, 0, 1:]).all()
    cause = model.predict_cumulative_incidence(X, TIMES, cause=2, confidence=0.9, as_frame=True)
    assert isinstance(cause.lower, pd.DataFrame)
    assert_allclose(cause.lower.to_numpy(), band.lower[:, 2])
    proba = model.predict_proba(X, TIMES[2], confidence=0.9)
    assert_allclose(proba.upper, band.upper[:, :, 2])
    hazard = model.predict_cumulative_hazard_function(X, TIMES, confidence=0.9)
    assert_allclose(hazard.upper, -np.log(band.lower[:, 0]))


def test_limits_of_times_are_those_of_the_curve(model):
    X = DATA.X[:20]
    band = model.predict_quantile(X, 0.3, confidence=0.8)
    assert ((band.lower < band.estimate) & (band.estimate <= band.upper)).all()
    for person, time in enumerate(band.lower):
        curve = model.predict_survival_function(X[person : person + 1], [time], confidence=0.8)
        assert_allclose(curve.lower, 0.7, atol=5e-3)
    grid = np.linspace(0, 2, 2001)
    band = model.predict_restricted_mean_time(X, 2.0, cause=1, confidence=0.8)
    curves = model.predict_cumulative_incidence(X, grid, cause=1, confidence=0.8)
    for area, curve in zip(band, curves, strict=True):
        assert_allclose(area, np.trapezoid(curve, grid, axis=1), rtol=2e-2)


def test_a_saved_model_has_the_same_bands(model, tmp_path):
    model.save(tmp_path / "model")
    kept = load(tmp_path / "model").predict_survival_function(DATA.X, TIMES, confidence=0.9)
    assert_array_equal(kept, model.predict_survival_function(DATA.X, TIMES, confidence=0.9))


def test_bands_cover_known_curves():
    data = make_competing_risks(800, n_causes=1, random_state=3)
    model = HazardBoost("lightgbm", random_state=0, n_jobs=1).fit(data.X, data.y)
    new = data.draw(200, random_state=4)
    band = model.predict_survival_function(new.X, TIMES[1:], confidence=0.9)
    true = new.true.cumulative_incidence(new.X, TIMES[1:])[:, 0]
    assert 0.8 < np.mean((band.lower <= true) & (true <= band.upper)) <= 1


def test_who_has_no_bands(model):
    few = {"n_estimators": 3, "random_state": 0}
    other = SurvivalBoost(**few).fit(DATA.X, DATA.y)
    held = HazardBoost(**few).fit(DATA.X[:300], DATA.y[:300], eval_set=(DATA.X[300:], DATA.y[300:]))
    for one in (other, held):
        with pytest.raises(ValueError, match="needs models of folds"):
            one.predict_quantile(DATA.X, confidence=0.9)
    moved = DATA.y.assign(duration=3 * DATA.y["duration"])
    with pytest.raises(ValueError, match="after `recalibrate`"):
        recalibrate(model, DATA.X, moved).predict_survival_function(DATA.X, confidence=0.9)
    with pytest.raises(ValueError, match="beside `conditional_after`"):
        model.predict_proba(DATA.X, conditional_after=1.0, confidence=0.9)
    with pytest.raises(ValueError, match=r"`confidence` must be in \(0, 1\); got 95"):
        model.predict_survival_function(DATA.X, confidence=95)

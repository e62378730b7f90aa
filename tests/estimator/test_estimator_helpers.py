"""Quantiles, restricted means, conditional curves, importances, SHAP values, frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimator_data import boost, engine_margins, with_steps
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._horizons.model import HorizonModel
from survival_objectives.metrics import concordance_index, integrated_brier_score


@pytest.mark.parametrize("quantile", [0.001, 0.1, 0.25, 0.5, 0.9])
def test_quantile_is_the_first_time_that_reaches_it(engine, fitted, data, quantile):
    model = fitted(engine)
    found = model.predict_quantile(data.X, quantile)
    grid = np.linspace(0, 1.2 * model._model.frame.t_max, 8001)[1:]
    reached = 1 - model.predict_survival_function(data.X, grid) >= quantile
    by_grid = np.where(reached.any(axis=1), grid[reached.argmax(axis=1)], np.inf)
    finite = np.isfinite(found)
    assert_array_equal(finite, np.isfinite(by_grid))
    assert_allclose(found[finite], by_grid[finite], atol=grid[1] - grid[0] + 1e-6)
    assert (found[finite] <= by_grid[finite] + 1e-6).all()
    # Exactly there, not only near it.
    inner = np.flatnonzero(finite & (found > 0))
    if len(inner):
        survival = model.predict_survival_function(data.X.iloc[inner], found[inner])
        assert_allclose(1 - np.diag(survival), quantile, atol=1e-9)


@pytest.mark.parametrize("quantile", [0.25, 0.5])
def test_quantile_of_step_functions_is_a_step(engine, fitted, data, quantile):
    model = fitted(engine)
    model = with_steps(model)
    found = model.predict_quantile(data.X, quantile)
    finite = np.isfinite(found)
    for person in np.flatnonzero(finite & (found > 0))[:20]:
        before, at = model.predict_survival_function(
            data.X[person : person + 1],
            [np.nextafter(np.float32(found[person]), np.float32(0)), found[person]],
        )[0]
        assert 1 - before < quantile <= 1 - at


def test_median_is_the_default_quantile(fitted, data):
    model = fitted("lightgbm")
    assert_array_equal(model.predict_quantile(data.X), model.predict_quantile(data.X, 0.5))
    assert np.isinf(model.predict_quantile(data.X, 0.999)).any()


@pytest.mark.parametrize("horizon", [None, 0.7, 100.0])
def test_restricted_mean_time_is_the_integral(engine, fitted, data, horizon):
    model = fitted(engine)
    end = model.times_[-1] if horizon is None else horizon
    breaks = model._model.trees.forest().breaks
    n_cells = 200_000
    # A fine grid up to the latest horizon, where the curves become flat.
    edges = np.linspace(0, min(end, model._model.frame.t_max), n_cells + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    X = data.X[:4]
    curves = model.predict_cumulative_incidence(X, middles)
    width = edges[1] - edges[0]
    last = model.predict_cumulative_incidence(X, end)[:, :, 0]
    integral = curves.sum(axis=2) * width + last * (end - edges[-1])
    parts = [model.predict_restricted_mean_time(X, horizon)] + [
        model.predict_restricted_mean_time(X, horizon, cause=cause) for cause in (1, 2)
    ]
    tolerance = len(breaks) * width
    for state, part in enumerate(parts):
        assert_allclose(part, integral[:, state], atol=tolerance)
    assert_allclose(sum(parts), end, rtol=1e-12)


def test_conditional_curves_are_the_ratio(engine, fitted, data):
    model = fitted(engine)
    known, times = 1.0, np.array([3.0, 0.5, 1.0, 2.0, 0.0])
    given = model.predict_cumulative_incidence(data.X, times, conditional_after=known)
    plain = model.predict_cumulative_incidence(data.X, times)
    at_known = model.predict_proba(data.X, known)
    later = times > known
    assert_allclose(given[:, 0, later], plain[:, 0, later] / at_known[:, :1], rtol=1e-9, atol=1e-12)
    assert_allclose(
        given[:, 1:, later],
        (plain[:, 1:, later] - at_known[:, 1:, None]) / at_known[:, :1, None],
        rtol=1e-9,
    )
    assert_array_equal(given[:, 0, ~later], 1.0)
    assert_array_equal(given[:, 1:, ~later], 0.0)
    assert_allclose(given.sum(axis=1), 1, atol=1e-9)
    survival = model.predict_survival_function(data.X, times, conditional_after=known)
    assert_array_equal(survival, given[:, 0])
    at_start = model.predict_cumulative_incidence(data.X, times, conditional_after=0)
    assert_allclose(at_start, plain, atol=1e-12)


def test_conditional_on_the_impossible_stays_finite(fitted, data, monkeypatch):
    model = fitted("xgboost")
    gone = np.zeros((300, 3, 2))
    gone[:, 1] = 1.0
    monkeypatch.setattr(HorizonModel, "incidence", lambda *_: gone)
    given = model.predict_cumulative_incidence(data.X, [5.0], conditional_after=3.0)
    assert_array_equal(given.sum(axis=1), 1.0)


def test_predict_ranks_risks(engine, data):
    model = boost(engine, n_estimators=100).fit(data.X, data.y)
    risk = model.predict(data.X)
    lost = 1 - model.predict_restricted_mean_time(data.X) / model.times_[-1]
    assert_allclose(risk, lost, atol=0.01)
    event_free = data.true.cumulative_incidence(data.X, [1.0])[:, 0, 0]
    assert np.corrcoef(risk, -event_free)[0, 1] > 0.4  # 300 people; seen 0.49 to 0.58.
    event = data.y["event"].to_numpy() > 0
    curve = np.repeat((1 - risk)[:, None], 1, axis=1)
    y = (event.astype(int), data.y["duration"])
    assert float(np.mean(concordance_index(y, y, curve, [1.0]))) > 0.55


def test_score_is_minus_the_integrated_brier_score(engine, fitted, data):
    model = fitted(engine)
    test = data.draw(200, random_state=1)
    last = min(test.y["duration"].max(), model.times_[-1])
    times = np.linspace(0, last, 102)[1:-1]

    class Marginal:
        def survival(self, times, X=None, *, left=False):
            return model._model.frame.censoring_curve(times, left=left)

    expected = -integrated_brier_score(
        Marginal(),
        test.y,
        model.predict_cumulative_incidence(test.X, times),
        times,
        average="all",
        min_censoring_survival=0.05,
    )
    assert_allclose(model.score(test.X, test.y), expected, rtol=1e-12)
    weight = np.random.default_rng(0).integers(1, 3, 200)
    rows = np.repeat(np.arange(200), weight)
    assert_allclose(
        model.score(test.X, test.y, sample_weight=weight),
        model.score(test.X.iloc[rows], test.y.iloc[rows]),
        rtol=1e-9,
    )


def test_importances_are_shares(engine, fitted, data, mixed):
    for columns, X in (("numbers", data.X), ("mixed", mixed[0])):
        shares = fitted(engine, columns).feature_importances_
        assert shares.shape == (X.shape[1],)
        assert (shares >= 0).all()
        assert_allclose(shares.sum(), 1)


@pytest.mark.parametrize("columns", ["numbers", "mixed"])
def test_shap_values_sum_to_the_margins(engine, fitted, data, mixed, columns):
    X = (mixed[0] if columns == "mixed" else data.X)[:30]
    model = fitted(engine, columns)
    values = model.shap_values(X, 1.0)
    margin = engine_margins(model, X, [1.0])[:, 0]
    if engine == "catboost":
        margin = margin[:, 1:] - margin[:, :1]
    assert values.shape == (30, 2, X.shape[1] + 2)
    assert_allclose(values.sum(axis=2), margin, atol=1e-5)
    # Features matter, and so does the time.
    assert (np.abs(values[:, :, :-1]).max(axis=(0, 1)) > 0).sum() >= 4


# -------------------------------------------------------------------------------------- frames
def test_frames_keep_index_and_name_columns(engine, fitted, data):
    model = fitted(engine)
    X = data.X[:3].set_axis(["ann", "bob", "cyd"])
    times = [2.0, 1.0]
    frame = model.predict_cumulative_incidence(X, times, as_frame=True)
    assert list(frame.index) == ["ann", "bob", "cyd"]
    assert frame.columns.names == ["event", "time"]
    curves = model.predict_cumulative_incidence(X, times)
    for position, event in enumerate(model.event_ids_):
        assert_array_equal(frame[event].to_numpy(), curves[:, position])
        assert list(frame[event].columns) == times
    survival = model.predict_survival_function(X, times, as_frame=True)
    assert survival.columns.name == "time"
    assert list(survival.index) == ["ann", "bob", "cyd"]
    pd.testing.assert_series_equal(survival[1.0], frame[0][1.0])


def test_frames_by_default_times_and_other_inputs(fitted, data):
    model = fitted("lightgbm")
    frame = model.predict_survival_function(data.X.to_numpy()[:2], as_frame=True)
    assert_array_equal(frame.columns, model.times_)
    assert list(frame.index) == [0, 1]
    polars = pl.DataFrame(data.X[:2].to_dict("list"))
    assert_array_equal(model.predict_survival_function(polars, as_frame=True), frame)
    given = model.predict_survival_function(data.X[:2], as_frame=True, conditional_after=2.0)
    assert (given.loc[:, given.columns <= 2.0] == 1).all(axis=None)


def test_default_times_are_an_even_grid_to_the_latest_horizon(fitted, data):
    model = fitted("lightgbm")
    assert model.times_[0] == 0
    assert_allclose(np.diff(model.times_, 2), 0, atol=1e-12)
    assert_allclose(model.times_[-1], np.quantile(data.y["duration"], 0.99), rtol=0.01)
    assert model.times_[-1] == float(f"{model.times_[-1]:.3g}")  # No one's own time.

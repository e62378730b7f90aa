"""Targets that weights and the model of the events make together, `censoring="doubly-robust"`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from estimator_data import boost, same_booster, with_checkpoints

from survival_objectives import load
from survival_objectives._horizons.settings import METHODS
from survival_objectives._process.checkpoints import Checkpoints
from survival_objectives.adapters.external_memory import fit_external
from survival_objectives.report._page import _CENSORED

TIMES = np.linspace(0.2, 3.0, 15)
ENGINES = ("xgboost", "lightgbm")


def fails_where_weights_do(n_samples, seed, n_causes=1):
    """People at low risk are censored early, so people who stay are not informative about them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4))
    rate = np.exp(-1 + 0.9 * X[:, 0] + 0.6 * np.abs(X[:, 1]))
    event_time = rng.exponential(size=n_samples) / rate
    censoring_time = rng.exponential(size=n_samples) / np.exp(-0.3 - 1.3 * X[:, 0])
    cause = rng.integers(1, n_causes + 1, n_samples)
    event = np.where(event_time <= censoring_time, cause, 0)
    y = {"event": event, "duration": np.minimum(event_time, censoring_time)}
    return pd.DataFrame(X, columns=list("abcd")), pd.DataFrame(y), rate


def robust(engine="xgboost", **own):
    return boost(engine, **{"censoring": "doubly-robust", "n_estimators": 100, **own})


def error(model, n_causes=1):
    X, _, rate = fails_where_weights_do(500, 1, n_causes)
    truth = np.exp(-rate[:, None] * TIMES)
    return np.mean((model.predict_survival_function(X, TIMES) - truth) ** 2)


@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize("engine", ENGINES)
def test_it_repairs_what_weights_break(engine, n_causes):
    X, y, _ = fails_where_weights_do(1500, 0, n_causes)
    weighted = robust(engine, censoring="boosted").fit(X, y)
    model = robust(engine).fit(X, y)
    assert error(model, n_causes) < 0.5 * error(weighted, n_causes)
    assert model.censoring_method_ == "doubly-robust"
    assert model.refreshed_rounds_ == list(range(10, 100, 10))
    # The censoring model has a head start of five times as many rounds.
    assert model.censoring_.survival(np.ones(2), X[:2]).shape == (2,)


@pytest.mark.parametrize("people_per_turn", [None, 800])
def test_from_disk(people_per_turn):
    X, y, _ = fails_where_weights_do(1500, 0)
    batches = [(X[a : a + 400], y[a : a + 400]) for a in range(0, 1500, 400)]
    model = robust()
    fit_external(model, batches, people_per_turn=people_per_turn)
    weighted = robust(censoring="boosted").fit(X, y)
    assert error(model) < 0.5 * error(weighted)


@pytest.mark.parametrize("engine", ENGINES)
def test_whole_units_sample_weights_and_files(engine, tmp_path):
    X, y, _ = fails_where_weights_do(600, 0, 2)
    y["duration"] = np.ceil(4 * y["duration"])
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    model = robust(engine, n_estimators=40).fit(X, y, sample_weight=weight)
    repeated = np.repeat(np.arange(len(X)), weight)
    again = robust(engine, n_estimators=40).fit(X.iloc[repeated], y.iloc[repeated])
    curves = model.predict_cumulative_incidence(X, [1.0, 4.0, 9.0])
    other = again.predict_cumulative_incidence(X, [1.0, 4.0, 9.0])
    assert np.mean(np.abs(curves - other)) < 0.05  # Other horizons are drawn.
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_cumulative_incidence(X, [1.0, 4.0, 9.0]), curves)
    assert loaded.censoring_method_ == "doubly-robust"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_interrupted_training_is_continued_as_it_would_have_gone_on(engine, monkeypatch):
    X, y, _ = fails_where_weights_do(400, 0, 2)
    models, states = [], []
    for state in (None, 1):
        start = None if state is None else states[state]
        checkpoints = Checkpoints(start, 10, states.append)
        with monkeypatch.context() as patch:
            with_checkpoints(patch, checkpoints)
            models.append(robust(engine, n_estimators=50).fit(X, y))
    assert same_booster(*models)
    assert models[0].refreshed_rounds_ == models[1].refreshed_rounds_


@pytest.mark.parametrize("engine", ENGINES)
def test_a_warm_start_goes_on_with_both_models(engine):
    X, y, _ = fails_where_weights_do(1500, 0)
    model = robust(engine, warm_start=True, n_estimators=60).fit(X, y)
    model.set_params(n_estimators=100)
    model.fit(X, y)
    assert model.n_estimators_ == 100
    assert model.refreshed_rounds_[0] == 60
    assert error(model) < 0.5 * error(robust(engine, censoring="boosted").fit(X, y))


def test_no_one_censored_needs_no_model_of_censoring():
    X, y, _ = fails_where_weights_do(300, 0, 2)
    y["event"] = y["event"].clip(lower=1)
    model = robust(n_estimators=20).fit(X, y)
    assert same_booster(model, robust(n_estimators=20, censoring="kaplan-meier").fit(X, y))
    assert model.refreshed_rounds_ == []


def test_horizons_of_the_users_own():
    X, y, _ = fails_where_weights_do(400, 0, 2)

    def late(generator, n_samples, n_horizons, target):
        return generator.uniform(0, 2 * target.duration.max(), (n_samples, n_horizons))

    model = robust(n_estimators=30, horizon_sampler=late).fit(X, y)
    assert np.isfinite(model.predict_cumulative_incidence(X, TIMES)).all()


def test_the_report_has_a_sentence_for_every_method():
    assert set(_CENSORED) == {*METHODS, "hazards", "completed"}


def test_catboost_says_why_not():
    X, y, _ = fails_where_weights_do(100, 0)
    with pytest.raises(ValueError, match=r"losses of catboost do not take\. Use another engine"):
        robust("catboost").fit(X, y)

"""Wrong parameters and data are refused before training, in words; progress and engines."""

from __future__ import annotations

import importlib.util
import logging
import re

import numpy as np
import pandas as pd
import pytest
from estimator_data import boost, simulated

from survival_objectives import HazardBoost, _training
from survival_objectives._engines import protocol

REFUSED = [
    ({"engine": "lightgdm"}, ValueError, "`engine` is 'lightgdm'; choose from 'xgboost'"),
    ({"n_estimators": 0}, ValueError, "`n_estimators` must be an integer from 1 to 1000000; got 0"),
    ({"n_estimators": 10.0}, TypeError, "`n_estimators` must be an integer"),
    ({"n_estimators": True}, TypeError, "`n_estimators` must be an integer"),
    ({"learning_rate": 2}, ValueError, "`learning_rate` must be a number from 1e-06 to 1; got 2"),
    ({"learning_rate": 0}, ValueError, "`learning_rate`"),
    ({"learning_rate": "fast"}, TypeError, "`learning_rate`"),
    ({"max_depth": 0}, ValueError, "`max_depth`"),
    ({"max_depth": "deep"}, TypeError, "`max_depth`"),
    ({"n_horizons": 0}, ValueError, "`n_horizons`"),
    ({"horizon_sampler": "gaussian"}, ValueError, "`horizon_sampler` is 'gaussian'"),
    ({"refresh_every": -1}, ValueError, "`refresh_every`"),
    ({"censoring": "cox"}, ValueError, "`censoring` is 'cox'"),
    ({"monotone": "yes"}, TypeError, "`monotone` must be True or False; got 'yes'"),
    ({"warm_start": 1}, TypeError, "`warm_start` must be True or False"),
    ({"early_stopping_rounds": 0}, ValueError, "`early_stopping_rounds`"),
    ({"validation_fraction": 1.0}, ValueError, "`validation_fraction`"),
    ({"min_censoring_survival": 0.0}, ValueError, "`min_censoring_survival`"),
    ({"min_leaf_people": -1}, ValueError, "`min_leaf_people`"),
    ({"min_leaf_people": np.nan}, ValueError, "`min_leaf_people`"),
    ({"min_leaf_people": "many"}, TypeError, "`min_leaf_people`"),
    ({"min_split_gain": -1}, ValueError, "`min_split_gain`"),
    ({"min_split_gain": "2"}, TypeError, "`min_split_gain`"),
    ({"max_features": 0.0}, ValueError, "`max_features`"),
    ({"horizon_max": 0.0}, ValueError, "`horizon_max`"),
    ({"horizon_max": np.inf}, ValueError, "`horizon_max`"),
    ({"random_state": "seed"}, TypeError, "`random_state`"),
    ({"random_state": -1}, ValueError, "`random_state`"),
    ({"n_jobs": 1.5}, TypeError, "`n_jobs`"),
    ({"engine_params": [1]}, TypeError, "`engine_params` must be a dict"),
]


@pytest.fixture
def no_training(monkeypatch):
    def train(*arguments, **options):
        pytest.fail("Training began.")

    monkeypatch.setattr(_training, "trained", train)


@pytest.mark.parametrize(("parameters", "error", "words"), REFUSED)
@pytest.mark.usefixtures("no_training")
def test_bad_parameters_are_refused_before_training(parameters, error, words, data):
    model = boost("lightgbm").set_params(**parameters)
    with pytest.raises(error, match=words):
        model.fit(data.X, data.y)
    # As in scikit-learn, it is `fit` that complains, and it changes nothing.
    assert vars(model) == {**boost("lightgbm").get_params(), **parameters}


def test_unknown_parameters_are_refused():
    with pytest.raises(TypeError, match="n_iter"):
        HazardBoost(n_iter=3)
    with pytest.raises(ValueError, match="Invalid parameter 'n_iter'"):
        HazardBoost().set_params(n_iter=3)


def bad_data(data):
    X, y = data.X, data.y
    event, duration = y["event"].to_numpy(), y["duration"].to_numpy()
    infinite = X.copy()
    infinite.iloc[3, 1] = np.inf
    return {
        "X and y differ": ((X[:10], y), ValueError, "`X` has 10 rows but `y` has 300"),
        "event and duration differ": ((X, (event[:5], duration)), ValueError, "`event` has 5"),
        "negative duration": ((X, (event, -duration)), ValueError, "counted from 0"),
        "missing duration": ((X, (event, duration * np.nan)), ValueError, "`duration` is nan"),
        "negative label": ((X, (event - 1, duration)), ValueError, "`event` is -1"),
        "swapped": ((X, (duration, event)), ValueError, "swap the two"),
        "all censored": ((X, (0 * event, duration)), ValueError, "All 300 people are censored"),
        "one column": ((X, duration), ValueError, "is not understood"),
        "infinite feature": ((infinite, y), ValueError, "inf at row 3, column 'x1'"),
        "free text": (
            (X.assign(name=[f"person {row}" for row in range(len(X))]), y),
            TypeError,
            "'name'.*astype\\('category'\\)",
        ),
        "one dimension": ((X["x0"].to_numpy(), y), ValueError, "two dimensions"),
        "twice the name": ((pd.concat([X, X], axis=1), y), ValueError, "more than once"),
        "short weights": ((X, y, [1.0]), ValueError, "`sample_weight` has 1 values"),
        "negative weight": ((X, y, -np.ones(300)), ValueError, "finite and >= 0"),
        "no weight": ((X, y, np.zeros(300)), ValueError, "All 300 values"),
        "weightless events": ((X, y, (event == 0) * 1.0), ValueError, "are censored"),
        "eval_set": ((X, y, None, X), ValueError, r"`eval_set` must be a pair \(X, y\)"),
        "columns of eval_set": (
            (X, y, None, (X[["x0"]], y)),
            ValueError,
            r"`eval_set`: `X` lacks the columns \['x1', 'x2', 'x3'\]",
        ),
        "rows of eval_set": (
            (X, y, None, (X[:5], y)),
            ValueError,
            "`eval_set`: `X` has 5 rows",
        ),
        "labels of eval_set": (
            (X, y, None, (X, (event + 5, duration))),
            ValueError,
            "`eval_set`: `event` has the label 5",
        ),
    }


@pytest.mark.parametrize("case", bad_data(simulated(300)))
@pytest.mark.usefixtures("no_training")
def test_bad_data_is_refused_before_training(case, data):
    arguments, error, words = bad_data(data)[case]
    model = boost("lightgbm")
    held_out = {"eval_set": arguments[3]} if len(arguments) > 3 else {}
    with pytest.raises(error, match=words):
        model.fit(*arguments[:3], **held_out)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda m, X: m.predict_survival_function(X, [1, -2]), ValueError, "-2.0 at position 1"),
        (lambda m, X: m.predict_survival_function(X, [np.nan]), ValueError, "nan at position 0"),
        (lambda m, X: m.predict_survival_function(X, []), ValueError, "`times` is empty"),
        (lambda m, X: m.predict_survival_function(X, "soon"), TypeError, "`times` must be num"),
        (lambda m, X: m.predict_survival_function(X, [[1.0, 2.0]]), ValueError, "one-dimensional"),
        (lambda m, X: m.predict_proba(X, [1.0, 2.0]), ValueError, "must be one number"),
        (lambda m, X: m.predict_proba(X, -1.0), ValueError, "-1.0"),
        (lambda m, X: m.predict_quantile(X, 1.5), ValueError, "`quantile`"),
        (lambda m, X: m.predict_quantile(X, 0), ValueError, "`quantile`"),
        (lambda m, X: m.predict_restricted_mean_time(X, -1.0), ValueError, "-1.0"),
        (lambda m, X: m.predict_restricted_mean_time(X, cause=0), ValueError, "`cause` is 0"),
        (
            lambda m, X: m.predict_survival_function(X, 1.0, conditional_after=-1),
            ValueError,
            "-1.0",
        ),
        (
            lambda m, X: m.predict_survival_function(X, 1.0, conditional_after=[1, 2]),
            ValueError,
            "`conditional_after`",
        ),
        (lambda m, X: m.shap_values(X, []), ValueError, "`times` is empty"),
        (lambda m, X: m.partial_dependence(X, "x9"), ValueError, "choose from 'x0', 'x1'"),
        (lambda m, X: m.predict(X[["x0"]]), ValueError, "lacks the columns"),
        (lambda m, X: m.predict(X.assign(x0="a")), ValueError, "'x0' was a number in training"),
        (lambda m, X: m.score(X, (np.full(300, 7), np.ones(300))), ValueError, "label 7"),
        (lambda m, X: m.score(X[:9], (np.ones(300), np.ones(300))), ValueError, "9|300"),
    ],
)
def test_bad_questions_are_refused(ask, error, words, fitted, data):
    with pytest.raises(error, match=words):
        ask(fitted("lightgbm"), data.X)


@pytest.mark.filterwarnings("ignore:No one is censored")
def test_no_one_left_to_learn_from():
    with pytest.raises(ValueError, match="only one class to learn"):
        boost("lightgbm", horizon_sampler=lambda _, *shape: np.full(shape[:2], 1.0)).fit(
            np.zeros((3, 1)), ([1] * 3, [1.0] * 3)
        )
    with pytest.raises(ValueError, match="All durations are 0"):
        boost("lightgbm").fit(np.zeros((3, 1)), ([1, 1, 1], [0.0, 0.0, 0.0]))


# ------------------------------------------------------------------------------------- progress
@pytest.mark.parametrize("early_stopping_rounds", [None, 20])
def test_progress_shows_rounds_loss_and_time_left(engine, data, capfd, early_stopping_rounds):
    boost(
        engine,
        verbose=1,
        n_estimators=25,
        refresh_every=10,
        early_stopping_rounds=early_stopping_rounds,
    ).fit(data.X, data.y)
    out, shown = capfd.readouterr()
    assert out == ""
    assert shown.endswith("\n")
    lines = [line.strip() for line in re.split(r"[\r\n]+", shown) if line.strip()]
    name = "loss" if early_stopping_rounds is None else "held-out loss"
    pattern = rf"(\d+)/25 rounds  {name} (\d\.\d{{4}})  \d+ s, \d+ s left"
    matches = [re.fullmatch(pattern, line) for line in lines]
    assert [int(match[1]) for match in matches] == [10, 20, 25]
    losses = [float(match[2]) for match in matches]
    assert losses[-1] < losses[0]


def test_silent_by_default(engine, data, capfd):
    boost(engine, early_stopping_rounds=5).fit(data.X, data.y).predict(data.X)
    assert capfd.readouterr() == ("", "")


# -------------------------------------------------------------------------------------- engines
def without(monkeypatch, *missing):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name in missing else find_spec(name, *rest),
    )


def test_a_missing_engine_is_replaced_with_a_log_line(monkeypatch, data, caplog):
    without(monkeypatch, "lightgbm")
    with caplog.at_level(logging.WARNING, logger="survival_objectives"):
        model = boost("lightgbm", n_estimators=2).fit(data.X, data.y)
    assert model.engine_ == "xgboost"
    assert model.engine == "lightgbm"
    assert "lightgbm is not installed; training with xgboost instead." in caplog.messages
    # Training goes on with the engine that began.
    model.set_params(warm_start=True, n_estimators=4).fit(data.X, data.y)
    assert model.n_estimators_ == 4
    without(monkeypatch, "lightgbm", "xgboost")
    assert boost("xgboost", n_estimators=2).fit(data.X, data.y).engine_ == "catboost"


def test_without_an_engine_the_extra_is_named(monkeypatch, data):
    without(monkeypatch, *protocol.ENGINES)
    with pytest.raises(ImportError, match="pip install catboost"):
        boost("catboost").fit(data.X, data.y)


def test_an_installed_engine_is_taken_without_a_word(engine, data, caplog):
    with caplog.at_level(logging.WARNING, logger="survival_objectives"):
        assert boost(engine, n_estimators=1).fit(data.X, data.y).engine_ == engine
    assert caplog.messages == []

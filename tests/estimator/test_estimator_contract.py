"""The estimator does what DESIGN.md part 1 promises, on every engine."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimator_data import boost, engine_margins, simulated
from numpy.testing import assert_allclose, assert_array_equal
from sksurv.util import Surv

from survival_objectives import SurvivalBoost
from survival_objectives._people import check_survival_target
from survival_objectives.marginal import aalen_johansen


def test_signature_is_the_one_of_the_contract():
    parameters = inspect.signature(SurvivalBoost).parameters
    promised = (
        "engine n_estimators learning_rate max_depth n_horizons horizon_sampler refresh_every "
        "censoring monotone early_stopping_rounds validation_fraction min_censoring_survival "
        "random_state n_jobs verbose engine_params"
    )
    assert set(promised.split()) <= set(parameters)
    defaults = {
        "engine": "xgboost",
        "censoring": "boosted",
        "monotone": True,
        "early_stopping_rounds": None,
        "validation_fraction": 0.1,
        "random_state": None,
        "n_jobs": None,
        "verbose": 0,
        "engine_params": None,
    }
    assert {name: parameters[name].default for name in defaults} == defaults


def test_snippet_of_the_contract(engine, data):
    X, y, times = data.X, data.y, [0.5, 1.0, 2.0]
    model = SurvivalBoost(
        engine=engine,
        n_estimators=12,
        learning_rate=0.1,
        max_depth=3,
        n_horizons=3,
        horizon_sampler="stratified",
        refresh_every=5,
        monotone=True,
        early_stopping_rounds=None,
        validation_fraction=0.1,
        min_censoring_survival=0.05,
        random_state=None,
        n_jobs=1,
        verbose=0,
        engine_params=None,
    )
    assert model.fit(X, y, sample_weight=None, eval_set=None) is model
    incidence = model.predict_cumulative_incidence(X, times=times)
    assert incidence.shape == (300, 3, 3)
    assert incidence.dtype == np.float64
    assert_allclose(incidence.sum(axis=1), 1, atol=1e-12)
    assert_array_equal(model.predict_survival_function(X, times=times), incidence[:, 0])
    assert_array_equal(model.predict_proba(X, 1.0), incidence[:, :, 1])
    assert model.predict(X).shape == (300,)
    assert isinstance(model.score(X, y), float)
    assert model.predict_cumulative_incidence(X).shape == (300, 3, len(model.times_))
    assert_array_equal(model.event_ids_, [0, 1, 2])
    assert_array_equal(model.feature_names_in_, X.columns)
    assert model.n_features_in_ == 4
    module = {"lightgbm": "lightgbm", "xgboost": "xgboost", "catboost": "catboost"}[engine]
    assert type(model.booster_).__module__.startswith(module)


def test_one_row_keeps_its_dimension(engine, fitted, data):
    model = fitted(engine)
    assert model.predict_proba(data.X[:1], 1.0).shape == (1, 3)
    assert model.predict_survival_function(data.X[:1], 1.0).shape == (1, 1)
    assert model.predict_cumulative_incidence(data.X[:1], [1.0]).shape == (1, 3, 1)
    assert model.predict(data.X[:1]).shape == (1,)


@pytest.mark.parametrize("n_causes", [1, 2, 3])
def test_any_number_of_causes(engine, n_causes):
    people = simulated(200, n_causes=n_causes)
    model = boost(engine).fit(people.X, people.y)
    assert_array_equal(model.event_ids_, range(n_causes + 1))
    assert model.predict_proba(people.X, 1.0).shape == (200, n_causes + 1)


def test_boolean_events_are_one_cause(engine, data):
    event = data.y["event"].to_numpy() > 0
    model = boost(engine).fit(data.X, (event, data.y["duration"]))
    same = boost(engine).fit(data.X, (event.astype(int), data.y["duration"]))
    assert_array_equal(model.event_ids_, [0, 1])
    assert_array_equal(model.predict(data.X), same.predict(data.X))


def test_labels_keep_their_names(engine, data, fitted):
    labels = np.array([0, 3, 7])[data.y["event"]]
    model = boost(engine, n_estimators=30).fit(data.X, (labels, data.y["duration"]))
    assert_array_equal(model.event_ids_, [0, 3, 7])
    assert_array_equal(model.predict(data.X), fitted(engine).predict(data.X))
    assert model.score(data.X, (labels, data.y["duration"])) == fitted(engine).score(data.X, data.y)
    lost = model.predict_restricted_mean_time(data.X, 1.0, cause=7)
    assert_array_equal(lost, fitted(engine).predict_restricted_mean_time(data.X, 1.0, cause=2))
    with pytest.raises(ValueError, match="choose from 0, 3, 7"):
        model.predict_restricted_mean_time(data.X, cause=2)


def test_all_forms_of_outcomes_are_one(engine, data, fitted):
    event, duration = data.y["event"].to_numpy(), data.y["duration"].to_numpy()
    structured = np.empty(len(event), dtype=[("event", "i4"), ("time", "f8")])
    structured["event"], structured["time"] = event, duration
    expected = fitted(engine).predict(data.X)
    for y in (
        {"event": event, "duration": duration},
        (event, duration),
        np.column_stack([event, duration]),
        structured,
        pl.DataFrame({"event": event, "time": duration}),
    ):
        model = boost(engine, n_estimators=30).fit(data.X, y)
        assert_array_equal(model.predict(data.X), expected)


def test_scikit_survival_outcomes(data):
    event = data.y["event"].to_numpy() > 0
    y = Surv.from_arrays(event, data.y["duration"])
    model = boost("lightgbm").fit(data.X, y)
    same = boost("lightgbm").fit(data.X, (event, data.y["duration"]))
    assert_array_equal(model.predict(data.X), same.predict(data.X))


def test_arrays_and_frames_give_the_same_model(engine, data, fitted):
    expected = fitted(engine).predict_cumulative_incidence(data.X)
    array = data.X.to_numpy()
    by_array = boost(engine, n_estimators=30).fit(array, data.y)
    assert not hasattr(by_array, "feature_names_in_")
    assert by_array.n_features_in_ == 4
    assert_array_equal(by_array.predict_cumulative_incidence(array), expected)
    frame = pl.from_pandas(data.X) if _has_pyarrow() else pl.DataFrame(data.X.to_dict("list"))
    by_polars = boost(engine, n_estimators=30).fit(frame, data.y)
    assert_array_equal(by_polars.predict_cumulative_incidence(frame), expected)
    # A model trained on a frame takes an array with its columns.
    assert_array_equal(fitted(engine).predict_cumulative_incidence(array), expected)


def _has_pyarrow():
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def test_categories_and_missing_values_are_learnt_from(engine, mixed):
    X, y = mixed
    model = boost(engine, n_estimators=60, learning_rate=0.1).fit(X, y)
    person = X.iloc[[0] * 8].copy()
    person["city"] = pd.Categorical([*"abcdefg", None], categories=list("abcdefg"))
    survival = model.predict_survival_function(person, 1.0)[:, 0]
    slow, fast = survival[[0, 2, 4]], survival[[1, 3, 5, 6]]
    assert slow.mean() > fast.mean() + 0.01
    assert np.isfinite(survival).all()
    shares = dict(zip(X.columns, model.feature_importances_, strict=True))
    assert shares["city"] > shares["sex"]


def test_polars_categories_equal_pandas_categories(engine, mixed):
    X, y = mixed
    columns = {
        name: X[name].astype(object).where(X[name].notna(), None).tolist()
        if isinstance(X[name].dtype, pd.CategoricalDtype)
        else X[name].to_numpy()
        for name in X
    }
    frame = pl.DataFrame(columns).with_columns(
        pl.col("city").cast(pl.Enum(list("abcdefg"))), pl.col("sex").cast(pl.Enum(["f", "m"]))
    )
    by_pandas = boost(engine).fit(X, y).predict_cumulative_incidence(X[:20])
    by_polars = boost(engine).fit(frame, y).predict_cumulative_incidence(frame[:20])
    assert_array_equal(by_polars, by_pandas)


def test_category_order_does_not_matter_in_prediction(engine, fitted, mixed):
    X, _ = mixed
    turned = X.copy()
    turned["city"] = turned["city"].cat.reorder_categories(list("gfedcba"))
    model = fitted(engine, "mixed")
    assert_array_equal(model.predict(turned), model.predict(X))


def test_an_unseen_category_counts_as_missing(engine, fitted, mixed):
    X, _ = mixed
    model = fitted(engine, "mixed")
    person, missing = X[:1].copy(), X[:1].copy()
    person["city"] = pd.Categorical(["elsewhere"])
    missing["city"] = pd.Categorical([None], categories=list("abcdefg"))
    with pytest.warns(UserWarning, match="elsewhere"):
        risk = model.predict(person)
    assert_array_equal(risk, model.predict(missing))


def test_boolean_and_integer_columns(engine, data):
    X = data.X.assign(flag=data.X["x0"] > 0, count=np.arange(300) % 5)
    model = boost(engine).fit(X, data.y)
    as_numbers = boost(engine).fit(X.astype(float), data.y)
    assert_array_equal(model.predict(X), as_numbers.predict(X.astype(float)))


@pytest.mark.filterwarnings("ignore:No one is censored")
def test_outcomes_that_are_hard_to_learn_from_still_fit(engine, data):
    """Censoring at the end of the study only, a cause seen once, no censoring, few people."""
    X, event, duration = data.X, data.y["event"].to_numpy(), data.y["duration"].to_numpy()
    full = data.y_uncensored
    closed = (
        np.where(full["duration"] < 2, full["event"], 0),
        np.minimum(full["duration"], 2.0),
    )
    rare = (np.r_[9, event[1:]], duration)
    for people, y in ((X, closed), (X, rare), (X, full), (X[:12], data.y[:12])):
        # By default, 12 people are too few for any split.
        is_tiny = len(people) == 12 and engine != "catboost"
        loose = {"min_leaf_people": 0.1, "min_split_gain": 0.0} if is_tiny else {}
        model = boost(engine, **loose).fit(people, y)
        assert model.n_estimators_ == 20
        curves = model.predict_cumulative_incidence(people)
        assert np.isfinite(curves).all()
        assert_allclose(curves.sum(axis=1), 1, atol=1e-9)
    assert boost(engine).fit(X, rare).predict_proba(X, 1.0).shape == (300, 4)


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])  # CatBoost refuses constant columns.
def test_a_model_without_a_split_is_the_constant(engine, data):
    X = np.zeros((300, 2))
    options = {"horizon_sampler": lambda rng, n, h, y: np.ones((n, h)), "time_smoothing": 0.0}
    model = boost(engine, **options).fit(X, data.y)
    curves = model.predict_cumulative_incidence(X, [0.5, 3.0])
    assert_array_equal(curves[0], curves[-1])
    assert_array_equal(curves[:, :, 0], curves[:, :, 1])
    # Calibrated in time, it is the curve of the population.
    calibrated = boost(engine, **{**options, "time_smoothing": 0.03}).fit(X, data.y)
    population = aalen_johansen(check_survival_target(data.y))([0.5, 3.0]).T
    assert_allclose(
        calibrated.predict_cumulative_incidence(X[:1], [0.5, 3.0])[0], population, atol=0.02
    )
    assert model.n_estimators_ == 20
    assert_allclose(model.feature_importances_, 0.5)
    # Half have had the event at once, or never.
    quantile = float(1 - curves[0, 0, 0])
    assert model.predict_quantile(X[:1], quantile * 0.99) == 0
    assert model.predict_quantile(X[:1], quantile * 1.01) == np.inf


def test_engine_params_win(engine, data):
    name = {"lightgbm": "learning_rate", "xgboost": "learning_rate", "catboost": "learning_rate"}
    own = boost(engine, engine_params={name[engine]: 0.2}).fit(data.X, data.y)
    ours = boost(engine, learning_rate=0.2).fit(data.X, data.y)
    assert_array_equal(own.predict(data.X), ours.predict(data.X))
    assert not np.array_equal(
        own.predict(data.X), boost(engine).fit(data.X, data.y).predict(data.X)
    )


@pytest.mark.parametrize(
    ("engine", "params"),
    [
        ("lightgbm", {"bagging_fraction": 0.5, "bagging_freq": 1, "feature_fraction": 0.5}),
        ("xgboost", {"subsample": 0.5, "colsample_bytree": 0.5, "max_bin": 32}),
        ("xgboost", {"num_parallel_tree": 3}),
        ("catboost", {"bootstrap_type": "Bernoulli", "subsample": 0.5, "rsm": 0.5}),
    ],
)
def test_sampling_by_the_engine_is_reproducible(engine, params, data):
    models = [
        boost(engine, engine_params=params, n_estimators=15).fit(data.X, data.y) for _ in range(2)
    ]
    assert models[0].n_estimators_ == 15
    assert_array_equal(*(model.predict(data.X) for model in models))
    margin = engine_margins(models[0], data.X, [1.0])[:, 0]
    if engine == "catboost":  # A margin for every state.
        margin = margin[:, 1:] - margin[:, :1]
    assert_allclose(models[0].shap_values(data.X, 1.0).sum(axis=2), margin, atol=1e-5)


@pytest.mark.parametrize(
    ("engine", "params"),
    [
        ("lightgbm", {"boosting": "dart"}),
        ("lightgbm", {"linear_tree": True}),
        ("lightgbm", {"linear_trees": True}),
        ("lightgbm", {"boost": "dart"}),
        ("lightgbm", {"data_sample_strategy": "goss"}),
        ("catboost", {"grow_policy": "Lossguide"}),
        ("xgboost", {"booster": "dart"}),
        ("xgboost", {"multi_strategy": "multi_output_tree"}),
        ("xgboost", {"tree_method": "exact"}),
    ],
)
def test_models_that_cannot_be_read_are_refused(engine, params, data):
    ((name, value),) = params.items()
    with pytest.raises(ValueError, match=f"`engine_params` has {name}={value!r}"):
        boost(engine, engine_params=params).fit(data.X, data.y)


def test_all_threads(engine, data):
    model = boost(engine, n_jobs=-1, n_estimators=3).fit(data.X, data.y)
    assert np.isfinite(model.predict(data.X)).all()


def test_censoring_model_is_a_survival_curve(engine, fitted, data):
    model = fitted(engine)
    times = np.linspace(0, model.times_[-1], 30)
    uncensored = model.censoring_.survival(np.tile(times, (300, 1)), data.X)
    assert (np.diff(uncensored, axis=1) <= 1e-9).all()
    assert ((uncensored >= 0) & (uncensored <= 1)).all()
    # It depends on the features, and is right on average.
    assert uncensored[:, 15].std() > 0.01
    marginal = model._model.frame.censoring_curve(times)
    assert_allclose(uncensored.mean(axis=0)[5:25], marginal[5:25], atol=0.12)
    flat = boost(engine, censoring="kaplan-meier").fit(data.X, data.y)
    assert_array_equal(flat.censoring_.survival(times), flat._model.frame.censoring_curve(times))


def test_pandas_is_kept_out_of_the_model(engine, fitted):
    assert not any(isinstance(value, pd.DataFrame) for value in vars(fitted(engine)).values())

"""Mistakes that would train or predict something else without a word."""

import catboost
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives.adapters.catboost import IPCWLoss
from survival_objectives.adapters.lightgbm import IPCWObjective as LightGBMObjective
from survival_objectives.adapters.xgboost import IPCWObjective as XGBoostObjective
from survival_objectives.datasets import make_competing_risks


@pytest.fixture(scope="module")
def data():
    return make_competing_risks(300, n_causes=1, random_state=0)


def test_xgboost_trains_the_same_loss_where_obj_is_forgotten(data):
    objective = XGBoostObjective(data.X, data.y, random_state=0)
    params = {**objective.params, "max_depth": 3, "nthread": 1}
    forgotten = xgb.train(params, objective.dtrain, 10)
    given = xgb.train(params, objective.dtrain, 10, obj=objective)
    curves = [
        objective.predict_survival_function(booster, data.X, [0.5, 1.0])
        for booster in (forgotten, given)
    ]
    np.testing.assert_allclose(*curves, atol=1e-5)


def test_lightgbm_model_of_another_objective_is_refused(data):
    objective = LightGBMObjective(data.X, data.y, random_state=0)
    booster = lgb.train({**objective.params, "num_threads": 1}, objective.train_set, 5)
    with pytest.raises(ValueError, match="LightGBM's own objective 'regression'"):
        objective.predict_survival_function(booster, data.X, [1.0])


def test_catboost_model_of_another_loss_is_refused(data):
    loss = IPCWLoss(data.X, data.y, random_state=0)
    model = catboost.CatBoost(
        {"iterations": 5, "verbose": False, "allow_writing_files": False, "thread_count": 1}
    )
    model.fit(loss.train_pool)
    with pytest.raises(ValueError, match="CatBoost's own loss 'RMSE'"):
        loss.predict_survival_function(model, data.X, [1.0])


def test_refresh_of_another_objective_is_refused_on_xgboost(data):
    trained = XGBoostObjective(data.X, data.y, random_state=0)
    other = XGBoostObjective(data.X, data.y, random_state=1)
    with pytest.raises(ValueError, match="belongs to another objective"):
        xgb.train(
            {**trained.params, "nthread": 1},
            trained.dtrain,
            5,
            obj=trained,
            callbacks=[other.refresh()],
        )
    # Neither objective is left in a state that would spoil the next training.
    xgb.train(other.params, other.dtrain, 2, obj=other, callbacks=[other.refresh()])


def test_refresh_of_another_objective_is_refused_on_lightgbm(data):
    trained = LightGBMObjective(data.X, data.y, random_state=0)
    other = LightGBMObjective(data.X, data.y, random_state=1)
    params = {**trained.params, "objective": trained, "num_threads": 1}
    with pytest.raises(ValueError, match="belongs to another objective"):
        lgb.train(params, trained.train_set, 5, callbacks=[other.refresh()])


@pytest.mark.parametrize(
    ("engine", "alias", "name", "value"),
    [
        ("lightgbm", "eta", "learning_rate", 0.5),
        ("lightgbm", "min_child_samples", "min_data_in_leaf", 4000),
        ("lightgbm", "reg_lambda", "lambda_l2", 100.0),
        ("xgboost", "eta", "learning_rate", 0.5),
        ("xgboost", "reg_lambda", "lambda", 100.0),
    ],
)
@pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")
def test_an_alias_of_the_engine_acts_like_the_name(data, engine, alias, name, value):
    def curves(engine_params):
        model = HazardBoost(
            engine,
            n_estimators=5,
            linear=False,
            random_state=0,
            n_jobs=1,
            engine_params=engine_params,
        )
        return model.fit(data.X, data.y).predict_survival_function(data.X, [1.0])

    np.testing.assert_array_equal(curves({alias: value}), curves({name: value}))
    assert not np.array_equal(curves({alias: value}), curves({}))


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost", "catboost"])
@pytest.mark.parametrize("name", ["n_estimators", "iterations"])
def test_rounds_in_engine_params_point_to_the_estimator(data, engine, name):
    model = HazardBoost(engine, n_estimators=5, engine_params={name: 10})
    with pytest.raises(ValueError, match=f"{name}=10; use `n_estimators`"):
        model.fit(data.X, data.y)


def test_conditioning_needs_monotone_curves(data):
    model = SurvivalBoost(n_estimators=5, monotone=False, n_jobs=1).fit(data.X, data.y)
    with pytest.raises(ValueError, match="needs `monotone=True`"):
        model.predict_cumulative_incidence(data.X, [2.0], conditional_after=1.0)


def test_a_cause_after_the_latest_horizon_is_named(data):
    event = data.y["event"].to_numpy().copy()
    event[data.y["duration"].to_numpy().argmax()] = 3
    y = (event, data.y["duration"])
    with pytest.raises(ValueError, match=r"Cause 3 has no event by horizon_max=1;"):
        HazardBoost(n_estimators=5, horizon_max=1.0).fit(data.X, y)
    # By default the latest horizon reaches it.
    model = HazardBoost(n_estimators=5, n_jobs=1).fit(data.X, y)
    curves = model.predict_cumulative_incidence(data.X, [20.0, 1.01 * data.y["duration"].max()])
    assert (curves[:, -1, 1] > curves[:, -1, 0]).all()


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost", "catboost"])
def test_weights_are_relative_also_in_leaves(engine):
    """Limits count people: 150 people of weight 20 are 150, as those of weight 1/150 are."""
    small = make_competing_risks(150, n_causes=1, random_state=1)
    options = {"n_estimators": 40, "random_state": 0, "n_jobs": 1, "horizon_max": 3.0}

    def spread(weight=None):
        model = SurvivalBoost(engine, **options).fit(small.X, small.y, sample_weight=weight)
        return model.predict(small.X).std()

    assert spread(np.full(150, 20.0)) == spread() == spread(np.full(150, 1 / 150))
    assert spread() > 0.05

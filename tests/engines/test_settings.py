"""Every setting that an engine is given agrees with how models are trained, read, saved and loaded.

`VALUES` has a value that is not the default of each allowed setting, and must name them all. Models
are trained with one setting at a time and with random combinations.
"""

from __future__ import annotations

import importlib

import catboost
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from estimator_data import ENGINES, boost, mixed_columns, simulated
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import load
from survival_objectives._engines.settings import INTERACTION, MONOTONE
from survival_objectives._models import fitted as fitted_models
from survival_objectives._people import check_features
from survival_objectives.adapters import catboost as catboost_adapter
from survival_objectives.adapters import lightgbm as lightgbm_adapter
from survival_objectives.adapters import xgboost as xgboost_adapter
from survival_objectives.losses import probabilities

VALUES = {
    "xgboost": {
        "learning_rate": 0.3,
        "max_depth": 2,
        "max_leaves": 3,
        "grow_policy": "lossguide",
        "min_child_weight": 0.0,
        "gamma": 0.0,
        "max_delta_step": 0.1,
        "subsample": 0.6,
        "sampling_method": "uniform",
        "colsample_bytree": 0.4,
        "colsample_bylevel": 0.5,
        "colsample_bynode": 0.5,
        "lambda": 20.0,
        "alpha": 2.0,
        "max_bin": 7,
        "max_cat_to_onehot": 50,
        "max_cat_threshold": 1,
        "max_cached_hist_node": 2,
        "num_parallel_tree": 2,
        "booster": "gbtree",
        "multi_strategy": "one_output_per_tree",
        "tree_method": "hist",
        "device": "cpu",
    },
    "lightgbm": {
        "learning_rate": 0.3,
        "max_depth": 2,
        "num_leaves": 3,
        "min_data_in_leaf": 60,
        "min_sum_hessian_in_leaf": 1e-3,
        "min_gain_to_split": 0.0,
        "feature_fraction": 0.3,
        "feature_fraction_bynode": 0.5,
        "bagging_fraction": 0.6,
        "bagging_freq": 1,
        "extra_trees": True,
        "lambda_l1": 2.0,
        "lambda_l2": 20.0,
        "max_delta_step": 0.1,
        "path_smooth": 10.0,
        "max_bin": 7,
        "min_data_in_bin": 40,
        "bin_construct_sample_cnt": 50,
        "max_cat_threshold": 1,
        "max_cat_to_onehot": 50,
        "cat_l2": 0.0,
        "cat_smooth": 0.0,
        "min_data_per_group": 1,
        "monotone_constraints_method": "advanced",
        "monotone_penalty": 1.0,
        "histogram_pool_size": 1.0,
        "enable_bundle": False,
        "is_enable_sparse": False,
        "use_missing": False,
        "zero_as_missing": True,
        "boosting": "gbdt",
        "data_sample_strategy": "bagging",
        "device_type": "cpu",
        "tree_learner": "serial",
    },
    "catboost": {
        "learning_rate": 0.3,
        "depth": 2,
        "l2_leaf_reg": 50.0,
        "rsm": 0.3,
        "border_count": 7,
        "feature_border_type": "Uniform",
        "nan_mode": "Max",
        "random_strength": 2.0,
        "bootstrap_type": "Bayesian",
        "bagging_temperature": 2.0,
        "subsample": 0.6,
        "mvs_reg": 1.0,
        "sampling_frequency": "PerTree",
        "leaf_estimation_iterations": 3,
        "leaf_estimation_method": "Gradient",
        "leaf_estimation_backtracking": "No",
        "score_function": "L2",
        "boosting_type": "Ordered",
        "grow_policy": "SymmetricTree",
        "task_type": "CPU",
    },
}
# Defaults by another name, memory and speed, and settings that act together with others only.
WITHOUT_EFFECT = {
    "xgboost": {"sampling_method", "max_cached_hist_node", "booster", "multi_strategy"}
    | {"tree_method", "device", "grow_policy"},
    "lightgbm": {"bagging_freq", "histogram_pool_size", "enable_bundle", "is_enable_sparse"}
    | {"boosting", "data_sample_strategy", "device_type", "tree_learner"},
    "catboost": {"sampling_frequency", "leaf_estimation_backtracking", "grow_policy", "task_type"},
}
SINGLE = [(engine, name) for engine in ENGINES for name in VALUES[engine]]


def adapter(engine):
    return importlib.import_module(f"survival_objectives.adapters.{engine}._engine")


@pytest.fixture(scope="module")
def people():
    """150 people with missing values, with or without categories, and one or two causes."""

    def get(n_causes=2, kind="mixed"):
        data = simulated(150, n_causes=n_causes)
        X, y = mixed_columns(data)
        return (X.drop(columns=["city", "sex"]) if kind == "missing" else X), y

    return get


def train(engine, X, y, params, **options):
    """Chunks of four rounds, loose enough that features and categories are split on."""
    return boost(
        engine,
        **{
            "n_estimators": 12,
            "refresh_every": 4,
            "min_leaf_people": 0.5,
            "min_split_gain": 0.1,
            "engine_params": params,
            **options,
        },
    ).fit(X, y)


@pytest.fixture(scope="module")
def plain(people):
    """Curves of a model without settings of the engine."""
    curves = {}

    def get(engine, kind):
        if (engine, kind) not in curves:
            X, y = people(kind=kind)
            curves[engine, kind] = train(engine, X, y, None).predict_cumulative_incidence(X)
        return curves[engine, kind]

    return get


def assert_consistent(model, X, folder, monkeypatch):
    """One person alone gets the curve of the crowd, and so does a model that was loaded."""
    crowd = model.predict_cumulative_incidence(X)
    for row in (0, 7, 77):
        alone = model.predict_cumulative_incidence(X.iloc[[row]])
        assert_allclose(alone[0], crowd[row], atol=2e-6)
    with monkeypatch.context() as patch:
        for engine_rows in (0, 2**40):
            patch.setattr(fitted_models, "ENGINE_ROWS", engine_rows)
            assert_allclose(model.predict_cumulative_incidence(X), crowd, atol=2e-6)
    model.save(folder)
    loaded = load(folder)
    assert_array_equal(loaded.predict_cumulative_incidence(X), crowd)
    assert_array_equal(loaded.shap_values(X, 1.0), model.shap_values(X, 1.0))
    times = np.full(len(X), 1.0)
    assert_array_equal(loaded.censoring_.survival(times, X), model.censoring_.survival(times, X))
    return crowd


def test_every_allowed_setting_is_tested():
    for engine in ENGINES:
        # Constraints on features have tests of their own.
        allowed = set(adapter(engine).SETTINGS.allowed) - {MONOTONE, INTERACTION}
        assert set(VALUES[engine]) == allowed


@pytest.mark.parametrize(("engine", "name"), SINGLE)
def test_a_setting_is_consistent_and_has_an_effect(
    engine, name, people, plain, tmp_path, monkeypatch
):
    # CatBoost bins its pools beforehand where there are no categories.
    kind = "missing" if engine == "catboost" and name != "boosting_type" else "mixed"
    X, y = people(kind=kind)
    model = train(engine, X, y, {name: VALUES[engine][name]})
    crowd = assert_consistent(model, X, tmp_path / "model", monkeypatch)
    has_effect = not np.array_equal(crowd, plain(engine, kind))
    assert has_effect == (name not in WITHOUT_EFFECT[engine])


def combination(engine, seed):
    """A few settings at random; CatBoost's kinds of sampling exclude each other."""
    rng = np.random.default_rng(seed)
    params = {
        name: VALUES[engine][name]
        for name in rng.permutation(list(VALUES[engine]))[: rng.integers(3, 9)]
    }
    if engine == "catboost":
        for name in ("bootstrap_type", "bagging_temperature", "mvs_reg"):
            params.pop(name, None)
    return params


COMBINED = [(engine, seed) for engine in ENGINES for seed in range(8)]


@pytest.mark.parametrize(("engine", "seed"), COMBINED)
def test_combinations_of_settings_are_consistent(engine, seed, people, tmp_path, monkeypatch):
    X, y = people(n_causes=1 + seed % 2, kind="mixed" if seed % 4 else "missing")
    options = {"monotone": seed % 3 > 0, "censoring": ("boosted", "imputed")[seed % 5 == 4]}
    model = train(engine, X, y, combination(engine, seed), **options)
    assert_consistent(model, X, tmp_path / "model", monkeypatch)


@pytest.mark.parametrize("engine", ENGINES)
def test_training_goes_on_with_settings_of_the_engine(engine, people, tmp_path, monkeypatch):
    X, y = people()
    params = combination(engine, 100)
    model = train(engine, X, y, params, warm_start=True)
    model.set_params(n_estimators=20).fit(X, y)
    assert model.n_estimators_ == 20
    assert_consistent(model, X, tmp_path / "model", monkeypatch)


def plugin_model(engine, X, y, params):
    """A plugin's problem, and a model that the engine's own training call made with it."""
    # Its rows are binned before there are settings.
    common = {name: value for name, value in params.items() if "_bin" not in name}
    if engine == "xgboost":
        problem = xgboost_adapter.IPCWObjective(X, y, random_state=0)
        own = {**problem.params, "nthread": 1, **common}
        return problem, xgb.train(own, problem.dtrain, 8, obj=problem)
    if engine == "lightgbm":
        problem = lightgbm_adapter.IPCWObjective(X, y, random_state=0)
        own = {**problem.params, "objective": problem, "num_threads": 1, **common}
        return problem, lgb.train(own, problem.train_set, 8)
    problem = catboost_adapter.IPCWLoss(X, y, random_state=0)
    own = {**problem.params, "loss_function": problem, "iterations": 8, "verbose": False, **common}
    return problem, catboost.CatBoost(own).fit(problem.train_pool)


# CatBoost takes a while to compile a loss, and its own objective needs other settings of sampling.
PLUGIN = [case for case in COMBINED if case[0] != "catboost"] + [
    ("catboost", {"depth": 2, "l2_leaf_reg": 50.0, "rsm": 0.3}),
    ("catboost", {"border_count": 7, "feature_border_type": "Uniform"}),
]


@pytest.mark.parametrize(("engine", "settings"), PLUGIN)
def test_plugin_and_estimator_read_the_same_curves_off_a_model(engine, settings, people):
    """The plugin asks the engine at each time; the estimator walks the trees."""
    X, y = people(kind="missing")
    params = settings if isinstance(settings, dict) else combination(engine, settings)
    problem, model = plugin_model(engine, X, y, params)
    times = np.linspace(0.05, 3, 40)
    expected = problem.predict_cumulative_incidence(model, X, times, calibrated=False)
    features = check_features(X)
    forest = adapter(engine).Evaluator(model, features.schema).forest()
    margins = forest.step_margins(features.values)[:, forest.interval(times)]
    margins = margins + problem._start_margin(times).T[:, :, None]
    proba = probabilities(margins.reshape(len(margins), -1).T, reference=True)
    curves = proba.reshape(len(times), len(X), -1).transpose(1, 2, 0)
    assert len(forest.trees) > 0
    assert_allclose(curves, expected, atol=2e-6)

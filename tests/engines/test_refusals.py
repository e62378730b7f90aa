"""What would crash an engine or be wrong without a word is refused or said."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pandas as pd
import pytest
from estimator_data import ENGINES, boost, simulated
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import _training, load
from survival_objectives._engines import protocol as registry
from survival_objectives._engines.forest import Forest
from survival_objectives._engines.protocol import Evaluator, column_names
from survival_objectives._people import Features
from survival_objectives.adapters.xgboost import _engine as xgboost_engine

REFUSED = [
    ("xgboost", {"objective": "survival:cox"}, "the loss is that of the survival model"),
    ("xgboost", {"objective": "reg:absoluteerror"}, "the loss is that of the survival model"),
    ("xgboost", {"base_score": 0.3}, "training starts from"),
    ("xgboost", {"num_class": 7}, "the number of states"),
    ("xgboost", {"scale_pos_weight": 3.0}, "use `sample_weight`"),
    ("xgboost", {"eval_metric": "auc"}, "IPCW log-loss"),
    ("xgboost", {"booster": "dart"}, "must be 'gbtree': curves are read off"),
    ("xgboost", {"tree_method": "exact"}, "must be 'hist' or 'auto'"),
    ("xgboost", {"process_type": "update"}, "curves are read off"),
    ("xgboost", {"random_state": 3}, "use `random_state`"),
    ("xgboost", {"nthread": 0}, "use `n_jobs`"),
    ("xgboost", {"num_round": 5}, "use `n_estimators`"),
    ("xgboost", {"eta": 0.1, "learning_rate": 0.2}, "two names of one setting"),
    ("xgboost", {"device": "cdua"}, "must be 'cpu', 'cuda'"),
    ("xgboost", {"max_dept": 3}, "does not know. Did you mean 'max_depth'"),
    ("xgboost", {"max_cat_treshold": 3}, "does not know. Did you mean 'max_cat_threshold'"),
    ("xgboost", {"lambda": float("nan")}, "must be a number from 0"),
    ("lightgbm", {"objective": "poisson"}, "the loss is that of the survival model"),
    ("lightgbm", {"application": "poisson"}, "the loss is that of the survival model"),
    ("lightgbm", {"linear_trees": True}, "curves are read off"),
    ("lightgbm", {"linear_tree": "true"}, "curves are read off"),
    ("lightgbm", {"boost": "dart"}, "must be 'gbdt': curves are read off"),
    ("lightgbm", {"boosting_type": "rf"}, "must be 'gbdt'"),
    ("lightgbm", {"boosting": "goss"}, "must be 'gbdt'"),
    ("lightgbm", {"data_sample_strategy": "goss"}, "GOSS lets"),
    ("lightgbm", {"categorical_feature": [0]}, "categories are the columns"),
    ("lightgbm", {"num_trees": 5}, "use `n_estimators`"),
    ("lightgbm", {"max_iter": 5}, "use `n_estimators`"),
    ("lightgbm", {"device": "cuda"}, "must be 'cpu'"),
    ("lightgbm", {"min_child_weight": 0.0}, "must be a number from 0.001"),
    ("lightgbm", {"bagging_sed": 1}, "Did you mean 'bagging_seed'"),
    ("lightgbm", {"use_quantized_grad": True}, "trains with any setting"),
    ("catboost", {"loss_function": "RMSE"}, "the loss is that of the survival model"),
    ("catboost", {"objective": "RMSE"}, "the loss is that of the survival model"),
    ("catboost", {"num_trees": 5}, "use `n_estimators`"),
    ("catboost", {"class_weights": [1, 2, 3]}, "use `sample_weight`"),
    ("catboost", {"one_hot_max_size": 2}, "encodings would store"),
    ("catboost", {"grow_policy": "Lossguide"}, "must be 'SymmetricTree': CatBoost supports"),
    ("catboost", {"model_shrink_rate": 0.1}, "curves are read off"),
    ("catboost", {"thread_count": 0}, "use `n_jobs`"),
    ("catboost", {"task_type": "GPU"}, "must be 'CPU'"),
    ("catboost", {"boarder_count": 10}, "Did you mean 'border_count'"),
    ("catboost", {"max_bin": 10, "border_count": 20}, "two names of one setting"),
]
WRONG_TYPES = [
    ("lightgbm", {"extra_trees": "true"}, "must be True or False"),
    ("lightgbm", {"num_leaves": 7.0}, "must be an integer from 2"),
    ("lightgbm", {"lambda_l2": "5"}, "must be a number from 0"),
    ("xgboost", {"max_bin": True}, "must be an integer from 2"),
    ("catboost", {"depth": "4"}, "must be an integer from 1 to 16"),
]


@pytest.mark.parametrize(
    ("engine", "params", "words", "error"),
    [(*case, ValueError) for case in REFUSED] + [(*case, TypeError) for case in WRONG_TYPES],
)
def test_settings_that_do_not_agree_are_refused_before_training(
    engine, params, words, error, data, monkeypatch
):
    monkeypatch.setattr(_training, "trained", lambda *_, **__: pytest.fail("Training began."))
    with pytest.raises(error, match=words):
        boost(engine, engine_params=params).fit(data.X, data.y)


def test_a_refused_setting_leaves_a_fitted_model_alone(engine, data):
    model = boost(engine).fit(data.X, data.y)
    before = model.predict(data.X)
    with pytest.raises(ValueError, match="does not know"):
        model.set_params(engine_params={"nonsense": 1}).fit(data.X, data.y)
    assert_array_equal(model.set_params(engine_params=None).predict(data.X), before)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "gpu"])
def test_a_gpu_that_is_not_there_is_an_error(device, data, monkeypatch):
    monkeypatch.setattr(xgboost_engine, "n_cuda_devices", lambda: 0)
    monkeypatch.setattr(xgboost_engine.xgb, "build_info", lambda: {"USE_CUDA": True})
    with pytest.raises(ValueError, match="needs a GPU, and this process sees 0"):
        boost("xgboost", engine_params={"device": device}).fit(data.X, data.y)
    monkeypatch.setattr(xgboost_engine.xgb, "build_info", lambda: {"USE_CUDA": False})
    with pytest.raises(ValueError, match="built with CUDA"):
        boost("xgboost", engine_params={"device": device}).fit(data.X, data.y)


def test_devices_are_counted():
    assert xgboost_engine.n_cuda_devices() >= 0


@pytest.mark.parametrize(
    ("engine", "alias", "name", "value"),
    [
        ("catboost", "eta", "learning_rate", 0.5),
        ("catboost", "max_bin", "border_count", 4),
        ("catboost", "max_depth", "depth", 2),
        ("catboost", "reg_lambda", "l2_leaf_reg", 100.0),
        ("catboost", "colsample_bylevel", "rsm", 0.2),
        ("lightgbm", "subsample", "bagging_fraction", 0.5),
        ("lightgbm", "max_bins", "max_bin", 4),
        ("xgboost", "reg_alpha", "alpha", 5.0),
        ("xgboost", "min_split_loss", "gamma", 0.0),
    ],
)
def test_aliases_are_honoured(engine, alias, name, value, data):
    models = [
        boost(engine, min_leaf_people=1.0, engine_params=params).fit(data.X, data.y)
        for params in ({alias: value}, {name: value}, {})
    ]
    curves = [model.predict_survival_function(data.X, [1.0]) for model in models]
    assert_array_equal(curves[0], curves[1])
    assert not np.array_equal(curves[0], curves[2])


def test_catboost_bins_are_as_many_as_asked_for(data):
    model = boost("catboost", engine_params={"border_count": 3}).fit(data.X, data.y)
    # Each of the three stacks of rows has bins of its own.
    assert 1 <= len(model._model.trees.forest().breaks) <= 9


def test_depth_of_the_engine_is_not_cut_by_leaves(data):
    model = boost("lightgbm", max_depth=1, engine_params={"max_depth": 3}, min_split_gain=0.0)
    leaves = model.fit(data.X, data.y).booster_.dump_model()["tree_info"]
    assert max(tree["num_leaves"] for tree in leaves) > 2


ABSURD = [
    *({"n_jobs": value} for value in (0, -2, 10**5, 2**31, 2**70)),
    *({"max_depth": value} for value in (65, 2**31, 2**70)),
    *({"horizon_max": value} for value in (1e300, 1e-300, 1e31)),
    *({"learning_rate": value} for value in (1e-300, 1e-7)),
    *({"min_censoring_survival": value} for value in (1e-300,)),
    *({name: 1e300} for name in ("min_leaf_people", "min_split_gain")),
    *({name: 2**40} for name in ("n_estimators", "n_horizons", "refresh_every")),
    {"early_stopping_rounds": 2**40},
]


@pytest.mark.parametrize("parameters", ABSURD, ids=str)
def test_absurd_values_are_refused_before_training(engine, parameters, data, monkeypatch):
    monkeypatch.setattr(_training, "trained", lambda *_, **__: pytest.fail("Training began."))
    ((name, _),) = parameters.items()
    with pytest.raises(ValueError, match=f"`{name}` must be "):
        boost(engine).set_params(**parameters).fit(data.X, data.y)


@pytest.mark.parametrize("parameters", [{"n_jobs": True}, {"verbose": "yes"}], ids=str)
def test_wrong_types_are_refused(parameters, data):
    ((name, _),) = parameters.items()
    with pytest.raises(TypeError, match=f"`{name}` must be "):
        boost("xgboost", **parameters).fit(data.X, data.y)


def test_catboost_grows_no_deeper_than_it_can(data):
    with pytest.raises(ValueError, match="`max_depth` must be an integer from 1 to 16; got 17"):
        boost("catboost", max_depth=17).fit(data.X, data.y)


def test_leaves_and_gains_may_be_without_limits(engine, data):
    model = boost(engine, min_leaf_people=0, min_split_gain=0, max_depth=6).fit(data.X, data.y)
    assert np.ptp(model.predict(data.X)) > 0.05


# ------------------------------------------------------------------------------- names of columns
NAMES = [
    "a\nb",
    'a"b',
    "a\\ub",
    "a\tb",
    "a b",
    "a_b",
    "a=b",
    "",
    "\ud800",
    "Tree=0",
    "end of trees",
]


def test_names_are_distinct_for_every_engine():
    names = [*NAMES, "a[b", "a]b", "a_b_", "horizon", " ", "_", "é ü", "\u2028", "\x00"]
    found = column_names(Features(np.empty((0, len(names)), np.float32), tuple(names), {}))
    assert len({name.replace(" ", "_") for name in found}) == len(names) + 1
    for name in found:
        assert name
        assert name.isprintable()
        assert not set(name) & set('[]<>{}":,=\\')
    assert "é ü" in found


def test_columns_may_have_any_names(engine, data, tmp_path):
    values = np.random.default_rng(0).normal(size=(300, len(NAMES)))
    values[:, :4] = data.X
    # Of dtype object: text columns of pandas 3 refuse a lone surrogate.
    X = pd.DataFrame(values, columns=pd.Index(NAMES, dtype=object))
    model = boost(engine).fit(X, data.y)
    curves = model.predict_cumulative_incidence(X)
    plain = boost(engine).fit(values, data.y)
    assert_array_equal(curves, plain.predict_cumulative_incidence(values))
    # No file can hold half a surrogate pair.
    X.columns = pd.Index(["x" if name == "\ud800" else name for name in NAMES])
    model = boost(engine).fit(X, data.y)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_array_equal(loaded.predict_cumulative_incidence(X), curves)
    assert loaded.feature_importances_.sum() == pytest.approx(1)


# ---------------------------------------------------------------------------- after every training
def test_predictions_that_disagree_are_an_error(engine, data, monkeypatch):
    """As they would where trees are read wrongly."""
    right = Forest.step_margins

    def wrong(self, values):
        margins = right(self, values)
        margins[0] += 1e-3
        return margins

    monkeypatch.setattr(Forest, "step_margins", wrong)
    model = boost(engine, engine_params={"learning_rate": 0.1})
    with pytest.raises(RuntimeError, match=r"trees that are read off it differ.*'learning_rate'"):
        model.fit(data.X, data.y)
    assert not model.__sklearn_is_fitted__()


def test_steps_that_are_not_constant_are_an_error(engine, data, monkeypatch):
    """As with leaves that are linear in time."""
    right = Evaluator.sum_of_trees

    def linear(self, values, *rounds):
        margins = right(self, values, *rounds)
        margins[:, 0] += 0.1 * values[:, -1]
        return margins

    trainer = registry.engine(engine).trainer
    of_no_round = trainer.sum_of_trees

    def by_evaluator(self, values, first, last):
        if first == last:
            return of_no_round(self, values, first, last)
        return self.finished(last).sum_of_trees(values, first, last)

    monkeypatch.setattr(Evaluator, "sum_of_trees", linear)
    monkeypatch.setattr(trainer, "sum_of_trees", by_evaluator)
    with pytest.raises(RuntimeError, match="at another time between the same two splits"):
        boost(engine, early_stopping_rounds=None).fit(data.X, data.y)


def test_a_constant_model_is_said_to_be_one(engine, data):
    noise = np.random.default_rng(0).normal(size=(300, 3))
    model = boost(engine, n_estimators=3, learning_rate=1e-6)
    if engine == "catboost":  # It has no limits on leaves, and splits noise as well.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(noise, data.y)
        return
    model.set_params(min_split_gain=1e6)
    with pytest.warns(UserWarning, match="all people get the same curve") as caught:
        model.fit(noise, data.y)
    assert caught[0].filename == __file__
    assert np.ptp(model.predict(noise)) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(np.ones((300, 3)), data.y)


def test_a_floor_under_many_weights_is_a_warning(engine, data):
    options = {"censoring": "boosted", "min_censoring_survival": 0.9, "horizon_max": 8.0}
    with pytest.warns(UserWarning, match=r"min_censoring_survival=0.9 limits .* rows \(") as caught:
        boost(engine, **options).fit(data.X, data.y)
    assert caught[0].filename == __file__


# ------------------------------------------------------------------------------------------ threads
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux does")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one thread")
def test_a_loaded_model_keeps_to_its_threads(engine, tmp_path):
    data = simulated(2000)
    model = boost(engine, n_estimators=3, n_jobs=1).fit(data.X, data.y)
    model.save(tmp_path / "model")
    data.X.to_pickle(tmp_path / "X.pickle")
    code = f"""
        import os
        import pandas as pd
        from survival_objectives import load

        X = pd.read_pickle({str(tmp_path / "X.pickle")!r})
        model = load({str(tmp_path / "model")!r})
        before = len(os.listdir("/proc/self/task"))
        model.predict(X[:20])
        model.shap_values(X, 1.0)
        model.feature_importances_
        model.censoring_.survival([1.0] * len(X), X)
        print(len(os.listdir("/proc/self/task")) - before)
    """
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**environment, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == 0


def test_settings_of_an_older_model_do_not_keep_it_from_loading(tmp_path, data):
    """They were used in training only."""
    model = boost("xgboost").fit(data.X, data.y)
    model.engine_params = {"seed": 3}
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_allclose(loaded.predict(data.X), model.predict(data.X))


def test_every_engine_refuses_what_the_estimator_owns():
    for engine in ENGINES:
        module = importlib.import_module(f"survival_objectives.adapters.{engine}._engine")
        settings = module.SETTINGS
        assert not set(settings.allowed) & set(settings.owned)
        assert settings.resolved({}) == {}
        for name in settings.owned:
            with pytest.raises(ValueError, match="`engine_params` has "):
                settings.resolved({name: 1})

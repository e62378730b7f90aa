"""The plugin in the hands of an engineer who does what the engine usually allows."""

from __future__ import annotations

import catboost
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives.adapters.catboost import HazardLoss, IPCWLoss
from survival_objectives.adapters.lightgbm import HazardObjective as LightGBMHazards
from survival_objectives.adapters.lightgbm import IPCWObjective as LightGBMObjective
from survival_objectives.adapters.xgboost import HazardObjective as XGBoostHazards
from survival_objectives.adapters.xgboost import IPCWObjective as XGBoostObjective

OBJECTIVES = {"xgboost": XGBoostObjective, "lightgbm": LightGBMObjective, "catboost": IPCWLoss}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["age", "dose", "mark"])
    return X, (rng.integers(0, 3, 300), rng.exponential(np.exp(-X["age"])))


@pytest.fixture(params=OBJECTIVES)
def objective_type(request):
    return OBJECTIVES[request.param]


def test_unknown_parameters_are_named_with_the_nearest(objective_type, people):
    match = rf"{objective_type.__name__} has no parameter 'n_horizon'. Did you mean 'n_horizons'"
    with pytest.raises(TypeError, match=match):
        objective_type(*people, n_horizon=3)


@pytest.mark.parametrize("name", ["doubly_robust", "monotone"])
def test_words_are_no_flags(objective_type, people, name):
    with pytest.raises(TypeError, match=f"`{name}` must be True or False; got 'yes'"):
        objective_type(*people, **{name: "yes"})


def test_causes_may_be_text(objective_type, people):
    X, (event, duration) = people
    words = np.array(["censored", "death", "relapse"])[event]
    objective = objective_type(X, (words, duration), random_state=0)
    assert objective.event_names_ == ("event-free", "death", "relapse")
    other = objective_type(X, (event, duration), random_state=0)
    assert other.event_names_ is None
    assert_array_equal(objective.target, other.target)
    assert_array_equal(objective.event_ids_, [0, 1, 2])
    # Held-out people may lack a cause, and know no others.
    some = words != "death"
    held_out = objective.held_out(X[some], (words[some], duration[some]))
    assert held_out is not None
    with pytest.raises(ValueError, match="'cured', which was not seen in training"):
        objective.held_out(X, (np.where(words == "death", "cured", words), duration))
    # Only people of weight 0 had the first cause.
    weighted = objective_type(X, (words, duration), sample_weight=some.astype(float))
    assert weighted.event_names_ == ("event-free", "relapse")


@pytest.mark.parametrize("method", ["set_label", "set_weight", "set_base_margin"])
def test_the_matrix_of_xgboost_keeps_labels_weights_and_start(people, method):
    objective = XGBoostObjective(*people, random_state=0)
    for matrix in (objective.dtrain, objective.cv_matrix()):
        with pytest.raises(ValueError, match=rf"which `{method}` would change.*`sample_weight`"):
            getattr(matrix, method)(np.zeros(matrix.num_row()))
        with pytest.raises(ValueError, match="which `set_float_info` would change"):
            matrix.set_float_info("weight", np.zeros(matrix.num_row()))


@pytest.mark.parametrize("kind", [IPCWLoss, HazardLoss])
def test_the_pool_of_catboost_keeps_weights_and_start(people, kind):
    loss = kind(*people, random_state=0)
    for method in ("set_weight", "set_baseline"):
        with pytest.raises(ValueError, match=rf"`loss.train_pool` keeps.*`{method}`"):
            getattr(loss.train_pool, method)(np.zeros(len(loss.target)))


def test_an_objective_in_a_scikit_learn_wrapper_says_what_to_pass(people):
    for wrapper, objective in (
        (xgb.XGBClassifier, XGBoostObjective(*people, random_state=0)),
        (lgb.LGBMClassifier, LightGBMObjective(*people, random_state=0)),
    ):
        with pytest.raises(TypeError, match=r"wrappers start at 0.*sklearn_objective"):
            wrapper(objective=objective, n_estimators=2).fit(
                objective.stacked_features, objective.target
            )


@pytest.mark.parametrize("kind", [LightGBMObjective, LightGBMHazards])
def test_the_dataset_of_lightgbm_keeps_labels_and_weights(people, kind):
    objective = kind(*people, random_state=0)
    train_set = objective.train_set
    for _ in range(2):  # Before LightGBM has binned it, and after.
        for method in ("set_label", "set_weight", "set_init_score"):
            with pytest.raises(ValueError, match=rf"which `{method}` would change"):
                getattr(train_set, method)(np.zeros(len(objective.target)))
        with pytest.raises(ValueError, match="which `set_field` would change"):
            train_set.set_field("weight", np.zeros(len(objective.target)))
        lgb.train({**objective.params, "objective": objective}, train_set, 1)


# ------------------------------------------------------------------------------------- continuing
@pytest.mark.parametrize("start", ["constant", "marginal", "zero"])
@pytest.mark.parametrize("n_causes", [1, 2])
def test_lightgbm_continues_a_model_to_a_longer_training(people, start, n_causes):
    X, (event, duration) = people
    y = np.minimum(event, n_causes), duration
    objective = LightGBMObjective(X, y, start=start, random_state=0)
    params = {**objective.params, "objective": objective, "num_leaves": 4}
    held_out = objective.held_out(X, y)
    seen = {}
    options = {
        "valid_sets": [held_out],
        "feval": objective.metric,
        "callbacks": [lgb.record_evaluation(seen)],
    }
    first = lgb.train(params, objective.train_set, 4)
    continued = lgb.train(params, objective.train_set, 4, init_model=first, **options)
    losses = seen["valid_0"]["ipcw_log_loss"]
    whole = lgb.train(params, objective.train_set, 8, **options)
    assert continued.num_trees() == whole.num_trees()
    curves = [
        objective.predict_cumulative_incidence(model, X, [0.3, 1.0]) for model in (continued, whole)
    ]
    assert_allclose(*curves, atol=1e-9)
    assert_allclose(losses, seen["valid_0"]["ipcw_log_loss"][4:], rtol=1e-6)
    # A training that does not continue begins at the start again.
    again = lgb.train(params, objective.train_set, 4)
    assert again.model_to_string() == first.model_to_string()


def test_weights_are_not_refreshed_from_the_beginning_where_a_model_is_continued(people):
    objective = XGBoostObjective(*people, random_state=0)
    booster = xgb.train(objective.params, objective.dtrain, 4, obj=objective)
    with pytest.raises(ValueError, match=r"`refresh\(\)` cannot continue a model"):
        xgb.train(
            objective.params,
            objective.dtrain,
            4,
            obj=objective,
            xgb_model=booster,
            callbacks=[objective.refresh()],
        )
    objective = LightGBMObjective(*people, random_state=0)
    params = {**objective.params, "objective": objective}
    booster = lgb.train(params, objective.train_set, 4)
    with pytest.raises(ValueError, match=r"`refresh\(\)` cannot continue a model"):
        lgb.train(
            params, objective.train_set, 4, init_model=booster, callbacks=[objective.refresh()]
        )


# ------------------------------------------------------------------------------------ constraints
def trained(engine, objective, constraints, n_rounds=15):
    if engine == "catboost":
        params = {**objective.params, **constraints, "loss_function": objective}
        params |= {"iterations": n_rounds, "verbose": False}
        return catboost.CatBoost(params).fit(objective.train_pool)
    if engine == "lightgbm":
        params = {**objective.params, **constraints, "objective": objective}
        return lgb.train(params, objective.train_set, n_rounds)
    return xgb.train({**objective.params, **constraints}, objective.dtrain, n_rounds, obj=objective)


CONSTRAINED = [
    ("xgboost", XGBoostObjective, {}, 2),
    ("xgboost", XGBoostHazards, {"linear": False}, 2),
    ("lightgbm", LightGBMObjective, {}, 2),
    ("lightgbm", LightGBMHazards, {"linear": False}, 2),
    ("catboost", IPCWLoss, {}, 1),
    ("catboost", HazardLoss, {"linear": False}, 1),
]


@pytest.mark.parametrize("given", [{"age": -1}, (-1, 0, 0)])
@pytest.mark.parametrize(("engine", "kind", "options", "n_causes"), CONSTRAINED)
def test_constraints_on_features_keep_that_on_time(engine, kind, options, n_causes, given, people):
    """Risks rise in age, which the constraint forbids."""
    X, (event, duration) = people
    y = np.minimum(event, n_causes), duration
    objective = kind(X, y, random_state=0, **options)
    model = trained(engine, objective, objective.constraints(monotone=given))
    rows = pd.concat([X.iloc[:1]] * 9).assign(age=np.linspace(-2, 2, 9))
    times = np.linspace(0.05, 2, 9)
    calibrated = {} if "linear" in options else {"calibrated": False}
    curves = objective.predict_cumulative_incidence(model, rows, times, **calibrated)
    assert np.diff(curves[:, 0], axis=0).min() >= -1e-6
    assert np.diff(curves[:, 0], axis=1).max() <= 1e-6


def test_overwritten_constraints_say_how_to_write_them(people):
    objective = XGBoostObjective(*people, random_state=0)
    model = trained("xgboost", objective, {"monotone_constraints": {"age": -1}})
    with pytest.raises(ValueError, match=r"\*\*objective.constraints\(monotone=\.\.\.\)"):
        objective.predict_survival_function(model, people[0], [0.1, 0.5, 1.0])
    objective = LightGBMObjective(*people, random_state=0)
    for value in ({"age": -1}, [-1, 0, 0]):
        with pytest.raises(ValueError, match=r"LightGBM wants a list of 4, the time last. Write"):
            trained("lightgbm", objective, {"monotone_constraints": value})
    with pytest.raises(ValueError, match="CatBoost ignores monotone constraints for 2 margins"):
        IPCWLoss(*people).constraints(monotone={"age": 1})
    with pytest.raises(ValueError, match="need `margins='reference'`"):
        XGBoostObjective(*people, margins="free").constraints(monotone={"age": 1})
    with pytest.raises(ValueError, match=r"linear hazards.*go the other way in 'age'"):
        XGBoostHazards(*people, random_state=0).constraints(monotone={"age": -1})


@pytest.mark.parametrize(
    ("engine", "kind", "value"),
    [
        ("xgboost", XGBoostHazards, {"age": -1}),
        ("lightgbm", LightGBMHazards, [-1, 0, 0, 0]),
        ("catboost", HazardLoss, {"age": -1}),
    ],
)
def test_constraints_that_the_linear_start_breaks_are_refused(engine, kind, value, people):
    X, (event, duration) = people
    objective = kind(X, (np.minimum(event, 1), duration), random_state=0)
    model = trained(engine, objective, {"monotone_constraints": value}, n_rounds=3)
    with pytest.raises(ValueError, match=r"linear hazards.*go the other way in 'age'"):
        objective.predict_survival_function(model, X, [0.1, 0.5])


def test_constraints_that_catboost_ignores_are_refused(people):
    loss = IPCWLoss(*people, random_state=0)
    model = trained("catboost", loss, {"monotone_constraints": {"age": -1}}, n_rounds=3)
    with pytest.raises(ValueError, match="CatBoost ignores monotone constraints for 2 margins"):
        loss.predict_survival_function(model, people[0], [0.1, 0.5])


@pytest.mark.filterwarnings("ignore:Overriding the parameters from Reference Dataset")
def test_evaluation_on_data_of_ones_own_names_held_out(people):
    X, (event, _) = people
    for kind in (XGBoostObjective, XGBoostHazards):
        objective = kind(*people, random_state=0)
        with pytest.raises(ValueError, match=r"expected horizon_of_held_out_\w+ in input data"):
            xgb.train(
                objective.params,
                objective.dtrain,
                2,
                obj=objective,
                evals=[(xgb.DMatrix(X, event), "own")],
            )
    objective = LightGBMObjective(*people, random_state=0)
    rows, event = objective.stacked_features, objective.target
    own = lgb.Dataset(rows, event, reference=objective.train_set)
    with pytest.raises(ValueError, match=r"evaluate on `objective.held_out\(X, y\)`"):
        lgb.train(
            {**objective.params, "objective": objective},
            objective.train_set,
            2,
            valid_sets=[own],
            feval=objective.metric,
        )
    loss = IPCWLoss(*people, random_state=0)
    model = catboost.CatBoost({**loss.params, "loss_function": loss, "iterations": 2})
    with pytest.raises(catboost.CatBoostError, match=r"evaluate on `loss.held_out\(X, y\)`"):
        model.fit(loss.train_pool, eval_set=(rows, np.tile(event[:, None], 2)), verbose=False)

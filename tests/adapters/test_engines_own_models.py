"""A model predicts with the objective that trained it, and with no other."""

import catboost
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from numpy.testing import assert_allclose, assert_array_equal

TIMES = [0.3, 0.7, 1.5]
XGBOOST = tuple(int(part) for part in xgb.__version__.split(".")[:2])


def saved_and_loaded(model, folder):
    """By the engine's own means, without our help."""
    path = str(folder / "model.ubj")
    model.save_model(path)
    if isinstance(model, xgb.Booster):
        return xgb.Booster(model_file=path)
    if isinstance(model, lgb.Booster):
        return lgb.Booster(model_file=path)
    return catboost.CatBoost().load_model(path)


@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize("refresh", [False, True])
def test_a_saved_model_predicts_with_the_same_objective_made_again(
    engine, simulate, tmp_path, n_causes, refresh
):
    people = simulate(200, n_causes=n_causes, n_features=3)

    def problem():
        return engine.problem(people.X, people.y, refresh_every=3, random_state=0)

    objective = problem()
    model = engine.train(objective, 5, refresh=refresh)
    expected = objective.predict_cumulative_incidence(model, people.X, TIMES)
    loaded = saved_and_loaded(model, tmp_path)
    for known in (objective, problem()):
        assert_array_equal(known.predict_cumulative_incidence(loaded, people.X, TIMES), expected)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("other", ["people", "seed", "start", "names", "causes"])
def test_another_objective_refuses_to_predict(engine, people, tmp_path, other, loaded):
    event, duration = people.y
    model = engine.train(engine.problem(people.X, people.y, random_state=0), 3)
    if loaded:
        model = saved_and_loaded(model, tmp_path)
    X, y, options = people.X, people.y, {"random_state": 0}
    if other == "people":
        X, y = X[:200], (event[:200], duration[:200])
    elif other == "seed":
        options["random_state"] = 1
    elif other == "start":
        options["start"] = "marginal"
    elif other == "names":
        pandas = pytest.importorskip("pandas")
        X = pandas.DataFrame(X, columns=list("abcd"))
    else:
        y = np.where(event > 0, 3 - event, 0), duration
    with pytest.raises(ValueError, match="not trained by this objective"):
        engine.problem(X, y, **options).predict_cumulative_incidence(model, X, TIMES)


def test_the_same_number_of_free_margins_is_another_link(engine, simulate):
    """Three margins of three causes, or of two causes and the event-free state."""
    three, two = simulate(200, n_causes=3), simulate(200, n_causes=2)
    model = engine.train(engine.problem(three.X, three.y, start="zero", random_state=0), 3)
    other = engine.problem(two.X, two.y, margins="free", start="zero", random_state=0)
    with pytest.raises(ValueError, match="not trained by this objective"):
        other.predict_cumulative_incidence(model, two.X, TIMES)


def test_another_number_of_margins_says_what_to_merge(engine, simulate):
    one, two = simulate(200, n_causes=1), simulate(200, n_causes=2)
    model = engine.train(engine.problem(one.X, one.y, random_state=0), 3)
    with pytest.raises(ValueError, match=r"has 1 margins.*objective\.params"):
        engine.problem(two.X, two.y, random_state=0).predict_survival_function(model, two.X, TIMES)


def test_a_model_of_the_estimator_is_refused(engine, people):
    from survival_objectives import HazardBoost

    model = HazardBoost(engine.name, n_estimators=3, linear=False, n_jobs=1, random_state=0)
    model.fit(people.X, people.y)
    objective = engine.problem(people.X, people.y, random_state=0)
    with pytest.raises(ValueError, match=r"not trained by this objective|CatBoost's own loss"):
        objective.predict_cumulative_incidence(model.booster_, people.X, TIMES)


# --------------------------------------------------------------------------------- changed params
@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize(
    "params",
    [
        {"base_score": 0.3},
        {"base_score": 0.3, "objective": "reg:squarederror"},
        {"objective": "binary:logistic"},
    ],
)
def test_xgboost_settings_that_move_the_base_have_no_effect(simulate, n_causes, params):
    from survival_objectives.adapters.xgboost import IPCWObjective

    people = simulate(200, n_causes=n_causes)
    objective = IPCWObjective(people.X, people.y, random_state=0)
    trees = {"max_depth": 3, "nthread": 1}
    curves = []
    for own in ({}, params):
        merged = {**objective.params, **trees, **own}
        if n_causes == 2 and own == {"objective": "binary:logistic"} and XGBOOST < (3, 2):
            with pytest.raises(xgb.core.XGBoostError, match="base_score must be in"):
                predicted(objective, merged, people.X)
            return
        curves.append(predicted(objective, merged, people.X))
    assert_array_equal(*curves)


def predicted(objective, params, X):
    booster = xgb.train(params, objective.dtrain, 5, obj=objective)
    return objective.predict_cumulative_incidence(booster, X, TIMES)


def test_forgotten_xgboost_params_are_an_error_or_change_no_margin(simulate):
    from survival_objectives.adapters.xgboost import IPCWObjective

    people = simulate(200, n_causes=1)
    objective = IPCWObjective(people.X, people.y, monotone=False, random_state=0)
    seed = {"seed": objective.params["seed"]}
    booster = xgb.train({"nthread": 1, **seed}, objective.dtrain, 5, obj=objective)
    merged = xgb.train({**objective.params, "nthread": 1}, objective.dtrain, 5, obj=objective)
    assert_allclose(
        *(
            objective.predict_survival_function(model, people.X, TIMES)
            for model in (booster, merged)
        ),
        atol=1e-6,
    )
    several = simulate(200, n_causes=2)
    objective = IPCWObjective(several.X, several.y, random_state=0)
    for wrong in ({}, {"num_class": 3}):
        with pytest.raises((ValueError, xgb.core.XGBoostError)):
            xgb.train({"nthread": 1, **wrong}, objective.dtrain, 2, obj=objective)


def test_curves_without_the_constraint_are_refused(engine, simulate):
    """Forgotten parameters show where survival rises."""
    people = simulate(300, n_causes=1)
    objective = engine.problem(people.X, people.y, random_state=0)
    free = {"monotone_constraints": "()" if engine.name == "xgboost" else [0] * 7}
    model = engine.train(objective, 30, depth=6, learning_rate=0.5, **free)
    with pytest.raises(ValueError, match=r"Survival rises.*objective\.params"):
        objective.predict_survival_function(model, people.X, np.linspace(0.05, 3, 30))


@pytest.mark.parametrize("own", [{}, {"num_class": 3}])
def test_forgotten_lightgbm_params_are_an_error(people, own):
    from survival_objectives.adapters.lightgbm import IPCWObjective

    objective = IPCWObjective(people.X, people.y, random_state=0)
    params = {"objective": objective, "num_threads": 1, "verbosity": -1, **own}
    with pytest.raises((ValueError, lgb.basic.LightGBMError)):
        lgb.train(params, objective.train_set, 2)

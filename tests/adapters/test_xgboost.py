"""What is peculiar to XGBoost."""

import copy
import json

import numpy as np
import pytest
import xgboost as xgb
from numpy.testing import assert_allclose
from xgboost import XGBClassifier

from survival_objectives.adapters.xgboost import IPCWObjective
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.losses import log_loss, probabilities

TREES = {"max_depth": 3, "learning_rate": 0.1, "nthread": 1}


def assert_same_trees(booster, other):
    """Same structure and thresholds, leaf values to the precision of float32."""
    ours, theirs = booster.trees_to_dataframe(), other.trees_to_dataframe()
    exact = ["Tree", "Node", "ID", "Feature", "Split", "Yes", "No", "Missing"]
    assert ours[exact].equals(theirs[exact])
    # Gain holds the leaf values.
    assert_allclose(ours["Gain"], theirs["Gain"], rtol=2e-4, atol=2e-6)


def native(objective, params, n_rounds=10, weight=None):
    matrix = xgb.QuantileDMatrix(
        objective.stacked_features,
        label=objective.target,
        feature_names=objective.dtrain.feature_names,
    )
    # Weights that are known when the matrix is made would move the bins.
    matrix.set_weight(weight)
    return xgb.train({**TREES, **params}, matrix, n_rounds)


@pytest.mark.parametrize("n_causes", [1, 2, 3])
@pytest.mark.parametrize("censored", [False, True])
def test_free_margins_give_the_trees_of_softmax(simulate, n_causes, censored):
    people = simulate(500, n_causes=n_causes, censored=censored)
    objective = IPCWObjective(people.X, people.y, margins="free", start="zero", random_state=0)
    assert (objective.initial_weight == 1).all() == (not censored)
    booster = xgb.train({**objective.params, **TREES}, objective.dtrain, 10, obj=objective)
    softmax = native(
        objective,
        {"objective": "multi:softprob", "num_class": n_causes + 1, "base_score": 0.0},
        weight=objective.initial_weight,
    )
    assert_same_trees(booster, softmax)


@pytest.mark.parametrize("monotone", [False, True])
def test_one_cause_gives_the_trees_of_logistic_regression(simulate, monotone):
    people = simulate(500, n_causes=1)
    objective = IPCWObjective(people.X, people.y, start="zero", monotone=monotone, random_state=0)
    booster = xgb.train({**objective.params, **TREES}, objective.dtrain, 10, obj=objective)
    constraint = {"monotone_constraints": "(0,0,0,0,0,0,1)"} if monotone else {}
    logistic = native(
        objective,
        {"objective": "binary:logistic", "base_score": 0.5, **constraint},
        weight=objective.initial_weight,
    )
    assert_same_trees(booster, logistic)


@pytest.mark.parametrize(("n_causes", "margins"), [(1, "reference"), (2, "free"), (3, "free")])
def test_sklearn_classifier_trains_the_same_trees(simulate, n_causes, margins):
    people = simulate(300, n_causes=n_causes)
    # The classifier lets weights place the bins, so leave it no choice: few values, a bin each.
    objective = IPCWObjective(
        people.X.round(1),
        people.y,
        horizon_sampler=lambda rng, *shape: rng.integers(1, 40, shape[:2]) / 10,
        margins=margins,
        start="zero",
        random_state=0,
    )
    params = {**objective.params, **TREES}
    booster = xgb.train(params, objective.dtrain, 10, obj=objective)
    params.pop("objective", None)  # The classifier takes it as an argument of its own.
    classifier = XGBClassifier(n_estimators=10, objective=objective.sklearn_objective, **params)
    classifier.fit(
        objective.stacked_features, objective.target, sample_weight=objective.initial_weight
    )
    ours = booster.trees_to_dataframe()
    theirs = classifier.get_booster().trees_to_dataframe()  # It does not know the columns' names.
    numbers = ["Tree", "Node", "Split", "Gain"]
    assert ours[numbers].equals(theirs[numbers])


def test_sklearn_objective_says_which_form_it_needs(people):
    objective = IPCWObjective(people.X, people.y, random_state=0)
    with pytest.raises(ValueError, match="margins='free', start='zero'"):
        objective.sklearn_objective(objective.target, np.zeros((len(objective.target), 3)))


def test_another_matrix_is_refused(people):
    objective = IPCWObjective(people.X, people.y, random_state=0)
    foreign = xgb.DMatrix(objective.stacked_features, label=objective.target)
    with pytest.raises(ValueError, match="not this objective's own"):
        xgb.train({**objective.params, **TREES}, foreign, 2, obj=objective)
    other = IPCWObjective(people.X, people.y, random_state=1)
    with pytest.raises(ValueError, match="not this objective's own"):
        xgb.train({**objective.params, **TREES}, other.dtrain, 2, obj=objective)


@pytest.mark.parametrize("kind", ["cv_matrix", "copy"])
def test_refresh_is_refused_where_it_could_not_act(people, kind):
    objective = IPCWObjective(people.X, people.y, refresh_every=3, random_state=0)
    matrix = objective.cv_matrix() if kind == "cv_matrix" else copy.deepcopy(objective).dtrain
    params = {**objective.params, **TREES}
    with pytest.raises(ValueError, match="weights cannot be refreshed"):
        xgb.train(params, matrix, 8, obj=objective, callbacks=[objective.refresh()])
    booster = xgb.train(params, matrix, 8, obj=objective)
    if kind == "copy":  # A DMatrix has other bins.
        expected = xgb.train(params, objective.dtrain, 8, obj=objective)
        assert booster.save_raw() == expected.save_raw()


# ----------------------------------------------------------------------------- a hand-written loop
class XGBoostByHand:
    def __init__(self, params, matrix, start):
        self.matrix = xgb.QuantileDMatrix(matrix, base_margin=start)
        self.booster = xgb.Booster({"base_score": 0.0, **params}, [self.matrix])
        self.n_rounds = 0

    def boost(self, derivatives):
        # In training, DART leaves trees out.
        margin = self.booster.predict(self.matrix, output_margin=True, training=True)
        gradient, hessian = derivatives(margin.reshape(self.matrix.num_row(), -1))
        self.booster.boost(self.matrix, self.n_rounds, grad=gradient, hess=hessian)
        self.n_rounds += 1

    def trees(self, matrix):
        margin = self.booster.predict(xgb.DMatrix(matrix), output_margin=True)
        return margin.reshape(len(matrix), -1).astype(np.float64)


@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_refresh_equals_a_loop_written_by_hand(simulate, trained_by_hand, n_causes, booster):
    people = simulate(400, n_causes=n_causes, n_features=3, tied=True)
    horizons = np.random.default_rng(1).integers(0, 16, (400, 3)) / 4
    floors = {"min_censoring_survival": 0.1, "min_event_survival": 0.6}
    objective = IPCWObjective(
        people.X,
        people.y,
        n_horizons=3,
        horizon_sampler=lambda *_: horizons,
        refresh_every=4,
        random_state=0,
        **floors,
    )
    trees = {
        **TREES,
        "min_child_weight": 5,
        "seed": objective.params["seed"],
        "monotone_constraints": "(0,0,0,1)",
    }
    params = {**trees, "booster": booster}
    if booster == "dart":
        params["rate_drop"] = 0.3  # Not inherited by the censoring model.
    if n_causes > 1:
        params["num_class"] = n_causes
    trained = xgb.train(
        {**objective.params, **params},
        objective.dtrain,
        num_boost_round=14,
        obj=objective,
        callbacks=[objective.refresh()],
    )
    incidence = trained_by_hand(
        lambda *data: XGBoostByHand(params, *data),
        lambda *data: XGBoostByHand(trees, *data),
        people,
        horizons,
        n_rounds=14,
        every=4,
        floor=0.1,
        event_floor=0.6,
    )
    assert objective.refreshes_[-1].n_floored_censoring > 0
    margin = trained.predict(objective.dtrain, output_margin=True)
    assert_allclose(probabilities(margin, reference=True)[:, 1:], incidence, atol=1e-5)


# ------------------------------------------------------------------------------------------ cv
def km_weights(objective, people_of_fold, people):
    """Weights (10) of all rows from the Kaplan-Meier censoring of some people."""
    event, duration = people.y[0], people.y[1].astype(np.float32).astype(float)
    model = KaplanMeierCensoring().fit((event[people_of_fold], duration[people_of_fold]))
    t, z = duration[objective.person], objective.horizon.astype(float)
    survival = np.where(t > z, model.survival(z), model.survival(t, left=True))
    return 1 / np.maximum(survival, 0.05)


@pytest.mark.parametrize("n_splits", [2, 3])
def test_cv_weighs_each_fold_by_its_own_training_people(people, n_splits):
    objective = IPCWObjective(people.X, people.y, n_horizons=2, random_state=0)
    folds = objective.folds(n_splits, random_state=0)
    params = {**objective.params, **TREES}
    history = xgb.cv(
        params,
        objective.cv_matrix(),
        num_boost_round=4,
        folds=folds,
        obj=objective,
        custom_metric=objective.metric,
        as_pandas=False,
    )
    expected = {"train": [], "test": []}
    for train, test in folds:
        assert not set(objective.person[train]) & set(objective.person[test])
        # Some were censored before all of their horizons. They have no row, and teach censoring.
        others = np.setdiff1d(np.arange(len(people.X)), objective.person[test])
        weight = km_weights(objective, others, people)
        start = objective._start_margin(objective.horizon)

        def matrix(rows, start=start):
            # Weights place the bins of a DMatrix: there, those of everyone.
            return xgb.DMatrix(
                objective.stacked_features[rows],
                base_margin=start[rows],
                weight=objective.initial_weight[rows],
            )

        def loss(margin, _, rows=train, weight=weight):
            grown = np.column_stack([np.zeros(len(margin)), margin])
            proba = np.exp(grown) / np.exp(grown).sum(axis=1, keepdims=True)
            one_hot = np.eye(proba.shape[1])[objective.target[rows]]
            w = weight[rows][:, None]
            return (w * (proba - one_hot))[:, 1:], (w * proba * (1 - proba))[:, 1:]

        dtrain, dtest = matrix(train), matrix(test)
        booster = xgb.train(params, dtrain, 4, obj=loss)
        for name, rows, data in (("train", train, dtrain), ("test", test, dtest)):
            margin = booster.predict(data, output_margin=True)
            expected[name].append(
                log_loss(margin, objective.target[rows], weight[rows], reference=True)
            )
    for name, values in expected.items():
        assert_allclose(history[f"{name}-ipcw_log_loss-mean"][-1], np.mean(values), rtol=1e-5)
        assert_allclose(history[f"{name}-ipcw_log_loss-std"][-1], np.std(values), rtol=1e-3)


def test_cv_refuses_refresh(people):
    objective = IPCWObjective(people.X, people.y, random_state=0)
    with pytest.raises(TypeError, match=r"xgb\.cv trains all folds side by side"):
        xgb.cv(
            {**objective.params, **TREES},
            objective.cv_matrix(),
            folds=objective.folds(3),
            obj=objective,
            callbacks=[objective.refresh()],
        )


def test_metric_of_the_training_matrix_uses_its_weights(people):
    objective = IPCWObjective(people.X, people.y, random_state=0)
    history = {}
    booster = xgb.train(
        {**objective.params, **TREES},
        objective.dtrain,
        3,
        obj=objective,
        evals=[(objective.dtrain, "train")],
        custom_metric=objective.metric,
        evals_result=history,
        verbose_eval=False,
    )
    margin = booster.predict(objective.dtrain, output_margin=True)
    expected = log_loss(margin, objective.target, objective.initial_weight, reference=True)
    assert_allclose(history["train"]["ipcw_log_loss"][-1], expected, rtol=1e-6)


# ------------------------------------------------------------------------------------- the callback
def test_callback_survives_a_fake_payload(people):
    objective = IPCWObjective(people.X, people.y, refresh_every=3, random_state=0)
    params = {**objective.params, **TREES}
    callback = objective.refresh()
    with pytest.raises(RuntimeError, match="missed the start of training"):
        callback.before_iteration(model=None, epoch=1, evals_log={})
    assert callback.after_iteration(model=None, epoch=1, evals_log={"test": {}}) is False
    booster = xgb.train(params, objective.dtrain, 8, obj=objective, callbacks=[callback])
    again = xgb.train(params, objective.dtrain, 8, obj=objective, callbacks=[objective.refresh()])
    assert booster.save_raw() == again.save_raw()


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_censoring_model_inherits_the_trees(people, booster):
    objective = IPCWObjective(people.X, people.y, refresh_every=2, random_state=0)
    params = {**objective.params, **TREES, "booster": booster, "max_depth": 2, "lambda": 3}
    xgb.train(params, objective.dtrain, 5, obj=objective, callbacks=[objective.refresh()])
    learnt = objective.censoring_.model.booster
    config = json.loads(learnt.save_config())["learner"]["gradient_booster"]["tree_train_param"]
    assert (config["max_depth"], config["lambda"]) == ("2", "3")
    assert_allclose(float(config["learning_rate"]), 0.1, rtol=1e-6)
    assert config["monotone_constraints"] == "(0,0,0,0,1)"
    assert max(tree.count(":leaf=") for tree in learnt.get_dump()) <= 4


def test_censoring_model_takes_parameters_of_its_own(people):
    objective = IPCWObjective(people.X, people.y, refresh_every=2, random_state=0)
    callback = objective.refresh({"max_depth": 1, "learning_rate": 0.3, "nthread": 1})
    xgb.train(
        {**objective.params, **TREES}, objective.dtrain, 5, obj=objective, callbacks=[callback]
    )
    learnt = objective.censoring_.model.booster
    assert learnt.num_boosted_rounds() == 4
    assert max(tree.count("leaf=") for tree in learnt.get_dump()) <= 2


def test_training_continues_from_a_booster(people):
    objective = IPCWObjective(people.X, people.y, random_state=0)
    params = {**objective.params, **TREES}
    first = xgb.train(params, objective.dtrain, 4, obj=objective)
    second = xgb.train(params, objective.dtrain, 4, obj=objective, xgb_model=first)
    assert_same_trees(second, xgb.train(params, objective.dtrain, 8, obj=objective))

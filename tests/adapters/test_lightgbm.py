"""What is peculiar to LightGBM."""

import copy

import lightgbm as lgb
import numpy as np
import pytest
from lightgbm import LGBMClassifier
from lightgbm.callback import CallbackEnv
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives.adapters.lightgbm import IPCWObjective
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.losses import log_loss, probabilities

# LightGBM's DART is not reproducible with a custom objective: without this package, 40 equal
# trainings gave two different models (with its own `binary`, one). All trees dropped in each round
# leave nothing to chance.
DART = {"boosting": "dart", "drop_rate": 1.0, "uniform_drop": True, "skip_drop": 0.0}
TREES = {"num_leaves": 8, "learning_rate": 0.1, "num_threads": 1}
DETERMINISTIC = {"deterministic": True, "force_col_wise": True, "verbosity": -1}


def train(objective, n_rounds=10, **options):
    params = {**objective.params, "objective": objective, **TREES, **options.pop("params", {})}
    return lgb.train(params, objective.train_set, n_rounds, **options)


def assert_same_trees(booster, other):
    """Same structure and thresholds, leaf values to the precision of float32 derivatives."""
    ours, theirs = booster.trees_to_dataframe(), other.trees_to_dataframe()
    for trees, names in ((ours, booster.feature_name()), (theirs, other.feature_name())):
        trees["column"] = trees["split_feature"].map({name: k for k, name in enumerate(names)})
    exact = ["tree_index", "node_index", "column", "threshold", "count"]
    assert ours[exact].equals(theirs[exact])
    assert_allclose(ours["value"], theirs["value"], rtol=2e-5, atol=2e-6)


def native(problem, **params):
    dataset = lgb.Dataset(
        problem.stacked_features,
        label=problem.target,
        weight=problem.initial_weight,
        feature_name=problem.train_set.feature_name,
        params={"feature_pre_filter": False, "verbosity": -1},
    )
    params = {"boost_from_average": False, **DETERMINISTIC, **TREES, **params}
    return lgb.train(params, dataset, 10)


@pytest.mark.parametrize("n_causes", [1, 2, 3])
@pytest.mark.parametrize("censored", [False, True])
def test_free_margins_give_the_trees_of_softmax(simulate, n_causes, censored):
    people = simulate(500, n_causes=n_causes, censored=censored)
    objective = IPCWObjective(people.X, people.y, margins="free", start="zero", random_state=0)
    assert (objective.initial_weight == 1).all() == (not censored)
    softmax = native(objective, objective="multiclass", num_class=n_causes + 1)
    assert_same_trees(train(objective), softmax)


@pytest.mark.parametrize("monotone", [False, True])
def test_one_cause_gives_the_trees_of_logistic_regression(simulate, monotone):
    people = simulate(500, n_causes=1)
    objective = IPCWObjective(people.X, people.y, start="zero", monotone=monotone, random_state=0)
    constraint = {"monotone_constraints": [0] * 6 + [1]} if monotone else {}
    assert_same_trees(train(objective), native(objective, objective="binary", **constraint))


@pytest.mark.parametrize(("n_causes", "margins"), [(1, "reference"), (2, "free"), (3, "free")])
def test_sklearn_classifier_trains_the_same_trees(simulate, n_causes, margins):
    people = simulate(300, n_causes=n_causes)
    objective = IPCWObjective(people.X, people.y, margins=margins, start="zero", random_state=0)
    params = {**objective.params, **TREES}
    del params["num_class"]  # The classifier counts the classes itself.
    classifier = LGBMClassifier(n_estimators=10, objective=objective.sklearn_objective, **params)
    classifier.fit(
        objective.stacked_features, objective.target, sample_weight=objective.initial_weight
    )
    assert_same_trees(train(objective), classifier.booster_)


def test_another_dataset_is_refused(people):
    objective = IPCWObjective(people.X, people.y, random_state=0)
    params = {**objective.params, "objective": objective, **TREES}
    foreign = lgb.Dataset(
        objective.stacked_features, label=objective.target, params={"verbosity": -1}
    )
    with pytest.raises(ValueError, match="not this objective's own"):
        lgb.train(params, foreign, 2)
    other = IPCWObjective(people.X, people.y, random_state=0)
    with pytest.raises(ValueError, match="not this objective's own"):
        lgb.train(params, other.train_set, 2)


def test_a_copy_of_the_parameters_keeps_the_objective(people):
    objective = IPCWObjective(people.X, people.y, random_state=0)
    assert copy.deepcopy({"objective": objective})["objective"] is objective


# ----------------------------------------------------------------------------- a hand-written loop
class LightGBMByHand:
    def __init__(self, params, matrix, start, reference=None):
        self.train_set = lgb.Dataset(
            matrix,
            init_score=start if start.shape[1] > 1 else start.ravel(),
            reference=reference,
            params={"verbosity": -1, "feature_pre_filter": False},
        )
        params = {"objective": "none", "metric": "None", "num_class": start.shape[1], **params}
        self.booster = lgb.Booster(params, self.train_set)
        self.n_rows = len(matrix)

    def boost(self, derivatives):
        def loss(margin, _):
            gradient, hessian = derivatives(margin.reshape(self.n_rows, -1, order="F"))
            if gradient.shape[1] == 1:
                return gradient.ravel(), hessian.ravel()
            return gradient, hessian

        self.booster.update(fobj=loss)

    def trees(self, matrix):
        return self.booster.predict(matrix, raw_score=True).reshape(len(matrix), -1)


@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize("boosting", [{}, DART], ids=["gbdt", "dart"])
def test_refresh_equals_a_loop_written_by_hand(simulate, trained_by_hand, n_causes, boosting):
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
    params = {
        **TREES,
        **DETERMINISTIC,
        **boosting,
        "seed": objective.params["seed"],
        "monotone_constraints": [0, 0, 0, 1],
    }
    booster = train(objective, 14, params=params, callbacks=[objective.refresh()])
    made = []

    def make_event(*data):
        made.append(LightGBMByHand(params, *data))
        return made[0]

    def make_censoring(*data):
        return LightGBMByHand(params, *data, reference=made[0].train_set)

    incidence = trained_by_hand(
        make_event,
        make_censoring,
        people,
        horizons,
        n_rounds=14,
        every=4,
        floor=0.1,
        event_floor=0.6,
    )
    assert objective.refreshes_[-1].n_floored_censoring > 0
    margin = booster.predict(objective.stacked_features, raw_score=True).reshape(-1, n_causes)
    margin = margin + objective._start_margin(objective.horizon)
    assert_allclose(probabilities(margin, reference=True)[:, 1:], incidence, atol=1e-5)


# ------------------------------------------------------------------------------------------ cv
@pytest.mark.parametrize("n_splits", [2, 3])
def test_cv_weighs_each_fold_by_its_own_training_people(people, n_splits):
    objective = IPCWObjective(people.X, people.y, n_horizons=2, random_state=0)
    folds = objective.folds(n_splits, random_state=0)
    result = lgb.cv(
        {**objective.params, "objective": objective, **TREES},
        objective.train_set,
        num_boost_round=4,
        folds=folds,
        feval=objective.metric,
        eval_train_metric=True,
        return_cvbooster=True,
    )
    event, duration = people.y[0], people.y[1].astype(np.float32).astype(float)
    start = objective._start_margin(objective.horizon)
    expected = {"train": [], "valid": []}
    for booster, (train_rows, test_rows) in zip(result["cvbooster"].boosters, folds, strict=True):
        assert not set(objective.person[train_rows]) & set(objective.person[test_rows])
        # Some were censored before all of their horizons. They have no row, and teach censoring.
        others = np.setdiff1d(np.arange(len(people.X)), objective.person[test_rows])
        censoring = KaplanMeierCensoring().fit((event[others], duration[others]))
        t, z = duration[objective.person], objective.horizon.astype(float)
        survival = np.where(t > z, censoring.survival(z), censoring.survival(t, left=True))
        weight = 1 / np.maximum(survival, 0.05)
        margin = booster.predict(objective.stacked_features, raw_score=True) + start
        for name, rows in (("train", train_rows), ("valid", test_rows)):
            expected[name].append(
                log_loss(margin[rows], objective.target[rows], weight[rows], reference=True)
            )
        # The first leaf values know the weights: in each leaf, minus gradient over Hessian.
        proba = np.exp(start) / (1 + np.exp(start).sum(axis=1, keepdims=True))
        first = booster.trees_to_dataframe().query("tree_index == 0 and left_child.isna()")
        leaf = booster.predict(
            objective.stacked_features[train_rows], pred_leaf=True, num_iteration=1
        )[:, 0].astype(int)
        weight, proba = weight[train_rows], proba[train_rows, 0]
        gradient = weight * (proba - (objective.target[train_rows] == 1))
        newton = -np.bincount(leaf, gradient) / np.bincount(leaf, weight * proba * (1 - proba))
        values = {
            int(n.split("L")[1]): v for n, v in zip(first.node_index, first.value, strict=True)
        }
        bounded = np.array([values[k] for k in range(len(newton))])
        # Monotone constraints may hold a leaf back, never push it further.
        free = np.isclose(bounded, 0.1 * newton, rtol=1e-4)
        assert free.sum() >= len(newton) / 2
    for name, values in expected.items():
        assert_allclose(result[f"{name} ipcw_log_loss-mean"][-1], np.mean(values), rtol=1e-6)
        assert_allclose(result[f"{name} ipcw_log_loss-stdv"][-1], np.std(values), rtol=1e-4)


def test_cv_refuses_refresh(people):
    objective = IPCWObjective(people.X, people.y, random_state=0)
    with pytest.raises(TypeError, match=r"lgb\.cv trains all folds side by side"):
        lgb.cv(
            {**objective.params, "objective": objective, **TREES},
            objective.train_set,
            folds=objective.folds(3),
            callbacks=[objective.refresh()],
        )


# ------------------------------------------------------------------------------------- the callback
def test_callback_survives_a_fake_payload(people):
    objective = IPCWObjective(people.X, people.y, refresh_every=3, random_state=0)
    callback = objective.refresh()
    env = CallbackEnv(
        model="test", params={}, iteration=1, begin_iteration=0, end_iteration=1,
        evaluation_result_list=[("validation", "ipcw_log_loss", 1.0, False)],
    )  # fmt: skip
    with pytest.raises(TypeError):
        callback(env)
    booster = train(objective, callbacks=[callback])
    again = train(objective, callbacks=[objective.refresh()])
    assert booster.model_to_string() == again.model_to_string()


def test_dart_refreshes_from_the_whole_model(people):
    """DART takes trees out of the model when its scores are read; weights must not see that."""
    objective = IPCWObjective(people.X, people.y, refresh_every=5, random_state=0)
    train(objective, 6, params=DART, callbacks=[objective.refresh()])
    t, z = people.y[1].astype(np.float32)[objective.person], objective.horizon
    G, X = objective.censoring_.survival, people.X[objective.person]
    weight = 1 / np.maximum(np.where(t > z, G(z, X), G(t, X, left=True)), 0.05)
    (record,) = objective.refreshes_
    assert_allclose(record.mean_weight, weight.mean(), rtol=1e-6)
    assert_allclose(record.max_weight, weight.max(), rtol=1e-6)


def test_training_twice_with_other_leaves_needs_no_new_dataset(people):
    objective = IPCWObjective(people.X, people.y, random_state=0)
    train(objective, 3, params={"min_data_in_leaf": 5})
    again = train(objective, 3, params={"min_data_in_leaf": 50})
    fresh = IPCWObjective(people.X, people.y, random_state=0)
    expected = train(fresh, 3, params={"min_data_in_leaf": 50})
    assert_array_equal(
        again.predict(objective.stacked_features, raw_score=True),
        expected.predict(objective.stacked_features, raw_score=True),
    )


def test_refresh_takes_the_bins_of_the_event_model(people):
    objective = IPCWObjective(people.X, people.y, refresh_every=3, random_state=0)
    booster = train(objective, 7, params={"max_bin": 31}, callbacks=[objective.refresh()])
    assert len(objective.refreshes_) == 2
    for model in (booster, objective.censoring_.model.booster):
        trees = model.trees_to_dataframe()
        assert trees.groupby("split_feature")["threshold"].nunique().max() <= 31


def test_training_continues_from_a_booster_of_an_equal_objective(people):
    def problem():
        return IPCWObjective(people.X, people.y, random_state=0)

    continued = train(problem(), 4, init_model=train(problem(), 4))
    assert_same_trees(continued, train(problem(), 8))

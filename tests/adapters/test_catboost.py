"""What is peculiar to CatBoost."""

import copy
from types import SimpleNamespace

import catboost
import numpy as np
import pandas as pd
import pytest
from catboost import CatBoost, CatBoostError, Pool
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import SurvivalBoost
from survival_objectives.adapters.catboost import IPCWLoss
from survival_objectives.losses import log_loss, probabilities

TREES = {"depth": 3, "learning_rate": 0.1, "thread_count": 1, "verbose": False}
# What the loss asks of its own training.
NEWTON = {"leaf_estimation_method": "Newton", "leaf_estimation_iterations": 1}


def fit(loss, n_rounds=10, *, callbacks=None, eval_set=None, **params):
    params = {**loss.params, "loss_function": loss, "iterations": n_rounds, **TREES, **params}
    return CatBoost(params).fit(loss.train_pool, callbacks=callbacks, eval_set=eval_set)


def native(loss, n_rounds=10, **params):
    """The engine's own loss on the same rows; those of weight 0 place bins, so they are kept."""
    pool = loss.train_pool
    rows = np.asarray(pool.get_label(), dtype=int).reshape(pool.num_row(), -1)[:, 0]
    target = np.zeros(pool.num_row(), int)
    target[: len(loss.target)] = loss.target
    assert_array_equal(rows, rows[0] + np.arange(pool.num_row()))
    labelled = Pool(pool.get_features(), target, weight=pool.get_weight())
    return CatBoost(
        {
            "iterations": n_rounds,
            "random_seed": loss.params["random_seed"],
            "allow_writing_files": False,
            "boost_from_average": False,
            **NEWTON,
            **TREES,
            **params,
        }
    ).fit(labelled)


def raw(loss, model):
    return np.asarray(model.predict(loss.stacked_features, prediction_type="RawFormulaVal"))


@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize("censored", [False, True])
def test_free_margins_give_the_values_of_multiclass(simulate, n_causes, censored):
    people = simulate(300, n_causes=n_causes, censored=censored)
    loss = IPCWLoss(people.X, people.y, margins="free", start="zero", random_state=0)
    assert (loss.initial_weight == 1).all() == (not censored)
    softmax = native(loss, loss_function="MultiClass", classes_count=n_causes + 1)
    assert_allclose(raw(loss, fit(loss)), raw(loss, softmax), atol=1e-9)


@pytest.mark.parametrize("monotone", [False, True])
def test_one_cause_gives_the_values_of_logloss(simulate, monotone):
    people = simulate(300, n_causes=1)
    loss = IPCWLoss(people.X, people.y, start="zero", monotone=monotone, random_state=0)
    constraint = {"monotone_constraints": [0] * 6 + [1], "model_shrink_rate": 0} if monotone else {}
    logistic = native(loss, loss_function="Logloss", **constraint)
    assert_allclose(raw(loss, fit(loss)), raw(loss, logistic), atol=1e-9)


def test_leaves_are_newton_steps_under_the_refreshed_weights(people):
    """By hand: from the model after three rounds to the weights, to the leaves of round four."""
    loss = IPCWLoss(people.X, people.y, refresh_every=3, random_state=0)
    options = {"l2_leaf_reg": 1e-12, "bootstrap_type": "No"}
    trees = {"depth": 2, "learning_rate": 0.3, "thread_count": 1}
    before = fit(loss, 3, **options)
    after = fit(loss, 4, callbacks=[loss.refresh(trees)], **options)
    assert_array_equal(after.get_leaf_values()[: 3 * 16], before.get_leaf_values())

    # Weights (11) of the censoring rows, from S of the model after three rounds.
    n, n_horizons = len(people.X), 4
    event, duration = people.y[0], people.y[1].astype(np.float32).astype(float)
    # Doubly robust targets have rows of everyone, at the same horizons.
    everyone = IPCWLoss(people.X, people.y, doubly_robust=True, random_state=0)
    z = np.asarray(everyone.horizon, dtype=float)
    person = np.tile(np.arange(n), n_horizons)
    t, d = duration[person], event[person]
    stacked = np.column_stack([people.X[person], z]).astype(np.float32)
    at_exit = np.column_stack([people.X[person], t]).astype(np.float32)
    start = np.asarray(loss._start_margin([0.0]))  # The best constant, at all times.

    def event_free(rows):
        return probabilities(before.predict(rows) + start, reference=True)[:, 0]

    kept = (t > z) | (d == 0)
    S = np.where(t > z, event_free(stacked), event_free(at_exit))[kept]
    km = loss._data.kaplan_meier()
    floor = 0.5 / n

    def km_log_odds(times, left=False):
        G = km.survival(times, left=left)
        return np.log(np.maximum(1 - G, floor) / np.maximum(G, floor))

    pool = Pool(
        stacked[kept],
        (t <= z)[kept].astype(int),
        weight=1 / np.maximum(S, 0.05),
        baseline=km_log_odds(z[kept])[:, None],
    )
    censoring = CatBoost(
        {
            **trees,
            "loss_function": "Logloss",
            "iterations": 3,
            "random_seed": loss.params["random_seed"],
            "monotone_constraints": [0] * 4 + [1],
            "model_shrink_rate": 0,
            "allow_writing_files": False,
            "verbose": False,
        }
    ).fit(pool)

    # Weights (10) of the event rows.
    rows = (t > z) | (d > 0)
    before_t = np.nextafter(t.astype(np.float32), np.float32(-np.inf))
    margin_z = censoring.predict(stacked) + km_log_odds(z)
    margin_t = censoring.predict(np.column_stack([people.X[person], before_t]).astype(np.float32))
    margin_t = margin_t + km_log_odds(t, left=True)
    G = 1 / (1 + np.exp(np.where(t > z, margin_z, margin_t)))[rows]
    weight = 1 / np.maximum(G, 0.05)
    (record,) = loss.refreshes_
    assert_allclose(record.mean_weight, weight.mean(), rtol=1e-7)
    assert_allclose(record.max_weight, weight.max(), rtol=1e-7)

    # Newton steps in the leaves of the fourth tree.
    proba = probabilities(before.predict(stacked[rows]) + start, reference=True)[:, 1:]
    observed = loss.target[:, None] == np.array([1, 2])
    leaf = after.calc_leaf_indexes(Pool(stacked[rows]))[:, 3]
    values = after.get_leaf_values()[3 * 16 :].reshape(8, 2)
    weight = weight.astype(np.float32).astype(float)
    for k in range(8):
        inside = leaf == k
        if not inside.any():
            continue
        w, p = weight[inside], proba[inside]
        gradient = (w[:, None] * (observed[inside] - p)).sum(axis=0)
        hessian = np.diag(w @ p) - (w[:, None] * p).T @ p
        assert_allclose(values[k], 0.1 * np.linalg.solve(hessian, gradient), atol=1e-7)


# ------------------------------------------------------------------------------------- own rows
@pytest.mark.parametrize("n_causes", [1, 2])
def test_a_pool_with_other_row_numbers_is_refused(simulate, n_causes):
    people, more = simulate(100, n_causes=n_causes), simulate(300, n_causes=n_causes)
    loss = IPCWLoss(people.X, people.y, random_state=0)
    other = IPCWLoss(more.X, more.y, random_state=0)
    model = CatBoost({**loss.params, "loss_function": loss, "iterations": 2, **TREES})
    with pytest.raises((CatBoostError, ValueError), match=r"Train on `loss\.train_pool`"):
        model.fit(other.train_pool)


@pytest.mark.parametrize("n_causes", [1, 2])
def test_a_pool_with_other_weights_is_refused(simulate, n_causes):
    people = simulate(100, n_causes=n_causes)
    loss = IPCWLoss(people.X, people.y, random_state=0)
    other = IPCWLoss(people.X[:80], (people.y[0][:80], people.y[1][:80]), random_state=0)
    model = CatBoost({**loss.params, "loss_function": loss, "iterations": 2, **TREES})
    with pytest.raises((CatBoostError, ValueError), match=r"Train on `loss\.train_pool`"):
        model.fit(other.train_pool)


def test_a_copy_of_the_parameters_has_weights_of_its_own_and_shares_the_rest(people):
    loss = IPCWLoss(people.X, people.y, random_state=0)
    copied = copy.deepcopy({**loss.params, "loss_function": loss})
    training = copied["loss_function"]
    assert copied["eval_metric"]._loss is training
    assert loss._trainings.latest() is training
    training._table[:, 0] = 7.0
    assert_array_equal(loss._table[:, 0], loss._pool_weight)
    assert training._features is loss._features


@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize("metric", [True, False])
def test_a_pool_of_the_users_own_is_refused(simulate, n_causes, metric):
    """No one is censored and all weights are 1: only row numbers tell pools apart."""
    people = simulate(100, n_causes=n_causes, censored=False)
    loss = IPCWLoss(people.X, people.y, random_state=0)
    params = {**loss.params, "loss_function": loss, "iterations": 2, **TREES}
    if not metric:
        params["eval_metric"] = "RMSE" if n_causes == 1 else "MultiRMSE"
    columns = np.column_stack([people.X, people.y[1]])
    label = np.tile((np.arange(100) % 2)[:, None], n_causes) + np.arange(n_causes)
    with pytest.raises((CatBoostError, ValueError), match=r"Train on `loss\.train_pool`"):
        CatBoost(params).fit(Pool(columns, label))


def test_a_pool_with_our_numbers_and_weights_but_other_columns_cannot_predict(people):
    loss = IPCWLoss(people.X, people.y, random_state=0)
    pool = loss.train_pool
    shuffled = np.random.default_rng(0).permutation(pool.get_features())
    foreign = Pool(shuffled, pool.get_label(), weight=pool.get_weight())
    model = CatBoost({**loss.params, "loss_function": loss, "iterations": 2, **TREES}).fit(foreign)
    with pytest.raises(ValueError, match="not trained by this objective"):
        loss.predict_cumulative_incidence(model, people.X, [1.0])


def test_a_bias_of_the_users_own_is_refused(people):
    loss = IPCWLoss(people.X, people.y, random_state=0)
    model = fit(loss, 2)
    model.set_scale_and_bias(1.0, [0.5, 0.0])
    with pytest.raises(ValueError, match=r"adds \[0\.5, 0\.0\]"):
        loss.predict_cumulative_incidence(model, people.X, [1.0])


# ------------------------------------------------------------------------------------------ cv
def test_cv_keeps_people_together_and_weighs_by_everyone(people):
    """CatBoost does not tell a loss which fold it trains: all folds share the weights."""
    loss = IPCWLoss(people.X, people.y, n_horizons=2, random_state=0)
    folds = loss.folds(3, random_state=0)
    params = {**loss.params, "loss_function": loss, "iterations": 3, **TREES}
    history, models = catboost.cv(
        loss.train_pool, params, folds=folds, return_models=True, logging_level="Silent"
    )
    start = loss._start_margin(loss.horizon)
    expected = []
    for model, (train, test) in zip(models, folds, strict=True):
        assert not set(loss.person[train]) & set(loss.person[test])
        margin = raw(loss, model)[test] + start[test]
        expected.append(
            log_loss(margin, loss.target[test], loss.initial_weight[test], reference=True)
        )
    assert_allclose(history["test-IPCWLogLoss-mean"].iloc[-1], np.mean(expected), rtol=1e-6)


def test_cv_has_no_place_for_refresh(people):
    loss = IPCWLoss(people.X, people.y, random_state=0)
    params = {**loss.params, "loss_function": loss, "iterations": 3, **TREES}
    with pytest.raises(TypeError, match="callbacks"):
        catboost.cv(loss.train_pool, params, folds=loss.folds(3), callbacks=[loss.refresh()])
    with pytest.raises(TypeError, match=r"catboost\.cv` cannot refresh"):
        catboost.cv(loss.train_pool, {**params, "callbacks": [loss.refresh()]}, folds=loss.folds(3))


# ------------------------------------------------------------------------------------- the callback
@pytest.mark.parametrize("iteration", [1, 2, 7])
def test_callback_survives_a_fake_payload(people, iteration):
    loss = IPCWLoss(people.X, people.y, refresh_every=3, random_state=0)
    callback = loss.refresh()
    metrics = {"learn": {"IPCWLogLoss": [1.0]}}
    assert callback.after_iteration(SimpleNamespace(iteration=iteration, metrics=metrics)) is True
    model = fit(loss, 7, callbacks=[callback])
    assert [record.round for record in loss.refreshes_] == [3, 6]
    again = fit(loss, 7, callbacks=[loss.refresh()])
    assert_array_equal(raw(loss, model), raw(loss, again))


@pytest.mark.parametrize("every", [1, 3])
def test_callback_may_be_used_again(people, every):
    loss = IPCWLoss(people.X, people.y, refresh_every=every, random_state=0)
    callback = loss.refresh()
    models = [fit(loss, 5, callbacks=[callback]) for _ in range(2)]
    assert_array_equal(raw(loss, models[0]), raw(loss, models[1]))
    assert [record.round for record in loss.refreshes_] == list(range(every, 6, every))


@pytest.mark.parametrize("metric_period", [2, 5, 20])
def test_a_hidden_metric_is_an_error(people, metric_period):
    loss = IPCWLoss(people.X, people.y, refresh_every=3, random_state=0)
    with pytest.raises((CatBoostError, ValueError), match="metric_period=1"):
        fit(loss, 9, callbacks=[loss.refresh()], metric_period=metric_period)


def test_printing_less_often_hides_nothing(people):
    loss = IPCWLoss(people.X, people.y, refresh_every=3, random_state=0)
    quiet = fit(loss, 7, callbacks=[loss.refresh()])
    loud = fit(loss, 7, callbacks=[loss.refresh()], verbose=5)
    assert_array_equal(raw(loss, quiet), raw(loss, loud))


# ------------------------------------------------------------------------------------- constraints
def test_monotone_curves_of_several_causes_are_refused(people):
    with pytest.raises(ValueError, match="CatBoost ignores monotone constraints for 2 margins"):
        IPCWLoss(people.X, people.y, monotone=True)
    # Left to itself, the loss leaves the constraint out.
    assert "monotone_constraints" not in IPCWLoss(people.X, people.y).params


@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize("options", [{}, {"monotone": False}, {"early_stopping_rounds": 10}])
def test_many_levels_are_the_same_in_the_chunks_and_in_the_model(n_causes, options, tmp_path):
    """Above 255 levels CatBoost counts them; tables of several chunks were averaged."""
    rng = np.random.default_rng(0)
    level = rng.choice(400, 1000, p=np.arange(1, 401) / np.arange(1, 401).sum())
    X = pd.DataFrame({"x": rng.normal(size=1000), "ward": pd.Categorical([f"w{v}" for v in level])})
    event = rng.integers(0, n_causes + 1, 1000)
    y = event, rng.exponential(np.exp(-0.5 * X["x"] + (level > 200)))
    settings = {"censoring": "boosted", "n_estimators": 45, "n_jobs": 1, "random_state": 0}
    model = SurvivalBoost("catboost", **{**settings, **options}).fit(X, y)
    curves = model.predict_survival_function(X)
    alone = np.concatenate([model.predict_survival_function(X.iloc[[row]]) for row in range(9)])
    assert_allclose(alone, curves[:9], atol=1e-12)
    model.save(tmp_path / "model")
    assert_array_equal(SurvivalBoost.load(tmp_path / "model").predict_survival_function(X), curves)

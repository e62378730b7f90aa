"""Hazards in the engine's own training call, on every engine."""

import pickle
from typing import ClassVar

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from catboost import cv as catboost_cv
from engine_drivers import CatBoostEngine, LightGBMEngine, XGBoostEngine, simulate
from numpy.testing import assert_allclose, assert_array_equal
from xgboost import cv as xgboost_cv

from survival_objectives import load
from survival_objectives.adapters import catboost as catboost_adapter
from survival_objectives.adapters import lightgbm as lightgbm_adapter
from survival_objectives.adapters import xgboost as xgboost_adapter

TIMES = [0.3, 0.7, 1.5]


class XGBoostHazards(XGBoostEngine):
    not_random: ClassVar = {}
    problem = xgboost_adapter.HazardObjective
    snippet = """
import xgboost as xgb
from survival_objectives.adapters.xgboost import HazardObjective, IPCWObjective
objective = HazardObjective(X, y, random_state=0)                 # risk-set rows; linear=True, the default, starts from ridge hazards
booster = xgb.train({**objective.params, "max_depth": 4, "learning_rate": 0.1}, objective.dtrain, 300, obj=objective,
                    custom_metric=objective.metric, evals=[(objective.held_out(X_val, y_val), "held_out")], early_stopping_rounds=20)
cif = objective.predict_cumulative_incidence(booster, X_test, times)
model = objective.fitted(booster)                                 # a fitted model: predict_*, shap_values, to_onnx, save; both objectives have it
parts = objective.cross_fit(5)                                    # objectives with common knots; start and linear part exclude the people each holds out; .held_out() is their matrix
"""  # noqa: E501  Printed as in the contract.

    def continued(self, objective, model, n_rounds, **params):
        return self.train(objective, n_rounds, options={"xgb_model": model}, **params)

    def cv(self, objective, n_rounds):
        scores = xgboost_cv(
            {**objective.params, **self.params(min_weight=15)},
            objective.cv_matrix(),
            n_rounds,
            folds=objective.folds(3, random_state=0),
            obj=objective,
            custom_metric=objective.metric,
        )
        return scores["test-hazard_log_loss-mean"].to_numpy()

    def value(self, objective, model, held_out):
        margin = model.predict(held_out, output_margin=True)
        return objective.metric(margin, held_out)[1]

    def constrained(self, signs):
        return {"monotone_constraints": tuple(signs)}


class LightGBMHazards(LightGBMEngine):
    not_random: ClassVar = {}
    problem = lightgbm_adapter.HazardObjective
    snippet = """
import lightgbm as lgb
from survival_objectives.adapters.lightgbm import HazardObjective, IPCWObjective
objective = HazardObjective(X, y, random_state=0)
booster = lgb.train({**objective.params, "objective": objective, "num_leaves": 15}, objective.train_set, 300,
                    valid_sets=[objective.held_out(X_val, y_val)], feval=objective.metric, callbacks=[lgb.early_stopping(20)])
cif = objective.predict_cumulative_incidence(booster, X_test, times)
model = objective.fitted(booster)
parts = objective.cross_fit(5)
"""  # noqa: E501  Printed as in the contract.

    def continued(self, objective, model, n_rounds, **params):
        return self.train(objective, n_rounds, options={"init_model": model}, **params)

    def cv(self, objective, n_rounds):
        scores = lgb.cv(
            {**objective.params, **self.params(min_weight=15), "objective": objective},
            objective.train_set,
            n_rounds,
            folds=objective.folds(3, random_state=0),
            feval=objective.metric,
        )
        return np.array(scores["valid hazard_log_loss-mean"])

    def value(self, objective, model, held_out):
        margin = model.predict(held_out.data, raw_score=True)
        return objective.metric(margin.ravel(order="F"), held_out.construct())[1]

    def constrained(self, signs):
        return {"monotone_constraints": list(signs)}


class CatBoostHazards(CatBoostEngine):
    problem = catboost_adapter.HazardLoss
    snippet = """
from catboost import CatBoost
from survival_objectives.adapters.catboost import HazardLoss, IPCWLoss
loss = HazardLoss(X, y, random_state=0)
model = CatBoost({**loss.params, "loss_function": loss, "iterations": 300, "depth": 4, "early_stopping_rounds": 20})
model.fit(loss.train_pool, eval_set=loss.held_out(X_val, y_val))
cif = loss.predict_cumulative_incidence(model, X_test, times)
model = loss.fitted(model)
parts = loss.cross_fit(5)
"""  # noqa: E501  Printed as in the contract.

    def continued(self, objective, model, n_rounds, **params):
        return self.train(objective, n_rounds, options={"init_model": model}, **params)

    #: A continued training begins the stream of random numbers again.
    not_random: ClassVar = {"bootstrap_type": "No", "random_strength": 0}

    def cv(self, objective, n_rounds):
        params = {**objective.params, **self.params(), "loss_function": objective}
        scores = catboost_cv(
            objective.train_pool,
            {**params, "iterations": n_rounds, "logging_level": "Silent"},
            folds=objective.folds(3, random_state=0),
        )
        return scores[f"test-{objective!s}-mean"].to_numpy()

    def value(self, objective, model, held_out):
        metric = objective.metric
        margin = np.array(model.predict(held_out, prediction_type="RawFormulaVal"), ndmin=2)
        margin = margin.reshape(held_out.num_row(), -1)  # With the baseline of the pool.
        label, weight = held_out.get_label(), held_out.get_weight()
        return metric.get_final_error(*metric.evaluate(tuple(margin.T), label, np.array(weight)))


ENGINES = {one.name: one for one in (XGBoostHazards, LightGBMHazards, CatBoostHazards)}


@pytest.fixture(params=sorted(ENGINES))
def engine(request):
    return ENGINES[request.param]()


@pytest.fixture(scope="module")
def people():
    return simulate(300, n_features=4)


@pytest.fixture(scope="module")
def others():
    return simulate(150, n_features=4, seed=1)


def trained(engine, people, n_rounds=8, **options):
    objective = engine.problem(people.X, people.y, random_state=0, **options)
    return objective, engine.train(objective, n_rounds, min_weight=5)


# ---------------------------------------------------------------------------------- the contract
@pytest.mark.parametrize("n_causes", [1, 2])
def test_snippet_runs_as_printed(engine, n_causes, capsys):
    people, held_out = (simulate(n, n_causes=n_causes, n_features=3, seed=n) for n in (200, 80))
    X = people.X.copy()
    X[::7, 1] = np.nan
    names = {"X": X, "y": people.y, "X_test": X[:11], "times": np.array([0.0, 0.5, 2.5])}
    names.update(X_val=held_out.X, y_val=held_out.y)
    exec(engine.snippet, names)
    cif = names["cif"]
    assert cif.shape == (11, n_causes + 1, 3)
    assert cif.dtype == np.float64
    assert_allclose(cif.sum(axis=1), 1, atol=1e-12)
    assert (np.diff(cif[:, 1:], axis=2) >= 0).all()
    assert_array_equal(names["model"].predict_cumulative_incidence(X[:11], names["times"]), cif)
    assert len(names["parts"]) == 5
    capsys.readouterr()


def test_boosters_of_the_parts_are_averaged(engine, people, others):
    objective = engine.problem(people.X, people.y, random_state=0)
    parts = objective.cross_fit(3)
    models = []
    for part in parts:
        options = engine.early_stopping(part, part.held_out(), 5)
        models.append(engine.train(part, 20, min_weight=5, options=options))
    every = [objective.predict_cumulative_incidence(one, others.X, TIMES) for one in models]
    averaged = objective.fitted(models)
    for order in (models, models[::-1]):
        found = objective.fitted(order).predict_cumulative_incidence(others.X, TIMES)
        assert_allclose(found, np.mean(every, axis=0), atol=1e-12)
    assert np.abs(every[0] - every[1]).max() > 1e-3
    assert_allclose(averaged.feature_importances_.sum(), 1)
    alone = parts[1].predict_cumulative_incidence(models[1], others.X, TIMES)
    assert_array_equal(alone, every[1])
    with pytest.raises(ValueError, match="not trained by this objective"):
        parts[0].predict_cumulative_incidence(models[1], others.X, TIMES)


def test_what_belongs_to_weights_names_the_other_objective(engine, people):
    with pytest.raises(TypeError, match=r"has no `n_horizons`.*IPCW"):
        engine.problem(people.X, people.y, n_horizons=4)
    with pytest.raises(TypeError, match=r"has no `refresh_every`.*IPCW"):
        engine.problem(people.X, people.y, refresh_every=10)
    with pytest.raises(TypeError, match=r"no parameter 'n_interval'\. Did you mean 'n_intervals'"):
        engine.problem(people.X, people.y, n_interval=4)
    with pytest.raises(TypeError, match=r"`linear` must be True or False; got 'yes'"):
        engine.problem(people.X, people.y, linear="yes")
    objective = engine.problem(people.X, people.y, random_state=0)
    with pytest.raises(AttributeError, match=r"has no `refresh`.*IPCW"):
        objective.refresh()
    assert not hasattr(objective, "refresh")
    with pytest.raises(AttributeError, match="no attribute 'fit'"):
        objective.fit  # noqa: B018


# ------------------------------------------------------------------------------------- statistics
def test_the_metric_is_the_log_likelihood_of_the_rows_per_person(engine, people, others):
    objective = engine.problem(
        people.X, people.y, rows_per_person="all", n_intervals=6, random_state=0
    )
    model = engine.train(objective, 5, min_weight=5)
    held_out = objective.held_out(others.X, others.y)
    # The fitted model without its correction in time.
    hazard = objective._hazard_model(model)
    start = objective._data.start
    rows = objective._held_out_rows(others.X, others.y, None)
    margin = start.level[:, rows.values[:, -1].astype(int)]
    margin = margin + start.offset(others.X.astype(np.float32))[:, rows.person]
    margin = margin + hazard.trees.row_margin(rows.values[:, :-1], rows.values[:, -1].astype(int))
    odds = np.exp(margin)
    proba = np.vstack([np.ones(len(rows.target)), odds]) / (1 + odds.sum(axis=0))
    loss = -(rows.weight * np.log(proba[rows.target, np.arange(len(rows.target))])).sum()
    assert_allclose(engine.value(objective, model, held_out), loss / 150, rtol=1e-5)


def test_expected_events_match_those_of_the_training_people(engine, people):
    objective, model = trained(engine, people, rows_per_person="all")
    hazard, knots = objective.fitted(model).predict_hazard(people.X)
    event, duration = people.y
    for cause in (1, 2):
        expected = 0.0
        for one, time in zip(hazard, np.minimum(duration, knots[-1]), strict=True):
            left = np.clip((time - knots[:-1]) / np.diff(knots), 0, 1)
            expected += (one[cause - 1] * np.where(left > 0, left, 0)).sum()
        observed = (event == cause).sum()
        # People with an event count fully in its interval.
        assert_allclose(expected, observed, rtol=0.08)


def test_held_out_people_change_nothing_but_the_number_of_rounds(engine, people, others):
    objective = engine.problem(people.X, people.y, random_state=0)
    options = engine.early_stopping(objective, objective.held_out(others.X, others.y), 4)
    stopped = engine.train(objective, 60, learning_rate=0.3, min_weight=2, options=options)
    n_rounds = engine.best_round(stopped) + 1
    alone = engine.train(objective, n_rounds, learning_rate=0.3, min_weight=2)
    assert n_rounds < 56
    assert_array_equal(
        objective.predict_cumulative_incidence(stopped, others.X, TIMES),
        objective.predict_cumulative_incidence(alone, others.X, TIMES),
    )


@pytest.mark.parametrize("linear", [True, False])
def test_without_trees_the_start_is_the_hazards(engine, people, linear):
    objective = engine.problem(people.X, people.y, linear=linear, random_state=0)
    assert (objective._data.start.coefficients is not None) == linear
    model = engine.train(objective, 1, learning_rate=1e-6)
    curves = objective.predict_survival_function(model, people.X, [1.0])
    spread = np.ptp(curves)
    assert spread > 0.3 if linear else spread < 1e-3


def test_the_own_loss_of_the_engine_gives_the_same_trees():
    people = simulate(300, n_causes=1, n_features=4)
    objective = xgboost_adapter.HazardObjective(people.X, people.y, random_state=0)
    params = {**objective.params, "max_depth": 3, "nthread": 1}
    ours = xgb.train(params, objective.dtrain, 10, obj=objective)
    theirs = xgb.train(params, objective.dtrain, 10)  # binary:logistic of `params`
    margins = [one.predict(objective.dtrain, output_margin=True) for one in (ours, theirs)]
    assert_allclose(*margins, atol=2e-5)


# ---------------------------------------------------------------------------------- fitted models
def test_a_fitted_model_is_saved_explained_and_loaded(engine, people, others, tmp_path):
    objective, model = trained(engine, people)
    fitted = objective.fitted(model)
    expected = objective.predict_cumulative_incidence(model, others.X, TIMES)
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_array_equal(loaded.predict_cumulative_incidence(others.X, TIMES), expected)
    assert (loaded.predict_proba(others.X[:1], 1.0).shape) == (1, 3)
    found = fitted.shap_values(others.X, 1.0)
    margin = fitted.fitted_model.margin(_features(fitted, others.X), 1.0)
    assert_allclose(found.sum(axis=2), margin, atol=1e-5)
    assert_array_equal(fitted.n_events_, np.bincount(people.y[0]))
    copy = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(copy.predict_cumulative_incidence(others.X, TIMES), expected)
    assert not hasattr(fitted, "fit")
    for each in (fitted, loaded):
        hazard, knots = each.predict_hazard(others.X[:2])
        assert hazard.shape == (2, 2, len(knots) - 1)


def _features(model, X):
    from survival_objectives._people import check_features

    return check_features(X, like=model.fitted_model.schema)


def test_a_fitted_model_becomes_onnx(engine, people, others, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    objective, model = trained(engine, people, n_rounds=4)
    objective.fitted([model, model]).to_onnx(tmp_path / "model.onnx", TIMES)
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    (found,) = session.run(None, {"features": others.X.astype(np.float32)})
    expected = objective.predict_cumulative_incidence(model, others.X, TIMES)
    assert_allclose(found, expected, atol=1e-5)


def test_a_model_of_another_objective_is_refused(engine, people, others):
    objective, model = trained(engine, people)
    event, duration = people.y
    problems = {
        "people": (others.X, others.y, {}),
        "causes": (people.X, (np.where(event > 0, 3 - event, 0), duration), {}),
        "names": (pd.DataFrame(people.X, columns=list("abcd")), people.y, {}),
        "start": (people.X, people.y, {"linear": False}),
        "knots": (people.X, people.y, {"n_intervals": 9}),
    }
    for X, y, options in problems.values():
        other = engine.problem(X, y, random_state=0, **options)
        with pytest.raises(ValueError, match="not trained by this objective"):
            other.predict_cumulative_incidence(model, X, TIMES)
    again = engine.problem(people.X, people.y, random_state=0)
    for known in (again, pickle.loads(pickle.dumps(objective))):
        assert_array_equal(
            known.predict_cumulative_incidence(model, others.X, TIMES),
            objective.predict_cumulative_incidence(model, others.X, TIMES),
        )


def test_other_matrices_are_refused(people):
    objective = xgboost_adapter.HazardObjective(people.X, people.y, random_state=0)
    other = xgboost_adapter.HazardObjective(people.X, people.y, random_state=1)
    with pytest.raises(ValueError, match="not this objective's own"):
        xgb.train(objective.params, other.dtrain, 1, obj=objective)
    other = lightgbm_adapter.HazardObjective(people.X, people.y, random_state=1)
    objective = lightgbm_adapter.HazardObjective(people.X, people.y, random_state=0)
    with pytest.raises(ValueError, match="not this objective's own"):
        lgb.train({**objective.params, "objective": objective}, other.train_set, 1)


# ------------------------------------------------------------------------ what the engines offer
def test_same_seed_same_model(engine, people):
    bits = [engine.bits(trained(engine, people)[1]) for _ in range(2)]
    assert bits[0] == bits[1]


@pytest.mark.parametrize("n_causes", [1, 2])
def test_a_continued_training_is_a_longer_one(engine, n_causes):
    people = simulate(300, n_causes=n_causes, n_features=4)
    objective = engine.problem(people.X, people.y, random_state=0)
    first = engine.train(objective, 4, min_weight=5, **engine.not_random)
    continued = engine.continued(objective, first, 4, min_weight=5, **engine.not_random)
    whole = engine.train(objective, 8, min_weight=5, **engine.not_random)
    assert_allclose(
        objective.predict_cumulative_incidence(continued, people.X, TIMES),
        objective.predict_cumulative_incidence(whole, people.X, TIMES),
        atol=1e-6,
    )
    again = engine.train(objective, 4, min_weight=5)
    assert engine.bits(again) == engine.bits(engine.train(objective, 4, min_weight=5))


def test_cross_validation_of_the_engine(engine, people):
    objective = engine.problem(people.X, people.y, linear=False, random_state=0)
    scores = engine.cv(objective, 10)
    assert scores[-1] < scores[0]


def test_constraints_of_the_user_hold(engine):
    if engine.name == "catboost":
        pytest.skip("CatBoost's MultiClass takes no monotone constraints")
    people = simulate(400, n_causes=1, n_features=3)
    objective = engine.problem(people.X, people.y, linear=False, random_state=0)
    rows = np.zeros((50, 3))
    rows[:, 1] = np.linspace(-2, 2, 50)
    for sign in (1, -1):
        params = engine.constrained([0, sign, 0, 0])
        model = engine.train(objective, 15, min_weight=2, **params)
        step = np.diff(objective.predict_survival_function(model, rows, [1.0])[:, 0])
        assert (sign * step <= 1e-12).all()


@pytest.mark.parametrize("text", [False, True])
def test_labels_keep_their_names(engine, people, others, text):
    labels = np.array(["censored", "died", "left"] if text else [0, 3, 7])
    curves, losses = [], []
    for names in (np.arange(3), labels):
        y, held = (
            pd.DataFrame({"event": names[one.y[0]], "duration": one.y[1]})
            for one in (people, others)
        )
        objective = engine.problem(people.X, y, random_state=0)
        model = engine.train(objective, 5, min_weight=5)
        curves.append(objective.predict_cumulative_incidence(model, others.X, TIMES))
        losses.append(engine.value(objective, model, objective.held_out(others.X, held)))
    assert_array_equal(*curves)
    assert losses[0] == losses[1]
    names = ("event-free", "died", "left") if text else ("event-free", "cause 3", "cause 7")
    assert objective.event_names_ == names
    assert objective.fitted(model).event_names_ == names


def test_categories_and_missing_values(engine, people, others):
    def frame(X):
        group = pd.Categorical(np.where(X[:, 0] > 0, "b", "a"), categories=["a", "b", "c"])
        number = np.where(X[:, 1] > 1.5, np.nan, X[:, 1])
        return pd.DataFrame({"group": group, "number": number, "noise": X[:, 3]})

    objective = engine.problem(frame(people.X), people.y, linear=False, random_state=0)
    options = engine.early_stopping(objective, objective.held_out(frame(others.X), others.y), 10)
    model = engine.train(objective, 30, min_weight=2, options=options)
    curves = objective.predict_cumulative_incidence(model, frame(others.X), TIMES)
    group = others.X[:, 0] > 0
    assert curves[group, 1, 2].mean() > curves[~group, 1, 2].mean() + 0.1
    fitted = objective.fitted(model)
    assert_array_equal(fitted.predict_cumulative_incidence(frame(others.X), TIMES), curves)


def test_people_of_weight_zero_have_no_say(engine, people):
    event, duration = people.y
    weight = np.ones(300)
    weight[:40] = 0
    some = engine.problem(people.X[40:], (event[40:], duration[40:]), random_state=0)
    every = engine.problem(people.X, people.y, sample_weight=3 * weight, random_state=0)
    assert_array_equal(every.person - 40, some.person)
    curves = [
        one.predict_cumulative_incidence(engine.train(one, 4, min_weight=5), people.X[:9], TIMES)
        for one in (some, every)
    ]
    assert_array_equal(*curves)


def test_weights_of_held_out_people_count_in_the_metric(engine, people, others):
    objective, model = trained(engine, people)
    event, duration = others.y
    twice = np.repeat(np.arange(20), 2)
    repeated = objective.held_out(others.X[twice], (event[twice], duration[twice]))
    some = others.X[:20], (event[:20], duration[:20])
    weighted = objective.held_out(*some, sample_weight=np.full(20, 2.0))
    plain = objective.held_out(*some)
    values = [engine.value(objective, model, one) for one in (repeated, weighted, plain)]
    assert_allclose(values[1], values[2], rtol=1e-6)
    assert_allclose(values[0], values[2], rtol=0.05)  # Rows of people are drawn.


# ------------------------------------------------------------------------ how people are observed
def observed(people, entry=None, cuts=None):
    """People with late entry, or as a long table of two rows with equal features for each."""
    event, duration = people.y
    if cuts is None:
        y = {"event": event, "duration": duration}
        return people.X, y if entry is None else {**y, "entry": entry}
    first = {"id": np.arange(len(event)), "start": 0 * cuts, "stop": cuts, "event": 0 * event}
    last = {"id": np.arange(len(event)), "start": cuts, "stop": duration, "event": event}
    order = np.random.default_rng(0).permutation(2 * len(event))
    y = {name: np.concatenate([first[name], last[name]])[order] for name in first}
    return np.concatenate([people.X, people.X])[order], y


def test_entry_at_0_and_time_cut_into_rows_change_nothing(engine, people, others):
    event, duration = people.y
    forms = [observed(people), observed(people, entry=0 * duration)]
    forms.append(observed(people, cuts=duration * 0.4))
    held = [observed(others), observed(others, entry=0 * others.y[1])]
    held.append(observed(others, cuts=others.y[1] * 0.7))
    found = []
    for (X, y), rest in zip(forms, held, strict=True):
        objective = engine.problem(X, y, random_state=0)
        options = engine.early_stopping(objective, objective.held_out(*rest), 5)
        model = engine.train(objective, 8, min_weight=5, options=options)
        loss = engine.value(objective, model, objective.held_out(*rest))
        found.append((loss, objective.predict_cumulative_incidence(model, others.X, TIMES)))
    assert found[1][0] == found[0][0]
    assert_array_equal(found[1][1], found[0][1])
    X, y = forms[2]  # It numbers people by their first rows.
    _, first = np.unique(y["id"], return_index=True)
    number = np.argsort(np.argsort(first))
    order = np.argsort(number)
    whole = engine.problem(people.X[order], (event[order], duration[order]), random_state=0)
    same = engine.problem(X, y, random_state=0)
    assert_array_equal(same.person, whole.person)
    curves = [
        one.predict_cumulative_incidence(engine.train(one, 8, min_weight=5), others.X, TIMES)
        for one in (whole, same)
    ]
    assert_array_equal(*curves)


def test_truncated_people_of_a_changing_table(engine):
    """A hazard that halves when treatment begins, among people who enter late."""
    rng = np.random.default_rng(0)
    x, begin, entry = rng.normal(size=900), rng.exponential(size=900), rng.uniform(0, 1, 900)
    need = rng.exponential(size=900)
    time = np.where(need < begin, need, begin + 2 * (need - begin))
    stop = np.minimum(time, entry + rng.uniform(0.5, 3, 900))
    ids = np.repeat(np.arange(900), 2)
    start = np.column_stack([entry, np.maximum(begin, entry)]).ravel()
    end = np.column_stack([np.minimum(begin, stop), stop]).ravel()
    event = np.column_stack([0 * x, time <= stop]).ravel()
    event[::2] = np.where(begin >= stop, event[1::2], 0)
    X = np.column_stack([np.repeat(x, 2), np.tile([0.0, 1.0], 900)])
    y = {"id": ids, "start": start, "stop": end, "event": event.astype(int)}
    is_row = (start < end) & np.repeat(time > entry, 2)
    X, y = X[is_row], {name: values[is_row] for name, values in y.items()}
    objective = engine.problem(X, y, random_state=0)
    model = engine.train(objective, 15, min_weight=5)
    curves = objective.predict_survival_function(model, np.array([[0.0, 0], [0, 1]]), [1.0, 2.0])
    assert_allclose(curves, np.exp([[-1, -2], [-0.5, -1]]), atol=0.07)
    # People are the units of folds, of weights and of the metric.
    own = np.unique(y["id"], return_inverse=True)[1]
    people = [np.unique(objective.person[rows]) for rows in objective.folds(3, random_state=0)[0]]
    assert not np.intersect1d(*people).size
    assert sum(map(len, people)) == own.max() + 1
    weight = rng.integers(0, 3, own.max() + 1)[own]
    weighted = engine.problem(X, y, sample_weight=weight, random_state=0)
    assert_array_equal(np.unique(weighted.person), np.unique(pd.factorize(y["id"])[0][weight > 0]))
    assert objective._held_out_rows(X, y, None).n_people == own.max() + 1
    assert objective._n_people(np.arange(len(objective.target))) == own.max() + 1


def test_groups_share_a_fold_of_the_engine(engine, people):
    group = np.arange(300) % 40
    objective = engine.problem(people.X, people.y, groups=group, random_state=0)
    for kept, held in objective.folds(3, random_state=0):
        assert not np.intersect1d(group[objective.person[kept]], group[objective.person[held]]).size

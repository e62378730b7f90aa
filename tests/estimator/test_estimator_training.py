"""Early stopping, continued training, weights of people, seeds."""

from __future__ import annotations

import logging
import pickle

import numpy as np
import pandas as pd
import pytest
from estimator_data import boost, same_booster, simulated
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._engines import protocol as registry
from survival_objectives._horizons import training as stacked
from survival_objectives._people import cohort
from survival_objectives.losses import log_loss


# ------------------------------------------------------------------------------ early stopping
def stopping(engine, **parameters):
    return boost(
        engine,
        **{
            "n_estimators": 200,
            "learning_rate": 0.3,
            "early_stopping_rounds": 10,
            "refresh_every": 5,
            **parameters,
        },
    )


def test_early_stopping_keeps_the_best_round(engine, data):
    model = stopping(engine).fit(data.X, data.y)
    losses = [record.loss for record in model.history_]
    rounds = [record.round for record in model.history_]
    assert rounds == list(range(1, len(rounds) + 1))
    best = rounds[int(np.argmin(losses))]
    assert model.n_estimators_ == best
    # It stops at the end of the chunk in which patience ran out.
    assert best + 10 <= len(rounds) <= best + 10 + 5
    assert len(rounds) < 200
    n_trees = {
        "lightgbm": lambda: model.booster_.current_iteration(),
        "xgboost": lambda: model.booster_.num_boosted_rounds(),
        "catboost": lambda: model.booster_.tree_count_,
    }
    assert n_trees[engine]() == best


def test_recorded_loss_is_that_of_the_model_kept(engine, data, monkeypatch):
    seen = {}
    rows = stacked.held_out_rows

    def remember(*arguments):
        seen["rows"] = rows(*arguments)
        return seen["rows"]

    monkeypatch.setattr(stacked, "held_out_rows", remember)
    model = stopping(engine).fit(data.X, data.y)
    held_out = seen["rows"]
    margin = model._model.trees.sum_of_trees(held_out.values, 0, model.n_estimators_)
    loss = log_loss(
        np.asarray(margin) + model._model.start.initial,
        held_out.target,
        held_out.weight,
        reference=len(model._model.start.initial) == 2,
    )
    assert_allclose(loss, min(record.loss for record in model.history_), rtol=1e-6)


def test_held_out_people_decide_when_to_stop_and_nothing_else(engine, data):
    train, held = np.arange(240), np.arange(240, 300)
    X, y = data.X, data.y
    others = pd.DataFrame({"event": [1, 2] * 30, "duration": np.linspace(0.01, 0.05, 60)})
    models = [
        stopping(engine).fit(X.iloc[train], y.iloc[train], eval_set=(X.iloc[held], y_held))
        for y_held in (y.iloc[held], others)
    ]
    assert [record.loss for record in models[0].history_][:5] != [
        record.loss for record in models[1].history_
    ][:5]
    plain = stopping(engine, early_stopping_rounds=None, n_estimators=5)
    plain.fit(X.iloc[train], y.iloc[train])
    for model in models:
        assert_array_equal(model.times_, plain.times_)
        assert_array_equal(model._model.start.initial, plain._model.start.initial)
        rows = np.column_stack([X.to_numpy(), np.ones(300)]).astype(np.float32)
        n_shared = min(5, *(other.n_estimators_ for other in models))
        assert_array_equal(
            model._model.trees.sum_of_trees(rows, 0, n_shared),
            plain._model.trees.sum_of_trees(rows, 0, n_shared),
        )


def test_split_holds_out_people_that_touch_nothing(data, monkeypatch):
    """People held out by ``validation_fraction`` may have had any outcome."""
    splits = []
    split = cohort.split_cohort

    def remember(*arguments):
        splits.append(split(*arguments))
        return splits[-1]

    monkeypatch.setattr(cohort, "split_cohort", remember)
    model = stopping("lightgbm", validation_fraction=0.2).fit(data.X, data.y)
    kept, held = splits[0]
    assert held.target.n_samples == 60
    assert kept.target.n_samples == 240
    by_hand = stopping("lightgbm").set_params(early_stopping_rounds=None, n_estimators=5)
    by_hand.fit(kept.features.values, kept.target)
    assert_array_equal(model._model.start.initial, by_hand._model.start.initial)
    assert model._model.frame.t_max == by_hand._model.frame.t_max
    assert_array_equal(
        model._model.frame.censoring_curve.values, by_hand._model.frame.censoring_curve.values
    )
    # Every cause is in both parts, in proportion.
    for cause in (0, 1, 2):
        share = (data.y["event"] == cause).mean()
        assert_allclose((held.target.event == cause).mean(), share, atol=0.02)


def test_eval_set_without_patience_is_only_recorded(engine, data):
    model = boost(engine, n_estimators=8).fit(data.X, data.y, eval_set=(data.X, data.y))
    assert len(model.history_) == 8
    assert model.n_estimators_ == 8
    assert same_booster(model, boost(engine, n_estimators=8).fit(data.X, data.y))


@pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")
def test_few_people_can_be_split(engine, data):
    model = stopping(engine, n_estimators=10).fit(data.X[:14], data.y[:14])
    assert 1 <= model.n_estimators_ <= 10


def test_a_cause_seen_once_stays_in_training(engine, data):
    event = data.y["event"].to_numpy().copy()
    event[0] = 3
    for seed in range(3):
        model = stopping(engine, n_estimators=10, random_state=seed)
        model.fit(data.X, (event, data.y["duration"]))
        assert_array_equal(model.event_ids_, [0, 1, 2, 3])


# -------------------------------------------------------------------------------------- rounds
@pytest.mark.parametrize("n_estimators", [1, 5, 10, 13])
def test_rounds_are_counted_exactly(engine, data, n_estimators):
    model = boost(engine, n_estimators=n_estimators, refresh_every=10).fit(data.X, data.y)
    assert model.n_estimators_ == n_estimators
    assert model._model.trees.n_rounds == n_estimators
    assert model.refreshed_rounds_ == list(range(10, n_estimators, 10))


@pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")
def test_rounds_are_counted_where_no_split_is_worth_it(engine, data):
    model = boost(engine, n_estimators=7).fit(data.X[:8], data.y[:8])
    assert model._model.trees.n_rounds == 7
    stopped = stopping(engine, n_estimators=30, min_leaf_people=1e6).fit(data.X, data.y)
    assert 1 <= stopped.n_estimators_ <= 30


@pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")
@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_min_split_gain_is_in_people(engine):
    """Of features that say nothing, few splits survive, however many people or horizons."""
    generator = np.random.default_rng(0)
    for n_samples, n_horizons in ((500, 5), (4000, 5), (500, 20)):
        X = generator.normal(size=(n_samples, 5))
        y = (generator.integers(0, 2, n_samples), generator.exponential(size=n_samples))
        gained = []
        for least in (0.0, 5.0, 25.0):
            model = boost(
                engine,
                n_estimators=30,
                n_horizons=n_horizons,
                max_depth=3,
                min_split_gain=least,
                censoring="kaplan-meier",
            )
            gained.append(model.fit(X, y)._model.trees.importances()[:-1].sum())
        assert 100 < gained[0] < 300
        assert gained[0] > gained[1]
        assert gained[2] == 0


def test_warm_start_goes_on(engine):
    people = simulated(1500, random_state=3)
    test = people.draw(1000, random_state=4)
    once = boost(engine, n_estimators=40).fit(people.X, people.y)
    model = boost(engine, n_estimators=20, warm_start=True).fit(people.X, people.y)
    half, first = model.booster_, model.predict(people.X)
    half_score = model.score(test.X, test.y)
    model.set_params(n_estimators=40).fit(people.X, people.y)
    assert model.n_estimators_ == 40
    assert model._model.trees.n_rounds == 40
    # The first twenty rounds are still there, and the model that was is untouched.
    rows = np.column_stack([test.X.to_numpy(), np.ones(1000)]).astype(np.float32)
    again = registry.engine(engine).evaluator(half, model._schema)
    assert again.n_rounds == 20
    assert_allclose(
        model._model.trees.sum_of_trees(rows, 0, 20),
        again.sum_of_trees(rows),
        atol=1e-6,
    )
    assert not np.array_equal(model.predict(people.X), first)
    # As good as forty rounds at once, and better than twenty.
    assert_allclose(model.score(test.X, test.y), once.score(test.X, test.y), atol=0.003)
    assert model.score(test.X, test.y) > half_score
    difference = model.predict(test.X) - once.predict(test.X)
    assert np.abs(difference).mean() < 0.02


def test_later_rounds_look_at_other_horizons(data):
    drawn = []

    def sampler(generator, n_samples, n_horizons, target):
        drawn.append(generator.uniform(0, 4, (n_samples, n_horizons)))
        return drawn[-1]

    model = boost("lightgbm", n_estimators=1, warm_start=True, horizon_sampler=sampler)
    for n_estimators in (1, 2, 3):
        model.set_params(n_estimators=n_estimators).fit(data.X, data.y)
    assert len({horizons.tobytes() for horizons in drawn}) == len(drawn) == 4


def test_warm_start_with_early_stopping_may_keep_the_model_it_had(engine, data):
    model = stopping(engine, warm_start=True).fit(data.X, data.y)
    best, loss = model.n_estimators_, min(record.loss for record in model.history_)
    model.set_params(n_estimators=best + 20, learning_rate=1.0).fit(data.X, data.y)
    assert model.history_[0].round == best
    assert_allclose(model.history_[0].loss, loss, rtol=1e-6)
    assert min(record.loss for record in model.history_) <= loss * (1 + 1e-6)


def test_without_warm_start_fit_forgets(engine, data):
    model = boost(engine).fit(data.X[:100], data.y[:100]).fit(data.X, data.y)
    assert same_booster(model, boost(engine).fit(data.X, data.y))


def test_warm_start_is_refused_where_it_cannot_go_on(data):
    model = boost("lightgbm", warm_start=True).fit(data.X, data.y)
    with pytest.raises(ValueError, match="20, but the model to continue has 20 rounds"):
        model.fit(data.X, data.y)
    with pytest.raises(ValueError, match="trained by lightgbm, not xgboost"):
        model.set_params(engine="xgboost", n_estimators=30).fit(data.X, data.y)
    model.set_params(engine="lightgbm")
    with pytest.raises(ValueError, match=r"3 features, but .* expecting 4 features"):
        model.fit(data.X.to_numpy()[:, :3], data.y)
    with pytest.raises(ValueError, match="label 5, which was not seen"):
        model.fit(data.X, (np.full(300, 5), data.y["duration"]))
    assert model.n_estimators_ == 20


def test_an_interrupted_warm_start_leaves_the_model_as_it_was(engine, data, monkeypatch):
    model = boost(engine, warm_start=True).fit(data.X, data.y)
    before = model.predict_cumulative_incidence(data.X)
    model = pickle.loads(pickle.dumps(model))  # Trees are read again.
    monkeypatch.setattr(stacked.Progress, "advance", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(n_estimators=40, verbose=1).fit(data.X, data.y)
    assert_array_equal(model.predict_cumulative_incidence(data.X), before)


def test_an_interrupted_refit_leaves_no_mixture(engine, data, monkeypatch):
    model = boost(engine).fit(data.X, data.y)
    before = model.predict_cumulative_incidence(data.X)
    monkeypatch.setattr(stacked.Progress, "advance", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(verbose=1).fit(data.X, (data.y["event"] > 0, data.y["duration"]))
    # All of the former model stays, and nothing of the new one.
    assert_array_equal(model.predict_cumulative_incidence(data.X), before)


def _interrupt(*arguments):
    raise KeyboardInterrupt


# ------------------------------------------------------------------------------------- weights
def test_weights_of_one_change_nothing(engine, data, fitted):
    model = boost(engine, n_estimators=30).fit(data.X, data.y, sample_weight=np.ones(300))
    assert same_booster(model, fitted(engine))
    assert_array_equal(
        model.predict_cumulative_incidence(data.X),
        fitted(engine).predict_cumulative_incidence(data.X),
    )


def test_people_of_weight_0_are_not_there(engine, data):
    rng = np.random.default_rng(0)
    absent = rng.random(300) < 0.3
    weight = np.where(absent, 0.0, 1.0 + rng.random(300))
    # Outcomes and features of the absent are wild, and their label is new.
    event = np.where(absent, 9, data.y["event"])
    duration = np.where(absent, 1e6, data.y["duration"])
    X = data.X.mask(np.repeat(absent[:, None], 4, axis=1), 1e6)
    model = boost(engine).fit(X, (event, duration), sample_weight=weight)
    present = boost(engine).fit(data.X[~absent], data.y[~absent], sample_weight=weight[~absent])
    assert_array_equal(model.event_ids_, [0, 1, 2])
    assert_array_equal(model.times_, present.times_)
    assert same_booster(model, present)
    assert_array_equal(model.predict(data.X), present.predict(data.X))


def test_integer_weights_act_like_repeated_people(engine):
    people = simulated(1200, random_state=5)
    X, y = people.X, people.y
    # Weights that depend on the outcome shift what is learnt.
    weight = np.where(y["event"] == 1, 3, 1)
    rows = np.repeat(np.arange(1200), weight)
    # Half of the default horizons follow the events of unweighted people.
    options = {"n_estimators": 40, "horizon_max": 5.0, "horizon_sampler": "stratified"}
    weighted = boost(engine, **options).fit(X, y, sample_weight=weight)
    ignored = boost(engine, **options).fit(X, y)
    repeated, another = (
        boost(engine, **options, random_state=seed).fit(X.iloc[rows], y.iloc[rows])
        for seed in (0, 1)
    )
    # Marginal quantities are the same but for the horizons drawn.
    assert_allclose(
        weighted._model.frame.censoring_curve.values, repeated._model.frame.censoring_curve.values
    )
    assert_allclose(weighted._model.start.initial, repeated._model.start.initial, atol=0.1)
    weighted, ignored, repeated, another = (
        model.predict_cumulative_incidence(X, [0.5, 1.0, 2.0, 4.0])
        for model in (weighted, ignored, repeated, another)
    )
    # Whose horizons fall where moves marginal curves by 0.02 (standard deviation over seeds).
    marginal = repeated.mean(axis=0)
    assert np.abs(weighted.mean(axis=0) - marginal).max() < 0.05
    assert np.abs(ignored.mean(axis=0) - marginal).max() > 0.15
    # People's curves differ as they do between two draws of horizons.
    noise = np.abs(repeated - another).mean()
    assert np.abs(weighted - repeated).mean() < 2 * noise


def test_held_out_people_keep_their_weights(data, monkeypatch):
    seen = {}
    rows = stacked.held_out_rows

    def remember(*arguments):
        seen["rows"], seen["weight"] = rows(*arguments), arguments[0].weight
        return seen["rows"]

    monkeypatch.setattr(stacked, "held_out_rows", remember)
    model = stopping("lightgbm", n_estimators=5, censoring="kaplan-meier")
    model.fit(data.X, data.y)
    plain = seen["rows"].weight
    model.fit(data.X, data.y, sample_weight=np.full(300, 3.0))
    assert_allclose(seen["rows"].weight, plain)
    model.fit(data.X, data.y, sample_weight=np.where(data.X["x0"] > 0, 3.0, 1.0))
    assert_allclose(np.unique(seen["weight"])[[0, -1]] / seen["weight"].min(), [1, 3], rtol=1e-6)


# ------------------------------------------------------------------------------- reproducibility
def test_the_same_seed_gives_the_same_bits(engine):
    """(Above 10 000 stacked rows: see defect 1.)"""
    n_samples = 500
    people = simulated(n_samples)
    models = [
        boost(engine, early_stopping_rounds=5, n_estimators=15).fit(people.X, people.y)
        for _ in range(2)
    ]
    assert same_booster(*models)
    assert models[0].history_ == models[1].history_
    assert_array_equal(*(model.predict_cumulative_incidence(people.X) for model in models))
    times = np.full(n_samples, 1.0)
    assert_array_equal(*(model.censoring_.survival(times, people.X) for model in models))


def test_another_seed_gives_another_model(engine, data, fitted):
    other = boost(engine, n_estimators=30, random_state=1).fit(data.X, data.y)
    assert not same_booster(other, fitted(engine))


def test_generators_are_seeds_too(data):
    models = [
        boost("lightgbm", random_state=seed).fit(data.X, data.y)
        for seed in (np.random.default_rng(5), 5, np.random.RandomState(5))
    ]
    assert same_booster(models[0], models[1])
    assert not same_booster(models[1], models[2])


# --------------------------------------------------------------------------------------- floor
def test_floor_is_counted_and_logged(engine, data, caplog):
    """In the log where it is about a few rows; as a warning above a tenth of them."""
    with caplog.at_level(logging.INFO, logger="survival_objectives"):
        few = boost(engine, min_censoring_survival=0.2, horizon_max=8.0).fit(data.X, data.y)
    assert few.n_floored_ > 0
    assert f"limits the weight of {few.n_floored_} of" in caplog.text
    with pytest.warns(UserWarning, match="limits the weight of") as caught:
        many = boost(engine, min_censoring_survival=0.9, horizon_max=8.0).fit(data.X, data.y)
    assert f"limits the weight of {many.n_floored_} of" in str(caught[0].message)

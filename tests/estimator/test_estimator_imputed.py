"""Imputation of the outcomes of censored people, instead of weights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from estimator_data import boost, same_booster, simulated, tree_settings, with_checkpoints
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from seed_noise import largest_mean

from survival_objectives import load
from survival_objectives._engines import protocol as registry
from survival_objectives._horizons import training as stacked
from survival_objectives._horizons.schemes import ImputedScheme
from survival_objectives._people import check_survival_target
from survival_objectives._process.checkpoints import Checkpoints
from survival_objectives.adapters.external_memory import fit_external
from survival_objectives.baselines import AalenJohansen
from survival_objectives.datasets import integrated_squared_error
from survival_objectives.losses import probabilities
from survival_objectives.marginal import aalen_johansen
from survival_objectives.stacking import (
    Stack,
    all_rows,
    conditional_incidence,
    drawn_states,
    rows_after_censoring,
)


# ------------------------------------------------------------------------------------------- rows
def test_all_rows_are_kept_and_those_censored_by_the_horizon_are_lost():
    target = check_survival_target(([0, 1, 2, 0], [1.0, 2.0, 3.0, 4.0]))
    stack = Stack(np.tile(np.arange(4), 2), np.repeat([2.0, 4.0], 4).astype(np.float32))
    role = all_rows(target, stack)
    assert role.n_rows == 8
    assert role.target.tolist() == [0, 1, 0, 0, 0, 1, 2, 0]
    # A person who is censored at the horizon itself has left by then.
    assert rows_after_censoring(target, role).tolist() == [0, 4, 7]


@st.composite
def states_at_two_times(draw):
    """Probabilities of the states, later and earlier, (n_rows, K + 1) each."""
    n_causes = draw(st.integers(1, 4))
    numbers = st.lists(st.floats(0.01, 1), min_size=n_causes + 1, max_size=n_causes + 1)
    rows = draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5))
    return tuple(
        np.array([np.array(pair[side]) / np.sum(pair[side]) for pair in rows]) for side in (0, 1)
    )


@given(states_at_two_times())
def test_conditional_incidence_is_equation_15(states):
    later, earlier = states
    incidence = conditional_incidence(later, earlier)
    for row, (at_horizon, at_exit) in enumerate(zip(later, earlier, strict=True)):
        rises = [max(a - b, 0) for a, b in zip(at_horizon[1:], at_exit[1:], strict=True)]
        by_then = max(1 - at_horizon[0] / at_exit[0], 0)
        expected = [by_then * rise / sum(rises) if sum(rises) else 0 for rise in rises]
        assert_allclose(incidence[row], expected, atol=1e-12)


def test_where_all_incidences_rise_it_is_their_rise_among_the_event_free():
    at_exit, at_horizon = np.array([[0.6, 0.3, 0.1]]), np.array([[0.2, 0.5, 0.3]])
    expected = (at_horizon - at_exit)[:, 1:] / 0.6
    assert_allclose(conditional_incidence(at_horizon, at_exit), expected)


def test_people_who_could_not_have_been_event_free_stay_so():
    no_one_left = np.array([[0.0, 1.0]])
    assert conditional_incidence(no_one_left, no_one_left).tolist() == [[0.0]]


def test_states_are_drawn_as_often_as_they_are_likely():
    incidence = np.tile([0.5, 0.2], (40_000, 1))
    states = drawn_states(incidence, np.random.default_rng(0))
    shares = np.bincount(states, minlength=3) / 40_000
    assert_allclose(shares, [0.3, 0.5, 0.2], atol=4 * 0.0025)
    assert drawn_states(
        np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.random.default_rng(1)
    ).tolist() == [0, 1, 2]
    assert drawn_states(np.empty((0, 2)), np.random.default_rng(0)).shape == (0,)


# ------------------------------------------------------------------------------------------ models
def error_to_truth(model, people):
    test = people.draw(500, random_state=1)
    times = np.linspace(0, np.quantile(people.y["duration"], 0.95), 21)[1:]
    truth = test.true.cumulative_incidence(test.X, times)
    return integrated_squared_error(truth, model.predict_cumulative_incidence(test.X, times), times)


def few_events():
    """3000 people, of whom 85 % are censored, which depends on their features."""
    return simulated(3000, censoring_rate=0.85)


@pytest.mark.parametrize("n_units", [None, 20, 5])
def test_without_features_it_is_the_aalen_johansen_curve(engine, n_units):
    """Filling in from the model itself leaves one curve, also where times are whole units."""
    people = simulated(3000, censoring="independent", censoring_rate=0.7)
    X, y = pd.DataFrame({"constant": np.zeros(3000)}), people.y.copy()
    if n_units is not None:
        unit = np.quantile(y["duration"], 0.98) / n_units
        y["duration"] = np.ceil(y["duration"] / unit)
    model = boost(engine, n_estimators=200, censoring="imputed").fit(X, y)
    times = np.quantile(y["duration"], [0.3, 0.6, 0.9])
    marginal = aalen_johansen(check_survival_target(y))(times)
    curves = model.predict_cumulative_incidence(X[:1], times)[0]
    assert_allclose(curves.T, marginal, atol=0.04)


def test_few_events_are_nearer_to_the_truth_than_with_weights(engine):
    """Where censoring depends strongly on the features, few people represent the censored."""
    people = few_events()
    settings = {"n_estimators": 60, "learning_rate": 0.1}
    imputed = boost(engine, censoring="imputed", **settings).fit(people.X, people.y)
    weighed = boost(engine, **settings).fit(people.X, people.y)
    assert error_to_truth(imputed, people) < 0.5 * error_to_truth(weighed, people)
    assert imputed.n_floored_ == 0


@pytest.mark.filterwarnings("ignore:No one is censored")
def test_with_no_one_censored_there_is_nothing_to_fill_in(engine, data):
    seen = data.y["event"] > 0
    X, y = data.X[seen], data.y[seen]
    models = [boost(engine, censoring=how).fit(X, y) for how in ("imputed", "boosted")]
    assert same_booster(*models)


def test_the_model_fills_in_after_the_rounds_of_the_marginal_curve(engine, data):
    model = boost(engine, n_estimators=40, censoring="imputed", refresh_every=5, learning_rate=0.2)
    assert model.fit(data.X, data.y).refreshed_rounds_ == [*range(20, 40, 5)]
    model.set_params(learning_rate=0.5)  # It learns in 10 rounds what it is going to.
    assert model.fit(data.X, data.y).refreshed_rounds_ == [*range(10, 40, 5)]


def test_the_same_seed_gives_the_same_model_and_weights_of_people_count(engine, data):
    first, second = (boost(engine, censoring="imputed").fit(data.X, data.y) for _ in range(2))
    assert same_booster(first, second)
    weight = np.where(data.y["event"] == 1, 5.0, 1.0)
    other = boost(engine, censoring="imputed").fit(data.X, data.y, sample_weight=weight)
    mean = [m.predict_cumulative_incidence(data.X, [1.0])[:, 1].mean() for m in (first, other)]
    # The weights reach the marginal curve, too, which makes 1.5 of it.
    assert mean[1] > 1.7 * mean[0]


def test_training_does_not_stop_before_the_model_has_filled_in(engine):
    """Rounds of the marginal curve may get worse; they are no reason to stop, nor ever the best."""
    people, other = few_events(), simulated(300, censoring_rate=0.85, random_state=1)
    settings = {"n_estimators": 200, "learning_rate": 0.2, "early_stopping_rounds": 1}
    model = boost(engine, censoring="imputed", **settings, refresh_every=5)
    model.fit(people.X, people.y, eval_set=(other.X, other.y))
    losses = [record.loss for record in model.history_]
    assert 25 in model.refreshed_rounds_
    assert 25 < len(losses) < 200
    assert model.n_estimators_ == 25 + np.argmin(losses[25:]) + 1


def test_warm_start_and_files(engine, data, tmp_path):
    model = boost(engine, censoring="imputed", warm_start=True).fit(data.X, data.y)
    model.set_params(n_estimators=30).fit(data.X, data.y)
    assert (model.n_estimators_, model.censoring_method_) == (30, "imputed")
    model.save(tmp_path / "model")
    assert not list((tmp_path / "model").glob("censoring*"))
    loaded = load(tmp_path / "model")
    assert loaded.censoring_method_ == "imputed"
    np.testing.assert_array_equal(
        loaded.predict_survival_function(data.X), model.predict_survival_function(data.X)
    )
    model.set_params(n_estimators=40, censoring="boosted").fit(data.X, data.y)
    assert model.censoring_method_ == "boosted"


def test_draws_are_new_for_every_chunk_and_the_same_when_resumed(data, monkeypatch):
    targets = []
    asked = ImputedScheme.targets_and_weights

    def watched(self, chunk):
        found = asked(self, chunk)
        targets.append((found[0], asked(self, chunk)[0]))
        return found

    monkeypatch.setattr(ImputedScheme, "targets_and_weights", watched)
    monkeypatch.setattr(stacked, "N_DRAWS", 1)
    boost("xgboost", censoring="imputed", n_estimators=20, refresh_every=5).fit(data.X, data.y)
    assert len(targets) == 4
    assert all(np.array_equal(first, again) for first, again in targets)
    # The same rows: only what was filled in differs.
    assert 0 < np.mean(targets[0][0] != targets[1][0]) < 0.3


@pytest.mark.parametrize("censoring", ["imputed", "boosted"])
def test_a_resumed_training_is_the_uninterrupted_one(engine, data, monkeypatch, censoring):
    """On every engine, though only trainings on a cluster write checkpoints."""
    settings = {"n_estimators": 60, "censoring": censoring, "refresh_every": 10}
    states = []

    def fitted(state):
        states.clear()
        checkpoints = Checkpoints(state, 10, states.append)
        with monkeypatch.context() as patch:
            with_checkpoints(patch, checkpoints)
            return boost(engine, **settings).fit(data.X, data.y)

    whole = fitted(None)
    resumed = fitted(states[3])
    assert [state.n_chunks for state in states] == [5, 6]
    assert same_booster(whole, resumed)
    expected = [30, 40, 50] if censoring == "imputed" else [10, 20, 30, 40, 50]
    assert resumed.refreshed_rounds_ == whole.refreshed_rounds_ == expected


def test_new_targets_reach_the_engine(engine, data):
    """A booster that kept the targets of an earlier chunk would continue to be trained on those."""
    model = boost(engine, learning_rate=0.2).fit(data.X, data.y)
    booster = registry.engine(engine).trainer(tree_settings(model, model._schema, 2))
    rows = np.column_stack([data.X.to_numpy(), np.ones(300)]).astype(np.float32)
    key = booster.add(rows, np.zeros((300, 2 if booster.reference else 3)))
    is_high = data.X["x0"].to_numpy() > 0
    first, second = (np.where(is_high, state, 0).astype(np.int32) for state in (1, 2))
    first[:5], second[:5] = 2, 1  # CatBoost wants every state to be there.

    def chances():
        states = probabilities(booster.margin(key), reference=booster.reference)
        return states[is_high].mean(axis=0)

    booster.boost(key, first, np.ones(300), 20)
    assert chances()[1] > 0.6
    booster.boost(key, second, np.ones(300), 60)
    assert chances()[2] > 0.6


FROM_DISK = {"censoring": "imputed", "n_estimators": 60, "learning_rate": 0.1, "refresh_every": 5}


@pytest.fixture(scope="module")
def errors_in_memory():
    people = few_events()
    models = (boost("xgboost", **FROM_DISK, random_state=seed) for seed in range(8))
    return [error_to_truth(model.fit(people.X, people.y), people) for model in models]


@pytest.mark.parametrize("people_per_turn", [None, 600])
def test_from_disk_it_is_as_near_to_the_truth(errors_in_memory, people_per_turn):
    """On average over seeds, up to their noise; also with a fifth of the people at a time."""
    people = few_events()
    batches = [
        (people.X.iloc[a : a + 300], people.y.iloc[a : a + 300]) for a in range(0, 3000, 300)
    ]
    errors = []
    for seed in range(4):
        model = boost("xgboost", **FROM_DISK, random_state=seed)
        fit_external(model, batches, people_per_turn=people_per_turn)
        assert model.censoring_method_ == "imputed"
        errors.append(error_to_truth(model, people))
    limit = largest_mean(errors_in_memory, len(errors))
    assert np.mean(errors) < limit
    # The limit means something: the curve of the population is far beyond it.
    marginal = AalenJohansen().fit(people.X, people.y)
    assert error_to_truth(marginal, people) > 2 * limit

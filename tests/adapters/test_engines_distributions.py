"""Distributions as targets in the training of all engines: completion, doubly robust."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._horizons.completion import CrossFittedCompletion, SurvivalCompletion
from survival_objectives.losses import full_hessian, gradient_hessian, pointwise_log_loss
from survival_objectives.stacking import rows_after_censoring

TIMES = np.linspace(0.1, 2.5, 15)


class Truth:
    """The true incidences of simulated people, as a fitted model."""

    def __init__(self, n_causes=2):
        self.n_causes = n_causes

    def predict_cumulative_incidence(self, X, times):
        X = np.asarray(X)
        log_rates = [
            -1.0 + 0.8 * X[:, 0] + 0.3 * X[:, 1],
            -1.3 - 0.5 * X[:, 0] + 0.5 * X[:, 2],
        ]
        rate = np.exp(np.column_stack(log_rates[: self.n_causes]))
        total = rate.sum(axis=1)[:, None]
        survival = np.exp(-total * np.asarray(times))
        incidence = (rate / total)[:, :, None] * (1 - survival)[:, None]
        return np.concatenate([survival[:, None], incidence], axis=1)


def fails_where_weights_do(n_samples, seed, level):
    """People at low risk are censored early, so people who stay are not informative about them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4))
    rate = np.exp(-1 + 0.9 * X[:, 0] + 0.6 * np.abs(X[:, 1]))
    event_time = rng.exponential(size=n_samples) / rate
    censoring_time = rng.exponential(size=n_samples) / np.exp(level - 1.3 * X[:, 0])
    event = (event_time <= censoring_time).astype(int)
    return X, (event, np.minimum(event_time, censoring_time)), rate


# ------------------------------------------------------------------------------------- completion
@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize("margins", ["reference", "free"])
def test_without_censoring_completion_changes_nothing(engine, simulate, n_causes, margins):
    people = simulate(200, n_causes=n_causes, censored=False)
    options = {"margins": margins, "random_state": 0}
    plain = engine.problem(people.X, people.y, **options)
    completed = engine.problem(people.X, people.y, completion=Truth(n_causes), **options)
    assert completed.target.ndim == 2
    assert_array_equal(completed.target.argmax(axis=1), plain.target)
    assert engine.bits(engine.train(plain, 8)) == engine.bits(engine.train(completed, 8))


@pytest.mark.parametrize("n_causes", [1, 2])
def test_rows_of_censored_people_are_completed(engine, simulate, n_causes):
    people = simulate(300, n_causes=n_causes)
    objective = engine.problem(people.X, people.y, completion=Truth(n_causes), random_state=0)
    assert len(objective.target) == 4 * 300
    assert_array_equal(objective.initial_weight, 1)
    lost = rows_after_censoring(objective._target, objective._events)
    for row in lost[::50]:
        i, z = objective.person[row], float(objective.horizon[row])
        at_z, at_c = (
            Truth(n_causes).predict_cumulative_incidence(people.X[[i]], [time])[0, :, 0]
            for time in (z, people.y[1][i])
        )
        expected = (at_z - at_c) / at_c[0]
        expected[0] = at_z[0] / at_c[0]
        assert_allclose(objective.target[row], expected, atol=5e-3)


def test_completion_by_the_truth_beats_weights(engine, simulate, integrated_error):
    people, test = simulate(3000), simulate(500, seed=7)
    settings = {"depth": 3, "min_weight": 20.0}
    errors = {}
    for name, options in (("weights", {}), ("completion", {"completion": Truth()})):
        objective = engine.problem(people.X, people.y, random_state=0, **options)
        model = engine.train(objective, 60, **settings)
        curves = objective.predict_cumulative_incidence(model, test.X, TIMES)
        assert_allclose(curves.sum(axis=1), 1)
        errors[name] = integrated_error(curves, test, TIMES)
    assert errors["completion"] < 0.9 * errors["weights"]


def test_cross_fitted_hazards_repair_what_weights_break(engine):
    X, y, _ = fails_where_weights_do(1500, 0, -0.3)
    test, _, rate = fails_where_weights_do(500, 1, -0.3)
    truth = np.exp(-rate[:, None] * TIMES)
    errors = {}
    for name, options in (("weights", {}), ("hazards", {"completion": "hazards"})):
        objective = engine.problem(X, y, random_state=0, **options)
        model = engine.train(objective, 60, min_weight=20.0)
        survival = objective.predict_survival_function(model, test, TIMES)
        errors[name] = np.mean((survival - truth) ** 2)
    assert errors["hazards"] < 0.5 * errors["weights"]
    models = objective.completion_
    assert isinstance(models, CrossFittedCompletion)
    assert {hazards.model.frame.engine for hazards in models.models} == {engine.name}
    assert set(models.fold) == {0, 1}
    again = engine.problem(X, y, random_state=0, completion="hazards")
    assert_array_equal(again.target, objective.target)


def test_completed_objectives_survive_pickling(engine, people):
    objective = engine.problem(people.X, people.y, completion=Truth(), random_state=0)
    bits = engine.bits(engine.train(objective, 5))
    assert engine.bits(engine.train(pickle.loads(pickle.dumps(objective)), 5)) == bits


def test_sample_weights_multiply_completed_rows(engine, people):
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    objective = engine.problem(
        people.X, people.y, completion=Truth(), sample_weight=weight, random_state=0
    )
    expected = weight / weight[weight > 0].mean()
    assert_allclose(objective.initial_weight, expected[objective.person], rtol=1e-6)
    engine.train(objective, 3)


def test_held_out_people_are_completed_by_the_same_model(engine, people, simulate):
    held_out = simulate(150, seed=3, n_features=4)
    objective = engine.problem(people.X, people.y, completion=Truth(), random_state=0)
    stopped = engine.train(
        objective,
        40,
        options=engine.early_stopping(
            objective, objective.held_out(held_out.X, held_out.y), patience=5
        ),
    )
    scores = engine.scores(stopped)
    # Each row with all of its states counts 1, so the loss is a mean over rows.
    again = engine.problem(people.X, people.y, completion=Truth(), random_state=0)
    rows = again._held_out_rows(held_out.X, held_out.y)
    assert_allclose(rows.weight.sum(), 4 * 150, rtol=1e-5)
    first = engine.first_rounds(stopped, 1)
    margin = np.asarray(again._evaluator(first).sum_of_trees(rows.matrix)).reshape(rows.start.shape)
    losses = pointwise_log_loss(margin + rows.start, rows.target, rows.weight, reference=True)
    assert_allclose(scores[0], losses.sum() / rows.weight.sum(), rtol=1e-5)


def test_metric_of_training_rows_is_the_loss_of_their_distributions(engine, people):
    objective = engine.problem(people.X, people.y, completion=Truth(), random_state=0)
    margin = np.random.default_rng(0).normal(size=(len(objective.target), 2))
    if engine.name == "catboost":
        approxes = tuple((margin - objective._start_margin(objective.horizon)).T)
        numbers = objective._first_number + np.arange(len(margin))
        error, weight = objective.metric.evaluate(
            approxes, (numbers, numbers), objective.initial_weight
        )
        value = error / weight
    elif engine.name == "xgboost":
        _, value = objective.metric(margin.ravel(), objective.dtrain)
    else:
        _, value, _ = objective.metric(margin.ravel(order="F"), objective.train_set.construct())
    expected = pointwise_log_loss(margin, objective.target, reference=True).mean()
    assert_allclose(value, expected, rtol=1e-6)


def test_completion_leaves_nothing_to_refresh(engine, people):
    objective = engine.problem(people.X, people.y, completion=Truth(), random_state=0)
    with pytest.raises(ValueError, match="Leave out the callback, or `completion=`"):
        engine.train(objective, 3, refresh=True)


def test_ways_exclude_each_other(engine, people, true_censoring):
    for options in (
        {"completion": Truth(), "doubly_robust": True},
        {"completion": Truth(), "censoring": true_censoring},
        {"doubly_robust": True, "censoring": true_censoring},
    ):
        with pytest.raises(ValueError, match="exclude each other"):
            engine.problem(people.X, people.y, random_state=0, **options)
    with pytest.raises(ValueError, match="completion"):
        engine.problem(people.X, people.y, completion="hazard")
    one = SurvivalCompletion(lambda X, times: np.exp(-np.outer(np.ones(len(X)), times)))
    with pytest.raises(ValueError, match=r"returned shape \(.*, 2, .*expected \(.*, 3, "):
        engine.problem(people.X, people.y, completion=one, random_state=0)


def test_scikit_learn_wrappers_are_refused(engine, people):
    objective = engine.problem(
        people.X, people.y, completion=Truth(), margins="free", start="zero", random_state=0
    )
    with pytest.raises(ValueError, match="wrappers take labels"):
        objective.sklearn_objective(np.zeros(3), np.zeros((3, 3)))


# ---------------------------------------------------------------------------------- doubly robust
def test_doubly_robust_refresh_repairs_what_weights_break(engine):
    X, y, _ = fails_where_weights_do(1500, 0, -0.3)
    test, _, rate = fails_where_weights_do(500, 1, -0.3)
    truth = np.exp(-rate[:, None] * TIMES)
    errors = {}
    for doubly_robust in (False, True):
        objective = engine.problem(X, y, random_state=0, doubly_robust=doubly_robust)
        model = engine.train(objective, 60, refresh=True, min_weight=20.0)
        survival = objective.predict_survival_function(model, test, TIMES)
        errors[doubly_robust] = np.mean((survival - truth) ** 2)
        assert [record.round for record in objective.refreshes_][:2] == [10, 20]
    assert errors[True] < 0.7 * errors[False]


@pytest.mark.parametrize("margins", ["reference", "free"])
def test_doubly_robust_trainings_are_reproducible(engine, people, margins):
    objective = engine.problem(
        people.X, people.y, doubly_robust=True, refresh_every=3, margins=margins, random_state=0
    )
    first, second = (engine.train(objective, 10, refresh=True) for _ in range(2))
    assert engine.bits(first) == engine.bits(second)
    without = engine.train(objective, 10)
    assert engine.bits(without) != engine.bits(first)


def test_before_the_second_refresh_rows_are_weighted(engine, people):
    """Rows without a label have weight 0, so the first rounds are those of plain weights."""
    robust, plain = (
        engine.problem(people.X, people.y, doubly_robust=flag, random_state=0)
        for flag in (True, False)
    )
    known = robust.initial_weight > 0
    assert_array_equal(robust.person[known], plain.person)
    assert_allclose(robust.initial_weight[known], plain.initial_weight)
    assert_array_equal(robust.target[known].argmax(axis=1), plain.target)
    assert_allclose(robust._start_margin([1.0]), plain._start_margin([1.0]), rtol=1e-12)
    alternation = robust._new_alternation()
    assert alternation.targets is robust._data.initial


def test_refresh_says_what_the_rows_are_for(engine, people):
    for flag in (False, True):
        objective = engine.problem(
            people.X, people.y, doubly_robust=flag, refresh_every=2, random_state=0
        )
        assert objective.refresh(doubly_robust=flag) is not None
        with pytest.raises(ValueError, match=f"constructed with `doubly_robust={not flag}`"):
            objective.refresh(doubly_robust=not flag)


# --------------------------------------------------------------------------- CatBoost, row by row
@pytest.mark.parametrize("margins", ["reference", "free"])
def test_compiled_derivatives_of_distributions(people, margins):
    from survival_objectives.adapters.catboost import IPCWLoss

    loss = IPCWLoss(people.X, people.y, completion=Truth(), margins=margins, random_state=0)
    reference = margins == "reference"
    trees = np.random.default_rng(0).normal(size=(len(loss.target), loss.n_margins))
    margin = trees + loss._start_margin(loss.horizon)
    gradient, _ = gradient_hessian(margin, loss.target, reference=reference)
    hessian = full_hessian(margin, loss.target, reference=reference)
    for row in range(0, len(margin), 97):
        number = np.full(loss.n_margins, loss._first_number + row, np.float32)
        first, second = loss.calc_ders_multi(trees[row], number, 1.0)
        assert_allclose(first, -gradient[row], rtol=1e-6, atol=1e-7)
        upper = np.triu_indices(loss.n_margins)
        assert_allclose(np.array(second)[upper], -hessian[row][upper], rtol=1e-6)

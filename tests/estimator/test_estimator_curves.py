"""Curves are exact: equal to the engine's own predict before the monotone step, (12)-(14) after."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from estimator_data import ENGINES, boost, engine_margins, mixed_columns, simulated, with_steps
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._engines.forest import (
    Forest,
    Tree,
    averaged_incidence,
    monotone_incidence,
)
from survival_objectives._horizons import model as fitted_models
from survival_objectives._horizons.loop import BoostingLoop
from survival_objectives._people import check_features
from survival_objectives._people.population import time_unit
from survival_objectives.losses import probabilities

# What each engine is asked to grow, besides its defaults.
CASES = [
    ("lightgbm", "numbers", {}),
    ("lightgbm", "mixed", {"min_data_per_group": 5, "cat_smooth": 1.0}),
    ("lightgbm", "mixed", {"max_cat_to_onehot": 50}),
    ("lightgbm", "mixed", {"use_missing": False}),
    ("lightgbm", "mixed", {"zero_as_missing": True}),
    ("lightgbm", "zeros", {"zero_as_missing": True}),
    ("lightgbm", "new missing", {}),
    ("xgboost", "numbers", {}),
    ("xgboost", "mixed", {"max_cat_to_onehot": 1}),
    ("xgboost", "mixed", {"max_cat_to_onehot": 50}),
    ("xgboost", "new missing", {}),
    ("xgboost", "numbers", {"grow_policy": "lossguide", "max_leaves": 5}),
    ("catboost", "numbers", {}),
    ("catboost", "missing", {"nan_mode": "Min"}),
    ("catboost", "missing", {"nan_mode": "Max"}),
    ("catboost", "mixed", {}),
    ("catboost", "mixed", {"random_strength": 1}),
    ("catboost", "new missing", {}),
    ("catboost", "numbers", {"border_count": 10}),
]


def columns(kind, data):
    X, y = mixed_columns(data)
    numbers = data.X
    if kind == "numbers":
        return numbers, numbers, y
    if kind == "zeros":
        rounded = numbers.round()
        return rounded, rounded, y
    if kind == "missing":
        X = X.drop(columns=["city", "sex"])
    if kind == "new missing":
        # Complete in training, missing in prediction.
        return numbers, numbers.mask(np.random.default_rng(1).random(numbers.shape) < 0.4), y
    return X, X, y


@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize(("engine", "kind", "params"), CASES)
def test_both_paths_equal_the_engine(engine, kind, params, n_causes, monkeypatch):
    """At thresholds, next to them, at 0 and beyond the latest horizon, to 1e-6."""
    people = simulated(250, n_causes=n_causes)
    X, X_test, y = columns(kind, people)
    model = boost(engine, n_estimators=30, monotone=False, engine_params=params).fit(X, y)
    forest = model._model.trees.forest()
    breaks = forest.breaks.astype(np.float32)
    times = np.concatenate(
        [
            breaks,
            np.nextafter(breaks, np.float32(0)),
            np.nextafter(breaks, np.float32(np.inf)),
            [0.0, 1e-6, model.times_[-1], 10 * model.times_[-1]],
        ]
    ).astype(np.float64)
    if "zero_as_missing" in params:
        times = times[times > 0]  # LightGBM takes the time 0 for missing as well.
    X_test = X_test[:40]
    margin = engine_margins(model, X_test, times)
    expected = probabilities(
        margin.reshape(-1, margin.shape[2]),
        reference=len(model._model.start.initial) == model._model.frame.n_causes,
    ).reshape(40, len(times), -1)
    assert len(breaks) > 3
    for engine_rows in (0, 2**40):
        monkeypatch.setattr(fitted_models, "ENGINE_ROWS", engine_rows)
        curves = model.predict_cumulative_incidence(X_test, times)
        assert_allclose(curves.transpose(0, 2, 1), expected, atol=1e-6)
    if forest.is_readable:
        walked = forest.step_margins(model_values(model, X_test))[:, forest.interval(times)]
        assert_allclose(walked.transpose(2, 1, 0) + model._model.start.initial, margin, atol=2e-6)
    else:
        assert engine == "catboost"


def model_values(model, X):
    return check_features(X, like=model._schema).values


@pytest.mark.parametrize("engine", ENGINES)
def test_which_path_is_taken_does_not_show(engine, fitted, mixed, monkeypatch):
    X, _ = mixed
    model = fitted(engine, "mixed")
    results = []
    for engine_rows in (0, 2**40):
        monkeypatch.setattr(fitted_models, "ENGINE_ROWS", engine_rows)
        results.append(model.predict_cumulative_incidence(X))
    assert_allclose(*results, atol=1e-6)


@pytest.mark.parametrize("size", [1, 500, 5000])
def test_prediction_in_parts_is_the_same(engine, fitted, data, size, monkeypatch):
    model = fitted(engine)
    monkeypatch.setattr(fitted_models, "ENGINE_ROWS", 0)
    helpers = (
        model.predict_cumulative_incidence,
        model.predict_quantile,
        model.predict_restricted_mean_time,
    )
    X = data.X[:25]
    whole = [helper(X) for helper in helpers]
    n_parts = len(list(model.fitted_model.parts(25)))
    monkeypatch.setattr(fitted_models, "_PREDICTION_SIZE", size)
    assert len(list(model.fitted_model.parts(25))) > n_parts or size == 5000
    for helper, expected in zip(helpers, whole, strict=True):
        # A product with a matrix of other height may round otherwise.
        assert_allclose(helper(X), expected, rtol=1e-13)


def test_training_margins_are_prediction_margins(engine, monkeypatch):
    """What a round trains on is what the finished model says, also after a warm start."""
    X, y = mixed_columns(simulated(1000))
    # Without much else to split on, categories are split on again and again.
    X = X[["city", "sex"]]
    loops = []
    run = BoostingLoop.run

    def remember(loop, held_out=None):
        loops.append(loop)
        run(loop, held_out)

    monkeypatch.setattr(BoostingLoop, "run", remember)
    model = boost(engine, n_estimators=30, learning_rate=0.2, warm_start=True).fit(X, y)

    def start_margin(feature):
        return model._model.start(feature)

    for n_estimators in (30, 60):
        if n_estimators > 30:
            model.set_params(n_estimators=n_estimators).fit(X, y)
        loop = loops[-1]
        draw, key = loop._draws[0]
        rows, start = next(loop.people.event_matrices(draw.number, start_margin))
        final = model._model.trees.sum_of_trees(rows, 0, n_estimators)
        assert_allclose(np.asarray(final) + start, loop.events.margin(key), atol=1e-5)


# ------------------------------------------------------------------------------------ monotone
def test_curves_are_monotone_and_sum_to_one(engine, fitted, mixed):
    X, _ = mixed
    model = fitted(engine, "mixed")
    rng = np.random.default_rng(0)
    grid = np.concatenate([[0.0], model._model.trees.forest().breaks, rng.uniform(0, 12, 200)])
    times = np.sort(grid.astype(np.float32).astype(np.float64))
    curves = model.predict_cumulative_incidence(X, times)
    assert (np.diff(curves[:, 0], axis=1) <= 1e-15).all()
    assert (np.diff(curves[:, 1:], axis=2) >= 0).all()
    assert ((curves >= 0) & (curves <= 1)).all()
    assert_array_equal(curves[:, 0, 0], 1.0)
    assert_allclose(curves.sum(axis=1), 1, atol=1e-9)
    # Curves rise: the step is not won by making everything flat.
    assert (curves[:, 0, -1] < 0.9).all()


def test_the_answer_at_a_time_depends_on_nothing_else(engine, fitted, data):
    model = fitted(engine)
    rng = np.random.default_rng(0)
    times = rng.permutation(np.concatenate([[0.0, 1e9], rng.uniform(0, 10, 40)]))
    together = model.predict_cumulative_incidence(data.X, times)
    for position in (0, 7, 33, *np.flatnonzero(times == 0)):
        alone = model.predict_cumulative_incidence(data.X, times[position])
        assert_array_equal(alone[:, :, 0], together[:, :, position])
    twice = model.predict_cumulative_incidence(data.X, np.repeat(times, 2))
    assert_array_equal(twice[:, :, ::2], together)
    assert_array_equal(twice[:, :, 1::2], together)


def test_curves_are_flat_beyond_the_latest_horizon(engine, fitted, data):
    model = fitted(engine)
    end, later = model.predict_cumulative_incidence(
        data.X, [model._model.frame.t_max, 1e12]
    ).transpose(2, 0, 1)
    assert_array_equal(end, later)


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 3)),
        elements=st.floats(0, 1),
    )
)
def test_monotone_incidence_is_formula_13(incidence):
    incidence = incidence / np.maximum(incidence.sum(axis=0), 1)
    result = monotone_incidence(incidence)
    expected = np.empty_like(incidence)
    n_causes, n_steps, n_samples = incidence.shape
    for person in range(n_samples):
        for cause in range(n_causes):
            curve = incidence[cause, :, person]
            for step in range(n_steps):
                expected[cause, step, person] = (max(curve[: step + 1]) + min(curve[step:])) / 2
        end = sum(expected[:, -1, person])
        if end > 1:
            expected[:, :, person] /= end
    assert_allclose(result, expected, atol=1e-15)
    assert (np.diff(result, axis=1) >= 0).all()
    assert (result.sum(axis=0) <= 1 + 1e-12).all()
    monotone = (np.diff(incidence, axis=1) >= 0).all()
    if monotone:
        assert_allclose(result, incidence, atol=1e-15)


@given(
    hnp.arrays(np.float64, st.tuples(st.just(2), st.just(5), st.just(3)), elements=st.floats(0, 1)),
    st.lists(st.floats(0.01, 10), min_size=4, max_size=4, unique=True),
    st.lists(st.floats(0, 12), min_size=1, max_size=5),
    st.floats(0, 3),
)
def test_averaged_incidence_is_formula_14(incidence, breaks, times, radius):
    incidence, breaks = np.sort(incidence, axis=1), np.sort(breaks)
    times = np.array(times)
    radii = np.minimum(radius, times)
    result = averaged_incidence(incidence, breaks, times, radii)
    edges = np.concatenate([[0.0], breaks, [np.inf]])
    for column, (time, r) in enumerate(zip(times, radii, strict=True)):
        if r < 1e-3:
            continue
        overlap = np.minimum(edges[1:], time + r) - np.maximum(edges[:-1], time - r)
        expected = np.einsum("ksn,s->kn", incidence, np.maximum(overlap, 0)) / (2 * r)
        assert_allclose(result[:, column], expected, atol=1e-9)
    at_once = averaged_incidence(incidence, breaks, times, np.zeros(len(times)))
    assert_array_equal(at_once, incidence[:, np.searchsorted(breaks, times, side="right")])


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        ([1.0, 2.0, 7.0], 1.0),
        ([30.0, 60.0, 90.0], 30.0),
        (np.arange(1, 40) * 0.1, 0.1),
        ([1.0, 2.5, 3.1], 0.0),
        (np.linspace(0.3, 7.123, 50) ** 1.5, 0.0),
        ([0.001, 100.0], 0.0),  # Too fine to matter.
        ([0.0, 0.0], 0.0),
    ],
)
def test_time_unit(times, unit):
    times = np.asarray(times, np.float32).astype(np.float64)
    assert time_unit(times, float(times.max())) == pytest.approx(unit, rel=1e-3)


def test_days_are_predicted_as_days(engine):
    """Durations in whole days: constant within a day, and no lag behind what was seen by then."""
    people = simulated(1500, random_state=5)
    days = np.ceil(people.y["duration"] * 5)
    model = boost(engine, n_estimators=100).fit(people.X, (people.y["event"], days))
    curves = model.predict_cumulative_incidence(people.X, [4.0, 4.5, 4.99, 5.0])
    assert_array_equal(curves[:, :, 0], curves[:, :, 1])
    assert_array_equal(curves[:, :, 0], curves[:, :, 2])
    assert (curves[:, 0, 3] < curves[:, 0, 0]).mean() > 0.9
    first_days = np.arange(2.0, 10.0)
    true = people.true.cumulative_incidence(people.X, first_days / 5)[:, 0]
    lag = (model.predict_survival_function(people.X, first_days) - true).mean()
    assert abs(lag) < 0.02


def test_smoothed_curves_stay_close_to_the_steps(engine, fitted, data):
    model = fitted(engine)
    steps = with_steps(model)
    times = np.linspace(0.05, model.times_[-1], 400)
    smooth = model.predict_survival_function(data.X, times)
    rough = steps.predict_survival_function(data.X, times)
    # After 30 rounds people differ little and the steps are far from the population's curve, to
    # which the calibration brings them; the order of people stays.
    assert np.abs(smooth - rough).mean() < 0.2
    middle = len(times) // 2
    assert np.corrcoef(smooth[:, middle], rough[:, middle])[0, 1] > 0.9
    # Jumps are spread.
    assert np.diff(smooth).min() > np.diff(rough).min() / 2


@st.composite
def forests(draw, n_features=2):
    """Random trees over two features and the time, with missing values and a category."""
    at_most = draw(st.booleans())
    trees = []
    for _ in range(draw(st.integers(1, 3))):
        feature, threshold, left, right, nan_left, value = [], [], [], [], [], []
        categories = {}

        def grow(
            depth, lists=(feature, threshold, left, right, nan_left, value), categories=categories
        ):
            feature, threshold, left, right, nan_left, value = lists
            node = len(feature)
            splits = depth < 3 and draw(st.booleans())
            feature.append(draw(st.integers(0, n_features)) if splits else -1)
            # Few values, so that rows and thresholds meet.
            threshold.append(float(draw(st.integers(1, 4))))
            nan_left.append(draw(st.booleans()))
            value.append((draw(st.integers(-8, 8)) / 4,))
            left.append(-1)
            right.append(-1)
            if splits:
                if feature[node] == 1:
                    categories[node] = draw(st.frozensets(st.integers(0, 4)))
                left[node], right[node] = grow(depth + 1), grow(depth + 1)
            return node

        grow(0)
        margin = draw(st.integers(0, 1))
        trees.append(Tree(feature, threshold, left, right, nan_left, categories, value, margin))
    return Forest(trees, 2, n_features, at_most=at_most)


@given(forests())
def test_step_margins_are_formula_12(forest):
    """Against a plain walk down every tree, for every person and time."""
    grid = [np.nan, 0.0, 1.0, 2.0, 3.0, 4.0]
    people = np.array([(a, b) for a in grid for b in grid], np.float32)
    times = np.array([0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 4.0, 5.0])

    def leaf(tree, row):
        node = 0
        while tree.feature[node] >= 0:
            x = row[tree.feature[node]]
            if np.isnan(x):
                goes_left = tree.nan_left[node]
            elif node in tree.categories:
                goes_left = int(x) in tree.categories[node]
            elif forest.at_most:
                goes_left = x <= tree.threshold[node]
            else:
                goes_left = x < tree.threshold[node]
            node = tree.left[node] if goes_left else tree.right[node]
        return tree.value[node][0]

    expected = np.zeros((2, len(times), len(people)))
    for tree in forest.trees:
        for person, (a, b) in enumerate(people):
            for position, time in enumerate(times):
                expected[tree.first_margin, position, person] += leaf(tree, (a, b, time))
    steps = forest.step_margins(people)
    assert steps.shape == (2, forest.n_steps, len(people))
    # Quarters add without rounding.
    assert_array_equal(steps[:, forest.interval(times)], expected)
    assert_array_equal(forest.interval(forest.representatives()), np.arange(forest.n_steps))


def test_representatives_lie_inside_their_steps_for_thresholds_beyond_float32():
    for at_most in (True, False):
        breaks = [0.1, 0.3, 0.7, 1 / 3, 2.0, 1e-35]
        forest = Forest([], 1, 0, at_most=at_most, breaks=breaks)
        if not at_most:
            forest.breaks = np.unique(np.float32(breaks)).astype(np.float64)
        assert_array_equal(forest.interval(forest.representatives()), np.arange(7))


def test_prediction_memory_is_bounded():
    """No array holds all people on all steps: peak memory grows by the answer only."""
    people = simulated(400)
    model = boost("lightgbm").fit(people.X, people.y)
    n_samples = 20_000
    X = pd.DataFrame(np.tile(people.X.to_numpy(), (n_samples // 400, 1)), columns=people.X.columns)
    size = fitted_models._PREDICTION_SIZE
    try:
        fitted_models._PREDICTION_SIZE = 2**14
        tracemalloc.start()
        model.predict_restricted_mean_time(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        fitted_models._PREDICTION_SIZE = size
    everything = n_samples * 3 * model._model.trees.forest().n_steps * 8
    assert peak < everything / 3

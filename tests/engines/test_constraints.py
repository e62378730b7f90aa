"""Constraints on features: predictions hold them, the model of censoring does not."""

from __future__ import annotations

import importlib

import numpy as np
import pandas as pd
import pytest
from estimator_data import ENGINES, boost
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import HazardBoost, load
from survival_objectives._engines.settings import column_directions, column_groups
from survival_objectives._people import check_features

CASES = [(engine, 1) for engine in ENGINES] + [("xgboost", 2), ("lightgbm", 2)]
NAMES = ["age", "dose", "left", "right"]


@pytest.fixture(scope="module")
def people():
    """Risks fall in age but for the oldest, whom both causes befall; censoring rises in age."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 4)).astype(np.float32)
    age, both = X[:, 0], X[:, 2] * X[:, 3] > 0
    rates = [np.exp(-0.8 * age + 2 * (age > 1) + 1.2 * both + 0.5 * X[:, 1]), np.exp(0.6 * age - 1)]
    times = np.array([rng.exponential(1 / rate) for rate in rates])
    censored = rng.exponential(1.5 * np.exp(-0.8 * age))
    X[rng.random(700) < 0.1, 1] = np.nan

    def get(n_causes):
        first = times[:n_causes].min(axis=0)
        event = np.where(first <= censored, 1 + times[:n_causes].argmin(axis=0), 0)
        return pd.DataFrame(X, columns=NAMES), (event, np.minimum(first, censored))

    return get


def fit(engine, X, y, params, **options):
    settings = {"censoring": "hazards", "n_estimators": 30, **options}
    return boost(engine, engine_params=params, **settings).fit(X, y)


def along_age(X, n_people=30):
    """People at each of 31 ages, one person's ages after another."""
    ages = np.linspace(-3, 3, 31)
    rows = X.iloc[:n_people].loc[X.index[:n_people].repeat(len(ages))].reset_index(drop=True)
    return rows.assign(age=np.tile(ages, n_people)), (n_people, len(ages))


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("engine", "n_causes"), CASES)
def test_hazards_and_curves_are_monotone_in_the_feature(engine, n_causes, sign, people):
    """Also where the data say the opposite, in the linear part and in the trees."""
    X, y = people(n_causes)
    model = fit(engine, X, y, {"monotone_constraints": {"age": sign}})
    rows, shape = along_age(X)
    survival = model.predict_survival_function(rows).reshape(*shape, -1)
    assert (sign * np.diff(survival, axis=1)).max() <= 1e-12
    if n_causes == 1 or sign == -1:
        free = fit(engine, X, y, None).predict_survival_function(rows).reshape(*shape, -1)
        assert (sign * np.diff(free, axis=1)).max() > 0.01
    for _, hazard in model.fitted_model.mixture.members.values():
        design = model.fitted_model.mixture.design
        values = rows.to_numpy(np.float32)
        margin = hazard.margin(values, None if design is None else design.matrix(values))
        steps = np.diff(margin.reshape(*margin.shape[:2], *shape), axis=-1)
        assert (sign * steps).min() >= -1e-6


def test_the_linear_part_keeps_what_does_not_contradict(people):
    X, y = people(2)
    # So few rounds that the linear part has a weight.
    constraints = {"monotone_constraints": {"age": 1, "dose": -1}}
    mixture = fit("xgboost", X, y, constraints, n_estimators=2).fitted_model.mixture
    column = mixture.design.feature.index(0)
    linear = [hazard for _, hazard in mixture.members.values() if hazard.coefficients is not None]
    assert linear
    for hazard in linear:
        assert (hazard.coefficients[:, 0, column] == 0).all()
        assert (hazard.coefficients[:, 1, column] > 0).all()


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm"])
def test_features_of_different_groups_do_not_interact(engine, people):
    X, y = people(1)
    groups = {"interaction_constraints": [["left", "age"], ["right"]]}

    def interaction(params):
        model = fit(engine, X, y, params, linear=False)
        rows = pd.concat([X.iloc[:40]] * 4, ignore_index=True)
        rows["left"], rows["right"] = np.repeat([1, 1, -1, -1], 40), np.repeat([1, -1, 1, -1], 40)
        values = rows.to_numpy(np.float32)
        sign = np.repeat([1, -1, -1, 1], 40)
        return max(
            np.abs((sign * hazard.margin(values, None)).reshape(-1, 4, 40).sum(axis=1)).max()
            for _, hazard in model.fitted_model.mixture.members.values()
        )

    assert interaction(None) > 0.1
    assert interaction(groups) < 1e-5


@pytest.mark.parametrize("censoring", ["boosted", "kaplan-meier", "imputed"])
@pytest.mark.parametrize(("engine", "n_causes"), CASES)
def test_margins_of_weighted_models_are_monotone_in_the_feature(
    engine, n_causes, censoring, people
):
    """Curves of a single cause are as well, where they are not calibrated in time."""
    X, y = people(n_causes)
    model = fit(
        engine, X, y, {"monotone_constraints": {"age": -1}}, censoring=censoring, time_smoothing=0
    )
    rows, shape = along_age(X)
    survival = model.predict_survival_function(rows, np.linspace(0.05, 2, 12))
    steps = np.diff(survival.reshape(*shape, -1), axis=1)
    assert steps.min() >= (-1e-9 if n_causes == 1 else -0.05)
    stacked = np.column_stack([rows.to_numpy(np.float32), np.full(len(rows), 0.5, np.float32)])
    margin = model.fitted_model.trees.sum_of_trees(stacked)
    assert np.diff(margin.reshape(*shape, -1), axis=1).max() <= 1e-6


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_of_censoring_is_not_constrained(engine, people):
    """People are censored earlier at a higher age, whatever events are constrained to."""
    X, y = people(1)
    rows, shape = along_age(X)

    def censoring(params):
        model = boost(engine, engine_params=params, n_estimators=40).fit(X, y)
        times = np.full(len(rows), 0.5)
        return model.censoring_.survival(times, rows).reshape(shape)[:, [0, -1]].mean(axis=0)

    young, old = censoring({"monotone_constraints": {"age": -1}})
    assert young - old > 0.15


SPELLINGS = {
    "xgboost": [{"age": -1}, (-1, 0, 0, 0), "(-1,0,0,0)"],
    "lightgbm": [{"age": -1}, [-1, 0, 0, 0], "-1,0,0,0", np.array([-1, 0, 0, 0])],
    "catboost": [{"age": -1}, [-1, 0, 0, 0], "(-1,0,0,0)", "age:-1", {0: -1}],
}


@pytest.mark.parametrize("engine", ENGINES)
def test_spellings_of_each_engine_mean_the_same(engine, people, tmp_path):
    X, y = people(1)
    curves = []
    for number, value in enumerate(SPELLINGS[engine]):
        model = fit(engine, X, y, {"monotone_constraints": value}, n_estimators=5)
        curves.append(model.predict_survival_function(X))
        model.save(tmp_path / str(number))
        assert_array_equal(load(tmp_path / str(number)).predict_survival_function(X), curves[-1])
    for other in curves[1:]:
        assert_array_equal(other, curves[0])


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=5), st.sampled_from([0, 1]))
def test_names_and_positions_mean_the_same_columns(directions, time):
    names = [f"x{column}" for column in range(len(directions))]
    schema = check_features(pd.DataFrame(np.zeros((2, len(names))), columns=names)).schema
    by_position = column_directions(directions, schema, time)
    assert column_directions(dict(zip(names, directions, strict=True)), schema, time) == by_position
    assert by_position == ([*directions, time] if any([*directions, time]) else None)
    grouped = [number for number, direction in enumerate(directions) if direction]
    groups = column_groups([grouped], schema)
    assert groups == column_groups(str([grouped]), schema)
    assert all(group[-1] == len(names) for group in groups)
    assert sorted(column for group in groups for column in group[:-1]) == list(range(len(names)))


REFUSED = [
    ("xgboost", {"monotone_constraints": (1, 0)}, r"has 2 values, but there are 4 features"),
    ("lightgbm", {"mc": [1, 0, 0, 0, 1]}, "has 5 values.*the time is none of them"),
    ("xgboost", {"monotone_constraints": {"agee": 1}}, "names 'agee', which is no feature; there"),
    ("xgboost", {"monotone_constraints": {"age": 2}}, "it must be a dict of names"),
    ("lightgbm", {"monotone_constraints": {"age": True}}, "it must be a dict of names"),
    ("catboost", {"monotone_constraints": 1}, "it must be a dict of names"),
    ("xgboost", {"interaction_constraints": [["age"], ["b"]]}, "names 'b', which is no feature"),
    ("lightgbm", {"interaction_constraints": ["age", "dose"]}, "it must be a list of groups"),
    ("lightgbm", {"interaction_constraints": "age"}, "it must be a list of groups"),
    ("catboost", {"interaction_constraints": [["age"]]}, "CatBoost has none; use engine='xgb"),
    ("catboost", {"monotone_constraints": {"age": 1}}, "for a single cause only; there are 2"),
]


@pytest.mark.parametrize(("engine", "params", "message"), REFUSED)
def test_what_cannot_be_held_is_refused_with_a_way_out(engine, params, message, people):
    X, y = people(2)
    for censoring in ("hazards", "boosted"):
        with pytest.raises((TypeError, ValueError), match=message):
            fit(engine, X, y, params, censoring=censoring)


def test_categories_have_no_direction(people):
    X, y = people(1)
    X["ward"] = pd.Categorical(np.where(X["left"] > 0, "a", "b"))
    with pytest.raises(ValueError, match="names 'ward', which is a category and has no order"):
        fit("xgboost", X, y, {"monotone_constraints": {"ward": 1}})


def test_on_a_cluster_and_from_disk_constraints_hold_as_in_memory(people):
    X, y = people(1)
    external = importlib.import_module("survival_objectives.adapters.external_memory")
    params = {"monotone_constraints": {"age": -1}}
    model = HazardBoost(engine_params=params, n_estimators=20, n_jobs=1, random_state=0)
    batches = [(X[:300], tuple(part[:300] for part in y)), (X[300:], tuple(p[300:] for p in y))]
    rows, shape = along_age(X)
    survival = external.fit_external(model, batches).predict_survival_function(rows)
    assert np.diff(survival.reshape(*shape, -1), axis=1).min() >= -1e-12
    in_memory = fit("xgboost", X, y, params, n_estimators=20).predict_survival_function(rows)
    assert_allclose(survival, in_memory, atol=0.1)

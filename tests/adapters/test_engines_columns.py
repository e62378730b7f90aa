"""Columns that are drawn for trees: the time is always among them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from survival_objectives import SurvivalBoost
from survival_objectives._engines.protocol import engine
from survival_objectives._engines.settings import TreeSettings
from survival_objectives._people import Features
from survival_objectives.adapters.external_memory import fit_external
from survival_objectives.datasets import make_competing_risks

N_FEATURES, N_ROWS, N_ROUNDS = 30, 600, 25


def settings(n_causes=1, max_features=0.2, **other):
    given = {
        "schema": Features(np.empty((0, N_FEATURES), np.float32), None, {}),
        "n_causes": n_causes,
        "learning_rate": 0.1,
        "max_depth": 2,
        "min_leaf_people": 0.1,
        "min_split_gain": 0.0,
        "max_features": max_features,
        "n_horizons": 1,
        "monotone": False,
        "seed": 3,
        "n_jobs": 1,
    }
    return TreeSettings(**{**given, **other})


@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_every_tree_may_split_on_the_time(name, n_causes):
    """States follow from the time alone, so that each tree that may splits on it."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(N_ROWS, N_FEATURES + 1)).astype(np.float32)
    target = (values[:, -1] > 0).astype(np.int32) * (1 + (values[:, -1] > 1) % n_causes)
    booster = engine(name).trainer(settings(n_causes))
    key = booster.add(values, np.zeros((N_ROWS, n_causes)))
    booster.boost(key, target.astype(np.int32), np.ones(N_ROWS), N_ROUNDS)
    gains = booster_columns(name, booster.finished(N_ROUNDS).model)
    assert len(gains) == N_ROUNDS * n_causes
    assert all(N_FEATURES in columns for columns in gains)


def booster_columns(name, model):
    """Columns on which each tree of an engine's model splits."""
    frame = model.trees_to_dataframe()
    column, tree = ("Feature", "Tree") if name == "xgboost" else ("split_feature", "tree_index")
    names = model.feature_names if name == "xgboost" else model.feature_name()
    splits = frame[frame[column].isin(names)]
    return [{names.index(used) for used in part[column]} for _, part in splits.groupby(tree)]


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_no_tree_splits_on_more_than_its_share(name):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(N_ROWS, N_FEATURES + 1)).astype(np.float32)
    target = (values.sum(axis=1) > 0).astype(np.int32)
    booster = engine(name).trainer(settings(max_features=0.15, max_depth=6))
    key = booster.add(values, np.zeros((N_ROWS, 1)))
    booster.boost(key, target, np.ones(N_ROWS), N_ROUNDS)
    columns = booster_columns(name, booster.finished(N_ROUNDS).model)
    others = [used - {N_FEATURES} for used in columns]
    assert max(map(len, others)) == 4  # Of thirty features 15 %, rounded down.
    assert len(set.union(*others)) > 20  # Other trees draw other features.


def test_drawn_columns_are_reproducible_and_keep_the_time():
    drawn = [settings().drawn_columns(number) for number in range(200)]
    for number, one in enumerate(drawn):
        assert one[-1]
        assert one.sum() == 1 + 6
        assert_array_equal(one, settings().drawn_columns(number))
    shares = np.mean(drawn, axis=0)[:-1]
    # Four standard errors of a share of 0.2 in 200 draws.
    assert np.abs(shares - 0.2).max() < 4 * np.sqrt(0.2 * 0.8 / 200)
    assert settings(max_features=1.0).drawn_columns(0) is None
    assert settings(max_features=1.0).column_share == 1


@pytest.mark.parametrize("n_features", [1, 3, 4, 5, 9])
def test_few_features_are_not_thinned_out(n_features):
    schema = Features(np.empty((0, n_features), np.float32), None, {})
    given = settings(schema=schema, max_features=0.01)
    n_columns = int(np.float32(given.column_share) * (n_features + 1))
    assert n_columns == min(n_features, 4) + 1


def test_from_disk_every_tree_may_split_on_the_time():
    data = make_competing_risks(400, n_causes=1, n_features=20, random_state=0)
    model = SurvivalBoost(
        "xgboost", n_estimators=20, max_features=0.3, censoring="kaplan-meier", random_state=0
    )
    X, event, duration = data.X.to_numpy(), data.y["event"], data.y["duration"]
    batches = [(X[i::2], (event[i::2], duration[i::2])) for i in range(2)]
    from_disk = fit_external(model, batches).booster_
    splits = from_disk.trees_to_dataframe().query("Feature != 'Leaf'")
    with_time = splits.groupby("Tree")["Feature"].apply(lambda used: "horizon" in set(used))
    # Most events are explained by the time; three tenths of the trees would draw it by chance.
    assert with_time.mean() > 0.6


def test_random_thresholds_differ_between_rounds():
    """LightGBM draws thresholds from a stream that a reset of parameters begins again."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(N_ROWS, N_FEATURES + 1)).astype(np.float32)
    target = (values.sum(axis=1) > 0).astype(np.int32)
    booster = engine("lightgbm").trainer(settings(engine_params={"extra_trees": True}))
    key = booster.add(values, np.zeros((N_ROWS, 1)))
    booster.boost(key, target, np.ones(N_ROWS), 40)
    splits = booster.finished(40).model.trees_to_dataframe().dropna(subset=["split_feature"])
    assert splits.groupby("split_feature")["threshold"].nunique().max() > 4
    distinct = splits[["split_feature", "threshold"]].drop_duplicates()
    assert len(distinct) > 0.8 * len(splits)


@pytest.mark.parametrize(
    ("name", "own"),
    [("xgboost", {"colsample_bynode": 0.9}), ("lightgbm", {"feature_fraction_bynode": 0.9})],
)
def test_draws_of_the_users_own_leave_max_features_in_force(name, own):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(N_ROWS, N_FEATURES + 1)).astype(np.float32)
    target = (values.sum(axis=1) > 0).astype(np.int32)
    given = settings(max_features=0.15, max_depth=6, engine_params=own)
    booster = engine(name).trainer(given)
    key = booster.add(values, np.zeros((N_ROWS, 1)))
    booster.boost(key, target, np.ones(N_ROWS), N_ROUNDS)
    columns = booster_columns(name, booster.finished(N_ROUNDS).model)
    assert max(map(len, columns)) <= 6  # Four features of thirty, the time, and rounding.

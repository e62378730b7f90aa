"""Settings of the trees of each method."""

from __future__ import annotations

import pandas as pd
import pytest

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives._engines.protocol import engine
from survival_objectives._hazards.settings import HazardSettings
from survival_objectives._horizons.settings import HorizonSettings
from survival_objectives._people import check_features

ENGINES = ("xgboost", "lightgbm", "catboost")
SCHEMA = check_features(pd.DataFrame({"age": [1.0, 2.0]}))


def settings(name, method, **parameters):
    pytest.importorskip(name)
    estimator, kind = HazardBoost, HazardSettings
    if method == "boosted":
        estimator, kind = SurvivalBoost, HorizonSettings
    found = kind.of(estimator(name, **parameters).get_params(), engine(name))
    return found.trees(schema=SCHEMA, n_causes=2, seed=7, n_jobs=None)


@pytest.mark.parametrize("name", ENGINES)
def test_hazards_need_no_constraint_and_have_coarse_bins(name):
    found = settings(name, "hazards", max_depth=5)
    assert not found.monotone
    assert found.n_horizons == 1
    assert (found.max_depth, found.seed) == (5, 7)
    assert found.engine_params == engine(name).coarse_bins
    assert settings(name, "boosted").monotone


@pytest.mark.parametrize(("name", "setting"), [("xgboost", "max_bin"), ("lightgbm", "max_bin")])
def test_bins_of_the_user_win(name, setting):
    assert engine(name).coarse_bins[setting] != 33
    found = settings(name, "hazards", engine_params={setting: 33})
    assert found.engine_params[setting] == 33


@pytest.mark.parametrize("depth", [1, 4])
def test_trees_of_censoring_are_shallower_and_always_monotone(depth):
    events = settings("xgboost", "boosted", max_depth=depth, monotone=False)
    censoring = events.of_censoring()
    assert not events.monotone
    assert censoring.monotone
    assert censoring.n_causes == 1
    assert censoring.max_depth == max(1, depth - 1)

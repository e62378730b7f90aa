"""Checks of a model that has just been trained."""

from __future__ import annotations

import numpy as np
import pytest

from survival_objectives import SurvivalBoost
from survival_objectives._fit import hazards
from survival_objectives._model.checks import check_hazard_paths
from survival_objectives._model.mixture import HazardTrees
from survival_objectives.datasets import make_competing_risks


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm", "catboost"])
@pytest.mark.filterwarnings("ignore:No split on a feature")
def test_hazards_are_refused_where_trees_and_engine_differ(engine, monkeypatch):
    pytest.importorskip(engine)
    data = make_competing_risks(1500, n_causes=2, random_state=0)
    model = SurvivalBoost(engine, n_estimators=30, linear=False, random_state=0, n_jobs=1)
    mixture = model.fit(data.X, data.y).fitted_model.mixture
    values = data.X.to_numpy(np.float32)
    check_hazard_paths(mixture, values, {})
    margin = HazardTrees.margin

    def off(self, values, n_intervals, *, engine_rows):
        return margin(self, values, n_intervals, engine_rows=engine_rows) + 1e-4 * (engine_rows > 0)

    monkeypatch.setattr(HazardTrees, "margin", off)
    with pytest.raises(RuntimeError, match=r"differ by up to 0.0001 .*'alpha'"):
        check_hazard_paths(mixture, values, {"alpha": 1})


def test_every_fit_of_hazards_is_checked(monkeypatch):
    data = make_competing_risks(300, n_causes=1, random_state=0)
    seen = []
    monkeypatch.setattr(hazards, "check_hazard_paths", lambda *given: seen.append(given))
    SurvivalBoost(n_estimators=10, random_state=0, n_jobs=1).fit(data.X, data.y)
    assert len(seen) == 1

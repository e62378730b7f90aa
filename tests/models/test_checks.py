"""Checks of a model that has just been trained."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from survival_objectives import HazardBoost
from survival_objectives._hazards import training as hazards
from survival_objectives._hazards.mixture import HazardTrees
from survival_objectives._hazards.training import check_hazard_paths
from survival_objectives._models.fitted import TrainingRecord
from survival_objectives._training import warn_about_model
from survival_objectives.datasets import make_competing_risks


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm", "catboost"])
@pytest.mark.filterwarnings("ignore:No split on a feature")
def test_hazards_are_refused_where_trees_and_engine_differ(engine, monkeypatch):
    pytest.importorskip(engine)
    data = make_competing_risks(1500, n_causes=2, random_state=0)
    model = HazardBoost(engine, n_estimators=30, linear=False, random_state=0, n_jobs=1)
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
    HazardBoost(n_estimators=10, random_state=0, n_jobs=1).fit(data.X, data.y)
    assert len(seen) == 1


def model_with(n_floored: int, *, same_curves: bool = False) -> SimpleNamespace:
    record = TrainingRecord(
        "boosted", n_floored=n_floored, n_weighted_rows=100, same_curves=same_curves
    )
    return SimpleNamespace(record=record)


def test_warnings_name_the_caller_and_the_way_out(caplog):
    with pytest.warns(UserWarning, match=r"20 of 100 rows \(20%\)") as seen:
        warn_about_model(model_with(20))
    assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match="all people get the same curve"):
        warn_about_model(model_with(0, same_curves=True))
    with caplog.at_level("INFO", logger="survival_objectives"):
        warn_about_model(model_with(5))
    assert "limits the weight of 5 of 100 rows" in caplog.text

"""How far a reader walks: files of the package that a default fit and a prediction enter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from estimator_data import simulated

import survival_objectives
from survival_objectives import HazardBoost, SurvivalBoost

PACKAGE = Path(survival_objectives.__file__).parent
ADAPTERS = (PACKAGE / "adapters").resolve()
#: They only get lower.
MOST_IN_FIT = {HazardBoost: 25, SurvivalBoost: 26}
MOST_IN_PREDICTION = {"HazardObjective": 16, "IPCWObjective": 18}


def files_entered(action):
    """Files of the package whose functions are called."""
    found = set()

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            found.add(frame.f_code.co_filename)

    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(None)
    paths = {Path(name).resolve() for name in found if name.endswith(".py")}
    return {path for path in paths if PACKAGE in path.parents or ADAPTERS in path.parents}


@pytest.mark.parametrize("kind", [HazardBoost, SurvivalBoost])
def test_a_default_fit_enters_few_files(kind):
    pytest.importorskip("xgboost")
    data = simulated(300)
    model = kind(n_jobs=1, random_state=0)
    kind(n_estimators=2, n_jobs=1).fit(data.X, data.y)  # Imports are not part of the walk.
    entered = files_entered(lambda: model.fit(data.X, data.y))
    assert PACKAGE / "estimators.py" in entered
    assert len(entered) <= MOST_IN_FIT[kind]


@pytest.mark.parametrize("name", MOST_IN_PREDICTION)
def test_a_prediction_of_the_plugin_enters_few_files(name):
    xgb = pytest.importorskip("xgboost")
    adapter = pytest.importorskip("survival_objectives.adapters.xgboost")
    data = simulated(200)
    objective = getattr(adapter, name)(data.X, data.y, random_state=0)
    booster = xgb.train({**objective.params, "nthread": 1}, objective.dtrain, 3, obj=objective)
    predict = objective.predict_cumulative_incidence
    predict(booster, data.X, [0.5])  # Curves are calibrated once for each booster.
    entered = files_entered(lambda: predict(booster, data.X, [0.5, 1.0]))
    assert PACKAGE / "_models" / "fitted.py" in entered
    assert len(entered) <= MOST_IN_PREDICTION[name]

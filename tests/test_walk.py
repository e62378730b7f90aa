"""How far a reader walks: files of the package that a default fit and a prediction enter."""

from __future__ import annotations

import re
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


def calls(action):
    """File and name of every function of the package, in the order of first calls."""
    found = {}

    def watch(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            found.setdefault((code.co_filename, code.co_qualname))

    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(None)
    named = [(Path(name).resolve(), function) for name, function in found if name.endswith(".py")]
    inside = (PACKAGE, ADAPTERS)
    return [(path, name) for path, name in named if any(one in path.parents for one in inside)]


def files_entered(action):
    """Files of the package whose functions are called."""
    return {path for path, _ in calls(action)}


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


@pytest.mark.parametrize(
    ("kind", "other"), [(HazardBoost, "_horizons"), (SurvivalBoost, "_hazards")]
)
def test_the_guide_tells_what_a_fit_does_in_its_order(kind, other):
    pytest.importorskip("xgboost")
    guide = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text("utf-8")
    walk = guide.split("## A walk through one fit\n")[1].split("\nPrediction: ")[0]
    data = simulated(300)
    y = data.y.assign(event=data.y["event"].map(lambda code: ("alive", "died", "moved")[code]))
    model = kind(n_estimators=20, n_jobs=1, random_state=0)
    called = calls(lambda: model.fit(data.X, y))
    first = []
    for step in re.split(r"\n(?=\d\. )", walk)[1:]:
        if step[3:].startswith("Horizons:" if kind is HazardBoost else "Hazards:"):
            continue
        at = []
        for name, function in re.findall(r"`([\w./]+\.py)`: `([\w.]+)`", step):
            if f"{other}/" in name:
                continue
            places = [
                place
                for place, (path, said) in enumerate(called)
                if str(path).endswith(f"/{name}") and f".{function}." in f".{said}."
            ]
            assert places, (name, function)
            at.append(places[0])
        first += [min(at)] if at else []
    assert len(first) >= 5
    # The derivatives of step 6 are evaluated within steps 4 and 5.
    assert [*first[:-2], first[-1]] == sorted([*first[:-2], first[-1]])

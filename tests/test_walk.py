"""How far a reader walks: files of the package that a default fit enters."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from estimator_data import simulated

import survival_objectives
from survival_objectives import HazardBoost, SurvivalBoost

PACKAGE = Path(survival_objectives.__file__).parent
ADAPTERS = (PACKAGE / "adapters").resolve()
#: It only gets lower: the plan is 25.
MOST_FILES = 48


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
    assert len(entered) <= MOST_FILES

"""The comparison with other packages runs, small; hazardous itself takes too long for a test."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

versus = pytest.importorskip("benchmarks.versus_hazardous")


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("benchmarks._results.RESULTS", tmp_path)
    monkeypatch.setattr("benchmarks._results.Path", lambda _: tmp_path / "benchmarks" / "file")
    return tmp_path


def options(**given: Any) -> Namespace:
    return Namespace(hazardous_python=sys.executable, only=None, **given)


def test_truth_compares_all_contenders(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(python: str, X: Any, y: Any, X_test: Any, times: Any, seed: int) -> dict[str, Any]:
        curves = versus.AalenJohansen().fit(X, y).predict_cumulative_incidence(X_test, times)
        return {"curves": curves, "fit_cpu": 1e6}

    monkeypatch.setattr(versus, "run_hazardous", slow)
    monkeypatch.setattr(versus, "ENGINES", ("lightgbm",))
    versus.truth(options(n=300, seeds=1))
    content = json.loads((results / "versus_hazardous_truth.json").read_text())
    assert set(content["mean"]) == {"hazardous", "lightgbm", "Aalen-Johansen"}
    assert content["mean"]["hazardous"]["ise_ratio"] == 1
    assert content["mean"]["Aalen-Johansen"]["ise_ratio"] == 1
    assert content["mean"]["lightgbm"]["speed-up"] > 1
    assert content["machine"]["versions"]["lightgbm"]


def test_classics_predict_survival_that_falls() -> None:
    from survival_objectives.datasets import make_competing_risks

    data = make_competing_risks(200, n_causes=1, random_state=0)
    times = np.linspace(0, 3, 10)[1:]
    contenders = versus.contenders_on_real_data(sys.executable, seed=0)
    for name in ("Kaplan-Meier", "Cox", "RSF", "GBS"):
        curves = contenders[name](data.X, data.y, data.X[:5], times)
        assert curves.shape == (5, 2, 9)
        assert (np.diff(curves[:, 0], axis=1) <= 1e-12).all()
        np.testing.assert_allclose(curves.sum(axis=1), 1)


def test_one_size_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    versus.scale(options(one=("500", "lightgbm")))
    cpu, wall, peak, before = map(float, capsys.readouterr().out.split())
    assert cpu > 0
    assert wall > 0
    assert peak >= before > 0

"""The study of the plugin's error runs, small, and the documentation shows its results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

study = pytest.importorskip("benchmarks.plugin_study")


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm", "catboost"])
def test_the_study_compares_all_arms(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    written: dict[str, Any] = {}
    monkeypatch.setattr(study, "write_result", written.__setitem__)
    monkeypatch.setattr(study, "FAMILIES", {"hazards, 2 causes": None})
    for name, number in (("N_TEST", 50), ("N_ROUNDS", 6), ("IPCW_ROUNDS", 3)):
        monkeypatch.setattr(study, name, number)
    study.main(["--people", "300", "--engine", engine])
    content = written[f"plugin_study-{engine}"]
    assert [row["problem"] for row in content["rows"]] == ["hazards, 2 causes, 300"]
    assert set(content["summary"]) == set(study.ARMS)
    assert all(0.1 < one["mean"] < 20 for one in content["summary"].values())


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm", "catboost"])
def test_the_cost_is_a_ratio(engine: str) -> None:
    assert 0.05 < study.cost(engine, n_people=200, n_rounds=2, n_repeats=1) < 20


def test_the_page_shows_the_results() -> None:
    page = Path(__file__).parents[1] / "docs" / "engines" / "hazards.md"
    assert study.table() in page.read_text(encoding="utf-8")

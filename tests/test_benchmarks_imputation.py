"""The study of weights and imputation runs, small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from survival_objectives.datasets import make_competing_risks

study = pytest.importorskip("benchmarks.imputation_study")


def test_the_study_compares_all_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, Any] = {}
    data = make_competing_risks(200, n_causes=1, random_state=0)
    monkeypatch.setattr(study, "write_result", written.__setitem__)
    monkeypatch.setattr(study, "RATES", (0.5,))
    monkeypatch.setattr(study, "SEEDS", (1,))
    monkeypatch.setattr(study, "real_tables", lambda _: {"made up": (data.X, data.y)})
    monkeypatch.setattr(study, "METHODS", ("boosted", "imputed"))
    study.main(["--people", "200", "--engine", "lightgbm"])

    content = written["imputation_study"]
    kinds = [(row["censoring"], row["share_censored"]) for row in content["simulated"]]
    assert kinds == [("dependent", 0.5), ("independent", 0.5)]
    assert set(content["simulated"][0]["error_x1000"]) == {"marginal", "boosted", "imputed"}
    (table,) = content["real"]
    assert table["people"] == 200
    assert table["scores"]["marginal"]["c_index"] == 0.5
    assert table["scores"]["imputed"]["c_index"] > 0.5


def test_the_page_on_the_method_shows_the_results() -> None:
    page = Path(__file__).parents[1] / "docs" / "method.md"
    assert study.table() in page.read_text(encoding="utf-8")

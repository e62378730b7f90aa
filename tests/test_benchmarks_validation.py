"""The study of limits runs, small, and the documentation shows what the records say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

coverage = pytest.importorskip("benchmarks.validation_coverage")
guide = pytest.importorskip("benchmarks.stratos_guide")

METHOD = (Path(__file__).parents[1] / "docs" / "method.md").read_text(encoding="utf-8")


def test_the_study_keeps_cases_of_other_numbers_of_people(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(coverage, "CASES", coverage.CASES[1:2])
    monkeypatch.setattr(coverage, "_N_POPULATION", 3000)
    output = tmp_path / "coverage.json"
    for n_people, runs in ((80, 1), (120, 5), (80, 6)):
        arguments = ["--people", str(n_people), "--runs", str(runs), "--output", str(output)]
        coverage.main(arguments)
    cases = json.loads(output.read_text())["cases"]
    assert [(case["n_people"], case["runs"]) for case in cases] == [(120, 5), (80, 6)]
    assert all(one["coverage"] >= 0.5 for one in cases[1]["scores"].values() if one["runs"] == 6)


def test_the_page_shows_the_records() -> None:
    for table in (coverage.coverage_table(), coverage.bias_table(), guide.table()):
        assert table in METHOD


def test_limits_of_all_scores_cover() -> None:
    """All but the summaries of the calibration curve, which are positive by noise."""
    record = json.loads(coverage._RESULTS.read_text())
    for case in record["cases"]:
        for name, one in case["scores"].items():
            assert name in coverage._SUMMARIES or 0.93 <= one["coverage"] <= 0.97, (case, name)

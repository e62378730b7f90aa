"""The studies of bands and conformal bounds run, small, and the documentation has their results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

bands = pytest.importorskip("benchmarks.bands_study")
conformal = pytest.importorskip("benchmarks.conformal_study")

DOCS = Path(__file__).parents[1] / "docs"
HOW_SURE = (DOCS / "howto" / "how_sure.md").read_text(encoding="utf-8")


def test_the_study_of_bands_compares_all_ways(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bands, "RECORD", tmp_path / "bands.json")
    monkeypatch.setattr(bands, "CASES", {"hazards, 1 cause": 0.47})
    monkeypatch.setattr(bands, "_N_NEW", 30)
    for _ in range(2):  # The second run replaces what is known of the same case.
        bands.main(["bands", "--n", "150", "--seeds", "1", "--engine", "lightgbm"])
    bands.main(["ways", "--n", "150", "--refits", "2"])
    record = json.loads((tmp_path / "bands.json").read_text())
    ((one,), (ways,)) = record["bands"], record["ways"]
    assert 0.5 < one["0.8"] <= one["0.9"] <= one["0.95"]
    assert 0 < one["width"] < 1
    widest = {name: max(way["width"]) for name, way in ways["ways"].items()}
    assert {"folds", "half-samples", "bootstrap", "folds + 20/E"} < set(widest)
    assert all(0 < width <= 1 for width in widest.values())


def test_the_study_of_bounds_compares_all_models(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(conformal, "RECORD", tmp_path / "conformal.json")
    monkeypatch.setattr(conformal, "CASES", {"hazards, 1 cause": 0.47})
    monkeypatch.setattr(conformal, "_N_NEW", 200)
    conformal.main(["--n", "120", "--seeds", "1"])
    found = conformal.summary()
    assert set(found) == set(conformal.WRONG)
    assert all(0.7 < one["conformal"] <= 1 for one in found.values())
    assert found["none"]["truth"] == pytest.approx(0.9, abs=0.07)
    assert "| all | " in conformal.table()


def test_the_pages_show_the_results() -> None:
    for table in (bands.coverage_table(), bands.summary_table(), conformal.table()):
        assert table in HOW_SURE
    assert bands.ways_table() in (DOCS / "method.md").read_text(encoding="utf-8")


def test_the_page_names_the_truths_that_bands_do_not_fit() -> None:
    low, high = bands.outside()
    (said,) = [part for part in HOW_SURE.split("\n\n") if part.startswith("Too narrow:")]
    narrow, wide = said.split("Too wide:")
    assert [name for name in bands.CASES if f"*{name}*" in narrow] == low
    assert [name for name in bands.CASES if f"*{name}*" in wide] == high

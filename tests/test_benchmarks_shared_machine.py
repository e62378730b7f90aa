"""The benchmark of fits beside other programs runs, small."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

study = pytest.importorskip("benchmarks.shared_machine")
DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_a_fit_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = []
    monkeypatch.setattr(study, "_pin", pinned.append)
    found = study.timed_fit("lightgbm", 200, 1, 0.0)
    assert pinned == [0]
    assert set(found) == {"wall", "cpu", "others"}
    assert found["cpu"] > 0


def test_summary_takes_the_fastest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "ARMS", {"default": (None, {})})
    runs: list[dict[str, Any]] = [
        {
            "engine": "xgboost",
            "arm": "default",
            "beside": beside,
            "wall": wall,
            "cpu": 1,
            "others": 0,
        }
        for beside, wall in ((0, 2.0), (0, 1.0), (2, 3.0), (2, 5.0))
    ]
    (row,) = study.summary(runs)
    assert (row["alone"], row["beside"], row["ratio"]) == (1.0, 3.0, 3.0)


def test_the_page_on_threads_shows_the_results() -> None:
    page = (DOCS / "howto" / "threads.md").read_text(encoding="utf-8")
    assert study.table(study.results()["summary"]) in page

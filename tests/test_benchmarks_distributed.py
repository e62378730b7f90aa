"""The benchmark of clusters and external memory runs, small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

distributed = pytest.importorskip("benchmarks.distributed")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is written as results; arms run in this process rather than in their own."""
    results: dict[str, Any] = {}
    monkeypatch.setattr(distributed, "write_result", results.__setitem__)
    monkeypatch.setattr(distributed, "N_TEST", 50)

    def run(command: list[str], **options: Any) -> Any:
        given = distributed.parsed(command[command.index("arm") :])
        row = distributed.run_arm(
            given.arm, Path(given.folder), given.people, given.batch, distributed.settings(given)
        )
        return type("Done", (), {"stdout": f"progress\n{json.dumps(row)}\n"})

    monkeypatch.setattr(distributed.subprocess, "run", run)
    return results


def small(command: str, folder: Path) -> list[str]:
    given = {"folder": folder, "people": 1000, "batch": 100, "rounds": 2, "repeats": 1}
    return [command, *(f"--{name}={value}" for name, value in given.items())]


def test_external_compares_a_tenth_with_everyone(written: dict[str, Any], tmp_path: Path) -> None:
    distributed.main(small("external", tmp_path))
    content = written["distributed_external"]
    assert [(row["arm"], row["people"]) for row in content["rows"]] == [
        ("external", 100),
        ("external", 1000),
        ("external in turns", 100),
        ("external in turns", 1000),
    ]
    assert set(content["bytes_per_person"]) == {"external", "external in turns"}
    assert all(row["error_x1000"] > 0 and row["peak_mib"] > 0 for row in content["rows"])


def test_overhead_is_a_ratio_of_cpu_seconds_with_those_of_the_workers(
    written: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = distributed.ARMS["memory"]

    def on_a_cluster(paths: list[Path], settings: dict[str, Any]) -> Any:
        # Workers of a real one are tested with the adapter.
        return memory(paths, settings)[0], {"workers": [(100.0, 10.0), (200.0, 20.0)]}

    monkeypatch.setitem(distributed.ARMS, "dask", on_a_cluster)
    distributed.main(small("overhead", tmp_path))
    content = written["distributed_overhead"]
    rows = {row["arm"]: row for row in content["rows"]}
    assert rows["dask"]["cpu_seconds"] >= 300
    assert rows["dask"]["peak_mib_workers"] == [10, 20]
    expected = rows["dask"]["cpu_seconds"] / rows["memory"]["cpu_seconds"]
    assert content["cpu_ratio_median"] == pytest.approx(expected, rel=1e-3)


def test_people_must_fill_the_files(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no multiple of --batch 100"):
        distributed.write_people(tmp_path, 250, 100)


def test_the_page_on_clusters_shows_the_results() -> None:
    page = Path(__file__).parents[1] / "docs" / "clusters.md"
    assert distributed.table() in page.read_text(encoding="utf-8")

"""The benchmarks run, at a size at which their numbers mean nothing."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def objective_cost() -> ModuleType:
    # Loaded from its file: with the root of the repository on sys.path, the tests would import
    # the package from there and not the installed one.
    spec = importlib.util.spec_from_file_location(
        "objective_cost", BENCHMARKS / "objective_cost.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm", "catboost"])
def test_objective_cost_at_a_tiny_size(
    objective_cost: ModuleType, engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--rows", "600", "--rounds", "10", "--repeats", "1", "--engines", engine]
    objective_cost.main([*arguments, "--output", str(tmp_path / "results")])

    (path,) = (tmp_path / "results").iterdir()
    results = json.loads(path.read_text())
    measured = {(row["question"], row["arm"]) for row in results["ratios"]}
    expected = {
        ("objective", "free"),
        ("objective", "reference"),
        ("refresh", "refreshed"),
        ("refresh", "minus boosting"),
    }
    assert expected <= measured
    for arms in results["seconds"].values():
        assert all(len(seconds) == 1 and min(seconds) > 0 for seconds in arms.values())
    assert abs(results["settings"]["n_rows"] - 600) < 60
    printed = capsys.readouterr().out
    assert all(row["arm"] in printed for row in results["ratios"])


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm"])
def test_both_sides_of_the_objective_question_do_the_same_work(
    objective_cost: ModuleType, engine: str
) -> None:
    data = objective_cost.simulated(600)
    host = objective_cost.ENGINES[engine]
    # Another seed may have two splits of equal gain, between which rounding decides.
    problem = host.problem(data, margins="free", n_horizons=4, random_state=1)
    ours = problem.predict_cumulative_incidence(host.train(problem, 5), data.X, [0.5, 1.0])
    built_in = problem.predict_cumulative_incidence(
        host.train_softmax(problem, 5), data.X, [0.5, 1.0]
    )
    assert abs(ours - built_in).max() < 1e-4  # Rounding moves a calibrated curve a little.


def test_rounds_must_fit_the_refresh_interval(objective_cost: ModuleType) -> None:
    with pytest.raises(ValueError, match="multiple of 10; got 15"):
        objective_cost.run("xgboost", n_rounds=15)


def test_ratios_are_medians_within_a_repeat(objective_cost: ModuleType) -> None:
    # A machine that slows down by half in the second repeat moves no ratio.
    seconds = {"built-in": [1.0, 2.0, 1.0], "free": [1.1, 2.2, 1.3]}
    (row,) = objective_cost.summary("xgboost", "objective", "built-in", seconds)
    assert row["ratio"] == pytest.approx(1.1)
    assert row["target"] == 1.03
    assert row["met"] is False


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm", "catboost"])
def test_committed_results_are_complete(objective_cost: ModuleType, engine: str) -> None:
    path = objective_cost.RESULTS / f"objective_cost-{engine}.json"
    results = json.loads(path.read_text())
    assert results["settings"]["n_repeats"] >= 5
    assert 49_000 < results["settings"]["n_rows"] < 51_000
    assert results["settings"]["n_columns"] == 10
    measured = {(row["engine"], row["question"], row["arm"]) for row in results["ratios"]}
    assert {target for target in objective_cost.TARGETS if target[0] == engine} <= measured


def test_table_of_costs_is_that_of_the_committed_results(objective_cost: ModuleType) -> None:
    page = (BENCHMARKS.parent / "docs" / "engines" / "details.md").read_text(encoding="utf-8")
    assert objective_cost.markdown_table() in page


def test_the_method_page_shows_what_folds_gain() -> None:
    record = (BENCHMARKS / "results" / "folds_study-xgboost.txt").read_text("utf-8")
    page = (BENCHMARKS.parent / "docs" / "method.md").read_text("utf-8")
    found = re.findall(
        r"^\S.*: error ([\d.]+) \(worst ([\d.]+)\), CPU x ([\d.]+)$", record, re.MULTILINE
    )
    assert len(found) == 3
    for error, worst, cpu in found[1:]:
        assert f"| {error} | {worst} | {cpu} |" in page

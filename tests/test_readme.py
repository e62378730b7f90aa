"""Every Python block of the README is executed, in one namespace per section."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def python_blocks(markdown: str) -> dict[str, str]:
    """Python code by the ``##`` section it stands in."""
    blocks: dict[str, str] = {}
    for section in re.split(r"^## ", markdown, flags=re.MULTILINE)[1:]:
        title = section.splitlines()[0]
        code = re.findall(r"^```python\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
        if code:
            blocks[title] = "\n".join(code)
    return blocks


def run(section: str) -> dict[str, Any]:
    code = python_blocks(README)[section]
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, f"README.md, {section}", "exec"), namespace)
    return namespace


def check_curves(cif: np.ndarray, shape: tuple[int, ...]) -> None:
    assert cif.shape == shape
    assert cif.min() >= 0
    np.testing.assert_allclose(cif.sum(axis=1), 1, atol=1e-12)


def test_every_section_with_code_is_run_below() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    missing = [section for section in python_blocks(README) if f'run("{section}")' not in source]
    assert missing == []


def test_survival_boost() -> None:
    readme = run("SurvivalBoost")
    times = [1.0, 2.0]
    truth = readme["data"].true.cumulative_incidence(readme["test"].X, times)
    check_curves(readme["cif"], (500, 3, 2))
    marginal = truth.mean(axis=0, keepdims=True)
    assert np.mean((readme["cif"] - truth) ** 2) < np.mean((marginal - truth) ** 2)
    np.testing.assert_array_equal(readme["survival"], readme["cif"][:, 0])
    np.testing.assert_array_equal(readme["proba"], readme["cif"][:, :, 0])
    assert readme["median"].shape == readme["lost"].shape == (500,)
    check_curves(readme["later"], (500, 3, 1))
    assert readme["why"].shape == (500, 2, readme["data"].X.shape[1] + 2)
    assert -0.25 < readme["score"] < 0


def test_quick_start() -> None:
    readme = run("Quick start: the plugin")
    truth = readme["data"].true.cumulative_incidence(readme["X_test"], readme["times"])
    marginal = truth.mean(axis=0, keepdims=True)
    for engine in ("xgboost", "lightgbm", "catboost"):
        cif = readme[f"{engine}_cif"]
        check_curves(cif, (500, 4, 20))
        # Closer to each person's true curves than the curves of the average person are.
        assert np.mean((cif - truth) ** 2) < np.mean((marginal - truth) ** 2)
    for engine in ("xgboost", "lightgbm"):
        assert (np.diff(readme[f"{engine}_cif"][:, 0], axis=1) <= 1e-12).all()


def test_how_refresh_works(capsys: pytest.CaptureFixture[str]) -> None:
    readme = run("How refresh works")
    assert [record.round for record in readme["objective"].refreshes_] == [20, 40]
    assert len(capsys.readouterr().out.splitlines()) == 2
    truth = readme["data"].true.censoring.survival(np.full(2000, 0.5), readme["data"].X)
    assert np.corrcoef(readme["uncensored"], truth)[0, 1] > 0.8


def test_early_stopping() -> None:
    readme = run("Early stopping")
    for engine in ("xgboost", "lightgbm", "catboost"):
        assert 0 < readme[f"{engine}_best"] < 480, engine


def test_your_own_censoring_model() -> None:
    readme = run("Your own censoring model")
    survival, risk = readme["survival"], readme["X"][:, 0]
    assert survival.shape == (1000, 3)
    assert np.corrcoef(survival[:, 1], risk)[0, 1] > 0.8
    assert (np.diff(survival, axis=1) <= 1e-12).all()


def test_what_each_engine_allows() -> None:
    readme = run("What each engine allows")
    scores = readme["xgboost_scores"]["test-ipcw_log_loss-mean"].to_numpy()
    assert scores[-1] < scores[0]
    scores = readme["lightgbm_scores"]["valid ipcw_log_loss-mean"]
    assert scores[-1] < scores[0]
    check_curves(readme["cif"], (1000, 4, 2))


def test_comparison_is_that_of_the_committed_runs() -> None:
    def result(name: str) -> Any:
        path = ROOT / "benchmarks" / "results" / f"versus_hazardous_{name}.json"
        return json.loads(path.read_text(encoding="utf-8"))

    truth, seconds = result("truth")["mean"], result("prediction")["seconds"]
    brier = result("real")["mean"]
    for name, label in {
        "xgboost": "**SurvivalBoost, XGBoost** (default)",
        "lightgbm": "**SurvivalBoost, LightGBM**",
        "catboost": "**SurvivalBoost, CatBoost**",
        "hazardous": "hazardous 0.2.0, SurvivalBoost",
    }.items():
        row = [
            label,
            f"{truth[name]['ise_x1000']:.2f}",
            f"{truth[name]['fit_cpu']:.1f}",
            f"{seconds[name]:.2f}",
            *(f"{brier[f'{data} {name}']['mean']:.4f}" for data in ("METABRIC", "SUPPORT")),
        ]
        assert f"| {' | '.join(row)} |" in README


def test_table_of_results_is_that_of_the_report() -> None:
    report = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    table = README.split("| | METABRIC, Brier |")[1].split("\n\n")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines()[2:]]
    assert len(rows) > 10
    for data, first in {"METABRIC": 1, "SUPPORT": 3}.items():
        section = report.split(f"### {data}, defaults")[1]
        for row in rows:
            cells = [cell.strip() for cell in row]
            assert f"| {' | '.join([cells[0], *cells[first : first + 2]])} |" in section


def test_links_lead_to_files() -> None:
    for document in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"):
        path = ROOT / document
        links = re.findall(r"\]\(([^)#\s]+)\)", path.read_text(encoding="utf-8"))
        missing = [
            link
            for link in links
            if not link.startswith("http") and not (path.parent / link).exists()
        ]
        assert missing == [], document

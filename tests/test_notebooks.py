"""Every notebook runs from top to bottom, and is committed with outputs to be read."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
DECISIONS = (
    "churn_with_dates",
    "clinic_with_delayed_entry",
    "credit_default_and_early_repayment",
    "predictive_maintenance",
)
by_name = pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])


def executed(path: Path) -> Any:
    """The notebook after a run, as `notebooks/execute.py` makes it."""
    spec = importlib.util.spec_from_file_location("execute", NOTEBOOKS / "execute.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.executed(path)


def check_outputs(notebook: Any) -> None:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    streams = [output for output in outputs if output.output_type == "stream"]
    assert [output.text for output in streams if output.name == "stderr"] == []
    assert [output for output in outputs if output.output_type == "error"] == []
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_there_are_notebooks() -> None:
    assert {path.stem for path in PATHS} >= set(DECISIONS)


@by_name
def test_notebook_is_committed_with_its_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    check_outputs(notebook)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))  # One run, from top to bottom.
    for position, cell in enumerate(notebook.cells):
        assert cell.id == f"cell-{position:02d}"  # Random ids would make every diff noisy.
    assert path.stat().st_size < 600_000


@pytest.mark.parametrize("name", DECISIONS)
def test_an_example_ends_in_a_decision(name: str) -> None:
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    assert notebook.cells[-1].source.startswith("**Decision:**")


@by_name
def test_notebook_runs(path: Path) -> None:
    check_outputs(executed(path))

"""Every notebook runs from top to bottom, and is committed without outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
by_name = pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def test_there_are_notebooks() -> None:
    assert PATHS


@by_name
def test_notebook_is_committed_clean(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    for position, cell in enumerate(notebook.cells):
        assert cell.id == f"cell-{position:02d}"  # Random ids would make every diff noisy.
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@by_name
def test_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = read(path)
    # In an empty directory, so that the kernel imports the installed package and leaves no files.
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    warned = [
        output.text
        for output in outputs
        if output.output_type == "stream" and output.name == "stderr"
    ]
    assert warned == []
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert list(tmp_path.iterdir()) == []

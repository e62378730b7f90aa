"""Run notebooks and keep their outputs: ``python notebooks/execute.py [NAME ...]``.

Notebooks are committed with outputs, so that they can be read without being run. Run this after a
change of defaults. Pictures are kept small; outputs that differ from run to run (identifiers of
memory, times) are not there to begin with.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def executed(path: Path, *, timeout: int = 600) -> Any:
    """The notebook with the outputs of a run from top to bottom, in an empty folder."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(
            notebook, timeout=timeout, kernel_name="python3", resources=resources
        ).execute()
        left_behind = [path.name for path in Path(folder).iterdir()]
    if left_behind:
        msg = f"{path.name} left files behind: {left_behind}."
        raise RuntimeError(msg)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for position, cell in enumerate(notebook.cells):
        cell.id = f"cell-{position:02d}"
        cell.metadata = {}
    return notebook


def main(names: list[str]) -> None:
    """Execute the named notebooks, or all, in place."""
    paths = [FOLDER / f"{name}.ipynb" for name in names] or sorted(FOLDER.glob("*.ipynb"))
    for path in paths:
        nbformat.write(executed(path), path)
        print(f"{path.name}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Pages whose source stands elsewhere in the repository: the notebooks and the benchmark results.

They are copied to ``generated`` before Sphinx collects its sources.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
_NO_RESULTS = """The tables are written by the scripts in `benchmarks`, and this copy of the
repository has not been given them. The raw numbers of every run are in `benchmarks/results`.
"""


def results_text() -> str:
    """The committed results with links that lead out of this site spelt out, title left out."""
    if not RESULTS.exists():
        return _NO_RESULTS
    text = RESULTS.read_text(encoding="utf-8")
    text = re.sub(r"\A# .*\n", "", text)
    return re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)]+)\)", _spelt_out, text)


def results_pictures() -> list[str]:
    """Paths of the pictures in the results, relative to them."""
    return re.findall(r"!\[[^\]]*\]\((?!https?:)([^)]+)\)", results_text())


def _spelt_out(link: re.Match[str]) -> str:
    text, target = link[1], (RESULTS.parent / link[2]).resolve()
    path = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else link[2]
    return text if path in text else f"{text} (`{path}`)"


def copy(app: Sphinx, config: Any) -> None:
    """Bring the pages in."""
    del config
    generated = Path(app.srcdir) / "generated"
    notebooks = generated / "notebooks"
    notebooks.mkdir(parents=True, exist_ok=True)
    sources = {path.name: path for path in (ROOT / "notebooks").glob("*.ipynb")}
    for old in notebooks.glob("*.ipynb"):
        if old.name not in sources:
            old.unlink()
    for name, source in sources.items():
        shutil.copy2(source, notebooks / name)
    (generated / "RESULTS.md").write_text(results_text(), encoding="utf-8")
    for picture in results_pictures():
        destination = generated / picture
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(RESULTS.parent / picture, destination)


def setup(app: Sphinx) -> dict[str, Any]:
    """Copy before the sources are collected."""
    app.connect("config-inited", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

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
_LONG = 80
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


def results_pages() -> dict[str, str]:
    """The results by file name: the opening, then a page per section.

    A subsection that is longer than a few screens gets a page of its own. Links to places of the
    same text lose their targets, which may be on another page.
    """
    text = re.sub(r"\[([^\]]+)\]\(#[^)]*\)", r"\1", results_text())
    opening, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    parts: list[str] = []
    for section in sections:
        head, *pieces = re.split(r"^(?=### )", section, flags=re.MULTILINE)
        short = [piece for piece in pieces if len(piece.splitlines()) <= _LONG]
        parts += ["".join([head, *short]), *(piece for piece in pieces if piece not in short)]
    pages = {"opening.md": opening}
    for position, part in enumerate(parts, start=1):
        # Headings move up: the first one becomes the title of the page.
        depth = len(part) - len(part.lstrip("#")) - 1
        raised = re.sub(rf"^#{{{depth}}}(?=#)", "", part, flags=re.MULTILINE)
        pages[f"part{position:02d}.md"] = re.sub(r"\]\((?=figures/)", "](../", raised)
    return pages


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
    results = generated / "results"
    results.mkdir(exist_ok=True)
    pages = results_pages()
    for path in results.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, page in pages.items():
        (results / name).write_text(page, encoding="utf-8")
    for picture in results_pictures():
        destination = generated / picture
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(RESULTS.parent / picture, destination)


def setup(app: Sphinx) -> dict[str, Any]:
    """Copy before the sources are collected."""
    app.connect("config-inited", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

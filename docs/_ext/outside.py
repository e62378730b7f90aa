"""Pages whose source is elsewhere in the repository: the notebooks and the benchmark results.

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


def results_text(path: Path | None = None) -> str:
    """The committed summary, or a page of it, without its title and links out of this site."""
    source = path or RESULTS
    if not source.exists():
        return _NO_RESULTS
    text = re.sub(r"\A# .*\n", "", source.read_text(encoding="utf-8"))
    return re.sub(
        r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)]+)\)",
        lambda link: _spelt_out(link, source.parent),
        text,
    )


def results_pages() -> dict[str, str]:
    """The results by file name: the summary, then the pages in the order the summary names them."""
    summary = results_text()
    pages = {"opening.md": re.sub(r"^## Pages\n+(?:- .*\n)+\n*", "", summary, flags=re.MULTILINE)}
    source = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    for position, name in enumerate(re.findall(r"^- \[.*\]\(results/(\w+)\.md\)", source, re.M)):
        path = RESULTS.parent / "results" / f"{name}.md"
        title = path.read_text(encoding="utf-8").split("\n", 1)[0]
        pages[f"part{position + 1:02d}.md"] = f"{title}\n{results_text(path)}"
    return pages


def results_pictures() -> list[str]:
    """Paths of the pictures in the results, relative to the summary."""
    found: list[str] = []
    for page in results_pages().values():
        found += re.findall(r"!\[[^\]]*\]\((?!https?:)(?:\.\./)?([^)]+)\)", page)
    return found


def _spelt_out(link: re.Match[str], folder: Path) -> str:
    text, target = link[1], (folder / link[2]).resolve()
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


def relink(app: Sphinx, document: str, content: list[str]) -> None:
    """Links between pages and notebooks, those of the repository, as links of the site."""
    del app, document
    found = re.sub(r"\]\((?:\.\./)+notebooks/", "](/generated/notebooks/", content[0])
    content[0] = found.replace("](../docs/", "](/")


def setup(app: Sphinx) -> dict[str, Any]:
    """Copy before the sources are collected."""
    app.connect("config-inited", copy)
    app.connect("source-read", relink)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Formulas in docstrings are plain text, set off by indentation: shown as they are written.

Without this, reStructuredText would read their bars, stars and underscores as markup.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def set_off_formulas(lines: list[str]) -> list[str]:
    """Lines with a ``::`` before each indented block of the text above the first section."""
    result: list[str] = []
    is_inside = False
    for position, line in enumerate(lines):
        following = lines[position + 1] if position + 1 < len(lines) else ""
        if line.strip() and set(following.strip()) == {"-"}:
            return result + lines[position:]
        is_doctest = line.lstrip().startswith((">>>", "...", "-", "*"))
        begins = _indent(line) > 0 and (not result or not result[-1].strip())
        if line.strip() and _indent(line) == 0:
            is_inside = False
        elif line.strip() and begins and not is_inside and not is_doctest:
            result += ["::", ""]
            is_inside = True
        result.append(line)
    return result


def join_continued(lines: list[str]) -> list[str]:
    """Lines with those that end in a backslash joined to the next: raw docstrings keep both."""
    return "\n".join(lines).replace(" \\\n", " ").split("\n")


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Prepare a docstring before numpydoc reads its sections."""
    del app, what, name, obj, options
    lines[:] = set_off_formulas(join_continued(lines))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to autodoc, ahead of numpydoc."""
    app.connect("autodoc-process-docstring", process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

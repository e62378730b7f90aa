"""Python blocks of a Markdown page, with what the page says they print.

A block is a fence ``python``. A fence ``text`` right after it is its output. A comment right before
it may say that it needs a package, ``<!-- needs: NAME -->``: such a block stands on its own, apart
from the others. ``pycon`` and other fences are not run.
"""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK = re.compile(
    r"(?:^<!-- needs: (?P<needs>[\w.]+) -->\n\n?)?"
    r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$"
    r"(?:\n\n(?P=indent)```text\n(?P<output>.*?)^(?P=indent)```$)?",
    flags=re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One block of code.

    Attributes
    ----------
    code : str
    line : int
        Of the page, where the code begins.
    output : str or None
        What it prints, where the page says so.
    needs : str or None
        A package without which it cannot be run.
    """

    code: str
    line: int
    output: str | None
    needs: str | None


def python_blocks(path: Path) -> list[Block]:
    """All Python blocks of a page, in their order."""
    page = path.read_text(encoding="utf-8")
    blocks = []
    for match in _BLOCK.finditer(page):
        code, output = (
            None if text is None else textwrap.dedent(text)
            for text in match.group("code", "output")
        )
        line = page.count("\n", 0, match.start("code")) + 1
        blocks.append(Block(str(code), line, output, match["needs"]))
    return blocks


def run_block(block: Block, path: Path, namespace: dict[str, Any]) -> None:
    """Run a block in a namespace, and compare what it prints with what the page says."""
    printed = io.StringIO()
    # Empty lines take the code to its line of the page, so that a traceback points there.
    code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    if block.output is not None:
        assert printed.getvalue().rstrip() == block.output.rstrip(), f"{path}:{block.line}"


def run_page(path: Path) -> dict[str, Any]:
    """Run the blocks of a page that need nothing special, in one namespace, which is returned."""
    namespace: dict[str, Any] = {"__name__": path.stem}
    for block in python_blocks(path):
        if block.needs is None:
            run_block(block, path, namespace)
    return namespace

"""``{command-help}``: what the command line prints for ``--help``, of it and of each subcommand."""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from survival_objectives.cli import main


def help_text(*command: str) -> str:
    """Help of a (sub)command, 88 columns wide and without colours."""
    os.environ.update({"COLUMNS": "88", "NO_COLOR": "1"})
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*command, "--help"])
    return printed.getvalue().rstrip()


def subcommands(text: str) -> list[str]:
    """Names of the commands that a help text lists, one per line, indented by four."""
    return re.findall(r"^ {4}([a-z][\w-]*)(?: {2,}|$)", text, flags=re.MULTILINE)


class CommandHelp(SphinxDirective):
    """Help of the command, then a section for each of its subcommands."""

    def run(self) -> list[nodes.Node]:
        """Make the nodes."""
        overview = help_text()
        result: list[nodes.Node] = [_literal(overview)]
        for name in subcommands(overview):
            section = nodes.section(ids=[nodes.make_id(f"command-{name}")])
            section += nodes.title("", "", nodes.literal("", name))
            section += _literal(help_text(name))
            result.append(section)
        return result


def _literal(text: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language="text")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

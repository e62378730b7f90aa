"""Formulas as MathML, by docutils' own converter: no script and no font has to be fetched.

Equations are numbered by their labels: ``eq-20`` is equation (20), the number that docstrings cite.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.domains.math import MathDomain


class CitedEquations(MathDomain):
    """The domain of equations, with numbers that do not depend on the place of a formula."""

    def note_equation(self, docname: str, labelid: str, location: Any = None) -> None:
        """Register an equation under the number in its label."""
        super().note_equation(docname, labelid, location)
        match = re.fullmatch(r"eq-(\d+)", labelid)
        if match is None:
            msg = f"The equation label {labelid!r} in {docname} is not of the form eq-NUMBER."
            raise ValueError(msg)
        self.equations[labelid] = (docname, int(match[1]))


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write an inline formula."""
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number as a link to itself."""
    translator.body.append(translator.starttag(node, "div", CLASS="formula"))
    translator.body.append(tex2mathml(node.astext(), as_block=True))
    if node.get("number"):
        anchor = node["ids"][0] if node["ids"] else f"equation-{node['label']}"
        translator.body.append(f'<a class="eqno" href="#{anchor}">({node["number"]})</a>')
    translator.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer and the numbering."""
    app.add_domain(CitedEquations, override=True)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

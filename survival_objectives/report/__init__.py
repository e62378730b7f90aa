"""One HTML file that says what a model was trained on, how good it is, and what it predicts.

The file needs nothing else: no network, no fonts, no scripts from elsewhere. Needs jinja2:
``pip install jinja2``.
"""

from survival_objectives.report._in_short import InShort
from survival_objectives.report._write import in_short, write_report

__all__ = ["InShort", "in_short", "write_report"]

"""HTML files that say how good a model is: where it was trained, and on other people.

A file needs nothing else: no network, no fonts, no scripts from elsewhere. Needs jinja2:
``pip install jinja2``.
"""

from survival_objectives.report._in_short import InShort
from survival_objectives.report._validation_page import write_validation
from survival_objectives.report._write import in_short, write_report

__all__ = ["InShort", "in_short", "write_report", "write_validation"]

"""The command line: demo, fit, predict, evaluate, compare, explain, info."""

from survival_objectives.cli._main import main

__all__ = ["main"]

"""The command line: ``survival-objectives demo``, ``fit``, ``predict``, ``evaluate``, ``info``."""

from survival_objectives.cli._main import main

__all__ = ["main"]

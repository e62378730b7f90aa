"""Engines and other packages that may or may not be installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util

from survival_objectives._engines.protocol import ENGINES, install_command
from survival_objectives._version import __version__
from survival_objectives.cli._console import PROGRAM
from survival_objectives.cli._errors import CommandError, UsageError, suggestion


def installed_engines() -> list[str]:
    """The installed engines, the default one first; an error if there is none."""
    engines = [name for name in ENGINES if importlib.util.find_spec(name) is not None]
    if not engines:
        msg = f"no engine is installed; use: {install_command('xgboost')}"
        raise CommandError(msg)
    return engines


def chosen_engine(name: str | None) -> str:
    """The engine of this name; by default the first installed one."""
    if name is not None and name not in ENGINES:
        msg = f"--engine is {name!r}; {suggestion(name, ENGINES, 'engines')}"
        raise UsageError(msg)
    engines = installed_engines()
    if name is not None and name not in engines:
        msg = f"{name} is not installed; use: {install_command(name)}, or --engine {engines[0]}"
        raise CommandError(msg)
    return name or engines[0]


def versions(engine: str) -> dict[str, str]:
    """Versions of this package and of the engine."""
    return {PROGRAM: __version__, engine: importlib.metadata.version(engine)}


def missing_for_report() -> str | None:
    """What must be installed before a report can be written, or None."""
    if importlib.util.find_spec("jinja2") is None:
        return "jinja2 is not installed; use: pip install jinja2"
    return None

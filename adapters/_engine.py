"""What the adapters share: the error for a missing engine, and names the engines accept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType

from survival_objectives.validation import Features

__all__ = ["column_names", "import_engine", "rising_in_time"]


def import_engine(name: str, *, extra: str | None = None) -> ModuleType:
    """The engine's module, or an ImportError that names the extra to install."""
    extra = extra or name
    try:
        return import_module(name)
    except ImportError as error:
        msg = (
            f'{name} is not installed. Install it with: pip install "survival-objectives[{extra}]"'
        )
        raise ImportError(msg) from error


def column_names(schema: Features) -> list[str]:
    """Names of the stacked columns, the time last, without characters that engines refuse.

    >>> import numpy as np
    >>> column_names(Features(np.empty((0, 2), np.float32), ("age [years]", "horizon"), {}))
    ['age _years_', 'horizon', 'horizon_']
    """
    given = schema.names or tuple(f"x{column}" for column in range(schema.n_features))
    names: list[str] = []
    # XGBoost refuses [ ] <, LightGBM refuses the characters that JSON gives a meaning.
    for name in (*(re.sub(r'[\[\]<>{}":,]', "_", name) for name in given), "horizon"):
        names.append(_unused(name, names))
    return names


def rising_in_time(schema: Features) -> list[int]:
    """Monotone constraint of each stacked column: +1 for the time, the last one, 0 for free."""
    return [0] * schema.n_features + [1]


def _unused(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name

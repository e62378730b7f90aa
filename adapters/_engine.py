"""What the adapters share: the error for a missing engine, and names the engines accept."""

from __future__ import annotations

import re
from importlib import import_module
from types import ModuleType

from survival_objectives._people import Features
from survival_objectives._process.threads import passive_wait

# What to install, where it is more than the package of that name.
_PACKAGES = {
    "catboost": "catboost numba",
    "dask": '"dask[dataframe,distributed]" xgboost pyarrow',
}


def import_engine(name: str, *, extra: str | None = None) -> ModuleType:
    """The engine's module, or an ImportError that says how to install what ``extra`` names."""
    try:
        with passive_wait():
            return import_module(name)
    except ImportError as error:
        msg = f"{name} is not installed. Install it with: {install_command(extra or name)}"
        raise ImportError(msg) from error


def install_command(extra: str) -> str:
    """The command that installs what an extra of this package needs.

    It names the packages themselves, so that it works wherever it is typed: extras can be named
    only beside a copy of the repository.

    >>> install_command("xgboost"), install_command("catboost")
    ('pip install xgboost', 'pip install catboost numba')
    """
    return f"pip install {_PACKAGES.get(extra, extra)}"


def column_names(schema: Features) -> list[str]:
    r"""Distinct names of the stacked columns, the time last, that all engines accept.

    >>> import numpy as np
    >>> names = ("age [years]", "horizon", "a b", "a_b", "x\ty", "")
    >>> column_names(Features(np.empty((0, 6), np.float32), names, {}))
    ['age _years_', 'horizon', 'a b', 'a_b_', 'x_y', '_', 'horizon_']
    """
    given = schema.names or tuple(f"x{column}" for column in range(schema.n_features))
    names: list[str] = []
    taken: set[str] = set()
    for raw in (*given, "horizon"):
        # XGBoost refuses [ ] <. LightGBM refuses what JSON gives a meaning, and its files give one
        # to = and to ends of lines. No engine takes half a surrogate pair.
        name = re.sub(r"[\[\]<>{}\":,=\\]", "_", raw) or "_"
        name = "".join(letter if letter.isprintable() else "_" for letter in name)
        # LightGBM writes an underscore for a blank.
        while name.replace(" ", "_") in taken:
            name += "_"
        taken.add(name.replace(" ", "_"))
        names.append(name)
    return names


def rising_in_time(schema: Features) -> list[int]:
    """Monotone constraint of each stacked column: +1 for the time, the last one, 0 for free."""
    return [0] * schema.n_features + [1]

"""What the adapters share: errors for missing engines, names of columns, models side by side."""

from __future__ import annotations

import re
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._people import Features
from survival_objectives._process.running import passive_wait
from survival_objectives.losses import gradient_hessian

# Rows of many models whose derivatives stay in the L2 cache.
_BLOCK = 2048

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


def models_gradient_hessian(
    margin: npt.NDArray[Any],
    target: npt.NDArray[Any],
    weight: npt.NDArray[Any],
    out: tuple[npt.NDArray[Any], npt.NDArray[Any]],
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """`gradient_hessian` of models side by side, with the reference link.

    ``weight`` is (n_rows,) for one model, or (n_rows, n_models) where all have the same labels.
    """
    if weight.ndim == 1:
        return gradient_hessian(margin, target, weight, reference=True, out=out)
    gradient, hessian = out
    shape = weight.shape[1], margin.shape[1] // weight.shape[1], -1
    labels = np.arange(1, shape[1] + 1, dtype=target.dtype)[:, None]
    for first in range(0, len(margin), _BLOCK):
        rows = slice(first, first + _BLOCK)
        proba = np.array(margin[rows].T, gradient.dtype, order="C").reshape(shape)
        top = np.maximum(proba.max(axis=1, keepdims=True), 0)
        proba -= top
        np.exp(proba, out=proba)
        proba /= proba.sum(axis=1, keepdims=True) + np.exp(-top)
        own = weight[rows].T[:, None].astype(gradient.dtype, copy=False)
        hessian[rows] = (proba * (1 - proba) * own).reshape(margin.shape[1], -1).T
        proba -= target[rows] == labels
        proba *= own
        gradient[rows] = proba.reshape(margin.shape[1], -1).T
    return out

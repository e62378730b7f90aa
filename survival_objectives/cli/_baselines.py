"""Baselines that are stored with a model, so that later scores can be compared with them.

They are stored on a coarse grid of even times, which contains no individual event time.
"""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import FloatArray
from survival_objectives._people import check_survival_target
from survival_objectives.baselines import CauseSpecificCox
from survival_objectives.marginal import aalen_johansen

_N_TIMES = 100
# A Cox regression has few coefficients; more people change them little.
_MOST_FOR_COX = 10_000


def trained_baselines(X: pd.DataFrame, y: pd.DataFrame, last: float) -> dict[str, Any]:
    """The marginal curve and, if lifelines is installed, a Cox regression, as data for JSON.

    ``X`` and ``y`` are of the training people, and ``last`` is the latest time to predict.
    """
    times = np.linspace(0, last, _N_TIMES + 1)
    marginal = aalen_johansen(check_survival_target(y))(times).T
    content: dict[str, Any] = {"times": times.tolist(), "marginal": marginal.tolist()}
    if importlib.util.find_spec("lifelines") is None:
        return content
    medians = {
        name: float(X[name].median())
        for name in X.columns
        if not isinstance(X[name].dtype, pd.CategoricalDtype)
    }
    rows = np.arange(len(X))
    if len(X) > _MOST_FOR_COX:
        rows = np.random.default_rng(0).choice(len(X), _MOST_FOR_COX, replace=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cox = CauseSpecificCox().fit(_design(X, medians)[rows], y.iloc[rows])
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return content  # The assessment has already reported it.
    if not np.array_equal(cox.event_ids_, check_survival_target(y).event_ids):
        return content
    return {**content, "medians": medians, "cox": cox.to_content(times[1:])}


def baseline_curves(
    content: dict[str, Any], X: pd.DataFrame, times: FloatArray
) -> dict[str, FloatArray]:
    """Curves of the trained baselines, by name, each of shape (n_samples, K + 1, n_times)."""
    if not content:
        return {}
    marginal = np.array(content["marginal"])
    grid = np.array(content["times"])
    at = np.stack([np.interp(times, grid, row) for row in marginal])
    name = "Kaplan-Meier" if len(marginal) == 2 else "Aalen-Johansen"
    curves = {name: np.repeat(at[None], len(X), axis=0)}
    if "cox" in content:
        cox = CauseSpecificCox.from_content(content["cox"])
        known = cox.predict_cumulative_incidence(_design(X, content["medians"]), grid)
        # Curves are linear between two times of the grid.
        upper = np.clip(np.searchsorted(grid, times, side="left"), 1, len(grid) - 1)
        share = np.clip((times - grid[upper - 1]) / (grid[upper] - grid[upper - 1]), 0, 1)
        curves["Cox"] = known[:, :, upper - 1] * (1 - share) + known[:, :, upper] * share
    return curves


def _design(X: pd.DataFrame, medians: dict[str, float]) -> FloatArray:
    """Columns of a regression: medians for missing numbers, indicators of levels and missing."""
    columns: list[npt.NDArray[Any]] = []
    for name in X.columns:
        if name in medians:
            columns.append(X[name].fillna(medians[name]).fillna(0).to_numpy(np.float64))
        else:
            codes = X[name].cat.codes.to_numpy()
            columns += [codes == code for code in (-1, *range(1, len(X[name].cat.categories)))]
    return np.column_stack(columns).astype(np.float64)

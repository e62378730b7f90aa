"""Causes against the null model, by Brier scores whose censoring weights know the features.

    python -m benchmarks.null_study [--engines xgboost ...] [--data FOLDER]

The suite `real` weights people by the Kaplan-Meier curve of censoring. Where features tell who is
censored, these weights are wrong, and a model that knows the features may score worse than the
Aalen-Johansen curve although it is nearer to the truth. Here each cause of each table of `real` is
scored twice on the same splits: with Kaplan-Meier weights, and with weights from a model of
censoring given the features, a Cox regression of the training people. HazardBoost is not used for
the weights, so that it does not judge itself.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks._environments import Environments
from benchmarks._problems import N_TIMES, TEST_SHARE, real_table
from benchmarks._results import write_result
from survival_objectives import HazardBoost
from survival_objectives.baselines import AalenJohansen, CauseSpecificCox
from survival_objectives.metrics import integrated_brier_score

TABLES = ("covid", "mgus2", "transplant", "follic", "pbc", "hd", "wihs", "ebmt2")
SEEDS = range(5)
# Smaller probabilities of being uncensored count as this one.
FLOOR = 0.02

FloatArray = npt.NDArray[np.float64]


class CoxCensoring:
    """Probability of being uncensored by a Cox regression; a `CensoringModel`."""

    def __init__(self, X: FloatArray, event: FloatArray, duration: FloatArray) -> None:
        self._model = CauseSpecificCox().fit(X, ((event == 0).astype(int), duration))

    def survival(self, times: npt.ArrayLike, X: Any = None, *, left: bool = False) -> FloatArray:
        """P(C > t | x), or P(C >= t | x) with ``left``."""
        wanted = np.asarray(times, np.float64)
        grid, position = np.unique(wanted, return_inverse=True)
        # Curves are steps at observed times.
        read_at = np.nextafter(grid, 0) if left else grid
        curves = self._model.predict_cumulative_incidence(X, read_at)[:, 0]
        rows = position.reshape(len(wanted), -1)
        found: FloatArray = np.take_along_axis(curves, rows, axis=1)
        return found.reshape(wanted.shape)


def scores_of(
    X: FloatArray, y: pd.DataFrame, seed: int, engines: list[str]
) -> dict[str, dict[str, FloatArray]]:
    """Integrated Brier scores of a split by cause, as shares of the null model's."""
    train, test = train_test_split(
        np.arange(len(y)), test_size=TEST_SHARE, random_state=seed, stratify=y["event"]
    )
    event, duration = y["event"].to_numpy(), y["duration"].to_numpy(np.float64)
    known, unseen = (event[train], duration[train]), (event[test], duration[test])
    times = np.linspace(0, np.quantile(duration[train], 0.95), N_TIMES + 1)[1:]
    times = times[times < duration[test].max()]
    null = AalenJohansen().fit(X[train], known)
    models = {"Cox": CauseSpecificCox().fit(X[train], known)}
    for engine in engines:
        models[engine] = HazardBoost(engine, random_state=seed, n_jobs=1).fit(X[train], known)
    given_features = CoxCensoring(X[train], *known)
    ids = null.event_ids_

    def by_cause(model: Any, censoring: Any, **options: Any) -> FloatArray:
        curves = model.predict_cumulative_incidence(X[test], times)
        shared = {"average": None, "event_ids": ids, **options}
        score = integrated_brier_score(censoring, unseen, curves, times, **shared)
        return np.asarray(score)[1:]

    weights: dict[str, tuple[Any, dict[str, Any]]] = {
        "Kaplan-Meier": (known, {}),
        "given features": (given_features, {"X": X[test], "min_censoring_survival": FLOOR}),
    }
    return {
        name: {
            model: by_cause(own, censoring, **options) / by_cause(null, censoring, **options)
            for model, own in models.items()
        }
        for name, (censoring, options) in weights.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", nargs="+", default=["xgboost", "lightgbm", "catboost"])
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--data", default=os.environ.get("SURVIVAL_DATA_DIR"))
    parser.add_argument("--python", nargs="+", default=[], metavar="ENVIRONMENT=PATH")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    environments, rows = Environments(dict(pair.split("=", 1) for pair in options.python)), []
    for table in options.tables:
        X, y = real_table(table, options.data, environments)
        found = [scores_of(np.asarray(X, float), y, seed, options.engines) for seed in SEEDS]
        for weights in ("Kaplan-Meier", "given features"):
            for model in found[0][weights]:
                ratios = np.mean([one[weights][model] for one in found], axis=0)
                row = {"table": table, "weights": weights, "model": model}
                rows.append({**row, "ratio_by_cause": ratios.round(4).tolist()})
                print(json.dumps(rows[-1]), flush=True)
    write_result("null_study", {"splits": len(SEEDS), "floor": FLOOR, "rows": rows})


if __name__ == "__main__":
    main()

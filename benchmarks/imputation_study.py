"""Weights or imputation: which of them, by the share of censored people.

    python -m benchmarks.imputation_study [--engine xgboost] [--data FOLDER]

Simulated people (seeds and sizes other than those of the suites), censored by their features or
independently of them, are judged by the integrated squared error to the true curves. Real tables,
those of `benchmarks.defaults_study`, are judged by two-fold cross-validation: the integrated Brier
score, whose Kaplan-Meier weights favour models that were trained with them; S_Cen-log-simple, which
is a likelihood and has no weights; and Harrell's concordance of the risk at the median event time.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from sksurv.metrics import concordance_index_censored

from benchmarks._results import RESULTS, write_result
from benchmarks.defaults_study import real_tables
from survival_objectives import SurvivalBoost
from survival_objectives.baselines import AalenJohansen
from survival_objectives.datasets import integrated_squared_error, make_competing_risks
from survival_objectives.metrics import integrated_brier_score, likelihood_score

METHODS = ("boosted", "kaplan-meier", "imputed")
RATES = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SEEDS = (31, 32)
N_PEOPLE = 8000
N_NODES = 32

Maker = Callable[[], Any]


def makers(engine: str) -> dict[str, Maker]:
    fixed = {"random_state": 0, "n_jobs": 1}
    ours = {name: partial(SurvivalBoost, engine, censoring=name, **fixed) for name in METHODS}
    return {"marginal": AalenJohansen, **ours}


def simulated(models: dict[str, Maker], censoring: str, rate: float, n_people: int) -> Any:
    """Error to the truth of every model, x 1000, mean over seeds."""
    errors: dict[str, list[float]] = {name: [] for name in models}
    for seed in SEEDS:
        data = make_competing_risks(
            n_people,
            n_causes=2,
            n_features=8,
            censoring=censoring,
            censoring_rate=rate,
            random_state=seed,
        )
        test = data.draw(1500, random_state=seed + 1000)
        times = np.linspace(0, np.quantile(data.y["duration"], 0.95), 41)[1:]
        true = data.true.cumulative_incidence(test.X, times)
        for name, make in models.items():
            curves = make().fit(data.X, data.y).predict_cumulative_incidence(test.X, times)
            errors[name].append(1000 * integrated_squared_error(true, curves, times))
    return {
        "censoring": censoring,
        "share_censored": rate,
        "error_x1000": {name: round(float(np.mean(found)), 3) for name, found in errors.items()},
    }


def real(models: dict[str, Maker], name: str, X: Any, y: Any) -> Any:
    """Scores of every model on one table, mean over two folds."""
    nodes = np.linspace(0, float(y["duration"].max()), N_NODES + 1)
    middle = float(np.median(y.loc[y["event"] > 0, "duration"]))
    scores: dict[str, dict[str, float]] = {}
    for model, make in models.items():
        found = []
        for train, test in KFold(2, shuffle=True, random_state=0).split(X):
            y_train, y_test = y.iloc[train], y.iloc[test]
            fitted = make().fit(X.iloc[train], y_train)
            grid = np.linspace(0, np.quantile(y_train["duration"], 0.95), 41)[1:]
            grid = grid[grid < y_test["duration"].max()]
            curves = partial(fitted.predict_cumulative_incidence, X.iloc[test])
            found.append(
                {
                    "ibs": integrated_brier_score(y_train, y_test, curves(grid), grid),
                    "cen_log_simple": likelihood_score(
                        y_train, y_test, curves(nodes[1:]), nodes[1:], nodes=nodes
                    ),
                    "c_index": concordance_index_censored(
                        y_test["event"].to_numpy() > 0,
                        y_test["duration"].to_numpy(),
                        curves([middle])[:, 1, 0],
                    )[0],
                }
            )
        scores[model] = {
            metric: round(float(np.mean([one[metric] for one in found])), 4) for metric in found[0]
        }
    return {
        "table": name,
        "people": len(y),
        "share_censored": round(float((y["event"] == 0).mean()), 2),
        "scores": scores,
    }


def table(results: Path = RESULTS) -> str:
    """Errors on simulated people in Markdown, as docs/method.md shows them."""
    rows = json.loads((results / "imputation_study.json").read_text())["simulated"]
    kinds = ("dependent", "independent")
    found = {(row["censoring"], row["share_censored"]): row["error_x1000"] for row in rows}
    names = list(rows[0]["error_x1000"])
    header = [
        "share censored",
        *(f"{kind}: {names[0]}" if name == names[0] else name for kind in kinds for name in names),
    ]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for share in sorted({share for _, share in found}):
        errors = [found[kind, share] for kind in kinds]
        cells = [f"{error[name]:.1f}" for error in errors for name in names]
        lines.append(f"| {share:.0%} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", default="xgboost")
    parser.add_argument("--data", default=os.environ.get("SURVIVAL_DATA_DIR"))
    parser.add_argument("--people", type=int, default=N_PEOPLE, help="simulated ones")
    options = parser.parse_args(arguments)
    models = makers(options.engine)
    content: dict[str, Any] = {"engine": options.engine, "simulated": [], "real": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of scores at times that few are followed to.
        for censoring in ("dependent", "independent"):
            for rate in RATES:
                content["simulated"].append(simulated(models, censoring, rate, options.people))
                print(content["simulated"][-1], flush=True)
        for name, (X, y) in real_tables(options.data).items():
            content["real"].append(real(models, name, X, y))
            print(content["real"][-1], flush=True)
    write_result("imputation_study", content)


if __name__ == "__main__":
    main()

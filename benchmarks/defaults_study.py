"""How the defaults of `SurvivalBoost` were chosen: one setting at a time, on unreported data.

    python -m benchmarks.defaults_study --engine xgboost [--data FOLDER] [--only NAME ...]

Simulated truths (seeds and shapes other than those of the reported benchmarks) are judged by the
integrated squared error to the true curves; real data (GBSG of FOLDER or SURVIVAL_DATA_DIR,
scikit-survival's WHAS500, and tables of the package SurvSet) by the integrated Brier score of
two-fold cross-validation. Each is divided by that of the marginal Aalen-Johansen curve; a setting's
score is the geometric mean. METABRIC, SUPPORT and the reported simulation are left out on purpose,
and so are SurvSet's support2 and rhc, whose patients are those of SUPPORT.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from survival_objectives import SurvivalBoost
from survival_objectives.baselines import AalenJohansen
from survival_objectives.datasets import integrated_squared_error, load_gbsg, make_competing_risks
from survival_objectives.metrics import integrated_brier_score

SIMULATIONS = {
    "sim-3-causes": {"n_samples": 8000, "n_causes": 3, "n_features": 9, "random_state": 11},
    "sim-2-causes-noise": {
        "n_samples": 3000,
        "n_causes": 2,
        "n_features": 6,
        "n_noise_features": 6,
        "random_state": 12,
    },
    "sim-1-cause": {"n_samples": 4000, "n_causes": 1, "n_features": 6, "random_state": 13},
    "sim-independent-censoring": {
        "n_samples": 2000,
        "n_causes": 2,
        "n_features": 6,
        "censoring": "independent",
        "censoring_rate": 0.3,
        "random_state": 14,
    },
    "sim-1-cause-large": {"n_samples": 14000, "n_causes": 1, "n_features": 12, "random_state": 15},
    "sim-2-causes-large": {"n_samples": 25000, "n_causes": 2, "n_features": 8, "random_state": 16},
}

# Tables of SurvSet, with 460 to 2900 events, and how many people are kept at most.
SURVSET = (
    "acath",
    "Aids2",
    "dataDIVAT1",
    "Dialysis",
    "flchain",
    "Framingham",
    "hdfail",
    "rott2",
    "smarto",
    "TRACE",
    "UnempDur",
)
_MOST_PEOPLE = 20_000

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "rounds 60": {"n_estimators": 60},
    "rounds 150": {"n_estimators": 150},
    "rounds 250": {"n_estimators": 250},
    "depth 2": {"max_depth": 2},
    "depth 3": {"max_depth": 3},
    "depth 4": {"max_depth": 4},
    "depth 5": {"max_depth": 5},
    "horizons 2": {"n_horizons": 2},
    "horizons 3": {"n_horizons": 3},
    "horizons 5": {"n_horizons": 5},
    "horizons 8": {"n_horizons": 8},
    "sampler uniform": {"horizon_sampler": "uniform"},
    "sampler stratified": {"horizon_sampler": "stratified"},
    "sampler events": {"horizon_sampler": "events"},
    "sampler mixture": {"horizon_sampler": "mixture"},
    "floor 0.01": {"min_censoring_survival": 0.01},
    "floor 0.02": {"min_censoring_survival": 0.02},
    "floor 0.1": {"min_censoring_survival": 0.1},
    "floor 0.2": {"min_censoring_survival": 0.2},
    "boosted": {"censoring": "boosted"},
    "kaplan-meier": {"censoring": "kaplan-meier"},
    "imputed": {"censoring": "imputed"},
    "refresh every 5": {"refresh_every": 5},
    "refresh every 20": {"refresh_every": 20},
    "leaf people 1": {"min_leaf_people": 1.0},
    "leaf people 5": {"min_leaf_people": 5.0},
    "leaf people 10": {"min_leaf_people": 10.0},
    "leaf people 20": {"min_leaf_people": 20.0},
    "leaf people 50": {"min_leaf_people": 50.0},
    "not monotone": {"monotone": False},
    "rate 0.03": {"learning_rate": 0.03, "n_estimators": 170},
    "rate 0.1": {"learning_rate": 0.1, "n_estimators": 50},
}


def simulated_problems() -> dict[str, Any]:
    problems = {}
    for name, options in SIMULATIONS.items():
        data = make_competing_risks(**options)
        test = data.draw(1500, random_state=options["random_state"] + 1000)
        times = np.linspace(0, np.quantile(data.y["duration"], 0.95), 41)[1:]
        true = data.true.cumulative_incidence(test.X, times)

        def error(model: Any, data=data, test=test, times=times, true=true) -> float:
            model.fit(data.X, data.y)
            curves = model.predict_cumulative_incidence(test.X, times)
            return integrated_squared_error(true, curves, times)

        problems[name] = error
    return problems


def real_tables(folder: str | None) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    from sksurv.datasets import load_whas500
    from SurvSet.data import SurvLoader

    tables = {}
    if folder:
        gbsg = load_gbsg(folder)
        tables["gbsg"] = (gbsg.X, gbsg.y)
    X, y = load_whas500()
    outcome = pd.DataFrame({"event": y["fstat"], "duration": y["lenfol"]})
    tables["whas500"] = (X.astype(float), outcome)
    loader = SurvLoader()
    for name in SURVSET:
        table = loader.load_dataset(name)["df"]
        if len(table) > _MOST_PEOPLE:
            table = table.sample(_MOST_PEOPLE, random_state=0)
        X = pd.DataFrame(
            {
                column: table[column]
                if column.startswith("num_")
                else table[column].astype("category").cat.codes
                for column in table.columns.drop(["pid", "event", "time"])
            }
        )
        outcome = pd.DataFrame({"event": table["event"].astype(int), "duration": table["time"]})
        tables[name] = (X.astype(float), outcome.astype({"duration": float}))
    return tables


def real_problems(folder: str | None) -> dict[str, Any]:
    problems = {}
    for name, (X, y) in real_tables(folder).items():

        def error(model: Any, X=X, y=y) -> float:
            scores = []
            for train, test in KFold(2, shuffle=True, random_state=0).split(X):
                latest = np.quantile(y["duration"].iloc[train], 0.95)
                times = np.linspace(0, latest, 41)[1:]
                times = times[times < y["duration"].iloc[test].max()]
                model.fit(X.iloc[train], y.iloc[train])
                curves = model.predict_cumulative_incidence(X.iloc[test], times)
                scores.append(integrated_brier_score(y.iloc[train], y.iloc[test], curves, times))
            return float(np.mean(scores))

        problems[name] = error
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="xgboost")
    parser.add_argument("--data", default=os.environ.get("SURVIVAL_DATA_DIR"))
    parser.add_argument("--only", nargs="*", help="names of settings")
    parser.add_argument("--base", default="{}", help="JSON of parameters common to all settings")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    problems = {**simulated_problems(), **real_problems(options.data)}
    marginal = {name: error(AalenJohansen()) for name, error in problems.items()}
    base = json.loads(options.base)
    rows = []
    for name in options.only or SETTINGS:
        begin = time.process_time()
        parameters = {**base, **SETTINGS[name]}
        ratios = {
            problem: error(SurvivalBoost(options.engine, random_state=0, n_jobs=1, **parameters))
            / marginal[problem]
            for problem, error in problems.items()
        }
        score = float(np.exp(np.mean(np.log(list(ratios.values())))))
        cpu = time.process_time() - begin
        rows.append({"setting": name, "score": score, "cpu_seconds": cpu, "ratios": ratios})
        shown = "  ".join(f"{ratio:.3f}" for ratio in ratios.values())
        print(f"{name:<20} {score:.4f}  {cpu:6.1f} s   {shown}", flush=True)
    if options.out:
        options.out.write_text(
            json.dumps(
                {"engine": options.engine, "base": base, "problems": list(problems), "rows": rows},
                indent=1,
            )
        )


if __name__ == "__main__":
    main()

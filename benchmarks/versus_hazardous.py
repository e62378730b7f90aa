"""HazardBoost against the authors' own (hazardous 0.2.0) and the classics, side by side.

    python -m benchmarks.versus_hazardous truth       # error to a simulated truth, fit CPU
    python -m benchmarks.versus_hazardous real        # METABRIC and SUPPORT, five splits
    python -m benchmarks.versus_hazardous prediction  # 5 000 people x 100 times
    python -m benchmarks.versus_hazardous scale       # 10^4 to 10^6 people

Everything runs in one thread and is timed in CPU seconds. hazardous runs on scikit-learn 1.7.2, its
fastest, in a virtual environment that is made on first use; `--hazardous-python` names another
interpreter. METABRIC and SUPPORT are read from `--data` or SURVIVAL_DATA_DIR.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import venv
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks._results import RESULTS, machine, write_result
from survival_objectives import HazardBoost
from survival_objectives.baselines import AalenJohansen, CauseSpecificCox
from survival_objectives.datasets import (
    integrated_squared_error,
    load_metabric,
    load_support,
    make_competing_risks,
)
from survival_objectives.metrics import integrated_brier_score

ENGINES = ("lightgbm", "xgboost", "catboost")
HAZARDOUS = ("hazardous==0.2.0", "scikit-learn==1.7.2", "pandas<3")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def hazardous_python(given: str | None) -> str:
    if given:
        return given
    folder = Path(__file__).parent / ".venv-hazardous"
    python = folder / "bin" / "python"
    if not python.exists():
        print("Making an environment for hazardous ...", flush=True)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *HAZARDOUS], check=True)
    return str(python)


def run_hazardous(python: str, X: Any, y: Any, X_test: Any, times: Any, seed: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        source, destination = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(
            source,
            X=np.asarray(X, float),
            event=np.asarray(y["event"]),
            duration=np.asarray(y["duration"], float),
            X_test=np.asarray(X_test, float),
            times=times,
            seed=seed,
        )
        worker = Path(__file__).parent / "_hazardous_worker.py"
        subprocess.run(
            [python, worker, source, destination], check=True, env={**os.environ, **ONE_THREAD}
        )
        return dict(np.load(destination))


def run_ours(engine: str, X: Any, y: Any, X_test: Any, times: Any, seed: int) -> Any:
    begin = time.process_time()
    model = HazardBoost(engine, random_state=seed, n_jobs=1).fit(X, y)
    fitted = time.process_time()
    curves = model.predict_cumulative_incidence(X_test, times)
    return {
        "curves": curves,
        "fit_cpu": fitted - begin,
        "predict_cpu": time.process_time() - fitted,
    }


def kept_rows(name: str, only: list[str] | None) -> list[dict[str, Any]]:
    """Rows of an earlier run that stay: seeds fix the data, so contenders may run one by one."""
    if not only:
        return []
    rows = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    return [row for row in rows if row["contender"] not in only]


def truth(options: argparse.Namespace) -> None:
    python = hazardous_python(options.hazardous_python)
    rows = kept_rows("versus_hazardous_truth", options.only)
    for seed in range(options.seeds):
        data = make_competing_risks(options.n, n_causes=3, n_features=10, random_state=seed)
        test = data.draw(3000, random_state=seed + 500)
        times = np.linspace(0, np.quantile(data.y["duration"], 0.95), 51)[1:]
        true = data.true.cumulative_incidence(test.X, times)
        contenders = {
            name: run_ours(name, data.X, data.y, test.X, times, seed)
            for name in ENGINES
            if not options.only or name in options.only
        }
        if not options.only or "hazardous" in options.only:
            contenders["hazardous"] = run_hazardous(python, data.X, data.y, test.X, times, seed)
        if not options.only:
            marginal = AalenJohansen().fit(data.X, data.y)
            curves = marginal.predict_cumulative_incidence(test.X, times)
            contenders["Aalen-Johansen"] = {"curves": curves, "fit_cpu": None}
        for name, result in contenders.items():
            error = 1000 * integrated_squared_error(true, result["curves"], times)
            cpu = None if result["fit_cpu"] is None else float(result["fit_cpu"])
            rows.append(
                {
                    "contender": name,
                    "seed": seed,
                    "ise_x1000": error,
                    "fit_cpu": cpu,
                }
            )
            print(
                f"seed {seed}  {name:<15} ISE x 1000 {error:6.2f}  fit {cpu or 0:6.1f} s CPU",
                flush=True,
            )
    table = pd.DataFrame(rows).groupby("contender")[["ise_x1000", "fit_cpu"]].mean()
    reference = table.loc["hazardous"]
    table["ise_ratio"] = table["ise_x1000"] / reference["ise_x1000"]
    table["speed-up"] = reference["fit_cpu"] / table["fit_cpu"]
    print(table.round(3).to_string())
    mean = {name: row.dropna().to_dict() for name, row in table.iterrows()}
    write_result("versus_hazardous_truth", {"rows": rows, "mean": mean})


def real(options: argparse.Namespace) -> None:
    if not options.data:
        sys.exit("Give the folder of metabric.parquet and support.parquet: --data FOLDER.")
    python = hazardous_python(options.hazardous_python)
    rows = kept_rows("versus_hazardous_real", options.only)
    for dataset, load in {"METABRIC": load_metabric, "SUPPORT": load_support}.items():
        data = load(options.data)
        for seed in range(options.splits):
            train, test = train_test_split(
                np.arange(len(data.X)), test_size=0.3, random_state=seed, stratify=data.y["event"]
            )
            X, y = data.X.iloc[train], data.y.iloc[train]
            X_test, y_test = data.X.iloc[test], data.y.iloc[test]
            times = np.linspace(0, np.quantile(y["duration"], 0.95), 101)[1:]
            times = times[times < y_test["duration"].max()]
            for name, predict in contenders_on_real_data(python, seed).items():
                if options.only and name not in options.only:
                    continue
                begin = time.process_time()
                curves = predict(X, y, X_test, times)
                cpu = time.process_time() - begin
                if isinstance(curves, dict):
                    cpu, curves = float(curves["fit_cpu"] + curves["predict_cpu"]), curves["curves"]
                score = float(integrated_brier_score(y, y_test, curves, times))
                rows.append(
                    {"data": dataset, "contender": name, "seed": seed, "ibs": score, "cpu": cpu}
                )
                print(
                    f"{dataset:<9} split {seed}  {name:<15} IBS {score:.4f}  {cpu:6.1f} s CPU",
                    flush=True,
                )
    table = pd.DataFrame(rows).groupby(["data", "contender"])["ibs"].agg(["mean", "std"])
    print(table.round(4).to_string())
    mean = {f"{d} {c}": values for (d, c), values in table.to_dict("index").items()}
    write_result("versus_hazardous_real", {"rows": rows, "mean": mean})


def contenders_on_real_data(python: str, seed: int) -> dict[str, Any]:
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis, RandomSurvivalForest

    def scikit_survival(model: Any) -> Any:
        def predict(X: Any, y: Any, X_test: Any, times: Any) -> Any:
            outcome = np.array(
                list(zip(y["event"] > 0, y["duration"], strict=True)),
                dtype=[("event", bool), ("time", float)],
            )
            steps = model.fit(X, outcome).predict_survival_function(X_test)
            low, high = steps[0].domain
            survival = np.stack([step(np.clip(times, low, high)) for step in steps])
            return np.stack([survival, 1 - survival], axis=1)

        return predict

    def estimator(model: Any) -> Any:
        return lambda X, y, X_test, times: model.fit(X, y).predict_cumulative_incidence(
            X_test, times
        )

    return {
        **{
            name: lambda X, y, X_test, times, name=name: run_ours(name, X, y, X_test, times, seed)
            for name in ENGINES
        },
        "hazardous": lambda X, y, X_test, times: run_hazardous(python, X, y, X_test, times, seed),
        "Kaplan-Meier": estimator(AalenJohansen()),
        "Cox": estimator(CauseSpecificCox(penalizer=1e-4)),
        "RSF": scikit_survival(
            RandomSurvivalForest(n_estimators=100, min_samples_leaf=15, random_state=seed)
        ),
        "GBS": scikit_survival(GradientBoostingSurvivalAnalysis(random_state=seed)),
    }


def prediction(options: argparse.Namespace) -> None:
    python = hazardous_python(options.hazardous_python)
    data = make_competing_risks(3000, n_causes=3, n_features=10, random_state=0)
    test = data.draw(5000, random_state=1)
    times = np.linspace(0, np.quantile(data.y["duration"], 0.95), 101)[1:]
    result = run_hazardous(python, data.X, data.y, test.X, times, 0)
    seconds = {"hazardous": float(result["predict_cpu"])}
    for engine in ENGINES:
        model = HazardBoost(engine, random_state=0, n_jobs=1).fit(data.X, data.y)
        model.predict_cumulative_incidence(test.X[:5], times)  # Reads the trees once.
        repeats = []
        for _ in range(5):
            begin = time.process_time()
            model.predict_cumulative_incidence(test.X, times)
            repeats.append(time.process_time() - begin)
        seconds[engine] = float(np.median(repeats))
    for name, value in seconds.items():
        print(f"{name:<10} {value:7.3f} s CPU   {seconds['hazardous'] / value:6.1f} times")
    write_result("versus_hazardous_prediction", {"seconds": seconds})


def scale(options: argparse.Namespace) -> None:
    """Each size in a process of its own, so that peak memory is its own."""
    if options.one is not None:
        n, engine = options.one
        data = make_competing_risks(int(n), n_causes=2, n_features=10, random_state=0)
        X, y = data.X.to_numpy(np.float32), data.y
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        begin, wall = time.process_time(), time.perf_counter()
        HazardBoost(engine, random_state=0).fit(X, y)
        cpu, wall = time.process_time() - begin, time.perf_counter() - wall
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{cpu} {wall} {peak} {before}")
        return
    rows = []
    for engine in options.engines:
        for n in options.sizes:
            command = [
                sys.executable,
                "-m",
                "benchmarks.versus_hazardous",
                "scale",
                "--one",
                str(n),
                engine,
            ]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            cpu, wall, peak, before = map(float, output.split())
            rows.append(
                {
                    "engine": engine,
                    "n": n,
                    "cpu": cpu,
                    "wall": wall,
                    "peak_mib": peak,
                    "data_mib": before,
                }
            )
            print(
                f"{engine:<9} n = {n:>8}  {cpu:7.1f} s CPU  {wall:7.1f} s  peak {peak:6.0f} MiB "
                f"(data alone {before:.0f})",
                flush=True,
            )
    exponents = {}
    for engine, part in pd.DataFrame(rows).groupby("engine"):
        exponents[engine] = float(np.polyfit(np.log(part["n"]), np.log(part["cpu"]), 1)[0])
        print(f"{engine}: CPU grows as n^{exponents[engine]:.2f}")
    write_result("versus_hazardous_scale", {"rows": rows, "exponents": exponents})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", choices=["truth", "real", "prediction", "scale"])
    parser.add_argument("--hazardous-python")
    parser.add_argument("--data", default=os.environ.get("SURVIVAL_DATA_DIR"))
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--only", nargs="+", help="contenders of `truth` and `real` to run again")
    parser.add_argument("--engines", nargs="+", default=ENGINES, help="engines of `scale`")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.one is None:
        print(machine())
    {"truth": truth, "real": real, "prediction": prediction, "scale": scale}[options.suite](options)


if __name__ == "__main__":
    main()

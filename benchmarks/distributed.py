"""Training on a Dask cluster and from disk, next to the estimator in memory.

    python -m benchmarks.distributed scale     # Dask with 2 workers, in memory: 5 000 000 people
    python -m benchmarks.distributed external  # XGBoost's external memory: a tenth of them, all;
                                               # with all people in every round, and in turns
    python -m benchmarks.distributed overhead  # CPU of Dask against one process: 1 000 000 people
    python -m benchmarks.distributed table     # all results, as docs/clusters.md shows them

Simulated people with 10 features, 2 causes and censoring that depends on the features, written to
Parquet first. Every arm is a process of its own with one thread, and so is every Dask worker. CPU
and peak memory are of the training, reading included; the error to the truth is on 5 000 others.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._results import RESULTS, write_result
from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives.datasets import integrated_squared_error, make_competing_risks

BATCH = 100_000
N_TEST = 5_000
TIMES = np.linspace(0.05, 3.0, 60)
N_WORKERS = 2
# People who are boosted on between two refreshes, where they take turns.
TURN = 500_000


def simulated() -> Any:
    return make_competing_risks(1_000, n_causes=2, n_features=10, random_state=0)


def write_people(folder: Path, n_people: int, batch: int) -> None:
    """Parquet files of ``batch`` people each; smaller sizes read the first of them."""
    if n_people % batch:
        msg = f"--people is {n_people}, which is no multiple of --batch {batch}."
        raise SystemExit(msg)
    folder /= f"batch-{batch}"
    folder.mkdir(parents=True, exist_ok=True)
    data = simulated()
    for number in range(n_people // batch):
        path = folder / f"people-{number:05d}.parquet"
        if not path.exists():
            part = data.draw(batch, random_state=number + 1)
            frame = pd.concat([part.X.astype(np.float32), part.y], axis=1)
            frame.to_parquet(path, index=False)


def files(folder: Path, n_people: int, batch: int) -> list[Path]:
    return sorted((folder / f"batch-{batch}").glob("people-*.parquet"))[: n_people // batch]


def usage() -> tuple[float, float]:
    """CPU seconds and peak memory (MiB) of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def run_memory(paths: list[Path], settings: dict[str, Any]) -> tuple[Any, Any]:
    frame = pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)
    y = frame[["event", "duration"]]
    model = HazardBoost("xgboost", n_jobs=1, **settings)
    return model.fit(frame.drop(columns=["event", "duration"]), y), {}


def run_external(
    paths: list[Path], settings: dict[str, Any], people_per_turn: int | None = None
) -> tuple[Any, Any]:
    from survival_objectives.adapters.external_memory import ParquetBatches, fit_external

    model: HazardBoost | SurvivalBoost = HazardBoost("xgboost", n_jobs=1, **settings)
    if people_per_turn is not None:
        # As many refreshes as there are turns, so that all people are used.
        model = SurvivalBoost("xgboost", n_jobs=1, refresh_every=5, **settings)
    with tempfile.TemporaryDirectory(dir=paths[0].parent) as folder:
        fit_external(
            model, ParquetBatches(paths), people_per_turn=people_per_turn, cache_folder=folder
        )
    return model, {}


def run_dask(paths: list[Path], settings: dict[str, Any]) -> tuple[Any, Any]:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from survival_objectives.adapters.dask import fit_dask

    cluster = LocalCluster(
        n_workers=N_WORKERS, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    with cluster, Client(cluster) as client:
        client.run(importlib.import_module, "survival_objectives.adapters.dask")
        begun = client.run(usage)
        frame = dd.read_parquet([str(path) for path in paths])
        model = fit_dask(HazardBoost(n_jobs=1, **settings), frame, ("event", "duration"))
        # As in a single process, the start and imports of the workers do not count.
        workers = [(cpu - begun[name][0], peak) for name, (cpu, peak) in client.run(usage).items()]
        return model, {"workers": workers}


ARMS: dict[str, Callable[[list[Path], dict[str, Any]], tuple[Any, Any]]] = {
    "memory": run_memory,
    "dask": run_dask,
    "external": run_external,
    "external in turns": partial(run_external, people_per_turn=TURN),
}


def run_arm(arm: str, folder: Path, n_people: int, batch: int, settings: dict[str, Any]) -> Any:
    """One training in this process, and its cost and error."""
    begin, (cpu_before, _) = time.perf_counter(), usage()
    model, other = ARMS[arm](files(folder, n_people, batch), settings)
    seconds = time.perf_counter() - begin
    cpu, peak = usage()
    workers = other.get("workers", [])
    test = simulated().draw(N_TEST, random_state=0)
    curves = model.predict_cumulative_incidence(test.X, TIMES)
    truth = test.true.cumulative_incidence(test.X, TIMES)
    return {
        "arm": arm,
        "people": n_people,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu - cpu_before + sum(used for used, _ in workers), 3),
        "peak_mib": round(peak),
        "peak_mib_workers": [round(worker_peak) for _, worker_peak in workers],
        "error_x1000": round(1000 * integrated_squared_error(truth, curves, TIMES), 4),
        **settings,
    }


def run_arms(arms: Sequence[tuple[str, int]], options: argparse.Namespace) -> list[Any]:
    """Each arm in a process of its own, one after the other."""
    write_people(Path(options.folder), options.people, options.batch)
    rows = []
    for arm, n_people in arms:
        command = [sys.executable, "-m", "benchmarks.distributed", "arm", "--arm", arm]
        for name in ("folder", "batch", "rounds", "learning_rate"):
            command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        command += ["--people", str(n_people)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append(json.loads(done.stdout.strip().splitlines()[-1]))
        print(json.dumps(rows[-1]), flush=True)
    return rows


def scale(options: argparse.Namespace) -> dict[str, Any]:
    return {"rows": run_arms([("dask", options.people), ("memory", options.people)], options)}


def external(options: argparse.Namespace) -> dict[str, Any]:
    """How memory grows while people grow tenfold."""
    rows, growth = [], {}
    for arm in ("external", "external in turns"):
        sizes = options.people // 10, options.people
        if options.only in (None, arm):
            small, large = run_arms([(arm, size) for size in sizes], options)
        else:  # Of an earlier run.
            known = json.loads((RESULTS / "distributed_external.json").read_text())["rows"]
            small, large = (row for row in known if row["arm"] == arm and row["people"] in sizes)
        rows += [small, large]
        grown = (large["peak_mib"] - small["peak_mib"]) * 2**20
        growth[arm] = round(grown / (large["people"] - small["people"]))
    return {"rows": rows, "people_per_turn": TURN, "bytes_per_person": growth}


def overhead(options: argparse.Namespace) -> dict[str, Any]:
    """Arms take turns: other work on the machine adds CPU seconds, not evenly."""
    rows: list[Any] = []
    ratios = []
    for repeat in range(options.repeats):
        arms = ["memory", "dask"] if repeat % 2 == 0 else ["dask", "memory"]
        pair = {row["arm"]: row for row in run_arms([(a, options.people) for a in arms], options)}
        rows += pair.values()
        ratios.append(round(pair["dask"]["cpu_seconds"] / pair["memory"]["cpu_seconds"], 3))
    smallest = [
        min(r["cpu_seconds"] for r in rows if r["arm"] == arm) for arm in ("dask", "memory")
    ]
    return {
        "rows": rows,
        "cpu_ratios": ratios,
        "cpu_ratio_median": float(np.median(ratios)),
        "cpu_ratio_of_minima": round(smallest[0] / smallest[1], 3),
        "target": 1.5,
    }


_LABELS = {
    "memory": "in memory",
    "dask": f"Dask, {N_WORKERS} workers",
    "external": "external memory",
    "external in turns": f"external memory, {TURN:,} people per turn".replace(",", " "),
}


def table(results: Path = RESULTS) -> str:
    """All runs in Markdown, as docs/clusters.md shows them."""
    lines = [
        "| | people | CPU s | seconds | peak, MiB | error |",
        "|---|---:|---:|---:|---|---:|",
    ]
    for name in ("overhead", "scale", "external"):
        content = json.loads((results / f"distributed_{name}.json").read_text())
        for row in content["rows"]:
            peak = f"{row['peak_mib']:,}"
            if row["peak_mib_workers"]:
                workers = " and ".join(f"{mib:,}" for mib in row["peak_mib_workers"])
                peak = f"{workers}; client {peak}"
            cells = (
                _LABELS[row["arm"]],
                f"{row['people']:,}",
                f"{row['cpu_seconds']:.0f}",
                f"{row['seconds']:.0f}",
                peak,
                f"{row['error_x1000']:.2f}",
            )
            lines.append(f"| {' | '.join(cells)} |".replace(",", " "))
    return "\n".join(lines)


COMMANDS = {
    "scale": (scale, 5_000_000),
    "external": (external, 5_000_000),
    "overhead": (overhead, 1_000_000),
}


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=[*COMMANDS, "table", "arm"])
    parser.add_argument("--arm", choices=list(ARMS))
    parser.add_argument("--people", type=int, help="default: those of the command")
    parser.add_argument("--batch", type=int, default=BATCH, help="people in a file")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3, help="of `overhead`")
    parser.add_argument("--learning-rate", type=float, default=0.2)
    parser.add_argument(
        "--folder",
        default=str(Path(tempfile.gettempdir()) / "survival-people"),
        help="of the files",
    )
    parser.add_argument("--only", choices=list(ARMS), help="arm of `external` to run again")
    parser.add_argument("--no-write", action="store_true", help="only print")
    return parser.parse_args(arguments)


def settings(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "n_estimators": options.rounds,
        "learning_rate": options.learning_rate,
        "random_state": 0,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(arguments)
    if options.command == "arm":
        folder = Path(options.folder)
        row = run_arm(options.arm, folder, options.people, options.batch, settings(options))
        print(json.dumps(row))
        return
    if options.command == "table":
        print(table())
        return
    run, n_people = COMMANDS[options.command]
    options.people = options.people or n_people
    content = run(options)
    print(json.dumps({name: value for name, value in content.items() if name != "rows"}))
    if not options.no_write:
        write_result(f"distributed_{options.command}", content)


if __name__ == "__main__":
    main()

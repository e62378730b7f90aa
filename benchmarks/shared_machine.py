"""Fits on a machine that other programs use as well: threads and how they wait.

    python -m benchmarks.shared_machine            # 8 000 people, XGBoost, LightGBM and CatBoost
    python -m benchmarks.shared_machine --patience 60

Every arm is a process of its own: the engine's threads as OpenMP waits by default (in a loop), one
thread, and the default of the package. Each runs alone and beside two processes that do nothing but
count, all of them on the first two cores. Arms take turns, and the fastest of several runs counts.
``others`` are the cores that the rest of the machine used during a run; ``--patience`` makes quiet
runs wait up to so many seconds for a moment without others.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._results import RESULTS, write_result

ENGINES = ("xgboost", "lightgbm", "catboost")
# CatBoost has threads of its own.
OPENMP = ("xgboost", "lightgbm")
# The default of libgomp: threads spin 300 000 times before they sleep.
SPINNING = {"GOMP_SPINCOUNT": "300000"}
SPINNING_ARM = "all threads, spinning"
ARMS: dict[str, tuple[int | None, dict[str, str]]] = {
    SPINNING_ARM: (-1, SPINNING),
    "one thread": (1, {}),
    "default": (None, {}),
}
N_BUSY = 2
# Cores of others in half a second that counts as a quiet moment.
QUIET = 0.3
_TICKS = os.sysconf("SC_CLK_TCK")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=8_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--patience", type=float, default=0.0)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--spinning", nargs="*", choices=OPENMP, default=list(OPENMP))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one is not None:
        print(json.dumps(timed_fit(**json.loads(options.one))))
        return
    runs = measured(options)
    result = {"people": options.people, "runs": runs, "summary": summary(runs)}
    write_result("shared_machine", result)
    print(table(result["summary"]))


def measured(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All runs, arm by arm in turn."""
    runs = []
    for repeat in range(options.repeats):
        for engine in options.engines:
            for arm in ARMS:
                # One such run is enough: it also slows down all other processes of the machine.
                if arm == SPINNING_ARM and (repeat or engine not in options.spinning):
                    continue
                for beside in (0, N_BUSY):
                    with busy_processes(beside):
                        patience = 0.0 if beside else options.patience
                        run = run_arm(engine, arm, options.people, patience)
                    runs.append({"repeat": repeat, "beside": beside, **run})
    return runs


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Processes that keep a core busy each."""
    program = "while True: pass"
    started = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(number)]
    try:
        for process in started:
            _pin(process.pid)
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def run_arm(engine: str, arm: str, n_people: int, patience: float) -> dict[str, Any]:
    """One fit in a process of its own."""
    n_jobs, environment = ARMS[arm]
    known = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS"}
    inherited = {name: value for name, value in os.environ.items() if name not in known}
    job = {
        "engine": engine,
        "n_people": n_people,
        "n_jobs": n_jobs,
        "patience": patience,
    }
    command = [sys.executable, "-m", "benchmarks.shared_machine", "--one", json.dumps(job)]
    done = subprocess.run(
        command,
        env={**inherited, **environment},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return {"engine": engine, "arm": arm, **json.loads(done.stdout)}


def timed_fit(engine: str, n_people: int, n_jobs: int | None, patience: float) -> dict[str, float]:
    """Wall and CPU seconds of a fit, and cores that others used meanwhile."""
    from survival_objectives import HazardBoost
    from survival_objectives.datasets import make_competing_risks

    _pin(0)
    data = make_competing_risks(n_people, n_causes=2, random_state=0)
    settings = {"n_jobs": n_jobs, "random_state": 0}
    few = min(500, n_people)
    # The first fit loads libraries.
    HazardBoost(engine, n_estimators=2, **settings).fit(data.X[:few], data.y[:few])
    _wait_for_quiet(patience)
    wall, cpu, busy = time.perf_counter(), time.process_time(), _busy_seconds()
    HazardBoost(engine, **settings).fit(data.X, data.y)
    busy = _busy_seconds() - busy
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall": wall, "cpu": cpu, "others": max((busy - cpu) / wall, 0.0)}


def _wait_for_quiet(patience: float) -> None:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        busy, begin = _busy_seconds(), time.monotonic()
        time.sleep(0.5)
        if (_busy_seconds() - busy) / (time.monotonic() - begin) < QUIET:
            return


def _busy_seconds() -> float:
    """CPU seconds that the machine has spent on anything so far."""
    numbers = [int(number) for number in Path("/proc/stat").read_text().split()[1:9]]
    idle, waiting = numbers[3:5]
    return (sum(numbers) - idle - waiting) / _TICKS


def _pin(process: int) -> None:
    os.sched_setaffinity(process, sorted(os.sched_getaffinity(0))[:2])


def summary(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fastest wall seconds of every arm alone and beside others, and their ratio."""
    rows = []
    for engine in dict.fromkeys(run["engine"] for run in runs):
        for arm in ARMS:
            own = [run for run in runs if (run["engine"], run["arm"]) == (engine, arm)]
            if not own:
                continue
            alone, beside = (
                min((run for run in own if run["beside"] == number), key=lambda run: run["wall"])
                for number in (0, N_BUSY)
            )
            rows.append(
                {
                    "engine": engine,
                    "arm": arm,
                    "alone": alone["wall"],
                    "others_alone": alone["others"],
                    "beside": beside["wall"],
                    "others_beside": beside["others"],
                    "ratio": beside["wall"] / alone["wall"],
                    "cpu_alone": statistics.median(run["cpu"] for run in own if run["beside"] == 0),
                    "cpu_beside": statistics.median(
                        run["cpu"] for run in own if run["beside"] == N_BUSY
                    ),
                }
            )
    return rows


def results() -> dict[str, Any]:
    """The results that were written last."""
    content: dict[str, Any] = json.loads((RESULTS / "shared_machine.json").read_text())
    return content


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The summary as Markdown."""
    lines = [
        "| engine | threads | alone, s | others' cores | beside two busy processes, s | "
        "others' cores | ratio | CPU alone, s | CPU beside, s |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row['engine']} | {row['arm']} | {row['alone']:.2f} | {row['others_alone']:.1f} | "
        f"{row['beside']:.2f} | {row['others_beside']:.1f} | {row['ratio']:.1f} | "
        f"{row['cpu_alone']:.2f} | {row['cpu_beside']:.2f} |"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()

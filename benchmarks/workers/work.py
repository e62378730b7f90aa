"""Run one job of a contender: FOLDER/job.json and data.npz -> result.json and curves.npy.

``python work.py FOLDER`` in the contender's interpreter. Imports numpy and the standard library;
everything else comes with the contender's module.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import resource
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

# The share of people on whom settings are compared.
HELD_OUT = 0.2
# The same floor for every contender's weights in a search.
CENSORING_FLOOR = 0.05


def main(folder: str | Path) -> None:
    folder = Path(folder)
    job = json.loads((folder / "job.json").read_text())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = run(folder, job)
    except ImportError as error:
        result = {"status": "unavailable", "reason": first_line(error)}
    except MemoryError as error:
        result = {"status": "memory", "reason": first_line(error)}
    except Exception as error:
        result = {"status": "error", "reason": first_line(error)}
    (folder / "result.json").write_text(json.dumps(result))


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"


def run(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    contender = load(job["worker"])
    with np.load(folder / "data.npz") as stored:
        data = dict(stored)
    people = (data["X"], data["event"], data["duration"])
    fixed = {"seed": job["seed"], "n_threads": job["n_threads"]}
    options, found = job["options"], {}
    clock = Clock()
    if job.get("search"):
        options, found = search(contender, people, fixed, options, job["search"])
        found["search_cpu"] = clock.lap()[0]
    before = peak_mib()
    clock.lap()
    predict = contender.fit(*people, **fixed, **options)
    fit_cpu, fit_wall = clock.lap()
    curves = np.asarray(predict(data["X_test"], data["times"]), dtype=np.float64)
    predict_cpu, predict_wall = clock.lap()
    expected = (len(data["X_test"]), int(people[1].max()) + 1, len(data["times"]))
    if curves.shape != expected:
        msg = f"curves have shape {curves.shape}, not {expected}"
        raise ValueError(msg)
    if not np.isfinite(curves).all():
        msg = f"{np.count_nonzero(~np.isfinite(curves))} predicted probabilities are not finite"
        raise ValueError(msg)
    np.save(folder / "curves.npy", curves)
    return {
        "status": "ok",
        "reason": "",
        "fit_cpu": fit_cpu,
        "fit_wall": fit_wall,
        "predict_cpu": predict_cpu,
        "predict_wall": predict_wall,
        "peak_mib": peak_mib(),
        "data_mib": before,
        "versions": versions(job["packages"]),
        "extra": {**found, **getattr(predict, "notes", {})},
    }


def load(name: str) -> Any:
    """The module beside this file, whatever the working directory and the path of imports."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Clock:
    """CPU seconds of this process and its finished children, and wall seconds, lap by lap."""

    def __init__(self) -> None:
        self._last = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = time.process_time() + children.ru_utime + children.ru_stime
        return cpu, time.perf_counter()

    def lap(self) -> tuple[float, float]:
        """CPU and wall seconds since the last lap."""
        now, last = self._now(), self._last
        self._last = now
        return now[0] - last[0], now[1] - last[1]


def peak_mib() -> float:
    """Largest memory of this program so far."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage would remember the process that started this one.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        if "VmHWM" in lines:
            return int(lines["VmHWM"].split()[0]) / 1024
    scale = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def versions(packages: list[str]) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


# ----------------------------------------------------------------------------------------- search
def search(
    contender: Any,
    people: tuple[Any, Any, Any],
    fixed: dict[str, Any],
    options: dict[str, Any],
    budget: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Best of the given options and random ones, until the CPU seconds or settings are used up."""
    X, event, duration = people
    generator = np.random.default_rng(fixed["seed"])
    order = generator.permutation(len(event))
    held, kept = np.split(order, [round(HELD_OUT * len(order))])
    times = np.linspace(0, np.quantile(duration[kept], 0.95), 31)[1:]
    times = times[times < duration[held].max()]
    clock, used, n_failed = Clock(), 0.0, 0
    best, best_score, n_settings = dict(options), np.inf, 0
    while n_settings < budget["max_settings"] and (n_settings == 0 or used < budget["cpu_seconds"]):
        candidate = dict(options) if n_settings == 0 else contender.draw(generator, **options)
        n_settings += 1
        try:
            predict = contender.fit(X[kept], event[kept], duration[kept], **fixed, **candidate)
            curves = np.asarray(predict(X[held], times))
            score = integrated_brier(
                (event[kept], duration[kept]), (event[held], duration[held]), curves, times
            )
        except ImportError:
            raise
        except Exception:  # A setting that cannot be fitted loses.
            n_failed += 1
            score = np.inf
        if score < best_score:
            best, best_score = candidate, score
        used += clock.lap()[0]
    return best, {"n_settings": n_settings, "n_failed": n_failed, "chosen": best}


def integrated_brier(train: Any, test: Any, curves: Any, times: Any) -> float:
    """Mean over causes and times of the Brier score with Kaplan-Meier censoring weights."""
    event, duration = test
    at_exit = np.maximum(uncensored(train, duration, "left"), CENSORING_FLOOR)
    at_times = np.maximum(uncensored(train, times, "right"), CENSORING_FLOOR)
    stayed = duration[:, None] > times
    seen = (event > 0)[:, None] & ~stayed
    weight = np.where(stayed, 1 / at_times, np.where(seen, 1 / at_exit[:, None], 0))
    scores = [
        (weight * (curves[:, cause] - (~stayed & (event == cause)[:, None])) ** 2).mean()
        for cause in range(1, curves.shape[1])
    ]
    return float(np.mean(scores))


def uncensored(train: Any, times: Any, side: str) -> Any:
    """Kaplan-Meier probability of being uncensored after ``times``, or just before them."""
    event, duration = train
    jumps, index = np.unique(duration, return_inverse=True)
    censored = np.bincount(index, weights=event == 0)
    # An event at t comes before a censoring at t.
    at_risk = np.cumsum(np.bincount(index)[::-1])[::-1] - np.bincount(index, weights=event > 0)
    share = np.divide(censored, at_risk, out=np.zeros(len(jumps)), where=at_risk > 0)
    curve = np.concatenate([[1.0], np.cumprod(1 - share)])
    return curve[np.searchsorted(jumps, times, side=side)]


if __name__ == "__main__":
    main(sys.argv[1])
    # Some engines crash while the interpreter shuts down, when all is written.
    sys.stdout.flush()
    os._exit(0)

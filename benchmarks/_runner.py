"""Run the jobs of a suite one after the other, each in a process of its own, and record them."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._contenders import Contender, contender
from benchmarks._environments import Environments, EnvironmentUnavailableError, plain
from benchmarks._problems import Problem, make_problem, scored
from benchmarks._process import run_limited
from benchmarks._records import Store, code_fingerprint, machine, revision
from benchmarks._suites import Job, Suite
from benchmarks.workers import work

__all__ = ["Runner", "fingerprint"]

WORK = Path(__file__).parent / "workers" / "work.py"
#: Wall time may be so many times the CPU time: the machine may be busy with other things.
PATIENCE = 3
#: A larger job is not started where time that grows like n would exceed the limit by so much.
MARGIN = 1.25


def fingerprint(job: Job) -> str:
    one = contender(job.contender)
    return code_fingerprint(one.sources, one.worker, job.settings)


@dataclass
class Runner:
    """What a run is told.

    Attributes
    ----------
    suite : Suite
        Whose limits hold.
    store : Store
        Where records go.
    environments : Environments
        Where contenders run.
    data_folder : str or None
        Of METABRIC and SUPPORT.
    in_process : bool
        Whether contenders run in this very interpreter, without limits: for rehearsals.
    again : bool
        Whether jobs that are done run again.
    """

    suite: Suite
    store: Store
    environments: Environments
    data_folder: str | None = None
    in_process: bool = False
    again: bool = False
    _lost: dict[tuple[str, ...], str] = field(default_factory=dict)
    _times: dict[str, list[float]] = field(default_factory=dict)
    _costs: dict[tuple[Any, int], float] = field(default_factory=dict)

    def run(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        """Run what is not done yet; returns the new records."""
        settled = set() if self.again else self.store.settled()
        due = [job for job in jobs if (job.key, fingerprint(job)) not in settled]
        if len(due) < len(jobs):
            print(f"{len(jobs) - len(due)} of {len(jobs)} jobs are done already (--again).")
        self._learn(jobs)
        new = []
        for number, job in enumerate(due, start=1):
            begin = time.perf_counter()
            record = self.record(job)
            self.store.append(record)
            new.append(record)
            self._remember(job, record, time.perf_counter() - begin)
            left = sum(self._expected_wall(other) for other in due[number:])
            print(f"[{number}/{len(due)}] {_summary(record)}; {_clock(left)} left", flush=True)
        return new

    def _learn(self, jobs: Sequence[Job]) -> None:
        """From earlier runs: how long jobs take, and who was lost on what."""
        by_key = {job.key: job for job in jobs}
        for key, record in self.store.latest().items():
            job = by_key.get(key)
            if job is None:
                continue
            wall = record.get("wall") or 0.0
            self._times.setdefault(key, []).append(wall)
            if record["fingerprint"] == fingerprint(job):
                self._remember(job, record, wall)

    def _remember(self, job: Job, record: Mapping[str, Any], wall: float) -> None:
        self._times.setdefault(job.contender, []).append(wall)
        self._times.setdefault("", []).append(wall)
        if record["status"] in ("timeout", "memory") and not record["reason"].startswith("not"):
            self._lost[_case(job)] = f"{record['status']}: {record['reason']}, seed {job.seed}"
        elif record["status"] == "ok":
            cost = float(record["fit_cpu"] + record["predict_cpu"])
            self._costs[_series(job), job.data.get("n_samples", 0)] = cost

    def _expected_wall(self, job: Job) -> float:
        for name in (job.key, job.contender, ""):
            if self._times.get(name):
                return float(np.median(self._times[name]))
        return 0.0

    # ------------------------------------------------------------------------------------ one job
    def record(self, job: Job) -> dict[str, Any]:
        """Run one job and describe what came of it."""
        one = contender(job.contender)
        begin = time.perf_counter()
        # Before the run, because the sources may be edited while it lasts.
        code = {"revision": revision(), "fingerprint": fingerprint(job)}
        try:
            result, metrics = self._result(job, one)
        except EnvironmentUnavailableError as error:
            result, metrics = {"status": "unavailable", "reason": str(error)}, {}
        return {
            "suite": job.suite,
            "key": job.key,
            "case": job.case,
            "group": job.group,
            "level": job.level,
            "contender": job.contender,
            "variant": job.variant,
            "seed": job.seed,
            "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            **code,
            "settings": job.settings,
            "limits": {
                "cpu_seconds": self.suite.cpu_seconds,
                "memory_mib": self.suite.memory_mib,
            },
            "machine": machine(),
            "versions": {},
            "fit_cpu": None,
            "predict_cpu": None,
            "peak_mib": None,
            "wall": round(time.perf_counter() - begin, 3),
            **result,
            "reason": plain(result["reason"]),
            "metrics": metrics,
        }

    def _result(self, job: Job, one: Contender) -> tuple[dict[str, Any], dict[str, Any]]:
        hopeless = self._hopeless(job)
        if hopeless:
            return hopeless, {}
        python = None if self.in_process else self.environments.python(one.environment)
        problem = make_problem(job.kind, job.data, job.seed, self.data_folder, self.environments)
        if problem.event.max() > 1 and not one.competing:
            return {"status": "unavailable", "reason": "knows one cause only"}, {}
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            _write(folder, job, one, problem)
            result = self._work(folder, job, python)
            if result["status"] != "ok":
                return result, {}
            curves = np.load(folder / "curves.npy")
        try:
            return result, scored(problem, curves)
        except (ValueError, FloatingPointError) as error:
            reason = f"the curves cannot be scored: {work.first_line(error)}"
            return {**result, "status": "error", "reason": reason}, {}

    def _hopeless(self, job: Job) -> dict[str, Any] | None:
        """A verdict without a run: the same case was lost before, or time grows out of reach."""
        if _case(job) in self._lost:
            status, reason = self._lost[_case(job)].split(": ", 1)
            return {"status": status, "reason": f"not started: {reason}"}
        n_samples = job.data.get("n_samples")
        smaller = {
            n: cpu
            for (series, n), cpu in self._costs.items()
            if series == _series(job) and n < (n_samples or 0)
        }
        if not smaller or n_samples is None:
            return None
        n, cpu = max(smaller.items())
        if cpu * n_samples / n > MARGIN * self.suite.cpu_seconds:
            reason = f"not started: {cpu:.0f} CPU seconds at n = {n}, out of reach here"
            return {"status": "timeout", "reason": reason}
        return None

    def _work(self, folder: Path, job: Job, python: str | None) -> dict[str, Any]:
        found = folder / "result.json"
        if python is None:
            work.main(folder)
            return dict(json.loads(found.read_text()))
        limit = self.suite.cpu_seconds
        outcome = run_limited(
            [python, WORK, folder],
            cpu_seconds=limit * job.threads,
            wall_seconds=PATIENCE * limit,
            memory_mib=self.suite.memory_mib,
            environment=_process_environment(job.threads),
        )
        if found.exists() and outcome.status == "ok":
            result = dict(json.loads(found.read_text()))
            result["peak_mib"] = max(result.get("peak_mib") or 0.0, outcome.peak_mib)
            return result
        return {
            "status": outcome.status if outcome.status != "ok" else "error",
            "reason": outcome.reason or "ended without a result",
            "peak_mib": outcome.peak_mib,
        }


def _case(job: Job) -> tuple[str, ...]:
    return job.suite, job.case, job.contender, job.variant


def _series(job: Job) -> tuple[Any, ...]:
    """Jobs that differ in the number of people only."""
    rest = sorted((name, value) for name, value in job.data.items() if name != "n_samples")
    return job.contender, job.variant, job.threads, tuple(rest), str(job.options)


def _write(folder: Path, job: Job, one: Contender, problem: Problem) -> None:
    np.savez(
        folder / "data.npz",
        X=problem.X,
        event=problem.event,
        duration=problem.duration,
        X_test=problem.X_test,
        times=problem.times,
    )
    (folder / "job.json").write_text(
        json.dumps(
            {
                "worker": one.worker,
                "options": {**one.options, **job.options},
                "packages": one.packages,
                "seed": job.seed,
                "n_threads": job.threads,
                "search": job.search,
            }
        )
    )


def _process_environment(threads: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(threads))}


def _summary(record: Mapping[str, Any]) -> str:
    text = f"{record['key']}: {record['status']}"
    if record["status"] != "ok":
        return f"{text} ({record['reason']})"
    for name in ("ibs", "ise_x1000"):
        if record["metrics"].get(name) is not None:
            text += f", {name} {record['metrics'][name]:.4f}"
    return f"{text}, fit {record['fit_cpu']:.1f} CPU s, {record['peak_mib']:.0f} MiB"


def _clock(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min"

"""Run a program with a limit on its CPU time, wall time and memory, watched from outside.

A limit inside the process (RLIMIT_AS) counts address space, which some engines reserve and never
use; so the parent reads the resident memory and ends the process.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

__all__ = ["Outcome", "run_limited"]

# Reading the process table costs; no engine fills memory by much in between.
PAUSE = 0.15


@dataclass(frozen=True)
class Outcome:
    """How a program ended: "ok", "timeout", "memory" or "error", and what it took."""

    status: str
    reason: str
    peak_mib: float
    cpu: float
    wall: float


def run_limited(
    command: Sequence[str | os.PathLike[str]],
    *,
    cpu_seconds: float,
    wall_seconds: float,
    memory_mib: float,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run ``command`` and end it, with its children, where it passes a limit."""
    begin, peak, cpu = time.perf_counter(), 0.0, 0.0
    # Some libraries leave files where they run.
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryDirectory() as folder:
        started = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=errors, env=environment, cwd=folder
        )
        process = psutil.Process(started.pid)
        verdict = None
        try:
            while verdict is None and started.poll() is None:
                memory, cpu_now = _usage(process)
                peak, cpu = max(peak, memory), max(cpu, cpu_now)
                if memory > memory_mib:
                    verdict = ("memory", f"more than {memory_mib:.0f} MiB")
                elif cpu > cpu_seconds:
                    verdict = ("timeout", f"more than {cpu_seconds:.0f} CPU seconds")
                elif time.perf_counter() - begin > wall_seconds:
                    verdict = ("timeout", f"more than {wall_seconds:.0f} seconds")
                else:
                    time.sleep(PAUSE)
        finally:
            # Past a limit, or stopped from the keyboard: end the process.
            if started.poll() is None:
                _end(process)
                started.wait()
        wall = time.perf_counter() - begin
        if verdict is None and started.returncode == 0:
            verdict = ("ok", "")
        elif verdict is None:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            how = f"ended with code {started.returncode}"
            if started.returncode < 0:
                how = f"killed by signal {-started.returncode}"
            verdict = ("error", f"{how}: {lines[-1]}" if lines else how)
    return Outcome(*verdict, peak_mib=peak, cpu=cpu, wall=wall)


def _usage(process: psutil.Process) -> tuple[float, float]:
    """Memory in MiB and CPU seconds of a process and its children, as far as they still live."""
    memory = cpu = 0.0
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return memory, cpu
    for member in family:
        try:
            memory += member.memory_info().rss / 2**20
            spent = member.cpu_times()
            cpu += spent.user + spent.system + spent.children_user + spent.children_system
        except psutil.Error:
            continue
    return memory, cpu


def _end(process: psutil.Process) -> None:
    try:
        family = [*process.children(recursive=True), process]
    except psutil.Error:
        return
    for member in family:
        try:
            member.kill()
        except psutil.Error:
            continue

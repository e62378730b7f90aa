"""Results of the suites: one JSON line a job and run, appended; the latest one counts."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks._results import RESULTS

__all__ = ["SUITE_RESULTS", "Store", "code_fingerprint", "machine", "revision"]

SUITE_RESULTS = RESULTS / "suites"
ROOT = Path(__file__).parents[1]
#: What is settled: another run of the same code would say the same.
SETTLED = ("ok", "timeout", "memory")
FORMAT = 1


class Store:
    """The file of one suite.

    Parameters
    ----------
    suite : str
        Name of the suite.
    folder : path
        Where the files are.
    """

    def __init__(self, suite: str, folder: Path = SUITE_RESULTS) -> None:
        self.path = folder / f"{suite}.jsonl"

    def records(self) -> list[dict[str, Any]]:
        """All records, oldest first."""
        if not self.path.exists():
            return []
        found = []
        for number, line in enumerate(self.path.read_text().splitlines(), start=1):
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                msg = f"Line {number} of {self.path.name} is not JSON. Delete or mend it."
                raise ValueError(msg) from None
        return found

    def latest(self) -> dict[str, dict[str, Any]]:
        """The last record of each job."""
        return {record["key"]: record for record in self.records()}

    def append(self, record: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"format": FORMAT, **_finite(record)}, sort_keys=True)
        with self.path.open("a") as file:
            file.write(line + "\n")

    def settled(self) -> set[tuple[str, str]]:
        """Keys and fingerprints of jobs that were settled: for that code and those settings."""
        return {
            (record["key"], record["fingerprint"])
            for record in self.records()
            if record["status"] in SETTLED
        }


def _finite(value: Any) -> Any:
    """The same with None for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def code_fingerprint(sources: Iterable[str], worker: str, settings: dict[str, Any]) -> str:
    """What a result depends on: files of the package, the worker, the job's settings."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    digest.update((Path(__file__).parent / "workers" / f"{worker}.py").read_bytes())
    for source in sorted(sources):
        digest.update(_source_digest(source))
    return digest.hexdigest()[:16]


def _source_digest(source: str) -> bytes:
    if source == "package":
        # What only reports or draws does not move results, nor does training in other places.
        apart = {
            "cli",
            "report",
            "plots.py",
            "assessment.py",
            "datasets",
            "baselines.py",
            "metrics",
        }
        apart |= {"dask", "external_memory"}
        files = [
            path
            for folder in (ROOT / "survival_objectives", ROOT / "adapters")
            for path in folder.rglob("*.py")
            if not apart & set(path.relative_to(folder).parts)
            and not path.name.startswith("_dask_")
        ]
    else:
        files = [ROOT / "survival_objectives" / source]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).digest()


def revision() -> str:
    """Commit of the project, with "+" where files of the package differ from it."""
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--", "survival_objectives", "adapters")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}+" if changed else commit


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@cache
def machine() -> dict[str, Any]:
    """Processor, cores, memory and system; nothing that names the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": platform.system(),
        "architecture": platform.machine(),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return platform.processor() or "unknown"

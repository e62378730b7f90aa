"""Where benchmark results go, with what a reader needs to judge and repeat them."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "machine", "write_result"]

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "survival-objectives",
    "xgboost",
    "lightgbm",
    "catboost",
    "numba",
    "dask",
    "numpy",
    "scikit-learn",
    "scikit-survival",
    "lifelines",
)


def machine() -> dict[str, Any]:
    """Cores, memory, Python, package versions and date."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "python": platform.python_version(),
        "versions": versions,
    }


def write_result(name: str, content: dict[str, Any]) -> None:
    """Write ``content`` with the machine to results/name.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **content}, indent=1) + "\n")
    print(f"Written to {path.relative_to(Path(__file__).parent.parent)}.")

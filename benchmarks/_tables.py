"""Tables of the report: records as frames, and frames as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._comparison import METRICS, Metric, standard_error
from benchmarks._contenders import CONTENDERS, contender
from benchmarks._records import Store
from benchmarks._suites import SCORING, SIZES, jobs_of

__all__ = [
    "TIE",
    "cell",
    "fate",
    "latest",
    "levels",
    "markdown",
    "name_of",
    "ok",
    "score_table",
]

TIE = "≈"
# Printed a thousand times as large.
_SMALL = ("km_calibration", "x_calibration", "aj_calibration")


def latest(suite: str, folder: Path) -> pd.DataFrame:
    """The last record of each job that the suite still has, metrics as columns."""
    known: dict[str, int] = {}
    for size in SIZES:
        for job in jobs_of(suite, size):
            known.setdefault(job.key, len(known))
    rows = [
        {**record, **_comparable(record)}
        for key, record in Store(suite, folder).latest().items()
        if key in known
    ]
    rows.sort(key=lambda row: (known[row["key"]], row["key"]))
    table = pd.DataFrame(rows)
    for column in METRICS:
        if not table.empty and column not in table:
            table[column] = np.nan
    numbers = [column for column in METRICS if column in table]
    table[numbers] = table[numbers].apply(pd.to_numeric) if numbers else table
    return table


#: Read off 32 nodes before version 2 of the scoring, which is too coarse.
_COARSE = ("d_calibration_p", "x_calibration", "mae", "mse")


def _comparable(record: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of a record but for those that were computed in another way then."""
    settings, metrics = record["settings"], dict(record["metrics"])
    if settings["kind"] == "survival" and settings["scoring"] < SCORING["survival"]:
        metrics |= dict.fromkeys(set(_COARSE) & set(metrics))
    return metrics


def ok(table: pd.DataFrame) -> pd.DataFrame:
    """Jobs that ended with a result."""
    return table[table["status"] == "ok"]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column holds names."""
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def name_of(contender_name: str) -> str:
    """The label of a contender; ours in bold."""
    text = contender(contender_name).label
    if contender_name.endswith(" tuned"):
        text += ", tuned"
    return f"**{text}**" if contender_name.startswith("ours") else text


def score_table(part: pd.DataFrame, columns: Sequence[str], *, splits: bool) -> str:
    """Contenders by metrics, best first by the first one; those without a result at the end."""
    good = ok(part)
    n_seeds = part["seed"].nunique()
    values = {
        column: {
            name: rows.set_index("seed")[column].dropna()
            for name, rows in good.groupby("contender", sort=False)
        }
        for column in columns
    }
    marks = {column: _marks(METRICS[column], values[column], splits) for column in columns}
    metric = METRICS[columns[0]]
    names = list(dict.fromkeys(part["contender"]))
    means = {name: values[columns[0]].get(name, pd.Series(dtype=float)).mean() for name in names}
    names.sort(key=lambda name: _rank(means[name], metric))
    rows = []
    for name in names:
        own = part[part["contender"] == name]
        n_ok = int((own["status"] == "ok").sum())
        label = name_of(name)
        if n_ok == 0:
            rows.append([label, fate(own), *[""] * (len(columns) - 1)])
            continue
        if n_ok < n_seeds:
            label += f" ({n_ok} of {n_seeds})"
        rows.append(
            [label, *(cell(METRICS[c], values[c].get(name), marks[c].get(name)) for c in columns)]
        )
    return markdown(["", *(METRICS[column].label for column in columns)], rows)


def _rank(mean: float, metric: Metric) -> tuple[bool, float]:
    return bool(np.isnan(mean)), mean if metric.lower else -mean


def _marks(metric: Metric, values: Mapping[str, pd.Series], splits: bool) -> dict[str, str]:
    """Which contender is best, and who is within a standard error of it on the shared seeds."""
    most = max((len(series) for series in values.values()), default=0)
    full = {name: series for name, series in values.items() if len(series) == most and most}
    if not full:
        return {}
    best = min(full, key=lambda name: full[name].mean() * (1 if metric.lower else -1))
    marks = {best: "best"}
    for name, series in full.items():
        shared = series.index.intersection(full[best].index)
        difference = (series[shared] - full[best][shared]).to_numpy()
        error = standard_error(difference, splits=splits)
        if name != best and abs(difference.mean()) <= error:
            marks[name] = "tie"
    return marks


def cell(metric: Metric, series: pd.Series | None, mark: str | None) -> str:
    """Mean and spread of a metric, marked where it is best or nearly so."""
    if series is None or series.empty:
        return "–"
    scale = 1000 if metric.name in _SMALL else 1
    text = f"{scale * series.mean():.{metric.digits}f}"
    if mark == "best":
        text = f"**{text}**"
    elif mark == "tie":
        text = f"{TIE} {text}"
    if len(series) > 1:
        text += f" ± {scale * series.std(ddof=1):.{metric.digits}f}"
    return text


def fate(rows: pd.DataFrame) -> str:
    """What became of a contender without a result."""
    counts = Counter(rows["status"])
    return ", ".join(f"{status}" for status, _ in counts.most_common())


# ---------------------------------------------------------------------------------------- sections
def levels(table: pd.DataFrame, column: str) -> str:
    """Contenders by cases, means over seeds; the best of each case in bold."""
    cases = list(dict.fromkeys(table["case"]))
    names = list(dict.fromkeys(table["contender"]))
    names.sort(key=lambda name: list(CONTENDERS).index(name))
    metric = METRICS[column]
    means = ok(table).groupby(["contender", "case"])[column].mean()
    best = means.groupby("case").min()
    rows = []
    for name in names:
        row = [name_of(name)]
        for case in cases:
            own = table[(table["contender"] == name) & (table["case"] == case)]
            if (name, case) in means.index:
                value = means[name, case]
                text = f"{value:.{metric.digits}f}"
                row.append(f"**{text}**" if value == best[case] else text)
            else:
                row.append(fate(own) if len(own) else "")
        rows.append(row)
    return markdown(["", *cases], rows)

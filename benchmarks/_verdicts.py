"""Who wins, ties and loses, in words and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._comparison import METRICS, Comparison, compare
from benchmarks._contenders import HAZARDS_DEFAULT, OURS, contender
from benchmarks._suites import SUITES
from benchmarks._tables import markdown, name_of, ok

__all__ = [
    "SPLIT_SUITES",
    "comparisons",
    "counts",
    "listed",
    "losses",
    "verdicts",
    "verdicts_page",
    "with_error",
]

#: Where seeds are splits of one table, whose training people overlap.
SPLIT_SUITES = ("survival", "real", "burk", "survset")
#: Our contenders, whose results are compared with those of all others.
JUDGED_CONTENDERS = (*OURS, f"{HAZARDS_DEFAULT} tuned")


def with_error(mean: float, error: float) -> str:
    return f"{mean:+.1f}" if np.isnan(error) else f"{mean:+.1f} ± {error:.1f}"


#: What is compared where.
_JUDGED = {
    "survival": ("ibs", "cen_log_simple", "c_index", "auc", "mae", "fit_cpu"),
    "competing": ("ise_x1000", "fit_cpu"),
    "real": ("ibs", "log_loss", "c_index", "auc", "fit_cpu"),
    "speed": ("fit_cpu", "predict_cpu", "peak_mib"),
    "truths": ("ise_x1000", "fit_cpu"),
    "burk": ("isbs", "fit_cpu"),
    "survset": ("ibs", "cen_log_simple", "c_index", "fit_cpu"),
}
_WORDS = {"win": "win", "tie": "tie", "lose": "**lose**", "one run": "one run"}


def comparisons(table: pd.DataFrame, suite: str, ours: str) -> list[dict[str, Any]]:
    """Ours against every other contender, in each group of cases and by each metric."""
    good = ok(table)
    found = []
    for group, part in good.groupby("group", sort=False):
        by_name = {
            name: rows.set_index(["case", "seed"])
            for name, rows in part.groupby("contender", sort=False)
        }
        own = by_name.get(ours)
        if own is None or (suite == "speed" and group != "n"):
            continue
        is_tuned = ours.endswith(" tuned")
        for name, rows in by_name.items():
            is_rival = not str(name).startswith(("ours", "floor"))
            if not is_rival or name.endswith(" tuned") != is_tuned:
                continue
            for column in _JUDGED[suite]:
                verdict = compare(
                    METRICS[column],
                    own[column].dropna().to_dict(),
                    rows[column].dropna().to_dict(),
                    splits=suite in SPLIT_SUITES,
                )
                if verdict is not None:
                    found.append(
                        {
                            "suite": suite,
                            "group": group,
                            "contender": name,
                            "metric": column,
                            "comparison": verdict,
                        }
                    )
    return found


Verdicts = Mapping[str, list[dict[str, Any]]]


def verdicts(tables: Mapping[str, pd.DataFrame]) -> Verdicts:
    """All comparisons with other packages, by our contender."""
    judged = {name: tables[name] for name in _JUDGED if not tables[name].empty}
    return {
        ours: [row for name, table in judged.items() for row in comparisons(table, name, ours)]
        for ours in JUDGED_CONTENDERS
    }


def losses(everyone: Verdicts) -> str:
    """Comparisons of quality that HazardBoost on the default engine loses, as a list."""
    return listed(everyone[HAZARDS_DEFAULT], "lose") or "None of the comparisons with several runs."


def verdicts_page(everyone: Verdicts) -> str:
    """Ties, and all comparisons of HazardBoost on the default engine."""
    if not any(everyone.values()):
        return "There are no pairs to compare yet."
    parts = [
        "### What we tie: quality, HazardBoost on XGBoost",
        listed(everyone[HAZARDS_DEFAULT], "tie") or "None of the comparisons with several runs.",
        "### Every comparison of HazardBoost on XGBoost",
    ]
    for suite in _JUDGED:
        rows = [row for row in everyone[HAZARDS_DEFAULT] if row["suite"] == suite]
        parts.append(_verdict_table(suite, rows))
    tuned = everyone[f"{HAZARDS_DEFAULT} tuned"]
    if tuned:
        parts.append("### The same, both tuned")
        parts.append(_verdict_table("survival", tuned))
    return "\n\n".join(part for part in parts if part)


_COSTS = ("fit_cpu", "predict_cpu", "peak_mib")


def counts(everyone: Verdicts) -> str:
    """How many comparisons are won, tied and lost."""
    rows = []
    for ours, found in everyone.items():
        if not found:
            continue
        row = [name_of(ours)]
        for is_cost in (False, True):
            counts = Counter(
                one["comparison"].verdict for one in found if (one["metric"] in _COSTS) == is_cost
            )
            row += [str(counts[verdict]) for verdict in ("win", "tie", "lose", "one run")]
        rows.append(row)
    verdicts = ["tie", "lose", "one run"]
    header = ["", "quality: win", *verdicts, "time, memory: win", *verdicts]
    return markdown(header, rows) if rows else ""


def listed(found: Sequence[Mapping[str, Any]], wanted: str) -> str:
    """Comparisons of quality with the wanted verdict, as a list."""
    lines = []
    for row in found:
        comparison: Comparison = row["comparison"]
        if comparison.verdict == wanted and row["metric"] not in _COSTS:
            lines.append(
                f"- {_place(row)}, {METRICS[row['metric']].label}: "
                f"{contender(row['contender']).label}, {_advantage(row)}"
            )
    return "\n".join(lines)


def _place(row: Mapping[str, Any]) -> str:
    if row["suite"] in SPLIT_SUITES:
        return str(row["group"])
    if row["suite"] == "speed":
        return "speed over n"
    if row["suite"] == "truths":
        return f"truths to {row['group']} on"
    named = {"base": "simulated, base case", "polar": "simulated, not linear"}
    return named.get(row["group"], f"simulated, over {row['group']}")


def _advantage(row: Mapping[str, Any]) -> str:
    """How far ours is ahead; for time and memory, how many times as much the other takes."""
    comparison: Comparison = row["comparison"]
    if row["metric"] in _COSTS:
        return f"×{np.exp(comparison.mean / 100):.2g}"
    return f"{with_error(comparison.mean, comparison.error)} {METRICS[row['metric']].unit}"


def _verdict_table(suite: str, found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return ""
    columns = [column for column in _JUDGED[suite] if any(r["metric"] == column for r in found)]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in found:
        place = cells.setdefault((_place(row), row["contender"]), {})
        word = _WORDS[row["comparison"].verdict]
        place[row["metric"]] = f"{word} {_advantage(row)}"
    rows = [
        [f"{place}: {contender(name).label}", *(verdicts.get(column, "") for column in columns)]
        for (place, name), verdicts in cells.items()
    ]
    title = SUITES[suite].title
    return markdown([title, *(METRICS[column].label for column in columns)], rows)


# ---------------------------------------------------------------------------------------- failures

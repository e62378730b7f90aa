"""RESULTS.md and a page per suite from the records: tables, figures, and who wins, all computed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._comparison import METRICS
from benchmarks._contenders import HAZARDS, OURS, contender
from benchmarks._pages import (
    PAGES,
    TRUTH_HALVES,
    accepted,
    burk_ranks,
    null_ratios,
    truth_ratios,
)
from benchmarks._records import SUITE_RESULTS
from benchmarks._suites import SUITES
from benchmarks._tables import TIE, latest, markdown, name_of, ok
from benchmarks._verdicts import comparisons, counts, losses, verdicts, verdicts_page

__all__ = ["REPORT", "write_report"]

REPORT = Path(__file__).parent / "RESULTS.md"
COMMENTS = Path(__file__).parent / "comments.md"
_WRITTEN = "Written by `python -m benchmarks report`; do not edit."


def write_report(folder: Path = SUITE_RESULTS, path: Path = REPORT) -> Path:
    """Write the summary to ``path``; pages and figures go to folders beside it."""
    tables = {name: latest(name, folder) for name in SUITES}
    if all(table.empty for table in tables.values()):
        msg = f"There are no results in {str(folder)!r}. Run a suite first."
        raise ValueError(msg)
    figures, pages = path.parent / "figures", path.parent / "results"
    pages.mkdir(parents=True, exist_ok=True)
    everyone = verdicts(tables)
    for name, page in PAGES.items():
        if not tables[name].empty:
            text = page(tables[name], figures, path.parent)
            _write(pages / f"{name}.md", SUITES[name].title, text)
    _write(pages / "comparisons.md", "Every comparison", verdicts_page(everyone))
    _write(pages / "failures.md", "Without a result", _failures(tables))
    parts = [
        _head(tables),
        _pages_list(tables),
        *(summary(tables) for summary in (_truths, _burk, _survival, _real)),
        "## What we win, tie and lose",
        "Computed from paired differences over splits or seeds; the rule is in "
        "[_comparison.py](_comparison.py). A win or loss is beyond the 95 % interval of the mean; "
        "factors of the simulation and sizes are pooled over their levels; single runs "
        "are left out. Numbers are how far ours is ahead, in per "
        "cent (100 log ratio) or points.",
        counts(everyone),
        "### What we lose: quality, HazardBoost on XGBoost",
        losses(everyone),
    ]
    if COMMENTS.exists():
        parts.append(COMMENTS.read_text().strip())
    path.write_text("\n\n".join(part for part in parts if part) + "\n")
    return path


def _write(path: Path, title: str, text: str) -> None:
    back = "Summary, machine and versions: [RESULTS.md](../RESULTS.md)."
    path.write_text(f"# {title}\n\n{_WRITTEN} {back}\n\n{_raised(text)}\n")


def _raised(text: str) -> str:
    """Headings of sections, now that each page has its own title."""
    return "\n".join(
        line.removeprefix("#") if line.startswith("### ") else line for line in text.splitlines()
    )


# -------------------------------------------------------------------------------------------- head
def _head(tables: Mapping[str, pd.DataFrame]) -> str:
    columns = ["machine", "contender", "revision", "date", "versions"]
    every = pd.concat([table[columns] for table in tables.values() if not table.empty])
    machines = sorted({_machine(machine) for machine in every["machine"]})
    ours = every[every["contender"].str.startswith("ours")]
    revisions = list(dict.fromkeys(ours.sort_values("date")["revision"])) or ["none"]
    lines = [
        "# Results",
        "",
        f"{_WRITTEN} What is compared, how and with which limits is in [README.md](README.md); "
        "every run is a line of [results/suites](results/suites).",
        "",
        f"- Runs: {every['date'].min()[:10]} to {every['date'].max()[:10]}, {len(every)} jobs.",
        *(f"- Machine: {machine}." for machine in machines),
        f"- This project at {', '.join(f'`{revision}`' for revision in revisions)} "
        "(`+`: with changes not yet committed).",
        f"- Versions: {_versions(every)}.",
        "- Best in **bold**; "
        f"{TIE}: within one standard error of the best, by paired differences. "
        "± is the standard deviation over splits or seeds.",
    ]
    return "\n".join(lines)


def _pages_list(tables: Mapping[str, pd.DataFrame]) -> str:
    lines = [
        f"- [{SUITES[name].title}](results/{name}.md)" for name in PAGES if not tables[name].empty
    ]
    lines += [
        "- [Every comparison](results/comparisons.md)",
        "- [Without a result](results/failures.md): what did not install, run or finish, and why",
    ]
    return "## Pages\n\n" + "\n".join(lines)


def _machine(machine: Mapping[str, Any]) -> str:
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']:g} GiB, "
        f"{machine['system']} {machine['architecture']}"
    )


def _versions(table: pd.DataFrame) -> str:
    found: dict[str, set[str]] = {}
    for versions in table["versions"]:
        for package, version in (versions or {}).items():
            found.setdefault(package, set()).add(version)
    return ", ".join(f"{name} {' and '.join(sorted(found[name]))}" for name in sorted(found))


# --------------------------------------------------------------------------------------- summaries
def _truths(tables: Mapping[str, pd.DataFrame]) -> str:
    good = tables["truths"]
    rows = []
    for half, title in TRUTH_HALVES.items() if not good.empty else ():
        part = ok(good[good["group"] == half])
        for name in HAZARDS:
            ratios = truth_ratios(part, name)
            if ratios.empty:
                continue
            worst = ratios.loc[ratios["ratio"].idxmax()]
            rows.append(
                [
                    f"{name_of(name)}, {title.lower()}",
                    str(len(ratios)),
                    f"{ratios['ratio'].mean():.2f}",
                    f"{worst['ratio']:.2f} ({worst['case']}; {contender(worst['rival']).label})",
                    str((ratios["ratio"] > 1.10).sum()),
                    f"{ratios['marginal'].max():.2f}",
                ]
            )
    if not rows:
        return ""
    header = ["", "families", "mean ratio", "largest (family; who)", "above 1.10"]
    return (
        "## Truths of several families\n\nError to the known truth over that of the best other "
        "contender or setting, family by family ([truths](results/truths.md)); the last column is "
        "the largest error over the marginal curve's.\n\n"
        + markdown([*header, "largest, to the marginal curve"], rows)
    )


def _burk(tables: Mapping[str, pd.DataFrame]) -> str:
    good = ok(tables["burk"]) if not tables["burk"].empty else tables["burk"]
    if good.empty:
        return ""
    ranks, n_learners = burk_ranks(good)
    means = ranks.groupby("contender", sort=False)["rank"].mean().sort_values()
    cpu = good.groupby("contender")["fit_cpu"].mean()
    rows = [
        [
            name_of(str(name)),
            f"{rank:.2f}",
            f"{cpu[name]:.2f}",
        ]
        for name, rank in means.items()
    ]
    return (
        "## The neutral benchmark of Burk et al.\n\n"
        f"Mean rank among the authors' {n_learners} tuned learners and the contender itself, over "
        f"{ranks['case'].nunique()} tables ([burk](results/burk.md)); all contenders here run "
        "at defaults.\n\n" + markdown(["", "mean rank", "CPU seconds per fit"], rows)
    )


def _survival(tables: Mapping[str, pd.DataFrame]) -> str:
    table = tables["survival"]
    if table.empty:
        return ""
    good = ok(table[~table["contender"].str.endswith(" tuned")])
    rows = []
    for case, part in good.groupby("case", sort=False):
        means = part.groupby("contender")[["ibs", "cen_log_simple"]].mean()
        others = means[~means.index.str.startswith("ours")]
        best = {c: others[c].idxmin() for c in others} if len(others) else {}
        names = [*OURS, *dict.fromkeys(["marginal", *best.values()])]
        for name in names:
            own = part[part["contender"] == name]
            if own.empty:
                continue
            excluded = own["n_excluded"].dropna()
            rows.append(
                [
                    f"{case}: {name_of(name)}",
                    *(f"{own[c].mean():.{METRICS[c].digits}f}" for c in means),
                    accepted(own["d_calibration_p"]),
                    f"{excluded.sum():.0f}" if len(excluded) else "–",
                ]
            )
    header = [METRICS["ibs"].label, METRICS["cen_log_simple"].label]
    return (
        "## METABRIC, SUPPORT and GBSG\n\nMean of five splits at defaults: ours, Kaplan-Meier, and "
        "the best of all others by either score ([survival](results/survival.md), with figures "
        "quoted from the paper). D-calibration: splits in which it is not rejected.\n\n"
        + markdown(["", *header, "D-calibrated", "events excluded"], rows)
    )


def _real(tables: Mapping[str, pd.DataFrame]) -> str:
    good = ok(tables["real"]) if not tables["real"].empty else tables["real"]
    if good.empty:
        return ""
    rows = []
    for name in OURS:
        own = good[good["contender"] == name]
        ratios = null_ratios(good, name)
        if own.empty or ratios.empty:
            continue
        above = ratios[ratios["ratio"] > 1]
        named = ", ".join(f"{row.case} {row.cause} ({row.ratio:.3f})" for row in above.itertuples())
        lost = [
            f"{row['group']}: {contender(row['contender']).label}"
            for row in comparisons(good, "real", name)
            if row["metric"] == "ibs" and row["comparison"].verdict == "lose"
        ]
        rows.append(
            [
                name_of(name),
                f"{np.exp(np.log(ratios['ratio']).mean()):.3f}",
                f"{len(above)} of {len(ratios)}" + (f": {named}" if named else ""),
                "; ".join(lost) or "none",
            ]
        )
    if not rows:
        return ""
    header = ["mean ratio to the null model", "causes above the null model", "losses (95 %)"]
    return (
        "## Real competing risks\n\nIntegrated Brier score of each cause over that of the "
        "Aalen-Johansen curve, mean of the splits, and tables whose score is lost to a contender "
        "([real](results/real.md)).\n\n" + markdown(["", *header], rows)
    )


# ---------------------------------------------------------------------------------------- failures
def _failures(tables: Mapping[str, pd.DataFrame]) -> str:
    rows = []
    for name, table in tables.items():
        if table.empty:
            continue
        lost = table[table["status"] != "ok"]
        groups = lost.groupby(["contender", "status", "reason"], sort=False)
        for (who, status, reason), part in groups:
            cases = ", ".join(dict.fromkeys(part["case"]))
            label = contender(str(who)).label
            variants = ", ".join(variant for variant in dict.fromkeys(part["variant"]) if variant)
            shown = f"{label} ({variants})" if variants else label
            if str(who).endswith(" tuned"):
                shown += ", tuned"
            rows.append([shown, name, cases, str(len(part)), str(status), str(reason)])
    if not rows:
        return "Every job of every contender ended with a result."
    header = ["contender", "suite", "cases", "jobs", "status", "reason"]
    return markdown(header, [[cell.replace("|", "/") for cell in row] for row in rows])

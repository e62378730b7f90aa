"""Figures of the report: SVG, the same bytes for the same results, safe for the colour-blind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks._contenders import CONTENDERS, contender

__all__ = [
    "draw_ablations",
    "draw_growth",
    "draw_real",
    "draw_speed",
    "draw_survival",
    "draw_truth",
]

# Colours of Okabe and Ito, the strong ones for our contenders; markers differ as well.
_STYLE = {
    "ours-hazards-xgboost": ("#D55E00", "s"),
    "ours-hazards-lightgbm": ("#0072B2", "o"),
    "ours-hazards-catboost": ("#009E73", "D"),
    "ours-survivalboost": ("#8C2D04", "v"),
    "ours-hazard-objective": ("#D55E00", "x"),
    "ours-ipcw-objective": ("#8C2D04", "+"),
    "hazardous": ("#000000", "X"),
    "marginal": ("#999999", "_"),
    "cox": ("#E69F00", "^"),
    "discrete-time": ("#CC79A7", "v"),
    "fine-gray": ("#B8860B", "<"),
    "comprisk-forest": ("#56B4E9", "P"),
    "rsf": ("#56B4E9", "P"),
    "rsf-leaf15": ("#56B4E9", "p"),
    "gbs": ("#882255", "h"),
    "xgboost-cox": ("#AA4499", "1"),
    "xgboost-aft": ("#AA4499", "2"),
    "xgbse-debiased": ("#44AA99", "3"),
    "xgbse-weibull": ("#44AA99", "4"),
    "deephit": ("#332288", "*"),
    "pchazard": ("#332288", "d"),
    "dsm": ("#117733", "*"),
    "sumo-net": ("#117733", "d"),
    "floor-lightgbm": ("#0072B2", "o"),
    "floor-xgboost": ("#D55E00", "s"),
    "floor-catboost": ("#009E73", "D"),
}
_SETTINGS = {
    "svg.hashsalt": "survival-objectives",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
}
_AXES = {
    "n": ("people", True),
    "censoring": ("share censored", False),
    "causes": ("competing causes", False),
    "features": ("features, 6 of which matter", True),
    "rounds": ("rounds", True),
}


def _save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    return path


def _label(name: str) -> str:
    text = contender(name).label
    return f"{text}, tuned" if name.endswith(" tuned") else text


def _in_order(names: Sequence[str]) -> list[str]:
    order = list(CONTENDERS)
    return sorted(set(names), key=lambda name: order.index(name.removesuffix(" tuned")))


def _by_people(panel: Any, label: str) -> None:
    """Logarithmic axes: a measure against the number of people."""
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("people")
    panel.set_ylabel(label)
    _plain_log(panel.xaxis)
    _plain_log(panel.yaxis)


def _plain_log(axis: Any) -> None:
    low, high = axis.get_view_interval()
    steps = (1, 2, 5) if high < 100 * low else (1,)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axis.set_minor_formatter(NullFormatter())


def _short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def draw_survival(table: pd.DataFrame, path: Path) -> Path | None:
    """Integrated Brier score against fit time, a panel a data set."""
    table = table[~table["contender"].str.endswith(" tuned")]
    cases = list(dict.fromkeys(table["case"]))
    if not cases:
        return None
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(4.2 * len(cases) + 2.6, 4.2), layout="constrained")
        panels = figure.subplots(1, len(cases), squeeze=False)[0]
        for panel, case in zip(panels, cases, strict=True):
            part = table[table["case"] == case].groupby("contender")
            for name in _in_order(list(part.groups)):
                rows = part.get_group(name)
                colour, marker = _STYLE[name]
                panel.errorbar(
                    max(rows["fit_cpu"].mean(), 0.01),
                    rows["ibs"].mean(),
                    yerr=_error_of_mean(rows["ibs"]),
                    color=colour,
                    marker=marker,
                    markersize=9 if name.startswith("ours") else 7,
                    linestyle="none",
                    elinewidth=0.8,
                    label=_label(name),
                )
            panel.set_xscale("log")
            _plain_log(panel.xaxis)
            panel.set_title(case, loc="left")
            panel.set_xlabel("fit, CPU seconds")
        panels[0].set_ylabel("integrated Brier score (lower is better)")
        _legend(figure, panels)
        return _save(figure, path)


def _legend(figure: Figure, panels: Any) -> None:
    """One legend for all panels, each name once."""
    found: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(found.values(), found.keys(), loc="outside right upper", fontsize=8)


def _error_of_mean(values: pd.Series) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def draw_truth(table: pd.DataFrame, path: Path) -> Path | None:
    """Error to the truth along each factor; the base case is a point of every panel.

    A factor that ours have not been run on has no panel.
    """
    base_levels = {"n": 20_000.0, "censoring": 0.5, "causes": 3.0, "features": 6.0}
    ours = table[table["contender"].str.startswith("ours")]
    groups = [group for group in base_levels if (ours["group"] == group).any()]
    if not groups:
        return None
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(9.6, 6.4 if len(groups) > 2 else 3.6), layout="constrained")
        panels = figure.subplots(1 + (len(groups) > 2), 2, squeeze=False).ravel()
        for panel in panels[len(groups) :]:
            panel.set_visible(False)
        base = table[table["group"] == "base"]
        for panel, group in zip(panels, groups, strict=False):
            part = table[table["group"] == group]
            both = pd.concat([part, base.assign(level=base_levels[group])])
            both = both[both["contender"].isin(part["contender"])]
            for name in _in_order(list(both["contender"])):
                means = both[both["contender"] == name].groupby("level")["ise_x1000"].mean()
                colour, marker = _STYLE[name]
                panel.plot(
                    means.index,
                    means.to_numpy(),
                    color=colour,
                    marker=marker,
                    markersize=6,
                    linewidth=1.8 if name.startswith("ours") else 1.2,
                    linestyle="-" if name.startswith("ours") else "--",
                    label=_label(name),
                )
            label, is_log = _AXES[group]
            panel.set_xlabel(label)
            if is_log:
                panel.set_xscale("log")
                _plain_log(panel.xaxis)
            panel.set_yscale("log")
            _plain_log(panel.yaxis)
            panel.set_ylabel("error to the truth × 1000")
        _legend(figure, panels[: len(groups)])
        return _save(figure, path)


_PANELS_A_ROW = 4


def draw_real(table: pd.DataFrame, path: Path) -> Path | None:
    """Integrated Brier score relative to the marginal curve: a panel a table, a row a contender."""
    marginal = table[table["contender"] == "marginal"].set_index(["case", "seed"])["ibs"]
    if marginal.empty:
        return None
    known = table.set_index(["case", "seed"]).join(marginal.rename("marginal"), how="inner")
    known["ratio"] = known["ibs"] / known["marginal"]
    known = known.reset_index()
    cases = list(dict.fromkeys(known["case"]))
    names = [name for name in _in_order(list(known["contender"])) if name != "marginal"]
    if not names:
        return None
    with mpl.rc_context(_SETTINGS):
        n_columns = min(len(cases), _PANELS_A_ROW)
        n_rows = -(-len(cases) // n_columns)
        size = (2.0 * n_columns + 2.6, n_rows * (0.22 * len(names) + 0.6) + 0.6)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(n_rows, n_columns, squeeze=False, sharey=True).ravel()
        for panel in panels[len(cases) :]:
            panel.set_visible(False)
        for panel, case in zip(panels, cases, strict=False):
            panel.axvline(1, color="#999999", linewidth=1)
            for row, name in enumerate(reversed(names)):
                values = known[(known["case"] == case) & (known["contender"] == name)]["ratio"]
                if values.empty:
                    continue
                colour, marker = _STYLE[name]
                panel.errorbar(
                    values.mean(),
                    row,
                    xerr=_error_of_mean(values),
                    color=colour,
                    marker=marker,
                    markersize=7,
                    linestyle="none",
                )
            panel.set_title(case, loc="left")
            panel.set_yticks(range(len(names)), [_label(name) for name in reversed(names)])
        figure.supxlabel("integrated Brier score / that of the marginal curve", fontsize=9)
        return _save(figure, path)


def draw_speed(table: pd.DataFrame, path: Path) -> Path | None:
    """CPU time of fit and peak memory against the number of people."""
    part = table[table["group"] == "n"]
    if not part["contender"].str.startswith("ours").any():
        return None
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(10.6, 4.0), layout="constrained")
        panels = figure.subplots(1, 2)
        for panel, column, label in zip(
            panels, ("fit_cpu", "peak_mib"), ("fit, CPU seconds", "peak memory, MiB"), strict=True
        ):
            for name in _in_order(list(part["contender"])):
                rows = part[part["contender"] == name].groupby("level")[column].mean()
                colour, marker = _STYLE[name]
                is_floor = name.startswith("floor")
                panel.plot(
                    rows.index,
                    rows.to_numpy(),
                    color=colour,
                    marker=marker,
                    markerfacecolor="white" if is_floor else colour,
                    linestyle=":" if is_floor else "-",
                    linewidth=1.4,
                    label=_label(name),
                )
            _by_people(panel, label)
        _legend(figure, panels)
        return _save(figure, path)


def draw_growth(table: pd.DataFrame, path: Path) -> Path:
    """Error to the truth, CPU time and peak memory of fits, a line per engine and population.

    ``table`` has the columns engine, family, n, error, cpu and peak_mib, ordered by engine.
    """
    measures = (
        ("error", "error to the truth × 1000"),
        ("cpu", "fit, CPU seconds"),
        ("peak_mib", "peak memory, MiB"),
    )
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(12.4, 4.0), layout="constrained")
        panels = figure.subplots(1, len(measures))
        for panel, (column, label) in zip(panels, measures, strict=True):
            for (engine, family), rows in table.groupby(["engine", "family"], sort=False):
                colour, marker = _STYLE[f"ours-hazards-{engine}"]
                is_first = family == table["family"].iloc[0]
                means = rows.groupby("n")[column].mean()
                panel.plot(
                    means.index,
                    means.to_numpy(),
                    color=colour,
                    marker=marker,
                    markerfacecolor=colour if is_first else "white",
                    linestyle="-" if is_first else "--",
                    linewidth=1.4,
                    label=f"{engine}, {family}",
                )
            _by_people(panel, label)
        _legend(figure, panels)
        return _save(figure, path)


def draw_ablations(table: pd.DataFrame, path: Path) -> Path | None:
    """Change of the error to the truth by each variant, with standard errors over seeds.

    ``table`` has the columns case, group, variant, change and error, in order of display.
    """
    if table.empty:
        return None
    cases = list(dict.fromkeys(table["case"]))
    variants = list(dict.fromkeys(zip(table["group"], table["variant"], strict=True)))
    with mpl.rc_context(_SETTINGS):
        height = 0.2 * len(variants) + 1.2
        figure = Figure(figsize=(3.2 * len(cases) + 3.0, height), layout="constrained")
        panels = figure.subplots(1, len(cases), squeeze=False, sharey=True)[0]
        questions = list(dict.fromkeys(group for group, _ in variants))
        colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9"]
        for panel, case in zip(panels, cases, strict=True):
            panel.axvline(0, color="#999999", linewidth=1)
            for row, (group, variant) in enumerate(reversed(variants)):
                values = table[
                    (table["case"] == case)
                    & (table["group"] == group)
                    & (table["variant"] == variant)
                ]
                for change, error in zip(values["change"], values["error"], strict=True):
                    panel.errorbar(
                        change,
                        row,
                        xerr=None if np.isnan(error) else error,
                        color=colours[questions.index(group) % len(colours)],
                        marker="o",
                        markersize=5,
                        linestyle="none",
                    )
            panel.set_title(case, loc="left")
            panel.set_yticks(
                range(len(variants)),
                [
                    variant if group in (variant, "margins") else f"{group}: {variant}"
                    for group, variant in reversed(variants)
                ],
            )
        figure.supxlabel(
            "change of the error to the truth against the defaults, 100 × log of the ratio "
            "(right is worse; 69 is twice as much)",
            fontsize=9,
        )
        return _save(figure, path)

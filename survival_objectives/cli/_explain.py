"""``explain``: a page about one person, with their curves and SHAP values."""

from __future__ import annotations

import argparse
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray
from survival_objectives._process.files import replacing
from survival_objectives.cli._console import Console
from survival_objectives.cli._errors import CommandError
from survival_objectives.cli._folder import Schema, check_file, load_folder
from survival_objectives.cli._people import (
    log_odds_contributions,
    schema_features,
    schema_table,
)
from survival_objectives.estimators import HazardBoost

_N_STEPS = 120
_N_SHOWN = 12
# Readable on white and on black, and distinguishable for colour-blind readers.
_COLOURS = ("#b8c4ce", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6000")
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .2rem .5rem;
border-bottom: 1px solid #8884; font-weight: normal; } td.n { text-align: right;
font-variant-numeric: tabular-nums; } svg { width: 100%; height: auto; } svg text { font-size: 11px;
fill: currentColor; } .bar { height: .8rem; } small { opacity: .8; }
@media print { body { margin: 0; } }
"""


def run_explain(options: argparse.Namespace, console: Console) -> int:
    """Write a page about one person of a file."""
    inputs = [options.data, options.model]
    target = check_file(options.out, "--out", force=options.force, inputs=inputs, is_page=True)
    model, schema = load_folder(options.model)
    table = schema_table(options, schema)
    if options.row is None and table.n_rows > 1:
        msg = (
            f"{table.source} has {table.n_rows} people; choose one with --row 1 to --row "
            f"{table.n_rows}"
        )
        raise CommandError(msg)
    row = (options.row or 1) - 1
    if row >= table.n_rows:
        msg = f"--row is {row + 1}, but {table.source} has {table.n_rows} people; use a lower one"
        raise CommandError(msg)
    X = schema_features(table, schema, console).iloc[[row]]
    times = [float(time) for time in options.times] or _round_times(model)
    late = [time for time in times if time > model.times_[-1]]
    if late:
        console.warn(f"training ends at {model.times_[-1]:g}; curves are flat after it")
    title = options.title or f"{Path(table.source).name}, {table.place(row)}"
    with replacing(target) as file:
        file.write_text(_page(model, schema, X, times, title), encoding="utf-8")
    console.result(f"page: {target}")
    return 0


def _round_times(model: HazardBoost) -> list[float]:
    """Three times within the training period, rounded to two digits."""
    last = float(model.times_[-1])
    return [float(f"{share * last:.2g}") for share in (0.25, 0.5, 0.75)]


def _page(
    model: HazardBoost, schema: Schema, X: pd.DataFrame, times: list[float], title: str
) -> str:
    grid = np.linspace(0, max(float(model.times_[-1]), *times), _N_STEPS + 1)
    curves = model.predict_cumulative_incidence(X, grid)[0]
    at = model.predict_cumulative_incidence(X, times)[0]
    states = ["event-free", *schema.events.causes]
    unit = f" {schema.time_unit}" if schema.time_unit else ""
    middle = times[len(times) // 2]
    parts = [
        f"<h1>{escape(title)}</h1>",
        "<h2>Probability of each outcome over time</h2>",
        _chart(grid, curves, states, schema.time_unit or schema.duration or "time"),
        _table(
            ["", *(f"by {time:g}{unit}" for time in times)],
            [
                [name, *(f"{value:.1%}" for value in row)]
                for name, row in zip(states, at, strict=True)
            ],
        ),
        _median(model, X, unit),
    ]
    contributions = log_odds_contributions(model, X, middle)[0]
    names = [column.name for column in schema.columns]
    for code, name in enumerate(schema.events.causes):
        parts.append(f"<h2>What moves the risk of {escape(name)} by {middle:g}{escape(unit)}</h2>")
        parts.append(_bars(names, X, contributions[code, : len(names)]))
    parts.append(
        "<p><small>SHAP values: contributions to the log-odds of the event against being "
        "event-free, before curves are smoothed in time; the odds are multiplied by the factor "
        "shown. They describe the model, not causes.</small></p>"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="generator" content="survival-objectives">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _chart(times: FloatArray, curves: FloatArray, states: list[str], label: str) -> str:
    """Stacked probabilities of all states, the causes at the bottom."""
    width, height, left, bottom = 640, 280, 40, 40
    order = [*range(1, len(states)), 0]
    edges = np.cumsum(np.vstack([np.zeros(len(times)), curves[order]]), axis=0)
    x = left + times / times[-1] * (width - left - 10)
    y = 10 + (1 - np.clip(edges, 0, 1)) * (height - 10 - bottom)
    shapes = []
    for position, state in enumerate(order):
        points = [
            *zip(x, y[position + 1], strict=True),
            *zip(x[::-1], y[position][::-1], strict=True),
        ]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        shapes.append(
            f'<polygon points="{path}" fill="{_colour(state)}"><title>{escape(states[state])}'
            "</title></polygon>"
        )
    for share in (0, 0.5, 1):
        place = 10 + (1 - share) * (height - 10 - bottom)
        shapes.append(
            f'<text x="{left - 6}" y="{place + 4:.0f}" text-anchor="end">{share:.0%}</text>'
        )
    for share in (0, 0.25, 0.5, 0.75, 1):
        anchor = "end" if share == 1 else "middle"
        shapes.append(
            f'<text x="{left + share * (width - left - 10):.0f}" y="{height - 22}" '
            f'text-anchor="{anchor}">{share * times[-1]:.3g}</text>'
        )
    shapes.append(
        f'<text x="{width / 2}" y="{height - 4}" text-anchor="middle">{escape(label)}</text>'
    )
    legend = " ".join(
        f'<span style="color:{_colour(state)}">■</span> {escape(states[state])}'
        for state in reversed(order)
    )
    described = escape(f"Stacked probabilities of {', '.join(states)} over time")
    return (
        f'<p>{legend}</p><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{described}">{"".join(shapes)}</svg>'
    )


def _colour(state: int) -> str:
    return _COLOURS[0] if state == 0 else _COLOURS[1 + (state - 1) % (len(_COLOURS) - 1)]


def _median(model: HazardBoost, X: pd.DataFrame, unit: str) -> str:
    median = float(model.predict_quantile(X)[0])
    if np.isinf(median):
        return (
            f"<p>The probability of an event stays below one half up to {model.times_[-1]:.3g}"
            f"{escape(unit)}, where training ends.</p>"
        )
    return f"<p>With even odds, an event has happened by {median:.3g}{escape(unit)}.</p>"


def _bars(names: list[str], X: pd.DataFrame, values: FloatArray) -> str:
    """The largest contributions, each with the person's value and a bar."""
    order = np.argsort(-np.abs(values), kind="stable")[:_N_SHOWN]
    largest = float(np.abs(values).max()) or 1.0
    rows = []
    for column in order:
        value, share = values[column], abs(values[column]) / largest
        colour, word = ("#d55e00", "raises") if value > 0 else ("#0072b2", "lowers")
        cell = X.iloc[0, column]
        shown = f"{cell:g}" if isinstance(cell, float) else str(cell)
        shown = "missing" if pd.isna(cell) else shown
        rows.append(
            f"<tr><th>{escape(names[column])}</th><td>{escape(shown)}</td>"
            f'<td class="n">{word} · ×{np.exp(value):.2f}</td><td style="width:35%">'
            f'<div class="bar" style="width:{share:.0%};background:{colour}"></div></td></tr>'
        )
    rest = float(np.delete(values, order).sum())
    if len(values) > _N_SHOWN:
        rows.append(
            f"<tr><th>{len(values) - _N_SHOWN} others</th><td></td>"
            f'<td class="n">×{np.exp(rest):.2f}</td><td></td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"


def _table(head: list[str], rows: list[list[str]]) -> str:
    titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>"
        + "".join(f'<td class="n">{escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{titles}</tr>{body}</table>"

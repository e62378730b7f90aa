"""The charts of the report, from plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives.report._format import (
    count,
    distinct_names,
    number,
    percent,
    percent_tick,
    score,
    short_names,
)
from survival_objectives.report._svg import (
    WIDTH,
    Area,
    Label,
    label_length,
    label_room,
    nice_ticks,
)

_ROW = 27.0
_READ_OFF = 24


@dataclass(frozen=True)
class Figure:
    """A chart with its caption, and its numbers as a table for accessibility."""

    title: str
    svg: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Choice:
    """One figure per selectable time; the page shows one of them."""

    title: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Curve:
    """A line of a chart, with a band where limits are given.

    One that is not ``labelled`` belongs to the line before it, as the caption says.
    """

    name: str
    css: str
    y: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    labelled: bool = True


@dataclass(frozen=True)
class DotRow:
    """A value with its limits, and those it is the mean of; one without a value is a heading."""

    name: str
    css: str
    value: float
    low: float
    high: float
    tip: str
    parts: FloatArray = field(default_factory=lambda: np.empty(0))


def curves_chart(
    label: str,
    x: FloatArray,
    curves: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    steps: bool = False,
    shares: bool = False,
    y_max: float | None = None,
    at_risk: Sequence[tuple[float, int]] = (),
) -> str:
    """Lines over time with their names at the right end, and the number at risk below."""
    highest = max(
        float(np.nanmax(values))
        for curve in curves
        for values in (curve.y, curve.high)
        if values is not None and not np.isnan(values).all()
    )
    labelled = [curve for curve in curves if curve.labelled]
    longest = label_length(label_room(["M" * 99]) - 12)
    short = short_names([curve.name for curve in labelled], longest)
    room = label_room(short)
    top = y_max if y_max is not None else round_up(highest)
    area = Area(
        label,
        x=(0.0, float(x[-1])),
        y=(0.0, top),
        height=220 + (30 if at_risk else 0),
        bottom=36 + (30 if at_risk else 0),
        right=room,
    )
    area.y_axis(y_label, form=percent_tick if shares else number)
    area.x_axis(x_label, [time for time, _ in at_risk] or None)
    for curve in curves:
        if curve.low is not None and curve.high is not None:
            area.band(x, curve.low, curve.high, f"band {curve.css}", steps=steps)
    # The first curve is the one to look at, so it is drawn last.
    for curve in reversed(curves):
        area.line(x, curve.y, curve.css, steps=steps)
    labels = []
    for curve, name in zip(labelled, short, strict=True):
        known = curve.y[~np.isnan(curve.y)]
        tip = curve.name if name != curve.name else None
        if len(known):
            labels.append(Label(float(known[-1]), name, curve.css, tip))
    area.end_labels(labels)
    form = percent if shares else partial(score, decimals=4)
    _read_off(area, x_label, x, [(curve.name, curve.y) for curve in curves], form)
    for time, n_people in at_risk:
        area.add("text", "tick mid", count(n_people), x=area.px(time), y=area.bottom + 60)
    if at_risk:
        area.text(2, area.bottom + 47, "Still under observation", "name")
    return area.markup()


def dot_chart(
    label: str, rows: Sequence[DotRow], *, x_label: str, reference: float | None = None
) -> str:
    """One row per model or group: small dots are folds, the large dot the value, a bar its limits.

    At the ``reference`` there is a vertical line.
    """
    shown = [row for row in rows if not np.isnan(row.value)]
    values = [[row.value, row.low, row.high, *row.parts] for row in shown]
    spread = np.concatenate([*values, [] if reference is None else [reference]])
    low, high = float(np.nanmin(spread)), float(np.nanmax(spread))
    pad = 0.06 * (high - low) or 0.05 * abs(high) or 0.05
    height = 46 + _ROW * len(rows)
    names = short_names([row.name for row in rows], 24)
    left = 10 + 6.3 * max(len(name) for name in names)
    area = Area(
        label,
        x=(low - pad, high + pad),
        y=(len(rows) - 0.35, -0.5),
        height=height,
        left=max(60.0, left),
        right=10,
        top=6,
        bottom=40,
    )
    area.x_axis(x_label, nice_ticks(low - pad, high + pad, 4), grid=True)
    if reference is not None:
        place = area.px(reference)
        area.segment("line diagonal", (place, place), (area.top, area.bottom))
    for position, row in enumerate(rows):
        place = area.py(position)
        tip = row.name if names[position] != row.name else None
        css = f"label {row.css.split()[0]}-text"
        area.add("text", css, names[position], tip=tip, x=2, y=place + 4)
        if np.isnan(row.value):
            continue
        ends = area.px(row.low), area.px(row.high)
        if not np.isnan(ends).any():
            area.segment(f"line {row.css}", ends, (place, place))
        area.dot(row.value, position, 4.5, f"dot {row.css}", row.tip)
        for fold, value in enumerate(row.parts, start=1):
            if len(row.parts) > 1 and not np.isnan(value):
                # Below the mean, which would cover them.
                tip = f"{row.name}, fold {fold}: {value:.4f}"
                area.dot(value, position + 0.36, 2.2, f"fold {row.css}", tip)
    return area.markup()


def calibration_chart(
    label: str,
    predicted: FloatArray,
    observed: FloatArray,
    half_width: FloatArray,
    n_people: FloatArray,
    *,
    end: float,
    css: str,
    smooth: tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None = None,
) -> str:
    """Observed against predicted incidence in groups, with the diagonal of a perfect model.

    Both axes go from 0 to ``end``. A ``smooth`` curve is predicted, observed, lower and upper.
    """
    low = np.maximum(observed - half_width, 0)
    high = np.minimum(observed + half_width, end)
    area = Area(label, x=(0.0, end), y=(0.0, end), height=WIDTH, left=44, right=16, bottom=40)
    ticks = nice_ticks(0.0, end, 5)
    area.y_axis("Observed", ticks, form=percent_tick)
    area.segment("axis", (area.left, area.right), (area.bottom, area.bottom))
    for tick in ticks:
        area.add("text", "tick mid", percent_tick(float(tick)), x=area.px(tick), y=area.bottom + 16)
    area.text((area.left + area.right) / 2, area.bottom + 33, "Predicted", "name mid")
    ends = np.array([0.0, end])
    area.line(ends, ends, "diagonal")
    if smooth is not None:
        within = smooth[0] <= end
        x, *curves = (np.clip(values[within], 0, end) for values in smooth)
        area.band(x, curves[1], curves[2], f"band {css}")
        area.line(x, curves[0], css)
    for x, y, below, above, n_group in zip(predicted, observed, low, high, n_people, strict=True):
        area.segment(f"line thin {css}", (area.px(x), area.px(x)), (area.py(below), area.py(above)))
        tip = (
            f"{count(n_group)} people\npredicted {percent(x)}\nobserved {percent(y)} "
            f"({percent(below)} to {percent(above)})"
        )
        area.dot(x, y, 4.5, f"dot {css}", tip)
    return area.markup()


def importance_chart(
    label: str,
    names: Sequence[str],
    values: FloatArray,
    *,
    signs: Sequence[int],
    directions: Sequence[str],
    horizons: Sequence[str],
    css: str,
    x_label: str,
) -> str:
    """One row per feature: an arrow for its direction, a dot per horizon, later ones darker."""
    n_horizons = values.shape[1]
    end = round_up(float(values.max()))
    area = Area(
        label,
        x=(0.0, end),
        y=(len(names) - 0.5, -0.5),
        height=46 + 22 * len(names),
        left=136,
        right=14,
        top=6,
        bottom=40,
    )
    area.x_axis(x_label, nice_ticks(0.0, end, 4), grid=True)
    short = distinct_names(names, label_length(116))
    for position, name in enumerate(names):
        place = area.py(position)
        full = name if short[position] != name else None
        area.add("text", "label", short[position], tip=full, x=2, y=place + 4)
        arrow = {1: "▲", -1: "▼", 0: "◆"}[signs[position]]
        area.add("text", "arrow mid", arrow, tip=directions[position], x=126, y=place + 4)
        row = values[position]
        ends = area.px(float(row.min())), area.px(float(row.max()))
        area.segment(f"line thin {css}", ends, (place, place))
        for horizon in range(n_horizons):
            shade = 3 - (n_horizons - 1 - horizon)
            tip = f"{name}\nby {horizons[horizon]}: {row[horizon]:.3f}\n{directions[position]}"
            area.dot(float(row[horizon]), position, 4.5, f"dot shade{shade} {css}", tip)
    return area.markup()


def stacked_chart(
    label: str,
    times: FloatArray,
    curves: FloatArray,
    *,
    states: Sequence[str],
    x_label: str,
    marker: float,
) -> str:
    """Probabilities of all states stacked to 1, the causes below, with a line at a time."""
    end = float(times[-1])
    area = Area(label, x=(0.0, end), y=(0.0, 1.0), width=300, height=210, right=8)
    area.y_axis("Probability", [0.0, 0.25, 0.5, 0.75, 1.0], form=percent_tick)
    edges = np.cumsum(np.vstack([np.zeros(len(times)), curves[1:], curves[:1]]), axis=0)
    order = [*range(1, len(curves)), 0]
    for position, state in enumerate(order):
        low, high = edges[position], np.minimum(edges[position + 1], 1.0)
        area.band(times, low, high, f"stack c{colour(state)}")
    area.x_axis(x_label)
    place = area.px(marker)
    travel = {"data_left": str(area.px(0.0)), "data_right": str(area.px(end))}
    area.segment("marker", (place, place), (area.top - 4, area.bottom), **travel)
    _read_off(area, x_label, times, [(states[state], curves[state]) for state in order], percent)
    return area.markup()


def _read_off(
    area: Area,
    x_label: str,
    x: FloatArray,
    curves: Sequence[tuple[str, FloatArray]],
    form: Callable[[float], str],
) -> None:
    """Tooltips with the values of all named curves at some places of the axis."""
    columns = np.unique(np.linspace(0, len(x) - 1, _READ_OFF).astype(np.int64))
    tips = [
        "\n".join(
            [
                f"{x_label} {number(float(x[column]))}",
                *(f"{name}: {form(float(values[column]))}" for name, values in curves),
            ]
        )
        for column in columns
    ]
    area.read_off(x[columns], tips)


def colour(state: int) -> int:
    """Number of the colour of a state: 0 for event-free, seven colours in turn for causes."""
    return 0 if state == 0 else 1 + (state - 1) % 7


def round_up(value: float) -> float:
    """The next tick at or above a value, so that lines end below the top of their chart."""
    if not value > 0:
        return 1.0
    ticks = nice_ticks(0.0, value, 4)
    step = float(ticks[1] - ticks[0]) if len(ticks) > 1 else value
    return float(np.ceil(value / step - 1e-9) * step)

"""A page about one person: predicted probabilities, and what moves them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from survival_objectives._people import check_features
from survival_objectives.report._charts import stacked_chart
from survival_objectives.report._explained import CONFIDENCE, feature_value
from survival_objectives.report._format import number, percent, percent_band
from survival_objectives.report._svg import nice_ticks
from survival_objectives.report._write import source, template

_N_STEPS = 120
_N_SHOWN = 12


def person_page(
    model: Any,
    X: Any,
    *,
    title: str,
    states: Sequence[str],
    times: Sequence[float] | None = None,
    time_name: str = "time",
    time_unit: str | None = None,
    dates: Collection[str] = (),
) -> str:
    """The page as HTML; ``X`` has one row, and ``states`` are named event-free first.

    ``dates`` are columns of days since 1970-01-01.
    """
    end = float(model.times_[-1])
    shown = np.asarray(nice_ticks(0.0, end, 4)[1:] if times is None else times, np.float64)
    grid = np.linspace(0.0, max(end, float(shown.max())), _N_STEPS + 1)
    middle = float(shown[len(shown) // 2])
    curves = model.predict_cumulative_incidence(X, grid)[0]
    has_bands = model.fitted_model.has_bands
    at = model.predict_cumulative_incidence(X, shown, confidence=CONFIDENCE if has_bands else None)
    cells = np.vectorize(percent_band if has_bands else percent)(*(at if has_bands else (at,)))[0]
    unit = f" {time_unit}" if time_unit else ""
    median = float(model.predict_quantile(X)[0])
    order = [*range(1, len(states)), 0]
    chart = stacked_chart(
        "Probability of each state over time",
        grid,
        curves,
        states=states,
        x_label=time_unit or time_name,
        marker=middle,
    )
    page: str = template("person.html").render(
        title=title,
        style=source("style.css"),
        chart=chart,
        head=[f"by {time:g}{unit}" for time in shown],
        states=[(states[row], f"c{min(row, 7)}", cells[row].tolist()) for row in order],
        confidence=percent(CONFIDENCE) if has_bands else None,
        median=None if np.isinf(median) else number(median, 3) + unit,
        end=number(end, 3) + unit,
        middle=number(middle) + unit,
        contributions=_contributions(model, X, middle, states[1:], dates),
    )
    return page


def _contributions(
    model: Any, X: Any, time: float, causes: Sequence[str], dates: Collection[str]
) -> list[tuple[str, list[tuple[str, str, str, str, float]], str]]:
    """Per cause the largest factors on the odds: name, value, direction, factor, length."""
    features = check_features(X, like=model.fitted_model.schema)
    values = model.shap_values(X, time)[0]
    if len(values) == len(causes) + 1:
        # One margin per state: log-odds against event-free are differences.
        values = values[1:] - values[0]
    n_features = features.n_features
    names = features.names or tuple(f"column {column}" for column in range(n_features))
    found = []
    for cause, shift in zip(causes, values[:, :n_features], strict=True):
        top = np.argsort(-np.abs(shift), kind="stable")[:_N_SHOWN]
        largest = float(np.abs(shift).max()) or 1.0
        rows = [
            (
                names[column],
                feature_value(features, 0, column, is_date=names[column] in dates),
                "raises" if shift[column] > 0 else "lowers",
                f"{np.exp(shift[column]):.2f}",
                100 * abs(float(shift[column])) / largest,
            )
            for column in top
        ]
        rest = f"{np.exp(np.delete(shift, top).sum()):.2f}" if n_features > _N_SHOWN else ""
        found.append((cause, rows, rest))
    return found

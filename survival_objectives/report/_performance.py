"""Tables and charts of how good a model is: scores, and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from survival_objectives.report import _facts as facts
from survival_objectives.report._charts import (
    Choice,
    Curve,
    DotRow,
    Figure,
    calibration_chart,
    colour,
    curves_chart,
    dot_chart,
    round_up,
)
from survival_objectives.report._facts import Study
from survival_objectives.report._format import count, limits_text, number, percent, score

_METRICS = {"integrated_brier_score": "Brier score", "integrated_log_loss": "Log-loss"}


def _model_css(study: Study, name: str) -> str:
    position = study.assessment.models.index(name)
    return "main" if position == 0 else f"other other{1 + (position - 1) % 5}"


def _metric_name(study: Study, row: facts.MetricRow) -> str:
    if row.horizon is not None:
        return f"Concordance by {study.when(row.horizon)}"
    return _METRICS[row.metric]


def score_table(study: Study, rows: Sequence[facts.MetricRow]) -> list[dict[str, Any]]:
    """Rows of the table, in groups: all states first, then each cause."""
    groups: list[dict[str, Any]] = []
    shares = facts.explained_share(study)
    for code, cause in enumerate(study.target.event_ids.tolist()):
        lines = []
        for row in (row for row in rows if row.cause == cause):
            decimals = 4 if "integrated" in row.metric else 3
            cells = [
                {
                    "mean": score(model.mean, decimals),
                    # 0 with a single known fold, and for predictions that are the same for all.
                    "sd": score(model.sd, decimals) if model.sd > 0 else "",
                    "best": model.best,
                }
                for model in row.models
            ]
            name = _metric_name(study, row)
            lines.append({"name": name, "lower": row.lower_is_better, "cells": cells})
            if row.metric == "integrated_brier_score" and cause == 0 and shares:
                cells = [_cell(_share(shares[model.model])) for model in row.models]
                lines.append({"name": "Explained share", "lower": False, "cells": cells})
        if code:
            errors = [
                facts.calibration(study, code, model=model).error
                for model in study.assessment.models
            ]
            name = f"Calibration error by {study.when(study.middle)}"
            cells = [_cell(score(error, 3)) for error in errors]
            lines.append({"name": name, "lower": True, "cells": cells})
        groups.append({"name": study.cause_name(cause) if cause else "All states", "lines": lines})
    return groups


def _cell(text: str) -> dict[str, Any]:
    return {"mean": text, "sd": "", "best": False}


def _share(value: float) -> str:
    return f"{100 * value:.1f}%".replace("-", "−")


def dots(study: Study, rows: Sequence[facts.MetricRow]) -> list[Figure]:
    """One chart per score: the folds and the mean of every model."""
    figures = []
    for row in rows:
        overall = row.metric.startswith("integrated") and row.cause == 0
        known = any(not np.isnan(model.mean) for model in row.models)
        if not known or not (overall or row.metric == "concordance_50"):
            continue
        models = [
            DotRow(
                model.model,
                _model_css(study, model.model),
                model.mean,
                model.mean - model.sd,
                model.mean + model.sd,
                f"{model.model}: {model.mean:.4f}" + f" ± {model.sd:.4f}" * (model.sd > 0),
                model.values,
            )
            for model in row.models
        ]
        name = _metric_name(study, row)
        title = f"{name}, {study.cause_name(row.cause)}" if row.cause else name
        better = "lower is better" if row.lower_is_better else "higher is better"
        figures.append(Figure(title, dot_chart(title, models, x_label=better)))
    return figures


def brier(study: Study) -> list[Figure]:
    """Brier scores over time, one chart per state."""
    assessment = study.assessment
    means = assessment.brier.groupby(["cause", "model", "time"])["value"].mean().unstack("time")
    figures = []
    labels = study.target.event_ids.tolist()
    for code, cause in enumerate(labels):
        if study.target.n_causes == 1 and code:
            continue  # It is the same as that of being event-free.
        curves = [
            Curve(name, _model_css(study, name), means.loc[(cause, name)].to_numpy(np.float64))
            for name in assessment.models
        ]
        # At time 0 nothing has happened and nothing can be wrong.
        times = np.concatenate([[0.0], assessment.times])
        curves = [
            Curve(curve.name, curve.css, np.concatenate([[0.0], curve.y])) for curve in curves
        ]
        title = study.states[code]
        svg = curves_chart(
            f"Brier score over {study.duration_name}: {title}",
            times,
            curves,
            x_label=study.axis,
            y_label="Brier score, mean over folds" if assessment.n_splits > 1 else "Brier score",
        )
        columns = np.unique(np.searchsorted(times, study.horizons))
        rows = tuple(
            (number(float(times[column])), *(score(float(curve.y[column]), 4) for curve in curves))
            for column in columns
        )
        figures.append(Figure(title, svg, (study.axis, *assessment.models), rows))
    return figures


# ------------------------------------------------------------------------------------ calibration
def calibration(study: Study, calibrations: Sequence[Sequence[facts.Calibration]]) -> list[Choice]:
    """Calibration of each cause, one chart per horizon to choose from."""
    choices = []
    for code, by_horizon in enumerate(calibrations, start=1):
        name = study.states[code]
        figures = tuple(_calibration_figure(study, code, groups) for groups in by_horizon)
        choices.append(Choice(name, figures))
    return choices


def _calibration_figure(study: Study, code: int, groups: facts.Calibration) -> Figure:
    name = study.states[code]
    # Axes of one horizon: with those of the latest, early and rare events crowd in a corner.
    highest = max(groups.predicted.max(), np.nanmax(groups.observed + groups.half_width))
    end = min(1.0, round_up(float(highest)))
    title = f"{name}, by {study.when(groups.horizon)}"
    svg = calibration_chart(
        f"Observed against predicted probability of {title}",
        groups.predicted,
        groups.observed,
        groups.half_width,
        groups.n_people,
        end=end,
        css=f"c{colour(code)}",
    )
    rows = tuple(
        (count(n_people), percent(predicted), f"{percent(observed)} ± {100 * half:.1f}")
        for n_people, predicted, observed, half in zip(
            groups.n_people, groups.predicted, groups.observed, groups.half_width, strict=True
        )
    )
    note = (
        f"Mean distance from the diagonal: {100 * groups.error:.1f} percentage points; a "
        f"perfect model would have about {100 * groups.chance:.1f} by chance."
    )
    return Figure(title, svg, ("People", "Predicted", "Observed"), rows, note)


def horizon_choice(study: Study, calibrations: Sequence[facts.Calibration]) -> dict[str, Any]:
    """First choice, last one and labels of the horizons of `calibration`."""
    horizons = [groups.horizon for groups in calibrations]
    return {
        "start": horizons.index(study.middle),
        "last": len(horizons) - 1,
        "labels": [study.when(horizon) for horizon in horizons],
    }


def risk_groups(study: Study) -> list[Figure]:
    """Observed and predicted curves in thirds of predicted risk, one chart per cause."""
    figures = []
    times = study.assessment.times[study.assessment.scored]
    grid = np.concatenate([[0.0], times])
    columns = np.searchsorted(times, study.horizons)
    for code, name in enumerate(study.states[1:], start=1):
        curves, rows = [], []
        # The highest group first: the first curve is drawn last, on top.
        for shade, group in reversed(list(enumerate(facts.risk_groups(study, code), start=1))):
            css = f"c{colour(code)} shade{shade}"
            observed = np.concatenate([[0.0], group.observed])
            predicted = np.concatenate([[0.0], group.predicted])
            curves.append(Curve(group.name, css, observed))
            expected = Curve(f"{group.name}, predicted", f"{css} expected", predicted)
            curves.append(replace(expected, labelled=False))
            cells = [
                f"{percent(group.observed[column])}\n{percent(group.predicted[column])}"
                for column in columns
            ]
            rows.append((f"{group.name} ({count(group.n_people)} people)", *cells))
        svg = curves_chart(
            f"Observed incidence of {name} by predicted risk",
            grid,
            curves,
            x_label=study.axis,
            y_label="Share of people",
            shares=True,
        )
        head = ("Observed, predicted", *(f"by {study.when(float(h))}" for h in study.horizons))
        figures.append(Figure(name, svg, head, tuple(rows)))
    return figures


def mean_calibration(study: Study) -> dict[str, Any]:
    """Head and rows of a table: one row per cause, one column per horizon."""
    rows: list[tuple[str, ...]] = []
    for code, name in enumerate(study.states[1:], start=1):
        cells = []
        for _, predicted, observed, half in facts.mean_calibration(study, code):
            limits = limits_text(max(observed - half, 0), min(observed + half, 1))
            cells.append(f"{percent(predicted)} predicted\n{percent(observed)} observed\n{limits}")
        rows.append((name, *cells))
    head = ("Event", *(f"By {study.when(float(horizon))}" for horizon in study.horizons))
    return {"head": head, "rows": rows}

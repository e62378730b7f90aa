"""What the template of the page is given: text, tables and charts."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._version import __version__
from survival_objectives.report import _facts as facts
from survival_objectives.report._charts import (
    Curve,
    DotRow,
    calibration_chart,
    colour,
    curves_chart,
    dot_chart,
    importance_chart,
    round_up,
    stacked_chart,
)
from survival_objectives.report._facts import Study
from survival_objectives.report._format import count, distinct_names, number, percent, score
from survival_objectives.report._in_short import Findings, in_short_of
from survival_objectives.report._svg import nice_ticks

__all__ = ["Figure", "page"]

FloatArray = npt.NDArray[np.float64]

_MOST_STEPS = 300
_SLIDER_STEPS = 100
_TOP_FEATURES = 10
_SHOWN_FEATURES = 8
_METRICS = {
    "integrated_brier_score": "Brier score",
    "integrated_log_loss": "Log-loss",
}


@dataclass(frozen=True)
class Figure:
    """A chart with its caption, and its numbers as a table for accessibility."""

    title: str
    svg: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""


def page(
    study: Study,
    found: Findings,
    *,
    title: str,
    description: str | None,
    show_people: bool,
) -> dict[str, Any]:
    """All that the template prints."""
    explained, weights = found.importance, found.weights
    return {
        "title": title,
        "description": description,
        "axis": study.axis,
        "duration_name": study.duration_name,
        "assessment": study.assessment,
        "states": study.states,
        "n_causes": study.target.n_causes,
        "middle": study.when(study.middle),
        "in_short": in_short_of(study, found),
        "tiles": _tiles(study),
        "events": _events(study),
        "columns": found.columns,
        "incidence": _incidence(study),
        "scores": _score_table(study, found.rows),
        "n_groups": len(found.calibrations[0][0].predicted),
        "has_share": study.marginal is not None,
        "dots": _dots(study, found.rows),
        "brier": _brier(study),
        "calibration": _calibration(study, found.calibrations),
        "horizons": _horizon_choice(study, found.calibrations[0]),
        "mean_calibration": _mean_calibration(study),
        "groups": _risk_groups(study),
        "importance": _importance(study, explained),
        "n_explained": count(explained.n_people),
        "importance_horizons": [study.when(float(h)) for h in explained.horizons],
        "show_people": show_people,
        **_people(study, explained, show_people=show_people),
        "weights": _weights(weights, study.axis),
        "weight_rows": _weight_rows(study, weights),
        "floored": _floored(study),
        "method": study.model.censoring_method_,
        "without_weights": study.trains_without_weights,
        "floor": number(weights.floor),
        "how": _how(study),
        "parameters": sorted((key, repr(value)) for key, value in study.model.get_params().items()),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


# ---------------------------------------------------------------------------------------- opening
def _tiles(study: Study) -> list[tuple[str, str]]:
    target = study.target
    follow_up = facts.median_follow_up(target)
    unit = f" {study.time_unit}" if study.time_unit else ""
    n_events = int((target.event > 0).sum())
    return [
        (count(target.n_samples), "people"),
        (count(n_events), "events seen"),
        (percent(1 - n_events / target.n_samples), "censored"),
        ("not reached" if np.isnan(follow_up) else number(follow_up, 3) + unit, "median follow-up"),
        (number(float(target.duration.max()), 3) + unit, "longest follow-up"),
    ]


def _events(study: Study) -> list[dict[str, Any]]:
    target = study.target
    rows = []
    for code, name in enumerate(study.states):
        times = target.duration[target.event == code]
        middle = number(float(np.median(times)), 3) if len(times) else "–"
        rows.append(
            {
                "name": name if code else "censored",
                "css": f"c{colour(code)}",
                "count": count(len(times)),
                "share": percent(len(times) / target.n_samples),
                "width": f"{100 * len(times) / target.n_samples:.1f}",
                "median": middle,
            }
        )
    return [*rows[1:], rows[0]]


def _incidence(study: Study) -> Figure:
    ticks = nice_ticks(0.0, study.last, 4)
    found = facts.incidence(study.target, _step_times(study), ticks)
    curves = [
        Curve(name, f"c{colour(code)}", found.values[code], found.low[code], found.high[code])
        for code, name in enumerate(study.states)
    ]
    svg = curves_chart(
        f"Incidence of each state over {study.duration_name}",
        found.times,
        [*curves[1:], curves[0]],
        x_label=study.axis,
        y_label="Share of people",
        steps=True,
        shares=True,
        y_max=1.0,
        at_risk=found.at_risk,
    )
    chosen = np.searchsorted(found.times, ticks[1:], side="right") - 1
    rows = tuple(
        (
            number(float(tick)),
            *(
                f"{percent(found.values[code, column])}\n"
                f"{_limits(found.low[code, column], found.high[code, column])}"
                for code in range(len(study.states))
            ),
        )
        for tick, column in zip(ticks[1:], chosen, strict=True)
    )
    head = (study.axis, *distinct_names(study.states, 28))
    return Figure("All people, by state", svg, head, rows)


def _limits(low: float, high: float) -> str:
    return f"{percent(low)} – {percent(high)}"


def _step_times(study: Study) -> FloatArray:
    """Where the marginal curves jump, or an even grid if that is too often to be seen."""
    jumps = np.unique(study.target.duration[study.target.event > 0])
    jumps = jumps[(jumps > 0) & (jumps < study.last)]
    inside = jumps if len(jumps) <= _MOST_STEPS else np.linspace(0, study.last, _MOST_STEPS)
    return np.unique(np.concatenate([[0.0], inside, [study.last]]))


# ----------------------------------------------------------------------------------------- scores
def _model_css(study: Study, name: str) -> str:
    position = study.assessment.models.index(name)
    return "main" if position == 0 else f"other other{1 + (position - 1) % 5}"


def _metric_name(study: Study, row: facts.MetricRow) -> str:
    if row.horizon is not None:
        return f"Concordance by {study.when(row.horizon)}"
    return _METRICS[row.metric]


def _of_cause(study: Study, cause: int) -> str:
    return study.states[int(np.searchsorted(study.target.event_ids, cause))] if cause else ""


def _score_table(study: Study, rows: Sequence[facts.MetricRow]) -> list[dict[str, Any]]:
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
        groups.append({"name": _of_cause(study, cause) or "All states", "lines": lines})
    return groups


def _cell(text: str) -> dict[str, Any]:
    return {"mean": text, "sd": "", "best": False}


def _share(value: float) -> str:
    return f"{100 * value:.1f}%".replace("-", "−")


def _dots(study: Study, rows: Sequence[facts.MetricRow]) -> list[Figure]:
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
                model.values,
                model.mean,
                model.sd,
            )
            for model in row.models
        ]
        name = _metric_name(study, row)
        title = f"{name}, {_of_cause(study, row.cause)}" if row.cause else name
        better = "lower is better" if row.lower_is_better else "higher is better"
        figures.append(Figure(title, dot_chart(title, models, x_label=better)))
    return figures


def _brier(study: Study) -> list[Figure]:
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
@dataclass(frozen=True)
class Choice:
    """One figure per time to choose from, of which one is shown at once."""

    title: str
    figures: tuple[Figure, ...]


def _calibration(study: Study, calibrations: Sequence[Sequence[facts.Calibration]]) -> list[Choice]:
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


def _horizon_choice(study: Study, calibrations: Sequence[facts.Calibration]) -> dict[str, Any]:
    horizons = [groups.horizon for groups in calibrations]
    return {
        "start": horizons.index(study.middle),
        "last": len(horizons) - 1,
        "labels": [study.when(horizon) for horizon in horizons],
    }


def _risk_groups(study: Study) -> list[Figure]:
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


def _mean_calibration(study: Study) -> dict[str, Any]:
    """Head and rows of a table: one row per cause, one column per horizon."""
    rows: list[tuple[str, ...]] = []
    for code, name in enumerate(study.states[1:], start=1):
        cells = []
        for _, predicted, observed, half in facts.mean_calibration(study, code):
            limits = _limits(max(observed - half, 0), min(observed + half, 1))
            cells.append(f"{percent(predicted)} predicted\n{percent(observed)} observed\n{limits}")
        rows.append((name, *cells))
    head = ("Event", *(f"By {study.when(float(horizon))}" for horizon in study.horizons))
    return {"head": head, "rows": rows}


# ------------------------------------------------------------------------------------- importance
def _importance(study: Study, explained: facts.Importance) -> list[Figure]:
    figures = []
    for code, name in enumerate(study.states[1:], start=1):
        values = explained.values[code - 1]
        order = np.argsort(-values.max(axis=1), kind="stable")
        top = order[:_TOP_FEATURES]
        svg = importance_chart(
            f"Importance of features for {name} by horizon",
            [explained.names[feature] for feature in top],
            values[top],
            signs=explained.sign[code - 1][top].tolist(),
            directions=[explained.direction[code - 1][feature] for feature in top],
            horizons=[study.when(float(horizon)) for horizon in explained.horizons],
            css=f"c{colour(code)}",
            x_label="Mean shift of the log-odds",
        )
        rows = tuple(
            (
                explained.names[feature],
                *(f"{value:.3f}" for value in values[feature]),
                explained.direction[code - 1][feature],
            )
            for feature in order[:50]
        )
        rest = len(order) - _TOP_FEATURES
        note = f"The {_TOP_FEATURES} largest of {len(order)} columns." if rest > 0 else ""
        times = (f"by {study.when(float(horizon))}" for horizon in explained.horizons)
        head = ("Column", *times, "Direction")
        figures.append(Figure(name, svg, head, rows, note))
    return figures


# ----------------------------------------------------------------------------------------- people
def _people(study: Study, explained: facts.Importance, *, show_people: bool) -> dict[str, Any]:
    overall = explained.values.max(axis=(0, 2))
    shown = np.argsort(-overall, kind="stable")[:_SHOWN_FEATURES].tolist()
    times = _slider_times(study)
    start, *_ = np.flatnonzero(times == study.middle)
    fixed = np.flatnonzero(np.isin(times, study.horizons))
    order = [*range(1, len(study.states)), 0]
    cards = []
    people = facts.example_people(study, times, shown, real=show_people)
    for person in people:
        svg = stacked_chart(
            f"{person.title}: probability of each state over {study.duration_name}",
            times,
            person.curves,
            states=study.states,
            x_label=study.axis,
            marker=float(times[start]),
        )
        cards.append(
            {
                "title": person.title,
                "standing": person.standing,
                "features": person.features,
                "svg": svg,
                "now": [
                    {
                        "state": state,
                        "name": study.states[state],
                        "css": f"c{colour(state)}",
                        "share": f"{100 * person.curves[state, start]:.1f}%",
                    }
                    for state in order
                ],
                "fixed": [
                    (
                        study.states[state],
                        *(percent(person.curves[state, column]) for column in fixed),
                    )
                    for state in order
                ],
            }
        )
    return {
        "people": cards,
        "hidden_features": max(0, study.features.n_features - _SHOWN_FEATURES),
        "fixed_head": (f"By {study.axis}", *(_plain(times[column]) for column in fixed)),
        "slider": {
            "start": start,
            "last": len(times) - 1,
            "label": study.when(float(times[start]), 6),
        },
        "embedded": {
            "labels": [study.when(float(time), 6) for time in times],
            "times": [_plain(time) for time in times],
            "place": [round(float(time / times[-1]), 4) for time in times],
            "people": [np.round(person.curves, 4).tolist() for person in people],
        },
    }


def _slider_times(study: Study) -> FloatArray:
    """Round times from 0 to the end of the curves, and the horizons."""
    end = max(study.last, float(study.horizons[-1]))
    even = nice_ticks(0.0, end, _SLIDER_STEPS).round(12)
    near = np.isclose(even[:, None], study.horizons, rtol=1e-9).any(axis=1)
    return np.sort(np.concatenate([even[~near], study.horizons]))


def _plain(time: float) -> str:
    return f"{time:.6g}"


# ---------------------------------------------------------------------------------------- weights
def _weights(weights: facts.Weighing, axis: str) -> Figure:
    times = np.concatenate([[0.0], weights.times])
    curves = [
        Curve("state known", "c0", np.concatenate([[1.0], weights.known])),
        Curve("effective", "main", np.concatenate([[1.0], weights.effective])),
    ]
    svg = curves_chart(
        "Share of people whose state is known, and their effective share, over time",
        times,
        curves,
        x_label=axis,
        y_label="Share of all people",
        shares=True,
        y_max=1.0,
    )
    return Figure("What the weights are worth", svg)


def _weight_rows(study: Study, weights: facts.Weighing) -> list[tuple[str, ...]]:
    columns = [int(np.searchsorted(weights.times, horizon)) for horizon in study.horizons]
    columns = [*columns, len(weights.times) - 1]
    return [
        (
            number(float(weights.times[column]), 3),
            percent(float(weights.known[column])),
            percent(float(weights.effective[column])),
            number(round(float(weights.largest[column]), 2)),
            percent(float(weights.floored[column])),
        )
        for column in dict.fromkeys(columns)
    ]


def _floored(study: Study) -> str:
    n_floored = getattr(study.model, "n_floored_", None)
    if n_floored is None or study.trains_without_weights:
        return ""
    n_rows = study.target.n_samples * study.model.n_horizons
    return f"{count(n_floored)} of at most {count(n_rows)} rows"


# -------------------------------------------------------------------------------- how it was made
_CENSORED = {
    "hazards": "count in training up to the time at which they were last seen",
    "boosted": "others stand for them in training, weighted by their features",
    "kaplan-meier": "others stand for them in training, weighted by one curve for all people",
    "imputed": "in training their later states were drawn from what the model had learnt",
    "doubly-robust": "count in training by what the model had learnt of them, corrected by weights",
}
_CENSORED_BY_OTHERS = "others stand for them in training, weighted by a censoring model of the user"


def _how(study: Study) -> list[tuple[str, str]]:
    model, assessment = study.model, study.assessment
    if assessment.n_splits > 1:
        held_out = f"{assessment.n_splits} folds, stratified by event; each person held out once"
    else:
        held_out = (
            f"one split, stratified by event; {count(len(assessment.index))} of "
            f"{count(study.target.n_samples)} people were held out"
        )
    packages = ("numpy", "pandas", "scikit-learn", model.engine_)
    versions = [f"{name} {metadata.version(name)}" for name in packages]
    if any("Cox" in name for name in assessment.models):
        versions.append(f"lifelines {metadata.version('lifelines')}")
    return [
        ("Engine", f"{model.engine_}, {count(model.n_estimators_)} rounds"),
        ("Censored people", _CENSORED.get(model.censoring_method_, _CENSORED_BY_OTHERS)),
        ("Why so", model.censoring_reason_),
        ("Seed of the model", repr(model.random_state)),
        ("Assessment", held_out),
        *([("Seed of the folds", str(assessment.seed))] if assessment.seed is not None else []),
        (
            "Scored times",
            f"{number(float(assessment.times[assessment.scored][0]))} to "
            f"{number(float(assessment.times[assessment.scored][-1]))}",
        ),
        ("Package", f"survival-objectives {__version__}, Python {platform.python_version()}"),
        ("With", ", ".join(versions)),
    ]

"""Variables of the page's template: text, tables and charts."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._models.display import rounds_of
from survival_objectives._version import __version__
from survival_objectives.report import _facts as facts
from survival_objectives.report import _performance as performance
from survival_objectives.report._charts import (
    Curve,
    Figure,
    colour,
    curves_chart,
    importance_chart,
    stacked_chart,
)
from survival_objectives.report._explained import (
    CONFIDENCE,
    ExamplePerson,
    Importance,
    example_people,
)
from survival_objectives.report._facts import Study
from survival_objectives.report._format import (
    count,
    distinct_names,
    limits_text,
    number,
    percent,
)
from survival_objectives.report._in_short import Findings, in_short_of
from survival_objectives.report._svg import nice_ticks

_MOST_STEPS = 300
_SLIDER_STEPS = 100
_TOP_FEATURES = 10
_SHOWN_FEATURES = 8


def page(
    study: Study,
    found: Findings,
    *,
    title: str,
    description: str | None,
    show_people: bool,
) -> dict[str, Any]:
    """All variables of the template."""
    explained = found.importance
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
        "scores": performance.score_table(study, found.rows),
        "n_groups": len(found.calibrations[0][0].predicted),
        "has_share": study.marginal is not None,
        "dots": performance.dots(study, found.rows),
        "brier": performance.brier(study),
        "calibration": performance.calibration(study, found.calibrations),
        "horizons": performance.horizon_choice(study, found.calibrations[0]),
        "mean_calibration": performance.mean_calibration(study),
        "groups": performance.risk_groups(study),
        "importance": _importance(study, explained),
        "n_explained": count(explained.n_people),
        "importance_horizons": [study.when(float(h)) for h in explained.horizons],
        "show_people": show_people,
        **_people(study, explained, show_people=show_people),
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
                f"{limits_text(found.low[code, column], found.high[code, column])}"
                for code in range(len(study.states))
            ),
        )
        for tick, column in zip(ticks[1:], chosen, strict=True)
    )
    head = (study.axis, *distinct_names(study.states, 28))
    return Figure("All people, by state", svg, head, rows)


def _step_times(study: Study) -> FloatArray:
    """Where the marginal curves jump, or an even grid if that is too often to be seen."""
    jumps = np.unique(study.target.duration[study.target.event > 0])
    jumps = jumps[(jumps > 0) & (jumps < study.last)]
    inside = jumps if len(jumps) <= _MOST_STEPS else np.linspace(0, study.last, _MOST_STEPS)
    return np.unique(np.concatenate([[0.0], inside, [study.last]]))


# ------------------------------------------------------------------------------------- importance
def _importance(study: Study, explained: Importance) -> list[Figure]:
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
def _people(study: Study, explained: Importance, *, show_people: bool) -> dict[str, Any]:
    overall = explained.values.max(axis=(0, 2))
    shown = np.argsort(-overall, kind="stable")[:_SHOWN_FEATURES].tolist()
    times = _slider_times(study)
    start, *_ = np.flatnonzero(times == study.middle).tolist()
    fixed = np.flatnonzero(np.isin(times, study.horizons)).tolist()
    order = [*range(1, len(study.states)), 0]
    cards = []
    people = example_people(study, times, shown, real=show_people)
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
                        "limits": _limits(person, state, start),
                    }
                    for state in order
                ],
                "fixed": [
                    (
                        study.states[state],
                        *(
                            f"{percent(person.curves[state, column])}\n"
                            f"{_limits(person, state, column)}".rstrip()
                            for column in fixed
                        ),
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
            "limits": [
                None if person.limits is None else np.round(person.limits, 4).tolist()
                for person in people
            ],
        },
        "confidence": None if people[0].limits is None else percent(CONFIDENCE),
    }


def _limits(person: ExamplePerson, state: int, column: int) -> str:
    if person.limits is None:
        return ""
    low, high = 100 * person.limits[:, state, column]
    return f"{low:.0f}–{high:.0f}%"


def _slider_times(study: Study) -> FloatArray:
    """Round times from 0 to the end of the curves, and the horizons."""
    end = max(study.last, float(study.horizons[-1]))
    even = nice_ticks(0.0, end, _SLIDER_STEPS).round(12)
    near = np.isclose(even[:, None], study.horizons, rtol=1e-9).any(axis=1)
    return np.sort(np.concatenate([even[~near], study.horizons]))


def _plain(time: float) -> str:
    return f"{time:.6g}"


# -------------------------------------------------------------------------------- how it was made
_CENSORED = {
    "hazards": "count in training up to the time at which they were last seen",
    "boosted": "are represented by others in training, whose weights depend on their features",
    "kaplan-meier": "are represented by others in training, with weights from one curve for all",
    "imputed": "have later states in training that are drawn from the model's predictions",
    "completed": "have later states in training that another model predicts",
    "doubly-robust": "have targets in training from the model's predictions, corrected by weights",
}
_CENSORED_BY_OTHERS = "are represented by others in training, weighted by a model of the user"


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
        ("Engine", f"{model.engine_}, {rounds_of(model)}"),
        ("Censored people", _CENSORED.get(study.method, _CENSORED_BY_OTHERS)),
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

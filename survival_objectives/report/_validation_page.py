"""The page of a validation: its tables, its charts and their text."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._people import check_features
from survival_objectives._people.labels import named_outcomes
from survival_objectives._people.outcomes import outcomes_frame
from survival_objectives._version import __version__
from survival_objectives.report._charts import (
    Curve,
    DotRow,
    Figure,
    calibration_chart,
    colour,
    curves_chart,
    dot_chart,
    round_up,
)
from survival_objectives.report._facts import Column, columns
from survival_objectives.report._format import count, number, percent, score
from survival_objectives.report._validation import SCORES, Validation, limits, signed
from survival_objectives.report._write import checked_path, source, template, write_whole

_IN_GROUPS = ("observed_expected", "calibration_slope", "auc", "scaled_brier")
_DRAWN = ("observed_expected", "auc")
_FEW_EVENTS = 20
# A standardised difference from which on a column is said to differ.
_DIFFERS = 0.1
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def write_validation(
    path: str | os.PathLike[str],
    *,
    model: Any,
    X: Any,
    y: Any,
    times: Sequence[float],
    X_train: Any = None,
    by: Mapping[str, Any] | None = None,
    thresholds: Sequence[float] = (),
    landmark: float | None = None,
    groups: Any = None,
    title: str = "Validation",
    duration_name: str = "time",
    time_unit: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a validation of a model on other people as one HTML file that needs nothing else.

    It has all scores with 95 % limits, calibration curves, groups of people, decision curves, what
    differs from training, what recalibration would do, and whether the model transports.

    Parameters
    ----------
    path : path
        Where to write. The file appears when it is complete.
    model : HazardBoost or SurvivalBoost
        Fitted on other people.
    X : array or DataFrame of shape (n_samples, n_features)
        The people.
    y : outcomes
        What happened to them.
    times : sequence of float
        Horizons of the scores; curves and groups are shown at the middle one.
    X_train : array or DataFrame, optional
        The people of training, to compare with.
    by : mapping of str to array of shape (n_samples,), optional
        Columns that make groups. Default: the first six features.
    thresholds : sequence of float, optional
        Risks above which people are treated. Default: twenty up to the largest risks.
    landmark, groups
        As in `survival_objectives.metrics.Evaluation`.
    title : str, default="Validation"
        Heading of the page.
    duration_name, time_unit : str
        As in `write_report`.
    overwrite : bool, default=False
        Whether an existing file may be replaced.

    Returns
    -------
    Path
        Where the page is.
    """
    destination = checked_path(path, overwrite=overwrite)
    schema = model.fitted_model.schema
    training = () if X_train is None else columns(check_features(X_train, like=schema))
    found = Validation(
        model=model,
        X=X,
        y=outcomes_frame(named_outcomes(y, names=model.event_names_)[0]),
        times=np.unique(np.asarray(times, np.float64)),
        states=model.event_names_,
        groups=groups,
        landmark=landmark,
        by=by,
        thresholds=thresholds,
        training=training,
        time_name=duration_name,
        time_unit=time_unit,
    )
    write_whole(destination, validation_page(found, title), overwrite=overwrite)
    return destination


def validation_page(found: Validation, title: str) -> str:
    """The page as HTML."""
    page: str = template("validation.html").render(
        title=title,
        style=source("style.css"),
        tiles=_tiles(found),
        verdict=found.verdict(),
        cautions=found.cautions,
        middle=found.when(found.middle),
        scores=[(name, score_table(found, cause)) for cause, name in found.causes.items()],
        calibration=[_calibration(found, cause) for cause in found.causes],
        forests=[_forest(found, cause, name) for cause in found.causes for name in _DRAWN],
        groups=[(name, group_table(found, cause)) for cause, name in found.causes.items()],
        decisions=[_decision(found, cause) for cause in found.causes],
        shift=shift_table(found),
        recalibration=recalibration_table(found),
        sensitivity=sensitivity_tables(found),
        is_monotone=found.model.fitted_model.is_monotone,
        landmark=None if found.landmark is None else found.when(found.landmark),
        version=__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    return page


def _tiles(found: Validation) -> list[tuple[str, str]]:
    people = found.y[found.is_scored]
    n_events = int((people["event"] > 0).sum())
    return [
        (count(len(found.evaluation)), "people scored"),
        (count(n_events), "events seen"),
        (percent(1 - n_events / len(people)), "censored"),
        (number(float(people["duration"].max()), 3), f"longest follow-up ({found.unit})"),
    ]


def score_table(found: Validation, cause: int) -> Table:
    """Head and rows: the scores of a cause, with limits, at all times."""
    table = found.table[found.table["cause"] == cause]
    head = ("Score", *(f"by {found.when(time)}" for time in found.times))
    rows = [
        (words, *(limits(row, "\n") for _, row in table[table["score"] == name].iterrows()))
        for name, (words, _) in SCORES.items()
    ]
    return head, rows


def group_table(found: Validation, cause: int) -> Table:
    """Head and rows: some scores of a cause in all groups at the middle time."""
    table = found.subgroups
    table = table[table["cause"] == cause]
    head = ("Group", "People", "Events", *(SCORES[name][0] for name in _IN_GROUPS))
    rows = []
    for (column, group), part in table.groupby(["column", "group"], sort=False, observed=True):
        lines = part.set_index("score")
        n_people, n_events = (int(part[name].iloc[0]) for name in ("n_people", "n_events"))
        cells = [limits(lines.loc[[name]].iloc[0], "\n") for name in _IN_GROUPS]
        star = "*" * (n_events < _FEW_EVENTS)
        rows.append((f"{column}: {group}{star}", count(n_people), count(n_events), *cells))
    return head, rows


def _calibration(found: Validation, cause: int) -> Figure:
    curve, name = found.calibrations[cause], found.causes[cause]
    n_groups = int(np.clip(len(found.evaluation) // 40, 2, 10))
    groups = found.at_middle.risk_groups(cause, n_groups=n_groups)
    half = 1.96 * np.nan_to_num(groups.standard_error)
    # The last points of the curve are of a few people.
    shown = [*groups.predicted, *(groups.observed + half), np.quantile(curve.predicted, 0.98)]
    end = min(1.0, round_up(float(np.nanmax(shown))))
    svg = calibration_chart(
        f"Observed against predicted probability of {name}",
        groups.predicted,
        groups.observed,
        half,
        groups.n_samples,
        end=end,
        css=f"c{colour(list(found.causes).index(cause) + 1)}",
        smooth=(curve.predicted, curve.observed, curve.lower, curve.upper),
    )
    cells = zip(groups.n_samples, groups.predicted, groups.observed, half, strict=True)
    rows = tuple(
        (count(n), percent(risk), f"{percent(seen)} ± {100 * width:.1f}")
        for n, risk, seen, width in cells
    )
    note = f"Joint test of an intercept of 0 and a slope of 1: p = {score(curve.p_value, 3)}."
    return Figure(name, svg, ("People", "Predicted", "Observed"), rows, note)


def _forest(found: Validation, cause: int, name: str) -> Figure:
    table = found.subgroups
    table = table[(table["cause"] == cause) & (table["score"] == name)]
    words, reference = SCORES[name]
    rows = []
    for column, part in table.groupby("column", sort=False):
        rows.append(DotRow(str(column), "main", np.nan, np.nan, np.nan, ""))
        for _, row in part.iterrows():
            label = f"{row['group']}{'*' * (row['n_events'] < _FEW_EVENTS)}"
            # The limits of tiny groups would leave no room for the others.
            low, high = (float(np.clip(row[side], 0, 4)) for side in ("lower", "upper"))
            tip = f"{column}: {label}\n{limits(row)}\n{row['n_people']} people"
            rows.append(DotRow(label, "other", float(row["value"]), low, high, tip))
    title = f"{words}: {found.causes[cause]}"
    return Figure(title, dot_chart(title, rows, x_label=words, reference=reference))


def _decision(found: Validation, cause: int) -> tuple[Figure, Table]:
    """The decision curve of a cause per 100 people, and what thresholds mean."""
    table, name = found.decisions(cause), found.causes[cause]
    css = f"c{colour(list(found.causes).index(cause) + 1)}"
    # Below 0 it is better to treat no one; the axis ends there.
    model, low, high, everyone = (
        100 * table[key].clip(lower=0).to_numpy()
        for key in ("net_benefit", "lower", "upper", "all")
    )
    svg = curves_chart(
        f"Net benefit of treating by the risk of {name}",
        100 * table["threshold"].to_numpy(),
        [Curve("by the model", css, model, low, high), Curve("all", "other other1", everyone)],
        x_label="Treated from a risk of (%)",
        y_label="Net benefit per 100 people",
    )
    who = ("Treated", f"with {name}", "in vain", "Missed", "Spared")
    head = ("Treat from a risk of", *who, "Net benefit", "More than treating all")
    rows = []
    for _, row in table[table["shown"]].iterrows():
        treated, caught = row["treated"], row["caught"]
        shares = (treated, caught, treated - caught, row["missed"], row["spared"])
        gain = pd.Series({key: row[f"gain{end}"] for key, end in _GAIN.items()})
        rows.append(
            (
                percent(row["threshold"]),
                *(signed(100 * share, 1) for share in shares),
                limits(row.rename({"net_benefit": "value"}), "\n", 100, 1),
                limits(gain, "\n", 100, 1) if row["all"] > 0 else "treating all\nis below 0",
            )
        )
    return Figure(f"By the risk of {name}", svg), (head, rows)


_GAIN = {"value": "", "lower": "_lower", "upper": "_upper"}


def shift_table(found: Validation) -> Table | None:
    """Head and rows: the columns in training and now; None where training is not known."""
    then = {column.name: column for column in found.training}
    if not then:
        return None
    rows: list[tuple[str, ...]] = [
        (
            now.name,
            _described(then[now.name]),
            _described(now),
            number(now.distance(then[now.name]), 2)
            + "*" * (now.distance(then[now.name]) > _DIFFERS),
        )
        for now in found.now
        if now.name in then
    ]
    return ("Column", "In training", "These people", "Standardised difference"), rows


def _described(column: Column) -> str:
    missing = f"; {percent(column.missing)} missing" if column.missing else ""
    return f"{column.text}{missing}"


def sensitivity_tables(found: Validation) -> list[tuple[str, Table, str]]:
    """By cause: name, head and rows by the factor after censoring, and when decisions tip."""
    tables = []
    for cause, each in found.sensitivity.items():
        assert each.threshold is not None
        treated = f"by the model from {percent(each.threshold)}"
        benefits = (f"Net benefit {treated}", "of treating all")
        head: tuple[str, ...] = ("Factor", "Mean risk", "Brier score", *benefits)
        rows: list[tuple[str, ...]] = [
            (
                number(row["factor"], 2),
                percent(row["incidence"]),
                score(row["brier"], 3),
                *(signed(100 * row[key], 1) for key in ("net_benefit", "net_benefit_all")),
            )
            for _, row in each.table.iloc[::2].iterrows()
        ]
        said = f"is {'' if each.is_best.all() else 'not '}best at any of these factors"
        tips = each.tipping_factor()
        if not np.isnan(tips):
            word = "no longer best" if each.is_best[len(each.factors) // 2] else "best"
            said = f"is {word} at a factor of {tips:.2g} or {'more' if tips > 1 else 'less'}"
        tables.append((found.causes[cause], (head, rows), f"Treating {treated} {said}."))
    return tables


def recalibration_table(found: Validation) -> tuple[str, Table] | None:
    """What recalibration found, and scores before and after, of people left out of it."""
    if found.recalibration is None:
        return None
    parameters, after = found.recalibration
    said = ", ".join(
        f"{name}: level {number(level, 2)}, slope {number(slope, 2)}"
        for name, level, slope in zip(
            found.states[1:], parameters.level, parameters.slope, strict=True
        )
    )
    late, gained = after.at(found.middle), after.at(found.middle).compare(found.at_middle)
    new = late.table()
    rows = []
    for cause, name in found.causes.items():
        for key in ("observed_expected", "calibration_slope", "brier", "auc"):
            place = (new["score"] == key) & (new["cause"] == cause)
            change = gained[place].iloc[0].rename({"difference": "value"})
            cells = (
                limits(row, "\n") for row in (found.row(key, cause), new[place].iloc[0], change)
            )
            rows.append((f"{SCORES[key][0]}, {name}", *cells))
    return said, (("Score", "As it is", "Recalibrated", "Difference"), rows)

"""A fitted model on people it was not trained on: what is found, as a page."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives._models.recalibration import Recalibration, recalibrate
from survival_objectives._people import check_features, take_rows
from survival_objectives._people.labels import named_outcomes
from survival_objectives._people.outcomes import outcomes_frame
from survival_objectives._version import __version__
from survival_objectives.metrics import Evaluation
from survival_objectives.metrics._smooth import Calibration
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
from survival_objectives.report._write import checked_path, source, template, write_whole

#: Words for scores, with their value for a model without fault or without knowledge.
SCORES = {
    "observed_expected": ("Observed / expected", 1.0),
    "calibration_intercept": ("Calibration intercept", 0.0),
    "calibration_slope": ("Calibration slope", 1.0),
    "auc": ("AUC", 0.5),
    "concordance": ("Concordance", 0.5),
    "brier": ("Brier score", None),
    "scaled_brier": ("Scaled Brier score", 0.0),
    "ici": ("ICI", None),
    "e50": ("E50", None),
    "e90": ("E90", None),
    "emax": ("Emax", None),
    "root_squared_bias": ("Root squared bias", None),
}
_IN_GROUPS = ("observed_expected", "calibration_slope", "auc", "scaled_brier")
_IN_TEXT = {"observed_expected": "observed/expected", "calibration_slope": "slope", "auc": "AUC"}
_DRAWN = ("observed_expected", "auc")
_FEW_EVENTS = 20
_MOST_COLUMNS = 6
_N_FOLDS = 5
_N_THRESHOLDS = 20
_SHOWN_THRESHOLDS = np.array([1, 3, 7, 11, 15])
# A standardised difference from which on a column is said to differ.
_DIFFERS = 0.1
_LEVEL = 0.05
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True)
class Validation:
    """A model, the people it is judged on, and when.

    ``by`` has a column for each way to form groups; ``training`` describes the columns then.
    """

    model: Any
    X: Any
    y: pd.DataFrame
    times: FloatArray
    states: Sequence[str]
    groups: Any = None
    landmark: float | None = None
    by: Mapping[str, Any] | None = None
    thresholds: Sequence[float] = ()
    training: Sequence[Column] = ()
    time_name: str = "time"
    time_unit: str | None = None

    @property
    def unit(self) -> str:
        """The unit of times, or what they are called."""
        return self.time_unit or self.time_name

    def when(self, time: float) -> str:
        """A time in words."""
        shown = number(float(time))
        return f"{shown} {self.time_unit}" if self.time_unit else f"{self.time_name} {shown}"

    # ------------------------------------------------------------------------------------ people
    @cached_property
    def is_scored(self) -> BoolArray:
        """Who is scored: at a landmark, those who are under observation and event-free."""
        if self.landmark is None:
            return np.ones(len(self.y), np.bool_)
        entered = self.y["entry"] <= self.landmark if "entry" in self.y else True
        return np.asarray((self.y["duration"] > self.landmark) & entered)

    @cached_property
    def now(self) -> list[Column]:
        """The columns of the people scored."""
        features = check_features(self.X, like=self.model.fitted_model.schema)
        return columns(replace(features, values=features.values[self.is_scored]))

    @cached_property
    def evaluation(self) -> Evaluation:
        """Of the model as it is, at all times."""
        return self._evaluated(self.model.predict_cumulative_incidence(self.X, self._asked))

    @cached_property
    def at_middle(self) -> Evaluation:
        """Of the model as it is, at the time at which curves and groups are shown."""
        return self.evaluation.at(self.middle)

    @property
    def _asked(self) -> FloatArray:
        start = [] if self.landmark is None else [self.landmark]
        return np.concatenate([start, self.times])

    @property
    def middle(self) -> float:
        """The time at which curves and groups are shown."""
        return float(self.times[len(self.times) // 2])

    def _evaluated(self, curves: FloatArray) -> Evaluation:
        return Evaluation(
            None,
            self.y,
            curves,
            self._asked,
            groups=self.groups,
            event_ids=self.model.event_ids_,
            landmark=self.landmark,
        )

    # ------------------------------------------------------------------------------------ findings
    @cached_property
    def table(self) -> pd.DataFrame:
        """All scores at all times."""
        return self.evaluation.table(thresholds=self.thresholds)

    @cached_property
    def calibrations(self) -> dict[int, Calibration]:
        """Smooth calibration of each cause at the middle time."""
        return {cause: self.at_middle.calibration(cause) for cause in self.causes}

    @property
    def wrong(self) -> list[int]:
        """Causes whose intercept and slope are off beyond chance, with all causes tested."""
        level = _LEVEL / len(self.causes)
        return [cause for cause, found in self.calibrations.items() if found.p_value < level]

    @property
    def causes(self) -> dict[int, str]:
        """Names of the causes by their labels."""
        return dict(zip(self.model.event_ids_.tolist()[1:], self.states[1:], strict=True))

    @cached_property
    def subgroups(self) -> pd.DataFrame:
        """Scores of groups at the middle time, with the ``column`` that makes the groups."""
        by = self.by
        if not by:
            first = enumerate(self.now[:_MOST_COLUMNS])
            named = hasattr(self.X, "columns")
            by = {c.name: self.X[c.name] if named else np.asarray(self.X)[:, i] for i, c in first}
        self._refuse_entry()
        found = []
        for name, values in by.items():
            if len(values) != len(self.y):
                msg = f"`by` has {len(values)} values of {name!r} for {len(self.y)} people."
                raise ValueError(msg)
            kept = pd.Series(values).iloc[np.flatnonzero(self.is_scored)]
            with warnings.catch_warnings():
                # Small groups are marked.
                warnings.simplefilter("ignore", UserWarning)
                found.append(self.at_middle.by(kept).assign(column=name))
        return pd.concat(found, ignore_index=True)

    def decisions(self, cause: int) -> pd.DataFrame:
        """Net benefit of treating people by their risk of a cause."""
        thresholds: Any = self.thresholds
        if not thresholds:
            code = self.model.event_ids_.tolist().index(cause)
            risk = self.at_middle.workspace.scored.incidence[:, code, 0]
            high = min(round_up(float(np.quantile(risk, 0.95))), 0.95)
            thresholds = high * np.arange(1, _N_THRESHOLDS + 1) / _N_THRESHOLDS
        return self.at_middle.net_benefit(cause, thresholds=thresholds)

    @cached_property
    def recalibration(self) -> tuple[Recalibration, Evaluation] | None:
        """What `recalibrate` finds, and scores of people left out of it; None for nothing.

        A model that is recalibrated already is left alone unless it is wrong.
        """
        is_done = self.model.recalibration_ is not None and not self.wrong
        if is_done or not self.model.fitted_model.is_monotone:
            return None
        found = recalibrate(self.model, self.X, self.y).recalibration_
        if found is None:
            return None
        n_rows = len(self.is_scored)
        person = np.arange(n_rows) if self.groups is None else np.asarray(self.groups)
        fold = np.random.default_rng(0).permutation(int(person.max()) + 1)[person] % _N_FOLDS
        parts, order = [], []
        for own in range(_N_FOLDS):
            others, rows = np.flatnonzero(fold != own), np.flatnonzero(fold == own)
            changed = recalibrate(self.model, take_rows(self.X, others), self.y.iloc[others])
            people = take_rows(self.X, rows)
            parts.append(changed.predict_cumulative_incidence(people, self._asked))
            order.append(rows)
        curves = np.concatenate(parts)[np.argsort(np.concatenate(order))]
        return found, self._evaluated(curves)

    def row(self, name: str, cause: int) -> pd.Series:
        """A score of a cause at the middle time."""
        table = self.table
        chosen = (table["score"] == name) & (table["cause"] == cause)
        return table[chosen & (table["time"] == self.middle)].iloc[0]

    # --------------------------------------------------------------------------------- in a word
    @cached_property
    def cautions(self) -> list[str]:
        """What to know before the findings."""
        pairs = zip(self.training, self.now, strict=False)
        if not self.training or any(now.distance(then) for then, now in pairs):
            return []
        return [
            "These people have the same means and shares in all columns as those of training. If "
            "they are those of training, the scores are too good."
        ]

    def verdict(self) -> str:
        """One sentence on whether the model transports to these people."""
        self._refuse_entry()
        useless = [cause for cause in self.causes if not self.row("auc", cause)["lower"] > 0.5]
        if useless:
            shown = "; ".join(self._said("auc", cause) for cause in useless)
            names = " and ".join(self.causes[cause] for cause in useless)
            return (
                f"The model does not transport for {names}: it does not rank these people better "
                f"than chance ({shown} by {self.when(self.middle)})."
            )
        shown = "; ".join(
            f"{self._said('observed_expected', cause)}, {self._said('calibration_slope', cause)}"
            for cause in self.wrong or self.causes
        )
        if self.recalibration is None and not self.wrong:
            n_events = count(int((self.y["event"] > 0).sum()))
            return (
                f"The model transports, as far as {n_events} events can tell: it ranks these "
                "people, and neither level nor spread of its risks is off by more than chance "
                f"({shown} by {self.when(self.middle)})."
            )
        mend = (
            "recalibration would not change that"
            if self.recalibration is None
            else "recalibration is worth it, as below"
        )
        return (
            "The model transports in part: it ranks these people, but its risks are not right here "
            f"({shown} by {self.when(self.middle)}); {mend}."
        )

    def _refuse_entry(self) -> None:
        if self.landmark is None and "entry" in self.y and (self.y["entry"] > 0).any():
            msg = (
                "People enter late, so that calibration and AUC are scores of those under "
                "observation at a `landmark` (--landmark); choose one."
            )
            raise ValueError(msg)

    def _said(self, name: str, cause: int) -> str:
        row = self.row(name, cause)
        of = f" of {self.causes[cause]}" if len(self.causes) > 1 else ""
        return f"{_IN_TEXT[name]}{of} {_limits(row, decimals=2)}"


# ------------------------------------------------------------------------------------------- page
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
        (words, *(_limits(row, "\n") for _, row in table[table["score"] == name].iterrows()))
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
        cells = [_limits(lines.loc[[name]].iloc[0], "\n") for name in _IN_GROUPS]
        star = "*" * (n_events < _FEW_EVENTS)
        rows.append((f"{column}: {group}{star}", count(n_people), count(n_events), *cells))
    return head, rows


def _calibration(found: Validation, cause: int) -> Figure:
    curve, name = found.calibrations[cause], found.causes[cause]
    n_groups = int(np.clip(len(found.evaluation) // 40, 2, 10))
    groups = found.at_middle.risk_groups(cause, n_groups=n_groups)
    half = 1.96 * np.nan_to_num(groups.standard_error)
    end = min(1.0, round_up(float(np.nanmax([*groups.predicted, *(groups.observed + half)]))))
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
            tip = f"{column}: {label}\n{_limits(row)}\n{row['n_people']} people"
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
    chosen = np.arange(len(table)) if found.thresholds else _SHOWN_THRESHOLDS
    who = ("Treated", f"with {name}", "in vain", "Missed", "Spared")
    head = ("Treat from a risk of", *who, "Net benefit", "More than treating all")
    rows = []
    for _, row in table.iloc[chosen].iterrows():
        treated, caught = row["treated"], row["caught"]
        shares = (treated, caught, treated - caught, row["missed"], row["spared"])
        gain = pd.Series({key: row[f"gain{end}"] for key, end in _GAIN.items()})
        rows.append(
            (
                percent(row["threshold"]),
                *(_signed(100 * share, 1) for share in shares),
                _limits(row.rename({"net_benefit": "value"}), "\n", 100, 1),
                _limits(gain, "\n", 100, 1) if row["all"] > 0 else "treating all\nis below 0",
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
                _limits(row, "\n") for row in (found.row(key, cause), new[place].iloc[0], change)
            )
            rows.append((f"{SCORES[key][0]}, {name}", *cells))
    return said, (("Score", "As it is", "Recalibrated", "Difference"), rows)


def _limits(row: pd.Series, gap: str = " ", factor: float = 1.0, decimals: int = 3) -> str:
    """A value with its limits in brackets."""
    value, low, high = (
        _signed(factor * float(row[name]), decimals) for name in ("value", "lower", "upper")
    )
    return value if value == "–" else f"{value}{gap}({low} to {high})"


def _signed(value: float, decimals: int) -> str:
    """A score with a minus where it is below 0 after rounding."""
    text = score(value, decimals)
    return text.replace("-", "−" if text.strip("-0.") else "")

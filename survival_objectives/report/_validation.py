"""A fitted model on people it was not trained on: what is found."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives._models.recalibration import Recalibration, recalibrate
from survival_objectives._people import check_features, take_rows
from survival_objectives.metrics import Evaluation
from survival_objectives.metrics._smooth import Calibration
from survival_objectives.report._charts import round_up
from survival_objectives.report._facts import Column, columns
from survival_objectives.report._format import count, number, score
from survival_objectives.uncertainty import DependentCensoring
from survival_objectives.uncertainty._dependent import sensitivity
from survival_objectives.uncertainty._held_out import HeldOutPeople

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
_IN_TEXT = {"observed_expected": "observed/expected", "calibration_slope": "slope", "auc": "AUC"}
_MOST_COLUMNS = 6
_N_FOLDS = 5
_N_THRESHOLDS = 20
_SHOWN_THRESHOLDS = np.array([1, 3, 7, 11, 15])
# Factors of hazards after censoring, and people who are enough to see what they do.
_FACTORS = np.geomspace(0.25, 4, 9)
_MOST_FOLLOWED = 2000
_LEVEL = 0.05


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
        """Net benefit of treating people by their risk of a cause.

        At thresholds up to the largest risks and at those asked for, which are ``shown`` in tables.
        """
        code = self.model.event_ids_.tolist().index(cause)
        risk = self.at_middle.workspace.scored.incidence[:, code, 0]
        high = max(min(round_up(float(np.quantile(risk, 0.95))), 0.95), *self.thresholds, 0.0)
        even = high * np.arange(1, _N_THRESHOLDS + 1) / _N_THRESHOLDS
        shown = self.thresholds or even[_SHOWN_THRESHOLDS]
        found = self.at_middle.net_benefit(cause, thresholds=np.union1d(even, shown))
        return found.assign(shown=found["threshold"].isin(shown))

    @cached_property
    def sensitivity(self) -> dict[int, DependentCensoring]:
        """By cause, what answers become if hazards change when people are censored.

        At the middle threshold in tables. Empty for people with several rows or at a landmark, and
        where nobody is censored before the middle time.
        """
        y = self.y
        is_censored = (y["event"] == 0) & (y["duration"] < self.middle)
        if self.landmark is not None or self.groups is not None or not is_censored.any():
            return {}
        rows = np.random.default_rng(0).permutation(len(y))[:_MOST_FOLLOWED]
        people = HeldOutPeople.of(self.model, take_rows(self.X, rows), y.iloc[rows])
        found = {}
        for cause in self.causes:
            table = self.decisions(cause)
            thresholds = table["threshold"][table["shown"]].to_numpy()
            found[cause] = sensitivity(
                people, self.middle, cause, float(thresholds[len(thresholds) // 2]), _FACTORS
            )
        return found

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
        mend = "no other level or slope of the hazards is better beyond chance"
        if self.recalibration is not None:
            mend = "recalibration is worth it, as below"
        elif not self.model.fitted_model.is_monotone:
            mend = "it cannot be recalibrated"
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
        return f"{_IN_TEXT[name]}{of} {limits(row, decimals=2)}"


def limits(row: pd.Series, gap: str = " ", factor: float = 1.0, decimals: int = 3) -> str:
    """A value with its limits in brackets."""
    value, low, high = (
        signed(factor * float(row[name]), decimals) for name in ("value", "lower", "upper")
    )
    return value if value == "–" else f"{value}{gap}({low} to {high})"


def signed(value: float, decimals: int) -> str:
    """A score with a minus where it is below 0 after rounding."""
    text = score(value, decimals)
    return text.replace("-", "−" if text.strip("-0.") else "")

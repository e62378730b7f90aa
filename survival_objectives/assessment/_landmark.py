"""Assessment of people who came under observation late, or have several rows: at a landmark.

Of scores that need censoring weights, only those at a landmark s are defined for them. Scored are
the people who are under observation and event-free at s (entry <= s < duration), on curves that are
conditional on that; times count from s. All of them are followed from s on, so that they are merely
right-censored. Models are trained on the whole follow-up of everybody who is not held out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import has_fit_parameter

from survival_objectives._arrays import BoolArray, FloatArray, IntArray
from survival_objectives._people import SurvivalTarget


@dataclass(frozen=True)
class Landmark:
    """The people at risk at a time.

    Attributes
    ----------
    time : float
    rows : int64 array
        Their rows of the features and outcomes of all people.
    X : DataFrame
        Features of all people.
    y : DataFrame
        Outcomes of all people.
    group : int64 array
        What is held out together: the number of the person, or of the group, of each row.
    is_grouped : bool
        Whether rows share groups.
    outcomes : DataFrame
        ``event`` and ``duration`` after the landmark of the people at risk.
    """

    time: float
    rows: IntArray
    X: pd.DataFrame
    y: pd.DataFrame
    group: IntArray
    is_grouped: bool
    outcomes: pd.DataFrame

    @classmethod
    def of(
        cls, X: Any, target: SurvivalTarget, time: float | None, group: IntArray | None = None
    ) -> Landmark:
        """The landmark at ``time``; by default the time after which most events are observed."""
        n_rows = target.n_samples
        frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X)).add_prefix("x")
        entry = np.zeros(n_rows) if target.entry is None else target.entry
        label = target.event_ids[target.event]
        person, whole = target.person, target.until_last
        is_grouped = group is not None or person is not None
        if person is None:
            person = np.arange(n_rows)
            y = pd.DataFrame({"event": label, "duration": target.duration, "entry": entry})
        else:
            y = pd.DataFrame({"id": person, "start": entry, "stop": target.duration})
            y["event"] = label
        if time is None:
            time = _with_most_events(entry, target.duration, whole.event > 0)
        rows = np.flatnonzero((entry <= time) & (time < target.duration))
        if not whole.event[rows].any():
            msg = (
                f"At the landmark {time:g}, {len(rows)} people are under observation, and none of "
                "them has an event later. Use another `landmark`."
            )
            raise ValueError(msg)
        event = target.event_ids[whole.event[rows]]
        outcomes = pd.DataFrame({"event": event, "duration": whole.duration[rows] - time})
        unit = person if group is None else group
        frame = frame.reset_index(drop=True)
        return cls(float(time), rows, frame, y, unit, is_grouped, outcomes)

    def at_risk(self) -> pd.DataFrame:
        """Features of the people at risk, with their rows as index."""
        return self.X.iloc[self.rows]


def _with_most_events(begin: FloatArray, end: FloatArray, has_event: BoolArray) -> float:
    """The time at which most people are under observation who have an event later."""
    begin, end = np.sort(begin[has_event]), np.sort(end[has_event])
    times = np.unique(begin)
    n_begun = np.searchsorted(begin, times, side="right")
    n_ended = np.searchsorted(end, times, side="right")
    return float(times[np.argmax(n_begun - n_ended)])


class AtLandmark(BaseEstimator):  # type: ignore[misc]
    """A model that is trained on everybody but the people held out, and predicts from ``at`` on.

    ``fit`` gets the features of those people at risk at the landmark who are not held out.
    """

    def __init__(self, model: Any, at: Landmark) -> None:
        self.model = model
        self.at = at

    def fit(self, X: pd.DataFrame, _: Any) -> AtLandmark:
        at = self.at
        held_out = at.group[np.setdiff1d(at.rows, X.index)]
        train = np.flatnonzero(~np.isin(at.group, held_out))
        self.fitted_ = clone(self.model)
        options = {}
        if at.is_grouped and has_fit_parameter(self.fitted_, "groups"):
            options["groups"] = at.group[train]
        self.fitted_.fit(at.X.iloc[train], at.y.iloc[train], **options)
        return self

    def predict_cumulative_incidence(self, X: pd.DataFrame, times: FloatArray) -> FloatArray:
        """Probabilities at times after the landmark of people who are event-free then."""
        s = self.at.time
        curves: FloatArray = self.fitted_.predict_cumulative_incidence(
            X, s + np.asarray(times), conditional_after=s
        )
        return curves

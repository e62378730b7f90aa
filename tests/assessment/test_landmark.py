"""People who came under observation late are assessed at a landmark."""

import numpy as np
import pandas as pd
import pytest

from survival_objectives import HazardBoost
from survival_objectives._people import check_survival_target
from survival_objectives.assessment import assess
from survival_objectives.assessment._assess import check_assessable
from survival_objectives.assessment._landmark import Landmark
from survival_objectives.metrics import integrated_brier_score


def late_people(n_people=400, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=3 * n_people)
    entry = generator.uniform(0, 3, 3 * n_people)
    death = generator.exponential(4 * np.exp(-0.7 * x))
    known = np.flatnonzero(death > entry)[:n_people]
    x, entry, death = x[known], entry[known], death[known]
    end = entry + generator.uniform(0.5, 6, n_people)
    y = pd.DataFrame(
        {"event": (death <= end).astype(int), "duration": np.minimum(death, end), "entry": entry}
    )
    return pd.DataFrame({"x": x}), y


MODEL = HazardBoost(n_estimators=10, n_jobs=1, random_state=0)


def test_scores_are_those_of_people_at_risk_at_the_landmark():
    X, y = late_people()
    result = assess(MODEL, X, y, landmark=2.0, test_size=0.4, random_state=0, baselines=False)
    at_risk = (y["entry"] <= 2) & (y["duration"] > 2)
    assert set(result.index) <= set(np.flatnonzero(at_risk))
    assert result.landmark == 2.0
    # By hand: trained on everybody but the people held out.
    rest = np.setdiff1d(np.arange(len(X)), result.index)
    fitted = MODEL.fit(X.iloc[rest], y.iloc[rest])
    curves = fitted.predict_cumulative_incidence(
        X.iloc[result.index], 2 + result.times, conditional_after=2.0
    )
    np.testing.assert_array_equal(result.curves["HazardBoost"], curves)
    since = pd.DataFrame({"event": y["event"], "duration": y["duration"] - 2})
    train = np.setdiff1d(np.flatnonzero(at_risk), result.index)
    expected = integrated_brier_score(
        since.iloc[train], since.iloc[result.index], curves, result.times, average="all"
    )
    assert result.values("integrated_brier_score").iloc[0, 0] == pytest.approx(expected)


def test_everybody_from_time_0_needs_no_landmark():
    X, y = late_people(200)
    y = y.drop(columns="entry")
    plain = assess(MODEL, X, y, test_size=0.4, random_state=0)
    assert plain.landmark is None
    # At the landmark 0 the same people are scored by the same models.
    at_0 = assess(MODEL, X, y, landmark=0.0, test_size=0.4, random_state=0)
    np.testing.assert_array_equal(at_0.index, plain.index)
    pd.testing.assert_frame_equal(at_0.scores, plain.scores)


def test_the_landmark_is_where_most_events_are_to_come():
    X, y = late_people()
    time = Landmark.of(X, check_survival_target(y, late_entry=True), None).time
    has_event = y["event"] > 0

    def n_events(at):
        return int((has_event & (y["entry"] <= at) & (y["duration"] > at)).sum())

    assert n_events(time) == max(map(n_events, y["entry"]))
    check_assessable(y)


def test_folds_of_groups_and_late_entry():
    X, y = late_people(200)
    group = np.arange(200) // 2
    result = assess(MODEL, X, y, groups=group, n_splits=2, random_state=0, baselines=False)
    folds = pd.DataFrame({"group": group[result.index], "fold": result.fold})
    assert (folds.groupby("group")["fold"].nunique() == 1).all()


def test_a_landmark_without_events_is_refused():
    X, y = late_people(100)
    with pytest.raises(ValueError, match="At the landmark 1000, 0 people are under observation"):
        assess(MODEL, X, y, landmark=1000.0)

"""Columns that know the outcome are named, and honest columns are not, however strong."""

import numpy as np
import pandas as pd
import pytest

from survival_objectives.assessment import assess
from survival_objectives.assessment.leaks import _Outcome, leaks
from survival_objectives.baselines import CauseSpecificCox


def outcomes(seed, n_people=600, *, strength=1.0, end=10.0, unit=None):
    """People with a strong honest predictor, entry over 8 years and random drop-out."""
    generator = np.random.default_rng(seed)
    score = generator.normal(size=n_people)
    stage = generator.choice(4, n_people, p=[0.5, 0.3, 0.15, 0.05])
    hazard = np.exp(strength * (1.5 * score + np.array([0, 1, 2, 2.9])[stage]))
    time = generator.exponential(1 / hazard) * 4
    entry = generator.uniform(0, 8, n_people)
    censoring = np.minimum(generator.exponential(6, n_people), end - entry)
    duration = np.minimum(time, censoring)
    y = pd.DataFrame(
        {
            "event": (time <= censoring).astype(int),
            "duration": duration if unit is None else np.ceil(duration / unit) * unit,
        }
    )
    X = pd.DataFrame(
        {
            "score": score,
            "stage": pd.Categorical(stage.astype(str)),
            "year": np.floor(entry),
            "cohort": pd.Categorical(np.floor(entry).astype(str)),
            "hospital": pd.Categorical(generator.integers(0, 40, n_people).astype(str)),
            "measured if ill": np.where(score > 1, score, np.nan),
        }
    )
    return X, y


@pytest.mark.parametrize("unit", [None, 1.0])
@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_honest_tables_raise_no_alarm(strength, unit):
    # A level of 1 % a table: 40 tables with none are what to expect, and two are not.
    for seed in range(10):
        for n_people in (60, 600):
            X, y = outcomes(seed, n_people, strength=strength, unit=unit)
            assert leaks(X, y) == []


def test_a_level_without_censored_people_is_no_leak_where_they_die_early():
    generator = np.random.default_rng(0)
    dying = np.arange(900) < 200
    time = generator.exponential(np.where(dying, 0.5, 8))
    censoring = generator.exponential(20, 900)
    y = pd.DataFrame(
        {"event": (time <= censoring).astype(int), "duration": np.minimum(time, censoring)}
    )
    assert y["event"][dying].mean() > 0.95
    assert leaks(pd.DataFrame({"stage": pd.Categorical(np.where(dying, "IV", "I"))}), y) == []


def leaking(kind, y):
    generator = np.random.default_rng(1)
    event = y["event"].to_numpy() > 0
    cause = generator.choice(["heart", "lung", "other"], len(y))
    columns = {
        "cause of death, missing for survivors": pd.Categorical(np.where(event, cause, None)),
        "cause of death, a word for survivors": pd.Categorical(np.where(event, cause, "none")),
        "one cause only": pd.Categorical(np.where(event & (cause == "heart"), "heart", "other")),
        "noisy": pd.Categorical(
            np.where(event & (generator.random(len(y)) < 0.97), "autopsy", "clinic")
        ),
        "day of death": np.where(event, generator.random(len(y)), np.nan),
        "day of death, 0 for survivors": np.where(event, generator.random(len(y)), 0),
        "copy": y["duration"] * 30.4,
        "copy of events": np.where(event, y["duration"], generator.random(len(y)) * 10),
        "noisy copy": -y["duration"] + generator.normal(scale=0.05, size=len(y)),
        "died early": pd.Categorical(
            np.where(event & (y["duration"] < 1), "short follow-up", "other")
        ),
    }
    return columns[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "cause of death, missing for survivors",
        "cause of death, a word for survivors",
        "one cause only",
        "noisy",
        "day of death",
        "day of death, 0 for survivors",
        "copy",
        "copy of events",
        "noisy copy",
        "died early",
    ],
)
def test_columns_that_were_filled_in_later_are_named(kind):
    X, y = outcomes(0)
    (found,) = leaks(X.assign(**{kind: leaking(kind, y)}), y)
    assert found.column == kind
    assert "leave it out" in str(found)
    assert any(character.isdigit() for character in found.finding)


def test_expected_numbers_are_those_of_the_formula():
    # (A) by hand: three people, censored at 1 and 3, an event at 2.
    outcome = _Outcome(np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(outcome.expected_censored, [1 / 3, 1 / 3, 1 / 3 + 1])
    np.testing.assert_allclose(outcome.expected_events, [0, 1 / 2, 1 / 2])
    # At tied times events come first: who has one is no longer there to be censored.
    outcome = _Outcome(np.array([0, 1, 0]), np.array([1.0, 1.0, 1.0]))
    np.testing.assert_allclose(outcome.expected_censored, [1, 0, 1])


def test_people_who_enter_late_are_expected_to_leave_only_after_their_entry():
    event, duration = np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0])
    # The third person enters at 1.5, so that two people are at risk of the first time.
    outcome = _Outcome(event, duration, np.array([0.0, 0.0, 1.5]))
    np.testing.assert_allclose(outcome.expected_censored, [1 / 2, 1 / 2, 1])
    np.testing.assert_allclose(outcome.expected_events, [0, 1 / 2, 1 / 2])
    same = _Outcome(event, duration, np.zeros(3))
    np.testing.assert_array_equal(
        same.expected_censored, _Outcome(event, duration).expected_censored
    )


def test_a_common_end_of_follow_up():
    generator = np.random.default_rng(0)
    time = generator.exponential(5, 400)
    y = pd.DataFrame({"event": (time <= 4).astype(int), "duration": np.minimum(time, 4)})
    X = pd.DataFrame({"sex": pd.Categorical(generator.choice(["f", "m"], 400))})
    assert leaks(X, y) == []
    (found,) = leaks(X.assign(status=pd.Categorical(np.where(time <= 4, "died", "well"))), y)
    assert "without exception" in found.finding


def test_arrays_and_assessments_have_leaks_too():
    X, y = outcomes(0, 300)
    values = np.column_stack([X["score"], y["duration"]])
    (found,) = leaks(values, (y["event"], y["duration"]))
    assert found.column == "column 1"
    result = assess(CauseSpecificCox(), values, y, name="Cox", baselines=False, n_splits=2)
    assert [leak.column for leak in result.leaks] == ["column 1"]

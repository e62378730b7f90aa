"""Columns of a frame that look like late entry, or like ids of people with several rows."""

import warnings

import numpy as np
import pandas as pd
import pytest

from survival_objectives import HazardBoost
from survival_objectives._people import late_entry_columns, several_rows
from survival_objectives.datasets import load_covid_hospital


def truncated_people(n_people=2000, seed=0):
    """Ages at entry and exit; nobody enters after their exit."""
    generator = np.random.default_rng(seed)
    entry = generator.uniform(50, 70, 4 * n_people)
    death = 45 + 30 * generator.weibull(3, 4 * n_people)
    known = np.flatnonzero(death > entry)[:n_people]
    entry, death = entry[known], death[known]
    end = entry + generator.uniform(2, 15, len(known))
    return pd.DataFrame(
        {
            "when joined": entry,
            "exit_age": np.minimum(death, end),
            "dead": (death <= end).astype(int),
            "x": generator.normal(size=len(known)),
        }
    )


def test_a_column_that_bounds_the_duration_is_found_whatever_its_name():
    people = truncated_people()
    columns = {name: people[name].to_numpy(float) for name in ("when joined", "x", "dead")}
    found = late_entry_columns(columns, people["exit_age"].to_numpy())
    assert list(found) == ["when joined"]
    # A few mistakes in the file do not hide it.
    columns["when joined"][:5] += 100
    found = late_entry_columns(columns, people["exit_age"].to_numpy())
    assert "in only 5 of 2000 rows" in found["when joined"]


def test_a_name_is_enough_where_values_are_possible():
    generator = np.random.default_rng(0)
    entry = generator.uniform(20, 30, 300)
    duration = generator.uniform(40, 70, 300)
    assert list(late_entry_columns({"tstart": entry, "age": entry}, duration)) == ["tstart"]
    # Another clock, another unit, a code.
    for other in (entry + 30, entry / 100, np.arange(300) % 3):
        assert late_entry_columns({"entry": other.astype(float)}, duration) == {}


@pytest.mark.parametrize("seed", range(20))
def test_honest_columns_are_not_late_entry(seed):
    generator = np.random.default_rng(seed)
    n_people = 400
    risk = generator.normal(size=n_people)
    censored = generator.uniform(1, 5, n_people)
    duration = np.minimum(generator.exponential(np.exp(2 * risk)), censored)
    columns = {
        "strong": risk,
        "expected": np.exp(2 * risk),
        "score": generator.uniform(0, 1, n_people),
        "count": generator.poisson(0.3, n_people).astype(float),
        "flag": generator.integers(0, 2, n_people).astype(float),
        "copy": duration,
        "copy of events": np.where(generator.random(n_people) < 0.5, duration, 0.1 * duration),
        "missing": np.where(generator.random(n_people) < 0.5, np.nan, duration / 2),
    }
    assert late_entry_columns(columns, duration) == {}
    data = load_covid_hospital()
    columns = {name: data.X[name].to_numpy(float) for name in data.X}
    assert late_entry_columns(columns, data.y["duration"].to_numpy(float)) == {}


def rows_of_people(n_people=300, n_rows=4):
    person = np.repeat(np.arange(n_people), n_rows)
    stop = np.tile(np.arange(1.0, n_rows + 1), n_people)
    return person, stop - 1, stop


def test_ids_that_repeat_and_rows_that_continue_one_another_are_found():
    person, start, stop = rows_of_people()
    shuffled = np.random.default_rng(0).permutation(len(stop))
    for rows in (slice(None), shuffled):
        found = several_rows({"pid": person[rows]}, {"t0": start[rows]}, stop[rows])
        assert (found.id, found.start, found.n_rows, found.n_people) == ("pid", "t0", 1200, 300)
    found = several_rows({}, {"t0": start}, stop)
    assert "several rows per person: 900 of 1200 rows begin, in 't0', where" in str(found)


@pytest.mark.parametrize("as_text", [False, True])
def test_ids_by_any_name_are_found_where_their_rows_end_together(as_text):
    generator = np.random.default_rng(0)
    person = np.repeat(generator.permutation(300) + 1000, 4)
    stop = generator.exponential(size=2000)[person]
    names = {"mouse": np.array([f"M{one}" for one in person])} if as_text else {}
    numbers = {} if as_text else {"mouse": person.astype(float)}
    found = several_rows(names, numbers, stop)
    assert (found.id, found.n_people) == ("mouse", 300)
    # Where the outcome tells the column, many people share times, or few rows agree.
    others = [np.ceil(100 * stop), np.argsort(np.argsort(stop)) // 4]
    assert several_rows({}, {"other": others[0]}, np.ceil(100 * stop)) is None
    assert several_rows({}, {"other": others[1].astype(float)}, stop) is None
    assert several_rows(names, numbers, np.ceil(stop)) is None
    assert several_rows(names, numbers, generator.exponential(size=1200)) is None


@pytest.mark.parametrize("name", ["hospital_id", "family id", "age"])
def test_ids_of_groups_are_not_people(name):
    person, _, stop = rows_of_people()
    assert several_rows({name: person}, {}, stop) is None
    assert several_rows({"id": np.arange(1200)}, {}, stop) is None


@pytest.mark.filterwarnings("ignore:No split on a feature")
def test_fit_on_a_frame_warns_of_late_entry_and_of_ids():
    people = truncated_people(300)
    model = HazardBoost(n_estimators=2, n_jobs=1)
    with pytest.warns(UserWarning, match="looks like late entry: 'when joined' is never above the"):
        model.fit(people, duration="exit_age", event="dead")
    repeated = people.drop(columns="when joined").assign(patient=np.arange(300) // 4)
    with pytest.warns(UserWarning, match="several rows per person: 'patient' has 75 values in 300"):
        model.fit(repeated, duration="exit_age", event="dead")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="No split on a feature")
        model.fit(repeated, duration="exit_age", event="dead", groups=repeated["patient"])
        model.fit(people[["when joined", "x"]], (people["dead"], people["exit_age"]))

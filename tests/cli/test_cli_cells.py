"""Cells as people write them: bounds, two formats of dates, outcomes that are not known."""

import numpy as np
import pandas as pd
import pytest

from survival_objectives.cli._columns import features, understand_columns
from survival_objectives.cli._dates import days
from survival_objectives.cli._errors import CommandError
from survival_objectives.cli._tables import read_table

QUICK = ["--rounds", "2", "--test-size", "0.3", "--threads", "1", "--no-report", "--quiet"]


@pytest.fixture
def read(tmp_path):
    def read(content):
        (tmp_path / "file.csv").write_text(content, encoding="utf-8")
        return read_table(str(tmp_path / "file.csv"))

    return read


def test_bounds_among_numbers_are_their_number(read):
    table = read("lab\n" + "1.5\n2\n7\n" * 4 + "<0.5\n≥ 10\n")
    (column,) = understand_columns(table, ()).used
    assert column.kind == "number"
    assert table.is_bound("lab").sum() == 2
    np.testing.assert_array_equal(features(table, [column])[0]["lab"][-2:], [0.5, 10])
    # A single person of a later file may have a bound.
    new = read("lab,x\n<0.5,1\n")
    assert features(new, [column])[0]["lab"].tolist() == [0.5]


def test_groups_that_are_written_as_bounds_are_categories(read):
    (column,) = understand_columns(read("age\n<50\n>50\n>50\n<50\n"), ()).used
    assert (column.kind, column.levels) == ("category", ("<50", ">50"))


def test_bounds_are_said_and_are_no_durations(run, people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labs = people["lab value (mg/l)"].astype(object).where(people.index % 10 > 0, "<0.5")
    people.assign(**{"lab value (mg/l)": labs}).to_csv("people.csv", index=False)
    done = run("fit", "people.csv", "--duration", "time", "--event", "status", "--out", "m", *QUICK)
    assert "24 bounds such as <0.5 taken as 0.5" in done.out
    people.assign(time=people["time"].astype(object).where(people.index > 0, ">5")).to_csv("p.csv")
    done = run("fit", "p.csv", "--duration", "time", "--event", "status", "--out", "n", *QUICK)
    assert "the duration 'time' is not a number on line 2 '>5'" in done.err


def test_two_formats_of_dates_in_one_column(read):
    table = read("day\n31.01.2020\n2020-02-01\n02.02.2020\n03 Feb 2020\n")
    with pytest.raises(CommandError, match="not dates such as"):
        days(table, "day")  # Three formats.
    table = read("day\n31.01.2020\n2020-02-01\n02.02.2020\n\n2020-02-03\n04.02.2020\n")
    start = pd.Timestamp("2020-01-31").toordinal() - pd.Timestamp("1970-01-01").toordinal()
    np.testing.assert_array_equal(days(table, "day") - start, [0, 1, 2, 3, 4])


def test_two_formats_as_frequent_as_each_other(read):
    table = read("day\n2020-02-01\n13.02.2020\n2020-02-03\n02.02.2020\n")
    np.testing.assert_array_equal(days(table, "day") - days(table, "day")[0], [0, 12, 2, 1])
    with pytest.raises(CommandError, match="which is the day"):
        days(read("day\n01.02.2020\n02/03/2020\n05/04/2020\n"), "day")


def test_day_and_month_are_not_swapped_within_a_column(read):
    with pytest.raises(CommandError, match="not dates such as"):
        days(read("day\n31/01/2020\n30/01/2020\n01/30/2020\n"), "day")


def test_people_without_an_outcome_are_left_out(run, people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gaps = people.astype({"time": object})
    gaps.loc[[3, 5], "status"] = None
    gaps.loc[[5, 9], "time"] = None
    gaps.to_csv("gaps.csv", index=False)
    command = ["--duration", "time", "--event", "status", "--out", "m", *QUICK]
    done = run("fit", "gaps.csv", *command)
    assert done.code == 1
    assert "missing on line 5, line 7; fill it in, or leave these" in done.err
    done = run("fit", "gaps.csv", *command, "--skip-unknown")
    assert done.code == 0, done.err
    assert "gaps.csv: 237 people" in done.out
    assert "3 rows without an outcome left out" in done.out
    assert run("evaluate", "m", "gaps.csv").code == 1
    assert "people: 237" in run("evaluate", "m", "gaps.csv", "--skip-unknown").out

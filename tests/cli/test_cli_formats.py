"""Excel, gzip, folders of Parquet files and standard input; dates, percent signs and codes."""

import gzip
import io
import sys

import numpy as np
import pandas as pd
import pytest

from survival_objectives.cli._columns import features, understand_columns
from survival_objectives.cli._dates import Span, days, spans
from survival_objectives.cli._errors import CommandError
from survival_objectives.cli._tables import Table, read_table


def table_of(columns):
    frame = pd.DataFrame({k: [str(cell) for cell in v] for k, v in columns.items()}, dtype=object)
    return Table("file.csv", frame, np.arange(2, 2 + len(frame)))


# ----------------------------------------------------------------------------------------- files
def test_every_kind_of_file_gives_the_same_predictions(run, workplace, people, monkeypatch):
    text = people.to_csv(index=False).encode()
    (workplace / "people.csv.gz").write_bytes(gzip.compress(text))
    people.to_excel("people.xlsx", index=False)
    (workplace / "parts").mkdir()
    people[:100].to_parquet("parts/a.parquet", index=False)
    people[100:].to_parquet("parts/b.parquet", index=False)
    arguments = ["--times", "5,20", "--quiet"]
    expected = run("predict", "model", "people.csv", *arguments)
    for file in ("people.csv.gz", "people.xlsx", "parts"):
        assert run("predict", "model", file, *arguments) == expected, file
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert run("predict", "model", "-", *arguments) == expected


def test_excel_files_keep_dates_and_name_rows(tmp_path):
    path = tmp_path / "people.xlsx"
    with pd.ExcelWriter(path) as book:
        frame = pd.DataFrame({"x": [1, "a"], "day": pd.to_datetime(["2020-01-31", "2021-02-03"])})
        frame.to_excel(book, index=False)
        frame.to_excel(book, sheet_name="more")
    table = read_table(str(path))
    assert table.frame.to_numpy().tolist() == [["1", "2020-01-31"], ["a", "2021-02-03"]]
    assert table.place(1) == "row 3"
    assert table.notes == ("read the first sheet, 'Sheet1'; not read: 'more'",)


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("people.xlsx", b"no Excel", "cannot be read as an Excel file"),
        ("people.csv.gz", b"no gzip", "cannot be unpacked"),
        ("people.csv.gz", gzip.compress(b"x,y\n1,2\n" * 99, mtime=0)[:-9], "cannot be unpacked"),
        ("people.xls", b"old", "is an old Excel file; save it as CSV, Excel (.xlsx) or Parquet"),
    ],
)
def test_broken_files_are_refused(tmp_path, name, content, fragment):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CommandError) as refused:
        read_table(str(tmp_path / name))
    assert fragment in str(refused.value)


def test_percent_signs_are_left_out():
    table = table_of({"share": ["12%", "7.5 %", "", "3"], "text": ["a%", "b", "c", "d"]})
    np.testing.assert_array_equal(table.numbers("share").values, [12, 7.5, np.nan, 3])
    assert table.has_percent_signs("share")


def test_stray_cells_of_all_columns_are_named_at_once():
    table = table_of({"x": [*range(20), "?", "abc"], "y": ["-", *range(5, 26)]})
    with pytest.raises(CommandError) as refused:
        features(table, understand_columns(table, ()).used)
    for fragment in ("line 22 '?', line 23 'abc'", "line 2 '-'", "--missing '?' --missing abc"):
        assert fragment in str(refused.value)


@pytest.mark.parametrize("name", ["zip", "ZIP code", "postcode", "home_plz", "icd10_code"])
def test_codes_are_asked_about(name):
    table = table_of({name: [10115, 10117, 80331, 10115], "age": [40, 52, 61, 77]})
    with pytest.raises(CommandError, match=r"codes or numbers\? A code such as 10115 has no size"):
        understand_columns(table, ())
    assert understand_columns(table, (), numeric=[name]).used[0].kind == "number"
    assert understand_columns(table, (), categorical=[name]).used[0].kind == "category"


# ----------------------------------------------------------------------------------------- dates
@pytest.mark.parametrize(
    "cells",
    [
        ["2020-01-31", "2021-02-03 10:15", ""],
        ["31.1.2020", "3.2.2021", "NA"],
        ["01/31/2020", "2/3/2021", ""],
        ["31-Jan-2020", "03-Feb-2021", ""],
        ["2020/1/31", "2021/2/3", ""],
    ],
)
def test_dates_are_days(cells):
    np.testing.assert_array_equal(days(table_of({"d": cells}), "d"), [18292, 18661, np.nan])


def test_day_and_month_that_cannot_be_told_apart_are_asked_about():
    table = table_of({"d": ["03/04/2020", "05/06/2021"]})
    with pytest.raises(CommandError, match="Use --date-format %d/%m/%Y or --date-format %m/%d/%Y"):
        days(table, "d")
    first = days(table, "d", "%m/%d/%Y")
    assert first[0] == pd.Timestamp(2020, 3, 4).timestamp() / 86400


def test_spans_between_dates():
    table = table_of({"from": ["2020-01-01", "2020-03-01"], "to": ["2021-01-01", "2020-03-08"]})
    np.testing.assert_allclose(spans(table, Span("from", "to")), [366, 7])
    np.testing.assert_allclose(spans(table, Span("from", "to", "weeks")), [366 / 7, 1])
    with pytest.raises(CommandError, match=r"before the start date 'to' on line 2 \(2021-01-01 to"):
        spans(table, Span("to", "from"))
    table = table_of({"from": ["2020-01-01"] * 9, "to": ["2021-01-01"] * 8 + ["soon"]})
    with pytest.raises(CommandError, match="line 10 'soon'; correct them"):
        spans(table, Span("from", "to"))

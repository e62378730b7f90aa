"""Whatever dialect a file is written in, the same people are read."""

import csv
import importlib.util
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from survival_objectives.cli import _csv
from survival_objectives.cli._errors import CommandError
from survival_objectives.cli._tables import MISSING, read_table

# What csv leaves as it is: no NUL, no lone surrogates, and no space at the ends, which is stripped.
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")
cells = st.text(characters, max_size=8).map(str.strip)


@given(
    values=st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=1),
    separator=st.sampled_from(",;\t|"),
    decimal=st.sampled_from(".,"),
)
def test_numbers_of_any_dialect_are_read(values, separator, decimal, tmp_path_factory):
    path = tmp_path_factory.mktemp("dialect") / "numbers.csv"
    # The second column has decimals that can be nothing else.
    written = pd.DataFrame({"x": values, "half": np.arange(len(values)) + 0.5})
    written.to_csv(path, sep=separator, decimal=decimal, index=False)
    table = read_table(str(path))
    assert table.decimal == decimal
    for name in ("x", "half"):
        numbers = table.numbers(name)
        assert not numbers.wrong.any()
        np.testing.assert_array_equal(numbers.values, written[name])


@given(rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=5))
def test_any_text_is_read_with_the_line_it_begins_on(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.csv"
    content, begins = "a,b,last\n", []
    for row in rows:
        begins.append(content.count("\n") + 1)
        line = io.StringIO()
        csv.writer(line, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow([*row, "x"])
        content += line.getvalue()
    path.write_text(content, encoding="utf-8", newline="")
    table = read_table(str(path), decimal=".")
    assert list(zip(table.frame["a"], table.frame["b"], strict=True)) == rows
    assert table.lines.tolist() == begins
    known = [first not in MISSING for first, _ in rows]
    assert (~table.is_missing("a")).tolist() == known


@pytest.fixture
def read(tmp_path):
    def read(content, name="file.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_table(str(path), **options)

    return read


@pytest.mark.parametrize(
    ("encoding", "notes"),
    [
        ("utf-8", ()),
        ("utf-8-sig", ()),
        ("utf-16", ("read as UTF-16, because it is not UTF-8",)),
        ("cp1252", ("read as Windows-1252, because it is not UTF-8",)),
    ],
)
def test_encodings(read, encoding, notes):
    table = read("größe,ort\n1,Köln\n2,Münster\n".encode(encoding))
    assert table.names == ["größe", "ort"]
    assert table.frame["ort"].tolist() == ["Köln", "Münster"]
    assert table.notes == notes


def test_empty_lines_and_a_separator_at_the_end(read):
    table = read("\n a b ; c ;\n1;x;\n\n;;\n 2 ;y;\n\n")
    assert table.names == ["a b", "c"]
    assert table.frame.to_numpy().tolist() == [["1", "x"], ["2", "y"]]
    assert [table.place(row) for row in range(2)] == ["line 3", "line 6"]
    assert table.notes == ("columns are separated by semicolons", "4 empty lines skipped")


def test_a_column_without_name_is_kept_where_it_has_content(read):
    assert read(",x\n1,5\n2,7\n").names == ["unnamed column 1", "x"]


def test_missing_cells(read):
    table = read("x,y\nNA,a\n.,none\n99,None\n1,\n", missing=["99"])
    np.testing.assert_array_equal(table.is_missing("x"), [True, True, True, False])
    np.testing.assert_array_equal(table.is_missing("y"), [False, False, False, True])
    np.testing.assert_array_equal(table.numbers("x").values, [np.nan, np.nan, np.nan, 1])
    assert not table.numbers("x").wrong.any()


@pytest.mark.parametrize(
    ("cells", "decimal", "values"),
    [
        (["1,234", "12,345,678.5", "7"], ".", [1234, 12345678.5, 7]),
        (["1.234", "12.345.678,5", "7"], ",", [1234, 12345678.5, 7]),
        (["1,5", "7"], ".", [np.nan, 7]),
        (["1.5", "7"], ",", [np.nan, 7]),
        (["1e-3", "+.5", "-5."], ".", [0.001, 0.5, -5]),
        (["inf", "1e999", "0x1F", "1_000"], ".", [np.nan] * 4),
    ],
)
def test_what_is_a_number(read, cells, decimal, values):
    numbers = read("x;y\n" + "".join(f"{cell};a\n" for cell in cells), decimal=decimal).numbers("x")
    np.testing.assert_array_equal(numbers.values, values)
    np.testing.assert_array_equal(numbers.wrong, np.isnan(values))


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        ("x;y\n1,234;a\n2;b\n", "is '1,234' a number with decimals, or thousands? Use --decimal"),
        ("x;y\n1,5;2.5\n", "decimal commas ('1,5' in column 'x') and decimal points ('2.5' in"),
        ("x,y\n1\n", "line 2 of"),
        ("x,y\n1,2,3\n", "has 3 cells, but the header has 2"),
        ('x,y\n1,"2\n', "is a quotation mark left open?"),
        ("x, x\n1,2\n", "more than one column named 'x'"),
        ("x,y\n", "has a header but no rows"),
        ("\n\n", "is empty"),
        (b"\0\1\2", "has a NUL byte on line 1, so it is damaged or not a text file"),
        (b"x,y\n" + b"1,2\n" * 3000 + b"3,\0004\n", "has a NUL byte on line 3002"),
        ("x,y\n1,2\n".encode("utf-16-le"), "has a NUL byte on line 1"),
    ],
)
def test_files_that_cannot_be_read(read, content, fragment):
    with pytest.raises(CommandError) as refused:
        read(content)
    assert fragment in str(refused.value)


def test_thousands_are_read_where_another_column_shows_the_decimal_sign(read):
    table = read('cost,x\n"1,234",0.5\n"2,345",1.5\n')
    np.testing.assert_array_equal(table.numbers("cost").values, [1234, 2345])
    assert table.notes == ("commas in numbers separate thousands",)


def test_parquet_reads_like_csv(people, tmp_path):
    people.to_csv(tmp_path / "people.csv", index=False)
    people.astype({"stage": "category"}).to_parquet(tmp_path / "people.parquet")
    from_text = read_table(str(tmp_path / "people.csv"))
    typed = read_table(str(tmp_path / "people.parquet"))
    assert typed.names == from_text.names
    assert typed.place(0) == "row 1"
    for name in ("time", "age", "lab value (mg/l)"):
        np.testing.assert_array_equal(typed.numbers(name).values, from_text.numbers(name).values)
    for name in ("patient_id", "status", "stage", "smoker"):
        pd.testing.assert_series_equal(typed.texts(name), from_text.texts(name))


def test_parquet_without_pyarrow_names_the_extra(read, monkeypatch):
    def lacking(*_, **__):
        raise ImportError("Unable to find a usable engine")

    monkeypatch.setattr(pd, "read_parquet", lacking)
    with pytest.raises(CommandError, match="use: pip install pyarrow, or give a CSV"):
        read(b"PAR1", name="people.parquet")


@pytest.mark.parametrize(
    "content",
    [
        "x,y\n1,a\n2,b\n",
        "x,y\r\n 1 ,a \r\n2,\r\n",
        'x;y\n1,5;"a;b"\n2;"say ""no"""\n',
        'x;y\n"1.234,5";7 %\n2;8%\n',
        "x,y\n+.5,007\nNA,012\nNAN,1.0",
        "größe,ort\n1,Köln\n2,\u00a0Münster\n",
        "x\n1\n2\n",
    ],
)
def test_arrow_reads_what_is_read_line_by_line(read, monkeypatch, content):
    quick = read(content)
    monkeypatch.setattr(_csv, "_one_row_per_line", lambda *_: None)
    plain = read(content)
    assert isinstance(quick.frame.dtypes.iloc[0], pd.ArrowDtype)
    assert pd.api.types.is_object_dtype(plain.frame.dtypes.iloc[0])
    assert (quick.notes, quick.decimal) == (plain.notes, plain.decimal)
    np.testing.assert_array_equal(quick.lines, plain.lines)
    pd.testing.assert_frame_equal(quick.frame.astype(object), plain.frame)
    for name in plain.names:
        np.testing.assert_array_equal(quick.is_missing(name), plain.is_missing(name))
        pd.testing.assert_series_equal(quick.texts(name), plain.texts(name))
        for field in ("values", "wrong"):
            np.testing.assert_array_equal(
                getattr(quick.numbers(name), field), getattr(plain.numbers(name), field)
            )


def test_without_pyarrow_a_file_is_read_all_the_same(read, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pyarrow" else found(name)
    )
    table = read("x,y\n1.5,a\n,b\n")
    assert table.is_text("x")
    assert isinstance(table.frame["x"].iloc[0], str)
    np.testing.assert_array_equal(table.numbers("x").values, [1.5, np.nan])


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ('x,y\n1,"two\nlines"\n2,b\n', [2, 4]),
        ("x,y\n1,a\n\n2,b\n", [2, 4]),
        ("x,y\n1,a\n,\n2,b\n", [2, 4]),
        ("\nx,y\n1,a\n2,b\n", [3, 4]),
        ("x,y\r1,a\r2,b\r", [2, 3]),
    ],
)
def test_lines_are_counted_where_rows_and_lines_differ(read, content, lines):
    assert read(content).lines.tolist() == lines

"""Tables from CSV, Excel and Parquet files, with the line of every row for messages; and to them.

Cells of a CSV file stay text here, so that later errors can name the wrong cell.
"""

from __future__ import annotations

import gzip
import importlib.util
import re
import sys
import zlib
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from survival_objectives._arrays import BoolArray, FloatArray, IntArray
from survival_objectives.cli._csv import (
    check_names,
    check_rows,
    collected,
    parsed_numbers,
    read_rows,
)
from survival_objectives.cli._errors import CommandError, Console, counted, listed, suggestion

#: Cells that mean missing. "None" is not among them: it is a level of many scales.
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "#N/A", "<NA>", "null", "NULL", "."})

_PARQUET = (".parquet", ".pq")
_EXCEL = (".xlsx", ".xlsm")
_OTHER_FORMATS = {
    ".xls": "an old Excel file",
    ".ods": "an OpenDocument file",
    ".zip": "a ZIP archive",
    ".dta": "a Stata file",
    ".sav": "an SPSS file",
    ".sas7bdat": "a SAS file",
    ".rds": "an R file",
    ".rdata": "an R file",
    ".json": "JSON",
    ".feather": "a Feather file",
}
_WHOLE = re.compile(r"(-?\d+)\.0+")
# Standard input, as a file's name.
_STDIN = "-"


@dataclass(frozen=True)
class Numbers:
    """A column read as numbers."""

    values: FloatArray  # NaN where the cell is missing or not a number.
    wrong: BoolArray  # Whether a cell is neither missing nor a finite number.


@dataclass(frozen=True)
class Table:
    """Rows of a file: text, as objects or as Arrow strings, or the types of a Parquet file."""

    source: str  # The file's name, for messages.
    frame: pd.DataFrame
    lines: IntArray  # Line or row number of each row in the file.
    unit: str = "line"  # What ``lines`` counts: lines of a CSV file, rows of a Parquet file.
    decimal: str = "."  # Decimal sign, "." or ",".
    missing: frozenset[str] = MISSING  # Cells that mean missing.
    notes: tuple[str, ...] = ()  # Remarks from reading, for the user.
    _missing: dict[str, BoolArray] = field(default_factory=dict, repr=False, compare=False)
    _numbers: dict[str, Numbers] = field(default_factory=dict, repr=False, compare=False)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.frame.columns)

    @property
    def n_rows(self) -> int:
        """Number of people."""
        return len(self.frame)

    def require(self, name: str, option: str) -> None:
        """Refuse a column that the file does not have."""
        if name not in self.frame.columns:
            msg = (
                f"{self.source} has no column {name!r} ({option}); "
                f"{suggestion(name, self.names, 'columns')}"
            )
            raise CommandError(msg)

    def place(self, row: int) -> str:
        """Position of a row in the file, such as ``line 7``."""
        return f"{self.unit} {self.lines[row]}"

    def is_text(self, name: str) -> bool:
        """Whether the cells of a column are text."""
        return _is_text(self.frame[name].dtype)

    def is_missing(self, name: str) -> BoolArray:
        """Which cells of a column are missing."""
        if name not in self._missing:
            column = self.frame[name]
            missing = column.isna().to_numpy(bool)
            if self.is_text(name):
                missing = missing | column.isin(self.missing).to_numpy(bool)
            self._missing[name] = missing
        return self._missing[name]

    def refuse_missing(
        self, name: str, what: str, *, fill: str = "it in", out: str = "these people"
    ) -> None:
        """An error where cells of a column are missing, which says what they are of."""
        missing = self.is_missing(name)
        if missing.any():
            msg = (
                f"{self.source}: the {what} {name!r} is missing on {self.places(missing)}; fill "
                f"{fill}, or leave {out} out with --skip-unknown"
            )
            raise CommandError(msg)

    def has_percent_signs(self, name: str) -> bool:
        """Whether cells of a column of numbers have a percent sign, which is dropped."""
        return self.is_text(name) and bool(self.frame[name].str.endswith("%", na=False).any())

    def is_bound(self, name: str) -> BoolArray:
        """Which cells are bounds such as <0.5, of which the sign is dropped."""
        if not self.is_text(name):
            return np.zeros(self.n_rows, np.bool_)
        return self.frame[name].str.startswith(("<", ">", "≤", "≥"), na=False).to_numpy(bool)

    def take(self, rows: BoolArray, *notes: str) -> Table:
        """Some of the rows, with further remarks."""
        frame = self.frame[rows].reset_index(drop=True)
        return replace(
            self,
            frame=frame,
            lines=self.lines[rows],
            notes=(*self.notes, *notes),
            _missing={},
            _numbers={},
        )

    def stray(self, name: str, wrong: BoolArray, limit: int = 20) -> str:
        """The wrong cells of a column with their positions, as a list in one line."""
        rows = np.flatnonzero(wrong)
        shown = [f"{self.place(row)} {str(self.frame[name].iloc[row])!r}" for row in rows[:limit]]
        more = f" and {len(rows) - limit} more" if len(rows) > limit else ""
        return ", ".join(shown) + more

    def places(self, rows: BoolArray, limit: int = 20) -> str:
        """Positions of rows in the file, as a list in one line."""
        found = np.flatnonzero(rows)
        more = f" and {len(found) - limit} more" if len(found) > limit else ""
        return ", ".join(self.place(row) for row in found[:limit]) + more

    def texts(self, name: str) -> pd.Series[Any]:
        """A column as text, with integers without decimals, and NaN where missing."""
        codes, different = pd.factorize(self.frame[name])
        texts = np.array([*map(_text, different), np.nan], dtype=object)
        codes[self.is_missing(name)] = -1
        return pd.Series(texts[codes], index=self.frame.index, name=name, dtype=object)

    def numbers(self, name: str) -> Numbers:
        """A column as numbers; booleans become 1 and 0."""
        if name not in self._numbers:
            self._numbers[name] = self._read_numbers(name)
        return self._numbers[name]

    def _read_numbers(self, name: str) -> Numbers:
        column, missing = self.frame[name], self.is_missing(name)
        if not self.is_text(name):
            is_number = pd.api.types.is_numeric_dtype(column.dtype)
            if not is_number or pd.api.types.is_complex_dtype(column.dtype):
                return Numbers(np.full(len(column), np.nan), ~missing)
            values = column.to_numpy(np.float64, na_value=np.nan)
        else:
            values = parsed_numbers(column.mask(missing), self.decimal)
        finite = np.isfinite(values)
        return Numbers(np.where(finite, values, np.nan), ~missing & ~finite)


def read_table(
    path: str,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    missing: Iterable[str] = (),
) -> Table:
    """Table in a file.

    A path ending in .parquet or .pq, or a folder of such files, is Parquet; one ending in .xlsx is
    Excel, whose first sheet is read; any other is text with a header line, compressed if it ends in
    .gz. ``-`` is text from standard input. The ``separator`` is detected from the header by
    default, and the ``decimal`` sign from the columns. ``missing`` are further cells that mean
    missing.
    """
    tokens = MISSING | set(missing)
    if path == _STDIN:
        return _read_text(sys.stdin.buffer.read(), "standard input", separator, decimal, tokens)
    file = Path(path)
    _check_readable(file)
    suffix = file.suffix.lower()
    if file.is_dir() or suffix in _PARQUET:
        return _read_parquet(file, tokens)
    if suffix in _EXCEL:
        return _read_excel(file, tokens)
    content = file.read_bytes()
    if suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            msg = f"{path!r} cannot be unpacked ({error}); is it complete?"
            raise CommandError(msg) from error
    return _read_text(content, path, separator, decimal, tokens)


def _check_readable(file: Path) -> None:
    name = str(file)
    if not file.exists():
        nearby = [other.name for other in file.parent.glob("*") if other.is_file()]
        hint = suggestion(file.name, nearby, "files there") if nearby else "check the path"
        msg = f"there is no file {name!r}; {hint}"
        raise CommandError(msg)
    if file.is_dir():
        if not any(part.suffix.lower() in _PARQUET for part in file.iterdir()):
            msg = f"{name!r} is a folder without Parquet files; give a CSV, Excel or Parquet file"
            raise CommandError(msg)
        return
    suffix = file.suffix.lower()
    if suffix in _OTHER_FORMATS:
        msg = f"{name!r} is {_OTHER_FORMATS[suffix]}; save it as CSV, Excel (.xlsx) or Parquet"
        raise CommandError(msg)
    if file.stat().st_size == 0:
        msg = f"{name!r} is empty; give a file with a header and one row per person"
        raise CommandError(msg)


# ---------------------------------------------------------------------------------------- Excel
def _read_excel(file: Path, missing: frozenset[str]) -> Table:
    source = str(file)
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        msg = (
            f"{source!r} is an Excel file, which openpyxl reads; use: pip install openpyxl, or "
            "save it as CSV"
        )
        raise CommandError(msg) from None
    try:
        # Values last computed by Excel, not formulas.
        book = load_workbook(file, read_only=True, data_only=True)
    except (OSError, ValueError, KeyError, InvalidFileException, BadZipFile) as error:
        msg = f"{source!r} cannot be read as an Excel file ({error}); save it again, or as CSV"
        raise CommandError(msg) from error
    sheet = book.worksheets[0]
    cells = [list(map(_excel_cell, record)) for record in sheet.iter_rows(values_only=True)]
    # Columns without any content are formatted cells beside the table.
    used = [column for column, content in enumerate(zip_longest(*cells)) if any(content)]
    records = (
        (number, [row[column] if column < len(row) else "" for column in used])
        for number, row in enumerate(cells, start=1)
    )
    frame, lines, n_blank = collected(records, source, "row")
    notes = []
    if len(book.worksheets) > 1:
        others = [other.title for other in book.worksheets[1:]]
        notes.append(f"read the first sheet, {sheet.title!r}; not read: {listed(others)}")
    if n_blank:
        notes.append(f"{counted(n_blank, 'empty row')} skipped")
    return Table(source, frame, lines, unit="row", missing=missing, notes=tuple(notes))


def _excel_cell(value: Any) -> str:
    """The cell as it would be written to a CSV file."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return _text(value).strip()


# -------------------------------------------------------------------------------------- Parquet
def _read_parquet(file: Path, missing: frozenset[str]) -> Table:
    try:
        frame = pd.read_parquet(file)
    except ImportError:
        msg = (
            f"{str(file)!r} is a Parquet file, which pyarrow reads; "
            "use: pip install pyarrow, or give a CSV file"
        )
        raise CommandError(msg) from None
    except (OSError, ValueError) as error:
        msg = f"{str(file)!r} cannot be read as Parquet ({error})"
        raise CommandError(msg) from error
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    check_rows(len(frame), str(file))
    return _typed_table(frame, str(file), np.arange(1, len(frame) + 1), missing)


def _typed_table(
    frame: pd.DataFrame, source: str, rows: IntArray, missing: frozenset[str]
) -> Table:
    """The table of a typed frame; ``rows`` are the row numbers in the file."""
    frame = frame.set_axis([str(name).strip() for name in frame.columns], axis=1)
    check_names(list(frame.columns), source)
    frame = frame.reset_index(drop=True)
    for name in frame.columns:
        if frame[name].dtype == object or isinstance(
            frame[name].dtype, pd.CategoricalDtype | pd.StringDtype
        ):
            frame[name] = _stripped(frame[name])
    return Table(source, frame, rows, unit="row", missing=missing)


def _stripped(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of text or of Python objects, as text with None for missing."""
    codes, different = pd.factorize(column.astype(object))
    texts = np.array([*(_text(value).strip() for value in different), None], dtype=object)
    return pd.Series(texts[codes], index=column.index, dtype=object)


# ----------------------------------------------------------------------------------------- text
def _read_text(
    content: bytes,
    source: str,
    separator: str | None,
    decimal: str | None,
    missing: frozenset[str],
) -> Table:
    rows = read_rows(content, source, separator, decimal, missing)
    return Table(
        source, rows.frame, rows.lines, decimal=rows.decimal, missing=missing, notes=rows.notes
    )


def _is_text(dtype: Any) -> bool:
    if isinstance(dtype, pd.ArrowDtype):
        return dtype.type is str
    return bool(pd.api.types.is_object_dtype(dtype))


def _text(value: Any) -> str:
    """A label or level as text: 1, 1.0 and "1.0" give the same text."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    text = str(value)
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


# --------------------------------------------------------------------------- files of predictions
_SEPARATORS = {".tsv": "\t", ".tab": "\t"}
_NOT_WRITTEN = (".xls", ".xlsm", ".xlsb", ".ods", ".json", ".html", ".feather", ".dta", ".sav")
# Spreadsheets run cells that begin with one of these as formulas.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


def check_format(target: Path, option: str) -> None:
    """Refuse a file extension whose format cannot be written."""
    suffix = target.suffix.lower()
    if suffix in _NOT_WRITTEN:
        msg = (
            f"{option} is {str(target)!r}, and {suffix} files are not written; use a name that "
            "ends in .csv, .csv.gz, .tsv, .xlsx or .parquet"
        )
        raise CommandError(msg)
    needed = {".xlsx": "openpyxl", **dict.fromkeys(_PARQUET, "pyarrow")}
    package = needed.get(suffix)
    if package is not None and importlib.util.find_spec(package) is None:
        msg = (
            f"{option} is {str(target)!r}, which {package} writes; "
            f"use: pip install {package}, or a name that ends in .csv"
        )
        raise CommandError(msg)


def write_table(
    frame: pd.DataFrame,
    file: Path | IO[bytes],
    console: Console,
    *,
    decimal: str = ".",
) -> None:
    """Write a table in the format of the file extension; an open file is written as CSV.

    Text that a spreadsheet would run as a formula gets an apostrophe in front, with a warning. With
    a decimal comma, columns of CSV are separated by semicolons.
    """
    suffix = file.suffix.lower() if isinstance(file, Path) else ""
    if suffix in _PARQUET:
        frame.to_parquet(file, index=False)
        return
    safe, n_changed = _without_formulas(frame)
    if n_changed:
        console.warn(
            f"{counted(n_changed, 'cell')} of the columns of --id would be run as a formula by a "
            "spreadsheet; written with an apostrophe in front"
        )
    if suffix == ".xlsx":
        _write_excel(safe, file)
    else:
        separator = _SEPARATORS.get(suffix, ";" if decimal == "," else ",")
        if decimal == "." and importlib.util.find_spec("pyarrow") is not None:
            _write_csv(safe, file, separator)
        else:
            safe.to_csv(file, index=False, sep=separator, decimal=decimal)


def _write_csv(frame: pd.DataFrame, file: Path | IO[bytes], separator: str) -> None:
    """Write CSV by Arrow, twelve times as fast as pandas; all text is in quotation marks."""
    import pyarrow as pa
    from pyarrow import csv

    options = csv.WriteOptions(include_header=False, delimiter=separator)
    # Arrow would close a file that is open.
    target = (
        pa.output_stream(str(file), compression="detect")
        if isinstance(file, Path)
        else nullcontext(file)
    )
    with target as sink:
        sink.write(frame[:0].to_csv(index=False, sep=separator).encode())
        csv.write_csv(pa.Table.from_pandas(frame, preserve_index=False), sink, options)


def _write_excel(frame: pd.DataFrame, file: Any) -> None:
    from openpyxl.utils.exceptions import IllegalCharacterError

    try:
        frame.to_excel(file, index=False, sheet_name="predictions")
    except IllegalCharacterError as error:
        msg = f"{error} (a character that Excel files cannot hold); write a .csv file"
        raise CommandError(msg) from error


def _without_formulas(frame: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The table with an apostrophe before formulas, and the number of changed cells."""
    safe, n_changed = frame.copy(deep=False), 0
    for name in frame.columns:
        if pd.api.types.is_numeric_dtype(frame[name].dtype):
            continue
        codes, different = pd.factorize(frame[name])
        formulas = np.array([*map(_is_formula, different), False], dtype=bool)[codes]
        if formulas.any():
            texts = frame[name].astype(object)
            safe[name] = texts.where(~formulas, "'" + texts.astype(str))
            n_changed += int(formulas.sum())
    names = [f"'{name}" if _is_formula(name) else name for name in frame.columns]
    n_changed += sum(map(_is_formula, frame.columns))
    return safe.set_axis(names, axis=1), n_changed


def _is_formula(cell: Any) -> bool:
    """Whether a cell is text that a spreadsheet would run.

    >>> [_is_formula(cell) for cell in ("=1+2", "@SUM(A1)", "-7.5", "+49 30 1234", "A-7", 3)]
    [True, True, False, True, False, False]
    """
    return isinstance(cell, str) and cell.startswith(_FORMULA) and not _is_number(cell)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True

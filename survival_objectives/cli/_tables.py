"""Tables from CSV, Excel and Parquet files, with the place of every row for messages.

Cells of a CSV file stay text here, so that whoever reads a column can name the cell that is wrong.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, time
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives.cli._errors import CommandError, counted, listed, suggestion

__all__ = ["MISSING", "Numbers", "Table", "read_table"]

#: Cells that mean "not known". `None` is not among them: it is a level of many scales.
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "#N/A", "<NA>", "null", "NULL", "."})

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
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
# "1,234" is one and a bit to some, and more than a thousand to others.
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}([.,])\d{3}(\1\d{3})*")
# By decimal sign: numbers, with or without groups of thousands.
_NUMBER = {
    ",": re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)?(,\d*)?([eE][+-]?\d+)?"),
    ".": re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(,\d{3})+)?(\.\d*)?([eE][+-]?\d+)?"),
}
_WHOLE = re.compile(r"(-?\d+)\.0+")
_PERCENT = re.compile(r"\s*%$")
# Standard input, as a file's name.
_STDIN = "-"


@dataclass(frozen=True)
class Numbers:
    """A column read as numbers.

    Attributes
    ----------
    values : float64 array of shape (n_rows,)
        NaN where the cell is missing or no number.
    wrong : bool array of shape (n_rows,)
        Where a cell holds something else than a finite number or nothing.
    """

    values: npt.NDArray[np.float64]
    wrong: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Table:
    """A file's rows, as text or as the file types them.

    Attributes
    ----------
    source : str
        The file's name, for messages.
    frame : DataFrame
        Text columns hold str; the columns of a Parquet file keep their types.
    lines : int64 array of shape (n_rows,)
        Where each row stands in the file.
    unit : str
        What ``lines`` counts: lines of a CSV file, rows of a Parquet file.
    decimal : str
        What stands before the decimals of numbers, ``"."`` or ``","``.
    missing : frozenset of str
        Cells that mean "not known".
    notes : tuple of str
        What was noticed while reading, for the person who runs the command.
    """

    source: str
    frame: pd.DataFrame
    lines: npt.NDArray[np.int64]
    unit: str = "line"
    decimal: str = "."
    missing: frozenset[str] = MISSING
    notes: tuple[str, ...] = ()
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
        """Where a row stands in the file, such as ``line 7``."""
        return f"{self.unit} {self.lines[row]}"

    def is_text(self, name: str) -> bool:
        """Whether the cells of a column are text."""
        return self.frame[name].dtype == object

    def is_missing(self, name: str) -> npt.NDArray[np.bool_]:
        """Which cells of a column are not known."""
        column = self.frame[name]
        missing = column.isna()
        if self.is_text(name):
            missing |= column.isin(self.missing)
        return missing.to_numpy(bool)

    def has_percent_signs(self, name: str) -> bool:
        """Whether numbers of a column have a percent sign, which is not read: 12 % is 12."""
        if not self.is_text(name):
            return False
        signed = self.frame[name][self.frame[name].str.endswith("%", na=False)].unique()
        number = _NUMBER[self.decimal]
        return len(signed) > 0 and all(
            number.fullmatch(_PERCENT.sub("", cell)) is not None for cell in signed
        )

    def stray(self, name: str, wrong: npt.NDArray[np.bool_], limit: int = 20) -> str:
        """The cells of a column that are wrong, each with its place, as a list in one line."""
        rows = np.flatnonzero(wrong)
        shown = [f"{self.place(row)} {str(self.frame[name].iloc[row])!r}" for row in rows[:limit]]
        more = f" and {len(rows) - limit} more" if len(rows) > limit else ""
        return ", ".join(shown) + more

    def places(self, rows: npt.NDArray[np.bool_], limit: int = 20) -> str:
        """Where rows stand in the file, as a list in one line."""
        found = np.flatnonzero(rows)
        more = f" and {len(found) - limit} more" if len(found) > limit else ""
        return ", ".join(self.place(row) for row in found[:limit]) + more

    def texts(self, name: str) -> pd.Series[Any]:
        """A column as text, whole numbers without decimals, NaN where missing."""
        known = self.frame[name][~self.is_missing(name)].astype(object)
        texts = known.map({value: _text(value) for value in known.unique()})
        return texts.reindex(self.frame.index)

    def numbers(self, name: str) -> Numbers:
        """A column as numbers; True and False become 1 and 0 where the file types them so."""
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
            cells = column.mask(missing, "nan")
            if self.has_percent_signs(name):
                cells = cells.str.replace(_PERCENT, "", regex=True)
            text = _with_points(cells, self.decimal)
            values = pd.to_numeric(text, errors="coerce").to_numpy(np.float64)
        finite = np.isfinite(values)
        return Numbers(np.where(finite, values, np.nan), ~missing & ~finite)


def read_table(
    path: str,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    missing: Iterable[str] = (),
) -> Table:
    """The table in a file.

    Parameters
    ----------
    path : str
        A file ending in .parquet or .pq, or a folder of such files, is Parquet; one ending in .xlsx
        is Excel, whose first sheet is read; any other is text with a header line, compressed if it
        ends in .gz. ``-`` is text from standard input.
    separator : str, optional
        What stands between the columns. Default: found from the header.
    decimal : {".", ","}, optional
        What stands before the decimals. Default: found from the columns.
    missing : iterable of str
        Further cells that mean "not known".
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
        msg = f"{name!r} is empty; give a file with a header and a row per person"
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
        # Values that Excel computed last, not formulas.
        book = load_workbook(file, read_only=True, data_only=True)
    except (OSError, ValueError, KeyError, InvalidFileException, BadZipFile) as error:
        msg = f"{source!r} cannot be read as an Excel file ({error}); save it again, or as CSV"
        raise CommandError(msg) from error
    sheet = book.worksheets[0]
    header: list[str] = []
    rows, lines, n_blank = [], [], 0
    for number, record in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells = [_excel_cell(value) for value in record]
        if not any(cells):
            n_blank += 1
        elif not header:
            n_columns = max(column for column, cell in enumerate(cells, start=1) if cell)
            header = _names(cells[:n_columns], source)
        else:
            beyond = [cell for cell in cells[len(header) :] if cell]
            if beyond:
                msg = (
                    f"row {number} of {source} has {beyond[0]!r} in a column without name; name it "
                    "in the first row, or empty the cell"
                )
                raise CommandError(msg)
            rows.append([*cells, *[""] * len(header)][: len(header)])
            lines.append(number)
    _check_rows(len(rows), source)
    notes = []
    if len(book.worksheets) > 1:
        others = [other.title for other in book.worksheets[1:]]
        notes.append(f"read the first sheet, {sheet.title!r}; not read: {listed(others)}")
    if n_blank:
        notes.append(f"{counted(n_blank, 'empty row')} skipped")
    frame = pd.DataFrame(rows, columns=pd.Index(header), dtype=object)
    places = np.array(lines, dtype=np.int64)
    return Table(source, frame, places, unit="row", missing=missing, notes=tuple(notes))


def _excel_cell(value: Any) -> str:
    """What a cell holds, as it would stand in a CSV file."""
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
    frame.columns = pd.Index([str(name).strip() for name in frame.columns])
    _check_names(list(frame.columns), str(file))
    for name in frame.columns:
        if frame[name].dtype == object or isinstance(
            frame[name].dtype, pd.CategoricalDtype | pd.StringDtype
        ):
            frame[name] = _stripped(frame[name])
    _check_rows(len(frame), str(file))
    lines = np.arange(1, len(frame) + 1)
    return Table(str(file), frame.reset_index(drop=True), lines, unit="row", missing=missing)


def _stripped(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of text or of Python objects, as text with None for missing."""
    known = column.astype(object).where(column.notna(), None)
    return known.map(lambda value: _text(value).strip(), na_action="ignore").astype(object)


# ----------------------------------------------------------------------------------------- text
def _read_text(
    content: bytes,
    source: str,
    separator: str | None,
    decimal: str | None,
    missing: frozenset[str],
) -> Table:
    notes = []
    text, encoding = _decoded(content, source)
    if encoding is not None:
        notes.append(f"read as {encoding}, as it is not UTF-8")
    separator = separator or _separator(text, source)
    if separator != ",":
        notes.append(f"columns are separated by {_SEPARATORS.get(separator, repr(separator))}")
    header, rows, lines, n_blank = _records(text, separator, source)
    if n_blank:
        notes.append(f"{counted(n_blank, 'empty line')} skipped")
    frame = pd.DataFrame(rows, columns=pd.Index(header), dtype=object)
    unnamed = [name for name in header if name.startswith(_UNNAMED)]
    # A separator at the end of every line makes a column without name and content.
    empty = [name for name in unnamed if (frame[name] == "").all()]
    frame = frame.drop(columns=empty)
    has_commas = _decimals(frame, ",", missing)
    if decimal is None:
        decimal = _decimal(frame, has_commas, missing, source)
    if has_commas:
        notes.append(_COMMAS[decimal])
    return Table(source, frame, lines, decimal=decimal, missing=missing, notes=tuple(notes))


_UNNAMED = "unnamed column "
_COMMAS = {
    ",": "commas in numbers are decimal commas",
    ".": "commas in numbers separate thousands",
}


def _decoded(content: bytes, source: str) -> tuple[str, str | None]:
    """The text, and its encoding where that is not UTF-8."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace"), "UTF-16"
    position = content.find(b"\0")
    if position >= 0:
        line = content.count(b"\n", 0, position) + 1
        msg = (
            f"{source!r} has a NUL byte on line {line}, so it is damaged or no text file; "
            "save it again as CSV in UTF-8"
        )
        raise CommandError(msg)
    try:
        return content.decode("utf-8-sig"), None
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace"), "Windows-1252"


def _separator(text: str, source: str) -> str:
    header = next((line for line in text.splitlines() if line.strip()), "")
    if not header:
        msg = f"{source!r} is empty; give a file with a header and a row per person"
        raise CommandError(msg)
    outside_quotes = re.sub(r'"[^"]*"', "", header)
    # Of equal counts the first of the dict wins: the comma.
    return max(_SEPARATORS, key=outside_quotes.count)


def _records(
    text: str, separator: str, source: str
) -> tuple[list[str], list[list[str]], npt.NDArray[np.int64], int]:
    """Header, rows, the line on which each row begins, and the number of empty lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    n_blank, begin = 0, 1
    try:
        for record in reader:
            cells = [cell.strip() for cell in record]
            if not any(cells):
                n_blank += 1
            elif not header:
                header = _names(cells, source)
            elif len(cells) != len(header):
                msg = (
                    f"line {begin} of {source} has {len(cells)} cells, but the header has "
                    f"{len(header)}; correct it, or name what separates columns with --separator"
                )
                raise CommandError(msg)
            else:
                rows.append(cells)
                lines.append(begin)
            begin = reader.line_num + 1
    except csv.Error as error:
        msg = f"{source} cannot be read at line {begin} ({error}); is a quotation mark left open?"
        raise CommandError(msg) from error
    _check_rows(len(rows), source)
    return header, rows, np.array(lines, dtype=np.int64), n_blank


def _names(cells: list[str], source: str) -> list[str]:
    names = [cell or f"{_UNNAMED}{number}" for number, cell in enumerate(cells, start=1)]
    _check_names(names, source)
    return names


def _check_names(names: list[str], source: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        msg = f"{source} has more than one column named {listed(twice)}; rename or remove one"
        raise CommandError(msg)


def _check_rows(n_rows: int, source: str) -> None:
    if n_rows == 0:
        msg = f"{source!r} has a header but no rows; give a file with a row per person"
        raise CommandError(msg)


def _decimal(
    frame: pd.DataFrame, commas: dict[str, str], missing: frozenset[str], source: str
) -> str:
    """The decimal sign that the columns of the file show; an error where they leave it open."""
    if not commas:
        return "."
    dots = _decimals(frame, ".", missing)
    sure = {name: cell for name, cell in commas.items() if not _GROUPED.fullmatch(cell)}
    sure_dots = {name: cell for name, cell in dots.items() if not _GROUPED.fullmatch(cell)}
    if sure and sure_dots:
        (name, cell), (other, dotted) = next(iter(sure.items())), next(iter(sure_dots.items()))
        msg = (
            f"{source} has decimal commas ({cell!r} in column {name!r}) and decimal points "
            f"({dotted!r} in column {other!r}); use one of them throughout"
        )
        raise CommandError(msg)
    if not sure and not sure_dots:
        name, cell = next(iter(commas.items()))
        msg = (
            f"{source}, column {name!r}: is {cell!r} a number with decimals, or thousands? "
            "Use --decimal , for decimals and --decimal . for thousands"
        )
        raise CommandError(msg)
    return "," if sure else "."


def _decimals(frame: pd.DataFrame, sign: str, missing: frozenset[str]) -> dict[str, str]:
    """Columns of numbers with this sign, with one of their cells: the clearest there is."""
    found = {}
    for name in frame.columns:
        signed = frame[name][frame[name].str.contains(sign, regex=False)].unique()
        if len(signed) == 0:
            continue
        cells = [cell for cell in frame[name].unique() if cell not in missing]
        if all(_NUMBER[sign].fullmatch(_PERCENT.sub("", cell)) for cell in cells):
            clear = (cell for cell in signed if not _GROUPED.fullmatch(cell))
            found[name] = next(clear, signed[0])
    return found


def _with_points(cells: pd.Series[Any], decimal: str) -> pd.Series[Any]:
    """Cells without thousands marks and with a decimal point, where they are numbers."""
    if decimal == "." and not cells.str.contains(",", regex=False).any():
        return cells
    thousands = "," if decimal == "." else "."

    def rewritten(cell: str) -> str:
        if _NUMBER[decimal].fullmatch(cell) is None:
            return cell if thousands not in cell else ""
        return cell.replace(thousands, "").replace(decimal, ".")

    return cells.map(rewritten)


def _text(value: Any) -> str:
    """A label or level as text: 1, 1.0 and "1.0" are one and the same."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    text = str(value)
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text

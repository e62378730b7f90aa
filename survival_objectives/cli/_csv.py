"""Text files with a header line, read as columns of text with the line number of each row.

A file in which every line is a row is parsed by Arrow, if it is installed. All other files, and
files with a mistake, are read line by line, so that messages can name the line.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives.cli._errors import CommandError, counted, listed

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
# "1,234" may be a decimal number or a number with thousands.
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}([.,])\d{3}(\1\d{3})*")
# By decimal sign: numbers, with or without groups of thousands.
_NUMBER = {
    ",": re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)?(,\d*)?([eE][+-]?\d+)?"),
    ".": re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(,\d{3})+)?(\.\d*)?([eE][+-]?\d+)?"),
}
# The parts of "12 %" and of "< 0.5" that are dropped.
_AFFIX = re.compile(r"^[<>≤≥]=?\s*|\s*%$")
_UNNAMED = "unnamed column "
_COMMAS = {
    ",": "commas in numbers are decimal commas",
    ".": "commas in numbers separate thousands",
}


@dataclass(frozen=True)
class TextRows:
    """Cells of a text file."""

    frame: pd.DataFrame  # Columns of str: Arrow's strings, or objects.
    lines: IntArray  # The line on which each row begins.
    decimal: str  # Decimal sign.
    notes: tuple[str, ...]  # Remarks from reading.


def read_rows(
    content: bytes,
    source: str,
    separator: str | None,
    decimal: str | None,
    missing: frozenset[str],
) -> TextRows:
    """The rows of a text file; a `CommandError` names the line that cannot be read."""
    notes = []
    content, encoding = _as_utf8(content, source)
    if encoding is not None:
        notes.append(f"read as {encoding}, because it is not UTF-8")
    separator = separator or _separator(content, source)
    if separator != ",":
        notes.append(f"columns are separated by {_SEPARATORS.get(separator, repr(separator))}")
    frame, lines, n_blank = _one_row_per_line(content, separator, source) or _line_by_line(
        content, separator, source
    )
    if n_blank:
        notes.append(f"{counted(n_blank, 'empty line')} skipped")
    # A separator at the end of every line makes a column without name and content.
    unnamed = [name for name in frame.columns if name.startswith(_UNNAMED)]
    frame = frame.drop(columns=[name for name in unnamed if (frame[name] == "").all()])
    # In a comma-separated file, a cell with a comma needs quotation marks.
    may_have_commas = b'"' in content if separator == "," else b"," in content
    commas = _decimals(frame, ",", missing) if may_have_commas else {}
    if decimal is None:
        decimal = _decimal(frame, commas, missing, source)
    if commas:
        notes.append(_COMMAS[decimal])
    return TextRows(frame, lines, decimal, tuple(notes))


# -------------------------------------------------------------------------------------- encoding
def _as_utf8(content: bytes, source: str) -> tuple[bytes, str | None]:
    """The text in UTF-8, and its original encoding if it was another."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace").encode(), "UTF-16"
    position = content.find(b"\0")
    if position >= 0:
        line = content.count(b"\n", 0, position) + 1
        msg = (
            f"{source!r} has a NUL byte on line {line}, so it is damaged or not a text file; "
            "save it again as CSV in UTF-8"
        )
        raise CommandError(msg)
    try:
        content.decode()
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace").encode(), "Windows-1252"
    return content.removeprefix(b"\xef\xbb\xbf"), None


def _separator(content: bytes, source: str) -> str:
    lines = io.TextIOWrapper(io.BytesIO(content), "utf-8", newline=None)
    header = next((line for line in lines if line.strip()), "")
    if not header:
        msg = f"{source!r} is empty; give a file with a header and one row per person"
        raise CommandError(msg)
    outside_quotes = re.sub(r'"[^"]*"', "", header)
    # On ties the first of the dict wins: the comma.
    return max(_SEPARATORS, key=outside_quotes.count)


# --------------------------------------------------------------------------------------- parsing
_Rows = tuple[pd.DataFrame, IntArray, int]


def _one_row_per_line(content: bytes, separator: str, source: str) -> _Rows | None:
    """Rows parsed by Arrow, or None if a line is not a row or the file is otherwise irregular."""
    if importlib.util.find_spec("pyarrow") is None or not _is_regular(content, separator):
        return None
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    first, _, _ = content.partition(b"\n")
    try:
        (header,) = csv.reader([first.decode().rstrip("\r")], delimiter=separator, strict=True)
    except (csv.Error, ValueError):
        return None
    if not any(cell.strip() for cell in header):
        return None
    names = column_names([cell.strip() for cell in header], source)
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(content),
            read_options=arrow_csv.ReadOptions(skip_rows=1, column_names=names),
            parse_options=arrow_csv.ParseOptions(delimiter=separator, ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    n_lines = content.count(b"\n") + (not content.endswith(b"\n"))
    if table.num_rows == 0 or table.num_rows != n_lines - 1:
        return None
    if _may_have_blanks(content, separator):
        table = _trimmed(table)
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    if _has_empty_row(frame):
        return None
    return frame, np.arange(2, len(frame) + 2), 0


def _is_regular(content: bytes, separator: str) -> bool:
    """Whether lines end as Arrow expects, and quotation marks come in pairs."""
    return (
        separator not in '"\r\n'
        and len(separator.encode()) == 1
        and content.count(b"\r") == content.count(b"\r\n")
        and content.count(b'"') % 2 == 0
    )


def _may_have_blanks(content: bytes, separator: str) -> bool:
    blanks = " \t\v\f\x1c\x1d\x1e\x1f".replace(separator, "")
    return not content.isascii() or any(blank.encode() in content for blank in blanks)


def _trimmed(table: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [pc.utf8_trim_whitespace(column) for column in table.columns]
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def _has_empty_row(frame: pd.DataFrame) -> bool:
    empty = np.arange(len(frame))
    for name in frame.columns:
        empty = empty[(frame[name].iloc[empty] == "").to_numpy(bool)]
        if len(empty) == 0:
            return False
    return True


def _line_by_line(content: bytes, separator: str, source: str) -> _Rows:
    """Rows, the line number of each, and the number of empty lines."""
    text = io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="")
    reader = csv.reader(text, delimiter=separator, strict=True)
    begin = 1

    def records() -> Iterator[tuple[int, list[str]]]:
        nonlocal begin
        for record in reader:
            yield begin, [cell.strip() for cell in record]
            begin = reader.line_num + 1

    try:
        return collected(records(), source, "line")
    except csv.Error as error:
        msg = f"{source} cannot be read at line {begin} ({error}); is a quotation mark left open?"
        raise CommandError(msg) from error


def collected(records: Iterable[tuple[int, list[str]]], source: str, unit: str) -> _Rows:
    """The rows below the first that is not empty, their numbers, and the number of empty ones."""
    header: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    n_blank = 0
    for number, cells in records:
        if not any(cells):
            n_blank += 1
        elif not header:
            header = column_names(cells, source)
        elif len(cells) != len(header):
            msg = (
                f"{unit} {number} of {source} has {len(cells)} cells, but the header has "
                f"{len(header)}; correct it, or name what separates columns with --separator"
            )
            raise CommandError(msg)
        else:
            rows.append(cells)
            lines.append(number)
    check_rows(len(rows), source)
    frame = pd.DataFrame(rows, columns=pd.Index(header), dtype=object)
    return frame, np.array(lines, dtype=np.int64), n_blank


def column_names(cells: list[str], source: str) -> list[str]:
    """Names of the columns from the cells of the header."""
    names = [cell or f"{_UNNAMED}{number}" for number, cell in enumerate(cells, start=1)]
    check_names(names, source)
    return names


def check_names(names: list[str], source: str) -> None:
    """Refuse duplicate column names."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        msg = f"{source} has more than one column named {listed(twice)}; rename or remove one"
        raise CommandError(msg)


def check_rows(n_rows: int, source: str) -> None:
    """Refuse a file without people."""
    if n_rows == 0:
        msg = f"{source!r} has a header but no rows; give a file with one row per person"
        raise CommandError(msg)


# --------------------------------------------------------------------------------------- numbers
def parsed_numbers(cells: pd.Series[Any], decimal: str) -> FloatArray:
    """Cells as numbers, NaN where they are not; percent signs and signs of bounds are dropped.

    Arrow parses its own cells if they have no thousands separators. Otherwise each distinct cell is
    parsed once.
    """
    plain = _plain_numbers(cells, decimal)
    if plain is not None:
        return plain
    codes, different = pd.factorize(cells)
    texts = pd.Series(different, dtype=object)
    number = _NUMBER[decimal]
    signed = [cell for cell in different if isinstance(cell, str) and _AFFIX.search(cell)]
    if signed and all(number.fullmatch(_AFFIX.sub("", cell)) for cell in signed):
        texts = texts.str.replace(_AFFIX, "", regex=True)
    values = pd.to_numeric(_with_points(texts, decimal), errors="coerce").to_numpy(np.float64)
    return np.append(values, np.nan)[codes]


def _plain_numbers(cells: pd.Series[Any], decimal: str) -> FloatArray | None:
    """Arrow cells as numbers, or None if a cell is not a number or may have thousands."""
    if not isinstance(cells.dtype, pd.ArrowDtype):
        return None
    import pyarrow as pa

    if decimal == ",":
        if cells.str.contains(".", regex=False).any():
            return None
        cells = cells.str.replace(",", ".", regex=False)
    # Not `astype`: pandas would fall back to parsing cell by cell.
    array = cells.array.__arrow_array__()
    try:
        return np.asarray(array.cast(pa.float64()).to_numpy(), np.float64)
    except pa.ArrowInvalid:
        return None


def _with_points(cells: pd.Series[Any], decimal: str) -> pd.Series[Any]:
    """Numbers without thousands separators and with a decimal point; other cells unchanged."""
    if decimal == "." and not cells.str.contains(",", regex=False).any():
        return cells
    thousands = "," if decimal == "." else "."

    def rewritten(cell: str) -> str:
        if _NUMBER[decimal].fullmatch(cell) is None:
            return cell if thousands not in cell else ""
        return cell.replace(thousands, "").replace(decimal, ".")

    return cells.map(rewritten)


def _decimal(
    frame: pd.DataFrame, commas: dict[str, str], missing: frozenset[str], source: str
) -> str:
    """The decimal sign of the file; an error if it is ambiguous."""
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
    """Columns of numbers that contain this sign, each with its least ambiguous cell."""
    found = {}
    for name in frame.columns:
        column = frame[name]
        signed = column[column.str.contains(sign, regex=False)].unique()
        if len(signed) == 0:
            continue
        known = column[~column.isin(missing)]
        if _are_numbers(known, sign):
            clear = (cell for cell in signed if not _GROUPED.fullmatch(cell))
            found[name] = next(clear, signed[0])
    return found


def _are_numbers(cells: pd.Series[Any], sign: str) -> bool:
    plain = _plain_numbers(cells, sign)
    if plain is not None and np.isfinite(plain).all():
        return True
    number = _NUMBER[sign]
    return all(number.fullmatch(_AFFIX.sub("", cell)) for cell in cells.unique())

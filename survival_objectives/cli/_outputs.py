"""Predictions as files: CSV, Excel or Parquet, by the file extension."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import math
import re
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from survival_objectives.cli._console import Console
from survival_objectives.cli._errors import CommandError, counted

_EXCEL = (".xlsx",)
_PARQUET = (".parquet", ".pq")
_SEPARATORS = {".tsv": "\t", ".tab": "\t"}
_NOT_WRITTEN = (".xls", ".xlsm", ".xlsb", ".ods", ".json", ".html", ".feather", ".dta", ".sav")
# Spreadsheets run cells that begin with one of these as formulas.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
# Maximum number of rows of an Excel sheet.
_EXCEL_ROWS = 1_048_576


def check_format(target: Path, option: str) -> None:
    """Refuse a file extension whose format cannot be written."""
    suffix = target.suffix.lower()
    if suffix in _NOT_WRITTEN:
        msg = (
            f"{option} is {str(target)!r}, and {suffix} files are not written; use a name that "
            "ends in .csv, .csv.gz, .tsv, .xlsx or .parquet"
        )
        raise CommandError(msg)
    needed = {**dict.fromkeys(_EXCEL, "openpyxl"), **dict.fromkeys(_PARQUET, "pyarrow")}
    package = needed.get(suffix)
    if package is not None and importlib.util.find_spec(package) is None:
        msg = (
            f"{option} is {str(target)!r}, which {package} writes; "
            f"use: pip install {package}, or a name that ends in .csv"
        )
        raise CommandError(msg)


def write_table(
    frame: pd.DataFrame,
    file: Path | IO[str],
    console: Console,
    *,
    decimal: str = ".",
    digits: int | None = None,
) -> None:
    """Write a table in the format of the file extension; an open file is written as CSV.

    Text that a spreadsheet would run as a formula is written as text: unchanged in Excel files, and
    after an apostrophe in CSV files, with a warning. With a decimal comma, columns of CSV are
    separated by semicolons. All ``digits`` are written by default.
    """
    numbers = frame.select_dtypes("float").columns
    if digits is not None:
        frame = frame.assign(**{name: frame[name].round(digits) for name in numbers})
    suffix = file.suffix.lower() if isinstance(file, Path) else ""
    if isinstance(file, Path) and suffix in _PARQUET:
        frame.to_parquet(file, index=False)
    elif isinstance(file, Path) and suffix in _EXCEL:
        _write_excel(frame, file)
    else:
        separator = _SEPARATORS.get(suffix, ";" if decimal == "," else ",")
        safe, n_changed = _without_formulas(frame)
        if n_changed:
            console.warn(
                f"{counted(n_changed, 'cell')} of the columns of --id would be run as a formula "
                "by a spreadsheet; written with an apostrophe in front"
            )
        if decimal == "." and importlib.util.find_spec("pyarrow") is not None:
            _write_csv(safe, file, separator)
        else:
            safe.to_csv(file, index=False, sep=separator, decimal=decimal)


def _write_csv(frame: pd.DataFrame, file: Path | IO[str], separator: str) -> None:
    """Write CSV by Arrow, with enough digits to read the same numbers back."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    table = pa.Table.from_pandas(frame, preserve_index=False)
    header = io.StringIO()
    csv.writer(header, delimiter=separator, lineterminator="\n").writerow(frame.columns)

    def written(sink: Any) -> None:
        sink.write(header.getvalue().encode())
        # If any cell needs quotation marks, all text cells get them.
        quotes = "needed" if _needs_quotes(frame, separator) else "none"
        options = arrow_csv.WriteOptions(
            include_header=False, delimiter=separator, quoting_style=quotes
        )
        arrow_csv.write_csv(table, sink, options)

    if not isinstance(file, Path):
        content = io.BytesIO()
        written(content)
        file.write(content.getvalue().decode())
    elif file.suffix.lower() == ".gz":
        with gzip.open(file, "wb") as packed:
            written(packed)
    else:
        with file.open("wb") as plain:
            written(plain)


def _needs_quotes(frame: pd.DataFrame, separator: str) -> bool:
    special = re.compile(rf'[{re.escape(separator)}"\r\n]')
    return any(
        special.search(str(cell)) is not None
        for name in frame.columns
        if not pd.api.types.is_numeric_dtype(frame[name].dtype)
        for cell in frame[name].dropna().unique()
    )


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


def _write_excel(frame: pd.DataFrame, file: Path) -> None:
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.utils.exceptions import IllegalCharacterError

    if len(frame) >= _EXCEL_ROWS:
        msg = (
            f"{len(frame)} rows are more than an Excel sheet holds ({_EXCEL_ROWS - 1}); use a name "
            "that ends in .csv or .parquet"
        )
        raise CommandError(msg)
    book = Workbook(write_only=True)
    sheet = book.create_sheet("predictions")

    def cell(value: Any) -> Any:
        if isinstance(value, str):
            try:
                written = WriteOnlyCell(sheet, value)
            except IllegalCharacterError:
                msg = f"{value!r} has a character that Excel files cannot hold; write a .csv file"
                raise CommandError(msg) from None
            written.data_type = "s"  # Text, never a formula, even if it begins with "=".
            return written
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return None
        return value

    sheet.append([cell(str(name)) for name in frame.columns])
    for row in frame.astype(object).itertuples(index=False):
        sheet.append([cell(value) for value in row])
    book.save(file)

"""SEER: causes of death of cancer patients, from a SEER*Stat case listing."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from survival_objectives.datasets._dataset import Dataset
from survival_objectives.datasets._files import DATA_DIR_VARIABLE, find_file

_CAUSE = "COD to site recode"
_DURATION = "Survival months"
_INSTRUCTIONS = (
    "SEER's agreement forbids passing the data on. Sign it at "
    "https://seer.cancer.gov/data/access.html, make a case listing in SEER*Stat with at least "
    f"{_CAUSE!r} and {_DURATION!r}, and use Matrix > Export with labels in place of codes. Keep "
    "the dictionary (.dic) beside the data file, or let the first line hold the names; then "
    f"give the file as `path`, or name it seer.txt in the folder {DATA_DIR_VARIABLE}."
)
_FILE_NAMES = ("seer.txt", "seer.csv", "seer.txt.gz", "seer.csv.gz")
_ALIVE = "Alive"
_DELIMITERS = {"tab": "\t", "comma": ",", "semicolon": ";", "space": " "}
_MISSING = ["", ".", "NA", "Unknown", "Blank(s)"]
# Known only at the end of follow-up, or nothing but a number: as features they would give the
# outcome away.
_NOT_FEATURES = re.compile(
    r"Patient ID|COD to site|Survival months|Vital status|SEER (cause-specific|other cause of) "
    r"death|(Year|Month) of (death|follow-up)|End Calc|Cause of death",
    re.IGNORECASE,
)


def load_seer(
    path: str | os.PathLike[str] | None = None,
    *,
    causes: Sequence[str] = ("Breast", "Diseases of Heart"),
) -> Dataset:
    """SEER: competing causes of death of cancer patients.

    Parameters
    ----------
    path : path, optional
        A case listing exported by SEER*Stat as delimited text, gzipped or not, with labels. The
        names of its columns are taken from the dictionary of the export (same name, ending in
        .dic) where that is beside it, or else from the first line. Default: ``seer.txt`` (.csv,
        .txt.gz, .csv.gz) in the folder SURVIVAL_DATA_DIR.
    causes : sequence of str, default=("Breast", "Diseases of Heart")
        Labels of "COD to site recode" that become the events 1, 2 and so on, as in the paper. All
        other deaths become one further event.

    Returns
    -------
    Dataset
        X: all other columns that are known at diagnosis; text becomes categories, and "Unknown",
        "Blank(s)" and empty cells are missing. Duration in months; people without one are left out.
    """
    found = find_file(path, _FILE_NAMES, _INSTRUCTIONS)
    table = _read_listing(found)
    for column in (_CAUSE, _DURATION):
        if column not in table.columns:
            msg = (
                f"{str(found)!r} has no column {column!r}; its columns begin with "
                f"{list(table.columns[:5])}. {_INSTRUCTIONS}"
            )
            raise ValueError(msg)
    duration = pd.to_numeric(table[_DURATION], errors="coerce")
    n_dropped = int(duration.isna().sum())
    table, duration = table[duration.notna()], duration.dropna()
    absent = [cause for cause in causes if not (table[_CAUSE] == cause).any()]
    if absent:
        present = table[_CAUSE].value_counts().index[:8].tolist()
        msg = (
            f"No one in {str(found)!r} has the cause {absent[0]!r}. The commonest labels of "
            f"{_CAUSE!r} are {present}; choose `causes` among them."
        )
        raise ValueError(msg)
    codes = {_ALIVE: 0} | {cause: code for code, cause in enumerate(causes, start=1)}
    event = table[_CAUSE].map(codes).fillna(len(causes) + 1).astype(np.int64)
    names = [name for name in table.columns if not _NOT_FEATURES.search(name)]
    X = pd.DataFrame({name: _feature(table[name]) for name in names}).reset_index(drop=True)
    y = pd.DataFrame({"event": event.to_numpy(), "duration": duration.to_numpy(dtype=float)})
    return Dataset(
        X,
        y,
        ("censored", *causes, "other"),
        f"SEER case listing {found.name}. Duration in months from diagnosis until death; "
        f"{n_dropped} people without a duration were left out.",
    )


@dataclass(frozen=True)
class _Layout:
    delimiter: str | None
    names: list[str] | None
    has_header: bool


def _read_listing(path: Path) -> pd.DataFrame:
    stem = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    dictionary = path.with_name(f"{stem}.dic")
    layout = _read_dictionary(dictionary) if dictionary.is_file() else _Layout(None, None, True)
    delimiter = layout.delimiter or ("," if ".csv" in path.suffixes else "\t")
    return pd.read_csv(
        path,
        sep=delimiter,
        header=0 if layout.has_header else None,
        names=layout.names,
        dtype=str,
        keep_default_na=False,
    )


def _read_dictionary(path: Path) -> _Layout:
    """How the export is laid out, from the lines ``key=value`` of its dictionary."""
    delimiter, names, has_header = None, [], False
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key == "Field delimiter":
            delimiter = _DELIMITERS.get(value.strip().lower(), value)
        elif key == "Variable names included":
            has_header = value.strip().lower() == "true"
        elif re.fullmatch(r"Var\d+Name", key):
            names.append(value.strip())
    return _Layout(delimiter, names or None, has_header or not names)


def _feature(column: pd.Series) -> pd.Series:
    """Numbers where every known value is one, or else categories."""
    known = column.str.strip().where(~column.str.strip().isin(_MISSING))
    numbers = pd.to_numeric(known, errors="coerce")
    return numbers if (numbers.notna() == known.notna()).all() else known.astype("category")

"""Data sets: finding, downloading and reading the publishers' files, and those of this package."""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

import pandas as pd

DATA_DIR_VARIABLE = "SURVIVAL_DATA_DIR"
_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Download:
    """A file that may be downloaded."""

    url: str
    sha256: str  # Hexadecimal, of its content.
    licence: str  # What allows the download.

    @property
    def file_name(self) -> str:
        """Last part of the URL."""
        return self.url.rsplit("/", 1)[-1]


def data_dir() -> Path:
    """Folder named by the environment variable SURVIVAL_DATA_DIR, or else the user's cache."""
    named = os.environ.get(DATA_DIR_VARIABLE)
    if named:
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "survival_objectives")


def find_file(path: str | os.PathLike[str] | None, names: Sequence[str], instructions: str) -> Path:
    """First of ``names`` that exists in the folder ``path``, or ``path`` itself if it is a file.

    Without ``path``: in the folder SURVIVAL_DATA_DIR, or else in the user's cache. The error
    message where there is none ends with ``instructions`` for obtaining the file.
    """
    folder = data_dir() if path is None else Path(path).expanduser()
    if folder.is_file():
        return folder
    for name in names:
        if (folder / name).is_file():
            return folder / name
    msg = f"Found none of {', '.join(names)} in {str(folder)!r}. {instructions}"
    raise FileNotFoundError(msg)


def fetch(source: Download, folder: str | os.PathLike[str] | None = None) -> Path:
    """Path of the downloaded file, whose SHA-256 has been checked.

    A file of that name in ``folder`` (default: SURVIVAL_DATA_DIR, or else the user's cache) is used
    when its checksum is right and replaced when it is not. The file appears under its name only
    when it is complete and right, so that an interrupted download leaves nothing behind.
    """
    target = Path(folder).expanduser() if folder is not None else data_dir()
    path = target / source.file_name
    if path.is_file() and _sha256(path) == source.sha256:
        return path
    target.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target, prefix=source.file_name, suffix=".part")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            digest = _copy(source, file)
        if digest != source.sha256:
            msg = (
                f"{source.url} has the SHA-256 {digest}, expected {source.sha256}. The file has "
                "changed or was damaged on the way; it was not kept. Try again, or pass the `path` "
                "of a copy that you trust."
            )
            raise ValueError(msg)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _copy(source: Download, file: BinaryIO) -> str:
    """SHA-256 of what was written to ``file``."""
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(source.url, timeout=_TIMEOUT_SECONDS) as response:
            while chunk := response.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
    except OSError as error:  # Includes URLError, HTTPError and time-outs.
        msg = (
            f"Could not download {source.url}: {error}. Fetch the file by other means and pass its "
            "`path`."
        )
        raise OSError(msg) from error
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_table(path: Path) -> pd.DataFrame:
    """Table in a .parquet, .feather, .csv or .csv.gz file, or in DeepSurv's HDF5 layout."""
    suffix = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    if suffix in (".parquet", ".feather"):
        require("pyarrow", f"reading {path.name}")
        return pd.read_parquet(path) if suffix == ".parquet" else pd.read_feather(path)
    if suffix in (".csv", ".csv.gz"):
        return pd.read_csv(path)
    if suffix in (".h5", ".hdf5"):
        return _read_deepsurv(path)
    msg = f"{path.name!r} is of unknown format; use .parquet, .feather, .csv, .csv.gz or .h5."
    raise ValueError(msg)


def _read_deepsurv(path: Path) -> pd.DataFrame:
    """People of the groups ``train`` and ``test``, each with arrays x, t and e, one after another.

    They become the columns x0, x1, ..., duration and event, as in pycox.
    """
    h5py = require("h5py", f"reading {path.name}")
    frames = []
    with h5py.File(path, "r") as file:
        for group in ("train", "test"):
            x, t, e = (file[group][name][()] for name in ("x", "t", "e"))
            frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
            frames.append(frame.assign(duration=t, event=e))
    return pd.concat(frames, ignore_index=True)


def require(module: str, purpose: str) -> ModuleType:
    """Import of an optional module, or an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = f"{purpose} needs {module}. Install it with `pip install {module}`."
        raise ImportError(msg[0].upper() + msg[1:]) from error


# ---------------------------------------------------------------------------------------- data sets
@dataclass(frozen=True)
class Dataset:
    """People with their features and outcomes.

    Attributes
    ----------
    X : DataFrame of shape (n_samples, n_features)
        Numeric, boolean or categorical columns; missing is NaN.
    y : DataFrame of shape (n_samples, 2)
        ``event`` (0 = censored, 1..K = causes) and ``duration``.
    event_names : tuple of str, length K + 1
        What each value of ``event`` means; the first is "censored".
    description : str
        Where the data come from, the unit of time, what was done to them.
    """

    X: pd.DataFrame
    y: pd.DataFrame
    event_names: tuple[str, ...]
    description: str

    @property
    def n_samples(self) -> int:
        """Number of people."""
        return len(self.y)

    @property
    def n_causes(self) -> int:
        """Number of competing causes, K."""
        return len(self.event_names) - 1


# ------------------------------------------------------------------------------------------ bundled
def load_covid_hospital() -> Dataset:
    """Hospital stays of 2675 people with COVID-19: death competes with leaving alive.

    People admitted in Israel from 6 March to 4 May 2020 (MIT licence, see
    data/README.md beside this module). The data come with the package.

    Returns
    -------
    Dataset
        X: ``age`` (lower end of a five-year group; 0 for those below 20), ``male``, ``severity`` at
        admission (1 mild, 2 moderate, 3 severe), ``admission_day`` (since 6 March). y: ``event``
        0 = still in hospital when the data end (11 %), 1 = death (7 %), 2 = discharge (82 %);
        ``duration`` is the day of the stay, the day of admission being 1.

    Examples
    --------
    >>> data = load_covid_hospital()
    >>> data.event_names
    ('censored', 'death', 'discharge')
    >>> data.y["event"].value_counts().sort_index().tolist()
    [286, 198, 2191]
    """
    source = files("survival_objectives.datasets") / "data" / "covid_hospital.csv"
    with source.open("r", encoding="ascii") as file:
        table = pd.read_csv(file)
    y = table[["event", "duration"]].astype({"duration": float})
    return Dataset(
        X=table.drop(columns=["event", "duration"]),
        y=y,
        event_names=("censored", "death", "discharge"),
        description=(
            "First hospital stay of 2675 people with COVID-19, Israel, March to May 2020. "
            "Duration is the day of the stay."
        ),
    )

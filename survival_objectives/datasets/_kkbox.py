"""KKBox: how long customers of a music service stay, from the files of the Kaggle competition."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray
from survival_objectives.datasets._dataset import Dataset
from survival_objectives.datasets._files import DATA_DIR_VARIABLE, find_folder

_COMPETITION = "kkbox-churn-prediction-challenge"
_INSTRUCTIONS = (
    "KKBox's rules forbid passing the data on. Accept them at "
    f"https://www.kaggle.com/c/{_COMPETITION}/rules, then run `kaggle competitions download -c "
    f"{_COMPETITION} -f transactions.csv.7z` and the same for members_v3.csv.7z, unpack both with "
    f"7-Zip into one folder, and give that folder as `path` or set {DATA_DIR_VARIABLE}."
)
# The competition's own definition: churned if not renewed within 30 days of expiry.
_GRACE_DAYS = 30
_PLAUSIBLE_AGES = (10, 90)

# 20 million rows: as Python objects and int64 they would not fit into 8 GB.
_TRANSACTION_TYPES = {
    "msno": "category",
    "payment_method_id": "int16",
    "payment_plan_days": "int16",
    "plan_list_price": "int16",
    "actual_amount_paid": "int16",
    "is_auto_renew": "int8",
    "transaction_date": "int32",
    "membership_expire_date": "int32",
    "is_cancel": "int8",
}
_MEMBER_COLUMNS = ["msno", "city", "bd", "gender", "registered_via", "registration_init_time"]


def load_kkbox(path: str | os.PathLike[str] | None = None) -> Dataset:
    """KKBox: subscriptions to a music service, until the customer leaves.

    One row is one uninterrupted subscription. It starts with a payment and lasts until the
    membership expires and is not renewed within 30 days (the competition's definition of churn);
    later payments of the same customer start another. Subscriptions that have not run out 30 days
    before the last payment in the files are censored at their expiry or at that payment, whatever
    comes first. Those that last 0 days, bought and cancelled on one day, are left out.

    Parameters
    ----------
    path : path, optional
        Folder with Kaggle's ``transactions.csv`` and ``members_v3.csv``; ``transactions_v2.csv`` is
        read as well where it is there. Default: the folder SURVIVAL_DATA_DIR.

    Returns
    -------
    Dataset
        X: the first payment of the subscription (``payment_method``, ``plan_days``,
        ``list_price``, ``amount_paid``, ``is_auto_renew``, ``is_cancel``), the customer's history
        (``n_previous``, ``days_since_previous``, ``days_since_registration``) and profile
        (``city``, ``gender``, ``registered_via``, ``age``). Duration in days.
    """
    folder = find_folder(path, ["transactions.csv", "members_v3.csv"], _INSTRUCTIONS)
    members = pd.read_csv(folder / "members_v3.csv", usecols=_MEMBER_COLUMNS).set_index("msno")
    X, y = _subscriptions(_read_transactions(folder), members)
    return Dataset(
        X,
        y,
        ("censored", "churn"),
        "KKBox churn prediction challenge (Kaggle, 2017): uninterrupted subscriptions to a music "
        "service. Duration in days until the membership expires unrenewed for 30 days.",
    )


def _read_transactions(folder: Path) -> pd.DataFrame:
    parts = [
        pd.read_csv(folder / name, usecols=list(_TRANSACTION_TYPES), dtype=_TRANSACTION_TYPES)
        for name in ("transactions.csv", "transactions_v2.csv")
        if (folder / name).is_file()
    ]
    if len(parts) == 1:
        return parts[0]
    customers = pd.api.types.union_categoricals([part["msno"] for part in parts])
    table = pd.concat([part.drop(columns="msno") for part in parts], ignore_index=True)
    return table.assign(msno=customers)


def _subscriptions(table: pd.DataFrame, members: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    customer = table["msno"].cat.codes.to_numpy()
    paid = _day_number(table["transaction_date"])
    # Some expiry dates lie before the payment (1970 among them); such a payment buys no time.
    expiry = np.maximum(_day_number(table["membership_expire_date"]), paid)
    # A cancellation on the day of a payment revokes that payment, so it comes after it.
    order = np.lexsort((expiry, table["is_cancel"].to_numpy(), paid, customer))
    customer, paid, expiry = customer[order], paid[order], expiry[order]

    same_customer = customer[1:] == customer[:-1]
    renewed = same_customer & (paid[1:] - expiry[:-1] <= _GRACE_DAYS)
    first = np.flatnonzero(np.concatenate([[True], ~renewed]))
    last = np.concatenate([first[1:], [len(paid)]]) - 1
    known_until = paid.max()
    came_back = np.concatenate([customer[first[1:]] == customer[first[:-1]], [False]])
    churned = came_back | (expiry[last] + _GRACE_DAYS < known_until)
    end = np.where(churned, expiry[last], np.minimum(expiry[last], known_until))

    y = pd.DataFrame({"event": churned.astype(np.int64), "duration": end - paid[first]})

    returning = np.concatenate([[False], came_back[:-1]])
    previous_expiry = np.concatenate([[0], expiry[last][:-1]])
    number = np.arange(len(first))
    history = pd.DataFrame(
        {
            "n_previous": number - np.maximum.accumulate(np.where(returning, 0, number)),
            "days_since_previous": np.where(returning, paid[first] - previous_expiry, np.nan),
        }
    )
    X = _features(table.iloc[order[first]], history, members)
    lasts = y["duration"].to_numpy() > 0
    return X[lasts].reset_index(drop=True), y[lasts].reset_index(drop=True)


def _features(payment: pd.DataFrame, history: pd.DataFrame, members: pd.DataFrame) -> pd.DataFrame:
    """Features known when a subscription starts, given its first payment."""
    profile = members.reindex(payment["msno"].astype(object)).reset_index(drop=True)
    payment = payment.reset_index(drop=True)
    started = _day_number(payment["transaction_date"])
    return pd.DataFrame(
        {
            "payment_method": payment["payment_method_id"].astype("category"),
            "plan_days": payment["payment_plan_days"],
            "list_price": payment["plan_list_price"],
            "amount_paid": payment["actual_amount_paid"],
            "is_auto_renew": payment["is_auto_renew"],
            "is_cancel": payment["is_cancel"],
            "n_previous": history["n_previous"],
            "days_since_previous": history["days_since_previous"],
            "days_since_registration": started - _day_number(profile["registration_init_time"]),
            "city": profile["city"].astype("category"),
            "gender": profile["gender"].astype("category"),
            "registered_via": profile["registered_via"].astype("category"),
            "age": profile["bd"].where(profile["bd"].between(*_PLAUSIBLE_AGES)),
        }
    )


def _day_number(dates: pd.Series) -> FloatArray:
    """Days since 1970 of dates written as numbers, 20150131; missing stays NaN."""
    # There are a few thousand different dates in 20 million rows: parse each only once.
    codes, different = pd.factorize(dates)
    parsed = pd.to_datetime(different.astype(np.int64).astype(str), format="%Y%m%d")
    days = (parsed - pd.Timestamp(1970, 1, 1)).days.to_numpy(dtype=np.float64)
    padded: FloatArray = np.append(days, np.nan)  # Code -1 marks the missing.
    return padded[codes]

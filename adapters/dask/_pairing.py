"""Whether partitions of features and outcomes, paired by position, have the same people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd


def check_same_rows(X: Any, others: Mapping[str, Any], *, is_first: bool) -> None:
    """Refuse outcomes or weights whose index has other labels than that of the features.

    A partition cannot tell whether others have the labels that it lacks, so this is stricter than
    in memory. Row numbers may begin again in every partition, as `reset_index` leaves them.
    """
    if not isinstance(X, pd.DataFrame):
        return
    index = X.index
    for name, other in others.items():
        if isinstance(other, tuple | list):
            more = {f"{name}[{number}]": part for number, part in enumerate(other)}
            check_same_rows(X, more, is_first=is_first)
        elif isinstance(other, Mapping):
            more = {f"{name}[{key!r}]": part for key, part in other.items()}
            check_same_rows(X, more, is_first=is_first)
        elif isinstance(other, pd.DataFrame | pd.Series) and not (
            len(index) != len(other)
            or index.equals(other.index)
            or (not is_first and _are_row_numbers(index, other.index))
        ):
            labels = [one.to_numpy(dtype=object) for one in (index, other.index)]
            row = int(np.argmax(labels[0] != labels[1]))
            msg = (
                f"`{name}` has another index than `X`: row {row} is {labels[1][row]!r} there and "
                f"{labels[0][row]!r} in `X`. Rows are paired by position, so people would be mixed "
                "up. Take both from one collection, or use `.reset_index(drop=True)` on both if "
                "they already are in one order."
            )
            raise ValueError(msg)


def _are_row_numbers(*indexes: pd.Index) -> bool:
    """Whether labels count up by 1, in one of the indexes from 0."""
    counts_up = [
        pd.api.types.is_integer_dtype(one.dtype)
        and np.array_equal(one, np.arange(len(one)) + (one[0] if len(one) else 0))
        for one in indexes
    ]
    return all(counts_up) and any(len(one) == 0 or one[0] == 0 for one in indexes)

"""Several rows per person: ids that repeat, and rows that continue one another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray

_ID_NAME = re.compile(
    r"(.*[\W_])?(?i:id|uuid|guid|identifier|mrn|pid)|.*[a-z](Id|ID)"
    r"|(?i:(.*[\W_])?(patient|person|subject|participant|customer|client))"
    r"([\W_]*(?i:no|nr|num|number|key|code))?"
)
# Ids of groups of people.
_GROUP = re.compile(
    r"(?i)(.*[\W_])?(hospital|site|center|centre|clinic|ward|school|class|region|country|county"
    r"|state|city|dept|department|doctor|physician|provider|product|plan|group|cluster|trial|study"
    r"|household|family|area|zone|store|branch|team|batch|company|firm|type|category)(id|[\W_].*)"
)
# An id of which fewer values repeat is a slip, and of fewer values than this a group.
_FEW_REPEATED = 0.02
_FEWEST_PEOPLE = 20
_MOST_ROWS = 50
# At least this share of rows continue the one before.
_CHAINED = 0.2
_FEWEST_CHAINED = 10


@dataclass(frozen=True)
class SeveralRows:
    """Evidence for several rows per person.

    >>> print(SeveralRows("patient", "from", 1200, 300))
    several rows per person: 'patient' has 300 values in 1200 rows, which continue one another from\
 'from' on
    """

    id: str | None  # Column that names the person.
    start: str | None  # Column in which each row begins where another ends.
    n_rows: int
    n_people: int

    def __str__(self) -> str:
        if self.id is None:
            shown = f"{self.n_rows - self.n_people} of {self.n_rows} rows begin, in {self.start!r},"
            return f"several rows per person: {shown} where the row before ends"
        shown = f"several rows per person: {self.id!r} has {self.n_people} values in {self.n_rows}"
        chain = f" rows, which continue one another from {self.start!r} on"
        return shown + (" rows" if self.start is None else chain)


def is_id_name(name: str) -> bool:
    """Whether the name is that of an identifier.

    >>> [is_id_name(name) for name in ("id", "Patient no", "patient_id", "userId", "covid", "paid")]
    [True, True, True, True, False, False]
    """
    return _ID_NAME.fullmatch(name) is not None


def several_rows(
    ids: Mapping[str, npt.NDArray[Any]], starts: Mapping[str, FloatArray], stop: FloatArray
) -> SeveralRows | None:
    """What shows that people have several rows, or None.

    Parameters
    ----------
    ids : mapping of str to array of shape (n_samples,)
        Columns of whole numbers or text that may be ids, by their names.
    starts : mapping of str to float64 array of shape (n_samples,)
        Columns that may be the beginning of each row, on the clock of ``stop``.
    stop : float64 array of shape (n_samples,)
        End of each row.

    Examples
    --------
    >>> several_rows({"id": np.repeat(np.arange(50), 2)}, {}, np.arange(100.0))
    SeveralRows(id='id', start=None, n_rows=100, n_people=50)
    """
    n_rows = len(stop)
    for name, values in ids.items():
        number, different = pd.factorize(values)
        n_people, n_known = len(different), int((number >= 0).sum())
        is_person = is_id_name(name) and not _GROUP.match(name)
        if not is_person or not _FEWEST_PEOPLE <= n_people < (1 - _FEW_REPEATED) * n_known:
            continue
        if n_known <= _MOST_ROWS * n_people:
            return SeveralRows(name, _chained(starts, stop, number)[0], n_rows, n_people)
    start, n_chained = _chained(starts, stop, None)
    return None if start is None else SeveralRows(None, start, n_rows, n_rows - n_chained)


def _chained(
    starts: Mapping[str, FloatArray], stop: FloatArray, person: IntArray | None
) -> tuple[str | None, int]:
    """The column in which rows begin where the row before ends, and the number of such rows."""
    for name, start in starts.items():
        order = np.arange(len(stop)) if person is None else np.lexsort((start, person))
        begin, end = start[order], stop[order]
        continues = (begin[1:] == end[:-1]) & (begin[1:] > begin.min())
        n_chained = int(continues.sum())
        is_forward = (begin < end).mean() > 1 - _FEW_REPEATED
        if is_forward and n_chained >= max(_FEWEST_CHAINED, _CHAINED * len(stop)):
            return name, n_chained
    return None, 0

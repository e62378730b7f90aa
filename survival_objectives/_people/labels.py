"""Named outcomes: from columns of a frame, or causes as text, to the codes that models train on.

Models code censored as 0 and causes from 1. Text is converted to these codes, and the names are
kept in ``attrs["event_names"]`` of the outcomes and in ``event_names_`` of a fitted model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import IntArray
from survival_objectives._people import split_target
from survival_objectives._people.values import plain_series, plain_table

EVENT_FREE = "event-free"
_ATTRIBUTE = "event_names"
#: Labels that mean censored, in lower case.
CENSORED = frozenset(
    {
        "censored",
        "censor",
        "censoring",
        "cens",
        "right censored",
        "right-censored",
        "alive",
        "living",
        "no event",
        "event-free",
        "event free",
        "lost to follow-up",
        "lost to follow up",
        "ltfu",
        "no",
        "n",
        "false",
    }
)


def survival_outcomes(
    frame: Any, *, event: Any, censored: str | Sequence[str] | None = None, **others: Any
) -> pd.DataFrame:
    """Outcomes from columns of a frame, keeping the names of causes.

    Parameters
    ----------
    frame : DataFrame
        One row per person, or per person and stretch of time.
    event : column name
        Outcome at that time: 0 for censored and 1..K for causes, booleans, or text.
    censored : str or sequence of str, optional
        Labels of a text column that mean censored. Default: those that say so, such as "censored"
        or "alive". An empty sequence means that all people had an event.
    **others : column names
        ``duration``, the time to the event or to censoring, and ``entry``, if people came under
        observation late; or ``id``, ``start`` and ``stop`` of a long table.

    Returns
    -------
    DataFrame
        Outcomes with the index of the frame. If the events are text,
        ``attrs["event_names"]`` has the names of the states, :data:`EVENT_FREE` first and then the
        causes in alphabetical order.

    Examples
    --------
    >>> patients = pd.DataFrame({"days": [3, 9, 5], "status": ["died", "censored", "discharged"]})
    >>> y = survival_outcomes(patients, duration="days", event="status")
    >>> y["event"].tolist(), y.attrs["event_names"]
    ([1, 0, 2], ('event-free', 'died', 'discharged'))
    """
    columns = list(getattr(frame, "columns", ()))
    roles = {"event": event, **others}
    for name, column in roles.items():
        if column not in columns:
            msg = f"`{name}` is {column!r}, which is not a column of the frame; it has {columns}."
            raise ValueError(msg)
    named = list(roles.values())
    for number, (name, column) in enumerate(roles.items()):
        if column in named[:number]:
            other = list(roles)[named.index(column)]
            msg = f"`{name}` and `{other}` are both {column!r}; name two different columns."
            raise ValueError(msg)
    pair = pd.DataFrame(
        {name: plain_series(frame[column]) for name, column in roles.items()},
        index=frame.index if isinstance(frame, pd.DataFrame) else None,
    )
    coded, labels = named_outcomes(pair, censored=censored)
    result: pd.DataFrame = coded
    if labels is not None:
        result.attrs[_ATTRIBUTE] = labels.names
    return result


@dataclass(frozen=True)
class EventLabels:
    """Meaning of the labels of text events.

    Attributes
    ----------
    names : tuple of str
        Names of the states, :data:`EVENT_FREE` first and then the causes.
    censored : frozenset of str, optional
        Labels that mean censored. Default: those that say so.
    """

    names: tuple[str, ...]
    censored: frozenset[str] | None = None

    @classmethod
    def of(cls, found: Iterable[str], censored: str | Sequence[str] | None) -> EventLabels:
        """The meaning of all labels of the training people, or an error if it is ambiguous."""
        found = sorted(set(found))
        meant = _censored_labels(found, censored)
        return cls((EVENT_FREE, *(label for label in found if label not in meant)), meant)

    @classmethod
    def of_parts(
        cls, parts: Iterable[Any], censored: str | Sequence[str] | None
    ) -> EventLabels | None:
        """The meaning of the labels of all parts of the outcomes; None where they are numbers."""
        found: set[str] = set()
        for part in parts:
            labels = text_events(part)
            if labels is not None:
                found |= set(labels)
            elif not found and np.size(getattr(part, "index", part)):
                break  # Events are numbers.
        if not found:
            check_censored_is_for_text(censored)
        return cls.of(found, censored) if found else None

    def coded(self, y: Any) -> Any:
        """Outcomes with codes in place of text; others are returned as they are."""
        labels = text_events(y)
        if labels is None:
            return y
        codes = {label: code for code, label in enumerate(self.names) if code}
        for label in labels.unique():
            if label not in codes and not self._means_censored(label):
                msg = (
                    f"`event` has the label {label!r}, which was not seen in training. Known "
                    f"causes: {list(self.names[1:])}."
                )
                raise ValueError(msg)
        _, duration, entry, ids = split_target(y)
        coded = labels.map(lambda label: codes.get(label, 0)).astype(np.int64)
        result = pd.DataFrame({"event": coded.to_numpy()})
        result["duration" if ids is None else "stop"] = np.asarray(duration)
        if entry is not None:
            result["entry" if ids is None else "start"] = np.asarray(entry)
        if ids is not None:
            result["id"] = np.asarray(ids)
        result.index = labels.index
        return result

    def _means_censored(self, label: str) -> bool:
        return _says_censored(label) if self.censored is None else label in self.censored


def names_of(labels: EventLabels | None, event_ids: IntArray) -> tuple[str, ...] | None:
    """Names of the states with these codes, where events are text."""
    return None if labels is None else tuple(labels.names[code] for code in event_ids)


def named_outcomes(
    y: Any,
    *,
    names: tuple[str, ...] | None = None,
    censored: str | Sequence[str] | None = None,
) -> tuple[Any, EventLabels | None]:
    """``y`` with text events as codes, and what they mean where that is known.

    Parameters
    ----------
    y : outcomes
        In any form that models accept, or with events as text.
    names : tuple of str, optional
        Names of the states of a fitted model, which then determine the codes.
    censored : str or sequence of str, optional
        As in `survival_outcomes`.
    """
    y = plain_table(y, "y")
    known = getattr(y, "attrs", {}).get(_ATTRIBUTE)
    if y is None or known is not None:
        return y, known and EventLabels(known)
    labels = text_events(y)
    if labels is None:
        check_censored_is_for_text(censored)
        return y, None
    if names is None:
        meaning = EventLabels.of(labels, censored)
    else:
        given = [censored] if isinstance(censored, str) else censored
        meaning = EventLabels(tuple(names), None if given is None else frozenset(given))
    return meaning.coded(y), meaning


def check_censored_is_for_text(censored: Any) -> None:
    """Raise an error if labels are named where events are numbers."""
    if censored is not None:
        msg = "`censored` names labels of text events, but the events are numbers: 0 is censored."
        raise ValueError(msg)


def text_events(y: Any) -> pd.Series[str] | None:
    """Events as text, or None where they are numbers or booleans; an error if some are missing."""
    try:
        event, *_ = split_target(y)
    except ValueError:
        return None  # Outcomes are checked, and the error raised, after the features.
    labels = _labels(event)
    if labels is not None and labels.isna().any():
        row = int(np.flatnonzero(labels.isna())[0])
        msg = f"`event` is missing at row {row}. Use {'censored'!r} where no event was observed."
        raise ValueError(msg)
    return labels


def _censored_labels(found: Sequence[str], censored: str | Sequence[str] | None) -> frozenset[str]:
    if censored is None:
        meant = frozenset(filter(_says_censored, found))
        if not meant:
            msg = (
                f"`event` has the labels {found[:8]}, none of which means censored. Name the "
                "labels of people without an observed event, as in `censored='moved away'`; use "
                "`censored=[]` if there are none."
            )
            raise ValueError(msg)
        return meant
    meant = frozenset({censored} if isinstance(censored, str) else map(str, censored))
    lacking = sorted(meant - set(found))
    if len(lacking) == len(meant) > 0:
        msg = f"`censored` is {lacking[0]!r}, but `event` has only the labels {found[:8]}."
        raise ValueError(msg)
    return meant


def _says_censored(label: str) -> bool:
    return label.strip().lower() in CENSORED


def _labels(event: Any) -> pd.Series[Any] | None:
    """Events as text, or None where they are numbers or booleans."""
    series = plain_series(event) if hasattr(event, "__len__") else pd.Series([event])
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    if not (series.dtype == object or isinstance(series.dtype, pd.StringDtype)):
        return None
    known = series.dropna()
    is_text = len(known) > 0 and all(isinstance(value, str) for value in known)
    return series if is_text else None

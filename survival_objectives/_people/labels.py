"""Named outcomes: from columns of a frame, or causes as text, to the codes that models train on.

Models code censored as 0 and causes from 1. Text is converted to these codes, and the names are
kept in ``attrs["event_names"]`` of the outcomes and in ``event_names_`` of a fitted model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._people import split_target

__all__ = ["EVENT_FREE", "named_outcomes", "survival_outcomes"]

EVENT_FREE = "event-free"
_ATTRIBUTE = "event_names"
# Labels that always mean censored.
_CENSORED = frozenset({"censored", "censor", "censoring", "right censored", "right-censored"})


def survival_outcomes(
    frame: Any, *, duration: Any, event: Any, censored: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """Outcomes from two columns of a frame, keeping the names of causes.

    Parameters
    ----------
    frame : DataFrame
        One row per person.
    duration : column name
        Time to the event or to censoring.
    event : column name
        Outcome at that time: 0 for censored and 1..K for causes, booleans, or text.
    censored : str or sequence of str, optional
        Labels of a text column that mean censored. Default: the label "censored". An empty
        sequence means that all people had an event.

    Returns
    -------
    DataFrame
        ``event`` and ``duration`` with the index of the frame. If the events are text,
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
    for name, column in (("duration", duration), ("event", event)):
        if column not in columns:
            msg = f"`{name}` is {column!r}, which is not a column of the frame; it has {columns}."
            raise ValueError(msg)
    if duration == event:
        msg = f"`duration` and `event` are both {event!r}; name two different columns."
        raise ValueError(msg)
    pair = pd.DataFrame(
        {"event": _series(frame[event]), "duration": _series(frame[duration])},
        index=frame.index if isinstance(frame, pd.DataFrame) else None,
    )
    coded, names = named_outcomes(pair, censored=censored)
    result: pd.DataFrame = coded
    if names is not None:
        result.attrs[_ATTRIBUTE] = names
    return result


def named_outcomes(
    y: Any,
    *,
    names: tuple[str, ...] | None = None,
    censored: str | Sequence[str] | None = None,
) -> tuple[Any, tuple[str, ...] | None]:
    """``y`` with text events as codes, and the names of the states where they are known.

    Parameters
    ----------
    y : outcomes
        In any form that models accept, or with events as text.
    names : tuple of str, optional
        Names of the states of a fitted model, which then determine the codes.
    censored : str or sequence of str, optional
        As in `survival_outcomes`.
    """
    known = getattr(y, "attrs", {}).get(_ATTRIBUTE)
    if y is None or known is not None:
        return y, known
    try:
        event, duration, entry, ids = split_target(y)
    except ValueError:
        return y, None  # Outcomes are checked, and the error raised, after the features.
    labels = _labels(event)
    if labels is None:
        if censored is not None:
            msg = (
                "`censored` names labels of text events, but the events are numbers: 0 is censored."
            )
            raise ValueError(msg)
        return y, None
    if labels.isna().any():
        row = int(np.flatnonzero(labels.isna())[0])
        msg = f"`event` is missing at row {row}. Use {'censored'!r} where no event was observed."
        raise ValueError(msg)
    found = sorted(labels.unique())
    meaning_censored = _censored_labels(found, censored)
    causes = [label for label in found if label not in meaning_censored]
    states = (EVENT_FREE, *causes) if names is None else tuple(names)
    unknown = [label for label in causes if label not in states[1:]]
    if unknown:
        msg = (
            f"`event` has the label {unknown[0]!r}, which was not seen in training. Known causes: "
            f"{list(states[1:])}."
        )
        raise ValueError(msg)
    codes = {label: states.index(label) for label in causes}
    coded = labels.map(lambda label: codes.get(label, 0)).astype(np.int64)
    result = pd.DataFrame({"event": coded.to_numpy()})
    result["duration" if ids is None else "stop"] = np.asarray(duration)
    if entry is not None:
        result["entry" if ids is None else "start"] = np.asarray(entry)
    if ids is not None:
        result["id"] = np.asarray(ids)
    result.index = labels.index
    return result, states


def _censored_labels(found: list[str], censored: str | Sequence[str] | None) -> set[str]:
    if censored is None:
        meant = {label for label in found if label.strip().lower() in _CENSORED}
        if not meant:
            msg = (
                f"`event` has the labels {found[:8]}, none of which means censored. Name the "
                "labels of people without an observed event, as in `censored='alive'`; use "
                "`censored=[]` if there are none."
            )
            raise ValueError(msg)
        return meant
    meant = {censored} if isinstance(censored, str) else {str(label) for label in censored}
    lacking = sorted(meant - set(found))
    if len(lacking) == len(meant) > 0:
        msg = f"`censored` is {lacking[0]!r}, but `event` has only the labels {found[:8]}."
        raise ValueError(msg)
    return meant


def _series(column: Any) -> pd.Series[Any]:
    if isinstance(column, pd.Series):
        return column
    return pd.Series(column.to_list() if hasattr(column, "to_list") else column)


def _labels(event: Any) -> pd.Series[Any] | None:
    """Events as text, or None where they are numbers or booleans."""
    series = _series(event) if hasattr(event, "__len__") else pd.Series([event])
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    if not (series.dtype == object or isinstance(series.dtype, pd.StringDtype)):
        return None
    known = series.dropna()
    is_text = len(known) > 0 and all(isinstance(value, str) for value in known)
    return series if is_text else None

"""Outcomes in a form that scikit-learn can split into folds."""

from __future__ import annotations

from typing import Any

import pandas as pd

from survival_objectives._people import check_survival_target

__all__ = ["outcomes_frame"]


def outcomes_frame(y: Any) -> pd.DataFrame:
    """Outcomes as a DataFrame with the columns ``event``, ``duration`` and, if late, ``entry``.

    scikit-learn's `cross_val_score`, `GridSearchCV` and similar functions select rows of ``y`` and
    refuse a pair or a dict, whose length is 2, before any estimator sees it. A frame has one row
    per person.

    Parameters
    ----------
    y : DataFrame, dict, structured array, tuple or array
        Outcomes in any form that this package accepts.

    Returns
    -------
    DataFrame of n_samples rows

    Examples
    --------
    >>> outcomes_frame(([1, 0, 2], [2.5, 3.0, 1.0])).shape
    (3, 2)
    """
    target = check_survival_target(y, require_event=False, late_entry=True)
    index = y.index if isinstance(y, pd.DataFrame) else None
    columns = {"event": target.event_ids[target.event], "duration": target.duration}
    if target.entry is not None:
        columns["entry"] = target.entry
    return pd.DataFrame(columns, index=index)

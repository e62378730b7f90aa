"""What every loader and generator of this package returns."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


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

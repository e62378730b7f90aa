"""Margins of a model that CatBoost is training, which only a metric gets to see."""

from __future__ import annotations

import numpy as np

from survival_objectives._arrays import FloatArray, IntArray


class SeenMargins:
    """Margins of the training rows in one round, as the metric sees them part by part.

    Parameters
    ----------
    n_rows, n_margins : int
        Rows of the training pool, and margins of each.
    """

    def __init__(self, n_rows: int, n_margins: int) -> None:
        self._shape = n_rows, n_margins
        self._seen: FloatArray | None = None

    def watch(self) -> None:
        """Keep the margins of the next round."""
        self._seen = np.full(self._shape, np.nan)

    def record(self, rows: IntArray, margin: FloatArray) -> None:
        """Keep margins of these rows, if they are watched; rows after the last are held out."""
        if self._seen is not None:
            training = rows < len(self._seen)
            self._seen[rows[training]] = margin[training]

    def take(self) -> FloatArray:
        """Margins of the training rows after this round, which are forgotten here."""
        seen, self._seen = self._seen, None
        if seen is None or np.isnan(seen).any():
            msg = (
                "CatBoost did not evaluate the metric on the training rows in this round, so the "
                "weights cannot be refreshed. Keep `eval_metric` of `loss.params`, and "
                "`metric_period=1`."
            )
            raise ValueError(msg)
        return seen

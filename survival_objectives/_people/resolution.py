r"""Whether distinct values stay distinct in float32, which all engines compute in.

float32 keeps 24 bits. Near 10^9, the size of Unix seconds, two values must be 64 or 128 apart to
stay distinct, so that all times of one day collapse to a few hundred. The check counts distinct
values before and after rounding. Ordinary continuous data of many people loses values as well, but
hundreds of thousands remain, far more than trees can use: a loss matters if more than `LOST_SHARE`
of the values are lost and fewer than `ENOUGH` remain.

Values that differ only by float64 rounding errors (0.1 + 0.2 and 0.3) count once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array

#: The share of distinct values that may be lost.
LOST_SHARE = 0.01
#: Sufficient number of distinct float32 values; engines use 256 bins or fewer.
ENOUGH = 4096
# Relative differences up to here are rounding errors of float64, not different values.
_SAME = 1e-13
_SAMPLE = 4 * ENOUGH


@dataclass(frozen=True)
class Resolution:
    """Distinct values of a column before and after rounding to float32.

    The counts are 0 where float32 represents all values exactly.

    Attributes
    ----------
    n_given : int
        Number of distinct values given; after `merged`, summed over parts of the column.
    n_lost : int
        Number of distinct values lost.
    kept : float32 array
        The remaining values, sorted; at most `ENOUGH` of them are listed.
    """

    n_given: int
    n_lost: int
    kept: Float32Array

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Resolution:
        """The resolution of one column, ignoring NaN.

        >>> Resolution.of(1e9 + np.arange(100.0)).n_lost
        97
        >>> Resolution.of(np.arange(100.0)).n_lost
        0
        """
        values = values[np.isfinite(values)].astype(np.float64, copy=False)
        with np.errstate(over="ignore"):  # Overflows become infinite, and are refused later.
            is_exact = bool((values.astype(np.float32) == values).all())
        if is_exact:  # Most integer columns; counting would require sorting.
            return cls(0, 0, np.empty(0, np.float32))
        if len(values) > _SAMPLE:
            # A sample with enough distinct values shows that the column has enough.
            with np.errstate(over="ignore"):
                kept = np.unique(values[:: len(values) // _SAMPLE].astype(np.float32))
            if len(kept) >= ENOUGH:
                return cls(len(kept), 0, kept[:ENOUGH])
        given = np.unique(values)
        with np.errstate(over="ignore"):
            kept = np.unique(given.astype(np.float32))
        n_given = len(given)
        if len(kept) < n_given:
            n_given = 1 + int((np.diff(given) > _SAME * np.abs(given[1:])).sum())
        return cls(n_given, max(n_given - len(kept), 0), kept[:ENOUGH])

    @property
    def is_too_coarse(self) -> bool:
        """Whether a relevant part of the values was lost."""
        return len(self.kept) < ENOUGH and self.n_lost > LOST_SHARE * self.n_given

    def merged(self, other: Resolution) -> Resolution:
        """The resolution of a column that consists of two parts."""
        return Resolution(
            self.n_given + other.n_given,
            self.n_lost + other.n_lost,
            np.union1d(self.kept, other.kept)[:ENOUGH],
        )

    def check(self, name: str, remedy: str) -> None:
        """Raise an error with the number of lost values if the loss matters."""
        if not self.is_too_coarse:
            return
        msg = (
            f"{name} has {self.n_given} different values, of which rounding to float32, which the "
            f"engines compute in, leaves {self.n_given - self.n_lost} ({self.n_lost} are lost). "
            f"{remedy}"
        )
        raise ValueError(msg)

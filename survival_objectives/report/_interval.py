"""Whether two models differ by more than chance, on the same held-out people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from survival_objectives.assessment import Assessment

# Scores nearer than this share of each other are a tie, however certain the difference is.
_TIE = 0.01


@dataclass(frozen=True)
class Interval:
    """An estimate with 95 % limits; infinite limits where there is nothing to judge by."""

    estimate: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether chance alone is an unlikely explanation."""
        return self.low > 0 or self.high < 0

    def is_clear(self, reference: float) -> bool:
        """Whether a difference of scores is a finding: beyond chance, and not a tie.

        ``reference`` is the score of the model that is compared with.

        >>> Interval(-0.0008, -0.0012, -0.0004).is_clear(0.1031)
        False
        """
        return self.excludes_zero and abs(self.estimate) > _TIE * abs(reference)

    def scaled(self, factor: float) -> Interval:
        """The same in another unit."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.estimate * factor, low, high)


def difference(
    assessment: Assessment,
    one: str,
    other: str,
    metric: str = "integrated_brier_score",
    cause: int = 0,
) -> Interval:
    """Score of ``one`` minus that of ``other``, from paired differences of people.

    The limits hold for the models as they were trained: they show how much another draw of
    held-out people would change the difference.
    """
    known = assessment.comparisons
    is_pair = (known["model"] == one) & (known["reference"] == other)
    row = known[is_pair & (known["metric"] == metric) & (known["cause"] == cause)].iloc[0]
    if np.isnan(row["standard_error"]):
        return Interval(float(row["difference"]), -np.inf, np.inf)
    return Interval(*(float(row[name]) for name in ("difference", "lower", "upper")))

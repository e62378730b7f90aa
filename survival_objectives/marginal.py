r"""Marginal curves of a population: Kaplan-Meier and Aalen-Johansen, with ties and weights.

With d_k(t) people (or their total weight) having an event of cause k at t, c(t) censored at t, and
n(t) observed until t or later:

    event-free   S(t) = prod_{u <= t} (1 - sum_k d_k(u) / n(u))                                  (6)
    incidence    F_k(t) = sum_{u <= t} S(u-) d_k(u) / n(u)                                       (7)
    uncensored   G(t) = prod_{u <= t} (1 - c(u) / (n(u) - sum_k d_k(u)))                         (8)

Ties: an event at t comes before a censoring at t. Hence people censored at t are at risk in (6),
while people with an event at t have left the risk set of (8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray
from survival_objectives._people import SurvivalTarget

__all__ = ["StepFunction", "aalen_johansen", "kaplan_meier", "kaplan_meier_censoring"]


@dataclass(frozen=True)
class StepFunction:
    """A right-continuous step function, or several on the same steps.

    Attributes
    ----------
    times : float64 array of shape (n_steps,)
        Where it jumps, increasing.
    values : float64 array of shape (n_steps,) or (n_steps, n_curves)
        Value from each jump on; constant after the last.
    initial : float64 array of shape () or (n_curves,)
        Value before the first jump.
    """

    times: FloatArray
    values: FloatArray
    initial: FloatArray

    def __call__(self, times: npt.ArrayLike, *, left: bool = False) -> FloatArray:
        """Values at ``times``, or with ``left`` the limits from the left, f(t-)."""
        position = np.searchsorted(self.times, times, side="left" if left else "right")
        padded = np.concatenate([self.initial[None], self.values])
        return padded[position]

    def to_plain(self) -> dict[str, Any]:
        """The function as data that JSON can hold."""
        return {
            "times": self.times.tolist(),
            "values": self.values.tolist(),
            "initial": np.asarray(self.initial).tolist(),
        }

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> StepFunction:
        """The function that `to_plain` described."""
        return cls(*(np.array(content[name]) for name in ("times", "values", "initial")))


@dataclass(frozen=True)
class _RiskTable:
    times: FloatArray
    at_risk: FloatArray  # (n_times,)
    leaving: FloatArray  # (n_times, K + 1), column 0 counts the censored


def _risk_table(target: SurvivalTarget, weight: FloatArray | None) -> _RiskTable:
    times, position = np.unique(target.duration, return_inverse=True)
    width = target.n_causes + 1
    cells = np.bincount(
        position * width + target.event, weights=weight, minlength=len(times) * width
    )
    leaving = cells.reshape(len(times), width).astype(np.float64)
    at_risk = leaving.sum(axis=1)[::-1].cumsum()[::-1]
    return _RiskTable(times, at_risk, leaving)


def _product_limit(leaving: FloatArray, at_risk: FloatArray) -> FloatArray:
    # With an empty risk set, 0/0 is a factor of 1. Weighted counts may exceed the risk set by
    # rounding, and a probability must not fall below 0.
    hazard = np.divide(leaving, at_risk, out=np.zeros_like(leaving), where=leaving > 0)
    survival: FloatArray = np.cumprod(1 - np.minimum(hazard, 1))
    return survival


def kaplan_meier(target: SurvivalTarget, weight: FloatArray | None = None) -> StepFunction:
    """Probability of being event-free after each time, equation (6)."""
    table = _risk_table(target, weight)
    events = table.leaving[:, 1:].sum(axis=1)
    return StepFunction(table.times, _product_limit(events, table.at_risk), np.array(1.0))


def kaplan_meier_censoring(
    target: SurvivalTarget, weight: FloatArray | None = None
) -> StepFunction:
    """Probability of being uncensored after each time, equation (8)."""
    table = _risk_table(target, weight)
    censored = table.leaving[:, 0]
    # n(u) - d(u) as people observed after u plus people censored at u: subtracting weights would
    # round, and the last censoring would not bring the curve to exactly 0.
    at_risk = np.append(table.at_risk[1:], 0.0) + censored
    return StepFunction(table.times, _product_limit(censored, at_risk), np.array(1.0))


def aalen_johansen(target: SurvivalTarget, weight: FloatArray | None = None) -> StepFunction:
    """Event-free probability and incidence of every cause, equations (6) and (7), as K + 1 curves.

    Index 0 is the event-free probability; the curves sum to 1.
    """
    table = _risk_table(target, weight)
    events = table.leaving[:, 1:]
    survival = _product_limit(events.sum(axis=1), table.at_risk)
    before = np.concatenate([[1.0], survival[:-1]])
    hazard = np.divide(events, table.at_risk[:, None], out=np.zeros_like(events), where=events > 0)
    incidence = np.cumsum(before[:, None] * hazard, axis=0)
    initial = np.zeros(target.n_causes + 1)
    initial[0] = 1.0
    return StepFunction(table.times, np.column_stack([survival, incidence]), initial)

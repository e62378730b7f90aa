r"""Marginal curves of a population: Kaplan-Meier, Aalen-Johansen and their standard errors.

With d_k(t) people (or their total weight) having an event of cause k at t, c(t) censored at t, and
n(t) at risk at t, which is in (entry, duration], or at 0 with an entry of 0:

    event-free   S(t) = prod_{u <= t} (1 - sum_k d_k(u) / n(u))                                  (6)
    incidence    F_k(t) = sum_{u <= t} S(u-) d_k(u) / n(u)                                       (7)
    uncensored   G(t) = prod_{u <= t} (1 - c(u) / (n(u) - sum_k d_k(u)))                         (8)

Ties: an event at t comes before a censoring at t, and both before an entry at t. Hence people
censored at t are at risk in (6), while people with an event at t have left the risk set of (8).

Standard errors are Greenwood's for (6) and (8), with h(u) the hazard that is multiplied,

    SE(t) = S(t) sqrt(sum_{u <= t} h(u) / (n(u) (1 - h(u))))                                    (95)

and from the influence of every person i on the states of (7), as R's survfit has them,

    SE_k(t)^2 = sum_i (s_i phi_ik(t))^2                                                         (96)
    dM_ik(u) = (dN_ik(u) - Y_i(u) d_k(u) / n(u)) / n(u)
    phi_ik(t) = sum_{u <= t} S(u-) dM_ik(u) - (F_k(t) - F_k(u)) sum_l dM_il(u) / (1 - h(u))

with s_i the weight, N_ik the events and Y_i whether i is at risk; phi_i0 = -sum_k phi_ik.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import SurvivalTarget

__all__ = [
    "StepFunction",
    "aalen_johansen",
    "kaplan_meier",
    "kaplan_meier_censoring",
]


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
    error : float64 array of the shape of ``values``, or None
        Standard error from each jump on, where it was asked for; 0 before the first.
    """

    times: FloatArray
    values: FloatArray
    initial: FloatArray
    error: FloatArray | None = None

    def __call__(self, times: npt.ArrayLike, *, left: bool = False) -> FloatArray:
        """Values at ``times``, or with ``left`` the limits from the left, f(t-)."""
        position = np.searchsorted(self.times, times, side="left" if left else "right")
        padded = np.concatenate([self.initial[None], self.values])
        return padded[position]

    def standard_error(self, times: npt.ArrayLike) -> FloatArray:
        """Standard errors of the values at ``times``."""
        if self.error is None:
            msg = "This curve has no standard errors; estimate it with `standard_error=True`."
            raise ValueError(msg)
        position = np.searchsorted(self.times, times, side="right")
        return np.concatenate([np.zeros_like(self.initial)[None], self.error])[position]

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
        times, values, initial = (
            np.array(content[name], np.float64) for name in ("times", "values", "initial")
        )
        return cls(times, values.reshape(len(times), *initial.shape), initial)

    @classmethod
    def constant(cls, value: FloatArray) -> StepFunction:
        """The function that has the same value, or values, at all times."""
        return cls(np.empty(0), np.empty((0, *value.shape)), value)


@dataclass(frozen=True)
class _RiskTable:
    times: FloatArray
    at_risk: FloatArray  # (n_times,)
    leaving: FloatArray  # (n_times, K + 1), column 0 counts the censored
    # Per person: number of the times before those at which they are at risk, and of the last.
    first: IntArray
    last: IntArray

    def hazards(self) -> FloatArray:
        """Hazard of every cause at every time, (n_times, K)."""
        events, at_risk = self.leaving[:, 1:], self.at_risk[:, None]
        return np.divide(events, at_risk, out=np.zeros_like(events), where=events > 0)


def _risk_table(target: SurvivalTarget, weight: FloatArray | None) -> _RiskTable:
    times, last = np.unique(target.duration, return_inverse=True)
    width, n_times = target.n_causes + 1, len(times)
    cells = np.bincount(last * width + target.event, weights=weight, minlength=n_times * width)
    leaving = cells.reshape(n_times, width).astype(np.float64)
    at_risk = _at_risk(leaving)
    first = np.zeros(len(last), np.int64)
    if target.entry is not None:
        late = target.entry > 0
        first[late] = np.searchsorted(times, target.entry[late], side="right")
        to_come = _to_come(first, None, n_times)
        people = np.bincount(last, minlength=n_times).astype(np.float64)
        alone = _at_risk(people[:, None]) - to_come == people
        # Where all leave, the curve falls to exactly 0: sums of weights would round.
        total = leaving.sum(axis=1)
        at_risk = np.maximum(at_risk - _to_come(first, weight, n_times), total)
        at_risk[alone] = total[alone]
    return _RiskTable(times, at_risk, leaving, first, last)


def _at_risk(leaving: FloatArray) -> FloatArray:
    """People who leave at each time or later."""
    total: FloatArray = leaving.sum(axis=1)[::-1].cumsum()[::-1]
    return total


def _to_come(first: IntArray, weight: FloatArray | None, n_times: int) -> FloatArray:
    """People who are not at risk yet at each of ``n_times`` times."""
    entering = np.bincount(first, weights=weight, minlength=n_times + 1)
    later: FloatArray = entering[::-1].cumsum()[::-1][1:]
    return later


def _product_limit(
    table: _RiskTable, leaving: FloatArray, at_risk: FloatArray, *, standard_error: bool
) -> StepFunction:
    # With an empty risk set, 0/0 is a factor of 1. Weighted counts may exceed the risk set by
    # rounding, and a probability must not fall below 0.
    hazard = np.divide(leaving, at_risk, out=np.zeros_like(leaving), where=leaving > 0)
    survival: FloatArray = np.cumprod(1 - np.minimum(hazard, 1))
    error = None
    if standard_error:
        stays = at_risk * (1 - hazard)
        terms = np.divide(hazard, stays, out=np.zeros_like(hazard), where=stays > 0)
        error = survival * np.sqrt(np.cumsum(terms))
    return StepFunction(table.times, survival, np.array(1.0), error)


def kaplan_meier(
    target: SurvivalTarget, weight: FloatArray | None = None, *, standard_error: bool = False
) -> StepFunction:
    """Probability of being event-free after each time, equation (6)."""
    table = _risk_table(target, weight)
    events = table.leaving[:, 1:].sum(axis=1)
    return _product_limit(table, events, table.at_risk, standard_error=standard_error)


def kaplan_meier_censoring(
    target: SurvivalTarget, weight: FloatArray | None = None, *, standard_error: bool = False
) -> StepFunction:
    """Probability of being uncensored after each time, equation (8)."""
    table = _risk_table(target, weight)
    censored = table.leaving[:, 0]
    if target.entry is None:
        # n(u) - d(u) as people observed after u plus people censored at u: subtracting weights
        # would round, and the last censoring would not bring the curve to exactly 0.
        at_risk = np.append(table.at_risk[1:], 0.0) + censored
    else:
        at_risk = np.maximum(table.at_risk - table.leaving[:, 1:].sum(axis=1), censored)
    return _product_limit(table, censored, at_risk, standard_error=standard_error)


def aalen_johansen(
    target: SurvivalTarget, weight: FloatArray | None = None, *, standard_error: bool = False
) -> StepFunction:
    """Event-free probability and incidence of every cause, equations (6) and (7), as K + 1 curves.

    Index 0 is the event-free probability; the curves sum to 1.
    """
    table = _risk_table(target, weight)
    events = table.leaving[:, 1:].sum(axis=1)
    survival = _product_limit(table, events, table.at_risk, standard_error=False).values
    before = np.concatenate([[1.0], survival[:-1]])
    incidence = np.cumsum(before[:, None] * table.hazards(), axis=0)
    initial = np.zeros(target.n_causes + 1)
    initial[0] = 1.0
    values = np.column_stack([survival, incidence])
    error = None
    if standard_error:
        influence = _Influence.of(target, weight, table, values)
        error = np.sqrt(np.maximum(influence.sums_of_squares(), 0.0))
    return StepFunction(table.times, values, initial, error)


def incidence_influence(
    target: SurvivalTarget, weight: FloatArray | None, times: npt.ArrayLike
) -> FloatArray:
    """The s_i phi_ik of (96), of shape (n_samples, K + 1, n_times).

    Summed over people they are 0, and their squares give the variance of `aalen_johansen`.
    """
    table = _risk_table(target, weight)
    values = aalen_johansen(target, weight).values
    influence = _Influence.of(target, weight, table, values)
    return influence.at(np.searchsorted(table.times, times, side="right"))


@dataclass(frozen=True)
class _Influence:
    """Equation (96) as phi_k = D_k - c_k B: two martingales per person, and a curve c_k in time.

    A person who is at risk gains -(compensator now - compensator at entry); one who has left keeps
    what they had then. Sums over people are sums over those who left and those at risk.
    """

    table: _RiskTable
    weight: FloatArray
    curve: FloatArray  # c, (n_times + 1, K + 1), from before the first time on.
    compensator: FloatArray  # of D and, last, of B: (n_times + 1, K + 2).
    final: FloatArray  # D and B of people after they left, (n_samples, K + 2).

    @classmethod
    def of(
        cls,
        target: SurvivalTarget,
        weight: FloatArray | None,
        table: _RiskTable,
        values: FloatArray,
    ) -> _Influence:
        survival, incidence = values[:, 0], values[:, 1:]
        hazard = table.hazards()
        total = hazard.sum(axis=1)
        inverse = np.divide(1.0, table.at_risk, out=np.zeros(len(total)), where=table.at_risk > 0)
        # After the curve fell to 0 incidences stay, so that this factor does not matter.
        stays = np.divide(inverse, 1 - total, out=np.zeros(len(total)), where=total < 1)
        before = np.concatenate([[1.0], survival[:-1]])
        any_event = incidence.sum(axis=1)
        curve = np.column_stack([-any_event, incidence])
        direct = before * inverse
        # Per unit of d_k(u) / n(u): what an event of cause k adds to D_l, and to B.
        steps = np.empty((len(total), incidence.shape[1], curve.shape[1] + 1))
        for cause in range(incidence.shape[1]):
            steps[:, cause, :-1] = curve * stays[:, None]
            steps[:, cause, -1] = stays
            steps[:, cause, 1 + cause] += direct
            steps[:, cause, 0] -= direct
        compensator = np.zeros((len(total) + 1, curve.shape[1] + 1))
        np.cumsum(np.einsum("tc,tcs->ts", hazard, steps), axis=0, out=compensator[1:])
        final = compensator[table.first] - compensator[table.last + 1]
        happened = np.flatnonzero(target.event)
        final[happened] += steps[table.last[happened], target.event[happened] - 1]
        padded = np.concatenate([np.zeros((1, curve.shape[1])), curve])
        s = np.ones(target.n_samples) if weight is None else weight
        return cls(table, s, padded, compensator, final)

    def at(self, position: IntArray) -> FloatArray:
        """s_i phi_ik after so many of the times, (n_samples, K + 1, n_positions)."""
        now = np.empty((len(self.weight), self.curve.shape[1], len(position)))
        for column, count in enumerate(position):
            gained = self.compensator[np.minimum(self.table.first, count)] - self.compensator[count]
            gained = np.where((self.table.last < count)[:, None], self.final, gained)
            now[:, :, column] = gained[:, :-1] - self.curve[count] * gained[:, -1:]
        now *= self.weight[:, None, None]
        return now

    def sums_of_squares(self) -> FloatArray:
        """Sum over people of (s_i phi_ik)^2 after each time, (n_times, K + 1)."""
        n_times, size = len(self.table.times), self.curve.shape[1]
        square, first, last = self.weight**2, self.table.first, self.table.last

        def summed(position: IntArray, values: FloatArray) -> FloatArray:
            return np.bincount(position, weights=values, minlength=n_times + 1)[:-1].cumsum()

        def at_risk(values: FloatArray) -> FloatArray:
            return summed(first, values) - summed(last, values)

        start = self.compensator[first]
        now = self.compensator[1:]
        n_at_risk = at_risk(square)
        at_start = [at_risk(square * start[:, state]) for state in range(size + 1)]

        def products(one: int, other: int) -> FloatArray:
            left = summed(last, square * self.final[:, one] * self.final[:, other])
            total: FloatArray = left + n_at_risk * now[:, one] * now[:, other]
            total -= now[:, one] * at_start[other] + now[:, other] * at_start[one]
            return total + at_risk(square * start[:, one] * start[:, other])

        curve = self.curve[1:]
        of_b = products(size, size)
        sums = [
            products(state, state)
            - 2 * curve[:, state] * products(state, size)
            + curve[:, state] ** 2 * of_b
            for state in range(size)
        ]
        return np.column_stack(sums)

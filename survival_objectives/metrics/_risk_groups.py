r"""Calibration at one horizon: predicted and observed incidence in groups of similar risk.

Calibration is necessary for the truth and far from sufficient: the Aalen-Johansen curve of the
population, one for all people, is calibrated. Use it beside a proper score. Observed incidences
are Aalen-Johansen curves of the people scored and need no weights; they assume censoring
independent of the event time within each group that they describe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import SurvivalTarget
from survival_objectives.marginal import StepFunction, aalen_johansen
from survival_objectives.metrics._inputs import ScoredPeople, end_of_follow_up

# Groups that expect fewer people with the event, or without it, are joined for the test.
_MIN_EXPECTED = 5.0


@dataclass(frozen=True)
class RiskGroups:
    """Predicted and observed incidence in groups of similar predictions, and their test.

    Attributes
    ----------
    predicted : float64 array of shape (n_groups,)
        Mean prediction, increasing.
    observed, standard_error : float64 arrays of shape (n_groups,)
        Aalen-Johansen incidence in the group, and its standard error; NaN beyond follow-up.
    n_samples : float64 array of shape (n_groups,)
        People in each group, by sample weight.
    statistic, p_value : float
        Of the test (41) that predictions are true, with neighbouring groups joined that expect
        fewer than five people with the event or without it.
    degrees_of_freedom : int
        Number of groups of the test.
    """

    predicted: FloatArray
    observed: FloatArray
    standard_error: FloatArray
    n_samples: FloatArray
    statistic: float
    p_value: float
    degrees_of_freedom: int


def risk_groups(scored: ScoredPeople, cause: int, n_groups: int) -> RiskGroups:
    r"""Observed against predicted incidence at the only time, with a chi-square test.

    In each of G groups g of equally many people with similar r_i = F_k(z|x_i), let o_g be the
    Aalen-Johansen incidence at z and e_g the mean of r_i:

        H = sum_g (o_g - e_g)^2 / v_g,   p = P(chi2_G >= H)                                     (41)

    With n(u) at risk, S the event-free curve, h and h_k the hazards at u of any event and of k, and
    F(u, z) = F_k(z) - F_k(u), all in the group, the variance of o_g is estimated by

        u_g = sum_{u <= z} ( F(u, z)^2 h / (1 - h) + S(u-)^2 h_k (1 - h_k)
                             - 2 F(u, z) S(u-) h_k ) / n(u).                                    (42)

    The test takes the variance that predictions have if they are true: m_g = o_g (1 - o_g) / u_g is
    the number of uncensored people with the same information, at most n_g, and

        v_g = e_g (1 - e_g) / m_g.                                                              (61)

    Of 1 000 simulated data sets (benchmarks/calibration_size.py), with 10 groups at a level of 5 %,
    it rejects the truth in 4 to 6 %, for 300 people or more of whom up to two thirds are censored;
    with v_g = u_g (Demler et al., 2015) 12 to 24 %: a group that has few events by chance also gets
    a small u_g. Valid for predictions made without these people.
    """
    risk, z = scored.risks(cause)[0][1][:, 0], float(scored.times[0])

    def group_of(people: IntArray) -> _RiskGroup:
        return _RiskGroup.of(people, scored, risk, z, cause)

    parts = [group_of(people) for people in _groups(risk, scored.sample_weight, n_groups)]
    tested = _merged(parts, group_of, _MIN_EXPECTED)
    known = z <= end_of_follow_up(scored.target, scored.sample_weight)
    gap = np.array([group.observed - group.predicted for group in tested])
    spread = np.array([group.null_variance for group in tested])
    if not known or (spread <= 0).any():
        statistic = float("nan")
    else:
        statistic = float((gap**2 / spread).sum())
    unknown = 0.0 if known else np.nan
    return RiskGroups(
        predicted=np.array([group.predicted for group in parts]),
        observed=np.array([group.observed for group in parts]) + unknown,
        standard_error=np.sqrt([group.variance for group in parts]) + unknown,
        n_samples=np.array([group.n_samples for group in parts]),
        statistic=statistic,
        p_value=float(chi2.sf(statistic, len(tested))),
        degrees_of_freedom=len(tested),
    )


@dataclass(frozen=True)
class _RiskGroup:
    """People of similar risk: their mean prediction, and what was observed with variance (42)."""

    people: IntArray
    predicted: float
    observed: float
    variance: float
    n_samples: float
    is_followed: bool

    @classmethod
    def of(
        cls,
        people: IntArray,
        scored: ScoredPeople,
        risk: FloatArray,
        horizon: float,
        cause: int,
    ) -> _RiskGroup:
        target, weight = scored.target, scored.sample_weight[people]
        group = target.take(people)
        code = scored.cause_code(cause)
        observed, variance = _Hazards.of(group, weight).incidence(code, horizon)
        return cls(
            people,
            predicted=float(weight @ risk[people] / weight.sum()),
            observed=observed,
            variance=variance,
            n_samples=float(weight.sum()),
            is_followed=horizon <= end_of_follow_up(group, weight),
        )

    @property
    def n_uncensored(self) -> float:
        """Number of uncensored people with the same information; 0 where it cannot be estimated."""
        if not self.is_followed or self.variance <= 0 or not 0 < self.observed < 1:
            return 0.0
        return min(self.observed * (1 - self.observed) / self.variance, self.n_samples)

    @property
    def n_expected(self) -> float:
        """How many are expected to have the event or, if fewer, not to have it."""
        return self.n_uncensored * min(self.predicted, 1 - self.predicted)

    @property
    def null_variance(self) -> float:
        """Variance (61) of the observed incidence where the predictions are true."""
        return self.predicted * (1 - self.predicted) / (self.n_uncensored or self.n_samples)


def _merged(
    groups: list[_RiskGroup], join: Callable[[IntArray], _RiskGroup], min_expected: float
) -> list[_RiskGroup]:
    """Neighbouring groups joined, from the lowest risk on, until each expects enough events."""
    if min_expected == 0:
        return groups
    merged: list[_RiskGroup] = []
    for group in groups:
        if merged and merged[-1].n_expected < min_expected:
            merged[-1] = join(np.concatenate([merged[-1].people, group.people]))
        else:
            merged.append(group)
    if len(merged) > 1 and merged[-1].n_expected < min_expected:
        last = merged.pop()
        merged[-1] = join(np.concatenate([merged[-1].people, last.people]))
    return merged


def _groups(risk: FloatArray, weight: FloatArray, n_groups: int) -> list[IntArray]:
    """People in groups of about equal weight, by increasing risk; equal risks stay together."""
    values, rank = np.unique(risk, return_inverse=True)
    weight_of_value = np.bincount(rank, weights=weight, minlength=len(values))
    below = np.cumsum(weight_of_value) - weight_of_value
    group = np.minimum(n_groups * below / weight.sum(), n_groups - 1).astype(np.int64)[rank]
    counts = (np.flatnonzero((group == g) & (weight > 0)) for g in range(n_groups))
    return [people for people in counts if len(people)]


@dataclass(frozen=True)
class _Hazards:
    """Aalen-Johansen curves by their jumps.

    ``at_risk``, ``before`` (event-free just before) are (n_jumps,); ``of_cause`` is (n_jumps, K).
    """

    curve: StepFunction
    at_risk: FloatArray
    before: FloatArray
    of_cause: FloatArray

    @classmethod
    def of(cls, target: SurvivalTarget, weight: FloatArray | None) -> _Hazards:
        curve = aalen_johansen(target, weight)
        leaving = np.bincount(
            np.searchsorted(curve.times, target.duration), weights=weight, minlength=1
        ).astype(np.float64)
        before = np.concatenate([[1.0], curve.values[:-1, 0]])
        jumps = np.diff(curve.values[:, 1:], axis=0, prepend=0.0)
        of_cause = np.divide(
            jumps, before[:, None], out=np.zeros(jumps.shape), where=before[:, None] > 0
        )
        return cls(curve, np.cumsum(leaving[::-1])[::-1], before, of_cause)

    def incidence(self, code: int, horizon: float) -> tuple[float, float]:
        """Incidence of a cause, or of any event for 0, and its variance (42)."""
        past = self.curve.times <= horizon
        any_event = self.of_cause[past].sum(axis=1)
        hazard = self.of_cause[past, code - 1] if code else any_event
        curve = self.curve.values[past, code] if code else 1 - self.curve.values[past, 0]
        value = float(curve[-1]) if len(curve) else 0.0
        rest, before = value - curve, self.before[past]
        odds = np.divide(any_event, 1 - any_event, out=np.zeros(len(rest)), where=any_event < 1)
        terms = rest**2 * odds + before**2 * hazard * (1 - hazard) - 2 * rest * before * hazard
        return value, max(float((terms / self.at_risk[past]).sum()), 0.0)


def jackknife(target: SurvivalTarget, horizon: float) -> FloatArray:
    r"""Jackknife values of Aalen-Johansen in O(n log n); index 0 is the event-free probability.

        theta_ik = n F_k(z) - (n - 1) F_k^(-i)(z)                                               (43)

    Leaving a person out removes them from the risk sets up to t_i and leaves later ones unchanged.
    """
    n_samples = target.n_samples
    hazards = _Hazards.of(target, None)
    times, at_risk = hazards.curve.times, hazards.at_risk
    count = hazards.of_cause * at_risk[:, None]
    full = hazards.curve(horizon)

    # Curves just before each jump when one person, who leaves later, is left out.
    fewer = np.maximum(at_risk - 1, 1)[:, None]
    survival = np.cumprod(1 - np.minimum(count.sum(axis=1, keepdims=True) / fewer, 1), axis=0)
    survival = np.concatenate([[[1.0]], survival])
    incidence = np.cumsum(survival[:-1] * count / fewer, axis=0)
    incidence = np.concatenate([np.zeros((1, target.n_causes)), incidence])

    # The incidence between each jump and the horizon, of those event-free after the jump.
    after = hazards.curve.values
    onward = np.divide(
        full[1:] - after[:, 1:],
        after[:, :1],
        out=np.zeros((len(times), target.n_causes)),
        where=after[:, :1] > 0,
    )

    own = np.searchsorted(times, target.duration)
    own_event = target.event[:, None] == np.arange(1, target.n_causes + 1)
    at_own = np.maximum(count[own] - own_event, 0) / fewer[own]
    stay = 1 - at_own.sum(axis=1, keepdims=True)
    left_out = incidence[own] + survival[own] * (at_own + stay * onward[own])
    n_past = np.searchsorted(times, horizon, side="right")
    left_out[target.duration > horizon] = incidence[n_past]

    pseudo = n_samples * full[1:] - (n_samples - 1) * left_out
    return np.column_stack([1 - pseudo.sum(axis=1), pseudo])

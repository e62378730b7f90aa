r"""Calibration at one horizon: predicted and observed incidence in groups of similar risk.

Observed incidences are as in `survival_objectives.metrics._calibration`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import (
    SurvivalTarget,
    check_choice,
    check_positive_int,
    check_survival_target,
    check_times,
)
from survival_objectives.marginal import StepFunction, aalen_johansen
from survival_objectives.metrics._calibration import CalibrationTest
from survival_objectives.metrics._inputs import (
    Evaluation,
    FollowUpWarning,
    check_evaluation,
    check_incidence,
    end_of_follow_up,
    is_followed,
    warn_beyond_last,
)


class FewEventsWarning(UserWarning):
    """Some groups of a test are too small for its approximation, so that they were merged."""


@dataclass(frozen=True)
class CalibrationCurve:
    """Predicted and observed incidence in groups of similar predictions.

    Attributes
    ----------
    predicted : float64 array of shape (n_groups,)
        Mean prediction, increasing.
    observed : float64 array of shape (n_groups,)
        Incidence in the group; pseudo-observations may take it slightly out of [0, 1].
    standard_error : float64 array of shape (n_groups,)
        Of ``observed``.
    n_samples : float64 array of shape (n_groups,)
        People in each group, by sample weight.
    """

    predicted: FloatArray
    observed: FloatArray
    standard_error: FloatArray
    n_samples: FloatArray


def one_calibration(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    horizon: float | None = None,
    cause: int = 0,
    n_groups: int = 10,
    variance: str = "null",
    min_expected: float = 5.0,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
) -> CalibrationTest:
    r"""Chi-square test of the incidence at one horizon in groups of predicted risk.

    In each of G groups g of equally many people with similar r_i = F_k(z|x_i), let o_g be the
    Aalen-Johansen incidence at z and e_g the mean of r_i:

        H = sum_g (o_g - e_g)^2 / v_g,   p = P(chi2_f >= H)                                     (41)

    With n(u) at risk, S the event-free curve, h and h_k the hazards at u of any event and of k, and
    F(u, z) = F_k(z) - F_k(u), all in the group, the variance of o_g is estimated by

        u_g = sum_{u <= z} ( F(u, z)^2 h / (1 - h) + S(u-)^2 h_k (1 - h_k)
                             - 2 F(u, z) S(u-) h_k ) / n(u).                                    (42)

    "null" takes the variance that predictions have if they are true: m_g = o_g (1 - o_g) / u_g is
    the number of uncensored people with the same information, at most n_g, and

        v_g = e_g (1 - e_g) / m_g,   f = G.                                                     (61)

    "greenwood" is the test of Demler et al. (2015): v_g = u_g and f = G - 1. It rejects true
    predictions too often, as a group that has few events by chance also gets a small u_g. Of 1 000
    simulated data sets (benchmarks/calibration_size.py), with 10 groups at a level of 5 %, "null"
    rejects the truth in 4 to 6 %, for 300 people or more of whom up to two thirds are censored;
    "greenwood" does so in 12 to 24 %. Valid for predictions made without the test people, and
    censoring independent of the event time within groups.

    Parameters
    ----------
    censoring, y_test, incidence, times, event_ids
        As in `km_calibration`.
    horizon : float, optional
        z, one of ``times``. Default: the only one.
    cause : int, default=0
        Label of a cause, or 0 for any event.
    n_groups : int, default=10
        G. People with equal predictions stay together, so that there may be fewer groups.
    variance : {"null", "greenwood"}, default="null"
        What v_g and f are.
    min_expected : float, default=5.0
        Groups in which fewer people than this are expected to have the event, or fewer not to have
        it (m_g e_g and m_g (1 - e_g)), are merged with the next ones, with a `FewEventsWarning`; so
        are groups that are not followed up to z. 0 leaves all groups as they are.
    sample_weight : array of shape (n_samples,), optional
        Weights of the test people, taken as numbers of people.

    Returns
    -------
    CalibrationTest
        Groups by increasing risk, after merging. The p-value is NaN where a group has variance 0
        and, with a `FollowUpWarning`, where the horizon is beyond follow-up.
    """
    check_choice(variance, "variance", ("null", "greenwood"))
    if not min_expected >= 0:
        msg = f"`min_expected` must be a number of people >= 0; got {min_expected!r}."
        raise ValueError(msg)
    evaluation, risk, z = _at_horizon(
        censoring, y_test, incidence, times, horizon, cause, sample_weight, event_ids
    )
    known = is_followed(evaluation.target, np.array([z]), evaluation.sample_weight)
    warn_beyond_last(evaluation, known)
    parts = _groups(risk, evaluation.sample_weight, n_groups)
    groups = _merged(
        [_RiskGroup.of(people, evaluation, risk, z, cause) for people in parts],
        lambda people: _RiskGroup.of(people, evaluation, risk, z, cause),
        min_expected,
    )
    is_small = len(groups) < len(parts) or groups[0].n_expected < min_expected
    if is_small and known.all():
        msg = (
            f"Fewer than {min_expected:g} people are expected to have the event, or not to have "
            f"it, in some of {len(parts)} groups; {len(groups)} are left after merging. Use fewer "
            "groups, or test more people."
        )
        warnings.warn(msg, FewEventsWarning, stacklevel=2)
    observed = np.array([group.observed for group in groups])
    expected = np.array([group.predicted for group in groups])
    if variance == "null":
        degrees, spread = len(groups), np.array([group.null_variance for group in groups])
    else:
        degrees, spread = len(groups) - 1, np.array([group.variance for group in groups])
    if not known.all() or (spread <= 0).any():
        statistic = float("nan")
    else:
        statistic = float(((observed - expected) ** 2 / spread).sum())
    return CalibrationTest(
        statistic=statistic,
        p_value=float(chi2.sf(statistic, degrees)) if degrees else float("nan"),
        degrees_of_freedom=degrees,
        observed=observed,
        expected=expected,
        n_samples=np.array([group.n_samples for group in groups]),
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
        evaluation: Evaluation,
        risk: FloatArray,
        horizon: float,
        cause: int,
    ) -> _RiskGroup:
        target, weight = evaluation.target, evaluation.sample_weight[people]
        group = target.take(people)
        code = evaluation.cause_code(cause)
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


def calibration_curve(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    horizon: float | None = None,
    cause: int = 0,
    n_groups: int = 10,
    method: str = "aalen-johansen",
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
) -> CalibrationCurve:
    r"""Observed against predicted incidence at one horizon, in groups of predicted risk.

    "aalen-johansen" fits a curve in each group, with standard errors from (42), and needs censoring
    that is independent of the event time within groups only, whatever the features say about it
    between groups. "pseudo" averages the Aalen-Johansen pseudo-observations (43) of each group;
    they need censoring that does not depend on x, and are biased otherwise.

    Parameters
    ----------
    censoring, y_test, incidence, times, horizon, cause, n_groups, sample_weight, event_ids
        As in `one_calibration`.
    method : {"aalen-johansen", "pseudo"}, default="aalen-johansen"
        How the observed incidence is estimated.

    Returns
    -------
    CalibrationCurve
        Groups by increasing risk; ``observed`` is NaN, with a `FollowUpWarning`, where the horizon
        is beyond follow-up.
    """
    check_choice(method, "method", ("pseudo", "aalen-johansen"))
    evaluation, risk, z = _at_horizon(
        censoring, y_test, incidence, times, horizon, cause, sample_weight, event_ids
    )
    known = is_followed(evaluation.target, np.array([z]), evaluation.sample_weight)
    warn_beyond_last(evaluation, known)
    if method == "aalen-johansen":
        curve = _observed_in_groups(evaluation, risk, z, cause, n_groups)
    else:
        pseudo = _jackknife(evaluation.target, z)
        code = evaluation.cause_code(cause)
        values = pseudo[:, code] if code else 1 - pseudo[:, 0]
        curve = _means_in_groups(evaluation.sample_weight, risk, values, n_groups)
    if known.all():
        return curve
    unknown = np.full(len(curve.predicted), np.nan)
    return CalibrationCurve(curve.predicted, unknown, unknown, curve.n_samples)


def pseudo_observations(
    y: Any, horizon: float, *, event_ids: npt.ArrayLike | None = None
) -> FloatArray:
    r"""Jackknife values of the Aalen-Johansen estimator at a horizon, one row per person.

        theta_ik = n F_k(z) - (n - 1) F_k^(-i)(z)                                               (43)

    where F^(-i) leaves person i out and F_0 is the event-free probability. Rows sum to 1. Without
    censoring theta_ik is the outcome, [t_i <= z, d_i = k]. In expectation given x it is F_k(z|x),
    approximately, if censoring is independent of the event and of x; so its mean in any group is
    an observed incidence. Computed in O(n log n): leaving i out removes one person from
    the risk sets up to t_i and leaves later ones unchanged.

    Parameters
    ----------
    y : outcomes
        Of all people.
    horizon : float
        z.
    event_ids : array of shape (K + 1,), optional
        Labels, 0 first. Default: those of the outcomes.

    Returns
    -------
    float64 array of shape (n_samples, K + 1)

    Examples
    --------
    >>> pseudo_observations(([1, 2, 1], [1.0, 2.0, 3.0]), 2.5).round(12) + 0.0
    array([[0., 1., 0.],
           [0., 0., 1.],
           [1., 0., 0.]])
    """
    target = check_survival_target(y, event_ids=event_ids, require_event=False)
    z = float(check_times(horizon)[0])
    known = is_followed(target, np.array([z]))
    if not known.all():
        msg = (
            f"The horizon {z:g} is beyond follow-up: the last person is censored at "
            f"{target.duration.max():g}, and the curves stay as they are there."
        )
        warnings.warn(msg, FollowUpWarning, stacklevel=2)
    return _jackknife(target, z)


# ----------------------------------------------------------------------------------------- pieces
def _at_horizon(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    horizon: float | None,
    cause: int,
    sample_weight: Any,
    event_ids: npt.ArrayLike | None,
) -> tuple[Evaluation, FloatArray, float]:
    """Return the evaluation at one horizon alone, the risks there, and the horizon."""
    given = check_times(times)
    if horizon is None and len(given) > 1:
        msg = f"`times` has {len(given)} values; choose one with `horizon`."
        raise ValueError(msg)
    column = 0 if horizon is None else int(np.abs(given - horizon).argmin())
    if horizon is not None and given[column] != horizon:
        msg = f"`horizon` is {horizon:g}, which is not among `times`; nearest: {given[column]:g}."
        raise ValueError(msg)
    curves = check_incidence(incidence, len(given))[..., [column]]
    shared = (cause, None, sample_weight, event_ids)
    evaluation = check_evaluation(
        censoring, y_test, curves, given[[column]], *shared, weighted=False
    )
    risk = evaluation.risks(cause)[0][1][:, 0]
    return evaluation, risk, float(given[column])


def _groups(risk: FloatArray, weight: FloatArray, n_groups: int) -> list[IntArray]:
    """People in groups of about equal weight, by increasing risk; equal risks stay together."""
    check_positive_int(n_groups, "n_groups")
    values, rank = np.unique(risk, return_inverse=True)
    weight_of_value = np.bincount(rank, weights=weight, minlength=len(values))
    below = np.cumsum(weight_of_value) - weight_of_value
    group = np.minimum(n_groups * below / weight.sum(), n_groups - 1).astype(np.int64)[rank]
    counts = (np.flatnonzero((group == g) & (weight > 0)) for g in range(n_groups))
    return [people for people in counts if len(people)]


def _means_in_groups(
    weight: FloatArray, risk: FloatArray, values: FloatArray, n_groups: int
) -> CalibrationCurve:
    rows = []
    for people in _groups(risk, weight, n_groups):
        share = weight[people] / weight[people].sum()
        mean = share @ values[people]
        variance = share**2 @ (values[people] - mean) ** 2
        rows.append((share @ risk[people], mean, np.sqrt(variance), weight[people].sum()))
    return CalibrationCurve(*np.array(rows).T)


def _observed_in_groups(
    evaluation: Evaluation, risk: FloatArray, horizon: float, cause: int, n_groups: int
) -> CalibrationCurve:
    groups = [
        _RiskGroup.of(people, evaluation, risk, horizon, cause)
        for people in _groups(risk, evaluation.sample_weight, n_groups)
    ]
    rows = [
        (group.predicted, group.observed, np.sqrt(group.variance), group.n_samples)
        for group in groups
    ]
    return CalibrationCurve(*np.array(rows).T)


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


def _jackknife(target: SurvivalTarget, horizon: float) -> FloatArray:
    """Equation (43); index 0 is the event-free probability."""
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

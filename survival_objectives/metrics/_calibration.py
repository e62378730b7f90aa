r"""Calibration: agreement of predicted probabilities and observed frequencies in groups of people.

Calibration is necessary for the truth and far from sufficient: the Aalen-Johansen curve of the
population, one for all people, is calibrated by all of these measures. Use them beside a proper
score. Observed incidences are Aalen-Johansen or Kaplan-Meier curves of the test people themselves
and need no weights; they assume censoring independent of the event time within each group that
they describe. Follow-up of the test people ends at their longest duration, and so do the curves.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives._people import check_fraction, check_positive_int
from survival_objectives.marginal import aalen_johansen
from survival_objectives.metrics._inputs import (
    Evaluation,
    FollowUpWarning,
    check_evaluation,
    curve_values,
    is_followed,
    sorted_by_time,
    warn_beyond_last,
)
from survival_objectives.metrics._integrals import averaged, integrated_score


@dataclass(frozen=True)
class CalibrationTest:
    """Outcome of a chi-square test of calibration.

    Attributes
    ----------
    statistic : float
        0 for perfect agreement.
    p_value : float
        Small where a calibrated model would rarely disagree as much. NaN where it is undefined.
    degrees_of_freedom : int
    observed, expected : float64 arrays of shape (n_groups,)
        Shares or probabilities in the groups of the test.
    n_samples : float64 array of shape (n_groups,)
        People in each group, by sample weight.
    """

    statistic: float
    p_value: float
    degrees_of_freedom: int
    observed: FloatArray
    expected: FloatArray
    n_samples: FloatArray


# ------------------------------------------------------------------------- means against marginals
def km_calibration(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    power: float = 2.0,
    min_at_risk: float = 0.0,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
) -> float:
    r"""Distance over time between the mean event-free curve and Kaplan-Meier.

        KM = 1 / (z_T - z_1) int_{z_1}^{z_T} |mean_i F_0(z|x_i) - S_KM(z)|^power dz             (36)

    by the trapezoidal rule (25), with S_KM of the test people. 0 for a model that is right on
    average at all times. No p-value: it is a distance.

    Parameters
    ----------
    censoring : outcomes, CensoringModel or None
        Training outcomes give the labels; not used otherwise.
    y_test, incidence, times, sample_weight, event_ids
        As in `weighted_score`.
    power : float, default=2.0
        Exponent of the difference.
    min_at_risk : float, default=0.0
        Times with a smaller share of the test people still under observation are left out.

    Returns
    -------
    float
        Lower is better. Times beyond follow-up are left out, with a `FollowUpWarning`.

    Examples
    --------
    >>> y = ([1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    >>> survival = np.tile([0.75, 0.75, 0.5], (4, 1))
    >>> round(km_calibration(None, y, survival, [1.0, 2.0, 3.0]), 6)  # off at 3 only, by 1/8
    0.003906
    """
    shared = (None, None, sample_weight, event_ids)
    evaluation = check_evaluation(censoring, y_test, incidence, times, *shared, weighted=False)
    distance, known = _marginal_distances(evaluation, 0, power, min_at_risk)
    warn_beyond_last(evaluation, known)
    return float(distance[0])


def aj_calibration(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    cause: int | None = None,
    average: str | None = "causes",
    power: float = 2.0,
    min_at_risk: float = 0.0,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
) -> Any:
    r"""Distance over time between mean incidences and Aalen-Johansen, per cause or in total.

        AJ_k = 1 / (z_T - z_1) int_{z_1}^{z_T} |mean_i F_k(z|x_i) - F_k^AJ(z)|^power dz         (37)

    by the trapezoidal rule (25), with F_k^AJ of the test people; AJ_0 is (36). No p-value: it is a
    distance.

    Parameters
    ----------
    censoring, y_test, incidence, times, power, min_at_risk, sample_weight, event_ids
        As in `km_calibration`.
    cause : int, optional
        Label of a cause, or 0 for being event-free. Default: all of them.
    average : {"causes", "all"} or None, default="causes"
        Total where ``cause`` is not given: the mean over the K causes; the mean over the causes and
        the event-free curve; or an array with one value per curve.

    Returns
    -------
    float, or float64 array of shape (K + 1,) with ``average=None``
        Lower is better. Times beyond follow-up are left out, with a `FollowUpWarning`.
    """
    shared = (cause, None, sample_weight, event_ids)
    evaluation = check_evaluation(censoring, y_test, incidence, times, *shared, weighted=False)
    distances, known = _marginal_distances(evaluation, cause, power, min_at_risk)
    warn_beyond_last(evaluation, known)
    single = cause is not None or evaluation.incidence.ndim == 2
    return averaged(distances[0] if single else distances, average)


def _marginal_distances(
    evaluation: Evaluation, cause: int | None, power: float, min_at_risk: float
) -> tuple[FloatArray, BoolArray]:
    check_fraction(min_at_risk, "min_at_risk")
    if not power > 0:
        msg = f"`power` must be > 0; got {power!r}."
        raise ValueError(msg)
    target, times, weight = evaluation.target, evaluation.times, evaluation.sample_weight
    marginal = aalen_johansen(target, weight)(times)
    known = is_followed(target, times, weight)
    at_risk = weight @ (target.duration[:, None] >= times) / weight.sum()
    used = known & (at_risk >= min_at_risk)
    if known.any() and not used.any():
        msg = (
            f"No time has the `min_at_risk` of {min_at_risk:g} of the people still under "
            f"observation; the largest share is {at_risk[known].max():.3g}, so that the distance "
            "is NaN. Lower it, or ask for earlier times."
        )
        warnings.warn(msg, FollowUpWarning, stacklevel=3)
    rows = [
        np.abs(evaluation.average(curve) - marginal[:, code]) ** power
        for code, curve in evaluation.curves(cause)
    ]
    return np.asarray(integrated_score(np.stack(rows)[:, used], times[used])), known


# ------------------------------------------------------------------------------ probability bins
def d_calibration(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    n_bins: int = 10,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
) -> CalibrationTest:
    r"""Chi-square test that event-free probabilities at the event times are uniform.

    With u_i = F_0(t_i|x_i) and the bins I_b = [(b - 1)/B, b/B), the last one closed, a person with
    an event puts all their weight into the bin of u_i, and a censored one spreads it evenly over
    (0, u_i), where the event is still to come:

        h_b = mean_i [u_i in I_b]               if d_i != 0
                     |I_b n (0, u_i)| / u_i     if d_i = 0                                      (38)
        D = n B sum_b (h_b - 1/B)^2,   p = P(chi2_{B-1} >= D)                                   (39)

    with n the total of the sample weights (Haider et al., 2020). Holds for the true curves, where
    u_i is uniform, and for uncensored data D is asymptotically chi-square; spreading takes noise
    away, so that with censoring p is too large. All causes count as the event.

    Parameters
    ----------
    censoring, y_test, incidence, times, sample_weight, event_ids
        As in `km_calibration`. Curves are read at the t_i by linear interpolation, from 1 at time
        0. People followed beyond the last of ``times`` count as censored there, with a
        `FollowUpWarning`. Sample weights are taken as numbers of people.
    n_bins : int, default=10
        B.

    Returns
    -------
    CalibrationTest
        With the shares ``observed`` = h, lowest probabilities first.

    Examples
    --------
    >>> y = ([1, 1, 1, 1], [1.0, 2.0, 3.0, 4.0])
    >>> survival = np.tile([0.8, 0.6, 0.3, 0.1], (4, 1))
    >>> d_calibration(None, y, survival, [1.0, 2.0, 3.0, 4.0], n_bins=2).p_value
    1.0
    """
    shares, n_samples = _bin_shares(
        censoring, y_test, incidence, times, n_bins, sample_weight, event_ids
    )
    statistic = n_samples * n_bins * float(((shares - 1 / n_bins) ** 2).sum())
    degrees = n_bins - 1
    return CalibrationTest(
        statistic=statistic,
        p_value=float(chi2.sf(statistic, degrees)) if degrees else float("nan"),
        degrees_of_freedom=degrees,
        observed=shares,
        expected=np.full(n_bins, 1 / n_bins),
        n_samples=n_samples * shares,
    )


def x_calibration(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    n_bins: int = 10,
    sample_weight: Any = None,
    event_ids: npt.ArrayLike | None = None,
) -> float:
    r"""Distance from uniform of the event-free probabilities at the event times.

        X = sum_b (h_b - 1/B)^2                                                                 (40)

    with h of (38) (Goldstein et al., 2020). X = D / (n B), so its p-value is that of
    `d_calibration`; unlike D it does not grow with n and compares across data sets.

    Parameters
    ----------
    censoring, y_test, incidence, times, n_bins, sample_weight, event_ids
        As in `d_calibration`.

    Returns
    -------
    float
        Lower is better.
    """
    shares, _ = _bin_shares(censoring, y_test, incidence, times, n_bins, sample_weight, event_ids)
    return float(((shares - 1 / n_bins) ** 2).sum())


def _bin_shares(
    censoring: Any,
    y_test: Any,
    incidence: npt.ArrayLike,
    times: npt.ArrayLike,
    n_bins: int,
    sample_weight: Any,
    event_ids: npt.ArrayLike | None,
) -> tuple[FloatArray, float]:
    check_positive_int(n_bins, "n_bins")
    shared = (None, None, sample_weight, event_ids)
    evaluation = check_evaluation(censoring, y_test, incidence, times, *shared, weighted=False)
    horizon, curves = sorted_by_time(evaluation)
    survival = curves[:, 0] if curves.ndim == 3 else curves
    target = evaluation.target
    beyond = target.duration > horizon[-1]
    if beyond.any():
        msg = (
            f"{np.count_nonzero(beyond)} of {target.n_samples} people are followed beyond the last "
            f"time, {horizon[-1]:g}, and count as censored there. Predict for later times."
        )
        warnings.warn(msg, FollowUpWarning, stacklevel=3)
    at_exit = curve_values(survival, horizon, target.duration[:, None])[:, 0]
    is_event = (target.event > 0) & ~beyond
    upper = np.arange(1, n_bins + 1) / n_bins
    spread = np.clip(at_exit[:, None] - (upper - 1 / n_bins), 0, 1 / n_bins)
    spread = np.divide(
        spread, at_exit[:, None], out=np.zeros(spread.shape), where=at_exit[:, None] > 0
    )
    # A person censored where the event-free probability is 0 counts in the lowest bin.
    spread[at_exit == 0, 0] = 1
    bins = np.minimum(np.searchsorted(upper, at_exit, side="right"), n_bins - 1)
    spread[is_event] = bins[is_event, None] == np.arange(n_bins)
    return evaluation.average(spread), float(evaluation.sample_weight.sum())

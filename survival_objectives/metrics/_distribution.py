"""Calibration of the distribution of event times, all horizons together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from survival_objectives._arrays import FloatArray
from survival_objectives.metrics._inputs import (
    ScoredPeople,
    beyond_curves,
    curve_values,
    sorted_by_time,
)


@dataclass(frozen=True)
class ProbabilityBins:
    """Shares of people in bins of the event-free probability at their event, and their test.

    Attributes
    ----------
    shares : float64 array of shape (n_bins,)
        Lowest probabilities first; equal for the truth.
    statistic, p_value : float
        Of the chi-square test that they are equal; the p-value is NaN for one bin.
    degrees_of_freedom : int
    """

    shares: FloatArray
    statistic: float
    p_value: float
    degrees_of_freedom: int


def probability_bins(scored: ScoredPeople, n_bins: int) -> ProbabilityBins:
    r"""Chi-square test that event-free probabilities at the event times are uniform.

    With u_i = F_0(t_i|x_i) and the bins I_b = [(b - 1)/B, b/B), the last one closed, a person with
    an event puts all their weight into the bin of u_i, and a censored one spreads it evenly over
    (0, u_i), where the event is still to come:

        h_b = mean_i [u_i in I_b]               if d_i != 0
                     |I_b n (0, u_i)| / u_i     if d_i = 0                                      (38)
        D = n B sum_b (h_b - 1/B)^2,   p = P(chi2_{B-1} >= D)                                   (39)

    with n the total of the sample weights (Haider et al., 2020). Holds for the true curves, where
    u_i is uniform, and for uncensored data D is asymptotically chi-square; spreading takes noise
    away, so that with censoring p is too large. All causes count as the event. Curves are read at
    the t_i by linear interpolation; people followed beyond the last time count as censored there.
    """
    shares, n_samples = _bin_shares(scored, n_bins)
    statistic = n_samples * n_bins * float(((shares - 1 / n_bins) ** 2).sum())
    degrees = n_bins - 1
    p_value = float(chi2.sf(statistic, degrees)) if degrees else float("nan")
    return ProbabilityBins(shares, statistic, p_value, degrees)


def _bin_shares(scored: ScoredPeople, n_bins: int) -> tuple[FloatArray, float]:
    horizon, curves = sorted_by_time(scored)
    survival = curves[:, 0] if curves.ndim == 3 else curves
    target = scored.target
    beyond = beyond_curves(target, horizon[-1], "time")
    at_exit = curve_values(survival, horizon, target.duration[:, None], start=scored.start)[:, 0]
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
    return scored.average(spread), float(scored.sample_weight.sum())

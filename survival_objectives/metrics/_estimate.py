"""Estimates with standard errors and confidence limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from survival_objectives._arrays import FloatArray
from survival_objectives.metrics._influence import Influence

_Z95 = float(norm.ppf(0.975))
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Estimate:
    """A score with its standard error and 95 % confidence limits.

    Attributes
    ----------
    value : float64 array
        One per time, or with a first axis of event-free (or any event) and all causes. A single
        number is an array without axes.
    standard_error : float64 array
        NaN where ``value`` is, and for one person alone.
    lower, upper : float64 arrays
        Of what the score would be with infinitely many people like these: predictions are given.
    influence : object
        What each person contributes to the error of ``value``; None where the limits are simulated.
    """

    value: FloatArray
    standard_error: FloatArray
    lower: FloatArray
    upper: FloatArray
    influence: Influence | None = field(default=None, repr=False)

    def __sub__(self, other: Estimate) -> Estimate:
        """The difference of two scores of the same people: their errors are subtracted."""
        return estimate(self._parts() - other._parts())

    def averaged(self) -> Estimate:
        """The mean over the first axis, that of causes."""
        return estimate(self._parts().map(lambda parts: parts.mean(axis=1)))

    def _parts(self) -> Influence:
        if self.influence is None:
            msg = (
                "The error of this estimate was simulated; differences of it are in "
                "`Evaluation.compare`."
            )
            raise ValueError(msg)
        return self.influence

    @property
    def p_value(self) -> FloatArray:
        """Two-sided, of the hypothesis that the true value is 0; for differences."""
        error, size = self.standard_error, np.abs(self.value)
        scaled = np.divide(size, error, out=np.full(error.shape, np.nan), where=error > 0)
        # Predictions that are equal up to rounding have no error and no difference.
        scaled = np.where((error <= _ROUNDING) & (size <= _ROUNDING), 0.0, scaled)
        return np.asarray(2 * norm.sf(scaled))


def _log_limits(value: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
    with np.errstate(all="ignore"):
        factor = np.exp(half / value)
        return value / factor, value * factor


def _logit_limits(value: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
    inside = (value > 0) & (value < 1)
    middle = np.where(inside, value, 0.5)
    width = half / (middle * (1 - middle))
    lower, upper = expit(logit(middle) - width), expit(logit(middle) + width)
    return np.where(inside, lower, value - half), np.where(inside, upper, value + half)


_LIMITS: dict[str, Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]] = {
    "plain": lambda value, half: (value - half, value + half),
    "loss": lambda value, half: (np.maximum(value - half, 0), value + half),
    "log": _log_limits,
    "logit": _logit_limits,
}


def estimate(influence: Influence, limits: str = "plain") -> Estimate:
    """An estimate from the influence of people; ``limits`` are symmetric on that scale."""
    error = np.sqrt(influence.variance())
    lower, upper = _LIMITS[limits](np.asarray(influence.value), _Z95 * error)
    value, error = np.asarray(influence.value), np.asarray(error)
    return Estimate(value, error, np.asarray(lower), np.asarray(upper), influence)


def simulated(value: float, draws: FloatArray, *, lowest: float | None = None) -> Estimate:
    """An estimate with draws of its error around ``value`` (the basic bootstrap).

    ``draws`` are those of the statistic, of shape (n_draws,).
    """
    low, high = np.quantile(draws, [0.975, 0.025])
    lower, upper = 2 * value - low, 2 * value - high
    if lowest is not None:
        lower, upper = max(lower, lowest), max(upper, lowest)
    return Estimate(
        np.asarray(value), np.asarray(draws.std(ddof=1)), np.asarray(lower), np.asarray(upper)
    )

"""Competing risks with known truth: constant hazards that depend on two features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


class ExponentialCensoring:
    """The true censoring of `simulate`: G(t|x) = exp(-rate(x) t), continuous, so G(t-) = G(t)."""

    def __init__(self, scale=0.4, slope=0.8):
        self.scale, self.slope = scale, slope

    def rate(self, X):
        return self.scale * np.exp(self.slope * np.asarray(X)[:, 0])

    def survival(self, times, X=None, *, left=False):
        times = np.asarray(times, dtype=float)
        rate = self.rate(X).reshape(-1, *[1] * (times.ndim - 1))
        return np.exp(-rate * times)


@dataclass
class Simulated:
    X: np.ndarray
    y: tuple[np.ndarray, np.ndarray]
    hazard: np.ndarray  # (n_samples, K)
    censoring: ExponentialCensoring

    def incidence(self, times, hazard=None):
        """The curves of constant hazards, (n_samples, K + 1, n_times)."""
        hazard = self.hazard if hazard is None else hazard
        total = hazard.sum(axis=1)
        gone = -np.expm1(-total[:, None] * np.asarray(times))
        causes = (hazard / total[:, None])[:, :, None] * gone[:, None, :]
        return np.concatenate([1 - gone[:, None], causes], axis=1)


def simulate(n_samples, seed, *, slope=0.8, n_causes=2, digits=None):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_samples, 2))
    coefficient = np.array([[0.7, -0.3], [-0.5, 0.6]])[:, :n_causes]
    hazard = np.array([0.5, 0.3])[:n_causes] * np.exp(X @ coefficient)
    event_times = generator.exponential(1 / hazard)
    censoring = ExponentialCensoring(slope=slope)
    censored = generator.exponential(1 / censoring.rate(X))
    first = event_times.min(axis=1)
    event = np.where(first <= censored, event_times.argmin(axis=1) + 1, 0)
    duration = np.minimum(first, censored)
    if digits is not None:
        duration = np.round(duration, digits)  # Makes ties, between events and censorings too.
    return Simulated(X, (event, duration), hazard, censoring)

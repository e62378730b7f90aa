"""Competing risks with covariate-dependent censoring, where everything is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class KnownCensoring:
    """C ~ Exponential(rate(x)): G(t|x) = exp(-rate(x) t), continuous, so G(t-) = G(t)."""

    scale: float = 0.5
    slope: float = 0.6

    def rate(self, X):
        return self.scale * np.exp(self.slope * np.asarray(X)[:, 0])

    def survival(self, times, X=None, *, left=False):
        return np.exp(-self.rate(X) * np.asarray(times))


@dataclass
class People:
    X: np.ndarray
    event: np.ndarray
    duration: np.ndarray
    hazards: np.ndarray  # (n_samples, 2), constant in time
    censoring: KnownCensoring

    @property
    def y(self):
        return self.event, self.duration

    def incidence(self, horizon, hazards=None):
        """Probabilities of the three states at one horizon per person, (n_samples, 3)."""
        hazards = self.hazards if hazards is None else hazards
        total = hazards.sum(axis=1)
        gone = -np.expm1(-total * horizon)
        return np.column_stack([1 - gone, hazards / total[:, None] * gone[:, None]])


def simulate(n_samples, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 2))
    hazards = np.column_stack([0.6 * np.exp(0.7 * X[:, 0]), 0.3 * np.exp(-0.4 * X[:, 0])])
    total = hazards.sum(axis=1)
    event_time = rng.exponential(1 / total)
    cause = 1 + (rng.random(n_samples) > hazards[:, 0] / total)
    censoring = KnownCensoring()
    censoring_time = rng.exponential(1 / censoring.rate(X))
    event = np.where(event_time <= censoring_time, cause, 0)
    return People(X, event, np.minimum(event_time, censoring_time), hazards, censoring)

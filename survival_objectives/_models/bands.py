r"""Bands of curves, from the models that were trained without each fold.

F_rj is a curve by the model that was trained without fold j of J in draw r of R, F that of all, n
the number of people and E that of events: of the cause, or of all causes for the event-free state.
With

    g(p) = log((p + 3/n) / (1 - p + 3/n)),

    s^2 = (J - 1) / (J R) sum_rj (g(F_rj) - mean_j g(F_rj))^2 + 20 / E,                        (90)

    band = g^-1(g(F) -/+ 1.2 q s),

where q is Student's quantile with R (J - 1) degrees of freedom. The first term is the group
jackknife. It does not see effects that no model found: their size is limited by what E events
show. The constants 20 and 1.2 were chosen on simulated truths of half of the families of
benchmarks/bands_study.py; 3/n is about what n people without the event leave possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, stdtrit

from survival_objectives._arrays import FloatArray, IntArray

_INFLATION, _HIDDEN, _UNSEEN = 1.2, 20.0, 3.0


class Band(NamedTuple):
    """An estimate with pointwise limits, all three of the same kind and shape."""

    estimate: Any
    lower: Any
    upper: Any


@dataclass(frozen=True)
class Limit:
    """One side of the bands (90).

    Attributes
    ----------
    confidence : float
    later : bool
        Whether events come later than estimated: more people are event-free, fewer have each cause.
    n_folds : int
    n_events : int64 array of shape (K + 1,)
        Numbers of people who were censored, and who had each cause.
    """

    confidence: float
    later: bool
    n_folds: int
    n_events: IntArray

    def of(self, curves: FloatArray, by_model: FloatArray) -> FloatArray:
        """Limits of curves, (n_samples, K + 1, n_times), from (L, n_samples, K + 1, n_times)."""
        n_repeats = len(by_model) // self.n_folds
        unseen = _UNSEEN / self.n_events.sum()
        events = np.append(self.n_events[1:].sum(), self.n_events[1:])
        variance = jackknife_variance(_scaled(by_model, unseen), self.n_folds)
        width = np.sqrt(variance + (_HIDDEN / np.maximum(events, 1))[:, None])
        width *= _INFLATION * stdtrit(n_repeats * (self.n_folds - 1), (1 + self.confidence) / 2)
        width[:, 1:] *= -1
        moved = _scaled(curves, unseen) + (width if self.later else -width)
        found: FloatArray = np.clip((1 + 2 * unseen) * expit(moved) - unseen, 0.0, 1.0)
        # What is certain, such as the start of the curves, has no band.
        return np.where((curves > 0) & (curves < 1), found, curves)


def jackknife_variance(by_model: FloatArray, n_folds: int) -> FloatArray:
    """The first term of (90), without g, from values of the L models, (L, ...)."""
    own = by_model.reshape(-1, n_folds, *by_model.shape[1:])
    variance: FloatArray = (n_folds - 1) * own.var(axis=1).mean(axis=0)
    return variance


def _scaled(curves: FloatArray, unseen: float) -> FloatArray:
    scaled: FloatArray = np.log((curves + unseen) / (1 - curves + unseen))
    return scaled

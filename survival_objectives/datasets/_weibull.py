r"""Competing Weibull risks whose true curves are known.

With x the Gaussian features of a person, the Weibull of cause k has a shape and a scale whose
logarithms are linear in x, and cause k alone would have the cumulative hazard H_k:

    shape_k(x) = exp(c_k + x . a_k),   scale_k(x) = exp(m_k + x . b_k)                          (50)
    H_k(t|x) = (t / scale_k(x)) ** shape_k(x)                                                   (51)

The latent times are independent given x, and the first one is the event. Hence the truth:

    event-free   S(t|x) = exp(-sum_k H_k(t|x))                                                  (52)
    incidence    F_k(t|x) = int_0^t S(u|x) H_k'(u|x) du                                         (53)
    uncensored   G(t|x) = exp(-H_0(t|x))                                                        (54)

where H_0 is the cumulative hazard of censoring, of the same form (51). There is no closed form of
(53) unless all shapes are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.integrate import trapezoid

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import Features, check_features, check_times

# Quadrature of (53): Gauss-Legendre nodes in panels of log-time. The sum of all states then misses
# 1 by less than 1e-9 for shapes up to 8 (tests/datasets/test_synthetic.py).
_N_NODES = 8
_PANEL_WIDTH = 0.25
# Panels start where all cumulative hazards are below this; before it two terms of the
# exponential series leave an error below the cube of it.
_HAZARD_START = 5e-4
# People integrated at a time: with some 150 panels their hazards stay near 10 MB.
_BLOCK = 256


@dataclass(frozen=True)
class WeibullHazards:
    """Shapes and scales of several Weibull times as functions of the features, equation (50).

    Attributes
    ----------
    log_shape, log_scale : arrays of shape (n_times_to_event,)
        The intercepts c and m.
    shape_coefficients, scale_coefficients : arrays of shape (n_features, n_times_to_event)
        The columns a and b.
    """

    log_shape: FloatArray
    log_scale: FloatArray
    shape_coefficients: FloatArray
    scale_coefficients: FloatArray

    def parameters(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Shapes and scales, each of shape (n_samples, n_times_to_event)."""
        # einsum, as rounding in BLAS depends on the number of people in the batch.
        shape = np.einsum("ij,jk->ik", values, self.shape_coefficients) + self.log_shape
        scale = np.einsum("ij,jk->ik", values, self.scale_coefficients) + self.log_scale
        return np.exp(shape), np.exp(scale)

    def draw(self, values: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Latent times of shape (n_samples, n_times_to_event), by inverting (51)."""
        shape, scale = self.parameters(values)
        latent: FloatArray = scale * generator.standard_exponential(shape.shape) ** (1 / shape)
        return latent


@dataclass(frozen=True)
class WeibullCensoring:
    """The true censoring, G of equation (54); a `survival_objectives.censoring.CensoringModel`.

    Attributes
    ----------
    hazards : WeibullHazards or None
        One Weibull time, or None without censoring.
    schema : Features
        The columns of the features.
    dependent : bool
        Whether censoring depends on the features.
    """

    hazards: WeibullHazards | None
    schema: Features
    dependent: bool

    def survival(self, times: npt.ArrayLike, X: Any = None, *, left: bool = False) -> FloatArray:  # noqa: ARG002
        """P(C > t | x); the same with ``left``, as the distribution has no jumps.

        ``X`` may be left out where censoring does not depend on it.
        """
        times = np.asarray(times, dtype=np.float64)
        if self.hazards is None:
            return np.ones_like(times)
        if not self.dependent:
            shape, scale = np.exp(self.hazards.log_shape), np.exp(self.hazards.log_scale)
            uncensored: FloatArray = np.exp(-((times / scale) ** shape))
            return uncensored
        if X is None:
            msg = "This censoring depends on the features: pass `X`, one row per person."
            raise ValueError(msg)
        values = check_features(X, like=self.schema).values.astype(np.float64)
        if times.ndim == 0 or len(times) != len(values):
            msg = f"`times` of shape {times.shape} needs one row for each of {len(values)} people."
            raise ValueError(msg)
        shape, scale = self.hazards.parameters(values)
        columns = times.reshape(len(values), -1)
        return np.exp(-((columns / scale) ** shape)).reshape(times.shape)


@dataclass(frozen=True)
class WeibullTruth:
    """The true curves of a simulated population.

    Attributes
    ----------
    causes : WeibullHazards
        One Weibull time for each of the K causes.
    censoring : WeibullCensoring
        The true censoring, usable wherever a `CensoringModel` is.
    schema : Features
        The columns of the features.
    """

    causes: WeibullHazards
    censoring: WeibullCensoring
    schema: Features

    @property
    def n_causes(self) -> int:
        """Number of competing causes, K."""
        return len(self.causes.log_shape)

    def cumulative_incidence(self, X: Any, times: npt.ArrayLike) -> FloatArray:
        """Probabilities of all states in truth, equations (52) and (53), to within 1e-9.

        Parameters
        ----------
        X : DataFrame or array of shape (n_samples, n_features)
            Features, noise columns included.
        times : array of shape (n_times,)
            Times >= 0, in any order.

        Returns
        -------
        float64 array of shape (n_samples, K + 1, n_times)
            Index 0 is the event-free probability; the states sum to 1.
        """
        values = self._values(X)
        wanted, position = np.unique(check_times(times), return_inverse=True)
        shape, scale = self.causes.parameters(values)
        curves = np.empty((len(values), self.n_causes + 1, len(wanted)))
        for first in range(0, len(values), _BLOCK):
            block = slice(first, first + _BLOCK)
            curves[block] = _incidence(shape[block], np.log(scale[block]), wanted)
        return curves[:, :, position]

    def survival(self, X: Any, times: npt.ArrayLike) -> FloatArray:
        """Event-free probability in truth, equation (52), of shape (n_samples, n_times)."""
        shape, scale = self.causes.parameters(self._values(X))
        hazard = (check_times(times) / scale[:, :, None]) ** shape[:, :, None]
        event_free: FloatArray = np.exp(-hazard.sum(axis=1))
        return event_free

    def oracle_brier(self, X: Any, times: npt.ArrayLike) -> FloatArray:
        r"""Brier score to be expected of the true curves: no prediction from X can do better.

        The outcome of person i at t is in state k with probability F_k(t|x_i), so the expected
        squared error of predicting that probability is its variance, and with F_0 = S:

            B_k(t) = (1/n) sum_i F_k(t|x_i) (1 - F_k(t|x_i))                                    (55)

        Parameters
        ----------
        X : DataFrame or array of shape (n_samples, n_features)
            People over whom to average.
        times : array of shape (n_times,)
            Times >= 0.

        Returns
        -------
        float64 array of shape (K + 1, n_times)
            Index 0 is the score of the event-free probability.
        """
        proba = self.cumulative_incidence(X, times)
        scores: FloatArray = (proba * (1 - proba)).mean(axis=0)
        return scores

    def _values(self, X: Any) -> FloatArray:
        return check_features(X, like=self.schema).values.astype(np.float64)


def time_average(values: FloatArray, times: FloatArray) -> FloatArray:
    """Mean of ``values`` over the last axis by the trapezoidal rule; one time is its own mean."""
    if len(times) == 1:
        return values[..., 0]
    if not (np.diff(times) > 0).all():
        position = int(np.flatnonzero(~(np.diff(times) > 0))[0])
        msg = (
            f"`times` must increase for an integral over them; got {times[position + 1]} after "
            f"{times[position]}. Use `numpy.unique(times)`."
        )
        raise ValueError(msg)
    average: FloatArray = trapezoid(values, times, axis=-1) / (times[-1] - times[0])
    return average


def _incidence(shape: FloatArray, log_scale: FloatArray, times: FloatArray) -> FloatArray:
    """States of a block of people at increasing ``times``, of shape (n_samples, K + 1, n_times).

    Over v = log u the integrand of (53) is shape_k H_k S, which is smooth even where a shape below
    1 makes the hazard infinite at 0. Every wanted time is the end of a panel.
    """
    n_samples, n_causes = shape.shape
    curves = np.zeros((n_samples, n_causes + 1, len(times)))
    curves[:, 0] = 1.0
    positive = times > 0
    if not positive.any():
        return curves
    log_times = np.log(times[positive])
    edges, ends = _panels(shape, log_scale, log_times)

    nodes, node_weights = np.polynomial.legendre.leggauss(_N_NODES)
    half = np.diff(edges) / 2
    log_nodes = ((edges[:-1] + edges[1:]) / 2)[:, None] + half[:, None] * nodes
    hazard = _cumulative_hazard(shape, log_scale, log_nodes.ravel())
    event_free = np.exp(-hazard.sum(axis=1))
    hazard *= event_free[:, None]
    by_panel = hazard.reshape(n_samples, n_causes, len(half), _N_NODES) @ node_weights
    by_panel *= shape[:, :, None] * half
    start = _incidence_at_start(shape, _cumulative_hazard(shape, log_scale, edges[:1])[:, :, 0])
    incidence = np.concatenate([start[:, :, None], by_panel], axis=2).cumsum(axis=2)

    at_times = _cumulative_hazard(shape, log_scale, log_times)
    curves[:, 0, positive] = np.exp(-at_times.sum(axis=1))
    curves[:, 1:, positive] = incidence[:, :, ends]
    return curves


def _panels(
    shape: FloatArray, log_scale: FloatArray, log_times: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Edges of the panels, and which edge is which of ``log_times``."""
    # Each cause gets an equal share of the start's small hazard.
    share = np.log(_HAZARD_START / shape.shape[1])
    lowest = min(float((log_scale + share / shape).min()), float(log_times[0]))
    corners = np.concatenate([[lowest], log_times])
    n_panels = np.ceil(np.diff(corners) / _PANEL_WIDTH).astype(np.int64)
    pieces = [
        np.linspace(left, right, n, endpoint=False)
        for left, right, n in zip(corners[:-1], corners[1:], n_panels, strict=True)
    ]
    return np.concatenate([*pieces, corners[-1:]]), np.cumsum(n_panels)


def _cumulative_hazard(
    shape: FloatArray, log_scale: FloatArray, log_times: FloatArray
) -> FloatArray:
    """H_k of equation (51), of shape (n_samples, K, n_times)."""
    exponent = log_times - log_scale[:, :, None]
    exponent *= shape[:, :, None]
    # Beyond exp(690) survival is 0 in float64; capped, H exp(-H) is 0 and not inf * 0.
    np.minimum(exponent, 690.0, out=exponent)
    return np.exp(exponent, out=exponent)


def _incidence_at_start(shape: FloatArray, hazard: FloatArray) -> FloatArray:
    """Incidence where all hazards are tiny, from exp(-H) = 1 - H.

    F_k = H_k - sum_j H_j H_k a_k / (a_j + a_k),   a = shapes                               (57)
    """
    fraction = shape[:, :, None] / (shape[:, None, :] + shape[:, :, None])
    lost = np.einsum("ij,ikj->ik", hazard, fraction)
    incidence: FloatArray = hazard * (1 - lost)
    return incidence

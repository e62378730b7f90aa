r"""Calibration at one horizon: observed over expected, a smooth curve, intercept and slope.

All by pseudo-observations theta_i of (43), which have the true incidence as their mean, under
censoring that does not depend on the features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, norm

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives.marginal import aalen_johansen, incidence_influence
from survival_objectives.metrics._estimate import Estimate, estimate, simulated
from survival_objectives.metrics._influence import Influence
from survival_objectives.metrics._inputs import ScoredPeople

# Share of the people in the neighbourhood of a prediction, that of the STRATOS guide.
_SPAN = 0.33
_Z95 = float(norm.ppf(0.975))
# More different predictions are joined into so many cells, and the curve is fitted at fewer points.
_MAX_CELLS, _MAX_POINTS = 2_000, 1_000
# Draws of the error of summaries; fewer, and over cells, for more people than this.
_N_DRAWS, _FEW_DRAWS, _MANY_PEOPLE = 400, 200, 5_000
# Predictions of 0 and 1 have no complementary log-log.
_LEAST_RISK = 1e-9
_MAX_STEPS = 100
#: Summaries of |observed - predicted| along the smooth curve.
SUMMARIES = ("ici", "e50", "e90", "emax", "root_squared_bias")


@dataclass(frozen=True)
class Calibration:
    r"""Calibration of one cause at one horizon.

    Attributes
    ----------
    cause, horizon
        What was asked for.
    predicted, observed : float64 arrays of shape (n_points,)
        The smooth curve: loess (local lines, tricube weights, a third of the people each) of the
        pseudo-observations on the predictions.
    lower, upper : float64 arrays of shape (n_points,)
        Pointwise 95 % limits of ``observed``.
    observed_expected, intercept, slope : Estimate
        Ratio of the observed to the mean predicted incidence; intercept (with a slope of 1) and
        slope of a regression on the complementary log-log scale: 1, 0 and 1 for true predictions.
    p_value : float
        Of the joint hypothesis that the intercept is 0 and the slope 1.
    ici, e50, e90, emax, root_squared_bias : Estimate
        Mean, median, 90 % quantile and maximum of \|observed - predicted\| over people, and the
        root of the mean of its square. Above 0 even for true predictions, by noise.
    """

    cause: int
    horizon: float
    predicted: FloatArray
    observed: FloatArray
    lower: FloatArray
    upper: FloatArray
    observed_expected: Estimate
    intercept: Estimate
    slope: Estimate
    p_value: float
    ici: Estimate
    e50: Estimate
    e90: Estimate
    emax: Estimate
    root_squared_bias: Estimate


def observed_expected_influence(scored: ScoredPeople, code: int, risk: FloatArray) -> Influence:
    r"""Influence on the ratio of observed and expected incidence, at all times.

        O/E(z) = F_k^AJ(z) / mean_i F_k(z|x_i)                                                 (36)

    with the Aalen-Johansen curve of the people scored. Both vary with the people drawn.
    """
    target, weight = scored.target, scored.sample_weight
    share = (weight / weight.sum())[:, None]
    expected = (share * risk).sum(axis=0)
    curves = aalen_johansen(target, weight)(scored.times)
    observed = curves[:, code] if code else 1 - curves[:, 0]
    moved = incidence_influence(target, weight, scored.times)[:, code]
    moved = moved if code else -moved
    ratio = np.divide(observed, expected, out=np.full(len(expected), np.nan), where=expected > 0)
    people = np.divide(
        moved - ratio * share * (risk - expected),
        expected,
        out=np.full(risk.shape, np.nan),
        where=expected > 0,
    )
    return Influence(ratio, people, None)


def cloglog_influence(
    risk: FloatArray, pseudo: FloatArray, weight: FloatArray, *, slope: bool
) -> Influence:
    r"""Influence on the intercept (slope 1), or on intercept and slope, at one horizon.

    With eta_i = log(-log(1 - F_k(z|x_i))) and g the inverse, g(eta) = 1 - exp(-exp(eta)), the
    generalised estimating equations with independence and constant variance,

        sum_i s_i u_i g'(m_i) (theta_i - g(m_i)) = 0,   m_i = a + b eta_i                      (37)

    with u_i = 1 and b = 1, or u_i = (1, eta_i). The error is the sandwich over people: with the
    slope, as R's geese has it; with b = 1, which may be wrong, by the derivative of the equation
    itself, without which limits are too narrow there (92 % instead of 95 %, simulated).
    """
    eta = np.log(-np.log1p(-np.clip(risk, _LEAST_RISK, 1 - _LEAST_RISK)))
    design = np.column_stack([np.ones(len(eta)), eta]) if slope else np.ones((len(eta), 1))
    offset = 0.0 if slope else eta
    beta = np.array([0.0, 1.0])[: design.shape[1]]

    def parts(beta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        m = offset + design @ beta
        grown = np.exp(np.minimum(m, 30.0))
        left = np.exp(-grown)
        return 1 - left, grown * left, np.asarray(pseudo - (1 - left))

    loss = np.inf
    unknown = np.full(len(beta), np.nan)
    if np.ptp(pseudo) == 0:
        # Without events any curve near 0 fits.
        return Influence(unknown, np.full(design.shape, np.nan), None)
    for _ in range(_MAX_STEPS):
        _, gradient, rest = parts(beta)
        scaled = design * gradient[:, None]
        information = scaled.T @ (weight[:, None] * scaled)
        if not np.linalg.cond(information) < 1e12:
            return Influence(unknown, np.full(design.shape, np.nan), None)
        loss = float(weight @ rest**2)
        step = np.linalg.solve(information, scaled.T @ (weight * rest))
        # Gauss-Newton, with halved steps where a whole one does not help.
        for _ in range(20):
            if float(weight @ parts(beta + step)[2] ** 2) <= loss:
                break
            step = step / 2
        beta = beta + step
        if np.abs(step).max() < 1e-9:
            break
    else:
        return Influence(unknown, np.full(design.shape, np.nan), None)
    fitted, gradient, rest = parts(beta)
    scaled = design * gradient[:, None]
    change = gradient**2
    if not slope:
        # g'' = g' (1 + log(1 - g)): where the slope is not 1, residuals do not average to 0.
        change = change - gradient * (1 + np.log(np.maximum(1 - fitted, _LEAST_RISK))) * rest
    information = design.T @ ((weight * change)[:, None] * design)
    people = np.linalg.solve(information, (scaled * (weight * rest)[:, None]).T).T
    return Influence(beta, np.asarray(people, np.float64), None)


def joint_p_value(both: Influence) -> float:
    """Wald test of an intercept of 0 and a slope of 1."""
    if np.isnan(both.value).any():
        return float("nan")
    gap = both.value - np.array([0.0, 1.0])
    covariance = both.people.T @ both.people
    if not np.linalg.cond(covariance) < 1e12:
        return float("nan")
    return float(chi2.sf(gap @ np.linalg.solve(covariance, gap), 2))


# ----------------------------------------------------------------------------------- smooth curve
@dataclass(frozen=True)
class SmoothCurve:
    """Observed incidence as a smooth function of the predicted one, with draws of its error."""

    predicted: FloatArray  # (n_points,), increasing
    observed: FloatArray
    error: FloatArray
    summaries: dict[str, float]
    draws: dict[str, FloatArray]  # (n_draws,) of each summary


def smooth_curve(
    risk: FloatArray, pseudo: FloatArray, weight: FloatArray, group: IntArray | None = None
) -> SmoothCurve:
    r"""Loess of pseudo-observations on predictions: local lines with tricube weights.

    At p, with h the distance within which a third (0.33) of the people is,

        o(p) = a,   (a, b) = argmin sum_i s_i (1 - |r_i - p|^3 / h^3)_+^3
                                      (theta_i - a - b (r_i - p))^2                            (40)

    so that o(p) = sum_i l_i(p) theta_i, with variance sum_i l_i(p)^2 (theta_i - o(r_i))^2. The
    errors of the summaries are simulated, with one normal factor for the residuals of a person.
    """
    cell, size = _cells(risk, weight)
    mass = np.bincount(cell, weights=weight, minlength=size).astype(np.float64)
    at = np.bincount(cell, weights=weight * risk, minlength=size) / mass
    mean = np.bincount(cell, weights=weight * pseudo, minlength=size) / mass
    n_points = min(size, _MAX_POINTS)
    points = at[np.unique(np.linspace(0, size - 1, n_points).round().astype(int))]
    n_people = np.count_nonzero(weight)
    smoother = _local_lines(points, at, mass, float(np.floor(n_people * _SPAN + 1e-5)) / n_people)
    observed = smoother @ mean
    rest = pseudo - np.interp(risk, points, observed)
    spread = np.sqrt(np.bincount(cell, weights=(weight * rest) ** 2, minlength=size)) / mass
    # The same factors for all models of the same people, so that differences can be drawn.
    is_large = len(risk) > _MANY_PEOPLE
    n_draws = _FEW_DRAWS if is_large else _N_DRAWS
    n_factors = len(risk) if group is None else int(group.max()) + 1
    noise = np.random.default_rng(0).standard_normal((n_draws, n_factors), np.float32)
    noise = noise if group is None else noise[:, group]
    residual = weight * rest / mass[cell]
    factors = np.stack([np.bincount(cell, row * residual, size) for row in noise])
    drawn = observed + factors @ smoother.T
    counts = _Summary(points, *((at, mass) if is_large else (risk, weight)))
    return SmoothCurve(
        points,
        observed,
        np.sqrt(smoother**2 @ spread**2) if group is None else drawn.std(axis=0),
        {name: float(values[0]) for name, values in counts.of(observed[None]).items()},
        counts.of(drawn),
    )


def _cells(risk: FloatArray, weight: FloatArray) -> tuple[IntArray, int]:
    """Number of the cell of each person: equal predictions, or if too many quantiles."""
    values, cell = np.unique(risk, return_inverse=True)
    if len(values) > _MAX_CELLS:
        below = np.cumsum(np.bincount(cell, weights=weight))
        joined = np.ceil(_MAX_CELLS * below / below[-1]).astype(np.int64) - 1
        cell = np.unique(np.clip(joined, 0, None), return_inverse=True)[1][cell]
    # People of weight 0 do not make a cell of their own.
    counts = np.bincount(cell, weights=weight) > 0
    number = np.maximum(np.cumsum(counts) - 1, 0)
    return number[cell], int(counts.sum())


def _local_lines(points: FloatArray, at: FloatArray, mass: FloatArray, share: float) -> FloatArray:
    """The weights l of (40), (n_points, n_cells), with a ``share`` of the mass; rows sum to 1."""
    distance = np.abs(at - points[:, None])
    order = np.argsort(distance, axis=1)
    within = np.cumsum(mass[order], axis=1) / mass.sum()
    nearest = np.minimum((within < share - 1e-9).sum(axis=1), len(at) - 1)
    width = distance[np.arange(len(points)), order[np.arange(len(points)), nearest]][:, None]
    ratio = np.divide(distance, width, out=np.zeros(distance.shape), where=width > 0)
    local = np.where(width > 0, np.clip(1 - ratio**3, 0, None) ** 3, distance == 0) * mass
    local /= local.sum(axis=1, keepdims=True)
    gap = at - points[:, None]
    first = (local * gap).sum(axis=1, keepdims=True)
    square = (local * (gap - first) ** 2).sum(axis=1, keepdims=True)
    centred = local * (gap - first)
    slope = np.divide(centred, square, out=np.zeros(gap.shape), where=square > 1e-15)
    lines: FloatArray = local - first * slope
    return lines


class _Summary:
    """Summaries of curves at points, over the people of cells; curves are (n_curves, n_points)."""

    def __init__(self, points: FloatArray, at: FloatArray, mass: FloatArray) -> None:
        self._at, self._share = at, mass / mass.sum()
        self._points = points
        right = np.clip(np.searchsorted(points, at), 1, max(len(points) - 1, 1))
        self._right = np.minimum(right, len(points) - 1)
        self._left = np.maximum(self._right - 1, 0)
        gap = points[self._right] - points[self._left]
        step = np.clip(at - points[self._left], 0, gap)
        self._step = np.divide(step, gap, out=np.zeros(len(at)), where=gap > 0)

    def _gap(self, curves: FloatArray) -> FloatArray:
        between = curves[:, self._left] * (1 - self._step) + curves[:, self._right] * self._step
        gap: FloatArray = np.abs(between - self._at)
        return gap

    def _quantile(self, gap: FloatArray, level: float) -> FloatArray:
        if np.ptp(self._share) < 1e-12:
            return np.asarray(np.quantile(gap, level, axis=1))
        order = np.argsort(gap, axis=1)
        below = np.cumsum(self._share[order], axis=1)
        column = np.minimum((below < level - 1e-12).sum(axis=1), gap.shape[1] - 1)
        rows = np.arange(len(gap))
        found: FloatArray = gap[rows, order[rows, column]]
        return found

    def of(self, curves: FloatArray) -> dict[str, FloatArray]:
        """All summaries of all curves."""
        gap = self._gap(curves)
        values = (
            gap @ self._share,
            self._quantile(gap, 0.5),
            self._quantile(gap, 0.9),
            gap.max(axis=1),
            np.sqrt(gap**2 @ self._share),
        )
        return dict(zip(SUMMARIES, values, strict=True))


def calibration_estimates(
    risk: FloatArray, pseudo: FloatArray, weight: FloatArray, group: IntArray | None
) -> dict[str, tuple[Estimate, FloatArray | None]]:
    """Intercept, slope and summaries, with the draws of those whose error is simulated."""
    level = cloglog_influence(risk, pseudo, weight, slope=False).summed(group)
    both = cloglog_influence(risk, pseudo, weight, slope=True).summed(group)
    curve = smooth_curve(risk, pseudo, weight, group)
    return {
        "calibration_intercept": (estimate(level.map(lambda parts: parts[..., 0])), None),
        "calibration_slope": (estimate(both.map(lambda parts: parts[..., 1])), None),
        **{name: (found, curve.draws[name]) for name, found in _summary_estimates(curve).items()},
    }


def _summary_estimates(curve: SmoothCurve) -> dict[str, Estimate]:
    """The summaries with limits, which are not below 0."""
    return {
        name: simulated(curve.summaries[name], curve.draws[name], lowest=0.0) for name in SUMMARIES
    }


def calibration(
    cause: int,
    horizon: float,
    risk: FloatArray,
    pseudo: FloatArray,
    weight: FloatArray,
    ratio: Estimate,
    group: IntArray | None,
) -> Calibration:
    """All of it for one cause and horizon; ``ratio`` is (36)."""
    curve = smooth_curve(risk, pseudo, weight, group)
    both = cloglog_influence(risk, pseudo, weight, slope=True).summed(group)
    level = cloglog_influence(risk, pseudo, weight, slope=False).summed(group)
    half = _Z95 * curve.error
    return Calibration(
        cause=cause,
        horizon=horizon,
        predicted=curve.predicted,
        observed=curve.observed,
        lower=curve.observed - half,
        upper=curve.observed + half,
        observed_expected=ratio,
        intercept=estimate(level.map(lambda parts: parts[..., 0])),
        slope=estimate(both.map(lambda parts: parts[..., 1])),
        p_value=joint_p_value(both),
        **_summary_estimates(curve),
    )

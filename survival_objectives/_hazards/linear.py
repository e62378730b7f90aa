r"""Linear hazards: standardised columns and a penalised regression of the log hazards.

The design has a column z per numeric feature, per frequent level of a category and per feature with
missing values. The hazard of cause k in interval m is exp(a_km + z'b_k). Its penalised Poisson
log-likelihood over the rows of the risk sets, with weights w and targets y,

    l_k = sum_rows w ([y = k] (a_km + z'b_k) - exp(a_km + z'b_k))
          - lambda / 2 |b_k|^2 - 3 gamma sum_j log(1 + |b_kj| D_k^(1/2) / 3),                  (77)

is maximised over the levels a_km in closed form, with D_km the weight of the events and D_k their
sum,

    a_km = log(D_km / sum_{rows in m} w exp(z'b_k)),                                           (78)

so that Newton's method runs over the coefficients alone. With mu = w exp(a + z'b) per row,

    gradient = sum_rows (w [y = k] - mu) z - lambda b,
    -Hessian = sum_rows mu z z' - sum_m (sum_{rows in m} mu z)(...)' / D_km + lambda I.        (79)

The slope of the sparse penalty is gamma D_k^(1/2) at 0, where that of a column that knows nothing
is about D_k^(1/2), and falls where coefficients are many standard errors. In each step lambda has
this slope over |b_kj| added to it. Several penalties, and no columns at all, are averaged by their
log-likelihoods of held-out people, summed over folds, with the shares

    pi_p = exp(l_p) / sum_q exp(l_q),                                                          (98)

where shares below 0.05 are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._hazards.formulas import LOCAL, RiskRows, interval_start, row_margins
from survival_objectives._people import Features
from survival_objectives._people.population import Reduction
from survival_objectives._process.running import deliver_interrupt
from survival_objectives.losses import pointwise_log_loss

#: Column kinds besides the levels 0, 1, ... of a category.
NUMBER, MISSING = -1, -2

#: Maximum number of people for the linear part: its few coefficients need no more.
LINEAR_PEOPLE = 100_000
#: Standardised values are clipped here: outliers would dominate the coefficients.
FARTHEST = 4.0
# lambda and gamma of the penalties.
_PENALTIES = ((1e3, 0.0), (1e2, 0.0), (1e1, 0.0), (1.0, 0.0), (1.0, 4.0), (1.0, 2.0), (1.0, 1.0))
_LEAST_SHARE = 0.05
# Maximum number of columns per category: its most frequent levels.
_MOST_LEVELS = 32
# Maximum number of columns with coefficients: those with the largest gradients at zero.
_MOST_COLUMNS = 200
_NEWTON_STEPS, _SPARSE_STEPS = 6, 15
# Coefficients below this are as good as 0 for sparse penalties, which are solved less exactly.
_SMALLEST_COEFFICIENT = 0.01
# Standard errors of a coefficient beyond which the sparse penalty shrinks it less: the 3 of (77).
_CLEAR = 3.0
_LARGEST_STEP = 2.0
_SMALLEST_STEP = 1e-4
_LARGEST_PREDICTOR = 8.0


@dataclass(frozen=True)
class LinearDesign:
    """Columns of the linear part, standardised on the training data.

    Attributes
    ----------
    feature : tuple of int
        Index of the feature behind each column.
    kind : tuple of int
        Code of a level, `NUMBER` for the value itself, or `MISSING` for a missing indicator.
    mean, scale : float64 arrays
        Per column. Missing values are replaced by the mean.
    """

    feature: tuple[int, ...]
    kind: tuple[int, ...]
    mean: FloatArray
    scale: FloatArray

    @classmethod
    def of(
        cls,
        features: Features,
        weight: FloatArray | None = None,
        reduction: Reduction = LOCAL,
    ) -> LinearDesign:
        """The columns for the people of all processes, without constant columns."""
        values = features.values
        weights = np.ones(len(values)) if weight is None else weight
        kept: list[tuple[int, int, float, float]] = []
        for feature in range(values.shape[1]):
            column = values[:, feature]
            kinds = [NUMBER, MISSING]
            if feature in features.categories:
                n_levels = len(features.categories[feature])
                kinds = [*_frequent_levels(column, weights, n_levels, reduction), MISSING]
            for kind in kinds:
                mean, scale = _moments(_column(column, kind), weights, reduction)
                if scale > 1e-9 * max(1.0, abs(mean)):
                    kept.append((feature, kind, mean, scale))
        feature_, kind_, mean_, scale_ = zip(*kept, strict=True) if kept else ((), (), (), ())
        return cls(tuple(feature_), tuple(kind_), np.array(mean_), np.array(scale_))

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.feature)

    def directions(self, of_features: Sequence[int]) -> IntArray:
        """Direction of each column; the indicator of a missing value has none."""
        return np.array(
            [
                of_features[feature] if kind == NUMBER else 0
                for feature, kind in zip(self.feature, self.kind, strict=True)
            ]
        )

    def matrix(self, values: Float32Array) -> FloatArray:
        """Standardised columns, of shape (n_samples, n_columns), clipped to [-4, 4].

        Parameters
        ----------
        values : float32 array of shape (n_samples, n_features)
            Values of `Features`.
        """
        matrix = np.empty((len(values), self.n_columns))
        for number, (feature, kind) in enumerate(zip(self.feature, self.kind, strict=True)):
            column = _column(values[:, feature], kind)
            standardised = (column - self.mean[number]) / self.scale[number]
            matrix[:, number] = np.clip(standardised, -FARTHEST, FARTHEST)
        return np.nan_to_num(matrix, copy=False, nan=0.0)


def _column(values: Float32Array, kind: int) -> FloatArray:
    column = values.astype(np.float64)
    if kind == NUMBER:
        return column
    missing = np.isnan(column)
    if kind == MISSING:
        return missing.astype(np.float64)
    return np.where(missing, np.nan, column == kind)


def _moments(column: FloatArray, weights: FloatArray, reduction: Reduction) -> tuple[float, float]:
    known = ~np.isnan(column)
    column, weights = column[known], weights[known]
    total, weight = reduction.sum([(column * weights).sum(), weights.sum()])
    if weight == 0:
        return 0.0, 0.0
    mean = float(total / weight)
    squares = reduction.sum(((column - mean) ** 2 * weights).sum())
    return mean, float(np.sqrt(squares / weight))


def _frequent_levels(
    column: Float32Array, weights: FloatArray, n_levels: int, reduction: Reduction
) -> list[int]:
    known = ~np.isnan(column)
    count = reduction.sum(
        np.bincount(column[known].astype(np.int64), weights=weights[known], minlength=n_levels)
    )
    levels = np.argsort(-count, kind="stable")[:_MOST_LEVELS]
    levels = np.sort(levels[count[levels] > 0])
    # One indicator is enough for two levels.
    return [int(level) for level in (levels[1:] if len(levels) == 2 else levels)]


def ridge_hazards(
    design: FloatArray,
    rows: RiskRows,
    n_causes: int,
    n_intervals: int,
    penalty: float,
    start: FloatArray | None = None,
    reduction: Reduction = LOCAL,
    directions: IntArray | None = None,
    sparse: float = 0.0,
) -> FloatArray:
    """Coefficients b that maximise (77), of shape (K, n_columns).

    Parameters
    ----------
    design : array of shape (n_samples, n_columns)
        Standardised columns.
    rows : RiskRows
    n_causes, n_intervals : int
    penalty : float
        lambda.
    start : array of shape (K, n_columns), optional
        Starting point of Newton's method. Default: zero.
    reduction : Reduction
        Sums over all processes.
    directions : array of shape (n_columns,), optional
        +1 or -1 for columns whose coefficients must not have the other sign: they are then left
        out.
    sparse : float
        gamma.
    """
    n_columns = design.shape[1]
    found = np.zeros((n_causes, n_columns)) if start is None else start.copy()
    events = reduction.sum(rows.events(n_causes, n_intervals))
    for cause in range(n_causes):
        if n_columns and events[cause].any():
            fit = _CauseFit(design, rows, cause + 1, events[cause], reduction)
            found[cause] = fit.maximised(found[cause], (penalty, sparse), directions)
    return found


def averaged_hazards(
    design: FloatArray,
    rows: RiskRows,
    n_causes: int,
    n_intervals: int,
    shares: FloatArray,
    start: FloatArray,
    reduction: Reduction = LOCAL,
    directions: IntArray | None = None,
) -> FloatArray:
    """Coefficients averaged over the penalties, as `ridge_hazards`; shares are those of (98)."""
    found = np.zeros_like(start)
    for share, (penalty, sparse) in zip(shares[1:], _PENALTIES, strict=True):
        if share:
            found += share * ridge_hazards(
                design, rows, n_causes, n_intervals, penalty, start, reduction, directions, sparse
            )
    return found


def cross_fitted_linear(
    design: FloatArray,
    training: Sequence[RiskRows],
    held_out: Sequence[RiskRows],
    n_causes: int,
    n_intervals: int,
    reduction: Reduction = LOCAL,
    directions: IntArray | None = None,
) -> tuple[list[FloatArray], FloatArray]:
    """Coefficients without each fold, averaged over penalties, and the shares (98).

    The first share is that of no columns at all.

    Parameters
    ----------
    design, n_causes, n_intervals, reduction, directions
        As in `ridge_hazards`.
    training, held_out : sequences of RiskRows
        Training rows and held-out rows of each fold.
    """
    path: list[list[FloatArray]] = []
    log_likelihood = np.zeros(1 + len(_PENALTIES))
    shape = n_causes, n_intervals
    for rows, other_rows in zip(training, held_out, strict=True):
        found = [np.zeros((n_causes, design.shape[1]))]
        for penalty, sparse in _PENALTIES:
            found.append(
                ridge_hazards(
                    design, rows, *shape, penalty, found[-1], reduction, directions, sparse
                )
            )
        for number, coefficients in enumerate(found):
            offset = coefficients @ design.T
            level = interval_start(rows, *shape, offset, reduction)
            margin = row_margins(level, offset, other_rows)
            log_likelihood[number] -= pointwise_log_loss(
                margin.T, other_rows.target, other_rows.weight, reference=True
            ).sum()
        path.append(found)
    log_likelihood = reduction.sum(log_likelihood)
    shares = np.exp(log_likelihood - log_likelihood.max())
    shares[shares < _LEAST_SHARE * shares.sum()] = 0.0
    shares /= shares.sum()
    return [np.tensordot(shares, found, 1) for found in path], shares


class _CauseFit:
    """Newton's method for the coefficients of one cause."""

    def __init__(
        self,
        design: FloatArray,
        rows: RiskRows,
        cause: int,
        events: FloatArray,
        reduction: Reduction,
    ) -> None:
        self._rows, self._events, self._design = rows, events, design
        self._reduction = reduction
        happened = rows.target == cause
        seen = np.bincount(rows.person[happened], rows.weight[happened], minlength=len(design))
        self._columns = np.arange(design.shape[1])
        if design.shape[1] > _MOST_COLUMNS:
            per_person, _ = self._expected(np.zeros(design.shape[1]))
            score = np.abs(reduction.sum(design.T @ (seen - per_person)))
            self._keep(np.sort(np.argsort(-score, kind="stable")[:_MOST_COLUMNS]))
        self._score_of_events = reduction.sum(self._design.T @ seen)

    def _keep(self, columns: IntArray) -> None:
        self._columns, self._design = self._columns[columns], self._design[:, columns]

    def maximised(
        self, start: FloatArray, penalty: tuple[float, float], directions: IntArray | None = None
    ) -> FloatArray:
        """Coefficients of all columns; the penalty is lambda and gamma."""
        coefficients = self._newton(start[self._columns], penalty)
        while directions is not None:
            kept = np.flatnonzero(directions[self._columns] * coefficients >= 0)
            if len(kept) == len(coefficients):
                break
            self._keep(kept)
            self._score_of_events = self._score_of_events[kept]
            coefficients = self._newton(coefficients[kept], penalty)
        all_coefficients = np.zeros_like(start)
        all_coefficients[self._columns] = coefficients
        return all_coefficients

    def _newton(self, coefficients: FloatArray, penalty: tuple[float, float]) -> FloatArray:
        if not len(coefficients):
            return coefficients
        (ridge, sparse), noise = penalty, 1 / np.sqrt(self._events.sum())
        smallest = _SMALLEST_COEFFICIENT if sparse else _SMALLEST_STEP
        for _ in range(_SPARSE_STEPS if sparse else _NEWTON_STEPS):
            deliver_interrupt()
            # All rows of a person share z, so sums run over people, ten times fewer than rows.
            per_person, table = self._expected(coefficients)
            expected, by_interval, hessian = self._sums(
                self._design.T @ per_person,
                table @ self._design,
                self._design.T @ (self._design * per_person[:, None]),
            )
            size = np.maximum(np.abs(coefficients), smallest)
            shrinkage = ridge + sparse / (size * (noise + size / _CLEAR))
            gradient = self._score_of_events - expected - shrinkage * coefficients
            hessian -= (by_interval / np.maximum(self._events, 1e-9)[:, None]).T @ by_interval
            step = np.linalg.solve(hessian + np.diag(shrinkage + 1e-6), gradient)
            step *= min(1.0, _LARGEST_STEP / max(np.abs(step).max(), _SMALLEST_STEP))
            coefficients = coefficients + step
            if np.abs(step).max() < smallest:
                break
        return coefficients

    def _sums(self, *parts: FloatArray) -> list[FloatArray]:
        """Sums of several arrays over all processes, in one message."""
        total = self._reduction.sum(np.concatenate([part.ravel() for part in parts]))
        ends = np.cumsum([part.size for part in parts])
        return [
            values.reshape(part.shape)
            for values, part in zip(np.split(total, ends[:-1]), parts, strict=True)
        ]

    def _expected(self, coefficients: FloatArray) -> tuple[FloatArray, csr_array]:
        """Expected events mu per person, and per interval and person."""
        rows, n_people = self._rows, len(self._design)
        predictor = np.clip(self._design @ coefficients, -_LARGEST_PREDICTOR, _LARGEST_PREDICTOR)
        relative = rows.weight * np.exp(predictor)[rows.person]
        at_risk = self._reduction.sum(
            np.bincount(rows.interval, relative, minlength=len(self._events))
        )
        level = np.divide(self._events, at_risk, out=np.zeros_like(at_risk), where=at_risk > 0)
        expected = relative * level[rows.interval]
        shape = (len(self._events), n_people)
        table = csr_array((expected, (rows.interval, rows.person)), shape=shape)
        per_person = np.bincount(rows.person, expected, minlength=n_people).astype(np.float64)
        return per_person, table

r"""Recalibration of a fitted model on other people: level and slope of its interval hazards.

With o_kj(x) = h_kj / (1 - sum_l h_lj) the odds of the hazards (17) of cause k in interval j, and
log c_kj the logarithm of their mean,

    log o'_kj(x) = a_k + log c_kj + b_k (log o_kj(x) - log c_kj).                              (99)

Curves follow from the product of (1 - h'), so that they stay monotone and sum to 1; within an
interval they keep their shape. For a > or < 0 a cause is more or less frequent than the model says,
with b < 1 its predictions were too extreme. Trees are not changed, and people keep their order in
every interval.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy.optimize import minimize

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives._models.frame import exposures
from survival_objectives._people import (
    SurvivalTarget,
    check_features,
    check_same_people,
    check_sample_weight,
    check_survival_target,
)
from survival_objectives._people.labels import named_outcomes
from survival_objectives._people.population import TimeAxis

if TYPE_CHECKING:
    from survival_objectives._models.predictions import FittedPredictions

    Model = TypeVar("Model", bound=FittedPredictions)

#: Smallest odds of a hazard, and smallest probability of being event-free.
LEAST = 1e-12
# Intervals; within them curves keep their shape.
_N_INTERVALS = 16
# More people than this add nothing to a few parameters.
_MOST_PEOPLE = 20_000
_N_FOLDS = 5
#: What `recalibrate` chooses from.
KINDS = ("none", "level", "level and slope")
# Weight of squared parameters, against causes without events: that of a tenth of an event.
_PENALTY = 0.1


@dataclass(frozen=True)
class Recalibration:
    """What `recalibrate` found.

    Attributes
    ----------
    level, slope : tuple of K floats
        a and b of equation (99), by cause.
    knots : tuple of M + 1 floats
        Ends of the intervals, in numbers of units (in continuous time, in time).
    centre : tuple of K tuples of M floats
        log c of (99).
    """

    level: tuple[float, ...]
    slope: tuple[float, ...]
    knots: tuple[float, ...] = field(repr=False)
    centre: tuple[tuple[float, ...], ...] = field(repr=False)

    def to_plain(self) -> dict[str, Any]:
        """The parameters as data that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> Recalibration:
        """The parameters that `to_plain` described."""
        level, slope, knots = (tuple(content[name]) for name in ("level", "slope", "knots"))
        return cls(level, slope, knots, tuple(map(tuple, content["centre"])))

    @property
    def affine(self) -> tuple[FloatArray, FloatArray]:
        """Constant, (K, M), and factor, (K, 1), of the log-odds."""
        slope = np.array(self.slope)[:, None]
        return np.array(self.level)[:, None] + (1 - slope) * np.array(self.centre), slope

    def curves(
        self, predicted: Callable[[FloatArray], FloatArray], axis: TimeAxis, times: FloatArray
    ) -> FloatArray:
        """Recalibrated curves, (n_samples, K + 1, n_times), at common or people's own times.

        ``predicted`` gives those of the model at times.
        """
        knots = np.array(self.knots)
        last = len(knots) - 1
        ends = knots[1:] * (axis.unit or 1.0)
        ends = ends if times.ndim == 1 else np.tile(ends, (len(times), 1))
        found = predicted(np.concatenate([ends, times], axis=-1))
        old, found = after_start(found[:, :, :last]), found[:, :, last:].copy()
        constant, slope = self.affine
        new = _incidence(constant + slope * log_odds(old))
        right = np.clip(np.searchsorted(knots, axis.number(times)), 1, last)
        right = np.broadcast_to(right[:, None] if times.ndim == 2 else right, found[:, 1:].shape)
        low, high = (np.take_along_axis(old[:, 1:], at, 2) for at in (right - 1, right))
        rise = high - low
        share = np.divide(found[:, 1:] - low, rise, out=np.zeros(rise.shape), where=rise > 0)
        low, high = (np.take_along_axis(new, at, 2) for at in (right - 1, right))
        found[:, 1:] = low + np.clip(share, 0.0, 1.0) * (high - low)
        found[:, 0] = np.maximum(1 - found[:, 1:].sum(axis=1), 0)
        return found


def after_start(curves: FloatArray) -> FloatArray:
    """Curves at the ends of intervals with those before the first, where all are event-free."""
    before = np.zeros((*curves.shape[:2], 1))
    before[:, 0] = 1
    return np.concatenate([before, curves], axis=2)


def log_odds(curves: FloatArray) -> FloatArray:
    """Log-odds of the hazards (17) between knots, (n, K, M), of curves, (n, K + 1, M + 1)."""
    hazard = np.diff(curves[:, 1:]) / np.maximum(curves[:, :1, :-1], LEAST)
    stay = np.maximum(1 - hazard.sum(axis=1, keepdims=True), LEAST)
    found: FloatArray = np.log(np.maximum(hazard / stay, LEAST))
    return found


def _incidence(margin: FloatArray) -> FloatArray:
    """Incidences at knots, (n, K, M + 1), of log-odds of hazards."""
    odds = np.exp(margin)
    total = 1 + odds.sum(axis=1, keepdims=True)
    survival = np.cumprod(1 / total, axis=2)
    risen = odds / total
    risen[:, :, 1:] *= survival[:, :, :-1]
    return np.cumsum(np.pad(risen, ((0, 0), (0, 0), (1, 0))), axis=2)


# ------------------------------------------------------------------------------------- estimation
@dataclass(frozen=True)
class _People:
    """People in intervals: log-odds (n, K, M), what they count in them, and their events."""

    margin: FloatArray
    weight: FloatArray  # (n, M): exposure times sample weight.
    event: BoolArray  # (n, K, M)

    @classmethod
    def of(
        cls,
        margin: FloatArray,
        target: SurvivalTarget,
        sample_weight: FloatArray,
        axis: TimeAxis,
        knots: FloatArray,
    ) -> _People:
        interval = np.maximum(np.searchsorted(knots, axis.number(target.duration)) - 1, 0)
        rows = np.flatnonzero((target.event > 0) & (interval < margin.shape[2]))
        event = np.zeros(margin.shape, np.bool_)
        event[rows, target.event[rows] - 1, interval[rows]] = True
        return cls(margin, exposures(axis, knots, target) * sample_weight[:, None], event)

    def take(self, rows: BoolArray) -> _People:
        return _People(self.margin[rows], self.weight[rows], self.event[rows])

    @property
    def centre(self) -> FloatArray:
        """Log of the mean odds of the people at risk, (K, M)."""
        weight = np.maximum(self.weight, LEAST)[:, None]
        mean = (weight * np.exp(self.margin)).sum(axis=0) / weight.sum(axis=0)
        centre: FloatArray = np.log(mean)
        return centre

    def likelihood(
        self, level: FloatArray, slope: FloatArray, centre: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log-likelihood of each person, and its derivatives, (K,), by level and slope."""
        shift = self.margin - centre
        odds = np.exp(level[:, None] + centre + slope[:, None] * shift)
        total = 1 + odds.sum(axis=1, keepdims=True)
        weight, rest = self.weight[:, None], self.event - odds / total
        own = (self.event * np.log(odds)).sum(axis=1) - np.log(total[:, 0])
        by_margin = weight * rest
        by_slope = (by_margin * shift).sum(axis=(0, 2))
        return (self.weight * own).sum(axis=1), by_margin.sum(axis=(0, 2)), by_slope

    def fitted(self, kind: str, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Level and slope with the highest likelihood."""
        n_causes = len(centre)
        size = n_causes * KINDS.index(kind)
        start = np.repeat([0.0, 1.0], n_causes)

        def loss(values: FloatArray) -> tuple[float, FloatArray]:
            level, slope = np.split(np.append(values, start[size:]), 2)
            found, by_level, by_slope = self.likelihood(level, slope, centre)
            gap = values - start[:size]
            gradient = np.append(by_level, by_slope)[:size]
            return _PENALTY * float(gap @ gap) - float(found.sum()), 2 * _PENALTY * gap - gradient

        # Slopes below 0 would turn the order of people round.
        bounds = [(-10.0, 10.0)] * n_causes + [(0.0, 10.0)] * n_causes
        values = start[:size]
        if size:
            values = minimize(loss, values, jac=True, bounds=bounds[:size], method="L-BFGS-B").x
        level, slope = np.split(np.append(values, start[size:]), 2)
        return level, slope


def recalibrate(
    model: Model,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    random_state: int = 0,
) -> Model:
    """A copy of a fitted model whose hazards have the level, or level and slope, of other people.

    For a model that is used elsewhere; a few hundred people of the new place are enough. Nothing,
    the level, or level and slope of all causes is changed, by held-out likelihood in five folds:
    the simpler one unless the gain of the other exceeds its standard error. Trees stay. What was
    found is in ``recalibration_``, None for nothing; it replaces an earlier one, and is saved and
    exported with the model. SHAP values explain the model without it.

    Parameters
    ----------
    model : HazardBoost, SurvivalBoost or a fitted model of the plugin
        Of either subject, with curves that do not fall.
    X : array or DataFrame of shape (n_samples, n_features)
        People who were not trained on.
    y : outcomes
        What happened to them, with late entry if it is known.
    sample_weight : array of shape (n_samples,), optional
        What each person counts.
    random_state : int, default=0
        Of the folds.

    Returns
    -------
    model : the class of ``model``

    Examples
    --------
    >>> from survival_objectives import HazardBoost, recalibrate
    >>> from survival_objectives.datasets import make_competing_risks
    >>> data = make_competing_risks(600, n_causes=1, random_state=0)
    >>> model = HazardBoost(n_estimators=5, random_state=0).fit(data.X[:300], data.y[:300])
    >>> slower = data.y[300:].assign(duration=2 * data.y["duration"][300:])
    >>> [round(level, 1) for level in recalibrate(model, data.X[300:], slower).recalibration_.level]
    [-0.5]
    """
    fitted = model.fitted_model.with_frame(recalibration=None)
    if not fitted.is_monotone:
        msg = "`recalibrate` needs curves that do not fall: train the model with `monotone=True`."
        raise ValueError(msg)
    y, _ = named_outcomes(y, names=model.event_names_)
    target = check_survival_target(y, event_ids=model.event_ids_, late_entry=True)
    if target.person is not None:
        msg = (
            "`recalibrate` takes one row per person: give the features as they were at one time, "
            "and `entry` and `duration` in place of `id`, `start` and `stop`."
        )
        raise ValueError(msg)
    features = check_features(X, like=fitted.schema)
    check_same_people(features.n_samples, target.n_samples)
    weight = check_sample_weight(sample_weight, target.n_samples)
    weight = np.ones(target.n_samples) if weight is None else weight
    rows = np.random.default_rng(random_state).permutation(target.n_samples)[:_MOST_PEOPLE]
    target, axis = target.take(rows), fitted.frame.axis
    knots = _thinned(fitted.knots())
    ends = knots[1:] * (axis.unit or 1.0)
    curves = fitted.incidence(replace(features, values=features.values[rows]), ends)
    people = _People.of(log_odds(after_start(curves)), target, weight[rows], axis, knots)
    if not people.event.any():
        msg = f"None of the {target.n_samples} people had an event by {ends[-1]:g}."
        raise ValueError(msg)
    kind, centre = _chosen(people), people.centre
    found = None
    if kind != "none":
        level, slope = (tuple(values.tolist()) for values in people.fitted(kind, centre))
        found = Recalibration(
            level, slope, tuple(knots.tolist()), tuple(map(tuple, centre.tolist()))
        )
    changed = copy.copy(model)
    changed.fitted_model = fitted.with_frame(recalibration=found)
    return changed


def _thinned(knots: FloatArray) -> FloatArray:
    last = len(knots) - 1
    chosen = np.linspace(0, last, min(last, _N_INTERVALS) + 1).round().astype(np.int64)
    return knots[chosen]


def _chosen(people: _People) -> str:
    """The kind with the highest held-out likelihood, beyond the standard error of its gain."""
    n_people = len(people.margin)
    folds = np.arange(n_people) % _N_FOLDS
    held_out = {kind: np.empty(n_people) for kind in KINDS}
    for fold in range(_N_FOLDS):
        trained, own = people.take(folds != fold), people.take(folds == fold)
        centre = trained.centre
        for kind, found in held_out.items():
            found[folds == fold] = own.likelihood(*trained.fitted(kind, centre), centre)[0]
    best = KINDS[0]
    for kind in KINDS[1:]:
        gain = held_out[kind] - held_out[best]
        if gain.sum() > np.sqrt(n_people) * gain.std():
            best = kind
    return best

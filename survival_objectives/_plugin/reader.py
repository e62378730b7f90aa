"""From the margins of a trained model to curves in time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.forest import monotone_incidence
from survival_objectives._models.curves import KnotCurves
from survival_objectives._people import Features, SurvivalTarget, check_features, check_times
from survival_objectives._people.time_axis import TimeAxis, time_feature
from survival_objectives._plugin.slot import RowTargets
from survival_objectives.censoring import log_odds
from survival_objectives.losses import probabilities
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import stacked_matrix

#: Sum of the trees, (n_rows, n_margins), for float32 rows of features and time.
RawMargin = Callable[[Float32Array], npt.ArrayLike]

# A larger rise of survival is no rounding error: the trees lack the constraint of `monotone`.
_RISE = 1e-4
# Rows evaluated at a time when curves are predicted: 2^18 rows x 100 features take 100 MB.
_PREDICTION_ROWS = 2**18


@dataclass(frozen=True)
class MarginalTail:
    """Curves after the latest horizon of training: hazards are those of the population.

    Attributes
    ----------
    population : StepFunction
        Aalen-Johansen curves of all people, (n_steps, K + 1).
    begin : float
        Latest horizon of training.
    """

    population: StepFunction
    begin: float

    def continued(self, curves: FloatArray, last: FloatArray, times: FloatArray) -> FloatArray:
        """``curves`` continued after ``begin``, where their values are ``last``."""
        late = times > self.begin
        if late.any():
            at_begin, later = self.population(self.begin), self.population(times[late]).T
            given = (later - at_begin[:, None]) / max(at_begin[0], np.finfo(np.float64).tiny)
            curves[:, :, late] = last + last[:, :1] * given
        return curves


@dataclass(frozen=True)
class CurveReader:
    """Conversion of margins to curves, with the columns and offsets of training.

    Attributes
    ----------
    schema : Features
        Columns of training.
    start : StepFunction
        Margins at which boosting started, by time, (n_steps, n_margins).
    reference : bool
        Link, see `survival_objectives.losses`.
    axis : TimeAxis
        Units of time of the training.
    tail : MarginalTail, optional
        What follows the latest horizon of training. Default: the model's own last values.
    """

    schema: Features
    start: StepFunction
    reference: bool
    axis: TimeAxis
    tail: MarginalTail | None = None

    def cumulative_incidence(self, raw_margin: RawMargin, X: Any, times: Any) -> FloatArray:
        """Event-free probability and incidences, (n_samples, K + 1, n_times).

        Parameters
        ----------
        raw_margin : callable
            Sum of the trees, (n_rows, n_margins), for float32 rows of features and time.
        X, times
            People and times of prediction.
        """
        features = check_features(X, like=self.schema)
        times = check_times(times)
        if self.tail is None:
            return self._curves(raw_margin, features, times)
        until_tail = np.append(np.minimum(times, self.tail.begin), self.tail.begin)
        curves = self._curves(raw_margin, features, until_tail)
        return self.tail.continued(
            curves[:, :, :-1], curves[:, :, -1:], self.axis.prediction_time(times)
        )

    def fingerprint(self, event_ids: IntArray) -> str:
        """Fingerprint, eight hex digits, of everything that turns margins into curves."""
        schema, start = self.schema, self.start
        levels = {column: list(map(str, schema.categories[column])) for column in schema.categories}
        facts = repr((schema.n_features, schema.names, levels, self.reference, event_ids.tolist()))
        digest = hashlib.sha256(facts.encode())
        for part in (start.times, start.values, start.initial):
            # Other machines may sum in another order, so values are rounded to float32.
            digest.update(np.asarray(part, dtype=np.float32).tobytes())
        return digest.hexdigest()[:8]

    def _curves(self, raw_margin: RawMargin, features: Features, times: FloatArray) -> FloatArray:
        feature = time_feature(self.axis.prediction_time(times))
        return _state_curves(raw_margin, features, feature, self.start(feature), self.reference)


def start_curve(
    kind: str,
    targets: RowTargets,
    population: StepFunction,
    target: SurvivalTarget,
    reference: bool,
) -> StepFunction:
    """Margins by time at which boosting starts.

    Parameters
    ----------
    kind : {"marginal", "constant", "zero"}
        Those of the population's curves, of the best constant, or 0.
    targets : RowTargets
        For the best constant.
    population : StepFunction
        Aalen-Johansen curves.
    target : SurvivalTarget
        The people.
    reference : bool
        Link, see `survival_objectives.losses`.
    """
    n_states = target.n_causes + 1
    first = int(reference)
    if kind == "zero":
        levels = np.zeros(n_states - first)
        return StepFunction(np.empty(0), np.empty((0, len(levels))), levels)
    # Half a person: the smallest probability distinguishable from 0.
    floor = 0.5 / target.n_samples
    if kind == "marginal":
        values, initial, times = population.values, population.initial[None], population.times
    else:
        weight = targets.weight.astype(np.float64)
        frequency: FloatArray
        if targets.target.ndim == 2:
            frequency = weight @ targets.target.astype(np.float64)
        else:
            counts = np.bincount(targets.target, weights=weight, minlength=n_states)
            frequency = counts.astype(np.float64)
        values, times = np.empty((0, n_states)), np.empty(0)
        initial = frequency[None] / frequency.sum()

    def margins(proba: FloatArray) -> FloatArray:
        other = proba[:, :1] if reference else np.ones((len(proba), 1))
        return log_odds(proba[:, first:], other, floor)

    return StepFunction(times, margins(values), margins(initial)[0])


@dataclass(frozen=True)
class CalibratedCurves:
    """Curves of a trained model that are calibrated in time, equations (17) and (18).

    They need the margins at the knots of the curves only, so this holds no outcomes of people.

    Attributes
    ----------
    schema : Features
        Columns of training.
    reference : bool
        Link, see `survival_objectives.losses`.
    monotone : bool
        Whether every tree was to be monotone in time.
    start : float64 array of shape (n_trained_knots, n_margins)
        Margins at which boosting started, at the knots that training reached.
    shape : KnotCurves
        How curves follow from the incidences at the knots.
    """

    schema: Features
    reference: bool
    monotone: bool
    start: FloatArray
    shape: KnotCurves

    @property
    def n_causes(self) -> int:
        """Number of causes, K."""
        return int(self.start.shape[1]) - (not self.reference)

    def at_knots(self, raw_margin: RawMargin, features: Features, n_knots: int) -> FloatArray:
        """Monotone incidences of the model at the first knots, (K, n_knots, n_samples)."""
        times = self.shape.trained_knots[:n_knots]
        feature = time_feature(self.shape.axis.prediction_time(times))
        curves = _state_curves(raw_margin, features, feature, self.start[:n_knots], self.reference)
        if self.monotone:
            check_falling(curves[:, 0], times)
        return monotone_incidence(curves[:, 1:].transpose(1, 2, 0))

    def cumulative_incidence(self, raw_margin: RawMargin, X: Any, times: Any) -> FloatArray:
        """Event-free probability and incidences, (n_samples, K + 1, n_times)."""
        features = check_features(X, like=self.schema)
        times = check_times(times)
        shape = self.shape
        knots = shape.trained_knots
        # Each knot up to the last requested time.
        n_knots = int(np.searchsorted(knots, times.max())) + 1
        known = self.at_knots(raw_margin, features, n_knots)
        cells = np.empty((self.n_causes, len(knots), features.n_samples))
        cells[:, :n_knots] = known
        cells[:, n_knots:] = cells[:, n_knots - 1 : n_knots]
        incidence = shape.values(shape.at_knots(cells), times)
        survival = np.maximum(1 - incidence.sum(axis=0), 0.0)
        return np.concatenate([survival[None], incidence]).transpose(2, 0, 1)


def _state_curves(
    raw_margin: RawMargin,
    features: Features,
    feature: Float32Array,
    start: FloatArray,
    reference: bool,
) -> FloatArray:
    """Probabilities of the states at values of the time feature, (n_samples, K + 1, n_times)."""
    n_times, n_margins = start.shape
    curves = np.empty((features.n_samples, n_margins + reference, n_times))
    n_people = max(1, _PREDICTION_ROWS // n_times)
    for first in range(0, features.n_samples, n_people):
        people = np.arange(first, min(first + n_people, features.n_samples))
        rows = stacked_matrix(features, np.repeat(people, n_times), np.tile(feature, len(people)))
        margin = np.asarray(raw_margin(rows), dtype=np.float64).reshape(len(rows), n_margins)
        margin = margin + np.tile(start, (len(people), 1))
        proba = probabilities(margin, reference=reference)
        curves[people] = proba.reshape(len(people), n_times, -1).transpose(0, 2, 1)
    return curves


def check_falling(survival: FloatArray, times: FloatArray) -> None:
    """Refuse curves that rise, although every tree was to be constrained."""
    in_order = survival[:, np.argsort(times)]
    rise = np.diff(in_order, axis=1).max(initial=0.0)
    if rise > _RISE:
        msg = (
            f"Survival rises by {rise:.2g} between two times, so the trees were grown without the "
            "constraint on time. Merge `objective.params` into the parameters of training, and "
            "constraints on features by `{**objective.params, "
            "**objective.constraints(monotone=...)}`, which keeps that on time; or construct the "
            "objective with `monotone=False`."
        )
        raise ValueError(msg)

"""Calibration in time of the curves of a model that an engine trained."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._models.curves import KnotCurves
from survival_objectives._models.knots import marginal_hazard, time_knots
from survival_objectives._people import Features, SurvivalTarget, check_survival_target
from survival_objectives._people.time_axis import time_feature
from survival_objectives._plugin.reader import CalibratedCurves, CurveReader, RawMargin
from survival_objectives.stacking import stacked_matrix

# Training people on whom curves are calibrated, and intervals between their knots.
_CALIBRATION_PEOPLE = 5_000
_N_INTERVALS = 32


def some_outcomes(target: SurvivalTarget, people: IntArray) -> SurvivalTarget:
    """Outcomes of some people, with only the causes that happened to them."""
    return check_survival_target(target.take(people))


@dataclass
class CurveCalibration:
    """Calibrates curves on the training people, once per model.

    Attributes
    ----------
    features, target, weight
        Training people, with outcomes aligned to the time axis.
    reader : CurveReader
        How margins become curves.
    monotone : bool
        Whether every tree was to be monotone in time.
    trained_until, end : float
        Latest horizon of training, and where curves end.
    """

    features: Features
    target: SurvivalTarget
    weight: FloatArray | None
    reader: CurveReader
    monotone: bool
    trained_until: float
    end: float
    _known: tuple[bytes, CalibratedCurves] | None = field(default=None, init=False, repr=False)

    def curves(self, raw_margin: RawMargin) -> CalibratedCurves:
        """How calibrated curves of a model follow from its margins at the knots."""
        people = np.arange(self.target.n_samples)
        if len(people) > _CALIBRATION_PEOPLE:
            people = np.linspace(0, len(people) - 1, _CALIBRATION_PEOPLE).astype(np.int64)
        some = replace(self.features, values=self.features.values[people])
        # A model that was trained on has other margins.
        first = np.arange(min(len(people), 16))
        probe = stacked_matrix(some, first, np.full(len(first), self.trained_until, np.float32))
        key = hashlib.sha256(np.asarray(raw_margin(probe)).tobytes()).digest()
        if self._known is None or self._known[0] != key:
            self._known = key, self._calibrated(raw_margin, some, people)
        return self._known[1]

    def _calibrated(
        self, raw_margin: RawMargin, some: Features, people: IntArray
    ) -> CalibratedCurves:
        axis, target, weight = self.reader.axis, self.target, self.weight
        happened = (target.event > 0) & (target.duration <= self.end)
        knots = time_knots(axis, np.sort(target.duration[happened]), self.end, _N_INTERVALS)
        marginal = marginal_hazard(axis, knots, target, weight)
        shape = KnotCurves.uncalibrated(axis, knots, marginal, self.trained_until)
        curves = CalibratedCurves(
            self.reader.schema,
            self.reader.reference,
            self.monotone,
            self.reader.start(time_feature(axis.prediction_time(shape.trained_knots))),
            shape,
        )
        cells = curves.at_knots(raw_margin, some, len(shape.trained_knots))
        sums = shape.crossed(
            cells, some_outcomes(target, people), None if weight is None else weight[people]
        )
        return replace(curves, shape=shape.calibrated(marginal, *sums))

"""What only a fitted model of hazards predicts."""

from __future__ import annotations

from typing import Any

from survival_objectives._arrays import FloatArray
from survival_objectives._hazards.model import HazardMixture
from survival_objectives._models.predictions import FittedPredictions


class HazardPredictions(FittedPredictions):
    """Predictions of a mixture of hazards."""

    def predict_hazard(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Discrete-time hazards between knots, and the knots.

        Returns
        -------
        hazard : float64 array of shape (n_samples, K, M)
            Probability of each cause in an interval, given event-free at its beginning.
        knots : float64 array of shape (M + 1,)
            Interval m is (knot m, knot m + 1]. If time has whole units and events happen in unit 0,
            the first knot is one unit before.
        """
        features = self._checked(X)
        assert isinstance(self._model, HazardMixture)
        return self._model.hazard(features)

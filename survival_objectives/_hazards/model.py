"""A mixture of hazard models as a fitted model: curves, contributions of features, and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.forest import Forest
from survival_objectives._engines.protocol import Evaluator
from survival_objectives._hazards.linear import NUMBER, LinearDesign
from survival_objectives._hazards.mixture import (
    HazardModel,
    HazardTrees,
    Member,
    Mixture,
)
from survival_objectives._hazards.paths import PathWalk
from survival_objectives._models.bands import Limit
from survival_objectives._models.curves import KnotCurves
from survival_objectives._models.fitted import ENGINE_ROWS, FittedModel, TrainingRecord, parts_of
from survival_objectives._models.frame import ModelFrame
from survival_objectives._models.recalibration import after_start
from survival_objectives._people import Features
from survival_objectives._people.histories import Path
from survival_objectives.censoring import CensoringModel, KaplanMeierCensoring

if TYPE_CHECKING:
    from survival_objectives._models.onnx.curves import CurveGraph
from survival_objectives._models.predictions import FittedPredictions

# Number of values in memory while contributions are computed: 2^22 doubles are 32 MB.
_CONTRIBUTIONS_SIZE = 2**22
# Number of intervals at which feature importances are computed.
_IMPORTANCE_INTERVALS = 4
# Curves by knots do not use the steps of a forest.
_NO_STEPS = Forest([], 1, 0, at_most=True)


@dataclass(frozen=True, eq=False)
class HazardMixture(FittedModel):
    """A mixture of hazard models, with curves that are linear between knots.

    Attributes
    ----------
    curves : KnotCurves
    mixture : Mixture
    importance : float64 array of shape (n_features,)
        Mean absolute contributions, see `with_importances`.
    limit : Limit, optional
        Side of the bands that curves are, in place of the estimate.
    """

    subject = "hazards"

    curves: KnotCurves
    mixture: Mixture
    importance: FloatArray
    limit: Limit | None = None

    @property
    def booster(self) -> Any:
        """The engine's model of the trees with the largest weight; None without trees."""
        heaviest = self.mixture.heaviest_trees()
        return None if heaviest is None else heaviest[1].evaluator.model

    @property
    def n_rounds(self) -> int:
        """Rounds of `booster`; 0 without trees."""
        heaviest = self.mixture.heaviest_trees()
        return 0 if heaviest is None else heaviest[1].n_rounds

    @property
    def member_weights(self) -> dict[str, float]:
        """Mixture weight of each kind of model."""
        return {kind: member.weight for kind, member in self.mixture.members.items()}

    @property
    def censoring(self) -> CensoringModel:
        """The marginal curve: hazards need no model of censoring."""
        return KaplanMeierCensoring.of_curve(self.frame.censoring_curve)

    @property
    def public(self) -> dict[str, Any]:
        return {"member_weights_": self.member_weights}

    def evaluators(self) -> dict[str, Evaluator]:
        return {
            name.replace(" ", "_"): model.trees.evaluator
            for name, (_, model) in self.mixture.members.items()
            if model.trees is not None
        }

    # -------------------------------------------------------------------------------- predictions
    def _steps(self) -> Forest:
        return _NO_STEPS

    @property
    def n_walked(self) -> int:
        return ENGINE_ROWS // self.mixture.n_intervals + 1

    def parts(self, n_samples: int, n_times: int = 1) -> Iterator[slice]:
        if self.limit is not None:
            n_times *= self.mixture.n_models
        return self.mixture.parts(n_samples, n_times)

    def _incidence(self, values: Float32Array, times: FloatArray) -> FloatArray:
        return self.curves.values(self.mixture.incidence(values), times)

    @property
    def has_bands(self) -> bool:
        return self.record.n_folds > 1 and self.frame.recalibration is None

    def at_limit(self, confidence: float, *, later: bool) -> HazardMixture:
        if self.frame.recalibration is not None:
            msg = (
                "`confidence` is not available after `recalibrate`: the folds of a model do not "
                "tell how wrong it is on other people. Leave it out, or train a model there."
            )
            raise ValueError(msg)
        if not self.has_bands:
            return super().at_limit(confidence, later=later)
        n_events = self.record.n_events
        assert n_events is not None
        return replace(self, limit=Limit(confidence, later, self.record.n_folds, n_events))

    def _fill(self, curves: FloatArray, values: Float32Array, times: FloatArray) -> None:
        super()._fill(curves, values, times)
        if self.limit is not None:
            curves[:] = self.limit.of(curves, self.curves_by_model(values, times))

    def curves_by_model(self, values: Float32Array, times: FloatArray) -> FloatArray:
        """Curves by the models without each fold, (L, n_samples, K + 1, n_times)."""
        at_knots = self.mixture.incidences_by_model(values)
        shape = len(at_knots), len(values), self.frame.n_causes + 1, times.shape[-1]
        curves = np.empty(shape)
        for own, incidence in zip(curves, at_knots, strict=True):
            own[:, 1:] = self.curves.values(incidence, times).transpose(2, 0, 1)
            own[:, 0] = np.maximum(1 - own[:, 1:].sum(axis=1), 0)
        return curves

    def along(self, features: Features, path: Path, times: FloatArray) -> FloatArray:
        return self._recalibrated(partial(self._plain_along, features, path), times)

    def _plain_along(self, features: Features, path: Path, times: FloatArray) -> FloatArray:
        found = np.empty((path.n_people, self.frame.n_causes + 1, times.shape[1]))
        position = self.curves.position(times)
        rows_per_person = len(path.order) / path.n_people
        n_people = self.mixture.n_in_memory(times.shape[1]) / max(1.0, rows_per_person)
        for people in parts_of(path.n_people, int(n_people)):
            _, own = path.take(people)
            values = features.values[own.order]
            begin = self.curves.position(own.start)
            walk = PathWalk.of(own, begin, position[people])
            incidence = np.zeros((self.frame.n_causes, *position[people].shape))
            for share, curves in self.mixture.knot_curves(values):
                incidence += share * walk.incidence(self.curves, curves)
            found[people, 1:] = incidence.transpose(1, 0, 2)
            found[people, 0] = np.maximum(1 - incidence.sum(axis=0), 0)
        return found

    def hazard(self, features: Features) -> tuple[FloatArray, FloatArray]:
        """Hazards of the intervals between knots, (n_samples, K, M), and the knots, (M + 1,)."""
        knots = self.curves.knots * (self.frame.axis.unit or 1.0)
        curves = after_start(self.incidence(features, knots[1:]))
        before = np.maximum(curves[:, :1, :-1], np.finfo(np.float64).tiny)
        return np.clip(np.diff(curves[:, 1:]) / before, 0.0, 1.0), knots

    # -------------------------------------------------------------------------------- explanation
    def interval_shares(self, time: float) -> FloatArray:
        """Shares omega of (81), (K, M): marginal shares of the intervals in the events by a time.

        A cause without events by that time gets the shares of all events; if there are none at
        all, the first interval has the whole share.
        """
        events = self._marginal_events()
        knots = self.curves.knots
        passed = (float(self.frame.axis.number(time)) - knots[:-1]) / np.diff(knots)
        events = events * np.clip(passed, 0.0, 1.0)
        first = np.zeros(events.shape[1])
        first[0] = 1.0
        all_causes = events.sum(axis=0) if events.any() else first
        has_none = ~events.any(axis=1)
        events[has_none] = all_causes
        shares: FloatArray = events / events.sum(axis=1, keepdims=True)
        return shares

    def _marginal_events(self) -> FloatArray:
        """Marginal probability of each cause in each interval, (K, M)."""
        hazard = self.curves.hazard
        stay = np.cumprod(1 - np.minimum(hazard.sum(axis=0), 1.0))
        events: FloatArray = hazard * np.append(1.0, stay[:-1])
        return events

    def shap_values(self, features: Features, times: FloatArray) -> FloatArray:
        """Contributions to the mean log-odds (81), (n_samples, K, n_features + 2, n_times)."""
        omega = np.stack([self.interval_shares(time) for time in times])
        shape = self.frame.n_causes, features.n_features + 2, len(times)
        n_people = _CONTRIBUTIONS_SIZE // ((omega.shape[-1] + len(times)) * shape[0] * shape[1])
        found = np.empty((features.n_samples, *shape))
        for people in parts_of(features.n_samples, n_people):
            found[people] = self.mixture.contributions(features.values[people], omega)
        return found

    def margin(self, features: Features, time: float) -> FloatArray:
        """The mean log-odds (81) that `shap_values` explains, (n_samples, K)."""
        return self.mixture.margin(features.values, self.interval_shares(time))

    def with_importances(self, values: Float32Array) -> HazardMixture:
        """The model with feature importances computed on ``values``.

        The importance is the mean absolute contribution to the log-odds of each cause at a few
        intervals; causes are weighted by their frequency.
        """
        events = self._marginal_events()
        at = np.cumsum(events.sum(axis=0))
        middle = (np.arange(_IMPORTANCE_INTERVALS) + 0.5) / _IMPORTANCE_INTERVALS
        intervals = np.searchsorted(at, middle * at[-1])
        share = np.bincount(intervals, minlength=len(at)) / _IMPORTANCE_INTERVALS
        omega = np.tile(share, (1, len(events), 1))
        found = self.mixture.contributions(values, omega)[..., 0]
        by_cause = np.abs(found[:, :, :-2]).mean(axis=0)
        importance: FloatArray = events.sum(axis=1) / events.sum() @ by_cause
        return replace(self, importance=importance)

    def importances(self) -> FloatArray:
        """Mean absolute contribution of each feature, over training people."""
        return self.importance

    def onnx_curves(self, graph: CurveGraph, features: str, times: str) -> str:
        from survival_objectives._hazards.onnx import mixture_incidence

        at_knots = mixture_incidence(graph, self.mixture, features)
        return graph.with_event_free(graph.at_times(at_knots, times), times)

    def decisive_values(self) -> dict[int, list[float]]:
        design, seen = self.mixture.design, dict[int, list[float]]()
        if design is not None:
            for column, kind, mean, scale in zip(
                design.feature, design.kind, design.mean, design.scale, strict=True
            ):
                if kind == NUMBER:
                    near = mean + scale * np.array([-5.0, -1, 0, 1, 5])
                    seen.setdefault(column, []).extend(near)
        return seen

    # -------------------------------------------------------------------------------- persistence
    def to_plain(self) -> dict[str, Any]:
        mixture, design = self.mixture, self.mixture.design
        return {
            "importance": self.importance.tolist(),
            "design": None if design is None else _design_content(design),
            "weights": self.member_weights,
            "models": {
                name: {
                    "levels": model.levels.tolist(),
                    "coefficients": None
                    if model.coefficients is None
                    else model.coefficients.tolist(),
                }
                for name, (_, model) in mixture.members.items()
            },
        }

    @classmethod
    def from_plain(
        cls,
        frame: ModelFrame,
        record: TrainingRecord,
        curves: KnotCurves,
        content: Mapping[str, Any],
        evaluators: Mapping[str, Evaluator],
    ) -> HazardMixture:
        """The model that `to_plain` and `evaluators` described."""

        def hazard_model(name: str) -> HazardModel:
            stored, own = content["models"][name], evaluators.get(name.replace(" ", "_"))
            coefficients = stored["coefficients"]
            levels = np.array(stored["levels"], np.float64)
            return HazardModel(
                levels,
                None if coefficients is None else np.array(coefficients, np.float64),
                None if own is None else HazardTrees(own, frame.n_causes, len(levels)),
            )

        members = {
            name: Member(float(weight), hazard_model(name))
            for name, weight in content["weights"].items()
        }
        mixture = Mixture(members, _design(content["design"]))
        return cls(frame, record, curves, mixture, np.array(content["importance"], np.float64))


def _design_content(design: LinearDesign) -> dict[str, Any]:
    return {
        "feature": list(design.feature),
        "kind": list(design.kind),
        "mean": design.mean.tolist(),
        "scale": design.scale.tolist(),
    }


def _design(content: Mapping[str, Any] | None) -> LinearDesign | None:
    if content is None:
        return None
    mean, scale = (np.array(content[name], np.float64) for name in ("mean", "scale"))
    return LinearDesign(tuple(content["feature"]), tuple(content["kind"]), mean, scale)


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

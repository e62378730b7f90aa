"""Models on horizons whose curves are averaged, such as those of the folds of a training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.forest import Forest
from survival_objectives._engines.protocol import Evaluator
from survival_objectives._horizons.model import HorizonModel
from survival_objectives._models.curves import CurveShape, KnotCurves
from survival_objectives._models.fitted import FittedModel, TrainingRecord
from survival_objectives._models.frame import ModelFrame
from survival_objectives._people import Features
from survival_objectives.censoring import CensoringModel

if TYPE_CHECKING:
    from survival_objectives._models.onnx.curves import CurveGraph


@dataclass(frozen=True, eq=False)
class HorizonMixture(FittedModel):
    """The mean of the curves of several models, which share columns, states, time axis and knots.

    Attributes
    ----------
    models : tuple of HorizonModel
        The first one is that of ``booster``.
    """

    subject = "averaged horizons"

    models: tuple[HorizonModel, ...]

    @classmethod
    def of(cls, models: Sequence[HorizonModel], record: TrainingRecord) -> HorizonMixture:
        """The mean of models; ``record`` is that of all their people."""
        return cls(models[0].frame, record, models[0].curves, tuple(models))

    @property
    def booster(self) -> Any:
        return self.models[0].booster

    @property
    def n_rounds(self) -> int:
        return self.models[0].n_rounds

    @property
    def is_monotone(self) -> bool:
        return all(model.is_monotone for model in self.models)

    @property
    def censoring(self) -> CensoringModel:
        return self.models[0].censoring

    @property
    def public(self) -> dict[str, Any]:
        return self.models[0].public

    @property
    def n_walked(self) -> int:
        return self.models[0].n_walked

    def parts(self, n_samples: int, n_times: int = 1) -> Iterator[slice]:
        return self.models[0].parts(n_samples, n_times)

    def _mean(self, of: Callable[[HorizonModel], FloatArray]) -> FloatArray:
        total = reduce(np.add, map(of, self.models))
        mean: FloatArray = total / len(self.models)
        return mean

    def _steps(self) -> Forest:
        own = [model.steps for model in self.models]
        breaks = reduce(np.union1d, [forest.breaks for forest in own])
        return Forest(
            [], own[0].n_margins, own[0].time_column, at_most=own[0].at_most, breaks=breaks
        )

    def _incidence(self, values: Float32Array, times: FloatArray) -> FloatArray:
        features = replace(self.schema, values=values)
        mean = self._mean(lambda model: model.incidence(features, times))
        return mean[:, 1:].transpose(1, 2, 0)

    def shap_values(self, features: Features, times: FloatArray) -> FloatArray:
        """Means of the models' contributions to their log-odds."""
        return self._mean(lambda model: model.shap_values(features, times))

    def importances(self) -> FloatArray:
        return self._mean(HorizonModel.importances)

    def onnx_curves(self, graph: CurveGraph, features: str, times: str) -> str:
        found = [model.onnx_curves(graph, features, times) for model in self.models]
        total = reduce(lambda one, other: graph.ops.op("Add", one, other), found)
        return graph.ops.op("Mul", total, graph.ops.constant(1 / len(found)))

    # -------------------------------------------------------------------------------- persistence
    def evaluators(self) -> dict[str, Evaluator]:
        return {
            f"{name}-{number}": trees
            for number, model in enumerate(self.models)
            for name, trees in model.evaluators().items()
        }

    def to_plain(self) -> dict[str, Any]:
        described = []
        for model in self.models:
            curves = model.curves
            knots = curves.to_plain() if isinstance(curves, KnotCurves) else None
            described.append({**model.to_plain(), "curves": knots})
        return {"models": described}

    @classmethod
    def from_plain(
        cls,
        frame: ModelFrame,
        record: TrainingRecord,
        curves: CurveShape,
        content: Mapping[str, Any],
        evaluators: Mapping[str, Evaluator],
    ) -> HorizonMixture:
        """The mixture that `to_plain` and `evaluators` described."""
        models = []
        for number, one in enumerate(content["models"]):
            names = ("events", "censoring")
            own = {
                name: evaluators[f"{name}-{number}"]
                for name in names
                if f"{name}-{number}" in evaluators
            }
            shape = KnotCurves.from_plain(frame.axis, one["curves"]) if one["curves"] else curves
            models.append(HorizonModel.from_plain(frame, record, shape, one, own))
        return cls(frame, record, curves, tuple(models))

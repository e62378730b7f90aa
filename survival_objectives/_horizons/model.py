"""A model on horizons as a fitted model: curves and their calibration, contributions, and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.forest import Forest, crossed_rows, monotone_incidence
from survival_objectives._engines.protocol import Evaluator
from survival_objectives._models.curves import CurveShape
from survival_objectives._models.fitted import ENGINE_ROWS, FittedModel, TrainingRecord, parts_of
from survival_objectives._models.frame import ModelFrame
from survival_objectives._people import Features
from survival_objectives.censoring import BoostedCensoring, CensoringModel, KaplanMeierCensoring
from survival_objectives.losses import probabilities
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import stacked_matrix

if TYPE_CHECKING:
    from survival_objectives._models.onnx.curves import CurveGraph
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from survival_objectives._engines.protocol import Trainer
from survival_objectives._models.curves import KnotCurves
from survival_objectives._models.fitted import TOLERANCE, few_people, way_out
from survival_objectives._models.frame import marginal_hazard, time_knots
from survival_objectives._people.cohort import Batches
from survival_objectives._people.population import Population, Reduction

if TYPE_CHECKING:
    from survival_objectives._models.onnx.curves import CurveGraph

# Number of curve values in memory during prediction: 2^24 doubles are 128 MB.
_PREDICTION_SIZE = 2**24


@dataclass(frozen=True, eq=False)
class HorizonModel(FittedModel):
    """Trees on features and horizon: margins are log-odds of the state at the horizon.

    Attributes
    ----------
    trees : Evaluator
        Trees of the events.
    censoring_trees : Evaluator, or None
        Trees of the boosted model of censoring.
    start : StepFunction
        Margins at which boosting started, by time, (n_steps, n_margins).
    censoring_start : StepFunction
        Log-odds of being censored at which the censoring model started, by time.
    monotone : bool
        Whether no incidence ever falls in time.
    own_censoring : CensoringModel, optional
        The user's own, which is not saved.
    """

    subject = "horizons"

    trees: Evaluator
    censoring_trees: Evaluator | None
    start: StepFunction
    censoring_start: StepFunction
    monotone: bool
    own_censoring: CensoringModel | None = None

    @property
    def booster(self) -> Any:
        return self.trees.model

    @property
    def n_rounds(self) -> int:
        return self.trees.n_rounds

    @property
    def is_monotone(self) -> bool:
        return self.monotone

    @property
    def censoring(self) -> CensoringModel:
        """The model that the user passed, else the boosted model, else the marginal curve."""
        if self.own_censoring is not None:
            return self.own_censoring
        if self.censoring_trees is None:
            return KaplanMeierCensoring.of_curve(self.frame.censoring_curve)
        return BoostedCensoring(
            _Margin(self.censoring_trees), self.censoring_start, self.schema, self.frame.axis
        )

    @property
    def reference(self) -> bool:
        """Whether margins are log-odds against the event-free state, without its own margin."""
        return self.trees.n_margins == self.frame.n_causes

    @property
    def public(self) -> dict[str, Any]:
        return {
            "censoring_method_": self.record.method,
            "refreshed_rounds_": self.record.refreshed_rounds,
            "n_floored_": self.record.n_floored,
        }

    def evaluators(self) -> dict[str, Evaluator]:
        if self.censoring_trees is None:
            return {"events": self.trees}
        return {"events": self.trees, "censoring": self.censoring_trees}

    # -------------------------------------------------------------------------------- predictions
    def _steps(self) -> Forest:
        return self.steps

    @cached_property
    def steps(self) -> Forest:
        """Steps in time between which margins are constant."""
        forest = self.trees.forest()
        if not len(self.start.times):
            return forest
        begin = self.start.times.astype(np.float32)
        if forest.at_most:
            begin = np.nextafter(begin, np.float32(-np.inf))
        return Forest(
            [],
            forest.n_margins,
            forest.time_column,
            at_most=forest.at_most,
            breaks=np.union1d(forest.breaks, begin),
        )

    @property
    def n_walked(self) -> int:
        return ENGINE_ROWS // self.trees.forest().n_steps + 1

    def parts(self, n_samples: int, n_times: int = 1) -> Iterator[slice]:
        size = _PREDICTION_SIZE if self.trees.forest().is_readable else ENGINE_ROWS
        n_steps = max(self.steps.n_steps, n_times)
        return parts_of(n_samples, size // (n_steps * (self.frame.n_causes + 1)))

    def _fill(self, curves: FloatArray, values: Float32Array, times: FloatArray) -> None:
        if self.is_monotone:
            super()._fill(curves, values, times)
            return
        at = self.steps.interval(self.frame.axis.prediction_time(times))
        curves[:] = self.step_probabilities(values)[:, at].transpose(2, 0, 1)

    def _incidence(self, values: Float32Array, times: FloatArray) -> FloatArray:
        return self.curves.incidence(self.step_probabilities(values)[1:], self.steps, times)

    def step_probabilities(
        self, values: Float32Array, engine_rows: int | None = None
    ) -> FloatArray:
        """Probabilities of all states on every step, (K + 1, n_steps, n_samples).

        The engine evaluates up to ``engine_rows`` rows, or all rows if the trees cannot be read.
        """
        forest, n_people = self.trees.forest(), len(values)
        limit = ENGINE_ROWS if engine_rows is None else engine_rows
        if forest.is_readable and n_people * forest.n_steps > limit:
            margins = forest.step_margins(values)
        else:
            margin = self.trees.sum_of_trees(crossed_rows(values, forest.representatives()))
            margins = margin.reshape(n_people, forest.n_steps, -1).transpose(2, 1, 0)
        steps, begin = self.steps, self.steps.representatives()
        if steps is not forest:
            margins = margins[:, forest.interval(begin)]
        margins = margins + self.start(begin).T[:, :, None]
        flat = margins.reshape(len(margins), -1).T
        proba = probabilities(flat, reference=self.reference).T
        proba = np.ascontiguousarray(proba).reshape(-1, steps.n_steps, n_people)
        if self.is_monotone:
            proba[1:] = monotone_incidence(proba[1:])
            # Rounding may push the sum of all causes just above 1.
            proba[0] = np.maximum(1 - proba[1:].sum(axis=0), 0)
        return proba

    # -------------------------------------------------------------------------------- explanation
    def shap_values(self, features: Features, times: FloatArray) -> FloatArray:
        """TreeSHAP of log-odds at each time, (n_samples, K, n_features + 2, n_times)."""
        people = np.arange(features.n_samples)
        shape = features.n_samples, self.frame.n_causes, features.n_features + 2, len(times)
        found = np.empty(shape)
        at = self.frame.axis.prediction_time(times).astype(np.float32)
        for column, time in enumerate(at):
            rows = stacked_matrix(features, people, np.full(len(people), time))
            values = self.trees.shap_values(rows)
            values[:, :, -1] += self.start(time)
            # With one margin per state, log-odds against event-free are differences.
            is_free = values.shape[1] > self.frame.n_causes
            found[..., column] = values[:, 1:] - values[:, :1] if is_free else values
        return found

    def importances(self) -> FloatArray:
        """Total gain of the splits on each feature."""
        return self.trees.importances()[:-1]

    def onnx_curves(self, graph: CurveGraph, features: str, times: str) -> str:
        from survival_objectives._horizons.onnx import horizon_curves

        return horizon_curves(self, graph, features, times)

    # -------------------------------------------------------------------------------- persistence
    def to_plain(self) -> dict[str, Any]:
        return {
            "start": self.start.to_plain(),
            "censoring_start": self.censoring_start.to_plain(),
            "n_estimators": self.n_rounds,
            "monotone": self.monotone,
        }

    @classmethod
    def from_plain(
        cls,
        frame: ModelFrame,
        record: TrainingRecord,
        curves: CurveShape,
        content: Mapping[str, Any],
        evaluators: Mapping[str, Evaluator],
    ) -> HorizonModel:
        """The model that `to_plain` and `evaluators` described."""
        trees = evaluators["events"]
        if trees.n_rounds != content["n_estimators"]:
            msg = (
                f"n_estimators is {content['n_estimators']}, but there are {trees.n_rounds} rounds"
            )
            raise ValueError(msg)
        return cls(
            frame,
            record,
            curves,
            trees,
            evaluators.get("censoring"),
            StepFunction.from_plain(content["start"]),
            StepFunction.from_plain(content["censoring_start"]),
            content["monotone"],
        )


class _Margin:
    """Trees of the censoring model as a MarginModel."""

    def __init__(self, trees: Evaluator) -> None:
        self.trees = trees

    def margin(self, matrix: Float32Array, start: FloatArray) -> FloatArray:
        return self.trees.sum_of_trees(matrix)[:, 0] + start


# Number of training people on whom the calibration is estimated.
_CALIBRATION_PEOPLE = 20_000


def calibrated_curves(
    model: HorizonModel,
    batches: Batches,
    population: Population,
    *,
    n_intervals: int,
    trained_until: float,
    reduction: Reduction,
    seed: int,
    knots: FloatArray | None = None,
) -> KnotCurves:
    """Curves between knots, calibrated in time on training people.

    Outcomes are aligned to the time axis. Models that share ``knots`` can be averaged.
    """
    axis, t_max = model.frame.axis, model.frame.t_max
    if knots is None:
        knots = time_knots(axis, population.event_times(t_max), t_max, n_intervals)
    marginal = marginal_hazard(axis, knots, population.target, population.weight)
    shape = KnotCurves(axis, knots, *marginal.uncalibrated(axis, knots, trained_until))
    n_intervals = len(knots) - 1
    crossed = np.zeros((population.target.n_causes, n_intervals, n_intervals))
    at_risk = np.zeros(n_intervals)
    breaks = model.steps.breaks
    for some in batches.sample(_CALIBRATION_PEOPLE, np.random.default_rng([seed, 1])):
        for part in model.parts(some.n_samples):
            rows = some.take(np.arange(part.start, part.stop))
            # Cluster workers hold different numbers of people, so none may call the engine, whose
            # matrices are built by all workers together.
            steps = model.step_probabilities(rows.features.values, engine_rows=0)[1:]
            added = shape.crossed(shape.cells(steps, breaks), rows.target, rows.weight)
            crossed += added[0]
            at_risk += added[1]
    return shape.calibrated(marginal, reduction.sum(crossed), reduction.sum(at_risk))


_MOST_STEPS = 64


def check_prediction_paths(
    trained: Trainer, fitted: HorizonModel, values: Float32Array, engine_params: Mapping[str, Any]
) -> None:
    """Raise a RuntimeError if ways of predicting the same probability differ by over 1e-5.

    Parameters
    ----------
    trained : Trainer
        The model as it was trained.
    fitted : HorizonModel
        The model used for prediction: the engine's single model, and its trees.
    values : array of shape (n_samples, n_features)
        Features; a few rows are checked.
    engine_params : mapping
        The user's settings, named in the error.
    """
    forest, n_rounds = fitted.trees.forest(), fitted.n_rounds
    people = few_people(values)
    steps = np.unique(
        np.linspace(0, forest.n_steps - 1, min(forest.n_steps, _MOST_STEPS)).astype(np.int64)
    )
    begin = forest.representatives()
    end = np.append(np.nextafter(begin[1:], np.float32(-np.inf)), 2 * begin[-1] + 1)
    end = np.maximum(begin, end)

    rows, later = crossed_rows(people, begin[steps]), crossed_rows(people, end[steps])
    start = fitted.start(rows[:, -1])

    def proba(margins: FloatArray) -> FloatArray:
        return probabilities(margins + start, reference=fitted.reference)

    expected = proba(fitted.trees.sum_of_trees(rows))
    found = {
        "its chunks of rounds, as they were trained": proba(
            trained.sum_of_trees(rows, 0, n_rounds)
        ),
        "itself at another time between the same two splits on time": proba(
            fitted.trees.sum_of_trees(later)
        ),
    }
    if forest.is_readable:
        margins = forest.step_margins(people)[:, steps]
        found["the trees that are read off it"] = proba(
            margins.transpose(2, 1, 0).reshape(len(rows), -1)
        )
    for other, values_of_other in found.items():
        difference = float(np.abs(values_of_other - expected).max())
        if not difference <= TOLERANCE:
            msg = (
                f"The trained model and {other} differ by up to {difference:.2g} in their "
                f"probabilities, so predictions are not reliable. {way_out(engine_params)}"
            )
            raise RuntimeError(msg)


# ----------------------------------------------------------------------------------------- mixtures
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

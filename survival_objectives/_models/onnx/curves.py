"""The ONNX graph of a fitted model: from features to the probabilities of all states at times.

The graph follows the Python code for prediction step by step. Operations with constants (averages
around knots, calibration in time) are linear; their matrices are computed by that code.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._engines.forest import Forest, averaged_incidence
from survival_objectives._hazards.linear import FARTHEST, MISSING, LinearDesign
from survival_objectives._hazards.mixture import HazardModel, Mixture
from survival_objectives._hazards.model import HazardMixture
from survival_objectives._models.curves import KnotCurves
from survival_objectives._models.fitted import FittedModel, StackedModel
from survival_objectives._models.onnx.graph import Graph, forest_margins
from survival_objectives._people import Features
from survival_objectives._people.time_axis import ANSWER_SHARE, UNIT_ROUNDING
from survival_objectives._version import __version__

_DOC = (
    "Probabilities of all states (people, states, times); state 0 is event-free, the others are "
    "cumulative incidences. The metadata name the columns, the levels of categories and the states."
)


def column_name(schema: Features, column: int) -> str:
    return f"column {column}" if schema.names is None else schema.names[column]


def level_text(level: Any) -> str:
    return level if isinstance(level, str) else str(level)


class CurveGraph:
    """The graph of one model while it is built."""

    def __init__(self, source: FittedModel, times: FloatArray | None, *, as_text: bool) -> None:
        import onnx

        self._onnx = onnx
        self._source = source
        self._grid = times
        self._as_text = as_text
        self._graph = Graph(onnx)
        categories = source.schema.categories
        self._n_levels = {column: len(levels) for column, levels in categories.items()}
        self._n_causes = source.frame.n_causes

    def model(self) -> Any:
        """The ModelProto."""
        graph, source = self._graph, self._source
        features = self._text_features() if self._as_text else self._coded_features()
        if self._grid is None:
            times = graph.input("times", np.float64, ["n_times"])
        else:
            times = graph.constant(self._grid)
        if isinstance(source, StackedModel):
            curves = self._stacked(source, features, times)
        else:
            assert isinstance(source, HazardMixture)
            at_knots = self._mixture(source.mixture, features)
            curves = self._with_event_free(self._at_times(at_knots, times), times)
        n_times = "n_times" if self._grid is None else len(self._grid)
        return graph.model(
            curves,
            ["n_people", self._n_causes + 1, n_times],
            self._metadata(),
            producer=("survival-objectives", __version__),
            doc=_DOC,
        )

    def _metadata(self) -> dict[str, str]:
        frame, schema = self._source.frame, self._source.schema
        names = [column_name(schema, column) for column in range(schema.n_features)]
        content: dict[str, Any] = {
            "columns": names,
            "categories": {
                names[column]: [level_text(level) for level in levels]
                for column, levels in schema.categories.items()
            },
            "event_ids": frame.event_ids.tolist(),
            "event_names": list(frame.state_names),
        }
        if self._grid is not None:
            content["times"] = self._grid.tolist()
        return {key: json.dumps(value) for key, value in content.items()}

    # ------------------------------------------------------------------------------------ features
    def _coded_features(self) -> str:
        """Float64 features; a code that belongs to no level becomes missing."""
        graph, n_features = self._graph, self._source.schema.n_features
        given = graph.input("features", np.float32, ["n_people", n_features])
        features = graph.cast(given, np.float64)
        if not self._n_levels:
            return features
        last = np.full(n_features, np.inf)
        first, step = -last, np.zeros(n_features)
        for column, n_levels in self._n_levels.items():
            first[column], last[column], step[column] = 0, n_levels - 1, 1
        whole = graph.op("Floor", features)
        off = graph.op("Mul", graph.op("Sub", features, whole), graph.constant(step))
        is_unknown = graph.op(
            "Or",
            graph.op("Greater", off, graph.constant(0.0)),
            graph.op(
                "Or",
                graph.op("Less", features, graph.constant(first)),
                graph.op("Greater", features, graph.constant(last)),
            ),
        )
        return graph.op("Where", is_unknown, graph.constant(np.nan), features)

    def _text_features(self) -> str:
        """Float64 features in the order of training, from numbers and from text."""
        graph, schema = self._graph, self._source.schema
        numbers = [c for c in range(schema.n_features) if c not in self._n_levels]
        parts = []
        if numbers:
            given = graph.input("features", np.float32, ["n_people", len(numbers)])
            parts.append(graph.cast(given, np.float64))
        categorical = sorted(self._n_levels)
        if categorical:
            text = graph.input("categories", np.str_, ["n_people", len(categorical)])
        for position, column in enumerate(categorical):
            levels = [level_text(level) for level in schema.categories[column]]
            code = graph.op(
                "LabelEncoder",
                graph.part(text, 1, position, position + 1),
                domain="ai.onnx.ml",
                keys_strings=levels,
                values_floats=[float(code) for code in range(len(levels))],
                default_float=float("nan"),
            )
            parts.append(graph.cast(code, np.float64))
        joined = graph.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
        return graph.take(joined, np.argsort(numbers + categorical), 1)

    def _design(self, design: LinearDesign, features: str) -> str:
        """Standardised columns of the linear part, (n_samples, n_columns); see `LinearDesign`."""
        graph, kind = self._graph, np.array(design.kind)
        column = graph.take(features, design.feature, 1)
        is_missing = graph.op("IsNaN", column)
        level = graph.cast(graph.op("Equal", column, graph.constant(kind)), np.float64)
        level = graph.op("Where", is_missing, graph.constant(np.nan), level)
        column = graph.op("Where", graph.constant(kind >= 0, np.bool_), level, column)
        column = graph.op(
            "Where",
            graph.constant(kind == MISSING, np.bool_),
            graph.cast(is_missing, np.float64),
            column,
        )
        centred = graph.op("Sub", column, graph.constant(design.mean))
        scaled = graph.op("Div", centred, graph.constant(design.scale))
        clipped = graph.op("Clip", scaled, graph.constant(-FARTHEST), graph.constant(FARTHEST))
        return graph.op("Where", graph.op("IsNaN", scaled), graph.constant(0.0), clipped)

    # ------------------------------------------------------------------------------------- hazards
    def _mixture(self, mixture: Mixture, features: str) -> str:
        """Incidences at knots, (n_samples, K, M + 1): the weighted mean of all members."""
        graph, design = self._graph, None
        if mixture.design is not None and mixture.design.n_columns:
            design = self._design(mixture.design, features)
        total: str | None = None
        for share, hazard in mixture.members.values():
            curves = self._knot_incidence(self._hazard_margin(hazard, features, design))
            curves = graph.op("Mul", curves, graph.constant(share))
            total = curves if total is None else graph.op("Add", total, curves)
        assert total is not None
        return total

    def _hazard_margin(self, hazard: HazardModel, features: str, design: str | None) -> str:
        """Margins of the causes against staying event-free, (n_samples, K, M)."""
        graph = self._graph
        margin = graph.per_person(hazard.level, features)
        if hazard.slopes is not None and design is not None:
            linear = graph.op("MatMul", design, graph.constant(hazard.slopes.T))
            margin = graph.op("Add", margin, graph.reshape(linear, (-1, self._n_causes, 1)))
        if hazard.trees is not None:
            forest = hazard.trees.forest
            steps = forest_margins(graph, self._onnx, forest, features, self._n_levels)
            trees = graph.take(steps, forest.interval(np.arange(hazard.level.shape[1])), 2)
            if forest.n_margins > self._n_causes:
                causes = graph.part(trees, 1, 1, self._n_causes + 1)
                trees = graph.op("Sub", causes, graph.part(trees, 1, 0, 1))
            margin = graph.op("Add", margin, trees)
        return margin

    def _knot_incidence(self, margin: str) -> str:
        """Incidences at knots from margins of hazards; see `hazards.knot_incidence`."""
        graph = self._graph
        # log(1 + sum exp margin), stabilised by the largest term.
        top = graph.op(
            "Max", graph.op("ReduceMax", margin, axes=[1], keepdims=1), graph.constant(0.0)
        )
        odds = graph.sum(graph.op("Exp", graph.op("Sub", margin, top)), 1)
        total = graph.op("Add", odds, graph.op("Exp", graph.op("Neg", top)))
        log_total = graph.op("Add", graph.op("Log", total), top)
        log_before = graph.op("Neg", graph.running_sum(log_total, 2, exclusive=True))
        log_rise = graph.op("Add", graph.op("Sub", margin, log_total), log_before)
        risen = graph.running_sum(graph.op("Exp", log_rise), 2)
        return graph.after_zero(risen)

    # ------------------------------------------------------------------------------- stacked trees
    def _stacked(self, stacked: StackedModel, features: str, times: str) -> str:
        """Probabilities of all states at times, (n_samples, K + 1, n_times)."""
        graph, forest, shape = self._graph, stacked.trees.forest(), stacked.curves
        proba = self._step_probabilities(stacked, features)
        if not stacked.is_monotone:
            return graph.take(proba, self._steps(forest, times), 2)
        steps = graph.part(proba, 1, 1, self._n_causes + 1)
        steps = self._monotone(steps, forest.n_steps)
        if isinstance(shape, KnotCurves):
            hazard = self._calibrated(shape, steps, forest.breaks, features)
            incidence = self._at_times(self._from_hazards(hazard), times)
        else:
            incidence = graph.take(steps, self._steps(forest, times), 2)
        return self._with_event_free(incidence, times)

    def _step_probabilities(self, stacked: StackedModel, features: str) -> str:
        graph, forest = self._graph, stacked.trees.forest()
        margin = forest_margins(graph, self._onnx, forest, features, self._n_levels)
        margin = graph.op("Add", margin, graph.constant(stacked.start[None, :, None]))
        if stacked.reference:
            first = graph.op("Mul", graph.part(margin, 1, 0, 1), graph.constant(0.0))
            margin = graph.op("Concat", first, margin, axis=1)
        return graph.op("Softmax", margin, axis=1)

    def _monotone(self, steps: str, n_steps: int) -> str:
        """Incidences made non-decreasing; see `trees.monotone_incidence`."""
        graph = self._graph
        highest = graph.running_extreme(steps, "Max", n_steps, backward=False)
        lowest = graph.running_extreme(steps, "Min", n_steps, backward=True)
        smoothed = graph.op("Mul", graph.op("Add", highest, lowest), graph.constant(0.5))
        total = graph.sum(graph.part(smoothed, 2, n_steps - 1, n_steps), 1)
        return graph.op("Div", smoothed, graph.op("Max", total, graph.constant(1.0)))

    def _cells(self, shape: KnotCurves, steps: str, breaks: FloatArray) -> str:
        """Averages around the trained knots, (n_samples, K, n_trained); see `KnotCurves.cells`."""
        graph = self._graph
        centre, radius = shape.cell_windows()
        # Averages are linear: jumps at the start of each step times the effect of a unit jump.
        n_steps, n_trained = len(breaks) + 1, len(centre)
        jumps_of_1 = np.tril(np.ones((n_steps, n_steps)))[None]
        adds = averaged_incidence(jumps_of_1, breaks, centre, radius)[0].T
        jumps = graph.part(steps, 2, 0, 1)
        if n_steps > 1:
            later, earlier = (graph.part(steps, 2, first, first + n_steps - 1) for first in (1, 0))
            jumps = graph.op("Concat", jumps, graph.op("Sub", later, earlier), axis=2)
        cells = graph.op("MatMul", jumps, graph.constant(adds))
        stretch = shape.last_stretch()
        if stretch == 1:
            return cells
        before = graph.part(cells, 2, n_trained - 2, n_trained - 1)
        last = graph.part(cells, 2, n_trained - 1, n_trained)
        risen = graph.op("Mul", graph.op("Sub", last, before), graph.constant(stretch))
        last = graph.op("Add", before, risen)
        last = graph.op("Div", last, graph.op("Max", graph.sum(last, 1), graph.constant(1.0)))
        return graph.op("Concat", graph.part(cells, 2, 0, n_trained - 1), last, axis=2)

    def _calibrated(self, shape: KnotCurves, steps: str, breaks: FloatArray, features: str) -> str:
        """Calibrated hazards between knots, (n_samples, K, M); see `KnotCurves.at_knots`."""
        graph = self._graph
        n_trained, n_intervals = len(shape.trained_knots), len(shape.knots) - 1
        # Calibration is affine in the hazards: a constant, and the effect of unit hazards.
        factor = shape.factor[:, :, None]
        constant = shape.mixed(np.zeros((self._n_causes, n_intervals, 1))) * factor
        if n_trained == 0:
            return graph.per_person(constant[:, :, 0], features)
        units = np.tile(np.eye(n_intervals)[:, :n_trained], (self._n_causes, 1, 1))
        slope = (shape.mixed(units) * factor - constant).transpose(0, 2, 1)
        axis = graph.constant([2], np.int64)
        own = self._cell_hazards(self._cells(shape, steps, breaks), n_trained)
        mixed = graph.op("MatMul", graph.op("Unsqueeze", own, axis), graph.constant(slope[None]))
        mixed = graph.op("Squeeze", mixed, axis)
        return graph.op("Add", mixed, graph.constant(constant[None, :, :, 0]))

    def _from_hazards(self, hazard: str) -> str:
        """Incidences at knots, (n_samples, K, M + 1), from hazards that may sum to more than 1."""
        graph = self._graph
        total = graph.sum(hazard, 1)
        hazard = graph.op("Div", hazard, graph.op("Max", total, graph.constant(1.0)))
        stay = graph.op("Sub", graph.constant(1.0), graph.op("Min", total, graph.constant(1.0)))
        # The logarithm of 0 is -inf, whose running sums have the exponential 0.
        log_before = graph.running_sum(graph.op("Log", stay), 2, exclusive=True)
        risen = graph.op("Mul", hazard, graph.op("Exp", log_before))
        return graph.after_zero(graph.running_sum(risen, 2))

    def _cell_hazards(self, cells: str, n_trained: int) -> str:
        """Hazards between trained knots, (n_samples, K, n_trained)."""
        graph = self._graph
        earlier = graph.part(graph.after_zero(cells), 2, 0, n_trained)
        left = graph.op("Sub", graph.constant(1.0), graph.sum(earlier, 1))
        survival = graph.op("Max", left, graph.constant(0.0))
        risen = graph.op("Max", graph.op("Sub", cells, earlier), graph.constant(0.0))
        enough = graph.op("Greater", survival, risen)
        # If survival is 0, any further rise has a hazard of 1.
        ended = graph.cast(graph.op("Greater", risen, graph.constant(0.0)), np.float64)
        divisor = graph.op("Where", enough, survival, graph.constant(1.0))
        return graph.op("Where", enough, graph.op("Div", risen, divisor), ended)

    # ---------------------------------------------------------------------------------------- time
    def _numbers(self, times: str) -> str:
        """Numbers of units; see `TimeAxis.number`."""
        graph, unit = self._graph, self._source.frame.axis.unit
        if not unit:
            return times
        multiples = graph.op("Div", times, graph.constant(unit))
        return graph.op("Floor", graph.op("Add", multiples, graph.constant(UNIT_ROUNDING)))

    def _n_passed(self, values: FloatArray, times: str, comparison: str) -> str:
        """Number of sorted values for which the comparison with each time holds, (n_times,)."""
        graph = self._graph
        passed = graph.op(comparison, graph.constant(values[None]), graph.reshape(times, (-1, 1)))
        count = graph.sum(graph.cast(passed, np.int64), 1)
        return graph.reshape(count, (-1,))

    def _steps(self, forest: Forest, times: str) -> str:
        """The step of the forest that contains each time; see `Forest.interval`."""
        graph, unit = self._graph, self._source.frame.axis.unit
        if unit:
            answer = graph.op("Add", self._numbers(times), graph.constant(ANSWER_SHARE))
            times = graph.op("Mul", answer, graph.constant(unit))
        rounded = graph.cast(graph.cast(times, np.float32), np.float64)
        return self._n_passed(forest.breaks, rounded, "Less" if forest.at_most else "LessOrEqual")

    def _at_times(self, at_knots: str, times: str) -> str:
        """Incidences at times, (n_samples, K, n_times); see `KnotCurves.values`."""
        graph, shape = self._graph, self._source.curves
        assert isinstance(shape, KnotCurves)
        place = self._numbers(times)
        if not shape.axis.unit:
            # The float32 of a knot is that knot, as in `KnotCurves.values`.
            place = graph.cast(graph.cast(place, np.float32), np.float64)
        one, last = (graph.constant(number, np.int64) for number in (1, len(shape.knots) - 1))
        right = graph.op("Clip", self._n_passed(shape.knots, place, "Less"), one, last)
        left = graph.op("Sub", right, one)
        knots = graph.constant(shape.knots)
        begin, end = graph.take(knots, left, 0), graph.take(knots, right, 0)
        share = graph.op("Div", graph.op("Sub", place, begin), graph.op("Sub", end, begin))
        share = graph.op("Clip", share, graph.constant(0.0), graph.constant(1.0))
        low, high = graph.take(at_knots, left, 2), graph.take(at_knots, right, 2)
        return graph.op("Add", low, graph.op("Mul", share, graph.op("Sub", high, low)))

    def _with_event_free(self, incidence: str, times: str) -> str:
        """All states; at time 0 all people are event-free, unless curves know of events then."""
        graph = self._graph
        if not self._source.curves.has_time_zero:
            began = graph.op("Greater", times, graph.constant(0.0))
            incidence = graph.op("Mul", incidence, graph.cast(began, np.float64))
        left = graph.op("Sub", graph.constant(1.0), graph.sum(incidence, 1))
        return graph.op("Concat", graph.op("Max", left, graph.constant(0.0)), incidence, axis=1)

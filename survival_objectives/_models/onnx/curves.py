"""The ONNX graph of a fitted model: from features to the probabilities of all states at times.

The graph follows the Python code for prediction step by step. Operations with constants (averages
around knots, calibration in time) are linear; their matrices are computed by that code.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._engines.forest import Forest
from survival_objectives._models.curves import KnotCurves
from survival_objectives._models.fitted import FittedModel
from survival_objectives._models.onnx.graph import Graph, forest_margins
from survival_objectives._models.recalibration import LEAST
from survival_objectives._people import Features
from survival_objectives._people.population import ANSWER_SHARE, UNIT_ROUNDING
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
    """The graph of one model while it is built.

    Attributes
    ----------
    ops : Graph
        The operations so far.
    n_causes : int
    """

    def __init__(self, source: FittedModel, times: FloatArray | None, *, as_text: bool) -> None:
        import onnx

        self._onnx = onnx
        self._source = source
        self._grid = times
        self._as_text = as_text
        self.ops = Graph(onnx)
        categories = source.schema.categories
        self._n_levels = {column: len(levels) for column, levels in categories.items()}
        self.n_causes = source.frame.n_causes

    def model(self) -> Any:
        """The ModelProto."""
        graph = self.ops
        features = self._text_features() if self._as_text else self._coded_features()
        if self._grid is None:
            times = graph.input("times", np.float64, ["n_times"])
        else:
            times = graph.constant(self._grid)
        curves = self._recalibrated(features, times)
        n_times = "n_times" if self._grid is None else len(self._grid)
        return graph.model(
            curves,
            ["n_people", self.n_causes + 1, n_times],
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
        graph, n_features = self.ops, self._source.schema.n_features
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
        graph, schema = self.ops, self._source.schema
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

    # ------------------------------------------------------------------------------ recalibration
    def _recalibrated(self, features: str, times: str) -> str:
        """Curves of the model, recalibrated on other people; see `Recalibration.curves`."""
        ops, source, found = self.ops, self._source, self._source.frame.recalibration
        if found is None:
            return source.onnx_curves(self, features, times)
        knots, n_causes = np.array(found.knots), self.n_causes
        last, end = len(knots) - 1, np.iinfo(np.int64).max
        one, tiny = ops.constant(1.0), ops.constant(LEAST)
        ends = ops.constant(knots[1:] * (source.frame.axis.unit or 1.0))
        curves = source.onnx_curves(self, features, ops.op("Concat", ends, times, axis=0))
        causes = ops.part(curves, 1, 1, n_causes + 1)
        old, at = ops.after_zero(ops.part(causes, 2, 0, last)), ops.part(causes, 2, last, end)
        earlier = ops.part(old, 2, 0, last)
        before = ops.op("Max", ops.op("Sub", one, ops.sum(earlier, 1)), tiny)
        hazard = ops.op("Div", ops.op("Sub", ops.part(old, 2, 1, last + 1), earlier), before)
        stay = ops.op("Max", ops.op("Sub", one, ops.sum(hazard, 1)), tiny)
        margin = ops.op("Log", ops.op("Max", ops.op("Div", hazard, stay), tiny))
        constant, slope = found.affine
        margin = ops.op("Mul", margin, ops.constant(slope[None]))
        odds = ops.op("Exp", ops.op("Add", margin, ops.constant(constant[None])))
        total = ops.op("Add", one, ops.sum(odds, 1))
        log_before = ops.op("Neg", ops.running_sum(ops.op("Log", total), 2, exclusive=True))
        risen = ops.op("Mul", ops.op("Div", odds, total), ops.op("Exp", log_before))
        new = ops.after_zero(ops.running_sum(risen, 2))
        first, size = ops.constant(1, np.int64), ops.constant(last, np.int64)
        right = ops.op("Clip", self._n_passed(knots, self._numbers(times), "Less"), first, size)
        left = ops.op("Sub", right, first)
        low, rise = self._low_and_rise(old, left, right)
        rises = ops.op("Greater", rise, ops.constant(0.0))
        share = ops.op("Div", ops.op("Sub", at, low), ops.op("Where", rises, rise, one))
        share = ops.op("Where", rises, ops.op("Clip", share, ops.constant(0.0), one), tiny)
        low, rise = self._low_and_rise(new, left, right)
        return self.with_event_free(ops.op("Add", low, ops.op("Mul", share, rise)), times)

    def _low_and_rise(self, at_knots: str, left: str, right: str) -> tuple[str, str]:
        """Values at the knots before times, and the rise up to the knots after them."""
        low, high = (self.ops.take(at_knots, position, 2) for position in (left, right))
        return low, self.ops.op("Sub", high, low)

    # ------------------------------------------------------------------------------ trees, time
    def forest_margins(self, forest: Forest, features: str) -> str:
        """Sums of all trees on every step, (n_samples, n_margins, n_steps)."""
        return forest_margins(self.ops, self._onnx, forest, features, self._n_levels)

    def _numbers(self, times: str) -> str:
        """Numbers of units; see `TimeAxis.number`."""
        graph, unit = self.ops, self._source.frame.axis.unit
        if not unit:
            return times
        multiples = graph.op("Div", times, graph.constant(unit))
        return graph.op("Floor", graph.op("Add", multiples, graph.constant(UNIT_ROUNDING)))

    def _n_passed(self, values: FloatArray, times: str, comparison: str) -> str:
        """Number of sorted values for which the comparison with each time holds, (n_times,)."""
        graph = self.ops
        passed = graph.op(comparison, graph.constant(values[None]), graph.reshape(times, (-1, 1)))
        count = graph.sum(graph.cast(passed, np.int64), 1)
        return graph.reshape(count, (-1,))

    def steps(self, forest: Forest, times: str) -> str:
        """The step of the forest that contains each time; see `Forest.interval`."""
        graph, unit = self.ops, self._source.frame.axis.unit
        if unit:
            answer = graph.op("Add", self._numbers(times), graph.constant(ANSWER_SHARE))
            times = graph.op("Mul", answer, graph.constant(unit))
        rounded = graph.cast(graph.cast(times, np.float32), np.float64)
        return self._n_passed(forest.breaks, rounded, "Less" if forest.at_most else "LessOrEqual")

    def at_times(self, at_knots: str, times: str) -> str:
        """Incidences at times, (n_samples, K, n_times); see `KnotCurves.values`."""
        graph, shape = self.ops, self._source.curves
        assert isinstance(shape, KnotCurves)
        position = self._numbers(times)
        if not shape.axis.unit:
            # The float32 of a knot is that knot, as in `KnotCurves.values`.
            position = graph.cast(graph.cast(position, np.float32), np.float64)
        one, last = (graph.constant(number, np.int64) for number in (1, len(shape.knots) - 1))
        right = graph.op("Clip", self._n_passed(shape.knots, position, "Less"), one, last)
        left = graph.op("Sub", right, one)
        knots = graph.constant(shape.knots)
        begin, end = graph.take(knots, left, 0), graph.take(knots, right, 0)
        share = graph.op("Div", graph.op("Sub", position, begin), graph.op("Sub", end, begin))
        share = graph.op("Clip", share, graph.constant(0.0), graph.constant(1.0))
        low, high = graph.take(at_knots, left, 2), graph.take(at_knots, right, 2)
        return graph.op("Add", low, graph.op("Mul", share, graph.op("Sub", high, low)))

    def with_event_free(self, incidence: str, times: str) -> str:
        """All states; at time 0 all people are event-free, unless curves know of events then."""
        graph = self.ops
        if not self._source.curves.has_time_zero:
            began = graph.op("Greater", times, graph.constant(0.0))
            incidence = graph.op("Mul", incidence, graph.cast(began, np.float64))
        left = graph.op("Sub", graph.constant(1.0), graph.sum(incidence, 1))
        return graph.op("Concat", graph.op("Max", left, graph.constant(0.0)), incidence, axis=1)

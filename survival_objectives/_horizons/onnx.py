"""The ONNX graph of a model on horizons; it follows the Python code for prediction step by step.

Operations with constants (averages around knots, calibration in time) are linear; their matrices
are computed by that code.
"""

from __future__ import annotations

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._engines.forest import averaged_incidence
from survival_objectives._horizons.model import HorizonModel
from survival_objectives._models.curves import KnotCurves
from survival_objectives._models.onnx.curves import CurveGraph


def horizon_curves(stacked: HorizonModel, graph: CurveGraph, features: str, times: str) -> str:
    """Probabilities of all states at times, (n_samples, K + 1, n_times)."""
    ops, time_steps, shape = graph.ops, stacked.steps, stacked.curves
    proba = _step_probabilities(graph, stacked, features)
    if not stacked.is_monotone:
        return ops.take(proba, graph.steps(time_steps, times), 2)
    steps = ops.part(proba, 1, 1, graph.n_causes + 1)
    steps = _monotone(graph, steps, time_steps.n_steps)
    if isinstance(shape, KnotCurves):
        hazard = _calibrated(graph, shape, steps, time_steps.breaks, features)
        incidence = graph.at_times(_from_hazards(graph, hazard), times)
    else:
        incidence = ops.take(steps, graph.steps(time_steps, times), 2)
    return graph.with_event_free(incidence, times)


def _step_probabilities(graph: CurveGraph, stacked: HorizonModel, features: str) -> str:
    ops, forest = graph.ops, stacked.trees.forest()
    margin = graph.forest_margins(forest, features)
    begin = stacked.steps.representatives()
    if stacked.steps is not forest:
        margin = ops.take(margin, forest.interval(begin), 2)
    margin = ops.op("Add", margin, ops.constant(stacked.start(begin).T[None]))
    if stacked.reference:
        first = ops.op("Mul", ops.part(margin, 1, 0, 1), ops.constant(0.0))
        margin = ops.op("Concat", first, margin, axis=1)
    return ops.op("Softmax", margin, axis=1)


def _monotone(graph: CurveGraph, steps: str, n_steps: int) -> str:
    """Incidences made non-decreasing; see `trees.monotone_incidence`."""
    ops = graph.ops
    highest = ops.running_extreme(steps, "Max", n_steps, backward=False)
    lowest = ops.running_extreme(steps, "Min", n_steps, backward=True)
    smoothed = ops.op("Mul", ops.op("Add", highest, lowest), ops.constant(0.5))
    total = ops.sum(ops.part(smoothed, 2, n_steps - 1, n_steps), 1)
    return ops.op("Div", smoothed, ops.op("Max", total, ops.constant(1.0)))


def _cells(graph: CurveGraph, shape: KnotCurves, steps: str, breaks: FloatArray) -> str:
    """Averages around the trained knots, (n_samples, K, n_trained); see `KnotCurves.cells`."""
    ops = graph.ops
    centre, radius = shape.cell_windows()
    # Averages are linear: jumps at the start of each step times the effect of a unit jump.
    n_steps, n_trained = len(breaks) + 1, len(centre)
    jumps_of_1 = np.tril(np.ones((n_steps, n_steps)))[None]
    adds = averaged_incidence(jumps_of_1, breaks, centre, radius)[0].T
    jumps = ops.part(steps, 2, 0, 1)
    if n_steps > 1:
        later, earlier = (ops.part(steps, 2, first, first + n_steps - 1) for first in (1, 0))
        jumps = ops.op("Concat", jumps, ops.op("Sub", later, earlier), axis=2)
    cells = ops.op("MatMul", jumps, ops.constant(adds))
    stretch = shape.last_stretch()
    if stretch == 1:
        return cells
    before = ops.part(cells, 2, n_trained - 2, n_trained - 1)
    last = ops.part(cells, 2, n_trained - 1, n_trained)
    risen = ops.op("Mul", ops.op("Sub", last, before), ops.constant(stretch))
    last = ops.op("Add", before, risen)
    last = ops.op("Div", last, ops.op("Max", ops.sum(last, 1), ops.constant(1.0)))
    return ops.op("Concat", ops.part(cells, 2, 0, n_trained - 1), last, axis=2)


def _calibrated(
    graph: CurveGraph, shape: KnotCurves, steps: str, breaks: FloatArray, features: str
) -> str:
    """Calibrated hazards between knots, (n_samples, K, M); see `KnotCurves.at_knots`."""
    ops = graph.ops
    n_trained, n_intervals = len(shape.trained_knots), len(shape.knots) - 1
    # Calibration is affine in the hazards: a constant, and the effect of unit hazards.
    factor = shape.factor[:, :, None]
    constant = shape.mixed(np.zeros((graph.n_causes, n_intervals, 1))) * factor
    if n_trained == 0:
        return ops.per_person(constant[:, :, 0], features)
    units = np.tile(np.eye(n_intervals)[:, :n_trained], (graph.n_causes, 1, 1))
    slope = (shape.mixed(units) * factor - constant).transpose(0, 2, 1)
    axis = ops.constant([2], np.int64)
    own = _cell_hazards(graph, _cells(graph, shape, steps, breaks), n_trained)
    mixed = ops.op("MatMul", ops.op("Unsqueeze", own, axis), ops.constant(slope[None]))
    mixed = ops.op("Squeeze", mixed, axis)
    return ops.op("Add", mixed, ops.constant(constant[None, :, :, 0]))


def _from_hazards(graph: CurveGraph, hazard: str) -> str:
    """Incidences at knots, (n_samples, K, M + 1), from hazards that may sum to more than 1."""
    ops = graph.ops
    total = ops.sum(hazard, 1)
    hazard = ops.op("Div", hazard, ops.op("Max", total, ops.constant(1.0)))
    stay = ops.op("Sub", ops.constant(1.0), ops.op("Min", total, ops.constant(1.0)))
    # The logarithm of 0 is -inf, whose running sums have the exponential 0.
    log_before = ops.running_sum(ops.op("Log", stay), 2, exclusive=True)
    risen = ops.op("Mul", hazard, ops.op("Exp", log_before))
    return ops.after_zero(ops.running_sum(risen, 2))


def _cell_hazards(graph: CurveGraph, cells: str, n_trained: int) -> str:
    """Hazards between trained knots, (n_samples, K, n_trained)."""
    ops = graph.ops
    earlier = ops.part(ops.after_zero(cells), 2, 0, n_trained)
    left = ops.op("Sub", ops.constant(1.0), ops.sum(earlier, 1))
    survival = ops.op("Max", left, ops.constant(0.0))
    risen = ops.op("Max", ops.op("Sub", cells, earlier), ops.constant(0.0))
    enough = ops.op("Greater", survival, risen)
    # If survival is 0, any further rise has a hazard of 1.
    ended = ops.cast(ops.op("Greater", risen, ops.constant(0.0)), np.float64)
    divisor = ops.op("Where", enough, survival, ops.constant(1.0))
    return ops.op("Where", enough, ops.op("Div", risen, divisor), ended)

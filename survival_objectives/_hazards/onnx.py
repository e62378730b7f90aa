"""The ONNX graph of a mixture of hazards, which follows the Python code step by step."""

from __future__ import annotations

import numpy as np

from survival_objectives._hazards.linear import FARTHEST, MISSING, LinearDesign
from survival_objectives._hazards.mixture import HazardModel, Mixture
from survival_objectives._models.onnx.curves import CurveGraph


def mixture_incidence(graph: CurveGraph, mixture: Mixture, features: str) -> str:
    """Incidences at knots, (n_samples, K, M + 1): the weighted mean of all members."""
    ops, design = graph.ops, None
    if mixture.design is not None and mixture.design.n_columns:
        design = _design(graph, mixture.design, features)
    total: str | None = None
    for share, hazard in mixture.members.values():
        curves = _knot_incidence(graph, _hazard_margin(graph, hazard, features, design))
        curves = ops.op("Mul", curves, ops.constant(share))
        total = curves if total is None else ops.op("Add", total, curves)
    assert total is not None
    return total


def _hazard_margin(
    graph: CurveGraph, hazard: HazardModel, features: str, design: str | None
) -> str:
    """Margins of the causes against staying event-free, (n_samples, K, M)."""
    ops = graph.ops
    margin = ops.per_person(hazard.level, features)
    if hazard.slopes is not None and design is not None:
        linear = ops.op("MatMul", design, ops.constant(hazard.slopes.T))
        margin = ops.op("Add", margin, ops.reshape(linear, (-1, graph.n_causes, 1)))
    if hazard.trees is not None:
        forest = hazard.trees.forest
        steps = graph.forest_margins(forest, features)
        trees = ops.take(steps, forest.interval(np.arange(hazard.level.shape[1])), 2)
        if forest.n_margins > graph.n_causes:
            causes = ops.part(trees, 1, 1, graph.n_causes + 1)
            trees = ops.op("Sub", causes, ops.part(trees, 1, 0, 1))
        margin = ops.op("Add", margin, trees)
    return margin


def _knot_incidence(graph: CurveGraph, margin: str) -> str:
    """Incidences at knots from margins of hazards; see `hazards.knot_incidence`."""
    ops = graph.ops
    # log(1 + sum exp margin), stabilised by the largest term.
    top = ops.op("Max", ops.op("ReduceMax", margin, axes=[1], keepdims=1), ops.constant(0.0))
    odds = ops.sum(ops.op("Exp", ops.op("Sub", margin, top)), 1)
    total = ops.op("Add", odds, ops.op("Exp", ops.op("Neg", top)))
    log_total = ops.op("Add", ops.op("Log", total), top)
    log_before = ops.op("Neg", ops.running_sum(log_total, 2, exclusive=True))
    log_rise = ops.op("Add", ops.op("Sub", margin, log_total), log_before)
    risen = ops.running_sum(ops.op("Exp", log_rise), 2)
    return ops.after_zero(risen)


def _design(graph: CurveGraph, design: LinearDesign, features: str) -> str:
    """Standardised columns of the linear part, (n_samples, n_columns); see `LinearDesign`."""
    ops, kind = graph.ops, np.array(design.kind)
    column = ops.take(features, design.feature, 1)
    is_missing = ops.op("IsNaN", column)
    level = ops.cast(ops.op("Equal", column, ops.constant(kind)), np.float64)
    level = ops.op("Where", is_missing, ops.constant(np.nan), level)
    column = ops.op("Where", ops.constant(kind >= 0, np.bool_), level, column)
    column = ops.op(
        "Where",
        ops.constant(kind == MISSING, np.bool_),
        ops.cast(is_missing, np.float64),
        column,
    )
    centred = ops.op("Sub", column, ops.constant(design.mean))
    scaled = ops.op("Div", centred, ops.constant(design.scale))
    clipped = ops.op("Clip", scaled, ops.constant(-FARTHEST), ops.constant(FARTHEST))
    return ops.op("Where", ops.op("IsNaN", scaled), ops.constant(0.0), clipped)

"""Pieces of ONNX graphs: operators by name, running extremes, and forests without their time axis.

A tree that splits on features and on time is the sum of trees that split on features only, each of
whose leaves covers a time interval: a split on time concatenates the lists of trees of its two
sides, a split on a feature joins them in pairs. A leaf adds its value where its interval begins and
subtracts it where it ends; a cumulative sum over the steps then gives the margins of all steps, as
in `survival_objectives._engines.forest`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray
from survival_objectives._engines.forest import Forest, Tree

# Widely supported: onnxruntime since 1.13.
_OPSET, _ML_OPSET, _IR_VERSION = 17, 3, 8
_ML_DOMAIN = "ai.onnx.ml"


class Graph:
    """An ONNX graph that is built operator by operator; values are referred to by name.

    Parameters
    ----------
    onnx : module
        The package onnx.
    """

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._names = itertools.count()

    def input(self, name: str, dtype: type, shape: Sequence[int | str]) -> str:
        """The name of a new input."""
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def constant(self, values: npt.ArrayLike, dtype: type = np.float64) -> str:
        """The name of a constant array."""
        name = f"constant_{next(self._names)}"
        array: npt.NDArray[Any] = np.asarray(values, dtype=dtype)
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """The name of the single output of a new operator."""
        name = f"{kind.lower()}_{next(self._names)}"
        self._nodes.append(
            self._onnx.helper.make_node(
                kind, list(inputs), [name], name=name, domain=domain, **attributes
            )
        )
        return name

    def cast(self, value: str, dtype: type) -> str:
        """The value in another dtype."""
        return self.op("Cast", value, to=self._type(dtype))

    def sum(self, value: str, axis: int) -> str:
        """Sum along an axis, which is kept with length 1."""
        return self.op("ReduceSum", value, self.constant([axis], np.int64), keepdims=1)

    def running_sum(self, value: str, axis: int, *, exclusive: bool = False) -> str:
        """Cumulative sum along an axis; ``exclusive`` excludes the element itself."""
        axis_name = self.constant(axis, np.int64)
        return self.op("CumSum", value, axis_name, exclusive=int(exclusive))

    def running_extreme(self, value: str, kind: str, length: int, *, backward: bool) -> str:
        """Running "Max" or "Min" along the last of three axes, of known length.

        ONNX has no such operator: each of log2(length) steps doubles the window.
        """
        outside = self.constant(-np.inf if kind == "Max" else np.inf)
        shift = 1
        while shift < length:
            before, after = (0, shift) if backward else (shift, 0)
            pads = self.constant([0, 0, before, 0, 0, after], np.int64)
            padded = self.op("Pad", value, pads, outside)
            moved = self.part(padded, 2, *((shift, length + shift) if backward else (0, length)))
            value = self.op(kind, value, moved)
            shift *= 2
        return value

    def part(self, value: str, axis: int, first: int, last: int) -> str:
        """Elements ``first`` to ``last`` (not included) along an axis."""
        begin, end, axes = (self.constant([number], np.int64) for number in (first, last, axis))
        return self.op("Slice", value, begin, end, axes)

    def take(self, value: str, index: str | npt.ArrayLike, axis: int) -> str:
        """Elements by index along an axis."""
        if not isinstance(index, str):
            index = self.constant(index, np.int64)
        return self.op("Gather", value, index, axis=axis)

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """The value in another shape."""
        return self.op("Reshape", value, self.constant(shape, np.int64))

    def after_zero(self, value: str) -> str:
        """The value with a 0 in front of its last axis, the third."""
        first = self.op("Mul", self.part(value, 2, 0, 1), self.constant(0.0))
        return self.op("Concat", first, value, axis=2)

    def per_person(self, values: FloatArray, features: str) -> str:
        """A constant of two axes, repeated for each row of the features."""
        first = self.op("IsNaN", self.part(features, 1, 0, 1))
        zero = self.op("Mul", self.cast(first, np.float64), self.constant(0.0))
        return self.op("Add", self.reshape(zero, (-1, 1, 1)), self.constant(values[None]))

    def model(
        self,
        output: str,
        shape: Sequence[int | str],
        metadata: Mapping[str, str],
        *,
        producer: tuple[str, str],
        doc: str,
    ) -> Any:
        """The checked ModelProto whose float32 output is called "probabilities"."""
        helper = self._onnx.helper
        name = "probabilities"
        self._nodes.append(
            helper.make_node("Cast", [output], [name], name=name, to=self._type(np.float32))
        )
        graph = helper.make_graph(
            self._nodes,
            "survival_curves",
            self._inputs,
            [self._value(name, np.float32, shape)],
            self._constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[
                helper.make_opsetid("", _OPSET),
                helper.make_opsetid(_ML_DOMAIN, _ML_OPSET),
            ],
            ir_version=_IR_VERSION,
            producer_name=producer[0],
            producer_version=producer[1],
            doc_string=doc,
        )
        helper.set_model_props(model, dict(metadata))
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _type(self, dtype: type) -> int:
        kind: int = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return kind

    def _value(self, name: str, dtype: type, shape: Sequence[int | str]) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._type(dtype), list(shape))


# ----------------------------------------------------------------------------------------- forests
@dataclass(frozen=True)
class _Leaf:
    """Values that a leaf adds on the steps from ``first`` to ``last`` (not included)."""

    values: Sequence[float]
    first: int
    last: int


@dataclass(frozen=True)
class _Split:
    """A split on a column; a side that adds nothing is None."""

    column: int
    threshold: float
    nan_left: bool
    left: _Piece | None
    right: _Piece | None


_Piece = _Leaf | _Split


class _Columns:
    """The columns that trees split on: features, and columns derived from them in the graph.

    A set of categories becomes a column that is 0 for people who go left and 1 for the others,
    including missing values. If LightGBM treats 0 as missing, there is a column with NaN for 0.
    """

    def __init__(self, n_levels: Mapping[int, int], n_features: int) -> None:
        self._n_levels = n_levels
        self._n_features = n_features
        self._derived: dict[tuple[int, frozenset[int] | None, bool], int] = {}

    def number(self, feature: int, categories: frozenset[int] | None, nan_left: bool) -> int:
        """The number of the derived column, after the features."""
        key = (feature, categories, nan_left)
        return self._derived.setdefault(key, self._n_features + len(self._derived))

    def values(self, graph: Graph, features: str) -> str:
        """All columns, (n_samples, n_columns)."""
        parts = [features]
        for feature, categories, nan_left in self._derived:
            column = graph.part(features, 1, feature, feature + 1)
            if categories is None:
                is_zero = graph.op("Equal", column, graph.constant(0.0))
                parts.append(graph.op("Where", is_zero, graph.constant(np.nan), column))
                continue
            n_levels = self._n_levels[feature]
            goes_right = [float(code not in categories) for code in range(n_levels)]
            code = graph.op(
                "Where", graph.op("IsNaN", column), graph.constant(float(n_levels)), column
            )
            table = graph.constant([*goes_right, float(not nan_left)])
            parts.append(graph.take(table, graph.cast(code, np.int64), 0))
        return graph.op("Concat", *parts, axis=1) if len(parts) > 1 else features


class _TimelessTrees:
    """Pieces of the trees of a forest that split on columns only."""

    def __init__(self, forest: Forest, columns: _Columns) -> None:
        self._forest = forest
        self._columns = columns

    def pieces(self, tree: Tree) -> list[_Piece]:
        """The pieces whose sum is the tree."""
        return self._pieces(tree, 0, 0, self._forest.n_steps)

    def _pieces(self, tree: Tree, node: int, first: int, last: int) -> list[_Piece]:
        feature, left, right = tree.feature[node], tree.left[node], tree.right[node]
        if feature < 0:
            return [_Leaf(tree.value[node], first, last)]
        if feature == self._forest.time_column:
            # Steps up to the one that ends at the threshold go left, the others right.
            middle = int(np.searchsorted(self._forest.breaks, tree.threshold[node])) + 1
            pieces = self._pieces(tree, left, first, min(middle, last)) if first < middle else []
            if middle < last:
                pieces += self._pieces(tree, right, max(middle, first), last)
            return pieces
        column, threshold, nan_left = self._condition(tree, node)
        return [
            _Split(column, threshold, nan_left, on_left, on_right)
            for on_left, on_right in itertools.zip_longest(
                self._pieces(tree, left, first, last), self._pieces(tree, right, first, last)
            )
        ]

    def _condition(self, tree: Tree, node: int) -> tuple[int, float, bool]:
        feature, nan_left = tree.feature[node], bool(tree.nan_left[node])
        if node in tree.categories:
            column = self._columns.number(feature, frozenset(tree.categories[node]), nan_left)
            return column, 0.5, nan_left
        if tree.zero_is_missing is not None and tree.zero_is_missing[node]:
            return self._columns.number(feature, None, False), tree.threshold[node], nan_left
        return feature, tree.threshold[node], nan_left


class _Ensemble:
    """Attributes of the operator TreeEnsembleRegressor, filled tree by tree."""

    def __init__(self, mode: str, n_steps: int) -> None:
        self._mode = mode
        self._n_steps = n_steps
        self._n_trees = 0
        self._nodes: list[tuple[int, int, int, float, str, int, int, int]] = []
        self._targets: list[tuple[int, int, int, float]] = []

    def add(self, piece: _Piece | None, first_margin: int) -> None:
        """Add a tree whose leaves add to the margins from ``first_margin`` on."""
        waiting: list[_Piece | None] = [piece]
        number = 0
        while number < len(waiting):
            node = waiting[number]
            if isinstance(node, _Split):
                on_left = len(waiting)
                waiting += [node.left, node.right]
                self._nodes.append(
                    (
                        self._n_trees,
                        number,
                        node.column,
                        node.threshold,
                        self._mode,
                        on_left,
                        on_left + 1,
                        int(node.nan_left),
                    )
                )
            else:
                self._nodes.append((self._n_trees, number, 0, 0.0, "LEAF", 0, 0, 0))
                self._add_leaf(number, node, first_margin)
            number += 1
        self._n_trees += 1

    def _add_leaf(self, number: int, leaf: _Leaf | None, first_margin: int) -> None:
        if leaf is None:
            # onnxruntime expects a value from every leaf.
            self._targets.append((self._n_trees, number, first_margin * self._n_steps, 0.0))
            return
        for offset, value in enumerate(leaf.values):
            first_target = (first_margin + offset) * self._n_steps
            self._targets.append((self._n_trees, number, first_target + leaf.first, float(value)))
            if leaf.last < self._n_steps:
                self._targets.append(
                    (self._n_trees, number, first_target + leaf.last, -float(value))
                )

    def attributes(self, onnx: Any, n_targets: int) -> dict[str, Any]:
        """Attributes of the operator."""
        tree, node, column, threshold, mode, true, false, missing = zip(*self._nodes, strict=True)
        target_tree, target_node, target, weight = zip(*self._targets, strict=True)

        def doubles(values: Sequence[float]) -> Any:
            return onnx.numpy_helper.from_array(np.asarray(values, np.float64))

        return {
            "n_targets": n_targets,
            "nodes_treeids": tree,
            "nodes_nodeids": node,
            "nodes_featureids": column,
            "nodes_values_as_tensor": doubles(threshold),
            "nodes_modes": mode,
            "nodes_truenodeids": true,
            "nodes_falsenodeids": false,
            "nodes_missing_value_tracks_true": missing,
            "target_treeids": target_tree,
            "target_nodeids": target_node,
            "target_ids": target,
            "target_weights_as_tensor": doubles(weight),
        }


def forest_margins(
    graph: Graph, onnx: Any, forest: Forest, features: str, n_levels: Mapping[int, int]
) -> str:
    """Margins on every step of a forest, (n_samples, n_margins, n_steps).

    Parameters
    ----------
    graph : Graph
    onnx : module
    forest : Forest
        A forest with readable trees.
    features : str
        Name of the float64 features, (n_samples, n_features).
    n_levels : mapping of int to int
        Number of levels of each categorical column.
    """
    columns = _Columns(n_levels, forest.time_column)
    timeless = _TimelessTrees(forest, columns)
    # In float64, in which every threshold of every engine is exact.
    ensemble = _Ensemble("BRANCH_LEQ" if forest.at_most else "BRANCH_LT", forest.n_steps)
    for tree in forest.trees:
        for piece in timeless.pieces(tree):
            ensemble.add(piece, tree.first_margin)
    jumps = graph.op(
        "TreeEnsembleRegressor",
        columns.values(graph, features),
        domain=_ML_DOMAIN,
        **ensemble.attributes(onnx, forest.n_margins * forest.n_steps),
    )
    jumps = graph.reshape(graph.cast(jumps, np.float64), (-1, forest.n_margins, forest.n_steps))
    return graph.running_sum(jumps, 2)

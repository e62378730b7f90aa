r"""Curves of a forest that splits on time, computed in one pass for all times.

The path to a leaf determines the time interval of the leaf: two thresholds of the time feature, the
same for all people. So a person's margin is a step function whose breaks are the forest's
thresholds on time,

    f(t | x) = sum over leaves l of value_l [x reaches l] [lower_l <= t < upper_l],             (12)

where x reaches l if it satisfies all splits on the path that are not on time. `Forest.step_margins`
evaluates every split once, adds each leaf's value where its interval starts and subtracts it where
it ends; a cumulative sum over the breaks then gives every curve at every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array

from survival_objectives._arrays import BoolArray, Float32Array, FloatArray, IntArray

# People and leaves at a time: what they reach stays in the processor's cache.
_WALKED_PEOPLE, _WALKED_LEAVES = 256, 1024


def crossed_rows(values: Float32Array, times: npt.ArrayLike) -> Float32Array:
    """Rows of features, each with every time as the last column, person by person.

    >>> crossed_rows(np.array([[7.0], [8.0]], np.float32), [1, 2]).tolist()
    [[7.0, 1.0], [7.0, 2.0], [8.0, 1.0], [8.0, 2.0]]
    """
    last = np.asarray(times)
    rows = np.empty((len(values) * len(last), values.shape[1] + 1), np.float32)
    rows[:, :-1] = np.repeat(values, len(last), axis=0)
    rows[:, -1] = np.tile(last, len(values))
    return rows


@dataclass(frozen=True)
class Tree:
    """One binary tree; node 0 is the root.

    Attributes
    ----------
    feature : sequence of int
        Column that a node splits on; -1 at leaves.
    threshold : sequence of float
        A row goes left if its value is below it (or equal to it, with `Forest.at_most`).
    left, right : sequences of int
        Children.
    nan_left : sequence of bool
        Whether a missing value goes left.
    categories : dict of int to frozenset of int
        For a node that splits on a category: the codes that go left.
    value : sequence of float or of tuples
        Values of leaves, added to the margins from ``first_margin`` on.
    first_margin : int
    zero_is_missing : sequence of bool, optional
        Whether a node treats 0 as missing.
    """

    feature: Sequence[int]
    threshold: Sequence[float]
    left: Sequence[int]
    right: Sequence[int]
    nan_left: Sequence[bool]
    categories: dict[int, frozenset[int]]
    value: Sequence[Sequence[float]]
    first_margin: int
    zero_is_missing: Sequence[bool] | None = None


class Forest:
    """Trees of a trained model, with time as the last column.

    Parameters
    ----------
    trees : sequence of Tree
    n_margins : int
    time_column : int
    at_most : bool
        Whether a row goes left when its value equals the threshold (LightGBM, CatBoost) or only
        when it is below (XGBoost).
    breaks : array, optional
        Thresholds on time, for a model whose trees only the engine can evaluate.
    """

    def __init__(
        self,
        trees: Sequence[Tree],
        n_margins: int,
        time_column: int,
        *,
        at_most: bool,
        breaks: npt.ArrayLike | None = None,
    ) -> None:
        self.trees = trees
        self.n_margins = n_margins
        self.time_column = time_column
        self.at_most = at_most
        self.is_readable = breaks is None
        if breaks is None:
            breaks = [
                threshold
                for tree in trees
                for feature, threshold in zip(tree.feature, tree.threshold, strict=True)
                if feature == time_column
            ]
        self.breaks = np.unique(np.asarray(breaks, dtype=np.float64))

    @property
    def n_steps(self) -> int:
        """Number of steps of every curve."""
        return len(self.breaks) + 1

    def interval(self, times: npt.ArrayLike) -> IntArray:
        """Index of the step, out of len(breaks) + 1, that contains each time."""
        feature = np.asarray(times, dtype=np.float32).astype(np.float64)
        return np.searchsorted(self.breaks, feature, side="left" if self.at_most else "right")

    def representatives(self) -> Float32Array:
        """A float32 time in each step: the first one, except in the step before all breaks."""
        if len(self.breaks) == 0:
            return np.zeros(1, np.float32)
        breaks = self.breaks.astype(np.float32)
        before = np.nextafter(breaks, np.float32(-np.inf))
        begins = breaks
        if self.at_most:
            # A step begins just above its break, which may not be a float32 number.
            is_above = breaks.astype(np.float64) > self.breaks
            begins = np.where(is_above, breaks, np.nextafter(breaks, np.float32(np.inf)))
            before = np.where(is_above, before, breaks)
        return np.concatenate([before[:1], begins])

    def step_margins(self, values: Float32Array) -> FloatArray:
        """Margins on every step, (n_margins, n_steps, n_samples).

        Parameters
        ----------
        values : float32 array of shape (n_samples, n_features)
            Features, without the time.
        """
        leaves = self._leaves
        margins = np.empty((self.n_margins, self.n_steps, len(values)))
        for begin in range(0, len(values), _WALKED_PEOPLE):
            people = slice(begin, begin + _WALKED_PEOPLE)
            by_edge = leaves.sums(values[people]).reshape(self.n_margins, self.n_steps + 1, -1)
            np.cumsum(by_edge[:, :-1], axis=1, out=margins[:, :, people])
        return margins

    @cached_property
    def _leaves(self) -> _Leaves:
        return _Leaves(self)


class _Split(NamedTuple):
    """A decision on a feature; trees share equal ones."""

    feature: int
    threshold: float
    goes_left: frozenset[int] | None
    nan_left: bool
    zero_is_missing: bool


class _Leaves:
    """The leaves of a forest as arrays: which splits lead to each, and what it adds when.

    Attributes
    ----------
    n_leaves : int
    parts : list of pairs
        Paths and jumps of some of the leaves. Paths, (depth, n_part): rows 2s and 2s + 1 of the
        outcomes stand for split s going left and right, the last for a path that is shorter.
        Jumps, sparse, (n_margins (n_steps + 1), n_part): each leaf's value where its steps begin,
        and minus it where they end.
    """

    def __init__(self, forest: Forest) -> None:
        self._at_most = forest.at_most
        splits: dict[_Split, int] = {}
        paths: list[tuple[int, ...]] = []
        n_edges = forest.n_steps + 1
        rows: list[int] = []
        values: list[float] = []
        n_jumps: list[int] = []
        for tree in forest.trees:
            for node, path, first, last in _leaves_of(tree, forest, splits):
                paths.append(path)
                n_jumps.append(2 * len(tree.value[node]))
                for margin, value in enumerate(tree.value[node], start=tree.first_margin):
                    rows += [margin * n_edges + first, margin * n_edges + last]
                    values += [value, -value]
        self.n_leaves = len(paths)
        nodes = np.full((max(map(len, paths), default=0), len(paths)), 2 * len(splits))
        for leaf, path in enumerate(paths):
            nodes[: len(path), leaf] = path
        columns = np.repeat(np.arange(len(paths)), n_jumps)
        shape = forest.n_margins * n_edges, len(paths)
        jumps = csc_array((values, (rows, columns)), shape=shape)
        self._n_sums = shape[0]
        self.parts = [
            (nodes[:, part], jumps[:, part].tocsr())
            for part in (
                slice(first, first + _WALKED_LEAVES)
                for first in range(0, len(paths), _WALKED_LEAVES)
            )
        ]
        self._feature = np.array([split.feature for split in splits], np.int64)
        threshold = np.array([split.threshold for split in splits])[:, None]
        self._threshold = threshold if forest.at_most else threshold.astype(np.float32)
        self._nan_left = np.array([split.nan_left for split in splits], np.bool_)[:, None]
        self._zero_is_missing = np.array([one.zero_is_missing for one in splits], np.bool_)[:, None]
        by_feature: dict[int, list[tuple[int, frozenset[int]]]] = {}
        for split, number in splits.items():
            if split.goes_left is not None:
                by_feature.setdefault(split.feature, []).append((number, split.goes_left))
        self._categories = [
            (feature, np.array([number for number, _ in some]), _table([left for _, left in some]))
            for feature, some in by_feature.items()
        ]

    def sums(self, values: Float32Array) -> FloatArray:
        """Sums of the jumps of the leaves that people reach but for the time, (n, n_samples)."""
        outcome = self._outcomes(values)
        total = np.zeros((self._n_sums, len(values)))
        for nodes, jumps in self.parts:
            reached = np.ones((nodes.shape[1], len(values)), np.bool_)
            for step in nodes:
                reached &= outcome[step]
            total += jumps @ reached.astype(np.float64)
        return total

    def _outcomes(self, values: Float32Array) -> BoolArray:
        """Which people go left and right at each split, (2 n_splits + 1, n_samples)."""
        column = np.ascontiguousarray(values.T)[self._feature]
        missing = np.isnan(column)
        if self._at_most:
            goes_left = column.astype(np.float64) <= self._threshold
        else:
            goes_left = column < self._threshold
        for feature, some, table in self._categories:
            code = values[:, feature]
            last = table.shape[1] - 1
            is_known = (code >= 0) & (code < last)
            goes_left[some] = table[:, np.where(is_known, code, last).astype(np.int64)]
        if self._zero_is_missing.any():
            missing |= self._zero_is_missing & (column == 0)
        goes_left = np.where(missing, self._nan_left, goes_left)
        outcome = np.ones((2 * len(goes_left) + 1, len(values)), np.bool_)
        outcome[:-1:2], outcome[1::2] = goes_left, ~goes_left
        return outcome


def _table(left_sets: Sequence[frozenset[int]]) -> BoolArray:
    """Which codes go left in each split; the last column is for others, missing ones (-1) too."""
    n_codes = 1 + max(max(codes, default=-1) for codes in left_sets)
    table = np.zeros((len(left_sets), n_codes + 1), np.bool_)
    for row, codes in enumerate(left_sets):
        table[row, [code for code in codes if code >= 0]] = True
    return table


def _leaves_of(
    tree: Tree, forest: Forest, splits: dict[_Split, int]
) -> Iterator[tuple[int, tuple[int, ...], int, int]]:
    """Leaf, path, first step and step after the last, of all leaves that some time reaches."""
    waiting: list[tuple[int, tuple[int, ...], int, int]] = [(0, (), 0, forest.n_steps)]
    while waiting:
        node, path, first, last = waiting.pop()
        feature, left, right = tree.feature[node], tree.left[node], tree.right[node]
        if feature < 0:
            yield node, path, first, last
        elif feature == forest.time_column:
            # Steps up to the one that ends at the threshold go left, the others right.
            middle = int(np.searchsorted(forest.breaks, tree.threshold[node])) + 1
            if first < middle:
                waiting.append((left, path, first, min(middle, last)))
            if middle < last:
                waiting.append((right, path, max(middle, first), last))
        else:
            codes = tree.categories.get(node)
            zero = tree.zero_is_missing is not None and tree.zero_is_missing[node]
            split = _Split(
                feature,
                0.0 if codes is not None else float(tree.threshold[node]),
                codes,
                bool(tree.nan_left[node]),
                bool(zero),
            )
            number = splits.setdefault(split, len(splits))
            waiting.append((left, (*path, 2 * number), first, last))
            waiting.append((right, (*path, 2 * number + 1), first, last))


def monotone_incidence(incidence: FloatArray) -> FloatArray:
    r"""Incidences on consecutive steps, made non-decreasing.

    Each cause gets the mean of two monotone curves that enclose it, and equal it if it is already
    monotone: the running maximum from the start and the running minimum from the end:

        F~_k(t) = (max_{u <= t} F_k(u) + min_{u >= t} F_k(u)) / 2.                             (13)

    If the causes of a person then sum to more than 1 at the end, they are scaled to 1.

    Parameters
    ----------
    incidence : array of shape (n_causes, n_steps, n_samples)

    Returns
    -------
    array of the same shape
    """
    forward = np.maximum.accumulate(incidence, axis=1)
    backward = np.minimum.accumulate(incidence[:, ::-1], axis=1)[:, ::-1]
    smoothed: FloatArray = (forward + backward) / 2
    total = smoothed[:, -1].sum(axis=0)
    smoothed /= np.maximum(total, 1.0)
    return smoothed


def averaged_incidence(
    incidence: FloatArray, breaks: FloatArray, times: FloatArray, radius: FloatArray
) -> FloatArray:
    r"""Incidences averaged over time windows, (n_causes, n_times, n_samples).

        F^_k(t) = 1/(2r) int_{t-r}^{t+r} F~_k(u) du                                            (14)

    Trees do not determine when events happen between two thresholds: a step is an average over its
    horizons. The window smooths the jumps. With r = 0 the result is the step itself.

    Parameters
    ----------
    incidence : array of shape (n_causes, n_steps, n_samples)
        Values between breaks, non-decreasing.
    breaks : array of shape (n_steps - 1,)
    times, radius : arrays of shape (n_times,)
        t and r of each window. If both ends of the windows are non-decreasing, so are the results.
    """
    low = np.searchsorted(breaks, times - radius, side="right")
    high = np.searchsorted(breaks, times + radius, side="right")
    # Sum jumps rather than areas: where there is no jump, the result is exactly constant.
    moments = np.zeros_like(incidence)
    np.cumsum(np.diff(incidence, axis=1) * breaks[None, :, None], axis=1, out=moments[:, 1:])
    before, after = incidence[:, low], incidence[:, high]
    end, width = (times + radius)[None, :, None], 2 * radius[None, :, None]
    gained = end * (after - before) - (moments[:, high] - moments[:, low])
    share = np.divide(gained, width, out=np.zeros_like(gained), where=width > 0)
    averaged: FloatArray = np.clip(before + share, before, after)
    return averaged

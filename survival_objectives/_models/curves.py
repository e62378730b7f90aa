r"""From the steps of a forest to curves in time: knots, calibration in time and interpolation.

Trees do not determine when events happen between two of their thresholds on time, and regularised
trees follow the time axis only roughly. So the steps F~_k of a person are averaged in a cell around
each knot e_0 < e_1 < ... < e_M of time, and converted to hazards of the intervals between knots,

    h_kj = (F_k(e_j) - F_k(e_{j-1})) / S(e_{j-1}).                                             (17)

These are calibrated in blocks of neighbouring intervals, each with enough events, and long enough
that the trees expect about as many events as were observed. Let O_kj be the observed events of
cause k in interval j, X_j the people at risk in it (a person censored inside counts by the share of
the interval before), and g_kj the share of interval j in the marginal hazard of its block. Within a
block all people have the same shape of the hazard in time, with individual totals:

    h'_kj = r_kb ((1 - m) g_kj sum_{i in b} h_ki + m O_kj / X_j),    r_kb = O_kb / E_kb,       (18)

where E_kb is the sum over the risk set of the term that r multiplies, and m is a small share of the
marginal hazard, for blocks in which the trees expect no events. Calibrated curves follow from the
product of (1 - h'). If features have no effect, they equal Kaplan-Meier and Aalen-Johansen at the
knots for any censoring; the calibration uses no censoring weights. After the latest training
horizon, hazards are the marginal ones.

Between knots curves are linear or, if time has units, constant within each unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._engines.forest import Forest, averaged_incidence
from survival_objectives._models.frame import MarginalHazard, exposures
from survival_objectives._people import SurvivalTarget
from survival_objectives._people.population import HORIZON_SHARE, TimeAxis

#: Share of the marginal hazard in individual hazards, m in (18).
MARGINAL_SHARE = 0.002
# Minimum number of events of a cause in a block of (18), and their minimum share of all.
_EVENTS_PER_BLOCK, _SHARE_PER_BLOCK = 10.0, 1 / 16
# A block grows until expected and observed events differ by no more than this factor.
_MOST_OFF = 1.5
# Share of a constant hazard in the shape within blocks.
_EVEN_SHARE = 0.01
# Where everybody at risk has an event, as at the end of contracts, no one stays event-free: with
# this factor the share m of the marginal hazard alone is above 1.
_ALL, _LARGE_FACTOR = 1 - 1e-9, 2 / MARGINAL_SHARE


def at_positions(values: FloatArray, position: IntArray) -> FloatArray:
    """Entries of (K, n_positions, n_samples) at positions (T,), or at each person's (n, T)."""
    if position.ndim == 1:
        return values[:, position]
    return values[:, position.T, np.arange(values.shape[2])]


class CurveShape(Protocol):
    """Conversion of a person's probabilities on the steps of a forest to curves in time."""

    @property
    def has_time_zero(self) -> bool:
        """Whether incidences at time 0 are those of events at time 0; else they are set to 0."""

    def incidence(self, steps: FloatArray, forest: Forest, times: FloatArray) -> FloatArray:
        """Incidences at times, (K, n_times, n_samples), from (K, n_steps, n_samples) on steps.

        Times are of shape (n_times,) or, with times of each person, (n_samples, n_times).
        """

    def edges(self, forest: Forest, horizon: float) -> FloatArray:
        """Times from 0 to a horizon between which curves have a simple form; see `inside`."""

    def integral(
        self, forest: Forest, horizon: float, begin: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Times and weights, (n_samples, n_times), of a quadrature from ``begin`` to a horizon.

        ``begin`` has a time per person, or one for all.
        """

    def inside(self, edges: FloatArray, first: IntArray, share: FloatArray) -> FloatArray:
        """Times at which a share of the rise up to the edges ``first`` is reached."""


@dataclass(frozen=True)
class StepCurves:
    """The `CurveShape` of the steps of the trees themselves, constant within units of time."""

    axis: TimeAxis
    has_time_zero: ClassVar[bool] = False

    def incidence(self, steps: FloatArray, forest: Forest, times: FloatArray) -> FloatArray:
        return at_positions(steps, forest.interval(self.axis.prediction_time(times)))

    def edges(self, forest: Forest, horizon: float) -> FloatArray:
        unit = self.axis.unit
        times = self.axis.units(horizon) if unit else forest.representatives()[1:]
        return _with_ends(times.astype(np.float64), horizon)

    def integral(
        self, forest: Forest, horizon: float, begin: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        edges = np.maximum(self.edges(forest, horizon), begin[:, None])
        # A unit is evaluated at its beginning, a step of the trees in its middle.
        times = edges[:, :-1] if self.axis.unit else (edges[:, :-1] + edges[:, 1:]) / 2
        return times, np.diff(edges)

    def inside(self, edges: FloatArray, first: IntArray, share: FloatArray) -> FloatArray:  # noqa: ARG002
        return edges[first]


def _with_ends(times: FloatArray, horizon: float) -> FloatArray:
    inner = times[(times > 0) & (times < horizon)]
    return np.unique(np.concatenate([[0.0], inner, [horizon]]))


@dataclass(frozen=True)
class KnotCurves:
    """Curves given by their values at knots.

    Attributes
    ----------
    axis : TimeAxis
    knots : float64 array of shape (M + 1,)
        In numbers of units.
    hazard : float64 array of shape (K, M)
        Marginal hazards O / X.
    block : int64 array of shape (K, M)
        Number of the block of each interval.
    factor : float64 array of shape (K, M)
        r of equation (18).
    trained_until : float
        Latest training horizon that is followed by an event, in numbers of units. Later hazards are
        the marginal ones.
    """

    axis: TimeAxis
    knots: FloatArray
    hazard: FloatArray
    block: IntArray
    factor: FloatArray
    trained_until: float
    has_time_zero: ClassVar[bool] = True

    def to_plain(self) -> dict[str, Any]:
        """The curves as data that JSON can hold, without the axis."""
        return {
            "knots": self.knots.tolist(),
            "hazard": self.hazard.tolist(),
            "block": self.block.tolist(),
            "factor": self.factor.tolist(),
            "trained_until": self.trained_until,
        }

    @classmethod
    def from_plain(cls, axis: TimeAxis, content: Mapping[str, Any]) -> KnotCurves:
        """The curves that `to_plain` described."""
        knots, hazard, factor = (
            np.array(content[name], dtype=np.float64) for name in ("knots", "hazard", "factor")
        )
        block = np.array(content["block"], dtype=np.int64)
        return cls(axis, knots, hazard, block, factor, float(content["trained_until"]))

    # ------------------------------------------------------------------------------ calibration
    def calibrated(
        self, marginal: MarginalHazard, crossed: FloatArray, at_risk: FloatArray
    ) -> KnotCurves:
        """The curves with blocks, and factors r = O / E (18).

        Parameters
        ----------
        marginal : MarginalHazard
            Marginal hazards of all people.
        crossed : array of shape (K, M, M)
            Sums over a sample of people of exposure in one interval times hazard (17) in another.
        at_risk : array of shape (M,)
            Sum of the exposures of the sample.
        """
        # Scale the sample to all people.
        scale = np.divide(marginal.at_risk, at_risk, out=np.zeros_like(at_risk), where=at_risk > 0)
        crossed = crossed * scale[None, :, None]
        n_trained = len(self.trained_knots)
        block, factor = self.block.copy(), np.ones_like(self.factor)
        for cause, (seen, sums) in enumerate(zip(marginal.events, crossed, strict=True)):
            block[cause] = _blocks(seen, np.diagonal(sums), n_trained)
            share = self._course(cause, block[cause, :n_trained])
            for number in np.unique(block[cause, :n_trained]):
                rows = np.flatnonzero(block[cause, :n_trained] == number)
                own = share[rows] @ sums[np.ix_(rows, rows)].sum(axis=1)
                others = marginal.at_risk[rows] @ self.hazard[cause, rows]
                expected = (1 - MARGINAL_SHARE) * own + MARGINAL_SHARE * others
                if expected > 0:
                    factor[cause, rows] = seen[rows].sum() / expected
        # The probabilities of all causes are divided by their sum where it is above 1.
        factor[:, self.hazard.sum(axis=0) > _ALL] = _LARGE_FACTOR
        return replace(self, block=block, factor=factor)

    def crossed(
        self, cells: FloatArray, target: SurvivalTarget, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Sums over people of exposure times hazard (17), (K, M, M), and of exposures, (M,)."""
        at_risk = exposures(self.axis, self.knots, target)
        if weight is not None:
            at_risk *= weight[:, None]
        return np.matmul(at_risk.T, self._hazards(cells).transpose(0, 2, 1)), at_risk.sum(axis=0)

    # -------------------------------------------------------------------------------- evaluation
    def incidence(self, steps: FloatArray, forest: Forest, times: FloatArray) -> FloatArray:
        return self.values(self.at_knots(self.cells(steps, forest.breaks)), times)

    def edges(self, forest: Forest, horizon: float) -> FloatArray:  # noqa: ARG002
        """Times from 0 to a horizon between which curves are linear or, with units, constant."""
        unit = self.axis.unit
        times = self.axis.units(horizon) if unit else self.knots
        return _with_ends(times, horizon)

    def integral(
        self, forest: Forest, horizon: float, begin: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        edges = np.maximum(self.edges(forest, horizon), begin[:, None])
        width = np.diff(edges)
        if self.axis.unit:
            return edges[:, :-1], width
        none = np.zeros((len(width), 1))
        return edges, (np.hstack([width, none]) + np.hstack([none, width])) / 2

    def inside(self, edges: FloatArray, first: IntArray, share: FloatArray) -> FloatArray:
        if self.axis.unit:
            return edges[first]
        last = np.maximum(first - 1, 0)
        times: FloatArray = edges[last] + share * (edges[first] - edges[last])
        return times

    @property
    def trained_knots(self) -> FloatArray:
        """Times of the knots up to the latest training horizon, without the first knot."""
        knots = self.knots[1:]
        return knots[knots <= self.trained_until] * (self.axis.unit or 1.0)

    def cells(self, incidence: FloatArray, breaks: FloatArray) -> FloatArray:
        """Averages in the cells around the trained knots, (K, n_trained, n_samples).

        Parameters
        ----------
        incidence : array of shape (K, n_steps, n_samples)
            Non-decreasing values between breaks.
        breaks : array of shape (n_steps - 1,)
        """
        centre, radius = self.cell_windows()
        cells = averaged_incidence(incidence, breaks, centre, radius)
        stretch = self.last_stretch()
        if stretch != 1:
            last = cells[:, -2] + (cells[:, -1] - cells[:, -2]) * stretch
            cells[:, -1] = last / np.maximum(last.sum(axis=0), 1.0)
        return cells

    def last_stretch(self) -> float:
        """Factor that extends the last rise from the centre of its cell to the knot.

        The last cell lies before its knot: curves are extrapolated linearly to the knot.
        """
        centre, _ = self.cell_windows()
        ends = self._feature(self.knots[1:])
        n_trained = len(centre)
        if n_trained < 2 or ends[n_trained - 1] <= centre[-1]:
            return 1.0
        before = ends[n_trained - 2]
        return float((ends[n_trained - 1] - before) / (centre[-1] - before))

    def at_knots(self, cells: FloatArray) -> FloatArray:
        """Calibrated incidences at all knots, (K, M + 1, n_samples), from averages in cells."""
        hazard = self.mixed(self._hazards(cells)) * self.factor[:, :, None]
        total = hazard.sum(axis=0)
        hazard /= np.maximum(total, 1.0)
        survival = np.cumprod(1 - np.minimum(total, 1.0), axis=0)
        before = np.concatenate([np.ones((1, survival.shape[1])), survival[:-1]])
        curves = np.zeros((len(hazard), len(self.knots), hazard.shape[2]))
        np.cumsum(hazard * before, axis=1, out=curves[:, 1:])
        return curves

    def values(self, at_knots: FloatArray, times: FloatArray) -> FloatArray:
        """Incidences at times, (K, n_times, n_samples), interpolated between knots."""
        right, share = self.between(self.position(times))
        share = share[None, :, None] if share.ndim == 1 else share.T[None]
        low, high = at_positions(at_knots, right - 1), at_positions(at_knots, right)
        # Exact at both ends, and never outside of them.
        between: FloatArray = np.where(share == 1, high, low + share * (high - low))
        return between

    def between(self, position: FloatArray) -> tuple[IntArray, FloatArray]:
        """Knot at the end of the interval of each position, and the share of it that has passed."""
        right = np.clip(np.searchsorted(self.knots, position), 1, len(self.knots) - 1)
        width = self.knots[right] - self.knots[right - 1]
        return right, np.clip((position - self.knots[right - 1]) / width, 0.0, 1.0)

    def position(self, times: FloatArray) -> FloatArray:
        """Times on the axis of the knots; those that round to the float32 of a knot are that knot.

        A mass of events in continuous time lies between a knot and the float32 number before it.
        """
        position = self.axis.number(times)
        if self.axis.unit:
            return position
        knots, rounded = self.knots.astype(np.float32), position.astype(np.float32)
        nearest = np.minimum(np.searchsorted(knots, rounded), len(knots) - 1)
        found: FloatArray = np.where(knots[nearest] == rounded, self.knots[nearest], position)
        return found

    def _hazards(self, cells: FloatArray) -> FloatArray:
        """Hazards (17) of the intervals between knots, (K, M, n_samples); 0 in untrained ones."""
        n_causes, n_trained, n_samples = cells.shape
        padded = np.concatenate([np.zeros((n_causes, 1, n_samples)), cells], axis=1)
        survival = np.maximum(1 - padded[:, :-1].sum(axis=0), 0.0)
        risen = np.maximum(np.diff(padded, axis=1), 0.0)
        hazard = np.zeros((n_causes, len(self.knots) - 1, n_samples))
        # If survival is 0, any further rise has a hazard of 1.
        trained = hazard[:, :n_trained]
        trained[risen > 0] = 1.0
        np.divide(risen, survival, out=trained, where=survival > risen)
        return hazard

    def _course(self, cause: int, block: IntArray) -> FloatArray:
        """G of (18): the share of each trained interval in the marginal hazard of its block."""
        marginal = self.hazard[cause, : len(block)]
        # Never 0: a cause may also happen in an interval without observed events.
        course = marginal + _EVEN_SHARE * marginal.mean()
        share: FloatArray = course / np.bincount(block, weights=course)[block]
        return share

    def mixed(self, hazard: FloatArray) -> FloatArray:
        """The term that r multiplies in (18); in untrained intervals the marginal hazard."""
        mixed = np.repeat(self.hazard[:, :, None], hazard.shape[2], axis=2)
        n_trained = len(self.trained_knots)
        for cause, block in enumerate(self.block[:, :n_trained]):
            if n_trained == 0:
                break
            starts = np.flatnonzero(np.diff(block, prepend=-1))
            total = np.add.reduceat(hazard[cause, :n_trained], starts, axis=0)[block]
            mixed[cause, :n_trained] *= MARGINAL_SHARE
            own = (1 - MARGINAL_SHARE) * self._course(cause, block)
            mixed[cause, :n_trained] += own[:, None] * total
        return mixed

    def _feature(self, numbers: FloatArray) -> FloatArray:
        return self.axis.prediction_time(numbers * self.axis.unit) if self.axis.unit else numbers

    def cell_windows(self) -> tuple[FloatArray, FloatArray]:
        """Centres and radii of the cells around the trained knots."""
        knots = self.knots
        middle = (knots[:-1] + knots[1:]) / 2
        if self.axis.unit:
            unit = self.axis.unit
            first = np.floor(middle) + 1
            last = np.append(np.floor(middle[1:]), knots[-1])
            begin, end = first * unit, (last + HORIZON_SHARE) * unit
        else:
            begin, end = middle, np.append(middle[1:], knots[-1])
        reached = knots[1:] <= self.trained_until
        begin, end = begin[reached], end[reached]
        if not self.axis.unit:
            end = np.minimum(end, self.trained_until)
        return (begin + end) / 2, (end - begin) / 2


def _blocks(events: FloatArray, expected: FloatArray, n_trained: int) -> IntArray:
    """Block number of each interval, such that blocks have enough observed and expected events.

    Intervals after the trained ones belong to the last block.

    >>> seen = np.array([12.0, 15.0, 30.0, 11.0, 8.0])
    >>> _blocks(seen, np.array([0.0, 30.0, 28.0, 12.0, 8.0]), 4)
    array([0, 0, 1, 2, 2])
    """
    enough = max(_EVENTS_PER_BLOCK, _SHARE_PER_BLOCK * events[:n_trained].sum())
    block = np.zeros(len(events), np.int64)
    current, seen, wanted = 0, 0.0, 0.0

    def is_done() -> bool:
        return seen >= enough and seen / _MOST_OFF <= wanted <= seen * _MOST_OFF

    for interval in range(n_trained):
        if is_done():
            current, seen, wanted = current + 1, 0.0, 0.0
        block[interval] = current
        seen, wanted = seen + events[interval], wanted + expected[interval]
    if not is_done() and current > 0:
        block[block == current] = current - 1
    block[n_trained:] = block[:n_trained].max(initial=0)
    return block

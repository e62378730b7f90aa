"""Curves of models saved in format 1: averages over windows around each time.

Current models describe their curves by knots (`survival_objectives._models.curves`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._engines.forest import Forest, averaged_incidence
from survival_objectives._people.time_axis import UNIT_ROUNDING


@dataclass(frozen=True)
class WindowCurves:
    """Averages (14) over the times from (1 - h) t to (1 + h) t; see `curves.CurveShape`.

    Windows end at ``t_max`` and get narrower towards it. If time has a unit, curves are evaluated
    in the middle of each unit.
    """

    unit: float
    t_max: float
    smoothing: float
    has_time_zero: ClassVar[bool] = False

    @property
    def _is_continuous(self) -> bool:
        return bool(self.smoothing > 0 and not self.unit)

    @property
    def _narrower(self) -> float:
        """The time after which windows end at the latest horizon."""
        return self.t_max / (1 + self.smoothing)

    def incidence(self, steps: FloatArray, forest: Forest, times: FloatArray) -> FloatArray:
        """See `CurveShape`."""
        if times.ndim == 2:
            each = [self.incidence(steps[:, :, [i]], forest, own) for i, own in enumerate(times)]
            return np.concatenate(each, axis=2)
        centre = np.minimum(times, self.t_max)
        if self.unit:
            centre = (np.floor(centre / self.unit + UNIT_ROUNDING) + 0.5) * self.unit
        radius = np.maximum(np.minimum(self.smoothing * centre, self.t_max - centre), 0.0)
        if not radius.any():
            return steps[:, forest.interval(centre)]
        return averaged_incidence(steps, forest.breaks, centre, radius)

    def edges(self, forest: Forest, horizon: float) -> FloatArray:
        """See `CurveShape`."""
        if self._is_continuous:
            breaks = forest.breaks
            edges = [breaks / (1 + self.smoothing), breaks / (1 - self.smoothing)]
            # Close to the latest horizon windows begin at 2 t - t_max.
            late = [(breaks + self.t_max) / 2, [self._narrower, self.t_max]]
            times = np.concatenate([*edges, *late])
        elif self.unit:
            times = np.arange(horizon // self.unit + 1) * self.unit
        else:
            times = forest.representatives()[1:].astype(np.float64)
        return np.unique(np.concatenate([[0.0], times[(times > 0) & (times < horizon)], [horizon]]))

    def integral(
        self, forest: Forest, horizon: float, begin: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See `CurveShape`."""
        if begin.any():
            msg = "Models of format 1 have no conditional means. Train the model again."
            raise ValueError(msg)
        edges = self.edges(forest, horizon)
        if self._is_continuous:
            pieces = _WindowPieces(edges, self._narrower, self.t_max)
            return edges[None], pieces.integral_weights()[None]
        return (edges[None, :-1] + edges[None, 1:]) / 2, np.diff(edges)[None]

    def inside(self, edges: FloatArray, first: IntArray, share: FloatArray) -> FloatArray:
        """See `CurveShape`."""
        if not self._is_continuous:
            return edges[first]
        pieces = _WindowPieces(edges, self._narrower, self.t_max)
        return pieces.inside(np.maximum(first - 1, 0), first, share)


class _WindowPieces:
    """Pieces of time on which averages (14) have the form b + a / x.

    Windows of radius r = h t make x = t; those that end at t_max, of radius t_max - t, make
    x = t_max - t. Within a piece neither end of the window passes a break.

    Parameters
    ----------
    edges : array of shape (n_pieces + 1,)
        Ends of the pieces, from 0 on.
    narrower : float
        The time after which windows end at t_max; one of the edges if they extend that far.
    t_max : float
    """

    def __init__(self, edges: FloatArray, narrower: float, t_max: float) -> None:
        self.edges = edges
        # Edges may differ from this time by rounding.
        is_main = edges[1:] <= narrower * (1 + 1e-12)
        self._is_main = is_main
        self._t_max = t_max
        left, right = edges[:-1], np.minimum(edges[1:], t_max)
        self._x_left = np.where(is_main, left, np.maximum(t_max - left, 0))
        self._x_right = np.where(is_main, right, t_max - right)
        # A curve is constant before the first break, and after the last one.
        self._is_curved = (self._x_left > 0) & (self._x_right > 0)

    def integral_weights(self) -> FloatArray:
        """Weights of the values at the edges whose sum is the integral over all pieces."""
        width = np.diff(self.edges)
        left, right = self._x_left[self._is_curved], self._x_right[self._is_curved]
        # int b + a / x = b width + a |log(x_right / x_left)|, with a and b from the two values.
        ratio = np.log(right / left)
        above = np.where(self._x_left > 0, 0.0, width)
        curved = width[self._is_curved]
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = (np.abs(ratio) - curved / left) / (1 / right - 1 / left)
        # In narrow pieces this suffers from cancellation, and the curve is linear.
        above[self._is_curved] = np.where(np.abs(ratio) > 1e-6, exact, curved / 2)
        weights: FloatArray = np.append(width - above, 0.0) + np.append(0.0, above)
        return weights

    def inside(self, first: IntArray, last: IntArray, share: FloatArray) -> FloatArray:
        """Times in pieces (first, last = first + 1) at which a share of the rise is reached."""
        piece = np.minimum(first, len(self._x_left) - 1)
        left, right = self._x_left[piece], self._x_right[piece]
        is_curved = self._is_curved[piece] & (last > first)
        with np.errstate(divide="ignore", invalid="ignore"):
            x = 1 / (1 / left + share * (1 / right - 1 / left))
        time = np.where(self._is_main[piece], x, self._t_max - x)
        times: FloatArray = np.where(is_curved, time, self.edges[last])
        return times

r"""Curves of people whose features change in time.

Row r of a person has features x_r from b_r to b_{r+1}, the first from the beginning of time, the
last for ever. With the curves F_k(t|x_r) and S(t|x_r) of a model for features that are held fixed,

    F_k(t) = F_k(b_r) + S(b_r) (F_k(t|x_r) - F_k(b_r|x_r)) / S(b_r|x_r)                      (94)

for b_r < t <= b_{r+1}, so that hazards at each time are those of the features at that time. The
curves of a mixture are the weighted means of those of its models.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._models.curves import KnotCurves
from survival_objectives._people.histories import Path

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class PathWalk:
    """The rows of several people in time, and where times fall among them.

    Attributes
    ----------
    path : Path
    begin, end : float64 arrays of shape (n_rows,)
        When each row begins and ends, on the axis of the knots.
    position : float64 array of shape (n_people, n_times)
        Times on the axis of the knots.
    row : int64 array of shape (n_people, n_times)
        Row of the features at each time.
    """

    path: Path
    begin: FloatArray
    end: FloatArray
    position: FloatArray
    row: IntArray

    @classmethod
    def of(cls, path: Path, begin: FloatArray, position: FloatArray) -> PathWalk:
        """From the beginnings of the rows and the times, on the axis of the knots."""
        begin = begin.copy()
        begin[path.first] = -np.inf
        end = np.append(begin[1:], -np.inf)
        end[np.isneginf(end)] = np.inf
        row = np.repeat(path.first[:, None], position.shape[1], axis=1)
        for step in range(1, int(path.size.max(initial=1))):
            later = np.flatnonzero(path.size > step)
            row[later] += begin[path.first[later] + step, None] < position[later]
        return cls(path, begin, end, position, row)

    def incidence(self, curves: KnotCurves, at_knots: FloatArray) -> FloatArray:
        """Incidences (94), (K, n_people, n_times), from those of each row at knots.

        Parameters
        ----------
        curves : KnotCurves
        at_knots : array of shape (K, M + 1, n_rows)
            With the features of a row held fixed.
        """

        def values(row: IntArray, position: FloatArray) -> FloatArray:
            right, share = curves.between(position)
            low, high = at_knots[:, right - 1, row], at_knots[:, right, row]
            between: FloatArray = np.where(share == 1, high, low + share * (high - low))
            return between

        rows = np.arange(len(self.begin))
        at_begin, at_end = values(rows, self.begin), values(rows, self.end)
        left = np.maximum(1 - at_begin.sum(axis=0), _TINY)
        # States at the beginning of each row.
        reached, alive = np.zeros_like(at_begin), np.ones(len(rows))
        for step in range(1, int(self.path.size.max(initial=1))):
            now = self.path.first[self.path.size > step] + step
            share = alive[now - 1] / left[now - 1]
            reached[:, now] = reached[:, now - 1] + share * (at_end - at_begin)[:, now - 1]
            alive[now] = np.maximum(1 - reached[:, now].sum(axis=0), 0.0)
        own: FloatArray = reached[:, self.row] + (alive / left)[self.row] * (
            values(self.row, self.position) - at_begin[:, self.row]
        )
        return own

"""Outcomes of the whole population, also where each process holds only a part of the people.

If one process has all people, their outcomes are the population. If it has some, it gets counts
of the others through a `Reduction`: sums over all parts, and a `Population` of outcome counts on
a grid of times. The grid has every observed duration, if there are few; otherwise it has
`MAX_TIMES` steps with equally many people each, and a duration is rounded up to the end of its
step. Shares of people that are computed from it (quantiles, a Kaplan-Meier curve) are then off by
at most 1 / MAX_TIMES.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import SurvivalTarget
from survival_objectives._people.time_axis import TimeAxis

#: Steps of the grid on which outcomes are counted.
MAX_TIMES = 2**14


@dataclass(frozen=True)
class Population:
    """Outcomes of all people in a training.

    Attributes
    ----------
    target : SurvivalTarget
        One row per person, or one row per distinct outcome (event and time).
    weight : float64 array, or None
        Total sample weight of each row; None where each is one person of weight 1.
    count : float64 array, or None
        Number of people in each row; None where each row is one person.
    """

    target: SurvivalTarget
    weight: FloatArray | None
    count: FloatArray | None = None

    @property
    def n_samples(self) -> int:
        """Number of people."""
        return self.target.n_samples if self.count is None else int(self.count.sum())

    def aligned(self, axis: TimeAxis) -> Population:
        """The same people with durations aligned to the time axis."""
        return replace(self, target=axis.aligned(self.target))

    @property
    def has_censored(self) -> bool:
        """Whether there are censored people."""
        return bool((self.target.event == 0).any())

    @property
    def n_events(self) -> IntArray:
        """Number of people who were censored, and who had each cause."""
        counts = np.bincount(
            self.target.event, weights=self.count, minlength=self.target.n_causes + 1
        )
        return np.rint(counts).astype(np.int64)

    def quantile(self, share: float) -> float:
        """Quantile of the durations, as `numpy.quantile` defines it.

        >>> target = SurvivalTarget(np.array([1, 0], np.int32), np.array([1.0, 3.0]), np.arange(2))
        >>> Population(target, None).quantile(0.5)
        2.0
        >>> Population(target, None, np.array([3.0, 1.0])).quantile(0.5)
        1.0
        """
        duration = self.target.duration
        if self.count is None:
            return float(np.quantile(duration, share))
        order = np.argsort(duration)
        last_place = np.cumsum(self.count[order]) - 1
        place = share * last_place[-1]
        around = np.searchsorted(last_place, [np.floor(place), np.ceil(place)])
        low, high = duration[order[around]]
        return float(low + (high - low) * (place - np.floor(place)))

    def event_times(self, t_max: float) -> FloatArray:
        """Sorted times of observed events up to ``t_max``, one per event.

        Where outcomes are counted, at most `MAX_TIMES` times, spread evenly over the events.
        """
        rows = (self.target.event > 0) & (self.target.duration <= t_max)
        times = self.target.duration[rows]
        if self.count is None:
            return np.sort(times)
        order = np.argsort(times, kind="stable")
        times, seen = times[order], np.cumsum(self.count[rows][order])
        if len(times) == 0:
            return times
        n_events = int(seen[-1])
        n_times = min(n_events, MAX_TIMES)
        middles = (np.arange(n_times) + 0.5) * (n_events / n_times)
        return times[np.searchsorted(seen, middles)]


class Reduction(Protocol):
    """Sums over all parts of the people, where several processes train one model together.

    Every process must make the same calls in the same order.
    """

    @property
    def is_shared(self) -> bool:
        """Whether there are other processes.

        They create the engine's matrices together, so a single process must not let its engine
        predict for its own people.
        """

    def sum(self, values: npt.ArrayLike) -> FloatArray:
        """The sum of each value over all parts."""

    def population(self, target: SurvivalTarget, weight: FloatArray | None) -> Population:
        """Outcomes of the people of all parts."""

    def stream(self, generator: np.random.Generator) -> np.random.Generator:
        """A random stream of this part's own, from one that is the same in all parts."""


class LocalReduction:
    """The `Reduction` of a process that holds all people: sums and streams are its own."""

    is_shared = False

    def sum(self, values: npt.ArrayLike) -> FloatArray:
        return np.asarray(values, dtype=np.float64)

    def population(self, target: SurvivalTarget, weight: FloatArray | None) -> Population:
        return Population(target, weight)

    def stream(self, generator: np.random.Generator) -> np.random.Generator:
        return generator


def merged_times(
    times: FloatArray, count: FloatArray, n_times: int
) -> tuple[FloatArray, FloatArray]:
    """Distinct ``times`` with their counts, merged into at most ``n_times`` steps.

    The first and the last time are kept; a time in between joins the step that ends after it.

    >>> merged_times(np.array([1.0, 2.0, 3.0, 2.0]), np.ones(4), 3)
    (array([1., 2., 3.]), array([1., 2., 1.]))
    >>> merged_times(np.arange(9.0), np.ones(9), 3)
    (array([0., 4., 8.]), array([1., 4., 4.]))
    """
    distinct, position = np.unique(times, return_inverse=True)
    total = _sums(position, count, len(distinct))
    if len(distinct) <= n_times:
        return distinct, total
    reached = np.cumsum(total)
    wanted = np.linspace(reached[0], reached[-1], n_times)
    ends = np.unique(np.minimum(np.searchsorted(reached, wanted), len(distinct) - 1))
    step = np.searchsorted(ends, np.arange(len(distinct)))
    return distinct[ends], _sums(step, total, len(ends))


def _sums(cell: IntArray, values: FloatArray, n_cells: int) -> FloatArray:
    return np.bincount(cell, weights=values, minlength=n_cells).astype(np.float64, copy=False)


def outcome_counts(
    target: SurvivalTarget, weight: FloatArray | None, grid: FloatArray
) -> FloatArray:
    """Numbers of people and total weights by grid step and event, (2, n_times, K + 1)."""
    width = target.n_causes + 1
    cell = np.searchsorted(grid, target.duration) * width + target.event
    size = len(grid) * width
    count = np.bincount(cell, minlength=size).astype(np.float64)
    total = count if weight is None else _sums(cell, weight, size)
    return np.stack([count, total]).reshape(2, len(grid), width)


def population_of_counts(counts: FloatArray, grid: FloatArray, event_ids: IntArray) -> Population:
    """The population with these `outcome_counts`, summed over all parts."""
    step, event = np.nonzero(counts[0])
    target = SurvivalTarget(event.astype(np.int32), grid[step], event_ids)
    return Population(target, counts[1][step, event], counts[0][step, event])


def grid_population(
    target: SurvivalTarget, weight: FloatArray | None, n_times: int = MAX_TIMES
) -> Population:
    """The population of people who are all in this process, counted on a grid of times."""
    grid, _ = merged_times(target.duration, np.ones(target.n_samples), n_times)
    return population_of_counts(outcome_counts(target, weight, grid), grid, target.event_ids)

"""Targets, weights and starting margins of the rows of a training, and arrays used again."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakSet

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._people import SurvivalTarget
from survival_objectives._people.population import time_feature
from survival_objectives.censoring import log_odds
from survival_objectives.losses import Target
from survival_objectives.marginal import StepFunction


@dataclass(frozen=True, eq=False)
class RowTargets:
    """Targets and weights of rows.

    Attributes
    ----------
    target : array
        Labels (n_rows,) or distributions (n_rows, K + 1), see `survival_objectives.losses`.
    weight : float32 array of shape (n_rows,)
    """

    target: Target
    weight: Float32Array


class WeightSlot(threading.local):
    """Targets and weights that a refresh callback passes to the objective for one round.

    The engines call both from the thread that trains, and each thread has its own slot, so
    that several trainings may share one objective. A copy of a slot is empty.
    """

    def __init__(self) -> None:
        self._offered: RowTargets | None = None
        self._taken: RowTargets | None = None

    def offer(self, targets: RowTargets) -> None:
        """Put targets and weights in, for the next round of this thread."""
        self._offered = targets

    def take(self) -> RowTargets | None:
        """Remove and return what was offered for this round, or None."""
        self._taken, self._offered = self._offered, None
        return self._taken

    def clear(self) -> None:
        """Remove what an earlier training left, for instance after an interrupt."""
        self._offered = self._taken = None

    def check_taken(self, targets: RowTargets) -> None:
        """Raise an error unless ``targets`` are what the last round was trained with."""
        taken = self._taken
        self.clear()
        if taken is not targets:
            msg = (
                "The refreshed weights were not used in the last round: this callback belongs to "
                "another objective than the one that is trained, or that one was trained elsewhere "
                "in between. Use `refresh()` of the objective, for one training at a time."
            )
            raise ValueError(msg)

    def __reduce__(self) -> tuple[type[WeightSlot], tuple[()]]:
        return WeightSlot, ()


class TrainingThread:
    """The thread that uses a callback: the first one, and no other."""

    def __init__(self) -> None:
        self._thread: int | None = None

    def check(self) -> None:
        """Raise an error in any other thread than the first that called this."""
        current = threading.get_ident()
        if self._thread is None:
            self._thread = current
        if self._thread != current:
            msg = (
                "This callback is used by a training in another thread. Give each training its "
                "own: `objective.refresh()`."
            )
            raise ValueError(msg)


class DerivativeBuffers(threading.local):
    """Float32 arrays for gradient and Hessian, used again in every round, apart by thread."""

    def __init__(self) -> None:
        self._pair = np.empty((2, 0, 0), np.float32)

    def pair(self, shape: tuple[int, int], order: Literal["C", "F"]) -> Float32Array:
        """Gradient and Hessian of a shape, (2, *shape), each in the memory order."""
        if self._pair.shape[1:] != shape:
            if order == "C":
                self._pair = np.empty((2, *shape), np.float32)
            else:
                self._pair = np.empty((2, *shape[::-1]), np.float32).transpose(0, 2, 1)
        return self._pair

    def __reduce__(self) -> tuple[type[DerivativeBuffers], tuple[()]]:
        return DerivativeBuffers, ()


# -------------------------------------------------------------------------------------------- folds
class FoldWeights:
    """Weights of the rows of folds, each from the censoring of its own training people.

    Parameters
    ----------
    person : int64 array of shape (n_rows,)
        Person of each training row.
    n_samples : int
        Number of people.
    weight : callable
        Weights of all rows, from the censoring of some people by their positions.
    """

    def __init__(
        self, person: IntArray, n_samples: int, weight: Callable[[IntArray], Float32Array]
    ) -> None:
        self._person = person
        self._n_samples = n_samples
        self._weight = weight
        self._known: dict[bytes, Float32Array] = {}
        self._trained_on: WeakSet[Any] = WeakSet()

    def trains_on(self, fold: Any) -> None:
        """Remember that the objective was evaluated on a fold, which is thus not held out."""
        self._trained_on.add(fold)

    def is_held_out(self, fold: Any) -> bool:
        """Whether only the metric was evaluated on a fold; the objective is evaluated first."""
        return fold not in self._trained_on

    def of(self, rows: IntArray, *, held_out: bool) -> Float32Array:
        """Weights of a fold's rows.

        Training people are all those without a held-out row. People who were censored before each
        of their horizons have no row at all, but count in the censoring.
        """
        # With two folds, the training rows of one are the held-out rows of the other.
        key = hashlib.sha256(rows.tobytes() + bytes([held_out])).digest()
        if key not in self._known:
            held_out_rows = rows if held_out else np.delete(np.arange(len(self._person)), rows)
            people = np.setdiff1d(np.arange(self._n_samples), self._person[held_out_rows])
            self._known[key] = self._weight(people)[rows]
        return self._known[key]


# -------------------------------------------------------------------------------------------- start
# Steps of a start that is kept with a model, which must not reveal when single people had events:
# evenly spaced, and geometric for times concentrated near 0.
_EVEN_STEPS, _DOUBLING_STEPS = 48, 48


def start_curve(
    kind: str,
    targets: RowTargets,
    population: StepFunction,
    target: SurvivalTarget,
    reference: bool,
) -> StepFunction:
    """Margins by time at which boosting starts.

    Parameters
    ----------
    kind : {"marginal", "constant", "zero"}
        Those of the population's curves, of the best constant, or 0.
    targets : RowTargets
        For the best constant.
    population : StepFunction
        Aalen-Johansen curves.
    target : SurvivalTarget
        The people.
    reference : bool
        Link, see `survival_objectives.losses`.
    """
    n_states = target.n_causes + 1
    first = int(reference)
    if kind == "zero":
        return StepFunction.constant(np.zeros(n_states - first))
    # Half a person: the smallest probability distinguishable from 0.
    floor = 0.5 / target.n_samples
    if kind == "marginal":
        values, initial = population.values, population.initial[None]
        times = time_feature(population.times).astype(np.float64)
    else:
        weight = targets.weight.astype(np.float64)
        frequency: FloatArray
        if targets.target.ndim == 2:
            frequency = weight @ targets.target.astype(np.float64)
        else:
            counts = np.bincount(targets.target, weights=weight, minlength=n_states)
            frequency = counts.astype(np.float64)
        values, times = np.empty((0, n_states)), np.empty(0)
        initial = frequency[None] / frequency.sum()

    def margins(proba: FloatArray) -> FloatArray:
        other = proba[:, :1] if reference else np.ones((len(proba), 1))
        return log_odds(proba[:, first:], other, floor)

    return StepFunction(times, margins(values), margins(initial)[0])


def coarse_start(start: StepFunction, last: float) -> StepFunction:
    """The start on a fixed time grid up to ``last``, which reveals no individual time."""
    if not len(start.times):
        return start
    even = np.linspace(0, last, _EVEN_STEPS + 1)
    times = np.union1d(even, np.geomspace(last * 2.0**-14, last, _DOUBLING_STEPS))
    times = time_feature(times).astype(np.float64)
    middle = np.append((times[1:] + times[:-1]) / 2, times[-1])
    return StepFunction(times, start(middle), start.initial)

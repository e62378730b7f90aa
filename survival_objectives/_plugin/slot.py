"""What rounds of a training share: the next targets and weights, and arrays used again."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

import numpy as np

from survival_objectives._arrays import Float32Array
from survival_objectives.losses import Target


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

"""Arrays that the rounds of a training use again."""

from __future__ import annotations

import threading
from typing import Literal

import numpy as np

from survival_objectives._arrays import Float32Array


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

"""Derivatives of the loss of one row, compiled: CatBoost asks for them row by row."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from survival_objectives._engines.protocol import import_engine

#: Compiled code can raise only a fixed message.
FOREIGN_ROW = "A row of this pool does not belong to this loss. Train on `loss.train_pool`."


@functools.cache
def compiled_derivatives(n_margins: int, reference: bool) -> Callable[..., Any]:
    """Compiled derivatives of minus the loss of one row, equations (4) and (5) of `losses`.

    They are returned as tuples: CatBoost reads numbers out of a tuple several times faster than out
    of an array. It reads the upper triangle of the Hessian only, so the lower one is not written.
    """
    njit = import_engine("numba", extra="catboost").njit
    gradient_tuple = _tuple_of(n_margins, njit(lambda gradient, k: gradient[k]))
    line_tuple = _tuple_of(n_margins, njit(lambda line, k: line[k]))
    hessian_tuple = _tuple_of(n_margins, njit(lambda hessian, k: line_tuple(hessian[k])))

    @njit(error_model="numpy")
    def ders(table, first, trees, numbers, pool_weight):  # type: ignore[no-untyped-def]  # noqa: ARG001
        # Not less than 0 and not beyond the end; compiled code would read any memory.
        number = int(numbers[0]) - first
        if not 0 <= number < len(table):
            raise ValueError(FOREIGN_ROW)
        row = table[number]
        weight, target, start = row[0], row[1 : 1 + n_margins], row[1 + n_margins :]
        proba = np.empty(n_margins)
        top = 0.0 if reference else trees[0] + start[0]
        for k in range(n_margins):
            proba[k] = trees[k] + start[k]
            top = max(top, proba[k])
        norm = np.exp(-top) if reference else 0.0
        for k in range(n_margins):
            proba[k] = np.exp(proba[k] - top)
            norm += proba[k]
        # CatBoost maximises: it wants the derivatives of minus the loss.
        hessian = np.empty((n_margins, n_margins))
        for k in range(n_margins):
            proba[k] /= norm
            for other in range(k):
                hessian[other, k] = weight * proba[k] * proba[other]
            hessian[k, k] = -weight * proba[k] * (1 - proba[k])
        gradient = proba
        for k in range(n_margins):
            gradient[k] = weight * (target[k] - proba[k])
        return gradient_tuple(gradient), hessian_tuple(hessian)

    compiled: Callable[..., Any] = ders
    return compiled


def _tuple_of(length: int, take: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled function that turns an array into the tuple of ``take(array, k)``, k < length."""
    njit = import_engine("numba", extra="catboost").njit

    def prepend(k: int, rest: Callable[..., Any] | None) -> Callable[..., Any]:
        if rest is None:
            return njit(lambda array: (take(array, k),))  # type: ignore[no-any-return]
        return njit(lambda array: (take(array, k), *rest(array)))  # type: ignore[no-any-return]

    make: Callable[..., Any] | None = None
    for k in reversed(range(length)):
        make = prepend(k, make)
    assert make is not None
    return make

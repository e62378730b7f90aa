r"""The IPCW log-loss of a vector of cumulative incidences, with its derivatives.

A stacked row is one person seen at one horizon. Its ``target`` y is 0 while the person is
event-free at the horizon and k in 1..K once cause k has happened; its ``weight`` w is the inverse
probability of censoring weight of `survival_objectives.stacking`. With p_0 the probability of being
event-free and p_k the incidence of cause k, a row loses

    l(f) = -w log p_y(f).                                                                       (1)

The expectation over censoring is -sum_k P(Y = k) log p_k, so the loss is strictly proper: only the
true probabilities minimise it (Theorem 4.2 of Alberge et al., AISTATS 2025).

Instead of a label, a row may have a distribution psi over the states 0..K: for a person who was
censored before the horizon, only the probabilities of the states are known. The row then loses

    l(f) = -w sum_k psi_k log p_k(f),                                                          (19)

which is equation (1) where psi is 1 at y and 0 elsewhere. The psi_k of a row sum to 1. Single
values may be negative or above 1, as in doubly robust estimation: the loss is still convex in f.

Two links turn margins f into probabilities:

free       K + 1 margins,        p_k = exp(f_k) / sum_{j=0..K} exp(f_j)                          (2)
reference  K margins, f_0 = 0,   p_k = exp(f_k) / (1 + sum_{j=1..K} exp(f_j))                    (3)

The reference link fixes the margin of the event-free class. It needs one tree less per round, and
as p_0 = 1 / (1 + sum_k exp f_k), event-free probability falls in time wherever the K margins rise.

Shapes, once for this module: ``margin`` is (n_rows, n_margins) with n_margins = K + 1 (free) or K
(reference), float32 or float64, in any memory order; ``target`` is (n_rows,) for integer labels or
(n_rows, K + 1) for distributions, fastest in Fortran order; ``weight`` is (n_rows,).
Nothing is dropped from the loss: there is no constant that depends on the data only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["full_hessian", "gradient_hessian", "log_loss", "pointwise_log_loss", "probabilities"]

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]
#: Labels (n_rows,), or distributions (n_rows, K + 1).
Target = IntArray | FloatArray

# Rows worked on at a time, so that all intermediate arrays of a block stay in the L2 cache. This
# and the class-major layout make numpy as fast as the engines' own C++ softmax objectives.
_BLOCK = 16384
# What rounding may take from the sum of a distribution: float32 of weights up to 20 and more.
_SUM_TOLERANCE = 1e-3


def probabilities(margin: npt.ArrayLike, *, reference: bool = False) -> npt.NDArray[np.float64]:
    r"""Probabilities of all K + 1 states, in float64; index 0 is event-free.

    Domain: finite margins. Link: equation (2), or (3) with ``reference=True``.

    Parameters
    ----------
    margin : array of shape (n_rows, n_margins)
        Raw scores.
    reference : bool, default=False
        Whether the event-free margin is fixed at 0 and left out of ``margin``.

    Returns
    -------
    float64 array of shape (n_rows, K + 1)
        Rows sum to 1.

    Examples
    --------
    >>> probabilities([[0.0, 0.0]])
    array([[0.5, 0.5]])
    >>> probabilities([[0.0]], reference=True)
    array([[0.5, 0.5]])
    """
    margin = _as_margin(margin)
    proba = np.empty((len(margin), margin.shape[1] + reference))
    for rows, classes, event_free in _softmax_blocks(margin, reference, np.float64):
        if reference:
            proba[rows, 0] = event_free
        proba[rows, int(reference) :] = classes.T
    return proba


def log_loss(
    margin: npt.ArrayLike,
    target: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    reference: bool = False,
) -> float:
    r"""Weighted mean of the IPCW log-loss, sum_i l_i / sum_i w_i with l of equation (1) or (19).

    Parameters
    ----------
    margin : array of shape (n_rows, n_margins)
        Raw scores.
    target : int array of shape (n_rows,), or float array of shape (n_rows, K + 1)
        Labels, 0 = event-free at the horizon and 1..K = cause, or a distribution psi over these
        states in each row, which sums to 1.
    weight : array of shape (n_rows,), optional
        Finite and >= 0, not all 0. Default: 1 for every row.
    reference : bool, default=False
        Whether the event-free margin is fixed at 0 and left out of ``margin``.

    Returns
    -------
    float
        Lower is better. Strictly proper for the true incidences when the weights are the true
        inverse probabilities of censoring.

    Examples
    --------
    >>> log_loss([[0.0, 0.0]], [1])  # log 2
    0.6931471805599453
    >>> log_loss([[0.0, 0.0]], [[0.25, 0.75]])
    0.6931471805599453
    """
    losses = pointwise_log_loss(margin, target, weight, reference=reference)
    total = float(len(losses)) if weight is None else float(np.sum(weight, dtype=np.float64))
    if not total > 0:
        msg = f"The weights of all {len(losses)} rows sum to {total}, so their mean is undefined."
        raise ValueError(msg)
    return float(losses.sum() / total)


def pointwise_log_loss(
    margin: npt.ArrayLike,
    target: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    reference: bool = False,
) -> npt.NDArray[np.float64]:
    """Loss of each row, equation (1) or (19), in float64; parameters as in `log_loss`."""
    margin = _as_margin(margin)
    target, weight = _check_rows(margin, target, weight, reference)
    scores = margin.astype(np.float64)
    if reference:
        scores = np.column_stack([np.zeros(len(scores)), scores])
    top = scores.max(axis=1)
    log_norm = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
    losses: npt.NDArray[np.float64]
    if target.ndim == 2:
        losses = log_norm - np.einsum("ik,ik->i", scores, target)
    else:
        losses = log_norm - scores[np.arange(len(scores)), target]
    if weight is not None:
        losses *= weight
    return losses


def gradient_hessian(
    margin: npt.ArrayLike,
    target: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    reference: bool = False,
    hessian_scale: float = 1.0,
    out: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""Gradient and diagonal Hessian of the IPCW log-loss of each row.

    Domain: ``target`` in {0..K}, or rows that sum to 1; ``weight`` finite and >= 0.
    Link: (2), or (3) with ``reference``.

        g_ik = w_i (p_ik - psi_ik),   h_ik = s w_i p_ik (1 - p_ik)                              (4)

    with k = 0..K (free) or 1..K (reference), and psi_ik = [y_i = k] for labels. For s = 1 these are
    the derivatives of equations (1) and (19); engines that train softmax with another scale s of
    the Hessian get it from their adapter.

    Parameters
    ----------
    margin : array of shape (n_rows, n_margins)
        Raw scores, not modified.
    target, weight : arrays
        As in `log_loss`.
    reference : bool, default=False
        Whether the event-free margin is fixed at 0 and left out of ``margin``.
    hessian_scale : float, default=1.0
        The s of equation (4).
    out : pair of arrays of shape (n_rows, n_margins), optional
        Where to write the gradient and the Hessian, in any memory order. Their precision, float32
        or float64, is that of the computation.

    Returns
    -------
    gradient, hessian : arrays of shape (n_rows, n_margins)
        ``out`` if given, else new arrays with the precision and memory order of ``margin``.

    Examples
    --------
    >>> gradient, hessian = gradient_hessian([[0.0, 0.0]], [1], [2.0])
    >>> gradient
    array([[ 1., -1.]])
    >>> hessian
    array([[0.5, 0.5]])
    >>> gradient_hessian([[0.0, 0.0]], [[0.25, 0.75]])[0]
    array([[ 0.25, -0.25]])
    """
    margin = _as_margin(margin)
    target, weight = _check_rows(margin, target, weight, reference)
    if out is None:
        out = np.empty_like(margin), np.empty_like(margin)
    gradient, hessian = out
    for name, array in (("gradient", gradient), ("hessian", hessian)):
        if array.shape != margin.shape:
            msg = f"`out` {name} has shape {array.shape}; the margins have {margin.shape}."
            raise ValueError(msg)

    dtype = gradient.dtype
    first = int(reference)
    labels = np.arange(first, margin.shape[1] + first)[:, None]
    if target.ndim == 1:
        labels = labels.astype(target.dtype)
    for rows, classes, _ in _softmax_blocks(margin, reference, dtype):
        curvature = (1 - classes) * classes
        if hessian_scale != 1.0:
            curvature *= dtype.type(hessian_scale)
        # `classes` becomes the gradient in place. Subtracting the one-hot of all classes is several
        # times faster than a masked subtraction at the observed one.
        classes -= target[rows, first:].T if target.ndim == 2 else target[rows] == labels
        # The product goes straight to its place: a transposed copy would cost as much again.
        factor = 1 if weight is None else weight[rows].astype(dtype, copy=False)
        np.multiply(classes, factor, out=gradient[rows].T)
        np.multiply(curvature, factor, out=hessian[rows].T)
    return gradient, hessian


def full_hessian(
    margin: npt.ArrayLike,
    target: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    reference: bool = False,
) -> npt.NDArray[np.float64]:
    r"""Full Hessian of the IPCW log-loss of each row, in float64.

        H_ikl = w_i (p_ik [k = l] - p_ik p_il)                                                  (5)

    Parameters are those of `log_loss`. Its diagonal is the Hessian of equation (4) with s = 1.

    Returns
    -------
    float64 array of shape (n_rows, n_margins, n_margins)
    """
    margin = _as_margin(margin)
    _, weight = _check_rows(margin, target, weight, reference)
    proba = probabilities(margin, reference=reference)[:, int(reference) :]
    hessian: npt.NDArray[np.float64] = -proba[:, :, None] * proba[:, None, :]
    diagonal = np.arange(proba.shape[1])
    hessian[:, diagonal, diagonal] = proba * (1 - proba)
    if weight is not None:
        hessian *= weight[:, None, None]
    return hessian


def _softmax_blocks(
    margin: FloatArray, reference: bool, dtype: npt.DTypeLike
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yield ``(rows, proba, event_free)`` block by block.

    ``proba`` is class-major, (n_margins, n_block), and the caller's to overwrite; ``event_free`` is
    the probability of the class that the reference link leaves out (meaningless without it).
    """
    for start in range(0, len(margin), _BLOCK):
        rows = slice(start, min(start + _BLOCK, len(margin)))
        classes = np.array(margin[rows].T, dtype=dtype, order="C")
        top = classes.max(axis=0)
        if reference:
            np.maximum(top, 0, out=top)
        classes -= top
        np.exp(classes, out=classes)
        norm = classes.sum(axis=0)
        event_free = np.exp(-top) if reference else top
        if reference:
            norm += event_free
        np.reciprocal(norm, out=norm)
        classes *= norm
        yield rows, classes, event_free * norm


def _as_margin(margin: npt.ArrayLike) -> FloatArray:
    array = np.asarray(margin)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        msg = f"`margin` must be (n_rows, n_margins); got shape {array.shape}."
        raise ValueError(msg)
    return array


def _check_rows(
    margin: FloatArray, target: npt.ArrayLike, weight: npt.ArrayLike | None, reference: bool
) -> tuple[Target, FloatArray | None]:
    n_rows, n_margins = margin.shape
    target = np.asarray(target)
    weight = None if weight is None else np.asarray(weight)
    if weight is not None and weight.shape != (n_rows,):
        msg = f"`weight` has shape {weight.shape} for {n_rows} rows of margins."
        raise ValueError(msg)
    n_states = n_margins + reference
    if target.ndim == 2:
        _check_distributions(target, (n_rows, n_states))
    else:
        _check_labels(target, n_rows, n_margins, n_states - 1)
    return target, weight


def _check_labels(target: npt.NDArray[Any], n_rows: int, n_margins: int, highest: int) -> None:
    if target.shape != (n_rows,):
        msg = f"`target` has shape {target.shape} for {n_rows} rows of margins."
        raise ValueError(msg)
    if target.dtype.kind not in "iu":
        msg = (
            f"`target` must be integers; got dtype {target.dtype}. Distributions have shape "
            f"({n_rows}, {highest + 1})."
        )
        raise TypeError(msg)
    if n_rows and (target.min() < 0 or target.max() > highest):
        bad = target.min() if target.min() < 0 else target.max()
        msg = f"`target` has the class {bad}, but {n_margins} margins allow 0..{highest}."
        raise ValueError(msg)


def _check_distributions(target: npt.NDArray[Any], shape: tuple[int, int]) -> None:
    if target.shape != shape:
        msg = f"`target` has shape {target.shape}; distributions of these margins have {shape}."
        raise ValueError(msg)
    if target.dtype.kind != "f":
        msg = f"`target` of shape {shape} must be floats; got dtype {target.dtype}."
        raise TypeError(msg)
    # A product is several times faster than a sum along a short axis.
    total = target @ np.ones(shape[1], target.dtype)
    bad = np.flatnonzero(~(np.abs(total - 1) <= _SUM_TOLERANCE))
    if len(bad):
        msg = f"`target` sums to {total[bad[0]]:g} in row {bad[0]}; a distribution sums to 1."
        raise ValueError(msg)

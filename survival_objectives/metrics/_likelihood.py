"""The discretised likelihood of censored outcomes: S_Cen-log-simple."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives._people import check_fraction, check_positive_int, check_times
from survival_objectives.metrics._inputs import (
    ScoredPeople,
    beyond_curves,
    curve_values,
    sorted_by_time,
)


def likelihood_losses(
    scored: ScoredPeople,
    n_nodes: int = 32,
    nodes: npt.ArrayLike | None = None,
    min_probability: float = 1e-15,
) -> tuple[FloatArray, BoolArray]:
    r"""Terms of the mean (30) and (97), and who is under observation before the last node.

    With node times z_0 < ... < z_B, and the interval z_j < t_i <= z_{j+1} in which person i leaves,
    of whom e_i is the entry,

        S = -mean_i { log(F_k(z_{j+1}|x_i) - F_k(max(z_j, e_i)|x_i))   if d_i = k > 0
                    { log F_0(z_{j+1}|x_i)                             if d_i = 0               (30)
            + mean_i log F_0(e_i|x_i).                                                          (97)

    Rows of one person are summed; those before the last end at t_i in place of z_{j+1}. A duration
    of 0 belongs to the first interval. Follow-up ends at z_B: t_i > z_B counts as censored in the
    last interval, and people who enter after it do not count.
    """
    floor = check_fraction(min_probability, "min_probability", one=False)
    known, curves = sorted_by_time(scored)
    node = _check_nodes(nodes, n_nodes, scored.start, known[-1])
    target = scored.collapsed_target()
    beyond = beyond_curves(target, node[-1], "node")
    event = np.where(beyond, 0, target.event)
    right = np.clip(np.searchsorted(node, target.duration, side="left"), 1, len(node) - 1)
    entry = np.zeros(target.n_samples) if target.entry is None else target.entry
    left = np.maximum(node[right - 1], entry)
    # Where a person has another row, it begins at this time, not at the node after it.
    has_next = target.duration < target.until_last.duration
    end = np.where(has_next & ~beyond, target.duration, node[right])

    if curves.ndim == 2:
        curves = np.stack([curves, 1 - curves], axis=1)

    def read(values: FloatArray, at: FloatArray) -> FloatArray:
        return curve_values(values, known, at[:, None], start=scored.start)[:, 0]

    probability = np.empty(target.n_samples)
    for code in range(curves.shape[1]):
        rows = event == code
        # Incidences are read as 1 - F, event-free curves as they are: both start at 1.
        curve = curves[rows, 0] if code == 0 else 1 - curves[rows, code]
        probability[rows] = read(curve, end[rows])
        if code:
            probability[rows] = read(curve, left[rows]) - probability[rows]
    with np.errstate(divide="ignore"):
        losses: FloatArray = -np.log(np.maximum(probability, floor))
    if target.entry is not None:
        losses += np.log(np.maximum(read(curves[:, 0], entry), floor))
    return losses, np.asarray(entry < node[-1])


def _check_nodes(
    nodes: npt.ArrayLike | None, n_nodes: int, start: float, last: float
) -> FloatArray:
    if nodes is None:
        if not last > start:
            msg = f"The last of `times` is {last:g}, so there is no interval to cut. Pass `nodes`."
            raise ValueError(msg)
        return np.linspace(start, last, check_positive_int(n_nodes, "n_nodes") + 1)
    node = check_times(nodes)
    if len(node) < 2 or (np.diff(node) <= 0).any():
        msg = f"`nodes` must be two or more increasing times; got {node.tolist()}."
        raise ValueError(msg)
    if node[-1] > last:
        msg = (
            f"The last of `nodes` is {node[-1]:g}, but curves are given up to {last:g} only. "
            "Predict for later times, or leave these nodes out."
        )
        raise ValueError(msg)
    return node

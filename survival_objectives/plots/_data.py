"""What pictures are drawn from: incidences by group, and checks of curves and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import check_survival_target, check_times
from survival_objectives.marginal import aalen_johansen


@dataclass(frozen=True)
class GroupIncidence:
    """Predicted and observed incidence of one cause, by group.

    Attributes
    ----------
    names : tuple of str, length n_groups
        Labels of the groups, sorted or in the order of a categorical's levels.
    sizes : int array of shape (n_groups,)
        Number of people.
    predicted : float64 array of shape (n_groups, n_times)
        Mean of the predicted curves of the group's people.
    observed : float64 array of shape (n_groups, n_times)
        Aalen-Johansen estimate in the group; NaN beyond its last duration, where nothing is known.
    """

    names: tuple[str, ...]
    sizes: IntArray
    predicted: FloatArray
    observed: FloatArray


def group_incidence(
    cif: npt.ArrayLike, y: Any, groups: npt.ArrayLike, times: npt.ArrayLike, *, cause: int = 1
) -> GroupIncidence:
    """Mean predicted curve of each group beside its Aalen-Johansen curve.

    Parameters
    ----------
    cif : array of shape (n_samples, K + 1, n_times)
        Predicted probabilities of all states; index 0 is event-free.
    y : outcomes of the n_samples people
        As everywhere in this package.
    groups : array of shape (n_samples,)
        The group of each person, for instance a stage, or quantiles of predicted risk. Levels of
        a pandas categorical keep their order.
    times : array of shape (n_times,)
        Times of the last axis of ``cif``.
    cause : int, default=1
        Label of the cause in ``y``; 0 is the event-free state.

    Returns
    -------
    GroupIncidence
    """
    times = check_times(times)
    target = check_survival_target(y)
    curves = np.asarray(cif, dtype=np.float64)
    expected = (target.n_samples, target.n_causes + 1, len(times))
    if curves.shape != expected:
        msg = f"`cif` has shape {curves.shape}; expected (people, K + 1, times) = {expected}."
        raise ValueError(msg)
    if cause not in target.event_ids:
        msg = f"`cause` is {cause}; `y` has the labels {target.event_ids.tolist()}."
        raise ValueError(msg)
    code = int(np.flatnonzero(target.event_ids == cause)[0])
    # A categorical keeps the order of its levels; anything else is sorted.
    categorical = pd.Categorical(groups).remove_unused_categories()  # type: ignore[arg-type]
    members, labels = categorical.codes, categorical.categories
    if len(members) != target.n_samples or (members < 0).any():
        n_missing = int((members < 0).sum())
        msg = (
            f"`groups` has {len(members)} values, {n_missing} of them missing, for "
            f"{target.n_samples} people. Give every person a group."
        )
        raise ValueError(msg)

    observed = np.empty((len(labels), len(times)))
    predicted = np.empty_like(observed)
    for group in range(len(labels)):
        inside = members == group
        part = target.take(inside)
        observed[group] = aalen_johansen(part)(times)[:, code]
        observed[group, times > part.duration.max()] = np.nan
        predicted[group] = curves[inside, code].mean(axis=0)
    sizes = np.bincount(members).astype(np.int64)
    return GroupIncidence(tuple(map(str, labels)), sizes, predicted, observed)


def as_curves(values: npt.ArrayLike, times: FloatArray, name: str) -> FloatArray:
    """Curves of shape (n_curves, n_times)."""
    curves = np.asarray(values, dtype=np.float64)
    if curves.ndim != 2 or curves.shape[1] != len(times):
        msg = f"`{name}` has shape {curves.shape}; expected (number of curves, {len(times)} times)."
        raise ValueError(msg)
    return curves


def as_curve(values: npt.ArrayLike, times: FloatArray, name: str) -> FloatArray:
    """One value per time."""
    curve = np.asarray(values, dtype=np.float64)
    if curve.shape != times.shape:
        msg = (
            f"{name!r} has shape {curve.shape}; expected one value for each of {len(times)} times."
        )
        raise ValueError(msg)
    return curve


def as_pair(pair: tuple[npt.ArrayLike, npt.ArrayLike], name: str) -> tuple[FloatArray, FloatArray]:
    """Two arrays of the same length."""
    first, second = (np.asarray(values, dtype=np.float64) for values in pair)
    if first.ndim != 1 or first.shape != second.shape or len(first) == 0:
        msg = (
            f"{name!r} is a pair of shapes {first.shape} and {second.shape}; "
            "expected two arrays of shape (n_bins,)."
        )
        raise ValueError(msg)
    return first, second


def check_names(names: Sequence[str], expected: int, argument: str) -> None:
    """Raise an error unless there is one name per curve."""
    if len(names) != expected:
        msg = f"`{argument}` has {len(names)} names for {expected} curves."
        raise ValueError(msg)

"""Folds, times and horizons of an assessment, which depend on the outcomes alone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import (
    GroupShuffleSplit,
    KFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from survival_objectives._arrays import BoolArray, FloatArray, IntArray
from survival_objectives._people import (
    SurvivalTarget,
    check_fraction,
    check_positive_int,
    check_random_state,
    check_times,
)
from survival_objectives.assessment._folds import Fold, outcomes_of
from survival_objectives.metrics import FollowUpWarning, brier_score

_N_TIMES = 50
# The default grid ends where few events are left: later, a handful of people carry the score.
_LAST_QUANTILE = 0.95
# Discrimination is measured at these quantiles of the observed event times.
_HORIZON_QUANTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Design:
    """Folds, times and horizons, which depend on the outcomes alone.

    ``scored`` marks the times that are within the follow-up of every fold.
    """

    folds: list[Fold]
    times: FloatArray
    scored: BoolArray
    horizons: FloatArray

    @property
    def n_trained(self) -> int:
        """People in the largest training part."""
        return max(len(fold.train) for fold in self.folds)


def designed(
    target: SurvivalTarget,
    n_splits: int,
    test_size: float | None,
    max_train: int | None,
    random_state: Any,
    times: npt.ArrayLike | None,
    horizons: npt.ArrayLike | None,
    group: IntArray | None = None,
) -> Design:
    """The design of an assessment; errors and warnings are those of `assess`."""
    folds = _folds(target, n_splits, test_size, max_train, random_state, group)
    grid, wanted = _time_grid(target, times)
    if horizons is not None:
        wanted = _chosen_horizons(horizons)
        if wanted[-1] > target.duration.max():
            msg = (
                f"`horizons` has {wanted[-1]:g}, but follow-up ends at "
                f"{target.duration.max():g}. Ask for earlier times."
            )
            raise ValueError(msg)
        grid = np.unique(np.concatenate([grid, wanted]))
    scored = _scored_times(target, folds, grid)
    if times is None:
        grid, scored = grid[scored], scored[scored]
    elif not scored.all():
        msg = (
            f"{np.count_nonzero(~scored)} of {len(grid)} times, from {grid[~scored][0]:g} on, are "
            "beyond the follow-up of some fold. They have curves but no scores."
        )
        warnings.warn(msg, FollowUpWarning, stacklevel=3)
    if horizons is not None and not np.isin(wanted, grid[scored]).all():
        msg = (
            f"`horizons` has {wanted.max():g}, but follow-up of some fold ends at "
            f"{grid[scored][-1]:g}. Ask for earlier times, or use fewer folds."
        )
        raise ValueError(msg)
    wanted = grid[scored][np.abs(grid[scored] - wanted[:, None]).argmin(axis=1)]
    return Design(folds, grid, scored, wanted)


# ------------------------------------------------------------------------------------------ folds
def _folds(
    target: SurvivalTarget,
    n_splits: int,
    test_size: float | None,
    max_train: int | None,
    random_state: Any,
    group: IntArray | None,
) -> list[Fold]:
    """Training and held-out rows, with every cause in every training part."""
    generator = check_random_state(random_state)
    seed = int(generator.integers(2**31 - 1))
    counts = np.bincount(target.event, minlength=target.n_causes + 1)
    rarest = 1 + int(counts[1:].argmin())
    if counts[rarest] < 2:
        msg = (
            f"Cause {target.event_ids[rarest]} was observed once, so it cannot be both trained on "
            "and held out. Merge it with another cause, or code it as censored (0)."
        )
        raise ValueError(msg)
    # A single censored person cannot be a stratum.
    groups = target.event if counts[0] != 1 else np.where(target.event, target.event, rarest)
    n_groups = len(np.unique(groups))
    splitter: Any
    if test_size is not None:
        test_size = check_fraction(test_size, "test_size", zero=False, one=False)
        n_held = int(np.ceil(test_size * target.n_samples))
        enough = min(n_held, target.n_samples - n_held) >= n_groups
        kind = StratifiedShuffleSplit if enough else ShuffleSplit
        kind = kind if group is None else GroupShuffleSplit
        splitter = kind(1, test_size=test_size, random_state=seed)
    else:
        check_positive_int(n_splits, "n_splits")
        if not 2 <= n_splits <= target.n_samples // 2:
            msg = (
                f"`n_splits` is {n_splits} for {target.n_samples} people; use 2 to "
                f"{target.n_samples // 2}, or `test_size` for a single split."
            )
            raise ValueError(msg)
        n_people = target.n_samples if group is None else len(np.unique(group))
        if n_people < n_splits:
            msg = (
                f"`groups` has {n_people} different values, too few for `n_splits={n_splits}`: "
                "rows of one group are in one fold. Use fewer folds."
            )
            raise ValueError(msg)
        kind = StratifiedKFold if np.bincount(groups).max() >= n_splits else KFold
        kind = kind if group is None else StratifiedGroupKFold
        splitter = kind(n_splits, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # A cause with fewer events than folds is spread over as many folds as possible.
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        folds = [
            Fold(_some(train, max_train, generator), np.sort(test).astype(np.int64))
            for train, test in splitter.split(groups, groups, group)
        ]
    for fold in folds:
        lacking = np.setdiff1d(np.arange(1, target.n_causes + 1), target.event[fold.train])
        if len(lacking):
            msg = (
                f"Cause {target.event_ids[lacking[0]]}, observed {counts[lacking[0]]} times, is "
                "missing in the training part of a split. Hold out fewer people, or merge it with "
                "another cause."
            )
            raise ValueError(msg)
    return folds


def _some(rows: IntArray, most: int | None, generator: np.random.Generator) -> IntArray:
    if most is not None and check_positive_int(most, "max_train") < len(rows):
        rows = generator.choice(rows, most, replace=False)
    return np.sort(rows).astype(np.int64)


# ------------------------------------------------------------------------------------------ times
def _time_grid(
    target: SurvivalTarget, times: npt.ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    """Times of the curves, and the requested horizons."""
    observed = target.duration[target.event > 0]
    horizons = np.quantile(observed, _HORIZON_QUANTILES)
    if times is not None:
        grid = np.unique(check_times(times))
        if grid[0] <= 0:
            msg = "`times` contains 0, before any event. Use times > 0."
            raise ValueError(msg)
        return grid, horizons
    last = float(np.quantile(observed, _LAST_QUANTILE))
    if last == 0:
        msg = "Nearly all events are at time 0, so there is nothing to predict. Pass `times`."
        raise ValueError(msg)
    even = np.linspace(0, last, _N_TIMES + 1)[1:]
    rounded = np.array([float(f"{horizon:.2g}") for horizon in horizons])
    horizons = np.where((rounded > 0) & (rounded <= last), rounded, horizons)
    grid = np.unique(np.concatenate([even, horizons[horizons > 0]]))
    return grid, horizons


def _chosen_horizons(horizons: npt.ArrayLike) -> FloatArray:
    """Three increasing times; the last is repeated if fewer are given."""
    chosen = np.unique(check_times(horizons))
    if len(chosen) > len(_HORIZON_QUANTILES) or chosen[0] <= 0:
        msg = f"`horizons` is {horizons!r}; give one to three times > 0."
        raise ValueError(msg)
    return np.pad(chosen, (0, len(_HORIZON_QUANTILES) - len(chosen)), mode="edge")


def _scored_times(target: SurvivalTarget, folds: list[Fold], times: FloatArray) -> BoolArray:
    """Whether each time is within the follow-up of every fold."""
    scored = np.ones(len(times), np.bool_)
    for fold in folds:
        y_train, y_test = outcomes_of(target, fold.train), outcomes_of(target, fold.test)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FollowUpWarning)
            even = np.full((len(y_test), len(times)), 0.5)
            scores = brier_score(y_train, y_test, even, times)
        scored &= ~np.isnan(scores)
    if not scored.any():
        msg = (
            f"Follow-up of some fold ends before {times[0]:g}, the first of `times`. Ask for "
            "earlier times, or use fewer folds."
        )
        raise ValueError(msg)
    return scored

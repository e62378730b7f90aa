"""Fits of several models in several folds, sequentially or in parallel processes."""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import SurvivalTarget, take_rows
from survival_objectives.metrics._scorers import predicted_curves

ProgressHook = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Fold:
    """Training rows and held-out rows, both increasing."""

    train: IntArray
    test: IntArray


@dataclass(frozen=True)
class _Result:
    """Curves of the models in one fold, reasons of failures, and warnings."""

    curves: dict[str, FloatArray] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    warned: list[tuple[str, type[Warning]]] = field(default_factory=list)


def outcomes_of(target: SurvivalTarget, rows: IntArray) -> pd.DataFrame:
    """The columns ``event`` and ``duration`` of some rows, with the user's labels."""
    return pd.DataFrame(
        {"event": target.event_ids[target.event[rows]], "duration": target.duration[rows]}
    )


@dataclass
class FoldFits:
    """Fits of all models in all folds, with progress reports.

    Attributes
    ----------
    X, target : features and outcomes
    folds : list of Fold
    times : float64 array of shape (n_times,)
        Times of the curves.
    models : mapping of str to estimator
    fallible : set of str
        Models that may fail: the reason is kept, and their other folds are skipped.
    on_fit : callable, optional
        Called after every fit as ``on_fit(done, total, name)``.
    n_jobs : int
        Number of folds trained in parallel. If more than one, each fold has its own process with
        single-threaded engines; curves equal those of single-threaded engines bit for bit.
    keep_interrupted : bool
        Whether Ctrl-C ends the fits and keeps the complete folds, if there are any.
    group : int64 array of shape (n_samples,), or None
        Groups of rows, for models whose ``fit`` takes ``groups``.
    failed : dict of str to str
        Models that failed in `run`, with the reason.
    """

    X: Any
    target: SurvivalTarget
    folds: list[Fold]
    times: FloatArray
    models: Mapping[str, Any]
    fallible: set[str]
    on_fit: ProgressHook | None = None
    n_jobs: int = 1
    keep_interrupted: bool = False
    group: IntArray | None = None
    failed: dict[str, str] = field(default_factory=dict)
    _done: int = 0

    def run(self) -> tuple[list[Fold], dict[str, FloatArray]]:
        """The complete folds, and the curves of their held-out people, by row."""
        complete: list[tuple[Fold, _Result]] = []
        results = self._sequential() if self.n_jobs == 1 else self._parallel()
        try:
            for position, result in results:
                complete.append((self.folds[position], result))
                self.failed |= result.failed
        except KeyboardInterrupt as interrupt:
            # A subclass marks a termination from outside, after which nothing is kept.
            if type(interrupt) is not KeyboardInterrupt or not self.keep_interrupted:
                raise
            if not complete:
                raise
        complete.sort(key=lambda pair: pair[0].test[0])
        return [fold for fold, _ in complete], self._joined(complete)

    def _joined(self, complete: list[tuple[Fold, _Result]]) -> dict[str, FloatArray]:
        held_out = np.sort(np.concatenate([fold.test for fold, _ in complete]))
        joined: dict[str, FloatArray] = {}
        for name in self.models:
            if name in self.failed:
                continue
            curves = np.empty((len(held_out), len(self.target.event_ids), len(self.times)))
            for fold, result in complete:
                curves[np.searchsorted(held_out, fold.test)] = result.curves.pop(name)
            joined[name] = curves
        return joined

    def _sequential(self) -> Iterator[tuple[int, _Result]]:
        for position, fold in enumerate(self.folds):
            result = _Result()
            for name, model in self.models.items():
                self._fit(position, fold, name, model, result)
                self._count(name)
            yield position, result

    def _parallel(self) -> Iterator[tuple[int, _Result]]:
        from joblib import Parallel, delayed

        models = {name: _with_one_thread(model) for name, model in self.models.items()}
        task = FoldFits(
            self.X,
            self.target,
            self.folds,
            self.times,
            models,
            self.fallible,
            group=self.group,
        )
        # Memory-mapped arrays would be read-only, but models may write to their input.
        parallel = Parallel(
            n_jobs=min(self.n_jobs, len(self.folds)),
            return_as="generator_unordered",
            max_nbytes=None,
        )
        for position, result in parallel(
            delayed(task._fit_fold)(position) for position in range(len(self.folds))
        ):
            for message, category in result.warned:
                warnings.warn(message, category, stacklevel=2)
            for name in self.models:
                self._count(name)
            yield position, result

    def _fit_fold(self, position: int) -> tuple[int, _Result]:
        """Results of all models in one fold, called in a separate process."""
        # Ctrl-C reaches all processes of a terminal; only the parent process handles it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        result = _Result()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            for name, model in self.models.items():
                self._fit(position, self.folds[position], name, model, result)
        result.warned.extend((str(each.message), each.category) for each in caught)
        return position, result

    def _fit(self, position: int, fold: Fold, name: str, model: Any, result: _Result) -> None:
        if name in self.failed:
            return
        if name not in self.fallible:
            result.curves[name] = self._curves(model, fold)
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result.curves[name] = self._curves(model, fold)
        except Exception as error:
            # lifelines puts links to further reading in the middle of its message.
            reason = re.sub(r"Please see the following tips.*?https?:\S+", "", str(error))
            reason = " ".join(reason.split()) or type(error).__name__
            result.failed[name] = f"In fold {position + 1} of {len(self.folds)}: {reason}"

    def _curves(self, model: Any, fold: Fold) -> FloatArray:
        fitted = clone(model)
        options = {}
        if self.group is not None and has_fit_parameter(fitted, "groups"):
            options["groups"] = self.group[fold.train]
        fitted.fit(take_rows(self.X, fold.train), outcomes_of(self.target, fold.train), **options)
        curves = predicted_curves(fitted, take_rows(self.X, fold.test), self.times)
        expected = (len(fold.test), len(self.target.event_ids), len(self.times))
        if curves.shape != expected:
            msg = (
                f"`predict_cumulative_incidence` of {type(model).__name__} returned shape "
                f"{curves.shape}; expected (people, K + 1, times) = {expected}."
            )
            raise ValueError(msg)
        if not np.isfinite(curves).all():
            msg = f"{type(model).__name__} predicted probabilities that are not finite."
            raise ValueError(msg)
        return curves

    def _count(self, name: str) -> None:
        self._done += 1
        if self.on_fit is not None:
            self.on_fit(self._done, len(self.models) * len(self.folds), name)


def _with_one_thread(model: Any) -> Any:
    model = clone(model)
    threads = [name for name in model.get_params() if re.fullmatch(r"(.*__)?n_jobs", name)]
    return model.set_params(**dict.fromkeys(threads, 1))

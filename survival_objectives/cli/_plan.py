"""Plan of an assessment: number of folds, number of people, and expected time."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

from survival_objectives._process.threads import available_threads

_FOLDS = 5
# Folds up to this size; above, a single held-out part is precise enough.
_MOST_IN_FOLDS = 20_000
_MOST_CELLS_IN_FOLDS = 4_000_000
_HELD_OUT = 0.2
# Scores of this many people are precise to the third decimal; more would cost time and memory.
_MOST_HELD_OUT = 50_000
# A model of this many people predicts nearly as well as one of all.
_MOST_TRAINED = 500_000
# Minimum number of training people under a time budget.
_FEWEST_TRAINED = 10_000
#: Training time grows with the number of people to about this power.
GROWTH = 0.75
# Seconds to start processes, and to fit baselines per fold.
_START, _BASELINES = 4.0, 3.0
# Below this many seconds, processes are not worth their start.
_WORTH_PROCESSES = 15.0


@dataclass(frozen=True)
class Cost:
    """Cost of training on all people: wall time and CPU time in seconds."""

    clock: float
    cpu: float


@dataclass(frozen=True)
class Plan:
    """An assessment."""

    n_people: int  # In the file.
    n_splits: int | None = _FOLDS  # Number of folds; None for a single held-out part.
    test_size: float | None = None  # Share of people in the held-out part.
    max_train: int | None = None  # Maximum number of training people per fold.

    @property
    def n_trained(self) -> int:
        """Number of people that each model of the assessment is trained on."""
        share = 1 - 1 / self.n_splits if self.n_splits else 1 - (self.test_size or 0)
        return min(int(share * self.n_people), self.max_train or self.n_people)

    @property
    def n_fits(self) -> int:
        """Number of trainings."""
        return self.n_splits or 1

    def __str__(self) -> str:
        if self.n_splits:
            return f"{self.n_splits} folds"
        held_out = round((self.test_size or 0) * self.n_people)
        return f"{held_out} people held out of a model of {self.n_trained} others"

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `assess`."""
        return {
            "n_splits": self.n_splits or _FOLDS,
            "test_size": self.test_size,
            "max_train": self.max_train,
        }

    def seconds(self, cost: Cost, n_jobs: int) -> float:
        """Expected time of the assessment, given the cost of training on all people."""
        share = float((self.n_trained / self.n_people) ** GROWTH)
        if self.n_splits is None:
            return cost.clock * share + _BASELINES
        one = cost.cpu * share + _BASELINES
        return one * self.n_splits / n_jobs + (_START if n_jobs > 1 else 0)

    def n_jobs(self, cost: Cost, n_cores: int) -> int:
        """Number of folds to train in parallel: one per core, if that is faster."""
        if self.n_splits is None or self.n_fits * cost.cpu < _WORTH_PROCESSES:
            return 1
        return min(n_cores, self.n_splits)

    def within(self, minutes: float, cost: Cost, n_cores: int) -> Plan:
        """The most thorough plan within a budget of minutes, or the smallest plan."""
        whole = Plan(self.n_people)
        held_out = _held_out(self.n_people)
        for plan in (whole, replace(whole, n_splits=3), held_out):
            if plan.seconds(cost, plan.n_jobs(cost, n_cores)) <= 60 * minutes:
                return plan
        left = max(60 * minutes - _BASELINES, 0.0) / max(cost.clock, 1e-9)
        n_trained = max(int(self.n_people * left ** (1 / GROWTH)), _FEWEST_TRAINED)
        return replace(held_out, max_train=min(n_trained, held_out.n_trained))


def planned(options: argparse.Namespace, n_people: int, n_columns: int) -> Plan:
    """The requested plan or, by default, one that suits the size of the table."""
    if options.test_size is not None:
        return Plan(n_people, n_splits=None, test_size=options.test_size)
    if options.cv is not None:
        return Plan(n_people, n_splits=options.cv)
    if n_people <= _MOST_IN_FOLDS and n_people * n_columns <= _MOST_CELLS_IN_FOLDS:
        return Plan(n_people)
    return _held_out(n_people)


def _held_out(n_people: int) -> Plan:
    share = min(_HELD_OUT, _MOST_HELD_OUT / n_people)
    limited = n_people * (1 - share) > _MOST_TRAINED
    return Plan(
        n_people, n_splits=None, test_size=share, max_train=_MOST_TRAINED if limited else None
    )


def n_cores(threads: int | None) -> int:
    """Number of cores to use: those of the process, or fewer if the user limits them."""
    return min(available_threads(), threads or available_threads())

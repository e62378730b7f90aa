"""What runs on a worker: checks of its people, sums over all workers, and the training.

Every worker runs the same training on its own people inside XGBoost's communicator, call for call.
XGBoost merges bins and histograms, so that all grow the same trees; all other sums over people go
through `CollectiveReduction`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._engines.protocol import import_engine
from survival_objectives._hazards.people import RowBudget
from survival_objectives._hazards.settings import HazardSettings
from survival_objectives._models.fitted import FittedModel, Run
from survival_objectives._people import Features, SurvivalTarget
from survival_objectives._people.cohort import (
    Cohort,
    MemoryBatches,
    joined_outcomes,
    split_cohort,
)
from survival_objectives._people.disk import cohort_digest
from survival_objectives._people.labels import EventLabels, text_events
from survival_objectives._people.population import (
    MAX_TIMES,
    Population,
    Reduction,
    merged_times,
    outcome_counts,
    population_of_counts,
)
from survival_objectives._people.values import Resolution
from survival_objectives._process.checkpoints import (
    Checkpoint,
    Checkpoints,
    State,
    write_checkpoint,
)
from survival_objectives._training import Settings, trained
from survival_objectives.adapters.dask._pairing import check_same_rows
from survival_objectives.adapters.xgboost import _engine as xgboost_engine

xgb = import_engine("xgboost", extra="dask")
collective = import_engine("xgboost.collective", extra="dask")
tracker_module = import_engine("xgboost.tracker", extra="dask")
distributed = import_engine("distributed", extra="dask")


# Numbers that all workers together send when they agree on a grid of times: 2^20 pairs are 16 MB.
_GATHERED_TIMES = 2**20


# ----------------------------------------------------------------------------------------- people
def part_labels(X: Any, y: Any) -> set[str]:
    """Labels of the text events of a partition; none where they are numbers."""
    labels = text_events(_outcomes(X, y))
    return set() if labels is None else set(labels)


def _outcomes(X: Any, y: Any) -> Any:
    """Outcomes of a partition, which may be named columns of its features."""
    return (X[y[0]], X[y[1]]) if isinstance(y, tuple) and isinstance(y[0], str) else y


def checked_part(
    X: Any, y: Any, weight: Any, schema: Features, labels: EventLabels | None, number: int
) -> Cohort:
    """The people of a partition, perhaps none; errors name the partition."""
    try:
        check_same_rows(X, {"y": y, "sample_weight": weight}, is_first=number == 0)
        if isinstance(y, tuple) and isinstance(y[0], str):
            X, y = X.drop(columns=list(y)), _outcomes(X, y)
        if labels is not None:
            y = labels.coded(y)
        part = Cohort.checked_part(X, y, weight, like=schema, resolution="count")
    except (TypeError, ValueError) as error:
        msg = f"Partition {number}: {error}"
        raise type(error)(msg) from None
    if part is None:
        part = Cohort.joined([], schema, np.zeros(1, np.int64))
    return part


def summary(part: Cohort) -> tuple[int, list[int]]:
    """Number of people and their labels."""
    return part.n_samples, np.unique(part.target.event_ids[part.target.event]).tolist()


def resolutions(part: Cohort) -> tuple[dict[int, Resolution], Resolution] | None:
    """What rounding to float32 left of the columns and durations; None where there are none."""
    if part.duration_resolution is None:
        return None
    return part.features.resolutions, part.duration_resolution


def part_digest(part: Cohort) -> str:
    """Digest that identifies the people of a partition when a training is resumed."""
    return cohort_digest(part)


# --------------------------------------------------------------------------------------- reduction
class CollectiveReduction:
    """The reduction over all workers, by XGBoost's collective."""

    def __init__(self) -> None:
        self.rank: int = collective.get_rank()
        self.n_workers: int = collective.get_world_size()

    @property
    def is_shared(self) -> bool:
        return self.n_workers > 1

    def sum(self, values: npt.ArrayLike) -> FloatArray:
        own = np.asarray(values, dtype=np.float64)
        total: FloatArray = collective.allreduce(own, collective.Op.SUM).reshape(own.shape)
        return total

    def population(self, target: SurvivalTarget, weight: FloatArray | None) -> Population:
        if self.n_workers == 1:
            return Population(target, weight)
        # All agree on the steps first, then count, so that the counts are exact on them.
        n_times = min(MAX_TIMES, _GATHERED_TIMES // self.n_workers)
        own = merged_times(target.duration, np.ones(target.n_samples), n_times)
        gathered = np.zeros((self.n_workers, 2, n_times))
        gathered[self.rank, :, : len(own[0])] = own
        times, count = self.sum(gathered).swapaxes(0, 1).reshape(2, -1)
        seen = count > 0
        grid, _ = merged_times(times[seen], count[seen], MAX_TIMES)
        return population_of_counts(
            self.sum(outcome_counts(target, weight, grid)), grid, target.event_ids
        )

    def stream(self, generator: np.random.Generator) -> np.random.Generator:
        # The first worker draws what a single machine would.
        return generator if self.rank == 0 else generator.spawn(self.rank)[-1]


# ---------------------------------------------------------------------------------------- tracker
_trackers: dict[str, Any] = {}
_running: set[str] = set()


async def start_tracker(
    training: str, n_workers: int, timeout: int, dask_worker: Any = None
) -> dict[str, Any]:
    """Start what introduces the workers to each other; returns how to reach it.

    At most ``timeout`` seconds, in a thread: Dask calls this in the worker's event loop, which
    answers for the worker.
    """
    host = distributed.comm.get_address_host(dask_worker.address)

    def start() -> dict[str, Any]:
        tracker = tracker_module.RabitTracker(
            n_workers=n_workers, host_ip=host, sortby="task", timeout=timeout
        )
        tracker.start()
        _trackers[training] = tracker
        arguments: dict[str, Any] = tracker.worker_args()
        return arguments

    return await asyncio.to_thread(start)


def free_tracker(training: str) -> None:
    """End the tracker, without waiting for that; workers that wait for it give up."""
    tracker = _trackers.pop(training, None)
    if tracker is not None:
        # XGBoost waits up to twice the timeout for whom the tracker is just talking to.
        threading.Thread(target=_free, args=(tracker,), daemon=True).start()


def _free(tracker: Any) -> None:
    # It complains where workers left without saying goodbye, which is why it is freed.
    with suppress(Exception):
        tracker.free()


def is_running(training: str) -> bool:
    """Whether this worker still works on a training."""
    return training in _running


# ---------------------------------------------------------------------------------------- training
@dataclass(frozen=True)
class Plan:
    """One training, the same on every worker; its name and tracker are set when it begins."""

    settings: Settings
    schema: Features
    event_ids: IntArray
    seed: int
    timeout: int
    previous: FittedModel | None
    checkpoint: Checkpoint
    checkpoint_folder: str | None
    checkpoint_every: int
    resume: State | None
    training: str = ""
    tracker: dict[str, Any] = field(default_factory=dict)


class TrainingCancelled(RuntimeError):  # noqa: N818  It is not an error.
    """The client no longer waits for this training."""


def train(
    rank: int, parts: list[Cohort], held_out: list[Cohort] | None, plan: Plan
) -> FittedModel | None:
    """Train on this worker's people; the first worker returns the model."""
    worker = distributed.get_worker()
    with _registered(plan.training), _communicator(rank, plan):
        model = _fit(parts, held_out, plan, worker)
    if rank > 0:
        return None
    # Predictions take the threads of the client's parameters.
    for evaluator in model.evaluators().values():
        evaluator.n_jobs = plan.settings.n_jobs
    return model.with_frame(n_jobs=plan.settings.n_jobs)


def _fit(
    parts: list[Cohort], held_out: list[Cohort] | None, plan: Plan, worker: Any
) -> FittedModel:
    reduction, settings = CollectiveReduction(), plan.settings
    if settings.n_jobs is None:
        settings = replace(settings, n_jobs=worker.state.nthreads)
    people = _people(_counted(parts), plan, reduction)
    generator = np.random.default_rng(plan.seed)
    held = None
    if held_out is not None:
        held = Cohort.joined(_counted(held_out), plan.schema, plan.event_ids)
    trainer = partial(xgboost_engine.Trainer, before_round=_cancellation(worker))
    run = Run(
        replace(xgboost_engine.ENGINE, trainer=trainer),
        generator,
        reduction,
        plan.previous,
        checkpoints=_checkpoints(plan, reduction),
    )
    split = partial(_split, people.cohorts[0], generator, reduction)
    return trained(settings, run, people, held, split=split)


def _people(parts: Sequence[Cohort], plan: Plan, reduction: Reduction) -> MemoryBatches:
    """The people of this worker as one batch, or as they were loaded where some will be drawn."""
    settings = plan.settings
    if isinstance(settings, HazardSettings):
        n_people = float(reduction.sum(sum(part.n_samples for part in parts)))
        budget = RowBudget.of(n_people, settings.rows_per_person, settings.most_rows)
        if budget.people_share < 1:
            outcomes = joined_outcomes([part.outcomes for part in parts], plan.event_ids)
            return MemoryBatches(parts).with_outcomes(outcomes.with_relative_weights(reduction))
    people = Cohort.joined(parts, plan.schema, plan.event_ids)
    return MemoryBatches([people.with_relative_weights(reduction)])


def _counted(parts: Sequence[Cohort]) -> list[Cohort]:
    """The parts that have people: others do not show whether there are weights."""
    return [part for part in parts if part.n_samples]


def _split(
    people: Cohort, generator: np.random.Generator, reduction: CollectiveReduction, fraction: float
) -> tuple[MemoryBatches, Cohort]:
    """Training people and held-out people of this worker, where it has enough."""
    if reduction.n_workers == 1 or round(fraction * people.n_samples) >= 1:
        people, held = split_cohort(people, fraction, generator)
    else:
        generator.integers(2**31 - 1)  # As the other workers do, which draw their split.
        held = people.take(np.empty(0, np.int64))
    if reduction.sum([held.n_samples])[0] == 0:
        msg = (
            "No worker has enough people to hold some out for early stopping. "
            "Pass `eval_set`, or set `early_stopping_rounds=None`."
        )
        raise ValueError(msg)
    return MemoryBatches([people]), held


def _checkpoints(plan: Plan, reduction: CollectiveReduction) -> Checkpoints:
    if plan.checkpoint_folder is None:
        return Checkpoints(plan.resume)
    write = None
    if reduction.rank == 0:
        write = partial(write_checkpoint, plan.checkpoint_folder, plan.checkpoint)
    return Checkpoints(plan.resume, plan.checkpoint_every, write)


@contextmanager
def _registered(training: str) -> Iterator[None]:
    _running.add(training)
    try:
        yield
    except BaseException:
        free_tracker(training)
        raise
    finally:
        _running.discard(training)


@contextmanager
def _communicator(rank: int, plan: Plan) -> Iterator[None]:
    with xgb.config_context(verbosity=0):
        collective.init(
            **plan.tracker,
            dmlc_task_id=f"{rank:06d}",
            dmlc_timeout=plan.timeout,
            dmlc_retry=1,
        )
    try:
        yield
    finally:
        # After a failure the others are gone, or will be: what matters is that sockets are closed.
        with suppress(xgb.core.XGBoostError):
            collective.finalize()


def _cancellation(worker: Any) -> Callable[[], None]:
    key = worker.get_current_task()

    def check() -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state in {"cancelled", "released", "forgotten"}:
            msg = f"The training {key} was cancelled."
            raise TrainingCancelled(msg)

    return check

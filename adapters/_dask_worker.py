"""What runs on a worker: its people, what it learns about the others, and the training.

Every worker runs the same estimator on its own people inside XGBoost's communicator, call for call.
XGBoost merges bins and histograms, so that all grow the same trees; what the estimator needs to
know about everybody goes through `Together`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives.adapters import _boosting_xgboost
from survival_objectives.adapters._dask_checkpoint import Checkpoint, write_checkpoint
from survival_objectives.adapters._engine import import_engine
from survival_objectives.adapters._fitted import hand_over
from survival_objectives.adapters._people_digest import people_digest
from survival_objectives.boosting import BoostingLoop, LoopState
from survival_objectives.censoring import time_feature
from survival_objectives.estimator import SurvivalBoost, _People
from survival_objectives.population import (
    MAX_TIMES,
    Population,
    cell_counts,
    tabulated,
    thinned,
)
from survival_objectives.resolution import Resolution
from survival_objectives.validation import (
    Features,
    SurvivalTarget,
    check_features,
    check_paired,
    check_sample_weight,
    check_survival_target,
)

xgb = import_engine("xgboost", extra="dask")
collective = import_engine("xgboost.collective", extra="dask")
tracker_module = import_engine("xgboost.tracker", extra="dask")
distributed = import_engine("distributed", extra="dask")

__all__ = [
    "Part",
    "Plan",
    "Together",
    "checked_part",
    "free_tracker",
    "is_running",
    "lost_values",
    "part_digest",
    "start_tracker",
    "summary",
    "train",
]

FloatArray = npt.NDArray[np.float64]

# Numbers that all workers together send when they agree on a grid of times: 2^20 pairs are 16 MB.
_GATHERED_TIMES = 2**20


# ----------------------------------------------------------------------------------------- people
@dataclass(frozen=True)
class Part:
    """Checked people of one partition: 4 bytes a feature, 12 for the outcome, 8 for a weight.

    ``lost`` is what rounding to float32 left of the columns and, last, of the durations.
    """

    values: npt.NDArray[np.float32]
    label: npt.NDArray[np.int64]
    duration: npt.NDArray[np.float32]
    weight: FloatArray | None
    lost: tuple[dict[int, Resolution], Resolution] | None = None

    @property
    def n_samples(self) -> int:
        """Number of people."""
        return len(self.label)


def checked_part(X: Any, y: Any, weight: Any, schema: Features, where: str) -> Part:
    """The people of a partition; errors name it."""
    try:
        return _checked_part(X, y, weight, schema)
    except (TypeError, ValueError) as error:
        msg = f"{where}: {error}"
        raise type(error)(msg) from None


def _checked_part(X: Any, y: Any, weight: Any, schema: Features) -> Part:
    if isinstance(y, tuple) and isinstance(y[0], str):
        X, y = X.drop(columns=list(y)), (X[y[0]], X[y[1]])
    n_outcomes = len(y[0]) if isinstance(y, tuple) else _length(y)
    if len(X) != n_outcomes:
        msg = f"`X` has {len(X)} rows but `y` has {n_outcomes}."
        raise ValueError(msg)
    if weight is not None and len(weight) != len(X):
        msg = f"`sample_weight` has {len(weight)} values for {len(X)} people."
        raise ValueError(msg)
    if len(X) == 0:
        return _nobody(schema, weighted=weight is not None)
    check_paired(X, y, weight)
    features = check_features(X, like=schema, resolution="count")
    target = check_survival_target(y, require_event=False)
    checked = None
    keep: Any = slice(None)
    # Weights of a partition may all be 0, which is no mistake as long as others are not.
    if weight is not None and np.any(np.asarray(weight)):
        checked = check_sample_weight(weight, len(X))
        assert checked is not None
        if not checked.all():
            keep = np.flatnonzero(checked)
    elif weight is not None:
        return _nobody(schema, weighted=True)
    return Part(
        features.values[keep],
        target.event_ids[target.event[keep]],
        time_feature(target.duration[keep]),
        None if checked is None else checked[keep],
        (features.resolutions, Resolution.of(target.duration[keep])),
    )


def _length(y: Any) -> int:
    return len(next(iter(y.values()))) if isinstance(y, dict) else len(y)


def _nobody(schema: Features, *, weighted: bool) -> Part:
    return Part(
        np.empty((0, schema.n_features), np.float32),
        np.empty(0, np.int64),
        np.empty(0, np.float32),
        np.empty(0) if weighted else None,
    )


def summary(part: Part) -> tuple[int, list[int]]:
    """Number of people and their labels."""
    return part.n_samples, np.unique(part.label).tolist()


def lost_values(part: Part) -> tuple[dict[int, Resolution], Resolution] | None:
    """What rounding to float32 left of the people; None where there are none."""
    return part.lost


def part_digest(part: Part, schema: Features) -> str:
    """What the people of a partition are known by when a training is resumed."""
    features = replace(schema, values=part.values)
    return people_digest(features, part.label, part.duration, part.weight)


def _joined(parts: Sequence[Part], schema: Features, event_ids: npt.NDArray[np.int64]) -> _People:
    parts = parts or [_nobody(schema, weighted=False)]
    weights = [part.weight for part in parts if part.weight is not None]
    label = np.concatenate([part.label for part in parts])
    return _People(
        replace(schema, values=np.concatenate([part.values for part in parts])),
        SurvivalTarget(
            np.searchsorted(event_ids, label).astype(np.int32),
            np.concatenate([part.duration for part in parts]).astype(np.float64),
            event_ids,
        ),
        np.concatenate(weights) if weights else None,
    )


# ---------------------------------------------------------------------------------------- together
class Together:
    """The reduction over all workers, by XGBoost's collective."""

    def __init__(self) -> None:
        self.rank: int = collective.get_rank()
        self.n_workers: int = collective.get_world_size()

    def sum(self, values: npt.ArrayLike) -> FloatArray:
        own = np.asarray(values, dtype=np.float64)
        total: FloatArray = collective.allreduce(own, collective.Op.SUM).reshape(own.shape)
        return total

    def population(self, target: SurvivalTarget, weight: FloatArray | None) -> Population:
        if self.n_workers == 1:
            return Population(target, weight)
        # All agree on the steps first, then count, so that the counts are exact on them.
        n_times = min(MAX_TIMES, _GATHERED_TIMES // self.n_workers)
        own = thinned(target.duration, np.ones(target.n_samples), n_times)
        gathered = np.zeros((self.n_workers, 2, n_times))
        gathered[self.rank, :, : len(own[0])] = own
        times, count = self.sum(gathered).swapaxes(0, 1).reshape(2, -1)
        seen = count > 0
        grid, _ = thinned(times[seen], count[seen], MAX_TIMES)
        return tabulated(self.sum(cell_counts(target, weight, grid)), grid, target.event_ids)

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
    """One training, the same on every worker."""

    training: str
    parameters: dict[str, Any]
    schema: Features
    event_ids: npt.NDArray[np.int64]
    seed: int
    tracker: dict[str, Any]
    timeout: int
    warm: SurvivalBoost | None
    checkpoint: Checkpoint
    checkpoint_folder: str | None
    checkpoint_every: int
    resume: LoopState | None


class TrainingCancelled(RuntimeError):  # noqa: N818  It is no mistake of anybody's.
    """Nobody waits for this training any more."""


def train(
    rank: int, parts: list[Part], held_out: list[Part] | None, plan: Plan
) -> SurvivalBoost | None:
    """Train on this worker's people; the first worker returns the model."""
    worker = distributed.get_worker()
    with _registered(plan.training), _communicator(rank, plan):
        model = _PartBoost(**plan.parameters)
        if model.n_jobs is None:
            model.n_jobs = worker.state.nthreads
        model.begin(plan, _cancellation(worker))
        people = _joined(parts, plan.schema, plan.event_ids)
        held = None if held_out is None else _joined(held_out, plan.schema, plan.event_ids)
        model.fit_part(people, held)
    return model.whole(plan.parameters["n_jobs"]) if rank == 0 else None


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


class _PartBoost(SurvivalBoost):
    """The estimator on a part of the people."""

    _plan: Plan
    _together: Together

    def begin(self, plan: Plan, before_round: Callable[[], None]) -> None:
        self._plan, self._before_round = plan, before_round
        self._together = Together()
        self._reduction = self._together
        if plan.warm is not None:
            parameters = self.get_params()
            self.__dict__.update(plan.warm.__dict__)
            self.set_params(**parameters)

    def fit_part(self, people: _People, held_out: _People | None) -> None:
        people = self._with_relative_weights(people)
        generator = np.random.default_rng(self._plan.seed)
        if held_out is None and self.early_stopping_rounds is not None:
            people, held_out = self._split_part(people, generator)
        self._fit_people(people, held_out, generator, goes_on=self._plan.warm is not None)

    def _split_part(
        self, people: _People, generator: np.random.Generator
    ) -> tuple[_People, _People]:
        n_people = people.target.n_samples
        if self._together.n_workers == 1 or round(self.validation_fraction * n_people) >= 1:
            people, held_out = self._split(people, generator)
        else:
            generator.integers(2**31 - 1)  # As the others do, who draw their split.
            held_out = people.take(np.empty(0, np.int64))
        if self._together.sum([held_out.target.n_samples])[0] == 0:
            msg = (
                "No worker has enough people to hold some out for early stopping. "
                "Pass `eval_set`, or set `early_stopping_rounds=None`."
            )
            raise ValueError(msg)
        return people, held_out

    def _adapter(self, engine: str) -> Any:  # noqa: ARG002
        def booster(settings: Any, model: Any = None) -> Any:
            return _boosting_xgboost.Booster(settings, model, self._before_round)

        return SimpleNamespace(Booster=booster)

    def _new_loop(self, *arguments: Any) -> BoostingLoop:
        plan, loop = self._plan, BoostingLoop(*arguments)
        loop.state = plan.resume
        if plan.checkpoint_folder is not None:
            loop.checkpoint_every = plan.checkpoint_every
            if self._together.rank == 0:
                loop.on_checkpoint = partial(
                    write_checkpoint, plan.checkpoint_folder, plan.checkpoint
                )
        return loop

    def whole(self, n_jobs: int | None) -> SurvivalBoost:
        """The fitted model without anything of this training."""
        model = SurvivalBoost(**{**self.get_params(), "n_jobs": n_jobs})
        hand_over(self, model, own_parameters=True)
        return model

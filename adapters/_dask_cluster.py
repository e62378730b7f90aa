"""The client's side of a training: one task a worker, watched until all are done or all stopped."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from survival_objectives.adapters._dask_worker import (
    TrainingCancelled,
    free_tracker,
    is_running,
    start_tracker,
)
from survival_objectives.adapters._engine import import_engine

distributed = import_engine("distributed", extra="dask")
xgb = import_engine("xgboost", extra="dask")

__all__ = ["Training", "WorkerLostError", "in_turn", "settled", "watched"]

logger = logging.getLogger("survival_objectives")

# Seconds between two looks at the workers.
_POLL = 1.0
# Seconds in which the failures that follow from one another arrive, the cause among them.
_FAILURES = 3.0
# Seconds after which a worker that does not stop is restarted.
_GRACE = 30.0


class WorkerLostError(RuntimeError):
    """A worker died or went out of reach in a training."""


@contextmanager
def in_turn(client: Any) -> Iterator[None]:
    """Trainings on one cluster take turns: each needs all of its workers at the same time.

    The lease ends by itself where a client is lost.
    """
    turn = distributed.Semaphore(1, name="survival-objectives-training", loop=client.loop)
    with turn:
        yield


def settled(client: Any, futures: Sequence[Any], workers: Sequence[str]) -> None:
    """Wait for tasks that are bound to workers; cancel all when one fails or a worker is lost."""
    try:
        _wait(client, futures, set(workers))
    except BaseException:
        client.cancel(list(futures), force=True)
        raise


def watched(client: Any, futures: Sequence[Any], workers: Sequence[str]) -> list[Any]:
    """Results of tasks that are bound to workers, which are small."""
    settled(client, futures, workers)
    return list(client.gather(list(futures)))


def _wait(client: Any, futures: Sequence[Any], workers: set[str]) -> None:
    pending = list(futures)
    failed_since = None
    while pending:
        with suppress(TimeoutError):
            distributed.wait(pending, timeout=_POLL, return_when="FIRST_COMPLETED")
        lost = workers - set(client.nthreads())
        if lost:
            msg = (
                f"Lost the worker {', '.join(sorted(lost))} during training, and stopped the "
                "others. Look into its log (memory is the usual reason), then fit again: with "
                "`resume=True` if checkpoints were written."
            )
            raise WorkerLostError(msg)
        pending = [future for future in futures if not future.done()]
        failures = [future for future in futures if future.status in {"error", "lost", "cancelled"}]
        if failures and failed_since is None:
            failed_since = time.monotonic()
        if failed_since is not None and (
            not pending or time.monotonic() - failed_since > _FAILURES
        ):
            raise _cause(failures)
        if failed_since is not None:
            time.sleep(_POLL)


def _cause(failures: Sequence[Any]) -> BaseException:
    """The failure that the others follow from: they only see that their connection is gone."""
    errors = [future.exception() for future in failures if future.status == "error"]
    for error in errors:
        if not isinstance(error, xgb.core.XGBoostError | TrainingCancelled):
            assert isinstance(error, BaseException)
            return error
    reason = str(errors[0]).strip().split("\nStack trace")[0] if errors else "tasks were cancelled"
    return RuntimeError(f"The workers lost touch with each other, and training stopped: {reason}")


class Training:
    """A group of workers that train together, and its end, whatever that is."""

    def __init__(self, client: Any, workers: Sequence[str], timeout: int) -> None:
        self.name = f"survival-boost-{uuid.uuid4().hex}"
        self._client = client
        self._workers = list(workers)
        self._timeout = timeout

    def __enter__(self) -> Training:
        begun = self._client.run(
            start_tracker,
            self.name,
            len(self._workers),
            self._timeout,
            workers=[self._workers[0]],
        )
        self.tracker: dict[str, Any] = begun[self._workers[0]]
        return self

    def __exit__(self, *exception: object) -> None:
        self._run(free_tracker, self._workers[:1])
        if exception[0] is not None:
            self._stop()

    def _run(self, function: Any, workers: Sequence[str]) -> dict[str, Any]:
        alive = [worker for worker in workers if worker in self._client.nthreads()]
        if not alive:
            return {}
        # A worker may be lost at this very moment.
        answers = self._client.run(function, self.name, workers=alive, on_error="return")
        return {worker: answer for worker, answer in answers.items() if answer is True}

    def _stop(self) -> None:
        """Wait until no worker has a thread in this training; restart those that do not stop."""
        deadline = time.monotonic() + _GRACE
        while busy := self._run(is_running, self._workers):
            if time.monotonic() > deadline:
                logger.warning("Restarting workers that do not stop training: %s.", list(busy))
                with suppress(Exception):  # Without a nanny there is nobody to restart them.
                    self._client.restart_workers(list(busy), raise_for_error=False)
                return
            time.sleep(_POLL / 5)

"""The client's side of a training: one task per worker, until all are done or all stopped."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from survival_objectives._engines.protocol import import_engine
from survival_objectives.adapters.dask._worker import (
    TrainingCancelled,
    free_tracker,
    is_running,
    start_tracker,
)

distributed = import_engine("distributed", extra="dask")
xgb = import_engine("xgboost", extra="dask")

logger = logging.getLogger("survival_objectives")

# Seconds between two checks of the workers.
_POLL = 1.0
# Seconds in which the failures that follow from one another arrive, the cause among them.
_FAILURES = 3.0
# Seconds in which results arrive at the client.
_RESULTS = 600.0
# Seconds in which a worker answers, whatever it computes: its event loop is never blocked.
_ANSWER = 30.0
# Seconds after which a worker that does not stop is restarted, and in which it comes back.
_GRACE = 30.0
_RESTART = 60.0


class WorkerLostError(RuntimeError):
    """A worker died or went out of reach in a training."""


@contextmanager
def one_at_a_time(client: Any) -> Iterator[None]:
    """Trainings on one cluster take turns: each needs all of its workers at the same time.

    A turn ends by itself where a client is lost, after Dask's lease-timeout of 30 s.
    """
    turn = distributed.Semaphore(1, name="survival-objectives-training", loop=client.loop)
    try:
        with turn:
            yield
    finally:
        # What an interrupt leaves behind must not be renewed as long as the client lives.
        turn.refresh_leases = False


@contextmanager
def cancel_on_exit(client: Any, futures: Sequence[Any]) -> Iterator[None]:
    """Cancel tasks at the end, even if their futures are still referenced elsewhere.

    With a task go those that it was computed from. They are bound to the same worker, and have
    the same keys whenever the same collection is used: if a traceback kept them alive, the next
    training would wait for ever for a worker that is gone.
    """
    try:
        yield
    finally:
        # None marks a task that was interrupted before it was submitted.
        client.cancel([future for future in futures if future is not None], force=True)


def gather(client: Any, futures: Sequence[Any], workers: Sequence[str]) -> list[Any]:
    """Results of tasks that are bound to workers, which must be small; the tasks are released."""
    with cancel_on_exit(client, futures):
        wait_all(client, futures, workers)
        try:
            results: list[Any] = client.sync(
                lambda: client.gather(list(futures), asynchronous=True), callback_timeout=_RESULTS
            )
        except TimeoutError:
            # Dask would wait for ever for the results of a worker that was lost just now.
            wait_all(client, futures, workers)
            raise
    return results


def wait_all(client: Any, futures: Sequence[Any], workers: Sequence[str]) -> None:
    """Wait for tasks that are bound to workers, until one fails or a worker is lost."""
    pending = list(futures)
    failed_since = None
    while pending:
        with suppress(TimeoutError):
            distributed.wait(pending, timeout=_POLL, return_when="FIRST_COMPLETED")
        lost = set(workers) - set(client.nthreads())
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


class WorkerGroup:
    """A group of workers that train together, and its end, whatever that is."""

    def __init__(self, client: Any, workers: Sequence[str], timeout: int) -> None:
        self.name = f"survival-boost-{uuid.uuid4().hex}"
        self._client = client
        self._workers = list(workers)
        self._timeout = timeout

    def __enter__(self) -> WorkerGroup:
        first = self._workers[0]
        arguments = (self.name, len(self._workers), self._timeout)
        try:
            begun = self._client.sync(
                lambda: self._client.run(
                    start_tracker, *arguments, workers=[first], asynchronous=True
                ),
                callback_timeout=self._timeout + _ANSWER,
            )
        except BaseException:
            self._asked(free_tracker, [first])
            raise
        self.tracker: dict[str, Any] = begun[first]
        return self

    def __exit__(self, *exception: object) -> None:
        """End the tracker and, after a failure, the workers' part in the training.

        Takes at most ``_ANSWER`` seconds, after a failure ``_GRACE + _ANSWER + _RESTART`` more.
        """
        self._asked(free_tracker, self._workers[:1])
        if exception[0] is not None:
            self._stop()

    def _asked(self, function: Any, workers: Sequence[str]) -> dict[str, Any]:
        """What the workers answer that are not lost: True also if they do not within `_ANSWER`."""
        known = self._client.nthreads()
        here = [worker for worker in workers if worker in known]

        async def answer(worker: str) -> Any:
            asking = self._client.run(
                function, self.name, workers=[worker], on_error="ignore", asynchronous=True
            )
            try:
                # There is no answer of a worker that is lost at this very moment.
                return (await asyncio.wait_for(asking, _ANSWER)).get(worker)
            except TimeoutError:
                return True

        async def answers() -> list[Any]:
            return await asyncio.gather(*map(answer, here))

        return dict(zip(here, self._client.sync(answers), strict=True))

    def _stop(self) -> None:
        """Wait until no worker has a thread in this training; restart those that do not stop."""
        deadline = time.monotonic() + _GRACE
        while busy := [
            worker for worker, answer in self._asked(is_running, self._workers).items() if answer
        ]:
            if time.monotonic() > deadline:
                logger.warning("Restarting workers that do not stop training: %s.", busy)
                with suppress(Exception):  # Without a nanny, workers cannot be restarted.
                    self._client.restart_workers(busy, timeout=_RESTART, raise_for_error=False)
                return
            time.sleep(_POLL / 5)

"""A training as the client runs it: people are checked, placed and trained on by the workers."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from survival_objectives._arrays import IntArray
from survival_objectives._models.fitted import FittedModel
from survival_objectives._people import (
    Features,
    KeptValues,
    check_random_state,
    check_survival_target,
    warn_about_labels,
)
from survival_objectives._process.checkpoints import (
    Checkpoint,
    State,
    read_checkpoint,
)
from survival_objectives._process.files import plain_entries
from survival_objectives._training import Request
from survival_objectives.adapters.dask._cluster import WorkerGroup, gather
from survival_objectives.adapters.dask._collection import Collection, partition_blocks
from survival_objectives.adapters.dask._worker import (
    Plan,
    part_digest,
    resolutions,
    summary,
    train,
)

# Seconds in which lost workers may come back before a training is resumed.
_RESTART = 60
# Parameters that do not change the model, so that a training may be resumed with others.
_WITHOUT_EFFECT = {"n_jobs", "verbose", "warm_start", "random_state"}


@dataclass(frozen=True)
class ClusterTraining:
    """One training by all workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    request : Request
    timeout : int
        Seconds that a worker waits for the others within one step.
    checkpoint_folder : str, optional
        Folder of checkpoints, which all workers see.
    checkpoint_every : int
        Rounds between two checkpoints.
    """

    client: Any
    request: Request
    timeout: int
    checkpoint_folder: str | None
    checkpoint_every: int

    def fit(self, people: Collection, held_out: Collection | None, *, resume: bool) -> FittedModel:
        """The trained model.

        Parameters
        ----------
        people : Collection
        held_out : Collection, optional
            People for early stopping.
        resume : bool
            Whether to continue from the latest checkpoint, if there is one.
        """
        workers = sorted(self.client.nthreads())
        if not workers:
            msg = "The cluster has no workers."
            raise RuntimeError(msg)
        found = self._found_checkpoint(workers) if resume else None
        if found is None:
            groups = people.placed(self.client, workers)
        else:
            groups = _regrouped(found[0], people.n_partitions, self.client)
        with people.loaded(self.client, groups) as parts:
            return self._trained(groups, parts, people.schema, held_out, found)

    def _trained(
        self,
        groups: dict[str, list[int]],
        parts: list[Any],
        schema: Features,
        held_out: Collection | None,
        found: tuple[Checkpoint, State] | None,
    ) -> FittedModel:
        n_samples, event_ids = self._labels(parts, list(groups))
        self._check_resolution(parts, list(groups), schema)
        # A worker whose partitions are all empty takes no part in training.
        groups = {
            worker: block
            for worker, block in groups.items()
            if sum(n_samples[number] for number in block)
        }
        with self._held_out_parts(held_out, list(groups), event_ids) as held_parts:
            all_parts = [*parts, *(part for block in held_parts or () for part in block)]
            checkpoint = Checkpoint(
                self._compared_parameters(),
                self._seed(),
                list(groups.values()),
                n_samples,
                self._digests(all_parts, list(groups)),
            )
            state = None
            if found is not None:
                found[0].check_resumes(checkpoint)
                checkpoint, state = found
            plan = self._plan(schema, event_ids, checkpoint, state)
            return self._run(groups, parts, held_parts, plan)

    def _summaries(
        self, parts: list[Any], workers: list[str]
    ) -> tuple[list[int], list[Sequence[int]]]:
        """Number of people, and labels, of every partition."""
        found = gather(self.client, self.client.map(summary, parts, pure=False), workers)
        return [n_people for n_people, _ in found], [labels for _, labels in found]

    def _labels(self, parts: list[Any], workers: list[str]) -> tuple[list[int], IntArray]:
        """Number of people of every partition, and the label set of all."""
        n_samples, labels = self._summaries(parts, workers)
        previous = self.request.previous
        if previous is not None:
            return n_samples, _event_ids(labels, sum(n_samples), previous.frame.event_ids)
        event_ids = _event_ids(labels, sum(n_samples), None)
        has_censored = any(0 in seen for seen in labels)
        warn_about_labels(event_ids, has_censored=has_censored)
        return n_samples, event_ids

    def _check_resolution(self, parts: list[Any], workers: list[str], schema: Features) -> None:
        kept_values = KeptValues()
        for lost in gather(self.client, self.client.map(resolutions, parts, pure=False), workers):
            if lost is not None:
                kept_values.add(*lost)
        kept_values.check(schema)

    @contextmanager
    def _held_out_parts(
        self, held_out: Collection | None, workers: list[str], event_ids: IntArray
    ) -> Iterator[list[list[Any]] | None]:
        if held_out is None:
            yield None
            return
        groups = partition_blocks(held_out.n_partitions, workers)
        with held_out.loaded(self.client, groups) as parts:
            n_samples, labels = self._summaries(parts, list(groups))
            try:
                _event_ids(labels, sum(n_samples), event_ids)
            except ValueError as error:
                msg = f"`eval_set`: {error}"
                raise ValueError(msg) from None
            yield [[parts[number] for number in groups.get(worker, [])] for worker in workers]

    def _run(
        self,
        groups: dict[str, list[int]],
        parts: list[Any],
        held_parts: list[list[Any]] | None,
        plan: Plan,
    ) -> FittedModel:
        with WorkerGroup(self.client, list(groups), self.timeout) as group:
            plan = replace(plan, training=group.name, tracker=group.tracker)
            tasks = [
                self.client.submit(
                    train,
                    rank,
                    [parts[number] for number in block],
                    None if held_parts is None else held_parts[rank],
                    plan,
                    key=f"{group.name}-{rank}",
                    workers=[worker],
                    allow_other_workers=False,
                    pure=False,
                    retries=0,
                )
                for rank, (worker, block) in enumerate(groups.items())
            ]
            result: FittedModel = gather(self.client, tasks, list(groups))[0]
        return result

    def _plan(
        self,
        schema: Features,
        event_ids: IntArray,
        checkpoint: Checkpoint,
        state: State | None,
    ) -> Plan:
        return Plan(
            settings=self.request.settings,
            schema=schema,
            event_ids=event_ids,
            seed=checkpoint.seed,
            timeout=self.timeout,
            previous=self.request.previous,
            checkpoint=checkpoint,
            checkpoint_folder=self.checkpoint_folder,
            checkpoint_every=self.checkpoint_every,
            resume=state,
        )

    def _seed(self) -> int:
        given = self.request.parameters["random_state"]
        generator = check_random_state(given)
        return int(given if isinstance(given, numbers.Integral) else generator.integers(2**63))

    # -------------------------------------------------------------------------------- checkpoints
    def _found_checkpoint(self, workers: list[str]) -> tuple[Checkpoint, State] | None:
        reading = self.client.submit(
            read_checkpoint,
            self.checkpoint_folder,
            self.request.settings.state_type,
            workers=workers[:1],
            pure=False,
        )
        found: tuple[Checkpoint, State] | None
        found = gather(self.client, [reading], workers[:1])[0]
        return found

    def _compared_parameters(self) -> dict[str, Any]:
        """Parameters that must be the same when the training is resumed."""
        parameters = {
            name: value
            for name, value in plain_entries(self.request.parameters).items()
            if name not in _WITHOUT_EFFECT
        }
        return {**parameters, "checkpoint_every": self.checkpoint_every}

    def _digests(self, parts: list[Any], workers: list[str]) -> list[str]:
        """Digests that identify the people, where the training may be resumed."""
        if self.checkpoint_folder is None:
            return []
        return gather(self.client, self.client.map(part_digest, parts, pure=False), workers)


def _regrouped(checkpoint: Checkpoint, n_partitions: int, client: Any) -> dict[str, list[int]]:
    """The groups of the interrupted training on the workers of now."""
    partitions = checkpoint.partitions
    if len(checkpoint.n_samples) != n_partitions:
        msg = (
            f"The checkpoint was written with {len(checkpoint.n_samples)} partitions; here are "
            f"{n_partitions}. Pass the same data, or fit with `resume=False`."
        )
        raise ValueError(msg)
    with suppress(TimeoutError):  # A worker that was lost may be starting again.
        client.wait_for_workers(len(partitions), timeout=_RESTART)
    workers = sorted(client.nthreads())
    if len(workers) < len(partitions):
        msg = (
            f"The checkpoint was written by {len(partitions)} workers; here are {len(workers)}. "
            "Add workers, or fit with `resume=False`."
        )
        raise ValueError(msg)
    groups = [list(block) for block in partitions]
    known = {number for block in groups for number in block}
    groups[-1] += [number for number in range(n_partitions) if number not in known]
    return dict(zip(workers, groups, strict=False))


def _event_ids(labels: Sequence[Sequence[int]], n_samples: int, known: IntArray | None) -> IntArray:
    """The label set of all partitions."""
    if n_samples == 0:
        msg = "`y` is empty: there are no people to train on."
        raise ValueError(msg)
    seen = sorted({label for part in labels for label in part})
    if known is None and seen == [0]:
        msg = (
            f"All {n_samples} people are censored (event = 0), so no cause can be learnt. "
            "Check which column marks the event: 0 = censored, 1..K = causes."
        )
        raise ValueError(msg)
    return check_survival_target((seen, np.ones(len(seen))), event_ids=known).event_ids

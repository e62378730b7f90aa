"""Checkpoints of a training: its state, and a folder with the engine's trees and JSON, no pickle.

On a cluster the first worker writes them, and reads them on resume, so the folder must be one that
every worker sees. A checkpoint records which worker trained on which partitions: the same people
must get the same random stream for the resumed model to be that of an uninterrupted run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from survival_objectives._process.files import read_folder, write_folder

_METADATA = "checkpoint.json"
_FORMAT = 1


class State(Protocol):
    """State of a training: with the same people and seed, it continues there."""

    @property
    def n_steps(self) -> int:
        """Steps so far, which never decrease."""

    def to_plain(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What JSON can hold, and trees by name."""

    @classmethod
    def from_plain(cls, content: Mapping[str, Any], trees: Mapping[str, bytes]) -> Self:
        """The state that `to_plain` described."""


_State = TypeVar("_State", bound=State)


@dataclass(frozen=True)
class Checkpoints:
    """The state a training starts from, and how its states are saved.

    Attributes
    ----------
    state : State, optional
        Where to continue.
    every : int, optional
        Rounds between two checkpoints. Default: none are made.
    write : callable, optional
        Takes each state. On a cluster one worker writes, and all make checkpoints.
    """

    state: Any = None
    every: int | None = None
    write: Callable[[Any], None] | None = None


@dataclass(frozen=True)
class Checkpoint:
    """What a training must have in common with the one that it resumes.

    Attributes
    ----------
    parameters : dict
        Those of the estimator that change the model.
    seed : int
        The seed, also where none was given.
    partitions : list of list of int
        Partitions of each worker.
    n_samples : list of int
        People in each partition.
    digests : list of str
        Digests of the people of each partition, followed by those of ``eval_set``.
    """

    parameters: dict[str, Any]
    seed: int
    partitions: list[list[int]]
    n_samples: list[int]
    digests: list[str]

    def check_resumes(self, other: Checkpoint) -> None:
        """Raise an error that names what differs from the interrupted training."""
        for name, value in self.parameters.items():
            if other.parameters.get(name) != value:
                msg = (
                    f"The checkpoint was written with {name}={value!r}, not "
                    f"{other.parameters.get(name)!r}. Set it back, or fit with `resume=False`."
                )
                raise ValueError(msg)
        if self.n_samples != other.n_samples:
            msg = (
                f"The checkpoint was written with {sum(self.n_samples)} people in "
                f"{len(self.n_samples)} partitions; here are {sum(other.n_samples)} in "
                f"{len(other.n_samples)}, or in others. Pass the same data, or fit with "
                "`resume=False`."
            )
            raise ValueError(msg)
        if self.digests != other.digests:
            raise ValueError(self._other_people(other))

    def _other_people(self, other: Checkpoint) -> str:
        n_partitions = len(self.n_samples)
        differ = [
            number
            for number, (ours, theirs) in enumerate(zip(self.digests, other.digests, strict=False))
            if ours != theirs
        ]
        where = "`eval_set`"
        if differ and differ[0] < n_partitions:
            where = f"partition {differ[0]}"
        return (
            f"The checkpoint was written with other people, or with durations in another unit "
            f"({where} differs). Pass the same data in the same order, or fit with `resume=False`."
        )


def write_checkpoint(folder: str, checkpoint: Checkpoint, state: State) -> None:
    """Write the state, whole or not at all, and remove older ones."""
    parent = Path(folder)
    parent.mkdir(parents=True, exist_ok=True)
    older = _checkpoints(parent)
    described, trees = state.to_plain()
    content = {
        "format": _FORMAT,
        **asdict(checkpoint),
        **described,
        "state": type(state).__name__,
    }
    destination = parent / f"chunk-{state.n_steps:06d}"
    if destination.exists():  # Of an earlier training in this folder.
        shutil.rmtree(destination)
    files = {f"{name}.ubj": partial(_write, tree) for name, tree in trees.items()}
    write_folder(destination, _METADATA, content, files)
    for path in older:
        if path != destination:
            shutil.rmtree(path, ignore_errors=True)


def read_checkpoint(folder: str, kind: type[_State]) -> tuple[Checkpoint, _State] | None:
    """The latest checkpoint in a folder, with a state of this kind, or None."""
    found = _checkpoints(Path(folder))
    if not found:
        return None
    path = found[-1]
    try:
        content = read_folder(path, _METADATA, "checkpoint", _FORMAT)
        if content["state"] != kind.__name__:
            msg = f"it has a {content['state']}, which is of another estimator"
            raise ValueError(msg)
        trees = {Path(name).stem: (path / name).read_bytes() for name in content["files"]}
        checkpoint = Checkpoint(**{one.name: content[one.name] for one in fields(Checkpoint)})
        return checkpoint, kind.from_plain(content, trees)
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = str(error).rstrip(".")
        msg = f"The checkpoint {str(path)!r} cannot be used: {reason}. Fit with `resume=False`."
        raise ValueError(msg) from error


def _write(tree: bytes, file: str) -> None:
    Path(file).write_bytes(tree)


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("chunk-*") if (path / _METADATA).exists())

"""Where the training of a mixture of hazard models stands, so that it can go on from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["CandidateState", "HazardState"]


@dataclass(frozen=True)
class CandidateState:
    """Trees of one kind of member.

    Attributes
    ----------
    rounds : tuple of int
        Rounds at which held-out people were looked at.
    gained : tuple of float
        Their log-likelihood then.
    trees : tuple of bytes
        Trees without each fold.
    refit : bytes
        Trees of everybody; empty before the first.
    """

    rounds: tuple[int, ...] = ()
    gained: tuple[float, ...] = ()
    trees: tuple[bytes, ...] = ()
    refit: bytes = b""


@dataclass(frozen=True)
class HazardState:
    """All that takes long to fit again; the rest follows from the same people, settings and seed.

    Attributes
    ----------
    candidates : dict of str to CandidateState
        By the kind of member.
    n_chunks : int
        Changes so far.
    """

    candidates: dict[str, CandidateState] = field(default_factory=dict)
    n_chunks: int = 0

    def of(self, kind: str) -> CandidateState:
        """The state of one kind of member."""
        return self.candidates.get(kind, CandidateState())

    def updated(self, kind: str, **changes: object) -> HazardState:
        """The state after one kind of member has gone on."""
        changed = replace(self.of(kind), **changes)  # type: ignore[arg-type]
        return HazardState({**self.candidates, kind: changed}, self.n_chunks + 1)

    def to_plain(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What JSON can hold, and the trees by names that files can have."""
        trees: dict[str, bytes] = {}
        candidates = {}
        for number, (kind, candidate) in enumerate(self.candidates.items()):
            candidates[kind] = {
                "rounds": list(candidate.rounds),
                "gained": list(candidate.gained),
                "n_models": len(candidate.trees),
            }
            models = [*candidate.trees, candidate.refit]
            trees.update({f"trees-{number}-{model}": one for model, one in enumerate(models)})
        return {"n_chunks": self.n_chunks, "candidates": candidates}, trees

    @classmethod
    def from_plain(cls, content: Mapping[str, Any], trees: Mapping[str, bytes]) -> HazardState:
        """The state that `to_plain` was asked of."""
        candidates = {}
        for number, (kind, known) in enumerate(content["candidates"].items()):
            models = [trees[f"trees-{number}-{model}"] for model in range(known["n_models"] + 1)]
            candidates[kind] = CandidateState(
                tuple(known["rounds"]), tuple(known["gained"]), tuple(models[:-1]), models[-1]
            )
        return cls(candidates, content["n_chunks"])

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
    """

    candidates: dict[str, CandidateState] = field(default_factory=dict)

    def of(self, kind: str) -> CandidateState:
        """The state of one kind of member."""
        return self.candidates.get(kind, CandidateState())

    def updated(self, kind: str, **changes: object) -> HazardState:
        """The state after one kind of member has gone on."""
        changed = replace(self.of(kind), **changes)  # type: ignore[arg-type]
        return HazardState({**self.candidates, kind: changed})

    @property
    def n_steps(self) -> int:
        """Looks at the held-out people and finished parts, which only grows."""
        return sum(len(one.rounds) + bool(one.refit) for one in self.candidates.values())

    @property
    def n_rounds(self) -> int:
        """Rounds of all kinds so far."""
        return sum(max(one.rounds, default=0) for one in self.candidates.values())

    def to_plain(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What JSON can hold, and trees by name."""
        described, trees = [], {}
        for number, (kind, one) in enumerate(self.candidates.items()):
            described.append(
                {
                    "kind": kind,
                    "rounds": list(one.rounds),
                    "gained": list(one.gained),
                    "n_trees": len(one.trees),
                }
            )
            for fold, part in enumerate((*one.trees, one.refit)):
                trees[f"{number}-{fold}"] = part
        return {"candidates": described}, trees

    @classmethod
    def from_plain(cls, content: Mapping[str, Any], trees: Mapping[str, bytes]) -> HazardState:
        """The state that `to_plain` described."""
        candidates = {}
        for number, one in enumerate(content["candidates"]):
            parts = [trees[f"{number}-{fold}"] for fold in range(one["n_trees"] + 1)]
            candidates[one["kind"]] = CandidateState(
                tuple(one["rounds"]), tuple(one["gained"]), tuple(parts[:-1]), parts[-1]
            )
        return cls(candidates)

"""State of the training of a mixture of hazard models, from which it can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class CandidateState:
    """Trees of one kind of member.

    Attributes
    ----------
    rounds : tuple of int
        Rounds of the held-out evaluations.
    log_likelihood : tuple of float
        Held-out log-likelihood at these rounds.
    trees : tuple of bytes
        Trees fitted without each fold.
    refit : bytes
        Trees fitted to all people; empty before the first.
    """

    rounds: tuple[int, ...] = ()
    log_likelihood: tuple[float, ...] = ()
    trees: tuple[bytes, ...] = ()
    refit: bytes = b""


@dataclass(frozen=True)
class HazardState:
    """Trees of all members; the rest is refitted from the same people, settings and seed.

    Attributes
    ----------
    candidates : dict of str to CandidateState
        State per kind of member.
    """

    candidates: dict[str, CandidateState] = field(default_factory=dict)

    def of(self, kind: str) -> CandidateState:
        """The state of one kind of member."""
        return self.candidates.get(kind, CandidateState())

    def updated(self, kind: str, **changes: object) -> HazardState:
        """The state with changes to one kind of member."""
        changed = replace(self.of(kind), **changes)  # type: ignore[arg-type]
        return HazardState({**self.candidates, kind: changed})

    @property
    def n_steps(self) -> int:
        """Number of held-out evaluations and refits, which never decreases."""
        return sum(len(one.rounds) + bool(one.refit) for one in self.candidates.values())

    @property
    def n_rounds(self) -> int:
        """Total rounds of all kinds of members."""
        return sum(max(one.rounds, default=0) for one in self.candidates.values())

    def to_plain(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """A description that JSON can hold, and the trees by name."""
        described, trees = [], {}
        for number, (kind, one) in enumerate(self.candidates.items()):
            described.append(
                {
                    "kind": kind,
                    "rounds": list(one.rounds),
                    "gained": list(one.log_likelihood),
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

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
    trees : bytes
        Trees of all models after the last of these rounds.
    best : bytes
        Trees after the rounds with the highest log-likelihood; empty where these are the last.
    """

    rounds: tuple[int, ...] = ()
    log_likelihood: tuple[float, ...] = ()
    trees: bytes = b""
    best: bytes = b""


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
        """Number of held-out evaluations, which never decreases."""
        return sum(len(one.rounds) for one in self.candidates.values())

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
                }
            )
            trees[f"{number}-last"], trees[f"{number}-best"] = one.trees, one.best
        return {"candidates": described}, trees

    @classmethod
    def from_plain(cls, content: Mapping[str, Any], trees: Mapping[str, bytes]) -> HazardState:
        """The state that `to_plain` described."""
        return cls(
            {
                one["kind"]: CandidateState(
                    tuple(one["rounds"]),
                    tuple(one["gained"]),
                    trees[f"{number}-last"],
                    trees[f"{number}-best"],
                )
                for number, one in enumerate(content["candidates"])
            }
        )

"""Where the training of a mixture of hazard models stands, so that it can go on from there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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

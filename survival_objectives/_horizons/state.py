"""State of the training of a model on horizons, from which it can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from survival_objectives._models.fitted import RoundRecord


@dataclass(frozen=True)
class LoopState:
    """State of a training between two chunks: with the same people and seed, it continues here.

    Attributes
    ----------
    n_chunks : int
        Chunks that are done.
    events, censoring : bytes
        Trees of the models; empty where there are none.
    history, refreshed_rounds
        As in `survival_objectives._horizons.loop.BoostingLoop`.
    """

    n_chunks: int
    events: bytes
    censoring: bytes
    history: tuple[RoundRecord, ...]
    refreshed_rounds: tuple[int, ...]

    @property
    def n_steps(self) -> int:
        """Number of finished chunks, which never decreases."""
        return self.n_chunks

    def to_plain(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What JSON can hold, and trees by name."""
        described = {
            "n_chunks": self.n_chunks,
            "history": [[record.round, record.loss] for record in self.history],
            "refreshed_rounds": list(self.refreshed_rounds),
        }
        return described, {"events": self.events, "censoring": self.censoring}

    @classmethod
    def from_plain(cls, content: Mapping[str, Any], trees: Mapping[str, bytes]) -> LoopState:
        """The state that `to_plain` described."""
        return cls(
            content["n_chunks"],
            trees["events"],
            trees["censoring"],
            tuple(RoundRecord(number, loss) for number, loss in content["history"]),
            tuple(content["refreshed_rounds"]),
        )

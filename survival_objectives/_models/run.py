"""What a training runs with, besides people and settings."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from survival_objectives._engines.protocol import Engine
from survival_objectives._models.fitted import FittedModel, ModelFrame
from survival_objectives._people.population import LocalReduction, Reduction
from survival_objectives._process.checkpoints import Checkpoints


@dataclass(frozen=True)
class Run:
    """Engine, random numbers and sums of one training.

    Attributes
    ----------
    engine : Engine
        Makes the boosters.
    generator : Generator
        Random numbers; the same in all processes that train together.
    reduction : Reduction
        Sums over these processes.
    previous : FittedModel, optional
        The model that a warm start continues.
    n_turns : int, optional
        Number of turns in which several batches of people are boosted on. Default: all people are
        one batch in memory.
    checkpoints : Checkpoints
    """

    engine: Engine
    generator: np.random.Generator
    reduction: Reduction = field(default_factory=LocalReduction)
    previous: FittedModel | None = None
    n_turns: int | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    @property
    def previous_frame(self) -> ModelFrame | None:
        """Frame of the model that is continued."""
        return None if self.previous is None else self.previous.frame

"""What the three engines share when the estimator drives them round by round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from survival_objectives.validation import Features

__all__ = ["TreeSettings"]


@dataclass(frozen=True)
class TreeSettings:
    """Settings of the trees in the estimator's terms; each adapter translates them.

    Attributes
    ----------
    schema : Features
        Columns of training, without the time.
    n_causes : int
        1 for a single cause and for censoring.
    learning_rate, max_depth
        As in every engine.
    min_leaf_people : float
        Smallest sum of Hessians in a leaf, in people: at p = 1/2 a person adds 1/4.
    n_horizons : int
        Rows a person and round.
    monotone : bool
        Whether margins rise in time.
    seed, n_jobs
        Reproducibility and threads.
    engine_params : mapping
        The user's own settings in the engine's terms; they win.
    """

    schema: Features
    n_causes: int
    learning_rate: float
    max_depth: int
    min_leaf_people: float
    n_horizons: int
    monotone: bool
    seed: int
    n_jobs: int | None
    engine_params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def time_signs(self) -> list[int]:
        """Direction of each column's effect: +1 for the time, the last one, 0 for free."""
        return [0] * self.schema.n_features + [1]

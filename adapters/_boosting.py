"""What the three engines share when the estimator drives them round by round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from survival_objectives.validation import Features

__all__ = ["TreeSettings"]

_MIN_COLUMNS = 4
_ROUNDS = {"n_estimators", "num_iterations", "num_boost_round", "iterations", "num_round", "n_iter"}


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
    min_split_gain : float
        Smallest gain G^2 / H of a split, in people.
    max_features : float
        Share of the columns, the time among them, that a tree may split on.
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
    min_split_gain: float
    max_features: float
    n_horizons: int
    monotone: bool
    seed: int
    n_jobs: int | None
    engine_params: Mapping[str, Any] = field(default_factory=dict)

    def refuse(self, refused: Mapping[str, tuple[Any, ...]]) -> None:
        """Raise an error for settings of the user whose models the estimator could not drive."""
        for name, values in refused.items():
            value = self.engine_params.get(name)
            if value in values:
                msg = (
                    f"`engine_params` has {name}={value!r}, which does not go with adding rounds "
                    "in chunks and reading step functions of time off the trees. Use the engine's "
                    "own objective in `survival_objectives.adapters` for it."
                )
                raise ValueError(msg)

    def own_params(self, aliases: Mapping[str, str]) -> dict[str, Any]:
        """The user's own settings under the names that this package uses, so that they win."""
        for name in _ROUNDS & set(self.engine_params):
            msg = f"`engine_params` has {name!r}; use `n_estimators` for the number of rounds."
            raise ValueError(msg)
        return {aliases.get(name, name): value for name, value in self.engine_params.items()}

    @property
    def column_share(self) -> float:
        """``max_features``, but enough for a few columns: a tree of one can tell nobody apart."""
        n_columns = self.schema.n_features + 1
        return max(self.max_features, min(1.0, _MIN_COLUMNS / n_columns))

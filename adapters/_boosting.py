"""What the three engines share when the estimator drives them round by round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from survival_objectives._threads import available_threads, default_threads
from survival_objectives.validation import Features

__all__ = ["OWNED", "TreeSettings"]

_MIN_COLUMNS = 4

#: What to use instead of settings that the estimator makes on every engine.
OWNED = {
    "rounds": "use `n_estimators` for the number of rounds",
    "seed": "use `random_state`, from which each chunk of rounds gets a seed of its own",
    "threads": "use `n_jobs` for the number of threads",
    "verbosity": "use `verbose`",
    "stopping": "use `early_stopping_rounds`",
    "loss": "the loss is that of the survival model and cannot be replaced",
    "classes": "the number of states follows from the outcomes",
    "weights": "use `sample_weight` in `fit`; weights by state would bias all probabilities",
    "metric": "held-out people are judged by the IPCW log-loss; see `history_`",
    "start": "training starts from the margins of the best constant",
    "categories": "categories are the columns of `X` with a categorical dtype",
    "monotone": "use `monotone` for curves that are monotone in time; constraints on features "
    "would hold for the model of censoring as well",
    "trees": "curves are read off trees whose leaves are constants, added up round by round",
}


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
        The user's own settings in the engine's terms; they win. Each adapter's ``SETTINGS`` says
        which there are.
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

    def threads(self, n_rows: int) -> int:
        """Threads for so many rows: ``n_jobs``, or by the size of the work."""
        if self.n_jobs is None:
            return default_threads(n_rows, self.schema.n_features + 1)
        return self.most_threads

    @property
    def most_threads(self) -> int:
        """Threads for any number of rows."""
        is_given = self.n_jobs is not None and self.n_jobs > 0
        return int(self.n_jobs) if is_given else available_threads()

    @property
    def column_share(self) -> float:
        """``max_features``, but enough for a few columns: a tree of one can tell nobody apart."""
        n_columns = self.schema.n_features + 1
        return max(self.max_features, min(1.0, _MIN_COLUMNS / n_columns))

"""Settings of a training of hazards: the parameters of `HazardBoost`, checked and resolved once."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from survival_objectives._engines.parameters import (
    ROUNDS,
    TreeMaker,
    checked_values,
    trees_of,
    with_defaults,
)
from survival_objectives._engines.protocol import Engine, TreeSettings
from survival_objectives._engines.settings import Check, Flag, NoneOr, Number, Whole
from survival_objectives._hazards.state import HazardState

#: Rows for all intervals, regardless of the number of people.
ALL_ROWS = "all"


def _rows_per_person(value: Any) -> int | str | None:
    if isinstance(value, str) and value == ALL_ROWS:
        return value
    try:
        found: int | None = NoneOr(Whole(1, 10**4))(value)
    except (TypeError, ValueError) as error:
        msg = f"{error}, or {ALL_ROWS!r}"
        raise type(error)(msg) from None
    return found


#: Parameters of `survival_objectives.HazardBoost` besides those of both estimators.
PARAMETERS: dict[str, Check] = {
    "n_estimators": NoneOr(ROUNDS),
    "learning_rate": NoneOr(Number(1e-6, 1)),
    "linear": Flag(),
    "n_folds": NoneOr(Whole(2, 100)),
    "n_repeats": NoneOr(Whole(1, 100)),
    "rows_per_person": _rows_per_person,
}
#: Values of the parameters of a `survival_objectives.HazardBoost` that are not given.
DEFAULTS: dict[str, Any] = {
    "engine": "xgboost",
    "n_estimators": None,
    "learning_rate": None,
    "max_depth": 4,
    "early_stopping_rounds": None,
    "min_leaf_people": None,
    "min_split_gain": None,
    "max_features": 1.0,
    "horizon_max": None,
    "linear": True,
    "n_folds": None,
    "n_repeats": None,
    "rows_per_person": None,
    "warm_start": False,
    "random_state": None,
    "n_jobs": None,
    "verbose": 0,
    "engine_params": None,
}
# What None stands for, unless the engine has a default of its own.
_RESOLVED = {"learning_rate": 0.3, "min_leaf_people": 15.0, "min_split_gain": 1.0}


@dataclass(frozen=True)
class HazardSettings:
    """Settings of a training.

    Attributes
    ----------
    n_rounds : int or None
        Maximum number of boosting rounds; None depends on the number of people.
    n_folds, n_repeats : int or None
        Number of folds, and of draws of folds; None depends on the number of people.
    rows_per_person : int, "all" or None
        Maximum number of rows per person, besides that of the last interval; None depends on the
        number of people.
    linear : bool
        Whether there is a linear part.
    patience : int, optional
        Stop after this many rounds without a better one. Default: stop when the last held-out
        evaluations show almost no gain.
    rounds_per_call : int, default=1
        Minimum number of rounds between two held-out evaluations above 50 000 people, for engines
        with a high cost per call.
    most_rows : float, optional
        Most rows above 50 000 people, unless ``rows_per_person`` is given.
    directions : sequence of int, optional
        +1 or -1 for features in which hazards must rise or fall, else 0.
    horizon_max : float, optional
        End of the curves. Default: a little after the longest duration.
    n_jobs : int, optional
        Number of threads.
    verbose : bool, default=False
    trees : callable
        Settings of the trees, given ``schema``, ``n_causes``, ``seed`` and ``n_jobs``.
    """

    n_rounds: int | None
    n_folds: int | None
    n_repeats: int | None
    rows_per_person: int | str | None
    linear: bool
    patience: int | None = None
    rounds_per_call: int = 1
    most_rows: float = np.inf
    directions: Sequence[int] | None = None
    horizon_max: float | None = None
    n_jobs: int | None = None
    verbose: bool = False
    trees: TreeMaker = TreeSettings

    #: What checkpoints hold.
    state_type: ClassVar[type[HazardState]] = HazardState
    #: The parameter that has no effect beside ``eval_set``.
    holds_out: ClassVar[tuple[str, Any]] = ("n_folds", None)
    #: Whether people may enter later than at 0.
    late_entry: ClassVar[bool] = True
    #: Name of a parameter that needs people as they were passed: there is none.
    own_model: ClassVar[str | None] = None

    @classmethod
    def of(cls, parameters: Mapping[str, Any], used: Engine) -> HazardSettings:
        """Settings from the parameters of a HazardBoost, or an error that names the way out."""
        values = checked_values(parameters, PARAMETERS, used)
        seed = parameters["random_state"]
        if values["warm_start"] and not isinstance(seed, numbers.Integral):
            msg = (
                f"`warm_start` needs an integer `random_state`, by which held-out people stay in "
                f"their folds; got {seed!r}."
            )
            raise ValueError(msg)
        values = with_defaults(values, {**_RESOLVED, **used.hazard_defaults})
        return cls(
            n_rounds=values["n_estimators"],
            n_folds=values["n_folds"],
            n_repeats=values["n_repeats"],
            rows_per_person=values["rows_per_person"],
            linear=values["linear"],
            patience=values["early_stopping_rounds"],
            rounds_per_call=used.rounds_per_call,
            most_rows=used.most_rows,
            horizon_max=values["horizon_max"],
            n_jobs=values["n_jobs"],
            verbose=bool(values["verbose"]),
            # Hazards are positive: their curves are monotone without any constraint.
            trees=trees_of(
                values,
                n_horizons=1,
                monotone=False,
                engine_params={**used.coarse_bins, **values["engine_params"]},
            ),
        )

"""Settings of a training of hazards, checked and resolved once, and the state of a training."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from survival_objectives._engines.protocol import Engine
from survival_objectives._engines.settings import (
    ROUNDS,
    Check,
    Flag,
    NoneOr,
    Number,
    TreeMaker,
    TreeSettings,
    Whole,
    checked_values,
    trees_of,
    with_defaults,
)

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

"""Settings of a training on horizons, checked and resolved once, and the state of a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    Whole,
    checked_values,
    trees_of,
    with_defaults,
)
from survival_objectives._horizons.completion import CompletionModel
from survival_objectives._models.fitted import RoundRecord
from survival_objectives._people import check_choice
from survival_objectives.censoring import CensoringModel
from survival_objectives.stacking import HorizonSampler, TimeStacker

#: Weights from a censoring model that the user passed.
GIVEN = "given"
#: Targets from a model that completes the outcomes of censored people.
COMPLETED = "completed"
#: Targets from the models of events and of censoring together.
DOUBLY_ROBUST = "doubly-robust"
#: How outcomes that were censored before a horizon are treated, by name.
METHODS = ("boosted", "kaplan-meier", "imputed", DOUBLY_ROBUST)

#: Parameters of `survival_objectives.SurvivalBoost` besides those of both estimators.
PARAMETERS: dict[str, Check] = {
    "n_estimators": ROUNDS,
    "learning_rate": Number(1e-6, 1),
    "n_horizons": Whole(1, 10**4),
    "refresh_every": NoneOr(ROUNDS),
    "monotone": Flag(),
    "time_smoothing": Number(0, 0.999),
    "validation_fraction": Number(1e-6, 0.999999),
    "min_censoring_survival": Number(1e-6, 1),
}
# Values other than these are errors where they have no effect.
DEFAULTS: dict[str, Any] = {
    "censoring": "boosted",
    "time_smoothing": 0.03,
    "validation_fraction": 0.1,
}
# What None stands for.
_RESOLVED = {"min_leaf_people": 5.0, "min_split_gain": 2.0}
# Rounds, times the learning rate, after which imputed states come from the model: by then all
# but exp(-5) of the distance to the optimum is covered.
_MARGINAL_ROUNDS = 5.0


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


@dataclass(frozen=True)
class HorizonSettings:
    """Settings of a training.

    Attributes
    ----------
    method : str
        How censored people count: one of `METHODS`, "given" or "completed".
    censoring_model : CensoringModel, optional
        The user's own.
    n_intervals : int or None
        Intervals between the knots of the curves; None where curves are the trees' own steps.
    n_marginal_rounds : int
        Rounds in which imputed states come from the marginal curves.
    floor : float
        ``min_censoring_survival`` of `survival_objectives.SurvivalBoost`, which describes all
        others.
    """

    method: str
    n_rounds: int
    n_horizons: int
    horizon_sampler: str | HorizonSampler
    refresh_every: int
    censoring_model: CensoringModel | None
    completion: str | CompletionModel | None
    monotone: bool
    n_intervals: int | None
    n_marginal_rounds: int
    early_stopping_rounds: int | None
    validation_fraction: float
    floor: float
    horizon_max: float | None
    n_jobs: int | None
    verbose: bool
    trees: TreeMaker

    #: What checkpoints hold.
    state_type: ClassVar[type[LoopState]] = LoopState
    #: Whether people may enter later than at 0.
    late_entry: ClassVar[bool] = False
    #: The parameter that has no effect beside ``eval_set``.
    holds_out: ClassVar[tuple[str, Any]] = ("validation_fraction", 0.1)

    @property
    def own_model(self) -> str | None:
        """Name of the parameter that needs people as they were passed, if there is one."""
        if self.censoring_model is not None:
            return "censoring"
        return None if self.completion is None else "completion"

    @classmethod
    def of(cls, parameters: Mapping[str, Any], used: Engine) -> HorizonSettings:
        """Settings from the parameters of a SurvivalBoost, or an error that names the way out."""
        values = checked_values(parameters, PARAMETERS, used)
        sampler = parameters["horizon_sampler"]
        TimeStacker(values["n_horizons"], sampler, horizon_max=values["horizon_max"])
        method = _method(parameters, used)
        for name, obstacle in _obstacles(parameters, method):
            if values.get(name, parameters[name]) != DEFAULTS[name]:
                msg = f"`{name}` is {parameters[name]!r}, but has no effect {obstacle}."
                raise ValueError(msg)
        values = with_defaults(values, {**_RESOLVED, "refresh_every": used.refresh_every})
        n_rounds, smoothing = values["n_estimators"], values["time_smoothing"]
        marginal_rounds = min(_MARGINAL_ROUNDS / values["learning_rate"], n_rounds / 2)
        has_knots = values["monotone"] and smoothing > 0
        return cls(
            method=method,
            n_rounds=n_rounds,
            n_horizons=values["n_horizons"],
            horizon_sampler=sampler,
            refresh_every=values["refresh_every"],
            censoring_model=parameters["censoring"] if method == GIVEN else None,
            completion=parameters["completion"],
            monotone=values["monotone"],
            n_intervals=round(1 / smoothing) if has_knots else None,
            n_marginal_rounds=int(np.ceil(marginal_rounds)),
            early_stopping_rounds=values["early_stopping_rounds"],
            validation_fraction=values["validation_fraction"],
            floor=values["min_censoring_survival"],
            horizon_max=values["horizon_max"],
            n_jobs=values["n_jobs"],
            verbose=bool(values["verbose"]),
            trees=trees_of(
                values,
                n_horizons=values["n_horizons"],
                monotone=values["monotone"],
                engine_params=values["engine_params"],
            ),
        )


def _method(parameters: Mapping[str, Any], used: Engine) -> str:
    censoring, completion = parameters["censoring"], parameters["completion"]
    if completion is not None:
        if isinstance(completion, str):
            check_choice(completion, "completion", ("hazards",))
        return COMPLETED
    if isinstance(censoring, CensoringModel):
        return GIVEN
    if isinstance(censoring, str) and censoring in ("hazards", "auto"):
        msg = f"`censoring` is {censoring!r}; hazards are trained by `HazardBoost`."
        raise ValueError(msg)
    check_choice(censoring, "censoring", METHODS)
    if censoring == DOUBLY_ROBUST and not used.takes_any_target:
        msg = (
            f'`censoring="doubly-robust"` has targets outside [0, 1], which the losses of '
            f"{used.name} do not take. Use another engine, or the objective of "
            f"`survival_objectives.adapters.{used.name}` with `doubly_robust=True`."
        )
        raise ValueError(msg)
    return str(censoring)


def _obstacles(parameters: Mapping[str, Any], method: str) -> list[tuple[str, str]]:
    """Parameters that have no effect here, with the reason and the way out."""
    found = []
    if not parameters["monotone"]:
        found.append(
            ("time_smoothing", "on curves that may fall: leave it out, or set `monotone=True`")
        )
    if parameters["early_stopping_rounds"] is None:
        found.append(("validation_fraction", "without early stopping: set `early_stopping_rounds`"))
    if method == COMPLETED:
        found.append(("censoring", "beside `completion`: leave out one of them"))
    return found

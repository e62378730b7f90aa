"""Parameters that both estimators share, and the settings of trees that follow from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from survival_objectives._engines.protocol import Engine, TreeSettings
from survival_objectives._engines.settings import (
    Check,
    Flag,
    NoneOr,
    Number,
    Whole,
    checked_parameters,
)

#: Makes the settings of trees from ``schema``, ``n_causes``, ``seed`` and ``n_jobs``.
TreeMaker = Callable[..., TreeSettings]

#: A number of rounds.
ROUNDS = Whole(1, 10**6)
# More threads than this only cost memory; LightGBM and CatBoost end the process on 10^5.
_MOST_THREADS = max(256, os.cpu_count() or 1)


def _threads(value: Any) -> int | None:
    number = NoneOr(Whole(-1, _MOST_THREADS))(value)
    if number == 0:
        wanted = f"must be from 1 to {_MOST_THREADS}, -1 for all, or None to choose by data size"
        raise ValueError(wanted)
    return number  # type: ignore[no-any-return]


def _settings(value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        wanted = "must be a dict or None"
        raise TypeError(wanted)
    return dict(value or {})


# Smallest and largest values: engines hold weights and times in float32.
_SHARED: dict[str, Check] = {
    "min_leaf_people": NoneOr(Number(0, 1e9)),
    "min_split_gain": NoneOr(Number(0, 1e9)),
    "max_features": Number(1e-9, 1),
    "early_stopping_rounds": NoneOr(ROUNDS),
    "horizon_max": NoneOr(Number(1e-30, 1e30)),
    "warm_start": Flag(),
    "n_jobs": _threads,
    "verbose": Whole(0, 10),
    "engine_params": _settings,
}


def checked_values(
    parameters: Mapping[str, Any], own: Mapping[str, Check], used: Engine
) -> dict[str, Any]:
    """Values of all parameters of an estimator that is trained by an engine.

    Parameters
    ----------
    parameters : mapping
        As passed to the constructor.
    own : mapping of str to Check
        Parameters that the other estimator lacks, or has with other limits.
    used : Engine
    """
    table = {**_SHARED, **own, "max_depth": Whole(1, used.max_depth)}
    values = checked_parameters(parameters, table)
    for name in used.lacks:
        if values[name] is not None:
            msg = (
                f"`{name}` is {values[name]!r}, but {used.name} has no such setting. Leave it "
                "out, or use another engine."
            )
            raise ValueError(msg)
    values["engine_params"] = used.settings.resolved(values["engine_params"])
    return values


def trees_of(values: Mapping[str, Any], **others: Any) -> TreeMaker:
    """Settings of trees that lack only what is known from the people."""
    names = ("learning_rate", "max_depth", "min_leaf_people", "min_split_gain", "max_features")
    return partial(TreeSettings, **{**{name: values[name] for name in names}, **others})


def with_defaults(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with defaults in place of None."""
    return {name: defaults.get(name) if value is None else value for name, value in values.items()}

"""Settings of trees: parameters of the estimators, settings of engines, and constraints.

Engines take almost any setting in silence, and some of them change what a model means: another
loss, trees that are not step functions, rounds that rescale earlier ones. So each adapter lists the
settings that are known to agree with how the estimator trains and predicts. A test trains with
every one of them and compares all ways of prediction.

The rows that engines train on have the time as a further, last column. It has a direction of its
own, and belongs to every group of features that may interact.
"""

from __future__ import annotations

import difflib
import json
import numbers
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from survival_objectives._arrays import BoolArray
from survival_objectives._people import Features
from survival_objectives._process.running import default_threads, most_threads

if TYPE_CHECKING:
    from survival_objectives._engines.protocol import Engine

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
    "trees": "curves are read off trees whose leaves are constants, added up round by round",
}


class Check(Protocol):
    """What a setting may be."""

    def __call__(self, value: Any) -> Any:
        """The value as the engine takes it; a TypeError or ValueError says what is wanted."""


@dataclass(frozen=True)
class Whole:
    """An integer in a range, both ends included."""

    low: int
    high: int

    def __call__(self, value: Any) -> int:
        wanted = f"must be an integer from {self.low} to {self.high}"
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise TypeError(wanted)
        if not self.low <= int(value) <= self.high:
            raise ValueError(wanted)
        return int(value)


@dataclass(frozen=True)
class Number:
    """A number in a range, both ends included."""

    low: float
    high: float

    def __call__(self, value: Any) -> float:
        wanted = f"must be a number from {self.low:g} to {self.high:g}"
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(wanted)
        if not self.low <= float(value) <= self.high:
            raise ValueError(wanted)
        return float(value)


@dataclass(frozen=True)
class Flag:
    """True or False, and no text that reads like one of them."""

    def __call__(self, value: Any) -> bool:
        if not isinstance(value, bool | np.bool_):
            wanted = "must be True or False"
            raise TypeError(wanted)
        return bool(value)


@dataclass(frozen=True)
class Choice:
    """One of several words; ``why`` says what is wrong with all others."""

    words: tuple[str, ...]
    why: str = ""

    def __call__(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.words:
            wanted = f"must be {' or '.join(map(repr, self.words))}"
            raise ValueError(f"{wanted}: {self.why}" if self.why else wanted)
        return value


@dataclass(frozen=True)
class NoneOr:
    """None, which stands for a default that depends on the engine or the data, or a value."""

    check: Check

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        try:
            return self.check(value)
        except (TypeError, ValueError) as error:
            msg = f"{error}, or None"
            raise type(error)(msg) from None


def checked_parameters(parameters: Mapping[str, Any], table: Mapping[str, Check]) -> dict[str, Any]:
    """Values of the parameters in a table, as plain numbers.

    >>> checked_parameters({"max_depth": 0}, {"max_depth": Whole(1, 16)})
    Traceback (most recent call last):
    ...
    ValueError: `max_depth` must be an integer from 1 to 16; got 0.
    """
    values = {}
    for name, check in table.items():
        try:
            values[name] = check(parameters[name])
        except (TypeError, ValueError) as error:
            msg = f"`{name}` {error}; got {parameters[name]!r}."
            raise type(error)(msg) from None
    return values


@dataclass(frozen=True)
class EngineSettings:
    """The settings of one engine.

    Attributes
    ----------
    engine : str
        Name of the engine's module.
    allowed : mapping of str to Check
        Settings that are passed on, by the name that the adapter uses.
    owned : mapping of str to str
        Settings that the estimator makes itself, with what to use instead.
    aliases : mapping of str to str
        Other names of both.
    known : collection of str
        All names that the engine knows, as far as it lists them.

    Examples
    --------
    >>> table = EngineSettings("toy", {"depth": Whole(1, 16)}, {"loss": "it is fixed"},
    ...                        {"max_depth": "depth"})
    >>> table.resolved({"max_depth": 3})
    {'depth': 3}
    >>> table.resolved({"dept": 3})
    Traceback (most recent call last):
    ...
    ValueError: `engine_params` has 'dept', which toy does not know. Did you mean 'depth'?
    """

    engine: str
    allowed: Mapping[str, Check]
    owned: Mapping[str, str]
    aliases: Mapping[str, str] = field(default_factory=dict)
    known: Collection[str] = ()

    def resolved(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The user's settings under the names of ``allowed``, checked and as plain values."""
        given: dict[str, str] = {}
        result: dict[str, Any] = {}
        for name, value in params.items():
            key = self.aliases.get(name, name)
            if key in self.owned:
                msg = f"`engine_params` has {name}={value!r}; {self.owned[key]}."
                raise ValueError(msg)
            if key not in self.allowed:
                raise ValueError(self._unknown(name))
            if key in given:
                msg = f"`engine_params` has {given[key]!r} and {name!r}, two names of one setting."
                raise ValueError(msg)
            given[key] = name
            try:
                result[key] = self.allowed[key](value)
            except (TypeError, ValueError) as error:
                msg = f"`engine_params` has {name}={value!r}; it {error}."
                raise type(error)(msg) from None
        return result

    def _unknown(self, name: Any) -> str:
        if name in self.known:
            return (
                f"`engine_params` has {name!r}, which is not among the settings that agree with "
                f"how the estimators train: {', '.join(sorted(self.allowed))}. The objective in "
                f"`survival_objectives.adapters.{self.engine}` trains with any setting."
            )
        names = [*self.allowed, *self.owned, *self.aliases]
        nearest = difflib.get_close_matches(str(name), names, n=1, cutoff=0.0)
        return (
            f"`engine_params` has {name!r}, which {self.engine} does not know. "
            f"Did you mean {nearest[0]!r}?"
        )


_MIN_FEATURES = 4


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
        Share of the features that a tree may split on, besides the time.
    n_horizons : int
        Stacked rows per person and round.
    monotone : bool
        Whether margins rise in time.
    seed, n_jobs
        Reproducibility and threads.
    engine_params : mapping
        The user's own settings in the engine's terms, under the names of ``Engine.settings``, which
        take precedence.
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

    def of_censoring(self) -> TreeSettings:
        """Trees of the censoring model: shallower, as its errors multiply those of the events.

        It is monotone whatever the events are: a probability of staying uncensored falls in time.
        Constraints on features are about the events, and do not hold for it.
        """
        own = {
            name: value
            for name, value in self.engine_params.items()
            if name not in (MONOTONE, INTERACTION)
        }
        depth = max(1, self.max_depth - 1)
        return replace(self, n_causes=1, max_depth=depth, monotone=True, engine_params=own)

    def threads(self, n_rows: int) -> int:
        """Threads for so many rows: ``n_jobs``, or by the size of the work."""
        return default_threads(n_rows, self.schema.n_features + 1, self.n_jobs)

    @property
    def most_threads(self) -> int:
        """Threads for any number of rows."""
        return most_threads(self.n_jobs)

    @property
    def column_share(self) -> float:
        """Share of the columns that a tree may split on, the time being one of them."""
        n_features = self.schema.n_features
        # Half a column more: engines round down.
        return min(1.0, (self._n_drawn_features + 1.5) / (n_features + 1))

    @property
    def _n_drawn_features(self) -> int:
        """``max_features`` as a number, but at least a few: one alone may be uninformative."""
        n_features = self.schema.n_features
        return max(int(self.max_features * n_features), min(n_features, _MIN_FEATURES))

    def constraints(self) -> tuple[list[int] | None, list[list[int]] | None]:
        """Directions of the stacked columns and groups of those that interact; None for none."""
        own = self.engine_params
        directions = column_directions(own.get(MONOTONE), self.schema, int(self.monotone))
        return directions, column_groups(own.get(INTERACTION), self.schema)

    def drawn_columns(self, round: int) -> BoolArray | None:
        """Which columns the trees of a round may split on, the time always; None for all.

        For engines that cannot draw columns while keeping one of them.
        """
        n_features = self.schema.n_features
        if self._n_drawn_features == n_features:
            return None
        is_drawn = np.zeros(n_features + 1, np.bool_)
        generator = np.random.default_rng([self.seed, round])
        is_drawn[generator.choice(n_features, self._n_drawn_features, replace=False)] = True
        is_drawn[-1] = True
        return is_drawn


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


#: Names of the settings, the same on all engines.
MONOTONE, INTERACTION = "monotone_constraints", "interaction_constraints"


def checked_directions(value: Any) -> dict[str, int] | tuple[int, ...]:
    """Directions of features by name, or one for each, from any spelling of an engine.

    >>> checked_directions({"age": 1}), checked_directions("(1,0,-1)"), checked_directions("age:1")
    ({'age': 1}, (1, 0, -1), {'age': 1})
    """
    if isinstance(value, str):
        parts = [part.strip() for part in value.strip("()[] ").split(",") if part.strip()]
        if any(":" in part for part in parts):
            value = {name: number for name, _, number in (part.rpartition(":") for part in parts)}
        else:
            value = parts
    if isinstance(value, Mapping):
        return {str(name): _direction(number) for name, number in value.items()}
    if not isinstance(value, Iterable):
        raise TypeError(_DIRECTIONS)
    return tuple(map(_direction, value))


def checked_groups(value: Any) -> tuple[tuple[str, ...], ...]:
    """Groups of features, by names or positions, from any spelling of an engine.

    >>> checked_groups([["age", "sex"], ["dose"]]), checked_groups("[0,1],[2]")
    ((('age', 'sex'), ('dose',)), (('0', '1'), ('2',)))
    """
    if isinstance(value, str):
        try:
            value = json.loads(value if value.strip().startswith("[[") else f"[{value}]")
        except ValueError:
            raise ValueError(_GROUPS) from None
    groups = list(value) if isinstance(value, Iterable) else None
    if groups is None or any(isinstance(g, str) or not isinstance(g, Iterable) for g in groups):
        raise TypeError(_GROUPS)
    return tuple(tuple(str(name) for name in group) for group in groups)


_DIRECTIONS = "must be a dict of names of features to -1, 0 or 1, or one of these for each feature"
_GROUPS = "must be a list of groups of features, each a list of names or positions"


def _direction(number: Any) -> int:
    if isinstance(number, str) and number.strip().lstrip("+-").isdecimal():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, numbers.Integral):
        raise TypeError(_DIRECTIONS)
    if abs(int(number)) > 1:
        raise ValueError(_DIRECTIONS)
    return int(number)


def column_directions(given: Any, schema: Features, time: int) -> list[int] | None:
    """Direction of every column, that of the time last; None if there is none at all.

    >>> import numpy as np
    >>> column_directions({"x1": -1}, Features(np.empty((0, 3), np.float32), None, {}), 1)
    [0, -1, 0, 1]
    """
    given = () if given is None else checked_directions(given)
    directions = [0] * schema.n_features
    if isinstance(given, dict):
        for name, direction in given.items():
            directions[_column(name, schema, MONOTONE)] = direction
    elif given:
        if len(given) != schema.n_features:
            msg = (
                f"`{MONOTONE}` has {len(given)} values, but there are {schema.n_features} features "
                "(the time is none of them). Give one for each, or a dict by name."
            )
            raise ValueError(msg)
        directions = list(given)
    for column in schema.categories:
        if directions[column]:
            msg = (
                f"`{MONOTONE}` names {_names(schema)[column]!r}, which is a category and has no "
                "order. Leave it out, or pass the column as numbers."
            )
            raise ValueError(msg)
    directions.append(time)
    return directions if any(directions) else None


def column_groups(given: Any, schema: Features) -> list[list[int]] | None:
    """Columns that may interact, the time with all of them; a feature in no group is alone.

    >>> import numpy as np
    >>> column_groups([["x0", "x1"]], Features(np.empty((0, 3), np.float32), None, {}))
    [[0, 1, 3], [2, 3]]
    """
    if given is None:
        return None
    groups = [
        sorted({_column(name, schema, INTERACTION) for name in group})
        for group in checked_groups(given)
    ]
    grouped = {column for group in groups for column in group}
    groups += [[column] for column in range(schema.n_features) if column not in grouped]
    return [[*group, schema.n_features] for group in groups if group]


def _column(name: str, schema: Features, setting: str) -> int:
    """Column of a feature by its name or, if there is no such name, by its position."""
    names = _names(schema)
    if name in names:
        return names.index(name)
    if name.isdecimal() and int(name) < schema.n_features:
        return int(name)
    msg = f"`{setting}` names {name!r}, which is no feature; there are {', '.join(names)}."
    raise ValueError(msg)


def _names(schema: Features) -> list[str]:
    return list(schema.names or (f"x{column}" for column in range(schema.n_features)))

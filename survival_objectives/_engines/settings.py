"""Which settings of an engine an estimator passes on, under which names and with which values.

Engines take almost any setting in silence, and some of them change what a model means: another
loss, trees that are not step functions, rounds that rescale earlier ones. So each adapter lists the
settings that are known to agree with how the estimator trains and predicts. A test trains with
every one of them and compares all ways of prediction.
"""

from __future__ import annotations

import ctypes
import difflib
import numbers
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

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


def n_cuda_devices() -> int:
    """Number of CUDA devices that the driver shows to this process."""
    for library in ("libcuda.so.1", "nvcuda.dll"):
        try:
            driver = ctypes.CDLL(library)
        except OSError:
            continue
        count = ctypes.c_int(0)
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0:
            return count.value
    return 0

"""The model of a service: requests as columns, answers as plain values, and reloading."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._people import Features
from survival_objectives.estimators import load

logger = logging.getLogger("survival_objectives")

# Seconds between two looks at the folder of the model.
_LOOK_EVERY = 1.0
# Most probabilities in one answer: half a minute of CPU time, and 100 MB of memory.
_MOST_VALUES = 1_000_000
# Predictions of single precision have no more.
_DIGITS = 7


class RequestError(ValueError):
    """A request that cannot be answered, with the HTTP status that says why."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Settings:
    """What one request may ask for, and names in the answers.

    Attributes
    ----------
    body : int
        Bytes of the body.
    people, times : int
        Most people, and most times.
    seconds : float
        Until the body must have arrived.
    event_names : sequence of str
        Names of the states in place of those of the model; those of the model if empty.
    time_unit : str or None
        What times are counted in.
    dates : sequence of str
        Columns that are days since 1970-01-01 in the model, and dates in requests.
    """

    body: int = 10_000_000
    people: int = 10_000
    times: int = 1_000
    seconds: float = 10.0
    event_names: tuple[str, ...] = ()
    time_unit: str | None = None
    dates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A feature as a client sees it: its name, its levels if it is a category, or a date."""

    name: str
    levels: list[Any] | None
    is_date: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The column in JSON schema; null is a missing value."""
        if self.is_date:
            return {"type": ["string", "null"], "format": "date"}
        if self.levels is None:
            return {"type": ["number", "null"]}
        return {"enum": [*self.levels, None]}


def columns_of(schema: Features, dates: Sequence[str] = ()) -> list[Column]:
    """Columns of a model; those without a name are called by their number."""
    names = schema.names or tuple(str(number) for number in range(schema.n_features))
    return [
        Column(
            name, schema.categories[at].tolist() if at in schema.categories else None, name in dates
        )
        for at, name in enumerate(names)
    ]


class ServedModel:
    """A loaded model that answers requests.

    Parameters
    ----------
    model : estimator
        Fitted.
    settings : Settings
    """

    def __init__(self, model: Any, settings: Settings) -> None:
        self.model, self.settings = model, settings
        self.columns = columns_of(model.fitted_model.schema, settings.dates)
        self._has_names = model.fitted_model.schema.names is not None
        states = list(model.event_names_)
        named = [states[0], *settings.event_names[1:]] if settings.event_names else states
        if len(named) != len(states):
            msg = (
                f"`event_names` has {len(named)} names for the states {states}; give one for each."
            )
            raise ValueError(msg)
        self._states = named

    def describe(self) -> dict[str, Any]:
        """Columns, states and times: nothing of the people the model was trained on."""
        return {
            "columns": {column.name: column.schema for column in self.columns},
            "states": self._states,
            "time_unit": self.settings.time_unit,
            "last_time": float(self.model.times_[-1]),
            "bands": self.model.fitted_model.has_bands,
            "limits": {"people": self.settings.people, "times": self.settings.times},
        }

    def predict(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Probabilities of all states of each person at each time."""
        known = {"people", "times", "conditional_after", "confidence"}
        _check_names(request, known, {"people"}, "The request")
        frame, times = self._frame(request["people"]), self._times(request.get("times"))
        after, states = request.get("conditional_after"), self._states
        confidence = request.get("confidence")
        n_values = len(frame) * len(times) * len(states) * (1 if confidence is None else 3)
        if n_values > _MOST_VALUES:
            msg = (
                f"{len(frame)} people, {len(times)} times and {len(states)} states are {n_values} "
                f"probabilities, at most {_MOST_VALUES} are answered. Ask for fewer times or people"
                " at once."
            )
            raise RequestError(msg, 413)
        found, noted = _noting(
            lambda: self.model.predict_cumulative_incidence(
                frame, times, conditional_after=after, confidence=confidence
            )
        )
        curves = (found,) if confidence is None else found
        names = ("probabilities", "lower", "upper")
        rounded = (one.round(_DIGITS).tolist() for one in curves)
        return {
            "times": times.tolist(),
            "states": states,
            **dict(zip(names, rounded, strict=False)),
            "warnings": noted,
        }

    def explain(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Contributions of the columns to the log-odds of each cause at one time."""
        _check_names(request, {"people", "time"}, {"people", "time"}, "The request")
        frame, time_ = self._frame(request["people"]), self._times([request["time"]])
        values, noted = _noting(lambda: self.model.shap_values(frame, float(time_[0])))
        return {
            "columns": [column.name for column in self.columns],
            "causes": self._states[1:],
            "contributions": np.asarray(values)[:, :, :-2].round(_DIGITS).tolist(),
            "warnings": noted,
        }

    def _frame(self, people: Any) -> Any:
        """People as the columns of training, which `predict` reads as it reads any input."""
        if not isinstance(people, list) or not people:
            msg = "`people` must be a list of at least one object of column names to values."
            raise RequestError(msg)
        if len(people) > self.settings.people:
            msg = (
                f"`people` has {len(people)} entries, at most {self.settings.people} are answered."
            )
            raise RequestError(msg, 413)
        names = [column.name for column in self.columns]
        wanted = set(names)
        for number, person in enumerate(people):
            if not isinstance(person, dict):
                msg = f"`people[{number}]` must be an object; got {type(person).__name__}."
                raise RequestError(msg)
            if person.keys() != wanted:
                _check_names(person, wanted, wanted, f"`people[{number}]`")
        values = {name: [person[name] for person in people] for name in names}
        for name, column in values.items():
            odd = [value for value in column if isinstance(value, list | dict)]
            if odd:
                msg = f"`{name}` must be a number, text or null; got {type(odd[0]).__name__}."
                raise RequestError(msg)
        values |= {name: _days(values[name], name) for name in self.settings.dates}
        frame = pd.DataFrame(values, dtype=object)
        return frame if self._has_names else frame.to_numpy()

    def _times(self, times: Any) -> Any:
        if times is None:
            return self.model.times_.round(_DIGITS)
        values = times if isinstance(times, list) else [times]
        if len(values) > self.settings.times:
            msg = f"`times` has {len(values)} entries, at most {self.settings.times} are answered."
            raise RequestError(msg, 413)
        if not values or any(isinstance(one, bool | str | list | dict | None) for one in values):
            msg = "`times` must be a list of numbers from 0 on."
            raise RequestError(msg)
        return np.array(values, dtype=np.float64)


def _days(dates: Sequence[Any], name: str) -> list[float | None]:
    """Dates as days since 1970-01-01."""
    try:
        return [None if one is None else float(_day(one)) for one in dates]
    except (TypeError, ValueError) as error:
        msg = f"`{name}` is a date such as '2024-05-31', or null; {error}."
        raise RequestError(msg) from error


def _day(text: str) -> int:
    return date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal()


def _check_names(given: Any, known: set[str], needed: set[str], where: str) -> None:
    """Refuse an object with unknown or missing names."""
    if not isinstance(given, dict):
        msg = f"{where} must be an object; got {type(given).__name__}."
        raise RequestError(msg)
    missing, unknown = sorted(needed - given.keys()), sorted(given.keys() - known)
    if missing or unknown:
        parts = [f"lacks {missing[:5]}"] if missing else []
        parts += [f"has unknown {unknown[:5]}"] if unknown else []
        msg = f"{where} {' and '.join(parts)}. A missing value is null."
        raise RequestError(msg)


def _noting(predict: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a prediction returns, and its warnings; its errors are those of the request."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = predict()
        except (ValueError, TypeError) as error:
            raise RequestError(str(error)) from error
    return found, [str(warning.message) for warning in caught]


class ModelFolder:
    """The model of a folder, which is loaded again when the folder has changed.

    Requests under way finish with the model that they began with. A folder that cannot be loaded
    is logged, and the former model goes on answering.
    """

    def __init__(self, path: Any, settings: Settings) -> None:
        self.path, self.settings = Path(path), settings
        self._lock = threading.Lock()
        self._state = self._stamp()
        self._looked = time.monotonic()
        self._served = self._loaded()

    def current(self) -> ServedModel:
        """The model to answer with."""
        if time.monotonic() - self._looked > _LOOK_EVERY and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        return self._served

    def _look(self) -> None:
        self._looked = time.monotonic()
        state = self._stamp()
        if state in (self._state, ()):
            return
        try:
            self._served = self._loaded()
        except (OSError, ValueError) as error:
            logger.warning("The changed model was not loaded, the former one answers: %s", error)
        self._state = state

    def _loaded(self) -> ServedModel:
        return ServedModel(load(self.path), self.settings)

    def _stamp(self) -> Sequence[tuple[str, int, int]]:
        """Names, sizes and times of the files of the folder."""
        try:
            found = [(file.name, file.stat()) for file in sorted(self.path.iterdir())]
        except OSError:  # Between the removal of a model and its replacement.
            return ()
        return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)

"""The model of a service: requests as columns, answers as plain values, and reloading."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._people import Features
from survival_objectives.estimators import load

logger = logging.getLogger("survival_objectives")

# Seconds between two looks at the folder of the model.
_LOOK_EVERY = 1.0


class RequestError(ValueError):
    """A request that cannot be answered, with the HTTP status that says why."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """What one request may ask for.

    Attributes
    ----------
    body : int
        Bytes of the body.
    people, times : int
        Most people, and most times.
    seconds : float
        Until the body must have arrived.
    """

    body: int = 10_000_000
    people: int = 10_000
    times: int = 1_000
    seconds: float = 10.0


@dataclass(frozen=True)
class Column:
    """A feature as a client sees it: its name, and its levels if it is a category."""

    name: str
    levels: list[Any] | None

    @property
    def schema(self) -> dict[str, Any]:
        """The column in JSON schema; null is a missing value."""
        if self.levels is None:
            return {"type": ["number", "null"]}
        return {"enum": [*self.levels, None]}


def columns_of(schema: Features) -> list[Column]:
    """Columns of a model; those without a name are called by their number."""
    names = schema.names or tuple(str(number) for number in range(schema.n_features))
    return [
        Column(name, schema.categories[at].tolist() if at in schema.categories else None)
        for at, name in enumerate(names)
    ]


class ServedModel:
    """A loaded model that answers requests.

    Parameters
    ----------
    model : estimator
        Fitted.
    limits : Limits
    """

    def __init__(self, model: Any, limits: Limits) -> None:
        self.model, self.limits = model, limits
        self.columns = columns_of(model.fitted_model.schema)
        self._has_names = model.fitted_model.schema.names is not None

    def describe(self) -> dict[str, Any]:
        """Columns, states and times: nothing of the people the model was trained on."""
        return {
            "columns": {column.name: column.schema for column in self.columns},
            "states": list(self.model.event_names_),
            "last_time": float(self.model.times_[-1]),
            "limits": {"people": self.limits.people, "times": self.limits.times},
        }

    def predict(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Probabilities of all states of each person at each time."""
        known = {"people", "times", "conditional_after"}
        _check_names(request, known, {"people"}, "The request")
        frame, times = self._frame(request["people"]), self._times(request.get("times"))
        after = request.get("conditional_after")
        curves, noted = _noting(
            lambda: self.model.predict_cumulative_incidence(frame, times, conditional_after=after)
        )
        return {
            "times": times.tolist(),
            "states": list(self.model.event_names_),
            "probabilities": curves.tolist(),
            "warnings": noted,
        }

    def explain(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Contributions of the columns to the log-odds of each cause at one time."""
        _check_names(request, {"people", "time"}, {"people", "time"}, "The request")
        frame, time_ = self._frame(request["people"]), self._times([request["time"]])
        values, noted = _noting(lambda: self.model.shap_values(frame, float(time_[0])))
        return {
            "columns": [column.name for column in self.columns],
            "causes": list(self.model.event_names_[1:]),
            "contributions": np.asarray(values)[:, :, :-2].tolist(),
            "warnings": noted,
        }

    def _frame(self, people: Any) -> Any:
        """People as the columns of training, which `predict` reads as it reads any input."""
        if not isinstance(people, list) or not people:
            msg = "`people` must be a list of at least one object of column names to values."
            raise RequestError(msg)
        if len(people) > self.limits.people:
            msg = f"`people` has {len(people)} entries, at most {self.limits.people} are answered."
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
        frame = pd.DataFrame(
            {name: pd.Series(column, dtype=object) for name, column in values.items()}
        )
        return frame if self._has_names else frame.to_numpy()

    def _times(self, times: Any) -> Any:
        if times is None:
            return self.model.times_
        values = times if isinstance(times, list) else [times]
        if len(values) > self.limits.times:
            msg = f"`times` has {len(values)} entries, at most {self.limits.times} are answered."
            raise RequestError(msg, 413)
        if not values or any(isinstance(one, bool | str | list | dict | None) for one in values):
            msg = "`times` must be a list of numbers from 0 on."
            raise RequestError(msg)
        return np.array(values, dtype=np.float64)


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

    def __init__(self, path: Any, limits: Limits) -> None:
        self.path, self.limits = Path(path), limits
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
        return ServedModel(load(self.path), self.limits)

    def _stamp(self) -> Sequence[tuple[str, int, int]]:
        """Names, sizes and times of the files of the folder."""
        try:
            found = [(file.name, file.stat()) for file in sorted(self.path.iterdir())]
        except OSError:  # Between the removal of a model and its replacement.
            return ()
        return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)

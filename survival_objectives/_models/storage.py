"""Saved models: a folder with the engine's own files and JSON, and nothing else.

There is no pickle, so that loading runs no code from the files, and there are no outcomes of
people: the JSON holds parameters, columns, labels, a few rounded numbers and coarse curves
(docs/howto/serving.md lists them). A digest covers the JSON, and the JSON has digests of the
engine's files, so that damage is detected. Digests do not prove who wrote a file: model files are
trusted input.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._engines.evaluator import Evaluator
from survival_objectives._engines.protocol import ENGINES, engine
from survival_objectives._hazards.model import HazardMixture
from survival_objectives._models.curves import CurveShape, KnotCurves, StepCurves
from survival_objectives._models.fitted import FittedModel, ModelFrame, StackedModel, TrainingRecord
from survival_objectives._models.windows import WindowCurves
from survival_objectives._people import Features, check_choice
from survival_objectives._people.time_axis import TimeAxis
from survival_objectives._training.parameters import COMPLETED, GIVEN, HAZARDS, METHODS
from survival_objectives._version import __version__
from survival_objectives.marginal import StepFunction

#: Increased when older versions cannot, or must not, read what this one writes. Format 1, of
#: version 0.1.0, had no digest; formats 1 and 2 had no mixtures of hazards.
FORMAT = 3

_METADATA = "survival_boost.json"
_STACKED_FILES = ("events", "censoring")
# Seconds in which a separate process must have loaded a model and predicted with it.
_TRIAL_TIME = 600


def save(model: FittedModel, path: Any) -> None:
    """Write ``model`` to the folder ``path``, which must not exist, atomically."""
    path = Path(path)
    if path.exists():
        msg = f"{str(path)!r} exists already. Choose another folder, or remove it first."
        raise FileExistsError(msg)
    used = engine(model.frame.engine)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        draft = Path(folder) / "model"
        draft.mkdir()
        digests = {}
        for name, evaluator in model.evaluators().items():
            file = draft / used.file_name.format(name=name)
            used.save(evaluator.model, str(file))
            digests[name] = _digest(file)
        content = {**_frame_content(model), **model.to_plain(), "files": digests}
        content["digest"] = _content_digest(content)
        (draft / _METADATA).write_text(json.dumps(content, indent=1, allow_nan=False))
        # A rename is atomic: an interrupted save leaves no half-written model.
        draft.rename(path)


def load(
    path: Any,
    checked: Callable[[Mapping[str, Any]], dict[str, Any]],
    *,
    isolated: bool = False,
) -> FittedModel:
    """The model that `save` wrote to ``path``.

    Parameters
    ----------
    path : path
    checked : callable
        Returns all parameters of an estimator from the saved ones, or raises an error.
    isolated : bool, default=False
        Whether a separate process, which may crash, loads the model and predicts first.
    """
    path = Path(path)
    try:
        content = _read(path / _METADATA)
        version = _whole(content["format"], "format", 1)
    except FileNotFoundError:
        msg = f"{str(path)!r} holds no saved model: there is no {_METADATA}."
        raise FileNotFoundError(msg) from None
    except (ValueError, KeyError, TypeError, NotADirectoryError, RecursionError) as error:
        msg = f"{str(path / _METADATA)!r} is not the description of a saved model ({error})."
        raise ValueError(msg) from error
    if version > FORMAT:
        msg = (
            f"{str(path)!r} was written in format {version} by a newer survival-objectives "
            f"({content.get('version')}); this one reads up to format {FORMAT}. Upgrade it."
        )
        raise ValueError(msg)
    try:
        _check_content(content)
        _check_files(path, content)
        parameters = checked(content["parameters"])
        if isolated:
            _try_elsewhere(path)
        return _restore(path, content, parameters)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = f"there is no {error} in {_METADATA}" if isinstance(error, KeyError) else error
        msg = f"{str(path)!r} is damaged: {reason}."
        raise ValueError(msg) from error


# ----------------------------------------------------------------------------------------- reading
def _read(file: Path) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        msg = f"{constant} is not a number"
        raise ValueError(msg)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            msg = "a name occurs twice"
            raise ValueError(msg)
        return found

    content = json.loads(
        file.read_text(encoding="utf-8"), parse_constant=refuse, object_pairs_hook=unique
    )
    if not isinstance(content, dict):
        msg = f"it is a {type(content).__name__}"
        raise TypeError(msg)
    return content


def _content_digest(content: Mapping[str, Any]) -> str:
    """Digest of all content but the digest itself, independent of order and white space."""
    covered = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _check_content(content: dict[str, Any]) -> None:
    """Refuse a description that `save` cannot have written."""
    # A model of format 1 has no digest; in later formats a missing digest is an error.
    if content["format"] > 1 or "digest" in content:
        if content["digest"] != _content_digest(content):
            msg = f"{_METADATA} is not as it was saved"
            raise ValueError(msg)
        if content["median_duration"] is not None:
            _finite(content["median_duration"], "median_duration", 0.0)
    check_choice(content["engine"], "engine", tuple(ENGINES))
    check_choice(content["censoring_method"], "censoring_method", (*METHODS, COMPLETED, GIVEN))
    event_ids = _list(content["event_ids"], "event_ids", lambda value: _whole(value, "a label", 0))
    if event_ids[:1] != [0] or len(event_ids) < 2 or not _is_increasing(event_ids):
        msg = f"event_ids are {event_ids}, not 0 and increasing labels"
        raise ValueError(msg)
    _check_names(content.get("event_names"), len(event_ids))
    n_features = _whole(content["n_features"], "n_features", 1)
    _check_columns(content["names"], content["categories"], n_features)
    for column, offset in content.get("offsets", {}).items():
        if not 0 <= int(column) < n_features:
            msg = f"the column {column} has an offset, but there are {n_features} columns"
            raise ValueError(msg)
        _finite(offset, "an offset", -math.inf)
    t_max = _finite(content["t_max"], "t_max", 0.0, float(np.finfo(np.float32).max))
    if t_max == 0:
        msg = "t_max is 0"
        raise ValueError(msg)
    _finite(content["time_unit"], "time_unit", 0.0, t_max)
    _check_curve(content["censoring_curve"], "censoring_curve", 0.0, 1.0)
    if not _is_increasing([-value for value in content["censoring_curve"]["values"]], ties=True):
        msg = "the values of censoring_curve rise"
        raise ValueError(msg)
    if content["format"] > 1 or "curves" in content:
        _check_knots(content)
    _whole(content["n_floored"], "n_floored", 0)
    if content["format"] > 2:
        _check_record(content)
    if content["censoring_method"] == HAZARDS:
        _check_mixture(content)
    else:
        _check_stacked(content)


def _check_record(content: Mapping[str, Any]) -> None:
    _text(content["censoring_reason"])
    counts = content["n_events"]
    if counts is None:
        return
    _list(counts, "n_events", lambda value: _whole(value, "n_events", 0))
    if len(counts) != len(content["event_ids"]):
        msg = f"n_events are {len(counts)} for {len(content['event_ids'])} states"
        raise ValueError(msg)


def _check_stacked(content: Mapping[str, Any]) -> None:
    n_causes = len(content["event_ids"]) - 1
    start = _list(content["start"], "start", lambda value: _finite(value, "start", -100.0, 100.0))
    if len(start) not in (n_causes, n_causes + 1):
        msg = f"start has {len(start)} numbers for {n_causes} causes"
        raise ValueError(msg)
    _check_curve(content["censoring_start"], "censoring_start", -100.0, 100.0)
    _whole(content["n_estimators"], "n_estimators", 1)


def _check_mixture(content: Mapping[str, Any]) -> None:
    if content["curves"] is None:
        msg = "the curves have no knots"
        raise ValueError(msg)
    _whole(content["n_models"], "n_models", 1)
    for weight in content["weights"].values():
        _finite(weight, "a weight", 0.0, 1.0)
    _list(content["importance"], "importance", lambda value: _finite(value, "importance", 0.0))


def _check_columns(names: Any, categories: Any, n_features: int) -> None:
    if names is not None:
        _list(names, "names", _text)
        if len(names) != n_features or len(set(names)) < n_features:
            msg = f"names are {len(names)}, {len(set(names))} of them different, not {n_features}"
            raise ValueError(msg)
    if not isinstance(categories, dict):
        msg = f"categories are {categories!r}"
        raise TypeError(msg)
    for column, levels in categories.items():
        if column not in map(str, range(n_features)):
            msg = f"categories has the column {column!r} of {n_features}"
            raise ValueError(msg)
        _list(levels, "categories", _level)
        if len(set(levels)) < len(levels):
            msg = f"categories of column {column} has a level twice"
            raise ValueError(msg)


def _check_knots(content: dict[str, Any]) -> None:
    """Refuse prediction times, or knots of the curves, that no trained model can have."""
    _finite(content["last_time"], "last_time", 0.0, content["t_max"])
    curves = content["curves"]
    if curves is None:
        return
    knots = _list(curves["knots"], "knots", lambda value: _finite(value, "a knot", -1.0))
    if len(knots) < 2 or not _is_increasing(knots):
        msg = "the knots of the curves are not increasing"
        raise ValueError(msg)
    for name, highest in (("hazard", 1.0), ("factor", math.inf), ("block", len(knots))):
        rows = _list(curves[name], name, list)
        for value in itertools.chain.from_iterable(rows):
            _finite(value, name, 0.0, highest)
        if [len(row) for row in rows] != [len(knots) - 1] * (len(content["event_ids"]) - 1):
            msg = f"{name} has not one number per cause and interval between knots"
            raise ValueError(msg)
    if any(set(np.diff([0, *row])) - {0, 1} for row in curves["block"]):
        msg = "the blocks of the curves are not numbered one after the other"
        raise ValueError(msg)
    _finite(curves["trained_until"], "trained_until", -1.0)


def _check_names(names: Any, n_states: int) -> None:
    if names is not None and len(_list(names, "event_names", _text)) != n_states:
        msg = f"event_names are {len(names)} for {n_states} states"
        raise ValueError(msg)


def _check_curve(curve: Any, name: str, low: float, high: float) -> None:
    times = _list(curve["times"], name, lambda value: _finite(value, name, 0.0))
    values = _list(curve["values"], name, lambda value: _finite(value, name, low, high))
    _finite(curve["initial"], name, low, high)
    if len(times) != len(values) or not _is_increasing(times):
        msg = f"the times of {name} are not increasing, or not as many as its values"
        raise ValueError(msg)


def _list(values: Any, name: str, check: Callable[[Any], Any]) -> list[Any]:
    if not isinstance(values, list):
        msg = f"{name} is {values!r}, not a list"
        raise TypeError(msg)
    return [check(value) for value in values]


def _whole(value: Any, name: str, low: int) -> int:
    if type(value) is not int or not low <= value <= 2**53:
        msg = f"{name} is {value!r}, not an integer from {low} on"
        raise ValueError(msg)
    return value


def _finite(value: Any, name: str, low: float, high: float = math.inf) -> float:
    is_number = type(value) in (int, float) and math.isfinite(value)
    if not is_number or not low <= value <= high:
        msg = f"{name} is {value!r}, not a number from {low:g} to {high:g}"
        raise ValueError(msg)
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        msg = f"{value!r} is not text"
        raise TypeError(msg)
    return value


def _level(value: Any) -> Any:
    is_plain = isinstance(value, str | bool | int) or (
        isinstance(value, float) and math.isfinite(value)
    )
    if not is_plain:
        msg = f"{value!r} is not a level of a category"
        raise TypeError(msg)
    return value


def _is_increasing(values: list[Any], *, ties: bool = False) -> bool:
    step = np.diff(np.array(values, dtype=np.float64))
    return bool((step >= 0).all() if ties else (step > 0).all())


def _check_files(path: Path, content: dict[str, Any]) -> None:
    """Refuse engine files that differ from the saved ones, before the engine reads them."""
    files = content["files"]
    # File names come from this list, never from the description: none is outside the folder.
    needed, possible = {"events"}, set(_STACKED_FILES)
    if content["censoring_method"] == HAZARDS:
        needed, possible = set(), set(HazardMixture.file_names(content))
    if not isinstance(files, dict) or not needed <= set(files) <= possible:
        msg = f"files are {files!r}, not of {' and '.join(sorted(possible))}"
        raise ValueError(msg)
    for name, digest in files.items():
        file = path / _file_name(content["engine"], name)
        if not file.exists():
            msg = f"the file {file.name} is missing"
            raise ValueError(msg)
        # Engines read some broken files without an error, and crash the process on others.
        if _digest(file) != digest:
            msg = f"the file {file.name} is not the one that was saved"
            raise ValueError(msg)


def _try_elsewhere(path: Path) -> None:
    """Load the model in a separate process and predict with it."""
    found = [folder or os.getcwd() for folder in sys.path]
    try:
        trial = subprocess.run(
            [sys.executable, "-m", "survival_objectives._trial", str(path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(found)},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TRIAL_TIME,
            check=False,
        )
    except subprocess.TimeoutExpired:
        msg = f"a separate process did not load it within {_TRIAL_TIME} seconds"
        raise ValueError(msg) from None
    if trial.returncode == 0:
        return
    if trial.returncode < 0:
        how = f"was ended by {signal.Signals(-trial.returncode).name}"
    else:
        words = trial.stderr.strip().splitlines()
        how = f"failed with: {words[-1]}" if words else f"ended with code {trial.returncode}"
    msg = f"a separate process that loaded it {how}"
    raise ValueError(msg)


def _file_name(engine_name: str, name: str) -> str:
    return engine(engine_name).file_name.format(name=name)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _frame_content(model: FittedModel) -> dict[str, Any]:
    """Description of the frame, the record and the curves of a model of any kind."""
    frame, record, curves = model.frame, model.record, model.curves
    schema = frame.schema
    return {
        "format": FORMAT,
        "version": __version__,
        "engine": frame.engine,
        # Values that JSON cannot hold, such as a sampler function, are replaced by the default.
        "parameters": {
            name: _plain(value) for name, value in frame.parameters.items() if is_plain(value)
        },
        "event_ids": frame.event_ids.tolist(),
        "event_names": frame.event_names,
        "n_events": None if record.n_events is None else record.n_events.tolist(),
        "names": schema.names,
        "n_features": schema.n_features,
        "offsets": {str(column): value for column, value in schema.offsets.items()},
        "categories": {
            str(column): levels.tolist() for column, levels in schema.categories.items()
        },
        "t_max": frame.t_max,
        "last_time": frame.last_time,
        "time_unit": frame.axis.unit,
        "curves": curves.to_plain() if isinstance(curves, KnotCurves) else None,
        "median_duration": frame.median_duration,
        "censoring_method": record.method,
        "censoring_reason": record.reason,
        "censoring_curve": frame.censoring_curve.to_plain(),
        "n_floored": record.n_floored,
    }


def _plain(value: Any) -> Any:
    """The value with numpy scalars, which JSON cannot hold, as Python scalars."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def is_plain(value: Any) -> bool:
    """Whether JSON can hold a value."""
    try:
        json.dumps(_plain(value), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _curves(content: Mapping[str, Any], frame: ModelFrame) -> CurveShape:
    if "curves" not in content:  # Written before curves had knots.
        smoothing = float(frame.parameters["time_smoothing"])
        return WindowCurves(float(content["time_unit"]), frame.t_max, smoothing)
    if content["curves"] is None:
        return StepCurves(frame.axis)
    return KnotCurves.from_plain(frame.axis, content["curves"])


def _evaluator(frame: ModelFrame, file: Path) -> Evaluator:
    used = engine(frame.engine)
    try:
        return used.evaluator(used.load(str(file)), frame.schema, frame.parameters["n_jobs"])
    except Exception as error:
        msg = f"the engine cannot read {file.name} ({error})"
        raise ValueError(msg) from error


def _restore(path: Path, content: dict[str, Any], parameters: dict[str, Any]) -> FittedModel:
    names, event_names = content["names"], content.get("event_names")
    t_max = float(content["t_max"])
    frame = ModelFrame(
        engine=content["engine"],
        schema=Features(
            np.empty((0, content["n_features"]), np.float32),
            None if names is None else tuple(names),
            {int(k): pd.Index(levels) for k, levels in content["categories"].items()},
            offsets={int(k): float(value) for k, value in content.get("offsets", {}).items()},
        ),
        event_ids=np.array(content["event_ids"], dtype=np.int64),
        # In models of format 1 only the windows of the curves use the time unit.
        axis=TimeAxis(float(content["time_unit"]) if "curves" in content else 0.0),
        t_max=t_max,
        last_time=float(content.get("last_time", t_max)),
        median_duration=content.get("median_duration"),
        censoring_curve=StepFunction.from_plain(content["censoring_curve"]),
        parameters=parameters,
        event_names=None if event_names is None else tuple(event_names),
    )
    counts, method = content.get("n_events"), content["censoring_method"]
    record = TrainingRecord(
        method,
        content.get("censoring_reason", "It was saved by a version that did not say why."),
        n_events=None if counts is None else np.array(counts, dtype=np.int64),
        n_floored=content["n_floored"],
    )
    evaluators = {
        name: _evaluator(frame, path / _file_name(frame.engine, name)) for name in content["files"]
    }
    curves = _curves(content, frame)
    if method == HAZARDS:
        assert isinstance(curves, KnotCurves)  # As was checked.
        return HazardMixture.from_plain(frame, record, curves, content, evaluators)
    return StackedModel.from_plain(frame, record, curves, content, evaluators)

"""Saved models: a folder with the engine's own files and JSON, and nothing else.

No pickle, so that loading runs no code of the files, and no outcomes of people: the JSON holds
parameters, columns, labels, a few rounded numbers and coarse curves (docs/howto/serving.md lists
them). A digest covers the JSON, and the JSON has digests of the engine's files, so that damage is
noticed. Digests do not show who wrote a file: model files are trusted input.
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

from survival_objectives._fit.engine import ENGINES, Engine, engine
from survival_objectives._fit.plan import time_grid
from survival_objectives._version import __version__
from survival_objectives.curves import CurveShape, KnotCurves, StepCurves
from survival_objectives.marginal import StepFunction
from survival_objectives.time_axis import TimeAxis
from survival_objectives.validation import Features, check_choice
from survival_objectives.windows import WindowCurves

__all__ = ["FORMAT", "load", "save"]

#: Raised when an older version could not read what this one writes, or must not: it would not
#: check the digest. Format 1, of version 0.1.0, had none.
FORMAT = 2

_METADATA = "survival_boost.json"
_FILES = ("events", "censoring")
# Seconds in which a process of its own must have loaded a model and predicted with it.
_TRIAL_TIME = 600


def save(model: Any, path: Any) -> None:
    """Write ``model`` to the folder ``path``, which must not exist; whole or not at all."""
    path = Path(path)
    if path.exists():
        msg = f"{str(path)!r} exists already. Choose another folder, or remove it first."
        raise FileExistsError(msg)
    adapter = model._adapter()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        draft = Path(folder) / "model"
        draft.mkdir()
        boosters = {"events": model.booster_, "censoring": model._censoring_booster}
        digests = {}
        for name, booster in boosters.items():
            if booster is not None:
                file = draft / adapter.file_name.format(name=name)
                adapter.save(booster, str(file))
                digests[name] = _digest(file)
        content = {**_metadata(model), "files": digests}
        content["digest"] = _content_digest(content)
        (draft / _METADATA).write_text(json.dumps(content, indent=1, allow_nan=False))
        # A rename is atomic: an interrupted save leaves no half-written model.
        draft.rename(path)


def load(cls: Any, path: Any, *, isolated: bool = False) -> Any:
    """The model of class ``cls`` that `save` wrote to ``path``.

    With ``isolated`` another process loads it and predicts first, and may crash.
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
        if isolated:
            _try_elsewhere(path)
        return _restore(cls, path, content)
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
    """Of everything but the digest itself, whatever the order of names and the white space."""
    covered = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _check_content(content: dict[str, Any]) -> None:
    """Refuse a description that `save` cannot have written."""
    # A model of format 1 has no digest; one that was removed from a later model is missed.
    if content["format"] > 1 or "digest" in content:
        if content["digest"] != _content_digest(content):
            msg = f"{_METADATA} is not as it was saved"
            raise ValueError(msg)
        if content["median_duration"] is not None:
            _finite(content["median_duration"], "median_duration", 0.0)
    check_choice(content["engine"], "engine", tuple(ENGINES))
    check_choice(
        content["censoring_method"],
        "censoring_method",
        ("boosted", "kaplan-meier", "imputed", "given"),
    )
    event_ids = _list(content["event_ids"], "event_ids", lambda value: _whole(value, "a label", 0))
    if event_ids[:1] != [0] or len(event_ids) < 2 or not _is_increasing(event_ids):
        msg = f"event_ids are {event_ids}, not 0 and increasing labels"
        raise ValueError(msg)
    n_causes = len(event_ids) - 1
    _check_names(content.get("event_names"), n_causes + 1)
    n_features = _whole(content["n_features"], "n_features", 1)
    _check_columns(content["names"], content["categories"], n_features)
    t_max = _finite(content["t_max"], "t_max", 0.0, float(np.finfo(np.float32).max))
    if t_max == 0:
        msg = "t_max is 0"
        raise ValueError(msg)
    _finite(content["time_unit"], "time_unit", 0.0, t_max)
    start = _list(content["start"], "start", lambda value: _finite(value, "start", -100.0, 100.0))
    if len(start) not in (n_causes, n_causes + 1):
        msg = f"start has {len(start)} numbers for {n_causes} causes"
        raise ValueError(msg)
    _check_curve(content["censoring_curve"], "censoring_curve", 0.0, 1.0)
    if not _is_increasing([-value for value in content["censoring_curve"]["values"]], ties=True):
        msg = "the values of censoring_curve rise"
        raise ValueError(msg)
    _check_curve(content["censoring_start"], "censoring_start", -100.0, 100.0)
    if content["format"] > 1 or "curves" in content:
        _check_knots(content)
    _whole(content["n_estimators"], "n_estimators", 1)
    _whole(content["n_floored"], "n_floored", 0)


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
    """Refuse times of prediction, or knots of the curves, that are not those of a trained model."""
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
        msg = f"{name} is {value!r}, not a whole number from {low} on"
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
    """Refuse engine files that are not those that were saved, before the engine reads them."""
    files = content["files"]
    # Names of files come from this list, never from the description: none is outside the folder.
    if not isinstance(files, dict) or not {"events"} <= set(files) <= set(_FILES):
        msg = f"files are {files!r}, not of {' and '.join(_FILES)}"
        raise ValueError(msg)
    for name, digest in files.items():
        file = path / _file_name(content["engine"], name)
        if not file.exists():
            msg = f"the file {file.name} is missing"
            raise ValueError(msg)
        # The engines read on in some broken files, and go down with the process in others.
        if _digest(file) != digest:
            msg = f"the file {file.name} is not the one that was saved"
            raise ValueError(msg)


def _try_elsewhere(path: Path) -> None:
    """Load the model in a process of its own and predict with it."""
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
        msg = f"a process of its own did not load it within {_TRIAL_TIME} seconds"
        raise ValueError(msg) from None
    if trial.returncode == 0:
        return
    if trial.returncode < 0:
        how = f"was ended by {signal.Signals(-trial.returncode).name}"
    else:
        words = trial.stderr.strip().splitlines()
        how = f"failed with: {words[-1]}" if words else f"ended with code {trial.returncode}"
    msg = f"a process of its own that loaded it {how}"
    raise ValueError(msg)


def _file_name(engine_name: str, name: str) -> str:
    return engine(engine_name).file_name.format(name=name)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _metadata(model: Any) -> dict[str, Any]:
    schema = model._schema
    return {
        "format": FORMAT,
        "version": __version__,
        "engine": model.engine_,
        # A sampler function or a random generator has done its work; the default replaces it.
        "parameters": {
            name: _plain(value)
            for name, value in {
                **model._fitted.parameters,
                # They concern a next training only.
                "verbose": model.verbose,
                "warm_start": model.warm_start,
            }.items()
            if _is_plain(value)
        },
        "event_ids": model.event_ids_.tolist(),
        "event_names": getattr(model, "_event_names", None),
        "names": schema.names,
        "n_features": schema.n_features,
        "categories": {
            str(column): _levels(levels, column, schema)
            for column, levels in schema.categories.items()
        },
        "t_max": model._t_max,
        "last_time": float(model.times_[-1]),
        "time_unit": model._axis.unit,
        "curves": _shape_content(model._shape),
        "median_duration": model._median_duration,
        "start": model._start.tolist(),
        "censoring_method": model.censoring_method_,
        "censoring_curve": _curve_content(model._censoring_curve),
        "censoring_start": _curve_content(model._censoring_start),
        "n_estimators": model.n_estimators_,
        "n_floored": model.n_floored_,
    }


def _plain(value: Any) -> Any:
    """The value with numpy scalars, which JSON does not know, as Python's."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(_plain(value), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _levels(levels: pd.Index, column: int, schema: Features) -> list[Any]:
    if not _is_plain(levels.tolist()):
        label = column if schema.names is None else repr(schema.names[column])
        msg = (
            f"Column {label} has categories such as {levels[0]!r}, which JSON cannot hold. "
            "Train on strings or numbers instead, e.g. `X[column].astype(str).astype('category')`."
        )
        raise TypeError(msg)
    return levels.tolist()


def _curve_content(curve: StepFunction) -> dict[str, Any]:
    return {
        "times": curve.times.tolist(),
        "values": curve.values.tolist(),
        "initial": float(curve.initial),
    }


def _curve(content: dict[str, Any]) -> StepFunction:
    return StepFunction(
        np.array(content["times"]), np.array(content["values"]), np.array(content["initial"])
    )


def _shape_content(shape: CurveShape) -> dict[str, Any] | None:
    if not isinstance(shape, KnotCurves):
        return None
    return {
        "knots": shape.knots.tolist(),
        "hazard": shape.hazard.tolist(),
        "block": shape.block.tolist(),
        "factor": shape.factor.tolist(),
        "trained_until": shape.trained_until,
    }


def _shape(content: dict[str, Any], model: Any) -> CurveShape:
    if "curves" not in content:  # Written before curves had knots.
        unit, smoothing = float(content["time_unit"]), float(model.time_smoothing)
        return WindowCurves(unit, float(content["t_max"]), smoothing)
    axis = model._axis
    curves = content["curves"]
    if curves is None:
        return StepCurves(axis)
    knots, hazard, factor = (
        np.array(curves[name], dtype=np.float64) for name in ("knots", "hazard", "factor")
    )
    block = np.array(curves["block"], dtype=np.int64)
    return KnotCurves(axis, knots, hazard, block, factor, float(curves["trained_until"]))


def _booster(adapter: Engine, file: Path) -> Any:
    try:
        return adapter.load(str(file))
    except Exception as error:
        msg = f"the engine cannot read {file.name} ({error})"
        raise ValueError(msg) from error


def _restore(cls: Any, path: Path, content: dict[str, Any]) -> Any:
    model = cls(**content["parameters"])
    model._check_parameters()
    model.engine_ = content["engine"]
    adapter = model._adapter()
    names = content["names"]
    model._schema = Features(
        np.empty((0, content["n_features"]), np.float32),
        None if names is None else tuple(names),
        {int(k): pd.Index(levels) for k, levels in content["categories"].items()},
    )
    model.event_ids_ = np.array(content["event_ids"], dtype=np.int64)
    event_names = content.get("event_names")  # Earlier versions saved none.
    model._event_names = None if event_names is None else tuple(event_names)
    model.n_features_in_ = content["n_features"]
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    model._t_max = content["t_max"]
    # Models of format 1 have their unit in the windows of their curves, and only there.
    model._axis = TimeAxis(float(content["time_unit"]) if "curves" in content else 0.0)
    model._shape = _shape(content, model)
    model.times_ = time_grid(content.get("last_time", model._t_max))
    model._median_duration = content.get("median_duration")
    model._start = np.array(content["start"], dtype=np.float64)
    model.censoring_method_ = content["censoring_method"]
    model._censoring_curve = _curve(content["censoring_curve"])
    model._censoring_start = _curve(content["censoring_start"])
    model.n_estimators_ = content["n_estimators"]
    model.n_floored_ = content["n_floored"]
    model.history_, model.refreshed_rounds_ = [], []
    boosters = {
        name: _booster(adapter, path / _file_name(model.engine_, name)) for name in content["files"]
    }
    model.booster_, model._censoring_booster = boosters["events"], boosters.get("censoring")
    model._remember_settings()
    model._restore_models()
    if model._events.n_rounds != model.n_estimators_:
        msg = (
            f"n_estimators is {model.n_estimators_}, but there are {model._events.n_rounds} rounds"
        )
        raise ValueError(msg)
    return model

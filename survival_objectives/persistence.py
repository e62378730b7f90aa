"""Saved models: a folder with the engine's own file and JSON, and nothing else.

No pickle, so that loading runs no code, and no outcomes of people: the JSON holds parameters,
columns, labels and two marginal numbers or coarse curves.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._version import __version__
from survival_objectives.marginal import StepFunction
from survival_objectives.validation import Features

__all__ = ["FORMAT", "load", "save"]

#: Raised when an older version could not read what this one writes.
FORMAT = 1

_METADATA = "survival_boost.json"


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
        adapter.Booster.save(model.booster_, str(draft / adapter.FILE_NAME.format(name="events")))
        if model._censoring_booster is not None:
            name = adapter.FILE_NAME.format(name="censoring")
            adapter.Booster.save(model._censoring_booster, str(draft / name))
        (draft / _METADATA).write_text(json.dumps(_metadata(model), indent=1))
        # A rename is atomic: an interrupted save leaves no half-written model.
        shutil.move(draft, path)


def load(cls: Any, path: Any) -> Any:
    """The model of class ``cls`` that `save` wrote to ``path``."""
    path = Path(path)
    try:
        content = json.loads((path / _METADATA).read_text())
        version = int(content["format"])
    except FileNotFoundError:
        msg = f"{str(path)!r} holds no saved model: there is no {_METADATA}."
        raise FileNotFoundError(msg) from None
    except (ValueError, KeyError, TypeError, NotADirectoryError, UnicodeDecodeError) as error:
        msg = f"{str(path / _METADATA)!r} is not the description of a saved model ({error})."
        raise ValueError(msg) from error
    if version > FORMAT:
        msg = (
            f"{str(path)!r} was written in format {version} by a newer survival-objectives "
            f"({content.get('version')}); this one reads up to format {FORMAT}. Upgrade it."
        )
        raise ValueError(msg)
    try:
        return _restore(cls, path, content)
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{str(path)!r} is damaged: {error}."
        raise ValueError(msg) from error


def _metadata(model: Any) -> dict[str, Any]:
    parameters = model.get_params()
    for name, value in parameters.items():
        if not _is_plain(value):
            # A sampler function or a random generator has done its work.
            parameters[name] = None if name == "random_state" else "mixture"
    schema = model._schema
    return {
        "format": FORMAT,
        "version": __version__,
        "engine": model.engine_,
        "parameters": parameters,
        "event_ids": model.event_ids_.tolist(),
        "names": schema.names,
        "n_features": schema.n_features,
        "categories": {str(k): v.tolist() for k, v in schema.categories.items()},
        "t_max": model._t_max,
        "start": model._start.tolist(),
        "censoring_curve": _curve_content(model._censoring_curve),
        "censoring_start": _curve_content(model._censoring_start),
        "n_estimators": model.n_estimators_,
    }


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


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


def _restore(cls: Any, path: Path, content: dict[str, Any]) -> Any:
    model = cls(**content["parameters"])
    model.engine_ = content["engine"]
    adapter = model._adapter()
    names = content["names"]
    model._schema = Features(
        np.empty((0, content["n_features"]), np.float32),
        None if names is None else tuple(names),
        {int(k): pd.Index(levels) for k, levels in content["categories"].items()},
    )
    model.event_ids_ = np.array(content["event_ids"], dtype=np.int64)
    model.n_features_in_ = content["n_features"]
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    model._t_max = content["t_max"]
    model.times_ = cls._time_grid(model._t_max)
    model._start = np.array(content["start"])
    model._censoring_curve = _curve(content["censoring_curve"])
    model._censoring_start = _curve(content["censoring_start"])
    model.n_estimators_ = content["n_estimators"]
    model.history_, model.refreshed_rounds_ = [], []
    events = path / adapter.FILE_NAME.format(name="events")
    if not events.exists():
        msg = f"the file {events.name} is missing"
        raise ValueError(msg)
    try:
        model.booster_ = adapter.Booster.load(str(events))
        censoring = path / adapter.FILE_NAME.format(name="censoring")
        model._censoring_booster = (
            adapter.Booster.load(str(censoring)) if censoring.exists() else None
        )
    except Exception as error:  # Every engine has an error of its own for a broken file.
        msg = f"{content['engine']} cannot read {events.name} ({str(error).splitlines()[0]})"
        raise ValueError(msg) from error
    settings = model._tree_settings(len(model.event_ids_) - 1, 0)
    model._events = adapter.Booster(settings, model.booster_)
    model._read_forest = None
    model._set_censoring(adapter)
    return model

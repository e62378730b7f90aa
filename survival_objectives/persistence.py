"""Saved models: a folder with the engine's own file and JSON, and nothing else.

No pickle, so that loading runs no code, and no outcomes of people: the JSON holds parameters,
columns, labels and two marginal numbers or coarse curves.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._version import __version__
from survival_objectives.marginal import StepFunction
from survival_objectives.validation import Features, check_choice

__all__ = ["ENGINES", "FORMAT", "load", "save"]

#: In the order in which a missing engine is replaced.
ENGINES = ("xgboost", "lightgbm", "catboost")


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
        boosters = {"events": model.booster_, "censoring": model._censoring_booster}
        digests = {}
        for name, booster in boosters.items():
            if booster is not None:
                file = draft / adapter.FILE_NAME.format(name=name)
                adapter.Booster.save(booster, str(file))
                digests[name] = _digest(file)
        content = {**_metadata(model), "files": digests}
        (draft / _METADATA).write_text(json.dumps(content, indent=1))
        # A rename is atomic: an interrupted save leaves no half-written model.
        draft.rename(path)


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
            name: _plain(value) for name, value in model.get_params().items() if _is_plain(value)
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
        "time_unit": model._time_unit,
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
        json.dumps(_plain(value))
    except TypeError:
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


def _booster(adapter: Any, file: Path, digest: str) -> Any:
    if not file.exists():
        msg = f"the file {file.name} is missing"
        raise ValueError(msg)
    # The engines read on in some broken files, and go down with the process in others.
    if _digest(file) != digest:
        msg = f"the file {file.name} is not the one that was saved"
        raise ValueError(msg)
    return adapter.Booster.load(str(file))


def _restore(cls: Any, path: Path, content: dict[str, Any]) -> Any:
    model = cls(**content["parameters"])
    model.engine_ = check_choice(content["engine"], "engine", ENGINES)
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
    model._time_unit = content["time_unit"]
    model.times_ = cls._time_grid(model._t_max)
    model._start = np.array(content["start"], dtype=np.float64)
    model.censoring_method_ = content["censoring_method"]
    model._censoring_curve = _curve(content["censoring_curve"])
    model._censoring_start = _curve(content["censoring_start"])
    model.n_estimators_ = content["n_estimators"]
    model.n_floored_ = content["n_floored"]
    model.history_, model.refreshed_rounds_ = [], []
    boosters = {
        name: _booster(adapter, path / adapter.FILE_NAME.format(name=name), digest)
        for name, digest in content["files"].items()
    }
    model.booster_, model._censoring_booster = boosters["events"], boosters.get("censoring")
    settings = model._tree_settings(len(model.event_ids_) - 1, 0)
    model._set_events(adapter.Booster(settings, model.booster_))
    model._set_censoring(adapter)
    return model

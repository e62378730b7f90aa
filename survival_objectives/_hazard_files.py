"""Saved mixtures of hazards: a folder with the engine's own files and JSON, and nothing else."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._fit.engine import ENGINES
from survival_objectives._hazard_models import (
    LINEAR,
    ON_LINEAR,
    TREES,
    HazardModel,
    HazardTrees,
    Member,
    Mixture,
)
from survival_objectives._version import __version__
from survival_objectives.hazards_linear import MISSING, LinearDesign
from survival_objectives.persistence import (
    _booster,
    _check_columns,
    _check_curve,
    _check_knots,
    _check_names,
    _content_digest,
    _curve,
    _curve_content,
    _digest,
    _file_name,
    _finite,
    _is_increasing,
    _is_plain,
    _levels,
    _list,
    _plain,
    _read,
    _shape,
    _shape_content,
    _whole,
)
from survival_objectives.time_axis import TimeAxis
from survival_objectives.validation import Features, check_choice

__all__ = ["FORMAT", "load", "save"]

FloatArray = npt.NDArray[np.float64]

#: Raised when an older version could not read what this one writes.
FORMAT = 1

_METADATA = "hazard_boost.json"
_NAMES = {LINEAR: "linear", TREES: "trees", ON_LINEAR: "on_linear"}


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
        digests = {}
        for name, hazard in _named_models(model._mixture).items():
            if hazard.model is not None:
                file = draft / adapter.file_name.format(name=name)
                adapter.save(hazard.model, str(file))
                digests[name] = _digest(file)
        content = {**_metadata(model), "files": digests}
        content["digest"] = _content_digest(content)
        (draft / _METADATA).write_text(json.dumps(content, indent=1, allow_nan=False))
        # A rename is atomic: an interrupted save leaves no half-written model.
        draft.rename(path)


def load(cls: Any, path: Any) -> Any:
    """The model of class ``cls`` that `save` wrote to ``path``."""
    path = Path(path)
    try:
        content = _read(path / _METADATA)
        version = _whole(content["format"], "format", 1)
    except FileNotFoundError:
        msg = f"{str(path)!r} holds no saved HazardBoost: there is no {_METADATA}."
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
        _check(content)
        _check_files(path, content)
        return _restore(cls, path, content)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = f"there is no {error} in {_METADATA}" if isinstance(error, KeyError) else error
        msg = f"{str(path)!r} is damaged: {reason}."
        raise ValueError(msg) from error


# ----------------------------------------------------------------------------------------- writing
def _named_models(mixture: Mixture) -> dict[str, HazardModel]:
    """All models of the mixture, by the names of their files."""
    named = {}
    for kind, member in mixture.members.items():
        named[f"{_NAMES[kind]}_all"] = member.refit
        for fold, model in enumerate(member.folds):
            named[f"{_NAMES[kind]}_{fold}"] = model
    return named


def _metadata(model: Any) -> dict[str, Any]:
    schema, mixture = model._schema, model._mixture
    return {
        "format": FORMAT,
        "version": __version__,
        "engine": model.engine_,
        # A random generator has done its work; the default replaces it.
        "parameters": {
            name: _plain(value)
            for name, value in model._fitted_parameters.items()
            if _is_plain(value)
        },
        "event_ids": model.event_ids_.tolist(),
        "event_names": model._event_names,
        "n_events": model.n_events_.tolist(),
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
        "censoring_curve": _curve_content(model._censoring_curve),
        "design": _design_content(mixture.design),
        "weights": {_NAMES[kind]: member.weight for kind, member in mixture.members.items()},
        "n_folds": len(next(iter(mixture.members.values())).folds),
        "models": {
            name: {
                "level": hazard.level.tolist(),
                "coefficients": None
                if hazard.coefficients is None
                else hazard.coefficients.tolist(),
            }
            for name, hazard in _named_models(mixture).items()
        },
    }


def _design_content(design: LinearDesign | None) -> dict[str, Any] | None:
    if design is None:
        return None
    return {
        "feature": list(design.feature),
        "kind": list(design.kind),
        "mean": design.mean.tolist(),
        "scale": design.scale.tolist(),
    }


# ----------------------------------------------------------------------------------------- reading
def _check(content: dict[str, Any]) -> None:
    """Refuse a description that `save` cannot have written."""
    if content["digest"] != _content_digest(content):
        msg = f"{_METADATA} is not as it was saved"
        raise ValueError(msg)
    check_choice(content["engine"], "engine", tuple(ENGINES))
    event_ids = _list(content["event_ids"], "event_ids", lambda value: _whole(value, "a label", 0))
    if event_ids[:1] != [0] or len(event_ids) < 2 or not _is_increasing(event_ids):
        msg = f"event_ids are {event_ids}, not 0 and increasing labels"
        raise ValueError(msg)
    _check_names(content["event_names"], len(event_ids))
    _list(content["n_events"], "n_events", lambda value: _whole(value, "n_events", 0))
    n_features = _whole(content["n_features"], "n_features", 1)
    _check_columns(content["names"], content["categories"], n_features)
    t_max = _finite(content["t_max"], "t_max", 0.0, float(np.finfo(np.float32).max))
    _finite(content["time_unit"], "time_unit", 0.0, t_max)
    if content["curves"] is None:
        msg = "the curves have no knots"
        raise ValueError(msg)
    _check_knots(content)
    _check_curve(content["censoring_curve"], "censoring_curve", 0.0, 1.0)
    weights = content["weights"]
    if not weights or not set(weights) <= set(_NAMES.values()):
        msg = f"weights are those of {list(weights)}"
        raise ValueError(msg)
    for weight in weights.values():
        _finite(weight, "a weight", 0.0, 1.0)
    _whole(content["n_folds"], "n_folds", 0)


def _check_files(path: Path, content: dict[str, Any]) -> None:
    """Refuse engine files that are not those that were saved, before the engine reads them."""
    # Names of files come from this list, never from the description: none is outside the folder.
    if not set(content["files"]) <= set(_file_keys(content)):
        msg = f"files are {list(content['files'])}"
        raise ValueError(msg)
    for name, digest in content["files"].items():
        file = path / _file_name(content["engine"], name)
        if not file.exists():
            msg = f"the file {file.name} is missing"
            raise ValueError(msg)
        if _digest(file) != digest:
            msg = f"the file {file.name} is not the one that was saved"
            raise ValueError(msg)


def _file_keys(content: dict[str, Any]) -> list[str]:
    numbers = ["all", *map(str, range(content["n_folds"]))]
    return [f"{name}_{number}" for name in content["weights"] for number in numbers]


def _restore(cls: Any, path: Path, content: dict[str, Any]) -> Any:
    model = cls(**content["parameters"])
    model._check_parameters()
    model._fitted_parameters = model.get_params(deep=False)
    model.engine_ = content["engine"]
    model.censoring_method_ = "hazards"
    names = content["names"]
    model._schema = Features(
        np.empty((0, content["n_features"]), np.float32),
        None if names is None else tuple(names),
        {int(k): pd.Index(levels) for k, levels in content["categories"].items()},
    )
    model.event_ids_ = np.array(content["event_ids"], dtype=np.int64)
    model.n_events_ = np.array(content["n_events"], dtype=np.int64)
    event_names = content["event_names"]
    model._event_names = None if event_names is None else tuple(event_names)
    model.n_features_in_ = content["n_features"]
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    model._t_max = content["t_max"]
    model._axis = TimeAxis(float(content["time_unit"]))
    model._shape = _shape(content, model)
    model._censoring_curve = _curve(content["censoring_curve"])
    model.times_ = cls._time_grid(content["last_time"])
    model._set_mixture(_mixture(model, path, content))
    return model


def _mixture(model: Any, path: Path, content: dict[str, Any]) -> Mixture:
    adapter, new_booster = model._adapter(), model._booster_maker(0)
    n_causes, n_intervals = len(model.event_ids_) - 1, len(model._shape.knots) - 1
    design = _design(content["design"], content["n_features"])

    def hazard_model(name: str) -> HazardModel:
        stored = content["models"][name]
        level = _array(stored["level"], "level", (n_causes, n_intervals))
        coefficients = None
        if stored["coefficients"] is not None and design is not None:
            shape = n_causes, design.n_columns
            coefficients = _array(stored["coefficients"], "coefficients", shape)
        if name not in content["files"]:
            return HazardModel(level, coefficients, None, None)
        engine_model = _booster(adapter, path / _file_name(model.engine_, name))
        trees = HazardTrees(new_booster(engine_model))
        return HazardModel(level, coefficients, trees, engine_model)

    members = {}
    for kind, name in _NAMES.items():
        if name in content["weights"]:
            folds = tuple(hazard_model(f"{name}_{fold}") for fold in range(content["n_folds"]))
            refit = hazard_model(f"{name}_all")
            members[kind] = Member(float(content["weights"][name]), folds, refit)
    return Mixture(members, design)


def _design(content: dict[str, Any] | None, n_features: int) -> LinearDesign | None:
    if content is None:
        return None
    feature = _list(content["feature"], "feature", lambda value: _whole(value, "feature", 0))
    kind = _list(content["kind"], "kind", lambda value: _whole(value, "kind", MISSING))
    if len(kind) != len(feature) or any(column >= n_features for column in feature):
        msg = f"the linear part has columns of features {feature} of {n_features}"
        raise ValueError(msg)
    shape = (len(feature),)
    scale = _array(content["scale"], "scale", shape)
    if (scale <= 0).any():
        msg = "a scale of the linear part is not positive"
        raise ValueError(msg)
    return LinearDesign(tuple(feature), tuple(kind), _array(content["mean"], "mean", shape), scale)


def _array(values: Any, name: str, shape: tuple[int, ...]) -> FloatArray:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        msg = f"{name} has the shape {array.shape} or values that are not finite, not {shape}"
        raise ValueError(msg)
    return array

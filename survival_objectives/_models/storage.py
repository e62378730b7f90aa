"""Saved models: a folder with the engine's own files and JSON, and nothing else.

There are no outcomes of people: the JSON holds parameters, columns, labels, a few rounded numbers
and coarse curves (docs/howto/serving.md lists them). It names the subject of the model, hazards or
horizons, which reads the rest. Model files are trusted input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._engines.protocol import Evaluator, engine
from survival_objectives._models.curves import KnotCurves, StepCurves
from survival_objectives._models.fitted import FittedModel, TrainingRecord
from survival_objectives._models.frame import ModelFrame
from survival_objectives._models.recalibration import Recalibration
from survival_objectives._people import Features
from survival_objectives._people.population import TimeAxis
from survival_objectives._process.files import plain_entries, read_folder, write_folder
from survival_objectives._version import __version__
from survival_objectives.marginal import StepFunction

#: Increased when older versions cannot, or must not, read what this one writes.
FORMAT = 1
#: Name of the JSON file.
METADATA = "model.json"


def save(model: FittedModel, path: Any) -> None:
    """Write ``model`` to the folder ``path``, which must not exist, atomically."""
    used = engine(model.frame.engine)
    files = {
        used.file_name.format(name=name): partial(used.save, evaluator.model)
        for name, evaluator in model.evaluators().items()
    }
    content = {**_frame_content(model), **model.to_plain()}
    write_folder(Path(path), METADATA, content, files)


def load(path: Any, kinds: Sequence[type[FittedModel]]) -> FittedModel:
    """The model that `save` wrote to ``path``, which is of one of these kinds."""
    path = Path(path)
    content = read_folder(path, METADATA, "saved model", FORMAT)
    try:
        frame = _frame(content)
        evaluators = {Path(name).stem: _evaluator(frame, path / name) for name in content["files"]}
        axis, curves = frame.axis, content["curves"]
        shape = StepCurves(axis) if curves is None else KnotCurves.from_plain(axis, curves)
        kind = {kind.subject: kind for kind in kinds}[content["subject"]]
        return kind.from_plain(frame, _record(content), shape, content, evaluators)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"there is no {error} in {METADATA}" if isinstance(error, KeyError) else error
        msg = f"{str(path)!r} is damaged: {reason}."
        raise ValueError(msg) from error


def _frame_content(model: FittedModel) -> dict[str, Any]:
    """Description of the frame, the record and the curves of a model of any kind."""
    frame, record, curves = model.frame, model.record, model.curves
    schema, parameters = frame.schema, frame.parameters
    return {
        "format": FORMAT,
        "version": __version__,
        "subject": model.subject,
        "engine": frame.engine,
        "n_jobs": frame.n_jobs,
        # Values that JSON cannot hold, such as a sampler function, are replaced by the default.
        "parameters": None if parameters is None else plain_entries(parameters),
        "event_ids": frame.event_ids.tolist(),
        "event_names": frame.event_names,
        "outcome_columns": frame.outcome_columns,
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
        "floor": record.floor,
        "censoring_curve": frame.censoring_curve.to_plain(),
        "n_floored": record.n_floored,
        "n_folds": record.n_folds,
        "recalibration": frame.recalibration and frame.recalibration.to_plain(),
    }


def _frame(content: Mapping[str, Any]) -> ModelFrame:
    names, event_names = content["names"], content["event_names"]
    found = content["recalibration"]
    return ModelFrame(
        engine=content["engine"],
        schema=Features(
            np.empty((0, content["n_features"]), np.float32),
            None if names is None else tuple(names),
            {int(k): pd.Index(levels) for k, levels in content["categories"].items()},
            offsets={int(k): float(value) for k, value in content["offsets"].items()},
        ),
        event_ids=np.array(content["event_ids"], dtype=np.int64),
        axis=TimeAxis(float(content["time_unit"])),
        t_max=float(content["t_max"]),
        last_time=float(content["last_time"]),
        median_duration=content["median_duration"],
        censoring_curve=StepFunction.from_plain(content["censoring_curve"]),
        n_jobs=content["n_jobs"],
        parameters=content["parameters"],
        event_names=None if event_names is None else tuple(event_names),
        outcome_columns=tuple(content["outcome_columns"]),
        recalibration=found and Recalibration.from_plain(found),
    )


def _record(content: Mapping[str, Any]) -> TrainingRecord:
    counts = content["n_events"]
    return TrainingRecord(
        content["censoring_method"],
        n_events=None if counts is None else np.array(counts, dtype=np.int64),
        n_floored=content["n_floored"],
        floor=content["floor"],
        n_folds=content["n_folds"],
    )


def _evaluator(frame: ModelFrame, file: Path) -> Evaluator:
    used = engine(frame.engine)
    try:
        return used.evaluator(used.load(str(file)), frame.schema, frame.n_jobs)
    except Exception as error:
        msg = f"the engine cannot read {file.name} ({error})"
        raise ValueError(msg) from error

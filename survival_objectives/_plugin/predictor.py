"""Prediction with a model that the plugin trained, without the people it was trained on.

An objective holds its training data. `IncidencePredictor`, which its method ``predictor`` returns,
holds the engine's model and what turns margins into calibrated curves: columns, labels, knots of
time that are rounded to three digits, and a few numbers per knot. It can be saved to a folder with
the engine's own file and JSON, and loaded where only the engine and this package are installed.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._models.curves import KnotCurves
from survival_objectives._people import Features
from survival_objectives._people.time_axis import TimeAxis
from survival_objectives._plugin.reader import CalibratedCurves
from survival_objectives._version import __version__

__all__ = ["IncidencePredictor"]

_FORMAT = 1
_METADATA = "predictor.json"


class IncidencePredictor(ABC):
    """Curves of a model that one engine trained.

    Made by the method ``predictor`` of an objective, or by `load`. The public face of this class
    are its engine-specific children, ``Predictor`` of each adapter.

    Parameters
    ----------
    model
        The engine's trained model.
    curves : CalibratedCurves
        What turns its margins into curves.
    event_ids : int array of shape (K + 1,)
        Labels of the curves.

    Attributes
    ----------
    model
        The engine's trained model.
    event_ids_ : array of shape (K + 1,)
        Labels of the curves: 0 for event-free, then the causes.
    """

    #: Name of the engine, and of the file that holds its model.
    _engine_name: ClassVar[str]
    _file_name: ClassVar[str]

    def __init__(self, model: Any, curves: CalibratedCurves, event_ids: IntArray) -> None:
        self.model = model
        self.event_ids_ = event_ids
        self._curves = curves

    # ------------------------------------------------------------------------- what an engine knows
    @abstractmethod
    def _raw_margin(self, matrix: Float32Array) -> npt.ArrayLike:
        """Sum of the trees on rows of features and time, (n_rows, n_margins)."""

    @staticmethod
    @abstractmethod
    def _read_model(file: str) -> Any:
        """The engine's model of a file."""

    # ---------------------------------------------------------------------------------- prediction
    def predict_cumulative_incidence(self, X: Any, times: Any) -> FloatArray:
        """Probability of each state at each time.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            People, with the columns of training.
        times : array of shape (n_times,)
            Times >= 0, in any order.

        Returns
        -------
        float64 array of shape (n_samples, K + 1, n_times)
            Index 0 is the probability of being event-free, index k the incidence of
            ``event_ids_[k]``; they sum to 1.
        """
        return self._curves.cumulative_incidence(self._raw_margin, X, times)

    def predict_survival_function(self, X: Any, times: Any) -> FloatArray:
        """Probability of being event-free, (n_samples, n_times); as the incidences' index 0."""
        return self.predict_cumulative_incidence(X, times)[:, 0]

    # --------------------------------------------------------------------------------------- files
    def save(self, path: Any) -> None:
        """Write the engine's own file and JSON to a new folder: no outcomes, no pickle."""
        path = Path(path)
        if path.exists():
            msg = f"{str(path)!r} exists already. Choose another folder, or remove it first."
            raise FileExistsError(msg)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
            draft = Path(folder) / "predictor"
            draft.mkdir()
            self.model.save_model(str(draft / self._file_name))
            content = {
                "format": _FORMAT,
                "version": __version__,
                "engine": self._engine_name,
                "event_ids": self.event_ids_.tolist(),
                **_plain_curves(self._curves),
                "model_digest": _file_digest(draft / self._file_name),
            }
            content["digest"] = _digest(content)
            (draft / _METADATA).write_text(json.dumps(content, indent=1, allow_nan=False))
            # A rename is atomic: an interrupted save leaves no half-written predictor.
            draft.rename(path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """The predictor that `save` wrote to a folder.

        Load only what you trust: loading runs no Python code of the files, and digests show damage,
        but they do not prove who wrote a file.
        """
        path = Path(path)
        try:
            content = json.loads((path / _METADATA).read_text(encoding="utf-8"))
        except FileNotFoundError:
            msg = f"{str(path)!r} holds no saved predictor: there is no {_METADATA}."
            raise FileNotFoundError(msg) from None
        except ValueError as error:
            msg = f"{str(path / _METADATA)!r} is not the description of a predictor ({error})."
            raise ValueError(msg) from error
        if not isinstance(content, dict) or content.get("digest") != _digest(content):
            msg = f"{str(path)!r} is damaged: {_METADATA} is not as it was saved."
            raise ValueError(msg)
        if content["format"] > _FORMAT:
            msg = (
                f"{str(path)!r} was written by a newer survival-objectives ({content['version']}). "
                "Upgrade this one."
            )
            raise ValueError(msg)
        if content["engine"] != cls._engine_name:
            msg = (
                f"{str(path)!r} holds a model of {content['engine']}. Load it with "
                f"`survival_objectives.adapters.{content['engine']}.Predictor.load`."
            )
            raise ValueError(msg)
        file = path / cls._file_name
        # Engines accept some broken files, and crash the process on others.
        if not file.exists() or _file_digest(file) != content["model_digest"]:
            msg = f"{str(path)!r} is damaged: {file.name} is missing or not the one that was saved."
            raise ValueError(msg)
        event_ids = np.array(content["event_ids"], dtype=np.int64)
        return cls(cls._read_model(str(file)), _curves_of(content), event_ids)


def _plain_curves(curves: CalibratedCurves) -> dict[str, Any]:
    schema, shape = curves.schema, curves.shape
    return {
        "n_features": schema.n_features,
        "names": None if schema.names is None else list(schema.names),
        "categories": {
            str(column): levels.tolist() for column, levels in schema.categories.items()
        },
        "reference": curves.reference,
        "monotone": curves.monotone,
        "start": curves.start.tolist(),
        "time_unit": shape.axis.unit,
        **shape.to_plain(),
        # The knot that training reached: the latest horizon itself may be a person's own time.
        "trained_until": float(shape.knots[shape.knots <= shape.trained_until].max(initial=-1.0)),
    }


def _curves_of(content: dict[str, Any]) -> CalibratedCurves:
    names = content["names"]
    schema = Features(
        np.empty((0, content["n_features"]), np.float32),
        None if names is None else tuple(names),
        {int(column): pd.Index(levels) for column, levels in content["categories"].items()},
    )
    shape = KnotCurves.from_plain(TimeAxis(float(content["time_unit"])), content)
    n_margins = len(content["event_ids"]) - bool(content["reference"])
    start = np.array(content["start"], dtype=np.float64).reshape(-1, n_margins)
    return CalibratedCurves(
        schema, bool(content["reference"]), bool(content["monotone"]), start, shape
    )


def _digest(content: dict[str, Any]) -> str:
    """Digest of everything but the digest itself."""
    covered = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _file_digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()

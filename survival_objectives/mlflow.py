"""Models in MLflow, saved by their own ``save`` and loaded as a ``pyfunc`` or as an estimator.

MLflow's scikit-learn flavour writes pickles, or with skops types that must be declared as trusted.
Here MLflow stores the folder that `HazardBoost.save` writes, and this module is the loader that
MLflow calls.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray
from survival_objectives._version import __version__
from survival_objectives.estimators import load

__all__ = ["load_model", "log_model", "save_model"]

_LOADER = "survival_objectives.mlflow"
_FOLDER = "model"


def save_model(model: Any, path: Any, **options: Any) -> None:
    """Write a fitted model to a folder as an MLflow model.

    Parameters
    ----------
    model : HazardBoost or SurvivalBoost
        Fitted.
    path : path
        The folder, which must not exist or be empty.
    **options
        Options of ``mlflow.pyfunc.save_model``, such as ``metadata``. ``signature``,
        ``pip_requirements`` and ``input_example`` (a made-up person) are derived from the model
        unless given.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = _arguments(model, Path(folder), options)
        _mlflow().pyfunc.save_model(path=str(path), **arguments)


def log_model(model: Any, name: str = "model", **options: Any) -> Any:
    """Log a fitted model in the current MLflow run, and return its ModelInfo.

    Parameters
    ----------
    model : HazardBoost or SurvivalBoost
        Fitted.
    name : str, default="model"
        Its name in the run.
    **options
        Options of ``mlflow.pyfunc.log_model``, such as ``registered_model_name``. ``signature``,
        ``pip_requirements`` and ``input_example`` (a made-up person) are derived from the model
        unless given.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Its ``model_uri`` is the argument of `load_model`.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = _arguments(model, Path(folder), options)
        return _mlflow().pyfunc.log_model(name=name, **arguments)


def load_model(model_uri: str) -> Any:
    """The estimator itself, with all of its methods, from an MLflow model.

    ``mlflow.pyfunc.load_model`` gives the general interface of MLflow to the same model: its
    ``predict(X, params={"times": [...]})`` is `predict_cumulative_incidence`.

    Parameters
    ----------
    model_uri : str
        URI of MLflow, such as "models:/churn/3", or a folder.

    Returns
    -------
    HazardBoost or SurvivalBoost
    """
    return _mlflow().pyfunc.load_model(model_uri).get_raw_model()


class _Curves:
    """The ``pyfunc`` model; ``times`` is a parameter of the prediction."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator

    def get_raw_model(self) -> Any:
        """The estimator."""
        return self._estimator

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> FloatArray:
        """Probabilities of all states, (n_samples, K + 1, n_times)."""
        curves: FloatArray = self._estimator.predict_cumulative_incidence(
            model_input, (params or {}).get("times")
        )
        return curves


def _load_pyfunc(path: str) -> _Curves:
    """Loader that MLflow calls with the saved folder."""
    return _Curves(load(path))


def _mlflow() -> Any:
    try:
        return importlib.import_module("mlflow")
    except ImportError as error:
        msg = "MLflow is not installed. Use: pip install mlflow"
        raise ImportError(msg) from error


def _arguments(model: Any, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of MLflow's own functions, with the model saved below ``folder``."""
    for name in ("loader_module", "data_path", "python_model", "artifacts"):
        if name in options:
            msg = f"`{name}` is set by this function; leave it out."
            raise TypeError(msg)
    _mlflow()
    model.save(folder / _FOLDER)
    made = {
        "signature": _signature(model),
        "pip_requirements": _requirements(model),
        "input_example": _made_up_person(model),
    }
    if any(name in options for name in ("conda_env", "extra_pip_requirements")):
        # MLflow accepts only one of these.
        del made["pip_requirements"]
    return {
        **made,
        **options,
        "loader_module": _LOADER,
        "data_path": str(folder / _FOLDER),
    }


def _made_up_person(model: Any) -> Any:
    """One row with the columns of training, and no data of a real person."""
    schema = model.fitted_model.schema
    if schema.names is None:
        return np.zeros((1, schema.n_features))
    return pd.DataFrame(
        {
            name: [schema.categories[column][0] if column in schema.categories else 0.0]
            for column, name in enumerate(schema.names)
        }
    )


def _requirements(model: Any) -> list[str]:
    engine = model.engine_
    return [
        f"survival-objectives=={__version__}",
        f"{engine}=={importlib.metadata.version(engine)}",
    ]


def _signature(model: Any) -> Any:
    """Columns of training as inputs, ``times`` as a parameter, and curves as the output."""
    models = importlib.import_module("mlflow.models")
    types = importlib.import_module("mlflow.types")
    # MLflow converts neither integers to floats nor categorical dtypes to text; the model does.
    anything = importlib.import_module("mlflow.types.schema").AnyType()
    if model.fitted_model.schema.names is None:
        shape = (-1, model.n_features_in_)
        inputs = types.Schema([types.TensorSpec(np.dtype(np.float64), shape)])
    else:
        names = model.fitted_model.schema.names
        inputs = types.Schema([types.ColSpec(anything, name) for name in names])
    curves = types.TensorSpec(np.dtype(np.float64), (-1, len(model.event_ids_), -1))
    times = types.ParamSpec("times", "double", model.times_.tolist(), shape=(-1,))
    return models.ModelSignature(inputs, types.Schema([curves]), types.ParamSchema([times]))

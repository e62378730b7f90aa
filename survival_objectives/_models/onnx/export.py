"""Export of fitted models to ONNX: from features to the probabilities of all states at all times.

The graph computes `predict_cumulative_incidence`, including trees, linear part and curves in time,
in float64. All engines share one representation of trees (`survival_objectives._engines.forest`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.forest import Forest
from survival_objectives._models.fitted import FittedModel
from survival_objectives._models.onnx.curves import CurveGraph, column_name, level_text
from survival_objectives._people import Features, check_choice, check_times

#: Maximum difference between the probabilities of the file and of the model.
TOLERANCE = 1e-5
# Number of made-up people on whom both are compared, and their share of missing values.
_N_CHECKED, _MISSING_SHARE = 64, 0.15
# Their smallest non-zero absolute value.
_SMALLEST = 1e-30


def write_onnx(
    fitted: FittedModel, path: Any, times: npt.ArrayLike | None = None, categories: str = "codes"
) -> None:
    """Write the model to an ONNX file, after a comparison with it if onnxruntime is installed.

    Parameters
    ----------
    fitted : FittedModel
    path : path
        The file, which must not exist.
    times : array of shape (n_times,), optional
        A fixed grid. Default: times are the last input of the graph.
    categories : {"codes", "text"}
        Whether categorical columns are codes among the features, or a separate text input.
    """
    path = Path(path)
    check_choice(categories, "categories", ("codes", "text"))
    if path.exists():
        msg = f"{str(path)!r} exists already. Choose another file, or remove it first."
        raise FileExistsError(msg)
    if importlib.util.find_spec("onnx") is None:
        msg = "`to_onnx` needs onnx. Use: pip install onnx onnxruntime"
        raise ImportError(msg)
    as_text = categories == "text"
    _check_exportable(fitted, as_text=as_text)
    grid = None if times is None else check_times(times)
    model = CurveGraph(fitted, grid, as_text=as_text).model()
    content = model.SerializeToString()
    if importlib.util.find_spec("onnxruntime") is not None:
        _check_same(fitted, content, grid, as_text=as_text)
    path.write_bytes(content)


def _check_exportable(fitted: FittedModel, *, as_text: bool) -> None:
    schema = fitted.schema
    if schema.offsets:
        columns = ", ".join(column_name(schema, c) for c in schema.offsets)
        msg = (
            f"float32, the type of the inputs of an ONNX file, cannot tell the values of {columns} "
            "apart. Subtract the smallest value before training, or use a larger unit."
        )
        raise ValueError(msg)
    if as_text:
        _check_level_texts(schema)
    if not all(forest.is_readable for forest in _forests(fitted)):
        columns = ", ".join(column_name(schema, c) for c in schema.categories)
        msg = (
            f"The trees encode a categorical column ({columns}) by statistics that only the engine "
            "knows, so they cannot be written to ONNX. CatBoost does so above 255 levels: merge "
            "rare ones, or train with another engine."
        )
        raise ValueError(msg)


def _check_level_texts(schema: Features) -> None:
    for column, levels in schema.categories.items():
        texts = [level_text(level) for level in levels]
        if "" in texts:
            msg = (
                f"{column_name(schema, column)} has the level '', which means missing in a graph "
                'of texts. Rename the level before training, or export with `categories="codes"`.'
            )
            raise ValueError(msg)
        if len(set(texts)) < len(texts):
            msg = (
                f"Levels of {column_name(schema, column)} look the same as text, such as 1 and "
                "'1'. Export them as `categories=\"codes\"`."
            )
            raise ValueError(msg)


def _forests(fitted: FittedModel) -> Iterator[Forest]:
    for name, evaluator in fitted.evaluators().items():
        if name != "censoring":  # Curves do not depend on it.
            yield evaluator.forest()


# ---------------------------------------------------------------------------------------- checking
def _check_same(
    fitted: FittedModel, content: bytes, grid: FloatArray | None, *, as_text: bool
) -> None:
    """Raise a RuntimeError if the file and the model differ by more than the tolerance."""
    import onnxruntime

    people = replace(fitted.schema, values=_random_people(fitted))
    times = grid
    if times is None:
        times = np.append(np.linspace(0, 1.2 * fitted.frame.last_time, 25), 1e-6)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    given = _inputs(people, as_text=as_text)
    if grid is None:
        given["times"] = times
    (found,) = session.run(None, given)
    difference = float(np.abs(found - fitted.incidence(people, times)).max())
    if not difference <= TOLERANCE:
        msg = (
            f"The ONNX file and the model differ by up to {difference:.2g} in their probabilities, "
            "so it was not written. Please report it, with the versions of the engine, onnx and "
            "onnxruntime."
        )
        raise RuntimeError(msg)


def _inputs(people: Features, *, as_text: bool) -> dict[str, npt.NDArray[Any]]:
    """Inputs of the graph, except times."""
    if not as_text:
        return {"features": people.values}
    given: dict[str, npt.NDArray[Any]] = {}
    numbers = [c for c in range(people.n_features) if c not in people.categories]
    if numbers:
        given["features"] = np.ascontiguousarray(people.values[:, numbers])
    if people.categories:
        text = np.full((people.n_samples, len(people.categories)), "", object)
        for position, column in enumerate(sorted(people.categories)):
            levels = [level_text(level) for level in people.categories[column]]
            for row, code in enumerate(people.values[:, column]):
                if not np.isnan(code):
                    text[row, position] = levels[int(code)]
        given["categories"] = text
    return given


def _random_people(fitted: FittedModel) -> Float32Array:
    """Rows of thresholds and their float32 neighbours, where model and file could differ."""
    schema, generator = fitted.schema, np.random.default_rng(0)
    values = generator.normal(size=(_N_CHECKED, schema.n_features)).astype(np.float32)
    seen = _thresholds(fitted)
    for column in range(schema.n_features):
        if column in schema.categories:
            values[:, column] = generator.integers(len(schema.categories[column]), size=_N_CHECKED)
        elif column in seen:
            near = generator.choice(seen[column], size=_N_CHECKED).astype(np.float32)
            side = generator.choice([-np.inf, 0, np.inf], size=_N_CHECKED).astype(np.float32)
            values[:, column] = np.where(side == 0, near, np.nextafter(near, side))
    # LightGBM treats values up to 1e-35 as 0, and splits there.
    values[np.abs(values) < _SMALLEST] = 0.0
    values[generator.random(values.shape) < _MISSING_SHARE] = np.nan
    return values


def _thresholds(fitted: FittedModel) -> dict[int, list[float]]:
    """Thresholds and quantiles of each numeric column, near which predictions change."""
    seen = fitted.decisive_values()
    for forest in _forests(fitted):
        for tree in forest.trees:
            for node, column in enumerate(tree.feature):
                if column >= 0 and node not in tree.categories:
                    seen.setdefault(column, []).append(tree.threshold[node])
    return seen

"""Predictions for Dask collections: lazy, partition by partition, by a model of one machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._engines.protocol import import_engine
from survival_objectives._models.predictions import brier_score_until
from survival_objectives._people import Features
from survival_objectives._people.cohort import Cohort
from survival_objectives._people.labels import EventLabels
from survival_objectives.adapters.dask._collection import (
    Collection,
    by_rows,
    is_collection,
    pieces_of,
    schema_of,
)

dask = import_engine("dask")
da = import_engine("dask.array", extra="dask")
dd = import_engine("dask.dataframe", extra="dask")


def predict_dask(
    model: Any,
    X: Any,
    *arguments: Any,
    method: str = "predict_cumulative_incidence",
    **options: Any,
) -> Any:
    """Predictions of a fitted model for a Dask collection, lazily.

    Parameters
    ----------
    model : HazardBoost or SurvivalBoost
        Fitted, on a cluster or not, by any engine.
    X : dask DataFrame or Array of shape (n_samples, n_features)
        People.
    *arguments, **options
        Those of the method, such as ``times`` and ``as_frame``.
    method : str, default="predict_cumulative_incidence"
        Name of the method of the model.

    Returns
    -------
    dask Array or DataFrame
        What the method returns, with the chunks of ``X``.
    """
    if not is_collection(X):
        msg = (
            f"`X` is a {type(X).__name__}; pass a dask DataFrame or Array, or use `model.{method}`."
        )
        raise TypeError(msg)
    # What one made-up person gets shows mistakes in the arguments now, and the shape.
    schema = model.fitted_model.schema
    missing = np.full((1, schema.n_features), np.nan, np.float32)
    made_up = Features(missing, schema.names, schema.categories)
    one = getattr(model, method)(made_up, *arguments, **options)
    schema_of(X, schema)
    call = method, arguments, options
    if isinstance(one, pd.DataFrame):
        return _lazy_frame(model, X, one.iloc[:0], call)
    return _lazy_array(model, X, one[:0], call)


def score_dask(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """The score of a fitted model for Dask collections, computed by partition.

    Mean of `survival_objectives.HazardBoost.score` over partitions, in proportion to their weights.
    """
    fitted = model.fitted_model
    labels = EventLabels(fitted.frame.state_names)
    people = Collection.checked(X, y, sample_weight, fitted.schema, labels)
    last = dask.delayed(max)([dask.delayed(_latest)(part) for part in people.parts])
    scores = [dask.delayed(_part_score)(model, part, last) for part in people.parts]
    totals = np.sum(dask.compute(*scores), axis=0)
    return float(totals[0] / totals[1])


def _lazy_array(model: Any, X: Any, none: Any, call: tuple[Any, ...]) -> Any:
    X = by_rows(X)
    predict = dask.delayed(_part_prediction, pure=False)
    # One copy of the model in the graph, not one per partition.
    shared = dask.delayed(model, pure=False)
    sizes = X.chunks[0] if isinstance(X, da.Array) else [np.nan] * X.npartitions
    blocks = [
        da.from_delayed(predict(part, shared, none, *call), (size, *none.shape[1:]), np.float64)
        for part, size in zip(pieces_of(X), sizes, strict=True)
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _lazy_frame(model: Any, X: Any, none: Any, call: tuple[Any, ...]) -> Any:
    if isinstance(X, dd.DataFrame):
        none = none.set_axis(dd.dispatch.make_meta(X).index)
        return X.map_partitions(_part_prediction, model, none, *call, meta=none)
    predict = dask.delayed(_part_prediction, pure=False)
    shared = dask.delayed(model, pure=False)
    parts = [predict(part, shared, none, *call) for part in pieces_of(X)]
    return dd.from_delayed(parts, meta=none, verify_meta=False)


def _part_prediction(
    X: Any,
    model: Any,
    none: Any,
    method: str,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Predictions for a partition; ``none`` is the prediction for an empty partition."""
    return none if len(X) == 0 else getattr(model, method)(X, *arguments, **options)


def _latest(part: Cohort) -> float:
    return float(part.target.duration.max()) if part.n_samples else 0.0


def _part_score(model: Any, part: Cohort, last: float) -> tuple[float, float]:
    """Score of a partition times its weight, and that weight."""
    if part.n_samples == 0:
        return 0.0, 0.0
    total = float(part.n_samples if part.weight is None else part.weight.sum())
    y = (part.target.event_ids[part.target.event], part.target.duration)
    return -brier_score_until(last, model, part.features, y, part.weight) * total, total

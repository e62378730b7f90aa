"""Predictions for Dask collections: lazy, partition by partition, by a model of one machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._models.predictions import brier_score_until
from survival_objectives._people import Features
from survival_objectives._people.cohort import Cohort
from survival_objectives.adapters._engine import import_engine
from survival_objectives.adapters.dask._collection import (
    Collection,
    by_rows,
    is_collection,
    pieces_of,
    schema_of,
)
from survival_objectives.estimators import SurvivalBoost

dask = import_engine("dask")
da = import_engine("dask.array", extra="dask")
dd = import_engine("dask.dataframe", extra="dask")


@dataclass(frozen=True)
class PartPredictions:
    """Methods of a fitted model, applied to the partitions of a collection."""

    model: SurvivalBoost

    def lazy(self, method: str, X: Any, *arguments: Any, **options: Any) -> Any:
        """What ``method`` returns, as a lazy Array or DataFrame if ``X`` is a Dask collection."""
        if not is_collection(X):
            return getattr(self.model, method)(X, *arguments, **options)
        # What one made-up person gets shows mistakes in the arguments now, and the shape.
        one = getattr(self.model, method)(self._made_up(), *arguments, **options)
        schema_of(X, self.model.fitted_model.schema)
        if isinstance(one, pd.DataFrame):
            return self._frame(X, one.iloc[:0], (method, arguments, options))
        return self._array(X, one[:0], (method, arguments, options))

    def score(self, X: Any, y: Any, sample_weight: Any) -> float:
        """Mean score of the partitions, in proportion to their weights."""
        people = Collection.checked(X, y, sample_weight, self.model.fitted_model.schema)
        last = dask.delayed(max)([dask.delayed(_latest)(part) for part in people.parts])
        scores = [dask.delayed(_part_score)(self.model, part, last) for part in people.parts]
        totals = np.sum(dask.compute(*scores), axis=0)
        return float(totals[0] / totals[1])

    def _made_up(self) -> Features:
        schema = self.model.fitted_model.schema
        missing = np.full((1, schema.n_features), np.nan, np.float32)
        return Features(missing, schema.names, schema.categories)

    def _array(self, X: Any, none: Any, call: tuple[Any, ...]) -> Any:
        X = by_rows(X)
        predict = dask.delayed(_part_prediction, pure=False)
        # One copy of the model in the graph, not one per partition.
        shared = dask.delayed(self.model, pure=False)
        sizes = X.chunks[0] if isinstance(X, da.Array) else [np.nan] * X.npartitions
        blocks = [
            da.from_delayed(predict(part, shared, none, *call), (size, *none.shape[1:]), np.float64)
            for part, size in zip(pieces_of(X), sizes, strict=True)
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)

    def _frame(self, X: Any, none: Any, call: tuple[Any, ...]) -> Any:
        if isinstance(X, dd.DataFrame):
            none = none.set_axis(dd.dispatch.make_meta(X).index)
            return X.map_partitions(_part_prediction, self.model, none, *call, meta=none)
        predict = dask.delayed(_part_prediction, pure=False)
        shared = dask.delayed(self.model, pure=False)
        parts = [predict(part, shared, none, *call) for part in pieces_of(X)]
        return dd.from_delayed(parts, meta=none, verify_meta=False)


def _part_prediction(
    X: Any,
    model: SurvivalBoost,
    none: Any,
    method: str,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Predictions for a partition; ``none`` is the prediction for an empty partition."""
    return none if len(X) == 0 else getattr(model, method)(X, *arguments, **options)


def _latest(part: Cohort) -> float:
    return float(part.target.duration.max()) if part.n_samples else 0.0


def _part_score(model: SurvivalBoost, part: Cohort, last: float) -> tuple[float, float]:
    """Score of a partition times its weight, and that weight."""
    if part.n_samples == 0:
        return 0.0, 0.0
    total = float(part.n_samples if part.weight is None else part.weight.sum())
    y = (part.target.event_ids[part.target.event], part.target.duration)
    return -brier_score_until(last, model, part.features, y, part.weight) * total, total

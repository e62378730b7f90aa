"""Datasets of LightGBM for the plugin."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import column_names, import_engine
from survival_objectives._engines.settings import INTERACTION, MONOTONE
from survival_objectives._people import Features
from survival_objectives._plugin.problem import refuse_change, sklearn_advice

lgb = import_engine("lightgbm")

#: Several threads may share an objective, whose Dataset is made at the first access.
MAKING = threading.RLock()


class TrainingDataset(lgb.Dataset):  # type: ignore[misc, name-defined]
    """Own rows, which keep their labels, weights and start; several threads may share them.

    LightGBM bins the rows in the first training, once.
    """

    #: Where boosting starts, (n_rows, n_margins), if it is the init score.
    start: FloatArray | None = None
    #: The rows once more, to continue a model after LightGBM has freed them.
    values: Callable[[], Float32Array] | None = None
    _is_own_call = True

    def keep(
        self, start: FloatArray | None = None, values: Callable[[], Float32Array] | None = None
    ) -> Any:
        """The Dataset, which refuses changes from now on."""
        self.start, self.values, self._is_own_call = start, values, False
        return self

    @contextmanager
    def _own_call(self) -> Iterator[None]:
        before, self._is_own_call = self._is_own_call, True
        try:
            yield
        finally:
            self._is_own_call = before

    def construct(self) -> Any:
        """The binned rows, as LightGBM makes them."""
        with MAKING, self._own_call():
            return super().construct()

    def set_label(self, *arguments: Any, **options: Any) -> Any:
        """Refused but for LightGBM itself."""
        return self._changed("set_label", *arguments, **options)

    def set_weight(self, *arguments: Any, **options: Any) -> Any:
        """Refused but for LightGBM itself."""
        return self._changed("set_weight", *arguments, **options)

    def set_init_score(self, *arguments: Any, **options: Any) -> Any:
        """Refused but for LightGBM itself."""
        return self._changed("set_init_score", *arguments, **options)

    def set_field(self, *arguments: Any, **options: Any) -> Any:
        """Refused but for LightGBM itself."""
        return self._changed("set_field", *arguments, **options)

    def _changed(self, name: str, *arguments: Any, **options: Any) -> Any:
        if not self._is_own_call:
            raise ValueError(refuse_change("objective.train_set", name))
        return getattr(super(), name)(*arguments, **options)

    def _update_params(self, params: Any) -> Any:
        value = None if params is None else params.get("monotone_constraints")
        n_columns = len(self.feature_name)
        if isinstance(value, Mapping) or (
            isinstance(value, list | tuple | np.ndarray) and len(value) != n_columns
        ):
            msg = (
                f"`monotone_constraints` is {value!r}, but LightGBM wants a list of {n_columns}, "
                "the time last. Write `{**objective.params, **objective.constraints(monotone=...)}`"
                " with a dict by name or one value for each feature."
            )
            raise ValueError(msg)
        return super()._update_params(params)

    def _set_predictor(self, predictor: Any) -> Any:
        rows = vars(self).get("data")
        is_needed = self._handle is not None and (predictor or self._predictor)
        if rows is None and self.values is not None and is_needed:
            self.__dict__["data"] = self.values()
        try:
            with self._own_call():
                return super()._set_predictor(predictor)
        finally:
            self.__dict__["data"] = rows

    def _set_init_score_by_predictor(self, *arguments: Any, **options: Any) -> Any:
        result = super()._set_init_score_by_predictor(*arguments, **options)
        if self.start is not None:
            # LightGBM lets the scores of `init_model` replace the start, which they lack.
            score = np.reshape(self.init_score, self.start.shape, order="F") + self.start
            self.set_init_score(score.ravel() if score.shape[1] == 1 else score)
        return result


def row_dataset(
    values: Float32Array,
    schema: Features,
    start: FloatArray | None,
    *,
    kind: type = lgb.Dataset,
    params: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    return kind(
        values,
        # A flat score for one margin, an (n_rows, n_margins) one for several.
        init_score=start.ravel() if start is not None and np.size(start, -1) == 1 else start,
        categorical_feature=sorted(schema.categories),
        # The Dataset is made before LightGBM knows `min_data_in_leaf`, and may be used twice.
        params={**(params or {}), "feature_pre_filter": False, "verbosity": -1},
        **{"feature_name": column_names(schema), **options},
    )


def engine_params(n_margins: int, seed: int) -> dict[str, Any]:
    """What LightGBM must be told for margins of a custom objective."""
    return {
        "num_class": n_margins,
        "metric": "None",
        "seed": seed,
        # Without these two, LightGBM chooses its histograms by a race of threads and the same
        # seed may give another model.
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }


def own_rows(dataset: Any, own: Any) -> IntArray | None:
    """Row numbers of a fold of our own Dataset, or None for the whole of it; others are refused."""
    if isinstance(dataset, np.ndarray):
        raise TypeError(sklearn_advice("lgb.train"))
    if own is not None and dataset is own:
        return None
    if own is not None and dataset.used_indices is not None and dataset.reference is own:
        return np.asarray(dataset.used_indices, dtype=np.int64)
    msg = (
        "This Dataset is not this objective's own, so the weights do not belong to its rows. "
        "Train on `objective.train_set`, and evaluate on `objective.held_out(X, y)`."
    )
    raise ValueError(msg)


def own_loss_named(booster: Any, pattern: str) -> str | None:
    """The objective that a booster names in its text, if it is none that matches a pattern.

    A booster of a custom objective names none.
    """
    named = re.search(r"^objective=(.*)$", booster.model_to_string(num_iteration=1), re.MULTILINE)
    return None if named is None or re.match(pattern, named[1]) else named[1]


def directions_of(model: Any) -> list[int]:
    """Monotone constraints with which a booster was trained."""
    text = model.model_to_string(num_iteration=1)
    found = re.search(r"^\[monotone_constraints: (.*)\]$", text, re.MULTILINE)
    return [] if found is None else [int(sign) for sign in re.findall(r"-?\d", found[1])]


def constraint_params(
    directions: list[int] | None, groups: list[list[int]] | None
) -> dict[str, Any]:
    """Constraints on the stacked columns as parameters of LightGBM."""
    given = {MONOTONE: directions, INTERACTION: groups}
    return {name: value for name, value in given.items() if value is not None}

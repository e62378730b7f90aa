"""Matrices of XGBoost for the plugin, which know their rows, and settings for them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import IntArray
from survival_objectives._engines.protocol import import_engine
from survival_objectives._plugin.problem import refuse_change, sklearn_advice

xgb = import_engine("xgboost")

# float32 counts exactly up to here, and XGBoost stores row numbers as float32.
_MAX_NUMBERED_ROWS = 2**24


class _Kept:
    """A matrix whose labels, weights and margins stay those of its objective once it is kept."""

    _is_kept = False

    def keep(self) -> None:
        """Refuse changes from now on."""
        self._is_kept = True

    def _change(self, name: str, *arguments: Any, **options: Any) -> None:
        if self._is_kept:
            raise ValueError(refuse_change("objective.dtrain", name))
        getattr(super(), name)(*arguments, **options)

    def set_label(self, *arguments: Any, **options: Any) -> None:
        """Refused once the matrix is kept."""
        self._change("set_label", *arguments, **options)

    def set_weight(self, *arguments: Any, **options: Any) -> None:
        """Refused once the matrix is kept."""
        self._change("set_weight", *arguments, **options)

    def set_base_margin(self, *arguments: Any, **options: Any) -> None:
        """Refused once the matrix is kept."""
        self._change("set_base_margin", *arguments, **options)

    def set_float_info(self, *arguments: Any, **options: Any) -> None:
        """Refused once the matrix is kept."""
        self._change("set_float_info", *arguments, **options)

    def set_float_info_npy2d(self, *arguments: Any, **options: Any) -> None:
        """Refused once the matrix is kept."""
        self._change("set_float_info_npy2d", *arguments, **options)


class QuantileMatrix(_Kept, xgb.QuantileDMatrix):  # type: ignore[misc, name-defined]
    """The training matrix of an objective."""


class SliceableMatrix(_Kept, xgb.DMatrix):  # type: ignore[misc, name-defined]
    """The same for `xgb.cv`."""


def mark_of(*arrays: npt.NDArray[Any]) -> float:
    """A number by which the matrices of one objective are recognised."""
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).digest()
    return float(int.from_bytes(digest[:3], "little"))


def number_rows(matrix: Any, mark: float) -> None:
    """Number the rows of a matrix.

    XGBoost keeps these bounds when it slices a matrix: they number the rows of a fold, and carry a
    mark that identifies our own matrices. From then on the matrix is kept as it is.
    """
    if matrix.num_row() <= _MAX_NUMBERED_ROWS:
        numbers = np.arange(matrix.num_row(), dtype=np.float32)
        matrix.set_info(label_lower_bound=numbers, label_upper_bound=np.full_like(numbers, mark))
    matrix.keep()


def own_rows(matrix: Any, mark: float) -> IntArray:
    """Numbers of the rows of an own matrix, or of a slice of it; others are refused."""
    if isinstance(matrix, np.ndarray):
        raise TypeError(sklearn_advice("xgb.train"))
    numbers = matrix.get_float_info("label_lower_bound")
    if (
        len(numbers) != matrix.num_row()
        or not (matrix.get_float_info("label_upper_bound") == mark).all()
    ):
        msg = (
            f"This matrix of {matrix.num_row()} rows is not this objective's own, so the "
            "weights do not belong to its rows. Train on `objective.dtrain` "
            "(`objective.cv_matrix()` in `xgb.cv`)."
        )
        raise ValueError(msg)
    rows: IntArray = numbers.astype(np.int64)
    return rows


def engine_params(n_margins: int, seed: int) -> dict[str, Any]:
    """What XGBoost must be told for margins of a custom objective."""
    params: dict[str, Any] = {"base_score": 0.0, "disable_default_eval_metric": True, "seed": seed}
    if n_margins > 1:
        return {**params, "num_class": n_margins}
    # The same loss by XGBoost itself, should `obj=` be forgotten.
    return {**params, "objective": "binary:logistic", "base_score": 0.5}

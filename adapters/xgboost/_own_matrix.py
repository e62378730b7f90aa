"""Training matrices that keep what an objective put into them."""

from __future__ import annotations

from typing import Any

from survival_objectives._plugin.problem import refuse_change
from survival_objectives.adapters._engine import import_engine

xgb = import_engine("xgboost")


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


class QuantileMatrix(_Kept, xgb.QuantileDMatrix):  # type: ignore[misc, name-defined]
    """The training matrix of an objective."""


class SliceableMatrix(_Kept, xgb.DMatrix):  # type: ignore[misc, name-defined]
    """The same for `xgb.cv`."""

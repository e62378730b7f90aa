"""XGBoost: hazards as ``xgb.train(params, dtrain, obj=objective)``.

Conventions of the host as in `_objective`. A matrix keeps the total weight of its people, by which
the metric is a mean over people instead of rows.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array
from survival_objectives._engines.protocol import column_names, import_engine
from survival_objectives._hazards.plugin import MatrixRows
from survival_objectives._plugin.hazard_objective import HazardTrainingProblem
from survival_objectives.adapters.xgboost._engine import (
    constraint_params,
    directions_of,
    margins_of,
    rounds_of,
    row_matrix,
)
from survival_objectives.adapters.xgboost._matrix import (
    QuantileMatrix,
    SliceableMatrix,
    engine_params,
    mark_of,
    number_rows,
    own_rows,
)

xgb = import_engine("xgboost")

# Several threads may share an objective, whose matrix is made at the first access.
_MAKING = threading.RLock()


class HazardObjective(HazardTrainingProblem):
    """The log-loss of discrete-time hazards as a custom objective of XGBoost, with its rows.

    {parameters}

    Examples
    --------
    >>> import numpy as np, xgboost as xgb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = rng.integers(0, 3, 200), rng.exponential(size=200)
    >>> objective = HazardObjective(X, y, random_state=0)
    >>> params = {**objective.params, "max_depth": 3, "learning_rate": 0.1}
    >>> booster = xgb.train(params, objective.dtrain, num_boost_round=20, obj=objective)
    >>> objective.predict_cumulative_incidence(booster, X[:2], [0.5, 1.0]).shape
    (2, 3, 2)
    """

    _transient = ("_dtrain", "_totals")
    _engine_name = "xgboost"

    # ------------------------------------------------------------------------- what training takes
    @property
    def dtrain(self) -> Any:
        """`xgboost.QuantileDMatrix` of the risk-set rows, the interval as last column."""
        with _MAKING:
            if "_dtrain" not in self.__dict__:
                self._dtrain = self._training_matrix(QuantileMatrix)
            return self._dtrain

    def cv_matrix(self) -> Any:
        """`xgboost.DMatrix` of the same rows, for ``xgb.cv``, which refuses a QuantileDMatrix.

        Use it with ``folds=objective.folds(n_splits)``, which keeps the rows of a person together.
        The margins at which boosting starts are fitted to all people; `cross_fit` fits them
        without those it holds out.
        """
        return self._training_matrix(SliceableMatrix)

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that this objective needs; merge your own into them."""
        # Hazards are small, and so are the Hessians of rows: leaves need a few events.
        own = {"min_child_weight": 15.0}
        return {**engine_params(self.n_margins, self._engine_seed), **own}

    def held_out(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Any:
        """`xgboost.QuantileDMatrix` of held-out people, for ``evals`` and early stopping.

        Without arguments, those that this objective of a `cross_fit` holds out.
        """
        rows = self._held_out_rows(X, y, sample_weight)
        return self._matrix(xgb.QuantileDMatrix, rows, ref=self.dtrain)

    def _training_matrix(self, kind: type) -> Any:
        matrix = self._matrix(kind, self._data.training)
        number_rows(matrix, self._mark())
        return matrix

    def _matrix(self, kind: type, rows: MatrixRows, **options: Any) -> Any:
        names = self._marked(column_names(self._schema))
        matrix = row_matrix(
            kind, rows.values, self._schema, rows.start, feature_names=names, **options
        )
        matrix.set_info(label=rows.target, weight=rows.weight)
        self._people_in()[matrix] = rows.n_people
        return matrix

    _constraint_params = staticmethod(constraint_params)

    def _people_in(self) -> WeakKeyDictionary[Any, float]:
        """Total weight of the people of own matrices."""
        totals: WeakKeyDictionary[Any, float] = self.__dict__.setdefault(
            "_totals", WeakKeyDictionary()
        )
        return totals

    def _mark(self) -> float:
        return mark_of(self.weight, self.interval, self.target, self._data.start.level)

    # ------------------------------------------------------------------------------- the objective
    def __call__(self, margin: npt.NDArray[Any], dtrain: Any) -> tuple[Float32Array, Float32Array]:
        """Gradient and Hessian of every row, as ``xgb.train`` expects them."""
        is_own = dtrain is self.__dict__.get("_dtrain")
        rows = None if is_own else own_rows(dtrain, self._mark())
        return self._derivatives(margin, rows, order="C")

    def metric(self, margin: npt.NDArray[Any], matrix: Any) -> tuple[str, float]:
        """Name and value of the negative log-likelihood per person, for ``custom_metric``."""
        totals = self._people_in()
        if matrix not in totals:
            totals[matrix] = self._n_people(own_rows(matrix, self._mark()))
        label, weight = matrix.get_label().astype(np.int32), matrix.get_weight()
        margin = margin.reshape(len(label), -1)
        return "hazard_log_loss", self._loss(margin, label, weight, totals[matrix])

    # ----------------------------------------------------------------------------------- prediction
    def _columns_of(self, model: Any) -> Sequence[str] | None:
        columns: Sequence[str] | None = model.feature_names
        return columns

    def _check_model(self, model: Any) -> None:
        self._check_trained(self._columns_of(model), margins_of(model))

    _directions_of = staticmethod(directions_of)

    def _finished_model(self, model: Any) -> Any:
        finished = model[: rounds_of(model)]
        finished.feature_names = column_names(self._schema)
        return finished

"""CatBoost: hazards as ``loss_function``, by CatBoost's own softmax.

Weights and targets of risk-set rows never change during a training, so CatBoost's own loss is the
right one: it costs a small part of a custom loss. The loss object is its name, a string, with the
rows beside it. Margins at which boosting starts are the baseline of the pools, which predictions
leave out. With several causes there is a margin for every state; a single cause has one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.protocol import column_names, import_engine
from survival_objectives._hazards.plugin import MatrixRows
from survival_objectives._plugin.hazard_objective import HazardTrainingProblem
from survival_objectives._plugin.problem_rows import counted_target
from survival_objectives.adapters.catboost._pool import (
    TrainingPool,
    check_unscaled,
    constraint_params,
    directions_of,
    loss_of,
    row_pool,
)
from survival_objectives.losses import pointwise_log_loss

catboost = import_engine("catboost")

# Several threads may share a loss, whose pool is made at the first access.
_MAKING = threading.RLock()
_L2_ROWS = 3.0
_ONE_CAUSE, _SEVERAL_CAUSES = "Logloss", "MultiClass"


class HazardLoss(str, HazardTrainingProblem):
    """The log-loss of discrete-time hazards as a loss of CatBoost, with the rows it is trained on.

    It is the name of CatBoost's own softmax loss, so that training is as fast as that.

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> from catboost import CatBoost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = rng.integers(0, 3, 200), rng.exponential(size=200)
    >>> loss = HazardLoss(X, y, random_state=0)
    >>> model = CatBoost({**loss.params, "loss_function": loss, "iterations": 20, "depth": 3,
    ...                   "verbose": False})
    >>> _ = model.fit(loss.train_pool)
    >>> loss.predict_cumulative_incidence(model, X[:2], [0.5, 1.0]).shape
    (2, 3, 2)
    """

    _transient = ("_train_pool", "_known_sets")
    _engine_name = "catboost"

    def __new__(cls, X: Any, y: Any = None, *, sample_weight: Any = None, **_: Any) -> HazardLoss:
        """Make the name of the loss, which depends on the number of causes."""
        if y is None:  # A copy.
            return super().__new__(cls, X)
        n_causes = counted_target(y, sample_weight, late_entry=True).n_causes
        return super().__new__(cls, _ONE_CAUSE if n_causes == 1 else _SEVERAL_CAUSES)

    def __repr__(self) -> str:
        """The class, not only the name of the loss."""
        return f"{type(self).__name__}({str(self)!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> str:
        # CatBoost copies its parameters, and takes the name of a loss.
        return str(self)

    # ------------------------------------------------------------------------- what training takes
    @property
    def n_margins(self) -> int:
        """Margins that CatBoost trains: of all states, or of a single cause."""
        n_causes = self._frame.n_causes
        return n_causes if n_causes == 1 else n_causes + 1

    @property
    def train_pool(self) -> Any:
        """`catboost.Pool` of the risk-set rows, the interval as last column."""
        with _MAKING:
            if "_train_pool" not in self.__dict__:
                self._train_pool = self._pool(self._data.training, TrainingPool)
            return self._train_pool

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that this loss needs; merge your own into them."""
        params: dict[str, Any] = {
            "random_seed": self._engine_seed,
            "leaf_estimation_iterations": 1,
            # CatBoost multiplies its regularisation by the mean weight of the rows; this is in rows
            # of weight 1.
            "l2_leaf_reg": _L2_ROWS / float(self.weight.mean()),
            "allow_writing_files": False,
        }
        if self.n_margins == 1:
            params["boost_from_average"] = False
        else:
            params["classes_count"] = self.n_margins
        if self._schema.categories:
            # Other encodings are statistics of the target, which would be stored with the model.
            params["one_hot_max_size"] = 255
        return params

    def _constraint_params(
        self, directions: list[int] | None, groups: list[list[int]] | None
    ) -> dict[str, Any]:
        return constraint_params(directions, groups, self.n_margins)

    def held_out(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Any:
        """`catboost.Pool` of held-out people, for ``eval_set`` and early stopping.

        Without arguments, those that this loss of a `cross_fit` holds out.
        """
        return self._pool(self._held_out_rows(X, y, sample_weight))

    def _pool(self, rows: MatrixRows, kind: type = catboost.Pool) -> Any:
        self._sets[self._key(rows.weight)] = rows.n_people
        names = self._marked(column_names(self._schema))
        start: FloatArray = rows.start
        if self.n_margins > 1:
            start = np.column_stack([np.zeros(len(start)), start])
        return row_pool(
            rows.values,
            self._schema,
            names,
            kind,
            label=rows.target,
            weight=rows.weight,
            baseline=start,
        )

    # ---------------------------------------------------------------------------------- the metric
    @property
    def metric(self) -> HazardLogLoss:
        """The negative log-likelihood per person, for ``eval_metric`` if you want to read it.

        Early stopping needs it not: CatBoost's own loss differs by a constant factor.
        """
        return HazardLogLoss(self)

    @property
    def _sets(self) -> dict[tuple[int, float], float]:
        """Total weight of the people of own pools, which a metric knows by their weights."""
        sets: dict[tuple[int, float], float] = self.__dict__.setdefault("_known_sets", {})
        return sets

    @staticmethod
    def _key(weight: Float32Array) -> tuple[int, float]:
        return len(weight), float(np.sum(weight, dtype=np.float64).astype(np.float32))

    def people_in(self, weight: Float32Array) -> float:
        """Total weight of the people of an own pool with these weights of rows."""
        key = self._key(weight)
        if key not in self._sets:
            msg = (
                f"A pool of {key[0]} rows is not of this loss. Train on `loss.train_pool` and "
                "evaluate on `loss.held_out(X, y)`; `catboost.cv` needs CatBoost's own metric."
            )
            raise ValueError(msg)
        return self._sets[key]

    # ----------------------------------------------------------------------------------- prediction
    def _columns_of(self, model: Any) -> Sequence[str] | None:
        columns: Sequence[str] = model.feature_names_
        return columns

    def _check_model(self, model: Any) -> None:
        trained = loss_of(model)
        if trained not in (None, str(self)):
            msg = (
                f"This model was trained with the loss {trained!r}. "
                'Train it with `{**loss.params, "loss_function": loss}`.'
            )
            raise ValueError(msg)
        self._check_trained(self._columns_of(model), check_unscaled(model))

    _directions_of = staticmethod(directions_of)

    def _finished_model(self, model: Any) -> Any:
        finished = model.copy()
        finished.set_feature_names(column_names(self._schema))
        return finished


class HazardLogLoss:
    """Negative log-likelihood per person as a metric of CatBoost, which prints this name."""

    #: CatBoost would try, in vain and with a warning, to compile our methods itself.
    no_jit = True

    def __init__(self, loss: HazardLoss) -> None:
        self._loss = loss

    def __deepcopy__(self, memo: dict[int, Any]) -> HazardLogLoss:
        return self

    def is_max_optimal(self) -> bool:
        """Lower is better."""
        return False

    def evaluate(
        self, approxes: tuple[FloatArray, ...], target: Any, weight: Float32Array
    ) -> tuple[float, float]:
        """Sum of the losses, and the total weight of the people."""
        margin, label = np.column_stack(approxes), np.asarray(target).astype(np.int32)
        losses = pointwise_log_loss(margin, label, weight, reference=len(approxes) == 1)
        return float(losses.sum()), self._loss.people_in(weight)

    def get_final_error(self, error: float, weight: float) -> float:
        """Weighted mean loss."""
        return error / weight

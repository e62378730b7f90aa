"""XGBoost: the IPCW log-loss as ``xgb.train(params, dtrain, obj=ipcw_objective)``.

Host conventions met here, and only here: margins come and derivatives go as (n_rows, n_margins)
float32 in C order (one margin comes flat); with the free link XGBoost's own softmax scales the
Hessian by 2, so we do, and ``lambda`` and ``min_child_weight`` keep their meaning; a booster
predicts cheaply, mid-training, only on matrices that are kept alive.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import column_names, import_engine, rising_in_time
from survival_objectives._people import Features
from survival_objectives._plugin import alternation
from survival_objectives._plugin.objective import TrainingProblem
from survival_objectives._plugin.slot import TrainingThread
from survival_objectives.adapters.xgboost._engine import (
    Evaluator,
    constraint_params,
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
from survival_objectives.censoring import MarginModel

xgb = import_engine("xgboost")

# Several threads may share an objective, whose matrix is made at the first access.
_MAKING = threading.RLock()
# Settings of the event model's trees that its censoring model must not inherit.
_NOT_INHERITED = ("monotone_constraints", "interaction_constraints")


class IPCWObjective(TrainingProblem):
    """The IPCW log-loss as a custom objective of XGBoost, with the rows it is trained on.

    {parameters}

    Examples
    --------
    >>> import numpy as np, xgboost as xgb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = rng.integers(0, 3, 200), rng.exponential(size=200)
    >>> ipcw_objective = IPCWObjective(X, y, random_state=0)
    >>> params = {**ipcw_objective.params, "max_depth": 3, "learning_rate": 0.1}
    >>> booster = xgb.train(params, ipcw_objective.dtrain, num_boost_round=20, obj=ipcw_objective,
    ...                     callbacks=[ipcw_objective.refresh()])
    >>> ipcw_objective.predict_cumulative_incidence(booster, X[:2], [0.5, 1.0]).shape
    (2, 3, 2)
    """

    _transient = (*TrainingProblem._transient, "_dtrain")
    _engine_name = "xgboost"

    # ------------------------------------------------------------------------- what training takes
    @property
    def dtrain(self) -> Any:
        """`xgboost.QuantileDMatrix` of the stacked rows, the horizon as last column."""
        with _MAKING:
            if not hasattr(self, "_dtrain"):
                self._dtrain = self._training_matrix(QuantileMatrix)
            return self._dtrain

    def cv_matrix(self) -> Any:
        """`xgboost.DMatrix` of the same rows, for ``xgb.cv``, which refuses a QuantileDMatrix.

        Use it with ``folds=objective.folds(n_splits)``, which keeps the rows of a person together.
        Rows of a fold are weighted by the censoring of its own training people; the marginal curve
        from which boosting starts is that of all people, and so is completion.
        """
        return self._training_matrix(SliceableMatrix)

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that this objective needs; merge your own into them."""
        params = engine_params(self.n_margins, self._engine_seed)
        if self._monotone:
            params["monotone_constraints"] = str(tuple(rising_in_time(self._features)))
        return params

    def held_out(self, X: Any = None, y: Any = None) -> Any:
        """`xgboost.QuantileDMatrix` of held-out people, for ``evals`` and early stopping.

        Without arguments, those that this objective of a `cross_fit` holds out.
        Their weights come from the censoring of the training people, and stay the same during
        training so that the scores of all rounds can be compared.
        """
        rows = self._held_out_rows(X, y)
        matrix = self._matrix(xgb.QuantileDMatrix, rows.matrix, rows.start, ref=self.dtrain)
        matrix.set_info(label=rows.target, weight=rows.weight)
        return matrix

    def _training_matrix(self, kind: type) -> Any:
        start = self._start_margin(self._events.horizon)
        matrix = self._matrix(kind, self._events.matrix(self._features), start)
        matrix.set_info(label=self._events.target, weight=self.initial_weight)
        number_rows(matrix, self._mark())
        return matrix

    def _matrix(
        self, kind: type, values: Float32Array, start: npt.ArrayLike, **options: Any
    ) -> Any:
        names = self._marked(column_names(self._features))
        return row_matrix(kind, values, self._features, start, feature_names=names, **options)

    def _mark(self) -> float:
        return mark_of(self.initial_weight, self.horizon)

    # ------------------------------------------------------------------------------- the objective
    def __call__(self, margin: npt.NDArray[Any], dtrain: Any) -> tuple[Float32Array, Float32Array]:
        """Gradient and Hessian of every row, as ``xgb.train`` expects them."""
        if dtrain is getattr(self, "_dtrain", None):
            return self._derivatives(margin, None, order="C")
        rows = self._own_rows(dtrain)
        if self._slot.take() is not None:
            msg = (
                "This matrix has the rows of `objective.dtrain` but is another one, where the "
                "weights cannot be refreshed. Train on `objective.dtrain`."
            )
            raise ValueError(msg)
        self._data.folds.trains_on(dtrain)
        return self._derivatives(margin, rows, order="C")

    @property
    def _hessian_scale(self) -> float:
        return 1.0 if self._reference else 2.0

    def metric(self, margin: npt.NDArray[Any], matrix: Any) -> tuple[str, float]:
        """Name and value of the IPCW log-loss, for ``custom_metric=objective.metric``."""
        label, weight = matrix.get_label(), matrix.get_weight()
        rows: IntArray | slice | None = None
        if matrix is getattr(self, "_dtrain", None):
            rows = slice(None)
        elif matrix.get_float_info("label_lower_bound").size:
            rows = self._own_rows(matrix)
            weight = self._data.fold_weight(rows, held_out=self._data.folds.is_held_out(matrix))
        margin = margin.reshape(len(label), -1)
        return "ipcw_log_loss", self._metric(margin, label, weight, rows)

    _constraint_params = staticmethod(constraint_params)

    def _refresh_callback(self, params: Mapping[str, Any] | None) -> Any:
        return _Refresh(self, params)

    def _own_rows(self, matrix: Any) -> IntArray:
        return own_rows(matrix, self._mark())

    # ----------------------------------------------------------------------------------- prediction
    def _check_model(self, model: Any) -> None:
        self._check_trained(model.feature_names, margins_of(model))

    def _finished_model(self, model: Any) -> Any:
        return model[: rounds_of(model)]


class _BinaryMargin:
    """Prediction code of a censoring booster."""

    def __init__(self, booster: Any, schema: Features) -> None:
        self.booster = booster
        self.schema = schema

    def margin(self, matrix: Float32Array, start: FloatArray) -> FloatArray:
        trees = Evaluator(self.booster, self.schema).sum_of_trees(matrix)
        return np.asarray(trees[:, 0] + start, np.float64)


class CensoringTrainer(alternation.CensoringTrainer):
    """Native ``binary:logistic`` on the rows of the censoring model, with new weights each time."""

    def __init__(self, features: Features, params: Mapping[str, Any]) -> None:
        super().__init__()
        self._features = features
        self._params = {
            **params,
            "objective": "binary:logistic",
            "base_score": 0.5,
            "monotone_constraints": str(tuple(rising_in_time(features))),
        }
        self._matrices: list[Any] = []
        self._booster: Any = None

    def add(self, values: Float32Array, start: FloatArray) -> int:
        same_bins = {"ref": self._matrices[0]} if self._matrices else {}
        matrix = row_matrix(xgb.QuantileDMatrix, values, self._features, start, **same_bins)
        self._matrices.append(matrix)
        return len(self._matrices) - 1

    def advance(self, weight: FloatArray, n_rounds: int) -> None:
        if self._booster is None:
            self._booster = xgb.Booster(self._params, self._matrices)
        rows = self._matrices[0]
        rows.set_info(label=self._target, weight=weight)
        for number in range(self.n_rounds, self.n_rounds + n_rounds):
            self._booster.update(rows, number)

    def margin(self, key: int) -> npt.ArrayLike:
        margin: Float32Array = self._booster.predict(self._matrices[key], output_margin=True)
        return margin.reshape(-1, 1)

    def model(self) -> MarginModel:
        # A copy: evaluation sets its number of threads.
        return _BinaryMargin(self._booster.copy(), self._features.schema)


class _LiveModel:
    """The booster of a training, and matrices on which it predicts cheaply."""

    def __init__(
        self, booster: Any, objective: IPCWObjective, params: Mapping[str, Any] | None
    ) -> None:
        self._booster = booster
        self._objective = objective
        self._params = params

    @cached_property
    def _probes(self) -> Any:
        own = self._objective
        return own._matrix(xgb.QuantileDMatrix, *own._probe_rows(), ref=own.dtrain)

    def row_margin(self) -> npt.ArrayLike:
        margin: npt.ArrayLike = self._booster.predict(self._objective.dtrain, output_margin=True)
        return margin

    def probe_margin(self) -> npt.ArrayLike:
        margin: npt.ArrayLike = self._booster.predict(self._probes, output_margin=True)
        return margin

    def new_trainer(self) -> CensoringTrainer:
        params = _tree_params(self._booster) if self._params is None else self._params
        return CensoringTrainer(self._objective._features, params)


class _Refresh(xgb.callback.TrainingCallback):  # type: ignore[misc, name-defined]
    """Translates XGBoost's callback protocol into `Alternation`."""

    def __init__(self, objective: IPCWObjective, params: Mapping[str, Any] | None) -> None:
        super().__init__()
        self._objective = objective
        self._params = params
        self._thread = TrainingThread()
        self._alternation: alternation.Alternation | None = None

    def before_training(self, model: Any) -> Any:
        if not isinstance(model, xgb.Booster):
            msg = (
                "xgb.cv trains all folds side by side and shows a callback no single booster, so "
                "weights cannot be refreshed there. Run `xgb.train` on the people of each fold."
            )
            raise TypeError(msg)
        if model.num_boosted_rounds():
            raise ValueError(alternation.CONTINUED)
        self._thread.check()
        self._alternation = self._objective._new_alternation()
        self._model = _LiveModel(model, self._objective, self._params)
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
        if self._alternation is None:
            msg = "This callback missed the start of training. Pass it to `xgb.train`."
            raise RuntimeError(msg)
        self._alternation.before_round(self._model, epoch, self._objective._slot)
        return False  # True would stop training.


def _tree_params(booster: Any) -> dict[str, Any]:
    """Tree, seed and thread settings of a live booster."""
    config = json.loads(booster.save_config())["learner"]
    generic = config["generic_param"]
    booster_config = config["gradient_booster"]
    # DART keeps its trees in a booster inside.
    trees = booster_config.get("gbtree", booster_config).get("tree_train_param", {})
    return {
        **{name: generic[name] for name in ("seed", "nthread", "device")},
        **{name: value for name, value in trees.items() if name not in _NOT_INHERITED},
    }

"""CatBoost: the IPCW log-loss as a custom loss class, with a callback that refreshes weights.

Host conventions met here, and only here: CatBoost maximises, so it gets the derivatives of minus
the loss, row by row, with the full Hessian (or, for a single margin, in ranges, with the diagonal);
a wrong length crashes it, so all arrays are created here. It shows a loss neither row numbers
nor new weights nor, with several margins, where they start, so the target column holds the row
number, by which the loss looks these up with the label. CatBoost copies its parameters for every
training; a copy of the loss shares everything but the weights of its training, so that several
trainings may run at a time. Callbacks see no model and cannot predict, but a metric sees the
margins of all training rows: those at which the feedback loop needs the event model are in the
training pool as rows of weight 0. CatBoost's split scores count rows by the weights of the pool,
which stay the initial ones; leaf values follow the refreshed ones.
``catboost.cv`` does not tell a loss which fold it trains, so all folds share the weights from the
censoring of all people, and it has no callbacks, so there is no refresh.
"""

from __future__ import annotations

import copy
import hashlib
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import column_names, import_engine, rising_in_time
from survival_objectives._horizons.completion import one_state
from survival_objectives._horizons.rows import Probes
from survival_objectives._plugin.objective import TrainingProblem
from survival_objectives._plugin.problem_rows import ProblemRows, counted_target
from survival_objectives._plugin.slot import RowTargets, TrainingThread
from survival_objectives.adapters.catboost._censoring import CensoringTrainer, SeenMargins
from survival_objectives.adapters.catboost._derivatives import compiled_derivatives
from survival_objectives.adapters.catboost._pool import (
    TrainingPool,
    check_unscaled,
    constraint_params,
    directions_of,
    loss_of,
    refuse_directions,
    row_pool,
)
from survival_objectives.losses import Target, gradient_hessian, pointwise_log_loss

catboost = import_engine("catboost")


# CatBoost stores targets, and so our row numbers, as float32, which counts exactly up to here.
_MAX_NUMBERED_ROWS = 2**24
# Labels of states and classes are below; CatBoost logs a line about targets above the other.
_MAX_USER_LABEL, _QUIET_NUMBERS = 100, 900_000
# Several threads may share a loss, whose pool is made at the first access.
_MAKING = threading.RLock()
# CatBoost encodes categories by statistics of the target, which here is a row number: only
# encodings that do not use it make sense.
_CATEGORY_PARAMS = {"one_hot_max_size": 255, "simple_ctr": "Counter", "combinations_ctr": "Counter"}


class _Trainings(threading.local):
    """The latest training that this thread began with a loss or a copy of it."""

    def __init__(self) -> None:
        self._latest: weakref.ref[IPCWLoss] | None = None

    def begin(self, training: IPCWLoss) -> None:
        self._latest = weakref.ref(training)

    def latest(self) -> IPCWLoss | None:
        return None if self._latest is None else self._latest()

    def __reduce__(self) -> tuple[type[_Trainings], tuple[()]]:
        return _Trainings, ()


class IPCWLoss(TrainingProblem):
    """The IPCW log-loss as a custom loss of CatBoost, with the rows it is trained on.

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> from catboost import CatBoost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = rng.integers(0, 3, 200), rng.exponential(size=200)
    >>> loss = IPCWLoss(X, y, random_state=0)
    >>> model = CatBoost({**loss.params, "loss_function": loss, "iterations": 20, "depth": 3,
    ...                   "verbose": False})
    >>> _ = model.fit(loss.train_pool, callbacks=[loss.refresh()])
    >>> loss.predict_cumulative_incidence(model, X[:2], [0.5, 1.0]).shape
    (2, 3, 2)
    """

    #: CatBoost would try, in vain and with a warning, to compile our methods itself.
    no_jit = True
    _engine_name = "catboost"
    #: Fewer than elsewhere: each is a row of weight 0 that the loss is called for.
    _n_nodes = 8
    _transient = (*TrainingProblem._transient, "_train_pool", "_table", "calc_ders_multi")

    def __new__(
        cls,
        X: Any = None,  # noqa: ARG004
        y: Any = None,
        *,
        margins: str = "reference",
        sample_weight: Any = None,
        **_: Any,
    ) -> Any:
        """Make a loss for one margin or for several, which are two classes for CatBoost."""
        if cls is IPCWLoss and y is not None:
            one = margins == "reference" and counted_target(y, sample_weight).n_causes == 1
            cls = _OneMarginLoss if one else _SeveralMarginsLoss
        return super().__new__(cls)

    def _is_monotone(self, monotone: bool | None) -> bool:
        is_monotone = super()._is_monotone(monotone)
        if monotone and self.n_margins > 1:
            msg = (
                f"CatBoost ignores monotone constraints for {self.n_margins} margins with "
                "Newton leaves. Leave out `monotone`, or use XGBoost or LightGBM."
            )
            raise ValueError(msg)
        return is_monotone and self.n_margins == 1

    def _set_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        streams: Sequence[np.random.Generator],
        whole: ProblemRows | None = None,
    ) -> None:
        super()._set_rows(X, y, sample_weight, streams, whole)
        # Every refresh needs the event model at some more rows; see the module's top.
        self._probes: Probes | None = None if self._data.fixed else self._data.event_probes
        n_probes = 0 if self._probes is None else self._probes.n_probes
        n_rows = self._events.n_rows + n_probes
        if n_rows > _MAX_NUMBERED_ROWS:
            msg = (
                f"{n_rows} stacked rows are more than CatBoost can number ({_MAX_NUMBERED_ROWS}). "
                "Lower `n_horizons`, or use XGBoost or LightGBM."
            )
            raise ValueError(msg)
        self._targets = self._with_rows(self.target, np.zeros(n_probes, np.int32))
        self._starts = self._start_margin(self._events.horizon)
        if self._probes is not None:
            start = self._start_margin(self._probes.feature)
            self._starts = np.concatenate([self._starts, start])
        no_weight = np.zeros(n_probes, np.float32)
        self._first_weight = np.concatenate([self.initial_weight, no_weight])
        self._pool_weight = self._first_weight
        if self._data.row_weight is not self.initial_weight:
            self._pool_weight = np.concatenate([self._data.row_weight, no_weight])
        # Row numbers begin where no label of the user's does, and elsewhere for other losses.
        digest = hashlib.sha256(self.initial_weight.tobytes() + self.horizon.tobytes()).digest()
        room = max(1, _QUIET_NUMBERS - _MAX_USER_LABEL - n_rows)
        self._first_number = _MAX_USER_LABEL + int.from_bytes(digest[:4], "little") % room
        self._trainings = _Trainings()
        self._begin_training()

    def _with_rows(self, target: Target, labels: npt.NDArray[np.int32]) -> Target:
        """Targets with those of more rows, which have labels."""
        more: Target = labels
        if target.ndim == 2:
            more = one_state(labels, target.shape[1])
        return np.concatenate([target, more])

    def _begin_training(self) -> None:
        self._seen = SeenMargins(len(self._pool_weight), self.n_margins)
        if self._schedule.is_due(1) and self._probes is not None:
            self._seen.watch()  # The callback comes after the first round, too late to ask for it.

    @cached_property
    def _table(self) -> FloatArray:
        """What training looks up, a line per row: weight, targets and starts of the margins.

        A refresh writes weights and targets in place. One array rather than three: each costs the
        compiled call time.
        """
        rows = slice(len(self._pool_weight))
        targets = self._target_columns(self._targets[rows])
        return np.column_stack([self._first_weight, targets, self._starts[rows]])

    def _target_columns(self, target: Target) -> npt.NDArray[Any]:
        """Probabilities of the states that have a margin."""
        if target.ndim == 1:
            target = one_state(target, self._target.n_causes + 1)
        return target[:, int(self._reference) :]

    def _train_on(self, targets: RowTargets) -> None:
        """Use other targets and weights from the next round on."""
        rows = slice(self._events.n_rows)
        self._table[rows, 0] = targets.weight
        if targets.target.ndim == 2:
            self._table[rows, 1 : 1 + self.n_margins] = self._target_columns(targets.target)

    def __deepcopy__(self, memo: dict[int, Any]) -> IPCWLoss:
        """The same problem with the weights of a training of its own; see the module's top."""
        training: IPCWLoss = copy.copy(self)
        memo[id(self)] = training
        return training

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin_training()
        self._trainings.begin(self)

    # ------------------------------------------------------------------------- what training takes
    @property
    def train_pool(self) -> Any:
        """`catboost.Pool` of the stacked rows, the horizon as last column."""
        with _MAKING:
            if not hasattr(self, "_train_pool"):
                matrix = self._events.matrix(self._features)
                if self._probes is not None:
                    matrix = np.concatenate([matrix, self._probes.matrix(self._features)])
                self._train_pool = self._pool(matrix, self._pool_weight, first=0, kind=TrainingPool)
            return self._train_pool

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that this loss needs; merge your own into them."""
        params: dict[str, Any] = {
            "eval_metric": self.metric,
            "random_seed": self._engine_seed,
            "leaf_estimation_method": "Newton",
            "leaf_estimation_iterations": 1,
            "allow_writing_files": False,
        }
        if self._monotone:
            params["monotone_constraints"] = rising_in_time(self._features)
            # CatBoost shrinks constrained models by default, which moves the start as well.
            params["model_shrink_rate"] = 0
        if self._features.categories:
            params.update(_CATEGORY_PARAMS)
        return params

    def held_out(self, X: Any = None, y: Any = None) -> Any:
        """`catboost.Pool` of held-out people, for ``eval_set`` and early stopping.

        Without arguments, those that this objective of a `cross_fit` holds out.
        Their weights come from the censoring of the training people, and stay the same during
        training so that the scores of all rounds can be compared.
        """
        with _MAKING:
            rows = self._held_out_rows(X, y)
            first = len(self._targets)
            self._targets = self._with_rows(self._targets, rows.target)
            self._starts = np.concatenate([self._starts, rows.start])
        return self._pool(rows.matrix, rows.weight, first=first)

    def _pool(
        self, matrix: Float32Array, weight: Float32Array, first: int, kind: type = catboost.Pool
    ) -> Any:
        # CatBoost wants a target column for each margin, and none of them constant.
        first += self._first_number
        if first + len(matrix) > _MAX_NUMBERED_ROWS:
            msg = (
                f"With these {len(matrix)} there are more stacked rows than CatBoost can number "
                f"({_MAX_NUMBERED_ROWS}). Lower `n_horizons`, or hold out fewer people."
            )
            raise ValueError(msg)
        numbers = np.arange(first, first + len(matrix), dtype=np.float32)
        numbers = np.tile(numbers[:, None], self.n_margins)
        names = self._marked(column_names(self._features))
        return row_pool(matrix, self._features, names, kind, label=numbers, weight=weight)

    # ------------------------------------------------------------------------------------- the loss
    @property
    def _hessian_scale(self) -> float:
        return 1.0

    @property
    def metric(self) -> Any:
        """The IPCW log-loss as a CatBoost metric, for ``eval_metric`` and early stopping."""
        return (IPCWLogLoss if self.n_margins == 1 else _IPCWLogLossMulti)(self)

    def _constraint_params(
        self, directions: list[int] | None, groups: list[list[int]] | None
    ) -> dict[str, Any]:
        return constraint_params(directions, groups, self.n_margins)

    def _refresh_callback(self, params: Mapping[str, Any] | None) -> Any:
        return _Refresh(self, params)

    def _own_rows(self, numbers: npt.NDArray[Any], weight: Float32Array | None) -> IntArray:
        """Rows by their numbers; refuses a pool of another loss by its numbers or weights."""
        rows = numbers.astype(np.int64) - self._first_number
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self._targets)):
            msg = (
                f"This pool has the label {numbers.max():g}, which is no row number of this loss. "
                "Train on `loss.train_pool`, and evaluate on `loss.held_out(X, y)`."
            )
            raise ValueError(msg)
        training = rows < len(self._pool_weight)
        own = self._pool_weight[rows[training]]
        given = np.ones_like(own) if weight is None or not len(weight) else weight[training]
        if not np.array_equal(own, given):
            msg = "The weights of this pool are not those of this loss. Train on `loss.train_pool`."
            raise ValueError(msg)
        return rows

    def _metric_weight(self, rows: IntArray, weight: Float32Array | None) -> Float32Array | None:
        """Weights of rows in the metric: of training rows the first ones, else those of the pool.

        They differ for doubly robust targets, where rows without a label count from the second
        refresh on.
        """
        if self._first_weight is self._pool_weight or weight is None or not len(weight):
            return weight
        training = rows < len(self._first_weight)
        own = weight.copy()
        own[training] = self._first_weight[rows[training]]
        return own

    # ----------------------------------------------------------------------------------- prediction
    def _check_model(self, model: Any) -> None:
        trained = loss_of(model)
        same_loss = "Logloss" if self._reference else "MultiClass"
        if trained not in (None, same_loss) and not str(trained).startswith("PythonUserDefined"):
            msg = (
                f"This model was trained with CatBoost's own loss {trained!r}. "
                'Train it with `{**loss.params, "loss_function": loss}`.'
            )
            raise ValueError(msg)
        self._check_trained(model.feature_names_, check_unscaled(model))
        refuse_directions(directions_of(model), self.n_margins)

    def _finished_model(self, model: Any) -> Any:
        return model.copy()


class _OneMarginLoss(IPCWLoss):
    """A single cause with the reference link: CatBoost asks for ranges of rows."""

    def calc_ders_range(
        self,
        approxes: FloatArray,
        targets: Float32Array,
        weights: Float32Array | None,
    ) -> FloatArray:
        """Derivatives of minus the loss, (n_rows, 2)."""
        rows = self._own_rows(targets, weights)
        weight, happened = self._table[rows, 0], self._table[rows, 1]
        gradient, hessian = gradient_hessian(
            approxes + self._starts[rows, 0],
            np.column_stack([1 - happened, happened]),
            weight,
            reference=True,
        )
        # CatBoost maximises: it wants the derivatives of minus the loss.
        return np.column_stack([-gradient, -hessian]).astype(np.float64, copy=False)


class _SeveralMarginsLoss(IPCWLoss, catboost.MultiTargetCustomObjective):  # type: ignore[misc, name-defined]
    """Several margins: CatBoost asks for one row at a time, so the derivatives are compiled."""

    @cached_property
    def calc_ders_multi(self) -> Callable[..., Any]:
        """Compiled derivatives of minus the loss of one row, by its number."""
        # The table is bound by reference, so the compiled code reads the refreshed weights.
        return partial(
            compiled_derivatives(self.n_margins, self._reference), self._table, self._first_number
        )


class IPCWLogLoss:
    """The IPCW log-loss as a metric of CatBoost, which prints the name of this class."""

    no_jit = True

    def __init__(self, loss: IPCWLoss) -> None:
        self._loss = loss

    def __deepcopy__(self, memo: dict[int, Any]) -> IPCWLogLoss:
        # What it sees belongs to the copy of the loss that is being trained.
        return type(self)(copy.deepcopy(self._loss, memo))

    def is_max_optimal(self) -> bool:
        """Lower is better."""
        return False

    def evaluate(
        self, approxes: tuple[FloatArray, ...], target: Any, weight: Float32Array | None
    ) -> tuple[float, float]:
        """Sum of the losses and of the weights of some rows."""
        numbers = target[0] if isinstance(target, tuple) else target
        rows = self._loss._own_rows(numbers, weight)
        margin = np.column_stack(approxes) + self._loss._starts[rows]
        self._loss._seen.record(rows, margin)
        weight = self._loss._metric_weight(rows, weight)
        losses = pointwise_log_loss(
            margin, self._loss._targets[rows], weight, reference=self._loss._reference
        )
        return float(losses.sum()), float(len(rows) if weight is None else weight.sum())

    def get_final_error(self, error: float, weight: float) -> float:
        """Weighted mean loss."""
        return error / weight


class _IPCWLogLossMulti(IPCWLogLoss, catboost.MultiTargetCustomMetric):  # type: ignore[misc, name-defined]
    """The same for several margins; CatBoost decides by the base class."""


_IPCWLogLossMulti.__name__ = "IPCWLogLoss"


@dataclass(frozen=True)
class _LiveModel:
    """What the metric saw of the model: margins of the event rows, then those of the probes."""

    loss: IPCWLoss
    margin: FloatArray
    params: Mapping[str, Any] | None

    def row_margin(self) -> npt.ArrayLike:
        return self.margin[: self.loss._events.n_rows]

    def probe_margin(self) -> npt.ArrayLike:
        return self.margin[self.loss._events.n_rows :]

    def new_trainer(self) -> CensoringTrainer:
        return CensoringTrainer(self.loss._features, self.loss._engine_seed, self.params)


class _Refresh:
    """Translates CatBoost's callback protocol into `Alternation`."""

    def __init__(self, loss: IPCWLoss, params: Mapping[str, Any] | None) -> None:
        self._loss = loss
        self._params = params
        self._thread = TrainingThread()
        self._iteration = 0
        self._begin()

    def _begin(self) -> None:
        self._alternation = self._loss._new_alternation()
        self._training: IPCWLoss | None = None
        self._n_rounds = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> _Refresh:
        # Only parameters are copied, and among these CatBoost would silently ignore it.
        msg = "Pass this callback to `fit(callbacks=[...])`; `catboost.cv` cannot refresh weights."
        raise TypeError(msg)

    def after_iteration(self, info: Any) -> bool:
        self._thread.check()
        if info.iteration <= self._iteration:
            self._begin()  # The counter went back: another training with this callback.
        self._iteration = info.iteration
        loss, alternation = self._loss, self._alternation
        if self._training is None:
            self._training = loss._trainings.latest() or loss
        self._n_rounds += 1
        if alternation.is_due(self._n_rounds):
            model = _LiveModel(loss, self._training._seen.take(), self._params)
            alternation.refresh(model, self._n_rounds)
        if loss._schedule.is_due(self._n_rounds + 1):
            self._training._seen.watch()
        self._training._train_on(alternation.targets)
        return True  # False would stop training.

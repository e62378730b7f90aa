"""LightGBM: the IPCW log-loss as ``params["objective"]``, with a callback that refreshes weights.

Host conventions met here, and only here: margins come as (n_rows, n_margins) float64 in Fortran
order (one margin comes flat) and derivatives go back as Fortran-order float32, which LightGBM takes
without a copy; with the free link LightGBM's own softmax scales the Hessian by C / (C - 1) for C
classes, so we do; ``lgb.train`` deep-copies its parameters, so our copy is the object itself; a
custom objective starts from the ``init_score`` of the Dataset, which predictions leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import column_names, import_engine, rising_in_time
from survival_objectives._people import Features
from survival_objectives._plugin import alternation
from survival_objectives._plugin.objective import TrainingProblem
from survival_objectives._plugin.slot import TrainingThread
from survival_objectives.adapters.lightgbm._dataset import (
    MAKING,
    TrainingDataset,
    constraint_params,
    engine_params,
    own_loss_named,
    own_rows,
    row_dataset,
)
from survival_objectives.censoring import MarginModel
from survival_objectives.losses import gradient_hessian

lgb = import_engine("lightgbm")

# Settings of the event model that its censoring model must not inherit.
_NOT_INHERITED = ("objective", "metric", "num_class", "monotone_constraints")


class IPCWObjective(TrainingProblem):
    """The IPCW log-loss as a custom objective of LightGBM, with the rows it is trained on.

    {parameters}

    Examples
    --------
    >>> import lightgbm as lgb, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = rng.integers(0, 3, 200), rng.exponential(size=200)
    >>> objective = IPCWObjective(X, y, random_state=0)
    >>> params = {**objective.params, "objective": objective, "num_leaves": 7}
    >>> booster = lgb.train(params, objective.train_set, num_boost_round=20,
    ...                     callbacks=[objective.refresh()])
    >>> objective.predict_cumulative_incidence(booster, X[:2], [0.5, 1.0]).shape
    (2, 3, 2)
    """

    _transient = (*TrainingProblem._transient, "_train_set")
    _engine_name = "lightgbm"

    def __deepcopy__(self, memo: dict[int, Any]) -> IPCWObjective:
        # lgb.train deep-copies `params`; a copy would never see the refreshed weights.
        return self

    # ------------------------------------------------------------------------- what training takes
    @property
    def train_set(self) -> Any:
        """`lightgbm.Dataset` of the stacked rows, the horizon as last column."""
        with MAKING:
            if not hasattr(self, "_train_set"):
                self._train_set = row_dataset(
                    self._events.matrix(self._features),
                    self._features,
                    self._start_margin(self._events.horizon),
                    kind=TrainingDataset,
                    feature_name=self._marked(column_names(self._features)),
                    label=self._events.target,
                    weight=self.initial_weight,
                ).keep(
                    self._start_margin(self._events.horizon),
                    partial(self._events.matrix, self._features),
                )
            return self._train_set

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that this objective needs; merge your own into them."""
        params = engine_params(self.n_margins, self._engine_seed)
        if self._monotone:
            params["monotone_constraints"] = rising_in_time(self._features)
        return params

    def held_out(self, X: Any = None, y: Any = None) -> Any:
        """`lightgbm.Dataset` of held-out people, for ``valid_sets`` and early stopping.

        Without arguments, those that this objective of a `cross_fit` holds out.
        Their weights come from the censoring of the training people, and stay the same during
        training so that the scores of all rounds can be compared.
        """
        rows = self._held_out_rows(X, y)
        return row_dataset(
            rows.matrix,
            self._features,
            rows.start,
            feature_name=self._marked(column_names(self._features)),
            label=rows.target,
            weight=rows.weight,
            reference=self.train_set,
            kind=TrainingDataset,
        ).keep(rows.start, lambda: rows.matrix)

    # ------------------------------------------------------------------------------- the objective
    def __call__(self, margin: npt.NDArray[Any], dataset: Any) -> tuple[Float32Array, Float32Array]:
        """Gradient and Hessian of every row, as ``lgb.train`` expects them."""
        rows = self._own_rows(dataset)
        if rows is not None:
            self._data.folds.trains_on(dataset)
            if dataset._predictor is not None:
                msg = (
                    "`lgb.cv` with `init_model` would evaluate folds by a model of their own "
                    "people. Train each fold from its beginning."
                )
                raise ValueError(msg)
        gradient, hessian = self._derivatives(margin, rows, order="F")
        return (gradient[:, 0], hessian[:, 0]) if self.n_margins == 1 else (gradient, hessian)

    @property
    def _hessian_scale(self) -> float:
        n_classes = self._target.n_causes + 1
        return 1.0 if self._reference else n_classes / (n_classes - 1)

    def metric(self, margin: npt.NDArray[Any], dataset: Any) -> tuple[str, float, bool]:
        """Name and value of the IPCW log-loss (lower is better), for ``feval=objective.metric``."""
        if not isinstance(dataset, TrainingDataset):
            self._own_rows(dataset)  # A fold, or refused.
        label, weight = dataset.get_label(), dataset.get_weight()
        rows: IntArray | slice | None = None
        if dataset is getattr(self, "_train_set", None):
            rows = slice(None)
        elif dataset.used_indices is not None:
            rows = self._own_rows(dataset)
            if rows is not None:
                weight = self._data.fold_weight(
                    rows, held_out=self._data.folds.is_held_out(dataset)
                )
        margin = margin.reshape(len(label), -1, order="F")
        return "ipcw_log_loss", self._metric(margin, label, weight, rows), False

    _constraint_params = staticmethod(constraint_params)

    def _refresh_callback(self, params: Mapping[str, Any] | None) -> Any:
        return _Refresh(self, params)

    def _own_rows(self, dataset: Any) -> IntArray | None:
        """Row numbers of a fold of our Dataset, or None for the whole of it."""
        return own_rows(dataset, getattr(self, "_train_set", None))

    # ----------------------------------------------------------------------------------- prediction
    def _check_model(self, model: Any) -> None:
        same_loss = "binary" if self._reference else "multiclass"
        other = own_loss_named(model, rf"{same_loss}( sigmoid:1$| num_class:|$)")
        if other is not None:
            msg = (
                f"This booster was trained with LightGBM's own objective {other!r}. "
                'Train it with `{**objective.params, "objective": objective}`.'
            )
            raise ValueError(msg)
        names = model.feature_name()
        is_unnamed = names == [f"Column_{number}" for number in range(len(names))]
        self._check_trained(None if is_unnamed else names, model.num_model_per_iteration())

    def _finished_model(self, model: Any) -> Any:
        # As text, a booster ends at its best round, and holds neither data nor training state.
        return lgb.Booster(model_str=model.model_to_string())


class _KeptRows:
    """Margins of a live booster on rows that are evaluated repeatedly.

    Each call evaluates only the trees since the last one, but for DART, which rescales older trees.
    """

    def __init__(self, values: Float32Array, start: FloatArray, params: Mapping[str, Any]) -> None:
        self._values = values
        self._start = start
        self._whole = _is_dart(params)
        self._forget()

    def _forget(self) -> None:
        self._margin = self._start.copy()
        self._n_rounds = 0

    def __call__(self, booster: Any) -> FloatArray:
        if self._whole:
            self._forget()
        n_rounds = booster.current_iteration()
        if n_rounds > self._n_rounds:
            self._margin += booster.predict(
                self._values,
                raw_score=True,
                start_iteration=self._n_rounds,
                num_iteration=n_rounds - self._n_rounds,
            ).reshape(self._margin.shape)
            self._n_rounds = n_rounds
        return self._margin


class _TrainingRowMargins:
    """Margins of a live booster at its training rows.

    LightGBM keeps the margins of its training rows, so reading them costs nothing. But for DART,
    which takes trees out of the model for the next round whenever they are read.
    """

    def __init__(
        self, values: Callable[[], Float32Array], start: FloatArray, params: Mapping[str, Any]
    ) -> None:
        self._n_rows = len(start)
        self._kept: _KeptRows | None = None
        if _is_dart(params):
            self._kept = _KeptRows(values(), start, params)

    def __call__(self, booster: Any) -> FloatArray:
        if self._kept is not None:
            return self._kept(booster)
        return _training_margin(booster).reshape(self._n_rows, -1, order="F")


def _is_dart(params: Mapping[str, Any]) -> bool:
    return any(params.get(name) == "dart" for name in ("boosting", "boosting_type", "boost"))


def _training_margin(booster: Any) -> FloatArray:
    """Current margins at the training rows: LightGBM keeps them and shows them to a metric."""
    seen: list[FloatArray] = []

    def look(margin: FloatArray, dataset: Any) -> tuple[str, float, bool]:  # noqa: ARG001
        seen.append(margin)
        return "look", 0.0, False

    booster.eval_train(look)
    return seen[0]


class _BinaryMargin:
    """Prediction code of a censoring booster, kept as text because a live one cannot be copied."""

    def __init__(self, booster: Any) -> None:
        self.booster = lgb.Booster(model_str=booster.model_to_string())

    def margin(self, matrix: Float32Array, start: FloatArray) -> FloatArray:
        return np.asarray(self.booster.predict(matrix, raw_score=True) + start, dtype=np.float64)


class CensoringTrainer(alternation.CensoringTrainer):
    """Our own loss with one margin on the rows of the censoring model, with new weights each time.

    Its bins are those of the event model's rows, ``bins``.
    """

    def __init__(self, features: Features, bins: Any, params: Mapping[str, Any]) -> None:
        super().__init__()
        self._features, self._bins = features, bins
        self._params = {
            **params,
            "objective": "none",
            "metric": "None",
            "num_class": 1,
            "monotone_constraints": rising_in_time(features),
        }
        self._margins: list[Callable[[Any], FloatArray]] = []
        self._booster: Any = None

    def add(self, values: Float32Array, start: FloatArray) -> int:
        if self._booster is None:
            options = {"reference": self._bins, "params": self._bins.get_params()}
            train_set = row_dataset(values, self._features, start, **options)
            self._booster = lgb.Booster(self._params, train_set)
            self._margins.append(_TrainingRowMargins(lambda: values, start, self._params))
        else:
            self._margins.append(_KeptRows(values, start, self._params))
        return len(self._margins) - 1

    def advance(self, weight: FloatArray, n_rounds: int) -> None:
        weight = weight.astype(np.float32)
        out = np.empty((2, len(weight), 1), np.float32)

        def loss(margin: npt.NDArray[Any], dataset: Any) -> tuple[Float32Array, Float32Array]:  # noqa: ARG001
            gradient, hessian = gradient_hessian(
                margin, self._target, weight, reference=True, out=(out[0], out[1])
            )
            return gradient[:, 0], hessian[:, 0]

        for _ in range(n_rounds):
            self._booster.update(fobj=loss)

    def margin(self, key: int) -> npt.ArrayLike:
        return self._margins[key](self._booster)

    def model(self) -> MarginModel:
        return _BinaryMargin(self._booster)


class _LiveModel:
    """The booster of a training, with its own parameters, and rows at which it is evaluated."""

    def __init__(
        self,
        booster: Any,
        own_params: Mapping[str, Any],
        objective: IPCWObjective,
        params: Mapping[str, Any] | None,
    ) -> None:
        self._booster = booster
        self._objective = objective
        self._own_params = own_params
        self._params = params

    @cached_property
    def _at_rows(self) -> _TrainingRowMargins:
        objective = self._objective
        values = partial(objective._events.matrix, objective._features)
        start = objective._start_margin(objective.horizon)
        return _TrainingRowMargins(values, start, self._own_params)

    @cached_property
    def _at_probes(self) -> _KeptRows:
        return _KeptRows(*self._objective._probe_rows(), self._own_params)

    def row_margin(self) -> npt.ArrayLike:
        return self._at_rows(self._booster)

    def probe_margin(self) -> npt.ArrayLike:
        return self._at_probes(self._booster)

    def new_trainer(self) -> CensoringTrainer:
        params = _tree_params(self._own_params) if self._params is None else self._params
        return CensoringTrainer(self._objective._features, self._objective.train_set, params)


class _Refresh:
    """Translates LightGBM's callback protocol into `Alternation`."""

    before_iteration = True  # LightGBM calls us before each round, with the rounds so far.
    order = 0

    def __init__(self, objective: IPCWObjective, params: Mapping[str, Any] | None) -> None:
        self._objective = objective
        self._params = params
        self._thread = TrainingThread()
        self._alternation: alternation.Alternation | None = None

    def __call__(self, env: Any) -> None:
        if not isinstance(env.model, lgb.Booster):
            msg = (
                "lgb.cv trains all folds side by side, each with other people, so weights cannot "
                "be refreshed there. Run `lgb.train` on the people of each fold."
            )
            raise TypeError(msg)
        self._thread.check()
        if env.begin_iteration > 0:
            raise ValueError(alternation.CONTINUED)
        n_rounds = env.iteration - env.begin_iteration
        if n_rounds == 0 or self._alternation is None:
            self._alternation = self._objective._new_alternation()
            self._model = _LiveModel(env.model, env.params, self._objective, self._params)
        self._alternation.before_round(self._model, n_rounds, self._objective._slot)


def _tree_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The event model's parameters, without those that make it one of several margins."""
    return {name: value for name, value in params.items() if name not in _NOT_INHERITED}

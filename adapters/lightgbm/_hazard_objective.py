"""LightGBM: hazards as ``params["objective"]``.

Conventions of the host as in `_objective`. The margins at which boosting starts are added here and
are no ``init_score``: with ``init_model``, LightGBM replaces that of a Dataset by the scores of the
model, also for later trainings without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.protocol import column_names, import_engine
from survival_objectives._hazards.plugin import MatrixRows
from survival_objectives._plugin.hazard_objective import HazardTrainingProblem
from survival_objectives.adapters.lightgbm._dataset import (
    MAKING,
    TrainingDataset,
    constraint_params,
    directions_of,
    engine_params,
    own_loss_named,
    own_rows,
    row_dataset,
)

lgb = import_engine("lightgbm")


class HazardObjective(HazardTrainingProblem):
    """The log-loss of discrete-time hazards as a custom objective of LightGBM, with its rows.

    {parameters}

    Examples
    --------
    >>> import lightgbm as lgb, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = rng.integers(0, 3, 200), rng.exponential(size=200)
    >>> objective = HazardObjective(X, y, random_state=0)
    >>> params = {**objective.params, "objective": objective, "num_leaves": 7}
    >>> booster = lgb.train(params, objective.train_set, num_boost_round=20)
    >>> objective.predict_cumulative_incidence(booster, X[:2], [0.5, 1.0]).shape
    (2, 3, 2)
    """

    _transient = ("_train_set", "_rows_of")
    _engine_name = "lightgbm"

    def __deepcopy__(self, memo: dict[int, Any]) -> HazardObjective:
        # lgb.train deep-copies `params`; a copy would not know its Dataset.
        return self

    # ------------------------------------------------------------------------- what training takes
    @property
    def train_set(self) -> Any:
        """`lightgbm.Dataset` of the risk-set rows, the interval as last column."""
        with MAKING:
            if "_train_set" not in self.__dict__:
                self._train_set = self._dataset(self._data.training, kind=TrainingDataset).keep()
            return self._train_set

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that this objective needs; merge your own into them."""
        # Hazards are small, and so are the Hessians of rows: leaves need a few events.
        own = {"min_sum_hessian_in_leaf": 15.0, "min_data_in_leaf": 1, "lambda_l2": 1.0}
        return {**engine_params(self.n_margins, self._engine_seed), **own}

    def held_out(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Any:
        """`lightgbm.Dataset` of held-out people, for ``valid_sets`` and early stopping.

        Without arguments, those that this objective of a `cross_fit` holds out.
        """
        rows = self._held_out_rows(X, y, sample_weight)
        return self._dataset(rows, reference=self.train_set)

    def _dataset(self, rows: MatrixRows, **options: Any) -> Any:
        dataset = row_dataset(
            rows.values,
            self._schema,
            None,
            feature_name=self._marked(column_names(self._schema)),
            label=rows.target,
            weight=rows.weight,
            # These rows are kept anyway, and a training can be continued on them.
            free_raw_data=False,
            **options,
        )
        self._known_rows()[dataset] = rows.n_people, np.asfortranarray(rows.start)
        return dataset

    _constraint_params = staticmethod(constraint_params)

    def _known_rows(self) -> WeakKeyDictionary[Any, tuple[float, FloatArray]]:
        """Total weight of the people, and starting margins, of own Datasets."""
        known: WeakKeyDictionary[Any, tuple[float, FloatArray]] = self.__dict__.setdefault(
            "_rows_of", WeakKeyDictionary()
        )
        return known

    def _started(self, margin: npt.NDArray[Any], dataset: Any) -> npt.NDArray[Any]:
        """Margins of own rows with their start, (n_rows, K)."""
        _, start = self._of(dataset)
        if margin.size != start.size:
            raise ValueError(self._wrong_margins(margin.size / len(start)))
        return margin.reshape(start.shape, order="F") + start

    def _of(self, dataset: Any) -> tuple[float, FloatArray]:
        known = self._known_rows()
        if dataset not in known:
            rows = own_rows(dataset, self.__dict__.get("_train_set"))
            assert rows is not None  # The whole Dataset is known.
            known[dataset] = self._n_people(rows), np.asfortranarray(self.start_margin[rows])
        return known[dataset]

    # ------------------------------------------------------------------------------- the objective
    def __call__(self, margin: npt.NDArray[Any], dataset: Any) -> tuple[Float32Array, Float32Array]:
        """Gradient and Hessian of every row, as ``lgb.train`` expects them."""
        rows = own_rows(dataset, self.__dict__.get("_train_set"))
        gradient, hessian = self._derivatives(self._started(margin, dataset), rows, order="F")
        return (gradient[:, 0], hessian[:, 0]) if self.n_margins == 1 else (gradient, hessian)

    def metric(self, margin: npt.NDArray[Any], dataset: Any) -> tuple[str, float, bool]:
        """Name and value of the negative log-likelihood per person (lower is better)."""
        label, weight = dataset.get_label().astype(np.int32), dataset.get_weight()
        loss = self._loss(self._started(margin, dataset), label, weight, self._of(dataset)[0])
        return "hazard_log_loss", loss, False

    # ----------------------------------------------------------------------------------- prediction
    def _columns_of(self, model: Any) -> Sequence[str] | None:
        columns: Sequence[str] = model.feature_name()
        return columns

    def _check_model(self, model: Any) -> None:
        other = own_loss_named(model, r"$")
        if other is not None:
            msg = (
                f"This booster was trained with LightGBM's own objective {other!r}. "
                'Train it with `{**objective.params, "objective": objective}`.'
            )
            raise ValueError(msg)
        self._check_trained(self._columns_of(model), model.num_model_per_iteration())

    _directions_of = staticmethod(directions_of)

    def _finished_model(self, model: Any) -> Any:
        # Text holds neither data nor training state, and ends at the best round.
        text = model.model_to_string()
        marked, names = self._columns_of(model) or [""], column_names(self._schema)
        return lgb.Booster(model_str=text.replace(marked[-1], names[-1].replace(" ", "_")))

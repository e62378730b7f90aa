"""One training problem of hazards, free of any engine: the face of the plugin."""

from __future__ import annotations

import copy
import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import engine
from survival_objectives._hazards.mixture import (
    ON_LINEAR,
    TREES,
    HazardModel,
    HazardTrees,
    Member,
    Mixture,
)
from survival_objectives._hazards.model import HazardMixture, HazardPredictions
from survival_objectives._hazards.people import InMemory
from survival_objectives._hazards.plugin import MatrixRows, PluginHazards
from survival_objectives._hazards.training import (
    BEYOND_FOLLOW_UP,
    N_INTERVALS,
    censored_at_end,
    knot_curves,
    people_on_axis,
)
from survival_objectives._models.fitted import TrainingRecord
from survival_objectives._models.frame import planned_frame
from survival_objectives._people import (
    Features,
    check_features,
    check_positive_int,
    check_random_state,
    check_sample_weight,
    check_times,
    warn_about_outcomes,
)
from survival_objectives._people.cohort import Cohort, MemoryBatches
from survival_objectives._people.labels import named_outcomes, names_of
from survival_objectives._people.outcomes import split_target
from survival_objectives._people.population import LocalReduction
from survival_objectives._plugin.problem import HOLDS_OUT_NO_ONE, PluginProblem
from survival_objectives._plugin.slot import DerivativeBuffers
from survival_objectives._process.running import interrupts_held, one_blas_thread
from survival_objectives.losses import pointwise_log_loss

_PARAMETERS = """Parameters
    ----------
    X : array or DataFrame of shape (n_samples, n_features)
        Numbers with NaN for missing; frames (pandas, polars) may have categorical columns.
    y : DataFrame, dict, structured array, tuple or array
        Outcomes: ``event`` (0 = censored, 1..K = causes, or text) and ``duration``, in any form
        that `HazardBoost.fit` accepts.
    n_intervals : int, optional
        Time intervals with about equally many events; hazards are constant in them. Default: 31.
    linear : bool, default=True
        Whether boosting starts from linear hazards of the features, or with False from the marginal
        hazards.
    rows_per_person : int, "all" or None
        Maximum number of rows per person, besides that of the last interval. Default: 8 up to
        50 000 people, and fewer above (equation (80)).
    sample_weight : array of shape (n_samples,), optional
        Weights of people, relative to each other. People of weight 0 are left out.
    groups : array of shape (n_samples,), optional
        Rows of one group, such as one person, are on one side of every fold. Default: copies are.
    random_state : int, Generator, RandomState or None
        Seed of the rows, the folds and the engine.

    Attributes
    ----------
    event_ids_ : array of shape (K + 1,)
        Labels of the curves: 0 for event-free, then the causes.
    event_names_ : tuple of str
        Names of the states."""

# What belongs to the weights of the horizons.
_OF_WEIGHTS = frozenset(
    {
        "n_horizons",
        "horizon_sampler",
        "horizon_max",
        "hard_zero_fraction",
        "refresh_every",
        "refresh",
        "refreshes_",
        "censoring",
        "censoring_",
        "completion",
        "doubly_robust",
        "margins",
        "start",
        "monotone",
        "min_censoring_survival",
        "min_event_survival",
    }
)
# Training people on whom feature importances are computed, and on whom models are told apart.
_IMPORTANCE_PEOPLE, _PROBES = 256, 16
_HEX_DIGITS = 8
_METHOD = "hazards"
# Fitted boosters whose correction in time is kept.
_MOST_KNOWN = 32


class HazardTrainingProblem(PluginProblem):
    """Risk-set rows and starting margins of one training problem of hazards.

    The public face of this class are its engine-specific children.

    {parameters}
    """

    _parameters_text = _PARAMETERS

    @interrupts_held()
    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        n_intervals: int | None = None,
        linear: bool = True,
        rows_per_person: int | str | None = None,
        sample_weight: Any = None,
        groups: Any = None,
        random_state: Any = None,
        **others: Any,
    ) -> None:
        for name in _OF_WEIGHTS.intersection(others):
            raise TypeError(self._other_subject(name))
        self._refuse_unknown(others, HazardTrainingProblem.__init__)
        flag: Any = linear
        if not isinstance(flag, bool | np.bool_):
            msg = f"`linear` must be True or False; got {flag!r}."
            raise TypeError(msg)
        n_intervals = N_INTERVALS if n_intervals is None else n_intervals
        check_positive_int(n_intervals, "n_intervals")
        if rows_per_person not in (None, "all"):
            check_positive_int(rows_per_person, "rows_per_person")
        generator = check_random_state(random_state)
        self._engine_seed = int(generator.integers(2**31 - 1))
        self._scratch = DerivativeBuffers()
        y, labels = named_outcomes(y)
        cohort = Cohort.checked(X, y, sample_weight, groups=groups, late_entry=True)
        warn_about_outcomes(cohort.target)
        cohort = cohort.with_relative_weights(LocalReduction())
        self._positions = _counted(y, sample_weight)
        whole = cohort.outcomes.people
        population = LocalReduction().population(whole.target, whole.weight)
        batches = MemoryBatches([cohort])
        frame = planned_frame(
            population,
            self._engine_name,
            batches.schema,
            horizon_max=None,
            n_jobs=None,
            beyond=BEYOND_FOLLOW_UP,
        )
        self._frame = replace(
            frame,
            event_names=names_of(labels, frame.event_ids),
        )
        until_end = replace(population, target=censored_at_end(population.target, frame))
        self._curves = knot_curves(frame, until_end, n_intervals)
        self._n_events = np.bincount(whole.target.event, minlength=frame.n_causes + 1)
        people = people_on_axis(frame, batches, batches.outcomes(), self._curves.knots)
        with one_blas_thread():
            self._data = PluginHazards.of(
                people,
                rows_per_person=rows_per_person,
                linear=bool(linear),
                generator=generator,
            )
        self._family = {self._fingerprint: self._data}
        self._known: dict[bytes, HazardModel] = {}

    def __getattr__(self, name: str) -> Any:
        # Only what does not exist comes here.
        if name in _OF_WEIGHTS:
            raise AttributeError(self._other_subject(name))
        msg = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(msg)

    def _other_subject(self, name: str) -> str:
        own = type(self).__name__
        return (
            f"{own} has no `{name}`: hazards need neither horizons nor weights of censoring. Leave "
            f"it out, or use {own.replace('Hazard', 'IPCW')}."
        )

    # ------------------------------------------------------------------------------- public facts
    @property
    def event_ids_(self) -> IntArray:
        return self._frame.event_ids

    @property
    def event_names_(self) -> tuple[str, ...]:
        """Names of the states, "event-free" first."""
        return self._frame.state_names

    def _check_directions(self, directions: list[int]) -> None:
        start = self._data.start
        if start.design is None or start.coefficients is None:
            return
        # An engine may know fewer directions than columns: the others have none.
        signs = start.design.directions([*directions, *[0] * self._schema.n_features])
        wrong = np.flatnonzero((signs * start.coefficients < 0).any(axis=0))
        if len(wrong):
            column = start.design.feature[wrong[0]]
            name = f"x{column}" if self._schema.names is None else self._schema.names[column]
            msg = (
                f"The linear hazards, from which boosting starts, go the other way in {name!r}. "
                "Construct with `linear=False`, or use HazardBoost with `engine_params`, which "
                "constrains them as well."
            )
            raise ValueError(msg)

    def _constrained_columns(self) -> tuple[Features, int]:
        return self._schema, 0  # Hazards are positive: curves need no direction of time.

    @property
    def n_margins(self) -> int:
        return self._frame.n_causes

    @property
    def person(self) -> IntArray:
        person = self._data.people.person
        unit = self._data.chosen if person is None else person
        return self._positions[unit[self._data.training.person]]

    @property
    def _fold_unit(self) -> IntArray:
        group = self._data.people.group
        return self.person if group is None else group[self._data.training.person]

    @property
    def interval(self) -> npt.NDArray[np.int16]:
        """Interval of each training row, also its last feature."""
        return self._data.rows.interval

    @property
    def knots_(self) -> FloatArray:
        """Ends of the intervals in time, (M + 1,)."""
        return self._curves.knots * (self._frame.axis.unit or 1.0)

    @property
    def target(self) -> npt.NDArray[np.int32]:
        """State of each training row at the end of its interval: 0 = event-free, 1..K = cause."""
        return self._data.training.target

    @property
    def weight(self) -> Float32Array:
        """Weight of each training row: how many intervals it stands for."""
        return self._data.training.weight

    @property
    def start_margin(self) -> FloatArray:
        """Margins at which boosting starts, (n_rows, K)."""
        return self._data.training.start

    @property
    def stacked_features(self) -> Float32Array:
        """Features of the training rows, the number of the interval last."""
        return self._data.training.values

    # ---------------------------------------------------------------------------- cross-validation
    def cross_fit(self, n_folds: int = 5) -> list[Self]:
        """Objectives of a cross-validation over people, with the intervals of this one.

        Each has the rows of the people outside of one fold, to whom its start is fitted too.
        ``part.held_out()`` is the matrix of the fold. Pass the trained boosters to `fitted`.
        """
        with one_blas_thread():
            found = self._data.cross_fit(check_positive_int(n_folds, "n_folds"))
        parts = [self._with_rows(data) for data in found]
        # Boosters of these parts are recognised as those of this objective are.
        self._family = {self._fingerprint: self._data}
        self._family.update((self._fingerprint_of(data), data) for data in found)
        return parts

    def _with_rows(self, data: PluginHazards) -> Self:
        """An objective that differs in its rows and their start."""
        part = copy.copy(self)
        for name in (*self._transient, "_fingerprint"):
            part.__dict__.pop(name, None)
        family = {self._fingerprint_of(data): data}
        part.__dict__.update(_data=data, _family=family, _known={}, _scratch=DerivativeBuffers())
        return part

    def _held_out_rows(self, X: Any, y: Any, sample_weight: Any) -> MatrixRows:
        """Rows of held-out people: those passed, or those that this part holds out."""
        if X is None and y is None:
            if not self._data.held_out_rows.n_rows:
                raise ValueError(HOLDS_OUT_NO_ONE)
            return self._data.part_held_out()
        names = self._frame.event_names
        if names is not None:
            y, _ = named_outcomes(y, names=names)
        cohort = Cohort.checked(
            X,
            y,
            sample_weight,
            like=self._schema,
            event_ids=self.event_ids_,
            resolution="ignore",
            require_event=False,
            late_entry=True,
        )
        batches = MemoryBatches([cohort])
        people = people_on_axis(self._frame, batches, batches.outcomes(), self._curves.knots)
        return self._data.held_out(replace(people, batches=InMemory(cohort.features)))

    # --------------------------------------------------------------------------------- prediction
    def predict_cumulative_incidence(self, model: Any, X: Any, times: Any) -> FloatArray:
        """Probability of each state at each time.

        Parameters
        ----------
        model
            What the engine's training call returned, or several of them; see `fitted`.
        X : array or DataFrame of shape (n_samples, n_features)
            People, with the columns of training.
        times : array of shape (n_times,)
            Times >= 0, in any order.

        Returns
        -------
        float64 array of shape (n_samples, K + 1, n_times)
            Index 0 is the probability of being event-free, index k the incidence of
            ``event_ids_[k]``; they sum to 1.
        """
        times = check_times(times)
        return self._mixture(model).incidence(check_features(X, like=self._schema), times)

    def predict_survival_function(self, model: Any, X: Any, times: Any) -> FloatArray:
        """Probability of being event-free, (n_samples, n_times); as the incidences' index 0."""
        return self.predict_cumulative_incidence(model, X, times)[:, 0]

    def fitted(self, model: Any) -> HazardPredictions:
        """A fitted model without training data: ``predict_*``, ``shap_values``, ``save``, ...

        Hazards are corrected in time (equation (74)) on the training people of each booster, never
        on people who were held out.

        Parameters
        ----------
        model
            What the engine's training call returned; or several of them, of this objective or of
            the objectives of `cross_fit`, whose incidences are averaged.

        Raises
        ------
        ValueError
            If a model was trained by another objective. This is known from the name of the time
            column, which the engines save with a model.
        """
        people = self._data.people
        values = people.features(np.arange(people.n_samples)).values
        some = np.unique(np.linspace(0, len(values) - 1, _IMPORTANCE_PEOPLE).astype(np.int64))
        return HazardPredictions.of(self._mixture(model).with_importances(values[some]))

    def _mixture(self, model: Any) -> HazardMixture:
        """The mixture of one booster, or of several with equal shares."""
        models = list(model) if isinstance(model, list | tuple) else [model]
        if not models:
            msg = "There is no booster. Pass one, or a list of them."
            raise ValueError(msg)
        # The first one is that of `booster_`: parts may leave out their trees.
        found = sorted(
            (self._hazard_model(one) for one in models), key=lambda one: one.trees is None
        )
        start = self._data.start
        kind = TREES if start.design is None else ON_LINEAR
        members = {
            kind if number == 0 else f"{kind} {number + 1}": Member(1 / len(found), one)
            for number, one in enumerate(found)
        }
        return HazardMixture(
            self._frame,
            TrainingRecord(_METHOD, n_events=self._n_events),
            self._curves,
            Mixture(members, start.design),
            np.zeros(self._schema.n_features),
        )

    def _hazard_model(self, model: Any) -> HazardModel:
        self._check_model(model)
        directions = self._directions_of(model)
        if any(directions):
            self._check_directions(directions)
        data = self._family[str((self._columns_of(model) or [""])[-1])[-_HEX_DIGITS:]]
        used, schema = engine(self._engine_name), self._schema
        trees = HazardTrees(
            used.evaluator(self._finished_model(model), schema), self._frame.n_causes
        )
        # A booster that was trained on has other margins.
        probe = self._data.training.values[:: max(1, len(self.target) // _PROBES)]
        margin = trees.row_margin(probe[:, :-1], probe[:, -1].astype(np.int64))
        facts = np.append(margin, trees.evaluator.n_rounds).tobytes()
        key = hashlib.sha256(facts + self._fingerprint_of(data).encode()).digest()
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = data.fitted(trees)
        return self._known[key]

    @abstractmethod
    def _check_model(self, model: Any) -> None:
        """Refuse a model that was not trained by this objective; see `_check_trained`."""

    @staticmethod
    @abstractmethod
    def _directions_of(model: Any) -> list[int]:
        """Monotone constraints of its training, one for each column, or none."""

    @abstractmethod
    def _columns_of(self, model: Any) -> Sequence[str] | None:
        """Names of the columns of a model."""

    @abstractmethod
    def _finished_model(self, model: Any) -> Any:
        """The engine's model up to its best round, without data, with the names of `_schema`."""

    def _check_trained(self, columns: Sequence[str] | None, n_margins: int) -> None:
        name = "" if columns is None else columns[-1]
        if n_margins != self.n_margins or name[-_HEX_DIGITS:] not in self._family:
            super()._check_trained(columns, n_margins)

    @cached_property
    def _fingerprint(self) -> str:
        return self._fingerprint_of(self._data)

    def _fingerprint_of(self, data: PluginHazards) -> str:
        """Fingerprint of all that turns margins into curves, with the start of some rows."""
        schema, start = self._schema, data.start
        levels = {column: list(map(str, schema.categories[column])) for column in schema.categories}
        design = None if start.design is None else (start.design.feature, start.design.kind)
        ids = self.event_ids_.tolist()
        facts = repr((schema.n_features, schema.names, levels, ids, self.event_names_, design))
        digest = hashlib.sha256(facts.encode())
        for part in (self._curves.knots, start.level, start.coefficients):
            # Other machines may sum in another order, so values are rounded.
            values = np.empty(0) if part is None else np.asarray(part, dtype=np.float64)
            digest.update((np.round(values, 6) + 0.0).tobytes())
        return digest.hexdigest()[:_HEX_DIGITS]

    # ---------------------------------------------------------------------------- for the adapters
    @property
    def _schema(self) -> Features:
        return self._frame.schema

    def _derivatives(
        self, margin: npt.NDArray[Any], rows: IntArray | None, order: Literal["C", "F"]
    ) -> tuple[Float32Array, Float32Array]:
        """Gradient and Hessian of all training rows, or of a fold's, in reused float32 buffers."""
        target, weight = self.target, self.weight
        if rows is not None:
            target, weight = target[rows], weight[rows]
        return self._scaled_derivatives(margin, target, weight, order)

    @staticmethod
    def _loss(
        margin: npt.NDArray[Any],
        target: npt.NDArray[np.int32],
        weight: npt.NDArray[Any],
        n_people: float,
    ) -> float:
        """Negative log-likelihood per person."""
        return float(pointwise_log_loss(margin, target, weight, reference=True).sum() / n_people)

    def __getstate__(self) -> dict[str, Any]:
        # Fitted boosters are read again.
        return {**super().__getstate__(), "_known": {}}

    def _n_people(self, rows: IntArray) -> float:
        """Total weight of the people of some training rows."""
        return self._data.people.total_weight(self._data.training.person[rows])


def _counted(y: Any, sample_weight: Any) -> IntArray:
    """Positions of the people with a positive weight, in order of their first rows."""
    event, _, _, ids = split_target(y)
    number = np.arange(len(event)) if ids is None else pd.factorize(np.asarray(ids))[0]
    weight = check_sample_weight(sample_weight, len(number))
    return np.unique(number if weight is None else number[weight > 0])

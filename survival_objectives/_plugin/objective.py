r"""One training problem, free of any engine: the face of the plugin.

`TrainingProblem` holds the stacked rows of the event model, their targets and weights
(`survival_objectives._horizons.schemes`), and the margins from which boosting starts. An adapter
adds what only its engine can do: hold the rows, ask for derivatives, train a binary booster for a
few rounds (`CensoringTrainer`), and evaluate a trained model on rows.
"""

from __future__ import annotations

import copy
import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import BoolArray, Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import Evaluator, engine
from survival_objectives._hazards.people import stratified_folds
from survival_objectives._horizons.model import HorizonMixture, HorizonModel, calibrated_curves
from survival_objectives._models.curves import StepCurves
from survival_objectives._models.fitted import TrainingRecord
from survival_objectives._models.frame import ModelFrame, planned_frame, time_knots
from survival_objectives._models.predictions import FittedPredictions
from survival_objectives._people import (
    Features,
    SurvivalTarget,
    check_choice,
    check_features,
    check_fraction,
    check_positive_int,
    check_random_state,
    check_times,
)
from survival_objectives._people.cohort import Cohort, MemoryBatches
from survival_objectives._people.labels import names_of
from survival_objectives._people.population import LocalReduction, Population
from survival_objectives._plugin.alternation import (
    Alternation,
    RefreshRecord,
    RefreshSchedule,
    log_floor,
)
from survival_objectives._plugin.parameters import PARAMETERS
from survival_objectives._plugin.problem import HOLDS_OUT_NO_ONE, PluginProblem
from survival_objectives._plugin.problem_rows import (
    CensoringSettings,
    HeldOutRows,
    HorizonSettings,
    ProblemRows,
)
from survival_objectives._plugin.slot import (
    DerivativeBuffers,
    WeightSlot,
    coarse_start,
    start_curve,
)
from survival_objectives._process.running import interrupts_held
from survival_objectives.censoring import CensoringModel
from survival_objectives.losses import Target, gradient_hessian, log_loss
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import HorizonSampler, TrainingRows, stacked_matrix

# A larger rise of survival is no rounding error: the trees lack the constraint of `monotone`.
_RISE = 1e-4
# Intervals between the knots of curves, and people on whom models are told apart and checked.
_N_INTERVALS, _PROBES = 32, 64


class TrainingProblem(PluginProblem):
    """Stacked rows, weights and starting margins of one training problem.

    The public face of this class are its engine-specific children.

    {parameters}
    """

    _parameters_text = PARAMETERS
    #: Times per person at which doubly robust targets evaluate both models.
    _n_nodes: ClassVar[int] = 24
    # Of an objective of `cross_fit`: its number, and the people whom it holds out.
    _fold: int | None = None
    _left_out: tuple[Features, SurvivalTarget] | None = None

    @interrupts_held()
    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        n_horizons: int = 4,
        horizon_sampler: str | HorizonSampler = "mixture",
        horizon_max: float | None = None,
        hard_zero_fraction: float = 0.0,
        refresh_every: int = 10,
        censoring: str | CensoringModel = "kaplan-meier",
        completion: Any = None,
        doubly_robust: bool = False,
        margins: str = "reference",
        start: str = "constant",
        monotone: bool | None = None,
        min_censoring_survival: float = 0.05,
        min_event_survival: float = 0.05,
        sample_weight: Any = None,
        random_state: Any = None,
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown, TrainingProblem.__init__)
        flags: dict[str, Any] = {"doubly_robust": doubly_robust, "monotone": monotone}
        for name, flag in flags.items():
            if not isinstance(flag, bool | np.bool_ | None):
                msg = f"`{name}` must be True or False; got {flag!r}."
                raise TypeError(msg)
        self._slot, self._scratch = WeightSlot(), DerivativeBuffers()
        self._reference = check_choice(margins, "margins", ("reference", "free")) == "reference"
        self._schedule = RefreshSchedule(refresh_every)
        self._start = check_choice(start, "start", ("marginal", "constant", "zero"))
        generator = check_random_state(random_state)
        # Training and held-out horizons come from separate streams, so that adding a held-out set
        # leaves the training rows as they are.
        streams = generator.spawn(2)
        self._engine_seed = int(generator.integers(2**31 - 1))
        self._horizons = HorizonSettings(
            n_horizons, horizon_sampler, horizon_max, hard_zero_fraction
        )
        self._settings = CensoringSettings(
            censoring,
            completion,
            doubly_robust,
            check_fraction(min_censoring_survival, "min_censoring_survival", zero=False),
            check_fraction(min_event_survival, "min_event_survival", zero=False),
            self._n_nodes,
        )
        self._set_rows(X, y, sample_weight, streams)
        self._monotone = self._is_monotone(monotone)
        self._trained_until, self._end = self._data.curve_ends(horizon_max)
        #: Objectives of `cross_fit`, whose models this one recognises.
        self._parts: list[Self] = []

    def _set_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        streams: Sequence[np.random.Generator],
        whole: ProblemRows | None = None,
    ) -> None:
        """Set the people of this problem, or some of the ``whole``, and all that follows."""
        self._data = data = ProblemRows(
            X,
            y,
            sample_weight,
            self._horizons,
            self._settings,
            streams=(streams[0], streams[1]),
            completion_engine=(self._engine_name, self._engine_seed),
            whole=whole,
        )
        self._note_refresh(data.censoring_model, data.n_floored, [])
        log_floor(data.floor, data.n_floored, self._events.n_rows)
        self._start_curve = start_curve(
            self._start, data.initial, data.population, data.target, self._reference
        )

    def _is_monotone(self, monotone: bool | None) -> bool:
        """Whether every tree rises in time, where the user may have left it open."""
        if monotone and not self._reference:
            msg = (
                "`monotone=True` needs `margins='reference'`: with free margins, curves that "
                "all rise in time do not make survival fall."
            )
            raise ValueError(msg)
        return self._reference if monotone is None else bool(monotone)

    # ------------------------------------------------------------------------------- public facts
    @property
    def event_ids_(self) -> IntArray:
        """Labels of the curves: 0 for event-free, then the causes as the user named them."""
        return self._data.target.event_ids

    @property
    def event_names_(self) -> tuple[str, ...] | None:
        """Names of the states, if the events are text: event-free, then the causes."""
        return names_of(self._data.labels, self.event_ids_)

    def _constrained_columns(self) -> tuple[Features, int]:
        if not self._reference:
            msg = "Constraints on features need `margins='reference'`: free margins have no sign."
            raise ValueError(msg)
        return self._features.schema, int(self._monotone)

    @property
    def n_margins(self) -> int:
        """Margins the engine trains: K with the reference link, K + 1 with the free one."""
        return self._target.n_causes + (not self._reference)

    @property
    def person(self) -> IntArray:
        """Person of each training row, by position in ``X``; rows of one are not independent."""
        return self._data.people[self._events.person]

    @property
    def horizon(self) -> Float32Array:
        """Horizon of each training row, also its last feature."""
        return self._events.horizon

    @property
    def target(self) -> Target:
        """State of each training row at its horizon: 0 = event-free, 1..K = cause.

        With ``completion`` or ``doubly_robust``, a distribution over the states, (n_rows, K + 1);
        the latter before any refresh, when rows of people who were censored have weight 0.
        """
        return self._data.initial.target

    @property
    def initial_weight(self) -> Float32Array:
        """Weight of each training row before any refresh: 1/G or, with ``completion``, 1."""
        return self._data.initial.weight

    @property
    def stacked_features(self) -> Float32Array:
        """Features of the training rows, the horizon last; built at each access."""
        return self._events.matrix(self._features)

    def sklearn_objective(
        self,
        y_true: npt.NDArray[Any],
        y_pred: npt.NDArray[Any],
        sample_weight: npt.NDArray[Any] | None = None,
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Gradient and Hessian in the form that the engine's scikit-learn classifier expects.

        Pass it as the classifier's ``objective`` and fit on ``(stacked_features, target,
        sample_weight=initial_weight)``. The wrappers start at 0, so construct with
        ``start="zero"``, and train one margin per class, so with ``margins="free"``, but for a
        single cause one margin in all, which is ``margins="reference"`` (of ``params``, leave out
        the ``objective`` there). They offer no way to replace weights during training, so there is
        no refresh.
        """
        if self._has_distributions:
            msg = (
                "The scikit-learn wrappers take labels, but the targets of this objective are "
                "distributions. Leave out `completion` and `doubly_robust`."
            )
            raise ValueError(msg)
        wanted = "reference" if self._target.n_causes == 1 else "free"
        if self._start != "zero" or self._reference != (wanted == "reference"):
            msg = (
                "The scikit-learn wrappers start at 0 and train a margin for every class, but one "
                f"for two classes. Construct with `margins={wanted!r}, start='zero'`."
            )
            raise ValueError(msg)
        target = np.asarray(y_true).astype(np.int32)
        gradient, hessian = gradient_hessian(
            y_pred.reshape(len(target), -1),
            target,
            sample_weight,
            reference=self._reference,
            hessian_scale=self._hessian_scale,
        )
        return gradient.reshape(y_pred.shape), hessian.reshape(y_pred.shape)

    # ------------------------------------------------------------------------------------- folds
    def cross_fit(self, n_folds: int = 5) -> list[Self]:
        """Objectives of a cross-validation over people, with the knots of this one.

        Each has the rows of the people outside of one fold, whose censoring also makes the weights
        and the start. ``part.held_out()`` is the matrix of the fold. Pass the trained boosters to
        `fitted`.
        """
        stream = np.random.default_rng([self._engine_seed, check_positive_int(n_folds, "n_folds")])
        fold = stratified_folds(self._target.event, n_folds, stream)
        missing = sorted(set(range(n_folds)) - set(fold.tolist()))
        if n_folds < 2 or missing:
            msg = (
                f"`n_folds={n_folds}` leaves folds without people, of {self._target.n_samples}. "
                "Choose a number from 2 to that of the people with the most frequent outcome."
            )
            raise ValueError(msg)
        self._parts = [self._without(fold == number, number, stream) for number in range(n_folds)]
        return self._parts

    def _without(self, held_out: BoolArray, number: int, stream: np.random.Generator) -> Self:
        """The objective of the other people."""
        # Frame and knots are shared.
        data, _ = self._data, self._knots
        part = copy.copy(self)
        for name in (*self._transient, "_fingerprint", "_known"):
            part.__dict__.pop(name, None)
        part.__dict__.update(
            _slot=WeightSlot(),
            _scratch=DerivativeBuffers(),
            _fold=number,
            _left_out=data.some(np.flatnonzero(held_out))[:2],
            _horizons=replace(self._horizons, horizon_max=data.stacker.horizon_max),
        )
        others = data.some(np.flatnonzero(~held_out))
        part._set_rows(*others, stream.spawn(2), whole=data)  # noqa: SLF001  Of this class.
        return part

    # --------------------------------------------------------------------------------- prediction
    def predict_cumulative_incidence(
        self, model: Any, X: Any, times: Any, *, calibrated: bool = True
    ) -> FloatArray:
        """Probability of each state at each time.

        Parameters
        ----------
        model
            What the engine's training call returned.
        X : array or DataFrame of shape (n_samples, n_features)
            People, with the columns of training.
        times : array of shape (n_times,)
            Times >= 0, in any order.
        calibrated : bool, default=True
            Whether curves are calibrated in time (equations (17) and (18)): on the training people,
            expected and observed numbers of events agree. They then never fall, and each model is
            evaluated once on the training people. With False, probabilities are those of its
            margins.

        Returns
        -------
        float64 array of shape (n_samples, K + 1, n_times)
            Index 0 is the probability of being event-free, index k the incidence of
            ``event_ids_[k]``; they sum to 1.

        Raises
        ------
        ValueError
            If the model was not trained by this objective, or one of the same columns, link, causes
            and start. This is known from the name of the time column, which the engines save
            with a model.
        """
        times = check_times(times)
        fitted = self._model_of(model, calibrated=calibrated)
        return fitted.incidence(check_features(X, like=fitted.schema), times)

    def predict_survival_function(
        self, model: Any, X: Any, times: Any, *, calibrated: bool = True
    ) -> FloatArray:
        """Probability of being event-free, (n_samples, n_times); as the incidences' index 0."""
        return self.predict_cumulative_incidence(model, X, times, calibrated=calibrated)[:, 0]

    def fitted(self, model: Any) -> FittedPredictions:
        """A trained model as a fitted model that holds no training data.

        Parameters
        ----------
        model
            What the engine's training call returned, of which the rounds up to the best one are
            copied; or several of them, of this objective or of the objectives of `cross_fit`, whose
            incidences are averaged.

        Returns
        -------
        object
            With the methods of a fitted `survival_objectives.SurvivalBoost`, such as
            ``predict_cumulative_incidence``, ``predict_quantile``, ``shap_values``, ``to_onnx`` and
            ``save``; `survival_objectives.load` reads what it saved. Its curves are the calibrated
            ones, bit for bit those of this objective.
        """
        return FittedPredictions.of(self._model_of(model))

    def _model_of(self, model: Any, *, calibrated: bool = True) -> HorizonModel | HorizonMixture:
        """The fitted model of a trained model, or the mean of several."""
        models = list(model) if isinstance(model, list | tuple) else [model]
        if not models:
            msg = "There is no booster. Pass one, or a list of them."
            raise ValueError(msg)
        found = [
            self._owner(one)._own_model(one, calibrated=calibrated)  # noqa: SLF001  Of this class.
            for one in models
        ]
        if len(found) == 1:
            return found[0]
        return HorizonMixture.of(found, replace(found[0].record, n_events=self._data.n_events))

    def _owner(self, model: Any) -> Self:
        """The objective that trained a model, one of `cross_fit` or this one; else an error."""
        refusal = None
        for one in (self, *self._parts):
            try:
                one._check_model(model)  # noqa: SLF001  Of this class.
            except ValueError as error:
                refusal = refusal or error
            else:
                return one
        assert refusal is not None
        raise refusal

    def _own_model(self, model: Any, *, calibrated: bool) -> HorizonModel:
        """The fitted model of a trained model, calibrated once for the same trees."""
        trees = self._evaluator(model)
        # A model that was trained on has other margins.
        n_people = min(self._features.n_samples, _PROBES)
        until = np.full(n_people, self._trained_until, np.float32)
        margin = trees.sum_of_trees(stacked_matrix(self._features, np.arange(n_people), until))
        key = hashlib.sha256(margin.tobytes() + bytes(str(trees.n_rounds), "ascii")).digest()
        known: tuple[bytes, HorizonModel] | None = vars(self).get("_known")
        if known is None or known[0] != key:
            known = self._known = key, self._fitted(trees)
        return known[1] if calibrated else self._uncalibrated(known[1].trees)

    def _evaluator(self, model: Any) -> Evaluator:
        """Trees of a trained model, up to the best round, as they are now."""
        return engine(self._engine_name).evaluator(
            self._finished_model(model), self._features.schema
        )

    @abstractmethod
    def _finished_model(self, model: Any) -> Any:
        """A copy of a trained model, cut after its best round."""

    def _fitted(self, trees: Evaluator) -> HorizonModel:
        data = self._data
        uncalibrated = self._uncalibrated(trees)
        if self._monotone:
            some = np.linspace(0, data.target.n_samples - 1, _PROBES).astype(np.int64)
            _check_falling(uncalibrated.step_probabilities(self._features.values[some])[0])
        model = replace(
            uncalibrated, start=coarse_start(self._start_curve, self._end), monotone=True
        )
        curves = calibrated_curves(
            model,
            MemoryBatches([Cohort(self._features, data.target, data.weight)]),
            Population(data.target, data.weight),
            n_intervals=_N_INTERVALS,
            trained_until=self._trained_until,
            reduction=LocalReduction(),
            seed=self._engine_seed,
            knots=self._knots,
        )
        return replace(model, curves=curves)

    @cached_property
    def _knots(self) -> FloatArray:
        """Knots of the curves; those of the whole for an objective of `cross_fit`."""
        frame, data = self._frame, self._data
        times = Population(data.target, data.weight).event_times(frame.t_max)
        return time_knots(frame.axis, times, frame.t_max, _N_INTERVALS)

    def _uncalibrated(self, trees: Evaluator) -> HorizonModel:
        """The model whose probabilities are those of its margins."""
        data, frame = self._data, self._frame
        return HorizonModel(
            frame,
            TrainingRecord("boosted", n_events=data.n_events, floor=data.floor),
            StepCurves(frame.axis),
            trees,
            None,
            self._start_curve,
            StepFunction.constant(np.zeros(())),
            monotone=False,
            own_censoring=data.own_censoring,
        )

    @cached_property
    def _frame(self) -> ModelFrame:
        data = self._data
        frame = planned_frame(
            Population(data.rounded, data.weight),
            self._engine_name,
            self._features.schema,
            horizon_max=self._end,
            n_jobs=None,
        )
        return replace(frame, axis=data.axis)

    # ------------------------------------------------------------------------------- own models
    @abstractmethod
    def _check_model(self, model: Any) -> None:
        """Refuse a model that was not trained by this objective; see `_check_trained`."""

    @cached_property
    def _fingerprint(self) -> str:
        """Fingerprint, eight hex digits, of everything that turns margins into curves."""
        schema, start = self._features.schema, self._start_curve
        levels = {column: list(map(str, schema.categories[column])) for column in schema.categories}
        event_ids = self.event_ids_.tolist()
        facts = repr((schema.n_features, schema.names, levels, self._reference, event_ids))
        # Parts of a cross-validation may start alike.
        facts += "" if self._fold is None else f" {self._fold}"
        digest = hashlib.sha256(facts.encode())
        for part in (start.times, start.values, start.initial):
            # Other machines may sum in another order, so values are rounded to float32.
            digest.update(np.asarray(part, dtype=np.float32).tobytes())
        return digest.hexdigest()[:8]

    def _check_trained(self, columns: Sequence[str] | None, n_margins: int) -> None:
        if columns is None and self._start == "zero" and n_margins == self.n_margins:
            # The scikit-learn wrappers train without names.
            return
        super()._check_trained(columns, n_margins)

    # ---------------------------------------------------------------------------- for the adapters
    @property
    def _events(self) -> TrainingRows:
        """Rows of the event model."""
        return self._data.rows.events

    @property
    def _features(self) -> Features:
        return self._data.features

    @property
    def _target(self) -> SurvivalTarget:
        """Outcomes aligned to the time axis."""
        return self._data.target

    @property
    def completion_(self) -> Any:
        """What completed people who were censored, or None."""
        return self._data.completion

    @property
    def _has_distributions(self) -> bool:
        """Whether targets are distributions over the states, not labels."""
        return self.target.ndim == 2

    def refresh(
        self, params: Mapping[str, Any] | None = None, *, doubly_robust: bool | None = None
    ) -> Any:
        """Callback that refreshes the censoring weights every ``refresh_every`` rounds.

        It advances a censoring model by as many rounds and replaces the weights by those of it:
        Algorithms 1 and 3 of the paper, inside the engine's training call.

        Parameters
        ----------
        params : mapping, optional
            The engine's parameters of the censoring model. Default: those of the event model's
            trees, which CatBoost does not show to a callback: pass its ``depth`` and so on.
        doubly_robust : bool, optional
            Whether targets are the doubly robust ones, equation (47). Default: as in the
            constructor, which must agree, because it makes the rows.

        Returns
        -------
        callback of the engine, for one training
        """
        is_doubly_robust = self._data.is_doubly_robust
        if doubly_robust is not None and bool(doubly_robust) != is_doubly_robust:
            msg = (
                f"`refresh(doubly_robust={doubly_robust})` needs an objective that was constructed "
                f"with `doubly_robust={doubly_robust}`: the training rows of this one "
                f"{'include' if is_doubly_robust else 'leave out'} people who were censored before "
                "the horizon."
            )
            raise ValueError(msg)
        return self._refresh_callback(params)

    @abstractmethod
    def _refresh_callback(self, params: Mapping[str, Any] | None) -> Any:
        """What the engine calls between rounds, which only translates to `Alternation`."""

    def _new_alternation(self) -> Alternation:
        """The feedback loop of one training, which starts from the initial weights."""
        data = self._data
        alternation = Alternation(data, self._reference, self._schedule, self._note_refresh)
        self._note_refresh(data.censoring_model, data.n_floored, [])
        return alternation

    def _note_refresh(
        self, censoring: CensoringModel, n_floored: int, records: list[RefreshRecord]
    ) -> None:
        # If several threads train with the same problem, these show the latest refresh of any.
        self.censoring_, self.n_floored_, self.refreshes_ = censoring, n_floored, records

    @property
    @abstractmethod
    def _hessian_scale(self) -> float:
        """Scale of the Hessian at which the engine's regularisation keeps its usual meaning."""

    def _derivatives(
        self, margin: npt.NDArray[Any], rows: IntArray | None, order: Literal["C", "F"]
    ) -> tuple[Float32Array, Float32Array]:
        """Gradient and Hessian of all training rows, or of a fold's, in reused float32 buffers."""
        if rows is None:
            # A refresh callback offers its weights before each round. A training without one, also
            # after an interrupted training with one, thus always sees the initial weights.
            offered = self._slot.take() or self._data.initial
            target, weight = offered.target, offered.weight
        else:
            target, weight = self.target[rows], self._data.fold_weight(rows, held_out=False)
        return self._scaled_derivatives(
            margin,
            target,
            weight,
            order,
            reference=self._reference,
            hessian_scale=self._hessian_scale,
        )

    def _metric(
        self,
        margin: npt.NDArray[Any],
        label: npt.NDArray[Any],
        weight: npt.NDArray[Any] | None,
        rows: IntArray | slice | None,
    ) -> float:
        """Mean loss of own training rows, or with None of held-out ones, which have labels."""
        target: Target = label.astype(np.int32)
        if rows is not None and self._has_distributions:
            target = self.target[rows]
        return log_loss(margin, target, weight, reference=self._reference)

    def _start_margin(self, horizon: npt.ArrayLike) -> FloatArray:
        return self._start_curve(horizon)

    def _probe_rows(self) -> tuple[Float32Array, FloatArray]:
        """Further rows at which a refresh evaluates the event model, and their starting margins."""
        probes = self._data.event_probes
        return probes.matrix(self._features), self._start_margin(probes.feature)

    def _held_out_rows(self, X: Any, y: Any) -> HeldOutRows:
        """Rows of held-out people, with the margins at which boosting started."""
        if X is None and y is None:
            if self._left_out is None:
                raise ValueError(HOLDS_OUT_NO_ONE)
            X, y = self._left_out
        return self._data.held_out(X, y, self._start_curve)


def _check_falling(survival: FloatArray) -> None:
    """Refuse curves that rise, (n_steps, n_samples), although every tree was to be constrained."""
    rise = np.diff(survival, axis=0).max(initial=0.0)
    if rise > _RISE:
        msg = (
            f"Survival rises by {rise:.2g} between two times, so the trees were grown without the "
            "constraint on time. Merge `objective.params` into the parameters of training, and "
            "constraints on features by `{**objective.params, "
            "**objective.constraints(monotone=...)}`, which keeps that on time; or construct the "
            "objective with `monotone=False`."
        )
        raise ValueError(msg)

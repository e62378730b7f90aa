r"""One training problem, free of any engine: rows, weights, and the feedback loop of Algorithm 1.

`TrainingProblem` is what the adapters build on. It holds the stacked rows of the event model, their
weights, and the margins from which boosting starts; `Alternation` runs the loop that refreshes the
weights: the event model's survival weighs the censoring model (Algorithm 3), is followed by a few
rounds of that model, and comes back as new censoring weights (Algorithm 2). What an adapter adds
are two things only its engine can do: to train a binary booster for a few rounds
(`CensoringTrainer`), and to evaluate a trained model on rows (`TrainingProblem._raw_margin`).
"""

from __future__ import annotations

import hashlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.model_selection import GroupKFold

from survival_objectives._model.curves import KnotCurves, marginal_hazard, time_knots
from survival_objectives._model.forest import monotone_incidence
from survival_objectives.censoring import (
    BoostedCensoring,
    CensoringModel,
    KaplanMeierCensoring,
    MarginModel,
    censoring_log_odds,
    log_odds,
    time_feature,
)
from survival_objectives.losses import gradient_hessian, probabilities
from survival_objectives.marginal import StepFunction, aalen_johansen
from survival_objectives.stacking import (
    HorizonSampler,
    Role,
    TimeStacker,
    censoring_role,
    check_causes_seen,
    event_role,
    exit_feature,
    latest_weighted_horizon,
    stacked_matrix,
)
from survival_objectives.time_axis import TimeAxis, event_unit
from survival_objectives.validation import (
    Features,
    SurvivalTarget,
    check_choice,
    check_features,
    check_fraction,
    check_paired,
    check_positive_int,
    check_random_state,
    check_sample_weight,
    check_survival_target,
    check_time_resolution,
    check_times,
    relative_weights,
    take_rows,
    warn_about_outcomes,
)

__all__ = [
    "Alternation",
    "CensoringTrainer",
    "CurveReader",
    "HeldOutRows",
    "RefreshRecord",
    "RefreshSchedule",
    "TrainingProblem",
    "TrainingThread",
    "WeightSlot",
    "counted_target",
]

logger = logging.getLogger("survival_objectives")

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
RawMargin = Callable[[Float32Array], npt.ArrayLike]

# Survival that rises by more than rounding shows trees without the constraint of `monotone`.
_RISE = 1e-4
# Rows evaluated at a time when curves are predicted: 2^18 rows x 100 features take 100 MB.
_PREDICTION_ROWS = 2**18
# Training people on whom curves are calibrated, and intervals between their knots.
_CALIBRATION_PEOPLE = 5_000
_N_INTERVALS = 32


class WeightSlot(threading.local):
    """Weights that a refresh callback hands to the objective for one round.

    The engines call both from the thread that trains, and each thread has a slot of its own, so
    that several trainings may share one objective. A copy of a slot is empty.
    """

    def __init__(self) -> None:
        self._offered: Float32Array | None = None
        self._taken: Float32Array | None = None

    def offer(self, weight: Float32Array) -> None:
        """Put weights in, for the next round of this thread."""
        self._offered = weight

    def take(self) -> Float32Array | None:
        """The weights offered for this round, which leave the slot, or None."""
        self._taken, self._offered = self._offered, None
        return self._taken

    def clear(self) -> None:
        """Forget what an earlier training, perhaps an interrupted one, has left."""
        self._offered = self._taken = None

    def check_taken(self, weight: Float32Array) -> None:
        """Raise an error unless ``weight`` is what the last round was trained with."""
        taken = self._taken
        self.clear()
        if taken is not weight:
            msg = (
                "The refreshed weights were not used in the last round: this callback belongs to "
                "another objective than the one that is trained, or that one was trained elsewhere "
                "in between. Use `refresh()` of the objective, for one training at a time."
            )
            raise ValueError(msg)

    def __reduce__(self) -> tuple[type[WeightSlot], tuple[()]]:
        return WeightSlot, ()


class TrainingThread:
    """The thread that uses a callback: the first one, and no other."""

    def __init__(self) -> None:
        self._thread: int | None = None

    def check(self) -> None:
        """Raise an error in any other thread than the first that asked."""
        current = threading.get_ident()
        if self._thread is None:
            self._thread = current
        if self._thread != current:
            msg = (
                "This callback is used by a training in another thread. Give each training its "
                "own: `objective.refresh()`."
            )
            raise ValueError(msg)


class _Scratch(threading.local):
    """Float32 arrays for gradient and Hessian, used again in every round, apart by thread."""

    def __init__(self) -> None:
        self._pair = np.empty((2, 0, 0), np.float32)

    def pair(self, shape: tuple[int, int], order: Literal["C", "F"]) -> Float32Array:
        if self._pair.shape[1:] != shape:
            if order == "C":
                self._pair = np.empty((2, *shape), np.float32)
            else:
                self._pair = np.empty((2, *shape[::-1]), np.float32).transpose(0, 2, 1)
        return self._pair

    def __reduce__(self) -> tuple[type[_Scratch], tuple[()]]:
        return _Scratch, ()


class RefreshSchedule:
    """Says before which rounds the weights are refreshed: every ``every`` rounds, not at the start.

    >>> [n for n in range(7) if RefreshSchedule(3).is_due(n)]
    [3, 6]
    """

    def __init__(self, every: int) -> None:
        self.every = check_positive_int(every, "refresh_every")

    def is_due(self, n_rounds: int) -> bool:
        """Whether to refresh once ``n_rounds`` rounds are trained."""
        return n_rounds > 0 and n_rounds % self.every == 0


class CensoringTrainer(Protocol):
    """A binary booster on the rows of the censoring role, as an adapter drives it."""

    def advance(self, weight: FloatArray, n_rounds: int) -> None:
        """Train ``n_rounds`` more rounds under ``weight``, one a row of the role."""
        ...

    def stayed_margin(self) -> npt.ArrayLike:
        """Log-odds of being censored, at the rows of the role that stayed."""
        ...

    def exit_margin(self) -> npt.ArrayLike:
        """Log-odds of being censored just before the event, for the leavers of the event role."""
        ...

    def model(self) -> MarginModel:
        """The booster as trained so far."""
        ...


@dataclass(frozen=True)
class RefreshRecord:
    """What one refresh did.

    Attributes
    ----------
    round : int
        Rounds of the event model before it.
    mean_weight, max_weight : float
        Of the new weights of the event rows.
    n_floored : int
        Event rows whose censoring survival was raised to the floor.
    n_floored_censoring : int
        Censoring rows whose event survival was raised to the floor.
    """

    round: int
    mean_weight: float
    max_weight: float
    n_floored: int
    n_floored_censoring: int


@dataclass(frozen=True)
class MarginalTail:
    """Curves after the latest horizon of training: hazards are those of the population.

    Attributes
    ----------
    population : StepFunction
        Aalen-Johansen curves of all people, (n_steps, K + 1).
    begin : float
        Latest horizon of training.
    """

    population: StepFunction
    begin: float

    def continued(self, curves: FloatArray, last: FloatArray, times: FloatArray) -> FloatArray:
        """``curves`` with what comes after ``begin``, where their values are ``last``."""
        late = times > self.begin
        if late.any():
            at_begin, later = self.population(self.begin), self.population(times[late]).T
            given = (later - at_begin[:, None]) / max(at_begin[0], np.finfo(np.float64).tiny)
            curves[:, :, late] = last + last[:, :1] * given
        return curves


@dataclass(frozen=True)
class CurveReader:
    """Turns margins of a trained model into curves; knows the columns and offsets of training.

    Attributes
    ----------
    schema : Features
        Columns of training.
    start : StepFunction
        Margins at which boosting started, by time, (n_steps, n_margins).
    reference : bool
        Link, see `survival_objectives.losses`.
    axis : TimeAxis
        Units of time of the training.
    tail : MarginalTail, optional
        What follows the latest horizon of training. Default: the model's own last values.
    """

    schema: Features
    start: StepFunction
    reference: bool
    axis: TimeAxis
    tail: MarginalTail | None = None

    def cumulative_incidence(self, raw_margin: RawMargin, X: Any, times: Any) -> FloatArray:
        """Event-free probability and incidences, (n_samples, K + 1, n_times).

        Parameters
        ----------
        raw_margin : callable
            Sum of the trees, (n_rows, n_margins), for float32 rows of features and time.
        X, times
            People and times of prediction.
        """
        features = check_features(X, like=self.schema)
        times = check_times(times)
        if self.tail is None:
            return self._curves(raw_margin, features, times)
        asked = np.append(np.minimum(times, self.tail.begin), self.tail.begin)
        curves = self._curves(raw_margin, features, asked)
        return self.tail.continued(curves[:, :, :-1], curves[:, :, -1:], self.axis.answering(times))

    def _curves(self, raw_margin: RawMargin, features: Features, times: FloatArray) -> FloatArray:
        feature = time_feature(self.axis.answering(times))
        start = self.start(feature)
        n_margins = start.shape[1]
        curves = np.empty((features.n_samples, n_margins + self.reference, len(times)))
        n_people = max(1, _PREDICTION_ROWS // len(times))
        for first in range(0, features.n_samples, n_people):
            people = np.arange(first, min(first + n_people, features.n_samples))
            rows = stacked_matrix(
                features, np.repeat(people, len(times)), np.tile(feature, len(people))
            )
            margin = np.asarray(raw_margin(rows), dtype=np.float64).reshape(len(rows), n_margins)
            margin = margin + np.tile(start, (len(people), 1))
            proba = probabilities(margin, reference=self.reference)
            curves[people] = proba.reshape(len(people), len(times), -1).transpose(0, 2, 1)
        return curves


@dataclass(frozen=True)
class HeldOutRows:
    """Stacked rows of held-out people, with weights from the censoring of the training people."""

    matrix: Float32Array
    target: npt.NDArray[np.int32]
    weight: Float32Array
    start: FloatArray


_PARAMETERS = """Parameters
    ----------
    X : array or DataFrame of shape (n_samples, n_features)
        Numbers with NaN for missing; frames (pandas, polars) may have categorical columns.
    y : DataFrame, dict, structured array, tuple or array
        Outcomes: ``event`` (0 = censored, 1..K = causes) and ``duration``; see
        `survival_objectives.validation.check_survival_target` for the accepted forms.
    n_horizons : int, default=4
        Horizons at which each person is looked at: rows of the stacked data a person.
    horizon_sampler : {"uniform", "stratified", "events", "mixture"} or callable, default="mixture"
        Where horizons fall; see `survival_objectives.stacking.TimeStacker`. "uniform" is the
        paper's.
    horizon_max : float, optional
        Latest horizon. Default: the longest duration or, if earlier, the time after which fewer
        than one in ten are uncensored; predictions go on by the hazards of the population after
        it.
    hard_zero_fraction : float, default=0.0
        Share of rows whose horizon is exactly 0.
    refresh_every : int, default=10
        Rounds between two refreshes of the censoring weights, where `refresh` is used.
    censoring : "kaplan-meier" or CensoringModel, default="kaplan-meier"
        Where the weights come from before (or without) any refresh. A model of your own is kept as
        it is.
    margins : {"reference", "free"}, default="reference"
        Link: K margins with the event-free one fixed at 0, or the K + 1 margins of the paper; see
        `survival_objectives.losses`.
    start : {"constant", "marginal", "zero"}, default="constant"
        Where boosting starts: at the best constant, at the Aalen-Johansen curve (fewer rounds, but
        with ``monotone`` nobody's odds can then rise more slowly than everybody's), or at 0.
    monotone : bool, optional
        Whether survival curves never rise in time, by a constraint on every tree. Needs the
        reference link. Default: True where link and engine allow it.
    min_censoring_survival : float, default=0.05
        Floor of G in the weights, so that no row weighs more than its inverse. A lower floor has
        less bias and more variance. ``n_floored_`` counts the rows it touches.
    min_event_survival : float, default=0.05
        The same for the event-free probability in the weights of the censoring model.
    sample_weight : array of shape (n_samples,), optional
        Weights of people, relative to each other: they are divided by their mean. People of weight
        0 are left out, with the causes that only they have.
    random_state : int, Generator, RandomState or None
        Seed of the horizons and of the engine.

    Attributes
    ----------
    event_ids_ : array of shape (K + 1,)
        Labels of the curves: 0 for event-free, then the causes.
    censoring_ : CensoringModel
        The current model of censoring.
    n_floored_ : int
        Training rows whose weight the floor limits.
    refreshes_ : list of RefreshRecord
        What each refresh of the last training did."""


class TrainingProblem(ABC):
    """Stacked rows, weights and starting margins of one training problem.

    The public face of this class are its engine-specific children.

    {parameters}
    """

    _fold_weights: dict[bytes, Float32Array]
    _training_folds: WeakSet[Any]

    #: Attributes that hold engine handles and what is computed from others: never pickled.
    _transient: tuple[str, ...] = ("_fold_weights", "_training_folds")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = (cls.__doc__ or "").replace("{parameters}", _PARAMETERS)

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
        margins: str = "reference",
        start: str = "constant",
        monotone: bool | None = None,
        min_censoring_survival: float = 0.05,
        min_event_survival: float = 0.05,
        sample_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        self._slot, self._scratch = WeightSlot(), _Scratch()
        check_paired(X, y, sample_weight)
        features = check_features(X)
        target = check_survival_target(y)
        check_time_resolution(target.duration)
        warn_about_outcomes(target)
        if features.n_samples != target.n_samples:
            msg = f"`X` has {features.n_samples} rows but `y` has {target.n_samples}."
            raise ValueError(msg)
        weight = check_sample_weight(sample_weight, target.n_samples)
        self._people = np.arange(target.n_samples)
        if weight is not None and not weight.all():
            # Nobody of weight 0 may have a say in labels, horizons or bins.
            self._people = np.flatnonzero(weight)
            X, weight = take_rows(X, self._people), weight[self._people]
            features = replace(features, values=features.values[self._people])
            target = _taken(target, self._people)
        self._sample_weight = relative_weights(weight)
        self._reference = check_choice(margins, "margins", ("reference", "free")) == "reference"
        if monotone and not self._reference:
            msg = (
                "`monotone=True` needs `margins='reference'`: with free margins, curves that "
                "all rise in time do not make survival fall."
            )
            raise ValueError(msg)
        self._monotone = self._reference if monotone is None else bool(monotone)
        self._schedule = RefreshSchedule(refresh_every)
        self._min_censoring_survival = check_fraction(
            min_censoring_survival, "min_censoring_survival", zero=False
        )
        self._min_event_survival = check_fraction(
            min_event_survival, "min_event_survival", zero=False
        )
        # Training and held-out horizons come from separate streams, so that adding a held-out set
        # leaves the training rows as they are.
        generator = check_random_state(random_state)
        train_stream, self._held_out_stream = generator.spawn(2)
        self._engine_seed = int(generator.integers(2**31 - 1))
        self._features = features
        # Time is float32 to the trees, so it is to everything else (see `stacking`).
        rounded = replace(target, duration=time_feature(target.duration).astype(np.float64))
        self._axis = TimeAxis(event_unit(rounded))
        self._target = self._axis.aligned(rounded)
        self._marginal_censoring = self._kaplan_meier()
        ends_early = horizon_max is None
        if horizon_max is not None:
            check_causes_seen(self._target, horizon_max)
        elif self._target.duration.any():
            horizon_max = latest_weighted_horizon(
                self._target,
                self._marginal_censoring.curve_,
                self._axis,
                self._min_censoring_survival,
            )
        self._stacker = TimeStacker(
            n_horizons,
            horizon_sampler,
            horizon_max=horizon_max,
            hard_zero_fraction=hard_zero_fraction,
            random_state=train_stream,
            time_unit=self._axis.unit,
        )
        self._stack = self._stacker.draw(self._target)
        self._events = event_role(self._target, self._stack)
        if not self._events.stayed.any():
            msg = (
                "Nobody is event-free at any horizon, so there is one class only to learn. "
                "Choose horizons that are not all beyond the longest duration."
            )
            raise ValueError(msg)
        self._fixed_censoring = not isinstance(censoring, str)
        self._initial_censoring = self._censoring_model(censoring, rounded)
        self.censoring_ = self._initial_censoring
        row_weight, self._initial_n_floored = self._events.weights(
            *self._censoring_survival(self._events, X, target),
            floor=self._min_censoring_survival,
            sample_weight=self._sample_weight,
        )
        self._initial_weight = row_weight.astype(np.float32)
        self.n_floored_ = self._initial_n_floored
        self._log_floor(self.n_floored_, self._events.n_rows)
        check_choice(start, "start", ("marginal", "constant", "zero"))
        self._start = start
        self._trained_until = float(horizon_max or 0)
        longest = float(rounded.duration.max())
        self._curve_end = longest if ends_early else min(self._trained_until, longest)
        self._known_curves: tuple[bytes, KnotCurves] | None = None
        tail = None
        if ends_early:
            tail = MarginalTail(
                aalen_johansen(self._target, self._sample_weight), float(horizon_max or 0)
            )
        self._reader = CurveReader(
            features.schema, self._start_curve(start), self._reference, self._axis, tail
        )
        self.refreshes_: list[RefreshRecord] = []

    # ------------------------------------------------------------------------------- public facts
    @property
    def event_ids_(self) -> npt.NDArray[np.int64]:
        """Labels of the curves: 0 for event-free, then the causes as the user named them."""
        return self._target.event_ids

    @property
    def n_margins(self) -> int:
        """Margins the engine trains: K with the reference link, K + 1 with the free one."""
        return self._target.n_causes + (not self._reference)

    @property
    def person(self) -> npt.NDArray[np.int64]:
        """Person of each training row, by position in ``X``; rows of one are not independent."""
        return self._people[self._events.person]

    @property
    def horizon(self) -> Float32Array:
        """Horizon of each training row, also its last feature."""
        return self._events.horizon

    @property
    def target(self) -> npt.NDArray[np.int32]:
        """State of each training row at its horizon: 0 = event-free, 1..K = cause."""
        return self._events.target

    @property
    def initial_weight(self) -> Float32Array:
        """IPCW weight of each training row before any refresh."""
        return self._initial_weight

    @property
    def stacked_features(self) -> Float32Array:
        """Features of the training rows, the horizon last; built anew at each access."""
        return self._events.matrix(self._features)

    def folds(
        self, n_splits: int = 5, *, random_state: int | None = None
    ) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Training and test rows of a cross-validation over people, for the engine's ``cv``.

        Rows of one person always stay on one side.
        """
        splitter = GroupKFold(
            check_positive_int(n_splits, "n_splits"), shuffle=True, random_state=random_state
        )
        return list(splitter.split(self.person, groups=self.person))

    def sklearn_objective(
        self,
        y_true: npt.NDArray[Any],
        y_pred: npt.NDArray[Any],
        sample_weight: npt.NDArray[Any] | None = None,
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Gradient and Hessian as the engine's scikit-learn classifier asks for them.

        Pass it as the classifier's ``objective`` and fit on ``(stacked_features, target,
        sample_weight=initial_weight)``. The wrappers start at 0, so construct with
        ``start="zero"``, and train one margin a class, so with ``margins="free"``, but for a single
        cause one margin in all, which is ``margins="reference"`` (of ``params``, leave out the
        ``objective`` there). They offer no way to replace
        weights during training, so there is no refresh.
        """
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

    # --------------------------------------------------------------------------------- prediction
    @abstractmethod
    def _raw_margin(self, model: Any, matrix: Float32Array) -> npt.ArrayLike:
        """Sum of the trees of ``model`` on rows of features and time, (n_rows, n_margins)."""

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
            Whether curves are calibrated in time as those of `SurvivalBoost` are (equations (17)
            and (18) of the method): on the training people, expected and observed numbers of events
            agree. They then never fall, and the training people are asked once
            per model. With False, probabilities are those of the model's margins.

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
        self._check_model(model)
        features = check_features(X, like=self._reader.schema)
        if not calibrated:
            return self._model_curves(model, features, times)
        shape = self._calibrated_curves(model)
        # Each knot up to the last time that is asked about.
        n_knots = int(np.searchsorted(shape.trained_knots, times.max())) + 1
        asked = shape.trained_knots[:n_knots]
        cells = np.empty((self._target.n_causes, len(shape.trained_knots), features.n_samples))
        cells[:, :n_knots] = self._monotone_incidence(model, features, asked)
        cells[:, n_knots:] = cells[:, n_knots - 1 : n_knots]
        incidence = shape.values(shape.at_knots(cells), times)
        incidence[:, times <= 0] = 0.0
        survival = np.maximum(1 - incidence.sum(axis=0), 0.0)
        return np.concatenate([survival[None], incidence]).transpose(2, 0, 1)

    def predict_survival_function(
        self, model: Any, X: Any, times: Any, *, calibrated: bool = True
    ) -> FloatArray:
        """Probability of being event-free, (n_samples, n_times); as the incidences' index 0."""
        return self.predict_cumulative_incidence(model, X, times, calibrated=calibrated)[:, 0]

    def _model_curves(self, model: Any, features: Features, times: FloatArray) -> FloatArray:
        curves = self._reader.cumulative_incidence(
            lambda matrix: self._raw_margin(model, matrix), features, times
        )
        if self._monotone:
            _check_falling(curves[:, 0], times)
        return curves

    def _monotone_incidence(self, model: Any, features: Features, times: FloatArray) -> FloatArray:
        """Incidences at increasing times, (K, n_times, n_samples)."""
        curves = self._model_curves(model, features, times)
        return monotone_incidence(curves[:, 1:].transpose(1, 2, 0))

    def _calibrated_curves(self, model: Any) -> KnotCurves:
        """How curves of a model follow from its incidences at knots, from the training people."""
        people = np.arange(self._target.n_samples)
        if len(people) > _CALIBRATION_PEOPLE:
            people = np.linspace(0, len(people) - 1, _CALIBRATION_PEOPLE).astype(np.int64)
        some = replace(self._features, values=self._features.values[people])
        # A model that was trained on has other margins.
        first = np.arange(min(len(people), 16))
        probe = stacked_matrix(some, first, np.full(len(first), self._trained_until, np.float32))
        key = hashlib.sha256(np.asarray(self._raw_margin(model, probe)).tobytes()).digest()
        if self._known_curves is None or self._known_curves[0] != key:
            weight, end = self._sample_weight, self._curve_end
            happened = (self._target.event > 0) & (self._target.duration <= end)
            times = np.sort(self._target.duration[happened])
            knots = time_knots(self._axis, times, end, _N_INTERVALS)
            marginal = marginal_hazard(self._axis, knots, self._target, weight)
            shape = KnotCurves.uncalibrated(self._axis, knots, marginal, self._trained_until)
            cells = self._monotone_incidence(model, some, shape.trained_knots)
            sums = shape.crossed(
                cells, _taken(self._target, people), None if weight is None else weight[people]
            )
            self._known_curves = key, shape.calibrated(marginal, *sums)
        return self._known_curves[1]

    # ------------------------------------------------------------------------------- own models
    @abstractmethod
    def _check_model(self, model: Any) -> None:
        """Refuse a model that was not trained by this objective; see `_check_trained`."""

    @cached_property
    def _fingerprint(self) -> str:
        """Eight digits that stand for all that turns margins into curves."""
        schema, start = self._reader.schema, self._reader.start
        levels = {column: list(map(str, schema.categories[column])) for column in schema.categories}
        facts = repr(
            (schema.n_features, schema.names, levels, self._reference, self.event_ids_.tolist())
        )
        digest = hashlib.sha256(facts.encode())
        for part in (start.times, start.values, start.initial):
            # Another machine may sum in another order: only what float32 tells apart counts.
            digest.update(np.asarray(part, dtype=np.float32).tobytes())
        return digest.hexdigest()[:8]

    def _marked(self, columns: Sequence[str]) -> list[str]:
        """Names of the stacked columns, that of the time with the fingerprint.

        Engines show an objective no booster to mark, but they all save these names with it.
        """
        return [*columns[:-1], f"{columns[-1]}_{self._fingerprint}"]

    def _check_trained(self, columns: Sequence[str] | None, n_margins: int) -> None:
        """Refuse a model by its number of margins and the mark of its time column.

        Parameters
        ----------
        columns : sequence of str, or None
            Names of the model's columns; None where training knew of none, as in the scikit-learn
            wrappers, of whose models only the shape can be checked.
        n_margins : int
            Margins of the model.
        """
        if n_margins != self.n_margins:
            raise ValueError(self._wrong_margins(n_margins))
        if columns is None and self._start == "zero":
            return
        name = None if columns is None else columns[-1]
        if name is None or not name.endswith(f"_{self._fingerprint}"):
            msg = (
                f"This model was not trained by this objective: its last column is {name!r}, but "
                f"this objective's time column ends in '_{self._fingerprint}'. Predict with the "
                "objective that trained it, or with one made from the same data, settings and "
                "`random_state`."
            )
            raise ValueError(msg)

    def _wrong_margins(self, n_margins: float) -> str:
        return (
            f"The model has {n_margins:g} margins per row, but this objective trains "
            f"{self.n_margins}. Merge its parameters into yours: `{{**objective.params, ...}}`, "
            "and set neither the number of classes nor another objective."
        )

    # ---------------------------------------------------------------------------- for the adapters
    def _kaplan_meier(self, people: npt.NDArray[np.int64] | None = None) -> KaplanMeierCensoring:
        target, weight = self._target, self._sample_weight
        if people is not None:
            target = replace(target, event=target.event[people], duration=target.duration[people])
            weight = None if weight is None else weight[people]
        return KaplanMeierCensoring().fit(target, sample_weight=weight)

    def _censoring_model(self, censoring: Any, target: SurvivalTarget) -> CensoringModel:
        if isinstance(censoring, str):
            check_choice(censoring, "censoring", ("kaplan-meier",))
            # Weights use the same curve on the time axis of training (`_marginal_censoring`).
            return KaplanMeierCensoring().fit(target, sample_weight=self._sample_weight)
        if not isinstance(censoring, CensoringModel):
            msg = (
                f"`censoring` of type {type(censoring).__name__} has no method "
                "`survival(times, X=None, *, left=False)`; see `CensoringModel`."
            )
            raise TypeError(msg)
        return censoring

    def _censoring_survival(
        self,
        role: Role,
        X: Any,
        target: SurvivalTarget,
        marginal: KaplanMeierCensoring | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """G at the horizons of the rows that stayed, and G(t-) at the leavers' event times.

        ``target`` has durations as the user gave them. A ``marginal`` curve takes the place of the
        problem's own, for a fold.
        """
        horizon = role.horizon[role.stayed].astype(np.float64)
        if not self._fixed_censoring:
            marginal = marginal or self._marginal_censoring
            happened = time_feature(self._axis.answering(target.duration[role.leaver]))
            if self._axis.unit:
                return marginal.survival(horizon), marginal.survival(happened)
            return marginal.survival(horizon), marginal.survival(happened, left=True)

        # A model of the user's sees people and event times as the user gave them. A horizon within
        # a unit asks who is uncensored as the unit begins.
        def survival(people: npt.NDArray[np.int64], times: FloatArray, left: bool) -> FloatArray:
            known = self._initial_censoring.survival(times, take_rows(X, people), left=left)
            return _check_survival(known, len(people))

        in_units = bool(self._axis.unit)
        # A beginning that is rounded up must not be taken for a time after it.
        asked = self._axis.number(horizon) * self._axis.unit * (1 - 1e-6) if in_units else horizon
        return (
            survival(role.person[role.stayed], asked, left=in_units),
            survival(role.leaver, target.duration[role.leaver], left=True),
        )

    @property
    @abstractmethod
    def _hessian_scale(self) -> float:
        """Scale of the Hessian at which the engine's regularisation keeps its usual meaning."""

    def _derivatives(
        self, margin: npt.NDArray[Any], rows: npt.NDArray[np.int64] | None, order: Literal["C", "F"]
    ) -> tuple[Float32Array, Float32Array]:
        """Gradient and Hessian of all training rows, or of a fold's, in reused float32 buffers."""
        if rows is None:
            target = self.target
            # A refresh callback offers its weights before each round. A training without one, also
            # after an interrupted training with one, thus always sees the initial weights.
            offered = self._slot.take()
            weight = self._initial_weight if offered is None else offered
        else:
            target, weight = self.target[rows], self._fold_weight(rows, held_out=False)
        shape = (len(target), self.n_margins)
        if margin.size != len(target) * self.n_margins:
            raise ValueError(self._wrong_margins(margin.size / len(target)))
        gradient, hessian = self._scratch.pair(shape, order)
        gradient_hessian(
            margin.reshape(shape, order=order),
            target,
            weight,
            reference=self._reference,
            hessian_scale=self._hessian_scale,
            out=(gradient, hessian),
        )
        return gradient, hessian

    def _trains_on(self, fold: Any) -> None:
        """Remember that the objective was asked about a fold, which is thus not held out."""
        if not hasattr(self, "_training_folds"):
            self._training_folds = WeakSet()
        self._training_folds.add(fold)

    def _is_held_out(self, fold: Any) -> bool:
        """Whether only the metric was ever asked about a fold; the objective is asked first."""
        return fold not in getattr(self, "_training_folds", ())

    def _fold_weight(self, rows: npt.NDArray[np.int64], *, held_out: bool) -> Float32Array:
        """Weights of a fold's rows, from the censoring of its training people alone.

        Training people are all without a row among the held-out ones: people who were censored
        before each of their horizons have no row at all, and must not be missed in the censoring.
        """
        if self._fixed_censoring or len(rows) == self._events.n_rows:
            return self._initial_weight[rows]
        if not hasattr(self, "_fold_weights"):
            self._fold_weights = {}
        # With two folds, the training rows of one are the held-out rows of the other.
        key = hashlib.sha256(rows.tobytes() + bytes([held_out])).digest()
        if key not in self._fold_weights:
            held_out_rows = rows if held_out else np.delete(np.arange(self._events.n_rows), rows)
            people = np.setdiff1d(
                np.arange(self._target.n_samples), self._events.person[held_out_rows]
            )
            weight, _ = self._events.weights(
                *self._censoring_survival(
                    self._events, None, self._target, self._kaplan_meier(people)
                ),
                floor=self._min_censoring_survival,
                sample_weight=self._sample_weight,
            )
            self._fold_weights[key] = weight[rows].astype(np.float32)
        return self._fold_weights[key]

    def _start_curve(self, start: str) -> StepFunction:
        """Margins by time: of the marginal curve, of the best constant, or 0."""
        first = int(self._reference)
        if start == "zero":
            levels = np.zeros(self.n_margins)
            return StepFunction(np.empty(0), np.empty((0, self.n_margins)), levels)
        # Half a person: the smallest probability that the data could tell from 0.
        floor = 0.5 / self._target.n_samples
        if start == "marginal":
            curves = aalen_johansen(self._target, self._sample_weight)
            values, initial = curves.values, curves.initial[None]
            times = curves.times
        else:
            frequency = np.bincount(
                self.target, weights=self._initial_weight, minlength=self._target.n_causes + 1
            )
            values, times = np.empty((0, len(frequency))), np.empty(0)
            initial = frequency[None] / frequency.sum()

        def margins(proba: FloatArray) -> FloatArray:
            other = proba[:, :1] if self._reference else np.ones((len(proba), 1))
            return log_odds(proba[:, first:], other, floor)

        return StepFunction(times, margins(values), margins(initial)[0])

    def _start_margin(self, horizon: npt.ArrayLike) -> FloatArray:
        return self._reader.start(horizon)

    def _exit_rows(self, role: Role, *, left: bool) -> tuple[Float32Array, FloatArray]:
        """Matrix and time feature of the leavers of a role, at (or just before) their exit."""
        feature = exit_feature(self._target.duration[role.leaver], self._axis, left=left)
        return stacked_matrix(self._features, role.leaver, feature), feature.astype(np.float64)

    def _held_out_rows(self, X: Any, y: Any) -> HeldOutRows:
        check_paired(X, y)
        features = check_features(X, like=self._reader.schema)
        given = check_survival_target(y, event_ids=self.event_ids_)
        if features.n_samples != given.n_samples:
            msg = f"`X` has {features.n_samples} rows but `y` has {given.n_samples}."
            raise ValueError(msg)
        rounded = replace(given, duration=time_feature(given.duration).astype(np.float64))
        target = self._axis.aligned(rounded)
        stacker = TimeStacker(
            self._stacker.n_horizons,
            self._stacker.sampler,
            # Horizons where training looks, whoever the held-out people are.
            horizon_max=self._stacker.horizon_max,
            random_state=self._held_out_stream,
            time_unit=self._axis.unit,
        )
        role = event_role(target, stacker.draw(target))
        weight, _ = role.weights(
            *self._censoring_survival(role, X, given),
            floor=self._min_censoring_survival,
        )
        if not weight.any():
            msg = (
                f"None of the {target.n_samples} held-out people counts: all were censored before "
                f"every horizon up to {self._stacker.horizon_max:g}. "
                "Pass people who were followed for longer."
            )
            raise ValueError(msg)
        return HeldOutRows(
            role.matrix(features),
            role.target,
            weight.astype(np.float32),
            self._start_margin(role.horizon),
        )

    def _log_floor(self, n_floored: int, n_rows: int) -> None:
        if n_floored:
            logger.info(
                "min_censoring_survival=%g limits the weight of %d of %d rows (%.1f %%).",
                self._min_censoring_survival,
                n_floored,
                n_rows,
                100 * n_floored / n_rows,
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._transient}


TrainingProblem.__doc__ = (TrainingProblem.__doc__ or "").replace("{parameters}", _PARAMETERS)


def counted_target(y: Any, sample_weight: Any = None) -> SurvivalTarget:
    """Checked outcomes of the people whose weight is not 0; causes of nobody else are known."""
    target = check_survival_target(y)
    weight = check_sample_weight(sample_weight, target.n_samples)
    return target if weight is None else _taken(target, np.flatnonzero(weight))


def _taken(target: SurvivalTarget, people: npt.NDArray[np.int64]) -> SurvivalTarget:
    """Outcomes of some people, with only the causes that happened to them."""
    return check_survival_target(
        replace(target, event=target.event[people], duration=target.duration[people])
    )


def _check_falling(survival: FloatArray, times: FloatArray) -> None:
    """Refuse curves that rise, although every tree was to be constrained."""
    in_order = survival[:, np.argsort(times)]
    rise = np.diff(in_order, axis=1).max(initial=0.0)
    if rise > _RISE:
        msg = (
            f"Survival rises by {rise:.2g} between two times, so the trees were grown without the "
            "constraint on time. Merge `objective.params` into the parameters of training, or "
            "construct the objective with `monotone=False`."
        )
        raise ValueError(msg)


def _check_survival(survival: npt.ArrayLike, n_rows: int) -> FloatArray:
    array = np.asarray(survival, dtype=np.float64)
    if array.shape != (n_rows,):
        msg = f"The censoring model returned shape {array.shape} for {n_rows} times."
        raise ValueError(msg)
    bad = np.flatnonzero(~((array >= 0) & (array <= 1)))
    if len(bad):
        msg = f"The censoring model returned {array[bad[0]]}, which is not a probability."
        raise ValueError(msg)
    return array


class Alternation:
    """The feedback loop of one training: event model and censoring model weigh each other.

    Parameters
    ----------
    problem : TrainingProblem
        Whose event rows are weighted; its ``censoring_`` and ``refreshes_`` are kept up to date.

    Attributes
    ----------
    weight : float32 array
        Current weights of the event rows; the Kaplan-Meier ones before the first refresh.
    censorings : Role
        Rows of the censoring model.
    start : StepFunction
        Its log-odds at the start, from Kaplan-Meier, as one column (equation (9)).
    """

    def __init__(self, problem: TrainingProblem) -> None:
        if problem._fixed_censoring:
            msg = (
                "The censoring model was given and stays as it is, so there is nothing to refresh. "
                "Leave out the callback, or `censoring=`."
            )
            raise ValueError(msg)
        self._problem = problem
        self.weight = problem.initial_weight.copy()
        target = problem._target
        self.censorings = censoring_role(target, problem._stack)
        curve = problem._marginal_censoring.curve_
        self.start = censoring_log_odds(curve, target.n_samples)
        self._refreshes: list[RefreshRecord] = []
        problem.censoring_ = problem._initial_censoring
        problem.n_floored_ = problem._initial_n_floored
        problem.refreshes_ = self._refreshes

    @property
    def has_censoring(self) -> bool:
        """Whether any row is censored; otherwise all weights are 1 and stay so."""
        return bool(self.censorings.target.any())

    def refresh(
        self,
        trainer: CensoringTrainer,
        stayed_margin: npt.ArrayLike,
        exit_margin: npt.ArrayLike,
        *,
        n_rounds: int,
        round: int,
    ) -> None:
        """Advance the censoring model and replace the weights.

        Parameters
        ----------
        trainer : CensoringTrainer
            The censoring model to advance.
        stayed_margin : array of shape (number of rows stayed, n_margins)
            The event model's margins at the rows that stayed.
        exit_margin : array of shape (n_leavers, n_margins)
            The event model's margins for the censored people, at the times they were censored.
        n_rounds : int
            Rounds to advance by.
        round : int
            Rounds of the event model so far, for the record.
        """
        problem = self._problem

        def event_free(margin: npt.ArrayLike) -> FloatArray:
            return probabilities(margin, reference=problem._reference)[:, 0]

        weight, n_floored_censoring = self.censorings.weights(
            event_free(stayed_margin),
            event_free(exit_margin),
            floor=problem._min_event_survival,
            sample_weight=problem._sample_weight,
        )
        trainer.advance(weight, n_rounds)

        at_horizon: FloatArray = expit(-np.asarray(trainer.stayed_margin(), dtype=np.float64))
        at_exit: FloatArray = expit(-np.asarray(trainer.exit_margin(), dtype=np.float64))
        at_exit[problem._target.duration[problem._events.leaver] <= 0] = 1.0
        weight, n_floored = problem._events.weights(
            at_horizon,
            at_exit,
            floor=problem._min_censoring_survival,
            sample_weight=problem._sample_weight,
        )
        self.weight = weight.astype(np.float32)
        problem.n_floored_ = n_floored
        problem._log_floor(n_floored, len(weight))
        problem.censoring_ = BoostedCensoring(
            trainer.model(), self.start, problem._reader.schema, problem._axis
        )
        self._refreshes.append(
            RefreshRecord(
                round, float(weight.mean()), float(weight.max()), n_floored, n_floored_censoring
            )
        )
        # Another thread may train with the same problem: the latest refresh is what it shows.
        problem.refreshes_ = self._refreshes

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
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.model_selection import GroupKFold

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
    stacked_matrix,
)
from survival_objectives.validation import (
    Features,
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
]

logger = logging.getLogger("survival_objectives")

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
RawMargin = Callable[[Float32Array], npt.ArrayLike]

# Rows evaluated at a time when curves are predicted: 2^18 rows x 100 features take 100 MB.
_PREDICTION_ROWS = 2**18


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
    """

    schema: Features
    start: StepFunction
    reference: bool

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
        feature = time_feature(times)
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
        Latest horizon. Default: the longest duration.
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
        Weights of people; a weight of 2 acts like a repeated person.
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

    _buffers: Float32Array
    _fold_weights: dict[bytes, Float32Array]
    _training_folds: WeakSet[Any]
    _offered_weight: Float32Array

    #: Attributes that hold engine handles and scratch arrays: rebuilt on demand, never pickled.
    _transient: tuple[str, ...] = (
        "_buffers",
        "_fold_weights",
        "_training_folds",
        "_offered_weight",
    )

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
        check_paired(X, y, sample_weight)
        features = check_features(X)
        target = check_survival_target(y)
        check_time_resolution(target.duration)
        warn_about_outcomes(target)
        if features.n_samples != target.n_samples:
            msg = f"`X` has {features.n_samples} rows but `y` has {target.n_samples}."
            raise ValueError(msg)
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
        self._sample_weight = check_sample_weight(sample_weight, target.n_samples)
        # Training and held-out horizons come from separate streams, so that adding a held-out set
        # leaves the training rows as they are.
        generator = check_random_state(random_state)
        train_stream, self._held_out_stream = generator.spawn(2)
        self._engine_seed = int(generator.integers(2**31 - 1))
        self._stacker = TimeStacker(
            n_horizons,
            horizon_sampler,
            horizon_max=horizon_max,
            hard_zero_fraction=hard_zero_fraction,
            random_state=train_stream,
        )

        self._features = features
        # Time is float32 to the trees, so it is to everything else (see `stacking`).
        self._target = replace(target, duration=time_feature(target.duration).astype(np.float64))
        if horizon_max is not None:
            check_causes_seen(self._target, horizon_max)
        self._stack = self._stacker.draw(self._target)
        self._events = event_role(self._target, self._stack)
        if not self._events.stayed.any():
            msg = (
                "Nobody is event-free at any horizon, so there is one class only to learn. "
                "Choose horizons that are not all beyond the longest duration."
            )
            raise ValueError(msg)
        self._fixed_censoring = not isinstance(censoring, str)
        self._initial_censoring = self._censoring_model(censoring)
        self.censoring_ = self._initial_censoring
        weight, self._initial_n_floored = self._events.weights(
            *self._censoring_survival(self._initial_censoring, self._events, X, target.duration),
            floor=self._min_censoring_survival,
            sample_weight=self._sample_weight,
        )
        self._initial_weight = weight.astype(np.float32)
        self.n_floored_ = self._initial_n_floored
        self._log_floor(self.n_floored_, self._events.n_rows)
        check_choice(start, "start", ("marginal", "constant", "zero"))
        self._start = start
        self._reader = CurveReader(features.schema, self._start_curve(start), self._reference)
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
        """Person of each training row: rows of one person are not independent."""
        return self._events.person

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

    def predict_cumulative_incidence(self, model: Any, X: Any, times: Any) -> FloatArray:
        """Probability of each state at each time.

        Parameters
        ----------
        model
            What the engine's training call returned.
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
        return self._reader.cumulative_incidence(
            lambda matrix: self._raw_margin(model, matrix), X, times
        )

    def predict_survival_function(self, model: Any, X: Any, times: Any) -> FloatArray:
        """Probability of being event-free, (n_samples, n_times); as the incidences' index 0."""
        return self.predict_cumulative_incidence(model, X, times)[:, 0]

    # ---------------------------------------------------------------------------- for the adapters
    def _kaplan_meier(self, people: npt.NDArray[np.int64] | None = None) -> KaplanMeierCensoring:
        target, weight = self._target, self._sample_weight
        if people is not None:
            target = replace(target, event=target.event[people], duration=target.duration[people])
            weight = None if weight is None else weight[people]
        return KaplanMeierCensoring().fit(target, sample_weight=weight)

    def _censoring_model(self, censoring: Any) -> CensoringModel:
        if isinstance(censoring, str):
            check_choice(censoring, "censoring", ("kaplan-meier",))
            return self._kaplan_meier()
        if not isinstance(censoring, CensoringModel):
            msg = (
                f"`censoring` of type {type(censoring).__name__} has no method "
                "`survival(times, X=None, *, left=False)`; see `CensoringModel`."
            )
            raise TypeError(msg)
        return censoring

    @staticmethod
    def _censoring_survival(
        model: CensoringModel, role: Role, X: Any, duration: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """G at the horizons of the rows that stayed, and G(t-) at the leavers' event times."""
        # Kaplan-Meier was fitted to float32 times and does not look at people; a user's own model
        # sees people and event times as the user gave them.
        marginal = isinstance(model, KaplanMeierCensoring)
        if marginal:
            duration = time_feature(duration).astype(np.float64)

        def survival(people: npt.NDArray[np.int64], times: FloatArray, left: bool) -> FloatArray:
            rows = None if marginal else take_rows(X, people)
            return _check_survival(model.survival(times, rows, left=left), len(people))

        stayed = role.stayed
        horizon = role.horizon[stayed].astype(np.float64)
        return (
            survival(role.person[stayed], horizon, left=False),
            survival(role.leaver, duration[role.leaver], left=True),
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
            # A refresh callback offers its weights anew before each round. A training without one,
            # also after an interrupted training with one, thus always sees the initial weights.
            offered = self.__dict__.pop("_offered_weight", None)
            weight = self._initial_weight if offered is None else offered
        else:
            target, weight = self.target[rows], self._fold_weight(rows, held_out=False)
        shape = (len(target), self.n_margins)
        if not hasattr(self, "_buffers") or self._buffers[0].shape != shape:
            if order == "C":
                self._buffers = np.empty((2, *shape), np.float32)
            else:
                self._buffers = np.empty((2, *shape[::-1]), np.float32).transpose(0, 2, 1)
        gradient, hessian = self._buffers
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

    def _check_taken(self) -> None:
        """Raise an error if the weights offered for the last round were not trained with."""
        if "_offered_weight" in self.__dict__:
            del self._offered_weight
            msg = (
                "The refreshed weights were not used in the last round: this callback belongs to "
                "another objective than the one that is trained. Use `refresh()` of that one."
            )
            raise ValueError(msg)

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
            people = np.setdiff1d(np.arange(self._target.n_samples), self.person[held_out_rows])
            weight, _ = self._events.weights(
                *self._censoring_survival(
                    self._kaplan_meier(people), self._events, None, self._target.duration
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
        """Matrix and times of the leavers of a role, at (or just before) the time they left."""
        times = self._target.duration[role.leaver]
        feature = time_feature(times, left=left)
        return stacked_matrix(self._features, role.leaver, feature), times

    def _held_out_rows(self, X: Any, y: Any) -> HeldOutRows:
        check_paired(X, y)
        features = check_features(X, like=self._reader.schema)
        given = check_survival_target(y, event_ids=self.event_ids_)
        if features.n_samples != given.n_samples:
            msg = f"`X` has {features.n_samples} rows but `y` has {given.n_samples}."
            raise ValueError(msg)
        target = replace(given, duration=time_feature(given.duration).astype(np.float64))
        # Horizons where training looks, whoever the held-out people are.
        t_max = self._stacker.horizon_max or float(self._target.duration.max())
        stacker = TimeStacker(
            self._stacker.n_horizons,
            self._stacker.sampler,
            horizon_max=t_max,
            random_state=self._held_out_stream,
        )
        role = event_role(target, stacker.draw(target))
        weight, _ = role.weights(
            *self._censoring_survival(self._initial_censoring, role, X, given.duration),
            floor=self._min_censoring_survival,
        )
        if not weight.any():
            msg = (
                f"None of the {target.n_samples} held-out people counts: all were censored before "
                f"every horizon up to {t_max:g}. Pass people who were followed for longer."
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
        curve = problem._kaplan_meier().curve_
        self.start = censoring_log_odds(curve, target.n_samples)
        problem.censoring_ = problem._initial_censoring
        problem.n_floored_ = problem._initial_n_floored
        problem.refreshes_ = []

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
        problem.censoring_ = BoostedCensoring(trainer.model(), self.start, problem._reader.schema)
        problem.refreshes_.append(
            RefreshRecord(
                round, float(weight.mean()), float(weight.max()), n_floored, n_floored_censoring
            )
        )

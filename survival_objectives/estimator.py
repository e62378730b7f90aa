"""SurvivalBoost: the scikit-learn estimator of the package, for all engines."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from survival_objectives._display import DisplayMixin
from survival_objectives._fit.cohort import (
    Batches,
    Cohort,
    MemoryBatches,
    checked_eval_set,
    split_cohort,
)
from survival_objectives._fit.engine import (
    ENGINES,
    engine,
    installed_engine,
    is_installed,
)
from survival_objectives._fit.population import LocalReduction
from survival_objectives._fit.training import Training
from survival_objectives._model import files
from survival_objectives._model.checks import warn_if_constant, warn_if_floored
from survival_objectives._model.fitted import FittedModel, MarginalCensoring
from survival_objectives._model.mixture import HazardMixture
from survival_objectives._parameters import HAZARDS, by_method
from survival_objectives.censoring import CensoringModel
from survival_objectives.completion import CompletionModel
from survival_objectives.horizon_view import view_at
from survival_objectives.limits import check_parameters
from survival_objectives.metrics import integrated_brier_score
from survival_objectives.onnx_export import Exportable, OnnxMixin, exportable
from survival_objectives.outcomes import EVENT_FREE, named_outcomes, survival_outcomes
from survival_objectives.stacking import HorizonSampler
from survival_objectives.validation import (
    Features,
    check_choice,
    check_features,
    check_fraction,
    check_paired,
    check_random_state,
    check_survival_target,
    check_times,
    warn_about_outcomes,
)

__all__ = ["ENGINES", "SurvivalBoost"]

logger = logging.getLogger("survival_objectives")

FloatArray = npt.NDArray[np.float64]

_N_TIMES = 101
# Stack level of the caller of `fit`, for warnings.
_CALLER = 3


class SurvivalBoost(OnnxMixin, DisplayMixin, BaseEstimator):  # type: ignore[misc]
    r"""Gradient boosted trees for survival analysis and competing risks.

    Predicts for every person, at any time t, the probability of being event-free at t and the
    cumulative incidence of each of K competing causes by t, from right-censored outcomes. Trees are
    grown by XGBoost, LightGBM or CatBoost. By default, follow-up is divided into about 31
    intervals, and the model is a mixture of three discrete-time hazard models: a ridge regression
    of the log hazards, boosted trees, and boosted trees that start from the regression. The mixture
    weights, and the number of boosting rounds, maximise the likelihood of held-out people. A
    censored person is in the risk set until censoring, so no censoring weights are needed.

    Other methods (``censoring``) boost the IPCW log-loss of the state at sampled horizons, with the
    horizon as a feature (Alberge et al., AISTATS 2025).

    Parameters
    ----------
    engine : {"xgboost", "lightgbm", "catboost"}, default="xgboost"
        Library that grows the trees. If it is not installed, an installed one is used instead, and
        this is logged.
    n_estimators : int, optional
        Number of boosting rounds; with hazards or early stopping the maximum, and the number is
        chosen on held-out people. Default: 300 with hazards (1000 above 50 000 people), 200 with
        other methods.
    learning_rate : float, optional
        Shrinkage of every tree. Default: 0.15 with hazards, 0.05 with other methods.
    max_depth : int, default=4
        Maximum depth of the trees: deep ones overfit the time axis. Trees of the censoring model
        are one level shallower.
    n_horizons : int, default=5
        Number of horizons per person and round; boosting alternates between three draws of them.
    horizon_sampler : str or callable, default="mixture"
        Distribution of the horizons; see `survival_objectives.stacking.TimeStacker`.
    refresh_every : int, optional
        Rounds between two refreshes of horizons and of weights or imputed states. Default: 10, and
        20 for CatBoost, where every refresh begins a new model.
    censoring : str or CensoringModel, default="auto"
        How censored people are treated.

        - "hazards": discrete-time hazard models; people are in the risk set until censoring, and no
          weights are needed;
        - "boosted": people censored before a horizon have weight 0 there, and the others are
          weighted by the inverse probability of being uncensored (IPCW), from a boosted model of
          censoring that is trained in alternation with the model of the events, as in the paper;
        - "kaplan-meier": the same, with the marginal Kaplan-Meier curve of censoring;
        - "imputed": the state of people censored before a horizon is drawn at every refresh, first
          from the marginal Aalen-Johansen curve, then from the model itself;
        - "doubly-robust": targets of everybody combine the weights of "boosted" with what the model
          of the events says about people after they were censored (equation (47)). They are right
          if either model is, for instance where features tell who is censored. Not on CatBoost;
        - a `survival_objectives.censoring.CensoringModel`, such as the known censoring of a
          designed study: it gives the weights, and is never refreshed. It is evaluated on features
          and event times as they were passed to ``fit``. It is not saved with the model;
        - "auto": "hazards". If hazards cannot be trained (``monotone=False``, a warm start without
          an integer ``random_state``, people who take turns in external memory), "imputed" if more
          than two thirds are censored, else "boosted". ``censoring_reason_`` says why.
    completion : "hazards" or CompletionModel, optional
        Model of the incidences that completes censored outcomes: at horizons after censoring, the
        target is a distribution over the states (equation (46)), and no censoring weights are
        needed. "hazards" uses mixtures of hazards, cross-fitted on two halves of the people. Or any
        object with ``predict_cumulative_incidence(X, times)``, such as another fitted
        SurvivalBoost, or a Cox model wrapped in
        `survival_objectives.completion.SurvivalCompletion`, fitted to other people.
    monotone : bool, default=True
        Whether survival curves never rise and incidences never fall in time.
    time_smoothing : float, default=0.03
        Share of the observed events between two knots. Monotone curves are linear between knots;
        their values at knots are averages of the trees' steps, calibrated so that expected and
        observed numbers of events agree in time. With 0, curves are the trees' own steps, neither
        averaged nor calibrated. Not used by hazards, which have about 31 intervals.
    early_stopping_rounds : int, optional
        Stop after this many rounds without a better held-out loss, and keep the best round. Hazards
        always stop early: by default when twenty rounds show almost no gain.
    validation_fraction : float, default=0.1
        Share of people held out for early stopping if ``fit`` gets no ``eval_set``. Hazards hold
        out folds instead.
    min_censoring_survival : float, default=0.05
        Lower bound of the censoring survival in the weights; ``n_floored_`` counts the rows that it
        affects.
    min_leaf_people : float, optional
        Minimum sum of Hessians in a leaf, in units of people, independent of ``n_horizons``.
        Default: 15 with hazards, 5 with other methods. CatBoost has no such setting.
    min_split_gain : float, optional
        Minimum gain of a split, about twice the log-likelihood it adds, in units of people. A
        pure-noise split gains about 1 on average, for any number of people; the best of many gains
        more. So trees stop growing where only noise is left. LightGBM then does not retry a column
        further down a branch in which it gained less, so it misses some interactions. Default: 1
        with hazards (LightGBM 0), 2 with other methods. CatBoost has no such setting.
    max_features : float, optional
        Share of the columns, including the time, that a tree (CatBoost: a split) may choose from;
        at least four columns. Default: 1 with hazards, 0.5 with other methods.
    horizon_max : float, optional
        Latest horizon; curves are flat after it. Default: the longest duration. With censoring
        weights, horizons then end when fewer than one in ten people are uncensored, and curves
        continue with the marginal hazards to the end of follow-up.
    linear : bool, default=True
        Hazards: whether the mixture includes a linear regression, and trees that start from it.
    n_folds : int, default=2
        Hazards: number of folds held out in turn. With more than 50 000 people, a single part is
        held out instead.
    rows_per_person : int, "all" or None, default=None
        Hazards: maximum number of intervals per person besides the last. If a person was at risk in
        more, a random subset is drawn and weighted to represent all. Default: 8, and fewer above
        50 000 people, of whom then only a random subset may be used.
    warm_start : bool, default=False
        Whether another ``fit`` continues the current model, up to ``n_estimators`` rounds in total.
        With hazards it needs the same integer ``random_state``, which draws the same folds.
    random_state : int, Generator, RandomState or None
        Seed. The same seed and number of threads give the same model, bit for bit.
    n_jobs : int, optional
        Number of threads; -1 for all that the process may use. Default: chosen by the size of the
        data.
    verbose : int, default=0
        Whether to show progress on standard error.
    engine_params : dict, optional
        Further settings under the engine's own names or aliases, which override those above.
        Settings that conflict with how this class trains raise an error.

    Attributes
    ----------
    event_ids_ : array of shape (K + 1,)
        Labels of the curves: 0 for event-free, then the causes.
    times_ : array
        Default prediction times: an even grid up to the time at which one person in a hundred is
        still followed, or up to ``horizon_max``.
    booster_ : object or None
        The engine's own model. With hazards, the trees with the largest weight, fitted to all
        people; None without trees.
    member_weights_ : dict of str to float
        Hazards: mixture weights of "linear", "trees" and "trees on linear"; they sum to 1.
    censoring_ : CensoringModel
        The boosted model of censoring at the end of training, or the one that was passed; with
        other methods the Kaplan-Meier curve of censoring on a fixed time grid.
    censoring_method_ : str
        The method used: one of the names above, "given" or "completed".
    censoring_reason_ : str
        Why this method was used, in a sentence or two.
    engine_ : str
        The engine used in training.
    n_estimators_ : int
        Number of rounds of ``booster_``.
    history_ : list of RoundRecord
        Held-out loss after every round, if people were held out. With hazards, the negative
        held-out log-likelihood per person of the trees of ``booster_``, every ten rounds.
    n_events_ : array of shape (K + 1,)
        Number of training people who were censored, and who had each cause.
    n_floored_ : int
        Number of rows at the last refresh whose weight is limited by ``min_censoring_survival``; 0
        without weights.
    refreshed_rounds_ : list of int
        Rounds after which the censoring model was trained further or, with imputation, states were
        drawn from the model; empty with hazards.
    feature_names_in_, n_features_in_
        As in scikit-learn.

    Notes
    -----
    A scikit-learn pipeline forwards only the methods of scikit-learn. For the curves of its last
    step use ``pipeline[-1].predict_survival_function(pipeline[:-1].transform(X), times)``.

    Examples
    --------
    >>> from survival_objectives.datasets import make_competing_risks
    >>> data = make_competing_risks(500, n_causes=2, random_state=0)
    >>> model = SurvivalBoost(n_estimators=20, random_state=0).fit(data.X, data.y)
    >>> model.predict_cumulative_incidence(data.X[:3], times=[1.0, 2.0]).shape
    (3, 3, 2)
    """

    def __init__(
        self,
        engine: str = "xgboost",
        *,
        n_estimators: int | None = None,
        learning_rate: float | None = None,
        max_depth: int = 4,
        n_horizons: int = 5,
        horizon_sampler: str | HorizonSampler = "mixture",
        refresh_every: int | None = None,
        censoring: str | CensoringModel = "auto",
        completion: str | CompletionModel | None = None,
        monotone: bool = True,
        time_smoothing: float = 0.03,
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.1,
        min_censoring_survival: float = 0.05,
        min_leaf_people: float | None = None,
        min_split_gain: float | None = None,
        max_features: float | None = None,
        horizon_max: float | None = None,
        linear: bool = True,
        n_folds: int = 2,
        rows_per_person: int | str | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine_params: dict[str, Any] | None = None,
    ) -> None:
        self.engine = engine
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.n_horizons = n_horizons
        self.horizon_sampler = horizon_sampler
        self.refresh_every = refresh_every
        self.censoring = censoring
        self.completion = completion
        self.monotone = monotone
        self.time_smoothing = time_smoothing
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.min_censoring_survival = min_censoring_survival
        self.min_leaf_people = min_leaf_people
        self.min_split_gain = min_split_gain
        self.max_features = max_features
        self.horizon_max = horizon_max
        self.linear = linear
        self.n_folds = n_folds
        self.rows_per_person = rows_per_person
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine_params = engine_params

    booster_: Any
    n_estimators_: int
    censoring_: CensoringModel
    censoring_method_: str
    _model: FittedModel

    # ---------------------------------------------------------------------------------- training
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        *,
        duration: Any = None,
        event: Any = None,
        censored: Any = None,
    ) -> SurvivalBoost:
        """Train the model: ``fit(X, y)``, or ``fit(frame, duration="time", event="status")``.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            Numbers with NaN for missing; frames (pandas, polars) may have categorical or text
            columns.
        y : DataFrame, dict, structured array, tuple or array, optional
            Outcomes: ``event`` (0 = censored, 1..K = causes, or text) and ``duration``. Names of
            causes are kept in ``event_names_``.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. Only their ratios matter: they are divided by their mean, so that limits
            such as ``min_leaf_people`` are in units of people.
        eval_set : pair (X, y), optional
            Held-out people for early stopping. They affect neither the trees nor the censoring
            weights; without ``early_stopping_rounds`` their loss is only recorded in ``history_``.
            With hazards they determine rounds and mixture weights, in place of folds.
        duration, event : column names, optional
            Instead of ``y``: the columns of the frame ``X`` that hold the outcomes. All other
            columns are features.
        censored : str or sequence of str, optional
            Labels of text events that mean censored. Default: the label "censored".

        Returns
        -------
        self : SurvivalBoost
        """
        X, y = _separated(X, y, duration, event, censored)
        y, names = named_outcomes(y, censored=censored)
        if names is not None and eval_set is not None and len(eval_set) == 2:
            eval_set = eval_set[0], named_outcomes(eval_set[1], names=names, censored=censored)[0]
        self._check_parameters()
        is_warm_start = bool(self.warm_start) and self.__sklearn_is_fitted__()
        if is_warm_start:
            self._check_warm_start()
        keep_given = bool(self.own_models())
        people = Cohort.checked(
            X,
            y,
            sample_weight,
            like=self._model.schema if is_warm_start else None,
            event_ids=self.event_ids_ if is_warm_start else None,
            keep_given=keep_given,
        )
        if not is_warm_start:
            warn_about_outcomes(people.target)
        people = people.with_relative_weights(LocalReduction())
        counts = np.bincount(people.target.event, minlength=people.target.n_causes + 1)
        generator = check_random_state(self.random_state)
        held_out = None
        if eval_set is not None:
            held_out = checked_eval_set(eval_set, people, keep_given=keep_given)
        previous = self._model if is_warm_start else None
        if not is_warm_start:
            self._forget()
        training = Training(
            self._own_parameters(),
            engine(self.engine_ if is_warm_start else installed_engine(self.engine)),
            generator,
            previous=previous,
        )
        split = partial(_split, fraction=self.validation_fraction, generator=generator)
        model = training.fit(
            MemoryBatches([people]),
            held_out,
            split=None if self.early_stopping_rounds is None else split,
        )
        event_names = names and tuple(names[label] for label in model.frame.event_ids)
        if names is None and previous is not None:
            event_names = previous.frame.event_names
        self._set_model(model.with_frame(event_names=event_names).with_record(n_events=counts))
        self._warn_about_model(people.features)
        return self

    def own_models(self) -> list[str]:
        """Names of parameters whose models need ``X`` and times as passed to ``fit``."""
        names = [] if isinstance(self.censoring, str) else ["censoring"]
        return names if self.completion is None else [*names, "completion"]

    def _own_parameters(self) -> dict[str, Any]:
        """Parameters of this class, without those of subclasses."""
        return {name: getattr(self, name) for name in SurvivalBoost._get_param_names()}

    def _forget(self) -> None:
        """Remove the fitted model, so that a failed training leaves no mix of old and new state."""
        for name in ("_model", "booster_"):
            self.__dict__.pop(name, None)

    def _warn_about_model(self, features: Features) -> None:
        """Warn the caller of `fit` if probabilities are biased, or the same for all people."""
        record, floor = self._model.record, self.min_censoring_survival
        is_known = warn_if_floored(record.n_floored, record.n_weighted_rows, floor, _CALLER)
        if record.n_floored and not is_known:
            logger.info(
                "min_censoring_survival=%g limits the weight of %d of %d rows.",
                floor,
                record.n_floored,
                record.n_weighted_rows,
            )
        warn_if_constant(self._model.importances(), features.values, _CALLER)

    def _set_model(self, model: FittedModel) -> None:
        """Set the trained model and the public attributes derived from it."""
        frame, record = model.frame, model.record
        self._model = model
        self.engine_, self.event_ids_, self.times_ = frame.engine, frame.event_ids, frame.times
        self.booster_, self.n_estimators_ = model.booster, model.n_rounds
        self.censoring_ = model.censoring
        self.censoring_method_, self.censoring_reason_ = record.method, record.reason
        self.history_, self.refreshed_rounds_ = record.history, record.refreshed_rounds
        self.n_floored_ = record.n_floored
        self.n_features_in_ = frame.schema.n_features
        names = frame.schema.names
        some = {
            "feature_names_in_": None if names is None else np.array(names, dtype=object),
            "n_events_": record.n_events,
            "member_weights_": model.member_weights if isinstance(model, HazardMixture) else None,
        }
        for name, value in some.items():
            self.__dict__.pop(name, None)
            if value is not None:
                setattr(self, name, value)

    @property
    def event_names_(self) -> tuple[str, ...]:
        """Names of the states, "event-free" first: labels of text events, else "cause 1" etc."""
        names = self._model.frame.event_names
        if names is not None:
            return names
        return (EVENT_FREE, *(f"cause {label}" for label in self.event_ids_[1:]))

    def _state(self, cause: Any) -> int:
        """Position of the curve of a cause, by its label or its name; 0 is event-free."""
        check_is_fitted(self)
        if isinstance(cause, str):
            check_choice(cause, "cause", self.event_names_)
            return self.event_names_.index(cause)
        check_choice(cause, "cause", self.event_ids_.tolist())
        return int(np.searchsorted(self.event_ids_, cause))

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _check_warm_start(self) -> None:
        if self.engine_ != self.engine and is_installed(self.engine):
            msg = (
                f"The model to continue was trained by {self.engine_}, not {self.engine}. "
                f'Use `engine="{self.engine_}"`, or set `warm_start=False`.'
            )
            raise ValueError(msg)
        given = by_method(self.get_params(deep=False), self.censoring_method_, self.engine_)
        is_chosen_by_data = self.n_estimators is None and self.censoring_method_ == HAZARDS
        if not is_chosen_by_data and given["n_estimators"] <= self.n_estimators_:
            msg = (
                f"`n_estimators` is {given['n_estimators']}, but the model to continue has "
                f"{self.n_estimators_} rounds already. Raise it, or set `warm_start=False`."
            )
            raise ValueError(msg)

    # --------------------------------------------------------------------------------- prediction
    @property
    def fitted_model(self) -> FittedModel:
        """The fitted model, for code that saves, exports or moves models."""
        check_is_fitted(self)
        return self._model

    @property
    def _schema(self) -> Features:
        return self._model.schema

    def _checked(self, X: Any) -> Features:
        check_is_fitted(self)
        return check_features(X, like=self._model.schema)

    def predict_cumulative_incidence(
        self,
        X: Any,
        times: Any = None,
        *,
        cause: int | str | None = None,
        conditional_after: float | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Probability of each state at each time.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            People, with the columns of training.
        times : array of shape (n_times,), optional
            Times >= 0 in any order. Default: ``times_``.
        cause : int or str, optional
            A label of ``event_ids_`` or a name of ``event_names_``: return its incidence alone.
        conditional_after : float, optional
            Return probabilities given that the person is event-free at this time. At earlier times
            the event-free probability is 1.
        as_frame : bool, default=False
            Whether to return a DataFrame with one row per person, the index of ``X``, and columns
            (event, time), or times if ``cause`` is given. Events are names if training had names,
            else labels.

        Returns
        -------
        float64 array of shape (n_samples, K + 1, n_times), or (n_samples, n_times) with ``cause``
            Index 0 is the probability of being event-free, index k the incidence of
            ``event_ids_[k]``; they sum to 1.
        """
        features = self._checked(X)
        times = self.times_ if times is None else check_times(times)
        if conditional_after is None:
            curves = self._model.incidence(features, times)
        else:
            known = _one_time(conditional_after, "conditional_after")
            curves = self._model.conditional_incidence(features, times, known)
        if cause is not None:
            curves = curves[:, self._state(cause)]
            return pd.DataFrame(curves, _index(X), _time_index(times)) if as_frame else curves
        if not as_frame:
            return curves
        columns = pd.MultiIndex.from_product([self._column_names, times], names=["event", "time"])
        return pd.DataFrame(curves.reshape(len(curves), -1), _index(X), columns)

    @property
    def _column_names(self) -> list[Any]:
        """States in the columns of frames: names if training had names, else labels."""
        named = self._model.frame.event_names
        return self.event_ids_.tolist() if named is None else list(named)

    def predict_survival_function(
        self,
        X: Any,
        times: Any = None,
        *,
        conditional_after: float | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Probability of being event-free, of shape (n_samples, n_times).

        Parameters as in `predict_cumulative_incidence`; a frame has one column per time.
        """
        curves = self.predict_cumulative_incidence(X, times, conditional_after=conditional_after)
        if not as_frame:
            return curves[:, 0]
        columns = _time_index(self.times_ if times is None else check_times(times))
        return pd.DataFrame(curves[:, 0], _index(X), columns)

    def predict_proba(
        self, X: Any, time_horizon: float | None = None, *, as_frame: bool = False
    ) -> Any:
        """Probability of each state at one horizon, of shape (n_samples, K + 1).

        The horizon defaults to the middle of ``times_``. A frame has one column per state.
        """
        check_is_fitted(self)
        if time_horizon is None:
            time_horizon = float(self.times_[len(self.times_) // 2])
        time_horizon = _one_time(time_horizon, "time_horizon")
        curves: FloatArray = self.predict_cumulative_incidence(X, time_horizon)
        if not as_frame:
            return curves[:, :, 0]
        columns = pd.Index(self._column_names, name="event")
        return pd.DataFrame(curves[:, :, 0], _index(X), columns)

    def predict(self, X: Any) -> FloatArray:
        """Risk of any event, higher is worse: expected share of time lost up to ``times_[-1]``."""
        survival: FloatArray = self.predict_survival_function(X)
        kept: FloatArray = np.trapezoid(survival, self.times_, axis=1) / self.times_[-1]
        return 1 - kept

    def predict_quantile(self, X: Any, quantile: Any = 0.5, *, as_frame: bool = False) -> Any:
        """Quantile of the time to any event; inf if it is not reached.

        The default is the median. Several quantiles give one column each; a frame has the quantiles
        as column labels.
        """
        features = self._checked(X)
        quantiles = [
            check_fraction(q, "quantile", zero=False, one=False) for q in np.ravel(quantile)
        ]
        if not quantiles:
            msg = "`quantile` is empty. Give at least one, such as [0.25, 0.5, 0.75]."
            raise ValueError(msg)
        found = self._model.quantiles(features, quantiles)
        if not as_frame:
            return found[:, 0] if np.ndim(quantile) == 0 else found
        return pd.DataFrame(found, _index(X), pd.Index(quantiles, name="quantile"))

    def predict_restricted_mean_time(
        self, X: Any, horizon: float | None = None, *, cause: int | str | None = None
    ) -> FloatArray:
        """Mean event-free time up to a horizon, or the mean time lost to a cause.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            People.
        horizon : float, optional
            Default: ``times_[-1]``.
        cause : int or str, optional
            A label of ``event_ids_`` or a name of ``event_names_``: return the time lost to this
            cause instead, the area under its incidence. Event-free time and the times lost to all
            causes sum to the horizon.
        """
        features = self._checked(X)
        horizon = float(self.times_[-1]) if horizon is None else _one_time(horizon, "horizon")
        state = 0 if cause is None else self._state(cause)
        if cause is not None and state == 0:
            names = ", ".join(map(repr, self.event_names_[1:]))
            msg = (
                f"`cause` is {cause!r}, the event-free state: leave it out for event-free time, or "
                f"choose from {', '.join(map(str, self.event_ids_[1:]))} ({names})."
            )
            raise ValueError(msg)
        return self._model.restricted_mean(features, horizon, state)

    def predict_hazard(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Discrete-time hazards between knots, and the knots, of a model of hazards.

        Returns
        -------
        hazard : float64 array of shape (n_samples, K, M)
            Probability of each cause in an interval, given event-free at its beginning.
        knots : float64 array of shape (M + 1,)
            Interval m is (knot m, knot m + 1]. If time has whole units and events happen in unit 0,
            the first knot is one unit before.
        """
        features = self._checked(X)
        if not isinstance(self._model, HazardMixture):
            msg = (
                f"`predict_hazard` needs a model of hazards; this one has censoring_method_="
                f'{self.censoring_method_!r}. Train with `censoring="hazards"`, or take '
                "differences of `predict_cumulative_incidence`."
            )
            raise ValueError(msg)
        return self._model.hazard(features)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Negative integrated Brier score, averaged over causes and the event-free state.

        Higher is better. Weights come from the marginal censoring of the training data.
        """
        check_is_fitted(self)
        check_paired(X, y, sample_weight)
        y, _ = named_outcomes(y, names=self.event_names_)
        target = check_survival_target(y, event_ids=self.event_ids_)
        return self._score(X, target, sample_weight, float(target.duration.max()))

    def _score(self, X: Any, y: Any, sample_weight: Any, last_seen: float) -> float:
        target = check_survival_target(y, event_ids=self.event_ids_)
        times = np.linspace(0, min(last_seen, self.times_[-1]), _N_TIMES + 1)[1:-1]
        return -float(
            integrated_brier_score(
                MarginalCensoring(self._model.frame.censoring_curve),
                (self.event_ids_[target.event], target.duration),
                self.predict_cumulative_incidence(X, times),
                times,
                average="all",
                sample_weight=sample_weight,
                event_ids=self.event_ids_,
                min_censoring_survival=self._model.frame.parameters["min_censoring_survival"],
            )
        )

    def at_horizon(self, horizon: float, cause: int = 0, *, kind: str = "regressor") -> Any:
        """The model at one horizon, as a scikit-learn regressor or classifier.

        Parameters
        ----------
        horizon : float
            Time >= 0.
        cause : int, default=0
            Label of a cause, or 0 for any event.
        kind : {"regressor", "classifier"}, default="regressor"
            A regressor whose ``predict`` is the incidence of the cause by the horizon, for
            `cross_val_predict`, `partial_dependence` and `permutation_importance`; or a binary
            classifier with ``predict_proba``, for `CalibrationDisplay`.

        Returns
        -------
        HorizonRegressor or HorizonClassifier
            Fitted if this model is fitted; its ``fit`` trains a copy.
        """
        return view_at(self, horizon, cause, kind)

    # -------------------------------------------------------------------------------- explanation
    def plot(
        self,
        person: Any,
        times: Any = None,
        *,
        conditional_after: float | None = None,
        time_label: str = "Time",
        ax: Any = None,
    ) -> Any:
        """Axes with the stacked probabilities of one person's states over time.

        Needs matplotlib.

        Parameters
        ----------
        person : Series, or DataFrame or array with one row
            Features of the person.
        times, conditional_after
            As in `predict_cumulative_incidence`; times are increasing.
        time_label : str, default="Time"
            Label of the horizontal axis.
        ax : Axes, optional
            Axes to draw on. Default: new axes.
        """
        from survival_objectives.plots import plot_stacked_incidence

        check_is_fitted(self)
        X = person.to_frame().T.infer_objects() if isinstance(person, pd.Series) else person
        X = X if hasattr(X, "shape") else np.asarray(X)
        if len(X) != 1:
            msg = f"`person` has {len(X)} rows; give one, such as `X.iloc[[0]]`."
            raise ValueError(msg)
        times = np.linspace(0, self.times_[-1], 200) if times is None else check_times(times)
        curves = self.predict_cumulative_incidence(X, times, conditional_after=conditional_after)
        return plot_stacked_incidence(
            curves[0], times, state_names=self.event_names_, time_label=time_label, ax=ax
        )

    @property
    def feature_importances_(self) -> FloatArray:
        """Importance of each feature, without the time; sums to 1.

        The share of the gain of all splits; with hazards, of the mean absolute contributions
        (`shap_values`) for a sample of training people.
        """
        check_is_fitted(self)
        gains = self._model.importances()
        total = gains.sum()
        shares: FloatArray = gains / total if total > 0 else np.full(len(gains), 1 / len(gains))
        return shares

    def shap_values(self, X: Any, time_horizon: float) -> FloatArray:
        r"""SHAP values: contributions of the features to log-odds at a horizon.

        They are computed by the engine's own TreeSHAP. With hazards, they explain the log-odds of
        each cause in an interval against staying event-free, averaged over the intervals up to the
        horizon, with the marginal share of the cause's events in each interval as weights;
        contributions of the linear part, coefficient times standardised value, are added.

        Returns
        -------
        float64 array of shape (n_samples, n_margins, n_features + 2)
            Contributions of the features, of the time and, last, the base value. They sum to the
            margins: log-odds of each cause against being event-free (with CatBoost, several causes
            and another method than hazards: of each state, up to a constant).
        """
        features = self._checked(X)
        return self._model.shap_values(features, _one_time(time_horizon, "time_horizon"))

    # -------------------------------------------------------------------------------- persistence
    def save(self, path: Any) -> None:
        """Write the model to a folder: the engine's own files and JSON, no outcomes, no pickle.

        Saved parameters are those at the time of fitting.
        """
        check_is_fitted(self)
        # These affect later training only.
        latest = {"verbose": self.verbose, "warm_start": self.warm_start}
        parameters = {**self._model.frame.parameters, **latest}
        files.save(self._model.with_frame(parameters=parameters), path)

    @classmethod
    def load(cls, path: Any, *, isolated: bool = False) -> SurvivalBoost:
        """The model that `save` wrote to a folder.

        Parameters
        ----------
        path : path
            The folder. Load only files you trust: loading runs no Python code from them, and
            digests detect damage, but digests do not prove who wrote a file, and a forged file may
            crash or exploit the engine's reader.
        isolated : bool, default=False
            Whether to first load the model, and predict with it, in a separate process. A file that
            crashes the engine then raises an error instead of ending this process. This takes a few
            seconds. It detects crashes; it does not make a forged file harmless.

        Returns
        -------
        SurvivalBoost
        """
        fitted = files.load(path, checked_parameters, isolated=isolated)
        model = cls(**fitted.frame.parameters)
        model._set_model(fitted)
        return model

    def _exportable(self) -> Exportable:
        return exportable(self._model, self.event_names_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        # Two columns, the event and the duration.
        tags.target_tags.two_d_labels = True
        tags.target_tags.multi_output = True
        return tags


def checked_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a SurvivalBoost with these values; an error if any is invalid."""
    model = SurvivalBoost(**given)
    check_parameters(model)
    parameters: dict[str, Any] = model.get_params(deep=False)
    return parameters


def _split(
    batches: Batches, *, fraction: float, generator: np.random.Generator
) -> tuple[Batches, Cohort]:
    """Training people and held-out people, from a batch in memory."""
    assert isinstance(batches, MemoryBatches)
    kept, held = split_cohort(batches.cohorts[0], fraction, generator)
    return MemoryBatches([kept]), held


def _one_time(time: Any, name: str) -> float:
    if np.ndim(time) != 0:
        msg = (
            f"`{name}` must be one number; got shape {np.shape(time)}. "
            "For several times, use `predict_cumulative_incidence`."
        )
        raise ValueError(msg)
    return float(check_times(time)[0])


def _time_index(times: FloatArray) -> pd.Index:
    return pd.Index(times, name="time")


def _separated(X: Any, y: Any, duration: Any, event: Any, censored: Any) -> tuple[Any, Any]:
    """Features and outcomes, from ``X`` and ``y`` or from the columns of one frame."""
    if y is not None:
        if duration is not None or event is not None:
            msg = "Pass outcomes as `y`, or as `duration` and `event` of the frame, not both."
            raise ValueError(msg)
        return X, y
    if duration is None or event is None:
        msg = "Pass outcomes: `fit(X, y)`, or `fit(frame, duration='time', event='status')`."
        raise ValueError(msg)
    y = survival_outcomes(X, duration=duration, event=event, censored=censored)
    features = [name for name in X.columns if name not in (duration, event)]
    return X[features], y


def _index(X: Any) -> Any:
    return X.index if isinstance(X, pd.DataFrame) else None

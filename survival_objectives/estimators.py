"""The scikit-learn estimators: `HazardBoost` and `SurvivalBoost`, for all engines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from survival_objectives._engines.protocol import Engine
from survival_objectives._hazards.model import HazardMixture, HazardPredictions
from survival_objectives._hazards.settings import HazardSettings
from survival_objectives._horizons.completion import CompletionModel
from survival_objectives._horizons.model import HorizonMixture, HorizonModel
from survival_objectives._horizons.settings import HorizonSettings
from survival_objectives._models import storage
from survival_objectives._models.predictions import FittedPredictions
from survival_objectives._people.cohort import separated_outcomes
from survival_objectives._process.running import (
    CallbackSupportMixin,
    progress_to,
    sklearn_tasks,
    with_callbacks,
)
from survival_objectives._training import Request, Settings, fit_in_memory
from survival_objectives.censoring import CensoringModel
from survival_objectives.stacking import HorizonSampler


class _Boost(CallbackSupportMixin, FittedPredictions):  # type: ignore[misc]
    """What both estimators share: training from memory, saving and loading."""

    @classmethod
    @abstractmethod
    def _settings(cls, parameters: Mapping[str, Any], used: Engine) -> Settings:
        """Settings from the constructor's parameters, or an error that names the way out."""

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        eval_set: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        callbacks: Sequence[Callable[[int, int, float], object]] = (),
        duration: Any = None,
        event: Any = None,
        censored: Any = None,
        entry: Any = None,
        id: Any = None,
        start: Any = None,
        stop: Any = None,
    ) -> Self:
        """Train the model: ``fit(X, y)``, or ``fit(frame, duration="time", event="status")``.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            Numbers with NaN for missing; frames (pandas, polars, pyarrow) may have categorical or
            text columns.
        y : DataFrame, dict, structured array, tuple or array, optional
            Outcomes: ``event`` (0 = censored, 1..K = causes, or text) and ``duration``. Names of
            causes are kept in ``event_names_``. A `HazardBoost` also takes ``entry``, the time at
            which people came under observation, and long tables: ``id``, ``start``, ``stop`` in
            place of the duration, a row per person and stretch (start, stop] of constant features;
            or ``lower`` and ``upper`` in place of the duration: the event was in (lower, upper],
            and who has no ``upper`` is event-free at ``lower``.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. Only their ratios matter: they are divided by their mean, so that limits
            such as ``min_leaf_people`` are in units of people.
        groups : array of shape (n_samples,), optional
            Group of each row, such as the person where there are several rows per person: rows of
            one group are held out together. Default: only copies, rows with equal features and
            outcomes, are, unless equal features often come with other outcomes.
        eval_set : pair (X, y), optional
            Held-out people, who affect neither the trees nor the censoring weights. In a
            `HazardBoost` they determine rounds and mixture weights, in place of folds; in a
            `SurvivalBoost` they decide when to stop early or, without ``early_stopping_rounds``,
            their loss is only recorded in ``history_``.
        eval_X, eval_y : optional
            The two of ``eval_set``, for a pipeline with ``transform_input=["eval_X"]``.
        callbacks : sequence of callables, optional
            Called as ``callback(n_done, n_rounds, loss)`` whenever some more of the planned rounds
            are done, with the latest loss (held-out, where people are held out). An exception ends
            the training, such as optuna's ``TrialPruned``. Those of scikit-learn 1.9 or newer are
            set by ``set_callbacks``.
        duration, event : column names, optional
            Instead of ``y``: the columns of the frame ``X`` that hold the outcomes. All other
            columns are features.
        censored : str or sequence of str, optional
            Labels of text events that mean censored. Default: those that say so, such as
            "censored" or "alive".
        entry, id, start, stop : column names, optional
            As ``duration`` and ``event``.

        Returns
        -------
        self
        """
        columns = {
            "duration": duration,
            "event": event,
            "entry": entry,
            "id": id,
            "start": start,
            "stop": stop,
        }
        X, y = separated_outcomes(X, y, columns, censored, grouped=groups is not None)
        if eval_X is not None or eval_y is not None:
            if eval_set is not None:
                msg = "Pass held-out people as `eval_set`, or as `eval_X` and `eval_y`, not both."
                raise ValueError(msg)
            eval_set = (eval_X, eval_y)
        with sklearn_tasks(self, X, y) as tasks, progress_to(*_functions(callbacks), *tasks):
            model = fit_in_memory(
                self.training_request(),
                X,
                y,
                sample_weight,
                groups=groups,
                eval_set=eval_set,
                censored=censored,
            )
            named = tuple(str(column) for column in columns.values() if column is not None)
            self._model = model.with_frame(outcome_columns=named)
        return self

    def training_request(self) -> Request:
        """What is to be trained, after a check of all parameters; for code that trains it."""
        return Request.of(self.get_params(deep=False), vars(self).get("_model"), self._settings)

    # -------------------------------------------------------------------------------- persistence
    @classmethod
    def load(cls, path: Any) -> Self:
        """The model that `save` wrote to a folder; see `survival_objectives.load`."""
        model = load(path)
        if not isinstance(model, cls):
            msg = (
                f"{str(path)!r} holds a {type(model).__name__}, not a {cls.__name__}. "
                "`survival_objectives.load` returns whichever was saved."
            )
            raise ValueError(msg)
        return model

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


def _functions(callbacks: Any) -> list[Callable[[int, int, float], object]]:
    """Callbacks as a list, one alone included."""
    found = [callbacks] if callable(callbacks) else list(callbacks)
    for one in found:
        if not callable(one):
            msg = (
                f"`callbacks` has {one!r}; each is a function of the rounds done, the rounds "
                "planned and the loss. Callbacks of an engine belong in its own training call."
            )
            raise TypeError(msg)
    return found


class HazardBoost(_Boost, HazardPredictions):
    r"""Linear and boosted discrete-time hazards, for survival analysis and competing risks.

    Predicts for every person, at any time t, the probability of being event-free at t and the
    cumulative incidence of each of K competing causes by t, from right-censored outcomes. Follow-up
    is divided into about 31 intervals, and the model is a mixture of three discrete-time hazard
    models: a regression of the log hazards, boosted trees, and boosted trees that start from
    the regression. The mixture weights, and the number of boosting rounds, maximise the likelihood
    of held-out people. A censored person is in the risk set until censoring, so no censoring
    weights are needed. Trees are grown by XGBoost, LightGBM or CatBoost.

    Parameters
    ----------
    engine : {"xgboost", "lightgbm", "catboost"}, default="xgboost"
        Library that grows the trees. If it is not installed, an installed one is used instead, and
        this is logged.
    n_estimators : int, optional
        Maximum number of boosting rounds; the number is chosen on held-out people. Default: 300,
        and 1000 above 20 000 people.
    learning_rate : float, optional
        Shrinkage of every tree. Default: 0.3, and 0.4 for CatBoost.
    max_depth : int, default=4
        Maximum depth of the trees: deep ones overfit the time axis.
    early_stopping_rounds : int, optional
        Stop after this many rounds without a better held-out likelihood, and keep the best round.
        Default: stop when fifteen rounds show almost no gain.
    min_leaf_people : float, optional
        Minimum sum of Hessians in a leaf, in units of people. Default: 15. CatBoost has no such
        setting.
    min_split_gain : float, optional
        Minimum gain of a split, about twice the log-likelihood it adds, in units of people. A
        pure-noise split gains about 1 on average, for any number of people; the best of many gains
        more. So trees stop growing where only noise is left. LightGBM does not retry a column
        further down a branch in which it gained less, so it misses some interactions. Default: 1,
        and 0 for LightGBM. CatBoost has no such setting.
    max_features : float, default=1.0
        Share of the features, at least four, that a tree may choose from besides the time.
        CatBoost draws columns for each split, the time being one of them; so do other engines if
        ``engine_params`` has draws of columns.
    horizon_max : float, optional
        End of the curves. Default: a little after the longest duration.
    linear : bool, default=True
        Whether the mixture includes a linear regression, and trees that start from it.
    n_folds : int, optional
        Number of folds held out in turn: as many models of each kind are trained, each without
        another fold, and their mean predicts. Default: 5, 4 above 50 000 people, 3 above 200 000;
        fewer where no cause has as many events. An error beside ``eval_set``.
    n_repeats : int, optional
        Number of draws of folds. Default: 3 up to 10 000 people, 2 up to 20 000, and 1 above.
    rows_per_person : int, "all" or None, default=None
        Maximum number of intervals per person besides the last. If a person was at risk in more, a
        random subset is drawn and weighted to represent all. Default: 8, and fewer above 18 000
        people, of whom then only a subset may be used, drawn by their outcomes.
    warm_start : bool, default=False
        Whether another ``fit`` continues the current model, up to ``n_estimators`` rounds in total.
        It needs the same integer ``random_state``, and the same people in the same order: held-out
        people must stay in their folds.
    random_state : int, Generator, RandomState or None
        Seed. The same seed and number of threads give the same model, bit for bit.
    n_jobs : int, optional
        Number of threads; -1 for all that the process may use. Default: chosen by the size of the
        data.
    verbose : int, default=0
        Whether to show progress on standard error.
    engine_params : dict, optional
        Further settings under the engine's own names or aliases, which override those above.
        Settings that conflict with how this class trains raise an error. ``monotone_constraints``
        and ``interaction_constraints`` are about features, by name or one value for each; they hold
        for the events, never for a model of censoring.

    Attributes
    ----------
    event_ids_ : array of shape (K + 1,)
        Labels of the curves: 0 for event-free, then the causes.
    event_names_ : tuple of str
        Their names: labels of text events, else "event-free", "cause 1" and so on.
    times_ : array
        Default prediction times: an even grid up to the time at which one person in a hundred is
        still followed, or up to ``horizon_max``.
    booster_ : object or None
        The engine's own model: the trees with the largest weight, fitted to all people; None
        without trees.
    member_weights_ : dict of str to float
        Mixture weights of "linear", "trees" and "trees on linear"; they sum to 1.
    censoring_ : CensoringModel
        The Kaplan-Meier curve of censoring on a fixed time grid.
    engine_ : str
        The engine used in training.
    n_estimators_ : int
        Number of rounds of ``booster_``.
    history_ : list of RoundRecord
        Negative held-out log-likelihood per person of the trees of ``booster_``, every ten rounds.
    n_events_ : array of shape (K + 1,)
        Number of training people who were censored, and who had each cause.
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
    >>> model = HazardBoost(random_state=0).fit(data.X, data.y)
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
        early_stopping_rounds: int | None = None,
        min_leaf_people: float | None = None,
        min_split_gain: float | None = None,
        max_features: float = 1.0,
        horizon_max: float | None = None,
        linear: bool = True,
        n_folds: int | None = None,
        n_repeats: int | None = None,
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
        self.early_stopping_rounds = early_stopping_rounds
        self.min_leaf_people = min_leaf_people
        self.min_split_gain = min_split_gain
        self.max_features = max_features
        self.horizon_max = horizon_max
        self.linear = linear
        self.n_folds = n_folds
        self.n_repeats = n_repeats
        self.rows_per_person = rows_per_person
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine_params = engine_params

    @classmethod
    def _settings(cls, parameters: Mapping[str, Any], used: Engine) -> HazardSettings:
        return HazardSettings.of(parameters, used)


class SurvivalBoost(_Boost):
    r"""Boosted states at horizons, with censoring weights from a boosted model of censoring.

    Predicts for every person, at any time t, the probability of being event-free at t and the
    cumulative incidence of each of K competing causes by t, from right-censored outcomes. Trees
    boost the IPCW log-loss of the state at sampled horizons, with the horizon as a feature (Alberge
    et al., AISTATS 2025). Trees are grown by XGBoost, LightGBM or CatBoost. `HazardBoost` is more
    accurate on most data; docs/which.md compares the two.

    Parameters
    ----------
    engine : {"xgboost", "lightgbm", "catboost"}, default="xgboost"
        Library that grows the trees. If it is not installed, an installed one is used instead, and
        this is logged.
    n_estimators : int, default=200
        Number of boosting rounds; with early stopping the maximum.
    learning_rate : float, default=0.05
        Shrinkage of every tree.
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
    censoring : str or CensoringModel, default="boosted"
        How censored people are treated.

        - "boosted": people censored before a horizon have weight 0 there, and the others are
          weighted by the inverse probability of being uncensored (IPCW), from a boosted model of
          censoring that is trained in alternation with the model of the events, as in the paper;
        - "kaplan-meier": the same, with the marginal Kaplan-Meier curve of censoring;
        - "imputed": the state of people censored before a horizon is drawn at every refresh, first
          from the marginal Aalen-Johansen curve, then from the model itself;
        - "doubly-robust": targets of all people combine the weights of "boosted" with predictions
          of the event model for the time after censoring (equation (47)). They are right if either
          model is, for instance where censoring depends on the features. Not on CatBoost;
        - a `survival_objectives.censoring.CensoringModel`, such as the known censoring of a
          designed study: it gives the weights, and is never refreshed. It is evaluated on features
          and event times as they were passed to ``fit``. It is not saved with the model.
    completion : "hazards" or CompletionModel, optional
        Model of the incidences that completes censored outcomes, in place of ``censoring``: at
        horizons after censoring, the target is a distribution over the states (equation (46)), and
        no censoring weights are needed. "hazards" uses mixtures of hazards, cross-fitted on two
        halves of the people. Or any object with ``predict_cumulative_incidence(X, times)``, such as
        another fitted estimator, or a Cox model wrapped in
        `survival_objectives.uncertainty.SurvivalCompletion`, fitted to other people.
    monotone : bool, default=True
        Whether survival curves never rise and incidences never fall in time.
    time_smoothing : float, default=0.03
        Share of the observed events between two knots. Monotone curves are linear between knots;
        their values at knots are averages of the trees' steps, calibrated so that expected and
        observed numbers of events agree in time. With 0, curves are the trees' own steps, neither
        averaged nor calibrated. Another value than the default is an error with
        ``monotone=False``.
    early_stopping_rounds : int, optional
        Stop after this many rounds without a better held-out loss, and keep the best round.
    validation_fraction : float, default=0.1
        Share of people held out for early stopping. Another value than the default is an error
        without early stopping, and beside ``eval_set``.
    min_censoring_survival : float, default=0.05
        Lower bound of the censoring survival in the weights, in training and in `score`;
        ``n_floored_`` counts the rows that it affects.
    min_leaf_people : float, optional
        Minimum sum of Hessians in a leaf, in units of people, independent of ``n_horizons``.
        Default: 5. CatBoost has no such setting.
    min_split_gain : float, optional
        Minimum gain of a split, about twice the log-likelihood it adds, in units of people. A
        pure-noise split gains about 1 on average, for any number of people; the best of many gains
        more. So trees stop growing where only noise is left. LightGBM does not retry a column
        further down a branch in which it gained less, so it misses some interactions. Default: 2.
        CatBoost has no such setting.
    max_features : float, default=0.5
        Share of the features, at least four, that a tree may choose from besides the time.
        CatBoost draws columns for each split, the time being one of them; so do other engines if
        ``engine_params`` has draws of columns.
    horizon_max : float, optional
        Latest horizon; curves are flat after it. Default: the longest duration. With censoring
        weights, horizons then end when fewer than one in ten people are uncensored, and curves
        continue with the marginal hazards to the end of follow-up.
    warm_start : bool, default=False
        Whether another ``fit`` continues the current model, up to ``n_estimators`` rounds in total.
    random_state : int, Generator, RandomState or None
        Seed. The same seed and number of threads give the same model, bit for bit.
    n_jobs : int, optional
        Number of threads; -1 for all that the process may use. Default: chosen by the size of the
        data.
    verbose : int, default=0
        Whether to show progress on standard error.
    engine_params : dict, optional
        Further settings under the engine's own names or aliases, which override those above.
        Settings that conflict with how this class trains raise an error. ``monotone_constraints``
        and ``interaction_constraints`` are about features, by name or one value for each.

    Attributes
    ----------
    event_ids_ : array of shape (K + 1,)
        Labels of the curves: 0 for event-free, then the causes.
    event_names_ : tuple of str
        Their names: labels of text events, else "event-free", "cause 1" and so on.
    times_ : array
        Default prediction times: an even grid up to the time at which one person in a hundred is
        still followed, or up to ``horizon_max``.
    booster_ : object
        The engine's own model.
    censoring_ : CensoringModel
        The boosted model of censoring at the end of training, or the one that was passed; otherwise
        the Kaplan-Meier curve of censoring on a fixed time grid.
    censoring_method_ : str
        How censored people counted: one of the names above, "given" or "completed".
    engine_ : str
        The engine used in training.
    n_estimators_ : int
        Number of rounds of ``booster_``.
    history_ : list of RoundRecord
        Held-out loss after every round, if people were held out.
    n_events_ : array of shape (K + 1,)
        Number of training people who were censored, and who had each cause.
    n_floored_ : int
        Number of rows at the last refresh whose weight is limited by ``min_censoring_survival``; 0
        without weights.
    refreshed_rounds_ : list of int
        Rounds after which the censoring model was trained further or, with imputation, states were
        drawn from the model.
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
        n_estimators: int = 200,
        learning_rate: float = 0.05,
        max_depth: int = 4,
        n_horizons: int = 5,
        horizon_sampler: str | HorizonSampler = "mixture",
        refresh_every: int | None = None,
        censoring: str | CensoringModel = "boosted",
        completion: str | CompletionModel | None = None,
        monotone: bool = True,
        time_smoothing: float = 0.03,
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.1,
        min_censoring_survival: float = 0.05,
        min_leaf_people: float | None = None,
        min_split_gain: float | None = None,
        max_features: float = 0.5,
        horizon_max: float | None = None,
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
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine_params = engine_params

    @classmethod
    def _settings(cls, parameters: Mapping[str, Any], used: Engine) -> HorizonSettings:
        return HorizonSettings.of(parameters, used)


def load(path: Any) -> FittedPredictions:
    """The fitted model that ``save`` wrote to a folder, of whichever kind.

    An estimator gives a `HazardBoost` or a `SurvivalBoost`; what ``objective.fitted(model)`` of the
    plugin saved gives the same predictions without ``fit``.

    Load only files you trust: loading runs no Python code from them, and digests detect damage, but
    digests do not prove who wrote a file, and a forged file may crash or exploit the engine's
    reader.
    """
    fitted = storage.load(path, (HazardMixture, HorizonMixture, HorizonModel))
    if fitted.frame.parameters is None:
        own = HazardPredictions if fitted.subject == "hazards" else FittedPredictions
        return own.of(fitted)
    kind: type[FittedPredictions] = HazardBoost if fitted.subject == "hazards" else SurvivalBoost
    return kind.of(fitted, **fitted.frame.parameters)

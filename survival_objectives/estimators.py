"""SurvivalBoost: the scikit-learn estimator of the package, for all engines."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from survival_objectives._engines.protocol import ENGINES, engine, installed_engine
from survival_objectives._horizons.completion import CompletionModel
from survival_objectives._models import storage
from survival_objectives._models.checks import warn_about_model
from survival_objectives._models.predictions import FittedPredictions
from survival_objectives._people import check_random_state, warn_about_outcomes
from survival_objectives._people.cohort import (
    Cohort,
    MemoryBatches,
    checked_eval_set,
    separated_outcomes,
)
from survival_objectives._people.labels import named_outcomes
from survival_objectives._people.population import LocalReduction
from survival_objectives._training.fit import Training
from survival_objectives._training.limits import check_parameters, check_warm_start
from survival_objectives._training.parameters import own_models
from survival_objectives.censoring import CensoringModel
from survival_objectives.stacking import HorizonSampler

__all__ = ["ENGINES", "SurvivalBoost"]


class SurvivalBoost(FittedPredictions):
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
        Shrinkage of every tree. Default: 0.15 with hazards (CatBoost 0.25), 0.05 with other
        methods.
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
        - "doubly-robust": targets of all people combine the weights of "boosted" with predictions
          of the event model for the time after censoring (equation (47)). They are right if either
          model is, for instance where censoring depends on the features. Not on CatBoost;
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
        `survival_objectives._horizons.completion.SurvivalCompletion`, fitted to other people.
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
        Share of the features, at least four, that a tree may choose from besides the time.
        CatBoost draws columns for each split, the time being one of them; so do other engines if
        ``engine_params`` has draws of columns. Default: 1 with hazards, 0.5 with other methods.
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
        With hazards it needs the same integer ``random_state``, and the same people in the same
        order: held-out people must stay in their folds.
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
        self.n_repeats = n_repeats
        self.rows_per_person = rows_per_person
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine_params = engine_params

    # ---------------------------------------------------------------------------------- training
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        *,
        groups: Any = None,
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
        groups : array of shape (n_samples,), optional
            Group of each row, such as the person where there are several rows per person: rows of
            one group are held out together. Default: only copies, rows with equal features and
            outcomes, are, unless equal features often come with other outcomes.
        duration, event : column names, optional
            Instead of ``y``: the columns of the frame ``X`` that hold the outcomes. All other
            columns are features.
        censored : str or sequence of str, optional
            Labels of text events that mean censored. Default: the label "censored".

        Returns
        -------
        self : SurvivalBoost
        """
        X, y = separated_outcomes(X, y, duration, event, censored)
        y, names = named_outcomes(y, censored=censored)
        if names is not None and eval_set is not None and len(eval_set) == 2:
            eval_set = eval_set[0], named_outcomes(eval_set[1], names=names, censored=censored)[0]
        check_parameters(self)
        is_warm_start = bool(self.warm_start) and self.__sklearn_is_fitted__()
        if is_warm_start:
            check_warm_start(self, self.fitted_model)
        keep_given = bool(own_models(self))
        people = Cohort.checked(
            X,
            y,
            sample_weight,
            like=self._model.schema if is_warm_start else None,
            event_ids=self.event_ids_ if is_warm_start else None,
            keep_given=keep_given,
            groups=groups,
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
        batches = MemoryBatches([people])
        split = partial(batches.split, self.validation_fraction, generator)
        model = training.fit(
            batches, held_out, split=None if self.early_stopping_rounds is None else split
        )
        event_names = names and tuple(names[label] for label in model.frame.event_ids)
        if names is None and previous is not None:
            event_names = previous.frame.event_names
        model = model.with_frame(event_names=event_names).with_record(n_events=counts)
        self.fitted_model = model
        warn_about_model(model, people.features.values, stacklevel=2)
        return self

    def _own_parameters(self) -> dict[str, Any]:
        """Parameters of this class, without those of subclasses."""
        return {name: getattr(self, name) for name in SurvivalBoost._get_param_names()}

    def _forget(self) -> None:
        """Remove the fitted model, so that a failed training leaves no mix of old and new state."""
        for name in ("_model", "booster_"):
            self.__dict__.pop(name, None)

    # -------------------------------------------------------------------------------- persistence
    def save(self, path: Any) -> None:
        """Write the model to a folder: the engine's own files and JSON, no outcomes, no pickle.

        Saved parameters are those at the time of fitting.
        """
        model = self.fitted_model
        # These affect later training only.
        latest = {"verbose": self.verbose, "warm_start": self.warm_start}
        storage.save(model.with_frame(parameters={**model.frame.parameters, **latest}), path)

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
        fitted = storage.load(path, _checked_parameters, isolated=isolated)
        model = cls(**fitted.frame.parameters)
        model.fitted_model = fitted
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


def _checked_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a SurvivalBoost with these values; an error if any is invalid."""
    model = SurvivalBoost(**given)
    check_parameters(model)
    parameters: dict[str, Any] = model.get_params(deep=False)
    return parameters

"""HazardBoost: a mixture of linear and boosted hazards, without censoring weights."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from survival_objectives import _hazard_files
from survival_objectives._display import DisplayMixin
from survival_objectives._fit.cohort import Cohort
from survival_objectives._fit.engine import (
    ENGINES,
    Engine,
    TreeSettings,
    engine,
    engine_to_use,
    installed_engine,
)
from survival_objectives._fit.plan import coarse_censoring_curve
from survival_objectives._fit.population import LocalReduction, Population
from survival_objectives._hazard_models import LINEAR, Mixture
from survival_objectives._hazard_people import ALL_ROWS, HazardPeople, InMemory
from survival_objectives._hazard_training import HazardSettings, HazardTraining
from survival_objectives.curves import KnotCurves, marginal_hazard, time_knots
from survival_objectives.estimator import (
    _Curve,
    _given_event_free,
    _one_time,
    _rows,
)
from survival_objectives.fitted import rounded_horizon
from survival_objectives.limits import _check_threads
from survival_objectives.metrics import integrated_brier_score
from survival_objectives.onnx_export import Exportable, OnnxMixin
from survival_objectives.outcomes import EVENT_FREE, named_outcomes
from survival_objectives.time_axis import TimeAxis, event_unit, rounded_up
from survival_objectives.trees import Forest
from survival_objectives.validation import (
    Features,
    check_choice,
    check_features,
    check_fraction,
    check_paired,
    check_positive_int,
    check_random_state,
    check_survival_target,
    check_times,
    warn_about_outcomes,
)

__all__ = ["HazardBoost"]

FloatArray = npt.NDArray[np.float64]

# Intervals of time with about equally many events.
_N_INTERVALS = 31
_N_TIMES = 101
_BULK_QUANTILE = 0.99
# Bins per column: hazards of many rows need no finer ones.
_BINS = {
    "xgboost": {"max_bin": 64},
    "lightgbm": {"max_bin": 63},
    "catboost": {"border_count": 64},
}
# LightGBM does not try a column again further down a branch in which it gained less.
_MIN_SPLIT_GAIN = {"xgboost": 1.0, "lightgbm": 0.0, "catboost": 0.0}
# Smallest and largest values of parameters.
_LIMITS: dict[str, tuple[float, float]] = {
    "n_estimators": (1, 10**6),
    "learning_rate": (1e-6, 1),
    "n_rows_per_person": (1, 10**4),
    "n_folds": (2, 100),
    "min_leaf_people": (0, 1e9),
    "min_split_gain": (0, 1e9),
}
# Curves by knots do not ask for the steps of any forest.
_NO_FOREST = Forest([], 1, 0, at_most=True)


class HazardBoost(OnnxMixin, DisplayMixin, BaseEstimator):  # type: ignore[misc]
    r"""A mixture of linear and boosted hazards for survival analysis and competing risks.

    Time is divided into intervals with about equally many events. Three models predict the
    probability to have each cause in an interval, given that one is event-free at its beginning: a
    linear (ridge) regression of the log hazards, boosted trees, and boosted trees that start from
    the linear regression. Each is fitted without the people of each fold, who then say how much it
    counts: the weights are those with the highest likelihood of their outcomes. Censored people
    count for as long as they are followed, and nobody has a censoring weight.

    Parameters
    ----------
    engine : {"xgboost", "lightgbm", "catboost"}, default="xgboost"
        Which library grows the trees. Where it is not installed, an installed one takes its place
        with a log line.
    n_estimators : int, default=300
        Most rounds of boosting. Held-out people choose how many there are.
    learning_rate : float, default=0.15
        Shrinkage of every tree.
    max_depth : int, default=4
        Depth of the trees.
    linear : bool, default=True
        Whether to mix in linear hazards, and trees that start from them.
    n_rows_per_person : int, "all" or None, default=None
        Most intervals in which a person is seen before the last one. People who live through more
        of them are seen in a random part that stands for all. None: 8, and fewer above 50 000
        people, of whom then only a part may be used.
    n_folds : int, default=2
        Parts of the people. Each is held out once.
    min_leaf_people : float, default=15.0
        Smallest sum of Hessians in a leaf. CatBoost has no such setting.
    min_split_gain : float, optional
        Smallest gain of a split, about twice the log-likelihood it adds. Default: 1, and 0 for
        LightGBM, which otherwise gives up columns for a whole branch. CatBoost has no such setting.
    random_state : int, Generator, RandomState or None
        Seed. The same seed and number of threads give the same model, bit for bit.
    n_jobs : int, optional
        Threads. Default: the engine's.
    engine_params : dict, optional
        Settings in the engine's own terms; they win over those above.

    Attributes
    ----------
    event_ids_ : array of shape (K + 1,)
        Labels of the curves: 0 for event-free, then the causes.
    times_ : array
        Times of prediction where none are asked for: an even grid up to the time to which one
        person in a hundred is followed.
    member_weights_ : dict of str to float
        How much each model counts: "linear", "trees" and "trees on linear"; they sum to 1.
    n_estimators_ : int
        Rounds of ``booster_``; 0 without trees.
    booster_ : object or None
        The engine's own model: the trees with the largest weight, fitted to everybody. None where
        no trees are used.
    engine_ : str
        The engine that trained.
    censoring_method_ : str
        "hazards".
    n_events_ : array of shape (K + 1,)
        People of training who were censored, and who had each cause.
    feature_names_in_, n_features_in_
        As in scikit-learn.

    Examples
    --------
    >>> from survival_objectives.datasets import make_competing_risks
    >>> data = make_competing_risks(500, n_causes=2, random_state=0)
    >>> model = HazardBoost(n_estimators=20, random_state=0).fit(data.X, data.y)
    >>> model.predict_cumulative_incidence(data.X[:3], times=[1.0, 2.0]).shape
    (3, 3, 2)
    """

    def __init__(
        self,
        engine: str = "xgboost",
        *,
        n_estimators: int = 300,
        learning_rate: float = 0.15,
        max_depth: int = 4,
        linear: bool = True,
        n_rows_per_person: int | str | None = None,
        n_folds: int = 2,
        min_leaf_people: float = 15.0,
        min_split_gain: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        engine_params: dict[str, Any] | None = None,
    ) -> None:
        self.engine = engine
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.linear = linear
        self.n_rows_per_person = n_rows_per_person
        self.n_folds = n_folds
        self.min_leaf_people = min_leaf_people
        self.min_split_gain = min_split_gain
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.engine_params = engine_params

    _mixture: Mixture
    _shape: KnotCurves

    # ---------------------------------------------------------------------------------- training
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HazardBoost:
        """Train the model.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            Numbers with NaN for missing; frames (pandas, polars) may have categorical or text
            columns.
        y : DataFrame, dict, structured array, tuple or array
            Outcomes: ``event`` (0 = censored, 1..K = causes, or text) and ``duration``.
        sample_weight : array of shape (n_samples,), optional
            Weights of people. Only their ratios matter.

        Returns
        -------
        HazardBoost
            Itself.
        """
        y, names = named_outcomes(y)
        self._check_parameters()
        people = Cohort.checked(X, y, sample_weight)
        warn_about_outcomes(people.target)
        people = people.with_relative_weights(LocalReduction())
        counts = np.bincount(people.target.event, minlength=people.target.n_causes + 1)
        self._check_people(people, counts)
        generator = check_random_state(self.random_state)
        # Whatever stops the training, no mixture of an old and a new model is left behind.
        self.__dict__.pop("booster_", None)
        self._begin(people)
        self.n_events_ = counts
        self._event_names = names and tuple(names[label] for label in self.event_ids_)
        aligned = people.aligned(self._axis)
        training = HazardTraining(
            HazardPeople(
                InMemory(people.features),
                aligned.target.event,
                self._axis.number(aligned.target.duration),
                people.weight,
                self._shape.knots,
                aligned.target.n_causes,
            ),
            HazardSettings(
                self.n_estimators, self.n_folds, self.n_rows_per_person, bool(self.linear)
            ),
            generator,
            self._booster_maker(int(generator.integers(2**30))),
        )
        self._set_mixture(training.mixture())
        return self

    def _check_parameters(self) -> None:
        check_choice(self.engine, "engine", tuple(ENGINES))
        for name in ("n_estimators", "max_depth", "n_folds"):
            check_positive_int(getattr(self, name), name)
        if self.n_rows_per_person not in (None, ALL_ROWS):
            check_positive_int(self.n_rows_per_person, "n_rows_per_person")
        check_fraction(self.learning_rate, "learning_rate", zero=False)
        for name, types, wanted in (
            ("linear", (bool, np.bool_), "True or False"),
            ("n_jobs", (numbers.Integral, type(None)), "a number of threads, -1 for all, or None"),
            ("engine_params", (Mapping, type(None)), "a dict or None"),
            ("min_leaf_people", (numbers.Real,), "a number >= 0"),
            ("min_split_gain", (numbers.Real, type(None)), "a number >= 0, or None"),
        ):
            value = getattr(self, name)
            if not isinstance(value, types):
                msg = f"`{name}` must be {wanted}; got {value!r}."
                raise TypeError(msg)
        adapter = engine(engine_to_use(self.engine))
        for name, (low, high) in {**_LIMITS, "max_depth": (1, adapter.max_depth)}.items():
            value = getattr(self, name)
            if value not in (None, ALL_ROWS) and not low <= value <= high:
                msg = f"`{name}` must be from {low:g} to {high:g}; got {value!r}."
                raise ValueError(msg)
        _check_threads(self.n_jobs)
        adapter.settings.resolved(self.engine_params or {})

    def _check_people(self, people: Cohort, counts: npt.NDArray[np.int64]) -> None:
        if counts[1:].max() < self.n_folds:
            msg = (
                f"No cause happens to more than {counts[1:].max()} people (n_samples = "
                f"{people.target.n_samples}), too few for `n_folds={self.n_folds}`: each fold "
                "needs one. Give more people, or lower `n_folds` (2 at least)."
            )
            raise ValueError(msg)
        if people.target.duration.max() == 0:
            msg = "All durations are 0, so there is no time in which to look for events."
            raise ValueError(msg)

    def _begin(self, people: Cohort) -> None:
        """What is known before any model is fitted: columns, labels, and the time axis."""
        schema, target = people.features.schema, people.target
        everybody = Population(target, people.weight)
        self.engine_ = installed_engine(self.engine)
        # A fitted model answers from these, whatever becomes of the parameters later.
        self._fitted_parameters = {
            **self.get_params(deep=False),
            "engine_params": copy.deepcopy(self.engine_params),
        }
        self.censoring_method_ = "hazards"
        self._t_max = rounded_horizon(float(target.duration.max()), everybody)
        self._schema = schema
        self.event_ids_ = target.event_ids
        self.n_features_in_ = schema.n_features
        if schema.names is not None:
            self.feature_names_in_ = np.array(schema.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        last = float(rounded_up(everybody.quantile(_BULK_QUANTILE)))
        self.times_ = self._time_grid(min(last, self._t_max) if last else self._t_max)
        self._axis = TimeAxis(event_unit(target))
        self._censoring_curve = coarse_censoring_curve(target, people.weight, self._t_max)
        aligned = everybody.aligned(self._axis)
        event_times = aligned.event_times(self._t_max)
        knots = time_knots(self._axis, event_times, self._t_max, _N_INTERVALS)
        if knots[0] > 0:
            # Others may have events before the first of training.
            knots = np.concatenate([[0.0], knots])
        marginal = marginal_hazard(self._axis, knots, aligned.target, people.weight)
        self._shape = KnotCurves.uncalibrated(self._axis, knots, marginal, self._t_max)

    @staticmethod
    def _time_grid(last: float) -> FloatArray:
        # An even grid, as quantiles of the durations would be outcomes of people.
        return np.linspace(0, last, _N_TIMES)

    def _adapter(self) -> Engine:
        return engine(self.engine_)

    def _booster_maker(self, seed: int) -> Any:
        """Makes boosters of the engine, with the parameters that the model is fitted with."""
        given = self._fitted_parameters
        adapter = self._adapter()
        gain = given["min_split_gain"]
        own = adapter.settings.resolved(given["engine_params"] or {})
        settings = TreeSettings(
            schema=self._schema,
            n_causes=len(self.event_ids_) - 1,
            learning_rate=float(given["learning_rate"]),
            max_depth=int(given["max_depth"]),
            min_leaf_people=float(given["min_leaf_people"]),
            min_split_gain=_MIN_SPLIT_GAIN[self.engine_] if gain is None else float(gain),
            max_features=1.0,
            n_horizons=1,
            monotone=False,
            seed=seed,
            n_jobs=given["n_jobs"],
            engine_params={**_BINS[self.engine_], **own},
        )
        return partial(adapter.new_booster, settings)

    def _set_mixture(self, mixture: Mixture) -> None:
        self._mixture = mixture
        self.member_weights_ = {name: member.weight for name, member in mixture.members.items()}
        weight_of_trees = {
            name: member.weight for name, member in mixture.members.items() if name != LINEAR
        }
        self.booster_, self.n_estimators_ = None, 0
        if weight_of_trees:
            refit = mixture.members[max(weight_of_trees, key=weight_of_trees.__getitem__)].refit
            self.booster_ = refit.model
            self.n_estimators_ = 0 if refit.trees is None else refit.trees.n_rounds

    # --------------------------------------------------------------------------------- prediction
    @property
    def event_names_(self) -> tuple[str, ...]:
        """Names of the states, "event-free" first: those of text events, else "cause 1" etc."""
        names: tuple[str, ...] | None = getattr(self, "_event_names", None)
        if names is not None:
            return names
        return (EVENT_FREE, *(f"cause {label}" for label in self.event_ids_[1:]))

    def _state(self, cause: Any) -> int:
        """Position of the curve of a cause, by its label or its name; 0 is event-free."""
        if isinstance(cause, str):
            check_choice(cause, "cause", self.event_names_)
            return self.event_names_.index(cause)
        check_choice(cause, "cause", self.event_ids_.tolist())
        return int(np.searchsorted(self.event_ids_, cause))

    def _checked(self, X: Any) -> Features:
        check_is_fitted(self)
        return check_features(X, like=self._schema)

    def _curves(self, features: Features, times: FloatArray) -> FloatArray:
        """Event-free probability and incidences, (n_samples, K + 1, n_times)."""
        curves = np.empty((features.n_samples, len(self.event_ids_), len(times)))
        for people in self._mixture.parts(features.n_samples, len(times)):
            at_knots = self._mixture.incidence(features.values[people])
            incidence = self._shape.values(at_knots, times)
            curves[people, 1:] = incidence.transpose(2, 0, 1)
            curves[people, 0] = np.maximum(1 - incidence.sum(axis=0), 0).T
        at_start = times <= 0
        curves[:, :, at_start] = 0.0
        curves[:, 0, at_start] = 1.0
        return curves

    def predict_cumulative_incidence(
        self,
        X: Any,
        times: Any = None,
        *,
        cause: int | str | None = None,
        conditional_after: float | None = None,
    ) -> FloatArray:
        """Probability of each state at each time.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            People, with the columns of training.
        times : array of shape (n_times,), optional
            Times >= 0 in any order. Default: ``times_``. Curves are flat after the end of
            follow-up.
        cause : int or str, optional
            A label of ``event_ids_`` or a name of ``event_names_``: return its incidence alone.
        conditional_after : float, optional
            Predict for people who are known to be event-free at this time.

        Returns
        -------
        float64 array of shape (n_samples, K + 1, n_times), or (n_samples, n_times) with ``cause``
            Index 0 is the probability of being event-free, index k the incidence of
            ``event_ids_[k]``; they sum to 1.
        """
        features = self._checked(X)
        times = self.times_ if times is None else check_times(times)
        if conditional_after is None:
            curves = self._curves(features, times)
        else:
            known = _one_time(conditional_after, "conditional_after")
            all_times = np.append(times, known)
            curves = _given_event_free(self._curves(features, all_times), times, known)
        return curves if cause is None else curves[:, self._state(cause)]

    def predict_survival_function(
        self, X: Any, times: Any = None, *, conditional_after: float | None = None
    ) -> FloatArray:
        """Probability of being event-free, (n_samples, n_times).

        Parameters are those of `predict_cumulative_incidence`.
        """
        return self.predict_cumulative_incidence(X, times, conditional_after=conditional_after)[
            :, 0
        ]

    def predict_proba(self, X: Any, time_horizon: float | None = None) -> FloatArray:
        """Probability of each state at one horizon, (n_samples, K + 1).

        The horizon defaults to the middle of ``times_``.
        """
        check_is_fitted(self)
        if time_horizon is None:
            time_horizon = float(self.times_[len(self.times_) // 2])
        horizon = _one_time(time_horizon, "time_horizon")
        return self.predict_cumulative_incidence(X, horizon)[:, :, 0]

    def predict(self, X: Any) -> FloatArray:
        """Risk of any event, higher is worse: mean share of the time up to ``times_[-1]`` lost."""
        survival = self.predict_survival_function(X)
        kept: FloatArray = np.trapezoid(survival, self.times_, axis=1) / self.times_[-1]
        return 1 - kept

    def predict_hazard(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Hazards of the intervals between knots, and the knots.

        Returns
        -------
        hazard : float64 array of shape (n_samples, K, M)
            Probability of each cause in an interval, given that one is event-free at its beginning.
        knots : float64 array of shape (M + 1,)
            Interval m lies between knots m (not included) and m + 1. Where time has whole units
            and events happen in unit 0, the first knot is one unit before.
        """
        features = self._checked(X)
        n_causes, knots = len(self.event_ids_) - 1, self._shape.knots
        hazard = np.empty((features.n_samples, n_causes, len(knots) - 1))
        for people in self._mixture.parts(features.n_samples):
            incidence = self._mixture.incidence(features.values[people])
            before = np.maximum(1 - incidence[:, :-1].sum(axis=0), np.finfo(np.float64).tiny)
            hazard[people] = (np.diff(incidence, axis=1) / before).transpose(2, 0, 1)
        return np.clip(hazard, 0.0, 1.0), knots * (self._axis.unit or 1.0)

    def predict_quantile(self, X: Any, quantile: Any = 0.5) -> FloatArray:
        """First time by which an event has happened with this probability; inf where never.

        The default is the median. Several quantiles give a column each.
        """
        features = self._checked(X)
        wanted = [check_fraction(q, "quantile", zero=False, one=False) for q in np.ravel(quantile)]
        if not wanted:
            msg = "`quantile` is empty. Give at least one, such as [0.25, 0.5, 0.75]."
            raise ValueError(msg)
        edges = self._shape.edges(_NO_FOREST, self._t_max)
        # At time 0 itself everybody is event-free.
        times = np.concatenate([[np.finfo(np.float32).tiny], edges[1:]])
        found = np.empty((features.n_samples, len(wanted)))
        for people in self._mixture.parts(features.n_samples, len(times)):
            event = 1 - self._curves(_rows(features, people), times)[:, 0]
            for column, value in enumerate(wanted):
                found[people, column] = self._crossings(event, edges, value)
        return found[:, 0] if np.ndim(quantile) == 0 else found

    def _crossings(self, event: FloatArray, edges: FloatArray, value: float) -> FloatArray:
        """Times at which each row of ``event`` reaches a value."""
        reached = event >= value
        first = reached.argmax(axis=1)
        row, last = np.arange(len(event)), np.maximum(first - 1, 0)
        after, before = event[row, first], event[row, last]
        share = np.ones(len(event))
        np.divide(value - before, after - before, out=share, where=after > before)
        return np.where(reached.any(axis=1), self._shape.inside(edges, first, share), np.inf)

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
            A label of ``event_ids_`` or a name of ``event_names_``: return the time lost to it
            instead. Event-free time and the times lost to all causes add up to the horizon.
        """
        features = self._checked(X)
        horizon = float(self.times_[-1]) if horizon is None else _one_time(horizon, "horizon")
        index = 0 if cause is None else self._state(cause)
        if cause is not None and index == 0:
            msg = f"`cause` is {cause!r}, the event-free state; leave it out for event-free time."
            raise ValueError(msg)
        times, weight = self._shape.integral(_NO_FOREST, horizon)
        area = np.empty(features.n_samples)
        for people in self._mixture.parts(features.n_samples, len(times)):
            area[people] = self._curves(_rows(features, people), times)[:, index] @ weight
        return area

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the integrated Brier score, a mean over causes and the event-free curve.

        Higher is better. Weights come from the marginal censoring of the training people.
        """
        check_is_fitted(self)
        check_paired(X, y, sample_weight)
        y, _ = named_outcomes(y, names=self.event_names_)
        target = check_survival_target(y, event_ids=self.event_ids_)
        last = min(float(target.duration.max()), self.times_[-1])
        times = np.linspace(0, last, _N_TIMES + 1)[1:-1]
        return -float(
            integrated_brier_score(
                _Curve(self._censoring_curve),
                (self.event_ids_[target.event], target.duration),
                self.predict_cumulative_incidence(X, times),
                times,
                average="all",
                sample_weight=sample_weight,
                event_ids=self.event_ids_,
            )
        )

    # -------------------------------------------------------------------------------- persistence
    def save(self, path: Any) -> None:
        """Write the model to a folder: the engine's own files and JSON, no outcomes, no pickle.

        The parameters are those that the model was fitted with.
        """
        check_is_fitted(self)
        _hazard_files.save(self, path)

    @classmethod
    def load(cls, path: Any) -> HazardBoost:
        """The model that `save` wrote to a folder.

        Load only what you trust: loading runs no Python code of the files, and digests show damage,
        but they do not prove who wrote a file.
        """
        model: HazardBoost = _hazard_files.load(cls, path)
        return model

    def _exportable(self) -> Exportable:
        return Exportable(
            self._schema,
            tuple(self.event_ids_.tolist()),
            self.event_names_,
            self._axis,
            self._shape,
            self._mixture,
            self._curves,
            float(self.times_[-1]),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "booster_")

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

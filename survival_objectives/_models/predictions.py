"""What a fitted estimator predicts and explains, from its `FittedModel`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from survival_objectives._arrays import FloatArray
from survival_objectives._models.bands import Band
from survival_objectives._models.display import DisplayMixin
from survival_objectives._models.explanations import Explanations
from survival_objectives._models.fitted import FittedModel, parts_of, rows_of
from survival_objectives._models.horizon_view import view_at
from survival_objectives._models.onnx.export import write_onnx
from survival_objectives._models.recalibration import Recalibration
from survival_objectives._models.storage import save
from survival_objectives._people import (
    Features,
    check_choice,
    check_features,
    check_fraction,
    check_paired,
    check_positive_int,
    check_survival_target,
    check_times,
    take_rows,
)
from survival_objectives._people.histories import Path
from survival_objectives._people.labels import named_outcomes
from survival_objectives._people.values import plain_table
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.metrics import integrated_brier_score
from survival_objectives.metrics._inputs import SCORED_BY

# Number of times at which the Brier score is integrated.
_N_TIMES = 101


def _fact(read: Callable[[FittedModel], Any]) -> Any:
    """A fitted attribute, read off the model; where that has None, there is no such attribute."""

    def value(self: FittedPredictions) -> Any:
        found = read(self.fitted_model)
        if found is None:
            msg = f"This {type(self).__name__} has no such attribute."
            raise AttributeError(msg)
        return found

    return property(value)


def _public(name: str) -> Any:
    """A fitted attribute that only one kind of model has."""
    return _fact(lambda model: model.public.get(name))


class FittedPredictions(Explanations, DisplayMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of estimators whose only fitted state is a `FittedModel`.

    All public fitted attributes are read off it.
    """

    _model: FittedModel

    engine_ = _fact(lambda model: model.frame.engine)
    event_ids_ = _fact(lambda model: model.frame.event_ids)
    times_ = _fact(lambda model: model.frame.times)
    booster_ = property(lambda self: self.fitted_model.booster)
    n_estimators_ = _fact(lambda model: model.n_rounds)
    censoring_ = _fact(lambda model: model.censoring)
    history_ = _fact(lambda model: model.record.history)
    n_events_ = _fact(lambda model: model.record.n_events)
    n_features_in_ = _fact(lambda model: model.schema.n_features)
    feature_names_in_ = _fact(
        lambda model: model.schema.names and np.array(model.schema.names, dtype=object)
    )
    member_weights_ = _public("member_weights_")
    censoring_method_ = _public("censoring_method_")
    refreshed_rounds_ = _public("refreshed_rounds_")
    n_floored_ = _public("n_floored_")

    @classmethod
    def of(cls, model: FittedModel, **parameters: Any) -> Self:
        """What a fitted model predicts, as an object of this class with these parameters."""
        found = cls(**parameters)
        found.fitted_model = model
        return found

    @property
    def fitted_model(self) -> FittedModel:
        """The fitted model, for code that saves, exports or moves models."""
        self._check_fitted()
        return self._model

    @fitted_model.setter
    def fitted_model(self, model: FittedModel) -> None:
        self._model = model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def _check_fitted(self) -> None:
        # scikit-learn's own check refuses objects without `fit`.
        if not self.__sklearn_is_fitted__():
            msg = (
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with "
                "appropriate arguments before using this estimator."
            )
            raise NotFittedError(msg)

    @property
    def recalibration_(self) -> Recalibration | None:
        """What `survival_objectives.recalibrate` found; None for nothing."""
        return self.fitted_model.frame.recalibration

    # ------------------------------------------------------------------------------------- states
    @property
    def classes_(self) -> Any:
        """None: tools for classifiers would replace durations by codes before training."""
        msg = (
            f"{type(self).__name__} is no classifier and has no `classes_`. For "
            "`cross_val_predict(method='predict_proba')`, which replaces durations by codes, use "
            "`cross_val_predict(model.at_horizon(horizon, cause), X, y)`."
        )
        raise AttributeError(msg)

    @property
    def event_names_(self) -> tuple[str, ...]:
        """Names of the states, "event-free" first: labels of text events, else "cause 1" etc."""
        return self._model.frame.state_names

    def _state(self, cause: Any) -> int:
        """Position of the curve of a cause, by its label or its name; 0 is event-free."""
        self._check_fitted()
        if isinstance(cause, str):
            check_choice(cause, "cause", self.event_names_)
            return self.event_names_.index(cause)
        check_choice(cause, "cause", self.event_ids_.tolist())
        return int(np.searchsorted(self.event_ids_, cause))

    # --------------------------------------------------------------------------------- prediction
    @property
    def _schema(self) -> Features:
        return self._model.schema

    def _checked(self, X: Any) -> Features:
        self._check_fitted()
        outcomes = self._model.frame.outcome_columns
        if outcomes and hasattr(X, "columns"):
            others = [column for column in X.columns if str(column) not in outcomes]
            X = X[others] if len(others) < len(X.columns) else X
        return check_features(X, like=self._model.schema)

    def predict_cumulative_incidence(
        self,
        X: Any,
        times: Any = None,
        *,
        cause: int | str | None = None,
        conditional_after: Any = None,
        confidence: float | None = None,
        id: Any = None,
        start: Any = None,
        stop: Any = None,
        as_frame: bool = False,
        dtype: Any = "float64",
    ) -> Any:
        """Probability of each state at each time.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            People, with the columns of training; columns that held outcomes there are ignored.
        times : array of shape (n_times,), optional
            Times >= 0 in any order. Default: ``times_``.
        cause : int or str, optional
            A label of ``event_ids_`` or a name of ``event_names_``: return its incidence alone. The
            curves of all states are then never in memory together.
        conditional_after : float or array of shape (n_samples,), optional
            Return probabilities given that the person is event-free at this time, one for all or
            one per person. At earlier times the event-free probability is 1.
        confidence : float, optional
            Return a named tuple ``(estimate, lower, upper)``, of which each is what is returned
            without it: pointwise limits of the curve of people with these features. A
            `HazardBoost` has them, from its folds; docs/howto/how_sure.md shows what they cover.
            Not beside ``conditional_after`` or ``id``.
        id, start, stop : column names, optional
            Predict along a path of features: the frame ``X`` has a row per person and stretch
            (start, stop] of constant features, in any order. People come in the order of their
            first rows, and are event-free before them. Features hold until the next row of the
            person begins, and those of the last row for ever.
        as_frame : bool, default=False
            Whether to return a DataFrame with one row per person, the index of ``X``, and columns
            (event, time), or times if ``cause`` is given. Events are names if training had names,
            else labels.
        dtype : {"float64", "float32"}, default="float64"
            Of the result. Curves are computed in float64, some people at a time.

        Returns
        -------
        array of shape (n_samples, K + 1, n_times), or (n_samples, n_times) with ``cause``
            Index 0 is the probability of being event-free, index k the incidence of
            ``event_ids_[k]``; they sum to 1.
        """
        self._check_fitted()
        if confidence is not None:
            return self._band(
                lambda model: model.predict_cumulative_incidence(
                    X, times, cause=cause, as_frame=as_frame, dtype=dtype
                ),
                confidence,
                conditional_after=conditional_after,
                id=id,
            )
        X, path, index = path_of(X, id, start, stop)
        features = self._checked(X)
        times = self.times_ if times is None else check_times(times)
        n_people = features.n_samples if path is None else path.n_people
        known = _known(conditional_after, n_people)
        if path is not None:
            # Who starts at 0 may have an event at time 0.
            entry = np.where(path.entry > 0, path.entry, -1.0)
            known = entry if known is None else np.maximum(known, entry)
        check_choice(str(np.dtype(dtype)), "dtype", ("float64", "float32"))
        state = None if cause is None else self._state(cause)
        curves = self._curves(features, times, known, path, state, dtype)
        if state is not None:
            return pd.DataFrame(curves, index, _time_index(times)) if as_frame else curves
        if not as_frame:
            return curves
        return self._frame(curves, index, times)

    def _curves(
        self,
        features: Features,
        times: FloatArray,
        known: FloatArray | None,
        path: Path | None,
        state: int | None,
        dtype: Any,
    ) -> Any:
        """Curves of all states, or of one, of the people given."""
        chosen: Any = slice(None) if state is None else state
        model, n_times = self._model, len(times)
        if path is not None:
            assert known is not None
            found = model.conditional_incidence(features, times, known, path)
            return found[:, chosen].astype(dtype, copy=False)
        n_states = () if state is not None else (model.frame.n_causes + 1,)
        curves = np.empty((features.n_samples, *n_states, n_times), dtype)
        for people in model.parts(features.n_samples, n_times + (known is not None)):
            own = rows_of(features, people)
            if known is None:
                found = model.incidence(own, times)
            else:
                found = model.conditional_incidence(own, times, known[people])
            curves[people] = found[:, chosen]
        return curves

    def predict_batches(
        self, X: Any, times: Any = None, *, batch_size: int = 100_000, **options: Any
    ) -> Iterator[tuple[slice, Any]]:
        """Curves of many people, batch by batch, so that they are never in memory together.

        Parameters
        ----------
        X, times
            As in `predict_cumulative_incidence`.
        batch_size : int, default=100_000
            People at a time.
        **options
            ``cause``, ``conditional_after``, ``confidence``, ``as_frame`` and ``dtype`` of
            `predict_cumulative_incidence`.

        Yields
        ------
        people : slice
            Rows of ``X``.
        curves
            What `predict_cumulative_incidence` returns for them.

        Examples
        --------
        >>> for people, curves in model.predict_batches(X, times, cause=1):  # doctest: +SKIP
        ...     risk[people] = curves[:, -1]
        """
        size, X = check_positive_int(batch_size, "batch_size"), plain_table(X)
        X = X if hasattr(X, "shape") else np.asarray(X)
        known = _known(options.pop("conditional_after", None), X.shape[0])
        for people in parts_of(X.shape[0], size):
            after = None if known is None else known[people]
            own = take_rows(X, people)
            yield (
                people,
                self.predict_cumulative_incidence(own, times, conditional_after=after, **options),
            )

    def _band(
        self, predicted: Callable[[FittedPredictions], Any], confidence: Any, **others: Any
    ) -> Band:
        """What is predicted, with its limits; ``others`` are parameters without limits."""
        self._check_fitted()
        level = check_fraction(confidence, "confidence", zero=False, one=False)
        for name in ("conditional_after", "id"):
            if others.get(name) is not None:
                msg = f"`confidence` is not available beside `{name}`. Leave one of them out."
                raise ValueError(msg)
        sides = []
        for later in (False, True):
            side = copy.copy(self)
            side._model = self._model.at_limit(level, later=later)  # noqa: SLF001  A copy of self.
            sides.append(predicted(side))
        return Band(predicted(self), np.minimum(*sides), np.maximum(*sides))

    def _frame(self, curves: FloatArray, index: Any, times: FloatArray) -> pd.DataFrame:
        """Values of the last states, (n_rows, n_states, n_times), with columns (event, time)."""
        names = self._column_names[-curves.shape[1] :]
        columns = pd.MultiIndex.from_product([names, times], names=["event", "time"])
        return pd.DataFrame(curves.reshape(len(curves), -1), index, columns)

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
        conditional_after: Any = None,
        confidence: float | None = None,
        id: Any = None,
        start: Any = None,
        stop: Any = None,
        as_frame: bool = False,
        dtype: Any = "float64",
    ) -> Any:
        """Probability of being event-free, of shape (n_samples, n_times).

        Parameters as in `predict_cumulative_incidence`; a frame has one column per time.
        """
        return self.predict_cumulative_incidence(
            X,
            times,
            cause=0,
            conditional_after=conditional_after,
            confidence=confidence,
            id=id,
            start=start,
            stop=stop,
            as_frame=as_frame,
            dtype=dtype,
        )

    def predict_cumulative_hazard_function(self, X: Any, times: Any = None, **options: Any) -> Any:
        """Cumulative hazard of any event, minus the log of survival, (n_samples, n_times).

        Parameters as in `predict_survival_function`; inf where survival is 0.
        """
        confidence = options.pop("confidence", None)
        if confidence is not None:
            return self._band(
                lambda model: model.predict_cumulative_hazard_function(X, times, **options),
                confidence,
                **options,
            )
        with np.errstate(divide="ignore"):
            # `0 -` makes a hazard of 0 positive.
            return 0 - np.log(self.predict_survival_function(X, times, **options))

    def predict_proba(
        self,
        X: Any,
        time_horizon: float | None = None,
        *,
        conditional_after: Any = None,
        confidence: float | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Probability of each state at one horizon, of shape (n_samples, K + 1).

        The horizon defaults to the middle of ``times_``. A frame has one column per state.
        ``conditional_after`` and ``confidence`` are those of `predict_cumulative_incidence`.
        """
        self._check_fitted()
        if confidence is not None:
            return self._band(
                lambda model: model.predict_proba(X, time_horizon, as_frame=as_frame),
                confidence,
                conditional_after=conditional_after,
            )
        if time_horizon is None:
            time_horizon = float(self.times_[len(self.times_) // 2])
        time_horizon = _one_time(time_horizon, "time_horizon")
        curves: FloatArray = self.predict_cumulative_incidence(
            X, time_horizon, conditional_after=conditional_after
        )
        if not as_frame:
            return curves[:, :, 0]
        columns = pd.Index(self._column_names, name="event")
        return pd.DataFrame(curves[:, :, 0], _index(X), columns)

    def predict(self, X: Any) -> FloatArray:
        """Risk of any event, higher is worse: expected share of time lost up to ``times_[-1]``."""
        survival: FloatArray = self.predict_survival_function(X)
        kept: FloatArray = np.trapezoid(survival, self.times_, axis=1) / self.times_[-1]
        return 1 - kept

    def predict_quantile(
        self,
        X: Any,
        quantile: Any = 0.5,
        *,
        conditional_after: Any = None,
        confidence: float | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Quantile of the time to any event; inf if it is not reached.

        The default is the median. Several quantiles give one column each; a frame has the quantiles
        as column labels. ``conditional_after`` and ``confidence`` are those of
        `predict_cumulative_incidence`; quantiles stay times since the origin, and their limits are
        the times at which the limits of the curve reach them.
        """
        if confidence is not None:
            return self._band(
                lambda model: model.predict_quantile(X, quantile, as_frame=as_frame),
                confidence,
                conditional_after=conditional_after,
            )
        features = self._checked(X)
        quantiles = [
            check_fraction(q, "quantile", zero=False, one=False) for q in np.ravel(quantile)
        ]
        if not quantiles:
            msg = "`quantile` is empty. Give at least one, such as [0.25, 0.5, 0.75]."
            raise ValueError(msg)
        known = _known(conditional_after, features.n_samples)
        found = self._model.quantiles(features, quantiles, known)
        if not as_frame:
            return found[:, 0] if np.ndim(quantile) == 0 else found
        return pd.DataFrame(found, _index(X), pd.Index(quantiles, name="quantile"))

    def predict_restricted_mean_time(
        self,
        X: Any,
        horizon: float | None = None,
        *,
        cause: int | str | None = None,
        conditional_after: Any = None,
        confidence: float | None = None,
    ) -> Any:
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
        conditional_after : float or array of shape (n_samples,), optional
            As in `predict_cumulative_incidence`; means then count from this time to the horizon.
        confidence : float, optional
            As in `predict_cumulative_incidence`; limits are the areas under those of the curve.
        """
        if confidence is not None:
            return self._band(
                lambda model: model.predict_restricted_mean_time(X, horizon, cause=cause),
                confidence,
                conditional_after=conditional_after,
            )
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
        known = _known(conditional_after, features.n_samples)
        return self._model.restricted_mean(features, horizon, state, known)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Negative integrated Brier score, averaged over causes and the event-free state.

        Higher is better. Weights come from the marginal censoring of the training data.
        """
        self._check_fitted()
        check_paired(X, y, sample_weight)
        y, _ = named_outcomes(y, names=self.event_names_)
        target = check_survival_target(y, event_ids=self.event_ids_, instead=SCORED_BY)
        return -brier_score_until(float(target.duration.max()), self, X, target, sample_weight)

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

    # -------------------------------------------------------------------------------- persistence
    def save(self, path: Any) -> None:
        """Write the model to a folder: the engine's own files and JSON, no outcomes, no pickle.

        Saved parameters are those at the time of fitting.
        """
        save(self.fitted_model, path)

    def plot(
        self,
        person: Any,
        times: Any = None,
        *,
        conditional_after: float | None = None,
        confidence: float | None = None,
        time_label: str = "Time",
        ax: Any = None,
    ) -> Any:
        """Axes with the stacked probabilities of one person's states over time.

        With ``confidence``, the curves of the causes with their bands. Needs matplotlib.

        Parameters
        ----------
        person : Series, or DataFrame or array with one row
            Features of the person.
        times, conditional_after, confidence
            As in `predict_cumulative_incidence`; times are increasing.
        time_label : str, default="Time"
            Label of the horizontal axis.
        ax : Axes, optional
            Axes to draw on. Default: new axes.
        """
        from survival_objectives.plots import plot_bands, plot_stacked_incidence

        self._check_fitted()
        X = person.to_frame().T.infer_objects() if isinstance(person, pd.Series) else person
        X = X if hasattr(X, "shape") else np.asarray(X)
        if len(X) != 1:
            msg = f"`person` has {len(X)} rows; give one, such as `X.iloc[[0]]`."
            raise ValueError(msg)
        times = np.linspace(0, self.times_[-1], 200) if times is None else check_times(times)
        curves = self.predict_cumulative_incidence(
            X, times, conditional_after=conditional_after, confidence=confidence
        )
        if isinstance(curves, Band):
            names = self.event_names_
            bands = {names[k]: tuple(one[0, k] for one in curves) for k in range(1, len(names))}
            return plot_bands(bands, times, time_label=time_label, ax=ax)
        return plot_stacked_incidence(
            curves[0], times, state_names=self.event_names_, time_label=time_label, ax=ax
        )

    # ------------------------------------------------------------------------------------- export
    def to_onnx(self, path: Any, times: Any = None, *, categories: str = "codes") -> None:
        """Write the model as an ONNX graph whose output is `predict_cumulative_incidence`.

        Needs onnx. If onnxruntime is installed, graph and model are first compared on made-up
        people; a graph that differs by more than 1e-5 is not written.

        Parameters
        ----------
        path : path
            The file, such as "model.onnx", which must not exist.
        times : array of shape (n_times,), optional
            Fixed times >= 0 of the output. Default: times are an input of the graph.
        categories : {"codes", "text"}, default="codes"
            Input of categorical columns. "codes": as codes 0, 1, ... of their levels, which are
            listed in the metadata. "text": as a separate text input. Levels unseen in training are
            treated as missing.

        Notes
        -----
        Inputs are ``features``, float32 of shape (n_people, n_features) in the order of training
        with NaN for missing; with "text" and categorical columns, ``categories`` of shape
        (n_people, n_categorical), and ``features`` has the other columns only; and without fixed
        times, ``times``, float64 of shape (n_times,). The output ``probabilities`` is float32 of
        shape (n_people, K + 1, n_times). Infinite features, which `predict_cumulative_incidence`
        refuses, are not detected.
        """
        write_onnx(self.fitted_model, path, times, categories)


def brier_score_until(
    last_seen: float, model: FittedPredictions, X: Any, y: Any, sample_weight: Any
) -> float:
    """Mean integrated Brier score over all states, up to a time or the end of ``times_``.

    Parameters
    ----------
    last_seen : float
        Longest duration of all people, of whom ``X`` and ``y`` may be a part.
    model : FittedPredictions
        A fitted model; weights come from the marginal censoring of its training data.
    X, y, sample_weight
        People, their outcomes and weights.
    """
    target = check_survival_target(y, event_ids=model.event_ids_, instead=SCORED_BY)
    frame = model.fitted_model.frame
    times = np.linspace(0, min(last_seen, model.times_[-1]), _N_TIMES + 1)[1:-1]
    score: float = integrated_brier_score(
        KaplanMeierCensoring.of_curve(frame.censoring_curve),
        (model.event_ids_[target.event], target.duration),
        model.predict_cumulative_incidence(X, times),
        times,
        average="all",
        sample_weight=sample_weight,
        event_ids=model.event_ids_,
        min_censoring_survival=model.fitted_model.record.floor,
    )
    return float(score)


def _one_time(time: Any, name: str) -> float:
    if np.ndim(time) != 0:
        msg = (
            f"`{name}` must be one number; got shape {np.shape(time)}. "
            "For several times, use `predict_cumulative_incidence`."
        )
        raise ValueError(msg)
    return float(check_times(time)[0])


def _known(conditional_after: Any, n_people: int) -> FloatArray | None:
    """Times at which people are event-free, one per person."""
    if conditional_after is None:
        return None
    known = check_times(conditional_after, "conditional_after")
    if np.ndim(conditional_after) > 0 and len(known) != n_people:
        msg = (
            f"`conditional_after` has {len(known)} times for {n_people} people. Give one number, "
            "or one per person."
        )
        raise ValueError(msg)
    return np.broadcast_to(known, n_people)


def path_of(X: Any, ids: Any, start: Any, stop: Any) -> tuple[Any, Path | None, Any]:
    """Features without the columns of a path, the path, and the index of the people."""
    X = plain_table(X)
    names = {"id": ids, "start": start, "stop": stop}
    if all(name is None for name in names.values()):
        return X, None, _index(X)
    columns = list(getattr(X, "columns", ()))
    for name, column in names.items():
        if column is None or column not in columns:
            msg = (
                f"`{name}` is {column!r}: a path of features needs `id`, `start` and `stop`, three "
                f"columns of the frame, which has {columns}."
            )
            raise ValueError(msg)
    path = Path.of(*(X[column] for column in names.values()))
    labels = np.asarray(X[ids])[path.order[path.first]]
    others = [column for column in columns if column not in names.values()]
    return X[others], path, pd.Index(labels, name=ids)


def _time_index(times: FloatArray) -> pd.Index:
    return pd.Index(times, name="time")


def _index(X: Any) -> Any:
    return X.index if isinstance(X, pd.DataFrame) else None

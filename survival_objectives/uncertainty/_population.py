r"""Average curves of a group, and what they would be if a feature were set to a value.

F_i is the incidence that is predicted for person i with the feature set (g-formula), A its mean
over the n people of the group, E the number of training events. With the group jackknife var_J of
equation (90), over the models without each fold,

    s^2 = var_J(log A / (1 - A)) + h / E + var(F_i) / (n A^2 (1 - A)^2),

where h is 1 for the group as it is, and 2 with a setting, which about half of the events inform.
Limits are A on the log-odds scale -/+ q s. For a difference D of two settings

    s^2 = var_J(D) + sum_settings (2 / E) A^2 (1 - A)^2 + var(D_i) / n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit, stdtrit

from survival_objectives._arrays import FloatArray
from survival_objectives._hazards.model import HazardMixture
from survival_objectives._models.bands import Band, jackknife_variance
from survival_objectives._people import check_features, check_fraction, check_times
from survival_objectives._people.values import plain_table

# Probabilities nearer to 0 or 1 count as this one on the log-odds scale.
_LEAST = 1e-9


@dataclass(frozen=True)
class StandardizedIncidence:
    """Average predicted incidences of a group; made by `standardized_incidence`.

    Attributes
    ----------
    times : array of shape (n_times,)
    curves : dict of value to (estimate, lower, upper)
        Average incidence by the value of the feature; the only key is None where none is set.
    differences : dict of value to (estimate, lower, upper)
        Average incidence with each further value minus that with the first.
    """

    times: FloatArray
    curves: dict[Any, Band]
    differences: dict[Any, Band]


def standardized_incidence(
    model: Any,
    X: Any,
    times: Any,
    feature: Any = None,
    values: Sequence[Any] = (),
    *,
    cause: int | str | None = None,
    confidence: float = 0.9,
) -> StandardizedIncidence:
    """Average predicted incidence of a group, as it is or with a feature set, with its bands.

    This is prediction. A difference is an effect of the feature only if all of this holds: the
    features contain every common cause of it and of the events; none of them is a consequence of
    it; people of every kind had each of the values; censoring depends on the features alone; and
    the model has found the effect. Models shrink effects, so a difference near 0 proves nothing.

    Parameters
    ----------
    model : HazardBoost
        With models of folds: trained without ``eval_set``.
    X : array or DataFrame of shape (n_samples, n_features)
        The group: a sample of the people that the answer is about.
    times : array of shape (n_times,)
    feature : column name, or its number in an array, optional
        Feature that is set to each of the values for all people. Default: no feature.
    values : sequence, optional
        At least one value of the feature; differences are to the first.
    cause : int or str, optional
        Default: any event.
    confidence : float, default=0.9
        Of the pointwise limits.

    Returns
    -------
    StandardizedIncidence

    Examples
    --------
    >>> from survival_objectives import HazardBoost
    >>> from survival_objectives.datasets import make_competing_risks
    >>> data = make_competing_risks(300, random_state=0)
    >>> model = HazardBoost(n_estimators=5, random_state=0).fit(data.X, data.y)
    >>> found = standardized_incidence(model, data.X, [1.0], "x0", [-1, 1], cause=1)
    >>> sorted(found.curves), sorted(found.differences)
    ([-1, 1], [1])
    """
    level = check_fraction(confidence, "confidence", zero=False, one=False)
    times, X = check_times(times), plain_table(X)
    if (feature is None) != (len(values) == 0):
        msg = f"`feature` is {feature!r} and `values` are {list(values)}: give both, or neither."
        raise ValueError(msg)
    fitted = model.fitted_model
    fitted.at_limit(level, later=False)  # Refuses models without bands.
    assert isinstance(fitted, HazardMixture)
    state = 0 if cause is None else model.event_ids_.tolist().index(_label(model, cause))
    counts = fitted.record.n_events
    assert counts is not None
    n_events = max(1, counts[1:].sum() if state == 0 else counts[state])
    n_folds = fitted.record.n_folds
    n_repeats = fitted.mixture.n_models // n_folds
    quantile = float(stdtrit(n_repeats * (n_folds - 1), (1 + level) / 2))
    settings: dict[Any, tuple[FloatArray, FloatArray]] = {}
    curves: dict[Any, Band] = {}
    for value in values or (None,):
        own = X if feature is None else _with_value(X, feature, value)
        person, by_model = _incidences(fitted, own, times, state)
        settings[value] = person, by_model
        mean = np.clip(person.mean(axis=0), _LEAST, 1 - _LEAST)
        variance = jackknife_variance(logit(np.clip(by_model, _LEAST, 1 - _LEAST)), n_folds)
        variance += (1 if feature is None else 2) / n_events
        variance += person.var(axis=0) / (len(person) * (mean * (1 - mean)) ** 2)
        width = quantile * np.sqrt(variance)
        curves[value] = Band(mean, expit(logit(mean) - width), expit(logit(mean) + width))
    first, *others = settings
    differences = {}
    for value in others:
        person, by_model = (b - a for a, b in zip(settings[first], settings[value], strict=True))
        variance = jackknife_variance(by_model, n_folds) + person.var(axis=0) / len(person)
        for mean in (curves[first].estimate, curves[value].estimate):
            variance += 2 / n_events * (mean * (1 - mean)) ** 2
        width, mean = quantile * np.sqrt(variance), person.mean(axis=0)
        differences[value] = Band(mean, mean - width, mean + width)
    return StandardizedIncidence(times, curves, differences)


def _label(model: Any, cause: int | str) -> Any:
    names = dict(zip(model.event_names_[1:], model.event_ids_[1:].tolist(), strict=True))
    label = names.get(cause, cause)
    if label not in names.values():
        msg = f"`cause` is {cause!r}; choose from {list(names.values())} ({', '.join(names)})."
        raise ValueError(msg)
    return label


def _with_value(X: Any, feature: Any, value: Any) -> Any:
    """People with a feature set to a value."""
    if isinstance(X, pd.DataFrame):
        if feature not in X.columns:
            msg = f"`feature` is {feature!r}, no column of `X`: {list(X.columns)}."
            raise ValueError(msg)
        X = X.copy()
        X[feature] = pd.Series([value] * len(X), index=X.index).astype(X[feature].dtype)
        if X[feature].isna().all() and not pd.isna(value):
            levels = ", ".join(map(repr, X[feature].cat.categories))
            msg = f"{value!r} is no value of `{feature}`; choose from {levels}."
            raise ValueError(msg)
        return X
    X = np.array(X)
    if not isinstance(feature, int) or not 0 <= feature < X.shape[1]:
        msg = f"`feature` is {feature!r}; give the number of a column, 0 to {X.shape[1] - 1}."
        raise ValueError(msg)
    X[:, feature] = value
    return X


def _incidences(
    fitted: HazardMixture, X: Any, times: FloatArray, state: int
) -> tuple[FloatArray, FloatArray]:
    """Incidence of each person, (n, T), and its mean over them by each model, (L, T)."""
    features = check_features(X, like=fitted.schema)
    person = fitted.incidence(features, times)[:, state]
    total = np.zeros(())
    for people in fitted.parts(features.n_samples, len(times) * fitted.mixture.n_models):
        by_model = fitted.curves_by_model(features.values[people], times)
        total = total + by_model[:, :, state].sum(axis=1)
    mean = total / features.n_samples
    return (person, mean) if state else (1 - person, 1 - mean)

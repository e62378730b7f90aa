r"""Bounds and lists that hold on average over people, whether or not the model is right.

For the time T to any event, a lower bound L(x) with

    P(T >= L(X)) >= confidence

on average over people, and for a horizon lists of people of whom at most a given share, in
expectation, have the event or stay free of it. Nothing is assumed about the model of the event; a
useless one gives wide bounds. Censoring may depend on the features.

The candidates for L are the quantiles f_a(x) at which the model predicts the probability a. That of
an event before f_a(x) is estimated by the psi of `HeldOutPeople`, whose mean is right if either the
model of the event or that of censoring is (Farina et al., arXiv 2501.04615). L is f_a for the
largest a up to which no mean of psi(f_a), with one more person counted as an event, exceeds
1 - confidence. Weights from imputed censoring times (Sesia and Svetnik, arXiv 2412.09729) are the
mean of the first term of psi, divided by its own total. Lists are those of Sesia and Svetnik
(arXiv 2505.04568): the longest whose expected errors, by psi at the horizon, are few enough. For
known outcomes this is the procedure of Benjamini and Hochberg on conformal p-values.

No method without assumptions bounds the probability of one person: there is one outcome per person.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives._people import check_choice, check_fraction, check_times, warn
from survival_objectives.censoring import CensoringModel
from survival_objectives.metrics._inputs import check_cause
from survival_objectives.metrics._scorers import predicted_curves
from survival_objectives.uncertainty._held_out import HeldOutPeople

# Candidates for the probability at which the lower bound is a quantile of the model.
_LEVELS = np.linspace(0, 1, 1001)[1:]


def conformalize(
    model: Any,
    X: Any,
    y: Any,
    *,
    cv: int | None = None,
    censoring: CensoringModel | None = None,
    min_censoring_survival: float = 0.05,
) -> ConformalSurvival:
    """Calibrate a fitted model on people, for bounds and lists that hold on average.

    Parameters
    ----------
    model : fitted estimator
        Anything with ``predict_cumulative_incidence(X, times)``: `HazardBoost`, `SurvivalBoost`,
        ``objective.fitted(booster)`` of the plugin, a pipeline that ends in one of them, or
        `SurvivalCompletion` around the survival curves of another package.
    X, y
        People that the model was not trained on, and their outcomes as in ``fit``; with ``cv`` the
        training people.
    cv : int, optional
        Number of folds. ``X`` and ``y`` are then those that ``model`` was fitted to, and the curves
        of each fold come from a copy of the model that is fitted without it. No people are set
        aside, at the cost of as many fits.
    censoring : CensoringModel, optional
        Probability of being uncensored. Default: cross-fitted hazards of being censored or, if
        fewer than 20 people are censored, Kaplan-Meier.
    min_censoring_survival : float, default=0.05
        Smaller probabilities of being uncensored count as this one.

    Returns
    -------
    ConformalSurvival

    Examples
    --------
    >>> from survival_objectives import HazardBoost
    >>> from survival_objectives.datasets import make_competing_risks
    >>> data = make_competing_risks(900, random_state=0)
    >>> model = HazardBoost(random_state=0).fit(data.X[:500], data.y[:500])
    >>> calibrated = conformalize(model, data.X[500:], data.y[500:])
    >>> new = data.draw(1000, random_state=1)
    >>> bound = calibrated.lower_bound(new.X, confidence=0.9)
    >>> bool((new.y_uncensored["duration"] >= bound).mean() > 0.85)
    True
    """
    people = HeldOutPeople.of(model, X, y, cv, censoring, min_censoring_survival)
    return ConformalSurvival(model, people)


class ConformalSurvival:
    """A model with its calibration; made by `conformalize`.

    Attributes
    ----------
    model : fitted estimator
    people : HeldOutPeople
        People of the calibration.
    miscoverage_ : array of shape (1000,)
        Estimated share of people with an event before the quantile of the model at 0.001, ..., 1.
    """

    def __init__(self, model: Any, people: HeldOutPeople) -> None:
        self.model = model
        self.people = people
        self.miscoverage_ = _miscoverage(people)

    def lower_bound(self, X: Any, confidence: float = 0.9) -> FloatArray:
        """Times that are reached without any event with a probability of ``confidence``.

        The probability is over new people and the people of the calibration together, not for one
        person. Bounds are at most the longest duration of the calibration, and 0 says nothing.

        Parameters
        ----------
        X : features of shape (n_samples, n_features)
            New people.
        confidence : float, default=0.9

        Returns
        -------
        array of shape (n_samples,)
        """
        allowed = 1 - check_fraction(confidence, "confidence", zero=False, one=False)
        n_people = self.people.n_samples
        if (n_people + 1) * allowed < 1:
            msg = (
                f"`confidence` is {confidence} with {n_people} people of calibration, who can "
                f"support at most {n_people / (n_people + 1):.3f}. Lower it, or take more people."
            )
            raise ValueError(msg)
        exceeded = self.miscoverage_ > allowed
        n_levels = int(exceeded.argmax()) if exceeded.any() else len(_LEVELS)
        if n_levels == 0:
            warn(
                "No quantile of the model is early enough for this confidence, so that all lower "
                "bounds are 0. Events at time 0, or curves that start too late, do this."
            )
        level = _LEVELS[n_levels - 1] if n_levels else 0.0
        nodes = self.people.nodes
        event = _rising(1 - predicted_curves(self.model, X, nodes)[:, 0])
        if n_levels == 0:
            return np.zeros(len(event))
        return np.array([np.interp(level, curve, nodes) for curve in event])

    def screen(
        self,
        X: Any,
        horizon: float,
        *,
        keep: str = "low",
        error_rate: float = 0.1,
        cause: int = 0,
    ) -> BoolArray:
        """The longest list of people with few errors by a horizon, as a mask.

        Among those listed, the expected share of errors is at most ``error_rate``: with "low"
        people who have the event by the horizon, with "high" people who do not. The list may be
        empty.

        Parameters
        ----------
        X : features of shape (n_samples, n_features)
            New people.
        horizon : float
            Time, within the durations of the calibration.
        keep : {"low", "high"}, default="low"
            Whether to list people of low or of high risk.
        error_rate : float, default=0.1
        cause : int, default=0
            Label of a cause, or 0 for any event.

        Returns
        -------
        bool array of shape (n_samples,)
        """
        check_choice(keep, "keep", ("low", "high"))
        allowed = check_fraction(error_rate, "error_rate", zero=False, one=False)
        people, time = self.people, self.people.within(horizon)
        state = check_cause(cause, people.target.event_ids)
        risk, happens = people.predicted(state, time), people.observed(state, time)
        new = predicted_curves(self.model, X, check_times(time))[:, state, 0]
        if state == 0:
            new = 1 - new
        if keep == "high":
            risk, new, happens = -risk, -new, 1 - happens
        return new <= _threshold(risk, happens, np.sort(new), allowed)


def _miscoverage(people: HeldOutPeople) -> FloatArray:
    """Mean probability of an event before the quantile at each of the levels."""
    total = np.zeros(len(_LEVELS))
    for person, event in enumerate(_rising(people.incidence(0))):
        times = np.interp(_LEVELS, event, people.nodes)
        total += people.psi(person, 0, times, np.minimum(_LEVELS, event[-1]))
    # One more person, whose event is early.
    mean: FloatArray = (total + 1) / (people.n_samples + 1)
    return mean


def _rising(curves: FloatArray) -> FloatArray:
    rising: FloatArray = np.maximum.accumulate(curves, axis=1)
    return rising


def _threshold(
    risk: FloatArray, errors: FloatArray, candidates: FloatArray, allowed: float
) -> float:
    """The largest of the candidates up to which few enough errors are expected."""
    order = np.argsort(risk)
    total = np.append(0.0, np.cumsum(errors[order]))
    up_to = np.searchsorted(risk[order], candidates, side="right")
    n_listed = np.searchsorted(candidates, candidates, side="right")
    share = (1 + np.maximum(total[up_to], 0.0)) / (len(risk) + 1)
    possible = candidates[share * len(candidates) <= allowed * n_listed]
    return float(possible[-1]) if len(possible) else -np.inf

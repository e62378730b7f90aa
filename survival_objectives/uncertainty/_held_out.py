r"""People with outcomes, curves of a model that was not trained on them, and their censoring.

With F the incidence of a cause that the model predicts, S its event-free probability and G the
probability of being uncensored, the probability of the cause before z is estimated for a person
with duration t by equation (47),

    psi(z) = [cause, t < z] / G(t|x) + [censored, t < z] m(t) / G(t|x) - int_0^min(t,z) m d(1/G),

where m(u) = (F(z|x) - F(u|x)) / S(u|x). The mean of psi is right if either F or G is, and its error
is of second order if both are estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from survival_objectives._arrays import FloatArray
from survival_objectives._engines.protocol import installed_engine
from survival_objectives._horizons.completion import cross_fitted, cross_fitted_hazards
from survival_objectives._people import (
    SurvivalTarget,
    check_fraction,
    check_paired,
    check_positive_int,
    check_survival_target,
    check_times,
)
from survival_objectives._people.labels import named_outcomes
from survival_objectives._people.population import event_unit
from survival_objectives.censoring import CensoringModel, KaplanMeierCensoring
from survival_objectives.metrics._scorers import predicted_curves, survival_model

# Nodes of the curves in time, at quantiles of the durations.
_N_NODES = 256
# With fewer people censored, their times do not tell how censoring depends on features.
_FEWEST_CENSORED = 20


@dataclass(frozen=True)
class HeldOutPeople:
    """People, curves of a model that was not trained on them, and their censoring, at nodes.

    Attributes
    ----------
    target : SurvivalTarget
    duration : float64 array of shape (n_samples,)
        Where time has whole units, half a unit later for the censored: an event comes before a
        censoring at the same time.
    nodes : float64 array of shape (M,)
        Increasing times from 0 to the longest duration.
    curves : float64 array of shape (n_samples, K + 1, M)
    uncensored : float64 array of shape (n_samples, M)
    """

    target: SurvivalTarget
    duration: FloatArray
    nodes: FloatArray
    curves: FloatArray
    uncensored: FloatArray

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        y: Any,
        cv: int | None = None,
        censoring: CensoringModel | None = None,
        min_censoring_survival: float = 1e-3,
    ) -> Self:
        """Arguments of `survival_objectives.uncertainty.conformalize`, checked and evaluated."""
        floor = check_fraction(
            min_censoring_survival, "min_censoring_survival", zero=False, one=False
        )
        check_paired(X, y)
        known, _ = survival_model(model, X[:1])
        y, _ = named_outcomes(y, names=getattr(known, "event_names_", None))
        target = check_survival_target(
            y, event_ids=getattr(known, "event_ids_", None), instead="Take people seen from 0"
        )
        duration = target.duration + np.where(target.event == 0, event_unit(target) / 2, 0.0)
        nodes = np.unique(np.quantile(duration, np.linspace(0, 1, _N_NODES)))
        nodes = np.append(0.0, nodes[nodes > 0])
        if cv is None:
            curves = predicted_curves(model, X, nodes)
        else:
            folds = cross_fitted(
                lambda X, y, weight, number: clone(model).fit(X, y),  # noqa: ARG005
                X,
                target,
                None,
                n_folds=check_positive_int(cv, "cv"),
            )
            curves = folds.of_training_people(np.arange(target.n_samples), X, nodes)
        engine = getattr(known, "engine_", "xgboost")
        uncensored = _uncensored(censoring, engine, X, target, duration, nodes)
        return cls(target, duration, nodes, curves, np.maximum(uncensored, floor))

    @property
    def n_samples(self) -> int:
        """Number of people."""
        return self.target.n_samples

    def within(self, horizon: Any) -> float:
        """A horizon, which must not be after the longest duration."""
        time = float(check_times(horizon)[0])
        if time > self.nodes[-1]:
            msg = (
                f"`horizon` is {time:g}, but the people are followed to {self.nodes[-1]:g}. Choose "
                "an earlier horizon."
            )
            raise ValueError(msg)
        return time

    def incidence(self, state: int) -> FloatArray:
        """Curves of a cause, or of any event for 0, (n_samples, M)."""
        curves: FloatArray = self.curves[:, state]
        return curves if state else 1 - curves

    def predicted(self, state: int, time: float) -> FloatArray:
        """Predicted probability of a cause by a time, (n_samples,)."""
        return np.array([np.interp(time, self.nodes, curve) for curve in self.incidence(state)])

    def observed(self, state: int, time: float) -> FloatArray:
        """The psi of all people for a cause by a time, (n_samples,)."""
        happens = self.predicted(state, time)
        after = np.array([np.nextafter(time, np.inf)])
        rows = range(self.n_samples)
        return np.concatenate([self.psi(i, state, after, happens[i : i + 1]) for i in rows])

    def psi(self, person: int, state: int, times: FloatArray, happens: FloatArray) -> FloatArray:
        """The psi of a person for a cause, or any event for 0, before each of ``times``.

        ``happens`` is the predicted probability of the cause by then.
        """
        incidence = self.incidence(state)[person]
        inverse = 1 / np.maximum(self.curves[person, 0], np.finfo(np.float32).tiny)
        weight = 1 / self.uncensored[person]
        steps = np.diff(weight)
        # Running integrals of d(1/G) / S and F d(1/G) / S, by the trapezoidal rule.
        integrals = [
            np.append(0.0, np.cumsum(steps * (values[:-1] + values[1:]) / 2))
            for values in (inverse, incidence * inverse)
        ]
        end, event = self.duration[person], self.target.event[person]
        at = np.minimum(times, end)
        of_inverse, of_incidence = (np.interp(at, self.nodes, values) for values in integrals)
        own_weight, own_incidence, own_inverse = (
            np.interp(end, self.nodes, values) for values in (weight, incidence, inverse)
        )
        if event == 0:
            known = (happens - own_incidence) * own_inverse
        else:
            known = np.full(times.shape, state in (0, event), np.float64)
        found: FloatArray = np.where(end < times, own_weight * known, 0.0)
        found += of_incidence - happens * of_inverse
        return found


def _uncensored(
    censoring: CensoringModel | None,
    engine: str,
    X: Any,
    target: SurvivalTarget,
    duration: FloatArray,
    nodes: FloatArray,
) -> FloatArray:
    """Probability of being uncensored at the nodes, (n_samples, M)."""
    # Being followed to the very end, such as a closing date, censors nothing before it.
    is_censored = (target.event == 0) & (duration < nodes[-1])
    if not is_censored.any():
        return np.ones((target.n_samples, len(nodes)))
    if censoring is None and is_censored.sum() >= _FEWEST_CENSORED:
        reverse = SurvivalTarget(is_censored.astype(np.int32), duration, np.array([0, 1]), None)
        folds = cross_fitted_hazards(installed_engine(engine), X, reverse, None)
        return folds.of_training_people(np.arange(target.n_samples), X, nodes)[:, 0]
    if censoring is None:
        censoring = KaplanMeierCensoring().fit((~is_censored, duration))
    grid = np.broadcast_to(nodes, (target.n_samples, len(nodes)))
    return np.asarray(censoring.survival(grid, X), np.float64)

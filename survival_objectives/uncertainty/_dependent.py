r"""What if censoring depends on the event: hazards after censoring that are multiplied by factors.

No data show what happens to people after they are censored. Models assume that their hazards stay
those of similar people who are still observed. Here the hazard of each cause k is multiplied by a
factor r_k from censoring on, and everything is computed again. Between two nodes in time, with h_k
and c the integrals of the hazards of cause k and of censoring, h and r.h the sums of h_k and of
r_k h_k, a person who is event-free and observed with probability P, and event-free but censored
with probability Q, has

    events of k while observed   P h_k (1 - exp(-h-c)) / (h+c)
    P' = P exp(-h-c),   Q' = Q exp(-r.h) + P c (exp(-r.h) - exp(-h-c)) / (h + c - r.h),

and all others who leave Q have an event, of cause k with probability r_k h_k / r.h. With factors of
1 these are the curves of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import exprel

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives._people import check_fraction, check_times
from survival_objectives.censoring import CensoringModel
from survival_objectives.metrics._inputs import check_cause
from survival_objectives.uncertainty._held_out import HeldOutPeople

_FACTORS = np.geomspace(0.25, 4, 33)
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class DependentCensoring:
    """Answers by the factor of the hazard after censoring; made by `dependent_censoring`.

    Attributes
    ----------
    factors : array of shape (n_factors,)
        Increasing.
    risk : array of shape (n_factors, n_samples)
        Incidence of the cause by the horizon.
    table : DataFrame
        One row per factor: ``incidence``, the mean risk; ``brier``, the Brier score of the
        predictions as they are; and with a threshold ``above``, the share of people whose risk
        exceeds it, and the net benefit of treating those above it by the predictions as they are
        (``net_benefit``) and of treating all (``net_benefit_all``).
    threshold : float or None
    """

    factors: FloatArray
    risk: FloatArray
    table: pd.DataFrame
    threshold: float | None

    def tipping_factors(self) -> FloatArray:
        """Factors nearest 1 at which people's risks reach the threshold, (n_samples,).

        NaN where no factor of ``factors`` makes a difference: the answer does not tip.
        """
        return np.array([self._tips(risk - self._known_threshold) for risk in self.risk.T])

    def tipping_factor(self) -> float:
        """The factor nearest 1 at which treating by the model stops, or starts, to be best.

        It is best if its net benefit exceeds that of treating all and of treating no one. NaN if no
        factor of ``factors`` makes a difference.
        """
        return self._tips(self._gain)

    @property
    def is_best(self) -> BoolArray:
        """Whether treating by the model is best, by factor."""
        return self._gain > 0

    @property
    def _gain(self) -> FloatArray:
        _ = self._known_threshold
        rival = np.maximum(self.table["net_benefit_all"].to_numpy(), 0.0)
        return np.asarray(self.table["net_benefit"] - rival)

    @property
    def _known_threshold(self) -> float:
        if self.threshold is None:
            msg = "Nothing tips without a decision: pass `threshold` to `dependent_censoring`."
            raise ValueError(msg)
        return self.threshold

    def _tips(self, gain: FloatArray) -> float:
        """The factor nearest 1 at which a value changes its sign; NaN if it does not."""
        changes = np.flatnonzero((gain[1:] > 0) != (gain[:-1] > 0))
        if len(changes) == 0:
            return float("nan")
        log = np.log(self.factors)
        share = gain[changes] / (gain[changes] - gain[changes + 1])
        found = log[changes] + share * np.diff(log)[changes]
        return float(np.exp(found[np.abs(found).argmin()]))


def dependent_censoring(
    model: Any,
    X: Any,
    y: Any,
    horizon: float,
    *,
    cause: int = 0,
    threshold: float | None = None,
    factors: npt.ArrayLike = _FACTORS,
    others: Mapping[int, float] | None = None,
    cv: int | None = None,
    censoring: CensoringModel | None = None,
) -> DependentCensoring:
    """What a model's answers become if hazards change when people are censored.

    Parameters
    ----------
    model, X, y, cv, censoring
        As in `conformalize`: people whose outcomes the model has not seen or, with ``cv``, those
        that it was fitted to.
    horizon : float
        Time of the answers.
    cause : int, default=0
        Label of the cause whose hazard is multiplied and whose incidence is asked for, or 0 for all
        of them.
    threshold : float in (0, 1), optional
        Risk from which on people are treated.
    factors : array, optional
        Factors > 0 of the hazard after censoring; 1 is no dependence. Default: from 1/4 to 4.
    others : dict of int to float, optional
        Factors of the hazards of other causes. Default: 1.

    Returns
    -------
    DependentCensoring

    Notes
    -----
    People censored before the horizon count in the scores by the probability that the model gives
    to their event, with its hazards multiplied. So compare scores between factors, not with those
    of `survival_objectives.metrics.Evaluation`.

    Examples
    --------
    >>> from survival_objectives import HazardBoost
    >>> from survival_objectives.datasets import make_competing_risks
    >>> data = make_competing_risks(800, random_state=0)
    >>> model = HazardBoost(random_state=0).fit(data.X[:400], data.y[:400])
    >>> found = dependent_censoring(model, data.X[400:], data.y[400:], 1.0, factors=[1, 2])
    >>> bool(found.table["incidence"][1] > found.table["incidence"][0])
    True
    """
    factors = np.unique(check_times(factors))
    if factors[0] <= 0:
        msg = f"`factors` has {factors[0]:g}; factors of a hazard are > 0."
        raise ValueError(msg)
    if threshold is not None:
        threshold = check_fraction(threshold, "threshold", zero=False, one=False)
    people = HeldOutPeople.of(model, X, y, cv, censoring)
    return sensitivity(people, horizon, cause, threshold, factors, others)


def sensitivity(
    people: HeldOutPeople,
    horizon: float,
    cause: int,
    threshold: float | None,
    factors: FloatArray,
    others: Mapping[int, float] | None = None,
) -> DependentCensoring:
    """The answers of `dependent_censoring`, whose arguments are checked, for these people."""
    time = people.within(horizon)
    state = check_cause(cause, people.target.event_ids)
    of_causes = np.ones(people.target.n_causes)
    for label, factor in (others or {}).items():
        of_causes[check_cause(label, people.target.event_ids) - 1] = factor
    risk, rows = [], []
    predicted = people.predicted(state, time)
    for factor in factors:
        own = of_causes.copy()
        own[slice(None) if state == 0 else state - 1] = factor
        curves = dependent_incidence(people.curves, people.uncensored, own)
        risk.append(_at(curves, people.nodes, state, time))
        row = {"factor": factor, "incidence": risk[-1].mean()}
        happens = _completed(people, own, state, time)
        row["brier"] = np.mean(predicted**2 + (1 - 2 * predicted) * happens)
        if threshold is not None:
            gain = happens - threshold / (1 - threshold) * (1 - happens)
            row["above"] = (risk[-1] > threshold).mean()
            row["net_benefit"] = np.mean(gain * (predicted > threshold))
            row["net_benefit_all"] = gain.mean()
        rows.append(row)
    return DependentCensoring(factors, np.array(risk), pd.DataFrame(rows), threshold)


def dependent_incidence(
    curves: FloatArray, uncensored: FloatArray, factor: npt.ArrayLike
) -> FloatArray:
    """Curves if hazards after censoring are multiplied, of the shape of ``curves``.

    Parameters
    ----------
    curves : array of shape (n_samples, K + 1, n_times)
        Predicted probabilities of any package, the event-free one first, at increasing times from
        0 on, which are as dense as the curves bend.
    uncensored : array of shape (n_samples, n_times)
        Probability of being uncensored in the data that the model was fitted to.
    factor : float or array of shape (K,)
        Factor of the hazard of all causes, or of each.
    """
    curves, uncensored = (np.asarray(values, np.float64) for values in (curves, uncensored))
    hazard = _hazards(curves)
    leaving = -np.diff(np.log(np.maximum(uncensored, _TINY)), axis=1)
    after = hazard * np.broadcast_to(factor, hazard.shape[1])[None, :, None]
    total, total_after = hazard.sum(axis=1), after.sum(axis=1)
    share = np.divide(
        after, total_after[:, None], out=np.zeros_like(after), where=total_after[:, None] > 0
    )
    found = curves.copy()
    observed, censored = curves[:, 0, 0].copy(), np.zeros(len(curves))
    for step in range(hazard.shape[2]):
        h, c, r = total[:, step], leaving[:, step], total_after[:, step]
        rate = observed * exprel(-(h + c))
        stays = np.exp(-r) * (censored + observed * c * exprel(-(h + c - r)))
        gone = np.maximum(censored + rate * c - stays, 0.0)
        events = rate[:, None] * hazard[:, :, step] + gone[:, None] * share[:, :, step]
        found[:, 1:, step + 1] = found[:, 1:, step] + events
        observed, censored = observed * np.exp(-(h + c)), stays
        found[:, 0, step + 1] = observed + censored
    return found


def _hazards(curves: FloatArray) -> FloatArray:
    """Integrated hazards of the causes between the times of curves, (n_samples, K, n_times - 1)."""
    survival = np.maximum(np.minimum.accumulate(curves[:, 0], axis=1), 1e-12)
    total = -np.diff(np.log(survival), axis=1)
    events = np.maximum(np.diff(curves[:, 1:], axis=2), 0.0)
    any_event = events.sum(axis=1, keepdims=True)
    share = np.divide(events, any_event, out=np.zeros_like(events), where=any_event > 0)
    hazard: FloatArray = share * total[:, None]
    return hazard


def _at(curves: FloatArray, nodes: FloatArray, state: int, time: float) -> FloatArray:
    values = curves[:, state] if state else 1 - curves[:, 0]
    return np.array([np.interp(time, nodes, own) for own in values])


def _completed(people: HeldOutPeople, factor: FloatArray, state: int, time: float) -> FloatArray:
    """Probability that each person's event has happened by a time, given what was observed."""
    event, duration = people.target.event, people.duration
    happens = ((event > 0) if state == 0 else (event == state)) & (duration <= time)
    found = happens.astype(np.float64)
    for person in np.flatnonzero((event == 0) & (duration < time)):
        # All are censored from their time on: nobody is observed any more.
        end = np.array([duration[person], time])
        inside = (people.nodes > end[0]) & (people.nodes < time)
        nodes = np.concatenate([end[:1], people.nodes[inside], end[1:]])
        curves = np.array([np.interp(nodes, people.nodes, c) for c in people.curves[person]])
        after = _hazards(curves[None])[0] * factor[:, None]
        total = after.sum(axis=0)
        before = np.exp(-np.append(0.0, np.cumsum(total)[:-1]))
        events = after.sum(axis=0) if state == 0 else after[state - 1]
        found[person] = np.sum(before * exprel(-total) * events)
    return found

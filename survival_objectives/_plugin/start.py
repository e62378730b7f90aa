"""Margins at which boosting starts in the plugin."""

from __future__ import annotations

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._people import SurvivalTarget
from survival_objectives._people.population import time_feature
from survival_objectives._plugin.slot import RowTargets
from survival_objectives.censoring import log_odds
from survival_objectives.marginal import StepFunction

# Steps of a start that is kept with a model, which must not reveal when single people had events:
# evenly spaced, and geometric for times concentrated near 0.
_EVEN_STEPS, _DOUBLING_STEPS = 48, 48


def start_curve(
    kind: str,
    targets: RowTargets,
    population: StepFunction,
    target: SurvivalTarget,
    reference: bool,
) -> StepFunction:
    """Margins by time at which boosting starts.

    Parameters
    ----------
    kind : {"marginal", "constant", "zero"}
        Those of the population's curves, of the best constant, or 0.
    targets : RowTargets
        For the best constant.
    population : StepFunction
        Aalen-Johansen curves.
    target : SurvivalTarget
        The people.
    reference : bool
        Link, see `survival_objectives.losses`.
    """
    n_states = target.n_causes + 1
    first = int(reference)
    if kind == "zero":
        return StepFunction.constant(np.zeros(n_states - first))
    # Half a person: the smallest probability distinguishable from 0.
    floor = 0.5 / target.n_samples
    if kind == "marginal":
        values, initial = population.values, population.initial[None]
        times = time_feature(population.times).astype(np.float64)
    else:
        weight = targets.weight.astype(np.float64)
        frequency: FloatArray
        if targets.target.ndim == 2:
            frequency = weight @ targets.target.astype(np.float64)
        else:
            counts = np.bincount(targets.target, weights=weight, minlength=n_states)
            frequency = counts.astype(np.float64)
        values, times = np.empty((0, n_states)), np.empty(0)
        initial = frequency[None] / frequency.sum()

    def margins(proba: FloatArray) -> FloatArray:
        other = proba[:, :1] if reference else np.ones((len(proba), 1))
        return log_odds(proba[:, first:], other, floor)

    return StepFunction(times, margins(values), margins(initial)[0])


def coarse_start(start: StepFunction, last: float) -> StepFunction:
    """The start on a fixed time grid up to ``last``, which reveals no individual time."""
    if not len(start.times):
        return start
    even = np.linspace(0, last, _EVEN_STEPS + 1)
    times = np.union1d(even, np.geomspace(last * 2.0**-14, last, _DOUBLING_STEPS))
    times = time_feature(times).astype(np.float64)
    middle = np.append((times[1:] + times[:-1]) / 2, times[-1])
    return StepFunction(times, start(middle), start.initial)

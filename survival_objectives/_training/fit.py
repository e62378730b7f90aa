"""The one way into a training, from memory, disk or the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray
from survival_objectives._hazards.settings import HazardSettings
from survival_objectives._hazards.training import fit_hazards
from survival_objectives._horizons.settings import HorizonSettings
from survival_objectives._horizons.training import fit_horizons
from survival_objectives._models.fitted import FittedModel
from survival_objectives._models.run import Run
from survival_objectives._people.cohort import Batches, Cohort
from survival_objectives._people.population import Population, Reduction
from survival_objectives._process.interrupts import interrupts_held
from survival_objectives._process.threads import blas_threads

#: Settings of a training, by its subject.
Settings = HazardSettings | HorizonSettings
#: Returns a training part and a held-out part of the people.
Split = Callable[[float], tuple[Batches, Cohort]]


def trained(
    settings: Settings,
    run: Run,
    batches: Batches,
    held_out: Cohort | None = None,
    *,
    split: Split | None = None,
    population: Population | None = None,
) -> FittedModel:
    """The model of one training, with a record of its people.

    Parameters
    ----------
    settings : HazardSettings or HorizonSettings
    run : Run
    batches : Batches
        People with relative weights.
    held_out : Cohort, optional
        People on whom rounds are evaluated, and early stopping is decided.
    split : callable, optional
        Holds a share of the people of ``batches`` out for early stopping, where there are no folds
        and ``held_out`` is not given.
    population : Population, optional
        Outcomes of all people, where they are already known.
    """
    with interrupts_held(), blas_threads(settings.n_jobs):
        if population is None:
            population = _population(batches, run.reduction)
        n_events = population.n_events
        model: FittedModel
        if isinstance(settings, HazardSettings):
            model = fit_hazards(settings, run, batches, population, held_out)
        else:
            stops_early = settings.early_stopping_rounds is not None
            if held_out is None and stops_early and split is not None:
                batches, held_out = split(settings.validation_fraction)
                population = _population(batches, run.reduction)
            model = fit_horizons(settings, run, batches, population, held_out)
        same_curves = _has_same_curves(model, batches, run.reduction)
        return model.with_record(n_events=n_events, same_curves=same_curves)


def _population(batches: Batches, reduction: Reduction) -> Population:
    outcomes = batches.outcomes().people
    return reduction.population(outcomes.target, outcomes.weight)


def _has_same_curves(model: FittedModel, batches: Batches, reduction: Reduction) -> bool:
    """Whether all people get the same curve, although their features vary."""
    has_splits = bool(model.importances().any())
    if has_splits and not reduction.is_shared:
        return False
    first, varies = None, False
    for _, features in batches:
        if features.n_samples and not varies:
            first = features.values[:1] if first is None else first
            varies = bool(np.any(_known(features.values) != _known(first)))
    own = np.zeros(2 * batches.schema.n_features) if first is None else _known(first)[0]
    # All processes together: sums of equal float32 numbers are exact in float64.
    n_processes, total = reduction.sum(first is not None), reduction.sum(own)
    differs = first is not None and bool(np.any(n_processes * own != total))
    return not has_splits and bool(reduction.sum(varies or differs) > 0)


def _known(values: npt.NDArray[np.float32]) -> FloatArray:
    """Values and where they are missing, in which equal rows are equal."""
    missing = np.isnan(values)
    return np.concatenate([np.where(missing, 0.0, values), missing], axis=1)

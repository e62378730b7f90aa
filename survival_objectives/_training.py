"""The one way into a training, from memory, disk or the workers of a cluster.

A `Request` is what an estimator asks to be trained: its parameters, checked and resolved once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray
from survival_objectives._engines.protocol import (
    ENGINES,
    Engine,
    engine,
    installed_engine,
    is_installed,
)
from survival_objectives._hazards.intervals import fit_intervals, interval_outcomes
from survival_objectives._hazards.settings import HazardSettings
from survival_objectives._hazards.training import fit_hazards
from survival_objectives._horizons.settings import HorizonSettings
from survival_objectives._horizons.training import fit_horizons
from survival_objectives._models.fitted import FittedModel, Run, snapshot
from survival_objectives._people import (
    SurvivalTarget,
    check_choice,
    check_random_state,
    warn,
    warn_about_outcomes,
)
from survival_objectives._people.cohort import Batches, Cohort, MemoryBatches, checked_eval_set
from survival_objectives._people.labels import EventLabels, named_outcomes, names_of
from survival_objectives._people.outcomes import interval_fields
from survival_objectives._people.population import LocalReduction, Population, Reduction
from survival_objectives._process.running import (
    deliver_interrupt,
    interrupts_held,
    one_blas_thread,
)


@dataclass(frozen=True)
class Request:
    """One training of an estimator.

    Attributes
    ----------
    settings : HazardSettings or HorizonSettings
    engine : Engine
    parameters : dict
        As passed to the constructor; they are kept with the model for its copy after loading.
    previous : FittedModel, optional
        The model that a warm start continues.
    """

    settings: Settings
    engine: Engine
    parameters: dict[str, Any]
    previous: FittedModel | None

    @classmethod
    def of(
        cls,
        parameters: Mapping[str, Any],
        fitted: FittedModel | None,
        settings: Callable[[Mapping[str, Any], Engine], Settings],
    ) -> Request:
        """The request of an estimator, or an error that names a parameter and the way out."""
        wanted = check_choice(parameters["engine"], "engine", tuple(ENGINES))
        previous = fitted if parameters["warm_start"] else None
        if previous is None:
            used = engine(installed_engine(wanted))
        else:
            used = engine(_same_engine(previous, wanted))
        found = settings(parameters, used)
        if previous is not None and found.n_rounds and found.n_rounds <= previous.n_rounds:
            msg = (
                f"`n_estimators` is {found.n_rounds}, but the model to continue has "
                f"{previous.n_rounds} rounds already. Raise it, or set `warm_start=False`."
            )
            raise ValueError(msg)
        return cls(found, used, snapshot(parameters), previous)

    def run(self, generator: np.random.Generator | None = None, **others: Any) -> Run:
        """What the training runs with."""
        if generator is None:
            generator = check_random_state(self.parameters["random_state"])
        return Run(self.engine, generator, previous=self.previous, **others)

    def check_people(self, target: SurvivalTarget) -> None:
        """Warn if outcomes of a first training look miscoded."""
        if self.previous is None:
            warn_about_outcomes(target)

    def check_eval_set(self, eval_set: Any) -> None:
        """Raise an error if a parameter has no effect beside held-out people."""
        name, default = self.settings.holds_out
        if eval_set is not None and self.parameters[name] != default:
            msg = (
                f"`{name}` is {self.parameters[name]!r}, but has no effect beside `eval_set`, "
                "whose people are held out instead. Leave out one of them."
            )
            raise ValueError(msg)

    def check_no_own_model(self, where: str) -> None:
        """Raise an error if a parameter is a model of the user's own, which needs all people.

        ``where`` is where they would have to be, such as "in memory".
        """
        name = self.settings.own_model
        if name is not None:
            msg = (
                f"`{name}` is a {type(self.parameters[name]).__name__}; a model of your own needs "
                f"all people {where}. Leave it out here."
            )
            raise ValueError(msg)

    def finished(self, model: FittedModel, labels: EventLabels | None) -> FittedModel:
        """The trained model with the names of its states and the parameters of the estimator.

        Warns if its probabilities are biased, or the same for all people.
        """
        names = names_of(labels, model.frame.event_ids)
        if labels is None and self.previous is not None:
            names = self.previous.frame.event_names
        model = model.with_frame(event_names=names, parameters=self.parameters)
        warn_about_model(model)
        return model


def _same_engine(previous: FittedModel, wanted: str) -> str:
    used = previous.frame.engine
    if used != wanted and is_installed(wanted):
        msg = (
            f"The model to continue was trained by {used}, not {wanted}. "
            f'Use `engine="{used}"`, or set `warm_start=False`.'
        )
        raise ValueError(msg)
    return used


logger = logging.getLogger("survival_objectives")

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
    with interrupts_held(), one_blas_thread():
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


@interrupts_held()
def fit_in_memory(
    request: Request,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    groups: Any = None,
    eval_set: Any = None,
    censored: Any = None,
) -> FittedModel:
    """The model of one training; arguments are those of `survival_objectives.HazardBoost.fit`."""
    request.check_eval_set(eval_set)
    known, names = dict[str, Any](), None
    if request.previous is not None:
        frame = request.previous.frame
        known = {"like": frame.schema, "event_ids": frame.event_ids}
        names = frame.event_names
    keep_as_passed = request.settings.own_model is not None
    late_entry = request.settings.late_entry
    fields, lower = interval_fields(y) if late_entry else None, None
    if fields is not None:
        y, lower = interval_outcomes(fields)
    y, labels = named_outcomes(y, names=names, censored=censored)
    people = Cohort.checked(
        X,
        y,
        sample_weight,
        **known,
        keep_as_passed=keep_as_passed,
        groups=groups,
        late_entry=late_entry,
    )
    request.check_people(people.target)
    deliver_interrupt()
    people = people.with_relative_weights(LocalReduction())
    if lower is not None and sample_weight is not None:
        lower = lower[np.asarray(sample_weight, dtype=np.float64) > 0]
    held_out = None
    if eval_set is not None:
        held_out = checked_eval_set(
            eval_set, people, labels=labels, keep_as_passed=keep_as_passed, late_entry=late_entry
        )
    run, batches = request.run(), MemoryBatches([people])
    split = partial(batches.split, generator=run.generator)
    if lower is None:
        model = trained(request.settings, run, batches, held_out, split=split)
    else:
        model = _fitted_to_intervals(request, run, people, lower, held_out)
    return request.finished(model, labels)


def _fitted_to_intervals(
    request: Request, run: Run, people: Cohort, lower: FloatArray, held_out: Cohort | None
) -> FittedModel:
    """The model of events known to lie between ``lower`` and the duration."""
    settings = request.settings
    assert isinstance(settings, HazardSettings)
    if request.previous is not None:
        msg = "Fits to `lower` and `upper` cannot be continued: set `warm_start=False`."
        raise ValueError(msg)

    def fit(drawn: Cohort, *, is_last: bool) -> FittedModel:
        own = settings if is_last else replace(settings, n_repeats=1)
        return trained(own, run, MemoryBatches([drawn]), held_out)

    return fit_intervals(fit, people, lower, run.generator)


_FLOORED_SHARE = 0.1


def warn_about_model(model: FittedModel) -> None:
    """Warn if probabilities of a trained model are biased, or the same for all people."""
    _warn_if_floored(model)
    if model.record.same_curves:
        msg = (
            "No split on a feature was worth its gain, so all people get the same curve. If the "
            "features should matter, lower `min_leaf_people` or `min_split_gain`, or raise "
            "`n_estimators`."
        )
        warn(msg)


def _warn_if_floored(model: FittedModel) -> None:
    """Warn if the floor of G limits the weight of over a tenth of the rows, else log it."""
    n_floored, n_rows = model.record.n_floored, model.record.n_weighted_rows
    if n_floored == 0:
        return
    floor = model.record.floor
    said = f"min_censoring_survival={floor:g} limits the weight of {n_floored} of {n_rows} rows"
    if n_floored <= _FLOORED_SHARE * n_rows:
        logger.info("%s.", said)
        return
    msg = (
        f"{said} ({n_floored / n_rows:.0%}): too few people are still followed at late horizons, "
        'and probabilities there are biased. Set `censoring="imputed"`, or lower `horizon_max`.'
    )
    warn(msg)

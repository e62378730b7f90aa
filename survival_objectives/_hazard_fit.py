"""A mixture of hazards from people in memory: knots, training, and importances of features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._boosters import hazard_settings
from survival_objectives._fit.checkpoint import RoundRecord
from survival_objectives._fit.cohort import Cohort
from survival_objectives._fit.engine import Engine
from survival_objectives._fit.plan import TimePlan, coarse_censoring_curve
from survival_objectives._fit.population import Population
from survival_objectives._fit.progress import Progress
from survival_objectives._hazard_people import HazardPeople, InMemory
from survival_objectives._hazard_training import HazardSettings, HazardTraining
from survival_objectives._model.curves import KnotCurves, marginal_hazard, time_knots
from survival_objectives._model.fitted import ModelFrame, TrainingRecord
from survival_objectives._model.mixture import HazardMixture
from survival_objectives._model.rounding import check_same_time_unit
from survival_objectives._parameters import HAZARDS, by_method
from survival_objectives.validation import SurvivalTarget

__all__ = ["fitted_mixture"]

FloatArray = npt.NDArray[np.float64]

# Intervals of time with about equally many events.
_N_INTERVALS = 31
# People of the training on whom importances of features are taken.
_IMPORTANCE_PEOPLE = 256


def fitted_mixture(
    engine: Engine,
    parameters: Mapping[str, Any],
    people: Cohort,
    judges: Cohort | None,
    generator: np.random.Generator,
    reason: str,
    previous: HazardMixture | None = None,
) -> HazardMixture:
    """The mixture of hazards that is trained on people.

    Parameters
    ----------
    engine : Engine
    parameters : mapping
        Constructor parameters of the estimator.
    people, judges : Cohort
        Who are fitted to and, optionally, who choose rounds and weights in place of folds.
    generator : numpy Generator
    reason : str
        Why hazards are trained, in a sentence.
    previous : HazardMixture, optional
        The model to go on with.
    """
    given = by_method(parameters, HAZARDS, engine.name)
    frame = _frame(engine, parameters, people, previous)
    target = _ended(people.target, frame)
    if judges is None:
        _check_folds(target, given["n_folds"])
    curves = _curves(frame, target, people.weight) if previous is None else previous.curves
    settings = hazard_settings(
        engine.name, parameters, frame.schema, frame.n_causes, int(generator.integers(2**30))
    )
    # Two kinds of trees are boosted, each until the held-out people gain nothing more.
    n_rounds = (1 + bool(given["linear"])) * given["n_estimators"]
    with Progress(n_rounds, "held-out loss") as progress:
        training = HazardTraining(
            _on_axis(frame, people, curves.knots),
            HazardSettings(
                given["n_estimators"],
                given["n_folds"],
                given["rows_per_person"],
                bool(given["linear"]),
                given["early_stopping_rounds"],
            ),
            generator,
            partial(engine.new_booster, settings),
            judges=None if judges is None else _on_axis(frame, judges, curves.knots),
            previous=None if previous is None else previous.mixture,
            progress=progress.advance if given["verbose"] else None,
        )
        mixture = training.mixture()
    kind = mixture.heaviest_kind()
    history = [RoundRecord(look.round, look.loss) for look in training.history if look.kind == kind]
    weights = ", ".join(f"{kind} {one.weight:.2f}" for kind, one in mixture.members.items())
    record = TrainingRecord(
        HAZARDS, f"{reason} Held-out people gave these weights: {weights}.", history=history
    )
    model = HazardMixture(frame, record, curves, mixture, np.zeros(frame.schema.n_features))
    values = people.features.values
    some = np.unique(np.linspace(0, len(values) - 1, _IMPORTANCE_PEOPLE).astype(np.int64))
    return model.with_importances(values[some])


def _frame(
    engine: Engine, parameters: Mapping[str, Any], people: Cohort, previous: HazardMixture | None
) -> ModelFrame:
    population = Population(people.target, people.weight)
    if previous is not None:
        check_same_time_unit(population, previous.frame.median_duration)
        return replace(previous.frame, parameters=dict(parameters))
    plan = TimePlan.of(population, parameters["horizon_max"])
    return ModelFrame(
        engine=engine.name,
        schema=people.features.schema,
        event_ids=people.target.event_ids,
        axis=plan.axis,
        t_max=plan.t_max,
        last_time=float(plan.times[-1]),
        median_duration=plan.median_duration,
        censoring_curve=coarse_censoring_curve(people.target, people.weight, plan.t_max),
        parameters=dict(parameters),
    )


def _ended(target: SurvivalTarget, frame: ModelFrame) -> SurvivalTarget:
    """Outcomes up to the end of the curves: later events are not seen."""
    late = frame.axis.number(target.duration) > frame.axis.number(frame.t_max)
    if not late.any():
        return target
    return replace(
        target,
        event=np.where(late, 0, target.event).astype(target.event.dtype),
        duration=np.where(late, frame.t_max, target.duration),
    )


def _check_folds(target: SurvivalTarget, n_folds: int) -> None:
    most = int(np.bincount(target.event, minlength=target.n_causes + 1)[1:].max())
    if most < n_folds:
        msg = (
            f"No cause happens to more than {most} people (n_samples = {target.n_samples}), too "
            f"few for `n_folds={n_folds}`: each fold needs one. Give more people, or lower "
            '`n_folds` (2 at least), or use `censoring="boosted"`, which has no folds.'
        )
        raise ValueError(msg)


def _curves(frame: ModelFrame, target: SurvivalTarget, weight: FloatArray | None) -> KnotCurves:
    """Knots, with the hazards of the population between them."""
    axis, t_max = frame.axis, frame.t_max
    aligned = Population(axis.aligned(target), weight)
    knots = time_knots(axis, aligned.event_times(t_max), t_max, _N_INTERVALS)
    if knots[0] > 0:
        # Others may have events before the first of training.
        knots = np.concatenate([[0.0], knots])
    marginal = marginal_hazard(axis, knots, aligned.target, weight)
    return KnotCurves.uncalibrated(axis, knots, marginal, t_max)


def _on_axis(frame: ModelFrame, people: Cohort, knots: FloatArray) -> HazardPeople:
    """People with their outcomes at their places between knots."""
    target = frame.axis.aligned(_ended(people.target, frame))
    return HazardPeople(
        InMemory(people.features),
        target.event,
        np.minimum(frame.axis.number(target.duration), knots[-1]),
        people.weight,
        knots,
        target.n_causes,
    )

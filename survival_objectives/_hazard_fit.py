"""A mixture of hazards from people in memory: knots, training, and importances of features."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from survival_objectives._boosters import adapter, tree_settings
from survival_objectives._hazard_training import HazardPeople, HazardSettings, HazardTraining
from survival_objectives._model.checks import warn_if_constant
from survival_objectives._model.curves import KnotCurves, marginal_hazard, time_knots
from survival_objectives._model.fitted import ModelFrame, TrainingRecord
from survival_objectives._model.mixture import HazardMixture
from survival_objectives._parameters import HAZARDS, by_method
from survival_objectives.population import Population
from survival_objectives.time_axis import TimeAxis
from survival_objectives.validation import Features, SurvivalTarget

__all__ = ["fitted_mixture"]

FloatArray = npt.NDArray[np.float64]

# Intervals of time with about equally many events.
_N_INTERVALS = 31
# People of the training on whom importances of features are taken.
_IMPORTANCE_PEOPLE = 256
# Calls from `fit` to where a constant model is warned of.
_CALLER = 4


class _People(Protocol):
    """Checked people with their outcomes and weights."""

    features: Features
    target: SurvivalTarget
    weight: FloatArray | None


def fitted_mixture(
    frame: ModelFrame,
    people: _People,
    held_out: _People | None,
    generator: np.random.Generator,
    reason: str,
) -> HazardMixture:
    """The mixture of hazards that is trained on people.

    Parameters
    ----------
    frame : ModelFrame
    people : people
    held_out : people, optional
        Who judge the rounds instead of the folds.
    generator : numpy Generator
    reason : str
        Why hazards are trained, in a sentence.
    """
    given = by_method(frame.parameters, HAZARDS, frame.engine)
    axis, target = frame.axis, _ended(people.target, frame)
    _check_folds(target, given["n_folds"])
    aligned = Population(axis.aligned(target), people.weight)
    knots = _knots(axis, aligned, frame.t_max)
    marginal = marginal_hazard(axis, knots, aligned.target, people.weight)
    curves = KnotCurves.uncalibrated(axis, knots, marginal, frame.t_max)
    training = HazardTraining(
        HazardPeople(
            people.features,
            aligned.target.event,
            _places(axis, aligned.target, knots),
            people.weight,
            knots,
            target.n_causes,
        ),
        HazardSettings(
            given["n_estimators"], given["n_folds"], given["rows_per_person"], bool(given["linear"])
        ),
        generator,
        _booster_maker(frame, given, int(generator.integers(2**30))),
    )
    mixture = training.mixture()
    model = HazardMixture(
        frame,
        TrainingRecord(HAZARDS, reason),
        curves,
        mixture,
        np.zeros(frame.schema.n_features),
    )
    values = people.features.values
    some = np.unique(np.linspace(0, len(values) - 1, _IMPORTANCE_PEOPLE).astype(np.int64))
    model = model.with_importances(values[some])
    warn_if_constant(model.importance, values, _CALLER)
    weights = ", ".join(f"{kind} {weight:.2f}" for kind, weight in model.member_weights.items())
    return model.with_record(reason=f"{reason} Held-out people gave the weights {weights}.")


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
    counts = np.bincount(target.event, minlength=target.n_causes + 1)
    if counts[1:].max() < n_folds:
        msg = (
            f"No cause happens to more than {counts[1:].max()} people (n_samples = "
            f"{target.n_samples}), too few for `n_folds={n_folds}`: each fold needs one. Give more "
            "people, or lower `n_folds` (2 at least)."
        )
        raise ValueError(msg)


def _knots(axis: TimeAxis, aligned: Population, t_max: float) -> FloatArray:
    knots = time_knots(axis, aligned.event_times(t_max), t_max, _N_INTERVALS)
    # Others may have events before the first of training.
    return np.concatenate([[0.0], knots]) if knots[0] > 0 else knots


def _places(axis: TimeAxis, target: SurvivalTarget, knots: FloatArray) -> FloatArray:
    """Times of the outcomes on the axis of the knots."""
    return np.minimum(axis.number(target.duration), knots[-1])


def _booster_maker(frame: ModelFrame, given: dict[str, Any], seed: int) -> Any:
    settings = tree_settings(frame.engine, frame.schema, frame.n_causes, HAZARDS, given, seed)
    return partial(adapter(frame.engine).Booster, settings)

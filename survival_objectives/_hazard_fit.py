"""A mixture of hazards from people in memory: knots, training, and importances of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from survival_objectives._boosters import adapter, tree_settings
from survival_objectives._hazard_people import HazardPeople, InMemory
from survival_objectives._hazard_training import HazardSettings, HazardTraining
from survival_objectives._model.checks import warn_if_constant
from survival_objectives._model.curves import KnotCurves, marginal_hazard, time_knots
from survival_objectives._model.fitted import ModelFrame, TrainingRecord
from survival_objectives._model.mixture import HazardMixture
from survival_objectives._parameters import HAZARDS, by_method
from survival_objectives.boosting import RoundRecord
from survival_objectives.population import Population
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

    @property
    def features(self) -> Features: ...
    @property
    def target(self) -> SurvivalTarget: ...
    @property
    def weight(self) -> FloatArray | None: ...


def fitted_mixture(
    frame: ModelFrame,
    people: _People,
    judges: _People | None,
    generator: np.random.Generator,
    reason: str,
    *,
    previous: HazardMixture | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> HazardMixture:
    """The mixture of hazards that is trained on people.

    Parameters
    ----------
    frame : ModelFrame
    people, judges : people
        Who are fitted to and, optionally, who choose rounds and weights in place of folds.
    generator : numpy Generator
    reason : str
        Why hazards are trained, in a sentence.
    previous : HazardMixture, optional
        The model to go on with.
    progress : callable, optional
        Gets the rounds since the last call and the loss of the held-out people.
    """
    given = by_method(frame.parameters, HAZARDS, frame.engine)
    target = _ended(people.target, frame)
    if judges is None:
        _check_folds(target, given["n_folds"])
    curves = _curves(frame, target, people.weight) if previous is None else previous.curves
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
        _booster_maker(frame, given, int(generator.integers(2**30))),
        judges=None if judges is None else _on_axis(frame, judges, curves.knots),
        previous=None if previous is None else previous.mixture,
        progress=progress,
    )
    mixture = training.mixture()
    kind = mixture.heaviest_kind()
    history = [RoundRecord(look.round, look.loss) for look in training.history if look.kind == kind]
    model = HazardMixture(
        frame,
        TrainingRecord(HAZARDS, reason, history=history),
        curves,
        mixture,
        np.zeros(frame.schema.n_features),
    )
    values = people.features.values
    some = np.unique(np.linspace(0, len(values) - 1, _IMPORTANCE_PEOPLE).astype(np.int64))
    model = model.with_importances(values[some])
    warn_if_constant(model.importance, values, _CALLER)
    weights = ", ".join(f"{kind} {weight:.2f}" for kind, weight in model.member_weights.items())
    return model.with_record(reason=f"{reason} Held-out people gave these weights: {weights}.")


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


def _on_axis(frame: ModelFrame, people: _People, knots: FloatArray) -> HazardPeople:
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


def _booster_maker(frame: ModelFrame, given: dict[str, Any], seed: int) -> Any:
    settings = tree_settings(frame.engine, frame.schema, frame.n_causes, HAZARDS, given, seed)
    return partial(adapter(frame.engine).Booster, settings)

"""Training on people in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

from survival_objectives._models.fitted import FittedModel
from survival_objectives._people.cohort import Cohort, MemoryBatches, checked_eval_set
from survival_objectives._people.labels import named_outcomes
from survival_objectives._people.population import LocalReduction
from survival_objectives._training.fit import trained
from survival_objectives._training.request import Request


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
    keep_given = request.settings.own_model is not None
    late_entry = request.settings.late_entry
    y, labels = named_outcomes(y, names=names, censored=censored)
    people = Cohort.checked(
        X,
        y,
        sample_weight,
        **known,
        keep_given=keep_given,
        groups=groups,
        late_entry=late_entry,
    )
    request.check_people(people.target)
    people = people.with_relative_weights(LocalReduction())
    held_out = None
    if eval_set is not None:
        held_out = checked_eval_set(
            eval_set, people, labels=labels, keep_given=keep_given, late_entry=late_entry
        )
    run, batches = request.run(), MemoryBatches([people])
    split = partial(batches.split, generator=run.generator)
    model = trained(request.settings, run, batches, held_out, split=split)
    return request.finished(model, labels)

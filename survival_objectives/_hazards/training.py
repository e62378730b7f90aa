"""Training of a mixture of hazards: from batches of people to a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import Engine
from survival_objectives._hazards.members import HazardTraining
from survival_objectives._hazards.mixture import Mixture
from survival_objectives._hazards.model import HazardMixture
from survival_objectives._hazards.people import HazardPeople, InMemory, fold_plan, most_rounds
from survival_objectives._hazards.settings import DEFAULTS, HazardSettings, HazardState
from survival_objectives._models.curves import KnotCurves
from survival_objectives._models.fitted import (
    TOLERANCE,
    RoundRecord,
    Run,
    TrainingRecord,
    few_people,
    way_out,
)
from survival_objectives._models.frame import (
    LateEntry,
    ModelFrame,
    marginal_hazard,
    planned_frame,
    time_knots,
)
from survival_objectives._people import (
    SurvivalTarget,
    check_features,
    check_times,
    copies,
    row_keys,
)
from survival_objectives._people.cohort import Batches, Cohort, MemoryBatches, Outcomes
from survival_objectives._people.population import LocalReduction, Population
from survival_objectives._process.checkpoints import Checkpoints
from survival_objectives._process.running import Progress, one_blas_thread, progress_to

#: Share of the follow-up by which the hazards of the last interval are extended: other people may
#: be followed, and have events, a little later than the training data.
BEYOND_FOLLOW_UP = 0.1
#: Time intervals with about equally many events.
N_INTERVALS = 31
# Training people on whom feature importances are computed.
_IMPORTANCE_PEOPLE = 256


def fit_hazards(
    settings: HazardSettings,
    run: Run,
    batches: Batches,
    population: Population,
    held_out: Cohort | None = None,
) -> HazardMixture:
    """Train a mixture of hazards.

    Parameters
    ----------
    settings : HazardSettings
    run : Run
    batches : Batches
        People with relative weights.
    population : Population
        Outcomes of all people, in the user's time.
    held_out : Cohort, optional
        Held-out people on whom rounds and weights are chosen, in place of folds.
    """
    previous, checkpoints = run.previous, run.checkpoints
    assert previous is None or isinstance(previous, HazardMixture)
    frame = planned_frame(
        population,
        run.engine.name,
        batches.schema,
        horizon_max=settings.horizon_max,
        n_jobs=settings.n_jobs,
        previous=run.previous_frame,
        beyond=BEYOND_FOLLOW_UP,
    )
    truncated = replace(population, target=censored_at_end(population.target, frame))
    n_folds, n_repeats = _folds(truncated, batches.outcomes().group, settings)
    if held_out is None:
        _check_folds(truncated, n_folds)
        _check_groups(batches.outcomes().group, n_folds)
    if previous is not None:
        _check_same_people(previous, population)
    curves = knot_curves(frame, truncated) if previous is None else previous.curves
    trees = settings.trees(
        schema=frame.schema,
        n_causes=frame.n_causes,
        seed=int(run.generator.integers(2**30)),
        n_jobs=settings.n_jobs,
    )
    settings = replace(
        settings,
        n_folds=n_folds,
        n_repeats=n_repeats,
        n_rounds=settings.n_rounds or most_rounds(population.n_samples),
        directions=trees.constraints()[0],
    )
    # Two kinds of trees are boosted, each until the held-out likelihood stops rising.
    n_rounds = (1 + settings.linear) * (settings.n_rounds or 0)
    with Progress(n_rounds, "held-out loss", shown=settings.verbose) as progress:
        training = HazardTraining(
            people_on_axis(frame, batches, batches.outcomes(), curves.knots),
            settings,
            run.generator,
            partial(run.engine.trainer, trees),
            reduction=run.reduction,
            held_out=None
            if held_out is None
            else people_on_axis(frame, MemoryBatches([held_out]), held_out.outcomes, curves.knots),
            previous=None if previous is None else previous.mixture,
            state=checkpoints.state,
            on_checkpoint=_checkpoint_writer(checkpoints),
            checkpoint_every=checkpoints.every or 1,
            progress=progress.hook,
        )
        mixture = training.mixture()
    kind, _ = mixture.heaviest_trees() or (None, None)
    history = [RoundRecord(one.round, one.loss) for one in training.history if one.kind == kind]
    record = TrainingRecord("hazards", history=history, n_folds=training.problem.n_folds)
    model = HazardMixture(frame, record, curves, mixture, np.zeros(frame.schema.n_features))
    values = _some_values(training.problem.people)
    if not run.reduction.is_shared:
        check_hazard_paths(mixture, values, trees.engine_params)
    n_people = max(_IMPORTANCE_PEOPLE // 4, 3 * _IMPORTANCE_PEOPLE // mixture.n_models)
    return model.with_importances(_spread(values, n_people))


@dataclass(frozen=True)
class HazardCurves:
    """Curves of a mixture of hazards for people as they are passed."""

    model: HazardMixture

    @property
    def event_ids_(self) -> IntArray:
        """Labels of the states."""
        return self.model.frame.event_ids

    def predict_cumulative_incidence(self, X: Any, times: Any) -> FloatArray:
        """Event-free probability and incidences, (n_samples, K + 1, n_times)."""
        features = check_features(X, like=self.model.schema)
        return self.model.incidence(features, check_times(times))


def default_hazards(
    used: Engine, X: Any, y: Any, sample_weight: Any, generator: np.random.Generator
) -> HazardCurves:
    """Curves of hazards that are trained on people in memory with default settings."""
    settings = HazardSettings.of({**DEFAULTS, "engine": used.name}, used)
    people = Cohort.checked(X, y, sample_weight).with_relative_weights(LocalReduction())
    outcomes = people.outcomes.people
    with one_blas_thread(), progress_to(others=False):
        model = fit_hazards(
            settings,
            Run(used, generator),
            MemoryBatches([people]),
            LocalReduction().population(outcomes.target, outcomes.weight),
        )
    return HazardCurves(model)


def _checkpoint_writer(checkpoints: Checkpoints) -> Callable[[HazardState], None] | None:
    """Callback for checkpoints; on a cluster all processes compute states, and one writes."""
    if checkpoints.every is None:
        return None

    def nothing(_: HazardState) -> None:
        pass

    return checkpoints.write or nothing


def _some_values(people: HazardPeople) -> Float32Array:
    """Features of a few people, spread over the first batch; there may be none."""
    _, features = next(iter(people.batches))
    return _spread(features.values, _IMPORTANCE_PEOPLE)


def _spread(values: Float32Array, n_people: int) -> Float32Array:
    """At most so many rows, from all parts."""
    last = len(values) - 1
    return (
        values[np.unique(np.linspace(0, last, n_people).astype(np.int64))] if last >= 0 else values
    )


def censored_at_end(target: SurvivalTarget, frame: ModelFrame) -> SurvivalTarget:
    """Outcomes censored at the end of the curves."""
    late = frame.axis.number(target.duration) > frame.axis.number(frame.t_max)
    if not late.any():
        return target
    return replace(
        target,
        event=np.where(late, 0, target.event).astype(target.event.dtype),
        duration=np.where(late, frame.t_max, target.duration),
    )


def _folds(
    population: Population, group: IntArray | None, settings: HazardSettings
) -> tuple[int, int]:
    """Numbers of folds and of repeats."""
    n_groups = np.inf if group is None else len(np.unique(group))
    most = min(population.n_events[1:].max(), n_groups)
    return fold_plan(population.n_samples, settings.n_folds, settings.n_repeats, most)


def _check_folds(population: Population, n_folds: int) -> None:
    most = int(population.n_events[1:].max())
    if most < n_folds:
        msg = (
            f"No cause occurs in more than {most} people (n_samples = {population.n_samples}), "
            f"too few for `n_folds={n_folds}`: each fold needs one. Give more people, or lower "
            "`n_folds` (2 at least), or use `SurvivalBoost`, which has no folds."
        )
        raise ValueError(msg)


def _check_groups(group: IntArray | None, n_folds: int) -> None:
    n_groups = n_folds if group is None else len(np.unique(group))
    if n_groups < n_folds:
        msg = (
            f"`groups` has {n_groups} different values, too few for `n_folds={n_folds}`: rows of "
            "one group are in one fold. Give more groups, or pass `eval_set`."
        )
        raise ValueError(msg)


def _check_same_people(previous: HazardMixture, population: Population) -> None:
    """Raise an error if outcomes show that a warm start has other people than the first fit."""
    known, counts = previous.record.n_events, population.n_events
    if known is not None and not np.array_equal(known, counts):
        msg = (
            f"The model to continue was fitted to {int(known.sum())} people, {known[0]} of them "
            f"censored; got {int(counts.sum())} and {int(counts[0])}. A warm start of hazards "
            "needs the same people in the same order. Otherwise set `warm_start=False`."
        )
        raise ValueError(msg)


def knot_curves(
    frame: ModelFrame, population: Population, n_intervals: int = N_INTERVALS
) -> KnotCurves:
    """Knots, with the marginal hazards between them."""
    axis, t_max = frame.axis, frame.t_max
    aligned = population.aligned(axis)
    times = aligned.event_times(t_max)
    late = LateEntry.of(axis, aligned.target, times)
    knots = time_knots(axis, times, t_max, n_intervals, late)
    if knots[0] > 0 and late is None:
        # Other people may have events before the first training event.
        knots = np.concatenate([[0.0], knots])
    marginal = marginal_hazard(axis, knots, aligned.target, aligned.weight)
    return KnotCurves(axis, knots, *marginal.uncalibrated(axis, knots, t_max))


def people_on_axis(
    frame: ModelFrame, batches: Batches, outcomes: Outcomes, knots: FloatArray
) -> HazardPeople:
    """People with their outcomes on the axis of the knots."""
    target = frame.axis.aligned(censored_at_end(outcomes.target, frame))
    position = np.minimum(frame.axis.number(target.duration), knots[-1])
    is_one_batch = isinstance(batches, MemoryBatches) and len(batches.cohorts) == 1
    return HazardPeople(
        InMemory(batches.in_memory) if is_one_batch else batches,
        target.event,
        position,
        outcomes.weight,
        knots,
        target.n_causes,
        _groups(batches, outcomes),
        frame.axis.entry_number(target),
        target.person,
    )


def _groups(batches: Batches, outcomes: Outcomes) -> IntArray | None:
    """Rows that share a fold: groups as passed, or else copies among the rows of this process."""
    if outcomes.group is not None or not outcomes.n_samples:
        return outcomes.group
    target = outcomes.target
    entry = np.empty((outcomes.n_samples, 0)) if target.entry is None else target.entry[:, None]
    key = np.concatenate(
        [row_keys(np.column_stack([features.values, entry[rows]])) for rows, features in batches]
    )
    return copies(key, target.event, target.duration)


# More rows than there are: the engine evaluates all.
_EVERY_ROW = 2**62


def check_hazard_paths(
    mixture: Mixture, values: Float32Array, engine_params: Mapping[str, Any]
) -> None:
    """Raise a RuntimeError if the engine and the trees read off its models differ by over 1e-5.

    Parameters
    ----------
    mixture : Mixture
    values : array of shape (n_samples, n_features)
        Features of people; a few of them are used.
    engine_params : mapping
        The user's settings, named in the error.
    """
    people = few_people(values)
    for _, model in mixture.members.values():
        trees = model.trees
        if trees is None or not trees.forest.is_readable:
            continue
        n_intervals = mixture.n_intervals
        by_engine = trees.margin(people, n_intervals, engine_rows=_EVERY_ROW)
        by_forest = trees.margin(people, n_intervals, engine_rows=0)
        difference = float(np.abs(by_engine - by_forest).max())
        if not difference <= TOLERANCE * max(1.0, float(np.abs(by_engine).max())):
            msg = (
                f"The trained model and the trees that are read off it differ by up to "
                f"{difference:.2g} in their margins, so that predictions cannot be relied on. "
                f"{way_out(engine_params)}"
            )
            raise RuntimeError(msg)

"""Training of a mixture of hazards: from batches of people to a fitted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.protocol import Engine
from survival_objectives._hazards.ensemble import HazardSettings, HazardTraining
from survival_objectives._hazards.model import HazardMixture
from survival_objectives._hazards.people import FoldPlan, HazardPeople, InMemory, most_rounds
from survival_objectives._hazards.state import HazardState
from survival_objectives._models.boosters import tree_settings
from survival_objectives._models.checks import check_hazard_paths
from survival_objectives._models.curves import KnotCurves
from survival_objectives._models.fitted import ModelFrame, TrainingRecord
from survival_objectives._models.knots import marginal_hazard, time_knots
from survival_objectives._people import SurvivalTarget, copies, row_keys
from survival_objectives._people.cohort import Batches, Cohort, MemoryBatches, Outcomes
from survival_objectives._people.population import LocalReduction, Population, Reduction
from survival_objectives._process.checkpoints import Checkpoints, RoundRecord
from survival_objectives._process.progress import Progress, progress_hook
from survival_objectives._training.parameters import HAZARDS, by_method

#: Share of the follow-up by which the hazards of the last interval are extended: other people may
#: be followed, and have events, a little later than the training data.
BEYOND_FOLLOW_UP = 0.1
# Time intervals with about equally many events.
_N_INTERVALS = 31
# Training people on whom feature importances are computed.
_IMPORTANCE_PEOPLE = 256


@dataclass(frozen=True)
class HazardsTraining:
    """One training of a mixture of hazards.

    Parameters
    ----------
    frame : ModelFrame
        Columns, labels, time axis and the parameters of the estimator.
    reason : str
        Why hazards are trained, as a sentence.
    engine, generator, reduction, previous, checkpoints
        As in `survival_objectives._training.fit.Training`.
    """

    frame: ModelFrame
    reason: str
    engine: Engine
    generator: np.random.Generator
    reduction: Reduction = field(default_factory=LocalReduction)
    previous: HazardMixture | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    def fit(
        self, batches: Batches, population: Population, judges: Cohort | None = None
    ) -> HazardMixture:
        """Train.

        Parameters
        ----------
        batches : Batches
            People with relative weights.
        population : Population
            Outcomes of all people, in the user's time.
        judges : Cohort, optional
            Held-out people on whom rounds and weights are chosen, in place of folds.
        """
        frame, previous = self.frame, self.previous
        given = by_method(frame.parameters, HAZARDS, frame.engine)
        truncated = replace(population, target=_truncated(population.target, frame))
        folds = _fold_plan(truncated, batches.outcomes().group, given["n_folds"], given["n_repeats"])
        if judges is None:
            _check_folds(truncated, folds.n_folds)
            _check_groups(batches.outcomes().group, folds.n_folds)
        if previous is not None:
            _check_same_people(previous, population)
        curves = _curves(frame, truncated) if previous is None else previous.curves
        seed = int(self.generator.integers(2**30))
        trees = tree_settings(
            self.engine, frame.schema, frame.n_causes, HAZARDS, frame.parameters, seed
        )
        # Two kinds of trees are boosted, each until the held-out likelihood stops rising.
        most = frame.parameters["n_estimators"] or most_rounds(population.n_samples)
        n_rounds = (1 + bool(given["linear"])) * most
        with Progress(n_rounds, "held-out loss") as progress:
            training = HazardTraining(
                _on_axis(frame, batches, batches.outcomes(), curves.knots),
                HazardSettings(
                    most,
                    folds,
                    given["rows_per_person"],
                    bool(given["linear"]),
                    given["early_stopping_rounds"],
                    self.engine.rounds_per_call,
                    self.engine.most_rows,
                ),
                self.generator,
                partial(self.engine.trainer, trees),
                reduction=self.reduction,
                judges=None
                if judges is None
                else _on_axis(frame, MemoryBatches([judges]), judges.outcomes, curves.knots),
                previous=None if previous is None else previous.mixture,
                state=self.checkpoints.state_of(HazardState),
                on_checkpoint=self._checkpoint_writer(),
                checkpoint_every=self.checkpoints.every or 1,
                progress=progress.advance if given["verbose"] else progress_hook(n_rounds),
            )
            mixture = training.mixture()
        kind, _ = mixture.heaviest_trees() or (None, None)
        history = [RoundRecord(one.round, one.loss) for one in training.history if one.kind == kind]
        model = HazardMixture(
            frame,
            TrainingRecord(HAZARDS, self.reason, history=history),
            curves,
            mixture,
            np.zeros(frame.schema.n_features),
        )
        values = self._some_values(batches)
        if not self.reduction.is_shared:
            check_hazard_paths(mixture, values, trees.engine_params)
        n_people = max(_IMPORTANCE_PEOPLE // 4, 3 * _IMPORTANCE_PEOPLE // mixture.n_models)
        model = model.with_importances(_spread(values, n_people))
        weights = ", ".join(f"{kind} {weight:.2f}" for kind, weight in model.member_weights.items())
        return model.with_record(reason=f"{self.reason} Weights by held-out likelihood: {weights}.")

    def _checkpoint_writer(self) -> Callable[[HazardState], None] | None:
        """Callback for checkpoints; on a cluster all processes compute states, and one writes."""
        if self.checkpoints.every is None:
            return None

        def nothing(_: HazardState) -> None:
            pass

        return self.checkpoints.write or nothing

    @staticmethod
    def _some_values(batches: Batches) -> Float32Array:
        """Features of a few people, spread over the first non-empty batch."""
        for _, features in batches:
            if features.n_samples:
                return _spread(features.values, _IMPORTANCE_PEOPLE)
        return np.empty((0, batches.schema.n_features), np.float32)


def _spread(values: Float32Array, n_people: int) -> Float32Array:
    """At most so many rows, from all parts."""
    return values[np.unique(np.linspace(0, len(values) - 1, n_people).astype(np.int64))]


def _truncated(target: SurvivalTarget, frame: ModelFrame) -> SurvivalTarget:
    """Outcomes censored at the end of the curves."""
    late = frame.axis.number(target.duration) > frame.axis.number(frame.t_max)
    if not late.any():
        return target
    return replace(
        target,
        event=np.where(late, 0, target.event).astype(target.event.dtype),
        duration=np.where(late, frame.t_max, target.duration),
    )


def _fold_plan(
    population: Population, group: IntArray | None, n_folds: int | None, n_repeats: int | None
) -> FoldPlan:
    """Numbers of folds and of repeats, by the number of people where they are not given."""
    n_groups = np.inf if group is None else len(np.unique(group))
    most = int(min(_most_people_of_a_cause(population), n_groups))
    return FoldPlan.of(population.n_samples, n_folds, n_repeats, most)


def _most_people_of_a_cause(population: Population) -> int:
    event, count = population.target.event, population.count
    people = np.bincount(event, weights=count, minlength=population.target.n_causes + 1)
    return int(people[1:].max())


def _check_folds(population: Population, n_folds: int) -> None:
    most = _most_people_of_a_cause(population)
    if most < n_folds:
        msg = (
            f"No cause occurs in more than {most} people (n_samples = {population.n_samples}), "
            f"too few for `n_folds={n_folds}`: each fold needs one. Give more people, or lower "
            '`n_folds` (2 at least), or use `censoring="boosted"`, which has no folds.'
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
    known, target = previous.record.n_events, population.target
    counts = np.bincount(target.event, weights=population.count, minlength=target.n_causes + 1)
    if known is not None and not np.array_equal(known, counts):
        msg = (
            f"The model to continue was fitted to {int(known.sum())} people, {known[0]} of them "
            f"censored; got {int(counts.sum())} and {int(counts[0])}. A warm start of hazards "
            "needs the same people in the same order. Otherwise set `warm_start=False`."
        )
        raise ValueError(msg)


def _curves(frame: ModelFrame, population: Population) -> KnotCurves:
    """Knots, with the marginal hazards between them."""
    axis, t_max = frame.axis, frame.t_max
    aligned = population.aligned(axis)
    knots = time_knots(axis, aligned.event_times(t_max), t_max, _N_INTERVALS)
    if knots[0] > 0:
        # Other people may have events before the first training event.
        knots = np.concatenate([[0.0], knots])
    marginal = marginal_hazard(axis, knots, aligned.target, aligned.weight)
    return KnotCurves.uncalibrated(axis, knots, marginal, t_max)


def _on_axis(
    frame: ModelFrame, batches: Batches, outcomes: Outcomes, knots: FloatArray
) -> HazardPeople:
    """People with their outcomes on the axis of the knots."""
    target = frame.axis.aligned(_truncated(outcomes.target, frame))
    is_one_batch = isinstance(batches, MemoryBatches) and len(batches.cohorts) == 1
    return HazardPeople(
        InMemory(batches.resident) if is_one_batch else batches,
        target.event,
        np.minimum(frame.axis.number(target.duration), knots[-1]),
        outcomes.weight,
        knots,
        target.n_causes,
        _groups(batches, outcomes),
    )


def _groups(batches: Batches, outcomes: Outcomes) -> IntArray | None:
    """Rows that share a fold: groups as passed, or else copies among the rows of this process."""
    if outcomes.group is not None or not outcomes.n_samples:
        return outcomes.group
    key = np.concatenate([row_keys(features.values) for _, features in batches])
    return copies(key, outcomes.target.event, outcomes.target.duration)

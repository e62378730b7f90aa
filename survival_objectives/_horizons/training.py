"""Training of a model on people at horizons: from batches of people to a fitted model.

People in memory, on disk and on the workers of a cluster are trained by the same function. They
differ in what it is given: `Batches`, a `Reduction`, an `Engine` and `Checkpoints`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._engines.protocol import Trainer
from survival_objectives._engines.settings import TreeSettings
from survival_objectives._horizons.completion import (
    Incidence,
    check_completion_model,
    completing_incidence,
    cross_fitted_hazards,
    warn_of_another_unit,
)
from survival_objectives._horizons.loop import (
    BoostingLoop,
    HeldOut,
    LoopSettings,
    Turns,
    held_out_rows,
)
from survival_objectives._horizons.model import (
    HorizonModel,
    calibrated_curves,
    check_prediction_paths,
)
from survival_objectives._horizons.schemes import (
    AlternatingScheme,
    CensoringScheme,
    CompletedScheme,
    DoublyRobustScheme,
    ImputedScheme,
    KaplanMeierScheme,
    OwnCensoringScheme,
    WeightSettings,
)
from survival_objectives._horizons.settings import COMPLETED, DOUBLY_ROBUST, HorizonSettings
from survival_objectives._models.curves import StepCurves
from survival_objectives._models.fitted import Run, TrainingRecord
from survival_objectives._models.frame import (
    BULK_QUANTILE,
    ModelFrame,
    coarse_censoring_curve,
    planned_frame,
)
from survival_objectives._people.cohort import Batches, Cohort
from survival_objectives._people.population import Population, Reduction, rounded_up
from survival_objectives._process.running import Progress
from survival_objectives.censoring import (
    KaplanMeierCensoring,
    censoring_log_odds,
)
from survival_objectives.marginal import StepFunction, aalen_johansen
from survival_objectives.stacking import TimeStacker, latest_weighted_horizon

#: Draws of horizons that are boosted on in turn.
N_DRAWS = 3
# Horizons per held-out person.
_HELD_OUT_HORIZONS = 8
# Times per person at which doubly robust targets evaluate both models, and quantiles of the
# durations along which they are spread.
_N_NODES, _SHARES = 12, np.linspace(0, 1, 65)


@dataclass(frozen=True)
class _Prepared:
    """What is known before any model is trained; outcomes are aligned to the time axis."""

    population: Population
    streams: RandomStreams
    kaplan_meier: KaplanMeierCensoring
    trained_until: float
    stacker: TimeStacker
    censoring_start: StepFunction
    trees: TreeSettings


def fit_horizons(
    settings: HorizonSettings,
    run: Run,
    batches: Batches,
    population: Population,
    held_out: Cohort | None = None,
) -> HorizonModel:
    """Train on stacked rows of people at horizons.

    Parameters
    ----------
    settings : HorizonSettings
    run : Run
    batches : Batches
        People with relative weights.
    population : Population
        Outcomes of all people, in the user's time.
    held_out : Cohort, optional
        People whose loss is recorded, and decides when to stop early.
    """
    frame = planned_frame(
        population,
        run.engine.name,
        batches.schema,
        horizon_max=settings.horizon_max,
        n_jobs=settings.n_jobs,
        previous=run.previous_frame,
    )
    return _Training(settings, run, frame).fit(batches, population, held_out)


@dataclass(frozen=True)
class _Training:
    """One training, with the frame of its model."""

    settings: HorizonSettings
    run: Run
    frame: ModelFrame

    def fit(
        self, batches: Batches, population: Population, held_out: Cohort | None
    ) -> HorizonModel:
        prepared = self._prepared(population)
        axis = self.frame.axis
        batches = batches.with_outcomes(batches.outcomes().aligned(axis))
        previous, censoring = self.previous, self._censoring_booster(prepared)
        scheme = self._scheme(prepared, batches, censoring)
        model = None if previous is None else previous.booster
        events = self.run.engine.trainer(prepared.trees, model)
        if previous is None:
            start = best_constant(
                batches,
                prepared.stacker,
                scheme,
                self.run.reduction,
                n_samples=prepared.population.n_samples,
                reference=events.reference,
            )
        else:
            start = previous.start.initial
        loop = self._loop(batches, prepared, events, start, scheme, censoring)
        stream = self.run.reduction.stream(prepared.streams.held_out)
        held_rows = None
        if held_out is not None:
            held_rows = self._held_out_rows(held_out.aligned(axis), prepared, scheme, stream)
        n_rounds = loop.settings.n_rounds
        loss_name = "loss" if held_rows is None else "held-out loss"
        with Progress(n_rounds, loss_name, shown=self.settings.verbose) as progress:
            loop.on_chunk = progress.hook
            loop.run(held_rows)
        return self._result(loop, batches, prepared)

    @property
    def previous(self) -> HorizonModel | None:
        """The model that is continued."""
        assert self.run.previous is None or isinstance(self.run.previous, HorizonModel)
        return self.run.previous

    def _prepared(self, raw: Population) -> _Prepared:
        """The plan of this training; ``raw`` has durations in the user's time."""
        settings, previous, frame = self.settings, self.previous, self.frame
        population = raw.aligned(frame.axis)
        target, weight = population.target, population.weight
        n_before = None if previous is None else previous.n_rounds
        streams = RandomStreams.of(self.run.generator, n_before)
        kaplan_meier = KaplanMeierCensoring().fit(target, sample_weight=weight)
        trained_until = frame.t_max
        if settings.horizon_max is None and self.settings.method not in ("imputed", COMPLETED):
            trained_until = weighted_until(frame, population, kaplan_meier, settings.floor)
        if previous is None:
            on_axis = coarse_censoring_curve(target, weight, frame.t_max)
            censoring_start = censoring_log_odds(on_axis, population.n_samples)
        else:
            censoring_start = previous.censoring_start
        stacker = TimeStacker(
            settings.n_horizons,
            settings.horizon_sampler,
            horizon_max=trained_until,
            random_state=self.run.reduction.stream(streams.train),
            event_times=population.event_times(trained_until),
            time_unit=frame.axis.unit,
            bulk_end=population.quantile(BULK_QUANTILE),
        )
        trees = settings.trees(
            schema=frame.schema,
            n_causes=frame.n_causes,
            seed=streams.seed,
            n_jobs=settings.n_jobs,
        )
        return _Prepared(
            population, streams, kaplan_meier, trained_until, stacker, censoring_start, trees
        )

    def _completing(self, batches: Batches) -> Incidence:
        """Curves of the training people by their positions, from the completion model."""
        model, as_passed, outcomes = self.settings.completion, batches.as_passed, batches.outcomes()
        assert as_passed is not None
        target = replace(outcomes.target, duration=as_passed.duration)
        if isinstance(model, str):
            model = cross_fitted_hazards(
                self.run.engine.name,
                as_passed.X,
                target,
                outcomes.weight,
                seed=int(self.run.generator.integers(2**31)),
            )
        else:
            check_completion_model(model, self.frame.event_ids)
        incidence = completing_incidence(model, as_passed.X, in_training=True)
        if model is self.settings.completion:
            warn_of_another_unit(incidence, target, outcomes.weight)
        return incidence

    def _censoring_booster(self, prepared: _Prepared) -> Trainer | None:
        """The model of censoring, where one is trained."""
        has_own_censoring = self.settings.censoring_model is not None
        trains_one = self.settings.method in ("boosted", DOUBLY_ROBUST) and not has_own_censoring
        if not trains_one or not prepared.population.has_censored:
            return None
        former = None if self.previous is None else self.previous.censoring_trees
        return self.run.engine.trainer(
            prepared.trees.of_censoring(), None if former is None else former.model
        )

    def _scheme(
        self, prepared: _Prepared, batches: Batches, booster: Trainer | None
    ) -> CensoringScheme:
        settings, population, as_passed = self.settings, prepared.population, batches.as_passed
        weights = WeightSettings(
            prepared.kaplan_meier,
            self.frame.axis,
            floor=settings.floor,
            event_floor=settings.floor,
            weight_divisor=settings.n_horizons,
            reduction=self.run.reduction,
        )
        if settings.censoring_model is not None:
            return OwnCensoringScheme(weights, settings.censoring_model, as_passed)
        if self.settings.method == COMPLETED and population.has_censored:
            assert as_passed is not None
            return CompletedScheme(
                weights,
                aalen_johansen(population.target, population.weight),
                self._completing(batches),
            )
        if self.settings.method == "imputed" and population.has_censored:
            return ImputedScheme(
                weights,
                aalen_johansen(population.target, population.weight),
                n_marginal_rounds=settings.n_marginal_rounds,
                seed=int(prepared.stacker.generator.integers(2**62)),
            )
        if booster is not None and self.settings.method == DOUBLY_ROBUST:
            return DoublyRobustScheme(
                weights,
                booster,
                prepared.censoring_start,
                last=self._latest_row(prepared),
                n_nodes=_N_NODES,
                exits=np.array([population.quantile(share) for share in _SHARES]),
            )
        if booster is not None:
            return AlternatingScheme(weights, booster, prepared.censoring_start)
        return KaplanMeierScheme(weights)

    def _latest_row(self, prepared: _Prepared) -> float:
        """A time that no horizon is after."""
        axis, last = self.frame.axis, prepared.trained_until
        if callable(self.settings.horizon_sampler):
            return max(last, float(prepared.population.target.duration.max()))
        return (float(axis.number(last)) + 1) * axis.unit if axis.unit else last

    def _loop(
        self,
        batches: Batches,
        prepared: _Prepared,
        events: Trainer,
        start: FloatArray,
        scheme: CensoringScheme,
        censoring: Trainer | None,
    ) -> BoostingLoop:
        settings, turns = self.settings, None
        if self.run.n_turns is not None:
            turns = Turns(int(prepared.stacker.generator.integers(2**62)), self.run.n_turns)
        return BoostingLoop(
            batches,
            prepared.stacker,
            events,
            start,
            scheme,
            LoopSettings(
                n_rounds=settings.n_rounds - events.n_rounds,
                refresh_every=settings.refresh_every,
                n_draws=N_DRAWS,
                early_stopping_rounds=settings.early_stopping_rounds,
            ),
            censoring,
            self.run.reduction,
            turns,
            self.run.checkpoints,
        )

    def _held_out_rows(
        self,
        cohort: Cohort,
        prepared: _Prepared,
        scheme: CensoringScheme,
        stream: np.random.Generator,
    ) -> HeldOut:
        last = scheme.held_out_until(prepared.trained_until)
        stacker = TimeStacker(
            _HELD_OUT_HORIZONS,
            "mixture",
            horizon_max=last,
            random_state=stream,
            time_unit=self.frame.axis.unit,
        )
        rows = held_out_rows(cohort, stacker, scheme)
        n_people, total = self.run.reduction.sum([cohort.n_samples, rows.weight.sum()])
        if total == 0:
            msg = (
                f"None of the {n_people:.0f} held-out people counts: all were censored before "
                f"every horizon up to {last:g}, so there is no loss to stop by. Pass an "
                "`eval_set` of people who were followed for longer."
            )
            raise ValueError(msg)
        return rows

    def _result(self, loop: BoostingLoop, batches: Batches, prepared: _Prepared) -> HorizonModel:
        """The trained models, after a check that predictions reproduce the margins of training."""
        settings, scheme, trees = self.settings, loop.scheme, prepared.trees
        censoring, censoring_trees = loop.censoring, None
        if censoring is not None and censoring.n_rounds:
            censoring_trees = censoring.finished(censoring.n_rounds)
        model = HorizonModel(
            self.frame,
            TrainingRecord(
                settings.method,
                history=loop.history,
                refreshed_rounds=scheme.refreshed_rounds,
                n_floored=scheme.n_floored,
                n_weighted_rows=scheme.n_weighted_rows,
                floor=settings.floor,
            ),
            StepCurves(self.frame.axis),
            loop.events.finished(
                loop.events.n_rounds if loop.best_round is None else loop.best_round
            ),
            censoring_trees,
            StepFunction.constant(loop.start),
            prepared.censoring_start,
            settings.monotone,
            settings.censoring_model,
        )
        check_prediction_paths(loop.events, model, batches.in_memory.values, trees.engine_params)
        if settings.n_intervals is None:
            return model
        curves = calibrated_curves(
            model,
            batches,
            prepared.population,
            n_intervals=settings.n_intervals,
            trained_until=prepared.trained_until,
            reduction=self.run.reduction,
            seed=prepared.streams.seed,
        )
        return replace(model, curves=curves)


def weighted_until(
    frame: ModelFrame, population: Population, kaplan_meier: KaplanMeierCensoring, floor: float
) -> float:
    """The latest horizon that weights 1/G support: later, few people would carry most weight.

    Outcomes of the population are aligned to the time axis.
    """
    last = latest_weighted_horizon(population.target, kaplan_meier.curve_, frame.axis, floor)
    return min(float(rounded_up(last)), frame.t_max)


@dataclass(frozen=True)
class RandomStreams:
    """Random numbers of one training, by purpose.

    Attributes
    ----------
    train, held_out : Generator
        Horizons of training and held-out people: adding held-out people changes no training row.
    seed : int
        Seed of the engine.
    """

    train: np.random.Generator
    held_out: np.random.Generator
    seed: int

    @classmethod
    def of(cls, generator: np.random.Generator, n_rounds_before: int | None) -> RandomStreams:
        """Streams from one generator; a warm start continues ``n_rounds_before`` rounds."""
        train, held_out = generator.spawn(2)
        seed = int(generator.integers(2**30))
        if n_rounds_before is not None:
            # Later rounds draw other horizons, even with the same seed.
            train = np.random.default_rng([seed, n_rounds_before])
        return cls(train, held_out, seed)


def best_constant(
    batches: Batches,
    stacker: TimeStacker,
    scheme: CensoringScheme,
    reduction: Reduction,
    *,
    n_samples: int,
    reference: bool,
) -> FloatArray:
    """Margins of the constant prediction with the lowest loss, from a separate draw."""
    outcomes = batches.outcomes()
    total = np.zeros(outcomes.target.n_causes + 1)
    for rows in batches.slices:
        total += scheme.state_weights(outcomes.take(rows), stacker)
    share = reduction.sum(total)
    # The weight of half a person is the smallest probability distinguishable from 0.
    log_share = np.log(np.maximum(share / share.sum(), 0.5 / n_samples))
    margins: FloatArray = log_share[1:] - log_share[0] if reference else log_share
    return margins

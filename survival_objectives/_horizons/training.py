"""Training of a model on people at horizons: from batches of people to a fitted model.

People in memory, on disk and on the workers of a cluster are trained by the same function. They
differ in what it is given: `Batches`, a `Reduction`, an `Engine` and `Checkpoints`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives._engines.protocol import Engine, Trainer, TreeSettings
from survival_objectives._horizons.calibration import calibrated_curves
from survival_objectives._horizons.completion import (
    CompletionModel,
    Incidence,
    check_completion_model,
    completing_incidence,
    cross_fitted_hazards,
)
from survival_objectives._horizons.loop import (
    BoostingLoop,
    HeldOut,
    LoopSettings,
    Turns,
    held_out_rows,
)
from survival_objectives._horizons.plan import (
    BULK_QUANTILE,
    RandomStreams,
    best_constant,
    coarse_censoring_curve,
    weighted_until,
)
from survival_objectives._horizons.schemes import (
    AlternatingScheme,
    CensoringScheme,
    CompletedScheme,
    DoublyRobustScheme,
    GivenScheme,
    ImputedScheme,
    KaplanMeierScheme,
    WeightSettings,
)
from survival_objectives._models.boosters import censoring_settings, tree_settings
from survival_objectives._models.checks import check_prediction_paths
from survival_objectives._models.curves import StepCurves
from survival_objectives._models.fitted import ModelFrame, StackedModel, TrainingRecord
from survival_objectives._people.cohort import Batches, Cohort
from survival_objectives._people.population import LocalReduction, Population, Reduction
from survival_objectives._process.checkpoints import Checkpoints
from survival_objectives._process.progress import Progress, progress_hook
from survival_objectives._training.parameters import COMPLETED, DOUBLY_ROBUST, by_method
from survival_objectives.censoring import (
    CensoringModel,
    KaplanMeierCensoring,
    censoring_log_odds,
)
from survival_objectives.marginal import StepFunction, aalen_johansen
from survival_objectives.stacking import HorizonSampler, TimeStacker

#: Draws of horizons that are boosted on in turn.
N_DRAWS = 3
# Horizons per held-out person.
_HELD_OUT_HORIZONS = 8
# Rounds, times the learning rate, after which imputed states come from the model: by then all
# but exp(-5) of the distance to the optimum is covered.
_MARGINAL_ROUNDS = 5.0
# Times per person at which doubly robust targets evaluate both models, and quantiles of the
# durations along which they are spread.
_N_NODES, _SHARES = 12, np.linspace(0, 1, 65)


@dataclass(frozen=True)
class StackedSettings:
    """Parameters of a training, as `survival_objectives.SurvivalBoost` describes them."""

    n_estimators: int
    learning_rate: float
    n_horizons: int
    horizon_sampler: str | HorizonSampler
    refresh_every: int | None
    censoring: str | CensoringModel
    completion: str | CompletionModel | None
    monotone: bool
    time_smoothing: float
    early_stopping_rounds: int | None
    min_censoring_survival: float
    horizon_max: float | None
    verbose: bool

    @classmethod
    def of(cls, frame: ModelFrame, method: str) -> StackedSettings:
        """Settings from the parameters of an estimator."""
        given = by_method(frame.parameters, method, frame.engine)
        return cls(**{name: given[name] for name in cls.__dataclass_fields__})

    @property
    def censoring_model(self) -> CensoringModel | None:
        """A censoring model of the user's own."""
        return None if isinstance(self.censoring, str) else self.censoring

    @property
    def n_marginal_rounds(self) -> int:
        """Rounds in which imputed states come from the marginal curves."""
        return int(np.ceil(min(_MARGINAL_ROUNDS / self.learning_rate, self.n_estimators / 2)))


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


@dataclass(frozen=True)
class StackedTraining:
    """One training on stacked rows.

    Parameters
    ----------
    frame : ModelFrame
        Columns, labels, time axis and the parameters of the estimator.
    method, reason : str
        How censored people count, and why.
    engine, generator, reduction, previous, n_turns, checkpoints
        As in `survival_objectives._training.fit.Training`.
    """

    frame: ModelFrame
    method: str
    reason: str
    engine: Engine
    generator: np.random.Generator
    reduction: Reduction = field(default_factory=LocalReduction)
    previous: StackedModel | None = None
    n_turns: int | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    def fit(
        self, batches: Batches, population: Population, held_out: Cohort | None = None
    ) -> StackedModel:
        """Train.

        Parameters
        ----------
        batches : Batches
            People with relative weights.
        population : Population
            Outcomes of all people, in the user's time.
        held_out : Cohort, optional
            People whose loss is recorded, and decides when to stop early.
        """
        prepared = self._prepared(population)
        axis = self.frame.axis
        batches = batches.with_outcomes(batches.outcomes().aligned(axis))
        previous, censoring = self.previous, self._censoring_booster(prepared)
        scheme = self._scheme(prepared, batches, censoring)
        model = None if previous is None else previous.booster
        events = self.engine.trainer(prepared.trees, model)
        if previous is None:
            start = best_constant(
                batches,
                prepared.stacker,
                scheme,
                self.reduction,
                n_samples=prepared.population.n_samples,
                reference=events.reference,
            )
        else:
            start = previous.start
        loop = self._loop(batches, prepared, events, start, scheme, censoring)
        stream = self.reduction.stream(prepared.streams.held_out)
        held_rows = None
        if held_out is not None:
            held_rows = self._held_out_rows(held_out.aligned(axis), prepared, scheme, stream)
        n_rounds = loop.settings.n_rounds
        with Progress(n_rounds, "loss" if held_rows is None else "held-out loss") as progress:
            loop.on_chunk = progress.advance if self.settings.verbose else progress_hook(n_rounds)
            loop.run(held_rows)
        return self._result(loop, batches, prepared)

    @property
    def settings(self) -> StackedSettings:
        """The parameters, with defaults of the method."""
        return StackedSettings.of(self.frame, self.method)

    def _prepared(self, raw: Population) -> _Prepared:
        """The plan of this training; ``raw`` has durations in the user's time."""
        settings, previous, frame = self.settings, self.previous, self.frame
        population = raw.aligned(frame.axis)
        target, weight = population.target, population.weight
        streams = RandomStreams.of(self.generator, None if previous is None else previous.n_rounds)
        kaplan_meier = KaplanMeierCensoring().fit(target, sample_weight=weight)
        trained_until = frame.t_max
        if settings.horizon_max is None and self.method not in ("imputed", COMPLETED):
            trained_until = weighted_until(
                frame, population, kaplan_meier, settings.min_censoring_survival
            )
        if previous is None:
            on_axis = coarse_censoring_curve(target, weight, frame.t_max)
            censoring_start = censoring_log_odds(on_axis, population.n_samples)
        else:
            censoring_start = previous.censoring_start
        stacker = TimeStacker(
            settings.n_horizons,
            settings.horizon_sampler,
            horizon_max=trained_until,
            random_state=self.reduction.stream(streams.train),
            event_times=population.event_times(trained_until),
            time_unit=frame.axis.unit,
            bulk_end=population.quantile(BULK_QUANTILE),
        )
        trees = tree_settings(
            self.engine, frame.schema, frame.n_causes, self.method, frame.parameters, streams.seed
        )
        return _Prepared(
            population, streams, kaplan_meier, trained_until, stacker, censoring_start, trees
        )

    def _completing(self, batches: Batches) -> Incidence:
        """Curves of the training people by their positions, from the completion model."""
        model, given, outcomes = self.settings.completion, batches.given, batches.outcomes()
        assert given is not None
        if isinstance(model, str):
            model = cross_fitted_hazards(
                self.engine.name,
                given.X,
                replace(outcomes.target, duration=given.duration),
                outcomes.weight,
                seed=int(self.generator.integers(2**31)),
            )
        else:
            check_completion_model(model, self.frame.event_ids)
        return completing_incidence(model, given.X, in_training=True)

    def _censoring_booster(self, prepared: _Prepared) -> Trainer | None:
        """The model of censoring, where one is trained."""
        is_given = self.settings.censoring_model is not None
        trains_one = self.method in ("boosted", DOUBLY_ROBUST) and not is_given
        if not trains_one or not prepared.population.has_censored:
            return None
        former = None if self.previous is None else self.previous.censoring_trees
        return self.engine.trainer(
            censoring_settings(prepared.trees), None if former is None else former.model
        )

    def _scheme(
        self, prepared: _Prepared, batches: Batches, booster: Trainer | None
    ) -> CensoringScheme:
        settings, population, given = self.settings, prepared.population, batches.given
        weights = WeightSettings(
            prepared.kaplan_meier,
            self.frame.axis,
            floor=settings.min_censoring_survival,
            event_floor=settings.min_censoring_survival,
            weight_divisor=settings.n_horizons,
            reduction=self.reduction,
        )
        if settings.censoring_model is not None:
            return GivenScheme(weights, settings.censoring_model, given)
        if self.method == COMPLETED and population.has_censored:
            assert given is not None
            return CompletedScheme(
                weights,
                aalen_johansen(population.target, population.weight),
                self._completing(batches),
            )
        if self.method == "imputed" and population.has_censored:
            return ImputedScheme(
                weights,
                aalen_johansen(population.target, population.weight),
                n_marginal_rounds=settings.n_marginal_rounds,
                seed=int(prepared.stacker.generator.integers(2**62)),
            )
        if booster is not None and self.method == DOUBLY_ROBUST:
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
        if self.n_turns is not None:
            turns = Turns(int(prepared.stacker.generator.integers(2**62)), self.n_turns)
        return BoostingLoop(
            batches,
            prepared.stacker,
            events,
            start,
            scheme,
            LoopSettings(
                n_rounds=settings.n_estimators - events.n_rounds,
                refresh_every=settings.refresh_every or self.engine.refresh_every,
                n_draws=N_DRAWS,
                early_stopping_rounds=settings.early_stopping_rounds,
            ),
            censoring,
            self.reduction,
            turns,
            self.checkpoints,
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
        n_people, total = self.reduction.sum([cohort.n_samples, rows.weight.sum()])
        if total == 0:
            msg = (
                f"None of the {n_people:.0f} held-out people counts: all were censored before "
                f"every horizon up to {last:g}, so there is no loss to stop by. Pass an "
                "`eval_set` of people who were followed for longer."
            )
            raise ValueError(msg)
        return rows

    def _result(self, loop: BoostingLoop, batches: Batches, prepared: _Prepared) -> StackedModel:
        """The trained models, after a check that predictions reproduce the margins of training."""
        settings, scheme, trees = self.settings, loop.scheme, prepared.trees
        censoring, censoring_trees = loop.censoring, None
        if censoring is not None and censoring.n_rounds:
            censoring_trees = censoring.finished(censoring.n_rounds)
        model = StackedModel(
            self.frame,
            TrainingRecord(
                self.method,
                self.reason,
                history=loop.history,
                refreshed_rounds=scheme.refreshed_rounds,
                n_floored=scheme.n_floored,
                n_weighted_rows=scheme.n_weighted_rows,
            ),
            StepCurves(self.frame.axis),
            loop.events.finished(
                loop.events.n_rounds if loop.best_round is None else loop.best_round
            ),
            censoring_trees,
            loop.start,
            prepared.censoring_start,
        )
        check_prediction_paths(loop.events, model, batches.resident.values, trees.engine_params)
        if not (settings.monotone and settings.time_smoothing > 0):
            return model
        curves = calibrated_curves(
            model,
            batches,
            prepared.population,
            trained_until=prepared.trained_until,
            reduction=self.reduction,
            seed=prepared.streams.seed,
        )
        return replace(model, curves=curves)

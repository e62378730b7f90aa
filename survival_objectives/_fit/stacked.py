"""Training of a model on people at horizons: from batches of people to what a fitted model needs.

People in memory, on disk and on the workers of a cluster are trained by the same function. They
differ in what it is given: `Batches`, a `Reduction`, an `Engine` and `Checkpoints`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._fit.calibration import TrainedTrees, calibrated_curves
from survival_objectives._fit.checkpoint import Checkpoints, RoundRecord
from survival_objectives._fit.cohort import Batches, Cohort, GivenPeople
from survival_objectives._fit.engine import Booster, Engine, TreeSettings
from survival_objectives._fit.loop import (
    BoostingLoop,
    HeldOut,
    LoopSettings,
    Turns,
    held_out_rows,
)
from survival_objectives._fit.plan import (
    BULK_QUANTILE,
    RandomStreams,
    TimePlan,
    best_constant,
    coarse_censoring_curve,
)
from survival_objectives._fit.population import LocalReduction, Population, Reduction
from survival_objectives._fit.progress import Progress
from survival_objectives._fit.schemes import (
    AlternatingScheme,
    CensoringScheme,
    GivenScheme,
    ImputedScheme,
    KaplanMeierScheme,
    WeightSettings,
)
from survival_objectives._progress import progress_hook
from survival_objectives.censoring import (
    CensoringModel,
    KaplanMeierCensoring,
    censoring_log_odds,
)
from survival_objectives.curves import CurveShape, StepCurves
from survival_objectives.fitted import check_same_time_unit
from survival_objectives.fitted_checks import check_prediction_paths
from survival_objectives.marginal import StepFunction, aalen_johansen
from survival_objectives.stacking import HorizonSampler, TimeStacker
from survival_objectives.trees import Forest
from survival_objectives.validation import Features

__all__ = ["METHODS", "StackedFit", "StackedSettings", "StackedTraining", "censoring_settings"]

FloatArray = npt.NDArray[np.float64]

#: How censored people can count, by name; a model of the user's is "given".
METHODS = ("boosted", "kaplan-meier", "imputed")

#: Draws of horizons that are boosted on in turn.
N_DRAWS = 3
# Horizons per held-out person.
_HELD_OUT_HORIZONS = 8
# The share of censored people above which they are imputed (benchmarks/imputation_study.py).
_MANY_CENSORED = 2 / 3
# Rounds, times the learning rate, after which the model fills in for censored people: by then all
# but exp(-5) of the distance to the optimum is covered.
_MARGINAL_ROUNDS = 5.0


@dataclass(frozen=True)
class StackedSettings:
    """Parameters of a training, in the estimator's terms; see `survival_objectives.SurvivalBoost`.

    ``trees`` are the parameters that `TreeSettings.of` takes.
    """

    n_estimators: int
    learning_rate: float
    n_horizons: int
    horizon_sampler: str | HorizonSampler
    refresh_every: int | None
    censoring: str | CensoringModel
    monotone: bool
    time_smoothing: float
    early_stopping_rounds: int | None
    min_censoring_survival: float
    horizon_max: float | None
    verbose: bool
    trees: Mapping[str, Any]

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> StackedSettings:
        """Settings from the parameters of an estimator."""
        names = (name for name in cls.__dataclass_fields__ if name not in ("verbose", "trees"))
        return cls(
            **{name: parameters[name] for name in names},
            verbose=bool(parameters["verbose"]),
            trees=dict(parameters),
        )

    @property
    def censoring_model(self) -> CensoringModel | None:
        """A censoring model of the user's own."""
        return None if isinstance(self.censoring, str) else self.censoring

    def method(self, population: Population) -> str:
        """How censored people count in this population."""
        if not isinstance(self.censoring, str):
            return "given"
        if self.censoring != "auto":
            return self.censoring
        return "imputed" if population.censored_share > _MANY_CENSORED else "boosted"

    @property
    def n_marginal_rounds(self) -> int:
        """Rounds in which imputed states come from the marginal curves."""
        return int(np.ceil(min(_MARGINAL_ROUNDS / self.learning_rate, self.n_estimators / 2)))


@dataclass(frozen=True)
class StackedFit:
    """What a fitted model needs of its training, and what a warm start continues from.

    Attributes
    ----------
    engine : str
    schema : Features
        Columns, without the time.
    event_ids : array of shape (K + 1,)
    plan : TimePlan
    method : str
        How censored people counted.
    model, censoring_model
        The engine's own models; the second may be None.
    n_estimators : int
        Rounds kept.
    start : array of shape (n_margins,)
        Margins at which training started.
    censoring_curve, censoring_start : StepFunction
        Marginal censoring in the user's time, and log-odds at which its model started.
    shape : CurveShape
        How curves follow from the trees.
    history, refreshed_rounds, n_floored, n_weighted_rows
        What training reports.
    events : Booster, optional
        A booster made from ``model``.
    forest : Forest, optional
        Its trees.
    """

    engine: str
    schema: Features
    event_ids: npt.NDArray[np.int64]
    plan: TimePlan
    method: str
    model: Any
    censoring_model: Any
    n_estimators: int
    start: FloatArray
    censoring_curve: StepFunction
    censoring_start: StepFunction
    shape: CurveShape
    history: list[RoundRecord] = field(default_factory=list)
    refreshed_rounds: list[int] = field(default_factory=list)
    n_floored: int = 0
    n_weighted_rows: int = 0
    events: Booster | None = None
    forest: Forest | None = None

    @property
    def portable(self) -> StackedFit:
        """The same without objects of this process, to be sent to another."""
        return replace(self, events=None, forest=None)


@dataclass(frozen=True)
class _Prepared:
    """What is known before any model is trained; outcomes are at their places on the time axis."""

    plan: TimePlan
    population: Population
    method: str
    streams: RandomStreams
    kaplan_meier: KaplanMeierCensoring
    trained_until: float
    stacker: TimeStacker
    censoring_curve: StepFunction
    censoring_start: StepFunction
    trees: TreeSettings


@dataclass(frozen=True)
class StackedTraining:
    """One training on stacked rows.

    Parameters
    ----------
    settings : StackedSettings
    engine : Engine
        Makes the boosters.
    generator : Generator
        Random numbers; the same in all processes that train together.
    reduction : Reduction
        Sums over these processes.
    previous : StackedFit, optional
        The model that a warm start continues.
    n_turns : int, optional
        Turns in which people of several batches are boosted on. Default: all people are one batch
        in memory.
    checkpoints : Checkpoints
    """

    settings: StackedSettings
    engine: Engine
    generator: np.random.Generator
    reduction: Reduction = field(default_factory=LocalReduction)
    previous: StackedFit | None = None
    n_turns: int | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    def fit(
        self,
        batches: Batches,
        held_out: Cohort | None = None,
        *,
        population: Population | None = None,
        given: GivenPeople | None = None,
    ) -> StackedFit:
        """Train.

        Parameters
        ----------
        batches : Batches
            People with relative weights.
        held_out : Cohort, optional
            People whose loss is recorded, and decides when to stop early.
        population : Population, optional
            Outcomes of all people, where they were counted already.
        given : GivenPeople, optional
            The training people as the user passed them, where the censoring model is the user's.
        """
        outcomes = batches.outcomes()
        if population is None:
            population = self.reduction.population(outcomes.target, outcomes.weight)
        prepared = self._prepared(population, batches.schema)
        axis = prepared.plan.axis
        batches = batches.with_outcomes(outcomes.aligned(axis))
        scheme = self._scheme(prepared, given)
        previous = self.previous
        model = None if previous is None else previous.model
        events = self.engine.new_booster(prepared.trees, model)
        start = (
            self._start(batches, prepared, scheme, events) if previous is None else previous.start
        )
        loop = self._loop(batches, prepared, events, start, scheme)
        stream = self.reduction.stream(prepared.streams.held_out)
        held_rows = None
        if held_out is not None:
            held_rows = self._held_out_rows(held_out.aligned(axis), prepared, scheme, stream)
        with Progress(
            loop.settings.n_rounds, "loss" if held_rows is None else "held-out loss"
        ) as progress:
            loop.on_chunk = (
                progress.advance if self.settings.verbose else progress_hook(loop.settings.n_rounds)
            )
            loop.run(held_rows)
        return self._result(loop, batches, prepared)

    def _prepared(self, raw: Population, schema: Features) -> _Prepared:
        """The plan of this training; ``raw`` has durations in the user's time."""
        settings, previous = self.settings, self.previous
        if previous is None:
            plan = TimePlan.of(raw, settings.horizon_max)
        else:
            check_same_time_unit(raw, previous.plan.median_duration)
            plan = previous.plan
        population = raw.aligned(plan.axis)
        target, weight = population.target, population.weight
        method = settings.method(population)
        streams = RandomStreams.of(
            self.generator, None if previous is None else previous.n_estimators
        )
        kaplan_meier = KaplanMeierCensoring().fit(target, sample_weight=weight)
        trained_until = plan.t_max
        if settings.horizon_max is None and method != "imputed":
            trained_until = plan.weighted_until(
                population, kaplan_meier, settings.min_censoring_survival
            )
        if previous is None:
            curve = coarse_censoring_curve(raw.target, raw.weight, plan.t_max)
            on_axis = coarse_censoring_curve(target, weight, plan.t_max)
            censoring_start = censoring_log_odds(on_axis, population.n_samples)
        else:
            curve, censoring_start = previous.censoring_curve, previous.censoring_start
        stacker = TimeStacker(
            settings.n_horizons,
            settings.horizon_sampler,
            horizon_max=trained_until,
            random_state=self.reduction.stream(streams.train),
            event_times=population.event_times(trained_until),
            time_unit=plan.axis.unit,
            bulk_end=population.quantile(BULK_QUANTILE),
        )
        return _Prepared(
            plan=plan,
            population=population,
            method=method,
            streams=streams,
            kaplan_meier=kaplan_meier,
            trained_until=trained_until,
            stacker=stacker,
            censoring_curve=curve,
            censoring_start=censoring_start,
            trees=TreeSettings.of(settings.trees, schema, target.n_causes, streams.seed),
        )

    def _scheme(self, prepared: _Prepared, given: GivenPeople | None) -> CensoringScheme:
        settings, population, method = self.settings, prepared.population, prepared.method
        weights = WeightSettings(
            prepared.kaplan_meier,
            settings.min_censoring_survival,
            settings.n_horizons,
            self.reduction,
        )
        if settings.censoring_model is not None:
            assert given is not None
            return GivenScheme(weights, settings.censoring_model, given, prepared.plan.axis)
        if method == "imputed" and population.has_censored:
            return ImputedScheme(
                weights,
                aalen_johansen(population.target, population.weight),
                n_marginal_rounds=settings.n_marginal_rounds,
                seed=int(prepared.stacker.generator.integers(2**62)),
            )
        if method == "boosted" and population.has_censored:
            previous = None if self.previous is None else self.previous.censoring_model
            booster = self.engine.new_booster(censoring_settings(prepared.trees), previous)
            return AlternatingScheme(weights, booster, prepared.censoring_start)
        return KaplanMeierScheme(weights)

    def _start(
        self, batches: Batches, prepared: _Prepared, scheme: CensoringScheme, events: Booster
    ) -> FloatArray:
        return best_constant(
            batches,
            prepared.stacker,
            scheme,
            self.reduction,
            n_samples=prepared.population.n_samples,
            reference=events.reference,
        )

    def _loop(
        self,
        batches: Batches,
        prepared: _Prepared,
        events: Booster,
        start: FloatArray,
        scheme: CensoringScheme,
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
            time_unit=prepared.plan.axis.unit,
        )
        rows = held_out_rows(cohort, stacker, scheme, self.settings.min_censoring_survival)
        n_people, total = self.reduction.sum([cohort.n_samples, rows.weight.sum()])
        if total == 0:
            msg = (
                f"None of the {n_people:.0f} held-out people counts: all were censored before "
                f"every horizon up to {last:g}, so there is no loss to stop by. Pass an "
                "`eval_set` of people who were followed for longer."
            )
            raise ValueError(msg)
        return rows

    def _result(self, loop: BoostingLoop, batches: Batches, prepared: _Prepared) -> StackedFit:
        """The trained models, after a check that they predict what they learnt."""
        settings, plan, scheme = self.settings, prepared.plan, loop.scheme
        n_rounds = loop.events.n_rounds if loop.best_round is None else loop.best_round
        model = loop.events.model(n_rounds)
        events = self.engine.new_booster(prepared.trees, model)
        trees = TrainedTrees(events, events.forest(), loop.start, n_rounds, bool(settings.monotone))
        check_prediction_paths(
            loop.events,
            events,
            trees.forest,
            loop.start,
            batches.resident.values,
            n_rounds,
            prepared.trees.engine_params,
        )
        shape: CurveShape = StepCurves(plan.axis)
        if settings.monotone and settings.time_smoothing > 0:
            shape = calibrated_curves(
                trees,
                batches,
                prepared.population,
                plan,
                trained_until=prepared.trained_until,
                time_smoothing=settings.time_smoothing,
                reduction=self.reduction,
                seed=prepared.streams.seed,
            )
        return StackedFit(
            engine=self.engine.name,
            schema=batches.schema,
            event_ids=prepared.population.target.event_ids,
            plan=plan,
            method=prepared.method,
            model=model,
            censoring_model=scheme.trained_model(),
            n_estimators=n_rounds,
            start=loop.start,
            censoring_curve=prepared.censoring_curve,
            censoring_start=prepared.censoring_start,
            shape=shape,
            history=loop.history,
            refreshed_rounds=scheme.refreshed_rounds,
            n_floored=scheme.n_floored,
            n_weighted_rows=scheme.n_weighted_rows,
            events=events,
            forest=trees.forest,
        )


def censoring_settings(trees: TreeSettings) -> TreeSettings:
    """Trees of the censoring model: shallower, as its errors multiply those of the events.

    It is monotone whatever the events are: a probability of staying uncensored falls in time.
    """
    return replace(trees, n_causes=1, max_depth=max(1, trees.max_depth - 1), monotone=True)

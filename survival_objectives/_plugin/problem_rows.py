r"""The people of a training of the plugin, and their stacked rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._horizons.completion import (
    check_completion_model,
    completed_targets,
    completing_incidence,
    cross_fitted_hazards,
    labelled_rows,
    states_after_censoring,
    warn_of_another_unit,
)
from survival_objectives._horizons.rows import BatchRows, Probes, StackedPeople
from survival_objectives._horizons.schemes import (
    AlternatingScheme,
    CensoringBooster,
    CensoringScheme,
    Chunk,
    CompletedScheme,
    DoublyRobustScheme,
    EventMargins,
    OwnCensoringScheme,
    WeightSettings,
)
from survival_objectives._horizons.schemes.weighted import marginal_survival
from survival_objectives._people import (
    Features,
    SurvivalTarget,
    check_choice,
    check_features,
    check_paired,
    check_sample_weight,
    check_survival_target,
    check_time_resolution,
    relative_weights,
    take_rows,
    warn_about_outcomes,
)
from survival_objectives._people.cohort import Cohort, MemoryBatches, PassedPeople
from survival_objectives._people.labels import EventLabels, named_outcomes
from survival_objectives._people.population import (
    LocalReduction,
    TimeAxis,
    event_unit,
    rounded_up,
    time_feature,
)
from survival_objectives._plugin.slot import FoldWeights, RowTargets
from survival_objectives.censoring import CensoringModel, KaplanMeierCensoring, censoring_log_odds
from survival_objectives.marginal import StepFunction, aalen_johansen
from survival_objectives.stacking import (
    HorizonSampler,
    TimeStacker,
    all_rows,
    check_causes_seen,
    event_rows,
    latest_weighted_horizon,
)

_GIVEN = (
    "The censoring model was given and does not change, so there is nothing to refresh. "
    "Leave out the callback, or `censoring=`."
)
_COMPLETED = (
    "People who were censored are completed by a model that does not change, so nothing is left "
    "to refresh. Leave out the callback, or `completion=`."
)


@dataclass(frozen=True)
class HeldOutRows:
    """Stacked rows of held-out people, with weights from the censoring of the training people."""

    matrix: Float32Array
    target: npt.NDArray[np.int32]
    weight: Float32Array
    start: FloatArray


@dataclass(frozen=True)
class HorizonSettings:
    """Where people are observed; parameters of `survival_objectives.stacking.TimeStacker`."""

    n_horizons: int
    sampler: str | HorizonSampler
    horizon_max: float | None
    hard_zero_fraction: float


@dataclass(frozen=True)
class CensoringSettings:
    """The user's choice of how censored people count.

    Attributes
    ----------
    censoring, completion, doubly_robust
        Parameters of the objective.
    floor, event_floor : float
        Smallest G and S in denominators.
    n_nodes : int
        Times per person at which doubly robust targets evaluate both models.
    """

    censoring: Any
    completion: Any
    doubly_robust: bool
    floor: float
    event_floor: float
    n_nodes: int

    def check(self) -> None:
        """Refuse a combination of several treatments of censored people."""
        ways = {
            "`censoring` of your own": not isinstance(self.censoring, str),
            "`completion`": self.completion is not None,
            "`doubly_robust=True`": bool(self.doubly_robust),
        }
        chosen = [name for name, is_chosen in ways.items() if is_chosen]
        if len(chosen) > 1:
            msg = f"{' and '.join(chosen)} exclude each other. Choose one of them."
            raise ValueError(msg)


class ProblemRows:
    """Checked people, the time axis, horizons, and rows with their first targets and weights.

    Parameters
    ----------
    X, y, sample_weight
        As the user gave them.
    horizons : HorizonSettings
    settings : CensoringSettings
    streams : pair of Generator
        Of the horizons of training and of held-out people.
    completion_engine : tuple of str and int
        Engine and seed of models that are fitted for completion.
    whole : ProblemRows, optional
        Rows of more people, whose time axis and labels of events these have.

    Attributes
    ----------
    people : int64 array
        Positions of the people with a positive weight; the others are left out.
    features, weight
        Of these people.
    rounded, target : SurvivalTarget
        Outcomes in float32 time, and aligned to the time axis.
    axis : TimeAxis
    population : StepFunction
        Aalen-Johansen curves.
    last : float
        Latest horizon.
    stacker : TimeStacker
        Draws the horizons.
    stacked, draw, rows : StackedPeople, Draw, BatchRows
        People at the horizons that were drawn, and their rows.
    censoring_model : CensoringModel
        The user's own, or Kaplan-Meier in the user's time.
    censoring_start : StepFunction
        Log-odds at which a boosted model of censoring starts, from Kaplan-Meier (9).
    completion : CompletionModel or None
    is_doubly_robust : bool
    floor : float
        Smallest G.
    fixed : str
        Why there is nothing to refresh; empty if there is.
    initial : RowTargets
        Targets and weights of the event rows before any refresh.
    row_weight : float32 array of shape (n_rows,)
        Weights of rows for engines that keep one set of weights throughout a training.
    n_floored : int
        Rows whose weight the floor limits before any refresh.
    """

    labels: EventLabels | None

    def __init__(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        horizons: HorizonSettings,
        settings: CensoringSettings,
        *,
        streams: tuple[np.random.Generator, np.random.Generator],
        completion_engine: tuple[str, int],
        whole: ProblemRows | None = None,
    ) -> None:
        settings.check()
        X, as_passed = self._take_people(X, y, sample_weight)
        # Trees see time as float32, so everything else uses the same values (see `stacking`).
        self.rounded = replace(
            as_passed, duration=time_feature(as_passed.duration).astype(np.float64)
        )
        self.axis = TimeAxis(event_unit(self.rounded))
        if whole is not None:
            self.axis, self.labels = whole.axis, whole.labels
        self.target = self.axis.aligned(self.rounded)
        self.population: StepFunction = aalen_johansen(self.target, self.weight)
        self.censoring_model = self._censoring_model(settings.censoring)
        self._has_own_censoring = not isinstance(settings.censoring, str)
        self.is_doubly_robust, self._n_nodes = bool(settings.doubly_robust), settings.n_nodes
        self.floor = settings.floor
        marginal = self.kaplan_meier()
        self.censoring_start = censoring_log_odds(marginal.curve_, self.target.n_samples)
        self._weights = WeightSettings(
            marginal,
            self.axis,
            floor=settings.floor,
            event_floor=settings.event_floor,
            weight_divisor=1,
            reduction=LocalReduction(),
            one_draw=True,
        )
        last = self._latest_horizon(horizons.horizon_max, settings)
        self.last = float(last or 0)
        self._held_out_stream = streams[1]
        self.stacker = TimeStacker(
            horizons.n_horizons,
            horizons.sampler,
            horizon_max=last,
            hard_zero_fraction=horizons.hard_zero_fraction,
            random_state=streams[0],
            time_unit=self.axis.unit,
        )
        self.stacked = StackedPeople(
            MemoryBatches([Cohort(self.features, self.target, self.weight)]),
            self.stacker,
            self._scheme_type(settings).event_rows,
        )
        self.draw = self.stacked.draw(LocalReduction())
        self.completion = self._completion_model(
            settings.completion, X, as_passed, *completion_engine
        )
        self.fixed = (
            _COMPLETED if self.completion is not None else _GIVEN if self._has_own_censoring else ""
        )
        self._set_initial(self._first_scheme(X, as_passed))
        if not self.draw.has_at_risk:
            msg = (
                "No one is event-free at any horizon, so there is only one class to learn. "
                "Choose horizons that are not all beyond the longest duration."
            )
            raise ValueError(msg)

    def _take_people(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, SurvivalTarget]:
        """Checked features and outcomes, as passed, of the people with a positive weight."""
        check_paired(X, y, sample_weight)
        features = check_features(X)
        y, self.labels = named_outcomes(y)
        target = check_survival_target(y)
        check_time_resolution(target.duration)
        warn_about_outcomes(target)
        if features.n_samples != target.n_samples:
            msg = f"`X` has {features.n_samples} rows but `y` has {target.n_samples}."
            raise ValueError(msg)
        weight = check_sample_weight(sample_weight, target.n_samples)
        self.people = np.arange(target.n_samples)
        if weight is not None and not weight.all():
            # People of weight 0 must not affect labels, horizons or bins.
            self.people = np.flatnonzero(weight)
            X, weight = take_rows(X, self.people), weight[self.people]
            features = replace(features, values=features.values[self.people])
            target = some_outcomes(target, self.people)
        self.features: Features = features
        self.weight: FloatArray | None = relative_weights(weight)
        return X, target

    def _latest_horizon(
        self, horizon_max: float | None, settings: CensoringSettings
    ) -> float | None:
        if horizon_max is not None:
            check_causes_seen(self.target, horizon_max)
            return horizon_max
        if not self.target.duration.any():
            return None
        if settings.completion is not None:
            return float(self.target.duration.max())
        curve = self._weights.kaplan_meier.curve_
        return latest_weighted_horizon(self.target, curve, self.axis, settings.floor)

    def _censoring_model(self, censoring: Any) -> CensoringModel:
        if isinstance(censoring, str):
            check_choice(censoring, "censoring", ("kaplan-meier",))
            # Weights use the same curve on the time axis of training.
            return KaplanMeierCensoring().fit(self.rounded, sample_weight=self.weight)
        if not isinstance(censoring, CensoringModel):
            msg = (
                f"`censoring` of type {type(censoring).__name__} has no method "
                "`survival(times, X=None, *, left=False)`; see `CensoringModel`."
            )
            raise TypeError(msg)
        return censoring

    def _completion_model(
        self, completion: Any, X: Any, as_passed: SurvivalTarget, engine: str, seed: int
    ) -> Any:
        if completion is None:
            return None
        if isinstance(completion, str):
            check_choice(completion, "completion", ("hazards",))
            return cross_fitted_hazards(engine, X, as_passed, self.weight, seed=seed)
        check_completion_model(completion, self.target.event_ids)
        incidence = completing_incidence(completion, X, in_training=True)
        warn_of_another_unit(incidence, as_passed, self.weight)
        return completion

    # ------------------------------------------------------------------- how censored people count
    @staticmethod
    def _scheme_type(settings: CensoringSettings) -> type[CensoringScheme]:
        if settings.completion is not None:
            return CompletedScheme
        return DoublyRobustScheme if settings.doubly_robust else AlternatingScheme

    def _first_scheme(self, X: Any, as_passed: SurvivalTarget) -> CensoringScheme:
        """The scheme of a training without refresh.

        It is not kept, because it may hold the user's own objects.
        """
        if self.completion is not None:
            incidence = completing_incidence(self.completion, X, in_training=True)
            return CompletedScheme(self._weights, self.population, incidence)
        return self._weighting_scheme(PassedPeople(X, as_passed.duration))

    def _weighting_scheme(self, as_passed: PassedPeople | None) -> CensoringScheme:
        """Weights of training people as the user passed them, or with None of held-out people."""
        if self._has_own_censoring:
            return OwnCensoringScheme(self._weights, self.censoring_model, as_passed)
        return self.refreshing_scheme(None)

    def _set_initial(self, scheme: CensoringScheme) -> None:
        self.initial = self.targets(scheme, 0, EventMargins(n_rounds=0, reference=True))
        self.n_floored = scheme.n_floored
        self.row_weight = self.initial.weight
        if self.is_doubly_robust:
            self.row_weight = scheme.row_weight(self.rows).astype(np.float32)

    def targets(self, scheme: CensoringScheme, n_rounds: int, events: EventMargins) -> RowTargets:
        """Targets and weights of the event rows for the next rounds."""
        chunk = Chunk(len(scheme.refreshed_rounds), n_rounds, self.stacked, self.draw, events)
        target, weight = scheme.targets_and_weights(chunk)
        return RowTargets(target, weight.astype(np.float32, copy=False))

    @property
    def rows(self) -> BatchRows:
        """Rows of the event and of the censoring model."""
        return next(self.stacked.rows(self.draw.number))

    @property
    def event_probes(self) -> Probes:
        """Where a refresh evaluates the event model, besides at its rows."""
        return self.refreshing_scheme(None).event_probes(self.rows)

    def refreshing_scheme(self, booster: CensoringBooster | None) -> AlternatingScheme:
        """The scheme of a training with refresh; without a booster, before any refresh."""
        scheme = AlternatingScheme(self._weights, booster, self.censoring_start)
        if self.is_doubly_robust:
            scheme = DoublyRobustScheme(
                self._weights,
                booster,
                self.censoring_start,
                last=float(self.rows.events.horizon.max()),
                n_nodes=self._n_nodes,
            )
        scheme.add_draw(self.stacked, self.draw)
        scheme.add_probes(self.stacked, self.draw)
        return scheme

    def kaplan_meier(self, people: IntArray | None = None) -> KaplanMeierCensoring:
        """Censoring of all people, or of some, on the time axis of training."""
        target, weight = self.target, self.weight
        if people is not None:
            target = replace(target, event=target.event[people], duration=target.duration[people])
            weight = None if weight is None else weight[people]
        return KaplanMeierCensoring().fit(target, sample_weight=weight)

    @property
    def n_events(self) -> IntArray:
        """Number of people who were censored, and who had each cause."""
        return np.bincount(self.target.event, minlength=self.target.n_causes + 1)

    @property
    def own_censoring(self) -> CensoringModel | None:
        """The user's own model of censoring."""
        return self.censoring_model if self._has_own_censoring else None

    def curve_ends(self, horizon_max: float | None) -> tuple[float, float]:
        """Until when curves follow the trees, and where they end.

        The longest duration is rounded up: curves are saved, and it is the outcome of a person.
        """
        longest = float(self.rounded.duration.max())
        if horizon_max is not None and self.last < longest:
            return self.last, self.last
        end = float(rounded_up(longest))
        return (self.last if self.last < longest else end), end

    # ---------------------------------------------------------------------------- folds, held out
    def some(self, people: IntArray) -> tuple[Features, SurvivalTarget, FloatArray | None]:
        """Features, outcomes and weights of some people."""
        features = replace(self.features, values=self.features.values[people])
        weight = None if self.weight is None else self.weight[people]
        return features, self.rounded.take(people), weight

    @cached_property
    def folds(self) -> FoldWeights:
        """Weights of folds."""
        person = self.rows.events.person
        return FoldWeights(person, self.target.n_samples, self._weight_by_others)

    def _weight_by_others(self, people: IntArray) -> Float32Array:
        """Weights of all rows from the Kaplan-Meier censoring of some people."""
        rows = self.rows.events
        weight, _ = rows.weights(
            *marginal_survival(self.kaplan_meier(people), self.target, rows),
            floor=self.floor,
            sample_weight=self.weight,
        )
        return weight.astype(np.float32)

    def fold_weight(self, rows: IntArray, *, held_out: bool) -> Float32Array:
        """Weights of a fold's rows, from the censoring of its training people where it is used."""
        is_weighted = not self.fixed and not self.is_doubly_robust
        if not is_weighted or len(rows) == len(self.initial.weight):
            return self.initial.weight[rows]
        return self.folds.of(rows, held_out=held_out)

    def held_out(self, X: Any, y: Any, start: StepFunction) -> HeldOutRows:
        """Rows of held-out people, weighted by the censoring of the training people.

        With a completion model they are completed by it; each probable state is a row then.
        """
        cohort = Cohort.checked(
            X,
            y if self.labels is None else self.labels.coded(y),
            like=self.features.schema,
            event_ids=self.target.event_ids,
            resolution="ignore",
            keep_as_passed=True,
        ).aligned(self.axis)
        features, target = cohort.features, cohort.target
        stacker = TimeStacker(
            self.stacker.n_horizons,
            self.stacker.sampler,
            # The horizons of training, also for held-out people.
            horizon_max=self.stacker.horizon_max,
            random_state=self._held_out_stream,
            time_unit=self.axis.unit,
        )
        stack = stacker.draw(target)
        if self.completion is not None:
            incidence = completing_incidence(self.completion, X, in_training=False)
            rows = all_rows(target, stack)
            states = states_after_censoring(incidence, target, rows, self.axis)
            number, label, weight = labelled_rows(completed_targets(target, rows, *states))
            matrix = rows.matrix(features)[number]
            return HeldOutRows(matrix, label, weight, start(rows.horizon[number]))
        rows = event_rows(target, stack)
        row_weight = self._weighting_scheme(None).held_out_weight(cohort, rows)
        if not row_weight.any():
            msg = (
                f"None of the {target.n_samples} held-out people counts: all were censored before "
                f"every horizon up to {self.stacker.horizon_max:g}. "
                "Pass people who were followed for longer."
            )
            raise ValueError(msg)
        return HeldOutRows(
            rows.matrix(features),
            rows.target,
            row_weight.astype(np.float32),
            start(rows.horizon),
        )

    def __getstate__(self) -> dict[str, Any]:
        # Folds are known by handles of the engine.
        return {name: value for name, value in vars(self).items() if name != "folds"}


def some_outcomes(
    target: SurvivalTarget, people: IntArray, *, late_entry: bool = False
) -> SurvivalTarget:
    """Outcomes of some people, with only the causes that happened to them."""
    return check_survival_target(target.take(people), late_entry=late_entry)


def counted_target(y: Any, sample_weight: Any, *, late_entry: bool = False) -> SurvivalTarget:
    """Checked outcomes of the people whose weight is not 0, with only their causes."""
    target = check_survival_target(named_outcomes(y)[0], late_entry=late_entry)
    weight = check_sample_weight(sample_weight, target.n_samples)
    if weight is None:
        return target
    return some_outcomes(target, np.flatnonzero(weight), late_entry=late_entry)

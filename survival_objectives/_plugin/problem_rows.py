r"""The people of a training of the plugin, and their stacked rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._plugin.curves import some_outcomes
from survival_objectives._plugin.folds import FoldWeights
from survival_objectives._plugin.schemes import (
    CensoringWeights,
    CompletedRows,
    DoublyRobustRows,
    RowScheme,
    WeightedRows,
)
from survival_objectives.censoring import CensoringModel, KaplanMeierCensoring, time_feature
from survival_objectives.completion import (
    check_completion_model,
    completing_incidence,
    cross_fitted_hazards,
    labelled_rows,
)
from survival_objectives.marginal import StepFunction, aalen_johansen
from survival_objectives.stacking import (
    HorizonSampler,
    Stack,
    TimeStacker,
    check_causes_seen,
    event_rows,
    latest_weighted_horizon,
)
from survival_objectives.time_axis import TimeAxis, event_unit, rounded_up
from survival_objectives.validation import (
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

__all__ = ["CensoringSettings", "HeldOutRows", "HorizonSettings", "ProblemRows", "counted_target"]

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


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
    """How people who were censored count, as the user said.

    Attributes
    ----------
    censoring, completion, doubly_robust
        Parameters of the objective.
    floor, event_floor : float
        Smallest G and S in denominators.
    n_nodes : int
        Times per person at which doubly robust targets look at both models.
    """

    censoring: Any
    completion: Any
    doubly_robust: bool
    floor: float
    event_floor: float
    n_nodes: int

    def check(self) -> None:
        """Refuse several ways at once."""
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

    Attributes
    ----------
    people : int64 array
        Positions of the people of positive weight, who alone count.
    features, weight
        Of these people.
    rounded, target : SurvivalTarget
        Outcomes in float32 time, and at their places on the time axis.
    axis : TimeAxis
    population : StepFunction
        Aalen-Johansen curves.
    last : float
        Latest horizon.
    stacker, stack
        What draws horizons, and those that it drew.
    weights : CensoringWeights
        Weights before any refresh.
    completion : CompletionModel or None
    scheme : RowScheme
        Rows of the event model with their targets and weights.
    """

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
    ) -> None:
        settings.check()
        X, given = self._take_people(X, y, sample_weight)
        # Time is float32 to the trees, so it is to everything else (see `stacking`).
        self.rounded = replace(given, duration=time_feature(given.duration).astype(np.float64))
        self.axis = TimeAxis(event_unit(self.rounded))
        self.target = self.axis.aligned(self.rounded)
        self.population: StepFunction = aalen_johansen(self.target, self.weight)
        self.weights = CensoringWeights(
            self._censoring_model(settings.censoring),
            not isinstance(settings.censoring, str),
            self.kaplan_meier(),
            self.axis,
            settings.floor,
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
        self.stack: Stack = self.stacker.draw(self.target)
        self.completion = self._completion_model(settings.completion, X, given, *completion_engine)
        self.scheme = self._row_scheme(X, given, settings)
        if not self.scheme.rows.stayed.any():
            msg = (
                "Nobody is event-free at any horizon, so there is one class only to learn. "
                "Choose horizons that are not all beyond the longest duration."
            )
            raise ValueError(msg)

    def _take_people(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, SurvivalTarget]:
        """Check the people; returns features and outcomes, as given, of those who count."""
        check_paired(X, y, sample_weight)
        features = check_features(X)
        target = check_survival_target(y)
        check_time_resolution(target.duration)
        warn_about_outcomes(target, stacklevel=5)
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
        self.features = features
        self.weight = relative_weights(weight)
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
        curve = self.weights.marginal.curve_
        return latest_weighted_horizon(self.target, curve, self.axis, settings.floor)

    def _censoring_model(self, censoring: Any) -> CensoringModel:
        if isinstance(censoring, str):
            check_choice(censoring, "censoring", ("kaplan-meier",))
            # Weights use the same curve on the time axis of training (`CensoringWeights`).
            return KaplanMeierCensoring().fit(self.rounded, sample_weight=self.weight)
        if not isinstance(censoring, CensoringModel):
            msg = (
                f"`censoring` of type {type(censoring).__name__} has no method "
                "`survival(times, X=None, *, left=False)`; see `CensoringModel`."
            )
            raise TypeError(msg)
        return censoring

    def _completion_model(
        self, completion: Any, X: Any, given: SurvivalTarget, engine: str, seed: int
    ) -> Any:
        if completion is None:
            return None
        if isinstance(completion, str):
            check_choice(completion, "completion", ("hazards",))
            return cross_fitted_hazards(engine, X, given, self.weight, seed=seed)
        check_completion_model(completion, self.target.event_ids)
        return completion

    def _row_scheme(self, X: Any, given: SurvivalTarget, settings: CensoringSettings) -> RowScheme:
        if self.completion is not None:
            incidence = completing_incidence(self.completion, X, in_training=True)
            return CompletedRows(self.target, self.stack, self.weight, self.axis, incidence)
        if settings.doubly_robust:
            return DoublyRobustRows(
                self.target,
                self.stack,
                self.weight,
                self.weights,
                given,
                event_floor=settings.event_floor,
                n_nodes=settings.n_nodes,
            )
        return WeightedRows(self.target, self.stack, self.weights, X, given, self.weight)

    def kaplan_meier(self, people: IntArray | None = None) -> KaplanMeierCensoring:
        """Censoring of all people, or of some, on the time axis of training."""
        target, weight = self.target, self.weight
        if people is not None:
            target = replace(target, event=target.event[people], duration=target.duration[people])
            weight = None if weight is None else weight[people]
        return KaplanMeierCensoring().fit(target, sample_weight=weight)

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
    @cached_property
    def folds(self) -> FoldWeights:
        """Weights of folds."""
        return FoldWeights(self.scheme.rows.person, self.target.n_samples, self._weight_by_others)

    def _weight_by_others(self, people: IntArray) -> Float32Array:
        """Weights of all rows from the Kaplan-Meier censoring of some people."""
        weight, _ = self.weights.of(
            self.scheme.rows,
            None,
            self.target,
            sample_weight=self.weight,
            marginal=self.kaplan_meier(people),
        )
        return weight.astype(np.float32)

    def fold_weight(self, rows: IntArray, *, held_out: bool) -> Float32Array:
        """Weights of a fold's rows, from the censoring of its training people where it is used."""
        is_weighted = isinstance(self.scheme, WeightedRows) and not self.scheme.fixed
        if not is_weighted or len(rows) == self.scheme.rows.n_rows:
            return self.scheme.initial.weight[rows]
        return self.folds.of(rows, held_out=held_out)

    def held_out(self, X: Any, y: Any, start: StepFunction) -> HeldOutRows:
        """Rows of held-out people, weighted by the censoring of the training people.

        With a completion model they are completed by it; each probable state is a row then.
        """
        check_paired(X, y)
        features = check_features(X, like=self.features.schema)
        given = check_survival_target(y, event_ids=self.target.event_ids)
        if features.n_samples != given.n_samples:
            msg = f"`X` has {features.n_samples} rows but `y` has {given.n_samples}."
            raise ValueError(msg)
        rounded = replace(given, duration=time_feature(given.duration).astype(np.float64))
        target = self.axis.aligned(rounded)
        stacker = TimeStacker(
            self.stacker.n_horizons,
            self.stacker.sampler,
            # The horizons of training, whoever the held-out people are.
            horizon_max=self.stacker.horizon_max,
            random_state=self._held_out_stream,
            time_unit=self.axis.unit,
        )
        stack = stacker.draw(target)
        if self.completion is not None:
            incidence = completing_incidence(self.completion, X, in_training=False)
            scheme = CompletedRows(target, stack, None, self.axis, incidence)
            number, label, weight = labelled_rows(scheme.initial.target)
            matrix = scheme.rows.matrix(features)[number]
            return HeldOutRows(matrix, label, weight, start(scheme.rows.horizon[number]))
        rows = event_rows(target, stack)
        row_weight, _ = self.weights.of(rows, X, given)
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


def counted_target(y: Any, sample_weight: Any = None) -> SurvivalTarget:
    """Checked outcomes of the people whose weight is not 0, with only their causes."""
    target = check_survival_target(y)
    weight = check_sample_weight(sample_weight, target.n_samples)
    return target if weight is None else some_outcomes(target, np.flatnonzero(weight))

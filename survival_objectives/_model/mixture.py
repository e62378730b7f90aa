r"""Fitted hazard models and their mixture.

Contributions of features explain the mean log-odds of each cause over the intervals up to a horizon
t, where omega_km(t) is the marginal share of interval m in the events of cause k by t:

    f_k(x; t) = sum_m omega_km(t) f_km(x),                                                     (81)

averaged over the models of the mixture with their shares. The weights omega are the same for all
people, so that (81) is a sum of trees, a linear part and constants, and contributions sum exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._model.curves import KnotCurves
from survival_objectives._model.fitted import (
    ENGINE_ROWS,
    BoosterMaker,
    FittedModel,
    MarginalCensoring,
    ModelFrame,
    TrainingRecord,
)
from survival_objectives._model.forest import EngineTrees, Forest
from survival_objectives.censoring import CensoringModel
from survival_objectives.hazards import knot_incidence
from survival_objectives.hazards_linear import MISSING, LinearDesign
from survival_objectives.validation import Features

__all__ = [
    "LINEAR",
    "ON_LINEAR",
    "TREES",
    "HazardMixture",
    "HazardModel",
    "HazardTrees",
    "Member",
    "Mixture",
    "against_event_free",
    "stacked_rows",
]

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]

#: Names of the members.
LINEAR, TREES, ON_LINEAR = "linear", "trees", "trees on linear"
# Names of the members in file names.
_FILE_NAMES = {LINEAR: "linear", TREES: "trees", ON_LINEAR: "on_linear"}

# Number of curve values in memory: 2^22 doubles are 32 MB.
_PREDICTION_SIZE = 2**22
# Number of rows for which `Forest` evaluates trees at a time.
_WALKED_ROWS = 2**14
# Number of intervals at which feature importances are computed.
_IMPORTANCE_INTERVALS = 4
# Curves by knots do not use the steps of a forest.
_NO_STEPS = Forest([], 1, 0, at_most=True)


def stacked_rows(values: Float32Array, interval: npt.ArrayLike) -> Float32Array:
    """Features with the number of an interval as their last column."""
    rows = np.empty((len(values), values.shape[1] + 1), np.float32)
    rows[:, :-1] = values
    rows[:, -1] = interval
    return rows


def against_event_free(margin: FloatArray, *, reference: bool) -> FloatArray:
    """Margins of the causes against the event-free state, which is first without ``reference``."""
    return margin if reference else margin[1:] - margin[:1]


class HazardTrees(EngineTrees):
    """Trees of an engine that split on features and on the number of the interval."""

    def margin(
        self, values: Float32Array, n_intervals: int, *, engine_rows: int = ENGINE_ROWS
    ) -> FloatArray:
        """Sum of the trees for all causes and intervals, (K, M, n_samples).

        The engine evaluates up to ``engine_rows`` rows, or all rows if the trees cannot be read.
        """
        n_people, intervals = len(values), np.arange(n_intervals)
        forest = self.forest()
        is_walked = engine_rows == 0 or n_people * n_intervals > engine_rows
        if forest.is_readable and is_walked:
            margin = forest.step_margins(values)[:, forest.interval(intervals)]
        else:
            rows = stacked_rows(
                np.repeat(values, n_intervals, axis=0), np.tile(intervals, n_people)
            )
            margin = self.contribution(rows).reshape(n_people, n_intervals, -1).transpose(2, 1, 0)
        return against_event_free(margin, reference=self.reference)

    def row_margin(
        self, values: Float32Array, interval: npt.NDArray[np.int64], *, ask_engine: bool = True
    ) -> FloatArray:
        """Sum of the trees for all causes, with one interval per row, (K, n_rows)."""
        if ask_engine or not self.forest().is_readable:
            margin = self.contribution(stacked_rows(values, interval)).T
        else:
            step, n_rows = self.forest().interval(interval), np.arange(_WALKED_ROWS)
            parts = []
            for first in range(0, len(values), _WALKED_ROWS):
                part = slice(first, first + _WALKED_ROWS)
                steps = self.forest().step_margins(values[part])
                parts.append(steps[:, step[part], n_rows[: len(values[part])]])
            margin = (
                np.concatenate(parts, axis=1) if parts else np.zeros((self.forest().n_margins, 0))
            )
        return against_event_free(margin, reference=self.reference)

    def contributions(self, values: Float32Array, omega: FloatArray) -> FloatArray:
        """TreeSHAP of (81), (n_samples, K, n_features + 2): features, interval and base.

        Parameters
        ----------
        values : float32 array of shape (n_samples, n_features)
        omega : float64 array of shape (K, M)
        """
        n_people, n_intervals = len(values), omega.shape[1]
        # Intervals between the same two splits on time have the same contributions.
        step = self.forest().interval(np.arange(n_intervals))
        steps, first, group = np.unique(step, return_index=True, return_inverse=True)
        weight = np.stack([np.bincount(group, row, minlength=len(steps)) for row in omega])
        used = weight.any(axis=0)
        first, weight = first[used], weight[:, used]
        rows = stacked_rows(np.repeat(values, len(first), axis=0), np.tile(first, n_people))
        margins = self.shap_values(rows).swapaxes(0, 1)
        found = against_event_free(margins, reference=self.reference)
        by_step = found.reshape(len(omega), n_people, len(first), -1)
        total: FloatArray = np.einsum("knsc,ks->nkc", by_step, weight)
        return total


@dataclass(frozen=True)
class HazardModel:
    """Margins of hazards: a level per cause and interval, a linear part, and trees.

    Attributes
    ----------
    level : float64 array of shape (K, M)
    coefficients : float64 array of shape (K, n_columns), or None
        Coefficients of the standardised columns.
    trees : HazardTrees, or None
    model : object, or None
        The engine's own model of the trees.
    """

    level: FloatArray
    coefficients: FloatArray | None
    trees: HazardTrees | None
    model: Any

    def margin(
        self,
        values: Float32Array,
        design: FloatArray | None,
        *,
        engine_rows: int = ENGINE_ROWS,
    ) -> FloatArray:
        """Margins, (K, M, n_samples); ``engine_rows`` as in `HazardTrees.margin`."""
        margin = np.repeat(self.level[:, :, None], len(values), axis=2)
        if self.coefficients is not None and design is not None:
            margin += (self.coefficients @ design.T)[:, None]
        if self.trees is not None:
            margin += self.trees.margin(values, self.level.shape[1], engine_rows=engine_rows)
        return margin

    def contributions(
        self, values: Float32Array, linear: _LinearColumns | None, omega: FloatArray
    ) -> FloatArray:
        """Contributions to (81), (n_samples, K, n_features + 2): features, interval and base."""
        found = np.zeros((len(values), len(omega), values.shape[1] + 2))
        if self.trees is not None:
            found += self.trees.contributions(values, omega)
        if self.coefficients is not None and linear is not None:
            # Columns are 0 at their mean, which is the base value.
            parts = linear.matrix[:, None, :] * self.coefficients
            for column, feature in enumerate(linear.feature):
                found[:, :, feature] += parts[:, :, column]
        found[:, :, -1] += (omega * self.level).sum(axis=1)
        return found


@dataclass(frozen=True)
class _LinearColumns:
    """Standardised columns, (n_samples, n_columns), and the feature of each."""

    matrix: FloatArray
    feature: tuple[int, ...]


@dataclass(frozen=True)
class Member:
    """One kind of model in a mixture, fitted without each fold and to all people.

    Attributes
    ----------
    weight : float
        Mixture weight.
    folds : tuple of HazardModel
        Models fitted without one fold each; empty if a single part was held out.
    refit : HazardModel
        Fitted to all people, or to all but the single held-out part.
    """

    weight: float
    folds: tuple[HazardModel, ...]
    refit: HazardModel

    def shares(self) -> Iterator[tuple[float, HazardModel]]:
        """Models with their shares: half for the refit, the other half for the folds."""
        if not self.folds:
            yield self.weight, self.refit
            return
        yield self.weight / 2, self.refit
        for model in self.folds:
            yield self.weight / (2 * len(self.folds)), model


@dataclass(frozen=True)
class Mixture:
    """A mixture of hazard models.

    Attributes
    ----------
    members : dict of str to Member
    design : LinearDesign, or None
        Columns of the linear parts.
    """

    members: dict[str, Member]
    design: LinearDesign | None

    @property
    def n_intervals(self) -> int:
        """Number of intervals between knots, M."""
        return int(next(iter(self.members.values())).refit.level.shape[1])

    @property
    def n_folds(self) -> int:
        """Number of models per member that were fitted without a fold."""
        return len(next(iter(self.members.values())).folds)

    def parts(self, n_samples: int, n_times: int = 1) -> Iterator[slice]:
        """People whose curves fit into memory together."""
        n_causes = len(next(iter(self.members.values())).refit.level)
        n_values = max(self.n_intervals + 1, n_times) * (n_causes + 1)
        n_people = max(1, _PREDICTION_SIZE // n_values)
        for first in range(0, n_samples, n_people):
            yield slice(first, min(first + n_people, n_samples))

    def models(self) -> dict[str, HazardModel]:
        """All models, by their names in files."""
        named = {}
        for kind, member in self.members.items():
            named[f"{_FILE_NAMES[kind]}_all"] = member.refit
            for fold, model in enumerate(member.folds):
                named[f"{_FILE_NAMES[kind]}_{fold}"] = model
        return named

    def heaviest_kind(self) -> str | None:
        """The kind of the member with the largest weight among those with trees."""
        with_trees = [
            kind for kind, member in self.members.items() if member.refit.trees is not None
        ]
        return max(with_trees, key=lambda kind: self.members[kind].weight, default=None)

    def heaviest_trees(self) -> HazardTrees | None:
        """Trees of `heaviest_kind`, fitted to all people; None without trees."""
        kind = self.heaviest_kind()
        return None if kind is None else self.members[kind].refit.trees

    def linear_columns(self, values: Float32Array) -> _LinearColumns | None:
        """Columns of the linear parts, or None without any."""
        if self.design is None:
            return None
        return _LinearColumns(self.design.matrix(values), self.design.feature)

    def incidence(self, values: Float32Array) -> FloatArray:
        """Incidences at knots, (K, M + 1, n_samples): the weighted mean of all models."""
        design = None if self.design is None else self.design.matrix(values)
        total: FloatArray | None = None
        for member in self.members.values():
            for share, model in member.shares():
                curves = knot_incidence(model.margin(values, design))
                curves *= share
                total = curves if total is None else total + curves
        assert total is not None
        return total


@dataclass(frozen=True, eq=False)
class HazardMixture(FittedModel):
    """A mixture of hazard models, with curves that are linear between knots.

    Attributes
    ----------
    curves : KnotCurves
    mixture : Mixture
    importance : float64 array of shape (n_features,)
        Mean absolute contributions, see `with_importances`.
    """

    curves: KnotCurves
    mixture: Mixture
    importance: FloatArray

    @property
    def booster(self) -> Any:
        """The engine's model of the trees with the largest weight; None without trees."""
        kind = self.mixture.heaviest_kind()
        return None if kind is None else self.mixture.members[kind].refit.model

    @property
    def n_rounds(self) -> int:
        """Rounds of `booster`; 0 without trees."""
        trees = self.mixture.heaviest_trees()
        return 0 if trees is None else trees.n_rounds

    @property
    def member_weights(self) -> dict[str, float]:
        """Mixture weight of each kind of model."""
        return {kind: member.weight for kind, member in self.mixture.members.items()}

    @property
    def censoring(self) -> CensoringModel:
        """The marginal curve: hazards need no model of censoring."""
        return MarginalCensoring(self.frame.censoring_curve)

    def wrapped(self, new_booster: BoosterMaker) -> HazardMixture:
        """The model with other boosters."""

        def other(model: HazardModel) -> HazardModel:
            if model.trees is None:
                return model
            return replace(model, trees=HazardTrees(new_booster(model.model), model.model))

        members = {
            kind: Member(member.weight, tuple(map(other, member.folds)), other(member.refit))
            for kind, member in self.mixture.members.items()
        }
        return replace(self, mixture=Mixture(members, self.mixture.design))

    # -------------------------------------------------------------------------------- predictions
    def _steps(self) -> Forest:
        return _NO_STEPS

    @property
    def n_walked(self) -> int:
        """See `FittedModel`."""
        return ENGINE_ROWS // self.mixture.n_intervals + 1

    def parts(self, n_samples: int, n_times: int = 1) -> Iterator[slice]:
        """People whose curves fit into memory together."""
        return self.mixture.parts(n_samples, n_times)

    def _incidence(self, values: Float32Array, times: FloatArray) -> FloatArray:
        return self.curves.values(self.mixture.incidence(values), times)

    def hazard(self, features: Features) -> tuple[FloatArray, FloatArray]:
        """Hazards of the intervals between knots, (n_samples, K, M), and the knots, (M + 1,)."""
        knots = self.curves.knots
        hazard = np.empty((features.n_samples, self.frame.n_causes, len(knots) - 1))
        for people in self.parts(features.n_samples):
            incidence = self.mixture.incidence(features.values[people])
            before = np.maximum(1 - incidence[:, :-1].sum(axis=0), np.finfo(np.float64).tiny)
            hazard[people] = (np.diff(incidence, axis=1) / before).transpose(2, 0, 1)
        return np.clip(hazard, 0.0, 1.0), knots * (self.frame.axis.unit or 1.0)

    # -------------------------------------------------------------------------------- explanation
    def interval_shares(self, time: float) -> FloatArray:
        """Shares omega of (81), (K, M): marginal shares of the intervals in the events by a time.

        A cause without events by that time gets the shares of all events; if there are none at
        all, the first interval has the whole share.
        """
        events = self._marginal_events()
        knots = self.curves.knots
        passed = (float(self.frame.axis.number(time)) - knots[:-1]) / np.diff(knots)
        events = events * np.clip(passed, 0.0, 1.0)
        first = np.zeros(events.shape[1])
        first[0] = 1.0
        all_causes = events.sum(axis=0) if events.any() else first
        has_none = ~events.any(axis=1)
        events[has_none] = all_causes
        shares: FloatArray = events / events.sum(axis=1, keepdims=True)
        return shares

    def _marginal_events(self) -> FloatArray:
        """Marginal probability of each cause in each interval, (K, M)."""
        hazard = self.curves.hazard
        stay = np.cumprod(1 - np.minimum(hazard.sum(axis=0), 1.0))
        events: FloatArray = hazard * np.append(1.0, stay[:-1])
        return events

    def shap_values(self, features: Features, time: float) -> FloatArray:
        """Contributions to the mean log-odds (81), (n_samples, K, n_features + 2)."""
        omega = self.interval_shares(time)
        found = np.zeros((features.n_samples, self.frame.n_causes, features.n_features + 2))
        n_people = max(1, _PREDICTION_SIZE // (omega.size * (features.n_features + 2)))
        for first in range(0, features.n_samples, n_people):
            values = features.values[first : first + n_people]
            linear = self.mixture.linear_columns(values)
            for member in self.mixture.members.values():
                for share, model in member.shares():
                    found[first : first + n_people] += share * model.contributions(
                        values, linear, omega
                    )
        return found

    def margin(self, features: Features, time: float) -> FloatArray:
        """The mean log-odds (81) that `shap_values` explains, (n_samples, K)."""
        omega = self.interval_shares(time)
        total = np.zeros((features.n_samples, self.frame.n_causes))
        linear = self.mixture.linear_columns(features.values)
        for member in self.mixture.members.values():
            for share, model in member.shares():
                margin = model.margin(features.values, None if linear is None else linear.matrix)
                total += share * np.einsum("km,kmn->nk", omega, margin)
        return total

    def with_importances(self, values: Float32Array) -> HazardMixture:
        """The model with feature importances computed on ``values``.

        The importance is the mean absolute contribution to the log-odds of each cause at a few
        intervals, by the models fitted to all people; causes are weighted by their frequency.
        """
        events = self._marginal_events()
        at = np.cumsum(events.sum(axis=0))
        middle = (np.arange(_IMPORTANCE_INTERVALS) + 0.5) / _IMPORTANCE_INTERVALS
        intervals = np.searchsorted(at, middle * at[-1])
        share = np.bincount(intervals, minlength=len(at)) / _IMPORTANCE_INTERVALS
        omega = np.tile(share, (len(events), 1))
        linear = self.mixture.linear_columns(values)
        found = np.zeros((len(values), len(events), values.shape[1] + 2))
        for member in self.mixture.members.values():
            found += member.weight * member.refit.contributions(values, linear, omega)
        by_cause = np.abs(found[:, :, :-2]).mean(axis=0)
        importance: FloatArray = events.sum(axis=1) / events.sum() @ by_cause
        return replace(self, importance=importance)

    def importances(self) -> FloatArray:
        """Mean absolute contribution of each feature, over training people."""
        return self.importance

    # -------------------------------------------------------------------------------- persistence
    def to_plain(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """See `FittedModel`."""
        mixture, design = self.mixture, self.mixture.design
        members = mixture.members
        content = {
            "importance": self.importance.tolist(),
            "design": None if design is None else _design_content(design),
            "weights": {_FILE_NAMES[kind]: member.weight for kind, member in members.items()},
            "n_folds": mixture.n_folds,
            "models": {
                name: {
                    "level": model.level.tolist(),
                    "coefficients": None
                    if model.coefficients is None
                    else model.coefficients.tolist(),
                }
                for name, model in mixture.models().items()
            },
        }
        models = {
            name: model.model for name, model in mixture.models().items() if model.model is not None
        }
        return content, models

    @staticmethod
    def file_names(content: Mapping[str, Any]) -> list[str]:
        """Possible names of the engine's models in a description."""
        weights, n_folds = content["weights"], content["n_folds"]
        if not weights or not set(weights) <= set(_FILE_NAMES.values()):
            msg = f"weights are of the members {list(weights)}"
            raise ValueError(msg)
        numbers = ["all", *map(str, range(n_folds))]
        return [f"{name}_{number}" for name in weights for number in numbers]

    @classmethod
    def from_plain(
        cls,
        frame: ModelFrame,
        record: TrainingRecord,
        curves: KnotCurves,
        content: Mapping[str, Any],
        models: Mapping[str, Any],
        new_booster: BoosterMaker,
    ) -> HazardMixture:
        """The model that `to_plain` described."""
        n_features = frame.schema.n_features
        design = _design(content["design"], n_features)
        shape = frame.n_causes, len(curves.knots) - 1

        def hazard_model(name: str) -> HazardModel:
            stored = content["models"][name]
            level = _array(stored["level"], "level", shape)
            coefficients = None
            if stored["coefficients"] is not None and design is not None:
                wanted = frame.n_causes, design.n_columns
                coefficients = _array(stored["coefficients"], "coefficients", wanted)
            model = models.get(name)
            trees = None if model is None else HazardTrees(new_booster(model), model)
            return HazardModel(level, coefficients, trees, model)

        members = {}
        for kind, name in _FILE_NAMES.items():
            if name in content["weights"]:
                folds = [hazard_model(f"{name}_{fold}") for fold in range(content["n_folds"])]
                refit = hazard_model(f"{name}_all")
                members[kind] = Member(float(content["weights"][name]), tuple(folds), refit)
        importance = _array(content["importance"], "importance", (n_features,))
        return cls(frame, record, curves, Mixture(members, design), importance)


def _design_content(design: LinearDesign) -> dict[str, Any]:
    return {
        "feature": list(design.feature),
        "kind": list(design.kind),
        "mean": design.mean.tolist(),
        "scale": design.scale.tolist(),
    }


def _design(content: Mapping[str, Any] | None, n_features: int) -> LinearDesign | None:
    if content is None:
        return None
    feature, kind = (_whole_numbers(content[name], name) for name in ("feature", "kind"))
    in_range = all(0 <= column < n_features for column in feature)
    if len(kind) != len(feature) or not in_range or min(kind, default=0) < MISSING:
        msg = f"the linear part has columns of features {feature} of {n_features}"
        raise ValueError(msg)
    shape = (len(feature),)
    scale = _array(content["scale"], "scale", shape)
    if (scale <= 0).any():
        msg = "a scale of the linear part is not positive"
        raise ValueError(msg)
    return LinearDesign(feature, kind, _array(content["mean"], "mean", shape), scale)


def _whole_numbers(values: Any, name: str) -> tuple[int, ...]:
    if not isinstance(values, list) or any(type(value) is not int for value in values):
        msg = f"{name} is {values!r}, not a list of integers"
        raise TypeError(msg)
    return tuple(values)


def _array(values: Any, name: str, shape: tuple[int, ...]) -> FloatArray:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        msg = f"{name} has the shape {array.shape} or values that are not finite, not {shape}"
        raise ValueError(msg)
    return array

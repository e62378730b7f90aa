"""The numbers of the report, before any of them is written or drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import Features, SurvivalTarget
from survival_objectives.assessment import Assessment
from survival_objectives.estimators import HazardBoost, SurvivalBoost
from survival_objectives.marginal import aalen_johansen, kaplan_meier_censoring
from survival_objectives.metrics import Evaluation
from survival_objectives.report._format import difference, number

_Z95 = 1.959963984540054
MARGINAL = ("Aalen-Johansen", "Kaplan-Meier")


@dataclass(frozen=True)
class Study:
    """What the report is about, checked: a model, its data and its assessment.

    ``states`` names the K + 1 curves, the event-free state first.
    """

    model: HazardBoost | SurvivalBoost
    X: Any
    features: Features
    target: SurvivalTarget
    assessment: Assessment
    states: tuple[str, ...]
    duration_name: str = "time"
    time_unit: str | None = None

    def when(self, time: float, digits: int = 4) -> str:
        """A time in words: "7 days", or "time 7" where the unit is not known."""
        shown = number(time, digits)
        return f"{shown} {self.time_unit}" if self.time_unit else f"{self.duration_name} {shown}"

    @property
    def axis(self) -> str:
        """Name of the axis of time."""
        if self.time_unit is None or self.time_unit in self.duration_name:
            return self.duration_name
        if self.duration_name in self.time_unit:
            return self.time_unit  # Not both "day" and "days".
        return f"{self.duration_name} ({self.time_unit})"

    @property
    def method(self) -> str:
        """How censored people counted in training."""
        return self.model.fitted_model.record.method

    @property
    def horizons(self) -> FloatArray:
        """The assessment's horizons without repetition."""
        return np.unique(self.assessment.horizons)

    @property
    def marginal(self) -> str | None:
        """Name of the baseline with one curve for all people, if it was assessed."""
        return next((name for name in self.assessment.models if name in MARGINAL), None)

    def cause_name(self, cause: int) -> str:
        """Name of the cause with this label."""
        return self.states[int(np.searchsorted(self.target.event_ids, cause))]

    @property
    def middle(self) -> float:
        """The horizon at which groups are formed and examples are read."""
        return float(self.assessment.horizons[1])

    @property
    def last(self) -> float:
        """The latest time that the model was trained for."""
        return float(self.model.times_[-1])

    def sample(self, size: int) -> IntArray:
        """Rows of at most ``size`` people, the same in every run."""
        n_samples = self.target.n_samples
        if n_samples <= size:
            return np.arange(n_samples)
        return np.sort(np.random.default_rng(0).choice(n_samples, size, replace=False))

    def held_out(self, model: str | None = None) -> tuple[SurvivalTarget, FloatArray]:
        """Outcomes of the assessed people, and a model's curves of them."""
        return self.target.take(self.assessment.index), self.assessment.curves[
            model or self.assessment.main
        ]


# ------------------------------------------------------------------------------------------- data
@dataclass(frozen=True)
class Column:
    """What a column of the features holds.

    ``spread`` has the mean and the standard deviation of numbers, and of being in each group.
    """

    name: str
    kind: str
    missing: float
    n_values: int
    text: str
    spread: dict[str, tuple[float, float]]

    def distance(self, other: Column) -> float:
        """The largest standardised difference of means and shares from another column."""
        gaps = [0.0]
        for key in {*self.spread, *other.spread}:
            (mean, sd), (other_mean, other_sd) = (
                each.spread.get(key, (0.0, 0.0)) for each in (self, other)
            )
            scale = np.sqrt((sd**2 + other_sd**2) / 2)
            if mean != other_mean:
                gaps.append(abs(mean - other_mean) / scale if scale else np.inf)
        return float(max(gaps))


def columns(features: Features, *, n_levels: int = 4) -> list[Column]:
    """One `Column` per feature: its range, or its most frequent levels."""
    return [_column(features, position, n_levels) for position in range(features.n_features)]


def column_name(features: Features, position: int) -> str:
    """The user's name of a column, or its number."""
    return f"column {position}" if features.names is None else features.names[position]


def _column(features: Features, position: int, n_levels: int) -> Column:
    values = features.values[:, position].astype(np.float64) + features.offsets.get(position, 0.0)
    known = values[~np.isnan(values)]
    kinds, counts = np.unique(known, return_counts=True)
    spread = {}
    if position in features.categories:
        kind = "categories"
        levels = [str(features.categories[position][int(code)]) for code in kinds]
        spread = dict(zip(levels, map(_share_and_sd, counts / len(values)), strict=True))
        often = np.argsort(-counts, kind="stable")
        shown = [f"{levels[i]} ({counts[i] / len(values):.0%})" for i in often[:n_levels]]
        rest = len(kinds) - len(shown)
        text = ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")
    elif len(known) == 0:
        kind, text = "empty", "no value"
    elif np.isin(kinds, (0.0, 1.0)).all():
        kind, text = "yes/no", f"yes (1) for {known.mean():.0%}"
    else:
        kind = "number"
        low, middle, high = np.quantile(known, [0.05, 0.5, 0.95])
        text = f"median {number(middle, 3)}, 90% within {number(low, 3)} to {number(high, 3)}"
    if kind in ("yes/no", "number"):
        spread["mean"] = (float(known.mean()), float(known.std()))
    missing = 1 - len(known) / len(values)
    spread["missing values"] = _share_and_sd(missing)
    return Column(column_name(features, position), kind, missing, len(kinds), text, spread)


def _share_and_sd(share: float) -> tuple[float, float]:
    return float(share), float(np.sqrt(share * (1 - share)))


def median_follow_up(target: SurvivalTarget) -> float:
    """Median time to censoring by reverse Kaplan-Meier; NaN where it is not reached."""
    curve = kaplan_meier_censoring(target)
    reached = np.flatnonzero(curve.values <= 0.5)
    return float(curve.times[reached[0]]) if len(reached) else float("nan")


@dataclass(frozen=True)
class Incidence:
    """Aalen-Johansen curves of all people with 95 % limits, (K + 1, n_times)."""

    times: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    at_risk: list[tuple[float, int]]


def incidence(target: SurvivalTarget, times: FloatArray, ticks: FloatArray) -> Incidence:
    """Marginal curves at ``times``, and how many people are under observation at ``ticks``."""
    curve = aalen_johansen(target, standard_error=True)
    values, width = curve(times).T, _Z95 * curve.standard_error(times).T
    at_risk = [(float(tick), int((target.duration >= tick).sum())) for tick in ticks]
    return Incidence(
        times, values, np.clip(values - width, 0, 1), np.clip(values + width, 0, 1), at_risk
    )


# ----------------------------------------------------------------------------------------- scores
@dataclass(frozen=True)
class ModelScore:
    """A model by a metric: its values in the folds.

    ``best`` says that it is ahead of every other model by more than chance explains.
    """

    model: str
    values: FloatArray
    mean: float
    sd: float
    best: bool


@dataclass(frozen=True)
class MetricRow:
    """All models by one metric."""

    metric: str
    cause: int
    lower_is_better: bool
    horizon: float | None
    models: list[ModelScore]


def metric_rows(study: Study) -> list[MetricRow]:
    """Scores and concordance of the assessment, in its order, with the mean over folds.

    The calibration error is left out: `calibration` computes it from all held-out people, in the
    groups that are also drawn.
    """
    assessment = study.assessment
    names = ("concordance_25", "concordance_50", "concordance_75")
    horizon = dict(zip(names, assessment.horizons.tolist(), strict=True))
    pairs = assessment.scores[["metric", "cause"]].drop_duplicates()
    rows = []
    for metric, cause in pairs.itertuples(index=False):
        if metric == "calibration_error":
            continue
        lower = not metric.startswith("concordance")
        scores = _model_scores(study, metric, int(cause), lower)
        rows.append(MetricRow(metric, int(cause), lower, horizon.get(metric), scores))
    return rows


def _model_scores(study: Study, metric: str, cause: int, lower: bool) -> list[ModelScore]:
    table = study.assessment.values(metric, cause)
    means = {str(name): _mean(row.to_numpy(np.float64)) for name, row in table.iterrows()}
    best = _certainly_best(study, metric, cause, means, lower)
    scores = []
    for name, row in table.iterrows():
        values = row.to_numpy(np.float64)
        present = values[~np.isnan(values)]
        sd = float(present.std(ddof=1)) if len(present) > 1 else 0.0
        scores.append(ModelScore(str(name), values, means[str(name)], sd, str(name) == best))
    return scores


def _certainly_best(
    study: Study, metric: str, cause: int, means: dict[str, float], lower: bool
) -> str | None:
    """The model that is clearly ahead of each other one, if there is one."""
    known = {name: mean for name, mean in means.items() if not np.isnan(mean)}
    if len(known) < 2:
        return None
    ahead = (min if lower else max)(known, key=lambda name: known[name])
    for other in known:
        if other == ahead:
            continue
        if not difference(study.assessment, ahead, other, metric, cause).is_clear(known[other]):
            return None
    return ahead


def explained_share(study: Study) -> dict[str, float]:
    """Index of prediction accuracy of each model: 1 - Brier score / that of the marginal curve.

    Empty where the marginal curve was not assessed.
    """
    if study.marginal is None:
        return {}
    means = study.assessment.values("integrated_brier_score").mean(axis=1)
    return {str(name): float(1 - mean / means[study.marginal]) for name, mean in means.items()}


def _mean(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


# ------------------------------------------------------------------------------------ calibration
@dataclass(frozen=True)
class Calibration:
    """Predicted and observed incidence of one cause in groups of held-out people.

    ``error`` is their mean distance, ``chance`` what it would be on average for a perfect model.
    ``p_values`` test each group by itself, ``p_value`` all of them together.
    """

    cause: int
    horizon: float
    predicted: FloatArray
    observed: FloatArray
    half_width: FloatArray
    n_people: FloatArray
    p_values: FloatArray
    error: float
    chance: float
    p_value: float


def calibration(
    study: Study, code: int, *, horizon: float | None = None, model: str | None = None
) -> Calibration:
    """Calibration of the assessed model, or another, in up to ten groups.

    Default ``horizon``: the middle one.
    """
    outcomes, curves = study.held_out(model)
    cause = int(study.target.event_ids[code])
    n_groups = int(np.clip(outcomes.n_samples // 40, 2, 10))
    horizon = study.middle if horizon is None else horizon
    column = int(np.searchsorted(study.assessment.times, horizon))
    people = Evaluation(
        None, outcomes, curves[:, :, [column]], [horizon], event_ids=study.target.event_ids
    )
    groups = people.risk_groups(cause, n_groups=n_groups)
    gap = np.abs(groups.observed - groups.predicted)
    error = np.nan_to_num(groups.standard_error)
    # Where nothing was observed the estimate has no spread, but the prediction implies one.
    implied = np.sqrt(groups.predicted * (1 - groups.predicted) / groups.n_samples)
    return Calibration(
        cause=cause,
        horizon=float(horizon),
        predicted=groups.predicted,
        observed=groups.observed,
        half_width=_Z95 * error,
        n_people=groups.n_samples,
        p_values=2 * stats.norm.sf(gap / np.maximum(np.maximum(error, implied), 1e-9)),
        error=float(np.average(gap, weights=groups.n_samples)),
        # The mean absolute value of a Gaussian of this standard deviation.
        chance=float(np.average(np.sqrt(2 / np.pi) * error, weights=groups.n_samples)),
        p_value=groups.p_value,
    )


def calibration_horizons(study: Study) -> FloatArray:
    """Times to choose from: the horizons of the assessment, and an early and a late one."""
    times = study.assessment.times[study.assessment.scored]
    seen = study.target.duration[study.target.event > 0]
    ends = np.quantile(seen, [0.1, 0.9])
    nearest = times[np.abs(times - ends[:, None]).argmin(axis=1)]
    return np.unique(np.concatenate([study.horizons, nearest]))


@dataclass(frozen=True)
class RiskGroup:
    """Held-out people of similar predicted risk: what was predicted and what happened, by time."""

    name: str
    n_people: int
    predicted: FloatArray
    observed: FloatArray


def risk_groups(study: Study, code: int) -> list[RiskGroup]:
    """Thirds by predicted incidence of a cause at the middle horizon, at the scored times."""
    outcomes, curves = study.held_out()
    scored = study.assessment.scored
    times = study.assessment.times[scored]
    column = int(np.searchsorted(study.assessment.times, study.middle))
    order = np.argsort(curves[:, code, column], kind="stable")
    groups = []
    names = ("lowest third", "middle third", "highest third")
    for name, rows in zip(names, np.array_split(order, 3), strict=True):
        observed = aalen_johansen(outcomes.take(rows))(times)[:, code]
        predicted = curves[rows][:, code][:, scored].mean(axis=0)
        groups.append(RiskGroup(name, len(rows), predicted, observed))
    return groups


def mean_calibration(study: Study, code: int) -> list[tuple[float, float, float, float]]:
    """Tuples (horizon, mean predicted, observed, 95 % half width) of the held-out people."""
    outcomes, curves = study.held_out()
    marginal = aalen_johansen(outcomes, standard_error=True)
    rows = []
    for horizon in study.horizons:
        column = int(np.searchsorted(study.assessment.times, horizon))
        observed, error = marginal(horizon)[code], marginal.standard_error(horizon)[code]
        predicted = float(curves[:, code, column].mean())
        rows.append((float(horizon), predicted, float(observed), float(_Z95 * error)))
    return rows

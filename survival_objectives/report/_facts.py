"""The numbers of the report, before any of them is written or drawn."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives.assessment import Assessment
from survival_objectives.estimator import SurvivalBoost
from survival_objectives.marginal import aalen_johansen, kaplan_meier_censoring
from survival_objectives.metrics import (
    FewEventsWarning,
    FollowUpWarning,
    calibration_curve,
    one_calibration,
)
from survival_objectives.report._format import number
from survival_objectives.validation import Features, SurvivalTarget, take_rows

__all__ = [
    "Calibration",
    "Column",
    "ExamplePerson",
    "Importance",
    "Incidence",
    "MetricRow",
    "ModelScore",
    "Study",
    "Weighing",
    "calibration",
    "columns",
    "example_people",
    "importance",
    "incidence",
    "mean_calibration",
    "median_follow_up",
    "metric_rows",
    "weighing",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# People looked at where everybody would take long and change no picture.
_N_EXPLAINED = 1000
_N_WEIGHED = 4000
_N_RANKED = 20_000
_BAND_TIMES = 30
_Z95 = 1.959963984540054


@dataclass(frozen=True)
class Study:
    """What the report is about, checked: a model, its data and its assessment.

    ``states`` names the K + 1 curves, the event-free state first.
    """

    model: SurvivalBoost
    X: Any
    features: Features
    target: SurvivalTarget
    assessment: Assessment
    states: tuple[str, ...]

    @property
    def horizons(self) -> FloatArray:
        """The assessment's horizons without repetition."""
        return np.unique(self.assessment.horizons)

    @property
    def middle(self) -> float:
        """The horizon at which calibration and examples are read."""
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

    def held_out(self) -> tuple[SurvivalTarget, FloatArray]:
        """Outcomes of the assessed people, and the assessed model's curves of them."""
        rows, target = self.assessment.index, self.target
        outcomes = SurvivalTarget(target.event[rows], target.duration[rows], target.event_ids)
        return outcomes, self.assessment.curves[self.assessment.main]


# ------------------------------------------------------------------------------------------- data
@dataclass(frozen=True)
class Column:
    """What a column of the features holds."""

    name: str
    kind: str
    missing: float
    n_values: int
    text: str


def columns(features: Features, *, n_levels: int = 4) -> list[Column]:
    """One `Column` a feature: its range, or its most frequent levels."""
    return [_column(features, position, n_levels) for position in range(features.n_features)]


def column_name(features: Features, position: int) -> str:
    """The user's name of a column, or its number."""
    return f"column {position}" if features.names is None else features.names[position]


def _column(features: Features, position: int, n_levels: int) -> Column:
    values = features.values[:, position].astype(np.float64)
    known = values[~np.isnan(values)]
    kinds, counts = np.unique(known, return_counts=True)
    if position in features.categories:
        kind = "categories"
        levels = [str(features.categories[position][int(code)]) for code in kinds]
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
    name = column_name(features, position)
    return Column(name, kind, 1 - len(known) / len(values), len(kinds), text)


def median_follow_up(target: SurvivalTarget) -> float:
    """Median time to censoring by reverse Kaplan-Meier; NaN where it is not reached."""
    curve = kaplan_meier_censoring(target)
    reached = np.flatnonzero(curve.values <= 0.5)
    return float(curve.times[reached[0]]) if len(reached) else float("nan")


@dataclass(frozen=True)
class Incidence:
    """Aalen-Johansen curves of everybody with 95 % limits, (K + 1, n_times)."""

    times: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    at_risk: list[tuple[float, int]]


def incidence(target: SurvivalTarget, times: FloatArray, ticks: FloatArray) -> Incidence:
    """Marginal curves at ``times``, and how many people are under observation at ``ticks``."""
    values = aalen_johansen(target)(times).T
    # Limits change slowly: they are estimated at a few times, and drawn straight in between.
    knots = np.unique(np.linspace(0, len(times) - 1, _BAND_TIMES).astype(np.int64))
    half = np.zeros((len(target.event_ids), len(knots)))
    for row, cause in enumerate(target.event_ids.tolist()):
        for position, knot in enumerate(knots):
            group = _marginal(target, float(times[knot]), cause)
            half[row, position] = _Z95 * group[1]
    width = np.stack([np.interp(times, times[knots], row) for row in half])
    at_risk = [(float(tick), int((target.duration >= tick).sum())) for tick in ticks]
    return Incidence(
        times, values, np.clip(values - width, 0, 1), np.clip(values + width, 0, 1), at_risk
    )


def _marginal(target: SurvivalTarget, time: float, cause: int) -> tuple[float, float]:
    """Incidence of a cause (0: of any event) by a time, and its standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FollowUpWarning)
        group = calibration_curve(
            None,
            target,
            np.zeros((target.n_samples, 1)),
            [time],
            cause=cause,
            n_groups=1,
            method="aalen-johansen",
            event_ids=target.event_ids,
        )
    return float(group.observed[0]), float(np.nan_to_num(group.standard_error[0]))


# ----------------------------------------------------------------------------------------- scores
@dataclass(frozen=True)
class ModelScore:
    """A model by a metric: its values in the folds, and how often the assessed one beats it."""

    model: str
    values: FloatArray
    mean: float
    sd: float
    beaten: int
    best: bool


@dataclass(frozen=True)
class MetricRow:
    """All models by one metric."""

    metric: str
    cause: int
    lower_is_better: bool
    horizon: float | None
    models: list[ModelScore]


def metric_rows(assessment: Assessment) -> list[MetricRow]:
    """Every metric of the assessment, in its order, with the mean over folds."""
    horizon = {
        **dict(
            zip(
                ("concordance_25", "concordance_50", "concordance_75"),
                assessment.horizons.tolist(),
                strict=True,
            )
        ),
        "calibration_error": float(assessment.horizons[1]),
    }
    pairs = assessment.scores[["metric", "cause"]].drop_duplicates()
    rows = []
    for metric, cause in pairs.itertuples(index=False):
        lower = not metric.startswith("concordance")
        scores = _model_scores(assessment, metric, cause, lower)
        rows.append(MetricRow(metric, int(cause), lower, horizon.get(metric), scores))
    return rows


def _model_scores(assessment: Assessment, metric: str, cause: int, lower: bool) -> list[ModelScore]:
    table = assessment.values(metric, cause)
    main = table.loc[assessment.main].to_numpy(np.float64)
    means = [_mean(row) for row in table.to_numpy(np.float64)]
    known = [mean for mean in means if not np.isnan(mean)]
    best = (min(known) if lower else max(known)) if known else float("nan")
    scores = []
    for (name, row), mean in zip(table.iterrows(), means, strict=True):
        values = row.to_numpy(np.float64)
        present = values[~np.isnan(values)]
        ahead = main < values if lower else main > values
        scores.append(
            ModelScore(
                model=str(name),
                values=values,
                mean=mean,
                sd=float(present.std(ddof=1)) if len(present) > 1 else 0.0,
                beaten=int(ahead.sum()),
                best=mean == best,
            )
        )
    return scores


def _mean(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


# ------------------------------------------------------------------------------------ calibration
@dataclass(frozen=True)
class Calibration:
    """Predicted and observed incidence of one cause in groups of held-out people.

    ``error`` is their mean distance, ``chance`` what it would be on average for a perfect model.
    """

    cause: int
    predicted: FloatArray
    observed: FloatArray
    half_width: FloatArray
    n_people: FloatArray
    error: float
    chance: float
    p_value: float


def calibration(study: Study, code: int) -> Calibration:
    """Calibration of the assessed model at the middle horizon, in up to ten groups."""
    outcomes, curves = study.held_out()
    cause = int(study.target.event_ids[code])
    n_groups = int(np.clip(outcomes.n_samples // 40, 2, 10))
    arguments: dict[str, Any] = {
        "horizon": study.middle,
        "cause": cause,
        "n_groups": n_groups,
        "event_ids": study.target.event_ids,
    }
    times = study.assessment.times
    groups = calibration_curve(None, outcomes, curves, times, method="aalen-johansen", **arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewEventsWarning)
        test = one_calibration(None, outcomes, curves, times, **arguments)
    gap = np.abs(groups.observed - groups.predicted)
    return Calibration(
        cause=cause,
        predicted=groups.predicted,
        observed=groups.observed,
        half_width=_Z95 * groups.standard_error,
        n_people=groups.n_samples,
        error=float(np.average(gap, weights=groups.n_samples)),
        # The mean absolute value of a Gaussian of this standard deviation.
        chance=float(
            np.average(np.sqrt(2 / np.pi) * groups.standard_error, weights=groups.n_samples)
        ),
        p_value=test.p_value,
    )


def mean_calibration(study: Study, code: int) -> list[tuple[float, float, float, float]]:
    """Tuples (horizon, mean predicted, observed, 95 % half width) of the held-out people."""
    outcomes, curves = study.held_out()
    rows = []
    for horizon in study.horizons:
        column = int(np.searchsorted(study.assessment.times, horizon))
        observed, error = _marginal(outcomes, float(horizon), int(study.target.event_ids[code]))
        predicted = float(curves[:, code, column].mean())
        rows.append((float(horizon), predicted, observed, _Z95 * error))
    return rows


# ------------------------------------------------------------------------------------- importance
@dataclass(frozen=True)
class Importance:
    """Mean absolute SHAP value of each feature, (n_causes, n_features, n_horizons)."""

    names: list[str]
    horizons: FloatArray
    values: FloatArray
    n_people: int


def importance(study: Study) -> Importance:
    """How far each feature moves the log-odds of each cause against event-free, by horizon."""
    rows = study.sample(_N_EXPLAINED)
    people = take_rows(study.X, rows)
    n_causes, n_features = study.target.n_causes, study.features.n_features
    values = np.empty((n_causes, n_features, len(study.horizons)))
    for position, horizon in enumerate(study.horizons):
        shap = study.model.shap_values(people, float(horizon))[:, :, :n_features]
        if shap.shape[1] > n_causes:
            # One margin a state: log-odds against event-free are differences, and so is their SHAP.
            shap = shap[:, 1:] - shap[:, :1]
        values[:, :, position] = np.abs(shap).mean(axis=0)
    names = [column_name(study.features, position) for position in range(n_features)]
    return Importance(names, study.horizons, values, len(rows))


# --------------------------------------------------------------------------------- example people
@dataclass(frozen=True)
class ExamplePerson:
    """A person of the data, by where their predicted risk stands among all."""

    title: str
    standing: str
    features: list[tuple[str, str]]
    curves: FloatArray


def example_people(study: Study, times: FloatArray, shown: list[int]) -> list[ExamplePerson]:
    """People at low, median and high predicted incidence of the first cause.

    ``shown`` are the columns to tell about them.
    """
    rows = study.sample(_N_RANKED)
    risk = study.model.predict_proba(take_rows(study.X, rows), study.middle)[:, 1]
    order = rows[np.argsort(risk, kind="stable")]
    people = []
    for title, quantile in (("Low risk", 0.1), ("Median risk", 0.5), ("High risk", 0.9)):
        row = order[round(quantile * (len(order) - 1))]
        curves = study.model.predict_cumulative_incidence(take_rows(study.X, row[None]), times)[0]
        values = [(column_name(study.features, c), _value(study.features, row, c)) for c in shown]
        standing = f"predicted risk above that of {quantile:.0%} of people"
        people.append(ExamplePerson(title, standing, values, curves))
    return people


def _value(features: Features, row: int, position: int) -> str:
    value = float(features.values[row, position])
    if np.isnan(value):
        return "missing"
    if position in features.categories:
        return str(features.categories[position][int(value)])
    return number(value)


# ---------------------------------------------------------------------------------------- weights
@dataclass(frozen=True)
class Weighing:
    """How the inverse-probability weights of the model spread over people, by horizon.

    ``known`` is the share of people whose state at the time is known, ``effective`` the number of
    equal weights that theirs are worth, as a share of all people.
    """

    times: FloatArray
    known: FloatArray
    effective: FloatArray
    largest: FloatArray
    floored: FloatArray
    floor: float


def weighing(study: Study, *, n_times: int = 24) -> Weighing:
    """Weights (20) of the metrics with the model's own censoring probabilities and floor."""
    rows = study.sample(_N_WEIGHED)
    people, floor = take_rows(study.X, rows), float(study.model.min_censoring_survival)
    duration, event = study.target.duration[rows], study.target.event[rows]
    times = np.unique(np.append(np.linspace(0, study.last, n_times + 1)[1:], study.horizons))
    shape = (len(rows), len(times))
    censoring = study.model.censoring_
    at_time = censoring.survival(np.broadcast_to(times, shape), people)
    at_exit = censoring.survival(duration, people, left=True)
    stayed = duration[:, None] > times
    counts = stayed | (event > 0)[:, None]
    uncensored = np.where(stayed, at_time, at_exit[:, None])
    weight = np.where(counts, 1 / np.maximum(uncensored, floor), 0.0)
    total, squares = weight.sum(axis=0), (weight**2).sum(axis=0)
    effective = np.divide(total**2, squares, out=np.zeros(len(times)), where=squares > 0)
    n_known = counts.sum(axis=0)
    floored = (counts & (uncensored < floor)).sum(axis=0)
    return Weighing(
        times=times,
        known=n_known / len(rows),
        effective=effective / len(rows),
        largest=weight.max(axis=0),
        floored=floored / np.maximum(n_known, 1),
        floor=floor,
    )

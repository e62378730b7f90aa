"""What predictions rest on: the importance of columns, and people as examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import Features, take_rows
from survival_objectives.report._facts import Study, column_name
from survival_objectives.report._format import number

# Numbers of people used where all would take long and change no chart.
_N_EXPLAINED = 250
_N_RANKED = 20_000
_LEAST_LEVEL = 0.02
# Rank correlation of values and effects from which on "higher raises" is a fair summary.
_ONE_WAY = 0.5
#: Of the bands beside probabilities.
CONFIDENCE = 0.9


@dataclass(frozen=True)
class Importance:
    """Mean absolute SHAP value of each feature, (n_causes, n_features, n_horizons).

    ``direction`` says in words what raises the odds at the middle horizon, (n_causes, n_features);
    ``sign`` is 1 where higher values raise them, -1 where they lower them, else 0.
    """

    names: list[str]
    horizons: FloatArray
    values: FloatArray
    direction: list[list[str]]
    sign: IntArray
    n_people: int


def importance(study: Study) -> Importance:
    """How far each feature moves the log-odds of each cause against event-free, by horizon."""
    rows = study.sample(_N_EXPLAINED)
    people = take_rows(study.X, rows)
    n_features = study.features.n_features
    shap = study.model.shap_values(people, study.horizons)[:, :n_features]
    values = np.abs(shap).mean(axis=0).transpose(2, 0, 1)
    middle = shap[:, :, study.horizons == study.middle][:, :, 0].transpose(2, 0, 1)
    directions = [
        [
            _direction(study.features, rows, feature, effects[:, feature])
            for feature in range(n_features)
        ]
        for effects in middle
    ]
    names = [column_name(study.features, position) for position in range(n_features)]
    return Importance(
        names,
        study.horizons,
        values,
        [[text for _, text in row] for row in directions],
        np.array([[sign for sign, _ in row] for row in directions], np.int64),
        len(rows),
    )


def _direction(
    features: Features, rows: IntArray, position: int, effect: FloatArray
) -> tuple[int, str]:
    """Sign and description of the association between a column's values and their effects."""
    values = features.values[rows, position].astype(np.float64)
    known = ~np.isnan(values)
    values, effect = values[known], effect[known]
    kinds, group = np.unique(values, return_inverse=True)
    if len(kinds) < 2 or np.ptp(effect) == 0:
        return 0, "no effect"
    if position in features.categories:
        counts = np.bincount(group)
        means = np.bincount(group, weights=effect) / counts
        # A level that few people have would be named by chance.
        often = np.flatnonzero(counts >= max(5, _LEAST_LEVEL * len(values)))
        if len(often) < 2:
            return 0, "differs by level"
        levels = features.categories[position]
        highest = levels[int(kinds[often[means[often].argmax()]])]
        lowest = levels[int(kinds[often[means[often].argmin()]])]
        return 0, f"highest for {highest}, lowest for {lowest}"
    correlation = float(stats.spearmanr(values, effect).statistic)
    if abs(correlation) < _ONE_WAY:
        return 0, "up and down"
    is_yes_no = bool(np.isin(kinds, (0.0, 1.0)).all())
    subject = "yes" if is_yes_no else "higher"
    return (1, f"{subject} raises it") if correlation > 0 else (-1, f"{subject} lowers it")


# --------------------------------------------------------------------------------- example people
@dataclass(frozen=True)
class ExamplePerson:
    """A person of the data, chosen by the rank of the predicted risk.

    ``limits`` are the lower and upper end of the bands of the curves, None without bands.
    """

    title: str
    standing: str
    features: list[tuple[str, str]]
    curves: FloatArray
    limits: FloatArray | None


def example_people(
    study: Study, times: FloatArray, shown: list[int], *, real: bool
) -> list[ExamplePerson]:
    """People at low, median and high predicted incidence of the first cause.

    ``shown`` are the columns to show. Without ``real`` the curves are means of a tenth
    of the people around them, and no columns are shown.
    """
    rows = study.sample(_N_RANKED)
    risk = study.model.predict_proba(take_rows(study.X, rows), study.middle)[:, 1]
    order = rows[np.argsort(risk, kind="stable")]
    people = []
    for title, quantile in (("Low risk", 0.1), ("Median risk", 0.5), ("High risk", 0.9)):
        place = round(quantile * (len(order) - 1))
        around = 0 if real else max(1, len(order) // 20)
        chosen = order[max(0, place - around) : place + around + 1]
        X, limits = take_rows(study.X, chosen), None
        curves = study.model.predict_cumulative_incidence(X, times)
        if real:
            if study.model.fitted_model.has_bands:
                band = study.model.predict_cumulative_incidence(X, times, confidence=CONFIDENCE)
                limits = np.stack([band.lower[0], band.upper[0]])
            features, person = study.features, chosen[0]
            values = [
                (column_name(features, column), feature_value(features, person, column))
                for column in shown
            ]
            standing = f"predicted risk above that of {quantile:.0%} of people"
        else:
            values = []
            standing = (
                f"mean of {len(chosen)} people whose risk is above that of about {quantile:.0%}"
            )
        people.append(ExamplePerson(title, standing, values, curves.mean(axis=0), limits))
    return people


def feature_value(features: Features, row: int, position: int, *, is_date: bool = False) -> str:
    """A value as it is shown; a date is in days since 1970-01-01."""
    value = float(features.values[row, position])
    if np.isnan(value):
        return "missing"
    if is_date:
        return str(np.datetime64(int(value), "D"))
    if position in features.categories:
        return str(features.categories[position][int(value)])
    return number(value)

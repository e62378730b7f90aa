"""Scores of held-out curves, fold by fold, and their errors over all folds."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from operator import itemgetter

import numpy as np
import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import SurvivalTarget
from survival_objectives.assessment._design import Design
from survival_objectives.assessment._folds import Fold, outcomes_of
from survival_objectives.metrics import Estimate, Evaluation, FollowUpWarning
from survival_objectives.metrics._estimate import estimate
from survival_objectives.metrics._influence import Influence

#: Names of the concordance at the three horizons.
CONCORDANCE = ("concordance_25", "concordance_50", "concordance_75")
# Few groups, because a fold has few people: with many groups, noise looks like miscalibration.
_N_GROUPS = 5
_Z95 = 1.959963984540054


def scored(
    curves: dict[str, FloatArray],
    index: IntArray,
    fold: IntArray,
    target: SurvivalTarget,
    folds: list[Fold],
    design: Design,
    errors: Errors,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tidy scores, and Brier scores over time; ``errors`` collects the influence of people."""
    scores: list[tuple[str, int, str, int, float]] = []
    over_time = []
    labels = target.event_ids.tolist()
    times, scored, horizons = design.times, design.scored, design.horizons
    for position, part in enumerate(folds):
        people = fold == position
        test = index[people]
        y_train, y_test = outcomes_of(target, part.train), outcomes_of(target, test)
        for name, all_curves in curves.items():
            own = all_curves[people][:, :, scored]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FollowUpWarning)
                brier = np.full((len(labels), len(times)), np.nan)
                whole = Evaluation(y_train, y_test, own, times[scored], event_ids=labels)
                brier[:, scored] = whole.brier().value
                values = []
                at = own[:, :, np.searchsorted(times[scored], horizons)]
                few = Evaluation(y_train, y_test, at, horizons, event_ids=labels)
                for metric, cause, influence in _fold_influences(whole, few):
                    errors.add((name, metric, cause), influence, test, part.train)
                    values.append((metric, cause, float(influence.value)))
                values += _calibration_errors(few, horizons[1])
            scores.extend((name, position, *row) for row in values)
            over_time.append(
                pd.DataFrame(
                    {
                        "model": name,
                        "fold": position,
                        "cause": np.repeat(labels, len(times)),
                        "time": np.tile(times, len(labels)),
                        "value": brier.ravel(),
                    }
                )
            )
    columns = ["model", "fold", "metric", "cause", "value"]
    return pd.DataFrame(scores, columns=columns), pd.concat(over_time, ignore_index=True)


def _fold_influences(whole: Evaluation, few: Evaluation) -> Iterator[tuple[str, int, Influence]]:
    """Triples (metric, cause, score with the influence of people) of one model in one fold.

    ``whole`` has all times, ``few`` the three horizons.
    """
    labels = whole.event_ids.tolist()
    by_state = _influence(whole.brier(integrated=True))
    yield "integrated_brier_score", 0, by_state.map(lambda parts: parts.mean(axis=1))
    # With a single cause it equals the score of the event-free state, and so the mean.
    if len(labels) > 2:
        for state, cause in enumerate(labels[1:], start=1):
            yield "integrated_brier_score", cause, by_state.map(itemgetter((slice(None), state)))
    yield "integrated_log_loss", 0, _influence(whole.log_loss(integrated=True))
    for cause in labels[1:]:
        index = _influence(few.concordance(cause))
        for column, metric in enumerate(CONCORDANCE):
            yield metric, cause, index.map(itemgetter((slice(None), column)))


def _influence(found: Estimate) -> Influence:
    assert found.influence is not None
    return found.influence


def _calibration_errors(few: Evaluation, horizon: float) -> list[tuple[str, int, float]]:
    values = []
    for cause in few.event_ids[1:].tolist():
        groups = few.risk_groups(cause, float(horizon), n_groups=_N_GROUPS)
        gap = np.abs(groups.observed - groups.predicted)
        error = float(np.average(gap, weights=groups.n_samples))
        values.append(("calibration_error", cause, error))
    return values


class Errors:
    """Influence of every person on the mean over folds of every score.

    Each person contributes to the fold that holds them out and to the censoring weights of others.
    Rows of one ``group`` contribute together.
    """

    def __init__(self, n_samples: int, n_assessed: int, group: IntArray | None = None) -> None:
        self._n_samples, self._n_assessed, self._group = n_samples, n_assessed, group
        self._parts: dict[tuple[str, str, int], FloatArray] = {}
        self._values: dict[tuple[str, str, int], list[float]] = {}

    def add(
        self, key: tuple[str, str, int], influence: Influence, test: IntArray, train: IntArray
    ) -> None:
        """Add one fold; a fold without a value is left out of the mean."""
        parts = self._parts.setdefault(key, np.zeros(self._n_samples))
        values = self._values.setdefault(key, [])
        if np.isnan(influence.value):
            return
        values.append(float(influence.value))
        parts[test] += influence.people
        if influence.training is not None:
            parts[train] += influence.training

    def _mean(self, key: tuple[str, str, int]) -> Influence:
        n_folds = len(self._values[key])
        if n_folds == 0:
            unknown = np.full(self._n_samples, np.nan)
            return Influence(np.array(np.nan), unknown, None)
        # The factor n / (n - 1) of the variance uses the number of people assessed.
        few = np.sqrt((1 - 1 / self._n_samples) / (1 - 1 / self._n_assessed))
        parts = self._parts[key] * (few / n_folds)
        if self._group is not None:
            parts = np.bincount(self._group, weights=parts)
        return Influence(np.array(np.mean(self._values[key])), parts, None)

    def estimates(self) -> pd.DataFrame:
        """Means over folds, with standard errors and 95 % intervals."""
        rows = []
        for key in self._parts:
            mean = self._mean(key)
            value, error = float(mean.value), float(np.sqrt(mean.variance()))
            rows.append((*key, value, error, value - _Z95 * error, value + _Z95 * error))
        columns = ["model", "metric", "cause", "value", "standard_error", "lower", "upper"]
        return pd.DataFrame(rows, columns=columns)

    def comparisons(self) -> pd.DataFrame:
        """Differences between every two models, with 95 % intervals and p-values."""
        rows = []
        for first, second in itertools.permutations(self._parts, 2):
            (model, *score), (reference, *other_score) = first, second
            if model == reference or score != other_score:
                continue
            found = estimate(self._mean(first) - self._mean(second))
            values = (
                found.value,
                found.standard_error,
                found.lower,
                found.upper,
                found.p_value,
            )
            rows.append((model, reference, *score, *map(float, values)))
        columns = ["model", "reference", "metric", "cause", "difference", "standard_error"]
        return pd.DataFrame(rows, columns=[*columns, "lower", "upper", "p_value"])

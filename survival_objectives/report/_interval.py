"""Whether two models differ by more than chance, on the same held-out people.

This is the only place of the report where an interval for a difference of scores is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from survival_objectives._arrays import FloatArray
from survival_objectives._people import SurvivalTarget
from survival_objectives.assessment import Assessment
from survival_objectives.marginal import kaplan_meier_censoring
from survival_objectives.metrics._scores import integrated_score

_LEVEL = 0.95
# Scores nearer than this share of each other are a tie, however certain the difference is.
_TIE = 0.01


@dataclass(frozen=True)
class Interval:
    """An estimate with 95 % limits; infinite limits where there is nothing to judge by."""

    estimate: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether chance alone is an unlikely explanation."""
        return self.low > 0 or self.high < 0

    def is_clear(self, reference: float) -> bool:
        """Whether a difference of scores is a finding: beyond chance, and not a tie.

        ``reference`` is the score of the model that is compared with.

        >>> Interval(-0.0008, -0.0012, -0.0004).is_clear(0.1031)
        False
        """
        return self.excludes_zero and abs(self.estimate) > _TIE * abs(reference)

    def scaled(self, factor: float) -> Interval:
        """The same in another unit."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.estimate * factor, low, high)


def brier_difference(
    assessment: Assessment, target: SurvivalTarget, one: str, other: str
) -> Interval:
    """Integrated Brier score of ``one`` minus that of ``other``, from paired differences of people.

    The limits hold for the models as they were trained: they show how much another draw of
    held-out people would change the difference. They are those of the assessment, in which the
    estimation of the censoring weights counts; where it has none, weights are taken as known.
    """
    known = assessment.comparisons
    if len(known):
        is_pair = (known["model"] == one) & (known["reference"] == other)
        row = known[is_pair & (known["metric"] == "integrated_brier_score") & (known["cause"] == 0)]
        if len(row) == 1 and np.isfinite(row["standard_error"].item()):
            limits = (row[name].item() for name in ("difference", "lower", "upper"))
            return Interval(*limits)
    gap = person_scores(assessment, target, one) - person_scores(assessment, target, other)
    if len(gap) < 2:
        return Interval(float(gap.mean()), -np.inf, np.inf)
    # Folds count equally in the assessment, whatever their size.
    by_fold = [gap[assessment.fold == fold] for fold in np.unique(assessment.fold)]
    estimate = float(np.mean([part.mean() for part in by_fold]))
    half = stats.norm.ppf((1 + _LEVEL) / 2) * float(gap.std(ddof=1)) / np.sqrt(len(gap))
    return Interval(estimate, estimate - half, estimate + half)


def person_scores(assessment: Assessment, target: SurvivalTarget, model: str) -> FloatArray:
    """What each held-out person adds to the integrated Brier score over all states.

    The mean over the people of a fold is ``integrated_brier_score`` of the assessment.
    """
    times = assessment.times[assessment.scored]
    curves = assessment.curves[model][:, :, assessment.scored]
    event, duration = target.event[assessment.index], target.duration[assessment.index]
    scores = np.empty(len(event))
    for fold in np.unique(assessment.fold):
        people = assessment.fold == fold
        trained = np.setdiff1d(np.arange(target.n_samples), assessment.index[people])
        uncensored = kaplan_meier_censoring(target.take(trained))
        stayed = duration[people, None] > times
        counts = stayed | (event[people] > 0)[:, None]
        at_exit = uncensored(duration[people], left=True)[:, None]
        probability = np.where(stayed, uncensored(times), at_exit)
        weight = np.divide(1.0, probability, out=np.zeros(stayed.shape), where=counts)
        loss = np.zeros(stayed.shape)
        for state in range(curves.shape[1]):
            outcome = stayed if state == 0 else ~stayed & (event[people] == state)[:, None]
            loss += (curves[people, state] - outcome) ** 2
        scores[people] = integrated_score(weight * loss / curves.shape[1], times)
    return scores


def fold_difference(
    assessment: Assessment, metric: str, cause: int, one: str, other: str
) -> Interval:
    """Mean over folds of a score of ``one`` minus that of ``other``.

    Training parts of folds overlap, so that their scores vary less than those of new data would;
    the variance is corrected for it (Nadeau and Bengio, 2003).
    """
    table = assessment.values(metric, cause)
    gap = (table.loc[one] - table.loc[other]).to_numpy(np.float64)
    gap = gap[~np.isnan(gap)]
    n_folds = len(gap)
    if n_folds < 3:
        estimate = float(gap.mean()) if n_folds else float("nan")
        return Interval(estimate, -np.inf, np.inf)
    variance = float(gap.var(ddof=1)) * (1 / n_folds + 1 / (assessment.n_splits - 1))
    half = float(stats.t.ppf((1 + _LEVEL) / 2, n_folds - 1)) * np.sqrt(variance)
    estimate = float(gap.mean())
    return Interval(estimate, estimate - half, estimate + half)

"""Validation of predicted incidences: proper scores, discrimination, calibration, decisions.

`Evaluation` has all of it, with standard errors and limits, for the predictions of any package; the
functions give the common scores as numbers. Equations continue the numbering of the training
modules, from (20).
"""

from survival_objectives.metrics._estimate import Estimate
from survival_objectives.metrics._evaluation import Evaluation
from survival_objectives.metrics._functions import (
    brier_score,
    concordance_index,
    integrated_brier_score,
    likelihood_score,
    time_dependent_auc,
)
from survival_objectives.metrics._inputs import FollowUpWarning
from survival_objectives.metrics._scorers import make_survival_scorer

__all__ = [
    "Estimate",
    "Evaluation",
    "FollowUpWarning",
    "brier_score",
    "concordance_index",
    "integrated_brier_score",
    "likelihood_score",
    "make_survival_scorer",
    "time_dependent_auc",
]

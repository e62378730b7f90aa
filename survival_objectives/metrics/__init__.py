"""Evaluation of predicted incidences: proper scores, discrimination, calibration, time errors.

All metrics are called alike, ``metric(censoring, y_test, incidence, times, *, ...)``, and work on
the predictions of any package. ``incidence`` is (n_samples, K + 1, n_times) with the event-free
probability at index 0, or (n_samples, n_times) for one curve per person; see `weighted_score` for
all arguments. Equations continue the numbering of the training modules, from (20).
"""

from survival_objectives.metrics._accuracy import accuracy_in_time
from survival_objectives.metrics._calibration import (
    CalibrationTest,
    aj_calibration,
    d_calibration,
    km_calibration,
    x_calibration,
)
from survival_objectives.metrics._concordance import (
    concordance_index,
    time_dependent_auc,
    uno_concordance_index,
)
from survival_objectives.metrics._inference import (
    ScoreDifference,
    ScoreEstimate,
    score_difference,
    score_estimate,
)
from survival_objectives.metrics._inputs import FollowUpWarning
from survival_objectives.metrics._integrals import (
    integrated_brier_score,
    integrated_cause_log_loss,
    integrated_log_loss,
    integrated_score,
)
from survival_objectives.metrics._likelihood import cen_log_simple_score
from survival_objectives.metrics._risk_groups import (
    CalibrationCurve,
    FewEventsWarning,
    calibration_curve,
    one_calibration,
    pseudo_observations,
)
from survival_objectives.metrics._scorers import (
    SurvivalScorer,
    auc_scorer,
    concordance_scorer,
    integrated_brier_scorer,
    integrated_log_loss_scorer,
    make_survival_scorer,
)
from survival_objectives.metrics._scores import (
    brier_score,
    cause_log_loss,
    log_loss,
    weighted_score,
)
from survival_objectives.metrics._time_errors import (
    event_time,
    mean_absolute_time_error,
    mean_squared_time_error,
)

__all__ = [
    "CalibrationCurve",
    "CalibrationTest",
    "FewEventsWarning",
    "FollowUpWarning",
    "ScoreDifference",
    "ScoreEstimate",
    "SurvivalScorer",
    "accuracy_in_time",
    "aj_calibration",
    "auc_scorer",
    "brier_score",
    "calibration_curve",
    "cause_log_loss",
    "cen_log_simple_score",
    "concordance_index",
    "concordance_scorer",
    "d_calibration",
    "event_time",
    "integrated_brier_score",
    "integrated_brier_scorer",
    "integrated_cause_log_loss",
    "integrated_log_loss",
    "integrated_log_loss_scorer",
    "integrated_score",
    "km_calibration",
    "log_loss",
    "make_survival_scorer",
    "mean_absolute_time_error",
    "mean_squared_time_error",
    "one_calibration",
    "pseudo_observations",
    "score_difference",
    "score_estimate",
    "time_dependent_auc",
    "uno_concordance_index",
    "weighted_score",
    "x_calibration",
]

"""Pictures of predictions, scores, weights and training, from plain arrays (matplotlib)."""

from survival_objectives.plots._data import GroupIncidence, group_incidence
from survival_objectives.plots._plots import (
    PALETTE,
    plot_accuracy,
    plot_brier,
    plot_calibration,
    plot_group_incidence,
    plot_history,
    plot_importance,
    plot_stacked_incidence,
    plot_weights,
)
from survival_objectives.plots._uncertainty import plot_bands, plot_sensitivity
from survival_objectives.plots._validation import plot_net_benefit, plot_subgroups

__all__ = [
    "PALETTE",
    "GroupIncidence",
    "group_incidence",
    "plot_accuracy",
    "plot_bands",
    "plot_brier",
    "plot_calibration",
    "plot_group_incidence",
    "plot_history",
    "plot_importance",
    "plot_net_benefit",
    "plot_sensitivity",
    "plot_stacked_incidence",
    "plot_subgroups",
    "plot_weights",
]

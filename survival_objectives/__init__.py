"""Survival analysis and competing risks as a custom objective for gradient boosting engines."""

from survival_objectives import _threads as _threads
from survival_objectives._version import __version__
from survival_objectives.estimator import SurvivalBoost
from survival_objectives.frames import outcomes_frame
from survival_objectives.hazard_boost import HazardBoost

__all__ = ["HazardBoost", "SurvivalBoost", "__version__", "outcomes_frame"]

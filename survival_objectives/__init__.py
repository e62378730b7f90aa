"""Survival analysis and competing risks as a custom objective for gradient boosting engines."""

from survival_objectives._version import __version__
from survival_objectives.estimator import SurvivalBoost
from survival_objectives.frames import outcomes_frame

__all__ = ["SurvivalBoost", "__version__", "outcomes_frame"]

"""Survival analysis and competing risks as a custom objective for gradient boosting engines."""

from survival_objectives.estimator import SurvivalBoost

__version__ = "0.1.0"

__all__ = ["SurvivalBoost", "__version__"]

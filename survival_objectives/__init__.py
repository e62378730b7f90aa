"""Survival analysis and competing risks as a custom objective for gradient boosting engines."""

# First: it sets how OpenMP threads wait, before an engine or scikit-learn is imported.
from survival_objectives._process import running as _running  # noqa: F401

# isort: split
from survival_objectives._models.recalibration import recalibrate
from survival_objectives._people.outcomes import outcomes_frame
from survival_objectives._version import __version__
from survival_objectives.estimators import HazardBoost, SurvivalBoost, load

__all__ = ["HazardBoost", "SurvivalBoost", "__version__", "load", "outcomes_frame", "recalibrate"]

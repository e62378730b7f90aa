"""Held-out scores of a model, next to baselines on the same folds."""

# First: it sets how OpenMP threads wait, before scikit-learn is imported.
from survival_objectives._process import running as _running  # noqa: F401

# isort: split
from survival_objectives.assessment._assess import Assessment, assess

__all__ = ["Assessment", "assess"]

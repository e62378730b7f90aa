"""Held-out scores of a model, next to baselines on the same folds."""

from survival_objectives.assessment._assess import Assessment, assess, check_assessable

__all__ = ["Assessment", "assess", "check_assessable"]

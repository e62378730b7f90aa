"""A fitted model, handed from the estimator that trained it to a plain one."""

from __future__ import annotations

from collections.abc import Collection

from survival_objectives.estimator import SurvivalBoost

__all__ = ["hand_over"]


def hand_over(trained: SurvivalBoost, model: SurvivalBoost, private: Collection[str]) -> None:
    """Give ``model`` what ``trained`` learnt, except for what is named in ``private``."""
    settings = {*trained.get_params(), *model.get_params()}
    for name in [name for name in vars(model) if name not in settings]:
        delattr(model, name)
    learnt = {
        name: value
        for name, value in vars(trained).items()
        if name not in settings and name not in private
    }
    model.__dict__.update(learnt)
    model._restore_models()

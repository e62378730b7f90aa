"""A fitted model, handed from the estimator that trained it to a plain one."""

from __future__ import annotations

from survival_objectives._boosters import finished_boosters
from survival_objectives.estimator import SurvivalBoost

__all__ = ["hand_over"]


def hand_over(
    trained: SurvivalBoost, model: SurvivalBoost, *, own_parameters: bool = False
) -> None:
    """Give ``model`` what ``trained`` learnt.

    With ``own_parameters`` it counts as fitted with the parameters of ``model``.
    """
    fitted = trained._model
    if own_parameters:
        fitted = fitted.with_frame(parameters=model._snapshot())
    model._set_model(fitted.wrapped(finished_boosters(fitted.frame, fitted.record.method)))

"""Boosters that evaluate finished models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from survival_objectives._engines.constraints import INTERACTION, MONOTONE
from survival_objectives._engines.protocol import Booster, TreeSettings, engine
from survival_objectives._models.fitted import BoosterMaker, ModelFrame


def censoring_settings(trees: TreeSettings) -> TreeSettings:
    """Trees of the censoring model: shallower, as its errors multiply those of the events.

    It is monotone whatever the events are: a probability of staying uncensored falls in time.
    Constraints on features are about the events, and do not hold for it.
    """
    own = {
        name: value
        for name, value in trees.engine_params.items()
        if name not in (MONOTONE, INTERACTION)
    }
    return replace(
        trees, n_causes=1, max_depth=max(1, trees.max_depth - 1), monotone=True, engine_params=own
    )


def finished_boosters(frame: ModelFrame) -> BoosterMaker:
    """Makes boosters that evaluate finished models; settings of training have no effect there."""
    used = engine(frame.engine)
    settings = TreeSettings(frame.schema, frame.n_causes, 1, 1, 0, 0, 1, 1, False, 0, frame.n_jobs)

    def new_booster(model: Any, *, censoring: bool = False) -> Booster:
        return used.new_booster(censoring_settings(settings) if censoring else settings, model)

    return new_booster

"""Settings of the trees of each method, and boosters that evaluate finished models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from survival_objectives._engines.constraints import INTERACTION, MONOTONE
from survival_objectives._engines.protocol import Booster, Engine, TreeSettings, engine
from survival_objectives._models.fitted import BoosterMaker, ModelFrame
from survival_objectives._people import Features
from survival_objectives._training.parameters import HAZARDS, by_method


def tree_settings(
    used: Engine,
    schema: Features,
    n_causes: int,
    method: str,
    parameters: Mapping[str, Any],
    seed: int,
) -> TreeSettings:
    """Settings of the trees of a method, from the parameters of an estimator."""
    given = by_method(parameters, method, used.name)
    settings = TreeSettings.of(given, schema, n_causes, seed)
    own = used.settings.resolved(settings.engine_params)
    if method != HAZARDS:
        return replace(settings, engine_params=own)
    # Hazards are positive: their curves are monotone without any constraint.
    return replace(
        settings, n_horizons=1, monotone=False, engine_params={**used.coarse_bins, **own}
    )


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


def finished_boosters(frame: ModelFrame, method: str) -> BoosterMaker:
    """Makes boosters that evaluate finished models, with the parameters of a frame."""
    used = engine(frame.engine)
    settings = tree_settings(used, frame.schema, frame.n_causes, method, frame.parameters, 0)

    def new_booster(model: Any, *, censoring: bool = False) -> Booster:
        return used.new_booster(censoring_settings(settings) if censoring else settings, model)

    return new_booster

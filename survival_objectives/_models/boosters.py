"""Settings of the trees of each method."""

from __future__ import annotations

from dataclasses import replace

from survival_objectives._engines.constraints import INTERACTION, MONOTONE
from survival_objectives._engines.protocol import TreeSettings


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

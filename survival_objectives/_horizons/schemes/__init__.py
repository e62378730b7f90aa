r"""Schemes for people who were censored before a horizon, one class per scheme.

- `KaplanMeierScheme`: the others are weighted by 1/G, with one marginal curve G of censoring;
- `OwnCensoringScheme`: the same, with a censoring model of the user's own;
- `AlternatingScheme`: the same, with a boosted model of censoring that is trained alternately with
  the event model, whose survival gives its weights (Algorithms 1-3);
- `DoublyRobustScheme`: rows of all people, with targets from both models;
- `ImputedScheme`: states are drawn for the rows of censored people, from the marginal curves at
  first, then from the event model itself. No weight grows as 1/G;
- `CompletedScheme`: the rows of censored people have distributions over the states as targets,
  from a model of the incidences.

A scheme gives targets and weights for the next rounds of the event model, which is trained by the
estimator's loop (`survival_objectives._horizons.loop`) or, in the plugin, by the user's own call
of an engine (`survival_objectives._plugin.alternation`). Both pass `EventMargins`, and a
`CensoringBooster` if the scheme trains a model of censoring.

Weights are divided by `WeightSettings.weight_divisor`. The estimator divides by the number of
horizons, so that the total weight of a person is about 1 in every round: rows of one person are
not independent, and leaf regularisation should count people. In the plugin the user chooses the
regularisation, and rows count 1.
"""

from __future__ import annotations

from survival_objectives._horizons.schemes.completed import (
    CompletedScheme,
    DoublyRobustScheme,
    ImputedScheme,
)
from survival_objectives._horizons.schemes.weighted import (
    AlternatingScheme,
    CensoringBooster,
    CensoringScheme,
    Chunk,
    EventMargins,
    KaplanMeierScheme,
    OwnCensoringScheme,
    TargetsAndWeights,
    WeightSettings,
)

__all__ = [
    "AlternatingScheme",
    "CensoringBooster",
    "CensoringScheme",
    "Chunk",
    "CompletedScheme",
    "DoublyRobustScheme",
    "EventMargins",
    "ImputedScheme",
    "KaplanMeierScheme",
    "OwnCensoringScheme",
    "TargetsAndWeights",
    "WeightSettings",
]

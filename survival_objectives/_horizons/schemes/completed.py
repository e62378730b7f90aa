"""Targets of the rows of censored people: distributions of a completion model, or states.

`ImputedScheme` draws the states, later from the event model itself.
"""

from __future__ import annotations

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._horizons.completion import (
    Incidence,
    completed_targets,
    states_after_censoring,
)
from survival_objectives._horizons.rows import BatchReader, joined
from survival_objectives._horizons.schemes.base import (
    CensoringScheme,
    Chunk,
    TargetsAndWeights,
    WeightSettings,
)
from survival_objectives._people.cohort import Outcomes
from survival_objectives.losses import probabilities
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import (
    TimeStacker,
    all_rows,
    conditional_incidence,
    drawn_states,
    rows_after_censoring,
)


class AllRowsScheme(CensoringScheme):
    """A scheme with targets for the rows of censored people, so that no row needs a weight 1/G.

    Parameters
    ----------
    settings : WeightSettings
    marginal : StepFunction
        Aalen-Johansen curves of the population, (n_steps, K + 1).
    """

    event_rows = staticmethod(all_rows)

    def __init__(self, settings: WeightSettings, marginal: StepFunction) -> None:
        super().__init__(settings)
        self._marginal = marginal

    def state_weights(self, outcomes: Outcomes, stacker: TimeStacker) -> FloatArray:
        """Total weight of each state on newly drawn rows, by the marginal curves."""
        stack = stacker.draw(outcomes.target)
        states = self._marginal(stack.horizon)
        weight = np.ones(outcomes.n_samples) if outcomes.weight is None else outcomes.weight
        total: FloatArray = weight[stack.person] @ states
        return total

    def held_out_until(self, last: float) -> float:
        """The latest held-out horizon; later, a weighted loss is too noisy."""
        curve = self._settings.kaplan_meier.curve_
        unseen = curve.times[(curve.values < self._settings.floor) & (curve.times > 0)]
        return min(last, float(unseen[0])) if len(unseen) else last


class CompletedScheme(AllRowsScheme):
    """Distributions (46) of a completion model as targets; it is evaluated once per draw.

    Parameters
    ----------
    settings, marginal
        As in `AllRowsScheme`.
    incidence : callable
        ``incidence(people, times)`` gives curves of training people by their positions.
    """

    def __init__(
        self, settings: WeightSettings, marginal: StepFunction, incidence: Incidence
    ) -> None:
        super().__init__(settings, marginal)
        self._incidence = incidence
        self._known: dict[int, Float32Array] = {}

    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """Distributions over the states, and weights without a censoring adjustment."""
        number, weights = chunk.draw.number, []
        for rows in chunk.rows():
            if number not in self._known:
                axis = self._settings.axis
                states = states_after_censoring(self._incidence, rows.target, rows.events, axis)
                self._known[number] = completed_targets(rows.target, rows.events, *states)
            weights.append(self.row_weight(rows))
        return self._known[number], joined(weights, np.float32)


class ImputedScheme(AllRowsScheme):
    """States that are drawn for the rows of censored people, equation (15).

    Draws are new for every chunk.

    Parameters
    ----------
    settings : WeightSettings
    marginal : StepFunction
        Aalen-Johansen curves of the population, (n_steps, K + 1).
    n_marginal_rounds : int
        Rounds during which states are drawn from these curves, and afterwards from the model.
    seed : int
        Of the draws.
    """

    uses_probes = True

    def __init__(
        self, settings: WeightSettings, marginal: StepFunction, n_marginal_rounds: int, seed: int
    ) -> None:
        super().__init__(settings, marginal)
        self._seed = seed
        # Marginal draws teach that features have no effect, which later rounds must correct.
        self.n_warm_up_rounds = n_marginal_rounds

    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """States, some of them drawn, and weights without a censoring adjustment."""
        events = chunk.events
        by_model = events.n_rounds >= self.n_warm_up_rounds
        if by_model:
            margin, probes = BatchReader(events.at_horizons()), BatchReader(events.at_probes())
            self.refreshed_rounds.append(events.n_rounds)
        # Seeded by chunk, so that a resumed training repeats the draws of an uninterrupted one.
        generator = np.random.default_rng([self._seed, chunk.number])
        targets, weights = [], []
        for rows in chunk.rows():
            after = rows_after_censoring(rows.target, rows.events)
            person = rows.events.person[after]
            if by_model:
                asked = self.event_probes(rows)
                at_horizon = margin.next(rows.events.n_rows)[after]
                at_exit = asked.last(probes.next(asked.n_probes), person)
                states = (
                    probabilities(at_horizon, reference=events.reference),
                    probabilities(at_exit, reference=events.reference),
                )
            else:
                exit_time = rows.target.duration[person]
                states = self._marginal(rows.events.horizon[after]), self._marginal(exit_time)
            target = rows.events.target.copy()
            target[after] = drawn_states(conditional_incidence(*states), generator)
            targets.append(target)
            weights.append(self.row_weight(rows))
        return joined(targets, np.int8), joined(weights, np.float32)

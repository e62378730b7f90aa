"""Targets of people who were censored: distributions, drawn states, or doubly robust ones.

`CompletedScheme` takes the distributions of a completion model. `ImputedScheme` draws states, later
from the event model itself. `DoublyRobustScheme` has targets for all people, from the models of
events and of censoring.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._horizons.completion import (
    Incidence,
    completed_targets,
    one_state,
    states_after_censoring,
)
from survival_objectives._horizons.doubly_robust import (
    DoublyRobustTargets,
    PersonNodes,
    person_nodes,
)
from survival_objectives._horizons.rows import BatchReader, BatchRows, Probes, joined
from survival_objectives._horizons.schemes.weighted import (
    AlternatingScheme,
    CensoringBooster,
    CensoringScheme,
    Chunk,
    EventMargins,
    TargetsAndWeights,
    WeightSettings,
)
from survival_objectives._people import SurvivalTarget
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


# ------------------------------------------------------------------------------------ doubly robust
# Rounds of the censoring model at its first refresh, in those of later ones.
_HEAD_START = 5


class DoublyRobustScheme(AlternatingScheme):
    """Rows of all people with targets (47) from the second refresh on.

    Before that, rows have labels and weights as in `AlternatingScheme`, with weight 0 where the
    person was censored: an untrained event model would complete all people alike, and be trained
    on that. The censoring model gets a head start, because targets are right for any event model
    where G is right.

    Parameters
    ----------
    settings, booster, start
        As in `AlternatingScheme`.
    last : float
        The latest horizon.
    n_nodes : int
        Times per person at which both models are evaluated.
    exits : array, optional
        Durations of the population, or quantiles of them, which these times follow. Default: those
        of the people of a batch.
    """

    event_rows = staticmethod(all_rows)

    def __init__(
        self,
        settings: WeightSettings,
        booster: CensoringBooster | None,
        start: StepFunction,
        *,
        last: float,
        n_nodes: int,
        exits: FloatArray | None = None,
    ) -> None:
        super().__init__(settings, booster, start)
        self._last, self._n_nodes, self._exits = last, n_nodes, exits
        self._known: tuple[SurvivalTarget, PersonNodes] | None = None
        # A model that is continued needs no head start.
        self._n_former = 0 if booster is None or booster.n_rounds == 0 else 1

    def event_probes(self, rows: BatchRows) -> Probes:
        """The nodes; the last node of people who left is their exit."""
        return self._probes_at(self._nodes(rows), left=False)

    def censoring_probes(self, rows: BatchRows) -> Probes:
        """Just before the nodes."""
        return self._probes_at(self._nodes(rows), left=True)

    def _nodes(self, rows: BatchRows) -> PersonNodes:
        # Each refresh evaluates the people of a batch, often the only one, several times.
        if self._known is None or self._known[0] is not rows.target:
            axis = self._settings.axis
            nodes = person_nodes(rows.target, axis, self._last, self._n_nodes, self._exits)
            self._known = rows.target, nodes
        return self._known[1]

    def _probes_at(self, nodes: PersonNodes, *, left: bool) -> Probes:
        return Probes.at_exits(nodes.person, nodes.times.ravel(), nodes.axis, left=left)

    @property
    def _n_refreshes(self) -> int:
        return self._n_former + len(self.refreshed_rounds)

    def targets_and_weights(self, chunk: Chunk) -> TargetsAndWeights:
        """Labels with weights (10) at first, then targets (47) with those of the people."""
        events = chunk.events
        if self._can_advance(chunk):
            # Both models need the margins, which are computed once.
            known = np.asarray(events.at_horizons()), np.asarray(events.at_probes())
            events = replace(events, at_horizons=lambda: known[0], at_probes=lambda: known[1])
            is_first = self._n_refreshes == 0
            self._advance(chunk, chunk.n_rounds * (_HEAD_START if is_first else 1), events)
        is_weighted = self._n_refreshes < 2
        parts = self._labels(chunk) if is_weighted else self._distributions(chunk, events)
        targets, weights, inverses, n_floored = [], [], [], 0
        for rows, target, inverse in parts:
            own = self.row_weight(rows).astype(np.float32)
            targets.append(target)
            inverses.append(inverse * own)
            weights.append(inverses[-1].astype(np.float32) if is_weighted else own)
            # Rounding apart, no row that was not raised to the floor has its inverse.
            n_floored += int(np.count_nonzero(inverse >= 1 / self._settings.floor))
        self.inverse = joined(inverses, np.float32)
        self._count_floored(n_floored, len(self.inverse))
        return joined(targets, np.float32), joined(weights, np.float32)

    def _labels(self, chunk: Chunk) -> Iterator[tuple[BatchRows, Float32Array, FloatArray]]:
        """Labels of the rows whose state is known, and 1/G, which is 0 for the others."""
        for rows, survival in self._survival(chunk):
            inverse, _ = rows.events.weights(*survival, floor=self._settings.floor)
            inverse[rows_after_censoring(rows.target, rows.events)] = 0
            yield rows, one_state(rows.events.target, rows.target.n_causes + 1), inverse

    def _distributions(
        self, chunk: Chunk, events: EventMargins
    ) -> Iterator[tuple[BatchRows, Float32Array, FloatArray]]:
        """Targets (47) of all rows, and 1/G."""
        assert self._booster is not None
        margin, probes = BatchReader(events.at_horizons()), BatchReader(events.at_probes())
        for rows, uncensored_at_horizon, _, before in self._uncensored(chunk, self._booster):
            nodes = self._nodes(rows)
            n_probes = nodes.times.size
            states = probabilities(margin.next(rows.events.n_rows), reference=events.reference)
            at_nodes = probabilities(probes.next(n_probes), reference=events.reference)
            targets = DoublyRobustTargets(
                rows.target, rows.events, nodes, self._settings.floor, self._settings.event_floor
            )
            psi, inverse = targets(
                states,
                at_nodes.reshape(*nodes.times.shape, at_nodes.shape[1]),
                uncensored_at_horizon,
                before.reshape(nodes.times.shape),
            )
            yield rows, psi, inverse

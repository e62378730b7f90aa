"""Doubly robust targets for all people, from the models of events and of censoring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._horizons.completion import one_state
from survival_objectives._horizons.doubly_robust import (
    DoublyRobustTargets,
    PersonNodes,
    person_nodes,
)
from survival_objectives._horizons.rows import BatchReader, BatchRows, Probes, joined
from survival_objectives._horizons.schemes.base import (
    CensoringBooster,
    Chunk,
    EventMargins,
    TargetsAndWeights,
    WeightSettings,
)
from survival_objectives._horizons.schemes.weighted import AlternatingScheme
from survival_objectives._people import SurvivalTarget
from survival_objectives.losses import probabilities
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import all_rows, rows_after_censoring

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

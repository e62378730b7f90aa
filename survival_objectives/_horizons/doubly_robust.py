r"""Doubly robust targets: distributions that combine censoring weights and completion.

Inverse weights need the true G, completion needs the true F. The augmented inverse probability
weighted target needs one of the two. For a row of a person (t, d) at the horizon z, with
m_k(u) = (F_k(z|x) - F_k(u|x)) / S(u|x) the probability of cause k by z if event-free at u,
m_0 = 1 - m_1 - ... - m_K, and Lambda_C the cumulative hazard of censoring,

    psi_k = [in state k at z, known] / G(min(t-, z)) + [censored by z] m_k(t) / G(t)
            - int_0^min(t,z) m_k(u) dLambda_C(u) / G(u).                                       (47)

Derivation: d(1/G) = dLambda_C / G, so 1/G(a) - int_0^a dLambda_C/G = 1. Sums over k of the
terms of (47) are those of this identity, so psi sums to 1 over the states, and every row counts 1.
With the truth Y, psi_k - [Y = k] = -int ([Y = k] - m_k(u)) dM_C(u) / G(u) for the true G, where M_C
is the martingale of censoring: its mean is 0 for any m. With the true m, the integrand has mean 0
given what is known at u, for any G.

The integral is a sum over nodes 0 = u_0 < u_1 < ... < u_M of each person, the last one at their
exit (or at the latest horizon), with delta_j = 1/G(u_j) - 1/G(u_{j-1}), so that the identity holds
exactly:

    int_0^u_J m_k dLambda_C/G = F_k(z) A_J - B_kJ,
    A_J = sum_{j <= J} delta_j (a_{j-1} + a_j) / 2,    a_j = 1 / S(u_j),                        (48)
    B_kJ the same with F_k(u_j) a_j for a_j.

A_J and B_kJ are running sums, the same for all horizons of a person. From the last node before a
horizon to the horizon, where m_k = 0, there is one more term of the same kind. Where time has whole
units, people are censored at their end, so the left value replaces the mean of both.

Where G is small, psi is far outside [0, 1], and in a leaf whose mean psi is not a probability the
loss has no minimum. So psi is moved towards the completion psi^0 of equation (46), which is a
distribution, as far as needed to be within one of [0, 1]:

    psi' = psi^0 + c (psi - psi^0),    c the largest in [0, 1] with -1 <= psi'_k <= 2.          (49)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._horizons.completion import completed_targets
from survival_objectives._people import SurvivalTarget
from survival_objectives._people.population import TimeAxis
from survival_objectives.stacking import TrainingRows, rows_after_censoring

# How far targets may be outside [0, 1].
_ROOM = 1.0


@dataclass(frozen=True)
class PersonNodes:
    """Times of each person at which the integral of equation (47) is evaluated.

    Attributes
    ----------
    times : float64 array of shape (n_samples, M)
        Non-decreasing in each row; the last one is the exit or, if earlier, the latest horizon.
    axis : TimeAxis
    """

    times: FloatArray
    axis: TimeAxis

    @property
    def person(self) -> IntArray:
        """Person of each node, in the order of ``times.ravel()``."""
        n_samples, n_nodes = self.times.shape
        return np.repeat(np.arange(n_samples), n_nodes)

    def n_before(self, person: IntArray, horizon: FloatArray) -> IntArray:
        """Number of a person's nodes before a horizon (in whole units, in an earlier unit)."""
        last = self.axis.number(horizon)
        count = np.zeros(len(person), np.int64)
        # Node by node: all at once would take a matrix of rows by nodes.
        for nodes in self.axis.number(self.times).T:
            count += nodes[person] < last
        return count


def person_nodes(
    target: SurvivalTarget,
    axis: TimeAxis,
    last: float,
    n_nodes: int,
    exits: FloatArray | None = None,
) -> PersonNodes:
    """Nodes that are dense where many people leave, and nowhere far apart.

    They divide the time of a person until exit into equal parts of a scale that is half the share
    of the people who have left and half time itself.

    Parameters
    ----------
    target : SurvivalTarget
        Outcomes aligned to the time axis.
    axis : TimeAxis
    last : float
        The latest horizon.
    n_nodes : int
        Nodes per person.
    exits : array, optional
        Durations of all people, or quantiles of them. Default: those of ``target``.
    """
    end = np.minimum(target.duration, last)
    exits = np.sort(end if exits is None else np.minimum(exits, last))
    share = np.arange(len(exits) + 1) / len(exits)
    scale = share + np.append(0.0, exits) / last
    own = share[np.searchsorted(exits, end, side="left")] + end / last
    wanted = own[:, None] * (np.arange(1, n_nodes + 1) / n_nodes)
    times = np.interp(wanted, scale, np.append(0.0, exits))
    times = np.minimum(times, end[:, None])
    times[:, -1] = end
    return PersonNodes(times, axis)


@dataclass(frozen=True)
class DoublyRobustTargets:
    """Equation (47) for the rows of a training.

    Attributes
    ----------
    target : SurvivalTarget
        Outcomes aligned to the time axis.
    rows : TrainingRows
        All rows, from `survival_objectives.stacking.all_rows`.
    nodes : PersonNodes
    floor, event_floor : float
        Smallest G and S in denominators.
    """

    target: SurvivalTarget
    rows: TrainingRows
    nodes: PersonNodes
    floor: float
    event_floor: float

    def __call__(
        self,
        states_at_rows: FloatArray,
        states_at_nodes: FloatArray,
        uncensored_at_horizon: FloatArray,
        uncensored_at_nodes: FloatArray,
    ) -> tuple[Float32Array, FloatArray]:
        """Targets psi, and 1/G of each row at the horizon or, if earlier, at the exit.

        Parameters
        ----------
        states_at_rows : array of shape (n_rows, K + 1)
            Probabilities of the states at the horizons.
        states_at_nodes : array of shape (n_samples, M, K + 1)
            The same at the nodes.
        uncensored_at_horizon : array of shape (number of rows at risk,)
            G at the horizons of the rows whose person is at risk.
        uncensored_at_nodes : array of shape (n_samples, M)
            G just before the nodes.

        Returns
        -------
        psi : float32 array of shape (n_rows, K + 1), in Fortran order
        inverse : float64 array of shape (n_rows,)
        """
        rows, person = self.rows, self.rows.person
        by_node = _with_start(1 / np.maximum(uncensored_at_nodes, self.floor), 1.0)
        survival = _with_start(np.maximum(states_at_nodes[:, :, 0], self.event_floor), 1.0)
        inverse = by_node[person, -1]
        inverse[rows.at_risk] = 1 / np.maximum(uncensored_at_horizon, self.floor)

        # Running sums of (48), with index J = 0 for the empty sum.
        delta = np.diff(by_node, axis=1)
        running_a = self._running(delta, 1 / survival)
        last = self._last_node
        end = np.where(rows.at_risk, inverse - by_node[person, last], 0.0)
        censored = ~rows.at_risk & (self.target.event[person] == 0)
        psi = np.empty((rows.n_rows, self.target.n_causes + 1), order="F")
        for cause in range(1, self.target.n_causes + 1):
            at_nodes = _with_start(states_at_nodes[:, :, cause], 0.0)
            at_horizon = states_at_rows[:, cause]
            running_b = self._running(delta, at_nodes / survival)
            # m_k at the last node, which is the exit of people who left before the horizon.
            still = (at_horizon - at_nodes[person, last]) / survival[person, last]
            value = running_b[person, last] - at_horizon * running_a[person, last]
            value -= end * self._left_share * still
            value += np.where(censored, inverse * still, inverse * (rows.target == cause))
            psi[:, cause] = value
        psi[:, 0] = 1 - psi[:, 1:].sum(axis=1)
        after = rows_after_censoring(self.target, rows)
        completed = completed_targets(
            self.target, rows, states_at_rows[after], states_at_nodes[person[after], -1]
        )
        return _limited(psi, completed), inverse

    @cached_property
    def _last_node(self) -> IntArray:
        """Number of the last node before the horizon or, after an earlier exit, of the exit."""
        rows = self.rows
        last = np.full(rows.n_rows, self.nodes.times.shape[1])
        horizon = rows.horizon[rows.at_risk].astype(np.float64)
        last[rows.at_risk] = self.nodes.n_before(rows.person[rows.at_risk], horizon)
        return last

    @property
    def _left_share(self) -> float:
        return 1.0 if self.nodes.axis.unit else 0.5

    def _running(self, delta: FloatArray, values: FloatArray) -> FloatArray:
        share = self._left_share
        parts = delta * (share * values[:, :-1] + (1 - share) * values[:, 1:])
        return _with_start(np.cumsum(parts, axis=1), 0.0)


def _limited(psi: FloatArray, completed: Float32Array) -> Float32Array:
    """Equation (49).

    >>> psi, completed = np.array([[-3.0, 4.0], [0.5, 0.5]]), np.array([[0.0, 1.0], [0.25, 0.75]])
    >>> _limited(psi, completed)
    array([[-1. ,  2. ],
           [ 0.5,  0.5]], dtype=float32)
    """
    step = psi - completed
    room = np.where(step > 0, 1 + _ROOM - completed, _ROOM + completed)
    share = np.divide(room, np.abs(step), out=np.ones_like(step), where=step != 0).min(axis=1)
    limited = completed + np.minimum(share, 1)[:, None] * step
    return np.asarray(limited, dtype=np.float32, order="F")


def _with_start(values: FloatArray, start: float) -> FloatArray:
    """Values at the nodes with that of time 0 before them."""
    return np.column_stack([np.full(len(values), start), values])

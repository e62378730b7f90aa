"""Doubly robust targets: formulas (47) to (49), and that one right model is enough."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from simulation import simulate
from strategies import survival_targets

from survival_objectives._horizons import doubly_robust
from survival_objectives._horizons.doubly_robust import DoublyRobustTargets, person_nodes
from survival_objectives._people import check_survival_target
from survival_objectives._people.population import TimeAxis, event_unit
from survival_objectives.stacking import TimeStacker, all_rows

CONTINUOUS = TimeAxis(0.0)


class Exponential:
    """Constant hazards of causes and of censoring, one of each per person."""

    def __init__(self, hazards, censoring):
        self.hazards, self.censoring = hazards, censoring

    def states(self, person, times):
        hazards = self.hazards[person]
        total = hazards.sum(axis=-1)
        gone = -np.expm1(-total * times)
        return np.concatenate(
            [(1 - gone)[..., None], hazards / total[..., None] * gone[..., None]], axis=-1
        )

    def uncensored(self, person, times):
        return np.exp(-self.censoring[person] * times)

    def targets(self, target, rows, *, n_nodes=24, floor=1e-6, axis=CONTINUOUS):
        nodes = person_nodes(target, axis, float(rows.horizon.max()), n_nodes)
        everyone = np.arange(target.n_samples)[:, None] * np.ones((1, n_nodes), np.int64)
        make = DoublyRobustTargets(target, rows, nodes, floor, floor)
        horizon = rows.horizon.astype(float)
        return make(
            self.states(rows.person, horizon),
            self.states(everyone, nodes.times),
            self.uncensored(rows.person, horizon)[rows.at_risk],
            self.uncensored(everyone, nodes.times),
        )


def rows_of(target, n_horizons=2, seed=0, **options):
    stacker = TimeStacker(n_horizons, "uniform", random_state=seed, **options)
    return all_rows(target, stacker.draw(target))


def random_model(target, seed):
    rng = np.random.default_rng(seed)
    return Exponential(
        rng.uniform(0.1, 1, (target.n_samples, target.n_causes)),
        rng.uniform(0.1, 1, target.n_samples),
    )


def limited(psi, completed):
    """Equation (49), by trying out factors."""
    for c in np.linspace(1, 0, 2001):
        moved = completed + c * (psi - completed)
        if (moved >= -1).all() and (moved <= 2).all():
            return moved
    raise AssertionError


@given(survival_targets(max_people=5), st.integers(0, 2**16))
@settings(max_examples=30)
def test_formulas_47_and_49_as_printed(target, seed):
    target = CONTINUOUS.aligned(target)
    rows, model = rows_of(target, seed=seed), random_model(target, seed)
    psi, inverse = model.targets(target, rows, n_nodes=200)
    for row, (i, z) in enumerate(zip(rows.person, rows.horizon.astype(float), strict=True)):
        t, d = target.duration[i], target.event[i]

        def m(u, i=i, z=z):
            F_z, F_u = model.states(i, np.asarray(z)), model.states(i, np.asarray(u))
            later = (F_z - F_u) / F_u[..., :1]
            later[..., 0] = F_z[0] / F_u[..., 0]
            return later

        def uncensored(u, i=i):
            return model.uncensored(i, u)

        known = np.zeros(target.n_causes + 1)
        if t > z:
            known[0] = 1 / uncensored(z)
        elif d > 0:
            known[d] = 1 / uncensored(t)
        else:
            known = m(t) / uncensored(t)
        u = np.linspace(0, min(t, z), 401)
        # dLambda_C = censoring du
        values = m(u) / uncensored(u)[:, None] * model.censoring[i]
        expected = known - np.trapezoid(values, u, axis=0)
        completed = m(t) if t <= z and d == 0 else np.eye(target.n_causes + 1)[d * (t <= z)]
        assert_allclose(inverse[row], 1 / uncensored(min(t, z)), rtol=1e-6)
        assert_allclose(psi[row], limited(expected, completed), atol=3e-3)


@given(survival_targets(), st.integers(0, 2**16), st.integers(1, 8), st.booleans())
def test_targets_sum_to_one_and_stay_within_the_limits_of_49(target, seed, n_nodes, in_units):
    axis = TimeAxis(event_unit(target)) if in_units else CONTINUOUS
    target = axis.aligned(target)
    rows, model = rows_of(target, seed=seed, time_unit=axis.unit), random_model(target, seed)
    model.censoring *= 5
    psi, inverse = model.targets(target, rows, n_nodes=n_nodes, floor=0.05, axis=axis)
    assert_allclose(psi.sum(axis=1), 1, atol=2e-5)
    assert psi.min() >= -1 - 1e-5
    assert psi.max() <= 2 + 1e-5
    assert ((inverse >= 1) & (inverse <= 20)).all()


@given(survival_targets(), st.integers(0, 2**16))
def test_without_censoring_targets_are_the_labels(target, seed):
    target = CONTINUOUS.aligned(target)
    rows, model = rows_of(target, seed=seed), random_model(target, seed)
    model.censoring[:] = 0
    psi, inverse = model.targets(target, rows)
    known = rows.at_risk | (target.event[rows.person] > 0)
    labels = np.eye(target.n_causes + 1)[rows.target]
    assert_allclose(psi[known], labels[known], atol=1e-6)
    assert_array_equal(inverse, 1)


def test_sums_of_48_are_those_of_the_printed_formula():
    target = check_survival_target(([0], [2.0]), require_event=False, event_ids=[0, 1])
    rows = all_rows(target, TimeStacker(1, horizon_max=3.0, random_state=0).draw(target))
    nodes = doubly_robust.PersonNodes(np.array([[1.0, 2.0]]), CONTINUOUS)
    make = DoublyRobustTargets(target, rows, nodes, 0.01, 0.01)
    F_z, F, G = 0.7, np.array([0.2, 0.5]), np.array([0.8, 0.5])
    if rows.horizon[0] <= 2:
        rows.horizon[0] = 2.5
        rows.at_risk[0] = False
    psi, _ = make(
        np.array([[1 - F_z, F_z]]),
        np.stack([1 - F, F], axis=-1)[None],
        np.empty(0),
        G[None],
    )
    a = 1 / (1 - np.append(0, F))
    b = np.append(0, F) * a
    delta = np.diff(1 / np.append(1, G))
    A = sum(delta[j] * (a[j] + a[j + 1]) / 2 for j in range(2))
    B = sum(delta[j] * (b[j] + b[j + 1]) / 2 for j in range(2))
    m = (F_z - 0.5) / 0.5
    assert_allclose(psi[0, 1], m / 0.5 - (F_z * A - B), rtol=1e-6)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("events", "censoring", "is_right"),
    [("true", "wrong", True), ("wrong", "true", True), ("wrong", "wrong", False)],
)
def test_one_right_model_is_enough(events, censoring, is_right, seed):
    people = simulate(40_000, seed=seed)
    target = CONTINUOUS.aligned(check_survival_target(people.y))
    rows = rows_of(target, n_horizons=1, horizon_max=2.0)
    rate = people.censoring.rate(people.X)
    model = Exponential(
        people.hazards if events == "true" else np.full_like(people.hazards, 0.4),
        rate if censoring == "true" else np.full_like(rate, 0.3),
    )
    psi, _ = model.targets(target, rows, floor=0.02)
    truth = Exponential(people.hazards, rate).states(rows.person, rows.horizon.astype(float))
    difference = (psi - truth)[:, 1:]
    high = people.X[rows.person, 0] > 0
    errors = [np.abs(difference[group].mean(axis=0)).max() for group in (high, ~high)]
    # Limits (49) and floors leave a little of it; four standard errors are 0.01.
    assert max(errors) < 0.02 if is_right else max(errors) > 0.03


def test_nodes_divide_the_time_until_exit():
    rng = np.random.default_rng(0)
    duration = rng.exponential(size=500)
    target = CONTINUOUS.aligned(check_survival_target((rng.integers(0, 3, 500), duration)))
    nodes = person_nodes(target, CONTINUOUS, 1.5, 6)
    assert nodes.times.shape == (500, 6)
    assert_array_equal(nodes.times[:, -1], np.minimum(target.duration, 1.5))
    assert (np.diff(nodes.times, axis=1) >= 0).all()
    # Equal steps of a scale that is half the share of the people who have left, half time.
    latest = target.duration.argmax()
    share = np.searchsorted(np.sort(target.duration), np.append(0.0, nodes.times[latest])) / 500
    steps = np.diff(share + np.append(0.0, nodes.times[latest]) / 1.5)
    assert_allclose(steps, steps.mean(), atol=0.01)
    z = np.full(500, 0.7)
    assert_array_equal(nodes.n_before(np.arange(500), z), (nodes.times < 0.7).sum(axis=1))

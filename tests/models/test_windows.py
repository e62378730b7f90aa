"""Curves of format 1: exact averages over windows, whose integrals and inverses are closed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._engines.forest import Forest, Tree
from survival_objectives._models.windows import WindowCurves
from survival_objectives._people.time_axis import UNIT_ROUNDING

BREAKS = np.array([0.3, 0.7, 1.1, 1.9])
T_MAX = 2.0
CONTINUOUS = WindowCurves(0.0, T_MAX, 0.2)
SHAPES = [CONTINUOUS, WindowCurves(0.0, T_MAX, 0.0), WindowCurves(0.5, T_MAX, 0.2)]


@pytest.fixture
def forest():
    children = [1, -1, -1], [2, -1, -1]
    values = [(), (0.0,), (1.0,)]
    trees = [
        Tree([1, -1, -1], [each, 0, 0], *children, [True] * 3, {}, values, 0) for each in BREAKS
    ]
    return Forest(trees, 1, 1, at_most=True)


@pytest.fixture
def steps():
    """Rising incidences of two causes and three people, (n_causes, n_steps, n_samples)."""
    rises = np.random.default_rng(0).dirichlet(np.ones(11), size=3).T[:10]
    return np.cumsum(rises.reshape(2, 5, 3), axis=1)


def test_a_curve_is_the_mean_over_its_window(forest, steps):
    """Equation (14), by a fine sum."""
    times = np.array([0.25, 0.6, 1.05, 1.5, 1.9])
    found = CONTINUOUS.incidence(steps, forest, times)
    for number, time in enumerate(times):
        radius = min(0.2 * time, T_MAX - time)
        around = time + radius * (2 * (np.arange(40_000) + 0.5) / 40_000 - 1)
        mean = steps[:, forest.interval(around)].mean(axis=1)
        assert_allclose(found[:, number], mean, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_curves_never_fall_and_stay_between_their_steps(shape, forest, steps):
    curves = shape.incidence(steps, forest, np.linspace(0.0, 1.2 * T_MAX, 300))
    assert (np.diff(curves, axis=1) >= -1e-12).all()
    assert (curves >= steps[:, :1]).all()
    assert (curves <= steps[:, -1:]).all()


@pytest.mark.parametrize("horizon", [0.2, 1.0, 1.9, T_MAX])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_integral_is_that_of_the_curve(shape, forest, steps, horizon):
    (times,), (weights,) = shape.integral(forest, horizon, np.zeros(1))
    assert weights.sum() == pytest.approx(horizon)
    found = np.einsum("t,kti->ki", weights, shape.incidence(steps, forest, times))
    fine = (np.arange(200_000) + 0.5) / 200_000 * horizon
    expected = shape.incidence(steps, forest, fine).mean(axis=1) * horizon
    # A time less than `UNIT_ROUNDING` units before a unit belongs to it.
    n_units = horizon / shape.unit if shape.unit else 0
    assert_allclose(found, expected, atol=2e-5 + UNIT_ROUNDING * shape.unit * n_units)


def test_a_share_of_a_rise_is_reached_inside_its_piece(forest, steps):
    edges = CONTINUOUS.edges(forest, T_MAX)
    at_edges = CONTINUOUS.incidence(steps[:, :, :1], forest, edges)[0, :, 0]
    rising = np.flatnonzero(np.diff(at_edges) > 1e-9) + 1
    for share in (0.1, 0.5, 0.9):
        found = CONTINUOUS.inside(edges, rising, np.full(len(rising), share))
        assert ((edges[rising - 1] <= found) & (found <= edges[rising])).all()
        wanted = at_edges[rising - 1] + share * np.diff(at_edges)[rising - 1]
        reached = CONTINUOUS.incidence(steps[:, :, :1], forest, found)[0, :, 0]
        assert_allclose(reached, wanted, atol=1e-9)


def test_without_windows_times_are_edges(forest):
    shape = WindowCurves(0.0, T_MAX, 0.0)
    edges, first = shape.edges(forest, T_MAX), np.array([0, 2])
    assert_array_equal(shape.inside(edges, first, np.array([0.3, 0.9])), edges[first])
    assert_array_equal(WindowCurves(0.5, T_MAX, 0.2).edges(forest, 1.2), [0.0, 0.5, 1.0, 1.2])

"""Outcomes of the population, whole or counted on a grid of times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._people import SurvivalTarget
from survival_objectives._people.population import (
    LocalReduction,
    Population,
    TimeAxis,
    grid_population,
    merged_times,
    outcome_counts,
    population_of_counts,
)
from survival_objectives.marginal import kaplan_meier_censoring


def outcomes(n_samples=500, seed=0, digits=1):
    rng = np.random.default_rng(seed)
    event = rng.integers(0, 3, n_samples).astype(np.int32)
    duration = np.round(rng.exponential(size=n_samples), digits)
    return SurvivalTarget(event, duration, np.array([0, 4, 7]))


def test_counts_are_the_people_where_times_are_few():
    target = outcomes()
    weight = np.random.default_rng(1).exponential(size=500)
    counted, whole = grid_population(target, weight), Population(target, weight)
    assert counted.n_samples == whole.n_samples == 500
    assert counted.target.n_samples < 200
    assert counted.has_censored
    assert_array_equal(counted.n_events, whole.n_events)
    assert_array_equal(counted.event_times(1.5), whole.event_times(1.5))
    for share in (0.0, 0.25, 0.5, 0.99, 1.0):
        assert_allclose(counted.quantile(share), whole.quantile(share))
    curves = [kaplan_meier_censoring(each.target, each.weight) for each in (counted, whole)]
    times = np.linspace(0, 3, 50)
    assert_allclose(curves[0](times), curves[1](times))


def test_counts_of_parts_add_up():
    target, grid = outcomes(), merged_times(outcomes().duration, np.ones(500), 10**6)[0]
    parts = [
        SurvivalTarget(target.event[rows], target.duration[rows], target.event_ids)
        for rows in (slice(0, 123), slice(123, None))
    ]
    total = sum(outcome_counts(part, None, grid) for part in parts)
    joined = population_of_counts(total, grid, target.event_ids)
    whole = grid_population(target, None)
    assert_array_equal(joined.count, whole.count)
    assert_array_equal(joined.target.event, whole.target.event)
    assert_array_equal(joined.target.duration, whole.target.duration)


@given(st.integers(3, 40), st.integers(0, 100))
def test_merged_times_keep_the_ends_and_all_people(n_times, seed):
    times = np.random.default_rng(seed).exponential(size=300)
    count = np.random.default_rng(seed).integers(1, 5, 300).astype(float)
    grid, merged = merged_times(times, count, n_times)
    assert len(grid) <= n_times
    assert (grid[0], grid[-1]) == (times.min(), times.max())
    assert merged.sum() == count.sum()
    # As many have left by each step as by its end.
    for end, seen in zip(grid, np.cumsum(merged), strict=True):
        assert seen == count[times <= end].sum()


def test_a_coarse_grid_is_off_by_a_step_at_most():
    target = outcomes(5000, digits=12)
    whole, counted = Population(target, None), grid_population(target, None, n_times=100)
    for share in (0.1, 0.5, 0.9):
        found = np.mean(target.duration <= counted.quantile(share))
        assert found == pytest.approx(share, abs=0.02)
    assert len(counted.event_times(9.0)) == len(whole.event_times(9.0))


def test_durations_take_their_places_on_the_axis():
    aligned = grid_population(outcomes(digits=0), None).aligned(TimeAxis(1.0))
    is_censored = aligned.target.event == 0
    assert_allclose(aligned.target.duration[is_censored] % 1, 0.75)
    assert_allclose(aligned.target.duration[~is_censored] % 1, 0)


def test_one_process_has_all_people():
    reduction, target = LocalReduction(), outcomes()
    assert_array_equal(reduction.sum([1, 2.5]), [1.0, 2.5])
    assert reduction.population(target, None).target is target
    generator = np.random.default_rng(0)
    assert reduction.stream(generator) is generator

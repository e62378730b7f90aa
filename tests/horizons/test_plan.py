"""Decisions before the first tree."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._horizons.training import RandomStreams
from survival_objectives._models.frame import coarse_censoring_curve, planned_frame
from survival_objectives._people import SurvivalTarget, check_features
from survival_objectives._people.population import Population
from survival_objectives.marginal import kaplan_meier_censoring

SCHEMA = check_features(pd.DataFrame({"age": [1.0, 2.0]}))
IDS = np.array([0, 1])


def outcomes(duration, event=None):
    duration = np.asarray(duration, dtype=np.float64)
    event = np.ones(len(duration)) if event is None else np.asarray(event)
    return SurvivalTarget(event.astype(np.int32), duration, IDS)


def frame(duration, **options):
    options = {"horizon_max": None, "n_jobs": None, **options}
    return planned_frame(Population(outcomes(duration), None), "xgboost", SCHEMA, **options)


def exponential(n_samples=2000):
    return np.random.default_rng(0).exponential(size=n_samples)


@pytest.mark.parametrize("beyond", [0.0, 0.1])
def test_times_of_a_frame_are_no_one_s(beyond):
    duration = exponential()
    planned = frame(duration, beyond=beyond)
    assert planned.t_max >= duration.max() * (1 + beyond)
    assert planned.t_max < 1.2 * duration.max()
    for time in (planned.t_max, planned.last_time, planned.median_duration):
        assert not np.isin(time, duration)
    # At most one person in a hundred is followed for longer than the default times.
    assert np.mean(duration > planned.last_time) <= 0.01


def test_a_common_end_of_study_is_kept():
    assert frame(np.minimum(exponential(), 1.5)).t_max == 1.5


def test_a_given_horizon_is_kept():
    planned = frame(exponential(), horizon_max=1.2345)
    assert planned.t_max == planned.last_time == 1.2345


def test_a_unit_is_found_in_whole_durations():
    assert frame(np.ceil(exponential() * 10)).axis.unit == 1.0
    assert frame(exponential()).axis.unit == 0.0


def test_no_horizon_without_time():
    with pytest.raises(ValueError, match="All durations are 0"):
        frame(np.zeros(5))


def test_the_stored_curve_of_censoring_agrees_with_kaplan_meier_on_its_grid():
    duration = exponential()
    event = np.random.default_rng(1).integers(0, 2, len(duration))
    target = outcomes(duration, event)
    stored, exact = coarse_censoring_curve(target, None, 3.0), kaplan_meier_censoring(target)
    assert_allclose(stored(stored.times), exact(stored.times))
    # The grid follows from the latest horizon alone.
    assert_array_equal(stored.times, coarse_censoring_curve(outcomes([1.0, 2.0]), None, 3.0).times)


def test_streams_are_separate_and_a_warm_start_continues_with_others():
    def draws(n_rounds_before=None, held_out=0):
        streams = RandomStreams.of(np.random.default_rng(0), n_rounds_before)
        streams.held_out.random(held_out)
        return streams.train.random(4), streams.seed

    first, seed = draws()
    assert_array_equal(draws(held_out=7)[0], first)
    later = [draws(n_rounds_before)[0] for n_rounds_before in (10, 20)]
    assert len({tuple(numbers) for numbers in (first, *later)}) == 3
    assert draws(10)[1] == seed

"""Units of time, knots and calibration: formulas (16) to (18), written out again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._models.curves import MARGINAL_SHARE, KnotCurves
from survival_objectives._models.frame import exposures, marginal_hazard, time_knots
from survival_objectives._people import check_survival_target
from survival_objectives._people.population import TimeAxis, event_unit, rounded_down, rounded_up
from survival_objectives.marginal import aalen_johansen


def outcomes(seed=0, n_samples=400, n_causes=2, unit=None):
    rng = np.random.default_rng(seed)
    life, lost = rng.exponential(1.0, n_samples), rng.exponential(1.5, n_samples)
    event = np.where(life <= lost, rng.integers(1, n_causes + 1, n_samples), 0)
    duration = np.minimum(life, lost)
    if unit is not None:
        duration = np.ceil(duration / unit) * unit
    return check_survival_target((event, duration))


# ----------------------------------------------------------------------------------- the time axis
@given(st.lists(st.integers(0, 400), min_size=2, max_size=30), st.sampled_from([1.0, 0.25, 7.0]))
def test_places_within_units_are_formula_16(numbers, unit):
    axis = TimeAxis(unit)
    times = np.array(numbers) * unit
    event = np.arange(len(numbers)) % 2
    target = axis.aligned(check_survival_target((event, times), require_event=False))
    expected = np.where(event == 1, numbers, np.array(numbers) + 0.75) * unit
    assert_allclose(target.duration, expected, rtol=1e-6)
    horizon = axis.within_units(times, times.max(), np.random.default_rng(0))
    share = horizon / unit - numbers
    assert ((share >= 0) & (share < 0.75)).all()
    assert_array_equal(axis.number(horizon), numbers)
    assert_array_equal(axis.number(target.duration), numbers)


def test_a_censoring_comes_after_an_event_and_a_horizon_at_the_same_time():
    for unit in (0.0, 1.0):
        target = check_survival_target(([1, 0], [3.0, 3.0]))
        event, censoring = TimeAxis(unit).aligned(target).duration
        assert event == 3.0 < censoring < 4.0


def test_unit_of_events_needs_many_that_share_times():
    years, days = np.repeat([1.0, 2.0, 3.0], 10), np.arange(1, 200) / 365
    event = np.append(np.ones(30), np.zeros(len(days)))
    duration = np.append(years, days)
    assert event_unit(check_survival_target((event, duration))) == pytest.approx(1.0)
    few = slice(20, None)
    assert event_unit(check_survival_target((event[few], duration[few]))) < 0.01


@given(st.floats(1e-6, 1e9))
def test_rounded_times_have_three_digits(time):
    low, high = float(rounded_down(time)), float(rounded_up(time))
    assert low <= time * (1 + 1e-5)
    assert high >= time * (1 - 1e-5)
    assert high - low <= 0.0101 * time
    for rounded in (low, high):
        assert float(f"{rounded:.2e}") == pytest.approx(rounded, rel=1e-12)


# ------------------------------------------------------------------------------------- calibration
def slow_curves(shape, cells, marginal, target):
    """Formulas (17) and (18), person by person."""
    n_causes, n_trained, n_samples = cells.shape
    n_intervals = len(shape.knots) - 1
    observed = marginal.events / np.where(marginal.at_risk > 0, marginal.at_risk, 1)
    empty = marginal.events.sum(axis=0) == 0
    share = marginal.events.sum(axis=1, keepdims=True) / marginal.events.sum()
    observed[:, empty] = share * 0.1 / (marginal.at_risk[empty] + 10)
    mixed = np.zeros((n_causes, n_intervals, n_samples))
    for person in range(n_samples):
        last, survival = np.zeros(n_causes), 1.0
        hazard = np.zeros((n_causes, n_trained))
        for j in range(n_trained):
            hazard[:, j] = (cells[:, j, person] - last) / survival
            last, survival = cells[:, j, person], 1 - cells[:, j, person].sum()
        for k in range(n_causes):
            # An even course has a weight of one per cent.
            course = observed[k, :n_trained] + 0.01 * observed[k, :n_trained].mean()
            for j in range(n_trained):
                block = shape.block[k, :n_trained] == shape.block[k, j]
                own = course[j] / course[block].sum() * hazard[k, block].sum()
                mixed[k, j, person] = (1 - MARGINAL_SHARE) * own + MARGINAL_SHARE * observed[k, j]
    at_risk = exposures(shape.axis, shape.knots, target)
    expected = np.einsum("nj,kjn->kj", at_risk, mixed)
    return mixed, expected


@pytest.mark.parametrize("unit", [None, 0.25])
def test_hazards_and_their_calibration_are_formulas_17_and_18(unit):
    target = outcomes(unit=unit)
    axis = TimeAxis(event_unit(target))
    target = axis.aligned(target)
    happened = np.sort(target.duration[target.event > 0])
    knots = time_knots(axis, happened, float(happened[-1]), 6)
    marginal = marginal_hazard(axis, knots, target, None)
    shape = KnotCurves(axis, knots, *marginal.uncalibrated(axis, knots, float(happened[-1])))
    n_trained = len(shape.trained_knots)
    rng = np.random.default_rng(1)
    cells = np.cumsum(rng.uniform(0, 0.4 / n_trained, (2, n_trained, target.n_samples)), axis=1)
    crossed, at_risk = shape.crossed(cells, target, None)
    assert_allclose(at_risk, marginal.at_risk, rtol=1e-9)
    calibrated = shape.calibrated(marginal, crossed, at_risk)
    mixed, expected = slow_curves(calibrated, cells, marginal, target)
    # Over each block of intervals, as many events are expected as were seen.
    for cause in range(2):
        again = calibrated.factor[cause] * expected[cause]
        for factor in np.unique(calibrated.factor[cause]):
            block = calibrated.factor[cause] == factor
            if factor == 1:  # After the last event.
                continue
            assert marginal.events[cause, block].sum() >= max(10, marginal.events[cause].sum() / 16)
            assert_allclose(again[block].sum(), marginal.events[cause, block].sum(), rtol=1e-9)
    curves = calibrated.at_knots(cells)
    survival = np.cumprod(1 - (calibrated.factor[:, :, None] * mixed).sum(axis=0), axis=0)
    assert_allclose(1 - curves.sum(axis=0)[1:], survival, rtol=1e-9)


def test_equal_people_get_the_curves_of_the_population():
    target = TimeAxis(0.0).aligned(outcomes(n_samples=3000))
    axis = TimeAxis(0.0)
    happened = np.sort(target.duration[target.event > 0])
    end = float(happened[-1])
    knots = time_knots(axis, happened, end, 32)
    marginal = marginal_hazard(axis, knots, target, None)
    shape = KnotCurves(axis, knots, *marginal.uncalibrated(axis, knots, end))
    n_trained = len(shape.trained_knots)
    cells = np.linspace(0.01, 0.3, n_trained)[None, :, None].repeat(2, 0).repeat(3000, 2)
    calibrated = shape.calibrated(marginal, *shape.crossed(cells, target, None))
    times = np.quantile(happened, [0.1, 0.5, 0.9, 0.97])
    found = calibrated.values(calibrated.at_knots(cells[:, :, :1]), times)[:, :, 0]
    assert_allclose(found, aalen_johansen(target)(times)[:, 1:].T, atol=0.01)


@given(st.integers(0, 50), st.sampled_from([None, 0.1, 1.0]), st.integers(1, 40))
def test_knots_increase_and_span_the_events(seed, unit, n_intervals):
    target = outcomes(seed, n_samples=40, unit=unit)
    axis = TimeAxis(event_unit(target))
    happened = np.sort(target.duration[target.event > 0])
    t_max = float(target.duration.max())
    knots = time_knots(axis, happened, t_max, n_intervals)
    assert (np.diff(knots) > 0).all()
    assert knots[0] < axis.number(happened[0]) or knots[0] == 0
    assert knots[-1] == axis.number(t_max)


def test_weights_act_like_repeated_people_in_hazards():
    target, axis = outcomes(n_samples=60), TimeAxis(0.0)
    weight = np.random.default_rng(0).integers(1, 4, 60)
    knots = np.linspace(0, target.duration.max(), 5)
    weighted = marginal_hazard(axis, knots, target, weight.astype(float))
    rows = np.repeat(np.arange(60), weight)
    repeated = check_survival_target((target.event[rows], target.duration[rows]))
    expected = marginal_hazard(axis, knots, repeated, None)
    assert_allclose(weighted.events, expected.events)
    assert_allclose(weighted.at_risk, expected.at_risk)

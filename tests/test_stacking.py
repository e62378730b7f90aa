"""Time stacking: horizons of every sampler, and the targets and weights (10) and (11)."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from strategies import survival_targets

from survival_objectives._people import check_features, check_survival_target
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import (
    SAMPLERS,
    Stack,
    TimeStacker,
    censoring_rows,
    check_causes_seen,
    event_rows,
    stacked_matrix,
)

NO_FLOOR = 1e-12


def random_target(n_samples=300, n_causes=2, seed=0):
    rng = np.random.default_rng(seed)
    event = rng.integers(0, n_causes + 1, n_samples)
    return check_survival_target((event, rng.exponential(size=n_samples)))


# ------------------------------------------------------------------------ targets and weights
def falling_curve(seed):
    """A survival curve with a jump at each eighth, where durations and horizons fall."""
    rng = np.random.default_rng(seed)
    values = np.cumprod(rng.uniform(0.5, 0.95, 9))
    return StepFunction(np.arange(9) / 8, values, np.array(1.0))


def printed_events(t, d, z, G, G_left):
    """Target and weight of one row by (10)."""
    y = d * (t <= z)
    if t > z:
        w = 1 / G(z)
    elif t <= z and d != 0:
        w = 1 / G_left(t)
    elif t <= z and d == 0:
        w = 0
    return y, w


def printed_censoring(t, d, z, S):
    """Target and weight of one row by (11)."""
    y = int(t <= z and d == 0)
    if t > z:
        w = 1 / S(z)
    elif t <= z and d == 0:
        w = 1 / S(t)
    elif t <= z and d != 0:
        w = 0
    return y, w


@st.composite
def targets_with_tied_horizons(draw):
    target = draw(survival_targets())
    n_rows = draw(st.integers(1, 3)) * target.n_samples
    eighths = draw(st.lists(st.integers(0, 9), min_size=n_rows, max_size=n_rows))
    person = np.resize(np.arange(target.n_samples), n_rows)
    return target, Stack(person, np.array(eighths, dtype=np.float32) / 8)


@given(targets_with_tied_horizons(), st.integers(0, 2**16))
def test_formulas_10_and_11_as_printed(drawn, seed):
    target, stack = drawn
    curve = falling_curve(seed)

    def survival(i, time, left=False):  # Differs between people.
        return curve(time, left=left) ** (1 + i / 10)

    def events(i, t, d, z):
        return printed_events(t, d, z, partial(survival, i), partial(survival, i, left=True))

    def censorings(i, t, d, z):
        return printed_censoring(t, d, z, partial(survival, i))

    for role, printed, left in (
        (event_rows(target, stack), events, True),
        (censoring_rows(target, stack), censorings, False),
    ):
        at_horizon = survival(role.person[role.at_risk], role.horizon[role.at_risk])
        at_exit = survival(role.exited, target.duration[role.exited], left=left)
        weight, n_floored = role.weights(at_horizon, at_exit, floor=NO_FLOOR)
        assert n_floored == 0

        slow = [
            (i, z, *printed(i, target.duration[i], target.event[i], z))
            for i, z in zip(stack.person, stack.horizon, strict=True)
        ]
        kept = [row for row in slow if row[-1] > 0]
        ours = list(zip(role.person, role.horizon, role.target, strict=True))
        assert ours == [row[:3] for row in kept]
        assert_allclose(weight, [row[3] for row in kept], rtol=1e-12)


@given(targets_with_tied_horizons())
def test_both_roles_share_the_rows_that_stayed_in_the_same_order(drawn):
    target, stack = drawn
    events, censorings = event_rows(target, stack), censoring_rows(target, stack)
    stayed = target.duration[stack.person] > stack.horizon
    for role in (events, censorings):
        assert_array_equal(role.person[role.at_risk], stack.person[stayed])
        assert_array_equal(role.horizon[role.at_risk], stack.horizon[stayed])
        assert_array_equal(role.target[role.at_risk], 0)
        assert (role.target[~role.at_risk] > 0).all()
        # Each person who has exited is asked about once, and each row finds its own.
        assert_array_equal(role.exited, np.unique(role.person[~role.at_risk]))
        assert_array_equal(role.exited[role.exited_of_row], role.person[~role.at_risk])
    n_left = events.n_rows + censorings.n_rows - 2 * stayed.sum()
    assert n_left == (~stayed).sum()


def test_floor_limits_the_weights_and_counts_the_rows_it_touches():
    target = check_survival_target(([1, 0, 1], [1.0, 3.0, 3.0]))
    stack = Stack(np.array([0, 1, 2, 0]), np.array([2, 2, 2, 4], np.float32))
    role = event_rows(target, stack)
    assert_array_equal(role.at_risk, [False, True, True, False])
    at_horizon, at_exit = np.array([0.2, 0.0]), np.array([0.1])
    weight, n_floored = role.weights(at_horizon, at_exit, floor=0.2)
    assert_allclose(weight, [5, 5, 5, 5])
    assert n_floored == 3  # 0.2 itself is not below the floor.
    sample_weight = np.array([2.0, 3.0, 0.0])
    weight, n_floored = role.weights(at_horizon, at_exit, floor=0.2, sample_weight=sample_weight)
    assert_allclose(weight, [10, 15, 0, 10])
    assert n_floored == 3


class TestUnbiased:
    """Discrete times, where ties are everywhere, with known T and C given x in {0, 1}."""

    TIMES = np.arange(1, 7)
    HAZARD = ((0.15, 0.3), (0.3, 0.12))  # of the event and of censoring, by x

    def draw(self, n_samples, seed):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 2, n_samples)
        event_time, censoring_time = (
            np.minimum(rng.geometric(np.choose(x, hazard)), 7) for hazard in self.HAZARD
        )
        event = (event_time <= censoring_time) & (event_time < 7)
        duration = np.minimum(event_time, censoring_time).astype(float)
        cause = event * rng.integers(1, 3, n_samples)
        target = check_survival_target((cause, duration))
        horizon = rng.choice(self.TIMES, 3 * n_samples).astype(np.float32)
        return x, target, Stack(np.tile(np.arange(n_samples), 3), horizon)

    @pytest.mark.parametrize(
        ("role_of", "which", "left", "unbiased"),
        [
            (event_rows, 1, True, True),
            (event_rows, 1, False, False),  # G(t) instead of G(t-)
            (censoring_rows, 0, False, True),
            (censoring_rows, 0, True, False),  # S(t-) instead of S(t)
        ],
    )
    def test_mean_weight_over_all_rows_is_one(self, role_of, which, left, unbiased):
        x, target, stack = self.draw(60_000, seed=7)

        def survival(people, times, left=False):
            hazard = np.choose(x[people], self.HAZARD[which])
            return (1 - hazard) ** (times - left)

        role = role_of(target, stack)
        weight, _ = role.weights(
            survival(role.person[role.at_risk], role.horizon[role.at_risk]),
            survival(role.exited, target.duration[role.exited], left),
            floor=NO_FLOOR,
        )
        by_person = np.bincount(role.person, weights=weight, minlength=target.n_samples) / 3
        error = by_person.std() / np.sqrt(target.n_samples)
        deviation = abs(by_person.mean() - 1) / error
        assert deviation < 3.5 if unbiased else deviation > 10


# ----------------------------------------------------------------------------------------- samplers
@given(st.sampled_from(SAMPLERS), st.integers(1, 7), st.integers(0, 2**16), survival_targets())
def test_horizons_stay_in_range_and_people_come_horizon_by_horizon(
    sampler, n_horizons, seed, target
):
    stack = TimeStacker(n_horizons, sampler, random_state=seed).draw(target)
    assert stack.n_rows == n_horizons * target.n_samples
    assert_array_equal(stack.person, np.tile(np.arange(target.n_samples), n_horizons))
    assert stack.horizon.dtype == np.float32
    assert stack.horizon.flags.c_contiguous
    assert (stack.horizon >= 0).all()
    assert (stack.horizon <= target.duration.max()).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_same_seed_same_horizons_and_another_seed_others(sampler):
    target = random_target()

    def draw(seed):
        return TimeStacker(5, sampler, hard_zero_fraction=0.1, random_state=seed).draw(target)

    assert_array_equal(draw(3).horizon, draw(3).horizon)
    assert_array_equal(draw(np.random.default_rng(3)).horizon, draw(3).horizon)
    assert (draw(3).horizon != draw(4).horizon).mean() > 0.8
    stacker = TimeStacker(5, sampler, random_state=3)
    first, second = stacker.draw(target), stacker.draw(target)
    assert (first.horizon != second.horizon).mean() > 0.8


def test_uniform_sampler_is_uniform_and_independent():
    target = random_target(2000)
    stack = TimeStacker(4, "uniform", random_state=0).draw(target)
    share = stack.horizon / target.duration.max()
    assert kstest(share, "uniform").pvalue > 0.01
    columns = share.reshape(4, -1)
    off_diagonal = np.corrcoef(columns)[~np.eye(4, dtype=bool)]
    assert_allclose(off_diagonal, 0, atol=4 / np.sqrt(2000))


def test_stratified_sampler_looks_once_into_every_slice():
    target = random_target(2000)
    stack = TimeStacker(4, "stratified", random_state=0).draw(target)
    share = stack.horizon.astype(np.float64).reshape(4, -1) / target.duration.max()
    assert_array_equal(np.floor(share * 4), np.repeat(np.arange(4.0)[:, None], 2000, axis=1))
    assert kstest(share.ravel(), "uniform").pvalue > 0.01


def test_events_sampler_follows_the_events():
    target = random_target(2000)
    stack = TimeStacker(4, "events", random_state=0).draw(target)
    times = np.sort(target.duration[target.event > 0]).astype(np.float32)
    # Between the event times, so that no person's time is revealed.
    assert np.isin(stack.horizon, times).mean() < 0.01
    # One horizon in each quarter of the events.
    rank = np.searchsorted(times, stack.horizon).reshape(4, -1)
    assert_array_equal(rank * 4 // len(times), np.repeat(np.arange(4)[:, None], 2000, axis=1))
    assert kstest(rank.ravel() / len(times), "uniform").pvalue > 0.01


@pytest.mark.parametrize(("n_horizons", "n_events"), [(1, 1), (4, 2), (5, 3)])
def test_mixture_sampler_gives_the_larger_half_to_the_events(n_horizons, n_events):
    """Events all happen by 1, people are followed to 100: few even horizons fall before 1."""
    target = check_survival_target(
        ([1] * 300 + [0] * 300, [*np.linspace(0.01, 1, 300)] + [100.0] * 300)
    )
    stack = TimeStacker(n_horizons, "mixture", random_state=0).draw(target)
    early = (stack.horizon.reshape(n_horizons, -1) <= 1).mean(axis=1)
    assert_array_equal(early > 0.9, np.arange(n_horizons) >= n_horizons - n_events)


def test_events_sampler_falls_on_times_that_people_share():
    target = check_survival_target(([1] * 60, [1.0] * 20 + [2.0] * 40))
    horizon = TimeStacker(6, "events", random_state=0).draw(target).horizon
    on_time = np.isin(horizon, [1.0, 2.0]).mean()
    assert 0.9 < on_time < 1
    assert_allclose((horizon == 2).mean() / on_time, 2 / 3, atol=0.05)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_horizon_max_bounds_the_horizons(sampler):
    target = random_target()
    limit = float(np.median(target.duration))
    stack = TimeStacker(4, sampler, horizon_max=limit, random_state=0).draw(target)
    assert (stack.horizon <= np.float32(limit)).all()
    assert stack.horizon.max() > 0.9 * limit


@pytest.mark.parametrize("sampler", ["events", "mixture"])
def test_without_an_event_before_horizon_max_horizons_are_stratified(sampler):
    target = check_survival_target(([0] * 9 + [1], [*range(1, 10), 100.0]))
    stack = TimeStacker(3, sampler, horizon_max=6.0, random_state=0).draw(target)
    first_people = stack.horizon.reshape(3, -1)[:, :9]
    assert_array_equal(first_people // 2, np.repeat(np.arange(3.0)[:, None], 9, axis=1))


def test_the_largest_random_number_stays_among_the_events():
    """(3 + u) / 4 rounds to 1 for the largest u below 1, one place beyond the last event."""

    class Largest(np.random.Generator):
        def random(self, size=None):
            return np.full(size, np.nextafter(1.0, 0.0))

    target = random_target(20)
    generator = Largest(np.random.PCG64(0))
    stack = TimeStacker(4, "events", random_state=generator).draw(target)
    last = np.float32(target.duration[target.event > 0].max())
    assert_array_equal(stack.horizon.reshape(4, -1)[-1], last)


def test_own_sampler_gets_what_it_needs_and_its_horizons_are_taken():
    target = random_target(50)
    given_horizons = np.tile([0.0, 0.25, 9.0], (50, 1))
    seen = {}

    def sampler(generator, n_samples, n_horizons, outcomes):
        seen.update(generator=generator, shape=(n_samples, n_horizons), outcomes=outcomes)
        return given_horizons

    before = given_horizons.copy()
    stack = TimeStacker(3, sampler, random_state=0).draw(target)
    assert_array_equal(stack.horizon, np.repeat([0.0, 0.25, 9.0], 50))
    assert isinstance(seen["generator"], np.random.Generator)
    assert seen["shape"] == (50, 3)
    assert seen["outcomes"] is target
    TimeStacker(3, sampler, hard_zero_fraction=0.5, random_state=0).draw(target)
    assert_array_equal(given_horizons, before)  # The user's array is not written to.


@pytest.mark.parametrize(
    ("horizons", "words"),
    [
        (np.zeros((2, 50)), r"returned shape \(2, 50\); expected \(50, 2\)"),
        (np.zeros(50), r"returned shape \(50,\)"),
        (np.full((50, 2), np.nan), "returned the horizon nan"),
        (np.full((50, 2), np.inf), "returned the horizon inf"),
        (np.full((50, 2), -0.5), r"returned the horizon -0\.5"),
    ],
)
def test_bad_horizons_of_an_own_sampler_are_refused(horizons, words):
    stacker = TimeStacker(2, lambda *_: horizons)
    with pytest.raises(ValueError, match=words):
        stacker.draw(random_target(50))


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25])
def test_hard_zeros_are_as_many_as_asked_for(fraction):
    target = random_target(200)
    stacker = TimeStacker(4, "uniform", hard_zero_fraction=fraction, random_state=0)
    stack = stacker.draw(target)
    assert (stack.horizon == 0).sum() == round(fraction * 800)
    role = event_rows(target, stack)
    assert_array_equal(role.target[role.horizon == 0], 0)


# ------------------------------------------------------------------------------------- rare causes
@given(st.sampled_from(SAMPLERS), st.integers(1, 4), survival_targets(min_events=1))
def test_every_cause_that_happened_appears(sampler, n_horizons, target):
    stacker = TimeStacker(n_horizons, sampler, random_state=0)
    role = event_rows(target, stacker.draw(target))
    happened = np.unique(target.event[target.event > 0])
    assert set(happened) <= set(role.target)


def test_a_cause_that_the_draw_missed_is_looked_at_when_it_had_just_happened():
    target = check_survival_target(([1] * 50 + [2, 2], [*np.linspace(0.1, 1, 50), 7.0, 5.0]))
    early = TimeStacker(2, lambda rng, *shape: rng.uniform(0, 1, shape[:2]), random_state=0)
    role = event_rows(target, early.draw(target))
    assert_array_equal(role.person[role.target == 2], [51])
    assert_array_equal(role.horizon[role.target == 2], [5.0])


def test_no_horizon_lies_beyond_the_latest_even_for_a_cause_that_comes_later():
    target = check_survival_target(([1] * 50 + [2, 2], [*np.linspace(0.1, 1, 50), 7.0, 5.0]))
    stack = TimeStacker(2, "uniform", horizon_max=1.0, random_state=0).draw(target)
    assert stack.horizon.max() <= 1
    with pytest.raises(
        ValueError, match=r"Cause 2 has no event by horizon_max=1; its first is at 5"
    ):
        check_causes_seen(target, 1.0)
    check_causes_seen(target, 5.0)


def test_a_cause_that_no_one_had_is_no_obstacle():
    """Held-out people may lack a cause that training knows."""
    target = check_survival_target(([0, 1, 0], [1.0, 2.0, 3.0]), event_ids=[0, 1, 2])
    stack = TimeStacker(2, random_state=0).draw(target)
    assert set(event_rows(target, stack).target) <= {0, 1}


# ------------------------------------------------------------------------------------ float32 times
@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=20), st.booleans())
def test_a_horizon_at_an_event_time_sees_the_event_whatever_its_rounding(durations, censored):
    target = check_survival_target(
        (np.ones(len(durations), int) - censored, durations), require_event=False
    )
    same_times = TimeStacker(1, lambda *_: np.array(durations)[:, None]).draw(target)
    events, censorings = event_rows(target, same_times), censoring_rows(target, same_times)
    left, absent = (censorings, events) if censored else (events, censorings)
    assert_array_equal(left.target, 1)
    assert left.n_rows == len(durations)
    assert absent.n_rows == 0


# -------------------------------------------------------------------------------------- the matrix
def test_matrix_has_the_features_of_the_person_and_the_horizon_last():
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[::7, 1] = np.nan
    features, target = check_features(X), random_target(200)
    role = event_rows(target, TimeStacker(4, random_state=0).draw(target))
    matrix = role.matrix(features)
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous
    assert matrix.shape == (role.n_rows, 4)
    assert_array_equal(matrix[:, :-1], X.astype(np.float32)[role.person])
    assert_array_equal(matrix[:, -1], role.horizon)


def test_matrix_is_built_in_one_allocation():
    features = check_features(np.zeros((2000, 20)))
    person = np.tile(np.arange(2000), 50)
    times = np.zeros(len(person), np.float32)
    tracemalloc.start()
    matrix = stacked_matrix(features, person, times)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * matrix.nbytes


# ------------------------------------------------------------------------------------ wrong calls
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"n_horizons": 0}, ValueError, "`n_horizons` must be an integer >= 1; got 0"),
        ({"n_horizons": 2.5}, TypeError, r"got 2\.5"),
        ({"sampler": "gaussian"}, ValueError, "'gaussian'; choose from 'uniform', 'stratified'"),
        ({"horizon_max": 0.0}, ValueError, r"`horizon_max` must be a finite time > 0; got 0\.0"),
        ({"horizon_max": np.inf}, ValueError, "got inf"),
        ({"horizon_max": np.nan}, ValueError, "got nan"),
        ({"hard_zero_fraction": 1.0}, ValueError, r"must be in \[0, 1\); got 1\.0"),
        ({"hard_zero_fraction": -0.1}, ValueError, r"got -0\.1"),
        ({"random_state": "seed"}, TypeError, "'seed'"),
    ],
)
def test_bad_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        TimeStacker(**options)


def test_durations_that_are_all_zero_are_refused():
    with pytest.raises(ValueError, match="All durations are 0"):
        TimeStacker().draw(check_survival_target(([0, 1], [0.0, 0.0])))

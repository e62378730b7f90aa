"""Calibration against formulas, other packages and simulated truth."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import slow_formulas as slow
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scipy.stats import chi2, chisquare
from simulated import simulate

from survival_objectives.metrics import (
    FewEventsWarning,
    FollowUpWarning,
    aj_calibration,
    calibration_curve,
    d_calibration,
    km_calibration,
    one_calibration,
    pseudo_observations,
    x_calibration,
)

TIMES = np.array([0.9, 0.2, 0.5])


@pytest.fixture(scope="module")
def tied():
    data = simulate(80, seed=1, digits=1)
    return data, data.incidence(TIMES, data.hazard * 1.3), np.random.default_rng(2)


@pytest.fixture(scope="module")
def golden():
    """Cases of SurvivalEVAL, made by golden/make_golden.py, with the curves of their hazards."""
    content = json.loads((Path(__file__).parent / "golden" / "golden.json").read_text())
    given_input = content["input"]
    y = (np.array(given_input["event"]), np.array(given_input["duration"]))
    times = np.array(given_input["times"])
    states = simulate(1, seed=0).incidence(times, np.array(given_input["hazard"]))
    return content, y, times, states


# ------------------------------------------------------------------------- means against marginals
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_distances_to_marginal_curves_follow_their_formula(tied, power):
    data, states, generator = tied
    s = generator.uniform(0.5, 2, 80)
    marginals = [slow.kaplan_meier(data.y, s)] + [slow.aalen_johansen(data.y, k, s) for k in (1, 2)]
    expected = []
    for k, curve in enumerate(marginals):
        mean = [sum(s * states[:, k, j]) / sum(s) for j in range(3)]
        off = [abs(mean[j] - curve(z)) ** power for j, z in enumerate(TIMES)]
        expected.append(slow.integral(off, TIMES))
    shared = {"power": power, "sample_weight": s}
    found = aj_calibration(None, data.y, states, TIMES, average=None, **shared)
    assert_allclose(found, expected, rtol=1e-10)
    total = aj_calibration(None, data.y, states, TIMES, **shared)
    assert_allclose(total, np.mean(expected[1:]), rtol=1e-10)
    for curves in (states, states[:, 0]):
        found = km_calibration(None, data.y, curves, TIMES, **shared)
        assert_allclose(found, expected[0], rtol=1e-10)
    found = aj_calibration(None, data.y, states[:, 2], TIMES, cause=2, **shared)
    assert_allclose(found, expected[2], rtol=1e-10)


def test_distances_equal_those_of_hazardous():
    from hazardous.metrics._aj_calibration import aj_calibration_per_event

    # Times from 0, where its division by the last time is ours by their span; no tied events,
    # which lifelines, beneath it, would move apart at random.
    data = simulate(150, seed=3)
    times = np.linspace(0, data.y[1].max() * 0.9, 12)
    states = data.incidence(times, data.hazard * 1.3)
    y = pd.DataFrame({"event": data.y[0], "duration": data.y[1]})
    reference = aj_calibration_per_event(y, times, states, min_prop_at_risk=0.1)
    found = aj_calibration(None, data.y, states, times, average=None, min_at_risk=0.1)
    assert_allclose(found, [reference[k] for k in range(3)], rtol=1e-10)
    found = km_calibration(None, data.y, states, times, min_at_risk=0.1)
    assert_allclose(found, reference[0], rtol=1e-10)


def test_distance_of_one_cause_equals_that_of_survivaleval(golden):
    content, y, times, states = golden
    found = aj_calibration(None, y, states, times, cause=1)
    assert_allclose(found, content["aj_calibration"], rtol=1e-10)


# ------------------------------------------------------------------------------- probability bins
@given(
    event=hnp.arrays(np.int64, 20, elements=st.integers(0, 1)),
    at_exit=hnp.arrays(np.int64, 20, elements=st.integers(1, 40)),
    n_bins=st.integers(2, 8),
)
@settings(max_examples=50, deadline=None)
def test_d_and_x_calibration_follow_their_formulas(event, at_exit, n_bins):
    at_exit = at_exit / 40
    s = np.linspace(0.5, 2, 20)
    # Everyone leaves at time 1, where the curve is known.
    y = (event, np.ones(20))
    shares = slow.bin_shares(y, at_exit, n_bins, s)
    x = sum((share - 1 / n_bins) ** 2 for share in shares)
    statistic = sum(s) * n_bins * x
    test = d_calibration(None, y, at_exit[:, None], [1.0], n_bins=n_bins, sample_weight=s)
    assert_allclose(test.observed, shares, atol=1e-12)
    assert_allclose(test.statistic, statistic, atol=1e-9)
    assert_allclose(test.p_value, chi2.sf(statistic, n_bins - 1), atol=1e-9)
    found = x_calibration(None, y, at_exit[:, None], [1.0], n_bins=n_bins, sample_weight=s)
    assert_allclose(found, x, atol=1e-12)


def test_d_calibration_without_censoring_is_the_chi_square_test():
    generator = np.random.default_rng(4)
    at_exit = generator.uniform(size=300)
    y = (np.ones(300), np.ones(300))
    reference = chisquare(np.histogram(at_exit, bins=10, range=(0, 1))[0])
    test = d_calibration(None, y, at_exit[:, None], [1.0])
    assert_allclose([test.statistic, test.p_value], [reference.statistic, reference.pvalue])


def test_d_and_x_calibration_equal_those_of_survivaleval(golden):
    content, y, _, _ = golden
    reference = content["d_calibration"]
    # Curves at all exits, so that nothing is interpolated.
    times = np.unique(y[1])
    survival = np.exp(-np.outer(np.array(content["input"]["hazard"]).sum(axis=1), times))
    test = d_calibration(None, y, survival, times)
    assert_allclose(test.observed, reference["shares"], rtol=1e-10)
    assert_allclose(test.statistic, reference["statistic"], rtol=1e-10)
    assert_allclose(test.p_value, reference["p_value"], rtol=1e-10)
    assert_allclose(x_calibration(None, y, survival, times), reference["x_calibration"])


@pytest.mark.filterwarnings("ignore::survival_objectives.metrics.FewEventsWarning")
def test_calibration_tests_accept_the_truth_and_reject_the_rest():
    times = np.linspace(0, 30, 601)
    for seed in range(3):
        data = simulate(2_000, seed=seed)
        truth, wrong = data.incidence(times), data.incidence(times, data.hazard * 1.8)
        assert d_calibration(None, data.y, truth, times).p_value > 0.01
        assert d_calibration(None, data.y, wrong, times).p_value < 1e-6
        for cause in (0, 1, 2):
            shared = {"horizon": times[20], "cause": cause}
            assert one_calibration(None, data.y, truth, times, **shared).p_value > 0.01
            assert one_calibration(None, data.y, wrong, times, **shared).p_value < 1e-3


@pytest.mark.filterwarnings("ignore::survival_objectives.metrics.FewEventsWarning")
def test_one_calibration_has_the_level_it_claims():
    """A small version of benchmarks/calibration_size.py, where 10 groups of 300 were too many."""
    # 300 data sets: about 15 rejections at 5 %, fewer than 28 with probability 0.998.
    rejected = 0
    for seed in range(300):
        data = simulate(300, seed=seed, slope=0.0)
        truth = data.incidence([0.8])
        rejected += one_calibration(None, data.y, truth, 0.8, cause=1).p_value < 0.05
    assert 4 < rejected < 28


def test_small_groups_are_merged_with_a_warning():
    data = simulate(60, seed=1)
    truth = data.incidence([0.8])
    with pytest.warns(FewEventsWarning, match=r"Fewer than 5 .* some of 10 groups; \d are left"):
        test = one_calibration(None, data.y, truth, 0.8, cause=1)
    assert len(test.observed) < 10
    assert test.degrees_of_freedom == len(test.observed)
    assert test.n_samples.sum() == 60
    assert (np.diff(test.expected) > 0).all()
    assert ((test.expected * test.n_samples) >= 5).all()
    test = one_calibration(None, data.y, truth, 0.8, cause=1, min_expected=0.0)
    assert len(test.observed) == 10


def test_the_variance_that_was_too_small_is_gone():
    data = simulate(60, seed=1)
    with pytest.raises(ValueError, match="`variance` is 'binomial'; choose from 'null'"):
        one_calibration(None, data.y, data.incidence([0.8]), 0.8, variance="binomial")


def test_calibration_curve_of_the_truth_with_censoring_by_features():
    """Pseudo-observations are off where censoring depends on the features; the default is not."""
    data = simulate(20_000, seed=6, slope=1.5)
    truth = data.incidence([1.0])
    curve = calibration_curve(None, data.y, truth, 1.0, cause=1)
    off = np.abs(curve.observed - curve.predicted) / curve.standard_error
    assert (off < 4).all()
    pseudo = calibration_curve(None, data.y, truth, 1.0, cause=1, method="pseudo")
    assert np.abs(pseudo.observed - pseudo.predicted).max() > 0.05


# ----------------------------------------------------------------------------------- one horizon
@pytest.mark.parametrize("cause", [0, 1, 2])
def test_one_calibration_follows_its_formula(tied, cause):
    data, states, _ = tied
    z = TIMES[0]
    risk = 1 - states[:, 0, 0] if cause == 0 else states[:, cause, 0]
    order = np.argsort(risk)
    statistics = {"greenwood": 0.0, "null": 0.0}
    for people in order.reshape(4, 20):
        y = tuple(part[people] for part in data.y)
        observed = 1 - slow.kaplan_meier(y)(z) if cause == 0 else slow.aalen_johansen(y, cause)(z)
        expected = risk[people].mean()
        variance = slow.incidence_variance(y, cause, z)
        statistics["greenwood"] += (observed - expected) ** 2 / variance
        n_uncensored = min(observed * (1 - observed) / variance, 20)
        statistics["null"] += (observed - expected) ** 2 / (
            expected * (1 - expected) / n_uncensored
        )
    for variance, degrees in (("greenwood", 3), ("null", 4)):
        test = one_calibration(
            None,
            data.y,
            states,
            TIMES,
            horizon=z,
            cause=cause,
            n_groups=4,
            variance=variance,
            min_expected=0,
        )
        assert_allclose(test.statistic, statistics[variance], rtol=1e-10)
        assert test.degrees_of_freedom == degrees
        assert_allclose(test.p_value, chi2.sf(test.statistic, degrees))


def test_one_calibration_equals_that_of_survivaleval(golden):
    content, y, times, states = golden
    for name, cause in (("one_calibration", 0), ("one_calibration_cause_1", 1)):
        p_value, statistic, observed, expected = content[name]["greenwood"]
        test = one_calibration(
            None,
            y,
            states,
            times,
            horizon=times[2],
            cause=cause,
            variance="greenwood",
            min_expected=0,
        )
        assert_allclose(test.observed, observed[::-1], rtol=1e-10)
        assert_allclose(test.expected, expected[::-1], rtol=1e-10)
        assert_allclose(test.statistic, statistic, rtol=1e-10)
        # It takes a degree of freedom more than Demler et al.
        assert_allclose(chi2.sf(test.statistic, 10), p_value, rtol=1e-10)
        assert_allclose(test.p_value, chi2.sf(statistic, 9), rtol=1e-10)


def test_variance_equals_that_of_lifelines_for_one_cause():
    from lifelines import KaplanMeierFitter

    data = simulate(100, seed=5, n_causes=1, digits=1)
    fitted = KaplanMeierFitter().fit(*data.y[::-1])
    greenwood = sum(
        d / (n * (n - d))
        for t, d, n in zip(
            fitted.event_table.index,
            fitted.event_table["observed"],
            fitted.event_table["at_risk"],
            strict=True,
        )
        if t <= 0.8
    )
    states = np.full((100, 1), 0.5)
    curve = calibration_curve(None, data.y, states, 0.8, method="aalen-johansen")
    survival = fitted.predict(0.8)
    assert_allclose(curve.observed, 1 - survival, rtol=1e-10)
    assert_allclose(curve.standard_error**2, survival**2 * greenwood, rtol=1e-10)


@given(
    event=hnp.arrays(np.int64, 12, elements=st.integers(0, 2)),
    duration=hnp.arrays(np.int64, 12, elements=st.integers(0, 5)),
    z=st.sampled_from([0.0, 1.0, 2.5, 4.0]),
)
@settings(max_examples=60, deadline=None)
def test_pseudo_observations_leave_one_person_out(event, duration, z):
    y = (np.append(event, [1, 2]), np.append(duration, [9.0, 9.0]))
    found = pseudo_observations(y, z)
    expected = [[slow.pseudo_observation(y, i, k, z) for k in range(3)] for i in range(14)]
    assert_allclose(found, expected, atol=1e-9)


def test_pseudo_observations_of_the_last_person():
    y = ([1, 0, 2], [1.0, 2.0, 3.0])
    expected = [[slow.pseudo_observation(y, i, k, 5.0) for k in range(3)] for i in range(3)]
    assert_allclose(pseudo_observations(y, 5.0), expected, atol=1e-12)


def test_calibration_curve_averages_pseudo_observations(tied):
    data, states, generator = tied
    z, s = TIMES[0], generator.uniform(0.5, 2, 80)
    curve = calibration_curve(
        None,
        data.y,
        states,
        TIMES,
        horizon=z,
        cause=1,
        n_groups=4,
        method="pseudo",
        sample_weight=s,
    )
    assert (np.diff(curve.predicted) > 0).all()
    assert_allclose(curve.n_samples.sum(), s.sum())
    overall = s @ pseudo_observations(data.y, z)[:, 1] / s.sum()
    assert_allclose(curve.observed @ curve.n_samples / s.sum(), overall)
    assert_allclose(curve.predicted @ curve.n_samples / s.sum(), s @ states[:, 1, 0] / s.sum())


@pytest.mark.parametrize("method", ["pseudo", "aalen-johansen"])
def test_calibration_curve_of_the_truth_is_the_diagonal(method):
    data = simulate(20_000, seed=6, slope=0.0)
    truth = data.incidence([1.0])
    curve = calibration_curve(None, data.y, truth, 1.0, cause=2, method=method)
    assert (np.abs(curve.observed - curve.predicted) < 4 * curve.standard_error).all()
    assert (curve.standard_error < 0.02).all()


def test_equal_predictions_stay_in_one_group():
    data = simulate(50, seed=7)
    test = one_calibration(None, data.y, np.full((50, 1), 0.5), 0.5)
    assert len(test.observed) == 1


# ------------------------------------------------------------------------------------------- edges
def test_times_beyond_follow_up_are_left_out_with_a_warning():
    y = ([1, 2, 1, 0], [1.0, 2.0, 3.0, 4.0])
    states = np.full((4, 3, 3), 1 / 3)
    times = [1.0, 4.0, 6.0]
    with pytest.warns(FollowUpWarning, match="1 of 3 times.*censored at 4"):
        found = aj_calibration(None, y, states, times)
    assert_allclose(found, aj_calibration(None, y, states[..., :2], times[:2]))
    with pytest.warns(FollowUpWarning, match="between 6 and 6"):
        test = one_calibration(None, y, states, times, horizon=6.0, n_groups=1)
    assert np.isnan(test.p_value)
    with pytest.warns(FollowUpWarning, match="between 6 and 6"):
        curve = calibration_curve(None, y, states, times, horizon=6.0, n_groups=1)
    assert np.isnan(curve.observed).all()
    with pytest.warns(FollowUpWarning, match="horizon 6 is beyond"):
        pseudo_observations(y, 6.0)


def test_people_beyond_the_curves_count_as_censored_there():
    y = ([1, 1], [1.0, 5.0])
    survival = np.full((2, 1), 0.5)
    with pytest.warns(FollowUpWarning, match="1 of 2 people are followed beyond the last time, 2"):
        found = x_calibration(None, y, survival, [2.0], n_bins=2)
    # At time 1 the curve stands at 0.75; the other person may die at any lower probability.
    assert found == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "`times` has 3 values; choose one with `horizon`"),
        ({"horizon": 0.55}, "not among `times`; nearest: 0.5"),
        ({"horizon": 0.5, "n_groups": 0}, "n_groups"),
        ({"horizon": 0.5, "variance": "none"}, "variance"),
        ({"horizon": 0.5, "min_expected": -1}, "min_expected"),
    ],
)
def test_errors_name_the_value(tied, options, message):
    data, states, _ = tied
    with pytest.raises(ValueError, match=message):
        one_calibration(None, data.y, states, TIMES, **options)

"""Calibration against formulas, other packages and simulated truth."""

import json
from pathlib import Path

import numpy as np
import pytest
import slow_formulas as slow
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scipy.stats import chi2, chisquare
from simulated import simulate

from survival_objectives.metrics import Evaluation, FollowUpWarning

TIMES = np.array([0.9, 0.2, 0.5])


def d_calibration(y, survival, times, *, n_bins=10, **options):
    return Evaluation(None, y, survival, times, **options).d_calibration(n_bins=n_bins)


def risk_groups(y, curves, times, *, cause=0, horizon=None, n_groups=10, **options):
    evaluation = Evaluation(None, y, curves, times, **options)
    return evaluation.risk_groups(cause, horizon, n_groups=n_groups)


def pseudo_observations(y, z):
    return Evaluation(None, y, np.zeros((len(y[0]), 1)), [z]).pseudo_observations()


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


# ------------------------------------------------------------------------------- probability bins
@given(
    event=hnp.arrays(np.int64, 20, elements=st.integers(0, 1)),
    at_exit=hnp.arrays(np.int64, 20, elements=st.integers(1, 40)),
    n_bins=st.integers(2, 8),
)
@settings(max_examples=50, deadline=None)
def test_d_calibration_follows_its_formulas(event, at_exit, n_bins):
    at_exit = at_exit / 40
    s = np.linspace(0.5, 2, 20)
    # Everyone leaves at time 1, where the curve is known.
    y = (event, np.ones(20))
    shares = slow.bin_shares(y, at_exit, n_bins, s)
    x = sum((share - 1 / n_bins) ** 2 for share in shares)
    statistic = sum(s) * n_bins * x
    test = d_calibration(y, at_exit[:, None], [1.0], n_bins=n_bins, sample_weight=s)
    assert_allclose(test.shares, shares, atol=1e-12)
    assert_allclose(test.statistic, statistic, atol=1e-9)
    assert_allclose(test.p_value, chi2.sf(statistic, n_bins - 1), atol=1e-9)


def test_d_calibration_without_censoring_is_the_chi_square_test():
    generator = np.random.default_rng(4)
    at_exit = generator.uniform(size=300)
    y = (np.ones(300), np.ones(300))
    reference = chisquare(np.histogram(at_exit, bins=10, range=(0, 1))[0])
    test = d_calibration(y, at_exit[:, None], [1.0])
    assert_allclose([test.statistic, test.p_value], [reference.statistic, reference.pvalue])


def test_d_calibration_equals_that_of_survivaleval(golden):
    content, y, _, _ = golden
    reference = content["d_calibration"]
    # Curves at all exits, so that nothing is interpolated.
    times = np.unique(y[1])
    survival = np.exp(-np.outer(np.array(content["input"]["hazard"]).sum(axis=1), times))
    test = d_calibration(y, survival, times)
    assert_allclose(test.shares, reference["shares"], rtol=1e-10)
    assert_allclose(test.statistic, reference["statistic"], rtol=1e-10)
    assert_allclose(test.p_value, reference["p_value"], rtol=1e-10)


def test_calibration_tests_accept_the_truth_and_reject_the_rest():
    times = np.linspace(0, 30, 601)
    for seed in range(3):
        data = simulate(2_000, seed=seed)
        truth, wrong = data.incidence(times), data.incidence(times, data.hazard * 1.8)
        assert d_calibration(data.y, truth, times).p_value > 0.01
        assert d_calibration(data.y, wrong, times).p_value < 1e-6
        for cause in (0, 1, 2):
            shared = {"horizon": times[20], "cause": cause}
            assert risk_groups(data.y, truth, times, **shared).p_value > 0.01
            assert risk_groups(data.y, wrong, times, **shared).p_value < 1e-3


def test_one_calibration_has_the_level_it_claims():
    """A small version of benchmarks/calibration_size.py, where 10 groups of 300 were too many."""
    # 300 data sets: about 15 rejections at 5 %, fewer than 28 with probability 0.998.
    rejected = 0
    for seed in range(300):
        data = simulate(300, seed=seed, slope=0.0)
        truth = data.incidence([0.8])
        rejected += risk_groups(data.y, truth, 0.8, cause=1).p_value < 0.05
    assert 4 < rejected < 28


def test_small_groups_are_merged_for_the_test():
    data = simulate(60, seed=1)
    groups = risk_groups(data.y, data.incidence([0.8]), 0.8, cause=1)
    assert len(groups.observed) == 10
    assert 1 <= groups.degrees_of_freedom < 10
    assert groups.n_samples.sum() == 60
    assert (np.diff(groups.predicted) > 0).all()


def test_risk_groups_of_the_truth_with_censoring_by_features():
    """Pseudo-observations are off where censoring depends on the features; risk groups are not."""
    data = simulate(20_000, seed=6, slope=1.5)
    truth = data.incidence([1.0])
    groups = risk_groups(data.y, truth, 1.0, cause=1)
    assert (np.abs(groups.observed - groups.predicted) / groups.standard_error < 4).all()
    pseudo = pseudo_observations(data.y, 1.0)[:, 1]
    of_group = np.searchsorted(np.quantile(truth[:, 1, 0], np.arange(0.1, 1, 0.1)), truth[:, 1, 0])
    means = np.bincount(of_group, weights=pseudo) / np.bincount(of_group)
    assert np.abs(means - groups.predicted).max() > 0.05


# ----------------------------------------------------------------------------------- one horizon
@pytest.mark.parametrize("cause", [0, 1, 2])
def test_risk_groups_follow_their_formula(cause):
    z = 0.9
    data = simulate(400, seed=1, digits=1)
    risk = data.incidence([z], data.hazard * 1.3)[:, cause, 0]
    risk = 1 - risk if cause == 0 else risk
    statistic = 0.0
    found = risk_groups(
        data.y, (1 - risk if cause == 0 else risk)[:, None], [z], cause=cause, n_groups=4
    )
    for row, people in enumerate(np.argsort(risk).reshape(4, 100)):
        y = tuple(part[people] for part in data.y)
        observed = 1 - slow.kaplan_meier(y)(z) if cause == 0 else slow.aalen_johansen(y, cause)(z)
        expected = risk[people].mean()
        variance = slow.incidence_variance(y, cause, z)
        assert_allclose(found.observed[row], observed, rtol=1e-10)
        assert_allclose(found.predicted[row], expected, rtol=1e-10)
        assert_allclose(found.standard_error[row] ** 2, variance, rtol=1e-10)
        n_uncensored = min(observed * (1 - observed) / variance, 100)
        statistic += (observed - expected) ** 2 / (expected * (1 - expected) / n_uncensored)
    assert_allclose(found.statistic, statistic, rtol=1e-10)
    assert found.degrees_of_freedom == 4
    assert_allclose(found.p_value, chi2.sf(statistic, 4))


def test_risk_groups_equal_those_of_survivaleval(golden):
    content, y, times, states = golden
    for name, cause in (("one_calibration", 0), ("one_calibration_cause_1", 1)):
        _, statistic, observed, expected = content[name]["greenwood"]
        groups = risk_groups(y, states, times, horizon=times[2], cause=cause)
        assert_allclose(groups.observed, observed[::-1], rtol=1e-10)
        assert_allclose(groups.predicted, expected[::-1], rtol=1e-10)
        gap = (groups.observed - groups.predicted) / groups.standard_error
        assert_allclose(gap @ gap, statistic, rtol=1e-10)


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
    curve = risk_groups(data.y, states, 0.8)
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


def test_risk_groups_of_the_truth_are_the_diagonal():
    data = simulate(20_000, seed=6, slope=0.0)
    groups = risk_groups(data.y, data.incidence([1.0]), 1.0, cause=2)
    assert (np.abs(groups.observed - groups.predicted) < 4 * groups.standard_error).all()
    assert (groups.standard_error < 0.02).all()


def test_equal_predictions_stay_in_one_group():
    data = simulate(50, seed=7)
    test = risk_groups(data.y, np.full((50, 1), 0.5), 0.5)
    assert len(test.observed) == 1


# ------------------------------------------------------------------------------------------- edges
def test_times_beyond_follow_up_are_unknown_with_a_warning():
    y = ([1, 2, 1, 0], [1.0, 2.0, 3.0, 4.0])
    states = np.full((4, 3, 3), 1 / 3)
    times = [1.0, 4.0, 6.0]
    with pytest.warns(FollowUpWarning, match="1 of 3 times.*censored at 4"):
        found = Evaluation(None, y, states, times).observed_expected(1)
    assert np.isnan(found.value).tolist() == [False, False, True]
    with pytest.warns(FollowUpWarning, match="between 6 and 6"):
        groups = risk_groups(y, states, times, horizon=6.0, n_groups=1)
    assert np.isnan(groups.p_value)
    assert np.isnan(groups.observed).all()
    with pytest.warns(FollowUpWarning, match="between 6 and 6.*Curves stay flat"):
        pseudo_observations(y, 6.0)


def test_without_events_intercept_and_slope_are_unknown():
    risk = np.linspace(0.1, 0.4, 30)
    curves = np.stack([1 - 2 * risk, risk, risk], axis=1)[:, :, None]
    y = (np.tile([0, 2], 15), np.linspace(0.1, 2, 30))
    evaluation = Evaluation(None, y, curves, [1.0], event_ids=[0, 1, 2])
    found = evaluation.calibration(1)
    unknown = [found.intercept.value, found.slope.value, found.slope.lower, found.p_value]
    assert np.isnan(unknown).all()
    assert np.isfinite(evaluation.calibration(2).slope.value)


def test_people_beyond_the_curves_count_as_censored_there():
    y = ([1, 1], [1.0, 5.0])
    survival = np.full((2, 1), 0.5)
    with pytest.warns(FollowUpWarning, match="1 of 2 people are followed beyond the last time, 2"):
        found = d_calibration(y, survival, [2.0], n_bins=2)
    # At time 1 the curve stands at 0.75; the other person may die at any lower probability.
    assert found.statistic == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "`times` has 3 values; choose one with `horizon`"),
        ({"horizon": 0.55}, "not among `times`; nearest: 0.5"),
        ({"horizon": 0.5, "n_groups": 0}, "n_groups"),
    ],
)
def test_errors_name_the_value(tied, options, message):
    data, states, _ = tied
    with pytest.raises(ValueError, match=message):
        risk_groups(data.y, states, TIMES, **options)

"""Concordance indices and time-dependent AUC against formulas and other packages."""

import numpy as np
import pandas as pd
import pytest
import slow_formulas as slow
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from simulated import simulate

from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.metrics import (
    FollowUpWarning,
    concordance_index,
    time_dependent_auc,
)
from survival_objectives.metrics._concordance import dominance_sums

TIMES = np.array([0.9, 0.3])


def uno_concordance_index(y_train, y_test, risk, times, cause=1, **options):
    """Of risks that do not depend on the horizon, which may be any numbers."""
    order = np.unique(risk, return_inverse=True)[1]
    curves = np.repeat(order[:, None] / (order.max() + 1), len(times), axis=1)
    return concordance_index(y_train, y_test, curves, times, cause=cause, **options)


SMALL = st.integers(0, 7)


class AnyModel:
    """Kaplan-Meier in a coat: not recognised as marginal, so pairs are weighted one by one."""

    def __init__(self, y, s):
        self.marginal = KaplanMeierCensoring().fit(y, sample_weight=s)

    def survival(self, times, X=None, *, left=False):
        return self.marginal.survival(times, left=left)


@pytest.fixture(scope="module")
def tied():
    data = simulate(70, seed=1, digits=1)
    generator = np.random.default_rng(2)
    states = generator.dirichlet(np.ones(3), size=(70, 2)).transpose(0, 2, 1).round(1)
    states[:, 0] = 1 - states[:, 1:].sum(axis=1)  # Ties in the risks, too.
    return data, np.clip(states, 0, 1), generator.uniform(0.5, 2, 70)


def marginal(y, s=None):
    return [slow.kaplan_meier_censoring(y, s)] * len(y[0])


def risks(states, k):
    return 1 - states[:, 0] if k == 0 else states[:, k]


def test_concordance_follows_its_formula(tied):
    data, states, s = tied
    for weighted in (True, False):
        G = marginal(data.y, s) if weighted else [lambda t, left: 1.0] * 70
        expected = [
            [
                slow.concordance(G, data.y, risks(states, k)[:, j], z, k, s)
                for j, z in enumerate(TIMES)
            ]
            for k in range(3)
        ]
        found = concordance_index(data.y, data.y, states, TIMES, sample_weight=s, weighted=weighted)
        assert_allclose(found, expected, rtol=1e-12)


def test_concordance_with_conditional_censoring_follows_its_formula(tied):
    data, states, s = tied
    G = [
        lambda t, left, x=x: float(data.censoring.survival(np.array([t]), x[None])[0])
        for x in data.X
    ]
    expected = [slow.concordance(G, data.y, states[:, 1, 0], TIMES[0], 1, s)]
    found = concordance_index(
        data.censoring, data.y, states[..., :1], TIMES[:1], cause=1, X=data.X, sample_weight=s
    )
    assert_allclose(found, expected, rtol=1e-12)


def test_pairs_one_by_one_equal_pairs_by_sorting(tied):
    data, states, s = tied
    sorted_pairs = concordance_index(data.y, data.y, states, TIMES, sample_weight=s)
    one_by_one = concordance_index(
        AnyModel(data.y, s), data.y, states, TIMES, X=data.X, sample_weight=s
    )
    assert_allclose(one_by_one, sorted_pairs, rtol=1e-12)


@given(
    points=hnp.arrays(np.int64, st.tuples(st.integers(0, 20), st.just(2)), elements=SMALL),
    queries=hnp.arrays(np.int64, st.tuples(st.integers(1, 9), st.just(2)), elements=SMALL),
)
@settings(max_examples=100, deadline=None)
def test_dominance_sums_count_the_points_beyond_and_below(points, queries):
    weight = np.arange(1.0, len(points) + 1)
    expected = [
        sum(w for (key, rank), w in zip(points, weight, strict=True) if key > k and rank < r)
        for k, r in queries
    ]
    assert_allclose(dominance_sums(*points.T, weight, *queries.T), expected, atol=1e-9)


def test_auc_follows_its_formula(tied):
    data, states, s = tied
    G = marginal(data.y, s)
    for controls in ("all", "event-free"):
        expected = [
            [
                slow.auc(G, data.y, risks(states, k)[:, j], z, k, s, controls)
                for j, z in enumerate(TIMES)
            ]
            for k in range(3)
        ]
        found = time_dependent_auc(
            data.y, data.y, states, TIMES, sample_weight=s, controls=controls
        )
        assert_allclose(found, expected, rtol=1e-12)


@given(
    event=hnp.arrays(np.int64, 10, elements=st.integers(0, 2)),
    duration=hnp.arrays(np.int64, 10, elements=st.integers(0, 4)),
    risk=hnp.arrays(np.int64, 10, elements=st.integers(0, 4)),
    cause=st.integers(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_uno_index_follows_the_formula_for_any_input(event, duration, risk, cause):
    # The first and last person keep every cause comparable and every weight finite.
    event = np.concatenate([[1, 2], event, [1]])
    duration = np.concatenate([[0.5, 0.5], duration, [9.0]])
    risk = np.concatenate([[2, 1], risk, [0]])
    y = (event, duration)
    expected = slow.concordance(marginal(y), y, risk, 3.0, cause, np.ones(13))
    found = uno_concordance_index(y, y, risk if cause else -risk, [3.0], cause=cause)
    assert_allclose(found if cause else 1 - (1 - found), expected, rtol=1e-10)


# ---------------------------------------------------------------------------------- other packages
def test_concordance_equals_that_of_hazardous():
    # hazardous reads G(t) where G(t-) is right and floors it at 0.05: no ties, and early times.
    from hazardous.metrics import concordance_index_incidence

    train, test = simulate(300, seed=3), simulate(200, seed=4)
    generator = np.random.default_rng(5)
    y_train, y_test = (pd.DataFrame({"event": y[0], "duration": y[1]}) for y in (train.y, test.y))
    times = np.array([0.3, 0.6, 1.0])
    states = generator.dirichlet(np.ones(3), size=(200, 3)).transpose(0, 2, 1)
    for estimator in ("km", None):
        found = concordance_index(train.y, test.y, states, times, weighted=estimator is not None)
        for k in (1, 2):
            reference = concordance_index_incidence(
                y_test,
                states[:, k],
                y_train=None if estimator is None else y_train,
                ipcw_estimator=estimator,
                time_grid=times,
                taus=times,
                event_of_interest=k,
            )
            assert_allclose(found[k], reference, rtol=1e-10)


def test_indices_equal_those_of_scikit_survival():
    # scikit-survival, too, reads G(t) for G(t-): data without ties. Its tau excludes events at tau.
    from sksurv.metrics import concordance_index_censored, concordance_index_ipcw
    from sksurv.metrics import cumulative_dynamic_auc as reference_auc
    from sksurv.util import Surv

    train, test = simulate(300, seed=3, n_causes=1), simulate(200, seed=4, n_causes=1)
    # It refuses test people followed longer than the training people.
    test.y[0][test.y[1] > 1.5], test.y[1][test.y[1] > 1.5] = 0, 1.5
    generator = np.random.default_rng(5)
    y_train, y_test = (Surv.from_arrays(y[0] == 1, y[1]) for y in (train.y, test.y))
    risk = generator.integers(0, 50, 200).astype(float)
    reference = concordance_index_ipcw(y_train, y_test, risk, tau=1.0)[0]
    assert_allclose(uno_concordance_index(train.y, test.y, risk, [1.0]), reference, rtol=1e-10)
    times = np.array([0.3, 0.6, 1.0])
    incidence = generator.uniform(size=(200, 3)).round(2)
    reference = reference_auc(y_train, y_test, incidence, times)[0]
    found = time_dependent_auc(train.y, test.y, incidence, times, cause=1)
    assert_allclose(found, reference, rtol=1e-10)
    reference = concordance_index_censored(test.y[0] == 1, test.y[1], risk)[0]
    last = [test.y[1].max()]
    found = concordance_index(None, test.y, (risk / 50)[:, None], last, cause=1, weighted=False)
    assert_allclose(found, reference, rtol=1e-10)


def test_unweighted_concordance_equals_that_of_lifelines():
    from lifelines.utils import concordance_index as reference_index

    # lifelines counts pairs of events at the same time; without such ties both are the same.
    data = simulate(200, seed=6, n_causes=1)
    risk = np.random.default_rng(7).uniform(size=200)
    reference = reference_index(data.y[1], -risk, data.y[0])
    found = concordance_index(
        None, data.y, risk[:, None], [data.y[1].max()], cause=1, weighted=False
    )
    assert_allclose(found, reference, rtol=1e-10)


# -------------------------------------------------------------------------------------- properties
def test_true_order_has_the_largest_auc():
    data = simulate(20_000, seed=8)
    times = np.array([0.5, 1.5])
    truth = data.incidence(times)
    noise = np.random.default_rng(9).lognormal(0, 0.4, data.hazard.shape)
    rival = data.incidence(times, data.hazard * noise)
    best = time_dependent_auc(data.censoring, data.y, truth, times, X=data.X)
    assert (time_dependent_auc(data.censoring, data.y, rival, times, X=data.X) < best).all()


def test_equal_risks_are_chance():
    data = simulate(100, seed=10)
    states = np.full((100, 3, 2), 1 / 3)
    assert_allclose(concordance_index(data.y, data.y, states, TIMES), 0.5)
    assert_allclose(time_dependent_auc(data.y, data.y, states, TIMES), 0.5)


def test_reversed_risks_reverse_the_index():
    data = simulate(100, seed=11)
    risk = np.random.default_rng(12).normal(size=100)
    one, other = (uno_concordance_index(data.y, data.y, sign * risk, [1.0]) for sign in (1, -1))
    assert_allclose(one + other, 1)


# ------------------------------------------------------------------------------------------- edges
def test_nothing_to_compare_is_nan_with_a_warning():
    y = ([1, 0, 1], [1.0, 2.0, 3.0])
    survival = np.full((3, 2), 0.5)
    for metric in (concordance_index, time_dependent_auc):
        with pytest.warns(FollowUpWarning, match="between 0.5 and 0.5.*no pair"):
            found = metric(y, y, survival, [0.5, 2.5])
        assert np.isnan(found).tolist() == [True, False]


def test_infinite_weights_are_nan_with_a_warning():
    train = ([1, 0], [1.0, 2.0])
    y = ([1, 1, 1], [1.0, 3.0, 4.0])
    with pytest.warns(FollowUpWarning, match="uncensored is 0"):
        found = uno_concordance_index(train, y, [3.0, 2.0, 1.0], [2.0, 3.5])
    assert_allclose(found, [1.0, np.nan])
    floored = uno_concordance_index(train, y, [3.0, 2.0, 1.0], [3.5], min_censoring_survival=0.1)
    assert_allclose(floored, 1.0)

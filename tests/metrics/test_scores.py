"""Proper scores and their integrals against formulas, other packages and simulated truth."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import slow_formulas as slow
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scores import value_of
from simulated import simulate

from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.metrics import FollowUpWarning, brier_score, integrated_brier_score
from survival_objectives.metrics._scores import integrated_score

log_loss = partial(value_of, "log_loss")
integrated_log_loss = partial(value_of, "integrated_log_loss")

TIMES = np.array([0.4, 0.1, 1.0, 0.7])


@pytest.fixture(scope="module")
def tied():
    """People with many ties, weights and predictions; times well inside follow-up."""
    data = simulate(60, seed=1, digits=1)
    generator = np.random.default_rng(2)
    states = generator.dirichlet(np.ones(3), size=(60, len(TIMES))).transpose(0, 2, 1)
    return data, states, generator.uniform(0.5, 2, 60)


def marginal(y, n_samples, s=None):
    return [slow.kaplan_meier_censoring(y, s)] * n_samples


def conditional(model, X):
    def of_person(x):
        return lambda t, left: float(model.survival(np.array([t]), x[None], left=left)[0])

    return [of_person(x) for x in X]


@pytest.mark.parametrize("weights", ["kaplan-meier", "conditional"])
@pytest.mark.parametrize("cause", [0, 1, 2])
def test_binary_scores_follow_their_formulas(tied, weights, cause):
    data, states, s = tied
    if weights == "kaplan-meier":
        censoring, X, G = data.y, None, marginal(data.y, 60, s)
    else:
        censoring, X, G = data.censoring, data.X, conditional(data.censoring, data.X)
    shared = {"cause": cause, "X": X, "sample_weight": s}
    expected = [
        slow.weighted_score(slow.brier, G, data.y, states[:, cause, j], z, cause, s)
        for j, z in enumerate(TIMES)
    ]
    found = brier_score(censoring, data.y, states, TIMES, **shared)
    assert_allclose(found, expected, rtol=1e-12)


def test_log_loss_follows_its_formula(tied):
    data, states, s = tied
    G = marginal(data.y, 60, s)
    expected = [slow.vector_log_loss(G, data.y, states[:, :, j], z, s) for j, z in enumerate(TIMES)]
    assert_allclose(log_loss(data.y, data.y, states, TIMES, sample_weight=s), expected, rtol=1e-12)


def test_integrals_follow_their_formula(tied):
    data, states, _ = tied
    brier = brier_score(data.y, data.y, states, TIMES)
    by_curve = [slow.integral(row, TIMES) for row in brier]
    arguments = (data.y, data.y, states, TIMES)
    assert_allclose(integrated_brier_score(*arguments, average=None), by_curve, rtol=1e-12)
    assert_allclose(integrated_brier_score(*arguments), np.mean(by_curve[1:]), rtol=1e-12)
    assert_allclose(integrated_brier_score(*arguments, average="all"), np.mean(by_curve))
    assert_allclose(integrated_brier_score(*arguments, cause=2), by_curve[2], rtol=1e-12)
    assert_allclose(
        integrated_log_loss(*arguments), slow.integral(log_loss(*arguments), TIMES), rtol=1e-12
    )


def test_integral_at_its_edges():
    assert integrated_score([0.3], [2.0]) == 0.3
    assert np.isnan(integrated_score([], []))
    with pytest.raises(ValueError, match=r"shape \(2,\); its last axis must be the 3 times"):
        integrated_score([0.3, 0.4], [1.0, 2.0, 3.0])


# ---------------------------------------------------------------------------------- other packages
def as_frame(y):
    return pd.DataFrame({"event": y[0], "duration": y[1]})


def test_scores_equal_those_of_hazardous():
    # hazardous reads G(t) where G(t-) is right and floors G at 0.05 or more. Without ties, and at
    # times where G is above, both are the same.
    from hazardous.metrics import (
        brier_score_incidence,
        brier_score_survival,
        integrated_brier_score_incidence,
        integrated_brier_score_survival,
    )
    from hazardous.metrics._negative_log_likelihood import IncidenceLossComputer

    train, test = simulate(300, seed=3), simulate(200, seed=4)
    times = np.linspace(0.05, 1.2, 9)
    states = np.random.default_rng(5).dirichlet(np.ones(3), size=(200, 9)).transpose(0, 2, 1)
    y_train, y_test = as_frame(train.y), as_frame(test.y)
    found = brier_score(train.y, test.y, states, times)
    integrated = integrated_brier_score(train.y, test.y, states, times, average=None)
    any_train, any_test = (y.assign(event=(y["event"] > 0).astype(int)) for y in (y_train, y_test))
    reference = brier_score_survival(any_train, any_test, states[:, 0], times)
    assert_allclose(found[0], reference, rtol=1e-10)
    reference = integrated_brier_score_survival(any_train, any_test, states[:, 0], times)
    assert_allclose(integrated[0], reference, rtol=1e-10)
    for k in (1, 2):
        reference = brier_score_incidence(y_train, y_test, states[:, k], times, k)
        assert_allclose(found[k], reference, rtol=1e-10)
        reference = integrated_brier_score_incidence(y_train, y_test, states[:, k], times, k)
        assert_allclose(integrated[k], reference, rtol=1e-10)
    computer = IncidenceLossComputer(y_train)
    reference = computer.negative_log_likelihood_incidence(y_test, states, times)
    assert_allclose(log_loss(train.y, test.y, states, times), reference, rtol=1e-10)


def test_brier_score_equals_that_of_scikit_survival():
    from sksurv.metrics import brier_score as reference_score
    from sksurv.metrics import integrated_brier_score as reference_integral
    from sksurv.util import Surv

    train, test = simulate(300, seed=3, n_causes=1), simulate(200, seed=4, n_causes=1)
    times = np.linspace(0.05, 1.2, 9)
    survival = np.random.default_rng(5).uniform(size=(200, 9))
    y_train, y_test = (Surv.from_arrays(y[0] == 1, y[1]) for y in (train.y, test.y))
    reference = reference_score(y_train, y_test, survival, times)[1]
    assert_allclose(brier_score(y_train, y_test, survival, times), reference, rtol=1e-10)
    reference = reference_integral(y_train, y_test, survival, times)
    assert_allclose(integrated_brier_score(y_train, y_test, survival, times), reference, rtol=1e-10)


# -------------------------------------------------------------------------------------- properties
def test_true_curves_score_best():
    data = simulate(20_000, seed=6)
    times = np.linspace(0.1, 2.0, 8)
    truth = data.incidence(times)
    generator = np.random.default_rng(7)
    rivals = [
        data.incidence(times, data.hazard * factor) for factor in (0.8, 1.25, [1.3, 0.8], [1, 1.3])
    ]
    rivals.append(data.incidence(times, data.hazard * generator.lognormal(0, 0.3, (20_000, 1))))
    rivals.append(np.broadcast_to(truth.mean(axis=0), truth.shape))
    metrics = (brier_score, log_loss)
    for metric in metrics:
        best = metric(data.censoring, data.y, truth, times, X=data.X)
        for rival in rivals:
            score = metric(data.censoring, data.y, rival, times, X=data.X)
            # One cause may be untouched by a change of the other; on average none is.
            assert (score.mean(axis=-1) >= best.mean(axis=-1) - 1e-9).all()
            assert score.mean() > best.mean()


def test_oracle_weights_estimate_the_uncensored_score():
    data = simulate(40_000, seed=8)
    times = np.array([0.5, 1.0])
    wrong = data.incidence(times, data.hazard[::-1])
    truth = data.incidence(times)
    # The expectation over outcomes, without any censoring.
    expected = (truth * (1 - wrong) ** 2 + (1 - truth) * wrong**2).mean(axis=0)
    found = brier_score(data.censoring, data.y, wrong, times, X=data.X)
    assert_allclose(found, expected, atol=0.01)
    # Censoring depends on the features here, so Kaplan-Meier weights miss it.
    missed = brier_score(data.y, data.y, wrong, times)
    assert np.abs(missed - expected).max() > 2 * np.abs(found - expected).max()


def test_survival_curve_is_scored_as_one_cause():
    data = simulate(50, seed=9, n_causes=1)
    survival = np.random.default_rng(0).uniform(size=(50, 4))
    both = np.stack([survival, 1 - survival], axis=1)
    as_states = brier_score(data.y, data.y, both, TIMES)
    assert_allclose(as_states[0], as_states[1], rtol=1e-12)
    assert_allclose(brier_score(data.y, data.y, survival, TIMES), as_states[0], rtol=1e-12)
    found = log_loss(data.y, data.y, survival, TIMES)
    assert_allclose(found, log_loss(data.y, data.y, both, TIMES))
    incidence = brier_score(data.y, data.y, 1 - survival, TIMES, cause=1)
    assert_allclose(incidence, as_states[1], rtol=1e-12)


@given(repeats=hnp.arrays(np.int64, 30, elements=st.integers(1, 3)))
@settings(max_examples=20, deadline=None)
def test_sample_weights_count_people(repeats):
    data = simulate(30, seed=10, digits=1)
    states = data.incidence(TIMES)
    again = np.repeat(np.arange(30), repeats)
    y_again = tuple(part[again] for part in data.y)
    for metric in (brier_score, log_loss):
        weighted = metric(data.y, data.y, states, TIMES, sample_weight=repeats)
        assert_allclose(weighted, metric(y_again, y_again, states[again], TIMES), rtol=1e-12)


@given(
    event=hnp.arrays(np.int64, 12, elements=st.sampled_from([0, 2, 5])),
    duration=hnp.arrays(np.int64, 12, elements=st.integers(0, 5)),
    z=st.sampled_from([0.0, 0.5, 1.0, 2.5, 3.0]),
)
@settings(max_examples=60, deadline=None)
def test_weights_and_labels_survive_any_input(event, duration, z):
    # A person who is last and has an event keeps all of these times inside follow-up.
    event, duration = np.append(event, [2, 5]), np.append(duration, [9, 9]).astype(float)
    states = np.random.default_rng(0).dirichlet(np.ones(3), size=14)[:, :, None]
    y = (event, duration)
    G = marginal(y, 14)
    s = np.ones(14)
    codes = (np.searchsorted([0, 2, 5], event), duration)
    expected = [
        slow.weighted_score(slow.brier, G, codes, states[:, k, 0], z, k, s) for k in range(3)
    ]
    assert_allclose(brier_score(y, y, states, z)[:, 0], expected, rtol=1e-10)
    assert_allclose(brier_score(y, y, states, z, cause=5)[0], expected[2], rtol=1e-10)


@given(
    event=hnp.arrays(np.int64, 12, elements=st.integers(0, 2)),
    duration=hnp.arrays(np.int64, 12, elements=st.integers(0, 5)),
    z=st.sampled_from([0.0, 1.0, 2.5, 5.0]),
)
@settings(max_examples=60, deadline=None)
def test_weights_of_the_people_themselves_give_aalen_johansen(event, duration, z):
    # Exact with ties because events weigh 1/G(t-). scikit-survival weighs them by 1/G(t), and its
    # weights do not average to 1 where a censoring ties with an event; hazardous lets censorings
    # come first, and its weighted shares are not Aalen-Johansen's.
    y = (np.append(event, [1, 2]), np.append(duration, [9.0, 9.0]))
    share = brier_score(y, y, np.zeros((14, 3, 1)), z)[:, 0]
    rest = brier_score(y, y, np.ones((14, 3, 1)), z)[:, 0]
    assert_allclose(share + rest, 1)
    marginals = [slow.kaplan_meier(y), *[slow.aalen_johansen(y, k) for k in (1, 2)]]
    assert_allclose(share, [curve(z) for curve in marginals], atol=1e-12)


def test_accepts_all_forms_of_censoring():
    data = simulate(80, seed=11)
    states = data.incidence(TIMES)
    fitted = KaplanMeierCensoring().fit(data.y)
    assert_allclose(
        brier_score(fitted, data.y, states, TIMES), brier_score(data.y, data.y, states, TIMES)
    )


# ------------------------------------------------------------------------------------------- edges
def test_times_beyond_follow_up_are_nan_with_a_warning():
    y = ([1, 2, 1, 0], [1.0, 2.0, 3.0, 4.0])
    states = np.full((4, 3, 3), 1 / 3)
    with pytest.warns(FollowUpWarning, match="1 of 3 times.*last person.*censored at 4"):
        found = brier_score(y, y, states, [2.5, 4.0, 3.5])
    assert np.isnan(found).all(axis=0).tolist() == [False, True, False]
    with pytest.warns(FollowUpWarning, match=r"The integral ends at 3\.5\."):
        truncated = integrated_brier_score(y, y, states, [2.5, 4.0, 3.5])
    assert_allclose(truncated, integrated_brier_score(y, y, states[..., :2], [2.5, 3.5]))
    with pytest.warns(FollowUpWarning, match="integral is NaN"):
        assert np.isnan(integrated_log_loss(y, y, states, [5.0, 6.0, 7.0]))


def test_uncensored_people_are_scored_at_any_time():
    y = ([1, 2, 1], [1.0, 2.0, 3.0])
    states = np.full((3, 3, 1), 1 / 3)
    assert_allclose(brier_score(y, y, states, [10.0])[0], 1 / 9)


def test_no_weight_is_infinite():
    train = ([1, 0], [1.0, 2.0])
    y = ([1, 1, 1], [1.0, 3.0, 4.0])
    survival = np.full((3, 1), 0.5)
    with pytest.warns(FollowUpWarning, match="probability of being uncensored is 0"):
        assert np.isnan(brier_score(train, y, survival, [3.5])).all()
    floored = brier_score(train, y, survival, [3.5], min_censoring_survival=0.5)
    assert_allclose(floored, 0.25 * (1 + 2 + 2) / 3)


def test_impossible_events_cost_much_but_not_all():
    y = ([1, 1], [1.0, 2.0])
    certain = np.array([[[1.0], [0.0]], [[1.0], [0.0]]])
    assert_allclose(log_loss(y, y, certain, [1.5]), -np.log(1e-15) / 2)
    assert np.isinf(log_loss(y, y, certain, [1.5], min_probability=0.0))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"curves": np.full((4, 2, 2), 0.5)}, ValueError, "shape .4, 2, 2. for 1 times"),
        ({"curves": np.full((3, 2, 1), 0.5)}, ValueError, "3 rows for the 4 people"),
        ({"curves": np.full((4, 2, 1), 1.5)}, ValueError, "1.5 at index .0, 0, 0."),
        ({"curves": np.full((4, 2, 1), np.nan)}, ValueError, "nan at index"),
        ({"curves": np.full((4, 1, 1), 0.5)}, ValueError, "has no cause"),
        ({"curves": np.full((4, 4, 1), 0.25), "y": ([7, 0, 1, 1], [1, 2, 3, 4])},
         ValueError, "labels seen are .1, 7."),
        ({"cause": 3}, ValueError, "`cause` is 3, but the labels are .1."),
        ({"event_ids": [0, 1, 2]}, ValueError, "3 labels for 2 curves"),
        ({"min_censoring_survival": 1.5}, ValueError, "min_censoring_survival"),
    ],
)  # fmt: skip
def test_errors_name_the_value(change, error, message):
    y = ([1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0])
    arguments = {"y_train": y, "y": y, "curves": np.full((4, 2, 1), 0.5), "times": [1.5]}
    with pytest.raises(error, match=message):
        brier_score(**(arguments | change))


def test_probabilities_that_do_not_sum_to_one_are_refused():
    y = ([1, 2], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"person 0 at time 1\.5 sum to 1\.2, not 1"):
        log_loss(y, y, np.full((2, 3, 1), 0.4), [1.5])

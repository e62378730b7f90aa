"""S_Cen-log-simple against its formula and simulated truth."""

import numpy as np
import pytest
import slow_formulas as slow
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from simulated import simulate

from survival_objectives.metrics import FollowUpWarning, likelihood_score


def as_functions(states, times):
    """Linear curves from (0, 1) or (0, 0), one list a person."""
    times = np.concatenate([[0.0], times])
    start = np.eye(states.shape[1])[0]

    def curve(k, values):
        return lambda t: np.interp(t, times, np.concatenate([[start[k]], values]))

    return [[curve(k, values) for k, values in enumerate(person)] for person in states]


@given(
    event=hnp.arrays(np.int64, 15, elements=st.integers(0, 2)),
    duration=hnp.arrays(np.int64, 15, elements=st.integers(0, 8)),
    n_nodes=st.integers(1, 9),
)
@settings(max_examples=50, deadline=None)
def test_score_follows_its_formula(event, duration, n_nodes):
    event, y_duration = np.append(event, [1, 2]), np.append(duration, [4, 8]) / 8
    y = (event, y_duration)
    times = np.array([0.25, 0.5, 1.0])
    generator = np.random.default_rng(0)
    hazard = generator.uniform(0.2, 1, (17, 2))
    states = simulate(1, seed=0).incidence(times, hazard)
    s = generator.uniform(0.5, 2, 17)
    expected = slow.cen_log_simple(
        y, as_functions(states, times), np.linspace(0, 1, n_nodes + 1), s
    )
    found = likelihood_score(y, y, states, times, n_nodes=n_nodes, sample_weight=s)
    assert_allclose(found, expected, rtol=1e-12)


def test_survival_curves_are_scored_as_one_cause():
    data = simulate(100, seed=1, n_causes=1)
    times = np.linspace(0, data.y[1].max(), 33)
    states = data.incidence(times)
    as_states = likelihood_score(None, data.y, states, times)
    assert_allclose(likelihood_score(None, data.y, states[:, 0], times), as_states)
    # The order of the times is free, and nodes among them need no interpolation.
    shuffled = np.random.default_rng(0).permutation(33)
    found = likelihood_score(None, data.y, states[..., shuffled], times[shuffled], nodes=times)
    assert_allclose(found, as_states)


def test_true_curves_score_best_with_many_nodes():
    data = simulate(5_000, seed=2)
    times = np.linspace(0, data.y[1].max(), 400)
    best = likelihood_score(None, data.y, data.incidence(times), times, n_nodes=399)
    for factor in (0.8, 1.25, [1.2, 0.8]):
        rival = data.incidence(times, data.hazard * factor)
        assert likelihood_score(None, data.y, rival, times, n_nodes=399) > best


def test_people_beyond_the_last_node_count_as_censored_there():
    y = ([1, 1], [1.0, 5.0])
    survival = np.array([[0.5], [0.25]])
    with pytest.warns(FollowUpWarning, match="1 of 2 people are followed beyond the last node, 2"):
        found = likelihood_score(None, y, survival, [2.0], n_nodes=1)
    assert_allclose(found, -(np.log(0.5) + np.log(0.25)) / 2)


def test_curves_that_rise_pay_the_floor():
    y = ([1], [1.5])
    found = likelihood_score(None, y, [[0.5, 0.6]], [1.0, 2.0], n_nodes=2)
    assert_allclose(found, -np.log(1e-15))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": [0.0, 3.0]}, "`nodes` is 3, but curves are given up to 2"),
        ({"nodes": [1.0, 1.0]}, "increasing times"),
        ({"n_nodes": 0}, "n_nodes"),
    ],
)
def test_errors_name_the_nodes(options, message):
    with pytest.raises(ValueError, match=message):
        likelihood_score(None, ([1], [1.5]), [[0.5]], [2.0], **options)

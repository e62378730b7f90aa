"""Accuracy in time against its formula, hazardous and simulated truth."""

import numpy as np
import pandas as pd
import pytest
import slow_formulas as slow
from numpy.testing import assert_allclose
from simulated import simulate

from survival_objectives.metrics import Evaluation, FollowUpWarning

TIMES = np.array([0.8, 0.2])


def accuracy_in_time(*data, weighted=False, **options):
    return Evaluation(*data, **options).accuracy(weighted=weighted)


def test_accuracy_follows_its_formula():
    data = simulate(60, seed=1, digits=1)
    generator = np.random.default_rng(2)
    states = generator.dirichlet(np.ones(3), size=(60, 2)).transpose(0, 2, 1)
    states[:20] = 1 / 3  # Where all states are as probable, the first one counts.
    s = generator.uniform(0.5, 2, 60)
    G = slow.kaplan_meier_censoring(data.y, s)
    for weighted in (False, True):
        expected = []
        for j, z in enumerate(TIMES):
            w = [slow.weight(G, t, d, z) for d, t in zip(*data.y, strict=True)]
            v = w if weighted else [float(value > 0) for value in w]
            expected.append(slow.accuracy(data.y, states[:, :, j], z, s, v))
        found = accuracy_in_time(data.y, data.y, states, TIMES, sample_weight=s, weighted=weighted)
        assert_allclose(found, expected, rtol=1e-12)


def test_accuracy_equals_that_of_hazardous():
    from hazardous.metrics import accuracy_in_time as reference_accuracy

    data = simulate(200, seed=3, digits=1)
    times = np.linspace(0.1, 1.5, 6)
    states = np.random.default_rng(4).dirichlet(np.ones(3), size=(200, 6)).transpose(0, 2, 1)
    y = pd.DataFrame({"event": data.y[0], "duration": data.y[1]})
    reference, _ = reference_accuracy(y, states, times)
    assert_allclose(accuracy_in_time(None, data.y, states, times), reference, rtol=1e-10)


def test_weights_remove_the_bias_of_censoring():
    data = simulate(40_000, seed=5)
    times = np.array([0.7, 1.5])
    truth = data.incidence(times)
    expected = truth.max(axis=1).mean(axis=0)
    weighted = accuracy_in_time(data.censoring, data.y, truth, times, X=data.X, weighted=True)
    assert_allclose(weighted, expected, atol=0.015)
    assert (np.abs(accuracy_in_time(None, data.y, truth, times) - expected) > 0.02).any()


def test_no_one_left_is_nan_with_a_warning():
    y = ([0, 0], [1.0, 2.0])
    states = np.full((2, 2, 2), 0.5)
    with pytest.warns(FollowUpWarning, match="between 3 and 3.*everyone is censored"):
        found = accuracy_in_time(None, y, states, [0.5, 3.0])
    assert_allclose(found, [1.0, np.nan])

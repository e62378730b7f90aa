"""Arguments that metrics share: labels of causes, weights of people, the reach of follow-up."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scores import NAMES, WITHOUT_CAUSE, estimate_of, value_of
from simulated import simulate

from survival_objectives import metrics
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.metrics import (
    Evaluation,
    FollowUpWarning,
    brier_score,
    make_survival_scorer,
)

AT_A_HORIZON = ("calibration", "risk_groups", "net_benefit")


@pytest.fixture(scope="module")
def people():
    data = simulate(60, seed=0, n_causes=1, digits=2)
    return data.y, data.incidence([0.5, 1.0])


# --------------------------------------------------------------------------------- labels of causes
@pytest.mark.parametrize("cause", [-10, 7, 2, 0.5, "1"])
@pytest.mark.parametrize("n_dimensions", [2, 3])
@pytest.mark.parametrize("name", [*sorted(set(NAMES) - set(WITHOUT_CAUSE)), *AT_A_HORIZON])
def test_a_cause_that_does_not_exist_is_an_error(people, name, n_dimensions, cause):
    y, states = people
    curves = states if n_dimensions == 3 else states[:, 1]
    data = (y, y, curves, [0.5, 1.0])
    if name in AT_A_HORIZON:
        score = partial(getattr(Evaluation(*data), name), cause, 0.5)
    else:
        score = partial(estimate_of, name, *data, cause=cause)
    with pytest.raises(ValueError, match=r"`cause` is .*, but the labels are \[1\]"):
        score()


def test_a_cause_that_no_one_had_is_named_by_its_labels(people):
    """A fold may lack a rare cause; training outcomes or `event_ids` say that it exists."""
    (event, duration), _ = people
    y, curves = (event, duration), np.zeros((60, 2))
    y_train = (np.append(event, 2), np.append(duration, 0.3))
    assert_array_equal(brier_score(y_train, y, curves, [0.5, 1.0], cause=2), 0.0)
    model = KaplanMeierCensoring().fit(y)
    options = {"cause": 2, "event_ids": [0, 1, 2]}
    assert_array_equal(brier_score(model, y, curves, [0.5, 1.0], **options), 0.0)
    with pytest.raises(ValueError, match=r"labels are \[1\].*`event_ids`"):
        brier_score(model, y, curves, [0.5, 1.0], cause=2)


# ------------------------------------------------------------------------------- weights of people
@pytest.mark.parametrize("name", NAMES)
def test_weight_two_is_two_people(people, name):
    (event, duration), states = people
    repeats = np.random.default_rng(1).integers(0, 4, 60)
    repeats[np.argmax(duration)] = 1
    y = (np.repeat(event, repeats), np.repeat(duration, repeats))
    metric = partial(value_of, name)
    repeated = metric(y, y, np.repeat(states, repeats, axis=0), [0.5, 1.0])
    weighted = metric(people[0], people[0], states, [0.5, 1.0], sample_weight=repeats)
    assert_allclose(weighted, repeated, rtol=1e-12)
    # Only relations count.
    scaled = metric(people[0], people[0], states, [0.5, 1.0], sample_weight=repeats / 1e3)
    assert_allclose(scaled, repeated, rtol=1e-12)


def test_weights_do_not_touch_the_censoring_of_others(people):
    y, states = people
    weight = np.linspace(0.5, 2, 60)
    other = (y[0][::-1].copy(), y[1])
    model = KaplanMeierCensoring().fit(other)
    expected = brier_score(model, y, states, [0.5, 1.0], sample_weight=weight)
    assert_array_equal(brier_score(other, y, states, [0.5, 1.0], sample_weight=weight), expected)


class Curves:
    """An estimator that predicts constant hazards by a feature, whatever it was fitted on."""

    event_ids_ = np.array([0, 1])

    def predict_cumulative_incidence(self, X, times):
        gone = -np.expm1(-np.outer(X[:, 0], times))
        return np.stack([1 - gone, gone], axis=1)


@pytest.mark.filterwarnings("ignore::survival_objectives.metrics.FollowUpWarning")
@pytest.mark.parametrize("name", ["brier", "likelihood", "auc"])
def test_weight_two_is_two_people_in_scorers(people, name):
    (event, duration), _ = people
    X = np.random.default_rng(2).lognormal(size=(60, 1))
    repeats = np.random.default_rng(4).integers(0, 4, 60)
    scorer = make_survival_scorer(name)
    repeated = scorer(
        Curves(),
        np.repeat(X, repeats, axis=0),
        (np.repeat(event, repeats), np.repeat(duration, repeats)),
    )
    assert_allclose(scorer(Curves(), X, (event, duration), sample_weight=repeats), repeated)


# ------------------------------------------------------------------------------ reach of follow-up
def test_censoring_is_unknown_after_the_training_people():
    """No one of training is followed beyond 19, where the last one has an event."""
    generator = np.random.default_rng(0)
    event = generator.integers(0, 2, 50)
    y_train = (np.append(event, 1), np.append(generator.uniform(0, 18, 50), 19.0))
    y_test = (generator.integers(0, 2, 40), generator.uniform(0, 40, 40))
    survival = np.full((40, 3), 0.5)
    with pytest.warns(FollowUpWarning, match=r"2 of 3 times.*training.*end at 19"):
        found = brier_score(y_train, y_test, survival, [15.0, 20.0, 30.0])
    assert_array_equal(np.isnan(found), [False, True, True])
    with pytest.warns(FollowUpWarning, match=r"The integral ends at 15"):
        metrics.integrated_brier_score(y_train, y_test, survival, [15.0, 20.0, 30.0])
    with pytest.warns(FollowUpWarning, match=r"2 of 3 times"):
        found = metrics.concordance_index(y_train, y_test, survival, [15.0, 20.0, 30.0])
    assert_array_equal(np.isnan(found), [False, True, True])


def test_follow_up_of_training_matters_only_where_it_is_used():
    y_train = ([0, 1, 1], [1.0, 2.0, 3.0])
    # All test people have left before the last training person: no weight is taken from later.
    y_test = ([1, 0, 1], [1.5, 0.5, 2.5])
    assert np.isfinite(brier_score(y_train, y_test, np.full((3, 1), 0.5), [10.0])).all()
    # Where no one is ever censored there is nothing to estimate.
    uncensored = ([1, 1, 1], [1.0, 2.0, 3.0])
    later = ([1, 1, 1], [1.5, 2.5, 7.0])
    assert_allclose(brier_score(uncensored, later, np.full((3, 1), 0.5), [5.0]), 0.25)

"""G of each kind of censoring model, where the weights (10) need it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_schemes import people

from survival_objectives._horizons.schemes.weighted import (
    marginal_survival,
    own_survival,
    survival_before_events,
)
from survival_objectives._people.population import TimeAxis
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.stacking import TimeStacker, event_rows


class Exponential:
    """P(C > t) = P(C >= t) = exp(-t / 2); remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def survival(self, times, X=None, *, left=False):
        self.asked.append((np.array(times), np.array(X), left))
        return np.exp(-np.asarray(times) / 2)


@pytest.fixture
def whole():
    return people()


@pytest.fixture
def rows(whole):
    stacker = TimeStacker(3, "uniform", horizon_max=2.0, random_state=0)
    return event_rows(whole.target, stacker.draw(whole.target))


def test_marginal_weights_are_equation_10(whole, rows):
    """1 / G(z) where the person stayed, 1 / G(t-) after an event, 0 after a censoring."""
    kaplan_meier = KaplanMeierCensoring().fit(whole.target)
    weight, _ = rows.weights(*marginal_survival(kaplan_meier, whole.target, rows), floor=1e-9)
    duration, event = whole.target.duration[rows.person], whole.target.event[rows.person]
    stayed = duration > rows.horizon
    expected = np.where(
        stayed,
        1 / kaplan_meier.survival(rows.horizon),
        np.where(event > 0, 1 / kaplan_meier.survival(duration, left=True), 0.0),
    )
    assert_allclose(weight, expected)


def test_no_one_is_censored_before_the_start():
    margin, duration = np.array([3.0, 3.0, -2.0]), np.array([0.0, 1.0, 2.0])
    expected = [1.0, 1 / (1 + np.exp(3.0)), 1 / (1 + np.exp(-2.0))]
    assert_allclose(survival_before_events(margin, duration), expected)


def test_a_given_model_is_asked_about_people_as_they_were_given(whole, rows):
    model = Exponential()
    at_horizon, before = own_survival(model, whole.as_passed, rows, TimeAxis(0.0))
    horizon = rows.horizon[rows.at_risk]
    assert_allclose(at_horizon, np.exp(-horizon / 2), rtol=1e-6)  # float32
    assert_allclose(before, np.exp(-whole.as_passed.duration[rows.exited] / 2))
    (_, X, left), (_, X_leaver, left_leaver) = model.asked
    assert_array_equal(X, np.asarray(whole.as_passed.X)[rows.person[rows.at_risk]])
    assert_array_equal(X_leaver, np.asarray(whole.as_passed.X)[rows.exited])
    assert (left, left_leaver) == (False, True)


def test_a_horizon_within_a_unit_asks_about_its_beginning(whole, rows):
    model = Exponential()
    own_survival(model, whole.as_passed, rows, TimeAxis(0.5))
    times, _, left = model.asked[0]
    begin = np.floor(rows.horizon[rows.at_risk] / 0.5) * 0.5
    assert left
    assert (times <= begin).all()
    assert_allclose(times, begin, rtol=1e-5)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n: np.ones(n + 1), "returned shape"),
        (lambda n: np.full(n, 1.5), "1.5, which is not a probability"),
        (lambda n: np.full(n, np.nan), "nan, which is not a probability"),
    ],
)
def test_answers_that_are_no_probabilities_are_refused(whole, rows, answer, message):
    class Wrong:
        def survival(self, times, X=None, *, left=False):
            return answer(len(times))

    with pytest.raises(ValueError, match=message):
        own_survival(Wrong(), whole.as_passed, rows, TimeAxis(0.0))

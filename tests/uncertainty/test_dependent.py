"""Censoring that depends on the event: formulas, and simulations with a known dependence."""

import numpy as np
import pandas as pd
import pytest
from estimator_data import hazards
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives.metrics import Evaluation
from survival_objectives.uncertainty import dependent_censoring, dependent_incidence
from survival_objectives.uncertainty._dependent import DependentCensoring

NODES = np.linspace(0, 2, 81)


class Constant:
    """Constant hazards of two causes and of censoring; after it, those of causes are multiplied."""

    event_ids_ = np.array([0, 1, 2])

    def __init__(self, factor=(1.0, 1.0)):
        self.factor = np.array(factor)

    def rates(self, X):
        risk = np.exp(0.7 * np.asarray(X)[:, 0])
        return np.stack([0.6 * risk, 0.3 / risk], axis=1)

    def leaving(self, X):
        return 0.8 * np.exp(0.5 * np.asarray(X)[:, 0])

    def predict_cumulative_incidence(self, X, times):
        """What hazards of people under observation say."""
        rates = self.rates(X)
        total = rates.sum(axis=1)[:, None]
        gone = -np.expm1(-total * np.asarray(times))
        return np.concatenate(
            [(1 - gone)[:, None], (rates / total)[:, :, None] * gone[:, None]], axis=1
        )

    def survival(self, times, X=None, *, left=False):
        return np.exp(-self.leaving(X)[:, None] * np.asarray(times))

    def draw(self, n, seed=0):
        """Features, outcomes as observed, and the true causes and times."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 1))
        time = rng.exponential(size=(n, 2)) / self.rates(X)
        leave = rng.exponential(size=n) / self.leaving(X)
        later = leave[:, None] + rng.exponential(size=(n, 2)) / (self.rates(X) * self.factor)
        observed = time.min(axis=1) <= leave
        true = np.where(observed[:, None], time, later)
        cause = 1 + true.argmin(axis=1)
        y = (np.where(observed, cause, 0), np.minimum(time.min(axis=1), leave))
        return X, y, (cause, true.min(axis=1))


def incidence(model, X, factor):
    curves = model.predict_cumulative_incidence(X, NODES)
    grid = np.broadcast_to(NODES, (len(X), len(NODES)))
    return dependent_incidence(curves, model.survival(grid, X), factor)


# ---------------------------------------------------------------------------------------- formulas
def test_factors_of_one_change_nothing():
    X = np.linspace(-1, 1, 5)[:, None]
    model = Constant()
    assert_allclose(incidence(model, X, 1.0), model.predict_cumulative_incidence(X, NODES))


def test_constant_hazards_have_a_closed_form():
    X, factor = np.linspace(-1, 1, 5)[:, None], np.array([2.5, 0.5])
    model = Constant(factor)
    found = incidence(model, X, factor)
    h, c = model.rates(X).sum(axis=1)[:, None], model.leaving(X)[:, None]
    r = (model.rates(X) @ factor)[:, None]
    censored = c * (np.exp(-r * NODES) - np.exp(-(h + c) * NODES)) / (h + c - r)
    assert_allclose(found[:, 0], np.exp(-(h + c) * NODES) + censored, atol=1e-12)
    assert_allclose(found.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("factor", [(3.0, 3.0), (0.3, 1.0), (1.0, 2.0)])
def test_people_who_are_followed_after_censoring(factor):
    model = Constant(factor)
    X, _, (cause, time) = model.draw(12_000)
    found = incidence(model, X, factor).mean(axis=0)[:, 40]
    wrong = incidence(model, X, 1.0).mean(axis=0)[:, 40]
    truth = [(time > 1).mean()] + [((time <= 1) & (cause == k)).mean() for k in (1, 2)]
    assert_allclose(found, truth, atol=0.014)
    assert np.abs(wrong - truth).max() > 0.025


def test_a_copula_with_a_known_dependence():
    # Clayton: given censoring at c, the hazard at c is 1 + theta times that of people observed.
    theta, n = 2.0, 40_000
    rng = np.random.default_rng(0)
    frailty = rng.gamma(1 / theta, size=n)
    time, leave = ((1 + rng.exponential(size=n) / frailty) ** (-1 / theta) for _ in range(2))
    time, leave = -np.log(time), -np.log(leave)
    observed = time <= leave
    # Hazards of those who are observed, by counting.
    end = np.minimum(time, leave)
    at_risk = (end[:, None] > NODES[:-1]).sum(axis=0)
    cells = [np.histogram(end[kind], NODES)[0] for kind in (observed, ~observed)]
    survival, uncensored = (np.append(1, np.cumprod(1 - cell / at_risk)) for cell in cells)
    curves = np.stack([survival, 1 - survival])[None]
    truth = np.exp(-NODES)
    error = {
        factor: np.abs(dependent_incidence(curves, uncensored[None], factor)[0, 0] - truth).max()
        for factor in (1.0, 1 + theta)
    }
    assert error[1.0] > 0.1
    assert error[1 + theta] < error[1.0] / 2


# ----------------------------------------------------------------------------------------- answers
def test_scores_are_those_of_people_who_are_followed():
    model = Constant((3.0, 1.0))
    X, y, (cause, time) = model.draw(4000)
    found = dependent_censoring(
        model, X, y, 1.0, cause=1, threshold=0.4, factors=[1.0, 3.0], censoring=model
    )
    happened = (time <= 1) & (cause == 1)
    predicted = model.predict_cumulative_incidence(X, [1.0])[:, 1, 0]
    treated = predicted > 0.4
    benefit = np.mean(treated * (happened - 0.4 / 0.6 * ~happened))
    last = found.table.iloc[-1]
    assert_allclose(last["incidence"], happened.mean(), atol=0.02)
    assert_allclose(last["brier"], np.mean((predicted - happened) ** 2), atol=0.01)
    assert_allclose(last["net_benefit"], benefit, atol=0.015)
    assert abs(found.table["net_benefit"][0] - benefit) > 0.02
    assert last["above"] == (found.risk[-1] > 0.4).mean()


def test_without_dependence_the_brier_score_is_the_usual_one():
    model = Constant()
    X, y, _ = model.draw(4000)
    found = dependent_censoring(model, X, y, 1.0, cause=1, factors=[1.0], censoring=model)
    curves = model.predict_cumulative_incidence(X, [1.0])
    usual = Evaluation(None, y, curves, [1.0]).brier(1)
    assert abs(found.table["brier"][0] - usual.value[0]) < 3 * usual.standard_error[0]


def test_tipping_factors():
    model = Constant()
    X, y, _ = model.draw(300)
    found = dependent_censoring(model, X, y, 1.0, cause=1, threshold=0.4, censoring=model)
    tips = found.tipping_factors()
    person = np.flatnonzero((tips > 1.2) & (tips < 3))[0]
    at_tip = dependent_incidence(
        curves := model.predict_cumulative_incidence(X[[person]], NODES),
        model.survival(np.broadcast_to(NODES, (1, len(NODES))), X[[person]]),
        [tips[person], 1.0],
    )
    assert_allclose(at_tip[0, 1, 40], 0.4, atol=0.005)
    assert curves[0, 1, 40] < 0.4
    assert np.isnan(tips[found.risk.max(axis=0) < 0.4]).all()


def test_the_decision_that_tips():
    factors = np.array([0.5, 1.0, 2.0, 4.0])
    table = {"net_benefit": [0.1, 0.1, 0.1, 0.1], "net_benefit_all": [-0.1, 0.0, 0.05, 0.15]}
    found = DependentCensoring(factors, np.zeros((4, 1)), pd.DataFrame(table), 0.2)
    assert_allclose(found.tipping_factor(), 2 * np.sqrt(2))


def test_an_estimator_and_its_folds():
    model = Constant((4.0, 1.0))
    X, y, (_, time) = model.draw(600)
    fitted = hazards(n_estimators=10).fit(X, y)
    found = dependent_censoring(fitted, X, y, 1.0, factors=[1.0, 3.0], cv=2)
    truth = (time <= 1).mean()
    first, last = found.table["incidence"]
    assert abs(last - truth) < abs(first - truth)
    assert_array_equal(found.factors, [1.0, 3.0])


def test_errors_name_the_value_and_the_way_out():
    model = Constant()
    X, y, _ = model.draw(50)
    with pytest.raises(ValueError, match="factors of a hazard are > 0"):
        dependent_censoring(model, X, y, 0.5, factors=[0.0, 1.0], censoring=model)
    with pytest.raises(ValueError, match=r"`horizon` is 1000, .* earlier horizon"):
        dependent_censoring(model, X, y, 1000.0, censoring=model)
    found = dependent_censoring(model, X, y, 0.5, factors=[1.0], censoring=model)
    with pytest.raises(ValueError, match="pass `threshold`"):
        found.tipping_factor()

"""Weights from a censoring model of the user's own."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from estimator_data import boost, mixed_columns, same_booster, simulated
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from survival_objectives import load
from survival_objectives._horizons.loop import BoostingLoop
from survival_objectives.adapters.dask import fit_dask
from survival_objectives.adapters.external_memory import fit_external
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.datasets import integrated_squared_error


class ByGroup:
    """Exponential censoring whose rate is known and depends on a column; it notes its questions."""

    def __init__(self, column="x0"):
        self.column = column
        self.asked = []

    def rate(self, X):
        return np.exp(np.asarray(X[self.column]) - 1)

    def survival(self, times, X=None, *, left=False):
        self.asked.append((np.asarray(times), X, left))
        return np.exp(-self.rate(X) * np.asarray(times))


def censored_by_group(n_samples, seed=0):
    """People without censoring of their own, censored as `ByGroup` says, and their truth."""
    data = simulated(n_samples, random_state=seed, censoring=None)
    rng = np.random.default_rng(seed)
    censoring = rng.exponential(1 / ByGroup().rate(data.X))
    seen = data.y["duration"] <= censoring
    y = pd.DataFrame(
        {
            "event": np.where(seen, data.y["event"], 0),
            "duration": np.minimum(data.y["duration"], censoring),
        }
    )
    return data, y


def test_a_given_kaplan_meier_is_the_built_in_one(engine, data):
    given = boost(engine, censoring=KaplanMeierCensoring().fit(data.y)).fit(data.X, data.y)
    assert same_booster(given, boost(engine, censoring="kaplan-meier").fit(data.X, data.y))
    assert given.censoring_method_ == "given"
    assert given.refreshed_rounds_ == []


def test_a_given_kaplan_meier_in_whole_days(data):
    """A horizon within a day asks who is uncensored as the day begins."""
    y = data.y.assign(duration=np.ceil(data.y["duration"] * 5))
    given = boost("xgboost", censoring=KaplanMeierCensoring().fit(y)).fit(data.X, y)
    built_in = boost("xgboost", censoring="kaplan-meier").fit(data.X, y)
    times = np.arange(1.0, 8.0)
    assert_allclose(
        given.predict_survival_function(data.X, times),
        built_in.predict_survival_function(data.X, times),
        atol=1e-6,
    )


def test_people_are_passed_as_they_were_given(data):
    X, y = mixed_columns(data)
    X["sex"] = X["sex"].astype(str)
    model = ByGroup("x1")
    weight = np.where(np.arange(300) % 3 == 0, 0.0, 1.0)
    boost("lightgbm", censoring=model, n_estimators=5).fit(X, y, sample_weight=weight)
    assert model.asked
    for times, people, left in model.asked:
        assert isinstance(people, pd.DataFrame)
        assert list(people.columns) == list(X.columns)
        assert_array_equal(people["sex"].to_numpy(), X["sex"][people.index].to_numpy())
        assert (weight[people.index] > 0).all()
        if left:  # Event times are those of the outcomes, before any rounding.
            assert_array_equal(times, y["duration"][people.index])


def test_weights_are_those_of_the_model(data, monkeypatch):
    weights, run = [], BoostingLoop.run

    def remember(loop, held_out=None):
        ask = loop.scheme.targets_and_weights

        def asked(chunk):
            found = ask(chunk)
            weights.append((next(chunk.rows()), found[1]))
            return found

        loop.scheme.targets_and_weights = asked
        run(loop, held_out)

    monkeypatch.setattr(BoostingLoop, "run", remember)
    model = ByGroup()
    boost("xgboost", censoring=model, n_horizons=4, n_estimators=40).fit(data.X, data.y)
    assert len(weights) == 4
    rate = model.rate(data.X)
    for rows, weight in weights:
        role = rows.events
        until = np.where(role.at_risk, role.horizon, data.y["duration"].to_numpy()[role.person])
        expected = 1 / np.maximum(np.exp(-rate[role.person] * until), 0.05) / 4
        assert_allclose(weight, expected, rtol=1e-6)
    # It is asked once per draw, however often its rows are boosted on.
    assert_array_equal(weights[0][1], weights[3][1])


def test_known_censoring_is_better_than_a_marginal_curve():
    data, y = censored_by_group(3000)
    test = data.draw(500, random_state=1)
    times = np.linspace(0.1, 1.5, 10)
    truth = test.true.cumulative_incidence(test.X, times)
    errors = [
        integrated_squared_error(
            truth,
            boost("xgboost", censoring=censoring, n_estimators=100)
            .fit(data.X, y)
            .predict_cumulative_incidence(test.X, times),
            times,
        )
        for censoring in (ByGroup(), "kaplan-meier")
    ]
    assert errors[0] < 0.95 * errors[1]


def test_held_out_people_are_weighted_by_it_too(data):
    model = ByGroup()
    fitted = boost("xgboost", censoring=model, early_stopping_rounds=3, n_estimators=50)
    fitted.fit(data.X[:200], data.y[:200], eval_set=(data.X[200:], data.y[200:]))
    losses = [record.loss for record in fitted.history_]
    assert fitted.n_estimators_ == np.argmin(losses) + 1
    assert any(people.index.min() >= 200 for _, people, _ in model.asked)
    marginal = boost("xgboost", censoring="kaplan-meier", early_stopping_rounds=3, n_estimators=50)
    marginal.fit(data.X[:200], data.y[:200], eval_set=(data.X[200:], data.y[200:]))
    assert fitted.history_[0].loss != marginal.history_[0].loss


def test_a_warm_start_keeps_to_it(data):
    model = boost("xgboost", censoring=ByGroup(), warm_start=True).fit(data.X, data.y)
    model.set_params(n_estimators=30).fit(data.X, data.y)
    assert (model.n_estimators_, model.censoring_method_) == (30, "given")


def test_the_fitted_model_has_it_until_it_is_saved(data, tmp_path):
    given = ByGroup()
    model = boost("xgboost", censoring=given, n_estimators=5).fit(data.X, data.y)
    assert model.censoring_ is given
    assert clone(model).get_params()["censoring"].column == "x0"
    copy = pickle.loads(pickle.dumps(model))
    assert isinstance(copy.censoring_, ByGroup)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_array_equal(loaded.predict(data.X), model.predict(data.X))
    assert loaded.censoring_method_ == "given"
    # Files hold no object of the user's: what is left is the marginal curve.
    survival = loaded.censoring_.survival(np.full(300, 1.0), data.X)
    assert np.ptp(survival) == 0


class Wrong:
    def __init__(self, answer):
        self.answer = answer

    def survival(self, times, X=None, *, left=False):
        return self.answer(np.asarray(times))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda times: np.ones((len(times), 2)), r"returned shape \(\d+, 2\) for"),
        (lambda times: np.full(len(times), 1.5), "returned 1.5, which is not a probability"),
        (lambda times: np.full(len(times), np.nan), "returned nan, which is not a probability"),
    ],
)
def test_what_is_no_survival_is_refused(data, answer, words):
    with pytest.raises(ValueError, match=words):
        boost("xgboost", censoring=Wrong(answer)).fit(data.X, data.y)


def test_what_is_no_model_is_refused(data):
    with pytest.raises((TypeError, ValueError), match="`censoring`"):
        boost("xgboost", censoring=3.0).fit(data.X, data.y)


def test_from_disk_and_on_a_cluster_it_is_refused(data):
    model = boost("xgboost", censoring=ByGroup())
    with pytest.raises(ValueError, match=r"`censoring` is a ByGroup.* in memory"):
        fit_external(model, [(data.X, data.y)])
    with pytest.raises(ValueError, match=r"`censoring` is a ByGroup.* in one process"):
        fit_dask(model, data.X, data.y)

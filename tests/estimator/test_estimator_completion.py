"""`completion=`: censored people have distributions over the states as targets."""

from __future__ import annotations

import numpy as np
import pytest
from estimator_data import ENGINES, boost
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import SurvivalBoost, load
from survival_objectives._horizons import schemes
from survival_objectives._horizons.completion import SurvivalCompletion
from survival_objectives.adapters.external_memory import fit_external
from survival_objectives.datasets import make_competing_risks

# No feature matters to the events of the exponential people.
pytestmark = pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")

RATES = np.array([0.4, 0.8])


class Exponential:
    """The incidences of two causes with constant hazards, the same for all people."""

    def __init__(self) -> None:
        self.n_asked = 0

    def predict_cumulative_incidence(self, X, times):
        self.n_asked += 1
        survival = np.exp(-RATES.sum() * np.asarray(times))
        share = RATES / RATES.sum()
        curves = np.stack([survival, share[0] * (1 - survival), share[1] * (1 - survival)])
        return np.repeat(curves[None], len(X), axis=0)


def exponential_people(n_samples=4000, seed=0):
    """No feature matters to the events; one decides who is censored early."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 3))
    time = rng.exponential(1 / RATES.sum(), n_samples)
    leave = rng.exponential(np.where(X[:, 0] > 0, 0.3, 5.0))
    cause = rng.choice([1, 2], n_samples, p=RATES / RATES.sum())
    return X, {"event": np.where(time <= leave, cause, 0), "duration": np.minimum(time, leave)}


def test_targets_are_the_conditional_distributions(monkeypatch):
    """Equation (46), for constant hazards: what is left after the exit, whatever its time."""
    seen = []
    targets = schemes.CompletedScheme.targets_and_weights

    def remember(self, chunk):
        found = targets(self, chunk)
        seen.append((next(chunk.rows()), *found))
        return found

    monkeypatch.setattr(schemes.CompletedScheme, "targets_and_weights", remember)
    X, y = exponential_people(500)
    boost("xgboost", n_estimators=10, completion=Exponential()).fit(X, y)
    rows, psi, weight = seen[0]
    assert_allclose(psi.sum(axis=1), 1, atol=1e-6)
    person, horizon = rows.events.person, rows.events.horizon
    duration, event = rows.target.duration[person], rows.target.event[person]
    lost = (duration <= horizon) & (event == 0)
    assert lost.any()
    left = np.exp(-RATES.sum() * (horizon[lost] - duration[lost]))
    # Curves are linear between 192 times.
    assert_allclose(psi[lost, 0], left, atol=6e-3)
    assert_allclose(psi[lost, 2], RATES[1] / RATES.sum() * (1 - left), atol=6e-3)
    happened = (duration <= horizon) & (event > 0)
    assert_array_equal(psi[happened, event[happened]], 1)
    assert_allclose(weight, weight[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_the_truth_as_completion_gives_the_truth_where_features_tell_who_is_censored(engine):
    X, y = exponential_people()
    times = np.array([0.3, 0.8, 1.5])
    model = boost(engine, n_estimators=60, completion=Exponential()).fit(X, y)
    truth = Exponential().predict_cumulative_incidence(X[:1], times)[0]
    found = model.predict_cumulative_incidence(X, times)
    assert_allclose(found.mean(axis=0), truth, atol=0.025)
    # The feature that decides about censoring hardly moves the curves.
    early = X[:, 0] > 0
    assert_allclose(found[early].mean(axis=0), found[~early].mean(axis=0), atol=0.03)
    assert model.censoring_method_ == "completed"


@pytest.mark.parametrize("engine", ENGINES)
def test_built_in_hazards_complete_and_models_are_saved(engine, tmp_path):
    data = make_competing_risks(600, n_causes=2, random_state=0)
    model = boost(engine, n_estimators=20, completion="hazards")
    model.fit(data.X, data.y)
    again = boost(engine, n_estimators=20, completion="hazards")
    again.fit(data.X, data.y)
    curves = model.predict_cumulative_incidence(data.X)
    assert_array_equal(curves, again.predict_cumulative_incidence(data.X))
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.censoring_method_ == "completed"
    assert_array_equal(curves, loaded.predict_cumulative_incidence(data.X))


def test_one_cause_behind_a_survival_function():
    X, y = exponential_people(800)
    y = {**y, "event": (y["event"] > 0).astype(int)}
    completion = SurvivalCompletion(lambda X, t: np.tile(np.exp(-RATES.sum() * t), (len(X), 1)))
    model = boost("xgboost", n_estimators=30, completion=completion).fit(X, y)
    assert_allclose(model.predict_survival_function(X, [0.8]).mean(), np.exp(-0.96), atol=0.04)


def test_it_is_asked_once_per_draw_of_horizons():
    X, y = exponential_people(300)
    completion = Exponential()
    boost("xgboost", n_estimators=90, completion=completion).fit(X, y)
    # And once before, about the unit of its time.
    assert completion.n_asked == 4


def test_mistakes_are_named(tmp_path):
    X, y = exponential_people(200)
    with pytest.raises(ValueError, match="`censoring` is 'imputed', but has no effect beside"):
        boost("xgboost", completion="hazards", censoring="imputed").fit(X, y)
    with pytest.raises(ValueError, match="`completion`"):
        boost("xgboost", completion="cox").fit(X, y)
    with pytest.raises(TypeError, match="predict_cumulative_incidence"):
        boost("xgboost", completion=3.0).fit(X, y)
    other = boost("xgboost", n_estimators=5).fit(X, {**y, "event": 3 * (y["event"] > 0)})
    with pytest.raises(ValueError, match=r"predicts the states \[0, 3\]"):
        boost("xgboost", completion=other).fit(X, y)
    with pytest.raises(ValueError, match=r"`completion` is a Exponential.* in memory"):
        fit_external(SurvivalBoost(completion=Exponential()), [(X, y)])

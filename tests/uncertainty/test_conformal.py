"""Conformal bounds and lists: the derivation, one right model is enough, what holds on truths."""

import numpy as np
import pytest
from estimator_data import boost, hazards, simulated
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from survival_objectives.uncertainty import SurvivalCompletion, _conformal, conformalize


class Exponential:
    """Constant hazards of two causes and of censoring that all depend on one feature."""

    event_ids_ = np.array([0, 1, 2])

    def __init__(self, slope=0.8, censoring=0.6, level=1.0):
        self.slope, self.censoring, self.level = slope, censoring, level

    def rates(self, X):
        risk = np.exp(self.slope * np.asarray(X)[:, 0])
        return self.level * np.stack([0.7 * risk, 0.3 * risk**0.5], axis=1)

    def predict_cumulative_incidence(self, X, times):
        rates = self.rates(X)
        total = rates.sum(axis=1)[:, None]
        gone = -np.expm1(-total * np.asarray(times))
        share = rates / total
        return np.concatenate([(1 - gone)[:, None], share[:, :, None] * gone[:, None]], axis=1)

    def survival(self, times, X=None, *, left=False):
        """Of censoring."""
        rate = self.censoring * np.exp(0.7 * np.asarray(X)[:, 0])
        return np.exp(-rate[:, None] * np.asarray(times))

    def draw(self, n, seed=0):
        """Features, causes and times without censoring, and what is observed."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 1))
        time = rng.exponential(size=(n, 2)) / self.rates(X)
        cause, time = 1 + time.argmin(axis=1), time.min(axis=1)
        leave = rng.exponential(size=n) / (self.censoring * np.exp(0.7 * X[:, 0]))
        event = np.where(time <= leave, cause, 0)
        return X, (cause, time), (event, np.minimum(time, leave))


TRUTH = Exponential()
#: Wrong in opposite ways: risk falls in the feature, or only some are censored, ever more.
WRONG = {"event": Exponential(slope=-0.5, level=0.5), "censoring": Exponential(censoring=0.05)}
MODELS = {
    "both right": (TRUTH, TRUTH),
    "event wrong": (WRONG["event"], TRUTH),
    "censoring wrong": (TRUTH, WRONG["censoring"]),
}


@pytest.fixture(scope="module")
def many():
    return TRUTH.draw(2500)


# -------------------------------------------------------------------------------------- derivation
@pytest.mark.parametrize("cause", [0, 1, 2])
@pytest.mark.parametrize("models", MODELS)
def test_one_right_model_gives_the_right_mean(many, models, cause):
    X, (true_cause, time), y = many
    model, censoring = MODELS[models]
    calibrated = conformalize(model, X, y, censoring=censoring, min_censoring_survival=1e-3)
    psi = calibrated.people.observed(cause, 0.5)
    happened = (time < 0.5) & ((cause == 0) | (true_cause == cause))
    # What is left is the noise of censoring, as the same people are compared.
    error = np.std(psi - happened) / np.sqrt(len(psi))
    assert abs(psi.mean() - happened.mean()) < 3.5 * error + 0.003
    assert error < 0.013


def test_two_wrong_models_do_not():
    X, (_, time), y = TRUTH.draw(2500)
    calibrated = conformalize(WRONG["event"], X, y, censoring=WRONG["censoring"])
    assert abs(calibrated.people.observed(0, 0.5).mean() - (time < 0.5).mean()) > 0.03


def test_without_censoring_it_is_split_conformal_prediction(many):
    X, uncensored, _ = many
    X, uncensored = X[:300], tuple(part[:300] for part in uncensored)
    calibrated = conformalize(WRONG["event"], X, uncensored)
    rate = WRONG["event"].rates(X).sum(axis=1)
    # The level at which each person's event is the quantile, by the model's own curve.
    nodes = calibrated.people.nodes
    level = [
        np.interp(t, nodes, -np.expm1(-r * nodes)) for t, r in zip(uncensored[1], rate, strict=True)
    ]
    early = np.array([np.sum(np.array(level) < a - 1e-9) for a in _conformal._LEVELS])
    # Beyond the last node quantiles are the last node itself.
    inside = -np.expm1(-rate.min() * nodes[-1]) > _conformal._LEVELS
    assert_allclose(calibrated.miscoverage_[inside], (early[inside] + 1) / 301, atol=1e-9)


def test_censored_at_the_time_of_an_event_are_censored_after_it():
    # Of ten people, five have the event at 1 and five are censored at 1: half have it by 1.
    X = np.zeros((40, 1))
    y = (np.tile([1, 0], 20), np.ones(40))
    flat = SurvivalCompletion(lambda X, times: np.where(np.tile(times, (len(X), 1)) < 1, 1.0, 0.6))
    listed = conformalize(flat, X, y).screen(X, 1.0, keep="high", error_rate=0.6)
    assert listed.all()
    assert not conformalize(flat, X, y).screen(X, 1.0, keep="high", error_rate=0.45).any()


# ---------------------------------------------------------------------------------- what they hold
@pytest.mark.parametrize("models", MODELS)
def test_bounds_cover_if_one_model_is_right(models):
    model, censoring = MODELS[models]
    covered, mean = [], []
    for seed in range(4):
        X, _, y = TRUTH.draw(500, seed)
        bound = conformalize(model, X, y, censoring=censoring).lower_bound
        new, (_, time), _ = TRUTH.draw(4000, 100 + seed)
        covered.append((time >= bound(new, 0.9)).mean())
        mean.append(bound(new, 0.9).mean())
    # Two points, and the noise of four calibrations.
    assert abs(np.mean(covered) - 0.9) < 0.02 + 2 * np.std(covered) / np.sqrt(4)
    own = -np.log(0.9) / TRUTH.rates(new).sum(axis=1)
    assert np.mean(mean) > 0.4 * own.mean()  # A bound of 0 would cover, too.


def test_bounds_fall_as_confidence_rises(many):
    X, _, y = many
    calibrated = conformalize(TRUTH, X[:500], tuple(part[:500] for part in y), censoring=TRUTH)
    bounds = [calibrated.lower_bound(X[:20], level) for level in (0.5, 0.8, 0.9, 0.95)]
    assert (np.diff(bounds, axis=0) < 0).all()
    assert max(bounds[0]) <= calibrated.people.nodes[-1]


def test_lists_hold_their_error_rates():
    rates = {"low": [], "high": []}
    sizes = {"low": [], "high": []}
    for seed in range(8):
        X, _, y = TRUTH.draw(800, seed)
        calibrated = conformalize(TRUTH, X, y, censoring=TRUTH)
        new, (cause, time), _ = TRUTH.draw(1000, 200 + seed)
        for keep, horizon, allowed in (("low", 0.5, 0.2), ("high", 0.5, 0.4)):
            listed = calibrated.screen(new, horizon, keep=keep, error_rate=allowed, cause=1)
            happened = (time <= horizon) & (cause == 1)
            wrong = happened if keep == "low" else ~happened
            rates[keep].append(wrong[listed].mean() if listed.any() else 0.0)
            sizes[keep].append(listed.mean())
    assert 0.15 < np.mean(rates["low"]) < 0.22
    assert 0.32 < np.mean(rates["high"]) < 0.43
    assert np.mean(sizes["low"]) > 0.3
    assert np.mean(sizes["high"]) > 0.1


def test_lists_are_those_of_benjamini_and_hochberg(many):
    X, (cause, time), _ = many
    X, y = X[:300], (cause[:300], time[:300])
    new = np.linspace(-3, 3, 60)[:, None]
    found = conformalize(TRUTH, X, y).screen(new, 0.4, error_rate=0.25)
    happened = y[1] <= 0.4
    p_value = [(1 + np.sum(happened & (X[:, 0] <= x))) / 301 for x in new[:, 0]]
    order = np.argsort(p_value)
    below = np.flatnonzero(np.sort(p_value) <= 0.25 * np.arange(1, 61) / 60)
    expected = np.zeros(60, bool)
    expected[order[: below[-1] + 1]] = True
    assert 5 < expected.sum() < 55
    assert_array_equal(found, expected)


# --------------------------------------------------------------------------------- kinds of models
def test_both_estimators_pipelines_and_other_packages():
    data = simulated(400)
    train, rest = (data.X[:250], data.y[:250]), (data.X[250:], data.y[250:])
    new = data.draw(1500, random_state=5)
    small = hazards(n_estimators=5).fit(*train)
    models = {
        "hazards": small,
        "horizons": boost("lightgbm").fit(*train),
        "pipeline": make_pipeline(StandardScaler(), hazards(n_estimators=5)).fit(*train),
        "other": SurvivalCompletion(small.predict_survival_function),
    }
    bounds = {}
    for name, model in models.items():
        bounds[name] = conformalize(model, *rest).lower_bound(new.X, 0.8)
        covered = (new.y_uncensored["duration"] >= bounds[name]).mean()
        assert 0.7 < covered < 0.9, name
    assert_allclose(bounds["other"], bounds["hazards"])
    assert_array_equal(bounds["hazards"] == bounds["horizons"], False)


def test_the_plugins_fitted_model():
    lightgbm = pytest.importorskip("lightgbm")
    from survival_objectives.adapters.lightgbm import HazardObjective

    data = simulated(300)
    objective = HazardObjective(data.X[:200], data.y[:200], random_state=0)
    params = {**objective.params, "objective": objective, "num_leaves": 4, "num_threads": 1}
    model = objective.fitted(lightgbm.train(params, objective.train_set, 5))
    bound = conformalize(model, data.X[200:], data.y[200:]).lower_bound(data.X[:50], 0.8)
    assert 0 < bound.mean() < data.y["duration"].max()


def test_folds_use_the_people_of_training():
    data, new = simulated(300), simulated(300).draw(1500, random_state=9)
    model = hazards(n_estimators=5).fit(data.X, data.y)
    bound = conformalize(model, data.X, data.y, cv=3).lower_bound(new.X, 0.8)
    assert 0.72 < (new.y_uncensored["duration"] >= bound).mean() < 0.88


@pytest.mark.parametrize("n_earlier", [0, 60])
def test_a_closing_date_censors_nothing_before_it(n_earlier):
    X, (_, time), _ = TRUTH.draw(900, seed=3)
    end = np.where(np.arange(900) < n_earlier, 0.3, 0.8)
    event, duration = (time <= end).astype(int), np.minimum(time, end)
    model = hazards("lightgbm", n_estimators=5).fit(X[450:], (event[450:], duration[450:]))
    calibrated = conformalize(model, X[:450], (event[:450], duration[:450]))
    uncensored = calibrated.people.uncensored
    if n_earlier == 0:
        assert_array_equal(uncensored, 1.0)
    assert_allclose(uncensored[:, -1].mean(), 1 - n_earlier / 450, atol=0.03)
    new, (_, later), _ = TRUTH.draw(2000, seed=9)
    assert 0.87 < (later >= calibrated.lower_bound(new)).mean() < 0.93


def test_named_events():
    data = simulated(200)
    names = np.array(["censored", "death", "transplant"])[data.y["event"]]
    y = {"event": names, "duration": data.y["duration"]}
    model = hazards(n_estimators=5).fit(data.X, y)
    plain = hazards(n_estimators=5).fit(data.X, data.y)
    found = conformalize(model, data.X, y).lower_bound(data.X, 0.7)
    assert_array_equal(found, conformalize(plain, data.X, data.y).lower_bound(data.X, 0.7))


# ------------------------------------------------------------------------------------------ errors
def test_errors_name_the_value_and_the_way_out(many):
    X, _, y = many
    X, y = X[:60], tuple(part[:60] for part in y)
    calibrated = conformalize(TRUTH, X, y, censoring=TRUTH)
    with pytest.raises(ValueError, match=r"0\.99 with 60 people .* at most 0\.984"):
        calibrated.lower_bound(X, 0.99)
    with pytest.raises(ValueError, match=r"`horizon` is 1e\+06, but .* followed to"):
        calibrated.screen(X, 1e6)
    with pytest.raises(ValueError, match="choose from 'low', 'high'"):
        calibrated.screen(X, 0.1, keep="safe")
    with pytest.raises(ValueError, match="cause"):
        calibrated.screen(X, 0.1, cause=7)
    late = {"event": y[0], "duration": y[1] + 1, "entry": np.ones(60)}
    with pytest.raises(ValueError, match="seen from 0"):
        conformalize(TRUTH, X, late)
    with pytest.raises(TypeError, match="no `predict_cumulative_incidence"):
        conformalize(object(), X, y)


def test_curves_that_start_too_late_give_bounds_of_zero():
    X, y = np.zeros((50, 1)), (np.ones(50), np.tile([1.0, 9.0], 25))
    late = SurvivalCompletion(lambda X, times: np.tile(times <= 5, (len(X), 1)).astype(float))
    calibrated = conformalize(late, X, y)
    with pytest.warns(UserWarning, match="all lower bounds are 0"):
        assert_array_equal(calibrated.lower_bound(X), 0.0)

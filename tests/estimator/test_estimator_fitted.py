"""A fitted model answers from what it was fitted with; weights have no unit."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from estimator_data import boost, same_booster, simulated
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import HazardBoost, SurvivalBoost, load
from survival_objectives._models.fitted import parts_of
from survival_objectives._models.frame import check_same_time_unit, rounded_horizon, two_digits
from survival_objectives._people import check_survival_target
from survival_objectives._people.population import Population, grid_population


# -------------------------------------------------------------------------------------- weights
@pytest.mark.parametrize("censoring", ["boosted", "imputed"])
def test_weights_have_no_unit(engine, data, censoring):
    weight = np.random.default_rng(0).uniform(0.2, 3, 300)
    options = {"censoring": censoring, "early_stopping_rounds": 20, "refresh_every": 5}
    model = boost(engine, **options).fit(data.X, data.y, sample_weight=weight)
    for factor in (1e-6, 1 / weight.sum(), 1e6):
        other = boost(engine, **options).fit(data.X, data.y, sample_weight=weight * factor)
        assert same_booster(model, other)
        assert_allclose(other.predict(data.X), model.predict(data.X), atol=1e-9)


def test_weights_that_sum_to_1_tell_people_apart(engine, data):
    model = boost(engine).fit(data.X, data.y)
    equal = boost(engine).fit(data.X, data.y, sample_weight=np.full(300, 1 / 300))
    assert np.ptp(equal.predict(data.X)) > 0.1
    assert_array_equal(equal.predict(data.X), model.predict(data.X))


# -------------------------------------------------------------------------------------- batches
@pytest.mark.parametrize("estimator", [HazardBoost, SurvivalBoost])
def test_parts_of_predictions_are_those_of_all(estimator, data, monkeypatch):
    model = estimator("xgboost", n_estimators=5, random_state=0).fit(data.X, data.y)
    times, known = [0.5, 1.0, 2.0], np.linspace(0, 0.4, 300)
    curves = model.predict_cumulative_incidence(data.X, times)
    given = model.predict_cumulative_incidence(data.X, times, conditional_after=known)
    # Some people at a time, by the engine as before.
    monkeypatch.setattr(type(model.fitted_model), "parts", lambda _, n, __: parts_of(n, 70))
    own = model.predict_cumulative_incidence(data.X, times, cause=1, dtype="float32")
    assert own.dtype == np.float32
    assert_allclose(own, curves[:, 1], atol=1e-6)
    survival = model.predict_survival_function(data.X, times, conditional_after=known)
    assert_allclose(survival, given[:, 0], atol=1e-6)
    rows = []
    for people, part in model.predict_batches(
        data.X, times, batch_size=130, conditional_after=known, as_frame=True
    ):
        assert_allclose(part, given[people].reshape(len(part), -1), atol=1e-6)
        rows += part.index.tolist()
    assert rows == data.X.index.tolist()
    with pytest.raises(ValueError, match="`dtype` is 'int64'; choose from 'float64', 'float32'"):
        model.predict_cumulative_incidence(data.X, times, dtype=int)
    with pytest.raises(ValueError, match="`batch_size`"):
        next(model.predict_batches(data.X, times, batch_size=0))


# ----------------------------------------------------------------------------- training entries
def test_fit_says_what_it_understood(data):
    event = data.y_uncensored["event"].to_numpy()
    with pytest.warns(UserWarning, match="1, 2 means competing causes") as caught:
        boost("lightgbm").fit(data.X, (event, data.y_uncensored["duration"]))
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_other_people_s_outcomes_are_refused(data):
    shuffled = data.y.sample(frac=1, random_state=0)
    model = boost("lightgbm")
    with pytest.raises(ValueError, match=r"`y` has the index of `X` in another order: row 0 is \d"):
        model.fit(data.X, shuffled)
    with pytest.raises(ValueError, match=r"`eval_set`: `y` has the index"):
        model.fit(data.X, data.y, eval_set=(data.X, shuffled))
    with pytest.raises(ValueError, match="`sample_weight` has the index"):
        model.fit(data.X, data.y, sample_weight=shuffled["duration"])
    with pytest.raises(ValueError, match="`y` has the index"):
        model.fit(data.X, data.y).score(data.X, shuffled)
    order = shuffled.index
    assert np.isfinite(model.score(data.X.loc[order], shuffled))


def test_durations_and_columns_that_float32_cannot_hold(engine, data):
    event, duration = data.y["event"], data.y["duration"].to_numpy()
    with pytest.raises(ValueError, match=r"`duration` has 2\d\d .* \(\d+ are lost\)"):
        boost(engine).fit(data.X, (event, 1e9 + duration))
    # A column that an offset cannot repair, as it has two clusters far apart.
    far = np.where(data.X["x0"] > 0, 0.0, 1.7e9) + 10 * data.X["x1"]
    with pytest.raises(ValueError, match=r"Column 'x1' has \d\d\d"):
        boost(engine).fit(data.X.assign(x1=far), data.y)


def test_held_out_people_who_do_not_count_are_refused(engine, data):
    no_people = (np.zeros(50, int), np.full(50, 1e-12))
    model = boost(engine, n_estimators=3, early_stopping_rounds=2)
    with pytest.raises(ValueError, match="has 50 people and 0 events"):
        model.fit(data.X, data.y, eval_set=(data.X[:50], no_people))
    assert not hasattr(model, "booster_")


def test_masked_features_train_as_missing_ones(engine, data):
    values = data.X.to_numpy()
    hidden = np.random.default_rng(0).random(values.shape) < 0.3
    masked = np.ma.masked_array(values, mask=hidden)
    model = boost(engine).fit(masked, data.y)
    missing = np.where(hidden, np.nan, values)
    assert same_booster(model, boost(engine).fit(missing, data.y))
    assert_array_equal(model.predict(masked), model.predict(missing))


# ------------------------------------------------------------------------------------ set_params
CHANGES = {
    "time_smoothing": float("nan"),
    "monotone": False,
    "min_censoring_survival": 1.0,
    "horizon_max": 0.1,
    "learning_rate": 1.0,
    "max_depth": 1,
    "n_horizons": 1,
    "max_features": 0.1,
    "min_leaf_people": 1e9,
    "n_estimators": 1,
    "censoring": "nonsense",
    "engine": "nonsense",
    "engine_params": {"nonsense": 1},
    "random_state": 7,
}


def answers(model, data):
    people = data.X[:20]
    return [
        model.predict_cumulative_incidence(people),
        model.predict_cumulative_incidence(people, conditional_after=0.5),
        model.predict_quantile(people),
        model.predict_restricted_mean_time(people),
        model.shap_values(people, 1.0),
        model.feature_importances_,
        model.score(data.X, data.y),
        model.censoring_.survival(np.full(20, 1.0), people),
    ]


def test_parameters_that_are_set_later_change_nothing(engine, fitted, data, tmp_path):
    model = copy.copy(fitted(engine))
    before = answers(model, data)
    for name, value in CHANGES.items():
        model.set_params(**{name: value})
        assert getattr(model, name) is value
    model.save(tmp_path / "model")
    for same in (model, pickle.loads(pickle.dumps(model)), load(tmp_path / "model")):
        for now, then in zip(answers(same, data), before, strict=True):
            assert_array_equal(now, then)
    loaded = load(tmp_path / "model")
    assert loaded.get_params() == fitted(engine).get_params()


def test_engine_params_that_are_changed_in_place_change_nothing(data, tmp_path):
    params = {"lambda_l2": 2.0}
    model = boost("lightgbm", engine_params=params).fit(data.X, data.y)
    params["lambda_l2"] = 3.0
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").engine_params == {"lambda_l2": 2.0}


def test_another_fit_takes_the_new_parameters(data):
    model = boost("lightgbm").fit(data.X, data.y)
    smooth = model.predict_survival_function(data.X)
    model.set_params(time_smoothing=0.0).fit(data.X, data.y)
    assert np.abs(model.predict_survival_function(data.X) - smooth).max() > 0.001


# ------------------------------------------------------------------------------------ warm start
@pytest.mark.parametrize(("unit", "is_refused"), [(365.25, True), (1 / 7, True), (1.5, False)])
def test_going_on_in_another_unit_of_time_is_refused(engine, data, unit, is_refused, tmp_path):
    model = boost(engine, n_estimators=3, warm_start=True).fit(data.X, data.y)
    model.save(tmp_path / "model")
    other = (data.y["event"], data.y["duration"] * unit)
    for same in (model, load(tmp_path / "model")):
        before = same.predict(data.X)
        same.set_params(n_estimators=5)
        if is_refused:
            with pytest.raises(ValueError, match=r"median duration is .* another unit"):
                same.fit(data.X, other)
            assert_array_equal(same.predict(data.X), before)
        else:
            assert same.fit(data.X, other).n_estimators_ == 5


def test_units_by_the_median():
    target = check_survival_target(([1, 0, 1], [1.0, 8.0, 20.0]))
    people = Population(target, None)
    for median in (8.0, 2.0, 32.0, 0.0, None):
        check_same_time_unit(people, median)
    for median, factor in ((1.9, "4.21 times less"), (33.0, "4.12 times more")):
        with pytest.raises(ValueError, match=f"is 8, but was about {median:g} .*{factor}"):
            check_same_time_unit(people, median)


# -------------------------------------------------------------------- times of no single person
@given(st.lists(st.floats(0.01, 1e6), min_size=12, max_size=40), st.booleans())
def test_the_latest_horizon_is_rounded_up(durations, is_counted):
    target = check_survival_target((np.ones(len(durations)), durations))
    people = grid_population(target, None) if is_counted else Population(target, None)
    for t_max in (people.quantile(0.99), max(durations)):
        found = rounded_horizon(t_max, people)
        shared = sum(duration == t_max for duration in durations)
        if shared >= 5:
            assert found == t_max
            continue
        n_digits = 2 if found <= max(durations) else 3
        assert t_max * (1 - 1e-9) <= found <= t_max * (1 + 10.0 ** (1 - n_digits)) * (1 + 1e-9)
        assert float(f"{found:.2e}") == found


def test_a_time_that_many_share_stays():
    target = check_survival_target((np.ones(10), [1.0, 2.0, 3.0, 4.0, 5.0] + [1234.5] * 5))
    assert rounded_horizon(1234.5, Population(target, None)) == 1234.5
    assert rounded_horizon(1234.5, grid_population(target, None)) == 1234.5
    assert rounded_horizon(3.0, Population(target, None)) == 3.0
    assert rounded_horizon(3.01, Population(target, None)) == 3.1
    assert two_digits(1289.0) == 1300.0


@pytest.mark.parametrize("share_at_end", [0.0, 0.1])
def test_the_latest_horizon_of_many_people_does_not_depend_on_counting(share_at_end):
    """Counted on a grid, people share steps of the grid, which are the times of some of them."""
    rng = np.random.default_rng(0)
    duration = rng.exponential(100, 60_000)
    duration[rng.random(60_000) < share_at_end] = 1234.5
    target = check_survival_target((np.ones(60_000), np.minimum(duration, 1234.5)))
    alone, many = Population(target, None), grid_population(target, None)
    found = [rounded_horizon(people.quantile(0.99), people) for people in (alone, many)]
    assert found[0] == found[1] == (1234.5 if share_at_end else 460.0)


def test_a_late_and_rare_cause_does_not_show_in_the_saved_model(engine, tmp_path):
    data = simulated(300)
    event, duration = data.y["event"].to_numpy().copy(), data.y["duration"].to_numpy().copy()
    last = float(duration.max() * 1.2345678)
    event[0], duration[0] = 9, last
    model = boost(engine, n_estimators=3).fit(data.X, (event, duration))
    assert last <= model._model.frame.t_max <= last * 1.01
    model.save(tmp_path / "model")
    text = (tmp_path / "model" / "model.json").read_text()
    for known in (last, float(np.float32(last))):
        assert repr(known)[:6] not in text
    loaded = load(tmp_path / "model")
    assert_array_equal(loaded.predict(data.X), model.predict(data.X))


def test_a_chosen_horizon_is_kept_to_the_last_digit(data):
    model = boost("lightgbm", n_estimators=3, horizon_max=1.23456789).fit(data.X, data.y)
    assert model._model.frame.t_max == 1.23456789
    assert pd.Series(model.times_).iloc[-1] == 1.23456789

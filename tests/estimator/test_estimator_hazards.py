"""HazardBoost(): curves, calibration, accuracy, people, input, files."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from survival_objectives import HazardBoost, SurvivalBoost, load
from survival_objectives._hazards.people import stratified_folds
from survival_objectives._people import check_survival_target
from survival_objectives.marginal import aalen_johansen

FloatArray = npt.NDArray[np.float64]
ENGINES = ["xgboost", "lightgbm", "catboost"]


def small(engine: str = "xgboost", **options: Any) -> HazardBoost:
    settings = {"n_estimators": 30, "random_state": 0, "n_jobs": 1}
    return HazardBoost(engine, **{**settings, **options})


def simulated(
    n: int, seed: int, effect: Any, n_causes: int = 1
) -> tuple[FloatArray, tuple[npt.NDArray[np.int64], FloatArray], FloatArray]:
    """Features, outcomes, and total hazards of exponential times; causes are equally frequent."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    rate = np.exp(effect(X))
    time, leave = rng.exponential(1 / rate), rng.exponential(1.5, n)
    cause = rng.integers(1, n_causes + 1, n)
    event = np.where(time <= leave, cause, 0)
    return X, (event, np.minimum(time, leave)), rate


def error(model: Any, X: FloatArray, rate: FloatArray) -> float:
    times = np.linspace(0.05, 1.5, 20)
    truth = np.exp(-rate[:, None] * times)
    return 1000 * float(np.mean((model.predict_survival_function(X, times) - truth) ** 2))


@pytest.fixture(scope="module")
def two_causes() -> tuple[FloatArray, Any]:
    X, y, _ = simulated(600, 0, lambda X: X[:, 0] + np.abs(X[:, 1]), n_causes=2)
    return X, y


@pytest.fixture(scope="module", params=ENGINES)
def fitted(request: pytest.FixtureRequest, two_causes: Any) -> HazardBoost:
    pytest.importorskip(request.param)
    return small(request.param).fit(*two_causes)


# ----------------------------------------------------------------------------------------- curves
def test_curves_are_valid(fitted: SurvivalBoost, two_causes: Any) -> None:
    X = two_causes[0][:50]
    end = fitted.fitted_model.frame.t_max
    times = np.linspace(0, end, 200)
    curves = fitted.predict_cumulative_incidence(X, times)
    assert curves.shape == (50, 3, 200)
    assert_allclose(curves.sum(axis=1), 1, atol=1e-12)
    assert_array_equal(curves[:, 0, 0], 1.0)
    assert (np.diff(curves[:, 1:], axis=2) > 0).all()  # A positive density up to the end.
    later = fitted.predict_cumulative_incidence(X, [end, 2 * end])
    assert_array_equal(later[:, :, 0], later[:, :, 1])
    assert sum(fitted.member_weights_.values()) == pytest.approx(1.0)
    one = fitted.predict_cumulative_incidence(X, [0.5], cause=2)
    assert_array_equal(one[:, 0], fitted.predict_proba(X, 0.5)[:, 2])


def test_hazards_multiply_to_the_curves(fitted: SurvivalBoost, two_causes: Any) -> None:
    X = two_causes[0][:20]
    hazard, knots = fitted.predict_hazard(X)
    assert hazard.shape == (20, 2, len(knots) - 1)
    survival = np.cumprod(1 - hazard.sum(axis=1), axis=1)
    assert_allclose(fitted.predict_survival_function(X, knots[1:]), survival, atol=1e-9)


def test_other_predictions_follow_from_the_curves(fitted: SurvivalBoost, two_causes: Any) -> None:
    X = two_causes[0][:30]
    median = fitted.predict_quantile(X)
    known = np.isfinite(median)
    for person in np.flatnonzero(known)[:5]:
        at = fitted.predict_survival_function(X[[person]], [median[person]])
        assert at == pytest.approx(0.5, abs=1e-6)
    assert fitted.predict_quantile(X, [0.25, 0.5]).shape == (30, 2)
    parts = [fitted.predict_restricted_mean_time(X, 1.0, cause=k) for k in (None, 1, 2)]
    assert_allclose(np.sum(parts, axis=0), 1.0)
    survival = fitted.predict_survival_function(X, np.linspace(0, 1, 2001))
    assert_allclose(parts[0], np.trapezoid(survival, dx=1 / 2000), atol=1e-4)
    assert np.corrcoef(fitted.predict(X), parts[0])[0, 1] < -0.9
    later = fitted.predict_cumulative_incidence(X, [0.2, 1.0], conditional_after=0.5)
    assert_array_equal(later[:, 0, 0], 1.0)
    both = fitted.predict_survival_function(X, [0.5, 1.0])
    assert_allclose(later[:, 0, 1], both[:, 1] / both[:, 0])


def test_parts_do_not_change_predictions(
    fitted: SurvivalBoost, two_causes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fitted.predict_cumulative_incidence(two_causes[0])
    monkeypatch.setattr("survival_objectives._hazards.mixture._PREDICTION_SIZE", 3 * 101 * 70)
    assert_allclose(fitted.predict_cumulative_incidence(two_causes[0]), whole, atol=1e-6)


def test_better_than_the_marginal_curve(fitted: SurvivalBoost, two_causes: Any) -> None:
    X, y = two_causes
    null = small(n_estimators=None).fit(np.zeros((len(X), 1)), y)
    assert fitted.score(X, y) > null.score(np.zeros((len(X), 1)), y) + 0.005


# ------------------------------------------------------------------------------------ calibration
@pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")
@pytest.mark.parametrize("kind", ["continuous", "days", "end of study"])
def test_mean_curve_is_aalen_johansens_without_effects(kind: str) -> None:
    rng = np.random.default_rng(7)
    n = 1500
    X = rng.normal(size=(n, 2))
    time, leave = rng.weibull(1.5, n) * 20, rng.uniform(0, 40, n)
    if kind == "end of study":
        leave = np.full(n, 18.0)
    event = np.where(time <= leave, rng.integers(1, 3, n), 0)
    duration = np.minimum(time, leave)
    if kind == "days":
        duration = np.floor(duration)
    model = small().fit(X, (event, duration))
    times = np.linspace(1, 17, 17)
    expected = aalen_johansen(check_survival_target((event, duration)), None)(times)
    mean = model.predict_cumulative_incidence(X, times).mean(axis=0)
    assert_allclose(mean.T, expected, atol=0.01)


# --------------------------------------------------------------------------------------- accuracy
def test_linear_truth_is_recovered_nearly_as_by_cox() -> None:
    pytest.importorskip("lifelines")
    from survival_objectives.baselines import CauseSpecificCox

    X, y, _ = simulated(1200, 1, lambda X: X @ [0.8, -0.5, 0.3, 0, 0])
    X_test, _, rate = simulated(1000, 2, lambda X: X @ [0.8, -0.5, 0.3, 0, 0])
    model = small().fit(X, y)
    assert model.member_weights_.get("trees", 0.0) < 0.2
    cox = CauseSpecificCox().fit(X, y)
    assert error(model, X_test, rate) < 1.5 * error(cox, X_test, rate) + 0.1


def test_curved_truth_is_recovered_better_than_by_linear_hazards_and_weights() -> None:
    def effect(X: FloatArray) -> FloatArray:
        return np.asarray(1.5 * np.abs(X[:, 0]) - 1 + X[:, 1] * (X[:, 2] > 0))

    X, y, _ = simulated(2000, 3, effect)
    X_test, _, rate = simulated(1000, 4, effect)
    model = small(n_estimators=100).fit(X, y)
    assert model.member_weights_.get("linear", 0.0) < 0.1
    boost = SurvivalBoost(random_state=0, n_jobs=1).fit(X, y)
    assert error(model, X_test, rate) < 0.9 * error(boost, X_test, rate)


# ------------------------------------------------------------------------------- people and weights
@pytest.mark.parametrize("engine", ENGINES)
def test_categories_and_missing_values(engine: str) -> None:
    pytest.importorskip(engine)
    rng = np.random.default_rng(0)
    n = 800
    level = rng.integers(0, 3, n)
    number = rng.normal(size=n)
    time = rng.exponential(np.exp(-np.array([0, 1.5, 3])[level]))
    frame = pd.DataFrame(
        {
            "level": pd.Categorical.from_codes(level, ["low", "mid", "high"]),
            "number": np.where(rng.random(n) < 0.2, np.nan, number),
        }
    )
    event = (time < 3).astype(int)
    model = small(engine, n_estimators=20).fit(frame, (event, np.minimum(time, 3)))
    assert model.feature_names_in_.tolist() == ["level", "number"]
    rows = pd.DataFrame(
        {
            "level": pd.Categorical(["low", "mid", "high", None], ["low", "mid", "high"]),
            "number": [0.0, np.nan, 0.0, 0.0],
        }
    )
    survival = model.predict_survival_function(rows, [0.3])[:, 0]
    assert_allclose(survival[:3], np.exp(-0.3 * np.exp([0, 1.5, 3])), atol=0.12)
    assert 0 < survival[3] < 1


def test_weights_count_as_people_and_have_no_unit(two_causes: Any) -> None:
    X, (event, duration) = two_causes
    weight = np.where(X[:, 3] > 0, 3.0, 1.0)
    model = small().fit(X, (event, duration), sample_weight=weight)
    again = small().fit(X, (event, duration), sample_weight=weight * 1e-5)
    curves = model.predict_cumulative_incidence(X)
    assert_array_equal(again.predict_cumulative_incidence(X), curves)
    person = np.repeat(np.arange(len(X)), weight.astype(int))
    repeated = small().fit(X[person], (event[person], duration[person]))
    difference = repeated.predict_cumulative_incidence(X) - curves
    # Knots, folds and rows are others: the same up to chance.
    assert np.abs(difference.mean(axis=0)).max() < 0.03
    risk, repeated_risk = model.predict(X), repeated.predict(X)
    assert np.corrcoef(risk, repeated_risk)[0, 1] > 0.95
    # No one of weight 0 counts.
    chosen = weight > 1
    left_out = small().fit(X, (event, duration), sample_weight=chosen.astype(float))
    alone = small().fit(X[chosen], (event[chosen], duration[chosen]))
    assert_array_equal(left_out.predict(X), alone.predict(X))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cause_of_one_person_is_kept_in_every_fold(engine: str, two_causes: Any) -> None:
    pytest.importorskip(engine)
    X, (event, duration) = two_causes
    rare = np.minimum(event, 1)
    rare[0] = 2
    model = small(engine, n_estimators=10).fit(X, (rare, duration))
    incidence = model.predict_cumulative_incidence(X, model.times_[-1:])[:, 2, 0]
    assert 0 < incidence.mean() < 0.02
    folds = stratified_folds(rare.astype(np.int32), 2, np.random.default_rng(0))
    assert np.flatnonzero(folds == -1).tolist() == [0]


def test_same_seed_same_model(fitted: SurvivalBoost, two_causes: Any) -> None:
    again = clone(fitted).fit(*two_causes)
    assert again.member_weights_ == fitted.member_weights_
    X = two_causes[0]
    assert_array_equal(
        again.predict_cumulative_incidence(X), fitted.predict_cumulative_incidence(X)
    )


def test_trees_alone_and_no_trees_at_all(two_causes: Any, tmp_path: Path) -> None:
    model = small(linear=False).fit(*two_causes)
    assert model.member_weights_ == {"trees": 1.0}
    assert model.booster_.num_boosted_rounds() == model.n_estimators_ > 0
    rng = np.random.default_rng(0)
    duration, event = rng.exponential(size=200), np.ones(200, int)
    event[-1], duration[-1] = 0, 9.0
    # XGBoost 3.4 gives a root without splits a value, also below its least Hessian.
    nothing = small(engine="lightgbm", min_leaf_people=1e9).fit(
        np.ones((200, 1)), (event, duration)
    )
    assert nothing.booster_ is None
    assert nothing.n_estimators_ == 0
    assert "one curve only: no tree was worth its place" in repr(nothing)
    median = nothing.predict_quantile(np.ones((1, 1)))[0]
    assert median == pytest.approx(np.median(duration), rel=0.1)
    nothing.save(tmp_path / "nothing")
    loaded = load(tmp_path / "nothing")
    assert loaded.predict_quantile(np.ones((1, 1)))[0] == median


def test_labels_and_names_of_causes(two_causes: Any) -> None:
    X, (event, duration) = two_causes
    labels = np.array(["censored", "death", "relapse"])[event]
    model = small(n_estimators=10).fit(X, pd.DataFrame({"event": labels, "duration": duration}))
    assert model.event_names_ == ("event-free", "death", "relapse")
    death = model.predict_cumulative_incidence(X, [0.5], cause="death")
    assert_array_equal(death, model.predict_cumulative_incidence(X, [0.5], cause=1))
    assert "hazards" in repr(model)


# ------------------------------------------------------------------------------------------- files
def test_saved_models_are_the_same(fitted: SurvivalBoost, two_causes: Any, tmp_path: Path) -> None:
    X = two_causes[0]
    curves = fitted.predict_cumulative_incidence(X)
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_array_equal(loaded.predict_cumulative_incidence(X), curves)
    assert loaded.member_weights_ == fitted.member_weights_
    assert loaded.get_params() == fitted.get_params()
    assert loaded.n_estimators_ == fitted.n_estimators_
    assert loaded.score(*two_causes) == fitted.score(*two_causes)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict_cumulative_incidence(X), curves)
    with pytest.raises(FileExistsError, match="exists already"):
        fitted.save(tmp_path / "model")


def test_damaged_files_are_refused(fitted: SurvivalBoost, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    content = json.loads(file.read_text())
    content["t_max"] += 1
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="not as it was saved"):
        load(tmp_path / "model")
    fitted.save(tmp_path / "other")
    engine_file = next(f for f in (tmp_path / "other").iterdir() if f.suffix != ".json")
    engine_file.write_bytes(engine_file.read_bytes()[:-5])
    with pytest.raises(ValueError, match="is not the one that was saved"):
        load(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match="no saved model"):
        load(tmp_path / "nowhere")


# ------------------------------------------------------------------------------------------- input
@pytest.mark.parametrize(
    ("options", "error_type", "message"),
    [
        ({"engine": "forest"}, ValueError, "choose from"),
        ({"n_estimators": 0}, ValueError, "n_estimators"),
        ({"learning_rate": 2.0}, ValueError, "learning_rate"),
        ({"linear": "yes"}, TypeError, "linear"),
        ({"n_folds": 1}, ValueError, "`n_folds` must be an integer from 2 to 100"),
        ({"rows_per_person": 1.5}, TypeError, "rows_per_person"),
        ({"min_leaf_people": -1}, ValueError, "min_leaf_people"),
        ({"engine_params": {"objective": "x"}}, ValueError, "objective"),
        ({"random_state": -1}, ValueError, "random_state"),
    ],
)
def test_bad_parameters_are_refused(
    options: dict[str, Any], error_type: type[Exception], message: str, two_causes: Any
) -> None:
    with pytest.raises(error_type, match=message):
        small(**options).fit(*two_causes)


def test_bad_data_is_refused(fitted: SurvivalBoost, two_causes: Any) -> None:
    X, (event, duration) = two_causes
    with pytest.raises(NotFittedError):
        HazardBoost().predict(X)
    with pytest.raises(ValueError, match="rows"):
        small().fit(X[:-1], (event, duration))
    with pytest.raises(ValueError, match="too few for `n_folds=2`"):
        small().fit(X, (np.eye(len(X), dtype=int)[0], duration))
    with (
        pytest.raises(ValueError, match="durations are 0"),
        pytest.warns(UserWarning, match="`duration` is 0 or 1"),
    ):
        small().fit(X, (event, np.zeros(len(X))))
    with pytest.raises(ValueError, match="features"):
        fitted.predict(X[:, :3])
    with pytest.raises(ValueError, match="times"):
        fitted.predict_survival_function(X, [-1.0])
    with pytest.raises(ValueError, match="event-free state"):
        fitted.predict_restricted_mean_time(X, cause=0)
    with pytest.raises(ValueError, match="quantile"):
        fitted.predict_quantile(X, [])


def test_whole_units_are_constant_and_ties_follow_the_unit(two_causes: Any) -> None:
    X, (event, duration) = two_causes
    days = np.floor(duration * 8)
    model = small(n_estimators=10).fit(X, (event, days))
    curves = model.predict_survival_function(X[:5], [0.0, 0.5, 2.0, 2.9, 3.0])
    assert (curves[:, 0] < 1).all()  # Unit 0 has events.
    assert_array_equal(curves[:, 0], curves[:, 1])
    assert_array_equal(curves[:, 2], curves[:, 3])
    assert (curves[:, 4] < curves[:, 3]).all()
    assert model.predict_hazard(X[:5])[1][:2].tolist() == [-1.0, 0.0]


# -------------------------------------------------------------------------------------- defaults
def test_the_marginal_censoring_is_that_of_a_survival_boost(two_causes: Any) -> None:
    X, y = two_causes
    model, times = small().fit(X, y), np.array([0.2, 0.9])
    others = SurvivalBoost(censoring="kaplan-meier", n_estimators=5).fit(X, y)
    assert_array_equal(model.censoring_.survival(times), others.censoring_.survival(times))
    assert not hasattr(others, "member_weights_")
    assert not hasattr(others, "predict_hazard")
    for name in ("n_floored_", "refreshed_rounds_", "censoring_method_"):
        assert hasattr(others, name)
        assert not hasattr(model, name)


def test_what_none_stands_for(two_causes: Any) -> None:
    X, y = two_causes
    assert repr(HazardBoost()) == "HazardBoost()"
    values = {"learning_rate": 0.3, "min_leaf_people": 15.0, "min_split_gain": 1.0}
    assert all(HazardBoost().get_params()[name] is None for name in (*values, "n_estimators"))
    assert_array_equal(small().fit(X, y).predict(X), small(**values).fit(X, y).predict(X))


# ---------------------------------------------------------------------------------------- held out
@pytest.mark.parametrize("engine", ENGINES)
def test_history_shows_the_looks_at_held_out_people(engine: str, two_causes: Any) -> None:
    X, y = two_causes
    model = small(engine, n_estimators=40, linear=False).fit(X, y)
    rounds = [look.round for look in model.history_]
    losses = [look.loss for look in model.history_]
    assert rounds == list(range(0, rounds[-1] + 1, 5))
    assert model.n_estimators_ == rounds[int(np.argmin(losses))] <= 40
    patient = small(engine, n_estimators=200, linear=False, early_stopping_rounds=60).fit(X, y)
    losses = [look.loss for look in patient.history_]
    best = 5 * int(np.argmin(losses))
    assert patient.n_estimators_ == best
    assert patient.history_[-1].round == min(best + 60, 200)


def test_people_of_the_eval_set_judge(two_causes: Any) -> None:
    X, (event, duration) = two_causes
    train, held = slice(0, 400), slice(400, 600)
    y = event[train], duration[train]
    judged = small(linear=False).fit(X[train], y, eval_set=(X[held], (event[held], duration[held])))
    # People whose features say nothing: no trees are worth it to them.
    noise = np.random.default_rng(0).permutation(X[held])
    with pytest.warns(UserWarning, match="No split on a feature was worth its gain"):
        blind = small(linear=False).fit(
            X[train], y, eval_set=(noise, (event[held], duration[held]))
        )
    assert blind.n_estimators_ < judged.n_estimators_
    assert judged.fitted_model.mixture.n_models == 1
    assert judged.history_[0].loss > min(look.loss for look in judged.history_)


def test_progress_is_shown(two_causes: Any, capfd: pytest.CaptureFixture[str]) -> None:
    small(n_estimators=20).fit(*two_causes)
    assert capfd.readouterr() == ("", "")
    small(n_estimators=20, verbose=1).fit(*two_causes)
    out, err = capfd.readouterr()
    assert out == ""
    assert "/40 rounds  held-out loss" in err


# -------------------------------------------------------------------------------------- warm start
@pytest.mark.parametrize("engine", ENGINES)
def test_warm_start_goes_on(engine: str, two_causes: Any) -> None:
    X, y = two_causes
    options = {"early_stopping_rounds": 1000, "learning_rate": 0.05}
    model = small(engine, n_estimators=10, warm_start=True, **options).fit(X, y)
    knots = model.predict_hazard(X[:1])[1]
    before, half = model.predict(X), model.booster_
    model.set_params(n_estimators=30).fit(X, y)
    assert 10 < model.n_estimators_ <= 30
    assert model.booster_ is not half
    assert_array_equal(model.predict_hazard(X[:1])[1], knots)
    assert not np.array_equal(model.predict(X), before)
    once = small(engine, n_estimators=30, **options).fit(X, y)
    # Members may have other weights: levels of a continued model are calibrated in between.
    assert np.corrcoef(model.predict(X), once.predict(X))[0, 1] > 0.97


@pytest.mark.parametrize("engine", ENGINES)
def test_warm_start_may_add_trees_that_had_no_weight(engine: str) -> None:
    """A round of tiny trees is not worth its weight; many rounds are."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 3))
    time = rng.exponential(np.where(np.abs(X[:, 0]) < 0.7, 6.0, 1.0)) * np.exp(-X[:, 1])
    y = (time < 3).astype(int), np.minimum(time, 3)
    options = {"n_estimators": 1, "learning_rate": 1e-4, "warm_start": True}
    model = small(engine, **options).fit(X, y)
    assert model.booster_ is None
    model.set_params(n_estimators=60, learning_rate=0.15).fit(X, y)
    whole = small(engine, n_estimators=60, learning_rate=0.15).fit(X, y)
    assert model.n_estimators_ == whole.n_estimators_ > 0
    assert_array_equal(model.predict(X), whole.predict(X))


def test_a_warm_start_of_hazards_needs_the_same_people(two_causes: Any) -> None:
    X, (event, duration) = two_causes
    model = small(n_estimators=10, warm_start=True).fit(X, (event, duration))
    model.set_params(n_estimators=20)
    with pytest.raises(ValueError, match=r"fitted to 600 people.*got 500 and"):
        model.fit(X[:500], (event[:500], duration[:500]))


def test_a_warm_start_without_linear_hazards_drops_them(two_causes: Any) -> None:
    model = small(n_estimators=10, warm_start=True).fit(*two_causes)
    model.set_params(n_estimators=40, linear=False).fit(*two_causes)
    assert set(model.member_weights_) == {"trees"}
    assert_array_equal(
        model.predict(two_causes[0]),
        small(n_estimators=40, linear=False).fit(*two_causes).predict(two_causes[0]),
    )


def test_warm_start_needs_a_seed(two_causes: Any) -> None:
    X, y = two_causes
    with pytest.raises(ValueError, match="integer `random_state`"):
        small(warm_start=True, random_state=None).fit(X, y)


# ------------------------------------------------------------------------------------------- edges
def test_horizon_max_ends_the_curves(two_causes: Any) -> None:
    X, (event, duration) = two_causes
    model = small(horizon_max=0.5).fit(X, (event, duration))
    assert model.times_[-1] == 0.5
    end, later = model.predict_cumulative_incidence(X, [0.5, 9.0]).transpose(2, 0, 1)
    assert_array_equal(end, later)
    # Events after it are not seen as events in the last interval.
    known = aalen_johansen(check_survival_target((event, duration)))([0.25, 0.5])
    found = model.predict_cumulative_incidence(X, [0.25, 0.5]).mean(axis=0).T
    assert_allclose(found, known, atol=0.02)


def edge_cases() -> dict[str, Any]:
    X, (event, duration), _ = simulated(200, 5, lambda X: X[:, 0])
    rng = np.random.default_rng(1)
    rare = event.copy()
    rare[np.flatnonzero(event)[:2]] = 2
    closed = duration > 0.6
    missing = X.copy()
    missing[:, 1] = np.nan
    return {
        "whole days": (X, (event, np.ceil(8 * duration)), {}),
        "one closing date": (X, (np.where(closed, 0, 1), np.minimum(duration, 0.6)), {}),
        "a cause of two people": (X, (rare, duration), {}),
        "fewer people of a cause than folds": (X, (rare, duration), {"n_folds": 4}),
        "all events at one time": (X, (event, np.where(event > 0, 0.5, duration)), {}),
        "an event at the last time": (
            X,
            (np.where(duration == duration.max(), 1, event), duration),
            {},
        ),
        "six causes": (X, (event * rng.integers(1, 7, 200), duration), {}),
        "twenty people": (X[:20], (event[:20], duration[:20]), {}),
        "constant features": (0 * X, (event, duration), {}),
        "a column without values": (missing, (event, duration), {}),
        "no one censored": (X, (np.ones(200, int), duration), {}),
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", edge_cases())
def test_edges(engine: str, case: str) -> None:
    X, (event, duration), options = edge_cases()[case]
    model = small(engine, n_estimators=20, **options).fit(X, (event, duration))
    times = np.append(np.quantile(duration, [0.02, 0.3, 0.6, 0.9]), duration.max() * np.r_[1, 2])
    curves = model.predict_cumulative_incidence(X, np.append(0.0, times))
    assert np.isfinite(curves).all()
    assert_allclose(curves.sum(axis=1), 1)
    assert (np.diff(curves[:, 1:]) >= -1e-12).all()
    assert_array_equal(curves[:, 0, 0], 1.0)
    assert np.isfinite(model.shap_values(X[:5], float(np.median(duration)))).all()
    known = aalen_johansen(check_survival_target((event, duration)))(times[:4])
    # Hazards are smoothed by half an event per cause and interval, which shows with few events.
    atol = {"six causes": 0.1, "twenty people": 0.12}.get(case, 0.07)
    assert_allclose(curves[:, :, 1:5].mean(axis=0).T, known, atol=atol)

"""None of the fourteen defects of the reference implementation (DESIGN.md, part 3)."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from estimator_data import boost, same_booster, simulated
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from survival_objectives._engines import protocol as registry
from survival_objectives._horizons import training as stacked
from survival_objectives._horizons.loop import BoostingLoop
from survival_objectives._horizons.model import HorizonModel
from survival_objectives._models import fitted
from survival_objectives._models.frame import coarse_censoring_curve
from survival_objectives._people import check_survival_target
from survival_objectives.metrics import concordance_index


def remembered_loops(monkeypatch):
    """The training loops that run from now on, each with its stacks and weights."""
    loops = []
    run = BoostingLoop.run

    def remember(loop, held_out=None):
        loops.append(loop)
        loop.weights = []
        weigh = loop.scheme.targets_and_weights

        def remember_weight(chunk):
            target, weight = weigh(chunk)
            loop.weights.append((next(chunk.rows()), weight))
            return target, weight

        loop.scheme.targets_and_weights = remember_weight
        run(loop, held_out)

    monkeypatch.setattr(BoostingLoop, "run", remember)
    return loops


def test_defect_01_same_seed_same_model_above_10_000_rows(engine):
    people = simulated(2500)
    models = [boost(engine, n_jobs=2, n_estimators=4).fit(people.X, people.y) for _ in range(2)]
    assert same_booster(*models)
    assert_array_equal(*(model.predict_cumulative_incidence(people.X) for model in models))


def test_defect_02_training_scores_are_prediction_scores(engine, data, monkeypatch):
    """Margins after 30 rounds on three stacks are those of the finished model, row by row."""
    loops = remembered_loops(monkeypatch)
    model = boost(engine, n_estimators=30).fit(data.X, data.y)

    def start_margin(feature):
        return model._model.start(feature)

    for draw, key in loops[0]._draws:
        rows, start = next(loops[0].people.event_matrices(draw.number, start_margin))
        final = np.asarray(model._model.trees.sum_of_trees(rows, 0, 30)) + start
        assert_allclose(loops[0].events.margin(key), final, atol=1e-5)


def test_defect_03_the_floor_is_the_user_s_and_only_a_floor(engine, data, monkeypatch):
    loops = remembered_loops(monkeypatch)
    for floor in (0.02, 0.4):
        options = {"min_censoring_survival": floor, "horizon_max": 8.0}
        boost(engine, **options).fit(data.X, data.y)
        for _, weight in loops[-1].weights:
            # A row weighs 1/G over the number of horizons.
            assert weight.max() <= 1 / floor / 5 * (1 + 1e-9)
    # Where the floor bites, it does so at its own value, not at one from the marginal curve.
    assert_allclose(max(weight.max() for _, weight in loops[-1].weights), 1 / 0.4 / 5)


def test_defect_04_tree_settings_reach_the_censoring_model(engine, data):
    """Depth, rate and the engine's own settings change its trees."""
    models = {
        name: boost(engine, refresh_every=10, **options).fit(data.X, data.y)
        for name, options in {
            "default": {},
            "deep": {"max_depth": 5},
            "fast": {"learning_rate": 0.2},
            "own": {"engine_params": {"learning_rate": 0.2}},
        }.items()
    }
    times = np.full(300, 1.0)
    curves = {name: model.censoring_.survival(times, data.X) for name, model in models.items()}
    for name in ("deep", "fast", "own"):
        assert not np.allclose(curves[name], curves["default"])
    assert_array_equal(curves["own"], curves["fast"])


def test_defect_05_survival_never_rises(engine, fitted, data):
    survival = fitted(engine).predict_survival_function(data.X, np.linspace(0, 8, 500))
    assert (np.diff(survival, axis=1) <= 1e-15).all()
    assert_array_equal(survival[:, 0], 1.0)


def test_defect_06_ties_of_event_and_censoring_use_the_left_limit(engine, monkeypatch):
    """Half are censored at 1, where the others have their event: everyone was seen until then."""
    n_samples = 200
    X = np.random.default_rng(0).normal(size=(n_samples, 2))
    event = np.arange(n_samples) % 2
    duration = np.where(np.arange(n_samples) % 4 == 2, 2.0, 1.0)
    duration[event == 1] = 1.0
    loops = remembered_loops(monkeypatch)
    boost(
        engine,
        n_estimators=10,
        horizon_sampler=lambda rng, n, h, y: np.tile(np.linspace(0.5, 1.5, h), (n, 1)),
    ).fit(X, (event, duration))
    stack, weight = loops[0].weights[0]
    # P(C >= 1) = 1, though P(C > 1) = 1/2: events at 1 and horizons on the first day are seen.
    assert_allclose(weight * 5, 1.0)
    at_one = stack.events.at_risk & (stack.events.horizon >= 1)
    assert np.isin(np.arange(0, n_samples, 4), stack.events.person[at_one]).all()


def test_defect_07_labels_rare_events_and_all_censored(engine, data):
    duration = data.y["duration"]
    labels = np.array([0, 1, 3])[data.y["event"]]
    model = boost(engine).fit(data.X, (labels, duration))
    assert np.isfinite(model.score(data.X, (labels, duration)))
    rare = labels.copy()
    rare[17] = 8
    for options in ({}, {"early_stopping_rounds": 5}):
        model = boost(engine, **options).fit(data.X, (rare, duration))
        assert_array_equal(model.event_ids_, [0, 1, 3, 8])
        assert model.predict_proba(data.X, 1.0).shape == (300, 4)
        assert np.isfinite(model.score(data.X, (rare, duration)))
    with pytest.raises(ValueError, match="All 300 people are censored"):
        boost(engine).fit(data.X, (np.zeros(300), duration))


def test_defect_08_five_rounds_are_five_and_one_row_is_a_row(engine, data):
    model = boost(engine, n_estimators=5).fit(data.X, data.y)
    n_rounds = {
        "lightgbm": lambda booster: booster.current_iteration(),
        "xgboost": lambda booster: booster.num_boosted_rounds(),
        "catboost": lambda booster: booster.tree_count_,
    }
    assert n_rounds[engine](model.booster_) == 5
    assert model.predict_proba(data.X[:1], 1.0).shape == (1, 3)


def test_defect_09_reordered_columns_and_unfitted_models_are_refused(engine, fitted, data):
    model = fitted(engine)
    with pytest.raises(ValueError, match=r"another order. Use `X\[\['x0', 'x1', 'x2', 'x3'\]\]`"):
        model.predict(data.X[["x1", "x0", "x2", "x3"]])
    with pytest.raises(ValueError, match=r"lacks the columns \['x3'\]"):
        model.predict(data.X.rename(columns={"x3": "y3"}))
    with pytest.raises(NotFittedError):
        boost(engine).predict(data.X)


def test_defect_10_categories_weights_stopping_importances(engine, mixed):
    X, y = mixed
    weight = np.random.default_rng(0).random(len(X))
    model = boost(engine, n_estimators=60, learning_rate=0.2, early_stopping_rounds=5)
    model.fit(X, y, sample_weight=weight)
    assert len(model.history_) > 0
    assert model.n_estimators_ < 60
    assert_allclose(model.feature_importances_.sum(), 1)


def test_defect_11_a_pipeline_reaches_the_survival_function(engine, data):
    pipeline = make_pipeline(StandardScaler(), boost(engine)).fit(data.X, data.y)
    curves = pipeline[-1].predict_survival_function(pipeline[:-1].transform(data.X))
    assert curves.shape == (300, 101)


def test_defect_12_predict_is_silent(engine, data, capfd):
    model = boost(engine, verbose=1).fit(data.X, data.y)
    assert capfd.readouterr().err
    model.predict(data.X)
    model.predict_cumulative_incidence(data.X)
    model.shap_values(data.X, 1.0)
    model.score(data.X, data.y)
    assert capfd.readouterr() == ("", "")


def test_defect_13_saved_models_hold_no_outcomes(engine, fitted, data, tmp_path):
    model = fitted(engine)
    model.save(tmp_path / "model")
    contents = [file.read_bytes() for file in (tmp_path / "model").iterdir()]
    for content in (*contents, pickle.dumps(model)):
        for duration in data.y["duration"]:
            assert np.float64(duration).tobytes() not in content
            assert repr(float(duration)).encode() not in content
    # The curve of censoring is kept at times that depend on the latest horizon alone.
    description = json.loads((tmp_path / "model" / "model.json").read_text())
    everyone_at_once = check_survival_target(([1, 0], [1.0, description["t_max"]]))
    grid = coarse_censoring_curve(everyone_at_once, None, description["t_max"]).times
    assert_array_equal(description["censoring_curve"]["times"], grid)


def test_defect_14_cost_grows_with_neither_times_nor_rounds_squared(engine, data, monkeypatch):
    """Trees are evaluated as often for a thousand times as for one; once a round in training."""
    model = boost(engine, n_estimators=10).fit(data.X, data.y)
    passes = []
    steps = HorizonModel.step_probabilities

    def count(self, values, **options):
        passes.append(len(values))
        return steps(self, values, **options)

    monkeypatch.setattr(HorizonModel, "step_probabilities", count)
    for n_times in (1, 1000):
        model.predict_survival_function(data.X, np.linspace(0, 5, n_times))
    assert passes == [300, 300]
    monkeypatch.setattr(fitted, "ENGINE_ROWS", 0)
    contributions = []
    engine_trees = registry.engine(engine).trainer
    contribution = engine_trees.sum_of_trees

    def count_rounds(self, values, first, last):
        contributions.append((last - first) * len(values))
        return contribution(self, values, first, last)

    monkeypatch.setattr(engine_trees, "sum_of_trees", count_rounds)
    # After training, predictions for a few people are compared, on more steps the more rounds.
    monkeypatch.setattr(stacked, "check_prediction_paths", lambda *_: None)
    work = {}
    for n_estimators in (20, 80):
        contributions.clear()
        boost(engine, n_estimators=n_estimators).fit(data.X, data.y)
        work[n_estimators] = sum(contributions)
    # Linear or nothing at all: the engines keep margins up to date.
    assert work[80] <= 4 * work[20]


def test_defect_14_concordance_of_many_people():
    rng = np.random.default_rng(0)
    n_samples = 50_000
    y = (rng.integers(0, 2, n_samples), rng.exponential(size=n_samples))
    # A quadratic way would compare 2.5 billion pairs, for minutes.
    value = concordance_index(y, y, rng.random((n_samples, 1)), [1.0])
    assert_allclose(value, 0.5, atol=0.02)

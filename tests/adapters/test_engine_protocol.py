"""What every engine must do to be trained by `SurvivalBoost`, and a fourth engine that does it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import HazardBoost, SurvivalBoost, load
from survival_objectives._engines import protocol as registry
from survival_objectives._engines.protocol import ENGINES, Adapter
from survival_objectives._engines.settings import TreeSettings
from survival_objectives._people import Features
from survival_objectives.datasets import make_competing_risks
from survival_objectives.losses import log_loss, probabilities

N_ROWS = 400


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """The registry line of the fourth engine."""
    monkeypatch.setitem(ENGINES, "toy", Adapter("toy_engine", "sklearn"))


@pytest.fixture(params=["xgboost", "lightgbm", "catboost", "toy"])
def engine(request):
    return registry.engine(request.param)


@pytest.fixture(params=[1, 2], ids=["one cause", "two causes"])
def settings(request):
    return TreeSettings(
        schema=Features(np.empty((0, 3), np.float32), None, {}),
        n_causes=request.param,
        learning_rate=0.3,
        max_depth=3,
        min_leaf_people=1.0,
        min_split_gain=0.0,
        max_features=1.0,
        n_horizons=1,
        monotone=False,
        seed=0,
        n_jobs=1,
    )


def rows_of(n_causes, seed=0):
    """Rows whose state follows from the first column and the time, some values missing."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(N_ROWS, 4)).astype(np.float32)
    values[:, -1] = rng.uniform(0, 2, N_ROWS)
    target = np.where(values[:, 0] + values[:, -1] > 1, 1 + (values[:, 0] > 0.5) % n_causes, 0)
    target[:4] = [0, 1, n_causes, 0]  # CatBoost wants every state to be there.
    values[rng.random(N_ROWS) < 0.1, 1] = np.nan
    return values, target.astype(np.int32)


def start_of(trainer, n_causes, n_rows=N_ROWS):
    n_margins = n_causes if trainer.reference else n_causes + 1
    return np.tile(np.linspace(0.1, 0.3, n_margins), (n_rows, 1))


def trained(engine, settings, n_rounds=6):
    trainer = engine.trainer(settings)
    values, target = rows_of(settings.n_causes)
    start = start_of(trainer, settings.n_causes)
    key = trainer.add(values, start)
    trainer.boost(key, target, np.ones(N_ROWS), n_rounds)
    return trainer, values, target, start, key


def test_an_engine_describes_itself(engine):
    assert registry.engine(engine.name) == engine
    assert registry.is_installed(engine.name)
    assert engine.settings.engine == engine.name
    assert engine.settings.resolved({}) == {}
    assert not set(engine.settings.allowed) & set(engine.settings.owned)
    assert engine.file_name.format(name="events").startswith("events.")
    assert engine.refresh_every > 0
    assert engine.max_depth >= 8


def test_margins_are_the_start_and_all_trees(engine, settings):
    trainer, values, target, start, key = trained(engine, settings)
    assert trainer.n_rounds == 6
    margin = np.asarray(trainer.margin(key))
    assert margin.shape == start.shape
    assert_allclose(margin, start + trainer.sum_of_trees(values, 0, 6), atol=1e-5)
    before, after = (
        log_loss(each, target, np.ones(N_ROWS), reference=trainer.reference)
        for each in (start, margin)
    )
    assert after < 0.8 * before


def test_before_the_first_round_margins_are_the_start(engine, settings):
    trainer = engine.trainer(settings)
    values, _ = rows_of(settings.n_causes)
    start = start_of(trainer, settings.n_causes)
    key = trainer.add(values, start)
    assert trainer.n_rounds == 0
    assert_allclose(trainer.margin(key), start, rtol=1e-6)
    assert_array_equal(trainer.sum_of_trees(values, 0, 0), np.zeros_like(start))


def test_rounds_add_up(engine, settings):
    trainer, values, *_ = trained(engine, settings)
    halves = [np.asarray(trainer.sum_of_trees(values, *part)) for part in ((0, 2), (2, 6))]
    assert_allclose(sum(halves), trainer.sum_of_trees(values, 0, 6), atol=1e-5)
    assert np.abs(halves[1]).max() > 0
    assert_array_equal(trainer.sum_of_trees(values, 3, 3), np.zeros_like(halves[0]))


def test_all_registered_rows_are_kept_up_to_date(engine, settings):
    trainer, values, target, start, key = trained(engine, settings, n_rounds=2)
    other = trainer.add(values[::2], start[::2])
    trainer.boost(other, target[::2], np.ones(N_ROWS // 2), 3)
    assert trainer.n_rounds == 5
    for rows, place in ((values, key), (values[::2], other)):
        expected = start[: len(rows)] + trainer.sum_of_trees(rows, 0, 5)
        assert_allclose(trainer.margin(place), expected, atol=1e-5)


def test_batches_are_one_matrix(engine, settings):
    trainer, values, target, start, key = trained(engine, settings)
    by_batches = engine.trainer(settings)

    def batches():
        for rows in (slice(0, 150), slice(150, None)):
            yield values[rows], start[rows]

    assert by_batches.add_batches(batches) == key
    by_batches.boost(key, target, np.ones(N_ROWS), 6)
    assert_array_equal(by_batches.margin(key), trainer.margin(key))


def test_weights_count_rows(engine, settings):
    """Rows of weight 0 do not change the model, whatever their target is."""
    values, target = rows_of(settings.n_causes)
    weight = (np.arange(N_ROWS) % 2 == 0).astype(float)
    weight[:4] = 1.0
    wrong = np.where(weight > 0, target, (target + 1) % (settings.n_causes + 1)).astype(np.int32)
    margins = []
    for each in (target, wrong):
        trainer = engine.trainer(settings)
        key = trainer.add(values, start_of(trainer, settings.n_causes))
        trainer.boost(key, each, weight, 3)
        margins.append(np.asarray(trainer.margin(key)))
    assert_allclose(*margins, atol=1e-6)


def test_targets_need_not_be_probabilities(engine, settings):
    """Of rows that are alike, the mean of the targets is learnt, whatever the single ones are."""
    if not engine.takes_any_target:
        with pytest.raises(ValueError, match=f"losses of {engine.name} do not take"):
            SurvivalBoost(engine.name, censoring="doubly-robust").fit([[0.0]], ([1], [1.0]))
        return
    rng = np.random.default_rng(0)
    n_causes = settings.n_causes
    values = np.tile(np.repeat([0.0, 1.0], N_ROWS // 2)[:, None], 4).astype(np.float32)
    mean = np.where(values[:, :1] > 0, 0.25, 0.3) * np.ones((1, n_causes))
    causes = mean + rng.choice([-1.0, 1.0], (N_ROWS, n_causes))
    target = np.column_stack([1 - causes.sum(axis=1), causes]).astype(np.float32)
    trainer = engine.trainer(settings)
    key = trainer.add(values, start_of(trainer, n_causes))
    trainer.boost(key, target, np.ones(N_ROWS), 200)
    found = probabilities(trainer.margin(key), reference=trainer.reference)
    for group in (values[:, 0] == 0, values[:, 0] == 1):
        expected = np.tile(target[group].mean(axis=0), (group.sum(), 1))
        assert_allclose(found[group], expected, atol=2e-3)


def test_a_model_is_cut_and_wrapped_again(engine, settings):
    trainer, values, *_ = trained(engine, settings)
    again = trainer.finished(4)
    assert again.n_rounds == 4
    assert_allclose(again.sum_of_trees(values, 0, 4), trainer.sum_of_trees(values, 0, 4), atol=1e-6)


def test_a_warm_start_leaves_the_model_as_it_was(engine, settings):
    trainer, values, target, start, _ = trained(engine, settings)
    model = trainer.finished(6).model
    before = trainer.finished(6).sum_of_trees(values)
    more = engine.trainer(settings, model)
    key = more.add(values, start)
    assert_allclose(more.margin(key), start + before, atol=1e-5)
    more.boost(key, target, np.ones(N_ROWS), 2)
    assert more.n_rounds == 8
    assert_allclose(more.margin(key), start + more.sum_of_trees(values, 0, 8), atol=1e-5)
    untouched = engine.evaluator(model, settings.schema, 1)
    assert untouched.n_rounds == 6
    assert_array_equal(untouched.sum_of_trees(values, 0, 6), before)


def test_saved_models_are_loaded(engine, settings, tmp_path):
    trainer, values, *_ = trained(engine, settings)
    path = str(tmp_path / engine.file_name.format(name="events"))
    engine.save(trainer.finished(6).model, path)
    loaded = engine.evaluator(engine.load(path), settings.schema, 1)
    assert_allclose(
        loaded.sum_of_trees(values, 0, 6), trainer.sum_of_trees(values, 0, 6), atol=1e-6
    )


def test_the_forest_is_the_model(engine, settings):
    trainer, values, *_ = trained(engine, settings)
    fitted = trainer.finished(6)
    forest = fitted.forest()
    steps = forest.interval(values[:, -1].astype(np.float64))
    margins = forest.step_margins(values[:, :-1])[:, steps, np.arange(N_ROWS)].T
    assert_allclose(margins, fitted.sum_of_trees(values, 0, 6), atol=1e-5)


def test_shap_values_sum_to_the_margins(engine, settings):
    trainer, values, *_ = trained(engine, settings)
    fitted = trainer.finished(6)
    shap = np.asarray(fitted.shap_values(values))
    margins = np.asarray(fitted.sum_of_trees(values, 0, 6))
    assert shap.shape == (*margins.shape, values.shape[1] + 1)
    assert_allclose(shap.sum(axis=2), margins, atol=1e-4)


def test_importances_find_the_columns_that_matter(engine, settings):
    trainer, *_ = trained(engine, settings)
    gains = trainer.finished(6).importances()
    assert gains.shape == (4,)
    assert (gains >= 0).all()
    assert set(np.argsort(gains)[-2:]) == {0, 3}


def test_released_rows_are_forgotten_and_trees_are_not(engine, settings):
    trainer, values, _, start, key = trained(engine, settings)
    before = np.asarray(trainer.sum_of_trees(values, 0, 6))
    trainer.release()
    assert trainer.n_rounds == 6
    assert_array_equal(trainer.sum_of_trees(values, 0, 6), before)
    others, target = rows_of(settings.n_causes, seed=1)
    assert trainer.add(others, start) == key
    assert_allclose(trainer.margin(key), start + trainer.sum_of_trees(others, 0, 6), atol=1e-5)
    trainer.boost(key, target, np.ones(N_ROWS), 1)
    assert trainer.n_rounds == 7


def test_training_continues_from_a_state(engine, settings):
    trainer, values, target, start, key = trained(engine, settings)
    state = trainer.state()
    resumed = engine.trainer(settings)
    assert resumed.add(values, start) == key
    resumed.restore(state)
    assert resumed.n_rounds == 6
    assert_allclose(resumed.margin(key), trainer.margin(key), atol=1e-5)
    trainer.restore(state)  # As at a checkpoint: both continue from the same.
    for each in (trainer, resumed):
        each.boost(key, target, np.ones(N_ROWS), 3)
    assert_array_equal(trainer.margin(key), resumed.margin(key))


def test_settings_of_the_trees_have_an_effect(engine, settings):
    _, values, *_ = trained(engine, settings)
    margins = [
        np.asarray(trained(engine, each)[0].sum_of_trees(values, 0, 6))
        for each in (
            settings,
            replace(settings, max_depth=1),
            replace(settings, learning_rate=0.1),
        )
    ]
    assert not np.allclose(margins[0], margins[1], atol=1e-3)
    assert np.abs(margins[2]).max() < np.abs(margins[0]).max()


# ---------------------------------------------------------------------------------- a fourth engine
@pytest.mark.parametrize("censoring", ["boosted", "kaplan-meier", "imputed"])
def test_a_fourth_engine_trains_predicts_saves_and_loads(tmp_path, censoring):
    data = make_competing_risks(1500, n_causes=2, n_features=4, random_state=0)
    X = data.X.mask(np.random.default_rng(0).random(data.X.shape) < 0.1)
    model = SurvivalBoost(
        "toy",
        n_estimators=20,
        learning_rate=0.2,
        max_depth=3,
        censoring=censoring,
        random_state=0,
        warm_start=True,
    ).fit(X, data.y)
    assert model.engine_ == "toy"
    times = np.linspace(0.1, 2.0, 7)
    curves = model.predict_cumulative_incidence(X, times)
    assert_allclose(curves.sum(axis=1), 1, atol=1e-9)
    marginal = curves.mean(axis=0, keepdims=True)
    truth = data.true.cumulative_incidence(data.X, times)
    assert np.square(curves - truth).mean() < 0.9 * np.square(marginal - truth).mean()
    assert model.shap_values(X, 1.0).shape == (1500, 2, 6)
    assert model.feature_importances_.sum() == pytest.approx(1)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_array_equal(loaded.predict_cumulative_incidence(X, times), curves)
    model.set_params(n_estimators=30).fit(X, data.y)
    assert model.n_estimators_ == 30


def test_settings_of_a_fourth_engine_are_checked():
    data = make_competing_risks(200, random_state=0)
    model = HazardBoost("toy", n_estimators=2, engine_params={"max_leaf_node": 4})
    with pytest.raises(ValueError, match="Did you mean 'max_leaf_nodes'"):
        model.fit(data.X, data.y)
    with pytest.raises(ValueError, match="`max_depth` must be an integer from 1 to 8"):
        model.set_params(engine_params=None, max_depth=9).fit(data.X, data.y)


def test_memory_of_finished_rounds_is_free(engine, settings):
    psutil = pytest.importorskip("psutil")
    n_rows, n_calls = 20_000, 12
    values = np.random.default_rng(0).normal(size=(n_rows, 4)).astype(np.float32)
    target = np.arange(n_rows, dtype=np.int32) % (1 + settings.n_causes)
    trainer = engine.trainer(settings)
    key = trainer.add(values, start_of(trainer, settings.n_causes, n_rows))
    process, weight = psutil.Process(), np.ones(n_rows)
    trainer.boost(key, target, weight, 2)
    before = process.memory_info().rss
    for _ in range(n_calls):
        trainer.boost(key, target, weight, 1)
    # Less than a tenth of the values and margins per call.
    assert process.memory_info().rss - before < n_calls * values.nbytes / 10 + 2**22

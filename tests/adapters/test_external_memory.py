"""Training on batches that are never in memory together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

from survival_objectives import SurvivalBoost
from survival_objectives.adapters import external_memory
from survival_objectives.adapters.external_memory import ParquetBatches, fit_external
from survival_objectives.datasets import integrated_squared_error, make_competing_risks

TIMES = np.linspace(0.1, 3.0, 20)


def boost(**settings):
    defaults = {
        "n_estimators": 30,
        "learning_rate": 0.2,
        "max_depth": 3,
        "n_jobs": 1,
        "random_state": 0,
    }
    return SurvivalBoost("xgboost", **{**defaults, **settings})


@pytest.fixture(scope="module")
def data():
    return make_competing_risks(2000, n_causes=2, n_features=4, random_state=0)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """Two files, the second with another set of categories."""
    folder = tmp_path_factory.mktemp("people")
    people = pd.concat([data.X, data.y], axis=1)
    people["weight"] = np.where(np.arange(2000) % 10 == 0, 0.0, 1.0)
    for number, levels in enumerate((["a", "b"], ["c", "a"])):
        part = people.iloc[1000 * number : 1000 * (number + 1)].copy()
        part["kind"] = pd.Categorical(np.where(part["x0"] > 0, levels[0], levels[1]))
        part.to_parquet(folder / f"part-{number}.parquet", index=False)
    return folder


def error_to_truth(model, data):
    test = data.draw(500, random_state=1)
    truth = test.true.cumulative_incidence(test.X, TIMES)
    return integrated_squared_error(truth, model.predict_cumulative_incidence(test.X, TIMES), TIMES)


@pytest.mark.parametrize("censoring", ["boosted", "kaplan-meier"])
def test_it_is_as_near_to_the_truth_as_in_memory(data, folder, censoring):
    batches = ParquetBatches(folder, features=list(data.X.columns), batch_size=300)
    model = fit_external(boost(censoring=censoring), batches)
    errors = [
        error_to_truth(boost(censoring=censoring, random_state=seed).fit(data.X, data.y), data)
        for seed in range(4)
    ]
    assert error_to_truth(model, data) < max(errors) + 3 * np.std(errors)
    assert (model.refreshed_rounds_ == [10, 20]) == (censoring == "boosted")


def test_what_is_known_of_everybody_does_not_depend_on_the_batches(data):
    halves = [(data.X.iloc[:900], data.y.iloc[:900]), (data.X.iloc[900:], data.y.iloc[900:])]
    one, two = fit_external(boost(), [(data.X, data.y)]), fit_external(boost(), halves)
    local = boost().fit(data.X, data.y)
    for model in (one, two):
        assert model._t_max == local._t_max
        np.testing.assert_array_equal(model._censoring_curve.values, local._censoring_curve.values)
        np.testing.assert_allclose(model._start, local._start, atol=0.1)


def test_the_same_seed_gives_the_same_model_that_can_be_saved(data, folder, tmp_path):
    batches = ParquetBatches(folder, sample_weight="weight", batch_size=700)
    first, second = (fit_external(boost(), batches, cache_folder=tmp_path) for _ in range(2))
    assert not list(tmp_path.iterdir())
    assert bytes(first.booster_.save_raw()) == bytes(second.booster_.save_raw())

    people = pd.read_parquet(folder / "part-1.parquet").drop(columns=["event", "duration"])
    people = people.drop(columns="weight")
    first.save(tmp_path / "model")
    loaded = SurvivalBoost.load(tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.predict_survival_function(people, TIMES),
        second.predict_survival_function(people, TIMES),
    )
    assert loaded._schema.categories[4].tolist() == ["a", "b", "c"]


def test_early_stopping_on_held_out_people(data):
    other = data.draw(500, random_state=1)
    model = boost(early_stopping_rounds=5, n_estimators=200)
    fit_external(model, [(data.X, data.y)], eval_set=(other.X, other.y))
    losses = [record.loss for record in model.history_]
    assert model.n_estimators_ == np.argmin(losses) + 1 < 200


def test_no_more_than_a_batch_is_in_memory_and_the_rest_on_disk(data, tmp_path, monkeypatch):
    """What grows with people are a few numbers a row; benchmarks/distributed.py measures them."""
    sizes, files = [], []
    read = external_memory._Reader.next

    def watched(self, input_data):
        def recorded(**batch):
            sizes.append(len(batch["data"]))
            return input_data(**batch)

        return read(self, recorded)

    def in_memory(*arguments, **options):
        msg = "A matrix of all rows was made."
        raise AssertionError(msg)

    def advance(self, stack, n_rounds):
        files.extend(path.name for path in tmp_path.rglob("rows-*"))
        return advance_censoring(self, stack, n_rounds)

    advance_censoring = external_memory._BatchedLoop._advance_censoring
    monkeypatch.setattr(external_memory._Reader, "next", watched)
    monkeypatch.setattr(external_memory._BatchedLoop, "_advance_censoring", advance)
    monkeypatch.setattr(xgb, "QuantileDMatrix", in_memory)
    monkeypatch.setattr(xgb, "DMatrix", in_memory)
    batches = [(data.X.iloc[a : a + 200], data.y.iloc[a : a + 200]) for a in range(0, 2000, 200)]
    fit_external(boost(n_horizons=3), batches, cache_folder=tmp_path)

    assert max(sizes) <= 3 * 200
    # Three draws of horizons and the exits, for both models.
    assert len(set(files)) == 8
    assert not list(tmp_path.iterdir())


def test_mistakes_are_named(data, folder, tmp_path):
    batches = [(data.X, data.y)]
    with pytest.raises(ValueError, match="external memory is XGBoost's"):
        fit_external(SurvivalBoost("lightgbm"), batches)
    with pytest.raises(ValueError, match="needs `eval_set` here"):
        fit_external(boost(early_stopping_rounds=5), batches)
    with pytest.raises(TypeError, match="can be read only once"):
        fit_external(boost(), iter(batches))
    with pytest.raises(ValueError, match="`batches` has no people"):
        fit_external(boost(), [])
    with pytest.raises(ValueError, match="Batch 1: columns or their kinds differ"):
        fit_external(boost(), [*batches, (data.X.rename(columns={"x0": "age"}), data.y)])
    with pytest.raises(ValueError, match="Batch 1: `duration` is -1"):
        fit_external(boost(), [*batches, (data.X, data.y.assign(duration=-1.0))])
    with pytest.raises(ValueError, match="has no column 'died'"):
        ParquetBatches(folder, event="died")
    with pytest.raises(FileNotFoundError, match="no Parquet file"):
        ParquetBatches(tmp_path)

    class Forgetful:
        times = 0

        def __iter__(self):
            self.times += 1
            rows = slice(None, 1000 if self.times > 2 else None)
            yield data.X.iloc[rows], data.y.iloc[rows]

    # The first time is the check whether it can be read again at all.
    with pytest.raises(ValueError, match="gave other people when it was read again"):
        fit_external(boost(), Forgetful())

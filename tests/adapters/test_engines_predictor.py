"""Predictors: a trained model without the people it was trained on, on all three engines."""

import importlib
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

TIMES = [0.0, 0.25, 0.5, 1.0, 2.0, 50.0]


def adapter_of(engine):
    return importlib.import_module(f"survival_objectives.adapters.{engine.name}")


def trained(engine, people, n_rounds=12, X=None, **options):
    objective = engine.problem(
        people.X if X is None else X, people.y, random_state=0, refresh_every=4, **options
    )
    return objective, engine.train(objective, n_rounds, refresh=True)


@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"margins": "free"},
        {"start": "marginal"},
        {"horizon_max": 1.5},
        {"start": "zero", "doubly_robust": True},
    ],
)
def test_predictions_are_the_objectives_own_bit_for_bit(
    engine, simulate, tmp_path, n_causes, options
):
    people = simulate(200, n_causes=n_causes, n_features=4)
    objective, model = trained(engine, people, **options)
    expected = objective.predict_cumulative_incidence(model, people.X, TIMES)
    predictor = objective.predictor(model)
    assert_array_equal(predictor.predict_cumulative_incidence(people.X, TIMES), expected)
    predictor.save(tmp_path / "model")
    loaded = adapter_of(engine).Predictor.load(tmp_path / "model")
    assert_array_equal(loaded.predict_cumulative_incidence(people.X, TIMES), expected)
    assert_array_equal(loaded.predict_survival_function(people.X, TIMES), expected[:, 0])
    assert_array_equal(loaded.event_ids_, objective.event_ids_)
    # What was loaded can be saved again, to the same description.
    loaded.save(tmp_path / "again")
    first, second = (
        json.loads((tmp_path / name / "predictor.json").read_text()) for name in ("model", "again")
    )
    for content in (first, second):
        del content["digest"], content["model_digest"]
    assert first == second


def test_whole_units_and_labels_survive(engine, simulate, tmp_path):
    people = simulate(200, tied=True, n_features=4)
    event, duration = people.y
    objective = engine.problem(people.X, (event * 3, duration), random_state=0)
    model = engine.train(objective, 8)
    objective.predictor(model).save(tmp_path / "model")
    loaded = adapter_of(engine).Predictor.load(tmp_path / "model")
    assert_array_equal(loaded.event_ids_, [0, 3, 6])
    assert_array_equal(
        loaded.predict_cumulative_incidence(people.X, TIMES),
        objective.predict_cumulative_incidence(model, people.X, TIMES),
    )


def test_columns_are_checked_as_the_objective_does(engine, people, tmp_path):
    frame = pd.DataFrame(people.X, columns=list("abcd"))
    frame["c"] = pd.Categorical(np.where(frame["c"] > 0, "high", "low"))
    frame["d"] = pd.Categorical((frame["d"] > 0).astype(int))
    objective, model = trained(engine, people, X=frame)
    objective.predictor(model).save(tmp_path / "model")
    loaded = adapter_of(engine).Predictor.load(tmp_path / "model")
    expected = objective.predict_cumulative_incidence(model, frame, TIMES)
    assert_array_equal(loaded.predict_cumulative_incidence(frame, TIMES), expected)
    with pytest.raises(ValueError, match="in another order"):
        loaded.predict_cumulative_incidence(frame[list("bacd")], TIMES)


def test_early_stopping_is_kept(engine, people, simulate, tmp_path):
    held_out = simulate(150, seed=3, n_features=4)
    objective = engine.problem(people.X, people.y, random_state=0)
    model = engine.train(
        objective,
        60,
        learning_rate=0.5,
        options=engine.early_stopping(
            objective, objective.held_out(held_out.X, held_out.y), patience=3
        ),
    )
    assert engine.best_round(model) < 50
    objective.predictor(model).save(tmp_path / "model")
    loaded = adapter_of(engine).Predictor.load(tmp_path / "model")
    assert_array_equal(
        loaded.predict_cumulative_incidence(people.X, TIMES),
        objective.predict_cumulative_incidence(model, people.X, TIMES),
    )


def test_no_training_data_inside(engine, simulate, tmp_path):
    people = simulate(997, n_features=4)
    objective, model = trained(engine, people, start="marginal")
    predictor = objective.predictor(model)
    predictor.save(tmp_path / "model")
    text = (tmp_path / "model" / "predictor.json").read_text()
    content = json.loads(text)
    # No list is as long as there are people or events, and no number is anyone's duration.
    numbers = []

    def visit(value):
        if isinstance(value, list):
            assert len(value) < 100
            for item in value:
                visit(item)
        elif isinstance(value, dict):
            for item in value.values():
                visit(item)
        elif isinstance(value, float):
            numbers.append(np.float32(value))

    visit(content)
    assert len(numbers) > 200
    assert not set(people.y[1].astype(np.float32)) & set(numbers)
    state = pickle.dumps({k: v for k, v in vars(predictor).items() if k != "model"})
    assert len(state) < 20_000


def test_damage_is_noticed(engine, people, tmp_path):
    objective, model = trained(engine, people)
    predictor = objective.predictor(model)
    path = tmp_path / "model"
    predictor.save(path)
    with pytest.raises(FileExistsError, match="exists already"):
        predictor.save(path)
    load = adapter_of(engine).Predictor.load
    description = path / "predictor.json"
    text = description.read_text()
    changed = text.replace('"reference": true', '"reference": false')
    assert changed != text
    description.write_text(changed)
    with pytest.raises(ValueError, match="not as it was saved"):
        load(path)
    description.write_text(text[:-20])
    with pytest.raises(ValueError, match="is not the description of a predictor"):
        load(path)
    description.write_text(text)
    file = next(file for file in path.iterdir() if file != description)
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    with pytest.raises(ValueError, match="is missing or not the one that was saved"):
        load(path)
    file.write_bytes(content)
    load(path)
    with pytest.raises(FileNotFoundError, match="holds no saved predictor"):
        load(tmp_path)


def test_a_predictor_of_another_engine_is_refused(engine, people, tmp_path):
    objective, model = trained(engine, people)
    objective.predictor(model).save(tmp_path / "model")
    other = "xgboost" if engine.name != "xgboost" else "lightgbm"
    predictor = importlib.import_module(f"survival_objectives.adapters.{other}").Predictor
    with pytest.raises(ValueError, match=rf"adapters\.{engine.name}\.Predictor\.load"):
        predictor.load(tmp_path / "model")


def test_a_model_of_another_objective_is_refused(engine, people):
    _, model = trained(engine, people)
    other = engine.problem(people.X, people.y, start="zero", random_state=0)
    with pytest.raises(ValueError, match="not trained by this objective"):
        other.predictor(model)


def test_one_row_with_missing_values_is_itself_in_many(engine, people, tmp_path):
    """As a service gets it: every value of the row is an object."""
    site = np.array(["a", "b", "c"])[np.arange(len(people.X)) % 3]
    frame = pd.DataFrame(people.X, columns=list("abcd")).assign(site=site)
    objective, model = trained(engine, people, X=frame)
    many = frame.copy()
    many.loc[0, ["b", "site"]] = None
    row = pd.DataFrame([{**many.loc[0].to_dict(), "b": None, "site": None}], dtype=object)
    expected = objective.predict_cumulative_incidence(model, many, TIMES)[:1]
    assert_allclose(objective.predict_cumulative_incidence(model, row, TIMES), expected, atol=1e-12)
    objective.predictor(model).save(tmp_path / "model")
    loaded = type(objective.predictor(model)).load(tmp_path / "model")
    assert_allclose(loaded.predict_cumulative_incidence(row, TIMES), expected, atol=1e-12)

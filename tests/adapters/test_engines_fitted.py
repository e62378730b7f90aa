"""Fitted models of the plugin: curves, explanations and files without the people of training."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import load

TIMES = [0.0, 0.25, 0.5, 1.0, 2.0, 50.0]


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
    fitted = objective.fitted(model)
    assert_array_equal(fitted.predict_cumulative_incidence(people.X, TIMES), expected)
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_array_equal(loaded.predict_cumulative_incidence(people.X, TIMES), expected)
    assert_array_equal(loaded.predict_survival_function(people.X, TIMES), expected[:, 0])
    assert_array_equal(loaded.event_ids_, objective.event_ids_)
    # What was loaded can be saved again, to the same description.
    loaded.save(tmp_path / "again")
    first, second = (
        json.loads((tmp_path / name / "model.json").read_text()) for name in ("model", "again")
    )
    for content in (first, second):
        # CatBoost writes the time into its files.
        del content["digest"], content["files"]
    assert first == second


def test_whole_units_and_labels_survive(engine, simulate, tmp_path):
    people = simulate(200, tied=True, n_features=4)
    event, duration = people.y
    objective = engine.problem(people.X, (event * 3, duration), random_state=0)
    model = engine.train(objective, 8)
    objective.fitted(model).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
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
    objective.fitted(model).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
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
    objective.fitted(model).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_array_equal(
        loaded.predict_cumulative_incidence(people.X, TIMES),
        objective.predict_cumulative_incidence(model, people.X, TIMES),
    )


def test_no_training_data_inside(engine, simulate, tmp_path):
    people = simulate(997, n_features=4)
    objective, model = trained(engine, people, start="marginal")
    fitted = objective.fitted(model)
    fitted.save(tmp_path / "model")
    text = (tmp_path / "model" / "model.json").read_text()
    content = json.loads(text)
    # No list is as long as there are people or events, and no number is anyone's duration.
    numbers = []

    def visit(value):
        if isinstance(value, list):
            assert len(value) < 200  # Fixed grids have fewer times.
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


def test_a_fitted_model_has_all_that_estimators_predict(engine, people, tmp_path):
    objective, model = trained(engine, people)
    fitted = objective.fitted(model)
    assert not hasattr(fitted, "fit")
    assert fitted.get_params() == {}
    assert f"engine: {engine.name}, 12 rounds" in repr(fitted)
    curves = fitted.predict_cumulative_incidence(people.X, TIMES)
    assert_array_equal(fitted.predict_survival_function(people.X, TIMES), curves[:, 0])
    assert_array_equal(fitted.predict_proba(people.X, 0.5), curves[:, :, 2])
    area = fitted.predict_restricted_mean_time(people.X, 1.0)
    lost = sum(fitted.predict_restricted_mean_time(people.X, 1.0, cause=k) for k in (1, 2))
    assert_allclose(area + lost, 1.0)
    tenth = fitted.predict_quantile(people.X, 0.1)
    at = fitted.predict_survival_function(people.X, np.sort(tenth))
    assert_allclose(at[np.argsort(tenth), np.arange(len(tenth))], 0.9, atol=1e-6)
    shap = fitted.shap_values(people.X, 0.5)
    assert shap.shape == (len(people.X), objective.n_margins, people.X.shape[1] + 2)
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    assert fitted.score(people.X, people.y) < 0
    fitted.to_onnx(tmp_path / "model.onnx", times=[0.5])
    assert_array_equal(fitted.n_events_, np.bincount(people.y[0]))


def test_a_model_that_is_trained_on_is_calibrated_again(engine, people):
    objective = engine.problem(people.X, people.y, random_state=0)
    model = engine.train(objective, 12)
    whole = objective.predict_cumulative_incidence(model, people.X, TIMES)
    part = engine.first_rounds(model, 4)
    assert objective.fitted(part).n_estimators_ == 4
    assert not np.allclose(objective.predict_cumulative_incidence(part, people.X, TIMES), whole)
    assert_array_equal(objective.predict_cumulative_incidence(model, people.X, TIMES), whole)
    assert objective.fitted(model).fitted_model is objective.fitted(model).fitted_model


def test_a_model_of_another_objective_is_refused(engine, people):
    _, model = trained(engine, people)
    other = engine.problem(people.X, people.y, start="zero", random_state=0)
    with pytest.raises(ValueError, match="not trained by this objective"):
        other.fitted(model)


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
    objective.fitted(model).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_allclose(loaded.predict_cumulative_incidence(row, TIMES), expected, atol=1e-12)

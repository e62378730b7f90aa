"""Objectives of a cross-validation over people, and the mean of their boosters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import load

TIMES = [0.3, 0.7, 1.5]


@pytest.fixture
def fitted_parts(engine, people):
    objective = engine.problem(people.X, people.y, random_state=0)
    parts = objective.cross_fit(3)
    models = [
        engine.train(part, 20, options=engine.early_stopping(part, part.held_out(), patience=5))
        for part in parts
    ]
    return objective, parts, models


def test_curves_of_the_parts_are_averaged(fitted_parts, people, tmp_path):
    objective, parts, models = fitted_parts
    each = [
        part.predict_cumulative_incidence(model, people.X, TIMES)
        for part, model in zip(parts, models, strict=True)
    ]
    mean = objective.fitted(models)
    curves = mean.predict_cumulative_incidence(people.X, TIMES)
    assert_allclose(curves, np.mean(each, axis=0), atol=1e-12)
    assert not np.allclose(each[0], each[1])
    assert_array_equal(objective.predict_cumulative_incidence(models, people.X, TIMES), curves)
    assert_array_equal(mean.n_events_, np.bincount(people.y[0]))
    mean.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.predict_cumulative_incidence(people.X, TIMES), curves)
    assert_array_equal(again.shap_values(people.X, 1.0), mean.shap_values(people.X, 1.0))
    mean.to_onnx(tmp_path / "model.onnx")


def test_every_person_is_held_out_once(engine, people):
    objective = engine.problem(people.X, people.y, random_state=0)
    parts = objective.cross_fit(3)
    left = np.concatenate([part._left_out[0].values for part in parts])
    assert_array_equal(np.sort(left, axis=0), np.sort(people.X.astype(np.float32), axis=0))
    knots = [part._knots for part in parts]
    assert all(np.array_equal(objective._knots, own) for own in knots)
    for part in parts:
        training = part._features.values
        assert len(training) + len(part._left_out[0].values) == len(people.X)
        # Nothing of the people who are held out is in the start.
        assert part._start_curve.initial.tolist() != objective._start_curve.initial.tolist()
    assert len({part._fingerprint for part in (objective, *parts)}) == 4


@pytest.mark.parametrize("n_folds", [1, 10_000])
def test_impossible_folds_are_refused(engine, people, n_folds):
    objective = engine.problem(people.X, people.y, random_state=0)
    with pytest.raises(ValueError, match=f"`n_folds={n_folds}` leaves folds without people"):
        objective.cross_fit(n_folds)


def test_an_objective_of_all_people_holds_out_no_one(engine, people):
    with pytest.raises(ValueError, match="holds out no one"):
        engine.problem(people.X, people.y, random_state=0).held_out()

"""The contract's snippets, run as printed, on every engine."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal


def test_snippet_runs_as_printed(engine, simulate):
    people = simulate(200, n_features=3)
    times = np.array([0.0, 0.5, 1.0, 2.5])
    X = people.X.copy()
    X[::7, 1] = np.nan
    names = {"X": X, "y": people.y, "X_test": X[:11], "times": times}
    exec(engine.snippet, names)
    cif = names["cif"]
    assert cif.shape == (11, 3, 4)
    assert cif.dtype == np.float64
    assert_allclose(cif.sum(axis=1), 1, atol=1e-12)


def test_snippet_gives_the_same_for_a_frame(engine, simulate):
    people = simulate(200, n_features=3)
    y = pd.DataFrame({"event": people.y[0], "duration": people.y[1]})
    curves = []
    for X in (people.X, pd.DataFrame(people.X, columns=["age", "bmi [kg/m2]", "x:2"])):
        names = {"X": X, "y": y, "X_test": X[:11], "times": [0.5, 1.0]}
        exec(engine.snippet, names)
        curves.append(names["cif"])
    assert_array_equal(*curves)


@pytest.mark.parametrize("n_causes", [1, 3])
def test_snippet_runs_for_other_numbers_of_causes(engine, simulate, n_causes):
    people = simulate(150, n_causes=n_causes, n_features=3)
    names = {"X": people.X, "y": people.y, "X_test": people.X[:1], "times": [0.5, 1.0, 1.5]}
    exec(engine.snippet, names)
    assert names["cif"].shape == (1, n_causes + 1, 3)
    assert_allclose(names["cif"].sum(axis=1), 1, atol=1e-12)


def test_labels_keep_their_names_and_change_nothing_else(engine, people):
    event, duration = people.y
    curves = []
    for labels in ([0, 1, 2], [0, 3, 7]):
        objective = engine.problem(people.X, (np.take(labels, event), duration), random_state=0)
        assert objective.event_ids_.tolist() == labels
        model = engine.train(objective, 5)
        curves.append(objective.predict_cumulative_incidence(model, people.X, [0.5, 1.0]))
    assert_array_equal(*curves)


def test_survival_function_is_the_first_curve(engine, people):
    objective = engine.problem(people.X, people.y, random_state=0)
    model = engine.train(objective, 5)
    times = [2.0, 0.5, 1.0]
    assert_array_equal(
        objective.predict_survival_function(model, people.X, times),
        objective.predict_cumulative_incidence(model, people.X, times)[:, 0],
    )


def test_the_horizon_is_the_last_column(engine, people):
    objective = engine.problem(people.X, people.y, random_state=0)
    assert_array_equal(objective.stacked_features[:, -1], objective.horizon)
    assert_array_equal(
        objective.stacked_features[:, :-1], people.X[objective.person].astype(np.float32)
    )

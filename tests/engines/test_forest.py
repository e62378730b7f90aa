"""Trees of a finished model: read once, evaluated by the engine or by hand, left out of pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import SurvivalBoost
from survival_objectives._engines import forest
from survival_objectives._engines.forest import Forest, Tree
from survival_objectives._engines.protocol import Evaluator
from survival_objectives._people import Features
from survival_objectives.datasets import make_competing_risks


class Stump(Evaluator):
    """One stump on time, with and without the engine."""

    n_rounds = n_margins = 1
    n_read = 0

    def _read_forest(self):
        Stump.n_read += 1
        stump = Tree([1, -1, -1], [0.5, 0, 0], [1, -1, -1], [2, -1, -1], [True] * 3, {},
                     [(), (-1.0,), (2.0,)], 0)  # fmt: skip
        return Forest([stump], 1, 1, at_most=True)

    def _rounds(self, values, first, last):
        assert (first, last) == (0, 1)
        return np.where(values[:, -1] <= 0.5, -1.0, 2.0)

    def _contributions(self, values):
        return np.zeros((len(values), 1, values.shape[1] + 1))

    def importances(self):
        return np.zeros(2)


SCHEMA = Features(np.empty((0, 1), np.float32), None, {})


def test_trees_are_read_once_and_not_pickled():
    Stump.n_read = 0
    trees = Stump(None, SCHEMA)
    assert trees.forest() is trees.forest()
    assert Stump.n_read == 1
    again = pickle.loads(pickle.dumps(trees))
    assert_array_equal(again.forest().breaks, [0.5])
    assert Stump.n_read == 2


def test_both_ways_of_evaluation_agree():
    trees = Stump(None, SCHEMA)
    rows = np.array([[0.0, 0.2], [0.0, 0.5], [0.0, 0.7]], np.float32)
    by_engine = trees.sum_of_trees(rows)[:, 0]
    steps = trees.forest().step_margins(rows[:, :1])[0]
    by_hand = steps[trees.forest().interval(rows[:, 1]), np.arange(3)]
    assert_array_equal(by_hand, by_engine)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_codes_are_looked_up_whatever_the_size_of_a_part(size, monkeypatch):
    """Codes 1 and 3 go left in one tree, 0 and the missing (-1) in the other; others go right."""
    monkeypatch.setattr(forest, "_WALKED_PEOPLE", size)
    monkeypatch.setattr(forest, "_WALKED_LEAVES", size)
    trees = [
        Tree(
            [0, -1, -1],
            [0, 0, 0],
            [1, -1, -1],
            [2, -1, -1],
            [nan_left] * 3,
            {0: codes},
            [(), (left,), (0.0,)],
            0,
        )
        for codes, nan_left, left in (
            (frozenset([1, 3]), False, 1.0),
            (frozenset([-1, 0]), True, 10.0),
        )
    ]
    people = np.array([[0], [1], [2], [3], [4], [200], [-1], [np.nan]], np.float32)
    margins = Forest(trees, 1, 1, at_most=True).step_margins(people)
    assert_array_equal(margins[0, 0], [10, 1, 0, 1, 0, 0, 0, 10])


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm", "catboost"])
def test_contributions_sum_to_the_margins_of_the_engine(engine):
    data = make_competing_risks(200, n_causes=2, random_state=0)
    model = SurvivalBoost(engine, censoring="kaplan-meier", n_estimators=5, random_state=0)
    trees = model.fit(data.X, data.y).fitted_model.trees
    rows = np.column_stack([data.X.to_numpy()[:20], np.ones(20)]).astype(np.float32)
    sums = trees.shap_values(rows).sum(axis=2)
    # CatBoost has a margin more: margins of all states, up to a constant.
    sums, margins = (values - values[:, :1] for values in (sums, trees.sum_of_trees(rows)))
    assert_allclose(sums, margins, atol=1e-6)

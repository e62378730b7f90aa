"""Several threads that train with one objective get the models of one thread after the other."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from catboost import CatBoostError
from numpy.testing import assert_array_equal

N_THREADS = 4


def at_once(tasks):
    """Results of the tasks, all of which begin at the same moment."""
    barrier = Barrier(len(tasks))

    def run(task):
        barrier.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        futures = [pool.submit(run, task) for task in tasks]
        return [future.result() for future in futures]


@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize("first_use", [False, True])
def test_trainings_at_once_equal_those_one_by_one(engine, simulate, n_causes, first_use):
    """Also where the matrix is not made yet, and where some refresh their weights."""
    people = simulate(400, n_causes=n_causes, n_features=3)

    def problem():
        return engine.problem(people.X, people.y, refresh_every=2, random_state=0)

    serial = problem()
    expected = [engine.bits(engine.train(serial, 12, refresh=refresh)) for refresh in (False, True)]
    assert expected[0] != expected[1]
    shared = problem() if first_use else serial
    models = at_once(
        [
            lambda refresh=bool(number % 2): engine.train(shared, 12, refresh=refresh)
            for number in range(N_THREADS)
        ]
    )
    for number, model in enumerate(models):
        assert engine.bits(model) == expected[number % 2]
    assert [record.round for record in shared.refreshes_] == [2, 4, 6, 8, 10, 12][
        : len(shared.refreshes_)
    ]
    curves = at_once(
        [
            lambda model=model: shared.predict_cumulative_incidence(model, people.X, [0.5, 1.0])
            for model in models
        ]
    )
    assert_array_equal(curves[0], curves[2])
    assert_array_equal(curves[1], curves[3])


def test_one_refresh_callback_does_not_serve_two_trainings(engine, people):
    """Its censoring model belongs to the first of them, and still works for it."""
    objective = engine.problem(people.X, people.y, refresh_every=2, random_state=0)
    trees = {"depth": 3, "learning_rate": 0.1, "thread_count": 1}
    own = (trees,) if engine.name == "catboost" else ()
    expected = engine.bits(engine.train(objective, 8, refresh=True))
    callback = objective.refresh(*own)

    def train():
        try:
            return engine.bits(engine.train(objective, 8, callbacks=[callback]))
        except (ValueError, CatBoostError) as error:
            return str(error)

    results = at_once([train, train])
    assert sum(result == expected for result in results) == 1
    (refused,) = (result for result in results if result != expected)
    assert "used by a training in another thread" in refused


@pytest.mark.parametrize("n_causes", [1, 2])
def test_a_training_inside_another_is_noticed(engine, simulate, n_causes):
    """In one thread, between the refresh and the round that it is for."""
    people = simulate(200, n_causes=n_causes, n_features=3)
    objective = engine.problem(people.X, people.y, refresh_every=2, random_state=0)
    alone = engine.train(objective, 6, refresh=True)

    class Nested:
        """A callback of any of the three engines."""

        order = 1
        before_iteration = True

        def __call__(self, *_):
            engine.train(objective, 2, refresh=True)

    if engine.name == "lightgbm":
        with pytest.raises(ValueError, match="not used in the last round"):
            engine.train(objective, 6, refresh=True, callbacks=[Nested()])
    again = engine.train(objective, 6, refresh=True)
    assert engine.bits(again) == engine.bits(alone)
    assert np.isfinite(objective.predict_survival_function(again, people.X, [1.0])).all()

"""Fixtures of all tests; Hypothesis without deadlines (two shared cores) and without chance.

A test that takes the fixture `engine` runs once for each engine.
"""

import sys
from pathlib import Path

import pytest
from estimator_data import ENGINES, boost, mixed_columns, simulated
from hypothesis import HealthCheck, settings

# For `benchmarks`; at the end, so that the tests go on importing the installed package.
sys.path.append(str(Path(__file__).parents[1]))

settings.register_profile(
    "reproducible",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("reproducible")


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture(scope="session")
def data():
    """300 people with two causes."""
    return simulated()


@pytest.fixture(scope="session")
def mixed(data):
    """The same people with missing values and categories, (X, y)."""
    return mixed_columns(data)


@pytest.fixture(scope="session")
def fitted(data, mixed):
    """A model a engine that no test may change: on numbers, or on mixed columns."""
    models = {}

    def get(engine, columns="numbers"):
        if (engine, columns) not in models:
            X, y = mixed if columns == "mixed" else (data.X, data.y)
            models[engine, columns] = boost(engine, n_estimators=30).fit(X, y)
        return models[engine, columns]

    return get

"""The examples in the docstrings of the metrics run and print what they say."""

import doctest
import importlib

import numpy as np
import pytest

MODULES = ("evaluation", "functions", "scores", "scorers")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(f"survival_objectives.metrics._{name}")
    results = doctest.testmod(module, extraglobs={"np": np})
    assert results.attempted > 0
    assert results.failed == 0

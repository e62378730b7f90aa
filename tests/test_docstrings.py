"""Examples in docstrings run and print what they say, and everything public has a docstring."""

import doctest
import importlib
import inspect
import pkgutil

import matplotlib as mpl
import numpy as np
import pytest

import survival_objectives

MODULES = [
    "survival_objectives",
    *(
        module.name
        for module in pkgutil.walk_packages(survival_objectives.__path__, "survival_objectives.")
    ),
]
# The metrics' examples have their own test.
EXAMPLES = [name for name in MODULES if not name.startswith("survival_objectives.metrics")]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Some engines leave files behind.
    mpl.use("Agg")
    module = importlib.import_module(name)
    results = doctest.testmod(module, extraglobs={"np": np})
    assert results.failed == 0


def test_modules_with_formulas_have_examples():
    targets = ("_horizons.completion", "_horizons.doubly_robust", "_people.outcomes")
    for name in ("losses", "censoring", "stacking", *targets):
        module = importlib.import_module(f"survival_objectives.{name}")
        examples = [test for test in doctest.DocTestFinder().find(module) if test.examples]
        assert examples, name


def public_objects():
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        if any(part.startswith("_") for part in module_name.split(".")):
            continue
        yield module_name, module
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            yield f"{module_name}.{name}", thing
            if inspect.isclass(thing):
                for attribute, value in vars(thing).items():
                    member = getattr(value, "__func__", value)  # class and static methods
                    is_method = inspect.isfunction(member) or isinstance(value, property)
                    if is_method and not attribute.startswith("_"):
                        yield f"{module_name}.{name}.{attribute}", value


def test_everything_public_has_a_docstring():
    undocumented = [
        path
        for path, thing in public_objects()
        if not (thing.__doc__ or "").strip() or "{parameters}" in thing.__doc__
    ]
    assert undocumented == []


def test_public_names_exist_and_are_listed_once():
    for module_name in MODULES:
        names = getattr(importlib.import_module(module_name), "__all__", [])
        assert len(set(names)) == len(names), module_name

"""Types of arguments: what they accept, and how they refuse the rest."""

from __future__ import annotations

import argparse

import pytest

from survival_objectives.cli import _main as arguments


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (arguments.whole_number(2), "5", 5),
        (arguments.share, "0.25", 0.25),
        (arguments.times, "12,24:36:12", ["12", "24", "36"]),
        (arguments.time, "12", "12"),
        (arguments.horizons, "1,2,3", ["1", "2", "3"]),
        (arguments.shares, "0.25, 0.5", ["0.25", "0.5"]),
        (arguments.event_names, "1=death,2=relapse", {"1": "death", "2": "relapse"}),
        (arguments.one_character, "\\t", "\t"),
    ],
)
def test_what_users_type(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        (arguments.whole_number(2), "1", "is 1; use 2 or more"),
        (arguments.whole_number(2), "two", "use an integer"),
        (arguments.share, "1", "use a share between 0 and 1"),
        (arguments.times, "12,12", "has a time twice"),
        (arguments.times, "1:2:0", "is not a range"),
        (arguments.time, "0", "use one time > 0"),
        (arguments.horizons, "1,2,3,4", "one to three times"),
        (arguments.shares, "0.5,0.5", "different shares"),
        (arguments.event_names, "death", "a name for each label"),
        (arguments.one_character, ";;", "use one character"),
    ],
)
def test_mistakes_are_named(parse, text, words):
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        parse(text)

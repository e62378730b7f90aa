"""Types of arguments: what users type, checked; errors read "--cv is 1; use 2 or more"."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from decimal import Decimal

# More prediction times than this are a mistyped range.
_MOST_TIMES = 1000


def whole_number(minimum: int) -> Callable[[str], int]:
    """Type of an integer that is not below ``minimum``."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            msg = f"is {text!r}; use an integer"
            raise argparse.ArgumentTypeError(msg) from None
        if number < minimum:
            msg = f"is {number}; use {minimum} or more"
            raise argparse.ArgumentTypeError(msg)
        return number

    return parse


def share(text: str) -> float:
    """A share between 0 and 1."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not 0 < number < 1:
        msg = f"is {text!r}; use a share between 0 and 1, such as 0.25"
        raise argparse.ArgumentTypeError(msg)
    return number


def times(text: str) -> list[str]:
    """Times as the user wrote them, so that columns can be named after them."""
    given = [
        each for part in text.split(",") if part.strip() for each in _steps(part.strip(), text)
    ]
    values = []
    for each in given:
        try:
            value = float(each)
        except ValueError:
            value = float("nan")
        if not 0 <= value < float("inf"):
            msg = f"is {text!r}, and {each!r} is not a time; use numbers >= 0, such as 12,24,60"
            raise argparse.ArgumentTypeError(msg)
        values.append(value)
    if not given:
        msg = f"is {text!r}; use numbers >= 0, such as 12,24,60"
        raise argparse.ArgumentTypeError(msg)
    if len(set(values)) < len(values):
        msg = f"is {text!r}, which has a time twice; leave one out"
        raise argparse.ArgumentTypeError(msg)
    return given


def _steps(part: str, text: str) -> list[str]:
    """One time, or the times of a range such as 365:1825:365, both ends included."""
    if ":" not in part:
        return [part]
    try:
        first, last, step = (Decimal(number) for number in part.split(":"))
        n_steps = int((last - first) / step) if step > 0 and last >= first >= 0 else -1
    except (ValueError, ArithmeticError):
        n_steps = -1
    if not 0 <= n_steps < _MOST_TIMES:
        msg = (
            f"is {text!r}, and {part!r} is not a range; use first:last:step, such as 365:1825:365, "
            f"of at most {_MOST_TIMES} times"
        )
        raise argparse.ArgumentTypeError(msg)
    return [f"{first + index * step:f}" for index in range(n_steps + 1)]


def time(text: str) -> str:
    """One time > 0, as the user wrote it."""
    given = times(text)
    if len(given) > 1 or float(given[0]) == 0:
        msg = f"is {text!r}; use one time > 0, such as 12"
        raise argparse.ArgumentTypeError(msg)
    return given[0]


def horizons(text: str) -> list[str]:
    """One to three times > 0, as the user wrote them."""
    given = times(text)
    if len(given) > 3 or float(given[0]) == 0:
        msg = f"is {text!r}; use one to three times > 0, such as 12,24,60"
        raise argparse.ArgumentTypeError(msg)
    return given


def shares(text: str) -> list[str]:
    """Shares between 0 and 1, as the user wrote them."""
    given = [part.strip() for part in text.split(",") if part.strip()]
    try:
        values = [float(each) for each in given]
    except ValueError:
        values = []
    if not values or not all(0 < value < 1 for value in values) or len({*values}) < len(values):
        msg = f"is {text!r}; use different shares between 0 and 1, such as 0.25,0.5"
        raise argparse.ArgumentTypeError(msg)
    return given


def event_names(text: str) -> dict[str, str]:
    """Names of causes by their labels, from "1=death,2=relapse"."""
    names = {}
    for part in text.split(","):
        label, sign, name = (piece.strip() for piece in part.partition("="))
        if not sign or not label or not name or label in names:
            msg = f"is {text!r}; use a name for each label, such as 1=death,2=relapse"
            raise argparse.ArgumentTypeError(msg)
        names[label] = name
    return names


def one_character(text: str) -> str:
    """A separator; a tab may be written as a backslash and t."""
    text = text.replace("\\t", "\t")
    if len(text) != 1:
        msg = f"is {text!r}; use one character, such as ';' or '\\t'"
        raise argparse.ArgumentTypeError(msg)
    return text

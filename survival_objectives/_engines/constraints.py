"""Constraints on features: as users write them for an engine, and by column of the rows.

The rows that engines train on have the time as a further, last column. It has a direction of its
own, and belongs to every group of features that may interact.
"""

from __future__ import annotations

import json
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

from survival_objectives._people import Features

#: Names of the settings, the same on all engines.
MONOTONE, INTERACTION = "monotone_constraints", "interaction_constraints"


def checked_directions(value: Any) -> dict[str, int] | tuple[int, ...]:
    """Directions of features by name, or one for each, from any spelling of an engine.

    >>> checked_directions({"age": 1}), checked_directions("(1,0,-1)"), checked_directions("age:1")
    ({'age': 1}, (1, 0, -1), {'age': 1})
    """
    if isinstance(value, str):
        parts = [part.strip() for part in value.strip("()[] ").split(",") if part.strip()]
        if any(":" in part for part in parts):
            value = {name: number for name, _, number in (part.rpartition(":") for part in parts)}
        else:
            value = parts
    if isinstance(value, Mapping):
        return {str(name): _direction(number) for name, number in value.items()}
    if not isinstance(value, Iterable):
        raise TypeError(_DIRECTIONS)
    return tuple(map(_direction, value))


def checked_groups(value: Any) -> tuple[tuple[str, ...], ...]:
    """Groups of features, by names or positions, from any spelling of an engine.

    >>> checked_groups([["age", "sex"], ["dose"]]), checked_groups("[0,1],[2]")
    ((('age', 'sex'), ('dose',)), (('0', '1'), ('2',)))
    """
    if isinstance(value, str):
        try:
            value = json.loads(value if value.strip().startswith("[[") else f"[{value}]")
        except ValueError:
            raise ValueError(_GROUPS) from None
    groups = list(value) if isinstance(value, Iterable) else None
    if groups is None or any(isinstance(g, str) or not isinstance(g, Iterable) for g in groups):
        raise TypeError(_GROUPS)
    return tuple(tuple(str(name) for name in group) for group in groups)


_DIRECTIONS = "must be a dict of names of features to -1, 0 or 1, or one of these for each feature"
_GROUPS = "must be a list of groups of features, each a list of names or positions"


def _direction(number: Any) -> int:
    if isinstance(number, str) and number.strip().lstrip("+-").isdecimal():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, numbers.Integral):
        raise TypeError(_DIRECTIONS)
    if abs(int(number)) > 1:
        raise ValueError(_DIRECTIONS)
    return int(number)


def column_directions(given: Any, schema: Features, time: int) -> list[int] | None:
    """Direction of every column, that of the time last; None if there is none at all.

    >>> import numpy as np
    >>> column_directions({"x1": -1}, Features(np.empty((0, 3), np.float32), None, {}), 1)
    [0, -1, 0, 1]
    """
    given = () if given is None else checked_directions(given)
    directions = [0] * schema.n_features
    if isinstance(given, dict):
        for name, direction in given.items():
            directions[_column(name, schema, MONOTONE)] = direction
    elif given:
        if len(given) != schema.n_features:
            msg = (
                f"`{MONOTONE}` has {len(given)} values, but there are {schema.n_features} features "
                "(the time is none of them). Give one for each, or a dict by name."
            )
            raise ValueError(msg)
        directions = list(given)
    for column in schema.categories:
        if directions[column]:
            msg = (
                f"`{MONOTONE}` names {_names(schema)[column]!r}, which is a category and has no "
                "order. Leave it out, or pass the column as numbers."
            )
            raise ValueError(msg)
    directions.append(time)
    return directions if any(directions) else None


def column_groups(given: Any, schema: Features) -> list[list[int]] | None:
    """Columns that may interact, the time with all of them; a feature in no group is alone.

    >>> import numpy as np
    >>> column_groups([["x0", "x1"]], Features(np.empty((0, 3), np.float32), None, {}))
    [[0, 1, 3], [2, 3]]
    """
    if given is None:
        return None
    groups = [
        sorted({_column(name, schema, INTERACTION) for name in group})
        for group in checked_groups(given)
    ]
    grouped = {column for group in groups for column in group}
    groups += [[column] for column in range(schema.n_features) if column not in grouped]
    return [[*group, schema.n_features] for group in groups if group]


def _column(name: str, schema: Features, setting: str) -> int:
    """Column of a feature by its name or, if there is no such name, by its position."""
    names = _names(schema)
    if name in names:
        return names.index(name)
    if name.isdecimal() and int(name) < schema.n_features:
        return int(name)
    msg = f"`{setting}` names {name!r}, which is no feature; there are {', '.join(names)}."
    raise ValueError(msg)


def _names(schema: Features) -> list[str]:
    return list(schema.names or (f"x{column}" for column in range(schema.n_features)))

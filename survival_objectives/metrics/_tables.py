"""Scores as tables: of a model, of its difference from another, and of groups of people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import FloatArray
from survival_objectives.metrics import _smooth
from survival_objectives.metrics._estimate import Estimate, estimate, simulated
from survival_objectives.metrics._inputs import warn_outside
from survival_objectives.metrics._workspace import Workspace

# A column with more different numbers than this is cut at quantiles into so many groups.
_MAX_LEVELS, _N_QUANTILES = 10, 4
#: Groups with fewer events have limits that do not cover what they should.
FEW_EVENTS = 20
#: Group of people whose value is missing.
MISSING = "missing"
_COLUMNS = ["score", "cause", "time", "value", "standard_error", "lower", "upper"]
#: Scales on which the limits of scores are symmetric.
LIMITS = {"brier": "loss", "auc": "logit", "concordance": "logit", "observed_expected": "log"}


@dataclass(frozen=True)
class ScoreRow:
    """One score of one cause at one time."""

    score: str
    cause: int
    time: float
    found: Estimate
    draws: FloatArray | None = None  # Where the error is simulated.

    def minus(self, other: ScoreRow) -> Estimate:
        """The difference from the same score of another model."""
        if self.found.influence is not None and other.found.influence is not None:
            return estimate(self.found.influence - other.found.influence)
        assert self.draws is not None
        assert other.draws is not None
        return simulated(float(self.found.value - other.found.value), self.draws - other.draws)


Scores = dict[str, Callable[[int | None], Estimate]]


def score_rows(work: Workspace, scores: Scores, cause: int | None) -> Iterator[ScoreRow]:
    """All rows of a table, the ``scores`` at all times and the calibration of each."""
    scored = work.scored
    is_flat = scored.incidence.ndim == 2
    if cause is not None:
        labels = [int(scored.target.event_ids[scored.cause_code(cause)])]
    else:
        labels = [0] if is_flat else scored.target.event_ids[1:].tolist()
    for label in labels:
        for name, score in scores.items():
            # In two dimensions, curves without a cause are event-free probabilities.
            # The influence on an estimate is by person already.
            influence = score(None if is_flat and cause is None else label).influence
            assert influence is not None
            for column, time in enumerate(scored.times):
                part = influence.map(partial(_column, column=column))
                yield ScoreRow(name, label, float(time), estimate(part, LIMITS.get(name, "plain")))
        if scored.target.entry is None:
            for known in np.flatnonzero(work.followed()):
                yield from _calibration_rows(work, label, int(known), cause)


def _column(parts: FloatArray, column: int) -> FloatArray:
    return parts[..., column]


def _calibration_rows(
    work: Workspace, label: int, column: int, cause: int | None
) -> Iterator[ScoreRow]:
    risk = work.scored.risks(cause if cause is not None else (label or None))[0][1][:, column]
    pseudo = work.pseudo_observations(label, column)
    data = (risk, pseudo, work.scored.sample_weight, work.scored.group)
    found = _smooth.calibration_estimates(*data)
    for name, (value, draws) in found.items():
        yield ScoreRow(name, label, float(work.scored.times[column]), value, draws)


def table_of(rows: Iterator[ScoreRow]) -> pd.DataFrame:
    """The rows as a DataFrame."""
    return pd.DataFrame(
        [(row.score, row.cause, row.time, *_numbers(row.found)) for row in rows], columns=_COLUMNS
    )


def differences_of(rows: Iterator[ScoreRow], others: Iterator[ScoreRow]) -> pd.DataFrame:
    """Differences of the rows of two models."""
    content = []
    for row, other in zip(rows, others, strict=True):
        found = row.minus(other)
        content.append((row.score, row.cause, row.time, *_numbers(found), float(found.p_value)))
    names = ["difference" if name == "value" else name for name in _COLUMNS]
    return pd.DataFrame(content, columns=[*names, "p_value"])


def _numbers(found: Estimate) -> tuple[float, ...]:
    numbers = (found.value, found.standard_error, found.lower, found.upper)
    return tuple(float(number) for number in numbers)


def group_table(level: Any, work: Workspace, table: pd.DataFrame) -> pd.DataFrame:
    """The table of a group, with its name and numbers of people and of events by the times."""
    target = work.scored.target
    labels = target.event_ids[target.event]
    counts = [
        int(
            np.count_nonzero((labels == cause if cause else labels > 0) & (target.duration <= time))
        )
        for cause, time in zip(table["cause"], table["time"], strict=True)
    ]
    table.insert(0, "group", [level] * len(table))
    table.insert(1, "n_people", target.n_samples)
    table.insert(2, "n_events", counts)
    return table


def joined_groups(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """The tables of all groups, with a warning that names small ones."""
    fewest = {str(table["group"].iloc[0]): table["n_events"].min() for table in tables}
    small = [f"{level} ({n_events})" for level, n_events in fewest.items() if n_events < FEW_EVENTS]
    if small:
        warn_outside(
            f"Groups with fewer than {FEW_EVENTS} events of a cause by a time: "
            f"{', '.join(small)}. Their limits are too narrow or undefined; join groups or ask for "
            "later times.",
            UserWarning,
        )
    return pd.concat(tables, ignore_index=True)


def levels_of(column: npt.ArrayLike, n_people: int) -> Any:
    """Group of each person, with the groups in order, people without a value last."""
    values = column if isinstance(column, pd.Series) else pd.Series(np.asarray(column))
    if len(values) != n_people:
        msg = f"The column has {len(values)} values for {n_people} people scored."
        raise ValueError(msg)
    is_number = pd.api.types.is_numeric_dtype(values.dtype) and values.dtype != np.bool_
    found: Any
    if is_number and values.nunique() > _MAX_LEVELS:
        numbers = values.to_numpy(np.float64, na_value=np.nan)
        shares = np.linspace(0, 1, _N_QUANTILES + 1)
        ends = np.unique(np.nanquantile(numbers, shares)).tolist()
        found = pd.cut(numbers, ends, labels=_ranges(ends), include_lowest=True)
    else:
        is_whole = is_number and not (values.dropna() % 1).any()
        found = pd.Categorical(values.astype("Int64") if is_whole else values)
    if values.isna().any():
        if MISSING not in found.categories:
            found = found.add_categories([MISSING])
        found = found.fillna(MISSING)
    return found.remove_unused_categories()


def _ranges(ends: Sequence[float]) -> list[str]:
    """Names of the groups between increasing numbers.

    >>> _ranges([30.0, 44.0, 57.25, 85.0])
    ['up to 44', '44 to 57.25', 'above 57.25']
    """
    for digits in (4, 8, 17):
        text = [np.format_float_positional(end, digits, fractional=False, trim="-") for end in ends]
        if len({*text}) == len(text):
            break
    if len(text) < 3:
        return [f"{text[0]} to {text[-1]}"]
    middle = [f"{low} to {high}" for low, high in pairwise(text[1:-1])]
    return [f"up to {text[1]}", *middle, f"above {text[-2]}"]

r"""Checks of arguments and tables, of columns in float32, and of rows that are copies of others.

**Resolution.** All engines compute in float32, which keeps 24 bits. Near 10^9, the size of Unix
seconds, two values must be 64 or 128 apart to stay distinct, so that all times of one day collapse
to a few hundred. The check counts distinct values before and after rounding. Ordinary continuous
data of many people loses values as well, but hundreds of thousands remain, far more than trees can
use: a loss matters if more than `LOST_SHARE` of the values are lost and fewer than `ENOUGH` remain.
Values that differ only by float64 rounding errors (0.1 + 0.2 and 0.3) count once.

**Copies.** Copies of a person in training and held-out people, as in a bootstrap sample or a table
appended to itself, make overfitting look like accuracy, so they belong to one fold. Among pairs of
rows with equal features, let a be the share with equal outcomes, and p this share among all pairs
of rows. Rows with equal features and outcomes are copies if

    (a - p) / (1 - p) >= 0.9.                                                                  (C)

In coarse tables, where people with equal features are ordinary, outcomes of such people differ. If
most outcomes are equal, such as censored at the end of the study, p is as large as a. Where a tenth
of all rows are equal, the features determine the outcome, and folds must not be made of outcomes.
"""

from __future__ import annotations

import inspect
import numbers
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import BoolArray, Float32Array, FloatArray, IntArray

# Callbacks of scikit-learn and contexts that hold interrupts run `fit` within their own functions.
_INSIDE = (__name__.partition(".")[0], "sklearn.callback.", "contextlib")


def warn(message: str) -> None:
    """Warn, at the line outside of this package from which it was called."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level + 1)


def plain_table(table: Any, name: str = "X") -> Any:
    """A pyarrow table as a pandas frame, and a polars query collected; anything else as it is.

    No library is imported: a table is known by the module of its type. A common layer such as
    narwhals would leave categories, missing values and plain arrays to this package.

    >>> plain_table([[1.0, 2.0]])
    [[1.0, 2.0]]
    """
    library = type(table).__module__.partition(".")[0]
    if library in {"dask", "dask_expr"}:
        msg = (
            f"`{name}` is a Dask collection. Use `fit_dask`, `predict_dask` and `score_dask` of "
            f"`survival_objectives.adapters.dask`, or `{name}.compute()` if it fits into memory."
        )
        raise TypeError(msg)
    if library == "pyarrow" and hasattr(table, "column_names"):
        return table.to_pandas()
    if library == "polars" and hasattr(table, "collect"):
        warn(
            f"`{name}` is a polars LazyFrame: it was collected into memory. Pass "
            f"`{name}.collect()` to do so once, and without this warning."
        )
        return table.collect()
    return table


def plain_series(column: Any) -> pd.Series[Any]:
    """A column of pandas, polars, pyarrow or a list, with numpy's values or pandas' categories."""
    if isinstance(column, pd.Series):
        is_arrow = isinstance(column.dtype, pd.ArrowDtype)
        if not is_arrow or pd.api.types.is_numeric_dtype(column.dtype):
            return column
        values: Any = column.array
        return pd.Series(values.__arrow_array__().to_pandas().array, column.index)
    kind = type(getattr(column, "dtype", None)).__name__
    if kind in {"Categorical", "Enum"}:
        # Through Python objects, so that pyarrow stays optional.
        levels = list(column.dtype.categories) if kind == "Enum" else None
        return pd.Series(pd.Categorical(column.to_list(), categories=levels))
    if hasattr(column, "to_pandas") and type(column).__module__.startswith("pyarrow"):
        found: pd.Series[Any] = column.to_pandas()
        return found
    array = column.to_numpy() if hasattr(column, "to_numpy") else column
    if kind == "Boolean" and array.dtype == object:
        array = array.astype(np.float64)  # True, False and None become 1, 0 and NaN.
    return pd.Series(array)


def as_float(values: Any, name: str) -> FloatArray:
    """One-dimensional float64 array of ``values``; missing becomes NaN."""
    if isinstance(values, pd.Series):
        is_number = pd.api.types.is_numeric_dtype(values.dtype)
        if not is_number or isinstance(values.dtype, pd.CategoricalDtype):
            values = values.to_numpy()
        else:
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(values, np.ma.MaskedArray):
        masked = np.flatnonzero(np.ma.getmaskarray(values))
        if len(masked):
            msg = (
                f"`{name}` is masked at row {masked[0]} ({len(masked)} such values), so its value "
                "is unknown. Drop these rows, or fill in values."
            )
            raise ValueError(msg)
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        msg = f"`{name}` must be one-dimensional; got shape {array.shape}."
        raise ValueError(msg)
    if array.dtype.kind not in "biuf":
        try:
            converted = array.astype(np.float64) if array.dtype == object else None
        except (TypeError, ValueError):
            converted = None
        if converted is None:
            example = array[0] if len(array) else None
            msg = (
                f"`{name}` must be numbers; got dtype {array.dtype} (first value {example!r}). "
                "Convert it, e.g. with `pandas.to_numeric` or by mapping labels to integers."
            )
            raise TypeError(msg)
        array = converted
    return array.astype(np.float64)


def refuse_rows(bad: BoolArray, values: npt.NDArray[Any], text: str) -> None:
    """Raise an error that names the first bad value.

    ``text`` may contain ``{value}``, ``{row}`` and ``{n}``, the number of bad rows.
    """
    rows = np.flatnonzero(bad)
    if len(rows):
        raise ValueError(text.format(value=values[rows[0]], row=rows[0], n=len(rows)))


def check_groups(groups: Any, n_samples: int) -> IntArray | None:
    """Group of each row as a number from 0, in order of first appearance; None without groups.

    >>> check_groups(["b", "a", "b"], 3)
    array([0, 1, 0])
    """
    if groups is None:
        return None
    if np.ndim(groups) != 1 or len(groups) != n_samples:
        msg = (
            f"`groups` has shape {np.shape(groups)} for {n_samples} rows; give one value per row, "
            "such as the id of the person."
        )
        raise ValueError(msg)
    number, _ = pd.factorize(pd.Series(groups))
    missing = np.flatnonzero(number < 0)
    if len(missing):
        msg = (
            f"`groups` is missing at row {missing[0]} ({len(missing)} such rows). Give rows "
            "without a known group a value of their own."
        )
        raise ValueError(msg)
    return number.astype(np.int64)


def relative_weights(
    weight: FloatArray | None, total: Callable[[npt.ArrayLike], FloatArray] = np.asarray
) -> FloatArray | None:
    """Weights with a mean of 1 over people of positive weight, so that leaf sizes count people.

    Parameters
    ----------
    weight : float64 array, or None
        Checked sample weights.
    total : callable, optional
        Sums each of several numbers over all processes, where each holds a part of the people.

    Returns
    -------
    float64 array, or None
        Rounded to 24 significant bits: weights in another unit (percent, say) give the same values.

    Examples
    --------
    >>> relative_weights(np.array([1e-6, 3e-6, 0.0]))
    array([0.5, 1.5, 0. ])
    """
    if weight is None:
        return None
    sum_, n_people = total([weight.sum(), np.count_nonzero(weight)])
    if not np.isfinite(sum_):
        msg = "`sample_weight` sums to infinity. Divide the weights by the largest of them."
        raise ValueError(msg)
    mantissa, exponent = np.frexp(weight / (sum_ / n_people))
    rounded: FloatArray = np.ldexp(np.rint(mantissa * 2**24), exponent - 24)
    return rounded


def check_sample_weight(sample_weight: Any, n_samples: int) -> FloatArray | None:
    """Sample weights as float64, or None for equal weights."""
    if sample_weight is None:
        return None
    weight = as_float(sample_weight, "sample_weight")
    if len(weight) != n_samples:
        msg = f"`sample_weight` has {len(weight)} values for {n_samples} people."
        raise ValueError(msg)
    bad = ~(np.isfinite(weight) & (weight >= 0))
    refuse_rows(
        bad, weight, "`sample_weight` is {value} at row {row}; weights are finite and >= 0."
    )
    if not weight.any():
        msg = f"All {n_samples} values of `sample_weight` are zero: there are no people left."
        raise ValueError(msg)
    return weight


def check_times(times: Any, name: str = "times") -> FloatArray:
    """Prediction times as a one-dimensional float64 array; a single number is one time."""
    given = times if isinstance(times, np.ma.MaskedArray) else np.asarray(times)
    array = as_float(np.atleast_1d(given), name)
    if len(array) == 0:
        msg = f"`{name}` is empty; give at least one time."
        raise ValueError(msg)
    bad = ~(np.isfinite(array) & (array >= 0))
    pattern = f"`{name}` is {{value}} at position {{row}}; times are finite and >= 0."
    refuse_rows(bad, array, pattern)
    return array


def check_random_state(random_state: Any) -> np.random.Generator:
    """A numpy Generator from None, an int, a SeedSequence, a Generator or a RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if isinstance(random_state, numbers.Integral) and int(random_state) < 0:
        msg = f"`random_state` is {random_state}; a seed is an integer >= 0."
        raise ValueError(msg)
    try:
        return np.random.default_rng(random_state)
    except TypeError:
        msg = (
            f"`random_state` is {random_state!r}; pass None, an integer, or a numpy "
            "Generator, SeedSequence or RandomState."
        )
        raise TypeError(msg) from None


def check_positive_int(value: Any, name: str) -> int:
    """``value`` as an int >= 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        msg = f"`{name}` must be an integer >= 1; got {value!r}."
        raise TypeError(msg)
    if value < 1:
        msg = f"`{name}` must be an integer >= 1; got {value}."
        raise ValueError(msg)
    return int(value)


def check_fraction(value: Any, name: str, *, zero: bool = True, one: bool = True) -> float:
    """``value`` as a float in [0, 1], with 0 and 1 allowed by ``zero`` and ``one``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        msg = f"`{name}` must be a number between 0 and 1; got {value!r}."
        raise TypeError(msg)
    number = float(value)
    inside = (number >= 0 if zero else number > 0) and (number <= 1 if one else number < 1)
    if not inside:
        interval = f"{'[' if zero else '('}0, 1{']' if one else ')'}"
        msg = f"`{name}` must be in {interval}; got {value}."
        raise ValueError(msg)
    return number


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """``value``, which must be one of ``choices``."""
    if value not in choices:
        msg = f"`{name}` is {value!r}; choose from {', '.join(map(repr, choices))}."
        raise ValueError(msg)
    return str(value)


#: The share of distinct values that may be lost.
LOST_SHARE = 0.01
#: Sufficient number of distinct float32 values; engines use 256 bins or fewer.
ENOUGH = 4096
# Relative differences up to here are rounding errors of float64, not different values.
_SAME = 1e-13
_SAMPLE = 4 * ENOUGH


@dataclass(frozen=True)
class Resolution:
    """Distinct values of a column before and after rounding to float32.

    The counts are 0 where float32 represents all values exactly.

    Attributes
    ----------
    n_given : int
        Number of distinct values given; after `merged`, summed over parts of the column.
    n_lost : int
        Number of distinct values lost.
    kept : float32 array
        The remaining values, sorted; at most `ENOUGH` of them are listed.
    """

    n_given: int
    n_lost: int
    kept: Float32Array

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Resolution:
        """The resolution of one column, ignoring NaN.

        >>> Resolution.of(1e9 + np.arange(100.0)).n_lost
        97
        >>> Resolution.of(np.arange(100.0)).n_lost
        0
        """
        values = values[np.isfinite(values)].astype(np.float64, copy=False)
        with np.errstate(over="ignore"):  # Overflows become infinite, and are refused later.
            is_exact = bool((values.astype(np.float32) == values).all())
        if is_exact:  # Most integer columns; counting would require sorting.
            return cls(0, 0, np.empty(0, np.float32))
        if len(values) > _SAMPLE:
            # A sample with enough distinct values shows that the column has enough.
            with np.errstate(over="ignore"):
                kept = np.unique(values[:: len(values) // _SAMPLE].astype(np.float32))
            if len(kept) >= ENOUGH:
                return cls(len(kept), 0, kept[:ENOUGH])
        given = np.unique(values)
        with np.errstate(over="ignore"):
            kept = np.unique(given.astype(np.float32))
        n_given = len(given)
        if len(kept) < n_given:
            n_given = 1 + int((np.diff(given) > _SAME * np.abs(given[1:])).sum())
        return cls(n_given, max(n_given - len(kept), 0), kept[:ENOUGH])

    @property
    def is_too_coarse(self) -> bool:
        """Whether a relevant part of the values was lost."""
        return len(self.kept) < ENOUGH and self.n_lost > LOST_SHARE * self.n_given

    def merged(self, other: Resolution) -> Resolution:
        """The resolution of a column that consists of two parts."""
        return Resolution(
            self.n_given + other.n_given,
            self.n_lost + other.n_lost,
            np.union1d(self.kept, other.kept)[:ENOUGH],
        )

    def check(self, name: str, remedy: str) -> None:
        """Raise an error with the number of lost values if the loss matters."""
        if not self.is_too_coarse:
            return
        msg = (
            f"{name} has {self.n_given} different values, of which rounding to float32, which the "
            f"engines compute in, leaves {self.n_given - self.n_lost} ({self.n_lost} are lost). "
            f"{remedy}"
        )
        raise ValueError(msg)


_LEAST_AGREEMENT = 0.9
# Pairs of equal rows per row: fewer may be equal by chance.
_MANY_COPIES = 0.05
_LARGEST_GROUP = 1 / 10

Keys = npt.NDArray[np.uint64]


def row_keys(values: Float32Array) -> Keys:
    """Hash of each row of features; missing values are equal to each other."""
    key = np.zeros(len(values), np.uint64)
    for column in values.T:
        # Adding 0 makes -0 equal to 0.
        known = np.where(np.isnan(column), np.float32(np.nan), column + np.float32(0))
        bits = known.astype(np.float32).view(np.uint32).astype(np.uint64)
        key = pd.util.hash_array(key + bits)
    return key


def copies(key: Keys, event: npt.NDArray[np.integer], duration: FloatArray) -> IntArray | None:
    """Groups of rows with equal features and outcomes; None where there are no copies.

    Parameters
    ----------
    key : uint64 array of shape (n_samples,)
        Features as `row_keys`.
    event, duration : arrays of shape (n_samples,)
        Outcomes.

    Examples
    --------
    >>> age, event, duration = np.arange(30, 50), np.ones(20, int), np.arange(1, 21)
    >>> key = row_keys(np.append(age, 49)[:, None].astype(np.float32))
    >>> copies(key, np.append(event, 1), np.append(duration, 20))[-2:]
    array([19, 19])
    >>> copies(key, np.append(event, 1), np.append(duration, 7)) is None
    True
    """
    people, n_people = pd.factorize(key)[0], len(key)
    n_equal_features = _n_pairs(people)
    if n_equal_features == 0:
        return None
    time = pd.factorize(duration)[0].astype(np.int64)
    outcome = pd.factorize(time * (int(event.max()) + 1) + event)[0]
    group = pd.factorize(people.astype(np.int64) * n_people + outcome)[0].astype(np.int64)
    if np.bincount(group).max() > _LARGEST_GROUP * n_people:
        return None
    n_agreeing = _n_pairs(group)
    agreeing = n_agreeing / n_equal_features
    by_chance = _n_pairs(outcome) / (n_people * (n_people - 1) / 2)
    # In a coarse table people have equal features, but hardly ever the same time as well.
    if n_agreeing >= _MANY_COPIES * n_people and by_chance <= (1 - _LEAST_AGREEMENT) * agreeing:
        return group
    if agreeing - by_chance < _LEAST_AGREEMENT * (1 - by_chance) or agreeing == 0:
        return None
    return group


def _n_pairs(group: IntArray) -> float:
    """Number of pairs of rows in one group."""
    size = np.bincount(group).astype(np.float64)
    return float((size * (size - 1)).sum() / 2)

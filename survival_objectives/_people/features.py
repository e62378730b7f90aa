"""Features of people as one float32 matrix, and what rounding to float32 loses."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._people.values import Resolution, plain_series, plain_table, warn

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]

# More distinct texts than this are categories only if several people share them.
_MOST_TEXT_LEVELS = 20
# Levels that a warning names.
_MOST_NAMED = 5
_COMPLEX = "Complex data not supported: pass real and imaginary parts as two features."


@dataclass(frozen=True)
class Features:
    """A checked feature matrix: one float32 array, categories as integer codes.

    Attributes
    ----------
    values : float32 array of shape (n_samples, n_features), C-contiguous
        Missing is NaN; a categorical column holds the codes of its ``categories``.
    names : tuple of str, or None
        Column names, if the input was a frame.
    categories : dict of int to pandas.Index
        Levels of each categorical column, by position.
    resolutions : dict of int to Resolution
        Distinct values of each numeric column before and after rounding to float32, if counted.
    offsets : dict of int to float
        What is subtracted from columns whose values float32 could not tell apart, such as times in
        seconds since 1970.
    """

    values: npt.NDArray[np.float32]
    names: tuple[str, ...] | None
    categories: dict[int, pd.Index]
    resolutions: dict[int, Resolution] = field(default_factory=dict, compare=False)
    offsets: dict[int, float] = field(default_factory=dict)

    @property
    def n_samples(self) -> int:
        """Number of people."""
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    @property
    def schema(self) -> Features:
        """The same columns with no rows, to check later input against."""
        return replace(self, values=np.empty((0, self.n_features), np.float32), resolutions={})


def check_features(
    X: Any,
    *,
    like: Features | None = None,
    resolution: str | None = None,
    with_offsets: bool = False,
) -> Features:
    """Features as one float32 matrix, with categories coded as integers.

    Parameters
    ----------
    X : array or DataFrame of shape (n_samples, n_features)
        Numbers, with NaN for missing; frames (pandas, polars, pyarrow) may have boolean, text and
        categorical columns.
    like : Features, optional
        Features of the training. If given, names and order must match, and each column is read as
        what it was in training, whatever its dtype: None, NaN and NA are missing, and a category
        unseen in training becomes missing, with a warning that names and counts it.
    resolution : {"check", "count", "ignore"}, optional
        "check" refuses a column that loses too many values in float32; "count" only fills
        `Features.resolutions`, for data that arrives in parts. Default: "check" without ``like``,
        as in training, else "ignore".
    with_offsets : bool, default=False
        Whether columns that would lose too many values in float32 are shifted instead, where that
        keeps their values apart. Offsets of ``like`` always apply.

    Returns
    -------
    Features
    """
    if isinstance(X, Features):
        return X
    if resolution is None:
        resolution = "check" if like is None else "ignore"
    counts = resolution != "ignore"
    X = plain_table(X)
    is_frame = hasattr(X, "columns")
    numbers_of = _NumericColumns(
        {} if like is None else like.offsets,
        counts=counts,
        shifts=with_offsets and like is None and resolution == "check",
    )
    features = _from_frame(X, like, numbers_of) if is_frame else _from_array(X, numbers_of)
    values = features.values
    if values.shape[0] == 0:
        msg = f"`X` of shape {values.shape} is empty: it has no rows."
        raise ValueError(msg)
    if values.shape[1] == 0:
        msg = (
            f"`X` has no columns: 0 feature(s) (shape={values.shape}) while a minimum of 1 is "
            "required."
        )
        raise ValueError(msg)
    infinite = np.isinf(values)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        msg = (
            f"`X` is {values[row, column]} at row {row}, column {_label(features, column)} "
            f"({infinite.sum()} such values, after conversion to float32). "
            "Replace infinities by NaN (missing) or a finite bound."
        )
        raise ValueError(msg)
    if like is not None and features.names is None:
        _check_same_columns(None, features.n_features, like)
        if like.categories:
            columns = [_label(like, column) for column in like.categories]
            msg = (
                f"Training had the categorical columns {', '.join(columns)}, which an array does "
                "not have. Pass a DataFrame."
            )
            raise TypeError(msg)
        if like.names is not None:
            features = replace(features, names=like.names, categories=like.categories)
    if resolution == "check":
        check_column_resolutions(features, features.resolutions)
    return features


def check_column_resolutions(schema: Features, resolutions: Mapping[int, Resolution]) -> None:
    """Refuse a column that loses too many distinct values in float32."""
    for column, resolution in resolutions.items():
        resolution.check(
            f"Column {_label(schema, column)}",
            "Subtract the smallest value (e.g. seconds since the first date), or use a larger unit "
            "such as days.",
        )


def _label(features: Features, column: int) -> str:
    return str(column) if features.names is None else repr(features.names[column])


class _NumericColumns:
    """Turns numeric columns into float32, and remembers what was lost or subtracted.

    Parameters
    ----------
    offsets : dict of int to float
        Known offsets of columns.
    counts : bool
        Whether resolutions are counted.
    shifts : bool
        Whether columns that lose too many values get an offset.
    """

    def __init__(self, offsets: dict[int, float], *, counts: bool, shifts: bool) -> None:
        self.offsets = dict(offsets)
        self.resolutions: dict[int, Resolution] = {}
        self._counts, self._shifts = counts, shifts

    def __call__(self, column: int, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        if column in self.offsets:
            values = values.astype(np.float64) - self.offsets[column]
        if self._counts:
            self.resolutions[column] = Resolution.of(values)
            if self._shifts and self.resolutions[column].is_too_coarse:
                values = self._shifted(column, values.astype(np.float64))
        return _to_float32(values)

    def _shifted(self, column: int, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Values minus an offset near the smallest one, if this keeps them apart."""
        smallest = float(values[np.isfinite(values)].min())
        # A rounded number, unless it leaves too much: no person's own value is needed.
        for offset in (float(f"{smallest:.6g}"), smallest):
            resolution = Resolution.of(values - offset)
            if not resolution.is_too_coarse:
                self.offsets[column], self.resolutions[column] = offset, resolution
                return values - offset
        return values


def _from_array(X: Any, numbers_of: _NumericColumns) -> Features:
    masked = np.ma.getmaskarray(X) if isinstance(X, np.ma.MaskedArray) else None
    # Engines are trained on dense rows; a sparse matrix comes from one-hot encoding.
    array = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if array.ndim != 2:
        msg = (
            f"`X` must have two dimensions, (n_samples, n_features); got shape {array.shape}. "
            "Reshape your data by `X.reshape(-1, 1)` for one feature, or by `X.reshape(1, -1)` for "
            "one person."
        )
        raise ValueError(msg)
    if array.dtype == object:
        array = _numbers_of_objects(array)
    if array.dtype.kind == "c":
        raise ValueError(_COMPLEX)
    if array.dtype.kind not in "biuf":
        example = _first_not_a_number(array.ravel())[1] if array.size else None
        msg = (
            f"`X` has dtype {array.dtype} (such as {example!r}); features must be numbers. "
            "Pass a DataFrame, whose text columns are categories, or convert to float."
        )
        raise TypeError(msg)
    if masked is not None and masked.any():
        array = np.where(masked, np.nan, array)
    values = np.empty(array.shape, np.float32)
    for column, given in enumerate(array.T):
        values[:, column] = numbers_of(column, given)
    return Features(values, None, {}, numbers_of.resolutions, numbers_of.offsets)


def _numbers_of_objects(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers stored as objects, None and NA as NaN. Text is kept, even if it spells a number."""
    array = np.where(pd.isna(array), np.nan, array)
    if any(isinstance(value, str | bytes) for value in array.flat):
        return array
    if any(isinstance(value, complex | np.complexfloating) for value in array.flat):
        raise ValueError(_COMPLEX)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        msg = f"`X` is an array of objects that are not all numbers: {error}. Convert to float."
        raise TypeError(msg) from None


def _first_not_a_number(values: npt.NDArray[Any]) -> tuple[int, Any]:
    """Position and value of the first that is neither a number nor missing."""
    for row, value in enumerate(values):
        if not pd.api.types.is_scalar(value):
            return row, value
        if not (pd.isna(value) or pd.api.types.is_number(value) or pd.api.types.is_bool(value)):
            return row, value
    return 0, values[0]


def _to_float32(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):  # An overflow becomes inf, and the error names it.
        return np.ascontiguousarray(array, dtype=np.float32)


def _from_frame(X: Any, like: Features | None, numbers_of: _NumericColumns) -> Features:
    names = tuple(str(name) for name in X.columns)
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        msg = f"`X` has the column {duplicate!r} more than once. Rename or drop one."
        raise ValueError(msg)
    if like is not None:
        _check_same_columns(names, len(names), like)
    values = np.empty((len(X), len(names)), np.float32)
    categories: dict[int, pd.Index] = {}
    for column, (key, name) in enumerate(zip(X.columns, names, strict=True)):
        series = plain_series(X[key])
        if like is None:
            series = _text_as_category(series, name)
            levels = _checked_levels(series, name)
        else:
            levels = like.categories.get(column)
        if levels is None:
            numbers = _numeric_column(series, name, is_training=like is None)
            values[:, column] = numbers_of(column, numbers)
        else:
            values[:, column], categories[column] = _category_codes(series, name, levels), levels
    return Features(values, names, categories, numbers_of.resolutions, numbers_of.offsets)


def _text_as_category(series: pd.Series[Any], name: str) -> pd.Series[Any]:
    """Text as categories, in alphabetical order; anything else as it is."""
    if not (series.dtype == object or isinstance(series.dtype, pd.StringDtype)):
        return series
    values = series.dropna()
    if not len(values) or not all(isinstance(value, str) for value in values):
        return series
    n_levels = values.nunique()
    if n_levels > _MOST_TEXT_LEVELS and n_levels > len(series) / 2:
        msg = (
            f"Column {name!r} has {n_levels} different texts for {len(series)} people, such as "
            f"{values.iloc[0]!r}: identifiers or free text, not categories. Drop it, or use "
            f"`X[{name!r}].astype('category')` if it is a category."
        )
        raise TypeError(msg)
    return series.astype("category")


def _checked_levels(series: pd.Series[Any], name: str) -> pd.Index | None:
    """Levels of a categorical column, which a saved model must hold; None of any other column."""
    if not isinstance(series.dtype, pd.CategoricalDtype):
        return None
    for level in series.cat.categories.tolist():
        # bool is an int.
        if not isinstance(level, str | int | float) or level in (np.inf, -np.inf):
            msg = (
                f"Column {name!r} has the category {level!r}; categories must be text or numbers. "
                f"Use `X[{name!r}].cat.rename_categories(str)`."
            )
            raise TypeError(msg)
    return series.cat.categories


def _category_codes(series: pd.Series[Any], name: str, known: pd.Index) -> npt.NDArray[np.float32]:
    """Positions of the values among the known levels, NaN for missing and unknown values."""
    if not isinstance(series.dtype, pd.CategoricalDtype):
        _check_kind_of_levels(series, name, known)
        # Objects, as text and numbers of any dtype are compared by value.
        series = series.astype(object).astype("category")
    levels, codes = series.cat.categories, series.cat.codes.to_numpy()
    if not levels.equals(known):
        # The last one is for missing values, whose code is -1.
        position = np.append(known.get_indexer(levels), -1)[codes]
        is_unseen = (codes >= 0) & (position < 0)
        if is_unseen.any():
            unseen = [levels[code] for code in np.unique(codes[is_unseen])]
            more = f" and {len(unseen) - _MOST_NAMED} more" if len(unseen) > _MOST_NAMED else ""
            msg = (
                f"Column {name!r} has the categories {unseen[:_MOST_NAMED]!r}{more} in "
                f"{is_unseen.sum()} of {len(codes)} rows, which training never saw; they are "
                "treated as missing."
            )
            warn(msg)
        codes = position
    coded = codes.astype(np.float32)
    coded[codes < 0] = np.nan
    return coded


def _check_kind_of_levels(series: pd.Series[Any], name: str, known: pd.Index) -> None:
    """Refuse numbers among levels of text and text among levels of numbers."""
    kinds = {isinstance(level, str) for level in known} or {True, False}
    rows = np.flatnonzero(series.notna())
    for row, value in zip(rows, series.to_numpy(object)[rows], strict=True):
        if isinstance(value, str) not in kinds or not pd.api.types.is_scalar(value):
            msg = (
                f"Column {name!r} was a category in training, with levels such as {known[0]!r}, "
                f"and has {value!r} in row {row}. Pass one of its levels, or None for missing."
            )
            raise ValueError(msg)


def _numeric_column(series: pd.Series[Any], name: str, *, is_training: bool) -> npt.NDArray[Any]:
    if pd.api.types.is_complex_dtype(series.dtype):
        msg = f"Column {name!r}: {_COMPLEX}"
        raise ValueError(msg)
    if pd.api.types.is_numeric_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if series.isna().all():
        if is_training:
            msg = (
                f"Column {name!r} has dtype {series.dtype} and no values, so that it is unknown "
                f"whether they are numbers. Drop it, or use `X[{name!r}].astype(float)`."
            )
            raise TypeError(msg)
        return np.full(len(series), np.nan)
    values = series.to_numpy(object)
    with suppress(TypeError):
        numbers = _numbers_of_objects(values)
        if numbers.dtype != object:
            return numbers
    row, value = _first_not_a_number(values)
    if not is_training:
        msg = (
            f"Column {name!r} was a number in training, and has {value!r} in row {row}. "
            "Pass a number, or None for missing."
        )
        raise ValueError(msg)
    msg = (
        f"Column {name!r} has dtype {series.dtype} (such as {value!r}, in row {row}); features "
        f"must be numbers or categories. {_advice(series, name, value)}"
    )
    raise TypeError(msg)


def _advice(series: pd.Series[Any], name: str, value: Any) -> str:
    """How to make a feature of a column that is neither numbers nor categories."""
    column = f"X[{name!r}]"
    if isinstance(value, timedelta):
        return f"Use a number, such as `{column} / pd.Timedelta(days=1)`."
    if isinstance(value, date):
        if series.dtype == object:
            column = f"pd.to_datetime({column})"
        zone = getattr(value, "tzinfo", None)
        origin = "pd.Timestamp('2000-01-01'" + (")" if zone is None else f", tz={str(zone)!r})")
        return (
            "Use a number, such as days since a fixed date: "
            f"`({column} - {origin}) / pd.Timedelta(days=1)`."
        )
    return f"Use `{column}.map(str, na_action='ignore')` for categories, or convert to float."


def _check_same_columns(names: tuple[str, ...] | None, n_features: int, like: Features) -> None:
    have_names = names is not None and like.names is not None
    if n_features != like.n_features and not have_names:
        named = "" if like.names is None else f": {list(like.names)!r}"
        msg = (
            f"X has {n_features} features, but it is expecting "
            f"{like.n_features} features as input, the columns of training{named}."
        )
        raise ValueError(msg)
    if names is not None and like.names is not None and names != like.names:
        if set(names) == set(like.names):
            msg = (
                f"`X` has the columns of training in another order. Use `X[{list(like.names)!r}]`."
            )
        else:
            missing = [name for name in like.names if name not in names]
            extra = [name for name in names if name not in like.names]
            lacks = [f"lacks the columns {missing!r}"] if missing else []
            has = [f"has the unknown columns {extra!r}"] if extra else []
            msg = f"`X` {' and '.join([*lacks, *has])}. Use `X[{list(like.names)!r}]`."
        raise ValueError(msg)


def take_rows(X: Any, rows: IntArray | slice) -> Any:
    """The given rows of ``X``, in its own type: pandas, polars or array; a list as an array."""
    X = plain_table(X)
    if isinstance(X, pd.DataFrame):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def check_time_resolution(resolution: Resolution | FloatArray) -> None:
    """Refuse durations that lose too many distinct values in float32, in which trees see time."""
    if not isinstance(resolution, Resolution):
        resolution = Resolution.of(resolution)
    resolution.check(
        "`duration`",
        "Count time from the beginning of follow-up (subtract the origin), or use a larger unit.",
    )


class KeptValues:
    """Resolution in float32 of durations and columns that arrive in parts."""

    def __init__(self) -> None:
        self._duration: Resolution | None = None
        self._columns: dict[int, Resolution] = {}

    def add(self, columns: Mapping[int, Resolution], duration: Resolution) -> None:
        """Add one part."""
        self._duration = duration if self._duration is None else self._duration.merged(duration)
        for column, counted in columns.items():
            known = self._columns.get(column)
            self._columns[column] = counted if known is None else known.merged(counted)

    def check(self, schema: Features) -> None:
        """Apply the checks that apply to data in one part."""
        if self._duration is not None:
            check_time_resolution(self._duration)
        check_column_resolutions(schema, self._columns)

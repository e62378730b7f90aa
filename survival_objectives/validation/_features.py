"""Features of people as one float32 matrix, and what rounding to float32 loses."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._resolution import Resolution

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]

# More distinct texts than this are categories only if several people share them.
_MOST_TEXT_LEVELS = 20
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
        Numbers, with NaN for missing; pandas or polars frames may have boolean and categorical
        columns.
    like : Features, optional
        Features of the training. If given, names, order and categories must match; a category
        unseen in training becomes missing, with a warning that names it.
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
    if like is not None:
        _check_same_columns(features, like)
        if features.names is None and like.categories:
            columns = [_label(like, column) for column in like.categories]
            msg = (
                f"Training had the categorical columns {', '.join(columns)}, which an array does "
                "not have. Pass a DataFrame."
            )
            raise TypeError(msg)
        if features.names is None and like.names is not None:
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
        example = array.flat[0] if array.size else None
        msg = (
            f"`X` has dtype {array.dtype} (first value {example!r}); features must be numbers. "
            "Pass a DataFrame with `category` columns for text, or convert to float."
        )
        raise TypeError(msg)
    if masked is not None and masked.any():
        array = np.where(masked, np.nan, array)
    values = np.empty(array.shape, np.float32)
    for column, given in enumerate(array.T):
        values[:, column] = numbers_of(column, given)
    return Features(values, None, {}, numbers_of.resolutions, numbers_of.offsets)


def _numbers_of_objects(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers stored as objects, None as NaN. Text is kept, even if it spells a number."""
    if any(isinstance(value, str | bytes) for value in array.flat):
        return array
    if any(isinstance(value, complex | np.complexfloating) for value in array.flat):
        raise ValueError(_COMPLEX)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        msg = f"`X` is an array of objects that are not all numbers: {error}. Convert to float."
        raise TypeError(msg) from None


def _to_float32(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):  # An overflow becomes inf, and the error names it.
        return np.ascontiguousarray(array, dtype=np.float32)


def _from_frame(X: Any, like: Features | None, numbers_of: _NumericColumns) -> Features:
    names = tuple(str(name) for name in X.columns)
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        msg = f"`X` has the column {duplicate!r} more than once. Rename or drop one."
        raise ValueError(msg)
    known = {} if like is None or like.names != names else like.categories
    values = np.empty((len(X), len(names)), np.float32)
    categories: dict[int, pd.Index] = {}
    for column, (key, name) in enumerate(zip(X.columns, names, strict=True)):
        series = _text_as_category(_to_pandas(X[key]), name, known.get(column))
        if isinstance(series.dtype, pd.CategoricalDtype):
            values[:, column], categories[column] = _category_codes(series, name, known.get(column))
        else:
            values[:, column] = numbers_of(column, _numeric_column(series, name))
    return Features(values, names, categories, numbers_of.resolutions, numbers_of.offsets)


def _to_pandas(series: Any) -> pd.Series[Any]:
    if isinstance(series, pd.Series):
        return series
    # A polars column. Only categories go through Python objects, so that pyarrow stays optional.
    if type(series.dtype).__name__ in {"Categorical", "Enum"} or "Categorical" in str(series.dtype):
        values = series.to_list()
        if type(series.dtype).__name__ == "Enum":
            return pd.Series(pd.Categorical(values, categories=list(series.dtype.categories)))
        return pd.Series(pd.Categorical(values))
    array = series.to_numpy()
    if array.dtype == object and str(series.dtype) == "Boolean":
        array = array.astype(np.float64)  # True, False and None become 1, 0 and NaN.
    return pd.Series(array)


def _text_as_category(series: pd.Series[Any], name: str, known: pd.Index | None) -> pd.Series[Any]:
    """Text as categories, in alphabetical order; anything else as it is."""
    if not (series.dtype == object or isinstance(series.dtype, pd.StringDtype)):
        return series
    values = series.dropna()
    if not len(values) or not all(isinstance(value, str) for value in values):
        return series
    n_levels = values.nunique()
    if known is None and n_levels > _MOST_TEXT_LEVELS and n_levels > len(series) / 2:
        msg = (
            f"Column {name!r} has {n_levels} different texts for {len(series)} people, such as "
            f"{values.iloc[0]!r}: identifiers or free text, not categories. Drop it, or use "
            f"`X[{name!r}].astype('category')` if it is a category."
        )
        raise TypeError(msg)
    return series.astype("category")


def _category_codes(
    series: pd.Series[Any], name: str, known: pd.Index | None
) -> tuple[npt.NDArray[np.float32], pd.Index]:
    levels = series.cat.categories
    codes = series.cat.codes.to_numpy()
    if known is None:
        known = levels
    elif not levels.equals(known):
        position = known.get_indexer(levels)
        used = np.unique(codes[codes >= 0])
        unseen = [levels[code] for code in used if position[code] < 0]
        if unseen:
            msg = (
                f"Column {name!r} has the categories {unseen!r}, which training never saw; "
                "they are treated as missing."
            )
            warnings.warn(msg, UserWarning, stacklevel=2)
        codes = np.where(codes >= 0, np.append(position, -1)[codes], -1)
    coded = codes.astype(np.float32)
    coded[codes < 0] = np.nan
    return coded, known


def _numeric_column(series: pd.Series[Any], name: str) -> npt.NDArray[Any]:
    if pd.api.types.is_complex_dtype(series.dtype):
        msg = f"Column {name!r}: {_COMPLEX}"
        raise ValueError(msg)
    if not pd.api.types.is_numeric_dtype(series.dtype):
        example = series.iloc[0] if len(series) else None
        msg = (
            f"Column {name!r} has dtype {series.dtype} (first value {example!r}); features must be "
            f"numbers or categories. Use `X[{name!r}].astype('category')`, or a number such as "
            "days since a date."
        )
        raise TypeError(msg)
    return series.to_numpy(dtype=np.float64, na_value=np.nan)


def _check_same_columns(features: Features, like: Features) -> None:
    have_names = features.names is not None and like.names is not None
    if features.n_features != like.n_features and not have_names:
        named = "" if like.names is None else f": {list(like.names)!r}"
        msg = (
            f"X has {features.n_features} features, but SurvivalBoost is expecting "
            f"{like.n_features} features as input, the columns of training{named}."
        )
        raise ValueError(msg)
    if features.names is not None and like.names is not None and features.names != like.names:
        if set(features.names) == set(like.names):
            msg = (
                f"`X` has the columns of training in another order. Use `X[{list(like.names)!r}]`."
            )
        else:
            missing = [name for name in like.names if name not in features.names]
            extra = [name for name in features.names if name not in like.names]
            lacks = [f"lacks the columns {missing!r}"] if missing else []
            has = [f"has the unknown columns {extra!r}"] if extra else []
            msg = f"`X` {' and '.join([*lacks, *has])}. Use `X[{list(like.names)!r}]`."
        raise ValueError(msg)
    if features.names is not None and set(features.categories) != set(like.categories):
        column = min(set(features.categories) ^ set(like.categories))
        was = "a category" if column in like.categories else "a number"
        msg = f"Column {_label(features, column)} was {was} in training and no longer is."
        raise ValueError(msg)


def take_rows(X: Any, rows: IntArray) -> Any:
    """The given rows of ``X``, in its own type: pandas, polars or array; a list as an array."""
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

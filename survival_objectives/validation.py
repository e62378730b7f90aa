"""Validation of user input, the only code that inspects what a user passes in.

All other code works on plain float32/float64/int32 arrays and may assume that they are well formed.
Errors name the offending value and the way out.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._resolution import Resolution

__all__ = [
    "Features",
    "KeptValues",
    "SurvivalTarget",
    "check_choice",
    "check_column_resolutions",
    "check_features",
    "check_fraction",
    "check_paired",
    "check_positive_int",
    "check_random_state",
    "check_sample_weight",
    "check_survival_target",
    "check_time_resolution",
    "check_times",
    "relative_weights",
    "split_target",
    "take_rows",
    "warn_about_labels",
    "warn_about_outcomes",
]

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]

_EVENT_NAMES = ("event",)
_DURATION_NAMES = ("duration", "time")
# More distinct texts than this are categories only if several people share them.
_MOST_TEXT_LEVELS = 20
_ENTRY_NAMES = ("entry", "entry_time", "start", "start_time", "tstart", "truncation")
# More labels than any study distinguishes: a sign that the columns are swapped.
_MAX_CAUSES = 50
# More causes than most studies have: worth a warning about the interpretation.
_MANY_CAUSES = 10
# Above this rank correlation with the duration, three or more labels look like a time.
_TIME_LIKE = 0.9
# Labels pass through float64, which represents integers exactly up to here.
_MAX_LABEL = 2**53
_COMPLEX = "Complex data not supported: pass real and imaginary parts as two features."


# ---------------------------------------------------------------------------------------- targets
@dataclass(frozen=True)
class SurvivalTarget:
    """Checked outcomes: event and duration per person.

    Attributes
    ----------
    event : int32 array of shape (n_samples,)
        0 = censored, 1..K = causes, in the order of ``event_ids[1:]``.
    duration : float64 array of shape (n_samples,)
        Time of the event or of censoring.
    event_ids : int64 array of shape (K + 1,)
        The user's labels; ``event_ids[0]`` is 0, the censored (and, in predictions, event-free)
        state.
    """

    event: npt.NDArray[np.int32]
    duration: npt.NDArray[np.float64]
    event_ids: npt.NDArray[np.int64]

    @property
    def n_samples(self) -> int:
        """Number of people."""
        return len(self.event)

    @property
    def n_causes(self) -> int:
        """Number of competing causes, K."""
        return len(self.event_ids) - 1


def check_survival_target(
    y: Any, *, event_ids: npt.ArrayLike | None = None, require_event: bool = True
) -> SurvivalTarget:
    """Outcomes as integer causes and float64 durations.

    Parameters
    ----------
    y : DataFrame, dict, structured array, tuple or array
        A pandas or polars frame, a dict or a structured array with a field ``event`` and a field
        ``duration`` or ``time`` (a two-field structured array with one boolean field, as
        scikit-survival makes, may use any names); a tuple ``(event, duration)``; or an
        ``(n_samples, 2)`` array with these two columns in this order.
    event_ids : array-like, optional
        Labels known from training; any other label is refused.
    require_event : bool, default=True
        Whether all-censored data is refused. Always accepted where ``event_ids`` is given.

    Returns
    -------
    SurvivalTarget

    Examples
    --------
    >>> target = check_survival_target(([0, 3, 1], [2.0, 5.0, 1.0]))
    >>> target.event
    array([0, 2, 1], dtype=int32)
    >>> target.event_ids
    array([0, 1, 3])
    """
    event, duration = split_target(y)
    event = _check_event(event)
    duration = _check_duration(duration)
    if len(event) != len(duration):
        msg = f"`event` has {len(event)} values but `duration` has {len(duration)}."
        raise ValueError(msg)
    if len(event) == 0:
        msg = "`y` is empty: there are no people to train on."
        raise ValueError(msg)

    if event_ids is None:
        known = np.concatenate([[0], np.unique(event[event > 0])]).astype(np.int64)
        if require_event and len(known) == 1:
            msg = (
                f"All {len(event)} people are censored (event = 0), so there is no cause to learn. "
                "Check which column marks the event: 0 = censored, 1..K = causes."
            )
            raise ValueError(msg)
    else:
        known = np.asarray(event_ids, dtype=np.int64)
        unknown = np.setdiff1d(event, known)
        if len(unknown):
            msg = (
                f"`event` has the label {unknown[0]}, which was not seen in training. "
                f"Known labels: {known.tolist()}."
            )
            raise ValueError(msg)
    if len(known) - 1 > _MAX_CAUSES:
        msg = (
            f"`event` has {len(known) - 1} different causes, such as {known[1:6].tolist()}. "
            "If these are durations, swap the two: the order is (event, duration)."
        )
        raise ValueError(msg)
    codes = np.searchsorted(known, event).astype(np.int32)
    return SurvivalTarget(codes, duration, known)


def split_target(y: Any) -> tuple[Any, Any]:
    """Events and durations of outcomes in any form, not yet checked."""
    if isinstance(y, SurvivalTarget):
        return y.event_ids[y.event], y.duration
    if isinstance(y, tuple):
        if len(y) != 2:
            msg = f"A tuple `y` must be (event, duration); got {len(y)} elements."
            raise ValueError(msg)
        return _same_people(y[0], y[1])
    if isinstance(y, Mapping):
        return _same_people(*_fields(y, list(y.keys())))
    if hasattr(y, "columns"):
        if isinstance(y, pd.DataFrame) and y.columns.has_duplicates:
            duplicate = y.columns[y.columns.duplicated()][0]
            msg = f"`y` has the column {duplicate!r} more than once."
            raise ValueError(msg)
        return _fields(y, list(y.columns))
    # A masked array stays masked, so that the error can name its masked values.
    array = y if isinstance(y, np.ma.MaskedArray) else np.asarray(y)
    if array.dtype.names is not None:
        names = list(array.dtype.names)
        if len(names) == 2:
            is_bool = [array.dtype[name] == np.bool_ for name in names]
            if sum(is_bool) == 1:
                event_name = names[is_bool.index(True)]
                return array[event_name], array[names[is_bool.index(False)]]
        return _fields(array, names)
    if array.ndim == 2 and array.shape[1] == 2:
        return array[:, 0], array[:, 1]
    msg = (
        f"`y` of type {type(y).__name__} and shape {array.shape} is not understood. Pass a frame "
        "or dict with `event` and `duration`, a tuple (event, duration), or an (n, 2) array."
    )
    raise ValueError(msg)


def _same_people(event: Any, duration: Any) -> tuple[Any, Any]:
    _refuse_other_index(_pandas_index(event), _pandas_index(duration), "event", "duration")
    return event, duration


def _fields(y: Any, names: list[Any]) -> tuple[Any, Any]:
    def find(wanted: tuple[str, ...]) -> Any:
        matches = [name for name in names if str(name).lower() in wanted]
        if len(matches) == 1:
            return y[matches[0]]
        found = f"has several: {matches}" if matches else f"has only: {names}"
        msg = f"`y` needs exactly one field named {' or '.join(map(repr, wanted))}; it {found}."
        raise ValueError(msg)

    entries = [name for name in names if str(name).lower() in _ENTRY_NAMES]
    if entries:
        msg = (
            f"`y` has the field {entries[0]!r}, but entry later than time 0 (left truncation) is "
            "not supported, and ignoring it would bias the curves. Drop the field if all people "
            "were followed from time 0."
        )
        raise ValueError(msg)
    return find(_EVENT_NAMES), find(_DURATION_NAMES)


def _as_float(values: Any, name: str) -> npt.NDArray[np.float64]:
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


def _check_event(event: Any) -> npt.NDArray[np.int64]:
    array = _as_float(event, "event")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        msg = f"`event` is {array[bad[0]]} at row {bad[0]}; 0 marks a censored person."
        raise ValueError(msg)
    bad = np.flatnonzero(array != np.rint(array))
    if len(bad):
        msg = (
            f"`event` is {array[bad[0]]} at row {bad[0]}, not an integer. "
            "If these are durations, swap the two: the order is (event, duration)."
        )
        raise ValueError(msg)
    bad = np.flatnonzero(array < 0)
    if len(bad):
        msg = (
            f"`event` is {array[bad[0]]:.0f} at row {bad[0]}; "
            "labels are 0 (censored) and positive integers (causes)."
        )
        raise ValueError(msg)
    bad = np.flatnonzero(array > _MAX_LABEL)
    if len(bad):
        msg = f"`event` is {array[bad[0]]:g} at row {bad[0]}; labels go up to 2^53."
        raise ValueError(msg)
    return array.astype(np.int64)


def _check_duration(duration: Any) -> npt.NDArray[np.float64]:
    array = _as_float(duration, "duration")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        msg = (
            f"`duration` is {array[bad[0]]} at row {bad[0]} ({len(bad)} such rows). "
            "Drop these people, or give the last time they were observed, with event = 0."
        )
        raise ValueError(msg)
    bad = np.flatnonzero(array < 0)
    if len(bad):
        msg = (
            f"`duration` is {array[bad[0]]} at row {bad[0]} ({len(bad)} such rows); "
            "durations are counted from 0."
        )
        raise ValueError(msg)
    if len(array) and array.max() > np.finfo(np.float32).max / 2:
        msg = f"`duration` reaches {array.max()}, beyond float32. Use a larger unit of time."
        raise ValueError(msg)
    return array


# --------------------------------------------------------------------------------------- features
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


# ----------------------------------------------------------------------------------------- training
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


def check_paired(X: Any, y: Any, sample_weight: Any = None) -> None:
    """Refuse outcomes or weights whose pandas index belongs to other people than that of ``X``.

    The same labels in another order are refused, and other labels unless they are integers, which
    may be positions in a table that was split. Data without an index is paired by position.

    >>> X = pd.DataFrame({"x": [1.0, 2.0]}, index=["anna", "bert"])
    >>> check_paired(X, pd.DataFrame({"event": [1, 0], "duration": [1.0, 2.0]}, index=X.index))
    >>> check_paired(X, pd.DataFrame({"event": [1, 0], "duration": [1.0, 2.0]}))
    """
    index = _pandas_index(X)
    if index is None:
        return
    outcomes: dict[str, Any] = {"y": y, "sample_weight": sample_weight}
    if isinstance(y, tuple):
        outcomes |= {f"y[{number}]": part for number, part in enumerate(y)}
    elif isinstance(y, Mapping):
        outcomes |= {f"y[{name!r}]": part for name, part in y.items()}
    for name, part in outcomes.items():
        _refuse_other_index(index, _pandas_index(part), "X", name)


def _pandas_index(values: Any) -> pd.Index | None:
    return values.index if isinstance(values, pd.DataFrame | pd.Series) else None


def _refuse_other_index(
    index: pd.Index | None, other: pd.Index | None, name: str, other_name: str
) -> None:
    if index is None or other is None or len(index) != len(other) or index.equals(other):
        return
    reordered = (
        index.nlevels == other.nlevels
        and index.is_unique
        and other.is_unique
        and bool(other.isin(index).all())
    )
    if not reordered and (_is_numbered(index) or _is_numbered(other)):
        return
    row = int(np.argmax(index.to_numpy(dtype=object) != other.to_numpy(dtype=object)))
    what = "has the index of" if reordered else "has another index than"
    how = " in another order" if reordered else ""
    msg = (
        f"`{other_name}` {what} `{name}`{how}: row {row} is {other[row]!r} there and "
        f"{index[row]!r} in `{name}`. Rows are paired by position, so people would be mixed up. "
        f"Use `.loc[{name}.index]` to bring them into one order, or `.reset_index(drop=True)` on "
        "both if they already are."
    )
    raise ValueError(msg)


def _is_numbered(index: pd.Index) -> bool:
    # Integers may be positions, including what a split leaves of the default index.
    return pd.api.types.is_integer_dtype(index.dtype)


def warn_about_outcomes(target: SurvivalTarget, *, stacklevel: int = 3) -> None:
    """Warn with the interpretation if training outcomes look miscoded."""
    event, duration = target.event, target.duration
    has_censored = bool((event == 0).any())
    warn_about_labels(target.event_ids, has_censored=has_censored, stacklevel=stacklevel + 1)
    if target.n_causes > 1 and np.isin(duration, (0, 1)).all():
        msg = (
            f"`duration` is 0 or 1 for all {target.n_samples} people, while `event` has "
            f"{target.n_causes} labels besides 0. If these are durations, swap the two: the order "
            "is (event, duration)."
        )
        warnings.warn(msg, UserWarning, stacklevel=stacklevel)
    if not 3 <= target.n_causes <= _MANY_CAUSES:
        return
    happened = event > 0
    if happened.sum() < 20:
        return
    label = pd.Series(target.event_ids[event[happened]])
    correlation = label.rank().corr(pd.Series(duration[happened]).rank())
    if abs(correlation) > _TIME_LIKE:
        msg = (
            f"The {target.n_causes} labels of `event` rise and fall with `duration` (rank "
            f"correlation {correlation:.2f}), as a time or a count would. They were understood as "
            "competing causes; the order is (event, duration)."
        )
        warnings.warn(msg, UserWarning, stacklevel=stacklevel)


def warn_about_labels(
    event_ids: npt.NDArray[np.int64], *, has_censored: bool, stacklevel: int = 3
) -> None:
    """The part of `warn_about_outcomes` that needs only the set of labels."""
    causes = event_ids[1:].tolist()
    if not has_censored:
        understood = "cause" if len(causes) == 1 else "competing causes"
        hint = "If all people were followed to the event, that is right."
        if len(causes) > 1:
            hint = (
                f"If {causes[0]} marks censored people, as where 1 = censored and 2 = dead, make "
                f"it 0. {hint}"
            )
        shown = ", ".join(map(str, causes[:6])) + (", ..." if len(causes) > 6 else "")
        msg = f"Nobody is censored: no `event` is 0, and {shown} means {understood}. {hint}"
        warnings.warn(msg, UserWarning, stacklevel=stacklevel)
    if len(causes) > _MANY_CAUSES:
        msg = (
            f"`event` has {len(causes)} labels besides 0, such as {causes[:5]}, which were "
            "understood as competing causes. If they are a count or a time, swap the two: the "
            "order is (event, duration)."
        )
        warnings.warn(msg, UserWarning, stacklevel=stacklevel)


def relative_weights(
    weight: npt.NDArray[np.float64] | None,
    total: Callable[[npt.ArrayLike], npt.NDArray[np.float64]] = np.asarray,
) -> npt.NDArray[np.float64] | None:
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
    rounded: npt.NDArray[np.float64] = np.ldexp(np.rint(mantissa * 2**24), exponent - 24)
    return rounded


# ------------------------------------------------------------------------------------ small things
def check_sample_weight(sample_weight: Any, n_samples: int) -> npt.NDArray[np.float64] | None:
    """Sample weights as float64, or None for equal weights."""
    if sample_weight is None:
        return None
    weight = _as_float(sample_weight, "sample_weight")
    if len(weight) != n_samples:
        msg = f"`sample_weight` has {len(weight)} values for {n_samples} people."
        raise ValueError(msg)
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        msg = f"`sample_weight` is {weight[bad[0]]} at row {bad[0]}; weights are finite and >= 0."
        raise ValueError(msg)
    if not weight.any():
        msg = f"All {n_samples} values of `sample_weight` are zero: there are no people left."
        raise ValueError(msg)
    return weight


def check_times(times: Any) -> npt.NDArray[np.float64]:
    """Prediction times as a one-dimensional float64 array; a single number is one time."""
    given = times if isinstance(times, np.ma.MaskedArray) else np.asarray(times)
    array = _as_float(np.atleast_1d(given), "times")
    if len(array) == 0:
        msg = "`times` is empty; give at least one time."
        raise ValueError(msg)
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(bad):
        msg = f"`times` is {array[bad[0]]} at position {bad[0]}; times are finite and >= 0."
        raise ValueError(msg)
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

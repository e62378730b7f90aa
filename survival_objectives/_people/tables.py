"""Tables and columns of other libraries, as the rest of the package reads them.

None of these libraries is imported: a table is known by the module of its type. A common layer such
as narwhals would still leave categories, missing values and plain arrays to this package.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from survival_objectives._people.values import warn


def plain_table(table: Any, name: str = "X") -> Any:
    """A pyarrow table as a pandas frame, and a polars query collected; anything else as it is.

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

"""The border to the user: every accepted form of input, and an error by name for every other."""

import re
from datetime import date
from decimal import Decimal
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from sksurv.util import Surv

from survival_objectives import SurvivalBoost
from survival_objectives._people import (
    SurvivalTarget,
    check_choice,
    check_features,
    check_fraction,
    check_positive_int,
    check_random_state,
    check_sample_weight,
    check_survival_target,
    check_times,
    take_rows,
)
from survival_objectives._people.labels import named_outcomes
from survival_objectives._people.outcomes import outcomes_frame
from survival_objectives.adapters.xgboost import IPCWObjective

EVENT = [0, 1, 2, 1]
DURATION = [1.5, 2.0, 0.0, 4.0]


def structured(names=("event", "duration"), kind="i4"):
    rows = list(zip(EVENT, DURATION, strict=True))
    return np.array(rows, dtype=[(names[0], kind), (names[1], "f8")])


# ------------------------------------------------------------------------ accepted forms of `y`
FORMS = {
    "pandas": pd.DataFrame({"event": EVENT, "duration": DURATION}),
    "pandas, other order, more columns": pd.DataFrame(
        {"time": DURATION, "id": list("abcd"), "event": EVENT}, index=[9, 8, 7, 6]
    ),
    "pandas, capitals": pd.DataFrame({"Event": EVENT, "Duration": DURATION}),
    "pandas, nullable": pd.DataFrame(
        {"event": pd.array(EVENT, dtype="Int8"), "duration": pd.array(DURATION, dtype="Float32")}
    ),
    "pandas, pyarrow": pd.DataFrame({"event": EVENT, "duration": DURATION}).convert_dtypes(
        dtype_backend="pyarrow"
    ),
    "pandas, categorical labels": pd.DataFrame(
        {"event": pd.Categorical(EVENT), "duration": DURATION}
    ),
    "pandas, objects": pd.DataFrame({"event": EVENT, "duration": DURATION}, dtype=object),
    "polars": pl.DataFrame({"event": EVENT, "duration": DURATION}),
    "polars, small types": pl.DataFrame(
        {"time": DURATION, "event": EVENT}, schema={"time": pl.Float32, "event": pl.UInt8}
    ),
    "dict of lists": {"event": EVENT, "duration": DURATION},
    "dict of arrays": {"time": np.array(DURATION, np.float32), "event": np.array(EVENT, np.uint8)},
    "structured": structured(),
    "structured, time": structured(("event", "time"), "f4"),
    "tuple of lists": (EVENT, DURATION),
    "tuple of series": (pd.Series(EVENT), pd.Series(DURATION)),
    "tuple of polars series": (pl.Series(EVENT), pl.Series(DURATION)),
    "tuple of one-column arrays": (np.array(EVENT)[:, None], np.array(DURATION)[:, None]),
    "(n, 2) array": np.column_stack([EVENT, DURATION]),
    "(n, 2) array, Fortran": np.asfortranarray(np.column_stack([EVENT, DURATION])),
    "list of pairs": list(zip(EVENT, DURATION, strict=True)),
    "checked already": check_survival_target((EVENT, DURATION)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_outcomes_gives_the_same_target(form):
    target = check_survival_target(FORMS[form])
    assert_array_equal(target.event, EVENT)
    assert_array_equal(target.duration, DURATION)
    assert_array_equal(target.event_ids, [0, 1, 2])
    assert target.event.dtype == np.int32
    assert target.duration.dtype == np.float64
    assert target.event_ids.dtype == np.int64
    assert (target.n_samples, target.n_causes) == (4, 2)


SEEN = np.array(EVENT) > 0
BOOLEAN_FORMS = {
    "tuple": (SEEN, DURATION),
    "pandas": pd.DataFrame({"event": SEEN, "duration": DURATION}),
    "pandas, nullable": pd.DataFrame(
        {"event": pd.array(SEEN, dtype="boolean"), "duration": DURATION}
    ),
    "polars": pl.DataFrame({"event": SEEN, "duration": DURATION}),
    "scikit-survival": Surv.from_arrays(SEEN, DURATION),
    "scikit-survival, own names": Surv.from_arrays(SEEN, DURATION, "death", "follow_up"),
    "time before status": np.array(
        list(zip(DURATION, SEEN, strict=True)), dtype=[("days", "f8"), ("status", "?")]
    ),
}


@pytest.mark.parametrize("form", BOOLEAN_FORMS)
def test_boolean_events_are_one_cause(form):
    target = check_survival_target(BOOLEAN_FORMS[form])
    assert_array_equal(target.event, SEEN)
    assert_array_equal(target.duration, DURATION)
    assert_array_equal(target.event_ids, [0, 1])


@given(
    hnp.arrays(np.int64, st.integers(1, 30), elements=st.sampled_from([0, 1, 3, 70, 2**40])).filter(
        np.any
    )
)
def test_labels_keep_their_names_and_get_contiguous_codes(event):
    target = check_survival_target((event, np.ones(len(event))))
    assert_array_equal(target.event_ids[target.event], event)
    assert_array_equal(target.event_ids[1:], np.unique(event[event > 0]))
    assert target.event_ids[0] == 0
    again = check_survival_target(target)
    assert_array_equal(again.event, target.event)


@given(
    st.sampled_from([np.float32, np.float64]).flatmap(
        lambda dtype: hnp.arrays(
            dtype,
            st.integers(2, 20),
            elements=st.floats(0, 2.0**100, width=np.dtype(dtype).itemsize * 8),
        )
    )
)
def test_durations_keep_their_values(duration):
    target = check_survival_target((np.ones(len(duration), np.int8), duration))
    assert_array_equal(target.duration, duration)
    assert target.duration is not duration


def test_labels_of_training_are_known_and_others_refused():
    target = check_survival_target(([0, 3], [1.0, 2.0]), event_ids=[0, 1, 3])
    assert_array_equal(target.event, [0, 2])
    assert target.n_causes == 2
    with pytest.raises(ValueError, match=r"label 2, which was not seen .* \[0, 1, 3\]"):
        check_survival_target(([0, 2], [1.0, 2.0]), event_ids=[0, 1, 3])
    # Held-out people may all be censored.
    assert check_survival_target(([0, 0], [1.0, 2.0]), event_ids=[0, 1, 3]).n_causes == 2


# -------------------------------------------------------------------------------- bad outcomes
NAN, INF = np.nan, np.inf
BAD_OUTCOMES = [
    # durations
    (([0, 1], [1.0, NAN]), ValueError, r"`duration` is nan at row 1 \(1 such rows\)"),
    (([0, 1], [INF, 1.0]), ValueError, "`duration` is inf at row 0"),
    (([0, 1, 1], [1.0, -2.5, -3.0]), ValueError, r"`duration` is -2.5 at row 1 \(2 such rows\)"),
    (([0, 1], [1.0, 1e39]), ValueError, r"`duration` reaches 1e\+39, beyond float32"),
    (([0, 1], ["a", "b"]), TypeError, r"`duration` must be numbers; got dtype <U1 .*'a'"),
    (([0, 1], pd.to_timedelta([1, 2], unit="D")), TypeError, "`duration` .* timedelta64"),
    (([0, 1], pd.Series(pd.to_datetime(["2020", "2021"]))), TypeError, "`duration` .* datetime64"),
    (([0, 1], [[1.0, 2.0], [3.0, 4.0]]), ValueError, r"`duration` must be one-d.* \(2, 2\)"),
    (([0, 1], pd.array([1, None], dtype="Int64")), ValueError, "`duration` is nan at row 1"),
    # events
    (([0, -1], [1.0, 2.0]), ValueError, "`event` is -1 at row 1"),
    (([0.5, 1], [1.0, 2.0]), ValueError, "`event` is 0.5 at row 0, not an integer"),
    (([NAN, 1], [1.0, 2.0]), ValueError, "`event` is nan at row 0"),
    (([INF, 1], [1.0, 2.0]), ValueError, "`event` is inf at row 0"),
    (([1e20, 1], [1.0, 2.0]), ValueError, r"`event` is 1e\+20 at row 0"),
    ((["dead", "alive"], [1.0, 2.0]), TypeError, "`event` must be numbers; .*'dead'"),
    (([1 + 1j, 0], [1.0, 2.0]), TypeError, "`event` .* complex128"),
    (pl.DataFrame({"event": [1, None], "time": [1.0, 2.0]}), ValueError, "`event` is nan at row 1"),
    (
        pl.DataFrame({"event": [True, None], "time": [1.0, 2.0]}),
        ValueError,
        "`event` is nan at row 1",
    ),
    (
        pd.DataFrame({"event": pd.array([True, None], dtype="boolean"), "time": [1.0, 2.0]}),
        ValueError,
        "`event` is nan at row 1",
    ),
    (([0, 0, 0], [1.0, 2.0, 3.0]), ValueError, "All 3 people are censored"),
    # the form
    (([0, 1], [1.0, 2.0, 3.0]), ValueError, "`event` has 2 values but `duration` has 3"),
    (([], []), ValueError, "`y` is empty"),
    (([0, 1], [1.0, 2.0], [3.0, 4.0]), ValueError, r"must be \(event, duration\); got 3 elements"),
    ({"event": [0, 1]}, ValueError, r"named 'duration' or 'time'; it has only: \['event'\]"),
    ({"status": [0, 1], "time": [1, 2]}, ValueError, r"named 'event'; it has only: \['status',"),
    (
        {"event": [0, 1], "time": [1, 2], "duration": [1, 2]},
        ValueError,
        r"it has several: \['time', 'duration'\]",
    ),
    (
        pd.DataFrame([[0, 1.0, 1]], columns=["event", "time", "event"]),
        ValueError,
        "the column 'event' more than once",
    ),
    (structured(("a", "b")), ValueError, r"it has only: \['a', 'b'\]"),
    ([0.0, 1.0, 2.0], ValueError, r"type list and shape \(3,\)"),
    (np.zeros((4, 3)), ValueError, r"type ndarray and shape \(4, 3\)"),
    (None, ValueError, "type NoneType"),
    ("event", ValueError, "type str"),
]


@pytest.mark.parametrize(("y", "error", "words"), BAD_OUTCOMES)
def test_bad_outcomes_are_refused_by_name(y, error, words):
    with pytest.raises(error, match=words):
        check_survival_target(y)


@given(survival=st.data())
def test_a_single_bad_duration_is_found_wherever_it_is(survival):
    duration = survival.draw(hnp.arrays(np.float64, st.integers(2, 30), elements=st.floats(0, 9)))
    row = survival.draw(st.integers(0, len(duration) - 1))
    bad = survival.draw(st.sampled_from([NAN, INF, -INF, -1e-300, -3.0]))
    duration[row] = bad
    with pytest.raises(ValueError, match=f"`duration` is {bad} at row {row} "):
        check_survival_target((np.ones(len(duration), int), duration))


def test_all_censored_is_fine_where_no_cause_is_learnt():
    target = check_survival_target(([0, 0], [1.0, 2.0]), require_event=False)
    assert_array_equal(target.event_ids, [0])
    assert isinstance(target, SurvivalTarget)


# ------------------------------------------------------------------------- accepted forms of `X`
@pytest.mark.parametrize(
    "X",
    [
        np.arange(6).reshape(3, 2),
        np.arange(6, dtype=np.float16).reshape(3, 2),
        np.asfortranarray(np.arange(6.0).reshape(3, 2)),
        np.arange(12.0).reshape(3, 4)[:, ::2] / 2 + [0, 0],
        [[0, 1], [2, 3], [4, 5]],
        pd.DataFrame({"a": [0, 2, 4], "b": [1, 3, 5]}, index=[5, 5, 5]),
        pl.DataFrame({"a": [0, 2, 4], "b": [1.0, 3.0, 5.0]}),
    ],
)
def test_numbers_in_any_form_become_one_float32_matrix(X):
    features = check_features(X)
    expected = np.asarray(X, dtype=np.float32)
    assert_array_equal(features.values, expected)
    assert features.values.dtype == np.float32
    assert features.values.flags.c_contiguous
    assert features.categories == {}
    assert features.names == (("a", "b") if hasattr(X, "columns") else None)
    assert (features.n_samples, features.n_features) == (3, 2)
    assert check_features(features) is features


MISSING = {
    "pandas float": pd.Series([1.0, None, 0.0]),
    "pandas Int64": pd.Series([1, None, 0], dtype="Int64"),
    "pandas Float32": pd.Series([1, None, 0], dtype="Float32"),
    "pandas boolean": pd.Series([True, None, False], dtype="boolean"),
    "pandas pyarrow": pd.Series([1, None, 0], dtype="int64[pyarrow]"),
    "polars Int64": pl.Series([1, None, 0]),
    "polars Float32": pl.Series([1.0, None, 0.0], dtype=pl.Float32),
    "polars Boolean": pl.Series([True, None, False]),
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_values_pass_through_as_nan(kind):
    column = MISSING[kind]
    frame = (pd if isinstance(column, pd.Series) else pl).DataFrame({"a": column})
    assert_array_equal(check_features(frame).values, [[1], [NAN], [0]])


@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
        elements=st.one_of(st.just(NAN), st.floats(-1e38, 1e38)),
    )
)
def test_arrays_and_frames_give_the_same_values(X):
    expected = X.astype(np.float32)
    names = [f"c{column}" for column in range(X.shape[1])]
    for form in (X, pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        assert_array_equal(check_features(form).values, expected)


def test_names_that_are_not_text_become_text():
    frame = pd.DataFrame(np.zeros((2, 2)), columns=[0, "b"])
    assert check_features(frame).names == ("0", "b")


# ------------------------------------------------------------------------------------ categories
def test_categories_become_codes_in_pandas():
    column = pd.Categorical(["lo", None, "hi", "lo"], categories=["hi", "lo", "never"])
    features = check_features(pd.DataFrame({"a": [1.0] * 4, "stage": column}))
    assert_array_equal(features.values[:, 1], [1, NAN, 0, 1])
    assert list(features.categories) == [1]
    assert features.categories[1].tolist() == ["hi", "lo", "never"]


@pytest.mark.parametrize(
    ("dtype", "codes", "levels"),
    [
        (pl.Categorical, [1, NAN, 0, 1], ["hi", "lo"]),
        (pl.Enum(["lo", "never", "hi"]), [0, NAN, 2, 0], ["lo", "never", "hi"]),
    ],
)
def test_categories_become_codes_in_polars(dtype, codes, levels):
    column = pl.Series("stage", ["lo", None, "hi", "lo"], dtype=dtype)
    features = check_features(pl.DataFrame({"a": [1.0] * 4, "stage": column}))
    assert_array_equal(features.values[:, 1], codes)
    assert features.categories[1].tolist() == levels


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_categories_are_matched_by_name_at_prediction(frame):
    def column(values):
        if frame is pd.DataFrame:
            return pd.Categorical(values)
        return pl.Series(values, dtype=pl.Categorical)

    schema = check_features(frame({"c": column(["a", "b", "c"])})).schema
    features = check_features(frame({"c": column(["c", "a", None])}), like=schema)
    assert_array_equal(features.values[:, 0], [2, 0, NAN])
    assert features.categories[0].tolist() == ["a", "b", "c"]


def test_unseen_categories_warn_by_name_and_become_missing():
    schema = check_features(pd.DataFrame({"c": pd.Categorical(["a", "b"])})).schema
    later = pd.DataFrame({"c": pd.Categorical(["x", "b", "y", None, "a"])})
    with pytest.warns(UserWarning, match=r"Column 'c' has the categories \['x', 'y'\] in 2 of 5"):
        features = check_features(later, like=schema)
    assert_array_equal(features.values[:, 0], [NAN, 1, NAN, NAN, 0])


def test_unseen_levels_that_no_one_has_do_not_warn():
    schema = check_features(pd.DataFrame({"c": pd.Categorical(["a", "b"])})).schema
    later = pd.DataFrame({"c": pd.Categorical(["b"], categories=["z", "b"])})
    assert_array_equal(check_features(later, like=schema).values, [[1]])


@given(
    st.lists(st.sampled_from([*"abcdef", None]), min_size=1, max_size=12), st.permutations("abcd")
)
def test_codes_do_not_depend_on_the_order_of_the_levels_at_prediction(values, order):
    schema = check_features(pd.DataFrame({"c": pd.Categorical(list("abcd"))})).schema
    known = [value if value in set("abcd") else None for value in values]
    later = pd.DataFrame({"c": pd.Categorical(known, categories=order)})
    expected = [NAN if value is None else "abcd".index(value) for value in known]
    assert_array_equal(check_features(later, like=schema).values[:, 0], expected)


# ------------------------------------------------------------------------------------ bad features
BAD_FEATURES = [
    (np.array([[1.0, INF]]), ValueError, r"`X` is inf at row 0, column 1 \(1 such values"),
    (np.array([[1.0, 1.0], [-INF, INF]]), ValueError, r"-inf at row 1, column 0 \(2 such values"),
    (np.array([[1.0], [1e39]]), ValueError, "inf at row 1, column 0 .*conversion to float32"),
    (pd.DataFrame({"a": [1.0], "dose": [1e300]}), ValueError, "row 0, column 'dose'"),
    (pl.DataFrame({"a": [1.0], "dose": [-INF]}), ValueError, "-inf at row 0, column 'dose'"),
    (
        pd.DataFrame(np.zeros((1, 3)), columns=["a", "b", "a"]),
        ValueError,
        "the column 'a' more than once",
    ),
    (pd.DataFrame({1: [0.0], "1": [0.0]}), ValueError, "the column '1' more than once"),
    (np.empty((0, 3)), ValueError, r"shape \(0, 3\) is empty"),
    (pd.DataFrame({"a": []}, dtype=float), ValueError, r"shape \(0, 1\) is empty"),
    (np.empty((3, 0)), ValueError, r"no columns: 0 feature\(s\) \(shape=\(3, 0\)\)"),
    (pd.DataFrame(index=range(3)), ValueError, r"no columns: 0 feature\(s\) \(shape=\(3, 0\)\)"),
    (np.array([["a", 1]], dtype=object), TypeError, "dtype object .*'a'"),
    ([["low", "high"]], TypeError, "dtype <U4 .*'low'"),
    (np.array([["2020"]], dtype="M8[Y]"), TypeError, "dtype datetime64"),
    (np.array([[{"k": 1}]], dtype=object), TypeError, "objects that are not all numbers: .*dict"),
    (np.array([[1j, 2.0]], dtype=object), ValueError, "Complex data not supported"),
    (np.array([[1j]]), ValueError, "Complex data not supported"),
    (pd.DataFrame({"o": [{"k": 1}]}), TypeError, "Column 'o' has dtype object .*'k'"),
    (pd.DataFrame({"when": pd.to_datetime(["2020"])}), TypeError, "Column 'when' .*datetime64"),
    (pd.DataFrame({"wait": pd.to_timedelta([1])}), TypeError, "Column 'wait' .*timedelta64"),
    (pd.DataFrame({"z": [1j]}), ValueError, "Column 'z': Complex data"),
    (
        pd.DataFrame({"who": [f"person {row}" for row in range(30)]}),
        TypeError,
        "Column 'who' has 30 different texts for 30 people, such as 'person 0'",
    ),
    (
        pl.DataFrame({"when": [0]}, schema={"when": pl.Date}),
        TypeError,
        "Column 'when' has dtype datetime64",
    ),
    (np.zeros(3), ValueError, r"got shape \(3,\). Reshape your data by `X.reshape\(-1, 1\)`"),
    (pd.Series([1.0, 2.0]), ValueError, r"got shape \(2,\)"),
    (np.zeros((2, 2, 2)), ValueError, r"got shape \(2, 2, 2\)"),
    (None, ValueError, r"got shape \(\)"),
]


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_features_are_their_dense_selves(kind):
    assert_array_equal(check_features(kind(np.eye(2))).values, np.eye(2))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_text_is_a_category(frame):
    features = check_features(frame({"a": [1, 2, 3], "city": ["Oslo", None, "Bergen"]}))
    assert list(features.categories[1]) == ["Bergen", "Oslo"]
    assert_array_equal(features.values[:, 1], [1, np.nan, 0])


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.to_datetime(["2020-01-01", None])),
        pd.Series(pd.to_datetime(["2020-01-01", None]).tz_localize("Europe/Oslo")),
        pd.Series([date(2020, 1, 1), None], dtype=object),
        pd.Series(pd.to_timedelta([1, None], "h")),
        pd.Series([1.5, "low"], dtype=object),
    ],
)
def test_advice_about_a_column_works_as_typed(column):
    X = pd.DataFrame({"c": column})
    with pytest.raises(TypeError, match="Column 'c' has dtype") as refused:
        check_features(X)
    advice = re.search("`(.+)`", str(refused.value))[1]
    X["c"] = eval(advice, {"X": X, "pd": pd})
    features = check_features(X)
    assert np.isnan(features.values).sum() == column.isna().sum()


@pytest.mark.parametrize(
    "values", [pd.cut(pd.Series([1.0, 2.0, None]), 2), pd.Series(pd.to_datetime(["2020", None]))]
)
def test_levels_that_no_file_can_hold_are_refused_before_training(values):
    X = pd.DataFrame({"c": values.astype("category")})
    with pytest.raises(
        TypeError, match=r"Column .c. has the category .*; categories must be"
    ) as no:
        check_features(X)
    X["c"] = eval(re.search("`(.+)`", str(no.value))[1], {"X": X})
    assert_array_equal(np.isnan(check_features(X).values[:, 0]), values.isna())


def test_a_column_without_any_value_has_no_type():
    with pytest.raises(TypeError, match=r"'c' has dtype object and no values.*astype\(float\)"):
        check_features(pd.DataFrame({"c": [None, None]}))


@pytest.mark.parametrize(("X", "error", "words"), BAD_FEATURES)
def test_bad_features_are_refused_by_name(X, error, words):
    with pytest.raises(error, match=words):
        check_features(X)


@given(st.data())
def test_a_single_infinity_is_found_wherever_it_is(data):
    X = data.draw(
        hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.floats(-9, 9))
    )
    row = data.draw(st.integers(0, X.shape[0] - 1))
    column = data.draw(st.integers(0, X.shape[1] - 1))
    X[row, column] = data.draw(st.sampled_from([INF, -INF, 1e39, -1e300]))
    with pytest.raises(ValueError, match=f"inf at row {row}, column {column} "):
        check_features(X)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    with pytest.raises(ValueError, match=f"inf at row {row}, column 'c{column}' "):
        check_features(frame)


# --------------------------------------------------------------------------- columns at prediction
def test_numbers_stored_as_objects_are_numbers():
    values = check_features(np.array([[1, 2.5], [True, None]], dtype=object)).values
    assert_array_equal(values, np.array([[1, 2.5], [1, np.nan]], np.float32))


class TestColumnsOfTraining:
    TRAIN = pd.DataFrame({"age": [1.0, 2.0], "stage": pd.Categorical(["i", "ii"]), "dose": [0, 1]})

    @pytest.fixture
    def schema(self):
        schema = check_features(self.TRAIN).schema
        assert schema.values.shape == (0, 3)  # No one's data is kept.
        return schema

    def test_the_same_columns_are_accepted(self, schema):
        assert_array_equal(
            check_features(self.TRAIN, like=schema).values, check_features(self.TRAIN).values
        )

    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            (["dose", "stage", "age"], r"another order. Use `X\[\['age', 'stage', 'dose'\]\]`"),
            (["age", "stage"], r"`X` lacks the columns \['dose'\]. Use"),
            (["age", "stage", "dose", "sex"], r"`X` has the unknown columns \['sex'\]. Use"),
            (["age", "stage", "sex"], r"lacks the columns \['dose'\] and .* columns \['sex'\]"),
        ],
    )
    def test_other_columns_are_refused(self, schema, columns, words):
        frame = self.TRAIN.assign(sex=0)[columns]
        with pytest.raises(ValueError, match=words):
            check_features(frame, like=schema)

    def test_a_category_stays_a_category_and_a_number_a_number(self, schema):
        number = self.TRAIN.assign(stage=1.0)
        with pytest.raises(ValueError, match="Column 'stage' was a category in training"):
            check_features(number, like=schema)
        category = self.TRAIN.assign(age=pd.Categorical(["1", "2"]))
        with pytest.raises(ValueError, match="Column 'age' was a number in training"):
            check_features(category, like=schema)

    @pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT])
    @pytest.mark.parametrize("column", ["age", "stage", "dose"])
    def test_one_row_may_lack_any_value(self, schema, column, missing):
        row = {"age": 2.0, "stage": "ii", "dose": 1} | {column: missing}
        expected = [[NAN if name == column else value for name, value in self.ROW.items()]]
        for frame in (pd.DataFrame([row]), pd.DataFrame([row], dtype=object)):
            assert_array_equal(check_features(frame, like=schema).values, expected)

    ROW: ClassVar = {"age": 2.0, "stage": 1.0, "dose": 1.0}

    def test_a_row_of_polars_may_lack_all_values(self, schema):
        row = pl.DataFrame({"age": [None], "stage": [None], "dose": [None]})
        assert np.isnan(check_features(row, like=schema).values).all()

    def test_numbers_arrive_as_objects(self, schema):
        ages = [2, Decimal("2.5"), np.float32(3), True, None, pd.NA]
        frame = pd.DataFrame({"age": pd.Series(ages, dtype=object), "stage": "i", "dose": 0})
        values = check_features(frame, like=schema).values
        assert_array_equal(values[:, 0], np.array([2, 2.5, 3, 1, NAN, NAN], np.float32))
        assert_array_equal(check_features(frame).values[:, 0], values[:, 0])  # In training, too.

    @pytest.mark.parametrize("value", ["1", "n/a", pd.Timestamp("2020"), {"k": 1}, [1.0]])
    def test_anything_else_in_a_number_is_named(self, schema, value):
        frame = self.TRAIN.assign(age=pd.Series([1.0, value], dtype=object))
        words = re.escape(f"Column 'age' was a number in training, and has {value!r} in row 1")
        with pytest.raises(ValueError, match=words):
            check_features(frame, like=schema)

    @pytest.mark.parametrize("value", [1, 2.5, {"k": 1}])
    def test_a_number_among_levels_of_text_is_named(self, schema, value):
        frame = self.TRAIN.assign(stage=pd.Series(["i", value], dtype=object))
        words = f"'stage' was a category in training, with levels such as 'i', and has {value!r}"
        with pytest.raises(ValueError, match=re.escape(words)):
            check_features(frame, like=schema)

    @pytest.mark.parametrize("values", [[2, 1], [2.0, 1.0], [2, None], [2.0, NAN]])
    @pytest.mark.parametrize("dtype", [object, None])
    def test_levels_that_are_numbers_are_found(self, values, dtype):
        schema = check_features(pd.DataFrame({"c": pd.Categorical([1, 2])})).schema
        found = check_features(pd.DataFrame({"c": values}, dtype=dtype), like=schema).values
        assert_array_equal(found[:, 0], [1, 0 if values[1] == 1 else NAN])

    def test_many_unknown_levels_are_counted(self, schema):
        frame = pd.DataFrame({"age": 1.0, "stage": [f"s{row}" for row in range(50)], "dose": 1})
        with pytest.warns(UserWarning, match=r"'s12'\] and 45 more in 50 of 50 rows"):
            assert np.isnan(check_features(frame, like=schema).values[:, 1]).all()

    def test_an_array_is_taken_as_the_columns_of_training(self):
        schema = check_features(pd.DataFrame({"age": [1.0], "dose": [2.0]})).schema
        assert check_features(np.array([[5.0, 0.0]]), like=schema).names == ("age", "dose")
        with pytest.raises(ValueError, match=r"3 features, but .* expecting 2 features"):
            check_features(np.zeros((1, 3)), like=schema)

    def test_an_array_cannot_stand_for_categories(self, schema):
        with pytest.raises(TypeError, match="categorical columns 'stage'"):
            check_features(np.array([[5.0, 1.0, 0.0]]), like=schema)

    def test_a_frame_is_accepted_after_training_on_an_array(self):
        schema = check_features(np.zeros((2, 2))).schema
        frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
        assert_array_equal(check_features(frame, like=schema).values, [[1, 2]])
        category = frame.assign(b=pd.Categorical(["x"]))
        with pytest.raises(ValueError, match="Column 'b' was a number"):
            check_features(category, like=schema)

    def test_polars_is_accepted_after_pandas(self, schema):
        frame = pl.DataFrame(
            {
                "age": [3.0],
                "stage": pl.Series(["ii"], dtype=pl.Categorical),
                "dose": [7],
            }
        )
        assert_array_equal(check_features(frame, like=schema).values, [[3, 1, 7]])


# ------------------------------------------------------------------------------------ small things
@pytest.mark.parametrize(
    "X",
    [
        np.arange(6.0).reshape(3, 2),
        [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]],
        pd.DataFrame({"a": [0.0, 2.0, 4.0], "b": [1.0, 3.0, 5.0]}, index=list("xyz")),
        pl.DataFrame({"a": [0.0, 2.0, 4.0], "b": [1.0, 3.0, 5.0]}),
    ],
)
def test_rows_are_taken_in_the_users_own_type(X):
    taken = take_rows(X, np.array([2, 0, 2]))
    assert type(taken) is (np.ndarray if isinstance(X, list) else type(X))
    assert_array_equal(np.asarray(taken), [[4, 5], [0, 1], [4, 5]])


def test_sample_weight():
    assert check_sample_weight(None, 3) is None
    assert_array_equal(check_sample_weight(pd.Series([1, 0, 2]), 3), [1.0, 0.0, 2.0])
    for bad, words in (
        ([1, 1], "2 values for 3 people"),
        ([1, NAN, 1], "is nan at row 1"),
        ([1, 1, -0.5], r"is -0\.5 at row 2"),
        ([INF, 1, 1], "is inf at row 0"),
        ([0, 0, 0], "All 3 values of `sample_weight` are zero"),
    ):
        with pytest.raises(ValueError, match=words):
            check_sample_weight(bad, 3)
    with pytest.raises(TypeError, match="`sample_weight` must be numbers"):
        check_sample_weight(list("abc"), 3)


def test_times():
    assert_array_equal(check_times(2), [2.0])
    assert_array_equal(check_times(pd.Series([3, 1])), [3.0, 1.0])
    for bad, words in (
        ([], "`times` is empty"),
        ([1.0, -1.0], r"-1\.0 at position 1"),
        ([NAN], "nan at position 0"),
        ([0, INF], "inf at position 1"),
        ([[1.0, 2.0]], r"one-dimensional; got shape \(1, 2\)"),
    ):
        with pytest.raises(ValueError, match=words):
            check_times(bad)


def test_random_state():
    def first(seed):
        return check_random_state(seed).random()

    assert first(3) == first(3) == first(np.int64(3)) != first(4)
    assert first(np.random.RandomState(3)) == first(np.random.RandomState(3))
    assert first(np.random.SeedSequence(3)) == first(3)
    assert first(None) != first(None)
    generator = np.random.default_rng(0)
    assert check_random_state(generator) is generator
    with pytest.raises(ValueError, match="`random_state` is -1"):
        check_random_state(-1)
    for bad in ("seed", 1.5):
        with pytest.raises(TypeError, match=f"`random_state` is {bad!r}"):
            check_random_state(bad)


def test_integers_fractions_and_choices():
    assert check_positive_int(np.int8(3), "n") == 3
    for bad, error in ((0, ValueError), (-2, ValueError), (True, TypeError), (2.0, TypeError)):
        with pytest.raises(error, match=f"`n` must be an integer >= 1; got {bad}"):
            check_positive_int(bad, "n")

    assert check_fraction(0, "f") == 0.0
    assert check_fraction(np.float32(0.5), "f") == 0.5
    for bad, options, interval in (
        (1.5, {}, r"\[0, 1\]"),
        (NAN, {}, r"\[0, 1\]"),
        (0.0, {"zero": False}, r"\(0, 1\]"),
        (1, {"one": False}, r"\[0, 1\)"),
    ):
        with pytest.raises(ValueError, match=f"`f` must be in {interval}; got {bad}"):
            check_fraction(bad, "f", **options)
    for bad in (True, "0.5", None):
        with pytest.raises(TypeError, match=f"got {bad!r}"):
            check_fraction(bad, "f")

    assert check_choice("a", "c", ("a", "b")) == "a"
    with pytest.raises(ValueError, match="`c` is 'x'; choose from 'a', 'b'"):
        check_choice("x", "c", ("a", "b"))


def test_many_labels_are_taken_for_durations():
    with pytest.raises(ValueError, match=r"60 different causes.*swap the two"):
        check_survival_target((np.arange(1, 61), np.ones(60)))


# --------------------------------------------------------------------------------- late entry
ENTRY = [0.0, 0.5, 0.0, 3.5]
WITH_ENTRY = {
    "pandas": pd.DataFrame({"event": EVENT, "duration": DURATION, "entry": ENTRY}),
    "polars": pl.DataFrame({"Entry": ENTRY, "event": EVENT, "time": DURATION}),
    "dict": {"event": EVENT, "entry": ENTRY, "duration": DURATION},
    "structured": np.array(
        list(zip(EVENT, ENTRY, DURATION, strict=True)),
        dtype=[("event", "i4"), ("entry", "f8"), ("time", "f8")],
    ),
}
WITH_ENTRY["checked already"] = check_survival_target(WITH_ENTRY["dict"], late_entry=True)


@pytest.mark.parametrize("form", WITH_ENTRY)
def test_entry_is_read_from_forms_with_names(form):
    target = check_survival_target(WITH_ENTRY[form], late_entry=True)
    assert_array_equal(target.event, EVENT)
    assert_array_equal(target.duration, DURATION)
    assert_array_equal(target.entry, ENTRY)
    assert target.entry.dtype == np.float64
    assert_array_equal(target.take([3, 1]).entry, [3.5, 0.5])
    frame = outcomes_frame(WITH_ENTRY[form])
    assert frame.columns.tolist() == ["event", "duration", "entry"]
    assert_array_equal(frame["entry"], ENTRY)


def test_entry_of_0_for_all_is_none():
    for entry in ({}, {"entry": np.zeros(4)}):
        target = check_survival_target({"event": EVENT, "duration": DURATION, **entry})
        assert target.entry is None
        assert target.take([0]).entry is None
        assert "entry" not in outcomes_frame(target)


@pytest.mark.parametrize("form", WITH_ENTRY)
def test_entry_is_refused_where_it_would_be_ignored(form):
    found = r"later than 0 for 2 of 4 people \(first at rows \[1, 3\]\).*HazardBoost or HazardObj"
    with pytest.raises(ValueError, match=found):
        check_survival_target(WITH_ENTRY[form])
    with pytest.raises(ValueError, match="Ask elsewhere; or drop `entry`"):
        check_survival_target(WITH_ENTRY[form], instead="Ask elsewhere")


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ([0, np.nan, 0, np.inf], r"`entry` is nan at row 1 \(2 such rows\)"),
        ([0, 0, 0, -1], r"`entry` is -1.0 at row 3 .* counted from 0"),
        ([2, 2, 0, 1], r"`entry` is 2.0 and `duration` 1.5 at row 0 \(2 such rows.*\[0, 1\]\)"),
        ([0, 1], "`entry` has 2 values but `duration` has 4"),
        (list("abcd"), "`entry` must be numbers"),
        (pd.Series(np.zeros(4), index=[3, 2, 1, 0]), "entry"),
    ],
)
def test_bad_entries_are_named(entry, found):
    y = {"event": pd.Series(EVENT), "duration": pd.Series(DURATION), "entry": entry}
    with pytest.raises((ValueError, TypeError), match=found):
        check_survival_target(y, late_entry=True)


@pytest.mark.parametrize("name", ["start", "truncation"])
def test_other_names_of_entry_are_not_ignored(name):
    y = pd.DataFrame({"event": [0, 1], "duration": [1.0, 2.0], name: [0.0, 0.5]})
    with pytest.raises(ValueError, match=rf"field '{name}'.*left truncation.*name it 'entry'"):
        check_survival_target(y, late_entry=True)


def test_text_events_keep_their_entries():
    words = ["censored", "died", "left", "died"]
    y = pd.DataFrame({"event": words, "duration": DURATION, "entry": ENTRY})
    coded, labels = named_outcomes(y)
    assert labels.names == ("event-free", "died", "left")
    assert_array_equal(check_survival_target(coded, late_entry=True).entry, ENTRY)


def test_horizons_refuse_late_entry_with_the_names_of_what_takes_it():
    y = WITH_ENTRY["pandas"]
    for refusing in (SurvivalBoost().fit, IPCWObjective):
        with pytest.raises(ValueError, match="Use HazardBoost or HazardObjective"):
            refusing(np.arange(4.0)[:, None], y)

"""Tables of other libraries give the model that pandas gives."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from survival_objectives import HazardBoost
from survival_objectives._people.values import plain_series
from survival_objectives.assessment import assess
from survival_objectives.metrics import brier_score

N = 120
RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "a": np.where(np.arange(N) == 3, np.nan, RNG.normal(size=N)),
        "n": RNG.integers(0, 9, N),
        "yes": RNG.random(N) < 0.5,
        "ward": RNG.choice(["u", "v", "w"], N),
    }
)
RISK = X["a"].fillna(0.0) + X["yes"] + (X["ward"] == "v")
Y = pd.DataFrame({"event": RNG.integers(0, 2, N), "duration": RNG.exponential(3 * np.exp(-RISK))})
TEXT = Y.assign(event=np.where(Y["event"] == 1, "died", "alive"))


def new_model():
    return HazardBoost(n_estimators=3, n_folds=2, n_repeats=1, random_state=0)


def curves(people, outcomes):
    return new_model().fit(people, outcomes).predict_survival_function(people, [1.0, 2.0])


@pytest.fixture(scope="module")
def expected():
    found = curves(X, Y)
    assert np.ptp(found[:, 0]) > 0.1
    return found


def arrow_pandas(frame):
    return frame.convert_dtypes(dtype_backend="pyarrow")


def arrow_table(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


def arrow_batch(frame):
    return pytest.importorskip("pyarrow").RecordBatch.from_pandas(frame)


def polars_frame(frame):
    return pytest.importorskip("polars").from_dict(
        {name: list(frame[name].replace({np.nan: None})) for name in frame}
    )


def nullable(frame):
    return frame.convert_dtypes()


CONVERSIONS = [arrow_pandas, arrow_table, arrow_batch, polars_frame, nullable]


@pytest.mark.parametrize("converted", CONVERSIONS)
@pytest.mark.parametrize("outcomes", [Y, TEXT], ids=["numbers", "text"])
def test_equal_models(converted, outcomes, expected):
    assert_array_equal(curves(converted(X), converted(outcomes)), expected)


@pytest.mark.parametrize("converted", CONVERSIONS)
def test_outcomes_as_columns_of_the_table(converted, expected):
    table = converted(X.assign(**Y))
    model = new_model().fit(table, duration="duration", event="event")
    assert_array_equal(model.predict_survival_function(converted(X), [1.0, 2.0]), expected)
    score = model.score(converted(X), converted(Y))
    assert score == model.score(X, Y)


@pytest.mark.parametrize("converted", CONVERSIONS)
def test_missing_values(converted):
    people = X.convert_dtypes()
    people.loc[5, "n"] = people.loc[6, "yes"] = people.loc[7, "ward"] = pd.NA
    plain = people.astype(object).where(people.notna(), None)
    if converted is polars_frame:
        people = plain
    found = curves(converted(people), Y)
    assert_array_equal(found, curves(people.astype({"ward": object}), Y))


def test_levels_of_dictionaries(expected):
    pa = pytest.importorskip("pyarrow")
    dictionary = pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))
    categories = X.astype({"ward": "category"})
    assert_array_equal(curves(categories.astype({"ward": dictionary}), Y), expected)
    assert_array_equal(curves(pa.Table.from_pandas(categories), Y), expected)
    # Levels without people stay levels.
    levels = pa.chunked_array([pa.DictionaryArray.from_arrays([0, 1], ["a", "b", "c"])])
    assert plain_series(levels).cat.categories.tolist() == ["a", "b", "c"]


def test_a_query_is_collected_with_a_word(expected):
    query = polars_frame(X).lazy()
    with pytest.warns(UserWarning, match=r"`X` is a polars LazyFrame.*`X\.collect\(\)`"):
        model = new_model().fit(query, Y)
    with pytest.warns(UserWarning, match="`X` is a polars LazyFrame"):
        found = model.predict_survival_function(query, [1.0, 2.0])
    assert_array_equal(found, expected)
    with (
        pytest.warns(UserWarning, match="`y` is a polars LazyFrame"),
        pytest.warns(UserWarning, match="`X` is a polars LazyFrame"),
    ):
        new_model().fit(query, polars_frame(Y).lazy())


def test_dask_is_named_with_its_own_functions():
    frames = pytest.importorskip("dask.dataframe")
    people, outcomes = (frames.from_pandas(part, npartitions=2) for part in (X, Y))
    model = new_model().fit(X, Y)
    for call, name in [
        (lambda: new_model().fit(people, outcomes), "X"),
        (lambda: new_model().fit(X, outcomes), "y"),
        (lambda: new_model().fit(people, duration="duration", event="event"), "X"),
        (lambda: model.predict(people), "X"),
    ]:
        with pytest.raises(TypeError, match=rf"`{name}` is a Dask collection. Use `fit_dask`"):
            call()


def test_scores_and_assessments_of_tables():
    model = new_model()
    of_pandas, of_arrow = (
        assess(model, people, outcomes, n_splits=2, random_state=0, baselines=False)
        for people, outcomes in [(X, Y), (arrow_table(X), arrow_table(Y))]
    )
    assert_array_equal(of_pandas.curves["HazardBoost"], of_arrow.curves["HazardBoost"])
    half = np.full((N, 1), 0.5)
    losses = [brier_score(y, y, half, 1.0) for y in (Y, arrow_table(Y), polars_frame(Y))]
    assert losses[0] == losses[1] == losses[2]


@pytest.mark.parametrize("converted", [arrow_table, polars_frame, arrow_pandas])
def test_messages_print_names_and_no_values(converted):
    """The names of the fields, never a column of people's values."""
    with pytest.raises(ValueError, match="`y` needs exactly one field named 'event'") as found:
        new_model().fit(X, converted(Y.rename(columns={"event": "status"})))
    assert re.search(r"it has only: \['status', 'duration'\]", str(found.value))
    assert len(str(found.value)) < 120

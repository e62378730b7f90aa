"""Interpretation of columns and event labels, and why columns are not used."""

import numpy as np
import pandas as pd
import pytest

from survival_objectives.cli._columns import (
    MAX_LEVELS,
    features,
    understand_columns,
)
from survival_objectives.cli._errors import CommandError, UsageError
from survival_objectives.cli._outcomes import FollowUp, understand_events
from survival_objectives.cli._tables import Table


def table_of(columns):
    texts = {name: [str(cell) for cell in cells] for name, cells in columns.items()}
    frame = pd.DataFrame(texts, dtype=object)
    return Table("file.csv", frame, np.arange(2, 2 + len(frame)))


def understand(cells, name="x", **options):
    table = table_of({name: cells, "other": np.arange(len(cells)) * 2 % 7})
    return understand_columns(table, (), **options)


# --------------------------------------------------------------------------------------- columns
@pytest.mark.parametrize(
    ("cells", "kind", "levels"),
    [
        (["1.5", "2", "", "NA"], "number", ()),
        ([1, 2, 4, 2, 3, 1], "number", ()),
        (["True", "FALSE", "true", ""], "boolean", ()),
        (["yes", "no", "yes", ""], "category", ("no", "yes")),
        (["b", "a", "b", "c"], "category", ("a", "b", "c")),
        # A single level tells those who have it from those who do not.
        (["yes", "", "yes", ""], "category", ("yes",)),
        (["007", "012", "007", "9"], "category", ("007", "9", "012")),
        (["I", "II", "III", "IV"], "category", ("I", "II", "III", "IV")),
    ],
)
def test_columns_that_are_used(cells, kind, levels):
    column = understand(cells).used[0]
    assert (column.kind, column.levels) == (kind, levels)


@pytest.mark.parametrize(
    ("cells", "name", "reason"),
    [
        (["", "NA", "."], "x", "all values are missing"),
        ([5, 5, 5], "x", "always 5"),
        (["a", "a", "a"], "x", "always 'a'"),
        ([1, 2, 3, 4], "x", "row numbers"),
        ([17, 5, 9, 30], "Patient ID", "an id; --numeric keeps it"),
        (["2020-01-31", "2021-02-03", ""], "x", "dates; --date keeps it as days since 1970"),
        (
            ["31.1.2020", "3.2.2021 10:15", "4.5.20"],
            "x",
            "dates; --date keeps it as days since 1970",
        ),
        (["03-Feb-2021", "4 May 2020"], "x", "dates; --date keeps it as days since 1970"),
        ([f"note {i}" for i in range(30)], "x", "names or free text, 30 different"),
        ([f"town {i % 101}" for i in range(2000)], "x", f"101 levels, more than {MAX_LEVELS}"),
    ],
)
def test_columns_that_are_dropped_and_why(cells, name, reason):
    selection = understand(cells, name)
    assert selection.dropped[name].startswith(reason)
    assert [column.name for column in selection.used] == ["other"]


def test_a_repeated_id_column_is_a_number():
    assert understand([1, 2, 1, 2, 1, 1, 2, 1], "hospital_id").used[0].kind == "number"


def test_the_command_line_decides_over_the_guess():
    towns = [f"town {i}" for i in range(150)]
    assert len(understand(towns, categorical=["x"]).used[0].levels) == 150
    assert understand([17, 5, 9, 30], "id", numeric=["id"]).used[0].kind == "number"
    assert understand([1, 3, 2, 1], categorical=["x"]).used[0].levels == ("1", "2", "3")
    assert understand([1, 3, 2, 1], drop=["x"]).dropped == {"x": "--drop"}


def test_contradicting_decisions_are_refused():
    with pytest.raises(UsageError, match="both --categorical and --numeric"):
        understand([1, 2], categorical=["x"], numeric=["x"])


def test_mistakes_in_a_number_column_are_named_rather_than_made_a_category():
    table = table_of({"x": [*range(3, 12), "abc", 20]})
    (column,) = understand_columns(table, ()).used
    assert column.kind == "number"
    with pytest.raises(CommandError, match="'x' holds numbers, but not line 11 'abc'"):
        features(table, [column])


def test_features_hold_numbers_booleans_and_known_levels():
    table = table_of({"n": ["1.5", "", "2"], "b": ["True", "false", ""], "c": ["u", "v", "w"]})
    columns = understand_columns(table, ()).used
    other = table_of({"c": ["w", "z", "u"], "b": ["1", "", "FALSE"], "n": ["3", "4", "NA"]})
    X, unseen = features(other, columns)
    assert unseen == {"c": ["z"]}
    np.testing.assert_array_equal(X["n"], [3, 4, np.nan])
    np.testing.assert_array_equal(X["b"], [1, np.nan, 0])
    assert X["c"].cat.categories.tolist() == ["u", "v", "w"]
    assert X["c"].tolist()[::2] == ["w", "u"]
    assert X["c"].isna().tolist() == [False, True, False]


# ---------------------------------------------------------------------------------------- events
@pytest.mark.parametrize(
    ("labels", "codes", "names"),
    [
        ("0 1 1", {"0": 0, "1": 1}, {0: "censored", 1: "event"}),
        ("0.0 1.0 2.0", {"0": 0, "1": 1, "2": 2}, {0: "censored", 1: "cause 1", 2: "cause 2"}),
        ("0 3 10", {"0": 0, "3": 3, "10": 10}, {0: "censored", 3: "cause 3", 10: "cause 10"}),
        ("True FALSE True", {"false": 0, "true": 1}, {0: "censored", 1: "event"}),
        ("yes no yes", {"no": 0, "yes": 1}, {0: "censored", 1: "event"}),
        ("Dead Alive Dead", {"Alive": 0, "Dead": 1}, {0: "censored", 1: "Dead"}),
        (
            "0:LIVING 1:DECEASED 1:DECEASED",
            {"0:LIVING": 0, "1:DECEASED": 1},
            {0: "censored", 1: "DECEASED"},
        ),
        ("cens b a", {"cens": 0, "a": 1, "b": 2}, {0: "censored", 1: "a", 2: "b"}),
        ("1 1 1", {"1": 1}, {0: "censored", 1: "event"}),
        (
            "alive unknown-cause removed",
            {"alive": 0, "removed": 1, "unknown-cause": 2},
            {0: "censored", 1: "removed", 2: "unknown-cause"},
        ),
    ],
)
def test_labels_with_an_obvious_meaning(labels, codes, names):
    events = understand_events(table_of({"status": labels.split()}), "status")
    assert events.codes == codes
    assert events.names == names


@pytest.mark.parametrize(
    ("labels", "fragment"),
    [
        ("1 2 2", "which value of the event column 'status' means censored? It has '1' (1 row)"),
        ("stay death out", "which value of the event column"),
        ("alive censored dead", "which values of the event column 'status' mean censored?"),
        ("-1 0 1", "which value of the event column"),
        (
            "lost_to_follow-up end_of_study dead",
            "These look like it: 'end of study' (1 row), 'lost to follow-up' (1 row). If all do, "
            "use: --censored-label 'end of study' --censored-label 'lost to follow-up'; leave",
        ),
        ("alive withdrawn dead", "--censored-label alive --censored-label withdrawn"),
        ("no_event emigrated death", "--censored-label emigrated --censored-label 'no event'"),
        ("0:alive 1:dead 2:dropped_out", "--censored-label 0:alive --censored-label '2:dropped"),
        ("end_of_study dead", "which value of the event column"),
        ("0.5 1.5 2", "are --event and --duration swapped?"),
        ("0 0 0", "there are no events"),
        ("0 NA 1", "the event 'status' is missing on line 3;"),
    ],
)
def test_labels_that_are_asked_about(labels, fragment):
    with pytest.raises(CommandError) as refused:
        understand_events(
            table_of({"status": [label.replace("_", " ") for label in labels.split()]}), "status"
        )
    assert fragment in str(refused.value)


def test_a_named_censored_label_turns_the_others_into_causes():
    table = table_of({"status": ["1", "2", "2"], "time": [1, 2, 3]})
    events = understand_events(table, "status", censored=["1"])
    assert events.codes == {"1": 0, "2": 2}
    y = FollowUp("status", duration="time").outcomes(table, events)
    assert y["event"].tolist() == [0, 2, 2]

    # An event marked 0 cannot keep its number.
    assert understand_events(table_of({"s": ["0", "1", "0"]}), "s", censored=["1"]).codes == {
        "1": 0,
        "0": 1,
    }
    table = table_of({"status": ["alive", "lost", "dead"]})
    events = understand_events(table, "status", censored=["alive", "lost"])
    assert events.codes == {"alive": 0, "lost": 0, "dead": 1}
    assert events.labels(0) == ["alive", "lost"]


def test_no_one_censored_makes_every_label_a_cause():
    events = understand_events(table_of({"s": ["1", "2", "2"]}), "s", nobody_censored=True)
    assert events.names == {0: "censored", 1: "cause 1", 2: "cause 2"}


@pytest.mark.parametrize(
    ("times", "fragment"),
    [
        (["1", "-2"], "the duration 'time' is below 0 on line 3 '-2'; durations count from 0"),
        (["", "2"], "the duration 'time' is missing on line 2;"),
        (["1", "2 days"], "the duration 'time' is not a number on line 3 '2 days'"),
        (["1", "inf"], "the duration 'time' is not a number on line 3 'inf'"),
    ],
)
def test_durations_that_are_refused(times, fragment):
    table = table_of({"time": times, "status": ["0", "1"]})
    events = understand_events(table, "status")
    with pytest.raises(CommandError) as refused:
        FollowUp("status", duration="time").outcomes(table, events)
    assert fragment in str(refused.value)

"""Event columns whose values may mean the opposite, or nothing, are asked about."""

import numpy as np
import pytest

FIT = ["--duration", "time", "--rounds", "2", "--test-size", "0.3", "--no-report", "--quiet"]


@pytest.mark.parametrize(
    ("column", "labels", "fragment"),
    [
        ("censored", (0, 1), "--censored-label 0 or --censored-label 1"),
        ("alive", ("No", "Yes"), "--censored-label No or --censored-label Yes"),
        ("is_active", (0, 1), "--censored-label 0 or --censored-label 1"),
        ("outcome", (0, 1, 8, 9), "--event-names 9=NAME"),
        ("outcome", (0, 1, 9), "--event-names 9=NAME"),
        ("outcome", ("alive", "dead", "unknown"), "mean that the outcome is unknown?"),
    ],
)
def test_ambiguous_events_are_refused_with_the_way_out(
    run, people, tmp_path, column, labels, fragment
):
    values = np.array(labels)[np.arange(len(people)) % len(labels)]
    file = tmp_path / "people.csv"
    people.drop(columns="status").assign(**{column: values}).to_csv(file, index=False)
    result = run("fit", file, "--event", column, "--out", tmp_path / "model", *FIT)
    assert result.code == 1
    assert fragment in result.err
    assert not (tmp_path / "model").exists()


def test_a_named_code_is_a_cause(run, people, tmp_path):
    file = tmp_path / "people.csv"
    people.assign(status=np.array([0, 1, 9])[np.arange(len(people)) % 3]).to_csv(file, index=False)
    names = ["--event-names", "9=other"]
    result = run("fit", file, "--event", "status", "--out", tmp_path / "model", *names, *FIT)
    assert result.code == 0, result.err
    assert "other" in result.out

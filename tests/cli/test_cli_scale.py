"""Plans of assessments, interruptions, files larger than memory, and progress."""

import argparse
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest

from survival_objectives import SurvivalBoost
from survival_objectives._process.progress import progress_to, report_progress
from survival_objectives.cli import _apply, _console, _disk, _training
from survival_objectives.cli._console import Console
from survival_objectives.cli._plan import Cost, Plan, n_cores, planned

OUTCOME = ["--duration", "time", "--event", "status"]
QUICK = [*OUTCOME, "--rounds", "3", "--threads", "1"]


def asked(**options):
    return argparse.Namespace(**{"cv": None, "test_size": None, **options})


# ----------------------------------------------------------------------------------------- plans
@pytest.mark.parametrize(
    ("n_people", "n_columns", "options", "expected"),
    [
        (300, 10, {}, Plan(300)),
        (20_000, 13, {}, Plan(20_000)),
        (20_000, 300, {}, Plan(20_000, None, 0.2)),
        (100_000, 13, {}, Plan(100_000, None, 0.2)),
        (300_000, 13, {}, Plan(300_000, None, 1 / 6)),
        (1_000_000, 13, {}, Plan(1_000_000, None, 0.05, 500_000)),
        (1_000_000, 13, {"cv": 3}, Plan(1_000_000, 3)),
        (300, 13, {"test_size": 0.3}, Plan(300, None, 0.3)),
    ],
)
def test_plans_suit_the_table_unless_told_otherwise(n_people, n_columns, options, expected):
    assert planned(asked(**options), n_people, n_columns) == expected


def test_a_budget_buys_folds_then_people():
    plan = planned(asked(), 300_000, 13)
    cost = Cost(clock=60, cpu=100)
    plans = [plan.within(minutes, cost, n_cores=2) for minutes in (60, 3, 1.5, 0.5, 0.01)]
    assert [found.n_splits for found in plans] == [5, 3, None, None, None]
    assert plans[2].n_trained > plans[3].n_trained > plans[4].n_trained
    for minutes, found in zip((60, 3, 1.5, 0.5), plans, strict=False):
        assert found.seconds(cost, found.n_jobs(cost, 2)) <= 60 * minutes * 1.001
    assert plans[-1].max_train == 10_000


def test_folds_go_to_processes_only_where_that_pays():
    plan = Plan(20_000)
    assert plan.n_jobs(Cost(5, 5), n_cores=4) == 4
    assert plan.n_jobs(Cost(0.5, 0.5), n_cores=4) == 1
    assert Plan(300_000, None, 0.2).n_jobs(Cost(60, 60), n_cores=4) == 1
    assert plan.seconds(Cost(20, 20), 2) < plan.seconds(Cost(20, 20), 1)


def test_cores_are_those_that_the_user_leaves(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert n_cores(None) == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert n_cores(1) == 1
    assert n_cores(None) >= 1


def test_the_plan_is_said_before_training(run, workplace):
    done = run("fit", "people.csv", *QUICK, "--out", "new", "--no-report")
    assert done.code == 0
    lines = done.err.splitlines()
    assert lines[0].startswith("plan: train on 240 people, then assess (5 folds); --budget, --cv")
    assert lines[1] == "training on all people"
    assert lines[2].startswith("assessing: 5 folds, about 15 seconds")


def test_a_budget_decides_after_training(run, workplace):
    done = run("fit", "people.csv", *QUICK, "--out", "new", "--no-report", "--budget", "0.001")
    assert "then assess (within 0.001 minutes)" in done.err
    assert "assessing: 48 people held out of a model of 192 others" in done.err
    assert "Scores of 48 people held out (20%), by a model trained on 192 others" in done.out
    refused = run("fit", "people.csv", *QUICK, "--out", "other", "--budget", "0")
    assert "--budget is '0'; use a number above 0" in refused.err


def test_the_time_of_a_large_table_is_said(run, workplace, monkeypatch):
    monkeypatch.setattr(_training, "_FEWEST_TO_PROBE", 200)
    monkeypatch.setattr(_training, "_N_PROBED", 100)
    done = run("fit", "people.csv", *QUICK, "--out", "new", "--no-report")
    assert done.err.splitlines()[0].split(": ")[-1].startswith("about ")
    assert " in all; --budget" in done.err.splitlines()[0]


def test_unassessable_horizons_are_refused_before_training(run, workplace):
    done = run("fit", "people.csv", *QUICK, "--out", "new", "--horizons", "1e6")
    assert done.code == 1
    assert "training" not in done.err
    assert "follow-up ends at" in done.err


# ---------------------------------------------------------------------------------- interruptions
def interrupted_after(monkeypatch, n_fits):
    fit = SurvivalBoost.fit
    calls = []

    def fit_or_interrupt(self, *arguments, **options):
        calls.append(1)
        if len(calls) > n_fits:
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    monkeypatch.setattr(SurvivalBoost, "fit", fit_or_interrupt)


def test_ctrl_c_during_the_assessment_keeps_the_model_and_the_folds_so_far(
    run, workplace, monkeypatch
):
    interrupted_after(monkeypatch, 3)  # The model itself, and two folds.
    done = run("fit", "people.csv", *QUICK, "--out", "new")
    assert done.code == 130
    assert "mean ± sd over the first 2 of 5 folds" in done.out
    assert "the assessment was interrupted: scores are of 2 of 5 folds" in done.err
    assert "interrupted: scores are of 2 of 5 folds" in (workplace / "new/report.html").read_text()
    monkeypatch.undo()
    file = workplace / "people.csv"
    assert run("predict", workplace / "new", file, "--times", "5").code == 0


def test_ctrl_c_in_the_first_fold_keeps_the_model_alone(run, workplace, monkeypatch):
    interrupted_after(monkeypatch, 1)
    done = run("fit", "people.csv", *QUICK, "--out", "new")
    assert done.code == 130
    assert "Scores" not in done.out
    assert "trained on all people and saved, but its held-out performance is unknown" in done.err
    assert not (workplace / "new/report.html").exists()
    assert json.loads(run("info", "new", "--json").out)["assessment"] == {}


def test_ctrl_c_during_the_training_leaves_nothing(run, workplace, monkeypatch):
    interrupted_after(monkeypatch, 0)
    done = run("fit", "people.csv", *QUICK, "--out", "new")
    assert done.code == 130
    assert not (workplace / "new").exists()


# ------------------------------------------------------------------------------ more than memory
@pytest.fixture
def parts(workplace, people, monkeypatch):
    """People in two Parquet files, whose columns are in another order, read in small batches."""
    monkeypatch.setattr(_disk, "SAMPLE", 200)
    monkeypatch.setattr(_disk, "_BATCH", 50)
    (workplace / "parts").mkdir()
    people[:100].to_parquet("parts/a.parquet", index=False)
    people[100:][people.columns[::-1]].to_parquet("parts/b.parquet")
    return people


def test_a_file_larger_than_memory_is_trained_on_from_disk(run, parts):
    done = run("fit", "parts", *QUICK, "--out", "new", "--memory", "0.0001")
    assert done.code == 0, done.err
    assert "240 people need about" in done.err
    assert "Training is from disk; columns, assessment and report use 200" in done.err
    counts = parts["status"].value_counts()
    assert f"'death'    {counts['death']} people" in done.out
    known = json.loads(run("info", "new", "--json").out)
    assert sum(known["people"].values()) == 240
    assert list(known["columns"]) == ["age", "stage", "smoker", "lab value (mg/l)"]
    assert run("predict", "new", "parts", "--times", "5").code == 0


def test_batches_hold_everyone_in_order(parts):
    large = _disk.large_file("parts", 0.0001)
    assert large.n_people == 240
    table = large.columns(["time", "status"], frozenset())
    np.testing.assert_array_equal(table.frame["time"], parts["time"])
    sizes, ages = [], []
    for people, batch in large.tables(["age"], frozenset()):
        sizes.append(people.stop - people.start)
        ages.extend(batch.frame["age"])
        assert batch.place(0) == f"row {people.start + 1}"
    assert sizes == [50, 50, 50, 50, 40]
    np.testing.assert_array_equal(ages, parts["age"])
    sample, chosen = large.sample(frozenset(), 0)
    np.testing.assert_array_equal(sample.frame["age"], parts["age"].iloc[chosen])


def test_a_file_that_fits_stays_in_memory(parts):
    assert _disk.large_file("parts", None) is None
    assert _disk.large_file("people.csv", 1e-9) is None
    assert _disk.available_memory() > 0


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (["--engine", "lightgbm"], "only xgboost trains from disk; leave out --engine"),
        (["--tune", "2"], "and --tune works in memory only; leave it out"),
    ],
)
def test_what_does_not_go_from_disk_is_refused(run, parts, options, fragment):
    done = run("fit", "parts", *QUICK, "--out", "new", "--memory", "0.0001", *options)
    assert done.code == 1
    assert fragment in done.err


# --------------------------------------------------------------------------------------- predict
def test_predictions_in_batches_are_those_of_all_at_once(run, workplace, monkeypatch):
    arguments = ["predict", "model", "people.csv", "--times", "5,20", "--median", "--mean", "20"]
    whole = run(*arguments, "--id", "stage")
    monkeypatch.setattr(_apply, "_BATCH", 70)
    batches = run(*arguments, "--id", "stage")
    assert batches.err.startswith(whole.err)
    first, second = (pd.read_csv(io.StringIO(done.out)) for done in (whole, batches))
    pd.testing.assert_frame_equal(first, second, rtol=1e-12, atol=1e-12)


def test_csv_files_read_back_as_they_were(workplace):
    frame = pd.DataFrame(
        {"id, or name": ['a"b', "c;d", "e"], "x": [0.1 + 0.2, np.nan, 1e-300], "n": [1, 2, 3]}
    )
    for name in ("out.csv", "out.tsv", "out.csv.gz"):
        file = workplace / name
        _apply.write_table(frame, file, Console())
        separator = "\t" if name.endswith("tsv") else ","
        read = pd.read_csv(file, sep=separator, float_precision="round_trip")
        pd.testing.assert_frame_equal(read, frame)


# -------------------------------------------------------------------------------------- progress
def test_trainings_tell_listeners_how_far_they_are(people):
    shares = []
    X = people[["age", "lab value (mg/l)"]]
    y = pd.DataFrame({"event": (people["status"] != "alive") * 1, "duration": people["time"]})
    model = SurvivalBoost("xgboost", n_estimators=20, n_jobs=1, random_state=0)
    with progress_to(shares.append):
        model.fit(X, y)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    report_progress(1, 2)
    assert shares[-1] == 1


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_and_a_log_gets_lines(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with Console().bar("training", 4, "fits") as bar:
        bar.at(1)
        assert "training: " in screen.getvalue()
        assert "1/4 fits" in screen.getvalue()
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with Console().bar("training") as bar:
        bar.at(0.1)
        assert log.getvalue() == ""
        monkeypatch.setattr(_console, "SECONDS_BETWEEN_LINES", 0.0)
        bar.at(0.25)
        assert log.getvalue().startswith("training: 25% done, ")
        assert log.getvalue().endswith(" left\n")
    with Console(quiet=True).bar("training") as bar:
        bar.at(0.5)
    assert log.getvalue().count("\n") == 1

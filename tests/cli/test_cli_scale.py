"""Plans of assessments, interruptions, files larger than memory, and progress."""

import argparse
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest

from survival_objectives import HazardBoost
from survival_objectives._process.running import progress_to
from survival_objectives.cli import _apply, _errors
from survival_objectives.cli._errors import Console
from survival_objectives.cli._training import planned

OUTCOME = ["--duration", "time", "--event", "status"]
QUICK = [*OUTCOME, "--rounds", "3", "--threads", "1"]


# ----------------------------------------------------------------------------------------- plans
@pytest.mark.parametrize(
    ("n_people", "n_columns", "options", "expected"),
    [
        (300, 10, {}, {"n_splits": 5}),
        (20_000, 13, {}, {"n_splits": 5}),
        (20_000, 300, {}, {"test_size": 0.2, "max_train": None}),
        (100_000, 13, {}, {"test_size": 0.2, "max_train": None}),
        (300_000, 13, {}, {"test_size": 1 / 6, "max_train": None}),
        (1_000_000, 13, {}, {"test_size": 0.05, "max_train": 500_000}),
        (1_000_000, 13, {"cv": 3}, {"n_splits": 3}),
        (300, 13, {"test_size": 0.3}, {"test_size": 0.3}),
    ],
)
def test_plans_suit_the_table_unless_told_otherwise(n_people, n_columns, options, expected):
    asked = argparse.Namespace(**{"cv": None, "test_size": None, **options})
    assert planned(asked, n_people, n_columns) == expected


def test_the_plan_is_said_before_training(run, workplace):
    done = run("fit", "people.csv", *QUICK, "--out", "new", "--no-report")
    assert done.code == 0
    lines = done.err.splitlines()
    assert lines[0] == (
        "plan: train on 240 people, then assess (5 folds); --cv and --test-size change it"
    )
    assert lines[1] == "training on all people"
    assert lines[2] == "assessing: 5 folds"


def test_unassessable_horizons_are_refused_before_training(run, workplace):
    done = run("fit", "people.csv", *QUICK, "--out", "new", "--horizons", "1e6")
    assert done.code == 1
    assert "training" not in done.err
    assert "follow-up ends at" in done.err


# ---------------------------------------------------------------------------------- interruptions
def interrupted_after(monkeypatch, n_fits):
    fit = HazardBoost.fit
    calls = []

    def fit_or_interrupt(self, *arguments, **options):
        calls.append(1)
        if len(calls) > n_fits:
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    monkeypatch.setattr(HazardBoost, "fit", fit_or_interrupt)


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
    model = HazardBoost("xgboost", n_estimators=20, n_jobs=1, random_state=0)
    with progress_to(lambda done, total, loss: shares.append(done / total)):
        model.fit(X, y)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    told = len(shares)
    model.fit(X, y)
    assert len(shares) == told


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
        monkeypatch.setattr(_errors, "SECONDS_BETWEEN_LINES", 0.0)
        bar.at(0.25)
        assert log.getvalue().startswith("training: 25% done, ")
        assert log.getvalue().endswith(" left\n")
    with Console(quiet=True).bar("training") as bar:
        bar.at(0.5)
    assert log.getvalue().count("\n") == 1

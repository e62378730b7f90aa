"""Fit, predict, evaluate and info agree with the Python interface, and leave nothing by halves."""

import importlib.util
import io
import json
import signal
import subprocess
import sys

import numpy as np
import openpyxl
import pandas as pd
import pytest

from survival_objectives import HazardBoost, SurvivalBoost, load, metrics
from survival_objectives.cli import _fit

COLUMNS = ["age", "stage", "smoker", "lab value (mg/l)"]
OUTCOME = ["--duration", "time", "--event", "status"]
FIT = [*OUTCOME, "--rounds", "3", "--test-size", "0.3", "--threads", "1", "--quiet"]
# A process that is started in the background may ignore Ctrl-C, and so would its children.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from survival_objectives.cli import main
sys.exit(main())
"""


@pytest.fixture(name="X")
def features(people):
    return people[COLUMNS].astype({"stage": "category"})


@pytest.fixture
def y(people):
    event = people["status"].map({"alive": 0, "death": 1, "relapse": 2})
    return pd.DataFrame({"event": event, "duration": people["time"]})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# ------------------------------------------------------------------------------------ round trips
def test_fit_trains_what_the_python_interface_trains(workplace, X, y):
    model = HazardBoost("xgboost", n_estimators=30, random_state=0, n_jobs=1).fit(X, y)
    loaded = load(workplace / "model")
    times = [2.0, 10.0, 30.0]
    np.testing.assert_array_equal(
        loaded.predict_cumulative_incidence(X, times), model.predict_cumulative_incidence(X, times)
    )


def test_predict_gives_the_numbers_of_the_python_interface(run, workplace, people, X):
    done = run("predict", "model", "people.csv", "--times", "2,10.0,30", "--id", "patient_id")
    assert done.code == 0
    with open("risks.csv", "w") as file:
        file.write(done.out)
    risks = pd.read_csv("risks.csv", float_precision="round_trip")
    curves = load("model").predict_cumulative_incidence(X, [2.0, 10.0, 30.0])
    assert risks.pop("patient_id").tolist() == people["patient_id"].tolist()
    assert list(risks) == [
        f"{state}_{time}"
        for state in ("event_free_at", "death_by", "relapse_by")
        for time in ("2", "10.0", "30")
    ]
    np.testing.assert_array_equal(risks, curves.reshape(len(X), -1).round(7))


def test_other_dialect_and_order_of_columns_give_the_same_predictions(run, workplace, people):
    people[people.columns[::-1]].to_csv(
        "other.csv", sep=";", decimal=",", index=False, encoding="utf-8-sig"
    )
    people.to_parquet("people.parquet")
    arguments = ["--times", "5,20", "--quiet"]
    expected = run("predict", "model", "people.csv", *arguments)
    for file in ("other.csv", "people.parquet"):
        assert run("predict", "model", file, *arguments) == expected
    assert expected.err == ""


def test_predict_writes_parquet_and_replaces_with_force_only(run, workplace):
    for name in ("risks.csv", "risks.parquet"):
        command = ["predict", "model", "people.csv", "--times", "5", "--out", name]
        assert run(*command).code == 0
        again = run(*command)
        assert (again.code, again.out) == (1, "")
        assert f"{name!r} exists already" in again.err
        assert run(*command, "--force").code == 0
    np.testing.assert_allclose(pd.read_csv("risks.csv"), pd.read_parquet("risks.parquet"))


def test_unseen_levels_and_late_times_are_warned_about(run, workplace, people):
    strange = people.assign(stage=people["stage"].replace("III", "IV"))
    strange.to_csv("strange.csv", index=False)
    people.assign(stage=people["stage"].replace("III", "")).to_csv("missing.csv", index=False)
    done = run("predict", "model", "strange.csv", "--times", "5", "--quiet")
    n_rows = (people["stage"] == "III").sum()
    assert f"column 'stage' has 'IV' ({n_rows} rows), not seen in training" in done.err
    assert done.out == run("predict", "model", "missing.csv", "--times", "5").out
    late = run("predict", "model", "people.csv", "--times", "5,9999", "--quiet")
    assert "curves are flat after it, and so at --times 9999" in late.err


def test_evaluate_gives_the_table_of_an_evaluation(run, workplace, X, y):
    content = json.loads(run("evaluate", "model", "people.csv", "--json").out)
    model = load("model")
    last = min(y["duration"][y["event"] > 0].quantile(0.95), model.times_[-1])
    times = last * np.array([0.25, 0.5, 0.75])
    curves = model.predict_cumulative_incidence(X, times)
    expected = metrics.Evaluation(None, y, curves, times).table()
    found = pd.DataFrame(content["scores"])
    assert found["cause"].tolist() == expected["cause"].map({1: "death", 2: "relapse"}).tolist()
    for field in ("time", "value", "standard_error", "lower", "upper"):
        np.testing.assert_allclose(found[field].astype(float), expected[field])
    assert (content["people"], content["events"]) == (240, int((y["event"] > 0).sum()))
    printed = run("evaluate", "model", "people.csv").out
    row = expected.query("score == 'brier' and cause == 1").iloc[0]
    assert f"{row['value']:.4f} ± {row['standard_error']:.4f}" in printed


def test_evaluate_takes_other_names_of_the_outcome(run, workplace, people):
    people.rename(columns={"time": "months", "status": "end"}).to_csv("other.csv", index=False)
    renamed = run("evaluate", "model", "other.csv", "--duration", "months", "--event", "end")
    expected = run("evaluate", "model", "people.csv")
    assert renamed.out.splitlines()[1:] == expected.out.splitlines()[1:]


# ----------------------------------------------------------------------------------------- saying
def test_fit_says_what_it_understood(run, workplace, people):
    done = run("fit", "people.csv", "--out", "new", *FIT, "--no-report")
    assert (done.code, done.err) == (0, "")
    counts = people["status"].value_counts()
    for fragment in (
        "people.csv: 240 people",
        f"{counts['alive'] / 240:.1%} censored",
        f"censored  = 'alive'    {counts['alive']} people",
        f"death     = 'death'    {counts['death']} people",
        "4 columns used:",
        "category, 3 levels",
        f"{people['lab value (mg/l)'].isna().sum()} missing",
        "patient_id  an id; --numeric keeps it",
        "Scores of 72 people held out (30%)",
        "Aalen-Johansen",
        "concordance, relapse",
    ):
        assert fragment in done.out


def test_info_tells_what_the_folder_holds(run, workplace):
    content = json.loads(run("info", "model", "--json").out)
    assert content["engine"] == "xgboost"
    # Effects of these people are linear: there are rounds only if trees have a weight.
    has_trees = any("trees" in part for part in content["parts"])
    assert content["rounds"] in (range(1, 31) if has_trees else [0])
    assert content["censoring"] == "hazards"
    assert sum(content["parts"].values()) == pytest.approx(1)
    assert set(content["versions"]) == {"survival-objectives", "xgboost"}
    assert list(content["columns"]) == COLUMNS
    assert content["levels"] == {"stage": ["I", "II", "III"]}
    assert content["events"] == {"censored": "alive", "death": "death", "relapse": "relapse"}
    assert "HazardBoost (xgboost)" in content["assessment"]["scores"]
    printed = run("info", "model").out
    for fragment in (
        "engine: xgboost",
        "parts: linear ",
        "  stage: category, 3 levels",
        "Brier score, death",
    ):
        assert fragment in printed


def test_info_reads_a_model_saved_from_python(run, workplace, X, y):
    SurvivalBoost(n_estimators=2).fit(X, y).save("python")
    done = run("info", "python")
    assert done.code == 0
    assert "rounds: 2" in done.out
    assert "censoring: boosted" in done.out
    refused = run("predict", "python", "people.csv", "--times", "5")
    assert refused.code == 1
    assert "has no schema.json: it was saved from Python" in refused.err


# ---------------------------------------------------------------------------- whole or not at all
def test_report_is_written_inside_the_model_or_where_asked(run, workplace, people):
    assert run("fit", "people.csv", "--out", "new", *FIT).code == 0
    assert "<html" in (workplace / "new" / "report.html").read_text(encoding="utf-8")
    load("new")
    again = ["fit", "people.csv", "--out", "new", *FIT, "--force", "--report", "page.html"]
    assert run(*again).code == 0
    assert "<html" in (workplace / "page.html").read_text(encoding="utf-8")
    assert not (workplace / "new" / "report.html").exists()


def test_a_damaged_file_of_trees(run, workplace, X, y):
    """Trees are in a file of the engine's own."""
    SurvivalBoost(n_estimators=2, n_jobs=1).fit(X, y).save("trees")
    next((workplace / "trees").glob("*.ubj")).write_text("tree")
    done = run("predict", "trees", "people.csv", "--times", "5")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert "'trees' is damaged: the file" in done.err


def test_force_replaces_what_fit_wrote_and_nothing_else(run, workplace, people):
    command = ["fit", "people.csv", "--out", "model", *FIT, "--force"]
    people.to_csv("model/data.csv", index=False)
    before = {path.name: path.read_bytes() for path in (workplace / "model").iterdir()}
    refused = run(*command)
    assert refused.code == 1
    assert "'model' has 'data.csv', which this version of `fit` did not write" in refused.err
    assert before == {path.name: path.read_bytes() for path in (workplace / "model").iterdir()}
    (workplace / "model" / "data.csv").unlink()
    assert run(*command, "--engine", "lightgbm").code == 0
    written = json.loads((workplace / "model" / "schema.json").read_text())["files"]
    assert {"schema.json", "model.json", "report.html"} <= set(written)
    assert names(workplace / "model") == sorted(written)
    assert load("model").engine_ == "lightgbm"
    # The report of that call goes with the model it is about.
    assert run(*command, "--no-report").code == 0
    assert "report.html" not in names(workplace / "model")


def test_force_follows_a_link_to_the_folder(run, workplace):
    (workplace / "link").symlink_to("model")
    assert run("fit", "people.csv", "--out", "link", *FIT, "--force", "--no-report").code == 0
    assert (workplace / "link").is_symlink()
    assert "report.html" not in names(workplace / "model")


def test_force_leaves_a_folder_alone_that_fit_did_not_write(run, workplace, X, y):
    SurvivalBoost(n_estimators=2).fit(X, y).save("python")
    refused = run("fit", "people.csv", "--out", "python", *FIT, "--force")
    assert refused.code == 1
    assert "'model.json'" in refused.err
    assert "which this version of `fit` did not write" in refused.err


def test_a_failed_exchange_of_folders_is_undone(run, workplace, monkeypatch):
    before = {path.name: path.read_bytes() for path in (workplace / "model").iterdir()}

    class FullDisk(type(workplace)):
        def rename(self, target):
            if self.name == "model" and self.parent.name.startswith(".model-"):
                raise OSError("no space left")
            return super().rename(target)

    monkeypatch.setattr("survival_objectives.cli._folder.Path", FullDisk)
    done = run("fit", "people.csv", "--out", "model", *FIT, "--force", "--no-report")
    assert (done.code, "no space left" in done.err) == (1, True)
    assert before == {path.name: path.read_bytes() for path in (workplace / "model").iterdir()}


def test_predictions_are_real_excel_files(run, workplace, people):
    command = ["predict", "model", "people.csv", "--times", "5,20", "--id", "patient_id"]
    assert run(*command, "--out", "risks.xlsx").code == 0
    assert run(*command, "--out", "risks.csv").code == 0
    assert (workplace / "risks.xlsx").read_bytes()[:2] == b"PK"
    written, expected = pd.read_excel("risks.xlsx"), pd.read_csv("risks.csv")
    pd.testing.assert_frame_equal(written, expected)


def test_formulas_in_ids_reach_no_spreadsheet(run, workplace, people):
    evil = ['=HYPERLINK("http://x","y")', "+1+cmd|' /C calc'!A0", "@SUM(A1)", "-2+3", "-7", "a=b"]
    people.assign(code=(evil * 40)[: len(people)]).to_csv("new.csv", index=False)
    command = ["predict", "model", "new.csv", "--times", "5", "--id", "code", "--quiet"]
    done = run(*command)
    assert "160 cells of the columns of --id would be run as a formula" in done.err
    read = pd.read_csv(io.StringIO(done.out))["code"].head(6).tolist()
    assert read == [f"'{cell}" for cell in evil[:4]] + evil[4:]
    assert "written with an apostrophe" in run(*command, "--out", "risks.xlsx").err
    book = openpyxl.load_workbook("risks.xlsx")
    cells = [row[0] for row in book.active.iter_rows(min_row=2, max_row=7)]
    assert [cell.value for cell in cells] == read
    assert {cell.data_type for cell in cells} == {"s"}


def test_without_openpyxl_no_file_pretends_to_be_excel(run, workplace, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "openpyxl" else found(name)
    )
    done = run("predict", "model", "people.csv", "--times", "5", "--out", "risks.xlsx")
    assert done.code == 1
    assert (
        "which openpyxl writes; use: pip install openpyxl, or a name that ends in .csv" in done.err
    )
    assert not (workplace / "risks.xlsx").exists()


def test_without_jinja2_there_is_a_model_but_no_report(run, workplace, monkeypatch):
    monkeypatch.setattr(_fit, "missing_for_report", lambda: "jinja2 is not installed; use: pip")
    done = run("fit", "people.csv", "--out", "new", *FIT)
    assert done.code == 0
    assert "warning: no report is written: jinja2 is not installed; use: pip" in done.err
    refused = run("fit", "people.csv", "--out", "newer", *FIT, "--report", "page.html")
    assert refused.code == 1
    assert "--report is 'page.html', but jinja2 is not installed" in refused.err


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), RuntimeError("disk is full")])
def test_a_failure_while_saving_keeps_the_model_that_was_there(
    run, workplace, monkeypatch, failure
):
    def fail(*_):
        raise failure

    before = {path.name: path.read_bytes() for path in (workplace / "model").iterdir()}
    monkeypatch.setattr(_fit, "_write_report", fail)
    done = run("fit", "people.csv", "--out", "model", *FIT, "--force")
    interrupted = isinstance(failure, KeyboardInterrupt)
    assert done.code == (130 if interrupted else 1)
    said = "interrupted; nothing was left" if interrupted else "RuntimeError: disk is full; this is"
    assert done.err.startswith(f"survival-objectives: error: {said}")
    assert before == {path.name: path.read_bytes() for path in (workplace / "model").iterdir()}
    assert names(workplace) == ["model", "people.csv"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_process_leaves_nothing_behind(workplace, number):
    command = ["fit", "people.csv", *OUTCOME, "--out", "new", "--no-report", "--threads", "1"]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command, "--rounds", "100000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr.readline().startswith("plan: train on 240 people, then assess (5 folds)")
    assert process.stderr.readline() == "training on all people\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err == "survival-objectives: error: interrupted; nothing was left half-written\n"
    assert names(workplace) == ["model", "people.csv"]

"""Every mistake a person makes ends in one line that names it and the way out, and in no file."""

import importlib.util
import json

import pytest

from survival_objectives.cli import main

FIT = ["fit", "people.csv", "--duration", "time", "--event", "status", "--out", "new"]
PREDICT = ["predict", "model", "people.csv", "--times", "5"]
QUICK = ["--rounds", "2", "--test-size", "0.3", "--no-report", "--quiet"]


def snapshot(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "code", "fragment"),
    [
        ([], 2, "the following arguments are required: COMMAND"),
        (["fitt"], 2, "invalid choice: 'fitt'"),
        (["fit"], 2, "required: data, --event, --out (see: survival-objectives fit"),
        ([*FIT, "--duration", "tme"], 1, "has no column 'tme' (--duration); did you mean 'time'?"),
        ([*FIT, "--event", "Stat"], 1, "has no column 'Stat' (--event); did you mean 'status' or"),
        ([*FIT, "--event", "xy"], 1, "no column 'xy' (--event); the columns are 'patient_id', "),
        ([*FIT, "--event", "time"], 2, "--duration and --event are both 'time'"),
        ([*FIT, "--event", "stage"], 1, "which value of the event column 'stage' means censored?"),
        ([*FIT, "--event", "patient_id"], 1, "are --event and --duration swapped?"),
        ([*FIT, "--duration", "stage"], 1, "the duration 'stage' is not a number on line 2 'I"),
        ([*FIT, "--engine", "lightgmb"], 2, "--engine is 'lightgmb'; did you mean 'lightgbm'?"),
        ([*FIT, "--engine", "prophet"], 2, "the engines are 'xgboost', 'lightgbm', 'catboost'"),
        ([*FIT, "--rounds", "0"], 2, "--rounds is 0; use 1 or more"),
        ([*FIT, "--rounds", "ten"], 2, "--rounds is 'ten'; use an integer"),
        ([*FIT, "--seed", "-1"], 2, "--seed is -1; use 0 or more"),
        ([*FIT, "--cv", "1"], 2, "--cv is 1; use 2 or more"),
        (
            [*FIT, "--cv", "200"],
            1,
            "has 240 people, too few for 200 folds; use --cv 120",
        ),
        ([*FIT, "--test-size", "30"], 2, "--test-size is '30'; use a share between 0 and 1"),
        (
            [*FIT, "--test-size", "0.3", "--cv", "3"],
            2,
            "--cv: not allowed with argument --test",
        ),
        ([*FIT, "--drop", "agee"], 1, "has no column 'agee' (--drop); did you mean 'age' or"),
        ([*FIT, "--drop", "time"], 2, "--drop names 'time', which is the duration or the event"),
        ([*FIT, "--numeric", "stage"], 1, "column 'stage' holds numbers, but not line 2 'I"),
        ([*FIT, "--drop", "age,stage,smoker,lab value (mg/l)"], 1, "has no column to learn from"),
        ([*FIT, "--censored-label", "aliv"], 1, "has no such value; did you mean 'alive'?"),
        ([*FIT, "--decimal", ";"], 2, "--decimal: invalid choice: ';'"),
        ([*FIT, "--separator", "ab"], 2, "--separator is 'ab'; use one character"),
        ([*FIT, "--out", "no/where"], 1, "but there is no folder 'no'; make it first"),
        ([*FIT, "--out", "model"], 1, "'model' exists already; choose another --out, or replace"),
        ([*FIT, "--out", "people.csv", "--force"], 1, "already exists and is not a model folder"),
        ([*FIT, "--out", ".", "--force"], 1, "'.' already exists and is not a model folder"),
        (
            [*FIT, "--report", "no/r.html"],
            1,
            "is 'no/r.html', but there is no folder 'no'",
        ),
        ([*FIT, "--report", "people.csv"], 1, "'people.csv', which this command reads; choose"),
        (
            [*FIT, "--report", "people.csv", "--force"],
            1,
            "--report is 'people.csv', which this command reads; choose another --report",
        ),
        (
            [*FIT, "--report", "model/schema.json", "--force"],
            1,
            "'model/schema.json' exists and is not a page of this program, so it is not",
        ),
        ([*FIT, "--report", "model", "--force"], 1, "--report is 'model', which is a folder"),
        ([*PREDICT, "--out", "people.csv", "--force"], 1, "'people.csv', which this command reads"),
        (
            [*PREDICT, "--out", "model/schema.json", "--force"],
            1,
            "which this command reads; choose",
        ),
        ([*PREDICT, "--out", "risks.xls"], 1, "and .xls files are not written; use a name that"),
        (["predict", "model", "people.csv"], 2, "what should be predicted? Use --times, --median"),
        (["predict", "model", "people.csv", "--times", "1,b"], 2, "and 'b' is not a time; use"),
        (["predict", "model", "people.csv", "--times=-1"], 2, "--times is '-1', and '-1' is not"),
        (["predict", "model", "people.csv", "--times", ","], 2, "--times is ','; use numbers >= 0"),
        (["predict", "model", "people.csv", "--times", "1,1.0"], 2, "which has a time twice"),
        (["predict", "model", "peple.csv", "--times", "1"], 1, "did you mean 'people.csv'?"),
        (["predict", "modle", "people.csv", "--times", "1"], 1, "did you mean 'model'?"),
        (["predict", "people.csv", "people.csv", "--times", "1"], 1, "is a file; give the folder"),
        (["predict", ".", "people.csv", "--times", "1"], 1, "'.' holds no saved model"),
        (["predict", "model", "people.csv", "--times", "1", "--id", "nr"], 1, "'nr' (--id); the"),
        (["predict", "model", "people.csv", "--times", "1", "--out", "a/b"], 1, "no folder 'a'"),
        (["info", "nothing"], 1, "there is no model folder 'nothing'"),
        (["demo", "--out", "people.csv"], 1, "'people.csv' exists already; choose another --out"),
    ],
)
def test_mistakes_in_a_command(run, workplace, arguments, code, fragment):
    before = snapshot(workplace)
    done = run(*arguments)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("survival-objectives: error: ")
    assert done.err.count("\n") == 1
    assert fragment in done.err
    assert snapshot(workplace) == before


def edited(people, row, column, value):
    changed = people.astype(object)
    changed.loc[row, column] = value
    return changed


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        (
            lambda people: edited(people, 3, "age", "abc"),
            "column 'age' holds numbers, but not line 5 'abc'. Correct",
        ),
        (
            lambda people: edited(people, 3, "time", -1),
            "the duration 'time' is below 0 on line 5 '-1'",
        ),
        (
            lambda people: edited(people, 3, "time", None),
            "the duration 'time' is missing on line 5;",
        ),
        (
            lambda people: edited(people, 3, "status", None),
            "the event 'status' is missing on line 5;",
        ),
        (lambda people: people.assign(status="alive"), "there are no events: all 240 rows"),
        (lambda people: edited(people, 3, "status", "once"), "only 1 had 'once', and 2 are needed"),
        (lambda people: people[:0], "has a header but no rows"),
        (lambda people: people[:5], "has 5 people, too few for 5 folds; use --cv 2"),
        (lambda people: people[["time", "status"]], "no column to learn from: only the outcome"),
    ],
)
def test_mistakes_in_a_file_to_train_on(run, workplace, people, change, fragment):
    change(people).to_csv("people.csv", index=False)
    before = snapshot(workplace)
    done = run(*FIT, "--no-report")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("survival-objectives: error: ")
    assert done.err.count("\n") == 1
    assert fragment in done.err
    assert snapshot(workplace) == before


@pytest.mark.parametrize(
    ("command", "change", "fragment"),
    [
        (
            "predict",
            {"age": "abc"},
            "column 'age' holds numbers, but not line 2 'abc', line 3 'abc'",
        ),
        (
            "predict",
            {"smoker": "often"},
            "column 'smoker' holds true and false, but not line 2 'often'",
        ),
        (
            "evaluate",
            {"status": "moved"},
            "the event 'status' has labels not seen in training: line 2 'moved'",
        ),
        ("evaluate", {"status": "alive"}, "all 240 people are censored, so there is no event"),
    ],
)
def test_mistakes_in_a_file_for_a_model(run, workplace, people, command, change, fragment):
    people.assign(**change).to_csv("people.csv", index=False)
    done = run(command, "model", "people.csv", *["--times", "5"] * (command == "predict"))
    assert done.code == 1
    assert done.out == ""
    assert fragment in done.err.splitlines()[-1]


def test_columns_of_training_that_a_file_lacks_are_named(run, workplace, people):
    people.rename(columns={"stage": "stages"}).drop(columns="age").to_csv("new.csv", index=False)
    done = run("predict", "model", "new.csv", "--times", "5")
    assert done.code == 1
    assert "new.csv lacks the columns 'age', 'stage'; did you mean 'stages'" in done.err
    done = run("evaluate", "model", "new.csv", "--event", "end")
    assert "new.csv has no column 'end' (--event)" in done.err


@pytest.mark.parametrize(
    ("damage", "fragment"),
    [
        (lambda folder: (folder / "model.json").unlink(), "holds no saved model"),
        (lambda folder: (folder / "model.json").write_text("{"), "is not the description"),
        (lambda folder: (folder / "schema.json").write_text("[]"), "is damaged"),
        (lambda folder: (folder / "schema.json").write_text("{"), "is damaged"),
        (lambda folder: (folder / "schema.json").write_bytes(b"\xff"), "is damaged"),
    ],
)
def test_damaged_models(run, workplace, damage, fragment):
    damage(workplace / "model")
    done = run("predict", "model", "people.csv", "--times", "5")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert fragment in done.err


def test_a_schema_of_another_model_is_refused(run, workplace):
    schema = workplace / "model" / "schema.json"
    content = json.loads(schema.read_text())
    content["columns"][0]["name"] = "height"
    schema.write_text(json.dumps(content))
    done = run("predict", "model", "people.csv", "--times", "5")
    assert (done.code, done.out) == (1, "")
    assert "schema.json belongs to a model of other columns" in done.err


def test_an_engine_that_is_not_installed_names_its_extra(run, workplace, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "xgboost" else found(name)
    )
    done = run(*FIT, "--engine", "xgboost")
    assert (done.code, done.out) == (1, "")
    assert "use: pip install xgboost, or --engine lightgbm" in done.err


def test_debug_shows_where_an_error_comes_from(workplace):
    with pytest.raises(Exception, match="has no column 'tme'"):
        main([*FIT, "--duration", "tme", "--debug"])


@pytest.mark.parametrize("command", ["demo", "fit", "predict", "evaluate", "info", None])
def test_help_documents_the_exit_codes(capsys, command):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"] if command else ["--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    for line in ("0    done", "1    a problem with", "2    wrong usage", "130  interrupted"):
        assert line in printed


def test_dropping_and_taking_columns_by_hand(run, workplace):
    done = run(*FIT, *QUICK, "--drop", "age,smoker", "--categorical", "patient_id")
    assert done.code == 0
    assert "patient_id        category, 240 levels" in done.out
    assert "age     --drop" in done.out
    assert json.loads(run("info", "new", "--json").out)["dropped"] == {
        "age": "--drop",
        "smoker": "--drop",
    }

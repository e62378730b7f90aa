"""Late entry, several rows per person and repeated rows are asked about, never taken silently."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from survival_objectives.cli._errors import Console

QUICK = ["--rounds", "5", "--test-size", "0.3", "--threads", "1", "--no-report", "--quiet"]
AGES = ["--duration", "exit_age", "--event", "dead"]


@pytest.fixture
def ages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    entry = generator.uniform(50, 70, 4000)
    death = 45 + 30 * generator.weibull(3, 4000)
    known = np.flatnonzero(death > entry)[:400]
    entry, death = entry[known].round(2), death[known].round(2) + 0.01
    end = entry + generator.uniform(2, 15, 400).round(2)
    people = pd.DataFrame(
        {
            "entry_age": entry,
            "exit_age": np.minimum(death, end),
            "dead": (death <= end).astype(int),
            "x": generator.normal(size=400).round(3),
        }
    )
    people.to_csv("ages.csv", index=False)
    return people


def test_late_entry_is_exit_2_with_the_ways_out(run, ages):
    done = run("fit", "ages.csv", *AGES, "--out", "model", *QUICK)
    assert done.code == 2
    for fragment in (
        "'entry_age' is never above the duration 'exit_age' and named like a time of entry",
        "late entry",
        "--feature entry_age",
        "--drop entry_age",
        "counts from 'entry_age'",
    ):
        assert fragment in done.err
    assert not os.path.exists("model")
    ages.rename(columns={"entry_age": "first seen at"}).to_csv("other.csv", index=False)
    assert "late entry" in run("fit", "other.csv", *AGES, "--out", "model", *QUICK).err


def test_a_column_may_be_a_feature_after_all(run, ages):
    done = run("fit", "ages.csv", *AGES, "--out", "model", *QUICK, "--feature", "entry_age")
    assert done.code == 0, done.err
    assert set(json.loads(run("info", "model", "--json").out)["columns"]) == {"entry_age", "x"}
    done = run("fit", "ages.csv", *AGES, "--out", "other", *QUICK, "--drop", "entry_age")
    assert done.code == 0, done.err


def test_dates_that_begin_after_the_origin_are_late_entry(run, ages):
    origin = pd.Timestamp("1990-01-01") + pd.to_timedelta(np.arange(400) % 90, unit="D")
    dated = pd.DataFrame(
        {
            "diagnosed": origin,
            "enrolled": origin + pd.to_timedelta((ages["entry_age"] * 30).round(), unit="D"),
            "last seen": origin + pd.to_timedelta((ages["exit_age"] * 30).round(), unit="D"),
            "dead": ages["dead"],
            "x": ages["x"],
        }
    )
    dated.to_csv("dated.csv", index=False)
    dated.to_parquet("dated.parquet")
    command = ["--end-date", "last seen", "--event", "dead", "--out", "model", *QUICK]
    for file in ("dated.csv", "dated.parquet"):
        done = run("fit", file, "--start-date", "diagnosed", *command)
        assert done.code == 2
        assert "'enrolled' is never above the end date 'last seen'" in done.err
    # The clock from entry: the origin is a date before it.
    done = run("fit", "dated.csv", "--start-date", "enrolled", *command)
    assert done.code == 0, done.err


class Keyboard(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("typed", "columns"), [("f\n", {"entry_age", "x"}), ("?\nd\n", {"x"})])
def test_at_a_terminal_it_is_a_question(run, ages, monkeypatch, typed, columns):
    monkeypatch.setattr(sys, "stdin", Keyboard(typed))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    done = run("fit", "ages.csv", *AGES, "--out", "model", *QUICK)
    assert done.code == 0, done.err
    assert "Did people come under observation only then (late entry)?" in done.err
    assert set(json.loads(run("info", "model", "--json").out)["columns"]) == columns


@pytest.fixture
def visits(people, tmp_path, monkeypatch):
    """Rows of noise: four per patient, with the outcome of the patient."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    person = np.repeat(np.arange(len(people)), 4)
    rows = people.loc[person, ["patient_id", "time", "status"]].reset_index(drop=True)
    rows["x"] = generator.normal(size=len(rows)).round(4)
    rows["z"] = generator.normal(size=len(people))[person].round(4)
    rows.to_csv("visits.csv", index=False)
    return rows


VISITS = ["fit", "visits.csv", "--duration", "time", "--event", "status", "--out", "model", *QUICK]


def test_an_id_that_repeats_is_asked_about(run, visits):
    done = run(*VISITS)
    assert done.code == 2
    assert "several rows per person: 'patient_id' has 240 values in 960 rows" in done.err
    assert "--id patient_id" in done.err
    assert run(*VISITS, "--feature", "patient_id").code == 0


def test_rows_of_one_person_share_a_fold_and_count_once(run, visits):
    done = run(*VISITS, "--id", "patient_id")
    assert done.code == 0, done.err
    assert "visits.csv: 240 people in 960 rows" in done.out
    assert list(json.loads(run("info", "model", "--json").out)["columns"]) == ["x", "z"]
    alone = visits.drop_duplicates("patient_id")
    alone.to_csv("alone.csv", index=False)
    one = json.loads(run("evaluate", "model", "alone.csv", "--json").out)["scores"][3]
    copied = pd.concat([alone] * 4)
    copied.to_csv("copied.csv", index=False)
    four = json.loads(run("evaluate", "model", "copied.csv", "--json").out)["scores"][3]
    assert four["value"] == pytest.approx(one["value"], rel=1e-3)
    assert four["standard_error"] == pytest.approx(one["standard_error"], rel=0.01)
    copied.rename(columns={"patient_id": "who"}).to_csv("copied.csv", index=False)
    naive = json.loads(run("evaluate", "model", "copied.csv", "--json").out)["scores"][3]
    assert naive["standard_error"] == pytest.approx(one["standard_error"] / 2, rel=0.01)
    for command in (["evaluate", "model"], ["compare", "model", "model"]):
        named = run(*command, "copied.csv", "--id", "who", "--json")
        assert named.code == 0, named.err
    assert run("evaluate", "model", "copied.csv", "--id", "nobody").code == 1


def test_noise_gives_no_gain_with_folds_by_person(run, visits):
    assert run(*VISITS, "--id", "patient_id", "--rounds", "100").code == 0
    scores = json.loads(run("info", "model", "--json").out)["assessment"]["scores"]
    model = float(scores["HazardBoost (xgboost)"]["Brier score"].split()[0])
    assert model > 0.98 * float(scores["Aalen-Johansen"]["Brier score"].split()[0])


def test_rows_that_continue_one_another_are_recognised(run, people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    half = (people["time"] / 2).round(2)
    first = people.assign(start=0.0, time=half, status="alive")
    second = people.assign(start=half)
    rows = pd.concat([first, second]).sort_values(["patient_id", "start"])
    rows.drop(columns="patient_id").to_csv("rows.csv", index=False)
    done = run("fit", "rows.csv", "--duration", "time", "--event", "status", "--out", "m", *QUICK)
    assert done.code == 2
    assert "several rows per person: 2" in done.err
    assert "rows begin, in 'start', where the row before ends" in done.err


def test_equal_rows_are_a_caution(run, people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    twice = pd.concat([people, people]).assign(patient_id=np.arange(480))
    twice.to_csv("twice.csv", index=False)
    done = run("fit", "twice.csv", "--duration", "time", "--event", "status", "--out", "m", *QUICK)
    assert done.code == 0, done.err
    assert "repeated rows: 480 of 480 rows are equal to others" in done.err


# ------------------------------------------------------------------------------------- terminals
def test_names_and_labels_cannot_drive_a_terminal(run, people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = "\x1b[2J\x9b31m\u202eage"
    named = people.rename(columns={"age": evil})
    named["status"] = named["status"].replace("relapse", "re\x1b]0;lapse\x07")
    named.to_csv("evil.csv", index=False)
    command = ["--duration", "time", "--event", "status", "--out", "m", *QUICK]
    for done in (
        run("fit", "evil.csv", *command),
        run("info", "m"),
        run("info", "m", "--json"),
        run("evaluate", "m", "evil.csv"),
        run("fit", "evil.csv", *command, "--drop", "nothing"),
    ):
        assert not set(done.out + done.err) & set("\x1b\x9b\x07\u202e")
    assert evil in json.loads(run("info", "m", "--json").out)["columns"]
    piped = run("predict", "m", "evil.csv", "--times", "5", "--id", evil)
    assert piped.out.startswith(evil)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    shown = run("predict", "m", "evil.csv", "--times", "5", "--id", evil)
    assert shown.out.startswith("\\u001b[2J\\u009b31m\\u202eage")


def test_no_question_without_a_terminal():
    assert Console().ask("which?", {"a": "first"}) is None


# --------------------------------------------------------------------------------------- streams
def test_streams_are_written_to_and_links_stay(run, workplace):
    command = ["predict", "model", "people.csv", "--times", "5", "--quiet"]
    expected = run(*command).out
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        assert run(*command, "--out", "pipe").code == 0
        assert reader.stdout.read() == expected
    (workplace / "real.csv").write_text("old")
    (workplace / "link.csv").symlink_to("real.csv")
    assert "exists already" in run(*command, "--out", "link.csv").err
    assert run(*command, "--out", "link.csv", "--force").code == 0
    assert (workplace / "link.csv").is_symlink()
    assert (workplace / "real.csv").read_text() == expected
    assert (workplace / "pipe").is_fifo()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_devices_are_never_replaced(run, workplace):
    before = os.stat("/dev/full")
    done = run("predict", "model", "people.csv", "--times", "5", "--out", "/dev/full", "--force")
    assert done.code == 1
    assert "No space left" in done.err
    done = run("explain", "model", "people.csv", "--row", "1", "--out", "/dev/full", "--force")
    assert done.code == 1
    assert os.stat("/dev/full").st_rdev == before.st_rdev


def test_standard_output_by_name(workplace):
    command = "from survival_objectives.cli import main; main()"
    arguments = ["predict", "model", "people.csv", "--times", "5", "--out", "/dev/stdout"]
    with open("out.csv", "w") as file:
        subprocess.run(
            [sys.executable, "-c", command, *arguments],
            stdout=file,
            check=True,
        )
    assert len(pd.read_csv("out.csv")) == 240


# ------------------------------------------------------------------------------------ late entry
def test_entry_gives_the_risks_of_those_who_were_there(run, ages):
    command = ["fit", "ages.csv", *AGES, *QUICK, "--rounds", "50"]
    done = run(*command, "--out", "late", "--entry", "entry_age")
    assert done.code == 0, done.err
    assert "400 of 400 people came under observation late, half of them by 5" in done.out
    assert "who are under observation and event-free at 6" in done.out
    assert run(*command, "--out", "naive", "--drop", "entry_age").code == 0
    predict = ["ages.csv", "--times", "60,75", "--quiet"]
    late, naive = (
        pd.read_csv(io.StringIO(run("predict", name, *predict).out)).mean()
        for name in ("late", "naive")
    )
    truth = {time: 1 - np.exp(-(((time - 45) / 30) ** 3)) for time in (60, 75)}
    for time, risk in truth.items():
        assert abs(late[f"event_by_{time}"] - risk) < 0.06
    assert naive["event_by_60"] < 0.6 * truth[60]
    content = json.loads(run("info", "late", "--json").out)
    assert content["follow_up"] == {"event": "dead", "duration": "exit_age", "entry": "entry_age"}


def test_entry_is_an_answer_at_the_terminal(run, ages, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Keyboard("e\n"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    done = run("fit", "ages.csv", *AGES, "--out", "model", *QUICK)
    assert done.code == 0, done.err
    assert "400 of 400 people came under observation late" in done.out


@pytest.mark.parametrize(
    ("options", "code", "fragment"),
    [
        (["--entry", "exit_age"], 2, "--duration and --entry are both 'exit_age'"),
        (["--entry", "x"], 1, "the entry 'x' is below 0 on line"),
        (["--start", "entry_age"], 2, "--duration and --start both define the follow-up"),
    ],
)
def test_mistakes_of_entry(run, ages, options, code, fragment):
    done = run("fit", "ages.csv", *AGES, *options, "--out", "model", *QUICK)
    assert done.code == code
    assert fragment in done.err


def test_entry_after_the_end_is_named(run, ages):
    ages.assign(entry_age=ages["entry_age"].where(ages.index > 1, 200)).to_csv("ages.csv")
    done = run("fit", "ages.csv", *AGES, "--entry", "entry_age", "--out", "model", *QUICK)
    assert done.code == 1
    assert "not before the end on line 2 '200.0', line 3 '200.0'" in done.err


# ------------------------------------------------------------------------------------ long tables
@pytest.fixture
def stretches(tmp_path, monkeypatch):
    """Rows of people whose treatment triples the hazard when it begins, in any order."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    rows = []
    for person in range(300):
        x, change, end = generator.normal(), generator.exponential(3), generator.uniform(2, 10)
        time = generator.exponential(10 * np.exp(-0.5 * x))
        if time > change:
            time = change + generator.exponential(10 * np.exp(-0.5 * x) / 3)
        stop, event = min(time, end), int(time <= end)
        if change < stop:
            rows += [(person, 0, change, 0, x, 0), (person, change, stop, event, x, 1)]
        else:
            rows.append((person, 0, stop, event, x, 0))
    columns = ["pid", "start", "stop", "event", "x", "treated"]
    table = pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=0)
    table.to_csv("long.csv", index=False)
    return table


def test_rows_of_people_from_start_to_stop(run, stretches):
    asked = run("fit", "long.csv", "--duration", "stop", "--event", "event", "--out", "m", *QUICK)
    assert asked.code == 2
    assert "--id pid --start start --stop stop" in asked.err
    columns = ["--id", "pid", "--start", "start", "--stop", "stop", "--event", "event"]
    done = run("fit", "long.csv", *columns, "--out", "m", *QUICK, "--rounds", "50")
    assert done.code == 0, done.err
    assert f"300 people in {len(stretches)} rows" in done.out
    assert "these scores hold features as they are at 0" in done.err
    n_events = stretches["event"].sum()
    assert f"{n_events} people" in done.out
    known = json.loads(run("info", "m", "--json").out)
    assert list(known["columns"]) == ["x", "treated"]
    assert sum(known["people"].values()) == 300
    risks = pd.read_csv(io.StringIO(run("predict", "m", "long.csv", "--times", "3").out))
    treated = stretches["treated"].to_numpy() > 0
    assert risks["event_by_3"][treated].mean() > risks["event_by_3"][~treated].mean() + 0.15
    refused = run("evaluate", "m", "long.csv")
    assert "people with several rows cannot be scored" in refused.err


def test_mistakes_in_rows_of_people(run, stretches):
    columns = ["--start", "start", "--stop", "stop", "--event", "event", "--out", "m", *QUICK]
    assert "--id, --start and --stop go together" in run("fit", "long.csv", *columns).err
    columns += ["--id", "pid"]
    wrong = stretches.copy()
    wrong.iloc[3, 1] = 99
    wrong.to_csv("wrong.csv", index=False)
    done = run("fit", "wrong.csv", *columns)
    assert "it is not before the end on line 5 '99.0'" in done.err
    pd.concat([stretches, stretches[:2]]).to_csv("twice.csv", index=False)
    done = run("fit", "twice.csv", *columns)
    assert done.code == 1
    assert "rows repeat the person, start and stop of another" in done.err

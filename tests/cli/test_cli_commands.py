"""What fit, predict, evaluate, compare and explain can be asked for beyond the plain call."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from survival_objectives import load
from survival_objectives.metrics import Evaluation
from survival_objectives.report._format import percent_band

QUICK = ["--rounds", "3", "--test-size", "0.3", "--threads", "1", "--quiet"]
PREDICT = ["predict", "model", "people.csv", "--quiet"]


@pytest.fixture(name="X")
def features(people):
    return people[["age", "stage", "smoker", "lab value (mg/l)"]].astype({"stage": "category"})


@pytest.fixture
def y(people):
    event = people["status"].map({"alive": 0, "death": 1, "relapse": 2})
    return pd.DataFrame({"event": event, "duration": people["time"]})


# ------------------------------------------------------------------------------------------- fit
def test_durations_between_dates_are_those_of_a_column(run, workplace, people):
    start = pd.Timestamp(2020, 1, 1) + pd.to_timedelta(people["patient_id"] - 1000, unit="D")
    whole = np.ceil(people["time"])
    dated = people.assign(
        time=whole,
        entry=start.dt.strftime("%d.%m.%Y"),
        exit=(start + pd.to_timedelta(whole, unit="D")).dt.strftime("%d.%m.%Y"),
    )
    dated.to_csv("dated.csv", index=False)
    dated.drop(columns=["entry", "exit"]).to_csv("plain.csv", index=False)
    common = ["--event", "status", *QUICK, "--no-report"]
    dates = ["--start-date", "entry", "--end-date", "exit", "--drop", "time"]
    done = run("fit", "dated.csv", "--out", "dated", *dates, *common)
    assert done.code == 0
    assert f"{whole.max():g} days, median" in done.out
    assert run("fit", "plain.csv", "--out", "plain", "--duration", "time", *common).code == 0
    predict = ["--times", "5", "--quiet"]
    assert run("predict", "dated", "dated.csv", *predict).out == (
        run("predict", "plain", "plain.csv", *predict).out
    )
    scores = [
        json.loads(run("evaluate", name, f"{name}.csv", "--json", "--quiet").out)["scores"]
        for name in ("dated", "plain")
    ]
    assert scores[0] == scores[1]
    assert "start_date entry, end_date exit" in run("info", "dated").out
    used = run("fit", "dated.csv", "--out", "new", *dates, *common, "--date", "entry")
    assert used.code == 2
    assert "--date names 'entry', which is the duration or the event" in used.err


def test_names_units_title_and_horizons_reach_the_report(run, workplace):
    done = run(
        "fit", "people.csv", "--out", "new", "--duration", "time", "--event", "status", *QUICK,
        "--event-names", "death=Death of any cause,relapse=Return", "--time-unit", "months",
        "--title", "A short study", "--horizons", "4,8",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "concordance, Death of any cause" in done.out
    page = (workplace / "new" / "report.html").read_text(encoding="utf-8")
    for fragment in ("<title>A short study", "Death of any cause", "months"):
        assert fragment in page
    names = pd.read_csv(
        pd.io.common.StringIO(run("predict", "new", "people.csv", "--times", "2:6:2").out)
    ).columns
    assert names[:3].tolist() == [f"event_free_at_{time}" for time in (2, 4, 6)]
    assert "Death_of_any_cause_by_4" in names


@pytest.mark.parametrize(
    ("options", "code", "fragment"),
    [
        (["--event", "status"], 2, "how long were people followed? Name a column with --duration"),
        (
            ["--event", "status", "--start-date", "age"],
            2,
            "--start-date and --end-date go together",
        ),
        (
            ["--event", "status", "--duration", "time", "--end-date", "age"],
            2,
            "both define the follow-up",
        ),
        (
            ["--event", "status", "--duration", "time", "--event-names", "dead=D"],
            1,
            "--event-names has 'dead', which labels no cause of 'status'; did you",
        ),
        (["--event", "status", "--duration", "time", "--event-names", "x"], 2, "such as 1=death"),
        (["--event", "status", "--duration", "time", "--horizons", "1,2,3,4"], 2, "one to three"),
        (
            ["--event", "status", "--duration", "time", "--horizons", "9999"],
            1,
            "has 9999, but follow-up",
        ),
    ],
)
def test_mistakes_in_the_outcome(run, workplace, options, code, fragment):
    done = run("fit", "people.csv", "--out", "new", *options, *QUICK)
    assert done.code == code
    assert fragment in done.err.splitlines()[-1]
    assert not (workplace / "new").exists()


# --------------------------------------------------------------------------------------- predict
def test_predict_gives_times_and_contributions(run, workplace, X):
    extras = ["--median", "--quantiles", "0.25,0.9", "--mean", "20", "--shap", "10"]
    assert run(*PREDICT, *extras, "--out", "extras.csv").code == 0
    found = pd.read_csv("extras.csv")
    model = load("model")
    for name, quantile in {
        "median_time": 0.5,
        "time_quantile_0.25": 0.25,
        "time_quantile_0.9": 0.9,
    }.items():
        expected = model.predict_quantile(X, quantile)
        np.testing.assert_allclose(found[name].fillna(np.inf), expected, rtol=1e-6)
    np.testing.assert_allclose(
        found["mean_event_free_time_to_20"], model.predict_restricted_mean_time(X, 20)
    )
    shap = model.shap_values(X, 10.0)
    np.testing.assert_allclose(found["shap_relapse_at_10_age"], shap[:, 1, 0], atol=1e-7)


def test_rounded_numbers_with_decimal_commas(run, workplace):
    done = run(*PREDICT, "--times", "5", "--digits", "3", "--out-decimal", ",")
    header, first, *_ = done.out.splitlines()
    assert header == "event_free_at_5;death_by_5;relapse_by_5"
    assert all(len(cell) <= 5 and cell.startswith("0,") for cell in first.split(";"))


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (["--times", "1:5"], "--times is '1:5', and '1:5' is not a range; use first:last:step"),
        (["--times", "5:1:1"], "is not a range"),
        (["--times", "0:1e9:1"], "of at most 1000 times"),
        (["--quantiles", "1.5"], "--quantiles is '1.5'; use different shares between 0 and 1"),
        (["--mean", "-1"], "--mean"),
    ],
)
def test_mistakes_in_what_to_predict(run, workplace, options, fragment):
    done = run(*PREDICT, *options)
    assert (done.code, done.out) == (2, "")
    assert fragment in done.err


# -------------------------------------------------------------------------- evaluate and compare
def test_evaluate_at_requested_times(run, workplace):
    content = json.loads(run("evaluate", "model", "people.csv", "--json", "--times", "4,8").out)
    found = pd.DataFrame(content["scores"])
    assert set(found["time"]) == {4, 8}
    assert {"brier", "scaled brier", "concordance", "auc", "observed expected"} <= {*found["score"]}
    late = run("evaluate", "model", "people.csv", "--times", "9999")
    assert late.code == 1
    assert "--times has 9999, but these people can be scored after 0 and before" in late.err


def test_evaluate_from_a_landmark_on(run, workplace, X, y):
    command = ["evaluate", "model", "people.csv", "--landmark", "2", "--times", "4,8"]
    content = json.loads(run(*command, "--json").out)
    curves = load("model").predict_cumulative_incidence(X, [2.0, 4.0, 8.0])
    expected = Evaluation(None, y, curves, [2.0, 4.0, 8.0], landmark=2.0).table()
    found = pd.DataFrame(content["scores"])["value"].astype(float)
    np.testing.assert_allclose(found, expected["value"])
    assert "can be scored after 2" in run(*command, "--times", "1").err


def test_evaluate_by_groups_and_as_a_page(run, workplace, people):
    people.assign(site=["a", "b"] * 120).to_csv("new.csv", index=False)
    command = ["evaluate", "model", "new.csv", "--times", "4,8", "--by", "site,age"]
    groups = pd.DataFrame(json.loads(run(*command, "--json", "--quiet").out)["groups"])
    assert groups.groupby("column")["group"].nunique().to_dict() == {"age": 4, "site": 2}
    assert (groups[groups["group"] == "a"]["n_people"] == 120).all()
    done = run(*command, "--report", "page.html", "--thresholds", "0.1,0.2", "--title", "<i>")
    assert done.code == 0, done.err
    assert re.search(r"site: b\*? +120 ", done.out)
    page = (workplace / "page.html").read_text(encoding="utf-8")
    assert "<title>&lt;i&gt;" in page
    # These are the people of training: nothing differs.
    assert "Standardised difference" in page
    assert set(re.findall(r'<td class="text">(\d[^<]*)</td></tr>', page)) == {"0"}
    assert run(*command, "--report", "page.html").code == 1
    assert "no column 'sex' (--by)" in run("evaluate", "model", "new.csv", "--by", "sex").err


def test_compare_tells_a_difference_from_chance(run, workplace, people):
    assert run(
        "fit", "people.csv", "--out", "poor", "--duration", "time", "--event", "status",
        "--drop", "age,stage", *QUICK, "--no-report",
    ).code == 0  # fmt: skip
    content = json.loads(run("compare", "model", "poor", "people.csv", "--json").out)
    brier = next(row for row in content["scores"] if row["score"] == "brier")
    assert brier["lower"] < brier["difference"] < brier["upper"] < 0
    same = json.loads(run("compare", "model", "model", "people.csv", "--json").out)
    assert {row["difference"] for row in same["scores"]} == {0}
    assert "neither" in run("compare", "model", "model", "people.csv").out
    printed = run("compare", "model", "poor", "people.csv").out
    assert "first: model, second: poor" in printed
    assert "beyond chance: the first for " in printed


def test_compare_with_the_curves_of_another_package(run, workplace, people, X, y):
    times = [4.0, 8.0]
    mine = load("model").predict_cumulative_incidence(X, times)
    other = 0.7 * mine[:, 1:] + 0.05
    names = [f"{cause}_by_{time:g}" for cause in ("death", "relapse") for time in times]
    curves = pd.DataFrame(other.reshape(len(other), -1), columns=names)
    curves.to_csv("curves.csv", index=False)
    command = ["compare", "model", "curves.csv", "people.csv", "--json", "--thresholds", "0.2"]
    found = pd.DataFrame(json.loads(run(*command).out)["scores"])
    full = np.concatenate([1 - other.sum(axis=1, keepdims=True), other], axis=1)
    expected = Evaluation(None, y, mine, times).compare(
        Evaluation(None, y, full, times), thresholds=[0.2]
    )
    np.testing.assert_allclose(found["difference"].astype(float), expected["difference"], atol=1e-9)
    assert "net benefit 0.2" in {*found["score"]}
    # People without an outcome are left out of both.
    gaps = people.assign(status=people["status"].where(people.index != 3))
    gaps.to_csv("gaps.csv", index=False)
    rows = np.arange(240) != 3
    part = json.loads(run(*command[:3], "gaps.csv", "--json", "--skip-unknown").out)["scores"]
    without = Evaluation(None, y[rows], mine[rows], times).compare(
        Evaluation(None, y[rows], full[rows], times)
    )
    np.testing.assert_allclose(
        [row["difference"] for row in part], without["difference"], atol=1e-9
    )
    # The file of `predict`, whose rounding is no difference.
    run("predict", "model", "people.csv", "--times", "4,8", "--out", "own.csv")
    assert "beyond chance: neither" in run("compare", "model", "own.csv", "people.csv").out
    assert "no curves at 5, only at 4, 8" in run(*command, "--times", "5").err
    curves[1:].to_csv("short.csv", index=False)
    assert "239 rows of curves for 240" in run("compare", "model", "short.csv", "people.csv").err
    curves.assign(death_by_4="x").to_csv("text.csv", index=False)
    refused = run("compare", "model", "text.csv", "people.csv").err
    assert "column 'death_by_4' has no number on line 2" in refused
    none = run("compare", "model", "people.csv", "people.csv").err
    assert "such as death_by_1, relapse_by_1" in none


# --------------------------------------------------------------------------------------- explain
def test_explain_writes_a_page_of_one_person(run, workplace, people, X):
    assert "has 240 people; choose one with --row" in run("explain", "model", "people.csv").err
    done = run("explain", "model", "people.csv", "--row", "3", "--times", "5,10", "--title", "<i>")
    assert (done.code, done.out) == (0, "page: person.html\n")
    page = (workplace / "person.html").read_text(encoding="utf-8")
    risks = load("model").predict_cumulative_incidence(X[2:3], [5.0, 10.0], confidence=0.9)
    for fragment in (
        "<title>&lt;i&gt;",
        "What moves the risk of relapse by 10",
        "lab value (mg/l)",
    ):
        assert fragment in page
    for values in zip(*map(np.ravel, risks), strict=True):
        assert f">{percent_band(*values)}<" in page
    assert "<i>" not in page
    people[:1].to_csv("row.csv", index=False)
    assert run("explain", "model", "row.csv").code == 1
    assert run("explain", "model", "row.csv", "--force").code == 0
    (workplace / "mine.html").write_text("mine")
    refused = run("explain", "model", "row.csv", "--out", "mine.html", "--force")
    assert "'mine.html' exists and is not a page of this program" in refused.err


def test_dates_are_dates_on_the_page_and_in_the_service(run, workplace, people, monkeypatch):
    uvicorn, testclient = (
        pytest.importorskip(name) for name in ("uvicorn", "starlette.testclient")
    )
    came = pd.Timestamp(2020, 1, 1) + pd.to_timedelta(people["patient_id"] % 300, unit="D")
    dated = people[["time", "status", "age"]].assign(came=came.dt.strftime("%d.%m.%Y"))
    dated.to_csv("dated.csv", index=False)
    columns = ["--duration", "time", "--event", "status", "--date", "came"]
    assert run("fit", "dated.csv", *columns, *QUICK, "--no-report", "--out", "dated").code == 0
    assert run("explain", "dated", "dated.csv", "--row", "1").code == 0
    first = str(came[0].date())
    assert f">{first}<" in (workplace / "person.html").read_text(encoding="utf-8")

    services = []
    monkeypatch.setattr(uvicorn, "run", lambda service, **_: services.append(service))
    assert run("serve", "dated").code == 0
    person = {"age": int(people["age"][0]), "came": first}
    answer = testclient.TestClient(services[0]).post(
        "/predict", json={"people": [person], "times": [5.0]}
    )
    X = pd.DataFrame({"age": [person["age"]], "came": [(came[0] - pd.Timestamp(0)).days]})
    expected = load("dated").predict_cumulative_incidence(X, [5.0])
    np.testing.assert_allclose(answer.json()["probabilities"], expected, atol=1e-7)

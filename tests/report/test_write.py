"""The report: safe whatever people call things, and true to the assessment."""

import base64
import hashlib
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.base import clone

from survival_objectives import HazardBoost, SurvivalBoost, load
from survival_objectives.assessment import assess
from survival_objectives.baselines import AalenJohansen
from survival_objectives.datasets import make_competing_risks
from survival_objectives.report import _facts, in_short, write_report
from survival_objectives.report._cautions import miscalibration
from survival_objectives.report._facts import Calibration
from survival_objectives.report._format import (
    difference,
    distinct_names,
    number,
    percent,
    short_names,
    shortened,
)
from survival_objectives.report._svg import nice_ticks
from survival_objectives.report._write import checked_study

SCRIPT = "<script>alert(1)</script>"
CLOSING = "</script><img src=x onerror=alert(2)>"
QUOTES = "a\"b'c & <i>d</i>"
VOID = {"meta", "link", "input", "img", "br", "hr", "wbr"}


class Page(HTMLParser):
    """Tags, attributes, scripts and the text of table cells."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.scripts, self.rows, self.text = [], [], [], ""
        self._open = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] == "script":
            self.scripts.append(data)
            return
        self.text += data
        if {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data

    def attributes(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    def row(self, *first):
        """Cells of the only row that begins with these."""
        (row,) = (row for row in self.rows if tuple(row[: len(first)]) == first)
        return row


def nasty_people():
    """People whose columns, categories and index are all trouble."""
    data = make_competing_risks(300, n_causes=2, n_features=3, random_state=0)
    X = data.X.copy()
    X.columns = [SCRIPT, f"{QUOTES}_{CLOSING}", "x2"]
    X["levels"] = pd.Categorical(np.where(X["x2"] > 0, CLOSING, QUOTES))
    X.index = [f"patient-{number}" for number in range(300)]
    return X, data.y


@pytest.fixture(scope="module")
def study():
    X, y = nasty_people()
    model = HazardBoost(n_estimators=10, random_state=0, n_jobs=1)
    assessment = assess(model, X, y, name=f"ours {SCRIPT}", n_splits=3, random_state=0)
    return {"model": model.fit(X, y), "X": X, "y": y, "assessment": assessment}


@pytest.fixture(scope="module")
def html(study, tmp_path_factory):
    path = write_report(
        tmp_path_factory.mktemp("report") / "report.html",
        **study,
        event_names=["censored", SCRIPT, CLOSING],
        title=f"Title {CLOSING}",
        duration_name=QUOTES,
        description=SCRIPT,
    )
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


@pytest.fixture(scope="module")
def plain(study, tmp_path_factory):
    """The same report with names that are easy to look for."""
    path = tmp_path_factory.mktemp("plain") / "report.html"
    names = ("censored", "relapse", "death")
    return Page(write_report(path, **study, event_names=names).read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------- safety
def test_no_name_becomes_markup(page):
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"img", "i", "iframe", "object", "embed", "form"}
    assert len(page.attributes("script")) == 2
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]


def test_names_are_shown_as_they_are(page):
    for text in (SCRIPT, CLOSING, QUOTES, f"Title {CLOSING}", f"ours {SCRIPT}"):
        assert text in page.text


def test_the_only_script_is_ours_and_the_policy_allows_no_other(page):
    data, script = page.scripts
    assert json.loads(data)["labels"][0] == f"{QUOTES} 0"
    assert "<" not in data
    (policy,) = (
        meta["content"]
        for meta in page.attributes("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_nothing_is_loaded_from_elsewhere(html, page):
    assert not re.search(r"https?:|//[a-z]|@import|url\(", html)
    for _, attributes in page.tags:
        assert "src" not in attributes
        assert attributes.get("href", "#")[0] == "#" or attributes["href"] == "data:,"


def test_no_row_labels_are_shown(html):
    assert "patient-" not in html


def test_every_anchor_and_label_has_its_target(page):
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for a in page.attributes("a")}
    targets |= {label["for"] for label in page.attributes("label")}
    targets |= {a["aria-labelledby"] for a in page.attributes("section")}
    assert targets <= set(ids)


def test_charts_have_names_and_no_colours_of_their_own(page):
    charts = page.attributes("svg")
    assert len(charts) > 10
    for chart in charts:
        assert chart["role"] == "img"
        assert chart["aria-label"].strip()
    for tag in ("path", "circle", "line", "text"):
        assert not any("fill" in a or "stroke" in a for a in page.attributes(tag))


def test_nothing_that_is_not_a_number_is_drawn(html):
    charts = re.findall(r"<svg.*?</svg>", html, flags=re.S)
    assert not [chart for chart in charts if re.search(r"\b(nan|inf|None)\b", chart)]


# ------------------------------------------------------------------------------------------ numbers
def test_score_table_is_the_assessment(plain, study):
    assessment = study["assessment"]
    found = {}
    group = None
    for row in plain.rows:
        if row[0] in ("All states", "relapse", "death") and len(row) == 1:
            group = {"All states": 0, "relapse": 1, "death": 2}[row[0]]
        elif group is not None and "is better" in row[0]:
            name = re.sub(r" [↓↑].*", "", row[0].strip())
            found[name, group] = row[1:]
    for (metric, cause), part in assessment.scores.groupby(["metric", "cause"]):
        if metric == "calibration_error":
            continue  # Made of everyone held out, in the groups that are drawn.
        horizon = dict(zip(("25", "50", "75"), assessment.horizons, strict=True))
        name = {
            "integrated_brier_score": "Brier score",
            "integrated_log_loss": "Log-loss",
        }.get(metric) or f"Concordance by time {horizon[metric[-2:]]:g}"
        decimals = 4 if "integrated" in metric else 3
        expected = [
            f"{values.mean():.{decimals}f}"
            + (f" ± {values.std():.{decimals}f}" if values.std() > 0 else "")
            for values in (part.loc[part["model"] == m, "value"] for m in assessment.models)
        ]
        assert found.pop((name, cause)) == expected
    mean = assessment.values("integrated_brier_score").mean(axis=1)
    share = found.pop(("Explained share", 0))
    assert share == [f"{100 * (1 - m / mean.iloc[1]):.1f}%".replace("-", "−") for m in mean]
    assert sorted(found) == [(f"Calibration error by time {horizon['50']:g}", c) for c in (1, 2)]


def test_calibration_error_is_that_of_the_chart(plain, study):
    """The table and the note of the chart speak of the same groups."""
    middle = f"{study['assessment'].horizons[1]:g}"
    rows = [row for row in plain.rows if row[0].startswith("Calibration error")]
    for row, name in zip(rows, ("relapse", "death"), strict=True):
        (distance,) = re.findall(
            rf"{name}, by time {re.escape(middle)}\s.*?diagonal: ([\d.]+) percentage points",
            plain.text,
            flags=re.S,
        )[:1]
        assert float(row[1]) == pytest.approx(float(distance) / 100, abs=1.1e-3)


def test_events_are_counted(plain, study):
    counts = study["y"]["event"].value_counts()
    for label, name in ((1, "relapse"), (2, "death"), (0, "censored")):
        rows = [row for row in plain.rows if row[0] == name and len(row) == 5 and not row[3]]
        assert [row[1] for row in rows] == [str(counts[label])]


def test_example_people_are_the_models_predictions(plain, study):
    embedded = json.loads(plain.scripts[0])
    times = [float(time) for time in embedded["times"]]
    model, horizon = study["model"], study["assessment"].horizons[1]
    assert horizon in times
    everyone = model.predict_cumulative_incidence(study["X"], times)
    risk = model.predict_proba(study["X"], horizon)[:, 1]
    for person, quantile in zip(embedded["people"], (0.1, 0.5, 0.9), strict=True):
        distance = np.abs(everyone - person).max(axis=(1, 2))
        assert distance.min() <= 5.1e-5
        own = risk[distance.argmin()]
        assert (risk < own).mean() - 0.01 <= quantile <= (risk <= own).mean() + 0.01
    assert_allclose(np.sum(embedded["people"], axis=1), 1, atol=2e-4)


def test_bands_are_beside_the_probabilities_of_people(plain, study):
    embedded = json.loads(plain.scripts[0])
    times = np.array(embedded["times"], float)
    band = study["model"].predict_cumulative_incidence(study["X"], times, confidence=0.9)
    for curves, limits in zip(embedded["people"], embedded["limits"], strict=True):
        row = np.abs(band.estimate - curves).max(axis=(1, 2)).argmin()
        assert_allclose(limits, [band.lower[row], band.upper[row]], atol=5.1e-5)
    assert "90% bands" in plain.text


def test_mean_calibration_is_that_of_the_held_out_curves(plain, study):
    assessment = study["assessment"]
    curves = assessment.curves[assessment.main]
    for place, horizon in enumerate(assessment.horizons, start=1):
        column = np.searchsorted(assessment.times, horizon)
        observed = AalenJohansen().fit(study["X"], study["y"]).predict_proba(study["X"], horizon)
        assert plain.row("Event", f"By time {assessment.horizons[0]:g}")[place].endswith(
            f"{horizon:g}"
        )
        for code, name in ((1, "relapse"), (2, "death")):
            (row,) = (row for row in plain.rows if row[0] == name and "predicted" in row[-1])
            assert row[place].split("\n")[:2] == [
                f"{percent(curves[:, code, column].mean())} predicted",
                f"{percent(observed[0, code])} observed",
            ]


def test_opening_compares_with_one_curve_for_everyone(study):
    told = in_short(**study)
    assert len(told.sentences) == 3
    assessment = study["assessment"]
    marginal = difference(assessment, assessment.main, "Aalen-Johansen")
    assert marginal.high < 0
    assert "smaller than that of one curve for all people" in told.sentences[0]
    cox = difference(assessment, assessment.main, "Cox")
    share = cox.estimate / assessment.values("integrated_brier_score").loc["Cox"].mean()
    assert cox.low > 0
    assert f"larger than that of Cox ({share:.0%}, limits " in told.sentences[0]


def test_opening_and_report_say_the_same(study, plain):
    told = in_short(**study, event_names=("censored", "relapse", "death"))
    for sentence in (*told.sentences, *told.cautions):
        assert sentence in plain.text


# ---------------------------------------------------------------------------------------- intervals
def with_a_twin(assessment, difference, error, share=1.0):
    """The assessment of the main model beside another, at this difference of all scores."""
    scores = assessment.scores[assessment.scores["model"] == assessment.main]
    brier = assessment.brier[assessment.brier["model"] == assessment.main]
    pairs = assessment.comparisons[assessment.comparisons["model"] == assessment.main]
    limits = {"difference": difference, "standard_error": error}
    limits |= {"lower": difference - 1.96 * error, "upper": difference + 1.96 * error}
    forth = pairs[pairs["reference"] == "Cox"].assign(reference="twin", **limits)
    limits |= {"difference": -difference, "lower": -limits["upper"], "upper": -limits["lower"]}
    back = forth.assign(model="twin", reference=assessment.main, **limits)
    curves = assessment.curves[assessment.main]
    return replace(
        assessment,
        scores=pd.concat([scores, scores.assign(model="twin", value=scores["value"] * share)]),
        brier=pd.concat([brier, brier.assign(model="twin")]),
        curves={assessment.main: curves, "twin": curves},
        comparisons=pd.concat([forth, back]),
    )


def test_only_a_certain_lead_is_bold(study, tmp_path):
    """Two models that are the same up to noise are reported as equal."""
    changed = with_a_twin(study["assessment"], -0.01, 0.02, 1.05)
    page = Page(
        write_report(tmp_path / "r.html", **{**study, "assessment": changed}).read_text("utf-8")
    )
    assert not [cell for cell in page.attributes("td") if cell.get("class") == "best"]
    assert "predicts better" not in page.text
    assert "does not differ clearly from that of twin" in page.text


@pytest.mark.parametrize(("size", "is_told"), [(0.004, False), (0.02, True)])
def test_bold_and_sentences_follow_one_rule(study, size, is_told):
    """A difference that is certain, but less than 1 % of the score, is neither bold nor told."""
    mean = float(study["assessment"].values("integrated_brier_score").iloc[0].mean())
    changed = with_a_twin(study["assessment"], -size * mean, 1e-3 * mean, 1 + size)
    told = in_short(**{**study, "assessment": changed})
    assert ("does not differ clearly from that of twin" in told.sentences[0]) != is_told
    assert ("It is smaller than that of twin" in told.sentences[0]) == is_told
    table = _facts.metric_rows(checked_study(**{**study, "assessment": changed}))
    row = next(row for row in table if row.metric == "integrated_brier_score" and not row.cause)
    assert any(one.best for one in row.models) == is_told


@pytest.mark.parametrize(("observed", "is_off"), [(0.26, True), (0.17, False)])
def test_each_cause_is_judged_by_itself(observed, is_off):
    """A rare cause whose top group is off is found beside a frequent cause with larger errors."""
    frequent = _calibration(1, np.linspace(0.3, 0.8, 10), np.linspace(0.3, 0.8, 10) + 0.02, 0.04)
    top = np.append(np.full(9, 0.02), observed)
    rare = _calibration(2, np.append(np.full(9, 0.02), 0.16), top, 0.048)
    told = miscalibration(_Study(), [[frequent], [rare]], 2)
    assert (told is not None) == is_off
    if is_off:
        assert "16% was predicted and 26% observed" in told
    assert miscalibration(_Study(), [[frequent], [rare]], 1) is None


class _Study:
    """As much of a study as `miscalibration` asks for."""

    middle, states = 5.0, ("event-free", "discharge", "death")

    @staticmethod
    def when(time):
        return f"{time:g} days"


def _calibration(cause, predicted, observed, error):
    gap = np.abs(observed - predicted)
    return Calibration(
        cause=cause,
        horizon=5.0,
        predicted=predicted,
        observed=observed,
        half_width=np.full(10, 1.96 * error),
        n_people=np.full(10, 80),
        p_values=2 * norm.sf(gap / error),
        error=float(gap.mean()),
        chance=error * 0.8,
        p_value=0.5,
    )


# ----------------------------------------------------------------------------------------- cautions
def report_text(tmp_path, data, *, model=None, **options):
    model = model or HazardBoost(n_estimators=5, random_state=0, n_jobs=1)
    assessment = assess(model, data.X, data.y, n_splits=2, random_state=0, **options)
    model.fit(data.X, data.y)
    path = tmp_path / "report.html"
    write_report(path, model=model, X=data.X, y=data.y, assessment=assessment, overwrite=True)
    return Page(path.read_text(encoding="utf-8"))


@pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")
def test_trouble_is_said_in_words(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("a singular matrix")

    monkeypatch.setattr("survival_objectives.baselines.CauseSpecificCox.fit", fail)
    data = make_competing_risks(400, n_causes=1, n_features=2, censoring_rate=0.9, random_state=0)
    data.X["twin"] = data.X["x0"]
    data.X["constant"] = 3.0
    data.X["sparse"] = data.X["x1"].where(np.arange(400) % 4 == 0)
    text = report_text(tmp_path, data).text
    n_events = int(data.y["event"].sum())
    assert n_events < 50
    assert f"Only {n_events} people had “cause 1”" in text
    assert "of people are censored" in text
    assert "fewer than 20 people are still under observation" in text
    assert "are constant and carry no information: “constant”." in text
    assert "More than half of the values are missing in “sparse”." in text
    assert "Cox could not be compared: In fold 1 of 2: a singular matrix" in text


def test_a_score_too_good_to_be_true_is_pointed_out(study, tmp_path):
    scores = study["assessment"].scores
    is_main = (scores["model"] == study["assessment"].main) & (scores["cause"] == 1)
    suspect = scores["value"].mask(is_main & (scores["metric"] == "concordance_50"), 0.99)
    changed = replace(study["assessment"], scores=scores.assign(value=suspect))
    texts = [
        write_report(tmp_path / name, **{**study, "assessment": assessment}).read_text("utf-8")
        for name, assessment in (("as_is.html", study["assessment"]), ("changed.html", changed))
    ]
    assert ["is rarely real" in text for text in texts] == [False, True]


def test_a_better_baseline_is_pointed_out(tmp_path):
    data = make_competing_risks(400, n_causes=1, censoring_rate=0.2, random_state=0)
    settings = {"n_estimators": 60, "random_state": 0, "n_jobs": 1}
    model = SurvivalBoost(**settings)
    text = report_text(tmp_path, data, model=model).text
    assert "Cox predicts better than SurvivalBoost: the Brier score of the latter is" in text
    assert "Kaplan-Meier predicts better" not in text


@pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")
def test_a_model_that_learns_nothing_is_pointed_out(tmp_path):
    data = make_competing_risks(400, n_causes=1, random_state=0)
    data.X[:] = np.random.default_rng(0).normal(size=data.X.shape)
    model = HazardBoost(n_estimators=100, random_state=0, n_jobs=1)
    text = report_text(tmp_path, data, model=model).text
    assert re.search(r"Kaplan-Meier predicts better|certain to be better than Kaplan-Meier", text)


def test_wrong_probabilities_are_pointed_out(tmp_path):
    # Censoring that depends on the columns would bias what is observed.
    data = make_competing_risks(
        900, n_causes=1, n_features=2, censoring="independent", censoring_rate=0.3, random_state=0
    )
    halved = data.y.assign(event=data.y["event"] * (np.arange(900) % 2))
    model = HazardBoost(n_estimators=40, n_folds=2, random_state=0, n_jobs=1)
    honest = assess(model, data.X, data.y, n_splits=2, baselines=False, random_state=0)
    fooled = assess(model, data.X, halved, n_splits=2, baselines=False, random_state=0)
    model.fit(data.X, data.y)
    told = [
        in_short(model=model, X=data.X, y=data.y, assessment=assessment)
        for assessment in (honest, fooled)
    ]
    assert "agree with what was observed" in told[0].sentences[1]
    assert "off for some people by more than chance explains" in told[1].sentences[1]
    assert not any("was predicted and" in caution for caution in told[0].cautions)
    (caution,) = (c for c in told[1].cautions if "was predicted and" in c)
    assert "“cause 1” by time" in caution


def test_a_wrong_top_tenth_is_named_with_its_limits():
    """The people with the highest predictions are what decisions are about."""
    data = make_competing_risks(
        1200, n_causes=1, n_features=2, censoring="independent", censoring_rate=0.3, random_state=1
    )
    model = HazardBoost(n_estimators=40, n_folds=2, random_state=0, n_jobs=1)
    assessment = assess(model, data.X, data.y, n_splits=2, baselines=False, random_state=0)
    curves = assessment.curves["HazardBoost"].copy()
    column = int(np.searchsorted(assessment.times, assessment.horizons[1]))
    top = curves[:, 1, column] >= np.quantile(curves[:, 1, column], 0.9)
    curves[top, 1] += 0.35 * (1 - curves[top, 1])
    curves[:, 0] = 1 - curves[:, 1]
    fooled = replace(assessment, curves={"HazardBoost": curves})
    told = in_short(
        model=model.fit(data.X, data.y),
        X=data.X,
        y=data.y,
        assessment=fooled,
        time_unit="days",
        event_names=("censored", "death"),
    )
    (caution,) = (c for c in told.cautions if "was predicted and" in c)
    assert re.search(
        r"“death” by [\d.]+ days: for the tenth of people with the highest predictions, \d+% was "
        r"predicted and \d+% observed \(95% limits \d+% to \d+%\)",
        caution,
    )


def test_nothing_is_warned_of_where_all_is_well(tmp_path):
    data = make_competing_risks(
        1500, n_causes=1, n_features=2, censoring="independent", censoring_rate=0.3, random_state=4
    )
    last = float(np.sort(data.y["duration"])[-50])
    model = HazardBoost(n_estimators=40, n_folds=2, horizon_max=last, random_state=0, n_jobs=1)
    page = report_text(tmp_path, data, model=model, baselines=False)
    assert "Before you rely on it" not in page.text


# ------------------------------------------------------------------------------- direction, people
def test_direction_of_a_column_is_that_of_the_simulation():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "raises": rng.normal(size=500),
            "lowers": rng.normal(size=500),
            "yes": rng.integers(0, 2, 500).astype(float),
            "ward": pd.Categorical(rng.choice(["a", "b", "c"], 500)),
        }
    )
    effect = X["raises"] - X["lowers"] + X["yes"] + 1.5 * (X["ward"] == "b") - (X["ward"] == "c")
    duration = rng.exponential(np.exp(-effect))
    y = (np.ones(500, int), duration)
    model = HazardBoost(n_estimators=20, n_folds=2, random_state=0, n_jobs=1)
    assessment = assess(model, X, y, n_splits=2, baselines=False, random_state=0)
    model.fit(X, y)
    (_, _, rests) = in_short(model=model, X=X, y=y, assessment=assessment).sentences
    assert "raises (higher raises it)" in rests
    assert "lowers (higher lowers it)" in rests
    assert "ward (highest for b, lowest for c)" in rests


def test_no_ones_row_is_printed_on_request(study, tmp_path):
    X = study["X"].assign(x2=np.arange(300) + 7_000_000.0)
    model = clone(study["model"]).fit(X, study["y"])
    assessment = replace(study["assessment"])
    options = {**study, "X": X, "model": model, "assessment": assessment}
    texts = [
        write_report(tmp_path / f"{show}.html", **options, show_people=show).read_text("utf-8")
        for show in (True, False)
    ]
    rows = [re.findall(r"<dd>(7,000,\d{3})</dd>", text) for text in texts]
    assert len(rows[0]) == 3
    assert rows[1] == []
    assert "No row of the data is shown" in texts[1]


def test_unit_of_time_is_said_everywhere(study, tmp_path):
    path = write_report(tmp_path / "report.html", **study, time_unit="days", duration_name="stay")
    text = Page(path.read_text("utf-8")).text
    middle = f"{study['assessment'].horizons[1]:g}"
    assert f"Concordance by {middle} days" in text
    assert "stay (days)" in text
    assert f"stay {middle}" not in text


# -------------------------------------------------------------------------------------- other input
@pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")
@pytest.mark.parametrize("engine", ["xgboost", "catboost"])
def test_arrays_other_engines_labels_and_a_loaded_model(engine, tmp_path):
    data = make_competing_risks(200, n_causes=2, n_features=2, random_state=0)
    X = data.X.to_numpy()
    y = (data.y["event"].to_numpy() * 3, data.y["duration"].to_numpy())
    model = HazardBoost(engine, n_estimators=5, random_state=0, n_jobs=1)
    assessment = assess(model, X, y, test_size=0.5, random_state=0)
    model.fit(X, y).save(tmp_path / "model")
    path = write_report(
        tmp_path / "report.html",
        model=load(tmp_path / "model"),
        X=X,
        y=y,
        assessment=assessment,
    )
    text = Page(path.read_text(encoding="utf-8")).text
    assert "cause 6" in text
    assert "column 1" in text
    assert "100 people were held out once" in text


@pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")
def test_many_columns_stay_a_small_file(tmp_path):
    data = make_competing_risks(200, n_noise_features=300, random_state=0)
    model = HazardBoost(n_estimators=3, random_state=0, n_jobs=1)
    assessment = assess(model, data.X, data.y, n_splits=2, baselines=False, random_state=0)
    model.fit(data.X, data.y)
    path = write_report(
        tmp_path / "report.html", model=model, X=data.X, y=data.y, assessment=assessment
    )
    assert path.stat().st_size < 400_000


# -------------------------------------------------------------------------------------- the file
def test_an_existing_file_is_refused_unless_overwriting(study, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match=r"exists already. .*`overwrite=True`"):
        write_report(path, **study)
    assert path.read_text() == "precious"
    assert write_report(str(path), **study, overwrite=True) == path
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_failed_write_leaves_the_old_file_and_no_draft(study, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("precious")

    class FullDisk(type(path)):
        def replace(self, target):
            raise OSError("disk full")

    monkeypatch.setattr("survival_objectives._process.files.Path", FullDisk)
    with pytest.raises(OSError, match="disk full"):
        write_report(path, **study, overwrite=True)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_bad_places_are_named(study, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere' does not exist"):
        write_report(tmp_path / "nowhere" / "report.html", **study)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_report(tmp_path, **study)


def test_mistakes_are_named(study, tmp_path):
    path = tmp_path / "report.html"
    for change, error, message in (
        (
            {"model": AalenJohansen()},
            TypeError,
            r"fitted HazardBoost or SurvivalBoost; got AalenJohansen",
        ),
        ({"assessment": None}, TypeError, r"`assessment` must come from .*; got NoneType"),
        ({"event_names": ["a", "b"]}, ValueError, r"one name for each of the labels \[0, 1, 2\]"),
        ({"event_names": "abc"}, ValueError, r"one name for each of the labels"),
        ({"title": ""}, TypeError, r"`title` must be text"),
        ({"X": study["X"].iloc[:, ::-1]}, ValueError, "another order"),
        ({"X": study["X"].iloc[1:]}, ValueError, r"`X` has 299 rows but `y` has 300"),
        (
            {"X": study["X"].iloc[:99], "y": study["y"].iloc[:99]},
            ValueError,
            r"`assessment` is of row 299, but `X` has 99 rows",
        ),
    ):
        with pytest.raises(error, match=message):
            write_report(path, **{**study, **change})
    assert not path.exists()


def test_without_jinja2_the_extra_is_named(study, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match="pip install jinja2"):
        write_report(tmp_path / "report.html", **study)


# ------------------------------------------------------------------------------------------ numbers
@given(
    st.floats(-1e3, 1e3),
    st.floats(1e-3, 1e6),
    st.integers(3, 8),
)
def test_ticks_are_even_and_inside(low, span, n_ticks):
    ticks = nice_ticks(low, low + span, n_ticks)
    assert 2 <= len(ticks) <= 2 * n_ticks
    steps = np.diff(ticks)
    assert_allclose(steps, steps[0], rtol=1e-6)
    assert ticks[0] >= low - 1e-6 * span
    assert ticks[-1] <= low + span + 1e-6 * span


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.25, "0.25"),
        (38.516, "38.52"),
        (2015.0, "2015"),
        (-1.5, "−1.5"),
        (54321.0, "54,321"),
        (float("nan"), "–"),
        (1e-7, "1e-07"),
    ],
)
def test_numbers_are_short(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (1e-9, "<0.1%"),
        (0.99999, ">99.9%"),
        (0.0731, "7.3%"),
        (0.5, "50%"),
        (0.951, "95.1%"),
        (float("nan"), "–"),
    ],
)
def test_probabilities_never_round_to_certainty(value, shown):
    assert percent(value) == shown


def test_long_names_are_cut():
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcd…g"
    # What differs at the end is still seen.
    names = [f"a_long_common_beginning_{end}" for end in ("left", "right")]
    assert len({shortened(name, 12) for name in names}) == 2
    engines = ["SurvivalBoost (xgboost)", "SurvivalBoost (lightgbm)", "Cox"]
    assert short_names(engines, 18) == ["xgboost", "lightgbm", "Cox"]
    assert short_names(["a (x)", "b (x)"], 18) == ["a (x)", "b (x)"]


def test_columns_that_begin_alike_are_told_apart_in_labels():
    names = [f"systolic_blood_pressure_at_admission_{which}_measurement" for which in "abc"]
    short = distinct_names([*names, "age"], 19)
    assert short[-1] == "age"
    assert [text.split("…")[1][0] for text in short[:3]] == ["a", "b", "c"]
    assert max(map(len, short)) <= 19


@pytest.mark.parametrize(
    ("name", "unit", "axis"),
    [("day", "days", "days"), ("age", "years", "age (years)"), ("years of use", "years", None)],
)
def test_axis_of_time_says_its_unit_once(study, name, unit, axis):
    checked = checked_study(
        study["model"], study["X"], study["y"], study["assessment"], None, name, unit
    )
    assert checked.axis == (axis or name)

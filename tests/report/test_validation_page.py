"""The page of a validation: what it says of people who differ, and of those who do not."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from survival_objectives import HazardBoost, recalibrate
from survival_objectives._people import check_features
from survival_objectives.datasets import make_competing_risks
from survival_objectives.report import write_validation
from survival_objectives.report._facts import columns
from survival_objectives.report._validation import Validation
from survival_objectives.report._validation_page import (
    recalibration_table,
    score_table,
    sensitivity_tables,
    shift_table,
)
from survival_objectives.uncertainty import DependentCensoring, dependent_censoring

TIMES = np.array([0.3, 0.6])


@pytest.fixture(scope="module")
def study():
    data = make_competing_risks(2000, n_causes=2, n_features=3, random_state=0)
    X = data.X.rename(columns={"x0": "<b>x0"})
    model = HazardBoost(n_estimators=15, random_state=0, n_jobs=1).fit(X[:1200], data.y[:1200])
    return model, X, data.y


def validated(study, y=None, **options):
    model, X, own = study
    y = (own if y is None else y)[1200:].reset_index(drop=True)
    people = X[1200:].reset_index(drop=True)
    training = columns(check_features(X[:1200], like=model.fitted_model.schema))
    by = {"half": people["<b>x0"] > 0}
    return Validation(
        model, people, y, TIMES, model.event_names_, by=by, training=training, **options
    )


def test_people_like_those_of_training(study):
    found = validated(study)
    assert found.verdict().startswith("The model transports, as far as")
    assert recalibration_table(found) is None
    assert all(0 < float(row[-1].strip("*")) < 0.15 for row in shift_table(found)[1])
    assert found.cautions == []
    assert "those of training" in replace(found, training=found.now).cautions[0]


def test_another_level_is_seen_and_what_recalibration_would_do(study):
    y = study[2]
    other = y.copy()
    gone = (y["event"] == 1) & (np.random.default_rng(0).random(len(y)) < 0.5)
    other.loc[gone, "event"] = 0
    found = validated(study, other)
    assert found.verdict().startswith("The model transports in part: it ranks these people")
    assert "observed/expected of cause 1 0." in found.verdict()
    assert "recalibration is worth it" in found.verdict()
    said, (_, rows) = recalibration_table(found)
    assert re.match(r"cause 1: level −0\.\d+, ", said)
    before, after = (float(cell.split("\n")[0]) for cell in rows[0][1:3])
    assert abs(after - 1) < 0.15 < abs(before - 1)
    # Judged by models that were recalibrated without them: not as if known beforehand.
    _, after_all = found.recalibration
    assert not np.allclose(
        after_all.workspace.scored.incidence, found.evaluation.workspace.scored.incidence
    )


def test_a_model_that_cannot_rank_does_not_transport(study):
    _, _, y = study
    shuffled = y.sample(frac=1, random_state=0).reset_index(drop=True)
    verdict = validated(study, shuffled).verdict()
    assert verdict.startswith("The model does not transport for cause 1 and cause 2: it does not")


def test_the_page_has_every_score_and_escapes_names(study, tmp_path):
    model, X, y = study
    path = write_validation(
        tmp_path / "page.html", model=model, X=X[1200:1500], y=y[1200:1500], times=TIMES,
        X_train=X[:1200], by={"<i>": np.arange(300) % 2}, thresholds=[0.1, 0.2],
    )  # fmt: skip
    page = path.read_text(encoding="utf-8")
    assert "<b>x0" not in page
    assert "<i>" not in page
    found = validated(study)
    _, rows = score_table(found, 1)
    value = found.evaluation.auc(1).value[1]
    assert dict(zip([row[0] for row in rows], rows, strict=True))["AUC"][2].startswith(
        f"{value:.3f}\n("
    )
    for fragment in (">10%<", ">20%<", "ICI", "Spared", "Standardised difference"):
        assert fragment in page
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write_validation(path, model=model, X=X, y=y, times=TIMES)


@pytest.mark.parametrize("kind", ["array", "polars", "labelled"])
def test_groups_are_of_the_columns_whatever_the_table_is(kind):
    data = make_competing_risks(400, n_causes=1, n_features=2, random_state=0)
    X, y = data.X, data.y
    if kind == "array":
        X = X.to_numpy()
    elif kind == "polars":
        X = pytest.importorskip("polars").from_pandas(X)
    else:
        order = np.random.default_rng(0).permutation(400)
        X, y = X.iloc[order], y.iloc[order]
    model = HazardBoost(n_estimators=5, random_state=0, n_jobs=1).fit(X, y)
    found = Validation(model, X, y, TIMES[:1], model.event_names_)
    (low, *_), first = found.subgroups["group"].unique(), np.asarray(X)[:, 0]
    limit = float(low.removeprefix("up to "))
    expected = found.evaluation.take(first <= np.quantile(first, 0.25)).auc(1).value[0]
    assert limit == pytest.approx(np.quantile(first, 0.25), abs=1e-3)
    assert found.subgroups.query("score == 'auc'")["value"].iloc[0] == pytest.approx(expected)


def test_decisions_add_up_to_all_people(study):
    table = validated(study, thresholds=(0.1, 0.3)).decisions(1)
    assert len(table) >= 20  # The curve has thresholds of its own.
    table = table[table["shown"]]
    assert table["threshold"].tolist() == [0.1, 0.3]
    assert (table["caught"] <= table["treated"]).all()
    assert (table["treated"] + table["missed"] + table["spared"]).tolist() == pytest.approx([1, 1])


def test_what_if_censoring_depends_on_the_event(study):
    found = validated(study, thresholds=(0.1, 0.3))
    known = dependent_censoring(
        found.model, found.X, found.y, 0.6, cause=2, threshold=0.3, factors=[0.5, 1, 4]
    )
    tables = {name: (rows, said) for name, (_, rows), said in sensitivity_tables(found)}
    rows, said = tables["cause 2"]
    assert [row[0] for row in rows] == ["0.25", "0.5", "1", "2", "4"]
    for row, expected in zip((rows[1], rows[2], rows[4]), known.table.itertuples(), strict=True):
        assert float(row[1].strip("%")) == pytest.approx(100 * expected.incidence, abs=0.6)
        assert float(row[2]) == pytest.approx(expected.brier, abs=2e-3)
        benefit = float(row[3].replace("−", "-"))
        assert benefit == pytest.approx(100 * expected.net_benefit, abs=0.3)
    assert said.startswith("Treating by the model from 30% is ")
    all_seen = study[2].assign(event=study[2]["event"].clip(lower=1))
    assert validated(study, all_seen).sensitivity == {}


@pytest.mark.parametrize("best", [[True, True, False], [False, False, True], [True] * 3])
def test_the_decision_that_tips_in_words(study, best):
    benefit = np.where(best, 0.1, -0.1)
    table = {"factor": [0.5, 1.0, 2.0], "incidence": 0.2, "brier": 0.1, "net_benefit": benefit}
    table = pd.DataFrame(table).assign(net_benefit_all=-0.2)
    found = validated(study)
    each = DependentCensoring(np.array([0.5, 1.0, 2.0]), np.zeros((3, 1)), table, 0.2)
    found.__dict__["sensitivity"] = {1: each}
    ((_, _, said),) = sensitivity_tables(found)
    expected = {0: "is best at any", 1: "is no longer best at a factor of 1.4 or more"}
    assert expected.get(3 - sum(best), "is best at a factor of 1.4 or more") in said


def test_who_is_scored_at_a_landmark(study):
    y = study[2].assign(entry=0.0)
    y.loc[y.index % 3 == 0, "entry"] = 0.5 * y["duration"]
    found = validated(study, y, landmark=0.1)
    kept = (found.y["entry"] <= 0.1) & (found.y["duration"] > 0.1)
    assert len(found.evaluation) == kept.sum() == found.is_scored.sum()
    assert found.subgroups["n_people"].groupby(found.subgroups["group"]).first().sum() == kept.sum()
    assert found.verdict().startswith("The model")


def test_late_entry_needs_a_landmark_and_groups_one_value_per_person(study):
    y = study[2].assign(entry=np.where(study[2].index % 3, 0.0, 0.5 * study[2]["duration"]))
    with pytest.raises(ValueError, match="choose one"):
        validated(study, y).verdict()
    with pytest.raises(ValueError, match="`by` has 2 values of 'a' for 800 people"):
        _ = replace(validated(study), by={"a": [1, 2]}).subgroups


def test_a_recalibrated_model_is_not_recalibrated_again(study):
    model, _, y = study
    other = y.assign(duration=1.5 * y["duration"])
    found = validated(study, other)
    assert found.recalibration is not None
    again = replace(found, model=recalibrate(model, found.X, found.y))
    assert again.recalibration is None
    assert again.verdict().startswith("The model transports, as far as")


def test_distances_are_of_means_shares_and_missing_values():
    then, now = (
        columns(check_features(frame))
        for frame in (
            pd.DataFrame({"a": [0.0, 2.0], "b": pd.Categorical(["u", "v"]), "c": [1.0, np.nan]}),
            pd.DataFrame({"a": [2.0, 4.0], "b": pd.Categorical(["u", "u"]), "c": [1.0, 1.0]}),
        )
    )
    assert [b.distance(a) for a, b in zip(then, now, strict=True)] == pytest.approx(
        [2.0, 0.5 / np.sqrt(0.125), 0.5 / np.sqrt(0.125)]
    )

"""Frames, names and text: what people bring, and what they get back."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import OneHotEncoder

from survival_objectives import HazardBoost, load
from survival_objectives._people.labels import survival_outcomes
from survival_objectives.assessment import assess
from survival_objectives.datasets import make_competing_risks
from survival_objectives.report import write_report

LABELS = np.array(["censored", "relapse", "death"])


def small(**options):
    # Without linear hazards, which would leave no trees for 200 people.
    return HazardBoost(n_estimators=8, linear=False, random_state=0, n_jobs=1, **options)


@pytest.fixture(scope="module")
def data():
    return make_competing_risks(200, n_causes=2, n_features=3, random_state=0)


@pytest.fixture(scope="module")
def frame(data):
    """Features and outcomes in one frame, causes as text."""
    status = LABELS[data.y["event"]]
    return data.X.assign(time=data.y["duration"], status=status)


@pytest.fixture(scope="module")
def named(frame):
    return small().fit(frame, duration="time", event="status")


def test_columns_of_one_frame_are_the_same_as_x_and_y(data, named):
    # Alphabetical order: death is the first cause.
    swapped = data.y.assign(event=data.y["event"].map({0: 0, 1: 2, 2: 1}))
    plain = small().fit(data.X, swapped)
    assert_array_equal(named.predict_proba(data.X, 1.0), plain.predict_proba(data.X, 1.0))
    assert named.event_names_ == ("event-free", "death", "relapse")
    assert_array_equal(named.event_ids_, [0, 1, 2])
    assert plain.event_names_ == ("event-free", "cause 1", "cause 2")


def test_text_outcomes_work_in_fit_score_and_eval_set(data, frame, named):
    y = {"event": frame["status"], "duration": frame["time"]}
    again = small().fit(data.X, y, eval_set=(data.X, y))
    assert again.event_names_ == named.event_names_
    coded = survival_outcomes(frame, duration="time", event="status")
    assert named.score(data.X, y) == named.score(data.X, coded)
    with pytest.raises(ValueError, match=r"label 'moved', which was not seen in training"):
        named.score(data.X, {**y, "event": frame["status"].replace("relapse", "moved")})


@pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")
def test_names_survive_slicing_saving_and_reach_frames_and_report(data, frame, tmp_path):
    y = survival_outcomes(frame, duration="time", event="status")
    model = small().fit(data.X, y.iloc[:200])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.event_names_ == ("event-free", "death", "relapse")
    curves = again.predict_cumulative_incidence(data.X, [1.0, 2.0], as_frame=True)
    assert list(curves.columns.unique("event")) == ["event-free", "death", "relapse"]
    assessment = assess(model, data.X, y, n_splits=2, baselines=False, random_state=0)
    path = write_report(tmp_path / "report.html", model=again, X=data.X, y=y, assessment=assessment)
    assert "relapse" in path.read_text("utf-8")


def test_frames_in_frames_out(data, named):
    X = data.X.set_axis([f"p{row}" for row in range(200)])
    proba = named.predict_proba(X, 1.0, as_frame=True)
    assert list(proba.columns) == ["event-free", "death", "relapse"]
    assert proba.index.equals(X.index)
    assert_array_equal(proba, named.predict_proba(X, 1.0))
    death = named.predict_cumulative_incidence(X, [0.5, 1.0], cause="death", as_frame=True)
    assert death.index.equals(X.index)
    assert list(death.columns) == [0.5, 1.0]
    assert_array_equal(death, named.predict_cumulative_incidence(X, [0.5, 1.0])[:, 1])
    assert_array_equal(death, named.predict_cumulative_incidence(X, [0.5, 1.0], cause=1))
    lost = named.predict_restricted_mean_time(X, 1.0, cause="death")
    assert_array_equal(lost, named.predict_restricted_mean_time(X, 1.0, cause=1))
    with pytest.raises(ValueError, match=r"`cause` .*'deth'"):
        named.predict_cumulative_incidence(X, [1.0], cause="deth")


def test_several_quantiles_at_once(data, named):
    wanted = [0.1, 0.25, 0.5]
    several = named.predict_quantile(data.X, wanted)
    one_by_one = [named.predict_quantile(data.X, quantile) for quantile in wanted]
    assert_array_equal(several, np.column_stack(one_by_one))
    framed = named.predict_quantile(data.X, wanted, as_frame=True)
    assert list(framed.columns) == wanted
    assert framed.index.equals(data.X.index)
    with pytest.raises(ValueError, match="`quantile` is empty"):
        named.predict_quantile(data.X, [])


def test_text_columns_are_categories(data):
    ward = np.array(["north", "south", "east"])[np.arange(200) % 3]
    text = data.X.assign(ward=ward)
    levels = data.X.assign(ward=pd.Categorical(ward))
    model = small().fit(levels, data.y)
    expected = model.predict_proba(levels, 1.0)
    assert_array_equal(model.predict_proba(text, 1.0), expected)  # Text where levels are known.
    assert_array_equal(small().fit(text, data.y).predict_proba(text, 1.0), expected)
    part = text.iloc[:1]  # One person has one level, and still is who they are.
    # The engine adds up trees of few people in float32.
    assert_allclose(model.predict_proba(part, 1.0), expected[:1], rtol=1e-6)
    identifiers = data.X.assign(who=[f"patient {row}" for row in range(200)])
    with pytest.raises(TypeError, match=r"'who' has 200 different texts .* such as 'patient 0'"):
        small().fit(identifiers, data.y)


def test_missing_columns_are_named(data):
    model = small().fit(data.X, data.y)
    with pytest.raises(ValueError, match=r"lacks the columns \['x1'\]\. Use `X\[\['x0', 'x1'"):
        model.predict_proba(data.X.drop(columns="x1"), 1.0)
    with pytest.raises(ValueError, match=r"`X` has the unknown columns \['more'\]"):
        model.predict_proba(data.X.assign(more=1.0), 1.0)


def test_sparse_one_hot_columns_are_their_dense_selves(data):
    codes = (np.arange(200) % 3)[:, None]
    sparse = OneHotEncoder().fit_transform(codes)
    X = scipy.sparse.hstack([scipy.sparse.csr_matrix(data.X.to_numpy()), sparse]).tocsr()
    dense = X.toarray()
    model = small().fit(X, data.y)
    assert_array_equal(
        model.predict_proba(X, 1.0), small().fit(dense, data.y).predict_proba(dense, 1.0)
    )
    frame = pd.concat([data.X, pd.get_dummies(codes[:, 0], prefix="w", sparse=True)], axis=1)
    assert_array_equal(
        small().fit(frame, data.y).predict_proba(frame, 1.0), model.predict_proba(X, 1.0)
    )


def test_a_model_says_what_it_is(data, named, tmp_path):
    shown = "HazardBoost(linear=False, n_estimators=8, n_jobs=1, random_state=0)"
    assert repr(small()) == shown
    counts = data.y["event"].value_counts()
    for text in (repr(named), named._repr_mimebundle_()["text/html"], named._repr_html_()):
        assert "xgboost, 8 rounds" in text
        assert f"200, {counts[0]} censored" in text
        assert f"{counts[2]} death, {counts[1]} relapse" in text
        assert f"{named.times_[-1]:g}" in text
    named.save(tmp_path / "model")
    assert f"events: {counts[2]} death, {counts[1]} relapse" in repr(load(tmp_path / "model"))


def test_names_in_html_are_escaped(data):
    status = np.array(["censored", "<b>", "</td>"])[data.y["event"]]
    model = small().fit(data.X, (status, data.y["duration"]))
    assert "<b>" not in model._facts_html()


def test_one_person_is_drawn(data, named):
    with mpl.rc_context({"backend": "Agg"}):
        for person in (data.X.iloc[[3]], data.X.iloc[3], data.X.to_numpy()[[3]]):
            ax = named.plot(person, [0.5, 1.0, 2.0], time_label="Years")
            labels = [text.get_text() for text in ax.get_legend().get_texts()]
            assert labels == ["event-free", "relapse", "death"]
            assert ax.get_xlabel() == "Years"
            lowest = ax.collections[0].get_paths()[0].vertices[:, 1].max()
            expected = named.predict_cumulative_incidence(data.X.iloc[[3]], [2.0])[0, 1, 0]
            assert_allclose(lowest, expected)
            mpl.pyplot.close(ax.figure)
    with pytest.raises(ValueError, match=r"`person` has 2 rows; give one"):
        named.plot(data.X.iloc[:2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"Pass outcomes: `fit\(X, y\)`; or `fit\(frame"),
        ({"duration": "time"}, r"Pass outcomes"),
        ({"duration": "days", "event": "status"}, r"`duration` is 'days', which is not a column"),
        ({"duration": "time", "event": "time"}, r"are both 'time'"),
        (
            {"duration": "time", "event": "status", "censored": "alive"},
            r"`censored` is 'alive', but `event` has only the labels \['censored', 'death'",
        ),
        ({"y": (1, 2), "duration": "time", "event": "status"}, "not both"),
    ],
)
def test_mistakes_are_named(frame, options, message):
    with pytest.raises(ValueError, match=message):
        small().fit(frame, **options)


def test_the_label_of_censoring_is_asked_for(frame):
    moved = frame.assign(status=frame["status"].replace("censored", "moved away"))
    with pytest.raises(ValueError, match=r"none of which means censored.*`censored='moved away'`"):
        small().fit(moved, duration="time", event="status")
    model = small().fit(moved, duration="time", event="status", censored="moved away")
    assert model.event_names_ == ("event-free", "death", "relapse")
    everyone = survival_outcomes(moved, duration="time", event="status", censored=[])
    assert everyone.attrs["event_names"] == ("event-free", "death", "moved away", "relapse")


@pytest.mark.parametrize("label", ["alive", "Lost to follow-up ", "no"])
def test_labels_that_say_so_mean_censored_as_on_the_command_line(frame, label):
    alive = frame.assign(status=frame["status"].replace("censored", label))
    outcomes = survival_outcomes(alive, duration="time", event="status")
    assert outcomes.attrs["event_names"] == ("event-free", "death", "relapse")

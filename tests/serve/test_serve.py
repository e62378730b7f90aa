"""A saved model as a web service: answers are those of the model, mistakes are clear 4xx."""

import asyncio
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from starlette.testclient import TestClient

from survival_objectives import HazardBoost
from survival_objectives.datasets import make_competing_risks
from survival_objectives.serve import _model, application


@pytest.fixture(scope="module")
def trained():
    data = make_competing_risks(300, n_causes=2, n_features=3, random_state=0)
    X = data.X.copy()
    X["kind"] = pd.Categorical(np.random.default_rng(0).choice(["a", "b"], 300))
    return HazardBoost(n_estimators=20, random_state=0).fit(X, data.y), X, data.y


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    trained[0].save(path)
    return path


@pytest.fixture(scope="module")
def client(folder):
    with TestClient(application(folder, max_people=50, max_body=50_000)) as client:
        yield client


def people(X):
    return json.loads(X.to_json(orient="records"))


def test_answers_are_those_of_the_model(trained, client):
    model, X, _ = trained
    some = X.iloc[:7].copy()
    some.iloc[2, 0] = np.nan
    some.iloc[3, 3] = None
    request = {"people": people(some), "times": [0.5, 1.0], "conditional_after": 0.2}
    answer = client.post("/predict", json=request)
    assert answer.status_code == 200
    expected = model.predict_cumulative_incidence(some, [0.5, 1.0], conditional_after=0.2)
    assert_allclose(answer.json()["probabilities"], expected, atol=1e-7)
    assert answer.json()["states"] == list(model.event_names_)


def test_bands_are_those_of_the_model(trained, client):
    model, X, _ = trained
    request = {"people": people(X.iloc[:2]), "times": [0.5, 1.0], "confidence": 0.8}
    answer = client.post("/predict", json=request).json()
    expected = model.predict_cumulative_incidence(X.iloc[:2], [0.5, 1.0], confidence=0.8)
    for name, values in zip(("probabilities", "lower", "upper"), expected, strict=True):
        assert_allclose(answer[name], values, atol=1e-7)
    wrong = client.post("/predict", json={**request, "confidence": 90})
    assert (wrong.status_code, "`confidence`" in wrong.json()["error"]) == (422, True)


def test_contributions_are_those_of_the_model(trained, client):
    model, X, _ = trained
    answer = client.post("/explain", json={"people": people(X.iloc[:2]), "time": 1.0}).json()
    expected = model.shap_values(X.iloc[:2], 1.0)[:, :, :-2]
    assert_allclose(answer["contributions"], expected, atol=1e-7)


def test_an_unknown_level_is_missing_and_named(trained, client):
    _, X, _ = trained
    one = people(X.iloc[:1])
    missing = client.post("/predict", json={"people": [{**one[0], "kind": None}]}).json()
    unknown = client.post("/predict", json={"people": [{**one[0], "kind": "zebra"}]}).json()
    assert unknown["probabilities"] == missing["probabilities"]
    assert "zebra" in unknown["warnings"][0]
    assert missing["warnings"] == []


def test_schema_describes_columns_and_nothing_of_people(trained, client, folder):
    schema = client.get("/schema").json()
    assert list(schema["columns"]) == list(trained[1].columns)
    assert schema["columns"]["kind"] == {"enum": ["a", "b", None]}
    assert set(schema) == {"columns", "states", "time_unit", "last_time", "bands", "limits"}
    person = client.get("/openapi.json").json()["paths"]["/predict"]["post"]["requestBody"]
    properties = person["content"]["application/json"]["schema"]["properties"]
    assert properties["people"]["items"]["required"] == list(trained[1].columns)
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/docs").text == client.get("/").text


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        (b'{"people": [{"x0": NaN}]}', 400, "null"),
        (b"[" * 20_000, 400, "not JSON"),
        (b"[]", 422, "must be an object; got list"),
        (b"{}", 422, "lacks ['people']"),
        (b'{"people": []}', 422, "at least one"),
        (b'{"people": [1]}', 422, "people[0]"),
        (b'{"people": [{"x0": 1}], "time": 3}', 422, "unknown ['time']"),
        (b'{"people": [{"x0": 1}]}', 422, "lacks ['kind', 'x1', 'x2']"),
        (b'{"people": [{"x0": [1], "x1": 1, "x2": 1, "kind": "a"}]}', 422, "got list"),
        (b'{"people": [{"x0": "tall", "x1": 1, "x2": 1, "kind": "a"}]}', 422, "tall"),
        (b'{"people": [{"x0": 1, "x1": 1, "x2": 1, "kind": "a"}], "times": ["1"]}', 422, "times"),
        (b'{"people": [{"x0": 1, "x1": 1, "x2": 1, "kind": "a"}], "times": [-1]}', 422, "times"),
        (b'{"people": [{"x0": 1, "x1": 1, "x2": 1, "kind": "a"}], "times": [1e999]}', 422, "times"),
        (b'{"people": [{"x0": 1%s, "x1": 1, "x2": 1, "kind": "a"}]}' % (b"0" * 400), 422, "larger"),
        (
            b'{"people": [{"x0": 1, "x1": 1, "x2": 1, "kind": "a"}], "times": 1'
            + b"0" * 400
            + b"}",
            422,
            "larger",
        ),
        (b" " * 50_001, 413, "bytes"),
        (json.dumps({"people": [{}] * 51}).encode(), 413, "at most 50"),
    ],
)
def test_mistakes_are_clear(client, body, status, words):
    answer = client.post("/predict", content=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]


def test_causes_and_times_are_called_as_the_caller_says(folder, trained):
    names = ["event-free", "relapse", "death"]
    with TestClient(application(folder, event_names=names, time_unit="days")) as client:
        assert client.get("/schema").json()["states"] == names
        assert client.get("/schema").json()["time_unit"] == "days"
        one = people(trained[1].iloc[:1])
        assert client.post("/predict", json={"people": one}).json()["states"] == names
        answer = client.post("/explain", json={"people": one, "time": 1}).json()
        assert answer["causes"] == names[1:]
    with pytest.raises(ValueError, match="`event_names` has 2 names for the states"):
        application(folder, event_names=names[:2])


def test_dates_are_days_in_the_model(trained, folder):
    model, X, _ = trained
    given = people(X.iloc[:2])
    given[0]["x0"], given[1]["x0"] = "1970-01-03", None
    with TestClient(application(folder, dates=["x0"])) as client:
        assert client.get("/schema").json()["columns"]["x0"]["format"] == "date"
        answer = client.post("/predict", json={"people": given, "times": [1.0]}).json()
        expected = model.predict_cumulative_incidence(X.iloc[:2].assign(x0=[2.0, np.nan]), [1.0])
        assert_allclose(answer["probabilities"], expected, atol=1e-7)
        for wrong in ("3 May", 5):
            refused = client.post("/predict", json={"people": [{**given[0], "x0": wrong}]})
            assert refused.status_code == 422
            assert "`x0` is a date such as '2024-05-31'" in refused.json()["error"]


def test_an_answer_has_a_largest_size(folder, trained, monkeypatch):
    monkeypatch.setattr(_model, "_MOST_VALUES", 30)
    request = {"people": people(trained[1].iloc[:5]), "times": [0.5, 1.0, 1.5]}
    with TestClient(application(folder)) as client:
        answer = client.post("/predict", json=request)
        assert answer.status_code == 413
        assert "45 probabilities, at most 30" in answer.json()["error"]
        del request["times"][1:]
        assert client.post("/predict", json=request).status_code == 200


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(-(10**400), 10**400),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@settings(max_examples=60)
def test_any_json_is_an_answer_or_a_4xx(client, content):
    for path in ("/predict", "/explain"):
        body = json.dumps({"people": [content], "times": content}).encode()
        assert client.post(path, content=body).status_code in (200, 400, 413, 422)


def test_a_changed_model_is_loaded_and_a_broken_one_is_not(trained, tmp_path, monkeypatch):
    model, X, y = trained
    path = tmp_path / "model"
    model.save(path)
    monkeypatch.setattr(_model, "_LOOK_EVERY", 0.0)
    other = HazardBoost(n_estimators=10, random_state=1).fit(X.iloc[:200], y.iloc[:200])
    request = {"people": people(X.iloc[:1]), "times": [1.0]}
    with TestClient(application(path)) as client:
        before = client.post("/predict", json=request).json()["probabilities"]
        shutil.rmtree(path)
        assert client.post("/predict", json=request).json()["probabilities"] == before
        other.save(path)
        after = client.post("/predict", json=request).json()["probabilities"]
        assert_allclose(after, other.predict_cumulative_incidence(X.iloc[:1], [1.0]), atol=1e-7)
        next(path.glob("*.json")).write_text("{}")
        assert client.post("/predict", json=request).json()["probabilities"] == after


def test_a_slow_client_is_told(folder):
    """The body never ends: the service answers 408 instead of waiting."""
    sent = []

    async def receive():
        await asyncio.sleep(5)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/predict",
        "headers": [],
        "query_string": b"",
    }
    asyncio.run(application(folder, max_seconds=0.05)(scope, receive, send))
    assert sent[0]["status"] == 408


def test_a_model_of_arrays_is_asked_by_number(tmp_path):
    data = make_competing_risks(200, n_features=2, random_state=0)
    model = HazardBoost(n_estimators=10, random_state=0).fit(data.X.to_numpy(), data.y)
    model.save(tmp_path / "model")
    with TestClient(application(tmp_path / "model")) as client:
        answer = client.post("/predict", json={"people": [{"0": 0.1, "1": None}], "times": 1.0})
    expected = model.predict_cumulative_incidence(np.array([[0.1, np.nan]]), [1.0])
    assert_allclose(answer.json()["probabilities"], expected, atol=1e-7)

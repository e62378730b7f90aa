"""Model files: of earlier versions, changed at random, forged, and loaded elsewhere first."""

from __future__ import annotations

import copy
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import SurvivalBoost
from survival_objectives._models import storage as files

METADATA = "survival_boost.json"
GOLDEN = Path(__file__).parents[1] / "golden_models"


# ------------------------------------------------------------------------------- earlier versions
def golden_people():
    content = json.loads((GOLDEN / "predictions.json").read_text())
    people = pd.DataFrame(content["people"])
    people["city"] = pd.Categorical(people["city"])
    return people, content


def test_models_of_format_1_still_load(engine, tmp_path):
    people, content = golden_people()
    model = SurvivalBoost.load(GOLDEN / engine)
    expected = np.array(content["incidence"][engine])
    found = model.predict_cumulative_incidence(people, content["times"])
    assert_allclose(found, expected, atol=1e-6)
    assert np.ptp(found[:, 0], axis=0).max() > 0.03
    assert model.fitted_model.censoring_trees is not None
    # Saved again, it is of the format of now.
    model.save(tmp_path / "model")
    again = SurvivalBoost.load(tmp_path / "model")
    assert_array_equal(again.predict_cumulative_incidence(people, content["times"]), found)
    assert json.loads((tmp_path / "model" / METADATA).read_text())["format"] == files.FORMAT


def test_format_1_is_not_in_the_golden_models_by_chance(engine):
    content = json.loads((GOLDEN / engine / METADATA).read_text())
    assert (content["format"], content["version"]) == (1, "0.1.0")
    assert "digest" not in content


# --------------------------------------------------------------------------------------- mutations
@pytest.fixture
def saved(engine, fitted, tmp_path):
    fitted(engine, "mixed").save(tmp_path / "model")
    return tmp_path / "model"


def paths(content, path=()):
    """All places in a description, containers and leaves."""
    yield path
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from paths(value, (*path, key))
        else:
            yield (*path, key)


def mutated(content, path, rng):
    """The description with something else at a place."""
    content = copy.deepcopy(content)
    where = content
    for key in path[:-1]:
        where = where[key]
    key, old = path[-1], where[path[-1]]
    choices = [None, "x", -1, 0, 1, 2.5, 1e9, 1e308, float("nan"), float("inf"), [], {}, True]
    if isinstance(old, float):
        choices += [old * 1.001, -old, old + 1e-9]
    if isinstance(old, int) and not isinstance(old, bool):
        choices += [old + 1, old - 1]
    if isinstance(old, str):
        choices += [old + "x", old.upper(), "../" + old]
    if isinstance(old, list) and old:
        choices += [old[::-1], old[1:], [*old, old[0]]]
    if isinstance(old, dict) and old:
        choices += [dict(list(old.items())[1:]), {**old, "more": 1}]
    if rng.random() < 0.15:
        del where[key]
        return content
    where[key] = rng.choice(choices)
    return content


def same(a, b):
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def test_no_change_of_the_description_passes_unnoticed(saved):
    """All places at random, one at a time; long curves are sampled."""
    rng = random.Random(0)
    content = json.loads((saved / METADATA).read_text())
    places = [path for path in paths(content) if path]
    short = [path for path in places if len(path) < 3]
    places = [*short, *short, *rng.sample([path for path in places if len(path) > 2], 40)]
    n_refused = 0
    for path in places:
        changed = mutated(content, path, rng)
        if same(changed, content):
            continue
        (saved / METADATA).write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=r"is damaged|not the description|newer survival"):
            SurvivalBoost.load(saved)
        n_refused += 1
    assert n_refused > 100


def test_layout_does_not_matter(saved, fitted, engine, mixed):
    content = json.loads((saved / METADATA).read_text())
    turned = dict(reversed(content.items()))
    (saved / METADATA).write_text(json.dumps(turned, indent=7))
    loaded = SurvivalBoost.load(saved)
    assert_array_equal(loaded.predict(mixed[0]), fitted(engine, "mixed").predict(mixed[0]))


@pytest.mark.parametrize(
    "text", ['{"format": 1, "format": 1}', '{"format": NaN}', "[" * 100_000, '{"format": true}']
)
def test_json_that_is_none_of_ours(tmp_path, text):
    (tmp_path / METADATA).write_text(text)
    with pytest.raises(ValueError, match="not the description of a saved model"):
        SurvivalBoost.load(tmp_path)


def forge(folder, path, value):
    """Change a description so that its digest fits."""
    content = json.loads((folder / METADATA).read_text())
    where = content
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = value
    if content["format"] > 1:
        content["digest"] = files._content_digest(content)
    (folder / METADATA).write_text(json.dumps(content))


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["start"], ["?", 0.0], "start is '\\?', not a number"),
        (["start", 0], 1e9, "start is 1000000000.0, not a number from -100 to 100"),
        (["start"], [0.0] * 7, "start has 7 numbers for 2 causes"),
        (["t_max"], 0.0, "t_max is 0"),
        (["t_max"], -1.0, "t_max is -1.0"),
        (["t_max"], 1e300, "t_max is 1e\\+300"),
        (["time_unit"], -1.0, "time_unit is -1.0"),
        (["event_ids"], [0, 2, 1], "not 0 and increasing labels"),
        (["event_ids"], [1, 2], "not 0 and increasing labels"),
        (["names"], ["x0"], "names are 1"),
        (["names", 0], "x1", "different"),
        (["n_features"], 0, "n_features is 0"),
        (["n_features"], True, "n_features is True"),
        (["categories"], {"99": ["a"]}, "the column '99'"),
        (["categories"], {"0": ["a", "a"]}, "has a level twice"),
        (["categories"], {"0": [["a"]]}, "not a level"),
        (["censoring_method"], "none", "censoring_method"),
        (["censoring_curve", "values", 3], 1.5, "censoring_curve is 1.5"),
        (["censoring_curve", "values", 5], 0.0, "rise"),
        (["censoring_curve", "times", 3], 0.0, "not increasing"),
        (["censoring_start", "values", 3], 1e4, "censoring_start is 10000.0"),
        (["n_estimators"], 1, "n_estimators is 1, but there are"),
        (["n_floored"], -1, "n_floored is -1"),
        (["parameters", "time_smoothing"], 2.0, "`time_smoothing` must be in"),
        (["parameters", "nonsense"], 2.0, "nonsense"),
        (["engine"], "os", "`engine` is 'os'"),
        (["files"], {"../../events": "0"}, "files are"),
        (["files"], {"censoring": "0"}, "files are"),
        (["files", "events"], "0" * 64, "is not the one that was saved"),
    ],
)
def test_numbers_out_of_range_are_refused_whatever_the_digest(
    path, value, words, is_old, fitted, tmp_path
):
    folder = tmp_path / "model"
    if is_old:
        shutil.copytree(GOLDEN / "lightgbm", folder)
    else:
        fitted("lightgbm", "mixed").save(folder)
    forge(folder, path, value)
    with pytest.raises(ValueError, match=rf"is damaged: .*{words}"):
        SurvivalBoost.load(folder)


def test_a_digest_cannot_be_left_out(saved):
    content = json.loads((saved / METADATA).read_text())
    del content["digest"]
    (saved / METADATA).write_text(json.dumps(content))
    with pytest.raises(ValueError, match="there is no 'digest'"):
        SurvivalBoost.load(saved)


# --------------------------------------------------------------------------------------- isolation
# A process of its own takes seconds to start: one engine for each case.
def test_a_good_model_loads_isolated():
    people, content = golden_people()
    model = SurvivalBoost.load(GOLDEN / "xgboost", isolated=True)
    found = model.predict_cumulative_incidence(people, content["times"])
    assert_allclose(found, np.array(content["incidence"]["xgboost"]), atol=1e-6)


def test_a_crash_of_the_engine_is_an_error(tmp_path, monkeypatch):
    """A module of this name stands in for an engine that a forged file crashes."""
    (tmp_path / "lightgbm.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=r"is damaged: a separate process .* was ended by SIGSEGV"):
        SurvivalBoost.load(GOLDEN / "lightgbm", isolated=True)


@pytest.mark.parametrize("engine", ["catboost", "lightgbm"])
def test_an_engine_file_that_cannot_be_read_is_an_error(engine, tmp_path):
    """Or the end of the other process: LightGBM aborts on some, which this one survives."""
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / engine, folder)
    file = next(folder.glob("events.*"))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 3])
    forge(folder, ["files", "events"], files._digest(file))
    words = r"a separate process that loaded it (failed|was ended by SIG)"
    with pytest.raises(ValueError, match=f"is damaged: {words}"):
        SurvivalBoost.load(folder, isolated=True)

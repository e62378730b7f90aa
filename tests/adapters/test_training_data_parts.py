"""Weights, resolution, pairing and labels where people come in parts: batches and partitions."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from distributed import Client, LocalCluster
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import SurvivalBoost, load
from survival_objectives._engines.protocol import engine
from survival_objectives._hazards import people as hazard_people
from survival_objectives._hazards.settings import DEFAULTS, HazardSettings
from survival_objectives._models.fitted import Run
from survival_objectives._people.cohort import Cohort, MemoryBatches
from survival_objectives._people.population import LocalReduction
from survival_objectives._training import trained
from survival_objectives.adapters.dask import fit_dask
from survival_objectives.adapters.dask._worker import _people
from survival_objectives.adapters.external_memory import fit_external
from survival_objectives.datasets import make_competing_risks

SETTINGS = {"n_estimators": 12, "refresh_every": 4, "n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def client():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"}),
            LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client


@pytest.fixture(scope="module")
def data():
    return make_competing_risks(400, n_causes=2, n_features=3, random_state=0)


def batches(X, y, weight=None, size=150):
    parts = [slice(first, first + size) for first in range(0, len(X), size)]
    return [
        (X[rows], y[rows]) if weight is None else (X[rows], y[rows], weight[rows]) for rows in parts
    ]


def by_batches(X, y, weight=None, **settings):
    return fit_external(SurvivalBoost(**SETTINGS, **settings), batches(X, y, weight))


def by_workers(X, y, weight=None, **settings):
    frames = [dd.from_pandas(frame, npartitions=3, sort=False) for frame in (X, y)]
    if weight is not None:
        weight = da.from_array(weight, chunks=frames[0].map_partitions(len).compute().tolist())
    return fit_dask(SurvivalBoost(**SETTINGS, **settings), *frames, sample_weight=weight)


@pytest.fixture(params=["batches", "workers"])
def fit(request):
    if request.param == "workers":
        request.getfixturevalue("client")
        return by_workers
    return by_batches


def test_weights_have_no_unit(fit, data):
    weight = np.random.default_rng(0).uniform(0.2, 3, 400)
    curves = [
        fit(data.X, data.y, weight * factor).predict_survival_function(data.X)
        for factor in (1.0, 1e-6, 1e6)
    ]
    assert np.ptp(curves[0], axis=0).max() > 0.1
    for other in curves[1:]:
        assert_allclose(other, curves[0], atol=1e-6)


def test_equal_weights_are_none(fit, data):
    equal = fit(data.X, data.y, np.full(400, 1 / 400))
    assert_array_equal(equal.predict(data.X), fit(data.X, data.y).predict(data.X))


def test_what_float32_cannot_hold_is_refused(fit, data):
    with pytest.raises(ValueError, match=r"`duration` has \d+ .* are lost"):
        fit(data.X, data.y.assign(duration=1e9 + data.y["duration"]))
    with pytest.raises(ValueError, match=r"Column 'x1' has \d+ .* are lost"):
        fit(data.X.assign(x1=1.7e9 + data.X["x1"]), data.y)


def test_other_people_are_refused(fit, data):
    # Within parts: the labels of a part stay the same.
    order = np.arange(400)
    order[:2] = [1, 0]
    with pytest.raises(
        ValueError, match=r"(Batch|Partition) 0: .*(in another order|has another index)"
    ):
        fit(data.X, data.y.iloc[order])


def test_labels_are_named(fit, data):
    y = data.y.assign(event=data.y["event"].to_numpy() + 1)
    with pytest.warns(UserWarning, match=r"No one is censored: .* 1, 2, 3 means competing"):
        fit(data.X, y)


def test_later_parameters_change_nothing(fit, data, tmp_path):
    model = fit(data.X, data.y)
    before = model.predict_survival_function(data.X)
    model.set_params(time_smoothing=float("nan"), monotone=False, engine_params={"nonsense": 1})
    assert_array_equal(model.predict_survival_function(data.X), before)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_array_equal(loaded.predict_survival_function(data.X), before)
    assert loaded.get_params() == SurvivalBoost(**SETTINGS).get_params()


def test_another_unit_of_time_is_refused_on_a_cluster(client, data):
    frames = [dd.from_pandas(frame, npartitions=2) for frame in (data.X, data.y)]
    model = fit_dask(SurvivalBoost(**SETTINGS, warm_start=True), *frames)
    days = data.y.assign(duration=data.y["duration"] * 365)
    model.set_params(n_estimators=15)
    with pytest.raises(ValueError, match="another unit"):
        fit_dask(model, frames[0], dd.from_pandas(days, npartitions=2))


def test_people_who_will_be_drawn_are_not_joined_before(data, monkeypatch):
    """Where some people of a worker are drawn, its partitions train the model of their union."""
    monkeypatch.setattr(hazard_people, "_ROWS_OF_50_000", 10_000)
    monkeypatch.setattr(hazard_people, "_FEW_PEOPLE", 0)
    used = engine("xgboost")
    settings = HazardSettings.of({**DEFAULTS, "engine": "xgboost", "n_jobs": 1}, used)
    everyone = Cohort.checked(data.X, data.y)
    parts = [everyone.take(rows) for rows in np.array_split(np.arange(400), 3)]
    plan = SimpleNamespace(
        settings=settings, schema=everyone.features.schema, event_ids=everyone.target.event_ids
    )
    found = _people(parts, plan, LocalReduction())
    assert [len(features.values) for _, features in found] == [134, 133, 133]
    one, other = (
        trained(settings, Run(used, np.random.default_rng(0)), people)
        for people in (found, MemoryBatches([everyone.with_relative_weights(LocalReduction())]))
    )
    assert one.to_plain() == other.to_plain()
    monkeypatch.undo()
    assert len(_people(parts, plan, LocalReduction()).cohorts) == 1

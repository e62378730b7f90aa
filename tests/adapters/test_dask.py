"""Training on a Dask cluster: four processes, and as many of them as a test wants."""

from __future__ import annotations

import _thread
import gc
import itertools
import os
import signal
import threading
import time
import warnings
from contextlib import nullcontext

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from estimator_data import fitted_attributes
from numpy.testing import assert_array_equal
from seed_noise import largest_mean
from sklearn.base import clone

from survival_objectives import HazardBoost, SurvivalBoost, load
from survival_objectives._horizons.settings import LoopState
from survival_objectives._process.checkpoints import read_checkpoint
from survival_objectives.adapters.dask import (
    WorkerLostError,
    _worker,
    fit_dask,
    predict_dask,
    score_dask,
)
from survival_objectives.adapters.dask._pairing import check_same_rows
from survival_objectives.datasets import integrated_squared_error, make_competing_risks

N_WORKERS = 4
TIMES = np.linspace(0.1, 3.0, 20)
SETTINGS = {
    "n_estimators": 20,
    "learning_rate": 0.2,
    "n_jobs": 1,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def client():
    patience = {"distributed.deploy.lost-worker-timeout": "300s"}  # On a busy machine.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            dask.config.set(patience),
            LocalCluster(
                n_workers=N_WORKERS,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client


@pytest.fixture(scope="module")
def data():
    return make_competing_risks(1200, n_causes=2, n_features=4, random_state=0)


def on_workers(client, data, n_workers, n_partitions=4):
    """People in memory of the first workers, which are then the ones that train."""
    workers = sorted(client.nthreads())[:n_workers]
    frames = [dd.from_pandas(part, npartitions=n_partitions) for part in (data.X, data.y)]
    blocks = np.array_split(np.arange(n_partitions), n_workers)
    placed = []
    for frame in frames:
        parts = [
            client.persist(frame.partitions[int(number)], workers=[worker])
            for worker, block in zip(workers, blocks, strict=True)
            for number in block
        ]
        placed.append(dd.concat(parts))
    return placed


def boost(**settings):
    """A SurvivalBoost, or a HazardBoost for ``censoring="hazards"``."""
    settings = {**SETTINGS, **settings}
    if settings.get("censoring") == "hazards":
        return HazardBoost(**{key: settings[key] for key in settings if key != "censoring"})
    return SurvivalBoost(**settings)


def same_model(model, other, X):
    curves = [each.predict_cumulative_incidence(X, TIMES) for each in (model, other)]
    return np.array_equal(*curves)


def error_to_truth(model, data):
    test = data.draw(500, random_state=1)
    curves = model.predict_cumulative_incidence(test.X, TIMES)
    return integrated_squared_error(test.true.cumulative_incidence(test.X, TIMES), curves, TIMES)


@pytest.fixture(scope="module")
def usual_error(data):
    """What one model may err, given the errors of the seeds on one machine."""
    models = [boost(random_state=seed).fit(data.X, data.y) for seed in range(8)]
    return largest_mean([error_to_truth(model, data) for model in models])


# ------------------------------------------------------------------------------------------ parity
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"early_stopping_rounds": 5},
        {"censoring": "kaplan-meier"},
        {"censoring": "imputed"},
        {"censoring": "hazards"},
    ],
)
def test_one_worker_trains_the_model_of_one_machine_bit_for_bit(client, data, settings):
    X, y = on_workers(client, data, 1)
    model = fit_dask(boost(**settings), X, y)
    local = boost(**settings).fit(data.X, data.y)

    assert same_model(model, local, data.X)
    assert fitted_attributes(model) == fitted_attributes(local)
    assert model.fitted_model.record.n_floored == local.fitted_model.record.n_floored
    assert model.history_ == local.history_
    assert_array_equal(model.n_events_, local.n_events_)


@pytest.mark.parametrize("censoring", ["boosted", "hazards"])
def test_a_warm_start_goes_on_as_on_one_machine(client, data, censoring):
    X, y = on_workers(client, data, 1)
    settings = {"warm_start": True, "censoring": censoring}
    model = fit_dask(boost(**settings), X, y)
    local = boost(**settings).fit(data.X, data.y)
    fit_dask(model.set_params(n_estimators=30), X, y)
    local.set_params(n_estimators=30).fit(data.X, data.y)
    assert model.n_estimators_ == local.n_estimators_
    assert same_model(model, local, data.X)


@pytest.mark.parametrize("n_workers", [2, 4])
def test_more_workers_are_as_near_to_the_truth_as_one_machine(client, data, usual_error, n_workers):
    X, y = on_workers(client, data, n_workers)
    model = fit_dask(boost(), X, y)
    assert error_to_truth(model, data) < usual_error


def test_all_workers_count_everyone(client, data):
    """The population that workers agree on has the Kaplan-Meier curve and quantiles of all."""
    X, y = on_workers(client, data, 4)
    model = fit_dask(boost(), X, y)
    local = boost().fit(data.X, data.y)

    frame, expected = model.fitted_model.frame, local.fitted_model.frame
    assert frame.t_max == expected.t_max
    np.testing.assert_allclose(frame.censoring_curve.values, expected.censoring_curve.values)
    found, start = model.fitted_model.start.initial, local.fitted_model.start.initial
    np.testing.assert_allclose(found, start, atol=0.1)


def test_the_same_seed_and_workers_give_the_same_model(client, data):
    X, y = dd.from_pandas(data.X, npartitions=2), dd.from_pandas(data.y, npartitions=2)
    first, second = (fit_dask(boost(), X, y) for _ in range(2))
    assert same_model(first, second, data.X)


def test_several_workers_train_hazards(client, data, usual_error, tmp_path):
    """The default, on four workers: nearer to the truth than weights, and resumable."""
    X, y = on_workers(client, data, 4)
    folder = {"checkpoint_folder": str(tmp_path), "checkpoint_every": 10}
    model = fit_dask(HazardBoost(n_jobs=1, random_state=0), X, y, **folder)
    assert error_to_truth(model, data) < usual_error
    resumed = fit_dask(clone(model), X, y, resume=True, **folder)
    assert same_model(model, resumed, data.X)
    with pytest.raises(ValueError, match="of another estimator"):
        fit_dask(boost(), X, y, resume=True, **folder)


def test_hazards_of_workers_without_a_cause(client, data, usual_error):
    people = pd.concat([data.X, data.y], axis=1).sort_values(["event", "duration"])
    frame = dd.from_pandas(people, npartitions=4, sort=False)
    model = fit_dask(HazardBoost(n_jobs=1, random_state=0), frame, ("event", "duration"))
    assert model.event_ids_.tolist() == [0, 1, 2]
    assert error_to_truth(model, data) < usual_error


# ----------------------------------------------------------------------------------- awkward data
def test_workers_without_a_cause_and_empty_or_skewed_partitions(client, data, usual_error):
    """Sorted by event: workers have no cause 1, no cause 2 or no one censored; one is empty."""
    people = pd.concat([data.X, data.y], axis=1).sort_values(["event", "duration"])
    cuts = [0, 0, 700, 710, 1000, 1200]
    pieces = [people.iloc[a:b] for a, b in itertools.pairwise(cuts)]
    parts = [dask.delayed(lambda part: part)(piece) for piece in pieces]
    frame = dd.from_delayed(parts, meta=people.iloc[:0])
    model = fit_dask(boost(), frame, ("event", "duration"))
    assert model.event_ids_.tolist() == [0, 1, 2]
    assert list(model.feature_names_in_) == list(data.X.columns)
    assert error_to_truth(model, data) < usual_error

    fit_dask(model.set_params(early_stopping_rounds=10), frame, ("event", "duration"))
    assert len(model.history_) >= model.n_estimators_


def test_arrays_with_unknown_chunks_weights_and_split_columns(client, data):
    values, y = data.X.to_numpy(), data.y[["event", "duration"]].to_numpy()
    keep = da.from_array(np.ones(len(values), bool), chunks=600)
    X = da.from_array(values, chunks=(600, 2))[keep]
    y = da.from_array(y, chunks=(600, 2))[keep]
    weight = da.from_array(np.where(values[:, 0] > 0, 1.0, 0.0), chunks=600)[keep]
    assert np.isnan(X.shape[0])

    model = fit_dask(boost(), X, y, sample_weight=weight)
    curves = predict_dask(model, X, TIMES, method="predict_survival_function")

    assert isinstance(curves, da.Array)
    assert curves.compute().shape == (1200, 20)


def test_held_out_people_on_the_cluster(client, data):
    other = data.draw(400, random_state=1)
    X, y = on_workers(client, data, 2)
    eval_set = dd.from_pandas(other.X, npartitions=1), dd.from_pandas(other.y, npartitions=1)
    model = fit_dask(boost(early_stopping_rounds=15), X, y, eval_set=eval_set)
    losses = [record.loss for record in model.history_]
    assert losses[-1] < losses[0]
    assert model.n_estimators_ == np.argmin(losses) + 1


def test_categories_and_missing_values(client, data):
    X = data.X.copy()
    X["kind"] = pd.Categorical(np.where(X["x0"] > 0, "a", "b"), categories=["b", "a", "c"])
    X.loc[::7, "x1"] = np.nan
    frame, y = dd.from_pandas(X, npartitions=2), dd.from_pandas(data.y, npartitions=2)
    model = fit_dask(boost(), frame, y)
    assert model._schema.categories[4].tolist() == ["b", "a", "c"]
    assert np.isfinite(predict_dask(model, frame, method="predict").compute()).all()

    with pytest.raises(ValueError, match=r"categorize\(columns=\['kind'\]\)"):
        fit_dask(model, frame.assign(kind=frame["kind"].cat.as_unknown()), y)


def test_text_is_not_taken_for_a_made_up_level(client, data):
    text = data.X.assign(kind=np.where(data.X["x0"] > 0, "north", "south"))
    frame, y = dd.from_pandas(text, npartitions=2), dd.from_pandas(data.y, npartitions=2)
    with pytest.raises(ValueError, match=r"categorize\(columns=\['kind'\]\)"):
        fit_dask(boost(), frame, y)
    model = fit_dask(boost(), frame.categorize(columns=["kind"]), y)
    assert sorted(model._schema.categories[4]) == ["north", "south"]
    row = pd.DataFrame([{**text.iloc[0].to_dict(), "x1": None, "kind": None}])
    expected = model.predict_survival_function(row, [0.5])
    found = predict_dask(model, dd.from_pandas(row, npartitions=1), [0.5])
    np.testing.assert_allclose(found.compute()[:, 0], expected)


# -------------------------------------------------------------------------------------- prediction
def test_predictions_are_lazy_and_those_of_the_local_model(client, data, tmp_path):
    X, y = on_workers(client, data, 2)
    model = fit_dask(boost(), X, y)
    for method, arguments in (
        ("predict_cumulative_incidence", (TIMES,)),
        ("predict_survival_function", (TIMES,)),
        ("predict_proba", (1.0,)),
        ("predict", ()),
        ("predict_quantile", (0.25,)),
        ("predict_restricted_mean_time", (2.0,)),
        ("shap_values", (1.0,)),
    ):
        lazy = predict_dask(model, X, *arguments, method=method)
        assert isinstance(lazy, da.Array), method
        # Small partitions are predicted by XGBoost in float32, large ones off the trees.
        expected = getattr(model, method)(data.X, *arguments)
        assert lazy.ndim == expected.ndim
        np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-5, atol=1e-6)
    frame = predict_dask(model, X, TIMES, method="predict_survival_function", as_frame=True)
    assert isinstance(frame, dd.DataFrame)
    pd.testing.assert_index_equal(frame.compute().index, data.X.index)
    assert score_dask(model, X, y) == pytest.approx(model.score(data.X, data.y))

    model.save(tmp_path / "model")
    assert same_model(model, load(tmp_path / "model"), data.X)
    with pytest.raises(ValueError, match="lacks the columns"):
        predict_dask(model, X.rename(columns={"x0": "age"}))
    with pytest.raises(TypeError, match="pass a dask DataFrame or Array"):
        predict_dask(model, data.X)


# ------------------------------------------------------------------------------- the one front door
def test_labels_and_counts_are_those_of_one_machine(client, data):
    """Text labels, "alive" among them, and people of weight 0, from several partitions."""
    words = data.y["event"].map({0: "alive", 1: "died", 2: "moved"})
    y, weight = data.y.assign(event=words), np.where(data.X["x0"] > -1, 1.0, 0.0)
    local = boost().fit(data.X, y, weight)
    X, outcomes = dd.from_pandas(data.X, npartitions=3), dd.from_pandas(y, npartitions=3)
    chunks = tuple(X.map_partitions(len).compute())
    model = fit_dask(boost(), X, outcomes, da.from_array(weight, chunks=(chunks,)))
    assert model.event_names_ == local.event_names_ == ("event-free", "died", "moved")
    assert_array_equal(model.n_events_, local.n_events_)
    assert score_dask(model, X, outcomes) == pytest.approx(model.score(data.X, y))
    with pytest.raises(ValueError, match="label 'gone', which was not seen in training"):
        fit_dask(model, X, outcomes, eval_set=(X, outcomes.assign(event="gone")))
    with pytest.raises(ValueError, match="events are numbers"):
        fit_dask(boost(), X, dd.from_pandas(data.y, npartitions=3), censored="alive")


def test_the_same_curve_for_all_is_warned_about(client, data):
    """Also where the features of each worker are constant."""
    X = data.X.iloc[:, :1] * 0.0
    X.iloc[600:] = 1.0
    frames = dd.from_pandas(X, npartitions=2), dd.from_pandas(data.y, npartitions=2)
    model = boost(min_split_gain=1e9)
    with pytest.warns(UserWarning, match="all people get the same curve"):
        fit_dask(model, *frames)
    fit_dask(model, frames[0] * 0.0, frames[1])


# ------------------------------------------------------------------------------------------ faults
LONG = {"checkpoint_every": 20, "timeout": 60}


def at_first_checkpoint(folder, action):
    def wait():
        latest = time.monotonic() + 120
        while not list(folder.glob("chunk-*/checkpoint.json")):
            if time.monotonic() > latest:
                return
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def busy(client):
    states = client.run(lambda: (len(_worker._running), len(_worker._trackers)))
    return {worker: state for worker, state in states.items() if state != (0, 0)}


@pytest.fixture(scope="module")
def halves(data):
    """Two partitions, which are trained on by the first two workers."""
    return tuple(dd.from_pandas(frame, npartitions=2) for frame in (data.X, data.y))


@pytest.fixture(scope="module")
def whole(client, halves, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return fit_dask(boost(n_estimators=200), *halves, checkpoint_folder=str(folder), **LONG)


def tasks(client):
    return set(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)))


@pytest.mark.parametrize("settings", [{"n_estimators": 200}, {"horizon_sampler": lambda *_: 1 / 0}])
def test_no_task_is_left_whatever_still_refers_to_it(client, halves, settings):
    """What is left is bound to its workers, and would bind the next training to them."""
    before = tasks(client)
    gc.disable()  # Tracebacks keep futures: of a wait that timed out, of an error in a notebook.
    try:
        error = None
        try:
            fit_dask(boost(**settings), *halves, eval_set=halves)
        except ZeroDivisionError as caught:
            error = caught
        latest = time.monotonic() + 10
        while (left := tasks(client) - before) and time.monotonic() < latest:
            time.sleep(0.1)
    finally:
        gc.enable()
    assert not left
    assert (error is not None) == ("horizon_sampler" in settings)


def test_an_interrupted_client(client, halves, tmp_path):
    """Ends the training soon and leaves nothing behind."""
    model = boost(n_estimators=200)
    # Tests that run in the background may ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread = at_first_checkpoint(tmp_path, _thread.interrupt_main)
        with pytest.raises(KeyboardInterrupt):
            fit_dask(model, *halves, checkpoint_folder=str(tmp_path), **LONG)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not hasattr(model, "booster_")
    assert not busy(client)
    assert not any(client.processing().values())


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_worker(client, data, halves, whole, tmp_path, rank):
    """Ends the training soon and leaves nothing behind; resumed, it is as if uninterrupted.

    The first worker holds the tracker.
    """
    client.wait_for_workers(N_WORKERS, timeout=300)
    victim, pid = sorted(client.run(os.getpid).items())[rank]
    model, folder = boost(n_estimators=200), {"checkpoint_folder": str(tmp_path), **LONG}
    thread = at_first_checkpoint(tmp_path, lambda: os.kill(pid, 9))
    with pytest.raises(WorkerLostError, match=victim):
        fit_dask(model, *halves, **folder)
    thread.join()
    assert not busy(client)

    _, state = read_checkpoint(str(tmp_path), LoopState)
    assert state.n_steps > 0
    client.wait_for_workers(N_WORKERS, timeout=300)
    fit_dask(model, *halves, resume=True, **folder)
    assert same_model(model, whole, data.X)

    X, y = halves
    with pytest.raises(ValueError, match="written with max_depth=4, not 2"):
        fit_dask(clone(model).set_params(max_depth=2), X, y, resume=True, **folder)
    whole = X.repartition(npartitions=1), y.repartition(npartitions=1)
    with pytest.raises(ValueError, match="2 partitions; here are 1"):
        fit_dask(model, *whole, resume=True, **folder)


def test_a_training_is_resumed_with_the_same_people_only(client, data, tmp_path):
    """Known by outcomes, weights and features, of the held-out people too."""
    model = boost(n_estimators=20, max_depth=2, early_stopping_rounds=50)
    folder = {"checkpoint_folder": str(tmp_path), "checkpoint_every": 10}
    few, y = data.X.iloc[:400], data.y.iloc[:400]
    held_out = data.X.iloc[400:600], data.y.iloc[400:600]

    def parts(X, y):
        return tuple(dd.from_pandas(frame, npartitions=2) for frame in (X, y))

    fit_dask(model, *parts(few, y), eval_set=parts(*held_out), **folder)
    checkpoint, _ = read_checkpoint(str(tmp_path), LoopState)
    assert len(checkpoint.digests) == 4
    other = data.X.iloc[600:1000].set_axis(few.index), data.y.iloc[600:1000].set_axis(few.index)
    last = few.copy()
    last.iloc[300] += 1.0
    for people, held, where in (
        (other, held_out, "partition 0"),
        ((last, y), held_out, "partition 1"),
        ((few, y.assign(duration=12 * y["duration"])), held_out, "partition 0"),
        ((few, y), (held_out[0], held_out[1].assign(event=1)), "`eval_set`"),
        ((few, y), None, "`eval_set`"),
    ):
        held_parts = held and parts(*held)
        with pytest.raises(ValueError, match=f"durations in another unit .{where} differs"):
            fit_dask(model, *parts(*people), eval_set=held_parts, resume=True, **folder)
    fit_dask(model, *parts(few, y), eval_set=parts(*held_out), resume=True, **folder)


# ---------------------------------------------------------------------------------------- mistakes
def test_mistakes_are_named_before_any_training(client, data):
    X, y = dd.from_pandas(data.X, npartitions=2), dd.from_pandas(data.y, npartitions=2)
    model = boost()
    with pytest.raises(TypeError, match="`X` is a DataFrame; pass a dask DataFrame"):
        fit_dask(model, data.X, y)
    with pytest.raises(TypeError, match="`y` must be a Dask collection"):
        fit_dask(model, X, data.y)
    with pytest.raises(ValueError, match="`y` has 3 partitions, but `X` has 2"):
        fit_dask(model, X, dd.from_pandas(data.y, npartitions=3))
    with pytest.raises(ValueError, match="has no column 'died'"):
        fit_dask(model, X, ("died", "duration"))
    with pytest.raises(ValueError, match="on Dask it is 'xgboost'"):
        fit_dask(SurvivalBoost("lightgbm"), X, y)
    with pytest.raises(ValueError, match="needs the `checkpoint_folder`"):
        fit_dask(model, X, y, resume=True)
    with pytest.raises(ValueError, match="All 1200 people are censored"):
        fit_dask(model, X, y.assign(event=0))
    with pytest.raises(ValueError, match=r"Partition \d: `duration` is -1"):
        fit_dask(model, X, y.assign(duration=-1.0))
    assert not busy(client)


# ----------------------------------------------------------------------------------------- pairing
@pytest.mark.parametrize("where", ["within", "between"])
def test_outcomes_in_another_order_are_refused(client, data, where):
    """Rows are paired by position: a shuffled `y` would be that of other people."""
    order = np.arange(len(data.y))
    order = order[::-1] if where == "within" else np.roll(order, len(order) // 2)
    X = dd.from_pandas(data.X, npartitions=2, sort=False)
    y = dd.from_pandas(data.y.iloc[order], npartitions=2, sort=False)
    with pytest.raises(ValueError, match=r"Partition 0: `y` has another index than `X`: row 0 is "):
        fit_dask(boost(), X, y)
    columns = {name: y[name] for name in ("event", "duration")}
    with pytest.raises(ValueError, match=r"`y\['event'\]` has another index than `X`"):
        fit_dask(boost(), X, columns)
    with pytest.raises(ValueError, match="`sample_weight` has another index"):
        fit_dask(
            boost(),
            X,
            X.assign(event=1, duration=1.0)[["event", "duration"]],
            sample_weight=y["duration"],
        )


@pytest.mark.parametrize(
    ("index", "other", "is_first", "is_same"),
    [
        ([0, 1, 2], [0, 1, 2], True, True),
        ([3, 4, 5], [0, 1, 2], False, True),  # `reset_index` begins again in every partition.
        ([3, 4, 5], [0, 1, 2], True, False),
        ([3, 4, 5], [6, 7, 8], False, False),
        ([3, 4, 5], [5, 3, 4], False, False),
        ([0, 2, 5], [0, 1, 2], False, False),
        (["a", "b", "c"], ["a", "c", "b"], False, False),
    ],
)
def test_row_numbers_may_begin_again_in_every_partition(index, other, is_first, is_same):
    X = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=index)
    y = pd.Series([1, 2, 3], index=other)
    expected = nullcontext() if is_same else pytest.raises(ValueError, match="has another index")
    with expected:
        check_same_rows(X, {"y": (y, y)}, is_first=is_first)
